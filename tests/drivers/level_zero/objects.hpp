// SPDX-License-Identifier: Apache-2.0
//
// What handles point to. The first word of each is never used: newer loaders read a pointer to tables there.
// Members said to be guarded are guarded by the driver's mutex.
#pragma once

#include <level_zero/ze_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/drivers/sim/census.hpp"
#include "tests/drivers/sim/memory.hpp"

namespace weir::sim::ze {

class CommandList;
struct Command;

struct Object {
  void *kept_for_loader = nullptr;
};

/// One end of a link between two devices, as sysman shows it.
struct FabricPort : Object {
  uint32_t device = 0, peer = 0;
  uint8_t number = 0, remote_number = 0;
};

struct MemoryModule : Object {
  uint32_t device = 0;
};

struct Device : Object {
  uint32_t index = 0;
  MemoryModule module;
  std::vector<FabricPort> ports;
};

struct Context : Object {
  explicit Context(Census &census) : token(census, Kind::context) {}
  Token token;
  uint64_t owns = 0;  ///< guarded: objects and memory that belong to it
};

/// Membership of a context, counted.
class Belonging {
 public:
  /// Under the driver's mutex, as its end.
  explicit Belonging(std::shared_ptr<Context> context) : context_(std::move(context)) {
    ++context_->owns;
  }
  Belonging(Belonging &&other) noexcept = default;
  Belonging &operator=(Belonging &&other) noexcept {
    std::swap(context_, other.context_);
    return *this;
  }
  ~Belonging() {
    if (context_ != nullptr) --context_->owns;
  }
  const Context *get() const noexcept { return context_.get(); }
  const std::shared_ptr<Context> &share() const noexcept { return context_; }

 private:
  std::shared_ptr<Context> context_;
};

struct PhysicalMemory : Object {
  PhysicalMemory(Census &census, std::shared_ptr<Context> owner, std::shared_ptr<Physical> bytes)
      : token(census, Kind::granule), context(std::move(owner)), memory(std::move(bytes)) {}
  Token token;
  Belonging context;
  std::shared_ptr<Physical> memory;
  uint32_t mappings = 0;  ///< guarded
};

struct EventPool : Object {
  EventPool(Census &census, std::shared_ptr<Context> owner, uint32_t count)
      : token(census, Kind::event), context(std::move(owner)), used(count, false) {}
  Token token;
  Belonging context;
  std::vector<bool> used;  ///< guarded: by an event that lives
  uint64_t devices = 0;    ///< that see it, one bit each
  bool host_visible = false;
};

struct Event : Object {
  Event(Census &census, std::shared_ptr<EventPool> of, uint32_t at)
      : token(census, Kind::event), pool(std::move(of)), index(at) {}
  Token token;
  std::shared_ptr<EventPool> pool;
  uint32_t index;
  // Guarded:
  bool signalled = false;
  bool abandoned = false;  ///< a list that was to signal it ended without
  bool demanded = false;   ///< somebody waits, so who signals it is not held back
  uint32_t host_waiters = 0;
  std::vector<std::pair<CommandList *, Command *>>
      signallers;               ///< pending commands that will signal it
  std::vector<uint64_t> waits;  ///< the numbers of pending commands that wait for it
  uint32_t resets = 0;          ///< pending commands that reset it
  bool referenced() const noexcept {
    return !signallers.empty() || !waits.empty() || resets != 0 || host_waiters != 0;
  }
};

}  // namespace weir::sim::ze
