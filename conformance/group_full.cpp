// SPDX-License-Identifier: Apache-2.0
//
// Devices that are full: what goes on there, on others, and when threads meet at the end. A device is filled only if it is small
// or the caller allows it; else there is nothing to look at, which is said.
#include "conformance/standing.hpp"

#include <array>
#include <memory>

namespace weir::conformance {
namespace {

constexpr uint64_t filled_unasked = uint64_t{1} << 30U;
constexpr uint64_t least_plain = 64 * kib;

constexpr const char *not_filled = "the device is not filled; --allow-oom would";

bool may_fill(const Test &t, const weir_be_device &about) {
  return t.settings.allow_oom || about.memory_total <= filled_unasked;
}

/// Holds all that a device has, in granules first and then in plain memory.
class Full {
 public:
  Full(Test &t, uint32_t device) : t_(t), device_(device) {}
  Outcome make(const weir_be_device &about) {
    if ((about.capabilities & WEIR_CAP_VMM) != 0) TRY(fill_granules(about));
    return fill_plain(about);
  }
  void clear() {
    granules_.clear();
    plains_.clear();
  }

 private:
  Outcome oom(weir_result result, const char *entry, uint64_t bytes) const {
    CHECK(result == WEIR_ERROR_DEVICE_OOM, "device ", device_, " is filled: ", entry, " of ", bytes,
          " bytes = ", result_name(result), ", wanted DEVICE_OOM");
    return {};
  }
  Outcome fill_granules(const weir_be_device &about) {
    const uint64_t unit = about.granule;
    for (uint64_t bytes = about.memory_total / 4 / unit * unit; bytes >= unit;) {
      weir_be_granule made = 0;
      const weir_result result = CALL_IN(t_, granule_create, device_, bytes, 0, &made);
      if (result == WEIR_SUCCESS) {
        granules_.push_back(std::make_unique<Granule>(t_, device_));
        granules_.back()->adopt(made);
        continue;
      }
      TRY(oom(result, "granule_create", bytes));
      bytes = bytes / 2 / unit * unit;
    }
    return {};
  }
  Outcome fill_plain(const weir_be_device &about) {
    for (uint64_t bytes = about.memory_total / 4; bytes >= least_plain;) {
      uint64_t address = 0;
      const weir_result result = CALL_IN(t_, plain_allocate, device_, bytes, 4096, &address);
      if (result == WEIR_SUCCESS) {
        plains_.push_back(std::make_unique<Plain>(t_, device_));
        plains_.back()->adopt(address, bytes);
        continue;
      }
      TRY(oom(result, "plain_allocate", bytes));
      bytes /= 2;
    }
    return {};
  }
  Test &t_;
  const uint32_t device_;
  std::vector<std::unique_ptr<Granule>> granules_;
  std::vector<std::unique_ptr<Plain>> plains_;
};

/// DEVICE_OOM for each kind and size, and nothing written.
Outcome nothing_left(Test &t, const Standing &s) {
  for (const uint64_t bytes : {least_plain, mib, 16 * mib}) {
    uint64_t address = untouched;
    ANSWERS(WEIR_ERROR_DEVICE_OOM, plain_allocate, s.device, bytes, 4096, &address);
    CHECK(address == untouched, "the refused call wrote ", address, " as an address");
  }
  if (s.unit == 0) return {};
  std::vector<uint64_t> all_flags{0};
  if (s.has(WEIR_CAP_EXPORT_FD)) all_flags.push_back(WEIR_BE_GRANULE_EXPORT_FD);
  if (s.has(WEIR_CAP_EXPORT_FABRIC)) all_flags.push_back(WEIR_BE_GRANULE_EXPORT_FABRIC);
  for (const uint64_t flags : all_flags) {
    for (const uint64_t units : {1U, 2U, 8U}) {
      weir_be_granule made = untouched;
      ANSWERS(WEIR_ERROR_DEVICE_OOM, granule_create, s.device, units * s.unit, flags, &made);
      CHECK(made == untouched, "the refused call wrote ", made, " as a handle");
    }
  }
  return {};
}

/// What needs no more memory of the device.
Outcome goes_on(Test &t, Standing &s) {
  TRY(s.whole());
  std::atomic<uint32_t> calls{0};
  if (s.has(WEIR_CAP_HOST_CALL)) {
    MUST(
        stream_host_call, s.stream.get(),
        [](void *user) { static_cast<std::atomic<uint32_t> *>(user)->fetch_add(1); }, &calls);
    TRY(s.stream.synchronize());
    CHECK(calls.load() == 1, "the host function was called ", calls.load(), " times");
  }
  if (s.has(WEIR_CAP_BATCH_COPY)) {
    const std::array<weir_be_copy, 2> copies{
        {{s.pinned.address(), s.plain.address(), Standing::bytes / 2},
         {s.pinned.address() + Standing::bytes / 2, s.plain.address() + Standing::bytes / 2,
          Standing::bytes / 2}}};
    MUST(copy_batch_async, s.stream.get(), copies.data(), 2);
    TRY(s.stream.synchronize());
    TRY(check_pattern(s.pinned.bytes(), 1, "what a batch brought"));
    make_pattern(s.pinned.bytes(), 2);
  }
  Fence mark(t);
  TRY(mark.record(s.stream));
  TRY(mark.wait());
  if (s.has(WEIR_CAP_EXPORT_FD)) {
    int32_t fd = -1;
    MUST(granule_export, s.device, s.leaving.get(), &fd);
    const Descriptor closes(fd);
  }
  return {};
}

REQUIRE(
    "FA-005", alone(),
    "A device that is full answers DEVICE_OOM to every kind and size, and goes on with all that "
    "needs no more of it.") {
  if (!may_fill(t, t.about)) return t.nothing(not_filled);
  Standing s(t, t.device);
  TRY(s.make());
  uint64_t before = 0;
  TRY(free_memory(t, &before));
  Full full(t, t.device);
  for (int round = 0; round < 2; ++round) {
    TRY(full.make(t.about));
    for (int i = 0; i < 20; ++i) {
      TRY(nothing_left(t, s));
      if (i % 5 == 0) TRY(goes_on(t, s));
    }
    full.clear();
    TRY(memory_back(t, before));
  }
  return s.everything();
}

REQUIRE("FA-006", alone(needs(0, 2)), "A device that is full leaves the others' memory to them.") {
  bool filled = false;
  for (uint32_t device = 0; device < t.device_count; ++device) {
    weir_be_device about;
    TRY(t.describe(device, &about));
    if (!may_fill(t, about)) continue;
    filled = true;
    Full full(t, device);
    TRY(full.make(about));
    for (uint32_t other = 0; other < t.device_count; ++other) {
      if (other == device) continue;
      Standing s(t, other);
      Outcome outcome = s.make();
      if (outcome.passed()) outcome = s.everything();
      if (!outcome.passed())
        return Outcome::failure(
            words("device ", device, " is full, on device ", other, ": ", outcome.text()));
    }
  }
  return filled ? Outcome{} : t.nothing("no device is filled; --allow-oom would");
}

REQUIRE(
    "FA-009", alone(),
    "Threads that meet at the end of memory get it or DEVICE_OOM, never more than there is, and "
    "give all of it back.") {
  if (!may_fill(t, t.about)) return t.nothing(not_filled);
  constexpr uint32_t count = 4;
  const bool granules = t.granule != 0;
  const uint64_t unit = std::max(t.granule, mib);
  const uint64_t bytes = std::max(t.about.memory_total / 64 / unit * unit, unit);
  uint64_t before = 0;
  TRY(free_memory(t, &before));
  std::atomic<uint64_t> held{0};
  Meeting meeting(count);
  TRY(in_threads(count, [&](uint32_t index) -> Outcome {
    Meeting::Guest guest(meeting);
    for (int round = 0; round < 10; ++round) {
      std::vector<std::unique_ptr<Granule>> own_granules;
      std::vector<std::unique_ptr<Plain>> own;
      weir_result result = WEIR_SUCCESS;
      while (result == WEIR_SUCCESS) {
        uint64_t made = 0;
        const bool physical = granules && index % 2 == 1;
        result = physical ? CALL(granule_create, t.device, bytes, 0, &made)
                          : CALL(plain_allocate, t.device, bytes, 4096, &made);
        if (result != WEIR_SUCCESS) break;
        held.fetch_add(bytes);
        if (physical) {
          own_granules.push_back(std::make_unique<Granule>(t));
          own_granules.back()->adopt(made);
        } else {
          own.push_back(std::make_unique<Plain>(t));
          own.back()->adopt(made, bytes);
        }
      }
      CHECK(result == WEIR_ERROR_DEVICE_OOM, "round ", round, ": ", bytes,
            " bytes are refused with ", result_name(result), ", wanted DEVICE_OOM");
      CHECK(CALL_IN(t, last_error_code) != 0, "DEVICE_OOM left the native code 0");
      guest.wait();
      CHECK(held.load() <= t.about.memory_total, "round ", round, ": threads hold ", held.load(),
            " bytes of a device of ", t.about.memory_total);
      guest.wait();
      held.fetch_sub(bytes * (own.size() + own_granules.size()));
    }
    return {};
  }));
  return memory_back(t, before);
}

}  // namespace
}  // namespace weir::conformance
