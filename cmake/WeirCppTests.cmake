# SPDX-License-Identifier: Apache-2.0
#
# weir.hpp as its users compile it: the same tests where calls throw and where they return results, translation units that
# chose differently in one program, and every header by itself under each standard and compiler that is promised. The programs
# link libweir.so and nothing else of Weir: what the header calls is the C ABI.

set(weir_cpp_tests ${PROJECT_SOURCE_DIR}/tests/cpp)
set(weir_cpp_results -fno-exceptions -fno-rtti)

# weir_cpp_test(NAME STANDARD source... [OPTIONS option...])
function(weir_cpp_test name standard)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "OPTIONS")
  list(TRANSFORM arg_UNPARSED_ARGUMENTS PREPEND ${weir_cpp_tests}/)
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  set_target_properties(${name} PROPERTIES CXX_STANDARD ${standard})
  target_compile_options(${name} PRIVATE -Wundef ${arg_OPTIONS})
  target_link_libraries(${name} PRIVATE weir weir_build PkgConfig::CMOCKA)
  weir_hastily(${name})
  weir_register_test(${name} abi ${name})
endfunction()

if(TARGET weir)
  foreach(part IN ITEMS handles work)
    weir_cpp_test(test_cpp_${part}_throws 17 ${part}.cpp)
    weir_cpp_test(test_cpp_${part}_results 20 ${part}.cpp OPTIONS ${weir_cpp_results})
  endforeach()

  # The parts of programs in docs/cpp.md.
  weir_cpp_test(cpp_snippets 20 snippets.cpp)
  weir_cpp_test(cpp_snippets_results 20 snippets_results.cpp OPTIONS ${weir_cpp_results})

  # What is inlined can't be mixed up, so nothing is. The linker takes the first definition it meets: both orders.
  add_library(weir_cpp_throws OBJECT ${weir_cpp_tests}/mixed_throws.cpp)
  add_library(weir_cpp_results OBJECT ${weir_cpp_tests}/mixed_results.cpp)
  set_target_properties(weir_cpp_throws PROPERTIES CXX_STANDARD 17)
  target_compile_options(weir_cpp_throws PRIVATE -O0)
  target_compile_options(weir_cpp_results PRIVATE -O0 ${weir_cpp_results})
  foreach(side IN ITEMS throws results)
    target_link_libraries(weir_cpp_${side} PRIVATE weir_build)
  endforeach()
  foreach(order IN ITEMS "throws;results" "results;throws")
    list(GET order 0 first)
    list(GET order 1 second)
    set(name test_cpp_mixed_${first}_first)
    weir_cpp_test(${name} 20 mixed.cpp OPTIONS -O0)
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:weir_cpp_${first}> $<TARGET_OBJECTS:weir_cpp_${second}>)
  endforeach()
endif()

# About files alone: once is enough. The second compiler is looked for beside the first.
if(NOT WEIR_SANITIZE AND NOT WEIR_COVERAGE)
  find_program(WEIR_SECOND_CXX NAMES clang++-14 clang++ DOC "A compiler that the C++ headers are checked with too")
  set(weir_check_headers ${Python3_EXECUTABLE} ${weir_cpp_tests}/check_headers.py)
  weir_register_test(cpp_headers abi ${weir_check_headers} ${CMAKE_CXX_COMPILER})
  if(WEIR_SECOND_CXX)
    weir_register_test(cpp_headers_second abi ${weir_check_headers} ${WEIR_SECOND_CXX})
    weir_outer(cpp_headers_second)
  else()
    weir_register_skip(cpp_headers_second abi "there is no clang++ here")
  endif()
endif()
