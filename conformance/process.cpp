// SPDX-License-Identifier: Apache-2.0
//
// Starting processes without a fork of our own, so that it may be done with threads running.
#include "conformance/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

namespace weir::conformance {
namespace {

/// What goes over a channel. A value of `failed` means that the text is a failure.
struct Message {
  uint64_t value = 0;
  char text[1016] = "";
};
constexpr uint64_t failed = UINT64_MAX;

std::string system_words() { return std::strerror(errno); }

class FileActions {
 public:
  FileActions() { posix_spawn_file_actions_init(&actions); }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions); }
  FileActions(const FileActions &) = delete;
  FileActions &operator=(const FileActions &) = delete;
  posix_spawn_file_actions_t actions;
};

class Attributes {
 public:
  Attributes() { posix_spawnattr_init(&attributes); }
  ~Attributes() { posix_spawnattr_destroy(&attributes); }
  Attributes(const Attributes &) = delete;
  Attributes &operator=(const Attributes &) = delete;
  posix_spawnattr_t attributes;
};

/// Room for one descriptor beside a message.
union Ancillary {
  char bytes[CMSG_SPACE(sizeof(int))];
  cmsghdr alignment;
};

}  // namespace

void Descriptor::reset() noexcept {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

pid_t spawn(const Spawn &what) {
  std::vector<std::string> words{"weir-conformance"};
  words.insert(words.end(), what.arguments.begin(), what.arguments.end());
  std::vector<char *> pointers;
  for (std::string &text : words) pointers.push_back(text.data());
  pointers.push_back(nullptr);

  FileActions files;
  posix_spawn_file_actions_addopen(&files.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (what.output >= 0) {
    posix_spawn_file_actions_adddup2(&files.actions, what.output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files.actions, what.output, STDERR_FILENO);
  }
  posix_spawn_file_actions_adddup2(&files.actions, what.starter, starter_descriptor);
  if (what.calls >= 0)
    posix_spawn_file_actions_adddup2(&files.actions, what.calls, calls_descriptor);
  Attributes attributes;
  if (what.own_group) {
    posix_spawnattr_setflags(&attributes.attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes.attributes, 0);
  }
  pid_t process = -1;
  const int error = posix_spawn(&process, "/proc/self/exe", &files.actions, &attributes.attributes,
                                pointers.data(), environ);
  if (error == 0) return process;
  errno = error;
  return -1;
}

Outcome Channel::send(uint64_t value, int fd, Site site) {
  Message message;
  message.value = value;
  iovec part{&message, sizeof message};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  Ancillary ancillary{};
  if (fd >= 0) {
    header.msg_control = ancillary.bytes;
    header.msg_controllen = sizeof ancillary.bytes;
    cmsghdr *control = CMSG_FIRSTHDR(&header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(control), &fd, sizeof fd);
  }
  if (sendmsg(socket_.get(), &header, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof message))
    return {};
  return Outcome::failure(place(site) +
                          ": nothing can be sent to the other process: " + system_words());
}

void Channel::send_failure(const std::string &text) {
  Message message;
  message.value = failed;
  std::memcpy(message.text, text.data(), std::min(text.size(), sizeof message.text - 1));
  (void)::send(socket_.get(), &message, sizeof message, MSG_NOSIGNAL);
}

Outcome Channel::receive(uint64_t *value, Descriptor *fd, Site site) {
  pollfd waiting{socket_.get(), POLLIN, 0};
  const int patience_ms = static_cast<int>(patience_ns / 1'000'000);
  CHECK(poll(&waiting, 1, patience_ms) == 1, place(site), ": the other process says nothing");
  Message message;
  iovec part{&message, sizeof message};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  Ancillary ancillary{};
  header.msg_control = ancillary.bytes;
  header.msg_controllen = sizeof ancillary.bytes;
  const ssize_t got = recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC);
  CHECK(got == static_cast<ssize_t>(sizeof message), place(site), ": the other process has ended");
  message.text[sizeof message.text - 1] = '\0';
  CHECK(message.value != failed, place(site), ": in the other process: ", message.text);
  const cmsghdr *control = CMSG_FIRSTHDR(&header);
  if (control != nullptr && control->cmsg_type == SCM_RIGHTS) {
    int received = -1;
    std::memcpy(&received, CMSG_DATA(control), sizeof received);
    Descriptor owned(received);
    if (fd != nullptr) *fd = std::move(owned);
  }
  *value = message.value;
  return {};
}

Outcome Peer::start(const std::string &name, Site site) {
  int ends[2] = {-1, -1};
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, place(site),
        ": no socket pair: ", system_words());
  channel = Channel(Descriptor(ends[0]));
  const Descriptor theirs(ends[1]);
  Spawn what;
  what.arguments = arguments_for(test_.settings, Settings::Role::helper, name);
  what.starter = theirs.get();
  what.calls = shared_calls();
  process_ = spawn(what);
  CHECK(process_ > 0, place(site), ": no other process: ", system_words());
  return {};
}

void Peer::kill() noexcept {
  if (process_ <= 0) return;
  ::kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
  process_ = -1;
}

Peer::~Peer() { kill(); }

Outcome Peer::join(Site site) {
  const uint64_t end = now_ns() + patience_ns;
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(process_, &status, WNOHANG)) == 0 && now_ns() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(ended == process_, place(site), ": the other process does not end");
  process_ = -1;
  CHECK(!WIFSIGNALED(status), place(site), ": the other process was killed by signal ",
        WTERMSIG(status));
  CHECK(WEXITSTATUS(status) == 0, place(site), ": the other process ended with ",
        WEXITSTATUS(status));
  return {};
}

}  // namespace weir::conformance
