// SPDX-License-Identifier: Apache-2.0
//
// The order of a store's pieces, and the book of what is under way.

#include "core/tier/io_queue.hpp"

#include "core/base/clock.hpp"

#include <cassert>

namespace weir::tier {

IoQueue::Class IoQueue::class_of(const StorageIo &io) noexcept {
  if (io.write) return io.background ? background_write : demand_write;
  return io.background ? background_read : demand_read;
}

Signal &IoQueue::signal_of(const StorageIo *io) noexcept {
  constexpr size_t count = sizeof done_ / sizeof done_[0];
  return done_[reinterpret_cast<uintptr_t>(io) / sizeof(StorageIo) % count];
}

void IoQueue::submit(StorageIo *io) noexcept {
  assert(reinterpret_cast<uintptr_t>(io->memory) % UnitArena::unit == 0);
  IoSleeper *sleeper = nullptr;
  {
    Guard hold(mutex_);
    io->error = 0;
    io->total = UnitArena::rounded(io->bytes);
    io->started = 0;
    io->running = 0;
    io->next = nullptr;
    if (io->total == 0) return;
    io->pending.store(1, std::memory_order_relaxed);
    if (io->write) {
      const uint64_t ticket = next_ticket_++;
      while (ticket != serving_ || (behind_ != 0 && behind_ + io->total > limits_.write_behind))
        room_.wait(hold);
      ++serving_;
      behind_ += io->total;
      if (serving_ != next_ticket_) room_.notify_all();
    }
    const Class which = class_of(*io);
    if (which == demand_read) ++demand_;
    Line &line = lines_[which];
    (line.last != nullptr ? line.last->next : line.first) = io;
    line.last = io;
    if (choose(true) != classes) sleeper = take_sleeper();
  }
  if (sleeper != nullptr) sleeper->wake();
}

void IoQueue::wait(StorageIo *io) noexcept {
  if (io->pending.load(std::memory_order_acquire) == 0) return;
  Guard hold(mutex_);
  while (io->pending.load(std::memory_order_acquire) != 0) signal_of(io).wait(hold);
}

bool IoQueue::may_start(Class which, uint64_t bytes) const noexcept {
  if (which == demand_read)
    return running_[which] == 0 || running_[which] + bytes <= limits_.demand_reads;
  if (other_pieces_ >= limits_.other_pieces) return false;
  if (which == background_read)
    return running_[which] == 0 || running_[which] + bytes <= limits_.background_reads;
  const uint64_t running = running_[demand_write] + running_[background_write];
  if (running == 0 || running + bytes <= limits_.writes_beside_demand) return true;
  if (running + bytes > limits_.writes || demand_ != 0) return false;
  return quiet_at_ == 0 || Clock().now_ns() >= quiet_at_;
}

/// `classes`: nothing may start now.
IoQueue::Class IoQueue::choose(bool writes) const noexcept {
  static constexpr Class reads_first[] = {demand_read, background_read, demand_write,
                                          background_write};
  static constexpr Class writes_first[] = {demand_write, background_write, demand_read,
                                           background_read};
  const bool turn = reads_since_write_ >= limits_.reads_per_write;
  for (const Class which : turn ? writes_first : reads_first) {
    const StorageIo *first = lines_[which].first;
    if (first == nullptr || (first->write && !writes)) continue;
    if (may_start(which, next_run(*first).bytes)) return which;
  }
  return classes;
}

Stripes::Run IoQueue::next_run(const StorageIo &io) const noexcept {
  return stripes_.run(UnitArena::offset(io.slot) + io.started, io.total - io.started);
}

IoQueue::Next IoQueue::next(IoSleeper *lane, bool writes, Piece *piece) noexcept {
  IoSleeper *sleeper = nullptr;
  {
    const Guard hold(mutex_);
    if (lane->asleep) {  // woken by something else than us
      IoSleeper **at = &asleep_;
      while (*at != lane) at = &(*at)->next_asleep;
      *at = lane->next_asleep;
      lane->asleep = false;
    }
    const Class which = choose(writes);
    if (which == classes) {
      if (stopping_) return Next::stop;
      lane->asleep = true;
      lane->next_asleep = asleep_;
      asleep_ = lane;
      return Next::none;
    }
    take(which, piece);
    // A lane that takes a piece wakes the next if there is another piece: as many lanes work as there is work for.
    if (choose(true) != classes) sleeper = take_sleeper();
  }
  if (sleeper != nullptr) sleeper->wake();
  return Next::piece;
}

void IoQueue::take(Class which, Piece *piece) noexcept {
  StorageIo *io = lines_[which].first;
  const Stripes::Run run = next_run(*io);
  *piece = {.io = io,
            .memory = static_cast<unsigned char *>(io->memory) + io->started,
            .line = UnitArena::offset(io->slot) + io->started,
            .file = run.file,
            .offset = run.offset,
            .bytes = run.bytes};
  io->started += run.bytes;
  ++io->running;
  if (io->started == io->total) pop(which);
  running_[which] += run.bytes;
  if (which != demand_read) ++other_pieces_;
  if (io->write) {
    reads_since_write_ = 0;
  } else if (lines_[demand_write].first != nullptr || lines_[background_write].first != nullptr) {
    reads_since_write_ += run.bytes;
  }
}

void IoQueue::pop(Class which) noexcept {
  Line &line = lines_[which];
  line.first = line.first->next;
  if (line.first == nullptr) line.last = nullptr;
}

void IoQueue::finish(const Piece &piece, int error) noexcept {
  const Guard hold(mutex_);
  StorageIo *io = piece.io;
  const Class which = class_of(*io);
  running_[which] -= piece.bytes;
  if (which != demand_read) --other_pieces_;
  --io->running;
  if (error == 0) {
    (io->write ? written_ : read_).fetch_add(piece.bytes, std::memory_order_relaxed);
  } else if (io->error == 0) {
    errors_.fetch_add(1, std::memory_order_relaxed);
    io->error = error;
    io->error_file = piece.file;
    io->error_offset = piece.offset;
    // The rest of it is not started. One that has pieces and is not all started is the first of its line.
    if (io->started != io->total) {
      assert(lines_[which].first == io);
      pop(which);
      io->started = io->total;
    }
  }
  if (io->started == io->total && io->running == 0) complete(io);
}

void IoQueue::complete(StorageIo *io) noexcept {
  if (io->write) {
    behind_ -= io->total;
    if (serving_ != next_ticket_) room_.notify_all();
  } else if (!io->background) {
    --demand_;
    if (limits_.quiet_ns != 0) quiet_at_ = Clock().now_ns() + limits_.quiet_ns;
  }
  Signal &signal = signal_of(io);
  io->pending.store(0, std::memory_order_release);  // from here on it is the caller's again
  signal.notify_all();
}

void IoQueue::stop() noexcept {
  Guard hold(mutex_);
  stopping_ = true;
  while (IoSleeper *sleeper = take_sleeper()) hold.unlocked([sleeper] { sleeper->wake(); });
}

IoSleeper *IoQueue::take_sleeper() noexcept {
  IoSleeper *sleeper = asleep_;
  if (sleeper == nullptr) return nullptr;
  asleep_ = sleeper->next_asleep;
  sleeper->asleep = false;
  return sleeper;
}

}  // namespace weir::tier
