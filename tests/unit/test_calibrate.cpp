// SPDX-License-Identifier: Apache-2.0
//
// Measuring links, from the inside: every call of the backend and every allocation fails once, and whatever failed, what
// was taken is given back and the link keeps the figure that it had; and on a clock of the test's own, what the figures
// are and how time is shared.

#include "tests/unit/fault_sweep.hpp"

#include "tests/support/cache_folder.hpp"

namespace {

using namespace weir::test;

/// What measuring takes from the backend, by what it is given back with.
struct Taken {
  std::atomic<int64_t> streams{0}, pinned{0}, plain{0};
  weir_backend_table next{};
};
Taken taken;

weir_result counted(weir_result result, std::atomic<int64_t> &count, int64_t by) {
  if (result == WEIR_SUCCESS) count += by;
  return result;
}

const weir_backend_table *counting(uint32_t abi_major) {
  if (InterposedHost::query(abi_major) == nullptr) return nullptr;
  weir_backend_table &table = interposed.table;
  taken.next = table;
  table.stream_create = [](weir_be_state *s, uint32_t device, uint64_t flags, weir_be_stream *out) {
    return counted(taken.next.stream_create(s, device, flags, out), taken.streams, 1);
  };
  table.stream_destroy = [](weir_be_state *s, weir_be_stream stream) {
    return counted(taken.next.stream_destroy(s, stream), taken.streams, -1);
  };
  table.host_allocate = [](weir_be_state *s, uint64_t bytes, void **memory) {
    return counted(taken.next.host_allocate(s, bytes, memory), taken.pinned,
                   static_cast<int64_t>(bytes));
  };
  table.host_free = [](weir_be_state *s, void *memory, uint64_t bytes) {
    return counted(taken.next.host_free(s, memory, bytes), taken.pinned,
                   -static_cast<int64_t>(bytes));
  };
  table.plain_allocate = [](weir_be_state *s, uint32_t device, uint64_t bytes, uint64_t alignment,
                            uint64_t *address) {
    return counted(taken.next.plain_allocate(s, device, bytes, alignment, address), taken.plain,
                   static_cast<int64_t>(bytes));
  };
  table.plain_free = [](weir_be_state *s, uint32_t device, uint64_t address, uint64_t bytes) {
    return counted(taken.next.plain_free(s, device, address, bytes), taken.plain,
                   -static_cast<int64_t>(bytes));
  };
  return &table;
}

void nothing_is_taken() {
  assert_int_equal(taken.streams.load(), 0);
  assert_int_equal(taken.pinned.load(), 0);
  assert_int_equal(taken.plain.load(), 0);
}

/// Each reading moves it on by a step, so that every run of copies takes one, whatever it copies.
class SteppingClock final : public weir::Clock {
 public:
  explicit SteppingClock(uint64_t step_ns) noexcept : step_ns_(step_ns) {}
  uint64_t now_ns() const noexcept override { return now_ns_ += step_ns_; }

 private:
  const uint64_t step_ns_;
  mutable uint64_t now_ns_ = 1'000'000;
};

constexpr uint64_t millisecond = 1'000'000;

weir_context open_counted(Balance *balance, const char *options, const weir::Clock *clock) {
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  const weir_backend_query_fn backends[] = {counting};
  desc.flags = WEIR_CONTEXT_NO_HOST_BACKEND | WEIR_CONTEXT_NO_SEARCH;
  desc.backend_count = 1;
  desc.backends = backends;
  desc.options = options;
  if (balance != nullptr) desc.allocator = {Balance::allocate, Balance::deallocate, balance, {}};
  weir_context context = nullptr;
  twice("weir_context_create", [&] { return weir_context_create(&desc, &context); });
  reinterpret_cast<weir::pool::Context *>(context)->clock = clock;
  return context;
}

weir_link_info link_of(weir_context context, weir_device from, weir_device to) {
  weir_link_info link = WEIR_LINK_INFO_INIT;
  twice("weir_link_info_get", [&] { return weir_link_info_get(context, from, to, &link); });
  return link;
}

uint32_t measured_links(weir_context context) {
  uint32_t count = 0;
  for (const weir_device from : {0U, 1U, WEIR_DEVICE_HOST})
    for (const weir_device to : {0U, 1U, WEIR_DEVICE_HOST})
      count += link_of(context, from, to).source == WEIR_LINK_FIGURE_MEASURED ? 1 : 0;
  return count;
}

/// Two devices, six links. A clock that ends each size of copy after few steps keeps a run short.
void measure_with_a_fault(Balance *balance) {
  const CacheFolder folder;
  interposed.interpose.store(strike);
  const SteppingClock clock(10 * millisecond);
  weir_context context = open_counted(
      balance, "host.devices=2;host.memory=4M;host.granule=16K;host.granule_large=0", &clock);
  weir_calibrate_desc desc = WEIR_CALIBRATE_DESC_INIT;
  desc.max_bytes = 256U << 10U;
  weir_calibrate_report report = WEIR_CALIBRATE_REPORT_INIT;
  const bool earlier = faults.struck();
  const weir_result first = weir_topology_calibrate(context, &desc, &report);
  faults.armed.store(false);
  sensible(first, "weir_topology_calibrate");
  nothing_is_taken();
  if (first == WEIR_SUCCESS) {
    assert_int_equal(report.skipped, 0);
    assert_int_equal(report.measured + report.failed, 6);
    // One call that fails costs one link, or both ways of one; where there was no room less is taken. The last wait for a
    // stream, before its end, is tried again.
    const bool costs = faults.struck() && !earlier && faults.kind == Kind::backend;
    const bool may_cost_none = std::strcmp(faults.what(), "stream_synchronize") == 0;
    assert_true(report.failed <= (costs ? 2U : 0U));
    assert_true(!costs || may_cost_none || report.failed > 0);
    assert_int_equal(measured_links(context), report.measured);
    assert_int_equal(report.saved, 1);
  }
  ok(weir_topology_calibrate(context, &desc, &report));
  assert_int_equal(report.measured, 6);
  assert_int_equal(measured_links(context), 6);
  nothing_is_taken();
  assert_int_equal(folder.files().size(), 1);
  ok(weir_context_destroy(context));
}

void every_backend_call_fails_once(void **) { sweep(Kind::backend, 0, 100, measure_with_a_fault); }
void memory_is_refused_once(void **) { sweep(Kind::device_oom, 0, 3, measure_with_a_fault); }
void every_allocation_fails_once(void **) { sweep(Kind::allocator, 0, 5, measure_with_a_fault); }

/// Each run takes a step of 1 ms: the largest is what is measured, 64 times the 64 KiB of an end.
void figures_follow_the_clock(void **) {
  const CacheFolder folder;
  interposed.interpose.store(nullptr);
  const SteppingClock clock(millisecond);
  weir_context context = open_counted(
      nullptr, "host.devices=2;host.memory=4M;host.granule=16K;host.granule_large=0", &clock);
  weir_calibrate_desc desc = WEIR_CALIBRATE_DESC_INIT;
  desc.max_bytes = 128U << 10U;
  weir_calibrate_report report = WEIR_CALIBRATE_REPORT_INIT;
  ok(weir_topology_calibrate(context, &desc, &report));
  assert_int_equal(report.measured, 6);
  const weir_link_info link = link_of(context, 0, 1);
  assert_int_equal(link.bandwidth, uint64_t{64 * 64 * 1024} * 1000);
  assert_int_equal(link.latency_ns, millisecond);
  ok(weir_context_destroy(context));
  nothing_is_taken();
}

/// Less time: smaller runs, and at the end links that are not reached; never much more than the bound.
void time_is_shared_and_kept(void **) {
  const CacheFolder folder;
  interposed.interpose.store(nullptr);
  for (const uint64_t limit_ms : {1U, 20U, 60U, 100U, 1000U}) {
    const SteppingClock clock(millisecond);
    weir_context context = open_counted(
        nullptr, "host.devices=4;host.memory=4M;host.granule=16K;host.granule_large=0", &clock);
    weir_calibrate_desc desc = WEIR_CALIBRATE_DESC_INIT;
    desc.flags = WEIR_CALIBRATE_NO_CACHE;
    desc.max_bytes = 256U << 10U;
    desc.max_ns = limit_ms * millisecond;
    weir_calibrate_report report = WEIR_CALIBRATE_REPORT_INIT;
    ok(weir_topology_calibrate(context, &desc, &report));
    assert_int_equal(report.measured + report.skipped, 20);
    assert_int_equal(report.failed, 0);
    assert_true((limit_ms >= 1000) == (report.skipped == 0));
    assert_true(limit_ms > 1 || report.skipped == 20);
    // A pair that is begun is ended: with few copies, which are a dozen steps each way.
    assert_true(report.elapsed_ns < (limit_ms + 40) * millisecond);
    ok(weir_context_destroy(context));
    nothing_is_taken();
  }
}

weir_context measuring = nullptr;
uint32_t refusals = 0;

/// While a link is measured questions about links are answered, and a second calibration is refused.
weir_result look_while_measuring(const char *entry) {
  if (std::strcmp(entry, "copy_async") != 0 || refusals != 0) return WEIR_SUCCESS;
  ++refusals;
  weir_link_info link = WEIR_LINK_INFO_INIT;
  ok(weir_link_info_get(measuring, 0, 1, &link));
  expect_result(WEIR_ERROR_BUSY, weir_topology_calibrate(measuring, nullptr, nullptr));
  return WEIR_SUCCESS;
}

void one_calibration_at_a_time(void **) {
  const CacheFolder folder;
  interposed.interpose.store(look_while_measuring);
  measuring = open_counted(
      nullptr, "host.devices=2;host.memory=4M;host.granule=16K;host.granule_large=0", nullptr);
  weir_calibrate_desc desc = WEIR_CALIBRATE_DESC_INIT;
  desc.max_bytes = 256U << 10U;
  desc.max_ns = 100 * millisecond;
  ok(weir_topology_calibrate(measuring, &desc, nullptr));
  assert_int_equal(refusals, 1);
  interposed.interpose.store(nullptr);
  ok(weir_topology_calibrate(measuring, &desc, nullptr));
  ok(weir_context_destroy(measuring));
  nothing_is_taken();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(every_backend_call_fails_once), cmocka_unit_test(memory_is_refused_once),
      cmocka_unit_test(every_allocation_fails_once),   cmocka_unit_test(figures_follow_the_clock),
      cmocka_unit_test(time_is_shared_and_kept),       cmocka_unit_test(one_calibration_at_a_time),
  };
  return cmocka_run_group_tests_name("measuring links, with faults", tests, nullptr, nullptr);
}
