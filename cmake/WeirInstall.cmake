# SPDX-License-Identifier: Apache-2.0
#
# Installation, by components: NAME-library (libweir.so.N), NAME-development (headers, both libraries to link with, CMake's
# and pkg-config's files), NAME-backend-VENDOR (plugins, in the folder weir/ABI beside the library, where it looks for them) and
# NAME-tools (the programs, what completes their command lines in a shell, what watches programs (share/weir/monitoring), and the host
# backend as a plugin to prove them on: the library has it built in).
# Nothing that is installed holds an absolute path: an installed tree may be moved.

include(CMakePackageConfigHelpers)

# weir_install(NAME LIBDIR [EXCLUDE_FROM_ALL]): one layout of an installation, libraries in <prefix>/LIBDIR. A target may be
# part of several: see WeirPackages.cmake.
function(weir_install name libdir)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/generated/install-${name})
  set(cmake_folder ${libdir}/cmake/weir)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/api/include/weir DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    COMPONENT ${name}-development ${ARGN} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
  foreach(plugin IN LISTS weir_plugins)
    string(REPLACE "weir_backend_" "backend-" component ${plugin})
    string(REPLACE "_" "-" component ${component})
    string(REPLACE "backend-host" "tools" component ${component})
    install(TARGETS ${plugin} LIBRARY DESTINATION ${libdir}/${weir_plugin_folder} COMPONENT ${name}-${component} ${ARGN})
  endforeach()
  if(NOT TARGET weir)
    return()
  endif()

  install(TARGETS weir EXPORT ${name}-shared
    LIBRARY DESTINATION ${libdir} COMPONENT ${name}-library ${ARGN} NAMELINK_COMPONENT ${name}-development)
  install(TARGETS weir_static EXPORT ${name}-static ARCHIVE DESTINATION ${libdir} COMPONENT ${name}-development ${ARGN})
  install(TARGETS weir_backend_headers EXPORT ${name}-backend)
  foreach(part IN ITEMS shared static backend)
    install(EXPORT ${name}-${part} FILE weir-${part}-targets.cmake NAMESPACE weir:: DESTINATION ${cmake_folder}
      COMPONENT ${name}-development ${ARGN})
  endforeach()
  set(tools 0)
  foreach(tool IN ITEMS weir_command weir_conformance)
    if(TARGET ${tool})
      set(tools 1)
      install(TARGETS ${tool} EXPORT ${name}-tools
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${name}-tools ${ARGN})
    endif()
  endforeach()
  if(tools)
    install(EXPORT ${name}-tools FILE weir-tools-targets.cmake NAMESPACE weir:: DESTINATION ${cmake_folder}
      COMPONENT ${name}-tools ${ARGN})
  endif()
  if(TARGET weir_command)
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/tools/monitoring/ DESTINATION ${CMAKE_INSTALL_DATADIR}/weir/monitoring
      COMPONENT ${name}-tools ${ARGN} FILES_MATCHING PATTERN "*.yml" PATTERN "*.json")
  endif()
  if(TARGET weir_completions)
    foreach(place IN ITEMS bash=bash-completion/completions/weir zsh=zsh/vendor-completions/_weir
        fish=fish/vendor_completions.d/weir.fish)
      string(REGEX MATCH "^([a-z]+)=(.*)/([^/]+)$" matched ${place})
      install(FILES ${weir_completion_folder}/${CMAKE_MATCH_1} DESTINATION ${CMAKE_INSTALL_DATADIR}/${CMAKE_MATCH_2}
        RENAME ${CMAKE_MATCH_3} COMPONENT ${name}-tools ${ARGN})
    endforeach()
  endif()

  weir_static_needs(needs libraries)
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/weir-config.cmake.in ${folder}/weir-config.cmake
    INSTALL_DESTINATION ${cmake_folder} PATH_VARS libdir NO_CHECK_REQUIRED_COMPONENTS_MACRO)
  write_basic_package_version_file(${folder}/weir-config-version.cmake COMPATIBILITY SameMajorVersion)
  install(FILES ${folder}/weir-config.cmake ${folder}/weir-config-version.cmake DESTINATION ${cmake_folder}
    COMPONENT ${name}-development ${ARGN})

  # Relative to the file itself, so that `cmake --install --prefix` and moved trees are right too.
  file(RELATIVE_PATH weir_pc_prefix /${libdir}/pkgconfig /)
  string(REGEX REPLACE "/$" "" weir_pc_prefix ${weir_pc_prefix})
  foreach(file IN ITEMS weir.pc weir-static.pc)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/${file}.in ${folder}/${file} @ONLY)
    install(FILES ${folder}/${file} DESTINATION ${libdir}/pkgconfig COMPONENT ${name}-development ${ARGN})
  endforeach()
endfunction()

# weir_static_needs(MODULES LIBRARIES): what the static library's users link, as pairs "WEIR_X module" for CMake and as a
# line of -l for pkg-config.
function(weir_static_needs modules_out libraries_out)
  set(modules)
  set(libraries)
  foreach(target IN LISTS weir_core_libraries)
    string(REPLACE "PkgConfig::" "" variable ${target})
    list(APPEND modules "${variable} ${${variable}_MODULE_NAME}")
    foreach(library IN LISTS ${variable}_LIBRARIES)
      list(APPEND libraries "-l${library}")
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES libraries)
  list(JOIN libraries " " libraries)
  set(${modules_out} ${modules} PARENT_SCOPE)
  set(${libraries_out} ${libraries} PARENT_SCOPE)
endfunction()

if(TARGET weir_command)
  set_target_properties(weir_command PROPERTIES EXPORT_NAME command)
endif()
if(TARGET weir_conformance)
  set_target_properties(weir_conformance PROPERTIES EXPORT_NAME conformance)
endif()
weir_install(weir ${CMAKE_INSTALL_LIBDIR})

# What an installation needs built, and nothing else.
add_custom_target(weir_product)
foreach(target IN LISTS weir_plugins ITEMS weir weir_static weir_command weir_conformance weir_man weir_completions)
  if(TARGET ${target})
    add_dependencies(weir_product ${target})
  endif()
endforeach()
