// SPDX-License-Identifier: Apache-2.0
//
// weir/cpp/config.hpp - what a translation unit chooses, and the namespace that follows from it.
//
// Definitions differ with these choices, and the linker keeps one definition of each name. So each combination has an inline
// namespace of its own, which is also named after the version of the headers: translation units that chose differently link
// and run side by side, and an object of one can't be taken for an object of the other. Code that passes a C++ object from one to
// the other gets an undefined reference with the namespace in it, not a crash; pass the C handle instead (get, borrow).
//
//   WEIR_CPP_EXCEPTIONS  1: a call that fails throws weir::error. 0: it returns weir::result<T>. Default: as the compiler has
//                        exceptions.
//   WEIR_CPP_STD_SPAN    1: weir::span is std::span. 0: it is a class of our own. Default: 1 from C++20 on.
//
// Nothing else may change a definition here: no NDEBUG, no other macro, no other feature of a standard.
#ifndef WEIR_CPP_CONFIG_HPP
#define WEIR_CPP_CONFIG_HPP

#include <weir/weir.h>

#if __cplusplus < 201703L
#error "weir/weir.hpp needs C++17"
#endif

#ifndef WEIR_CPP_EXCEPTIONS
#ifdef __cpp_exceptions
#define WEIR_CPP_EXCEPTIONS 1
#else
#define WEIR_CPP_EXCEPTIONS 0
#endif
#endif
#if WEIR_CPP_EXCEPTIONS && !defined(__cpp_exceptions)
#error "WEIR_CPP_EXCEPTIONS is 1, and the compiler is told to have no exceptions"
#endif

#ifndef WEIR_CPP_STD_SPAN
#if __cplusplus >= 202002L
#define WEIR_CPP_STD_SPAN 1
#else
#define WEIR_CPP_STD_SPAN 0
#endif
#endif
#if WEIR_CPP_STD_SPAN && __cplusplus < 202002L
#error "WEIR_CPP_STD_SPAN is 1, and std::span comes with C++20"
#endif

#if WEIR_CPP_EXCEPTIONS
#define WEIR_CPP_HOW throws
#else
#define WEIR_CPP_HOW results
#endif
#if WEIR_CPP_STD_SPAN
#define WEIR_CPP_SPAN stdspan
#else
#define WEIR_CPP_SPAN ownspan
#endif
// A class with virtual functions has another vtable without RTTI.
#ifdef __cpp_rtti
#define WEIR_CPP_RTTI rtti
#else
#define WEIR_CPP_RTTI nortti
#endif

#define WEIR_CPP_JOIN_(major, minor, patch, how, span, rtti) \
  v##major##_##minor##_##patch##_##how##_##span##_##rtti
#define WEIR_CPP_JOIN(major, minor, patch, how, span, rtti) \
  WEIR_CPP_JOIN_(major, minor, patch, how, span, rtti)
/// The inline namespace, such as v1_0_0_throws_stdspan_rtti.
#define WEIR_CPP_ABI                                                                          \
  WEIR_CPP_JOIN(WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR, WEIR_VERSION_PATCH, WEIR_CPP_HOW, \
                WEIR_CPP_SPAN, WEIR_CPP_RTTI)

#define WEIR_CPP_BEGIN \
  namespace weir {     \
  inline namespace WEIR_CPP_ABI {
#define WEIR_CPP_END \
  }                  \
  }

#endif  // WEIR_CPP_CONFIG_HPP
