# SPDX-License-Identifier: Apache-2.0
#
# Debian packages, by `cpack -G DEB` in the build folder: libweirN (the library, with the host backend in it), libweir-dev,
# weir-tools and weir-backendABI-VENDOR. They have a layout of their own, /usr with Debian's folder for libraries, which `cmake
# --install` leaves out; so one build serves both. Programs lose their RPATH: the system's loader knows the place.

# As Debian's own tools have it: who builds packages for others names themselves.
set(weir_maintainer "Weir maintainers <weir@localhost>")
if(DEFINED ENV{DEBEMAIL} AND DEFINED ENV{DEBFULLNAME})
  set(weir_maintainer "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
endif()
set(WEIR_PACKAGE_MAINTAINER "${weir_maintainer}" CACHE STRING "The Maintainer field of the Debian packages")
find_program(WEIR_GZIP gzip)
if(NOT TARGET weir OR NOT WEIR_GZIP OR WEIR_SANITIZE OR WEIR_COVERAGE)
  return()
endif()
set(weir_debian_libdir ${CMAKE_INSTALL_LIBDIR})
if(CMAKE_LIBRARY_ARCHITECTURE)
  set(weir_debian_libdir lib/${CMAKE_LIBRARY_ARCHITECTURE})
endif()
weir_install(deb ${weir_debian_libdir} EXCLUDE_FROM_ALL)
weir_install_man(deb EXCLUDE_FROM_ALL)
# Debian has them compressed, and without a date, so that two builds of one tree do not differ.
foreach(weir_component IN ITEMS tools development)
  install(CODE "file(GLOB pages \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}/man?/*.?\")
  if(pages)
    execute_process(COMMAND \"${WEIR_GZIP}\" -9nf \${pages} COMMAND_ERROR_IS_FATAL ANY)
  endif()" COMPONENT deb-${weir_component} EXCLUDE_FROM_ALL)
endforeach()
if(TARGET weir_command OR TARGET weir_conformance)
  install(CODE "file(GLOB programs \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/weir*\")
  foreach(program IN LISTS programs)
    file(RPATH_REMOVE FILE \"\${program}\")
  endforeach()" COMPONENT deb-tools EXCLUDE_FROM_ALL)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME weir)
set(CPACK_PACKAGE_VENDOR "Weir")
set(CPACK_PACKAGE_CONTACT "${WEIR_PACKAGE_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # else it stands before each package's own
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SOURCE weir)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL)
set(weir_debian_folder ${CMAKE_CURRENT_BINARY_DIR}/generated/debian)
set(weir_debian_version "${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}")
set(weir_debian_library libweir${PROJECT_VERSION_MAJOR})

# What every package holds beside its own: the copyright file and a changelog in Debian's form. Its date is the epoch: two
# builds of one tree must not differ.
configure_file(${PROJECT_SOURCE_DIR}/cmake/debian/changelog.in ${weir_debian_folder}/changelog.Debian @ONLY)
execute_process(COMMAND ${WEIR_GZIP} -9nkf changelog.Debian WORKING_DIRECTORY ${weir_debian_folder} COMMAND_ERROR_IS_FATAL ANY)
configure_file(${PROJECT_SOURCE_DIR}/cmake/debian/shlibs.in ${weir_debian_folder}/shlibs @ONLY)

# weir_package(COMPONENT PACKAGE SECTION DESCRIPTION [FIELD value]...): one package of what deb-COMPONENT installs; the
# description's first line is its summary. FIELDs are CPack's: DEPENDS, RECOMMENDS, SUGGESTS, ENHANCES, ...
macro(weir_package component package section description)
  set(weir_packaged deb-${component})
  string(TOUPPER ${weir_packaged} weir_upper)
  list(APPEND CPACK_COMPONENTS_ALL ${weir_packaged})
  set(CPACK_DEBIAN_${weir_upper}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${weir_upper}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${weir_upper}_DESCRIPTION "${description}")
  set(weir_fields DEPENDS RECOMMENDS SUGGESTS ENHANCES)
  cmake_parse_arguments(weir "" "${weir_fields}" CONTROL_EXTRA ${ARGN})
  foreach(weir_field IN LISTS weir_fields ITEMS CONTROL_EXTRA)
    if(weir_${weir_field})
      set(CPACK_DEBIAN_${weir_upper}_PACKAGE_${weir_field} "${weir_${weir_field}}")
    endif()
  endforeach()
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/debian/copyright ${weir_debian_folder}/changelog.Debian.gz
    DESTINATION share/doc/${package} COMPONENT ${weir_packaged} EXCLUDE_FROM_ALL)
endmacro()

# weir_vendor_package(VENDOR NAME [FIELD value]...)
macro(weir_vendor_package vendor name)
  if(TARGET weir_backend_${vendor})
    string(REPLACE "_" "-" weir_vendor ${vendor})
    weir_package(backend-${weir_vendor} weir-backend${weir_backend_abi}-${weir_vendor} libs
"${name} devices for Weir
Weir lets programs use more device memory than a device has. This package
lets it use devices through ${name}, whose runtime is loaded when a
program starts: without one this backend says so and the others work on."
      DEPENDS "${weir_debian_library} (= ${weir_debian_version})" ENHANCES ${weir_debian_library} ${ARGN})
    string(APPEND weir_debian_backends ", weir-backend${weir_backend_abi}-${weir_vendor}")
  endif()
endmacro()

set(weir_debian_backends "")
weir_vendor_package(cuda CUDA SUGGESTS libcuda1)
weir_vendor_package(hip HIP SUGGESTS libamdhip64-6)
weir_vendor_package(level_zero "Level Zero" RECOMMENDS libze1)
weir_vendor_package(vulkan Vulkan RECOMMENDS libvulkan1)
weir_vendor_package(opencl OpenCL RECOMMENDS "ocl-icd-libopencl1 | libopencl1")
string(REGEX REPLACE "^, " "" weir_debian_backends "${weir_debian_backends}")

weir_package(library ${weir_debian_library} libs
"virtual device memory: more than the device has
Weir is one logical pool of memory over devices, their neighbours, pinned
host memory, compressed host memory and storage. Programs lease byte ranges
of buffers, and it sees that these are resident. CPU memory as a device is
built in; packages weir-backend${weir_backend_abi}-* add vendors' devices."
  SUGGESTS "${weir_debian_backends}" CONTROL_EXTRA "${weir_debian_folder}/shlibs;${PROJECT_SOURCE_DIR}/cmake/debian/triggers")

weir_package(development libweir-dev libdevel
"virtual device memory: files for development
Weir lets programs use more device memory than a device has. This package
has its headers, the library to link with, the archive, and what
pkg-config and CMake need to find them."
  DEPENDS "${weir_debian_library} (= ${weir_debian_version})"
  RECOMMENDS "liblz4-dev, libzstd-dev, libhwloc-dev, liburing-dev, libssl-dev")

if(TARGET weir_command OR TARGET weir_conformance)
  string(REGEX REPLACE "^, " "" weir_debian_beside_tools "${weir_debian_backends}, graphviz")  # for weir topo --svg
  weir_package(tools weir-tools utils
"virtual device memory: programs
Weir lets programs use more device memory than a device has. This package
has weir, which shows devices and replays traces of programs in as little
memory as one likes, and weir-conformance, which proves backends."
    DEPENDS "${weir_debian_library} (= ${weir_debian_version})" SUGGESTS "${weir_debian_beside_tools}")
endif()

include(CPack)
