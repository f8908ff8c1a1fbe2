// SPDX-License-Identifier: Apache-2.0
//
// Pipes, deadlines and the ends of processes.
#include "conformance/running.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
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

/// Where there can be none, less is told.
Descriptor Running::make_page() {
  const Descriptor made(memfd_create("weir-conformance-calls", MFD_CLOEXEC));
  if (made.get() < 0 || ftruncate(made.get(), sizeof(CallPage)) != 0) return {};
  // A number that the new process's own descriptors do not take.
  Descriptor page(fcntl(made.get(), F_DUPFD_CLOEXEC, 16));
  if (page.get() < 0) return {};
  void *memory = mmap(nullptr, sizeof(CallPage), PROT_READ | PROT_WRITE, MAP_SHARED, page.get(), 0);
  if (memory == MAP_FAILED) return {};
  calls_.reset(static_cast<CallPage *>(memory));
  calls_->magic = CallPage::right;
  return page;
}

void Running::Unmap::operator()(CallPage *page) const noexcept { munmap(page, sizeof(CallPage)); }

std::string Running::told_end(const std::string &end) const {
  if (!calls_) return end;
  return weir::conformance::told_end(*calls_, end,
                                     timed_out_ ? under_way_ : calls_under_way(*calls_, ended_ns_));
}

std::string Running::last_calls() const {
  return calls_ ? weir::conformance::last_calls(*calls_) : "";
}

std::string Running::start(const std::vector<std::string> &arguments, uint64_t timeout_ns) {
  Descriptor tell, print;
  if (!make_pipe(&told_, &tell) || !make_pipe(&output_, &print))
    return std::string("no pipe: ") + std::strerror(errno);
  const Descriptor page = make_page();
  Spawn what;
  what.arguments = arguments;
  what.starter = tell.get();
  what.output = print.get();
  what.calls = page.get();
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
    if (calls_) under_way_ = calls_under_way(*calls_, now);
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
  // Until the leader is reaped, its group's number is given to no other group.
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

void wait_for_any(const std::vector<Running *> &running) {
  std::vector<pollfd> waiting;
  uint64_t deadline = UINT64_MAX;
  for (const Running *each : running) {
    for (const int fd : {each->told_descriptor(), each->output_descriptor()}) {
      if (fd >= 0) waiting.push_back({fd, POLLIN, 0});
    }
    // Once it has closed its pipes it is about to end, which no descriptor tells.
    const bool ending = each->told_descriptor() < 0;
    deadline = std::min(deadline, ending ? now_ns() + 1'000'000 : each->deadline_ns());
  }
  const uint64_t now = now_ns();
  const uint64_t left = deadline > now ? (deadline - now) / 1'000'000 + 1 : 0;
  (void)poll(waiting.data(), waiting.size(), static_cast<int>(std::min<uint64_t>(left, 1000)));
}

std::string run_to_end(Running &running, const std::vector<std::string> &arguments,
                       uint64_t timeout_ns) {
  if (std::string why = running.start(arguments, timeout_ns); !why.empty()) return why;
  while (!running.step()) wait_for_any({&running});
  return {};
}

}  // namespace weir::conformance
