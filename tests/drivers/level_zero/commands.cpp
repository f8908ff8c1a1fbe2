// SPDX-License-Identifier: Apache-2.0
//
// The functions that make command lists and append to them: everything the API asks of their arguments. A list is for one
// thread at a time; two inside are found out before anything else happens.
#include <bit>

#include "tests/drivers/level_zero/command_list.hpp"
#include "tests/drivers/level_zero/tables.hpp"

namespace weir::sim::ze {
namespace {

using Lock = std::unique_lock<std::mutex>;
using Kind = Command::Kind;

/// ZE_COMMAND_QUEUE_FLAG_IN_ORDER of newer headers.
constexpr uint32_t flag_in_order = 2;

/// Marks the list as entered for as long as it lives.
class Inside {
 public:
  explicit Inside(CommandList *list) noexcept
      : list_(list), alone_(list == nullptr || !list->entered.exchange(true)) {}
  ~Inside() {
    if (list_ != nullptr && alone_) list_->entered.store(false);
  }
  Inside(const Inside &) = delete;
  Inside &operator=(const Inside &) = delete;
  bool alone() const noexcept { return alone_; }

 private:
  CommandList *list_;
  bool alone_;
};

/// enter() for functions about a list.
template <class Body>
ze_result_t enter_list(const char *name, ze_command_list_handle_t handle, Body body) noexcept {
  Driver *const current = Driver::current();
  const auto list = current != nullptr ? current->lists.find(handle) : nullptr;
  const Inside inside(list.get());
  return enter(name, [&](Driver &driver, Lock &lock) -> ze_result_t {
    if (list == nullptr) return driver.bad_handle(name, "command list", handle);
    if (!inside.alone()) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                           "%s: another thread is inside a call about the same command list", name);
    }
    return body(driver, list, lock);
  });
}

/// Whether the list may use the event.
ze_result_t check_event(Driver &driver, const char *name, const CommandList &list,
                        ze_event_handle_t handle, std::shared_ptr<Event> *out) {
  auto event = driver.events.find(handle);
  if (event == nullptr) return driver.bad_handle(name, "event", handle);
  if (event->pool->context.get() != list.context()) {
    return driver.misuse(ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT,
                         "%s: event %u belongs to another context than the list", name,
                         event->index);
  }
  if ((event->pool->devices & device_bit(list.traits.device)) == 0) {
    return driver.misuse(ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT,
                         "%s: the pool of event %u is not visible to device %u", name, event->index,
                         list.traits.device);
  }
  *out = std::move(event);
  return ZE_RESULT_SUCCESS;
}

ze_result_t take_events(Driver &driver, const char *name, const CommandList &list,
                        ze_event_handle_t signal, uint32_t count, ze_event_handle_t *waits,
                        Command *command) {
  if (count != 0 && waits == nullptr) {
    return driver.misuse(ZE_RESULT_ERROR_INVALID_SIZE, "%s: %u events of NULL", name, count);
  }
  command->waits.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    const ze_result_t bad = check_event(driver, name, list, waits[i], &command->waits[i]);
    if (bad != ZE_RESULT_SUCCESS) return bad;
  }
  if (signal == nullptr) return ZE_RESULT_SUCCESS;
  return check_event(driver, name, list, signal, &command->signal);
}

const char *words(Range::What what) noexcept {
  switch (what) {
    case Range::What::device:
      return "device memory";
    case Range::What::host:
      return "host memory";
    case Range::What::imported:
      return "imported host memory";
    case Range::What::reservation:
      return "a reservation";
  }
  return "memory";
}

/// Device addresses: all of it one allocation or one mapping, with access for the list's device.
ze_result_t check_device_range(Driver &driver, const char *name, const CommandList &list,
                               uint64_t address, uint64_t bytes, bool write) {
  Machine &machine = driver.machine;
  const uint32_t device = list.traits.device;
  std::vector<Piece> pieces;
  std::string why;
  if (machine.addresses().resolve(address, bytes, device, write, machine.reach(device), &pieces,
                                  &why) != Answer::ok) {
    return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "%s: %s", name, why.c_str());
  }
  if (pieces.front().mapping == pieces.back().mapping) return ZE_RESULT_SUCCESS;
  return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "%s: %#llx, %llu bytes: two mappings",
                       name, static_cast<unsigned long long>(address),
                       static_cast<unsigned long long>(bytes));
}

/// Whether commands of the list may use the memory; *known: not if the driver has never heard of it.
ze_result_t check_memory(Driver &driver, const char *name, const CommandList &list,
                         uint64_t address, uint64_t bytes, bool write, bool *known) {
  const auto at = static_cast<unsigned long long>(address);
  const auto size = static_cast<unsigned long long>(bytes);
  const auto found = driver.ranges.touching(address, bytes);
  *known = found != driver.ranges.end();
  if (!*known) {
    if (!driver.machine.addresses().is_device(address, bytes)) return ZE_RESULT_SUCCESS;
    return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                         "%s: %#llx, %llu bytes: device addresses that were freed or never given",
                         name, at, size);
  }
  const auto &[start, range] = *found;
  if (address < start || bytes > range.bytes - (address - start)) {
    return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "%s: %#llx, %llu bytes: beyond %s", name,
                         at, size, words(range.what));
  }
  if (range.context.has_value() && range.context->get() != list.context()) {
    return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                         "%s: %#llx: %s of another context than the list's", name, at,
                         words(range.what));
  }
  if (range.what == Range::What::host || range.what == Range::What::imported) {
    return ZE_RESULT_SUCCESS;
  }
  return check_device_range(driver, name, list, address, bytes, write);
}

ze_result_t zeCommandListCreateImmediate(ze_context_handle_t context, ze_device_handle_t on,
                                         const ze_command_queue_desc_t *desc,
                                         ze_command_list_handle_t *out) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    const auto owner = driver.contexts.find(context);
    if (owner == nullptr) return driver.bad_handle(name, "context", context);
    const Device *device = driver.device(on);
    if (device == nullptr) return driver.bad_handle(name, "device", on);
    if (const ze_result_t lost = driver.state_of(device->index); lost != ZE_RESULT_SUCCESS) {
      return lost;
    }
    if (desc == nullptr || out == nullptr) {
      return driver.null_pointer(name, "altdesc or phCommandList");
    }
    if (desc->stype != ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "%s: altdesc has stype %#x", name,
                           static_cast<unsigned>(desc->stype));
    }
    const uint32_t known = ZE_COMMAND_QUEUE_FLAG_EXPLICIT_ONLY |
                           (driver.knows_in_order() ? flag_in_order : uint32_t{0});
    if ((desc->flags & ~known) != 0 || desc->mode > ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS ||
        desc->priority > ZE_COMMAND_QUEUE_PRIORITY_PRIORITY_HIGH) {
      return driver.misuse(
          ZE_RESULT_ERROR_INVALID_ENUMERATION, "%s: flags %#x, mode %u, priority %u", name,
          desc->flags, static_cast<unsigned>(desc->mode), static_cast<unsigned>(desc->priority));
    }
    if (desc->ordinal >= std::size(queue_groups) ||
        desc->index >= queue_groups[desc->ordinal].queues) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "%s: no queue %u of group %u", name,
                           desc->index, desc->ordinal);
    }
    if (desc->index != 0 && (desc->flags & ZE_COMMAND_QUEUE_FLAG_EXPLICIT_ONLY) == 0) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT,
                           "%s: queue %u is chosen without EXPLICIT_ONLY", name, desc->index);
    }
    CommandList::Traits traits;
    traits.device = device->index;
    traits.in_order = (desc->flags & flag_in_order) != 0;
    traits.synchronous = desc->mode == ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS;
    traits.most_pattern = queue_groups[desc->ordinal].most_pattern;
    traits.copies_only =
        (queue_groups[desc->ordinal].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE) == 0;
    auto list = std::make_shared<CommandList>(driver, owner, traits);
    driver.lists.add(list);
    try {
      list->start();
    } catch (...) {
      driver.lists.remove(list.get());
      throw;
    }
    *out = as_handle<ze_command_list_handle_t>(list.get());
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zeCommandListDestroy(ze_command_list_handle_t handle) {
  const char *const name = __func__;
  return enter_list(name, handle, [&](Driver &driver, const auto &list, Lock &lock) -> ze_result_t {
    if (!list->idle() && !(driver.find_stuck() && list->stuck)) {
      return driver.misuse(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE,
                           "%s: commands of the list have not ended", name);
    }
    driver.lists.remove(handle);
    lock.unlock();
    list->stop();
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zeCommandListAppendMemoryCopy(ze_command_list_handle_t handle, void *destination,
                                          const void *source, size_t bytes,
                                          ze_event_handle_t signal, uint32_t count,
                                          ze_event_handle_t *waits) {
  const char *const name = __func__;
  return enter_list(name, handle, [&](Driver &driver, const auto &list, Lock &lock) -> ze_result_t {
    const ze_result_t lost = driver.state_of(list->traits.device);
    if (lost != ZE_RESULT_SUCCESS) return lost;
    if (destination == nullptr || source == nullptr) {
      return driver.null_pointer(name, "dstptr or srcptr");
    }
    Command command;
    command.kind = Kind::copy;
    command.destination = reinterpret_cast<uintptr_t>(destination);
    command.source = reinterpret_cast<uintptr_t>(source);
    command.bytes = bytes;
    bool known = true, from_known = true;
    ze_result_t bad = take_events(driver, name, *list, signal, count, waits, &command);
    if (bad == ZE_RESULT_SUCCESS && bytes != 0) {
      bad = check_memory(driver, name, *list, command.destination, bytes, true, &known);
    }
    if (bad == ZE_RESULT_SUCCESS && bytes != 0) {
      bad = check_memory(driver, name, *list, command.source, bytes, false, &from_known);
    }
    if (bad != ZE_RESULT_SUCCESS) return bad;
    if (command.destination < command.source + bytes &&
        command.source < command.destination + bytes) {
      return driver.misuse(ZE_RESULT_ERROR_OVERLAPPING_REGIONS, "%s: %zu bytes overlap", name,
                           bytes);
    }
    if (!known || !from_known) ++driver.unregistered;
    return list->append(std::move(command), lock);
  });
}

ze_result_t zeCommandListAppendMemoryFill(ze_command_list_handle_t handle, void *destination,
                                          const void *pattern, size_t pattern_bytes, size_t bytes,
                                          ze_event_handle_t signal, uint32_t count,
                                          ze_event_handle_t *waits) {
  const char *const name = __func__;
  return enter_list(name, handle, [&](Driver &driver, const auto &list, Lock &lock) -> ze_result_t {
    const ze_result_t lost = driver.state_of(list->traits.device);
    if (lost != ZE_RESULT_SUCCESS) return lost;
    if (destination == nullptr || pattern == nullptr) {
      return driver.null_pointer(name, "ptr or pattern");
    }
    if (!std::has_single_bit(pattern_bytes) || pattern_bytes > list->traits.most_pattern ||
        bytes % pattern_bytes != 0) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_SIZE,
                           "%s: %zu bytes of a pattern of %zu; this group has at most %zu", name,
                           bytes, pattern_bytes, list->traits.most_pattern);
    }
    Command command;
    command.kind = Kind::fill;
    command.destination = reinterpret_cast<uintptr_t>(destination);
    command.bytes = bytes;
    const auto *first = static_cast<const std::byte *>(pattern);
    command.pattern.assign(first, first + pattern_bytes);
    bool known = true;
    ze_result_t bad = take_events(driver, name, *list, signal, count, waits, &command);
    if (bad == ZE_RESULT_SUCCESS && bytes != 0) {
      bad = check_memory(driver, name, *list, command.destination, bytes, true, &known);
    }
    if (bad != ZE_RESULT_SUCCESS) return bad;
    if (!known) ++driver.unregistered;
    return list->append(std::move(command), lock);
  });
}

ze_result_t append_plain(Driver &driver, const char *name, CommandList &list, Lock &lock, Kind kind,
                         ze_event_handle_t signal, uint32_t count, ze_event_handle_t *waits) {
  const ze_result_t lost = driver.state_of(list.traits.device);
  if (lost != ZE_RESULT_SUCCESS) return lost;
  Command command;
  command.kind = kind;
  const ze_result_t bad = take_events(driver, name, list, signal, count, waits, &command);
  if (bad != ZE_RESULT_SUCCESS) return bad;
  return list.append(std::move(command), lock);
}

ze_result_t zeCommandListAppendBarrier(ze_command_list_handle_t handle, ze_event_handle_t signal,
                                       uint32_t count, ze_event_handle_t *waits) {
  const char *const name = __func__;
  return enter_list(name, handle, [&](Driver &driver, const auto &list, Lock &lock) {
    return append_plain(driver, name, *list, lock, Kind::barrier, signal, count, waits);
  });
}

ze_result_t zeCommandListAppendWaitOnEvents(ze_command_list_handle_t handle, uint32_t count,
                                            ze_event_handle_t *waits) {
  const char *const name = __func__;
  return enter_list(name, handle, [&](Driver &driver, const auto &list, Lock &lock) -> ze_result_t {
    if (waits == nullptr) return driver.null_pointer(name, "phEvents");
    return append_plain(driver, name, *list, lock, Kind::wait, nullptr, count, waits);
  });
}

ze_result_t zeCommandListAppendSignalEvent(ze_command_list_handle_t handle,
                                           ze_event_handle_t event) {
  const char *const name = __func__;
  return enter_list(name, handle, [&](Driver &driver, const auto &list, Lock &lock) -> ze_result_t {
    if (event == nullptr) return driver.bad_handle(name, "event", event);
    return append_plain(driver, name, *list, lock, Kind::signal, event, 0, nullptr);
  });
}

ze_result_t zeCommandListAppendEventReset(ze_command_list_handle_t handle,
                                          ze_event_handle_t event) {
  const char *const name = __func__;
  return enter_list(name, handle, [&](Driver &driver, const auto &list, Lock &lock) -> ze_result_t {
    const ze_result_t lost = driver.state_of(list->traits.device);
    if (lost != ZE_RESULT_SUCCESS) return lost;
    Command command;
    command.kind = Kind::reset;
    const ze_result_t bad = check_event(driver, name, *list, event, &command.reset);
    if (bad != ZE_RESULT_SUCCESS) return bad;
    return list->append(std::move(command), lock);
  });
}

}  // namespace

void fill(ze_command_list_dditable_t &table) noexcept {
  table.pfnCreateImmediate = zeCommandListCreateImmediate;
  table.pfnDestroy = zeCommandListDestroy;
  table.pfnAppendMemoryCopy = zeCommandListAppendMemoryCopy;
  table.pfnAppendMemoryFill = zeCommandListAppendMemoryFill;
  table.pfnAppendBarrier = zeCommandListAppendBarrier;
  table.pfnAppendWaitOnEvents = zeCommandListAppendWaitOnEvents;
  table.pfnAppendSignalEvent = zeCommandListAppendSignalEvent;
  table.pfnAppendEventReset = zeCommandListAppendEventReset;
}

}  // namespace weir::sim::ze
