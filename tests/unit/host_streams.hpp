// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the host backend's streams and copies share: a started backend, device memory, and a gate
// that holds a stream at a known point. Everything goes through the backend table. It must never sleep.
#pragma once

#include "backends/host/table.hpp"

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/cmocka.hpp"  // last: it has macros with plain names

namespace weir::test {

constexpr uint64_t mib = uint64_t{1} << 20U;

/// A started host backend. Options come after small defaults.
class HostBackend {
 public:
  explicit HostBackend(const std::string &options = "")
      : table_(weir_host_backend_query(WEIR_BACKEND_ABI_MAJOR)) {
    const std::string text = "memory=32M;granule=64K;granule_large=0;" + options;
    weir_be_start desc{};
    desc.struct_size = sizeof desc;
    desc.options = text.c_str();
    const char *reason = "";
    if (table_->start(&desc, &state_, &reason) != WEIR_SUCCESS) fail_msg("start: %s", reason);
  }
  HostBackend(const HostBackend &) = delete;
  HostBackend &operator=(const HostBackend &) = delete;
  ~HostBackend() { stop(); }

  void stop() {
    if (state_ != nullptr) table_->stop(state_);
    state_ = nullptr;
  }
  const weir_backend_table *operator->() const { return table_; }
  weir_be_state *state() const { return state_; }

  weir_be_stream stream(uint32_t device = 0) const {
    weir_be_stream made = nullptr;
    check(table_->stream_create(state_, device, 0, &made));
    return made;
  }
  weir_be_fence record(weir_be_stream stream) const {
    weir_be_fence fence = 0;
    check(table_->fence_record(state_, stream, &fence));
    assert_true(fence != 0);
    return fence;
  }
  uint64_t plain(uint64_t bytes, uint32_t device = 0) const {
    uint64_t address = 0;
    check(table_->plain_allocate(state_, device, bytes, 4096, &address));
    return address;
  }
  std::string refusal() const {
    return table_->error_text(state_, table_->last_error_code(state_));
  }
  void check(weir_result result) const {
    if (result != WEIR_SUCCESS) fail_msg("result %d: %s", result, refusal().c_str());
  }

 private:
  const weir_backend_table *table_;
  weir_be_state *state_ = nullptr;
};

/// Holds the streams it was put on until opened. Opened at the latest when it goes, so that a failing test ends.
class Gate {
 public:
  Gate() = default;
  Gate(const Gate &) = delete;
  Gate &operator=(const Gate &) = delete;

  void hold(const HostBackend &backend, weir_be_stream stream) {
    backend.check(backend->stream_host_call(backend.state(), stream, wait, this));
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  static void wait(void *user) {
    auto *gate = static_cast<Gate *>(user);
    std::unique_lock lock(gate->mutex_);
    gate->changed_.wait(lock, [gate] { return gate->open_; });
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

/// Numbers in the order in which streams came by.
class Record {
 public:
  struct Mark {
    Record *record;
    int value;
  };
  static void note(void *user) {
    const auto *mark = static_cast<const Mark *>(user);
    const std::lock_guard lock(mark->record->mutex_);
    mark->record->values_.push_back(mark->value);
  }
  std::vector<int> values() {
    const std::lock_guard lock(mutex_);
    return values_;
  }

 private:
  std::mutex mutex_;
  std::vector<int> values_;
};

}  // namespace weir::test
