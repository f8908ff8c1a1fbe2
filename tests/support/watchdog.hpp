// SPDX-License-Identifier: Apache-2.0
//
// Watchdog: ends the program with the name of the call that does not come back. It makes nothing right: a test that may hang
// says where, in place of the runner's time limit, which says nothing.
#pragma once

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

namespace weir::test {

class Watchdog {
 public:
  explicit Watchdog(std::chrono::seconds patience = std::chrono::seconds(60))
      : patience_(patience), thread_([this] { watch(); }) {}
  ~Watchdog() { stop(); }
  Watchdog(const Watchdog &) = delete;
  Watchdog &operator=(const Watchdog &) = delete;

  /// What is called from now on; the time begins anew.
  void at(const char *call) {
    const std::lock_guard hold(mutex_);
    call_ = call;
    ++calls_;
    changed_.notify_all();
  }
  /// Destructors do not run where an assertion fails, so tests end it themselves.
  void stop() {
    {
      const std::lock_guard hold(mutex_);
      if (stopped_) return;
      stopped_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

 private:
  void watch() {
    std::unique_lock hold(mutex_);
    while (!stopped_) {
      const unsigned seen = calls_;
      if (changed_.wait_for(hold, patience_, [&] { return stopped_ || calls_ != seen; })) continue;
      std::fprintf(stderr, "watchdog: does not come back: %s\n", call_);
      std::fflush(nullptr);
      _exit(98);
    }
  }

  const std::chrono::seconds patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const char *call_ = "nothing yet";
  unsigned calls_ = 0;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace weir::test
