# SPDX-License-Identifier: Apache-2.0
#
# WEIR_PORTABLE: a build whose library, backends and command need nothing of the system but glibc and libstdc++, so that they may be
# packed and taken elsewhere (scripts/wheel). What pkg-config finds is linked from its archive, and none of its symbols is exported
# (api/weir.map, cmake/plugin.map). Vendors' runtimes are found at run time in every build.

option(WEIR_PORTABLE "Link third parties' archives, so that the library can be packed with a program or a wheel" OFF)
if(WEIR_PORTABLE)
  # RPATH and not RUNPATH: a packed program takes the library that it was packed with, whatever LD_LIBRARY_PATH says.
  add_link_options(LINKER:--disable-new-dtags)
endif()

# weir_archives(PREFIX...): the targets PkgConfig::PREFIX link archives from now on.
function(weir_archives)
  if(NOT WEIR_PORTABLE)
    return()
  endif()
  foreach(prefix IN LISTS ARGN)
    if(NOT TARGET PkgConfig::${prefix})
      continue()
    endif()
    set(archives)
    foreach(name IN LISTS ${prefix}_LIBRARIES)
      find_library(WEIR_ARCHIVE_${name} lib${name}.a HINTS ${${prefix}_LIBRARY_DIRS} REQUIRED)
      list(APPEND archives ${WEIR_ARCHIVE_${name}})
    endforeach()
    set_target_properties(PkgConfig::${prefix} PROPERTIES INTERFACE_LINK_LIBRARIES "${archives}")
  endforeach()
endfunction()

# weir_closed_hwloc(): hwloc's archive wants libudev, which has no archive, and loads the plugins that the system has for its own
# hwloc, of another version perhaps. Here it gets neither: portable_hwloc.c answers in their place. Debian compiles the archive for
# programs (-fPIE): in a shared library it must not name variables of libc, and names portable_hwloc.c's instead.
function(weir_closed_hwloc)
  if(NOT WEIR_PORTABLE)
    return()
  endif()
  find_program(WEIR_OBJCOPY NAMES ${CMAKE_OBJCOPY} objcopy REQUIRED)
  set(closed ${CMAKE_BINARY_DIR}/generated/libhwloc_closed.a)
  set(renamed)
  foreach(name IN ITEMS dlopen stderr stdout program_invocation_name udev_new udev_unref udev_device_new_from_subsystem_sysname udev_device_unref
      udev_device_get_property_value)
    list(APPEND renamed --redefine-sym ${name}=weir_hwloc_${name})
  endforeach()
  add_custom_command(OUTPUT ${closed} COMMAND ${WEIR_OBJCOPY} ${renamed} ${WEIR_ARCHIVE_hwloc} ${closed}
    DEPENDS ${WEIR_ARCHIVE_hwloc} ${CMAKE_CURRENT_FUNCTION_LIST_FILE} VERBATIM)
  add_custom_target(weir_closed_hwloc_archive DEPENDS ${closed})
  add_library(weir_portable_hwloc STATIC ${PROJECT_SOURCE_DIR}/cmake/portable_hwloc.c)
  set_target_properties(weir_portable_hwloc PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
  target_link_libraries(weir_portable_hwloc PRIVATE weir_build)
  add_dependencies(weir_portable_hwloc weir_closed_hwloc_archive)
  set_target_properties(PkgConfig::WEIR_HWLOC PROPERTIES INTERFACE_LINK_LIBRARIES "${closed};weir_portable_hwloc")
endfunction()
