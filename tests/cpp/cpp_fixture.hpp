// SPDX-License-Identifier: Apache-2.0
//
// What the tests of weir.hpp stand on: one source, compiled once where calls throw and once where they return results (and
// then without exceptions and RTTI). `take` gives the value of either, `code_of` the error of either. A failed assertion leaves
// by longjmp, past destructors: what is left behind then is the failed test's.
#pragma once

#include <weir/weir.hpp>

#include <cstring>
#include <utility>
#include <vector>

#include "tests/support/cmocka.hpp"

namespace weir::test {

constexpr uint64_t page = 16 * 1024;
constexpr const char *small_host = "host.memory=16M;host.granule=16K;host.granule_large=0";

template <class T>
T take(result<T> &&from) {
  if (!from) print_error("%s\n", from.error().what());
  assert_true(from.has_value());
  return std::move(from).value();
}
inline void take(result<void> &&from) {
  if (!from) print_error("%s\n", from.error().what());
  assert_true(from.has_value());
}
#if WEIR_CPP_EXCEPTIONS
template <class T>
T take(T &&from) {
  return std::move(from);
}
#define TAKE(call) take(call)
#define OK(call) (call)
#else
#define TAKE(call) take(call)
#define OK(call) take(call)
#endif

/// What `call` fails with, WEIR_SUCCESS if it does not.
template <class Call>
weir_result code_of(Call call) {
#if WEIR_CPP_EXCEPTIONS
  try {
    static_cast<void>(call());
  } catch (const error &why) {
    assert_true(std::strlen(why.what()) > 0);
    return why.code();
  }
  return WEIR_SUCCESS;
#else
  const auto answer = call();
  if (!answer) assert_true(std::strlen(answer.error().what()) > 0);
  return answer.code();
#endif
}
#define FAILS(wanted, call) assert_int_equal(code_of([&] { return call; }), wanted)

/// Counts what destructors could not end.
struct Leaks {
  static inline int count = 0;
  static inline weir_result last = WEIR_SUCCESS;
  static void note(const char *what, weir_result code, const char *message) noexcept {
    assert_true(std::strlen(what) > 0);
    assert_true(std::strlen(message) > 0);
    ++count, last = code;
  }
  Leaks() { count = 0, former = set_leak_handler(&note); }
  ~Leaks() { set_leak_handler(former); }
  leak_handler former;
};

inline context_desc small_context() {
  context_desc desc;
  desc.options = small_host;
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  return desc;
}

inline pool_desc small_pool(uint64_t device_pages, uint64_t host_pages = 64) {
  pool_desc desc;
  pool_device device;
  device.budget = device_pages * page;
  desc.devices.push_back(device);
  desc.host_budget = host_pages * page;
  desc.page_size = page, desc.large_page_size = page;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  return desc;
}

inline buffer_desc of_size(uint64_t bytes) {
  buffer_desc desc;
  desc.size = bytes;
  return desc;
}

/// A context, a pool of few pages and a stream. Destroying it asserts that nothing was left behind.
struct World {
  explicit World(uint64_t device_pages = 8)
      : context(TAKE(weir::context::create(small_context()))),
        pool(TAKE(weir::pool::create(context, small_pool(device_pages)))),
        stream(TAKE(weir::stream::create(context, 0))) {}
  weir::buffer buffer(uint64_t bytes = page) {
    return TAKE(weir::buffer::create(pool, of_size(bytes)));
  }
  uint32_t leases(const weir::buffer &of) { return TAKE(of.info()).leases; }

  weir::context context;
  weir::pool pool;
  weir::stream stream;
};

}  // namespace weir::test
