// SPDX-License-Identifier: Apache-2.0
//
// Processes of this same program, and what they say to each other. A test runs in the first kind; some tests
// start a second one, to hand memory to another process.
#pragma once

#include "conformance/fixtures.hpp"
#include "conformance/settings.hpp"

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace weir::conformance {

/// The descriptor on which a process made by spawn() finds its starter.
inline constexpr int starter_descriptor = 3;

/// A descriptor that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  Descriptor(Descriptor &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { reset(); }
  void reset() noexcept;
  int get() const noexcept { return fd_; }
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

struct Spawn {
  std::vector<std::string> arguments;
  int starter = -1;  ///< becomes starter_descriptor
  int output = -1;   ///< becomes stdout and stderr; -1 = as here
  int calls = -1;    ///< becomes calls_descriptor (calls.hpp); not starter_descriptor itself
  bool own_group = false;
};
/// Starts this program anew. -1 and errno on failure.
pid_t spawn(const Spawn &what);

/// A connection that carries numbers, sentences and descriptors.
class Channel {
 public:
  Channel() = default;
  explicit Channel(Descriptor socket) noexcept : socket_(std::move(socket)) {}
  Outcome send(uint64_t value, int fd = -1, Site site = Site::current());
  /// Fails if the other side has failed, is gone, or says nothing within the suite's patience.
  Outcome receive(uint64_t *value, Descriptor *fd = nullptr, Site site = Site::current());
  /// Tells the other side's receive() of a failure.
  void send_failure(const std::string &text);
  int get() const noexcept { return socket_.get(); }

 private:
  Descriptor socket_;
};

/// Another process with a backend of its own. It ends, by force if need be, with this object.
class Peer {
 public:
  explicit Peer(Test &t) noexcept : test_(t) {}
  ~Peer();
  Peer(const Peer &) = delete;
  Peer &operator=(const Peer &) = delete;
  /// Starts HELPER(name).
  Outcome start(const std::string &name, Site site = Site::current());
  /// Ends it as a crash would.
  void kill() noexcept;
  /// It must end by itself, without a complaint.
  Outcome join(Site site = Site::current());

  Channel channel;

 private:
  Test &test_;
  pid_t process_ = -1;
};

}  // namespace weir::conformance
