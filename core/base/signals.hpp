// SPDX-License-Identifier: Apache-2.0
//
// Signals are for the program's own threads: threads that Weir makes during the life of a SignalsBlocked take none. They inherit
// timers without slack, too: what waits on them is copies of some ten microseconds, and the usual slack is fifty.
#pragma once

#include "core/base/status.hpp"

#include <sys/prctl.h>

#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

namespace weir {

class SignalsBlocked {
 public:
  SignalsBlocked() noexcept : slack_(prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL)) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
    if (slack_ > 0) (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  }
  ~SignalsBlocked() {
    if (slack_ > 0)
      (void)prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack_), 0UL, 0UL, 0UL);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalsBlocked(const SignalsBlocked &) = delete;
  SignalsBlocked &operator=(const SignalsBlocked &) = delete;

 private:
  const int slack_;
  sigset_t before_{};
};

/// A thread of Weir's that does the work; `what` names it. OUT_OF_HOST_MEMORY where the system refuses it. Throws std::bad_alloc.
template <class Work>
Status start_thread(std::thread *thread, const char *what, Work &&work) {
  const SignalsBlocked blocked;
  try {
    *thread = std::thread(std::forward<Work>(work));
    return {};
  } catch (const std::system_error &error) {
    return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "cannot start %s: %s", what, error.what());
  }
}

}  // namespace weir
