// SPDX-License-Identifier: Apache-2.0
//
// list_own(): before a client's pages are looked through for one that can leave, the policy has to know which they are. It looks at
// some thousand records of the pool in one taking of the lock, and whoever waits for it comes in between.
#pragma once

#include "core/page/env.hpp"
#include "core/policy/policy.hpp"

#include <thread>

namespace weir::move {

/// From here on policy.choose() for the client looks at no others' pages. True: the lock was dropped meanwhile. Throws std::bad_alloc.
inline bool list_own(const Env &env, Releasable &lock, policy::Policy &policy,
                     uint32_t client) WEIR_HELD {
  bool dropped = false;
  while (!policy.list_own(client)) {
    lock.unlocked([&env] {
      env.sync.points.at("own.part");
      std::this_thread::yield();  // to who waits for it
    });
    dropped = true;
  }
  return dropped;
}

}  // namespace weir::move
