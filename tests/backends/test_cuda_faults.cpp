// SPDX-License-Identifier: Apache-2.0
//
// A fault sweep over the CUDA backend: in one scenario that uses every group, each call of the driver fails once, at
// every position, with several codes. Whatever failed: nothing is left alive at the end, nothing was misused, the
// thread's context is as it was, what could not be ended can be ended the second time, and bytes that a successful copy
// should have brought are there.

#include "tests/backends/cuda_fixture.hpp"
#include "tests/support/stride.hpp"

#include <sys/mman.h>
#include <unistd.h>

namespace {

using namespace weir::test;

const weir_backend_table &t = cuda_table();
constexpr uint64_t unit = 64 << 10U;
const char *const machine =
    "devices=2;links=nvlink;memory=8M;granule=64K;export_fabric=1;mode=strict";

uint64_t address_of(const void *memory) { return reinterpret_cast<uintptr_t>(memory); }

/// One run of the scenario on a started backend. A call that fails leaves its object out of what follows.
class Run {
 public:
  explicit Run(weir_be_state *state) : state_(state) {}

  void all() {
    describe();
    memory();
    if (streams_[0] != nullptr && streams_[1] != nullptr) work();
    share();
    end();
  }

 private:
  template <class Entry, class... Args>
  bool call(Entry entry, Args... args) {
    const weir_result result = entry(state_, args...);
    if (result < 0) {
      const int64_t native = t.last_error_code(state_);
      assert_int_not_equal(native, 0);
      assert_int_not_equal(t.error_text(state_, native)[0], '\0');
    }
    return result == WEIR_SUCCESS;
  }
  /// What ends something may fail once, and then nothing has changed.
  template <class Entry, class... Args>
  void end(Entry entry, Args... args) {
    if (!call(entry, args...)) assert_true(call(entry, args...));
  }

  void describe() {
    weir_be_device device{};
    device.struct_size = sizeof device;
    weir_be_link link{};
    link.struct_size = sizeof link;
    uint64_t free_bytes = 0, total = 0;
    for (uint32_t i = 0; i < 2; ++i) {
      call(t.device_describe, i, &device);
      call(t.device_memory, i, &free_bytes, &total);
      call(t.link_describe, i, WEIR_DEVICE_HOST, &link);
      call(t.link_describe, i, 1 - i, &link);
      call(t.peer_enable, i, 1 - i);
    }
  }

  void memory() {
    for (uint32_t i = 0; i < 2; ++i) {
      call(t.stream_create, i, uint64_t{0}, &streams_[i]);
      call(t.plain_allocate, i, unit, uint64_t{256}, &plain_[i]);
    }
    call(t.stream_wrap, 0U, static_cast<void *>(nullptr), &legacy_);
    call(t.host_allocate, unit, &pinned_);
    void *lazy = mmap(nullptr, unit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(lazy, MAP_FAILED);
    own_ = lazy;
    registered_ = call(t.host_register, own_, unit);
    const uint64_t flags = WEIR_BE_GRANULE_EXPORT_FD | WEIR_BE_GRANULE_EXPORT_FABRIC;
    call(t.granule_create, 0U, 2 * unit, flags, &granule_);
    call(t.range_reserve, 0U, 4 * unit, unit, &range_);
    if (granule_ == 0 || range_ == 0) return;
    const uint32_t peer = 1;
    mapped_[0] = call(t.map, 0U, range_, unit, granule_, uint64_t{0}, &peer, 1U);
    mapped_[1] = call(t.map, 0U, range_ + 2 * unit, 2 * unit, granule_, uint64_t{0}, nullptr, 0U);
  }

  void work() {
    if (pinned_ == nullptr) return;
    auto *bytes = static_cast<uint8_t *>(pinned_);
    std::memset(bytes, 0x11, unit / 2);
    const uint64_t there = mapped_[0] ? range_ : plain_[0];
    if (there == 0) return;
    const uint64_t half = unit / 4;
    const weir_be_copy up[3] = {{there, address_of(bytes), half},
                                {there + half, address_of(bytes) + half, 64},
                                {there + half + 64, address_of(bytes) + half + 64, half - 64}};
    const weir_be_copy down{address_of(bytes) + unit / 2, there, unit / 2};
    weir_be_fence fence = 0, second = 0;
    const bool sent = call(t.copy_batch_async, streams_[0], &up[0], 3U);
    if (!call(t.fence_record, streams_[0], &fence)) fence = 0;
    const bool ordered = fence != 0 && call(t.stream_wait, streams_[1], fence);
    std::memset(bytes + unit / 2, 0, unit / 2);
    const bool back = sent && ordered && call(t.copy_async, streams_[1], &down);
    if (fence != 0) {
      call(t.fence_poll, fence);
      end(t.fence_destroy, fence);
    }
    if (call(t.fence_record, streams_[1], &second)) {
      call(t.fence_wait, second, UINT64_MAX);
      end(t.fence_destroy, second);
    }
    if (!call(t.stream_synchronize, streams_[1]))
      assert_true(call(t.stream_synchronize, streams_[1]));
    if (!call(t.stream_synchronize, streams_[0]))
      assert_true(call(t.stream_synchronize, streams_[0]));
    if (back) assert_memory_equal(bytes, bytes + unit / 2, unit / 2);
    call(t.fill_async, streams_[0], there, uint8_t{0x22}, unit / 2);
    int called = 0;
    const bool queued = call(t.stream_host_call, streams_[0], count, static_cast<void *>(&called));
    call(t.stream_check, streams_[0]);
    call(t.stream_query, streams_[0]);
    if (!call(t.stream_synchronize, streams_[0]))
      assert_true(call(t.stream_synchronize, streams_[0]));
    assert_int_equal(called, queued ? 1 : 0);
    // After the wait: nothing orders the two streams, and both write there.
    if (legacy_ != nullptr) {
      call(t.stream_check, legacy_);
      call(t.copy_batch_async, legacy_, &up[0], 2U);
      if (!call(t.stream_synchronize, legacy_)) assert_true(call(t.stream_synchronize, legacy_));
    }
  }
  static void count(void *called) { ++*static_cast<int *>(called); }

  void share() {
    if (granule_ == 0) return;
    int32_t fd = -1;
    weir_be_granule copy = 0;
    weir_be_fabric_handle handle{};
    if (call(t.granule_export, 0U, granule_, &fd)) {
      if (call(t.granule_import, 0U, fd, 2 * unit, &copy)) end(t.granule_destroy, 0U, copy);
      assert_int_equal(close(fd), 0);
    }
    if (call(t.granule_export_fabric, 0U, granule_, &handle) &&
        call(t.granule_import_fabric, 0U, &handle, 2 * unit, &copy)) {
      end(t.granule_destroy, 0U, copy);
    }
  }

  /// Half of it is left to stop(), in turns.
  void end() {
    if (mapped_[0]) end(t.unmap, 0U, range_, unit);
    if (mapped_[1]) end(t.unmap, 0U, range_ + 2 * unit, 2 * unit);
    if (granule_ != 0) end(t.granule_destroy, 0U, granule_);
    if (range_ != 0) end(t.range_free, 0U, range_, 4 * unit);
    if (plain_[0] != 0) end(t.plain_free, 0U, plain_[0], unit);
    if (streams_[0] != nullptr) end(t.stream_destroy, streams_[0]);
    if (pinned_ != nullptr) end(t.host_free, pinned_, unit);
    if (registered_) end(t.host_unregister, own_, unit);
    munmap(own_, unit);
    weir_be_granule left = 0;
    uint64_t place = 0;
    if (call(t.granule_create, 1U, unit, uint64_t{0}, &left) &&
        call(t.range_reserve, 1U, unit, unit, &place)) {
      call(t.map, 1U, place, unit, left, uint64_t{0}, nullptr, 0U);
    }
    void *pinned = nullptr;
    call(t.host_allocate, unit, &pinned);
  }

  weir_be_state *state_;
  weir_be_stream streams_[2] = {}, legacy_ = nullptr;
  uint64_t plain_[2] = {};
  void *pinned_ = nullptr, *own_ = nullptr;
  bool registered_ = false;
  weir_be_granule granule_ = 0;
  uint64_t range_ = 0;
  bool mapped_[2] = {};
};

/// The scenario with the n-th call failing; n = 0 = none. Returns how many calls there were.
uint64_t run(uint64_t n, abi::Result code) {
  sim().machine(machine);
  if (n != 0) sim().fail(nullptr, n, code);
  weir_be_start desc{sizeof desc, 0, "", nullptr, nullptr};
  weir_be_state *state = nullptr;
  const char *reason = nullptr;
  if (t.start(&desc, &state, &reason) == WEIR_SUCCESS) {
    Run(state).all();
    t.stop(state);
  } else {
    assert_int_not_equal(n, 0);
    assert_int_not_equal(reason[0], '\0');
  }
  const char *text = "";
  if (sim().alive(&text) != 0) {
    fail_msg("call %llu failing with %d: left alive: %s", static_cast<unsigned long long>(n), code,
             text);
  }
  if (sim().misuse(&text) != 0) {
    fail_msg("call %llu failing with %d: misuse: %s", static_cast<unsigned long long>(n), code,
             text);
  }
  const uint64_t calls = sim().calls(nullptr);
  sim().fail(nullptr, 0, 0);
  const ThreadState after = ThreadState::now();
  assert_null(after.context);
  assert_int_equal(after.mode, abi::capture_mode_global);
  return calls;
}

void sweep(abi::Result code) {
  uint64_t calls = run(0, 0);
  assert_true(calls > 100);
  const auto step = static_cast<uint64_t>(stride());
  for (uint64_t n = 1; n <= calls; n += step) run(n, code);
}

void every_call_out_of_memory(void **) { sweep(abi::result::out_of_memory); }
void every_call_with_an_unknown_error(void **) { sweep(abi::result::unknown); }
void every_call_with_an_invalid_value(void **) { sweep(abi::result::invalid_value); }
void every_call_without_a_context(void **) { sweep(abi::result::invalid_context); }

/// The device goes away at any moment: every entry answers, stop ends.
void the_device_is_lost_at_any_moment(void **) {
  const uint64_t calls = run(0, 0);
  for (uint64_t n = 1; n <= calls; n += 3) {
    sim().machine(machine);
    weir_be_start desc{sizeof desc, 0, "", nullptr, nullptr};
    weir_be_state *state = nullptr;
    const char *reason = nullptr;
    assert_int_equal(t.start(&desc, &state, &reason), WEIR_SUCCESS);
    weir_be_stream stream = nullptr;
    uint64_t address = 0, range = 0;
    weir_be_granule granule = 0;
    weir_be_fence fence = 0;
    if (n > 1) t.stream_create(state, 0, 0, &stream);
    if (n > 4) t.plain_allocate(state, 0, unit, 256, &address);
    if (n > 7) t.granule_create(state, 0, unit, 0, &granule);
    if (n > 10) t.range_reserve(state, 0, unit, unit, &range);
    if (n > 13)
      assert_int_equal(t.map(state, 0, range, unit, granule, 0, nullptr, 0), WEIR_SUCCESS);
    if (n > 16) assert_int_equal(t.fence_record(state, stream, &fence), WEIR_SUCCESS);
    sim().lose_device(0);
    if (n > 16) assert_int_equal(t.fence_wait(state, fence, UINT64_MAX), WEIR_ERROR_DEVICE_LOST);
    t.stop(state);
    if (n > 20) break;
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(every_call_out_of_memory),
      cmocka_unit_test(every_call_with_an_unknown_error),
      cmocka_unit_test(every_call_with_an_invalid_value),
      cmocka_unit_test(every_call_without_a_context),
      cmocka_unit_test(the_device_is_lost_at_any_moment),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
