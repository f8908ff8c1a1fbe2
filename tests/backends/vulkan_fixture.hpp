// SPDX-License-Identifier: Apache-2.0
//
// For tests of the Vulkan backend: the plugin, loaded by path, over the shim and Mesa's driver for the CPU. Each test begins
// with a shim that was told nothing, and ends what it made; what is left then, or was done against Vulkan's rules, is a failure.
#pragma once

#include "tests/backends/shimmed_plugin.hpp"
#include "tests/drivers/vulkan_shim/control.h"
#include "tests/support/cmocka.hpp"

#include <weir/backend.h>

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

namespace vulkan_test {

using namespace shimmed;

inline std::string shim_path() { return in_build("drivers/libweir_vulkan_shim.so"); }

/// The shim's controls.
struct Shim {
  void *library = open_library(shim_path());
#define WEIR_SHIM_MEMBER(name)                                                    \
  std::remove_reference_t<decltype(::weir_shim_##name)> *name =                   \
      function_of<std::remove_reference_t<decltype(::weir_shim_##name)>>(library, \
                                                                         "weir_shim_" #name)
  WEIR_SHIM_MEMBER(reset);
  WEIR_SHIM_MEMBER(pretend);
  WEIR_SHIM_MEMBER(fail);
  WEIR_SHIM_MEMBER(deny);
  WEIR_SHIM_MEMBER(calls);
  WEIR_SHIM_MEMBER(failed);
  WEIR_SHIM_MEMBER(lose);
  WEIR_SHIM_MEMBER(lost);
  WEIR_SHIM_MEMBER(stall);
  WEIR_SHIM_MEMBER(block);
  WEIR_SHIM_MEMBER(wait_blocked);
  WEIR_SHIM_MEMBER(resume);
  WEIR_SHIM_MEMBER(alive);
  WEIR_SHIM_MEMBER(misuse);
#undef WEIR_SHIM_MEMBER
};

inline Shim &shim() {
  static Shim controls;
  return controls;
}

inline const weir_backend_table &table() {
  static const weir_backend_table *found = [] {
    void *library = open_library(in_build("weir/1/libweir_backend_vulkan.so"));
    return function_of<const weir_backend_table *(uint32_t)>(
        library, WEIR_BACKEND_QUERY_SYMBOL)(WEIR_BACKEND_ABI_MAJOR);
  }();
  return *found;
}

/// A started backend; ended by stop().
struct Backend {
  weir_be_state *state = nullptr;
  weir_result result = WEIR_SUCCESS;
  std::string reason;
  Log log;  // of start alone: calls come from any thread

  explicit Backend(const char *options = "memory=64M;granule=64K") {
    const weir_be_start desc = {sizeof desc, 0, options, Log::take, &log, nullptr};
    const char *why = nullptr;
    result = table().start(&desc, &state, &why);
    if (result != WEIR_SUCCESS) reason = why;
  }
  ~Backend() { stop(); }
  Backend(const Backend &) = delete;
  Backend &operator=(const Backend &) = delete;
  void stop() {
    if (state != nullptr) table().stop(state);
    state = nullptr;
  }
  std::string error() const { return table().error_text(state, table().last_error_code(state)); }
  weir_be_device device(uint32_t index = 0) const {
    weir_be_device told{};
    told.struct_size = sizeof told;
    if (table().device_describe(state, index, &told) != WEIR_SUCCESS) fail_msg("device_describe");
    return told;
  }
};

inline void check(const Backend &backend, weir_result got, weir_result wanted, const char *call,
                  int line) {
  if (got != wanted)
    fail_msg("line %d: %s = %d, wanted %d (%s)", line, call, got, wanted,
             backend.state != nullptr ? backend.error().c_str() : backend.reason.c_str());
}
#define WANT(wanted, call) vulkan_test::check(backend, (call), (wanted), #call, __LINE__)
#define OK(call) WANT(WEIR_SUCCESS, call)

inline uint64_t address_of(const void *memory) { return reinterpret_cast<uintptr_t>(memory); }

/// After stop(). `when` says what was tried.
inline void nothing_is_left(const std::string &when = "") {
  const char *text = "";
  if (shim().alive(&text) != 0) fail_msg("%s: left in the driver: %s", when.c_str(), text);
  if (shim().misuse(&text) != 0) fail_msg("%s: Vulkan was misused: %s", when.c_str(), text);
}

inline void pretend(const std::string &options) {
  if (shim().pretend(options.c_str()) != 0) fail_msg("the shim knows no \"%s\"", options.c_str());
}

inline int fresh(void **) {
  shim().reset();
  return 0;
}

/// Why no test can run here; "" if they can.
inline std::string missing() {
  void *loader = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  if (loader == nullptr) return "there is no Vulkan loader here";
  if (access(shim_path().c_str(), R_OK) != 0) return "";
  shim().reset();
  const Backend backend("cpu=1");
  return backend.result == WEIR_SUCCESS ? "" : backend.reason;
}

/// Names the shim, before anything is loaded; says why nothing can be tested.
inline int prepare() {
  setenv("WEIR_VULKAN_LIBRARY", shim_path().c_str(), 1);
  const std::string why = missing();
  if (why.empty()) return 0;
  std::printf("skipped: %s\n", why.c_str());
  return skipped;
}

}  // namespace vulkan_test
