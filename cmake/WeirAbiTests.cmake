# SPDX-License-Identifier: Apache-2.0
#
# What holds the two stable interfaces (docs/abi.md): the record in api/abi, and programs and plugins of yesterday on the
# library of today. Yesterday is tests/abi/yesterday/include, the headers of the oldest release that is supported; nothing
# that sees them may see today's. Also the documents that are made of the headers and programs.

# About files alone: once is enough.
if(NOT WEIR_SANITIZE)
  weir_register_test(abi_guard_self_test tree ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/check-abi --self-test --no-libabigail)
  weir_register_test(abi_of_yesterday abi ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/check-abi
    --older ${PROJECT_SOURCE_DIR}/tests/abi/yesterday/include)
  weir_register_test(readme_self_test tree ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/check-readme --self-test)
endif()
if(TARGET weir_man)
  weir_register_test(man_pages tree ${weir_make_man} --check ${weir_man_folder} ${weir_man_programs})
endif()

if(TARGET weir)
  weir_register_test(abi_record abi ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/check-abi --no-libabigail
    --library $<TARGET_FILE:weir>)

  add_library(weir_yesterday INTERFACE)
  target_include_directories(weir_yesterday INTERFACE ${PROJECT_SOURCE_DIR}/tests/abi/yesterday/include)
  target_link_libraries(weir_yesterday INTERFACE weir_warnings weir_instrumentation Threads::Threads)

  add_library(weir_backend_yesterday MODULE ${PROJECT_SOURCE_DIR}/tests/abi/yesterday/backend.c)
  set_target_properties(weir_backend_yesterday PROPERTIES C_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/yesterday)
  target_compile_definitions(weir_backend_yesterday PRIVATE _POSIX_C_SOURCE=200809L)
  target_link_libraries(weir_backend_yesterday PRIVATE weir_yesterday)

  # The one file of the client that sees today's headers.
  add_library(weir_today OBJECT ${PROJECT_SOURCE_DIR}/tests/abi/yesterday/today.c)
  target_link_libraries(weir_today PRIVATE weir_build)

  # The library's file, not the target: that would bring its headers.
  add_executable(yesterdays_client ${PROJECT_SOURCE_DIR}/tests/abi/yesterday/client.c $<TARGET_OBJECTS:weir_today>)
  target_include_directories(yesterdays_client PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(yesterdays_client PRIVATE weir_yesterday $<TARGET_LINKER_FILE:weir> PkgConfig::CMOCKA)
  add_dependencies(yesterdays_client weir)
  weir_register_test(yesterdays_client abi yesterdays_client $<TARGET_FILE:weir_backend_yesterday>)
endif()

if(TARGET test_struct_size)
  weir_register_test(struct_size_is_complete abi ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/check-abi
    --covers $<TARGET_FILE:test_struct_size>)
endif()
