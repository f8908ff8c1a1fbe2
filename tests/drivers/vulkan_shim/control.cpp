// SPDX-License-Identifier: Apache-2.0
//
// The controls, as tests find them by their names.

#include "tests/drivers/vulkan_shim/shim.hpp"

using weir::vulkan_shim::Shim;
#define WEIR_SHIM_CONTROL extern "C" __attribute__((visibility("default")))

WEIR_SHIM_CONTROL void weir_shim_reset(void) { Shim::get().reset(); }
WEIR_SHIM_CONTROL int weir_shim_pretend(const char *options) {
  return Shim::get().pretend(options);
}
WEIR_SHIM_CONTROL void weir_shim_fail(const char *call, uint64_t nth, int32_t code) {
  Shim::get().fail(call, nth, static_cast<VkResult>(code));
}
WEIR_SHIM_CONTROL void weir_shim_deny(const char *call, int32_t code) {
  Shim::get().deny(call, static_cast<VkResult>(code));
}
WEIR_SHIM_CONTROL uint64_t weir_shim_calls(const char *call) { return Shim::get().calls(call); }
WEIR_SHIM_CONTROL const char *weir_shim_failed(void) { return Shim::get().failed(); }
WEIR_SHIM_CONTROL void weir_shim_lose(int kind, uint64_t nth) { Shim::get().lose(kind, nth); }
WEIR_SHIM_CONTROL int weir_shim_lost(void) { return Shim::get().lost() ? 1 : 0; }
WEIR_SHIM_CONTROL void weir_shim_stall(void) { Shim::get().stall(); }
WEIR_SHIM_CONTROL void weir_shim_block(const char *call) { Shim::get().block(call); }
WEIR_SHIM_CONTROL void weir_shim_wait_blocked(void) { Shim::get().wait_blocked(); }
WEIR_SHIM_CONTROL void weir_shim_resume(void) { Shim::get().resume(); }
WEIR_SHIM_CONTROL uint64_t weir_shim_alive(const char **text) { return Shim::get().alive(text); }
WEIR_SHIM_CONTROL uint64_t weir_shim_misuse(const char **text) { return Shim::get().misuse(text); }
