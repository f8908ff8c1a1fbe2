// SPDX-License-Identifier: Apache-2.0
//
// Things of a backend that end themselves. Taking one down is a call like any other: a refusal fails the
// test. Members that can fail say where in the suite they were asked from. When the test has failed, destructors of memory and of
// streams wait first until no stream uses anything any more, or leave memory to the state's stop (rest.hpp); members never do.
#pragma once

#include "conformance/rest.hpp"
#include "conformance/session.hpp"
#include "conformance/test.hpp"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace weir::conformance {

/// How long the suite waits for what must happen before it calls it a failure.
inline constexpr uint64_t patience_ns = 20'000'000'000;

class Granule {
 public:
  explicit Granule(Session &session) noexcept : session_(session), device_(session.device) {}
  Granule(Session &session, uint32_t device) noexcept : session_(session), device_(device) {}
  ~Granule() {
    if (come_to_rest()) session_.keep(destroy());
  }
  Granule(const Granule &) = delete;
  Granule &operator=(const Granule &) = delete;
  Outcome create(uint64_t bytes, uint64_t flags = 0, Site site = Site::current());
  Outcome import(int32_t fd, uint64_t bytes, Site site = Site::current());
  Outcome destroy(Site site = Site::current());
  /// Takes over a handle from a call made by hand.
  void adopt(weir_be_granule granule) noexcept { granule_ = granule; }
  weir_be_granule get() const noexcept { return granule_; }

 private:
  Session &session_;
  uint32_t device_;
  weir_be_granule granule_ = 0;
};

class Range {
 public:
  explicit Range(Session &session) noexcept : session_(session), device_(session.device) {}
  Range(Session &session, uint32_t device) noexcept : session_(session), device_(device) {}
  ~Range() {
    if (come_to_rest()) session_.keep(free());
  }
  Range(const Range &) = delete;
  Range &operator=(const Range &) = delete;
  Outcome reserve(uint64_t bytes, uint64_t alignment, Site site = Site::current());
  Outcome free(Site site = Site::current());
  uint64_t address() const noexcept { return address_; }
  uint64_t bytes() const noexcept { return bytes_; }

 private:
  Session &session_;
  uint32_t device_;
  uint64_t address_ = 0, bytes_ = 0;
};

/// One map call.
class Map {
 public:
  explicit Map(Session &session) noexcept : session_(session), device_(session.device) {}
  Map(Session &session, uint32_t device) noexcept : session_(session), device_(device) {}
  ~Map() {
    if (come_to_rest()) session_.keep(unmap());
  }
  Map(const Map &) = delete;
  Map &operator=(const Map &) = delete;
  Outcome map(uint64_t address, uint64_t bytes, const Granule &granule, uint64_t offset = 0,
              std::span<const uint32_t> peers = {}, Site site = Site::current());
  Outcome unmap(Site site = Site::current());
  uint64_t address() const noexcept { return address_; }

 private:
  Session &session_;
  uint32_t device_;
  uint64_t address_ = 0, bytes_ = 0;
};

/// A granule mapped whole in a range of its own.
class Mapped {
 public:
  explicit Mapped(Session &session) noexcept : Mapped(session, session.device) {}
  Mapped(Session &session, uint32_t device) noexcept
      : granule(session, device), range(session, device), mapping(session, device) {}
  Outcome make(uint64_t bytes, uint64_t alignment, std::span<const uint32_t> peers = {},
               Site site = Site::current());
  uint64_t address() const noexcept { return range.address(); }

  Granule granule;
  Range range;
  Map mapping;
};

class Plain {
 public:
  explicit Plain(Session &session) noexcept : session_(session), device_(session.device) {}
  Plain(Session &session, uint32_t device) noexcept : session_(session), device_(device) {}
  ~Plain() {
    if (come_to_rest()) session_.keep(free());
  }
  Plain(const Plain &) = delete;
  Plain &operator=(const Plain &) = delete;
  Outcome allocate(uint64_t bytes, uint64_t alignment = 4096, Site site = Site::current());
  Outcome free(Site site = Site::current());
  /// Takes over an allocation made by hand.
  void adopt(uint64_t address, uint64_t bytes) noexcept {
    address_ = address;
    bytes_ = bytes;
  }
  uint64_t address() const noexcept { return address_; }
  uint64_t bytes() const noexcept { return bytes_; }

 private:
  Session &session_;
  uint32_t device_;
  uint64_t address_ = 0, bytes_ = 0;
};

class Pinned {
 public:
  explicit Pinned(Session &session) noexcept : session_(session) {}
  ~Pinned() {
    if (come_to_rest()) session_.keep(free());
  }
  Pinned(const Pinned &) = delete;
  Pinned &operator=(const Pinned &) = delete;
  Outcome allocate(uint64_t bytes, Site site = Site::current());
  Outcome free(Site site = Site::current());
  uint64_t address() const noexcept { return reinterpret_cast<uintptr_t>(memory_); }
  std::span<std::byte> bytes() const noexcept {
    return {static_cast<std::byte *>(memory_), static_cast<size_t>(bytes_)};
  }

 private:
  Session &session_;
  void *memory_ = nullptr;
  uint64_t bytes_ = 0;
};

class Stream {
 public:
  explicit Stream(Session &session) noexcept : session_(session), device_(session.device) {}
  Stream(Session &session, uint32_t device) noexcept : session_(session), device_(device) {}
  ~Stream() {
    (void)come_to_rest();
    session_.keep(end());
  }
  Stream(const Stream &) = delete;
  Stream &operator=(const Stream &) = delete;
  Outcome create(Site site = Site::current()) { return create(0, site); }
  Outcome create(uint64_t flags, Site site = Site::current());
  Outcome wrap(void *native, Site site = Site::current());
  Outcome destroy(Site site = Site::current());
  Outcome copy(uint64_t destination, uint64_t source, uint64_t bytes, Site site = Site::current());
  Outcome fill(uint64_t address, uint8_t value, uint64_t bytes, Site site = Site::current());
  Outcome synchronize(Site site = Site::current());
  weir_be_stream get() const noexcept { return stream_; }
  uint32_t device() const noexcept { return device_; }
  /// Waits until it has nothing to do, once for each `failing`. False if that did not come before the deadline.
  bool rest(uint64_t failing, uint64_t deadline_ns);

 private:
  Outcome end(Site site = Site::current());
  Outcome made(Outcome outcome, bool wrapped);
  Session &session_;
  uint32_t device_;
  weir_be_stream stream_ = nullptr;
  bool wrapped_ = false;
  std::thread::id made_by_;
  uint64_t rested_ = 0;  ///< the last episode of failing in which it was waited for
};

class Fence {
 public:
  explicit Fence(Session &session) noexcept : session_(session) {}
  ~Fence() { session_.keep(destroy()); }
  Fence(Fence &&other) noexcept : session_(other.session_), fence_(other.fence_) {
    other.fence_ = 0;
  }
  Fence &operator=(Fence &&) = delete;
  Outcome record(const Stream &stream, Site site = Site::current());
  Outcome destroy(Site site = Site::current());
  /// It must pass within the suite's patience.
  Outcome wait(Site site = Site::current());
  weir_be_fence get() const noexcept { return fence_; }

 private:
  Session &session_;
  weir_be_fence fence_ = 0;
};

/// Holds a stream by a host function until it is opened. It opens itself when it is taken down, and when the
/// suite's patience is over, so that a failed test ends.
class Gate {
 public:
  explicit Gate(Session &session) : session_(session) { know(*this); }
  ~Gate();
  Gate(const Gate &) = delete;
  Gate &operator=(const Gate &) = delete;
  /// The stream goes on after this only when the gate is open. May be put into several streams.
  Outcome hold(const Stream &stream, Site site = Site::current());
  /// Waits until the stream has come to the gate.
  Outcome reached(Site site = Site::current());
  void open();
  /// True if a host function stood at the gate until patience was over.
  bool gave_up() const;

 private:
  static void stand(void *gate);
  Session &session_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false, gave_up_ = false;
  uint32_t expected_ = 0, entered_ = 0, left_ = 0;
};

/// Bytes that follow from a seed.
void make_pattern(std::span<std::byte> bytes, uint64_t seed);
/// Where the two, which are as long, first differ; their length if nowhere.
size_t first_difference(std::span<const std::byte> is, std::span<const std::byte> wanted) noexcept;
/// Fails unless the bytes are the pattern's. All of these explain what is there instead (explain.hpp).
Outcome check_pattern(std::span<const std::byte> bytes, uint64_t seed, const std::string &what,
                      Site site = Site::current());
/// Fails unless all bytes have the value.
Outcome check_value(std::span<const std::byte> bytes, uint8_t value, const std::string &what,
                    Site site = Site::current());

/// Fails unless the bytes are those that are wanted, of which there may be more.
Outcome check_same(std::span<const std::byte> is, std::span<const std::byte> wanted,
                   const std::string &what, Site site = Site::current());

/// Puts patterns into device memory and looks for them there, through a stream and pinned memory of its own.
class Mover {
 public:
  explicit Mover(Session &session) noexcept : Mover(session, session.device) {}
  Mover(Session &session, uint32_t device) noexcept
      : session_(session), staging(session), stream(session, device) {}
  /// Nothing longer than `bytes` is moved.
  Outcome make(uint64_t bytes, Site site = Site::current());
  Outcome write(uint64_t address, uint64_t bytes, uint64_t seed, Site site = Site::current());
  Outcome check(uint64_t address, uint64_t bytes, uint64_t seed, Site site = Site::current());
  Outcome check_filled(uint64_t address, uint64_t bytes, uint8_t value,
                       Site site = Site::current());
  Outcome fill(uint64_t address, uint8_t value, uint64_t bytes, Site site = Site::current());
  /// Brings the bytes into staging memory.
  Outcome read(uint64_t address, uint64_t bytes, Site site = Site::current());

 private:
  Session &session_;

 public:
  Pinned staging;  ///< goes after the stream that uses it
  Stream stream;
};

uint64_t now_ns() noexcept;
/// Free bytes of the device under test.
Outcome free_memory(Session &session, uint64_t *bytes, Site site = Site::current());
/// Waits until the device under test has at least `before` bytes free again, less the slack.
Outcome memory_back(Test &t, uint64_t before, Site site = Site::current());
/// What the process holds of the system's.
struct Holdings {
  uint64_t descriptors = 0, threads = 0;
};
Holdings holdings();
/// Waits until the process holds no more than before, but for `spare` of each; threads take a moment to end.
Outcome holdings_back(const Holdings &before, uint64_t spare, Site site = Site::current());
/// Runs `body(index)` in as many threads at once and gives the first failure; Outcome::nothing if all returned that.
Outcome in_threads(uint32_t count, const std::function<Outcome(uint32_t)> &body);

/// Where threads wait for each other, so that they do meet in what comes next however busy the machine is. A thread that has left, by a
/// failure too, is not waited for.
class Meeting {
 public:
  explicit Meeting(uint32_t guests) noexcept : guests_(guests) {}
  Meeting(const Meeting &) = delete;
  Meeting &operator=(const Meeting &) = delete;

  class Guest {
   public:
    explicit Guest(Meeting &meeting) noexcept : meeting_(meeting) {}
    ~Guest() { meeting_.leave(); }
    Guest(const Guest &) = delete;
    Guest &operator=(const Guest &) = delete;
    /// Until all are here.
    void wait() { meeting_.wait(); }

   private:
    Meeting &meeting_;
  };

 private:
  void wait();
  void leave();
  void go_on();

  std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t guests_, here_ = 0;
  uint64_t round_ = 0;
};

}  // namespace weir::conformance
