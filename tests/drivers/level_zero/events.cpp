// SPDX-License-Identifier: Apache-2.0
//
// Event pools and events as the host uses them. An event is signalled once until it is reset; whoever resets or
// destroys one that a command still names is told so.
#include <algorithm>
#include <chrono>

#include "tests/drivers/level_zero/driver.hpp"
#include "tests/drivers/level_zero/tables.hpp"

namespace weir::sim::ze {
namespace {

using Lock = std::unique_lock<std::mutex>;

/// How often a waiter looks whether a device was lost meanwhile, which nobody tells it.
constexpr std::chrono::milliseconds look_every{5};

ze_result_t zeEventPoolCreate(ze_context_handle_t context, const ze_event_pool_desc_t *desc,
                              uint32_t count, ze_device_handle_t *devices,
                              ze_event_pool_handle_t *out) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    const auto owner = driver.contexts.find(context);
    if (owner == nullptr) return driver.bad_handle(name, "context", context);
    if (desc == nullptr || out == nullptr) return driver.null_pointer(name, "desc or phEventPool");
    if (desc->stype != ZE_STRUCTURE_TYPE_EVENT_POOL_DESC) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "%s: desc has stype %#x", name,
                           static_cast<unsigned>(desc->stype));
    }
    if (desc->flags > 0x7) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ENUMERATION, "%s: flags %#x", name, desc->flags);
    }
    if (desc->count == 0 || (devices == nullptr && count != 0)) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_SIZE, "%s: %u events, %u devices of NULL", name,
                           desc->count, count);
    }
    auto pool = std::make_shared<EventPool>(driver.machine.census(), owner, desc->count);
    pool->host_visible = (desc->flags & ZE_EVENT_POOL_FLAG_HOST_VISIBLE) != 0;
    for (uint32_t i = 0; i < count; ++i) {
      const Device *device = driver.device(devices[i]);
      if (device == nullptr) return driver.bad_handle(name, "device", devices[i]);
      pool->devices |= device_bit(device->index);
    }
    if (count == 0) {
      for (const auto &each : driver.devices) pool->devices |= device_bit(each->index);
    }
    for (const auto &each : driver.devices) {
      if ((pool->devices & device_bit(each->index)) == 0) continue;
      if (driver.state_of(each->index) != ZE_RESULT_SUCCESS && count != 0) {
        return ZE_RESULT_ERROR_DEVICE_LOST;
      }
    }
    driver.pools.add(pool);
    *out = as_handle<ze_event_pool_handle_t>(pool.get());
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zeEventPoolDestroy(ze_event_pool_handle_t handle) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    const auto pool = driver.pools.find(handle);
    if (pool == nullptr) return driver.bad_handle(name, "event pool", handle);
    const auto used = std::count(pool->used.begin(), pool->used.end(), true);
    if (used != 0) {
      return driver.misuse(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, "%s: %ld of its events live", name,
                           static_cast<long>(used));
    }
    driver.pools.remove(handle);
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zeEventCreate(ze_event_pool_handle_t handle, const ze_event_desc_t *desc,
                          ze_event_handle_t *out) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    const auto pool = driver.pools.find(handle);
    if (pool == nullptr) return driver.bad_handle(name, "event pool", handle);
    if (desc == nullptr || out == nullptr) return driver.null_pointer(name, "desc or phEvent");
    if (desc->stype != ZE_STRUCTURE_TYPE_EVENT_DESC) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "%s: desc has stype %#x", name,
                           static_cast<unsigned>(desc->stype));
    }
    if (desc->signal > 0x7 || desc->wait > 0x7) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ENUMERATION, "%s: scopes %#x and %#x", name,
                           desc->signal, desc->wait);
    }
    if (desc->index >= pool->used.size()) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "%s: index %u of a pool of %zu", name,
                           desc->index, pool->used.size());
    }
    if (pool->used[desc->index]) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_ARGUMENT, "%s: index %u has an event that lives",
                           name, desc->index);
    }
    auto event = std::make_shared<Event>(driver.machine.census(), pool, desc->index);
    driver.events.add(event);
    pool->used[desc->index] = true;
    *out = as_handle<ze_event_handle_t>(event.get());
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zeEventDestroy(ze_event_handle_t handle) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    const auto event = driver.events.find(handle);
    if (event == nullptr) return driver.bad_handle(name, "event", handle);
    // Where a device was lost its commands never end; the event may go.
    if (event->referenced() && !driver.find_stuck()) {
      return driver.misuse(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE,
                           "%s: a pending command or a thread uses event %u", name, event->index);
    }
    event->pool->used[event->index] = false;
    driver.events.remove(handle);
    return ZE_RESULT_SUCCESS;
  });
}

/// For the host's functions: the event, if the host may see it.
ze_result_t find(Driver &driver, const char *name, ze_event_handle_t handle,
                 std::shared_ptr<Event> *event) {
  *event = driver.events.find(handle);
  if (*event == nullptr) return driver.bad_handle(name, "event", handle);
  if ((*event)->pool->host_visible) return ZE_RESULT_SUCCESS;
  return driver.misuse(ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT,
                       "%s: event %u is of a pool that is not visible to the host", name,
                       (*event)->index);
}

ze_result_t zeEventHostSignal(ze_event_handle_t handle) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    std::shared_ptr<Event> event;
    if (const ze_result_t bad = find(driver, name, handle, &event); bad != ZE_RESULT_SUCCESS) {
      return bad;
    }
    if (event->signalled) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT,
                           "%s: event %u is signalled twice without a reset", name, event->index);
    }
    event->signalled = true;
    driver.tell_progress();
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t zeEventHostReset(ze_event_handle_t handle) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    std::shared_ptr<Event> event;
    if (const ze_result_t bad = find(driver, name, handle, &event); bad != ZE_RESULT_SUCCESS) {
      return bad;
    }
    if (event->referenced()) {
      return driver.misuse(ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT,
                           "%s: event %u is reset while a pending command or a thread uses it",
                           name, event->index);
    }
    event->signalled = event->demanded = event->abandoned = false;
    return ZE_RESULT_SUCCESS;
  });
}

ze_result_t look(Driver &driver, Event &event) noexcept {
  if (event.signalled) return ZE_RESULT_SUCCESS;
  driver.demand(event);
  return driver.hopeless(event) ? ZE_RESULT_ERROR_DEVICE_LOST : ZE_RESULT_NOT_READY;
}

ze_result_t zeEventQueryStatus(ze_event_handle_t handle) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver) -> ze_result_t {
    std::shared_ptr<Event> event;
    const ze_result_t bad = find(driver, name, handle, &event);
    return bad != ZE_RESULT_SUCCESS ? bad : look(driver, *event);
  });
}

ze_result_t zeEventHostSynchronize(ze_event_handle_t handle, uint64_t timeout) {
  const char *const name = __func__;
  return enter(name, [&](Driver &driver, Lock &lock) -> ze_result_t {
    std::shared_ptr<Event> event;
    if (const ze_result_t bad = find(driver, name, handle, &event); bad != ZE_RESULT_SUCCESS) {
      return bad;
    }
    const uint64_t start = host::now_ns();
    const uint64_t deadline = timeout > UINT64_MAX - start ? UINT64_MAX : start + timeout;
    ze_result_t result = ZE_RESULT_NOT_READY;
    ++event->host_waiters;
    for (;;) {
      result = look(driver, *event);
      const uint64_t now = host::now_ns();
      if (result != ZE_RESULT_NOT_READY || now >= deadline) break;
      const std::chrono::nanoseconds left{
          std::min<uint64_t>(deadline - now, std::chrono::nanoseconds(look_every).count())};
      driver.progress.wait_for(lock, left);
    }
    --event->host_waiters;
    return result;
  });
}

}  // namespace

void fill(ze_event_pool_dditable_t &table) noexcept {
  table.pfnCreate = zeEventPoolCreate;
  table.pfnDestroy = zeEventPoolDestroy;
}

void fill(ze_event_dditable_t &table) noexcept {
  table.pfnCreate = zeEventCreate;
  table.pfnDestroy = zeEventDestroy;
  table.pfnHostSignal = zeEventHostSignal;
  table.pfnHostReset = zeEventHostReset;
  table.pfnQueryStatus = zeEventQueryStatus;
  table.pfnHostSynchronize = zeEventHostSynchronize;
}

}  // namespace weir::sim::ze
