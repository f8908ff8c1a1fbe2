// SPDX-License-Identifier: Apache-2.0
//
// LockHolder: what is done beside it has not taken the pool's lock, or would hang.
#pragma once

#include <atomic>
#include <thread>

#include "tests/unit/interleaving.hpp"

namespace weir::test {

/// Another thread that holds the pool's lock for as long as it lives.
class LockHolder {
 public:
  explicit LockHolder(World &world)
      : thread_([this, &world] {
          const weir::Locked lock(engine_of(world).sync().lock);
          held_ = true;
          held_.notify_all();
          ended_.wait(false);
        }) {
    held_.wait(false);
  }
  ~LockHolder() {
    ended_ = true;
    ended_.notify_all();
    thread_.join();
  }
  LockHolder(const LockHolder &) = delete;
  LockHolder &operator=(const LockHolder &) = delete;

 private:
  std::atomic<bool> held_{false}, ended_{false};
  std::thread thread_;
};

}  // namespace weir::test
