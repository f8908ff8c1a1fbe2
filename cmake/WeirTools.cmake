# SPDX-License-Identifier: Apache-2.0
#
# The `weir` command: tools/weir/*.cpp, and those of frag, doctor, recorded, import, topo, live and exporter there, but main.cpp -> library weir_tool (unit tests link it too),
# with main.cpp -> bin/weir. It uses the public C API only, so it links libweir.so like any user; and parts of the core that
# know nothing of the rest, which are compiled into it: placements, for replays of allocations alone, what memory is left, for
# weir doctor, the lines of recordings, for weir import, and where running programs are found, for weir top. bin/weir writes the scripts by which shells complete its command lines (target weir_completions). cairo draws `weir frag --png` where it is there; one
# file knows it. So does ncurses the screen of `weir top`.

weir_glob(weir_tool_sources "tools/weir/*.cpp" "tools/weir/frag/*.cpp" "tools/weir/doctor/*.cpp" "tools/weir/recorded/*.cpp" "tools/weir/import/*.cpp"
  "tools/weir/topo/*.cpp" "tools/weir/live/*.cpp" "tools/weir/exporter/*.cpp")
set(weir_tool_main ${PROJECT_SOURCE_DIR}/tools/weir/main.cpp)
list(REMOVE_ITEM weir_tool_sources ${weir_tool_main})

# Virtual time takes the place of the C library's threads and clocks in the program that it is linked to. A sanitizer has done so already.
set(weir_virtual_time_sources tools/virtual_time/real.cpp tools/virtual_time/scheduler.cpp tools/virtual_time/switch.cpp
  tools/virtual_time/interpose.cpp)
if(WEIR_SANITIZE)
  set(weir_virtual_time_sources tools/virtual_time/absent.cpp)
endif()
list(TRANSFORM weir_virtual_time_sources PREPEND ${PROJECT_SOURCE_DIR}/)
add_library(weir_virtual_time STATIC EXCLUDE_FROM_ALL ${weir_virtual_time_sources})
target_link_libraries(weir_virtual_time PRIVATE weir_build PUBLIC Threads::Threads ${CMAKE_DL_LIBS})

if(weir_tool_sources)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
  find_package(nlohmann_json 3.10 REQUIRED)
  find_package(CLI11 2.1 REQUIRED)
  # The library has them too, and exports none of them.
  add_library(weir_placement STATIC $<TARGET_OBJECTS:weir_placement_objects>)
  set_target_properties(weir_placement PROPERTIES LINKER_LANGUAGE CXX)
  # An archive, not objects: a unit test then links only the parts it names.
  set(weir_frag_page ${CMAKE_BINARY_DIR}/generated/tools/frag_page.cpp)
  set(weir_frag_html ${CMAKE_BINARY_DIR}/generated/tools/frag_page.html)
  file(GLOB weir_frag_parts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/weir/frag/page/*)
  add_custom_command(OUTPUT ${weir_frag_page} BYPRODUCTS ${weir_frag_html}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${PROJECT_SOURCE_DIR}/tools/weir/frag/page -DOUT=${weir_frag_html}
      -P ${PROJECT_SOURCE_DIR}/cmake/frag-page.cmake
    COMMAND ${CMAKE_COMMAND} -DIN=${weir_frag_html} -DOUT=${weir_frag_page}
      -DHEADER=tools/weir/frag/page.hpp -DNAMESPACE=weir::tool::frag -DNAME=page_template
      -P ${PROJECT_SOURCE_DIR}/cmake/embed-text.cmake
    DEPENDS ${weir_frag_parts} ${PROJECT_SOURCE_DIR}/cmake/frag-page.cmake ${PROJECT_SOURCE_DIR}/cmake/embed-text.cmake VERBATIM)
  add_library(weir_tool STATIC EXCLUDE_FROM_ALL ${weir_tool_sources} ${weir_frag_page})  # for whom links it
  # What makes and compares every byte of a replay is worth optimising even where nothing else of the command is.
  set(weir_apart ${PROJECT_SOURCE_DIR}/tools/weir/pattern.cpp)
  weir_batches(weir_tool APART ${weir_apart})
  weir_hastily(weir_tool)
  if(weir_hasty)
    set_source_files_properties(${weir_apart} PROPERTIES COMPILE_OPTIONS -O1)
  endif()
  target_link_libraries(weir_tool PRIVATE weir_build
    PUBLIC PkgConfig::ZSTD nlohmann_json::nlohmann_json CLI11::CLI11 weir_placement weir_instrumentation)
  weir_archives(ZSTD)
  # Cairo has no archive without a dozen others behind it: a portable command draws no PNG, and says so.
  if(NOT WEIR_PORTABLE)
    pkg_check_modules(CAIRO IMPORTED_TARGET cairo>=1.14)
  endif()
  # The screen of weir top, in one file. Its archive wants the terminals' descriptions where it was built: a portable command has --once.
  if(NOT WEIR_PORTABLE)
    pkg_check_modules(CURSES IMPORTED_TARGET ncursesw)
  endif()
  if(CURSES_FOUND AND NOT WEIR_PORTABLE)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/tools/weir/live/screen.cpp PROPERTIES COMPILE_DEFINITIONS WEIR_HAVE_CURSES)
    target_link_libraries(weir_tool PRIVATE PkgConfig::CURSES)
  endif()
  if(CAIRO_FOUND AND NOT WEIR_PORTABLE)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/tools/weir/frag/png.cpp PROPERTIES COMPILE_DEFINITIONS WEIR_HAVE_CAIRO)
    target_link_libraries(weir_tool PRIVATE PkgConfig::CAIRO)
  endif()
  # The same holds for prometheus-cpp, which brings a web server: without it `weir exporter` prints its figures, and serves none.
  if(NOT WEIR_PORTABLE)
    find_package(prometheus-cpp CONFIG QUIET)
  endif()
  if(prometheus-cpp_FOUND AND NOT WEIR_PORTABLE)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/tools/weir/exporter/server.cpp PROPERTIES
      COMPILE_DEFINITIONS WEIR_HAVE_PROMETHEUS)
    target_link_libraries(weir_tool PRIVATE prometheus-cpp::pull)
  endif()
endif()

if(WEIR_BUILD_TOOLS AND weir_tool_sources AND TARGET weir AND EXISTS ${weir_tool_main})
  add_executable(weir_command ${weir_tool_main})
  set_target_properties(weir_command PROPERTIES OUTPUT_NAME weir)
  target_link_libraries(weir_command PRIVATE weir_tool weir_virtual_time weir weir_build)
  weir_hastily(weir_command)
endif()

# Written by the program itself, so not where it can't run. A sanitized one is not installed.
set(weir_completion_folder ${CMAKE_BINARY_DIR}/completions)
if(TARGET weir_command AND NOT CMAKE_CROSSCOMPILING AND NOT WEIR_SANITIZE AND NOT WEIR_COVERAGE)
  set(weir_completion_files)
  foreach(shell IN ITEMS bash zsh fish)
    list(APPEND weir_completion_files ${weir_completion_folder}/${shell})
    add_custom_command(OUTPUT ${weir_completion_folder}/${shell}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${weir_completion_folder}
      COMMAND weir_command completion ${shell} > ${weir_completion_folder}/${shell}
      DEPENDS weir_command COMMENT "Writing completions for ${shell}" VERBATIM)
  endforeach()
  add_custom_target(weir_completions ALL DEPENDS ${weir_completion_files})
endif()
