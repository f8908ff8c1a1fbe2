// SPDX-License-Identifier: Apache-2.0
//
// A pool without VMM on a made-up runtime that has so much memory and no more, and on which a call can be stopped. What is held is counted
// there, on every call, and compared with what the pool says.
#pragma once

#include "core/physical/granule_pool.hpp"

#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/support/cmocka.hpp"

extern "C" const weir_backend_table *weir_host_backend_query(uint32_t abi_major);

namespace weir::test::segments {

using weir::Status;
using weir::backend::Device;
using weir::backend::Runtime;
using weir::physical::DoomedList;
using weir::physical::GranuleId;
using weir::physical::GranulePool;
using weir::physical::looks_a_grace;
using weir::physical::no_granule;
using weir::physical::PageClass;

constexpr uint64_t mib = uint64_t{1} << 20U;
constexpr uint64_t page = mib / 16;

/// Numbers instead of memory.
struct Machine {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t capacity = UINT64_MAX;  ///< bytes it has
  uint64_t budget = UINT64_MAX;    ///< the pool's: never to be passed
  uint64_t held = 0, most = 0;
  uint64_t next = uint64_t{1} << 40U;
  std::map<uint64_t, uint64_t> live;
  std::vector<uint64_t> asked;
  weir_result answer = WEIR_SUCCESS;  ///< of every call, if it is an error
  bool closed = false;                ///< calls stand until it is opened
  int standing = 0;
  bool passed = false;  ///< the budget was

  static weir_result allocate(weir_be_state *state, uint32_t, uint64_t bytes, uint64_t,
                              uint64_t *address) {
    auto *self = reinterpret_cast<Machine *>(state);
    std::unique_lock hold(self->mutex);
    self->asked.push_back(bytes);
    ++self->standing;
    self->changed.notify_all();
    self->changed.wait(hold, [self] { return !self->closed; });
    --self->standing;
    if (self->answer != WEIR_SUCCESS) return self->answer;
    if (self->held + bytes > self->capacity) return WEIR_ERROR_DEVICE_OOM;
    self->held += bytes;
    self->most = std::max(self->most, self->held);
    self->passed = self->passed || self->held > self->budget;
    *address = self->next;
    self->next += bytes + page;
    self->live[*address] = bytes;
    return WEIR_SUCCESS;
  }
  static weir_result free(weir_be_state *state, uint32_t, uint64_t address, uint64_t bytes) {
    auto *self = reinterpret_cast<Machine *>(state);
    const std::lock_guard hold(self->mutex);
    const auto found = self->live.find(address);
    if (found == self->live.end() || found->second != bytes) return WEIR_ERROR_INVALID_ARGUMENT;
    self->held -= bytes;
    self->live.erase(found);
    return WEIR_SUCCESS;
  }
  void open(bool yes) {
    const std::lock_guard hold(mutex);
    closed = !yes;
    changed.notify_all();
  }
  void await_standing() {
    std::unique_lock hold(mutex);
    changed.wait(hold, [this] { return standing != 0; });
  }
};

inline Machine *machine =
    nullptr;  ///< of the running test; a table has no user pointer before it is started

inline const weir_backend_table *query(uint32_t abi_major) {
  static weir_backend_table table{};
  const weir_backend_table *real = weir_host_backend_query(abi_major);
  if (real == nullptr) return nullptr;
  table = *real;
  table.start = [](const weir_be_start *, weir_be_state **state, const char **) -> weir_result {
    *state = reinterpret_cast<weir_be_state *>(machine);
    return WEIR_SUCCESS;
  };
  table.stop = [](weir_be_state *) {};
  table.plain_allocate = Machine::allocate;
  table.plain_free = Machine::free;
  return &table;
}

/// A pool on the machine. On the heap, because a failed assertion runs no destructors.
struct Bench {
  Machine own;
  Runtime runtime{std::pmr::get_default_resource()};
  Device device;
  std::unique_ptr<GranulePool> pool;
  bool alone = true;  ///< no other thread is at work

  explicit Bench(uint64_t budget, uint64_t segment_size = 0, uint64_t capacity = UINT64_MAX) {
    machine = &own;
    own.capacity = capacity;
    own.budget = budget;
    assert_true(runtime.adopt(query, "a machine of the test's own").ok());
    assert_true(runtime.start("", {}, weir::Log(), UINT64_MAX).ok());
    device.runtime = &runtime;
    pool = std::make_unique<GranulePool>(device, page, page, budget, segment_size,
                                         std::pmr::get_default_resource());
  }
  GranuleId claim(uint64_t bytes) {
    DoomedList doomed;
    const GranuleId id = pool->claim(PageClass::small, bytes, &doomed);
    assert_true(doomed.empty());
    return id;
  }
  /// Claimed and with memory, or no_granule with nothing claimed.
  GranuleId take(uint64_t bytes) {
    const GranuleId id = claim(bytes);
    if (id == no_granule) return id;
    if (pool->materialize(pool->at(id)).ok()) return id;
    pool->release(id);
    return no_granule;
  }
  uint64_t give(DoomedList *doomed, uint64_t taken) {
    for (const auto &old : *doomed) assert_true(pool->destroy(old).ok());
    for (const auto &old : *doomed) pool->forget(old);
    doomed->clear();
    return taken;
  }
  uint64_t trim(uint64_t bytes) {
    DoomedList doomed;
    const uint64_t taken = pool->take_idle(bytes, &doomed);
    return give(&doomed, taken);
  }
  uint64_t give_unneeded(uint64_t reserve, uint64_t most) {
    DoomedList doomed;
    const uint64_t taken = pool->take_unneeded(reserve, most, &doomed);
    return give(&doomed, taken);
  }
  /// Nothing is under way: what the pool says is what the machine knows.
  void check() {
    assert_string_equal(pool->validate().c_str(), "");
    assert_int_equal(pool->held(), own.held);
    // With several at once, what the machine refuses one of them may have been counted as another's was granted.
    if (alone) assert_int_equal(pool->peak(), own.most);
    assert_in_range(pool->peak(), own.most, pool->budget());
    assert_int_equal(pool->segments(), own.live.size());
    assert_true(pool->held() <= pool->budget());
    assert_false(own.passed);
  }
  void end() {
    pool.reset();
    assert_int_equal(own.held, 0);
    assert_int_equal(own.live.size(), 0);
  }
};

}  // namespace weir::test::segments
