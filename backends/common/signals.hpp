// SPDX-License-Identifier: Apache-2.0
//
// Signals are for the program's own threads: threads that a backend makes during the life of a SignalsBlocked take none.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace weir::common {

class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked &) = delete;
  SignalsBlocked &operator=(const SignalsBlocked &) = delete;

 private:
  sigset_t before_;
};

}  // namespace weir::common
