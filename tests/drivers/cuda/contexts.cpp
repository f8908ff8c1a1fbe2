// SPDX-License-Identifier: Apache-2.0
//
// Contexts: the primary one of each device, further ones, every thread's stack of them, and peers.

#include "tests/drivers/cuda/driver.hpp"

using namespace weir::sim_cuda;
namespace sim = weir::sim;

namespace {

/// A context of ours that is alive.
Result living(Driver &driver, const void *handle, const char *call, ContextObject **context) {
  *context = driver.known(handle);
  if (*context != nullptr && (*context)->alive) return result::success;
  return WEIR_SIM_MISUSE(driver, result::invalid_context, "%s: %p is no living context", call,
                         handle);
}

template <class Body>
Result with_device(const char *name, abi::Device device, Body body) noexcept {
  return initialized(name, [&](Driver &driver) -> Result {
    if (driver.is_device(device)) return body(driver);
    return WEIR_SIM_MISUSE(driver, result::invalid_device, "%s: there is no device %d", name,
                           device);
  });
}

}  // namespace

Result cuDevicePrimaryCtxRetain(abi::Context *context, abi::Device device) {
  return with_device("cuDevicePrimaryCtxRetain", device, [&](Driver &driver) -> Result {
    if (context == nullptr) return result::invalid_value;
    return driver.retain(device, context);
  });
}

Result cuDevicePrimaryCtxRelease_v2(abi::Device device) {
  return with_device("cuDevicePrimaryCtxRelease", device,
                     [&](Driver &driver) { return driver.release(device); });
}

Result cuDevicePrimaryCtxReset_v2(abi::Device device) {
  return with_device("cuDevicePrimaryCtxReset", device,
                     [&](Driver &driver) { return driver.reset(device); });
}

Result cuDevicePrimaryCtxGetState(abi::Device device, unsigned *flags, int *active) {
  return with_device("cuDevicePrimaryCtxGetState", device, [&](Driver &driver) -> Result {
    if (flags == nullptr || active == nullptr) return result::invalid_value;
    *flags = abi::context_schedule_auto;
    *active = driver.primary(device).alive;
    return result::success;
  });
}

Result cuCtxCreate_v2(abi::Context *context, unsigned, abi::Device device) {
  return with_device("cuCtxCreate", device, [&](Driver &driver) -> Result {
    if (context == nullptr) return result::invalid_value;
    ContextObject *made = driver.make_context(device);
    if (made == nullptr) return result::device_unavailable;
    this_thread(driver).stack.push_back(made);
    *context = made;
    return result::success;
  });
}

Result cuCtxDestroy_v2(abi::Context handle) {
  return initialized("cuCtxDestroy", [&](Driver &driver) -> Result {
    ContextObject *context = nullptr;
    WEIR_SIM_TRY(living(driver, handle, "cuCtxDestroy", &context));
    if (context->primary) {
      return WEIR_SIM_MISUSE(driver, result::invalid_context, "destroying a primary context");
    }
    // It leaves the top of the calling thread's stack; elsewhere it stays, as one that is destroyed.
    auto &stack = this_thread(driver).stack;
    if (!stack.empty() && stack.back() == context) stack.pop_back();
    const Result code = driver.health(*context);
    driver.end_context(*context);
    driver.census.remove(sim::Kind::context);
    return code;
  });
}

Result cuCtxGetCurrent(abi::Context *context) {
  return initialized("cuCtxGetCurrent", [&](Driver &driver) -> Result {
    if (context == nullptr) return result::invalid_value;
    const auto &stack = this_thread(driver).stack;
    *context = stack.empty() ? nullptr : stack.back();
    return result::success;
  });
}

Result cuCtxSetCurrent(abi::Context handle) {
  return initialized("cuCtxSetCurrent", [&](Driver &driver) -> Result {
    auto &stack = this_thread(driver).stack;
    if (handle == nullptr) {
      if (!stack.empty()) stack.pop_back();
      return result::success;
    }
    ContextObject *context = nullptr;
    WEIR_SIM_TRY(living(driver, handle, "cuCtxSetCurrent", &context));
    if (stack.empty()) {
      stack.push_back(context);
    } else {
      stack.back() = context;
    }
    return result::success;
  });
}

Result cuCtxPushCurrent_v2(abi::Context handle) {
  return initialized("cuCtxPushCurrent", [&](Driver &driver) -> Result {
    ContextObject *context = nullptr;
    WEIR_SIM_TRY(living(driver, handle, "cuCtxPushCurrent", &context));
    this_thread(driver).stack.push_back(context);
    return result::success;
  });
}

Result cuCtxPopCurrent_v2(abi::Context *context) {
  return initialized("cuCtxPopCurrent", [&](Driver &driver) -> Result {
    auto &stack = this_thread(driver).stack;
    if (stack.empty()) {
      return WEIR_SIM_MISUSE(driver, result::invalid_context, "popping from no contexts");
    }
    if (context != nullptr) *context = stack.back();
    stack.pop_back();
    return result::success;
  });
}

Result cuCtxGetDevice(abi::Device *device) {
  return initialized("cuCtxGetDevice", [&](Driver &driver) -> Result {
    ContextObject *context = nullptr;
    WEIR_SIM_TRY(driver.current(&context));
    if (device == nullptr) return result::invalid_value;
    *device = context->device;
    return result::success;
  });
}

Result cuCtxSynchronize() {
  return in_context("cuCtxSynchronize", [&](Driver &driver, ContextObject &context) -> Result {
    WEIR_SIM_TRY(driver.unsafe());
    return driver.code_on(context.device,
                          driver.machine.drain(static_cast<uint32_t>(context.device)));
  });
}

Result cuCtxEnablePeerAccess(abi::Context handle, unsigned flags) {
  return in_context("cuCtxEnablePeerAccess", [&](Driver &driver, ContextObject &context) -> Result {
    ContextObject *peer = nullptr;
    if (flags != 0) return result::invalid_value;
    WEIR_SIM_TRY(living(driver, handle, "cuCtxEnablePeerAccess", &peer));
    if (peer == &context) return result::invalid_context;
    if (!driver.can_reach(context.device, peer->device)) return result::peer_access_unsupported;
    const std::lock_guard hold(context.mutex);
    if (!context.peers.insert(peer).second) return result::peer_access_already_enabled;
    driver.machine.enable_peer(static_cast<uint32_t>(context.device),
                               static_cast<uint32_t>(peer->device));
    return result::success;
  });
}

Result cuCtxDisablePeerAccess(abi::Context handle) {
  return in_context("cuCtxDisablePeerAccess",
                    [&](Driver &driver, ContextObject &context) -> Result {
                      ContextObject *peer = driver.known(handle);
                      const std::lock_guard hold(context.mutex);
                      if (peer == nullptr || context.peers.erase(peer) == 0) {
                        return result::peer_access_not_enabled;
                      }
                      driver.machine.disable_peer(static_cast<uint32_t>(context.device),
                                                  static_cast<uint32_t>(peer->device));
                      return result::success;
                    });
}
