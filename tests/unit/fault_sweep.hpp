// SPDX-License-Identifier: Apache-2.0
//
// What the fault sweeps share: the n-th fallible call of one kind (of the backend, the allocator or a store's I/O)
// fails, and only that one, so that retries are seen to work; an allocator that keeps its balance; calls that may be
// the one that fails; and buffers whose bytes are known whatever failed. Frees of the backend are never failed (a
// runtime that refuses to free is a lost device, another test's matter). One sweep runs at a time, without threads of
// Weir's own.
#pragma once

#include <dirent.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

// First: the fixture's macro `ok` would meet the core's own functions of that name.
#include "core/pool/pool.hpp"

#include "tests/abi/pool_fixture.hpp"
#include "tests/support/stride.hpp"
#include "tests/unit/interposed_host.hpp"

namespace weir::test {

enum class Kind { backend, device_oom, allocator, io };

/// The scenario waits for a kernel of its own: no call of Weir's.
inline thread_local bool looking = false;

/// What the interposed table, the allocator and the hook share; each run resets it while no context lives.
struct Faults {
  Kind kind = Kind::backend;
  int io_error =
      0;  ///< what a failing call of a store's answers; 0: it reads or writes less than it was to
  std::atomic<int64_t> left{0};  ///< calls until the failing one; negative: it has been
  std::atomic<const char *> failed{nullptr};
  std::atomic<bool> armed{false};
  int64_t position = 0;  ///< n of this run

  void arm(Kind of, int error, int64_t n) {
    kind = of;
    io_error = error;
    position = n;
    left.store(n);
    failed.store(nullptr);
    armed.store(true);
  }
  bool strikes(Kind of, const char *name) {
    if (of != kind || !armed.load() || left.fetch_sub(1) != 1) return false;
    failed.store(name);
    return true;
  }
  bool struck() const { return failed.load() != nullptr; }
  const char *what() const { return struck() ? failed.load() : "nothing"; }
};
inline Faults faults;

/// DEVICE_OOM is only what may answer it. What the scenario itself calls to look at things is not counted.
inline weir_result strike(const char *entry) {
  const bool memory =
      std::strcmp(entry, "granule_create") == 0 || std::strcmp(entry, "plain_allocate") == 0;
  if (memory && faults.strikes(Kind::device_oom, entry)) return WEIR_ERROR_DEVICE_OOM;
  const bool own = std::strcmp(entry, "stream_host_call") == 0 || looking;
  return !own && faults.strikes(Kind::backend, entry) ? WEIR_ERROR_BACKEND : WEIR_SUCCESS;
}

class IoFaults final : public tier::IoHook {
 public:
  int64_t before(tier::IoCall call, uint64_t bytes) noexcept override {
    constexpr const char *names[] = {"open", "preallocate", "read", "write"};
    const bool transfer = call == tier::IoCall::read || call == tier::IoCall::write;
    if (faults.io_error == 0 && !transfer) return 0;
    if (!faults.strikes(Kind::io, names[static_cast<size_t>(call)])) return 0;
    return faults.io_error != 0 ? -faults.io_error : static_cast<int64_t>((bytes + 1) / 2);
  }
};

struct Balance {
  std::atomic<int64_t> bytes{0};
  std::atomic<int64_t> blocks{0};

  static void *allocate(void *user, size_t size, size_t alignment) {
    if (faults.strikes(Kind::allocator, "allocate")) return nullptr;
    auto *self = static_cast<Balance *>(user);
    void *memory = nullptr;
    if (posix_memalign(&memory, std::max(alignment, sizeof(void *)), size) != 0) return nullptr;
    self->bytes += static_cast<int64_t>(size);
    ++self->blocks;
    return memory;
  }
  static void deallocate(void *user, void *memory, size_t size, size_t) {
    auto *self = static_cast<Balance *>(user);
    self->bytes -= static_cast<int64_t>(size);
    --self->blocks;
    std::free(memory);
  }
};

/// Errors one failed call may turn into; anything else is a wrong answer.
inline bool known_error(weir_result result) {
  switch (faults.kind) {
    case Kind::allocator:
      return result == WEIR_ERROR_OUT_OF_HOST_MEMORY;
    case Kind::io:
      return result == WEIR_ERROR_IO ||
             (faults.io_error == ENOSPC && result == WEIR_ERROR_OVER_BUDGET);
    default:
      return result == WEIR_ERROR_BACKEND || result == WEIR_ERROR_DEVICE_OOM ||
             result == WEIR_ERROR_OVER_BUDGET || result == WEIR_ERROR_WOULD_BLOCK;
  }
}

inline void sensible(weir_result result, const char *call) {
  if (result == WEIR_SUCCESS ||
      (known_error(result) && weir_last_error()[0] != '\0' && faults.struck()))
    return;
  fail_msg("n=%lld: %s after a failed %s: %d \"%s\"", static_cast<long long>(faults.position), call,
           faults.what(), result, weir_last_error());
}

/// Calls, and calls again if the fault struck: the second time nothing fails, so it must succeed. But device
/// memory once refused lowers the budget, so that what does not fit the rest is refused for good: false then.
template <typename Call>
bool twice(const char *what, Call call) {
  const weir_result first = call();
  sensible(first, what);
  if (first == WEIR_SUCCESS) return true;
  const weir_result second = call();
  const bool too_big = second == WEIR_ERROR_OVER_BUDGET || second == WEIR_ERROR_DEVICE_OOM;
  if (faults.kind == Kind::device_oom && too_big) return false;
  if (second != WEIR_SUCCESS) {
    fail_msg("n=%lld: %s failed again after a failed %s: %d \"%s\"",
             static_cast<long long>(faults.position), what, faults.what(), second,
             weir_last_error());
  }
  return true;
}

/// Buffers on one stream, and what each must hold.
struct Subject {
  struct Content {
    weir_buffer buffer = nullptr;
    uint64_t size = 0;
    uint32_t seed = 0;  ///< what it was last filled with; 0: never, it reads as zero
  };
  weir_context context = nullptr;
  weir_pool pool = nullptr;
  weir_stream stream = nullptr;
  std::vector<Content> contents;

  void open_context(Balance *balance, const char *options) {
    weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
    const weir_backend_query_fn backends[] = {InterposedHost::query};
    interposed.interpose.store(strike);
    desc.flags = WEIR_CONTEXT_NO_HOST_BACKEND | WEIR_CONTEXT_NO_SEARCH;
    desc.backend_count = 1;
    desc.backends = backends;
    const std::string own = Target::get().options(options);
    desc.options = own.c_str();
    desc.allocator = {Balance::allocate, Balance::deallocate, balance, {}};
    twice("weir_context_create", [&] { return weir_context_create(&desc, &context); });
  }
  void open_pool(const weir_pool_desc &desc) {
    twice("weir_pool_create", [&] { return weir_pool_create(context, &desc, &pool); });
    twice("weir_stream_create", [&] { return weir_stream_create(context, 0, 0, &stream); });
  }
  void add(uint64_t size, uint64_t flags = 0, weir_client client = nullptr) {
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = size;
    desc.flags = flags;
    desc.client = client;
    Content content{nullptr, size, 0};
    twice("weir_buffer_create", [&] { return weir_buffer_create(pool, &desc, &content.buffer); });
    contents.push_back(content);
  }

  /// One kernel under one lease; the release ends it whatever it answers. False: refused for good.
  bool run(uint32_t i, uint32_t mode, void (*function)(void *), Kernel *kernel) {
    weir_use use = WEIR_USE(contents[i].buffer, mode);
    weir_lease lease = nullptr;
    if (!twice("weir_acquire",
               [&] { return weir_acquire(pool, stream, &use, 1, nullptr, &lease); }))
      return false;
    kernel->address = use.address;
    ok(kernel->launch(stream, function));
    sensible(weir_release(lease, stream), "weir_release");
    looking = true;
    ok(weir_stream_synchronize(stream));
    looking = false;
    return true;
  }
  void fill(uint32_t i, uint32_t seed) {
    Kernel kernel{0, contents[i].size, seed, 0};
    if (run(i, WEIR_DISCARD_WRITE, Kernel::write, &kernel)) contents[i].seed = seed;
  }
  void check(uint32_t i, const char *when) {
    Kernel kernel{0, contents[i].size, contents[i].seed, 0};
    const bool ran =
        run(i, WEIR_READ, contents[i].seed != 0 ? Kernel::compare : compare_zero, &kernel);
    if (ran && kernel.wrong != 0) lost(i, when, kernel.wrong);
  }
  void check_read(uint32_t i) {
    std::vector<uint8_t> bytes(contents[i].size);
    twice("weir_buffer_read", [&] {
      return weir_buffer_read(pool, contents[i].buffer, 0, bytes.size(), bytes.data());
    });
    compare(i, "read at the end", bytes.data());
  }
  void compare(uint32_t i, const char *when, const void *bytes) {
    Kernel kernel{reinterpret_cast<uint64_t>(bytes), contents[i].size, contents[i].seed, 0};
    contents[i].seed != 0 ? Kernel::compare(&kernel) : compare_zero(&kernel);
    if (kernel.wrong != 0) lost(i, when, kernel.wrong);
  }

  static void compare_zero(void *user) {
    auto *kernel = static_cast<Kernel *>(user);
    const uint8_t *from = kernel->range();
    for (uint64_t i = 0; i < kernel->bytes; ++i) kernel->wrong += from[i] != 0;
  }
  static void lost(uint32_t i, const char *when, uint64_t wrong) {
    fail_msg("n=%lld: buffer %u, %s: %llu bytes are wrong after a failed %s",
             static_cast<long long>(faults.position), i, when,
             static_cast<unsigned long long>(wrong), faults.what());
  }

  void destroy_buffers() {
    for (const Content &content : contents) ok(weir_buffer_destroy(pool, content.buffer));
    contents.clear();
  }
  void close() {
    ok(weir_pool_destroy(pool));
    ok(weir_stream_close(stream));
    ok(weir_context_destroy(context));
  }
};

/// How many files the process has open.
inline uint64_t open_files() {
  DIR *all = opendir("/proc/self/fd");
  assert_non_null(all);
  uint64_t count = 0;
  while (readdir(all) != nullptr) ++count;
  closedir(all);
  return count;
}

/// Runs the scenario once for every n, until there was nothing left to fail: `scenario(balance)` opens, works and closes.
/// At least `least` calls must have failed. WEIR_FAULT_FROM=n in the environment begins at n: for a debugger.
template <typename Scenario>
void sweep(Kind kind, int io_error, int64_t least, Scenario scenario) {
  const char *from = std::getenv("WEIR_FAULT_FROM");
  // A simulated machine's own files are there from the first scenario on: they are no leak.
  if (!Target::get().host()) {
    faults.arm(kind, io_error, INT64_MAX);
    scenario(std::make_unique<Balance>().get());
  }
  for (int64_t n = from != nullptr ? std::atoll(from) : 1;; n += stride()) {
    const auto balance = std::make_unique<Balance>();
    const uint64_t files = open_files();
    faults.arm(kind, io_error, n);
    scenario(balance.get());
    assert_int_equal(balance->blocks.load(), 0);
    assert_int_equal(balance->bytes.load(), 0);
    assert_int_equal(open_files(), files);
    if (faults.struck()) continue;
    print_message("%lld positions\n", static_cast<long long>(n - 1));
    if (from == nullptr) assert_true(n > least);
    return;
  }
}

}  // namespace weir::test
