// SPDX-License-Identifier: Apache-2.0
//
// CMocka for tests in C++: include this instead of <cmocka.h>. It gives the functions C linkage, brings the
// headers CMocka wants before it, and takes away its macro `fail`, which collides with std::ios and
// weir::fail; fail_msg works as usual. It must stay free of anything but CMocka.
#pragma once

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>

extern "C" {
#include <cmocka.h>
}

#undef fail
#undef fail_msg

/// Ends the running test as failed, with a printf message that names what was wrong.
#define fail_msg(...)                   \
  do {                                  \
    print_error("ERROR: " __VA_ARGS__); \
    print_error("\n");                  \
    _fail(__FILE__, __LINE__);          \
  } while (false)
