// SPDX-License-Identifier: Apache-2.0
//
// The workers of streams and the table that owns them. A worker takes its whole queue at a time, so that
// neither side allocates once the two vectors have grown to the queue's usual length.
#include "backends/host/stream.hpp"

#include "backends/common/signals.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace weir::host {
namespace {

constexpr uint64_t spin_ns = 4'000;

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

template <class Condition>
bool spin_for(Condition condition) noexcept {
  const uint64_t end = now_ns() + spin_ns;
  do {
    for (int i = 0; i < 16; ++i) {
      if (condition()) return true;
      pause();
    }
  } while (now_ns() < end);
  return false;
}

}  // namespace

void Stream::enqueue(const Operation *operations, size_t count) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    pending_.insert(pending_.end(), operations, operations + count);
    submitted_.store(submitted_.load(std::memory_order_relaxed) + count, std::memory_order_release);
    wake = asleep_;
    asleep_ = false;
  }
  if (wake) work_.notify_one();
}

bool Stream::wait(uint64_t sequence, uint64_t deadline_ns) noexcept {
  if (done(sequence)) return true;
  if (spin_for([&] { return done(sequence); })) return true;
  // Counted before the check: a worker that completes after the check sees the count and notifies.
  waiters_.fetch_add(1);
  bool reached = false;
  {
    std::unique_lock lock(mutex_);
    const auto passed = [&] { return completed_.load() >= sequence; };
    // Deadlines beyond what the clock's arithmetic holds are no deadlines.
    if (deadline_ns > static_cast<uint64_t>(INT64_MAX) / 2) {
      progress_.wait(lock, passed);
      reached = true;
    } else {
      const std::chrono::steady_clock::time_point end{
          std::chrono::nanoseconds(static_cast<int64_t>(deadline_ns))};
      reached = progress_.wait_until(lock, end, passed);
    }
  }
  waiters_.fetch_sub(1);
  return reached;
}

void Stream::complete(uint64_t sequence) noexcept {
  completed_.store(sequence);
  if (waiters_.load() == 0) return;
  // Taking the mutex puts the notification after a waiter's check and wait, never between them.
  { const std::lock_guard lock(mutex_); }
  progress_.notify_all();
}

bool Stream::next_batch() noexcept {
  const uint64_t completed = completed_.load(std::memory_order_relaxed);
  spin_for([&] { return submitted() != completed; });
  std::unique_lock lock(mutex_);
  while (pending_.empty()) {
    if (closing_) return false;
    asleep_ = true;
    work_.wait(lock);
  }
  asleep_ = false;
  batch_.clear();
  batch_.swap(pending_);
  return true;
}

void Stream::serve(StreamTable &table) noexcept {
  uint64_t sequence = completed_.load(std::memory_order_relaxed);
  while (next_batch()) {
    for (const Operation &operation : batch_) {
      perform(operation, table);
      complete(++sequence);
    }
  }
  finished_.store(true, std::memory_order_release);
}

void Stream::perform(const Operation &operation, StreamTable &table) noexcept {
  switch (operation.kind) {
    case Operation::Kind::copy:
      copy(operation);
      return;
    case Operation::Kind::fill:
      if (operation.destination != nullptr)
        std::memset(operation.destination, operation.value, operation.bytes);
      break;
    case Operation::Kind::call:
      operation.function(operation.user);
      break;
    case Operation::Kind::wait:
      // A fence that has passed does not end the simulated time: link_clock_ is kept.
      if (table.stream_of(operation.fence)->done(StreamTable::sequence_of(operation.fence))) return;
      table.stream_of(operation.fence)->wait(StreamTable::sequence_of(operation.fence), UINT64_MAX);
      break;
  }
  link_clock_ = unknown;
}

void Stream::copy(const Operation &operation) noexcept {
  const auto move = [&operation] {
    if (operation.destination != nullptr)
      std::memcpy(operation.destination, operation.source, operation.bytes);
  };
  if (operation.link == nullptr) {
    move();
    link_clock_ = unknown;
    return;
  }
  // Simulated time goes on from where the previous copy ended in it, so that late wake-ups do not add up.
  const uint64_t ready =
      link_clock_ == unknown ? now_ns() : std::max(operation.enqueued_ns, link_clock_);
  const uint64_t end = operation.link->book(operation.bytes, ready, operation.with_latency);
  move();
  const uint64_t copied = now_ns();
  link_clock_ = std::max(end, copied);
  if (copied >= end) return;
  // Without bytes to move the end need not be met exactly: the thread sleeps, and does not spin on a processor.
  if (operation.destination != nullptr)
    wait_until(end);
  else
    wait_until(end, 0);
}

StreamTable::StreamTable() : streams_(std::allocator<Stream>().allocate(capacity)) {}

StreamTable::~StreamTable() {
  const size_t used = used_.load();
  // All are told first: one may wait for another's fence.
  for (size_t slot = 0; slot < used; ++slot) {
    if (streams_[slot].state_ == Stream::State::open) close(&streams_[slot]);
  }
  for (size_t slot = 0; slot < used; ++slot) {
    if (streams_[slot].worker_.joinable()) streams_[slot].worker_.join();
  }
  std::destroy_n(streams_, used);
  std::allocator<Stream>().deallocate(streams_, capacity);
}

Stream *StreamTable::free_slot() {
  const size_t used = used_.load();
  Stream *found = nullptr;
  for (size_t slot = 0; slot < used; ++slot) {
    Stream &each = streams_[slot];
    if (each.state_ == Stream::State::closing && each.finished_.load(std::memory_order_acquire)) {
      each.worker_.join();
      each.state_ = Stream::State::unused;
    }
    if (each.state_ == Stream::State::unused && found == nullptr) found = &each;
  }
  if (found != nullptr || used == capacity) return found;
  std::construct_at(streams_ + used, used);
  used_.store(used + 1, std::memory_order_release);
  return streams_ + used;
}

Stream *StreamTable::open(uint32_t device) {
  const std::lock_guard lock(mutex_);
  Stream *stream = free_slot();
  if (stream == nullptr) return nullptr;
  stream->device_ = device;
  stream->closing_ = stream->asleep_ = false;
  stream->finished_.store(false, std::memory_order_relaxed);
  stream->link_clock_ = 0;
  const common::SignalsBlocked blocked;
  stream->worker_ = std::thread([this, stream] { stream->serve(*this); });
  stream->state_ = Stream::State::open;
  return stream;
}

void StreamTable::close(Stream *stream) {
  const std::lock_guard lock(mutex_);
  stream->state_ = Stream::State::closing;
  {
    const std::lock_guard queue(stream->mutex_);
    stream->closing_ = true;
    stream->asleep_ = false;
  }
  stream->work_.notify_one();
}

bool StreamTable::is_open(const void *stream) const noexcept {
  const std::lock_guard lock(mutex_);
  for (size_t slot = 0; slot < used_.load(); ++slot) {
    if (&streams_[slot] == stream) return streams_[slot].state_ == Stream::State::open;
  }
  return false;
}

void StreamTable::drain_device(uint32_t device) noexcept {
  for (size_t slot = 0; slot < used_.load(); ++slot) {
    Stream &stream = streams_[slot];
    {
      const std::lock_guard lock(mutex_);
      if (stream.state_ == Stream::State::unused || stream.device_ != device) continue;
    }
    stream.wait(stream.submitted(), UINT64_MAX);
  }
}

}  // namespace weir::host
