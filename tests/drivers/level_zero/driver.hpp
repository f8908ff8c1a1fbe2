// SPDX-License-Identifier: Apache-2.0
//
// The simulated Level Zero driver's state beside the machine's, and what every function begins with: counting,
// injected failures, the lock, zeInit, exceptions. One mutex guards everything; it is let go while waiting and while
// bytes are copied.
#pragma once

#include <level_zero/ze_api.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <type_traits>
#include <vector>

#include "tests/drivers/level_zero/objects.hpp"
#include "tests/drivers/level_zero/options.hpp"
#include "tests/drivers/level_zero/peer_imports.hpp"
#include "tests/drivers/level_zero/ranges.hpp"
#include "tests/drivers/sim/machine.hpp"

namespace weir::sim::ze {

/// The groups of queues that every device has: one for everything, one that copies only.
struct QueueGroup {
  ze_command_queue_group_property_flags_t flags;
  size_t most_pattern;
  uint32_t queues;
};
inline constexpr QueueGroup queue_groups[] = {
    {ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE | ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY |
         ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COOPERATIVE_KERNELS |
         ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_METRICS,
     64, 4},
    {ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY, 1, 2},
};

class Driver : public Attachment {
 public:
  Driver(Machine &on, const DriverOptions &with);
  ~Driver() override;
  Driver(const Driver &) = delete;
  Driver &operator=(const Driver &) = delete;

  /// nullptr in a process that is ending or was forked.
  static Driver *current() noexcept;
  static bool wants_sysman() noexcept;

  Machine &machine;
  const DriverOptions options;
  std::mutex mutex;
  /// Of the process: a loader that stays calls zeInit once, however many machines come after it.
  static bool initialised;
  bool sysman;  ///< as the environment asks at zeInit, or as this machine came after it
  Object handle;
  std::vector<std::unique_ptr<Device>> devices;
  Ranges ranges;
  PeerImports imports;
  uint64_t unregistered = 0;

  Handles<Context> contexts;
  Handles<PhysicalMemory> physicals;
  Handles<EventPool> pools;
  Handles<Event> events;
  Handles<CommandList> lists;

  // ---- commands (command_list.cpp) ----
  std::vector<CommandList *> running;  ///< all that live
  uint64_t last_command = 0;
  std::condition_variable progress;  ///< a command has ended, an event was signalled
  /// Tells threads and lists that wait.
  void tell_progress() noexcept;
  /// Somebody waits for the event: its signallers are held back no longer.
  void demand(Event &event) noexcept;
  /// Marks the lists whose pending commands never run, for a device has failed. False if none has.
  bool find_stuck() noexcept;
  /// Whether the event can't be signalled any more.
  bool hopeless(const Event &event) noexcept;
  /// Whether a pending command uses the memory.
  bool in_use(uint64_t address, uint64_t bytes) const noexcept;

  /// The API's version, as ZE_MAKE_VERSION makes it.
  uint32_t version() const noexcept;
  bool knows_in_order() const noexcept { return version() >= ZE_MAKE_VERSION(1, 7); }
  /// The card that the device is, or is a tile of.
  uint32_t card_of(uint32_t device) const noexcept {
    return device / static_cast<uint32_t>(options.tiles);
  }
  bool can_access(uint32_t device, uint32_t peer) const noexcept;
  /// Those that can access the device's memory, itself too.
  DeviceSet accessors(uint32_t device) const noexcept;
  /// What addresses and sizes of virtual and physical memory of this size must be multiples of.
  uint64_t page_size(uint64_t bytes) const noexcept;
  uint64_t max_alloc() const noexcept;

  // ---- refusals ----
  /// Counts a misuse and returns `result`. printf's format.
  ze_result_t misuse(ze_result_t result, const char *format, ...) noexcept
      __attribute__((format(printf, 3, 4)));
  ze_result_t null_pointer(const char *call, const char *name) noexcept;
  /// For handles of nothing: NULL and others.
  ze_result_t bad_handle(const char *call, const char *kind, const void *handle) noexcept;
  /// The machine's answer as a result. `invalid` was counted already.
  static ze_result_t result_of(Answer answer) noexcept;
  /// SUCCESS, or DEVICE_LOST for a device that has failed.
  ze_result_t state_of(uint32_t device) const noexcept;

  /// nullptr if it is no device of ours.
  Device *device(const void *handle) const noexcept;
};

/// The steps around every function. `body` takes the driver, and the lock if it wants to let it go.
template <class Body>
ze_result_t enter(const char *name, Body body, bool before_init = false) noexcept {
  static Call &record = call(name);  // one for each body, so for each function
  if (const int64_t code = sim::enter(record); code != 0) return static_cast<ze_result_t>(code);
  Driver *const driver = Driver::current();
  if (driver == nullptr) return ZE_RESULT_ERROR_UNINITIALIZED;
  try {
    std::unique_lock lock(driver->mutex);
    if (!before_init && !driver->initialised) {
      return driver->misuse(ZE_RESULT_ERROR_UNINITIALIZED, "%s: zeInit was not called", name);
    }
    if constexpr (std::is_invocable_v<Body, Driver &, std::unique_lock<std::mutex> &>) {
      return body(*driver, lock);
    } else {
      return body(*driver);
    }
  } catch (const std::bad_alloc &) {
    return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
  } catch (const std::system_error &) {
    return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
  } catch (...) {
    return ZE_RESULT_ERROR_UNKNOWN;
  }
}

/// The protocol of functions that list things: the count, or as many as there is room for.
template <class Give>
ze_result_t list_things(Driver &driver, const char *call, uint32_t total, uint32_t *count,
                        const void *out, Give give) {
  if (count == nullptr) return driver.null_pointer(call, "pCount");
  const bool ask = *count == 0;
  if (ask || *count > total) *count = total;
  if (ask || out == nullptr) return ZE_RESULT_SUCCESS;
  for (uint32_t i = 0; i < *count; ++i) give(i);
  return ZE_RESULT_SUCCESS;
}

template <class Handle, class Thing>
Handle as_handle(Thing *thing) noexcept {
  return reinterpret_cast<Handle>(static_cast<Object *>(thing));
}

/// The structure of this type in a chain, or nullptr.
template <class Struct>
Struct *chained(const void *first, ze_structure_type_t type) noexcept {
  auto *each = static_cast<const ze_base_properties_t *>(first);
  while (each != nullptr && each->stype != type) {
    each = static_cast<const ze_base_properties_t *>(each->pNext);
  }
  return reinterpret_cast<Struct *>(const_cast<ze_base_properties_t *>(each));
}

}  // namespace weir::sim::ze
