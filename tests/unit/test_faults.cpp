// SPDX-License-Identifier: Apache-2.0
//
// The fault sweep: one scenario (create, fill, evict by pressure, refill, verify, destroy) is run once for
// every n, and the n-th fallible backend call, or the n-th allocation, fails. It ends with the run in which
// nothing was left to fail. Whatever failed: no crash, an error the headers know, every byte that a lease
// or write was granted for is right afterwards, counters and budgets end at 0, and so does the allocator's
// balance. Only the n-th call fails, so that retries are seen to work; frees of the backend are never failed
// (a runtime that refuses to free is a lost device, another test's matter).

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "tests/abi/pool_fixture.hpp"
#include "tests/unit/interposed_host.hpp"

namespace {

using namespace weir::test;

enum class Kind { backend, device_oom, allocator };

/// The scenario waits for a kernel of its own: no call of Weir's.
thread_local bool looking = false;

/// What the interposed table and the allocator share; each run resets it while no context lives.
struct Faults {
  Kind kind = Kind::backend;
  std::atomic<int64_t> left{0};  ///< calls until the failing one; negative: it has been
  std::atomic<const char *> failed{nullptr};
  std::atomic<bool> armed{false};
  int64_t position = 0;  ///< n of this run

  bool strikes(Kind of, const char *name) {
    if (of != kind || !armed.load() || left.fetch_sub(1) != 1) return false;
    failed.store(name);
    return true;
  }
  const char *what() const { return failed.load() != nullptr ? failed.load() : "nothing"; }
} faults;

/// DEVICE_OOM is only what may answer it. What the scenario itself calls to look at things is not counted.
weir_result strike(const char *entry) {
  const bool memory =
      std::strcmp(entry, "granule_create") == 0 || std::strcmp(entry, "plain_allocate") == 0;
  if (memory && faults.strikes(Kind::device_oom, entry)) return WEIR_ERROR_DEVICE_OOM;
  const bool own = std::strcmp(entry, "stream_host_call") == 0 || looking;
  return !own && faults.strikes(Kind::backend, entry) ? WEIR_ERROR_BACKEND : WEIR_SUCCESS;
}

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
void sensible(weir_result result, const char *call) {
  const bool known = faults.kind == Kind::allocator
                         ? result == WEIR_ERROR_OUT_OF_HOST_MEMORY
                         : result == WEIR_ERROR_BACKEND || result == WEIR_ERROR_DEVICE_OOM ||
                               result == WEIR_ERROR_OVER_BUDGET || result == WEIR_ERROR_WOULD_BLOCK;
  if (result == WEIR_SUCCESS ||
      (known && weir_last_error()[0] != '\0' && faults.failed.load() != nullptr))
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

constexpr uint32_t buffer_count = 4;
constexpr uint32_t scrubbed = 3;  ///< zeroed on the device whenever it leaves it
constexpr uint64_t sizes[buffer_count] = {3 * page_bytes, 2 * page_bytes + 100, 600,
                                          3 * page_bytes};

struct Scenario {
  weir_context context = nullptr;
  weir_pool pool = nullptr;
  weir_stream stream = nullptr;
  weir_buffer buffers[buffer_count] = {};
  uint32_t seeds[buffer_count] =
      {};  ///< what each was last filled with; 0: never, it reads as zero

  void open(Balance *balance, const char *options) {
    weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
    const weir_backend_query_fn backends[] = {InterposedHost::query};
    interposed.interpose.store(strike);
    desc.flags = WEIR_CONTEXT_NO_HOST_BACKEND | WEIR_CONTEXT_NO_SEARCH;
    desc.backend_count = 1;
    desc.backends = backends;
    desc.options = options;
    desc.allocator = {Balance::allocate, Balance::deallocate, balance};
    twice("weir_context_create", [&] { return weir_context_create(&desc, &context); });
    const weir_pool_device device{0, 0, 6 * page_bytes, {0, 0}};
    weir_pool_desc pool_desc = WEIR_POOL_DESC_INIT;
    pool_desc.device_count = 1;
    pool_desc.devices = &device;
    pool_desc.flags = WEIR_POOL_NO_BACKGROUND | WEIR_POOL_CHECKSUM_HOST;
    pool_desc.host_budget = 24 * page_bytes;
    pool_desc.page_size = pool_desc.large_page_size = page_bytes;
    twice("weir_pool_create", [&] { return weir_pool_create(context, &pool_desc, &pool); });
    twice("weir_stream_create", [&] { return weir_stream_create(context, 0, 0, &stream); });
    for (uint32_t i = 0; i < buffer_count; ++i) {
      weir_buffer_desc buffer = WEIR_BUFFER_DESC_INIT;
      buffer.size = sizes[i];
      buffer.flags = i == scrubbed ? WEIR_BUFFER_SCRUB : 0;
      twice("weir_buffer_create", [&] { return weir_buffer_create(pool, &buffer, &buffers[i]); });
    }
  }

  /// One kernel under one lease; the release ends it whatever it answers. False: refused for good.
  bool run(uint32_t i, uint32_t mode, void (*function)(void *), Kernel *kernel) {
    weir_use use = WEIR_USE(buffers[i], mode);
    weir_lease lease = nullptr;
    if (!twice("weir_acquire",
               [&] { return weir_acquire(pool, stream, &use, 1, nullptr, &lease); }))
      return false;
    kernel->address = use.address;
    ok(weir_stream_host_call(stream, function, kernel));
    sensible(weir_release(lease, stream), "weir_release");
    looking = true;
    ok(weir_stream_synchronize(stream));
    looking = false;
    return true;
  }

  void fill(uint32_t i, uint32_t seed) {
    Kernel kernel{0, sizes[i], seed, 0};
    if (run(i, WEIR_DISCARD_WRITE, Kernel::write, &kernel)) seeds[i] = seed;
  }

  void check(uint32_t i, const char *when) {
    Kernel kernel{0, sizes[i], seeds[i], 0};
    const bool ran = run(i, WEIR_READ, seeds[i] != 0 ? Kernel::compare : compare_zero, &kernel);
    if (ran && kernel.wrong != 0) lost(i, when, kernel.wrong);
  }

  void check_read(uint32_t i, std::vector<uint8_t> *bytes) {
    twice("weir_buffer_read",
          [&] { return weir_buffer_read(pool, buffers[i], 0, sizes[i], bytes->data()); });
    Kernel kernel{reinterpret_cast<uint64_t>(bytes->data()), sizes[i], seeds[i], 0};
    seeds[i] != 0 ? Kernel::compare(&kernel) : compare_zero(&kernel);
    if (kernel.wrong != 0) lost(i, "read at the end", kernel.wrong);
  }

  static void compare_zero(void *user) {
    auto *kernel = static_cast<Kernel *>(user);
    const auto *from = reinterpret_cast<const uint8_t *>(kernel->address);
    for (uint64_t i = 0; i < kernel->bytes; ++i) kernel->wrong += from[i] != 0;
  }

  static void lost(uint32_t i, const char *when, uint64_t wrong) {
    fail_msg("n=%lld: buffer %u, %s: %llu bytes are wrong after a failed %s",
             static_cast<long long>(faults.position), i, when,
             static_cast<unsigned long long>(wrong), faults.what());
  }

  void work() {
    for (uint32_t i = 0; i < buffer_count; ++i) fill(i, i + 1);
    for (uint32_t i = 0; i < buffer_count; ++i) check(i, "first look");
    fill(1, 9);
    uint8_t bytes_of_2[sizes[2]];
    for (uint64_t i = 0; i < sizes[2]; ++i) bytes_of_2[i] = pattern(8, i);
    twice("weir_buffer_write",
          [&] { return weir_buffer_write(pool, buffers[2], 0, sizes[2], bytes_of_2); });
    seeds[2] = 8;
    uint64_t address = 0;
    if (twice("weir_hold", [&] { return weir_hold(pool, buffers[0], 0, &address); }))
      ok(weir_unhold(pool, buffers[0]));
    uint64_t freed = 0;
    twice("weir_pool_trim",
          [&] { return weir_pool_trim(pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, &freed); });
    for (uint32_t i = 0; i < buffer_count; ++i) check(i, "second look");
    std::vector<uint8_t> bytes(4 * page_bytes);
    for (uint32_t i = 0; i < buffer_count; ++i) check_read(i, &bytes);
  }

  void close(bool vmm) {
    for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(pool, buffer));
    faults.armed.store(false);
    ok(weir_pool_trim(pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    ok(weir_pool_trim(pool, WEIR_DEVICE_HOST, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    weir_pool_stats stats{};
    stats.struct_size = sizeof(stats);
    ok(weir_pool_stats_get(pool, &stats));
    assert_int_equal(stats.buffers, 0);
    assert_int_equal(stats.slabs, 0);
    assert_int_equal(stats.device_held_bytes, 0);
    if (vmm) {  // without it, memory of dead buffers is kept for later ones until the pool's end
      assert_int_equal(stats.pages, 0);
      assert_int_equal(stats.device_bytes, 0);
    }
    assert_int_equal(stats.host_used_bytes, 0);
    ok(weir_pool_destroy(pool));
    ok(weir_stream_close(stream));
    ok(weir_context_destroy(context));
  }
};

constexpr const char *with_vmm = "host.memory=4M;host.granule=16K;host.granule_large=0";
constexpr const char *without_vmm =
    "host.memory=4M;host.granule=16K;host.granule_large=0;host.vmm=0;host.batch_copy=0";

/// WEIR_FAULT_FROM=n in the environment begins at n: for a debugger.
void sweep(Kind kind, const char *options) {
  const char *from = std::getenv("WEIR_FAULT_FROM");
  for (int64_t n = from != nullptr ? std::atoll(from) : 1;; ++n) {
    const auto balance = std::make_unique<Balance>();
    faults.kind = kind;
    faults.position = n;
    faults.left.store(n);
    faults.failed.store(nullptr);
    faults.armed.store(true);
    Scenario scenario;
    scenario.open(balance.get(), options);
    scenario.work();
    scenario.close(options == with_vmm);
    assert_int_equal(balance->blocks.load(), 0);
    assert_int_equal(balance->bytes.load(), 0);
    if (faults.failed.load() != nullptr) continue;
    print_message("%lld positions\n", static_cast<long long>(n - 1));
    if (from == nullptr) assert_true(n > 3);
    return;
  }
}

void every_backend_call_fails_once(void **) { sweep(Kind::backend, with_vmm); }
void every_backend_call_fails_once_without_vmm(void **) { sweep(Kind::backend, without_vmm); }
void device_memory_is_refused_once(void **) { sweep(Kind::device_oom, with_vmm); }
void every_allocation_fails_once(void **) { sweep(Kind::allocator, with_vmm); }
void every_allocation_fails_once_without_vmm(void **) { sweep(Kind::allocator, without_vmm); }

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(every_backend_call_fails_once),
      cmocka_unit_test(every_backend_call_fails_once_without_vmm),
      cmocka_unit_test(device_memory_is_refused_once),
      cmocka_unit_test(every_allocation_fails_once),
      cmocka_unit_test(every_allocation_fails_once_without_vmm),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
