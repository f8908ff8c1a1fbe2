// SPDX-License-Identifier: Apache-2.0
//
// Gate: holds the thread that comes to a named point of a pool's engine (core/base/seq_points.hpp) until the
// test lets it go, and Task: a thread with a result. With them an interleaving is made, not waited for. A gate
// lets every thread pass but the first one that comes to the point it is set to; it never holds two.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "core/pool/pool.hpp"

namespace weir::test {

class Gate {
 public:
  /// Set to `point` from the start, so that no thread can slip through before the test is ready for it.
  Gate(weir_pool pool, const char *point)
      : points_(reinterpret_cast<pool::Pool *>(pool)->engine().points), point_(point) {
    points_.listen(&Gate::arrive, this);
  }
  ~Gate() {
    open();
    points_.leave(this);
  }
  Gate(const Gate &) = delete;
  Gate &operator=(const Gate &) = delete;

  /// Until a thread stands at the gate.
  void await() {
    std::unique_lock hold(mutex_);
    changed_.wait(hold, [this] { return standing_; });
  }
  bool standing() {
    const std::lock_guard hold(mutex_);
    return standing_;
  }
  /// Lets the thread go that stands there, and all that come after.
  void open() { next(""); }
  /// Lets the thread go that stands there; the next thread that comes to `point` is held.
  void next(const char *point) {
    std::lock_guard hold(mutex_);
    point_ = point;
    standing_ = false;
    ++turn_;
    changed_.notify_all();
  }

 private:
  static void arrive(void *user, const char *point) {
    auto *self = static_cast<Gate *>(user);
    std::unique_lock hold(self->mutex_);
    if (self->standing_ || self->point_ != point) return;
    self->standing_ = true;
    self->changed_.notify_all();
    self->changed_.wait(hold, [self, turn = self->turn_] { return self->turn_ != turn; });
  }

  SeqPoints &points_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string point_;
  bool standing_ = false;
  uint64_t turn_ = 0;
};

/// A thread that ends in a result. It asserts nothing: a failed assertion must not leave by longjmp there.
class Task {
 public:
  template <typename Body>
  explicit Task(Body body)
      : thread_([this, body = std::move(body)] {
          result_ = body();
          ended_.store(true);
        }) {}
  bool ended() const { return ended_.load(); }
  weir_result join() {
    thread_.join();
    return result_;
  }

 private:
  weir_result result_ = WEIR_NOT_READY;
  std::atomic<bool> ended_{false};
  std::thread thread_;  // the last member: it starts when the rest is there
};

}  // namespace weir::test
