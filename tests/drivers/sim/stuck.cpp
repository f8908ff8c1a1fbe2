// SPDX-License-Identifier: Apache-2.0
//
// Reading what is asked for, and the process that holds this one. It is a fork: it calls nothing but the kernel.

#include "tests/drivers/sim/stuck.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace weir::sim {
namespace {

struct Plan {
  std::string call;
  uint64_t nth = 0;  ///< 0: none
  int seconds = 0;
};

Plan read_plan() {
  Plan plan;
  const char *asked = std::getenv("WEIR_SIM_STUCK");
  if (asked == nullptr) return plan;
  const char *mine = std::getenv("WEIR_STEP");
  char step[128] = "", call[128] = "";
  unsigned long long nth = 0;
  int seconds = 0;
  if (std::sscanf(asked, "%127[^:]:%127[^:]:%llu:%d", step, call, &nth, &seconds) != 4) {
    std::fprintf(stderr, "weir_sim: WEIR_SIM_STUCK=%s is not STEP:CALL:N:SECONDS\n", asked);
    std::abort();
  }
  if (std::strcmp(step, "*") != 0 && (mine == nullptr || std::strcmp(step, mine) != 0)) return plan;
  plan.call = call;
  plan.nth = nth;
  plan.seconds = seconds;
  return plan;
}

/// A child in a session of its own that traces this process and never waits for it.
void be_held(int seconds) noexcept {
  int ready[2] = {-1, -1};
  if (pipe(ready) != 0) return;
  const pid_t held = getpid();
  const pid_t holder = fork();
  if (holder == 0) {
    (void)setsid();
    char go = 0;
    (void)!read(ready[0], &go, 1);  // until PR_SET_PTRACER is done
    (void)ptrace(PTRACE_SEIZE, held, nullptr, nullptr);
    for (int fd = 0; fd < 1024; ++fd) close(fd);  // nobody waits for a pipe's end
    (void)poll(nullptr, 0, seconds * 1000);
    _exit(0);
  }
  (void)prctl(PR_SET_PTRACER, holder, 0, 0, 0);
  (void)!write(ready[1], "", 1);
}

}  // namespace

void stuck_if_asked(const char *name, uint64_t own, uint64_t any) noexcept {
  static const Plan plan = read_plan();
  static std::atomic<bool> first{true};
  if (plan.nth == 0 || (plan.call == "*" ? any : plan.call == name ? own : 0) < plan.nth) return;
  if (first.exchange(false)) {
    std::fprintf(stderr, "weir_sim: stuck in %s\n", name);
    if (plan.seconds > 0) be_held(plan.seconds);
  }
  for (;;) pause();
}

}  // namespace weir::sim
