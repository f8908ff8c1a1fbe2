# SPDX-License-Identifier: Apache-2.0
#
# Installation: headers, both libraries, the weir command, backend plugins (lib/weir/, where libweir looks
# for them) and a pkg-config file.

install(DIRECTORY api/include/weir DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
foreach(target weir weir_static weir_command weir_conformance)
  if(TARGET ${target})
    install(TARGETS ${target}
      RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()
if(weir_plugins)
  install(TARGETS ${weir_plugins} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/weir)
endif()
if(TARGET weir)
  # Relative to the file itself, so that `cmake --install --prefix` and moved trees are right too.
  file(RELATIVE_PATH weir_pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  configure_file(cmake/weir.pc.in weir.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weir.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
