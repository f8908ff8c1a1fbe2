// SPDX-License-Identifier: Apache-2.0
//
// The fault sweep of what comes ahead: operations are announced, and announced anew, buffers are prefetched and used in that order
// and in another, and the n-th fallible backend call or allocation of that fails. Whatever failed, a second try succeeds, every byte
// is right, and nothing is left in the end. And an announcement that fails leaves the one before it in force.

#include "tests/unit/fault_sweep_emptied.hpp"

namespace {

using namespace weir::test;

struct Scenario : Emptied {
  static constexpr uint32_t count = 6;

  void open(Balance *balance, const char *options) {
    open_pages(balance, options, 6);
    for (uint32_t i = 0; i < count; ++i) {
      add(i == 3 ? page_bytes / 3 : 2 * page_bytes);
      fill(i, i + 1);
    }
    faults.armed.store(true);
  }

  void announce(uint32_t first, uint32_t end, uint64_t flags) {
    std::vector<weir_use> uses;
    for (uint32_t i = first; i < end; ++i) uses.push_back(WEIR_USE(contents[i].buffer, WEIR_READ));
    std::vector<weir_operation> operations;
    for (const weir_use &use : uses) operations.push_back({nullptr, &use, 1, 0, {0, 0}});
    twice("weir_announce",
          [&] { return weir_announce(pool, stream, operations.data(), operations.size(), flags); });
    validate();
  }
  /// The next two.
  void prefetch(uint32_t i) {
    const weir_use next[] = {WEIR_USE(contents[i % count].buffer, WEIR_READ),
                             WEIR_USE(contents[(i + 1) % count].buffer, WEIR_READ)};
    twice("weir_prefetch", [&] { return weir_prefetch(pool, stream, next, 2); });
    validate();
  }

  void work() {
    announce(0, count, 0);
    for (uint32_t i = 0; i < count; ++i) {
      prefetch(i + 1);
      check(i, "in order");
    }
    announce(0, 4, 0);
    announce(2, count, WEIR_ANNOUNCE_REPLACE);
    for (const uint32_t i : {4U, 1U, 5U, 0U, 3U, 2U}) {
      prefetch(i + 1);
      fill(i, 40 + i);
      validate();
    }
    for (uint32_t i = 0; i < count; ++i) check(i, "last look");
  }

  void end() {
    destroy_buffers();
    trim_to_nothing();
    close();
  }
};

// ---- an announcement that fails ----

struct Announced : Subject {
  weir_stream other = nullptr;

  explicit Announced(Balance *balance) {
    faults.armed.store(false);
    open_context(balance, with_vmm);
    const weir_pool_device device{0, 0, 4 * page_bytes, {0, 0}};
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.device_count = 1;
    desc.devices = &device;
    desc.flags = WEIR_POOL_NO_BACKGROUND;
    desc.host_budget = 32 * page_bytes;
    open_pool(desc);
    ok(weir_stream_create(context, 0, 0, &other));
    for (uint32_t i = 0; i < 6; ++i) {
      add(page_bytes);
      fill(i, i + 1);
    }
    // All of them as cheap to bring again.
    ok(weir_pool_trim(pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  }
  weir_result announce(std::initializer_list<uint32_t> which, uint64_t flags) {
    std::vector<weir_use> uses;
    for (const uint32_t i : which) uses.push_back(WEIR_USE(contents[i].buffer, WEIR_READ));
    const weir_operation operation = {nullptr, uses.data(), uses.size(), 0, {0, 0}};
    const std::vector<weir_operation> operations(20, operation);
    return weir_announce(pool, stream, operations.data(), operations.size(), flags);
  }
  /// On a stream that has announced nothing.
  void use(uint32_t i) {
    weir_use use = WEIR_USE(contents[i].buffer, WEIR_READ);
    weir_lease lease = nullptr;
    ok(weir_acquire(pool, other, &use, 1, nullptr, &lease));
    ok(weir_release(lease, other));
  }
  bool there(uint32_t i) {
    weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
    ok(weir_buffer_info_get(pool, contents[i].buffer, 0, WEIR_WHOLE, &info));
    return info.device_bytes == page_bytes;
  }
  void end() {
    faults.armed.store(false);
    destroy_buffers();
    ok(weir_stream_close(other));
    close();
  }
};

/// The page used longest ago stays if it is announced, and is the first to go if it is not. The n-th allocation of the
/// announcement that is to take the place of the first one fails.
void a_failed_announcement_leaves_the_old_one(void **) {
  int64_t failures = 0;
  for (int64_t n = 1;; ++n) {
    const auto balance = std::make_unique<Balance>();
    Announced subject(balance.get());
    for (const uint32_t i : {0U, 1U, 2U, 3U}) subject.use(i);
    ok(subject.announce({0}, 0));
    faults.arm(Kind::allocator, 0, n);
    const weir_result got = subject.announce({4, 5}, WEIR_ANNOUNCE_REPLACE);
    faults.armed.store(false);
    assert_int_equal(got, faults.struck() ? WEIR_ERROR_OUT_OF_HOST_MEMORY : WEIR_SUCCESS);
    subject.use(4);
    assert_int_equal(subject.there(0), faults.struck());
    assert_int_equal(subject.there(1), !faults.struck());
    subject.end();
    assert_int_equal(balance->blocks.load(), 0);
    if (!faults.struck()) break;
    ++failures;
  }
  print_message("%lld positions\n", static_cast<long long>(failures));
  assert_true(failures > 2);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {cmocka_unit_test(a_failed_announcement_leaves_the_old_one)};
  const int failed = cmocka_run_group_tests(tests, nullptr, nullptr);
  return failed + Sweeps<Scenario>::run();
}
