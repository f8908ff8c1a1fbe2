// SPDX-License-Identifier: Apache-2.0
//
// The scheduler: handing the turn on, and jumping to the next moment.
#include "tools/virtual_time/scheduler.hpp"

#include "tools/virtual_time/real.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace weir::virtual_time {

Scheduler::Thread *Scheduler::begin(bool carried) {
  running_ = new Thread;
  carried_ = carried;
  if (carried_) carry(running_->context);
  return running_;
}

Scheduler::Thread *Scheduler::add() {
  auto *thread = new Thread;
  ready_.push_back(thread);
  return thread;
}

void Scheduler::remove(Thread *thread) {
  std::erase(ready_, thread);
  delete thread;
}

bool Scheduler::wait(const void *key, uint64_t deadline) {
  Thread &self = *running_;
  self.key = key;
  self.deadline = deadline;
  self.order = ++orders_;
  self.timed_out = false;
  if (key != nullptr) waiting_[key].push_back(&self);
  if (deadline != never) moments_.emplace(deadline, self.order, &self);
  hand_on();
  return !self.timed_out;
}

void Scheduler::wake(const void *key, size_t most) {
  const auto found = waiting_.find(key);
  if (found == waiting_.end()) return;
  std::deque<Thread *> &threads = found->second;
  for (; most != 0 && !threads.empty(); --most) {
    Thread *thread = threads.front();
    threads.pop_front();
    if (thread->deadline != never) moments_.erase(Moment{thread->deadline, thread->order, thread});
    ready_.push_back(thread);
  }
  if (threads.empty()) waiting_.erase(found);
}

void Scheduler::look() {
  ++running_->looks;
  ++running_->spins;
  if (running_->looks <= free_looks && running_->spins <= free_spins) return;
  looking_.push_back(running_);
  hand_on(true);
}

void Scheduler::yield() {
  running_->spins += free_spins / free_yields;
  look();
}

void Scheduler::enter(Thread *thread) {
  if (!carried_) {
    take(thread);
    return;
  }
  park(thread->context);
  arrive();
}

void Scheduler::leave() {
  Thread *self = running_;
  self->ended = true;
  wake(self);
  if (!carried_) {
    give(next());
    return;
  }
  left_ = self;
  go_over_to(next());  // returns on the thread's own kernel thread, without the turn
}

/// Those whose moment has come are ready.
void Scheduler::expire() {
  while (!moments_.empty() && std::get<0>(*moments_.begin()) <= now_) {
    Thread *thread = std::get<2>(*moments_.begin());
    moments_.erase(moments_.begin());
    thread->timed_out = true;
    if (thread->key != nullptr) forget(thread);
    ready_.push_back(thread);
  }
}

/// It waits for its key no more.
void Scheduler::forget(Thread *thread) {
  const auto found = waiting_.find(thread->key);
  std::erase(found->second, thread);
  if (found->second.empty()) waiting_.erase(found);
}

Scheduler::Thread *Scheduler::next() {
  if (ready_.empty() && !looking_.empty()) {
    now_ += look_ns;
    if (!moments_.empty())
      now_ = std::min(now_, std::max(now_ - look_ns, std::get<0>(*moments_.begin())));
    expire();
    ready_.insert(ready_.end(), looking_.begin(), looking_.end());
    looking_.clear();
  }
  if (ready_.empty()) {
    if (moments_.empty()) {
      std::fprintf(stderr,
                   "virtual time: all threads wait, and for nothing that comes by itself\n");
      std::abort();
    }
    now_ = std::max(now_, std::get<0>(*moments_.begin()));
    expire();
  }
  Thread *thread = ready_.front();
  ready_.pop_front();
  return thread;
}

void Scheduler::hand_on(bool looks) {
  Thread *self = running_;
  if (!looks) self->looks = self->spins = 0;
  Thread *other = next();
  if (other == self) return;
  if (carried_) {
    go_over_to(other);
    arrive();
    return;
  }
  give(other);
  take(self);
}

void Scheduler::go_over_to(Thread *thread) {
  Thread *self = running_;
  running_ = thread;
  go_over(self->context, thread->context);
}

/// The carrier has come over from another thread.
void Scheduler::arrive() {
  if (left_ == nullptr) return;
  release(left_->context);
  left_ = nullptr;
}

void Scheduler::give(Thread *thread) {
  thread->turn.store(1, std::memory_order_release);
  real::futex_wake(&thread->turn);
}

void Scheduler::take(Thread *thread) {
  const int error = errno;
  while (thread->turn.load(std::memory_order_acquire) == 0) real::futex_wait(&thread->turn, 0);
  thread->turn.store(0, std::memory_order_relaxed);
  running_ = thread;
  errno = error;
}

}  // namespace weir::virtual_time
