// SPDX-License-Identifier: Apache-2.0
//
// Work as tasks of the host backend's queues, and what copies and fills do when their turn comes.

#include "tests/drivers/sim/stream.hpp"

#include "tests/drivers/sim/machine.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace weir::sim {
namespace {

class CopyTask final : public Task {
 public:
  explicit CopyTask(const Copy &copy) noexcept : copy_(copy) {}
  void run(Stream &stream, bool healthy) noexcept override {
    if (healthy) (void)stream.run_copy(copy_);
  }

 private:
  Copy copy_;
};

class FillTask final : public Task {
 public:
  FillTask(uint64_t address, uint32_t value, uint32_t width, uint64_t bytes) noexcept
      : address_(address), bytes_(bytes), value_(value), width_(width) {}
  void run(Stream &stream, bool healthy) noexcept override {
    if (healthy) (void)stream.run_fill(address_, value_, width_, bytes_);
  }

 private:
  uint64_t address_, bytes_;
  uint32_t value_, width_;
};

class HostTask final : public Task {
 public:
  HostTask(void (*function)(void *), void *user) noexcept : function_(function), user_(user) {}
  void run(Stream &, bool healthy) noexcept override {
    if (healthy) function_(user_);
  }

 private:
  void (*function_)(void *);
  void *user_;
};

/// Copies what both lists of pieces stand for, one after the other.
void move_pieces(const std::vector<Piece> &to, const std::vector<Piece> &from, uint64_t bytes) {
  size_t into = 0;
  size_t out_of = 0;
  uint64_t into_done = 0;
  uint64_t out_done = 0;
  while (bytes != 0) {
    const uint64_t step =
        std::min({bytes, to[into].bytes - into_done, from[out_of].bytes - out_done});
    std::memmove(to[into].memory + into_done, from[out_of].memory + out_done, step);
    bytes -= step;
    into_done += step;
    out_done += step;
    if (into_done == to[into].bytes) ++into, into_done = 0;
    if (out_done == from[out_of].bytes) ++out_of, out_done = 0;
  }
}

uint32_t end_of_link(const std::vector<Piece> &pieces) {
  return pieces.front().device == UINT32_MAX ? WEIR_DEVICE_HOST : pieces.front().device;
}

}  // namespace

Stream::~Stream() { machine_.close(queue_); }

void Task::perform(void *task) noexcept {
  const std::unique_ptr<Task> self(static_cast<Task *>(task));
  Stream &stream = *self->stream_;
  self->run(stream, stream.machine().trouble(stream.device()) == Answer::ok);
}

void Stream::tasks(std::vector<std::unique_ptr<Task>> tasks) {
  std::vector<host::Operation> operations(tasks.size());
  for (size_t i = 0; i < tasks.size(); ++i) {
    tasks[i]->stream_ = shared_from_this();
    operations[i].kind = host::Operation::Kind::call;
    operations[i].function = Task::perform;
    operations[i].user = tasks[i].get();
  }
  queue_->enqueue(operations.data(), operations.size());
  for (std::unique_ptr<Task> &task : tasks) (void)task.release();
}

void Stream::task(std::unique_ptr<Task> task) {
  task->stream_ = shared_from_this();
  host::Operation operation;
  operation.kind = host::Operation::Kind::call;
  operation.function = Task::perform;
  operation.user = task.get();
  queue_->enqueue(&operation, 1);
  (void)task.release();
}

void Stream::copy(const Copy *copies, size_t count) {
  std::vector<std::unique_ptr<Task>> all;
  all.reserve(count);
  for (size_t i = 0; i < count; ++i) all.push_back(std::make_unique<CopyTask>(copies[i]));
  tasks(std::move(all));
}

void Stream::fill(uint64_t address, uint32_t value, uint32_t width, uint64_t bytes) {
  task(std::make_unique<FillTask>(address, value, width, bytes));
}

void Stream::host_call(void (*function)(void *), void *user) {
  task(std::make_unique<HostTask>(function, user));
}

void Stream::wait(Point point) {
  if (machine_.passed(point)) return;
  host::Operation operation;
  operation.kind = host::Operation::Kind::wait;
  operation.fence = point.fence;
  queue_->enqueue(&operation, 1);
}

Answer Stream::run_copy(const Copy &copy) noexcept try {
  if (copy.bytes == 0) return Answer::ok;
  AddressSpace &addresses = machine_.addresses();
  const DeviceSet reach = copy.staged ? ~DeviceSet{0} : machine_.reach(device_);
  std::vector<Piece> to;
  std::vector<Piece> from;
  std::string why;
  if (addresses.resolve(copy.source, copy.bytes, device_, false, reach, &from, &why) !=
      Answer::ok) {
    return machine_.break_device(device_, "a copy reads " + why);
  }
  if (addresses.resolve(copy.destination, copy.bytes, device_, true, reach, &to, &why) !=
      Answer::ok) {
    return machine_.break_device(device_, "a copy writes " + why);
  }
  host::LinkMeter *link = machine_.links().path(end_of_link(from), end_of_link(to));
  uint64_t end = 0;
  if (link != nullptr) {
    // Simulated time goes on from where the last copy ended in it, so that late wake-ups do not add up.
    end = link->book(copy.bytes, std::max(host::now_ns(), link_clock_), true);
  }
  move_pieces(to, from, copy.bytes);
  if (link != nullptr) {
    link_clock_ = end;
    host::wait_until(end);
  }
  if (!addresses.still(copy.source, from) || !addresses.still(copy.destination, to)) {
    return machine_.break_device(device_, "memory was unmapped while a copy used it");
  }
  return Answer::ok;
} catch (...) {
  return machine_.break_device(device_, "no host memory for a copy");
}

Answer Stream::run_fill(uint64_t address, uint32_t value, uint32_t width, uint64_t bytes) noexcept
    try {
  if (bytes == 0) return Answer::ok;
  AddressSpace &addresses = machine_.addresses();
  std::vector<Piece> pieces;
  std::string why;
  if (addresses.resolve(address, bytes, device_, true, machine_.reach(device_), &pieces, &why) !=
      Answer::ok) {
    return machine_.break_device(device_, "a fill writes " + why);
  }
  unsigned char pattern[4];
  std::memcpy(pattern, &value, sizeof pattern);
  for (const Piece &piece : pieces) {
    if (width == 1) {
      std::memset(piece.memory, pattern[0], piece.bytes);
    } else {
      // Pieces begin and end at multiples of the width: granules and allocations do.
      for (uint64_t at = 0; at + width <= piece.bytes; at += width) {
        std::memcpy(piece.memory + at, pattern, width);
      }
    }
  }
  if (!addresses.still(address, pieces)) {
    return machine_.break_device(device_, "memory was unmapped while a fill used it");
  }
  return Answer::ok;
} catch (...) {
  return machine_.break_device(device_, "no host memory for a fill");
}

}  // namespace weir::sim
