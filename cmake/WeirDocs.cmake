# SPDX-License-Identifier: Apache-2.0
#
# Man pages and the reference.
#   target weir_man (part of all)    <build>/man: the C API's pages from the headers, the programs' from their --help
#   target weir_docs                 <build>/docs/site and html: the documentation as HTML (scripts/docs)
#   weir_install_man(NAME [EXCLUDE_FROM_ALL])   installs the pages as parts of NAME-development and NAME-tools
# Both need Python only when Weir is built; without it, under a sanitizer and for another machine there are no pages.

option(WEIR_BUILD_MAN "Write man pages (needs Python 3)" ${PROJECT_IS_TOP_LEVEL})
set(weir_man_folder ${CMAKE_BINARY_DIR}/man)
if(WEIR_BUILD_MAN AND NOT WEIR_SANITIZE AND NOT WEIR_COVERAGE)
  find_package(Python3 COMPONENTS Interpreter)
endif()
if(WEIR_BUILD_MAN AND Python3_FOUND AND NOT WEIR_SANITIZE AND NOT WEIR_COVERAGE)
  set(weir_man_programs)
  set(weir_man_targets)
  if(NOT CMAKE_CROSSCOMPILING)
    foreach(program IN ITEMS command conformance)
      if(TARGET weir_${program})
        string(REPLACE "command" "weir" argument ${program})
        list(APPEND weir_man_programs --${argument} $<TARGET_FILE:weir_${program}>)
        list(APPEND weir_man_targets weir_${program})
      endif()
    endforeach()
  endif()
  weir_glob(weir_man_inputs "api/include/weir/*.h" "docs/man/*.txt" "scripts/man_pages/*.py" "scripts/make-man" "CHANGELOG.md" "tools/weir/environment.def")
  set(weir_make_man ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/make-man)
  add_custom_command(OUTPUT ${weir_man_folder}/written
    COMMAND ${weir_make_man} --out ${weir_man_folder} ${weir_man_programs}
    COMMAND ${CMAKE_COMMAND} -E touch ${weir_man_folder}/written
    DEPENDS ${weir_man_inputs} ${weir_man_targets} COMMENT "Writing man pages" VERBATIM)
  add_custom_target(weir_man ALL DEPENDS ${weir_man_folder}/written)
endif()

# scripts/docs installs Doxygen and mkdocs where they are missing.
add_custom_target(weir_docs COMMAND ${PROJECT_SOURCE_DIR}/scripts/docs ${CMAKE_BINARY_DIR}/docs
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} USES_TERMINAL VERBATIM)

function(weir_install_man name)
  if(NOT TARGET weir_man)
    return()
  endif()
  foreach(section IN ITEMS 1 3 7)
    set(component development)
    if(section EQUAL 1)
      set(component tools)
    endif()
    install(DIRECTORY ${weir_man_folder}/man${section} DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT ${name}-${component}
      OPTIONAL ${ARGN})
  endforeach()
endfunction()
weir_install_man(weir)
