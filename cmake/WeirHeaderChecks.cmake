# SPDX-License-Identifier: Apache-2.0
#
# The public headers compile in every language they promise. Each header alone, and tests/abi/header_*.c(pp)
# (all of them together, every initialiser, fixed sizes), as C99, C17 and C++20. Compiling is the test.

weir_glob(headers "api/include/weir/*.h")
set(alone)
foreach(header IN LISTS headers)
  cmake_path(GET header STEM stem)
  foreach(extension c cpp)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/header_checks/alone_${stem}.${extension})
    file(CONFIGURE OUTPUT ${file} CONTENT
      "#include <weir/@stem@.h>\nextern int weir_header_check_@stem@;\n" @ONLY)
    list(APPEND alone_${extension} ${file})
  endforeach()
endforeach()

# weir_header_check(NAME STANDARD source...)
function(weir_header_check name standard)
  if(NOT ARGN)
    return()
  endif()
  add_library(${name} OBJECT ${ARGN})
  set_target_properties(${name} PROPERTIES C_STANDARD ${standard} CXX_STANDARD ${standard})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/api/include)
  target_compile_options(${name} PRIVATE -Wundef)
  target_link_libraries(${name} PRIVATE weir_warnings)
endfunction()
weir_glob(together_c "tests/abi/header_*.c")
weir_glob(together_cpp "tests/abi/header_*.cpp")
weir_header_check(weir_headers_c99 99 ${alone_c} ${together_c})
weir_header_check(weir_headers_c17 17 ${alone_c} ${together_c})
weir_header_check(weir_headers_cpp20 20 ${alone_cpp} ${together_cpp})
