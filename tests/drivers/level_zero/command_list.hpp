// SPDX-License-Identifier: Apache-2.0
//
// Immediate command lists. Each has a worker that runs one command at a time, in whatever order the API allows:
//
//  - Nothing but events and barriers orders commands, unless the list was made in order. Of those that may run, the
//    latest runs first, and one that nobody waits for is held back for a while, so that there are several to choose from.
//    Relying on the order of appends therefore fails, and each time in the same way.
//  - A barrier without events waits for all before it; one with events waits for these and for nothing else. Both hold
//    up all after them, and so does a wait for events. A signal or a reset is a command like a copy.
//  - Where the memory lies is looked up when a command runs. Commands of a lost device never run.
#pragma once

#include <level_zero/ze_api.h>

#include <condition_variable>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tests/drivers/level_zero/driver.hpp"

namespace weir::sim::ze {

struct Command {
  enum class Kind : uint8_t { copy, fill, barrier, wait, signal, reset };
  Kind kind = Kind::barrier;
  bool released = false;  ///< held back no longer
  std::vector<std::shared_ptr<Event>> waits;
  std::shared_ptr<Event> signal;  ///< signalled at the command's end
  std::shared_ptr<Event> reset;   ///< Kind::reset
  uint64_t destination = 0, source = 0, bytes = 0;
  std::vector<std::byte> pattern;  ///< Kind::fill
  uint64_t number = 0;             ///< increases with every append of the driver
  uint64_t due_ns = 0;             ///< held back at most until then

  bool uses(uint64_t address, uint64_t size) const noexcept;
};

class CommandList : public Object {
 public:
  struct Traits {
    uint32_t device = 0;
    bool in_order = false, synchronous = false;
    size_t most_pattern = 1;
    bool copies_only = false;  ///< of a queue group without kernels
  };
  CommandList(Driver &driver, std::shared_ptr<Context> context, const Traits &traits);
  /// The worker has been stopped.
  ~CommandList() = default;
  CommandList(const CommandList &) = delete;
  CommandList &operator=(const CommandList &) = delete;

  /// Starts the worker; throws when no thread can be made. Under the driver's mutex.
  void start();
  /// Forgets what is pending and ends the worker. Not under the driver's mutex.
  void stop() noexcept;

  const Traits traits;
  const Context *context() const noexcept { return context_->get(); }

  // All of these under the driver's mutex.
  /// Takes the command, or throws and has changed nothing. In a synchronous list it has run when this returns.
  ze_result_t append(Command command, std::unique_lock<std::mutex> &lock);
  bool idle() const noexcept { return pending_.empty(); }
  bool uses(uint64_t address, uint64_t bytes) const noexcept;
  /// Whether a pending command waits for one of a list that is marked stuck.
  bool waits_for_stuck() const noexcept;
  bool stuck = false;  ///< Driver::find_stuck()'s mark
  void release(Command &command) noexcept;
  void wake() noexcept {
    if (!pending_.empty()) work_.notify_one();
  }

  /// One thread at a time: set by whoever is inside a call about the list.
  std::atomic<bool> entered{false};

 private:
  using Pending = std::list<Command>;

  void serve() noexcept;
  /// The command to run now, or end(); *look_ns is when held commands are due.
  Pending::iterator choose(uint64_t now_ns, uint64_t *look_ns) noexcept;
  void perform(const Command &command) noexcept;
  void transfer(const Command &command);
  /// What the list's card reaches at an address of another card's.
  void import(uint64_t address, std::vector<Piece> *pieces);
  /// Under the driver's mutex: its signals and resets, and it is gone.
  void end(Pending::iterator command) noexcept;
  void forget(Pending::iterator command) noexcept;

  Driver &driver_;
  Token token_;
  std::optional<Belonging> context_;
  Pending pending_;
  bool stopping_ = false;
  std::condition_variable work_;
  std::thread worker_;
};

}  // namespace weir::sim::ze
