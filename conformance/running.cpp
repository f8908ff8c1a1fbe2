// SPDX-License-Identifier: Apache-2.0
//
// Pipes, deadlines and the ends of processes.
#include "conformance/running.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weir::conformance {
namespace {

constexpr size_t most_output = 64 << 10U;
/// How long a process that was killed may take to end.
constexpr uint64_t dying_ns = 10'000'000'000;
constexpr uint64_t look_again_ns = 5'000'000;

/// Both ends close on exec; reading never blocks.
bool make_pipe(Descriptor *read_end, Descriptor *write_end) {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  *read_end = Descriptor(ends[0]);
  *write_end = Descriptor(ends[1]);
  return fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0;
}

/// Reads what is there; closes at the end of the file. What is too much is dropped.
void drain(Descriptor *from, std::string *text) {
  char part[4096];
  while (from->get() >= 0) {
    const ssize_t n = read(from->get(), part, sizeof part);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      from->reset();
      return;
    }
    if (text->size() < most_output) text->append(part, static_cast<size_t>(n));
  }
}

}  // namespace

std::string Running::start(const std::vector<std::string> &arguments, uint64_t timeout_ns) {
  Descriptor tell, print;
  if (!make_pipe(&told_, &tell) || !make_pipe(&output_, &print))
    return std::string("no pipe: ") + std::strerror(errno);
  Spawn what;
  what.arguments = arguments;
  what.starter = tell.get();
  what.output = print.get();
  what.own_group = true;
  started_ns_ = now_ns();
  deadline_ns_ = started_ns_ + timeout_ns;
  process_ = spawn(what);
  return process_ > 0 ? "" : std::string("no process: ") + std::strerror(errno);
}

bool Running::step() {
  drain(&output_, &output_text_);
  drain(&told_, &told_text_);
  const uint64_t now = now_ns();
  if (!timed_out_ && now >= deadline_ns_) {
    timed_out_ = true;
    gives_up_ns_ = now + dying_ns;
    ::kill(-process_, SIGKILL);
  }
  if (timed_out_) deadline_ns_ = now + look_again_ns;
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0) {
    if (!timed_out_ || now < gives_up_ns_) return false;
    stuck_ = true;
    ended_ns_ = now;
    process_ = -1;
    return true;
  }
  ended_ns_ = now_ns();
  // While the leader is not reaped its group's number is nobody else's.
  ::kill(-process_, SIGKILL);
  waitpid(process_, &status_, 0);
  process_ = -1;
  drain(&output_, &output_text_);
  drain(&told_, &told_text_);
  return true;
}

std::string Running::bad_end() const {
  if (stuck_) return "killed, and does not end";
  if (WIFSIGNALED(status_)) {
    const int signal = WTERMSIG(status_);
    return "killed by signal " + std::to_string(signal) + " (" + word(sigdescr_np(signal)) + ")";
  }
  if (WEXITSTATUS(status_) != 0)
    return "the process ended with " + std::to_string(WEXITSTATUS(status_));
  return {};
}

Running::~Running() {
  if (process_ <= 0) return;
  ::kill(-process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

}  // namespace weir::conformance
