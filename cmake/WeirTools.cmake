# SPDX-License-Identifier: Apache-2.0
#
# The `weir` command: tools/weir/*.cpp but main.cpp -> library weir_tool (unit tests link it too),
# with main.cpp -> bin/weir. It uses the public C API only, so it links libweir.so like any user.

weir_glob(weir_tool_sources "tools/weir/*.cpp")
set(weir_tool_main ${PROJECT_SOURCE_DIR}/tools/weir/main.cpp)
list(REMOVE_ITEM weir_tool_sources ${weir_tool_main})

if(weir_tool_sources)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
  find_package(nlohmann_json 3.10 REQUIRED)
  find_package(CLI11 2.1 REQUIRED)
  # An archive, not objects: a unit test then links only the parts it names.
  add_library(weir_tool STATIC ${weir_tool_sources})
  target_link_libraries(weir_tool PRIVATE weir_build
    PUBLIC PkgConfig::ZSTD nlohmann_json::nlohmann_json CLI11::CLI11 weir_instrumentation)
endif()

if(WEIR_BUILD_TOOLS AND weir_tool_sources AND TARGET weir AND EXISTS ${weir_tool_main})
  add_executable(weir_command ${weir_tool_main})
  set_target_properties(weir_command PROPERTIES OUTPUT_NAME weir)
  target_link_libraries(weir_command PRIVATE weir_tool weir weir_build)
endif()
