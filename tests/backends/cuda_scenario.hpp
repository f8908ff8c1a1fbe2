// SPDX-License-Identifier: Apache-2.0
//
// One scenario over the CUDA backend that uses every entry, and by them every function of the driver that the backend knows.
// A call that fails leaves its object out of what follows. What a failure was told as is counted, for who tells the driver to
// fail with one code.
#pragma once

#include "tests/backends/cuda_fixture.hpp"

#include <sys/mman.h>
#include <unistd.h>

namespace weir::test {

inline constexpr uint64_t scenario_unit = 64 << 10U;
inline const char *const scenario_machine =
    "devices=2;links=nvlink;memory=8M;granule=64K;export_fabric=1;mode=strict";

inline uint64_t address_of(const void *memory) { return reinterpret_cast<uintptr_t>(memory); }

/// What the entries made of one code of the driver's.
struct Told {
  abi::Result code = 0;
  bool stays =
      false;  ///< the devices are broken with it: what ends may fail for good, and work is not done
  uint32_t lost = 0;     ///< told as DEVICE_LOST
  uint32_t other = 0;    ///< told as something else
  std::string sentence;  ///< of the last of those
};

/// One run of the scenario on a started backend.
class Scenario {
 public:
  explicit Scenario(weir_be_state *state, Told *told = nullptr) : state_(state), told_(told) {}

  void all() {
    describe();
    memory();
    if (streams_[0] != nullptr && streams_[1] != nullptr) work();
    runs();
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
      const char *text = t.error_text(state_, native);
      assert_int_not_equal(text[0], '\0');
      note(result, native, text);
    }
    return result == WEIR_SUCCESS;
  }
  void note(weir_result result, int64_t native, const char *text) {
    if (told_ == nullptr || native != told_->code) return;
    if (result == WEIR_ERROR_DEVICE_LOST) {
      ++told_->lost;
    } else {
      ++told_->other;
      told_->sentence = text;
    }
  }
  /// What was mapped on a lost device is given up at the first try, and what it was told to do is not done.
  bool doomed() const {
    return told_ != nullptr && (told_->lost != 0 || (told_->stays && told_->other != 0));
  }
  /// What ends something may fail once, and then nothing has changed.
  template <class Entry, class... Args>
  void end(Entry entry, Args... args) {
    if (!call(entry, args...) && !call(entry, args...) && !doomed()) {
      fail_msg("what was to end did not: %s", t.error_text(state_, t.last_error_code(state_)));
    }
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
    void *native = nullptr;
    if (streams_[1] != nullptr && call(t.stream_native, streams_[1], &native)) {
      weir_be_stream wrapped = nullptr;
      if (call(t.stream_wrap, 1U, native, &wrapped)) end(t.stream_destroy, wrapped);
    }
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
    end(t.stream_synchronize, streams_[1]);
    end(t.stream_synchronize, streams_[0]);
    if (back && !doomed()) assert_memory_equal(bytes, bytes + unit / 2, unit / 2);
    call(t.fill_async, streams_[0], there, uint8_t{0x22}, unit / 2);
    int called = 0;
    const bool queued = call(t.stream_host_call, streams_[0], count, static_cast<void *>(&called));
    call(t.stream_check, streams_[0]);
    call(t.stream_query, streams_[0]);
    end(t.stream_synchronize, streams_[0]);
    if (!doomed()) assert_int_equal(called, queued ? 1 : 0);
    // After the wait: nothing orders the two streams, and both write there.
    if (legacy_ != nullptr) {
      call(t.stream_check, legacy_);
      call(t.copy_batch_async, legacy_, &up[0], 2U);
      end(t.stream_synchronize, legacy_);
    }
  }
  static void count(void *called) { ++*static_cast<int *>(called); }

  void runs() {
    weir_be_piece pieces[2] = {{0, 0, unit}, {0, 0, unit}};
    uint64_t range = 0;
    const uint32_t peer = 1;
    bool whole = call(t.range_reserve, 0U, 2 * unit, unit, &range);
    for (weir_be_piece &each : pieces)
      whole = call(t.granule_create, 0U, unit, uint64_t{0}, &each.granule) && whole;
    if (whole && call(t.map_run, 0U, range, &pieces[0], 2U, nullptr, 0U)) {
      call(t.access_add, 0U, range, 2 * unit, &peer, 1U);
      end(t.unmap_run, 0U, range, 2 * unit);
    }
    for (const weir_be_piece &each : pieces) {
      if (each.granule != 0) end(t.granule_destroy, 0U, each.granule);
    }
    if (range != 0) end(t.range_free, 0U, range, 2 * unit);
    weir_be_stream transfers = nullptr;
    if (call(t.stream_create, 0U, uint64_t{WEIR_BE_STREAM_TRANSFER}, &transfers))
      end(t.stream_destroy, transfers);
  }

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

  static constexpr uint64_t unit = scenario_unit;
  const weir_backend_table &t = cuda_table();
  weir_be_state *state_;
  Told *told_;
  weir_be_stream streams_[2] = {}, legacy_ = nullptr;
  uint64_t plain_[2] = {};
  void *pinned_ = nullptr, *own_ = nullptr;
  bool registered_ = false;
  weir_be_granule granule_ = 0;
  uint64_t range_ = 0;
  bool mapped_[2] = {};
};

}  // namespace weir::test
