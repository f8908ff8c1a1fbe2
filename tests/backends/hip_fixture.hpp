// SPDX-License-Identifier: Apache-2.0
//
// The HIP backend on the look-alike on the simulated CUDA driver, as tests want it: the plugin loaded by path, the
// simulator's controls, a machine and a state a test. Every state ends with a census: nothing may be left alive, and
// no call may have been misuse.
#pragma once

#include "backends/hip/abi.hpp"
#include "tests/drivers/sim/control.h"
#include "tests/support/cmocka.hpp"

#include <weir/backend.h>

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace weir::test {

namespace hip_abi = hip::abi;

inline constexpr uint64_t mib = uint64_t{1} << 20U;
inline constexpr uint64_t unit = 2 * mib;

inline std::string library_path(const char *name) {
  const char *folder = std::getenv("WEIR_LIB_DIR");
  return std::string(folder != nullptr ? folder : "lib") + "/" + name;
}

inline void *open_library(const std::string &path) {
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) fail_msg("%s", dlerror());
  return handle;
}

template <class Function>
Function *function_of(void *library, const char *name) {
  void *found = dlsym(library, name);
  if (found == nullptr) fail_msg("no symbol %s", name);
  Function *function = nullptr;
  std::memcpy(&function, &found, sizeof function);
  return function;
}

/// The libraries and what tests call of them beside the backend.
struct Libraries {
  void *sim = open_library(library_path("drivers/libweir_sim_cuda.so"));
  void *hip = open_library(library_path("drivers/libweir_hip_over_cuda.so"));
  void *plugin = open_library(library_path("weir/1/libweir_backend_hip.so"));
  const weir_backend_table *table = function_of<const weir_backend_table *(uint32_t)>(
      plugin, WEIR_BACKEND_QUERY_SYMBOL)(WEIR_BACKEND_ABI_MAJOR);

  decltype(&weir_sim_configure) configure =
      function_of<decltype(weir_sim_configure)>(sim, "weir_sim_configure");
  decltype(&weir_sim_complaint) complaint =
      function_of<decltype(weir_sim_complaint)>(sim, "weir_sim_complaint");
  decltype(&weir_sim_fail) fail_call = function_of<decltype(weir_sim_fail)>(sim, "weir_sim_fail");
  decltype(&weir_sim_calls) calls = function_of<decltype(weir_sim_calls)>(sim, "weir_sim_calls");
  decltype(&weir_sim_misuse) misuse =
      function_of<decltype(weir_sim_misuse)>(sim, "weir_sim_misuse");
  decltype(&weir_sim_lose_device) lose_device =
      function_of<decltype(weir_sim_lose_device)>(sim, "weir_sim_lose_device");
  decltype(&weir_sim_alive) alive = function_of<decltype(weir_sim_alive)>(sim, "weir_sim_alive");

  hip_abi::fn::hipGetDevice *get_device =
      function_of<hip_abi::fn::hipGetDevice>(hip, "hipGetDevice");
  hip_abi::fn::hipSetDevice *set_device =
      function_of<hip_abi::fn::hipSetDevice>(hip, "hipSetDevice");
  hip_abi::Error (*reset)() = function_of<hip_abi::Error()>(hip, "hipDeviceReset");
};

inline const Libraries &libraries() {
  static const Libraries one;
  return one;
}

/// An environment variable for a scope.
class Setting {
 public:
  Setting(const char *name, const std::string &value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Setting() { unsetenv(name_); }
  Setting(const Setting &) = delete;
  Setting &operator=(const Setting &) = delete;

 private:
  const char *name_;
};

/// The look-alike lets go of every device, so that the simulated machine can be looked over or replaced.
inline void release_devices(uint32_t devices) {
  for (uint32_t left = devices; left > 0; --left) {
    if (libraries().set_device(static_cast<int>(left - 1)) != hip_abi::success) continue;
    // Once more, because a test may have planted a failure.
    if (libraries().reset() != hip_abi::success) (void)libraries().reset();
  }
}

/// A simulated machine for the look-alike.
class Machine {
 public:
  explicit Machine(uint32_t devices = 1, const std::string &more = "")
      : devices_(devices),
        library_("WEIR_HIP_LIBRARY", library_path("drivers/libweir_hip_over_cuda.so")),
        cuda_("WEIR_HIP_CUDA_LIBRARY", library_path("drivers/libweir_sim_cuda.so")) {
    const std::string options = "devices=" + std::to_string(devices) + ";memory=128M;" + more;
    if (libraries().configure(options.c_str()) != 0) {
      fail_msg("%s: %s", options.c_str(), libraries().complaint());
    }
  }
  ~Machine() { release_devices(devices_); }
  Machine(const Machine &) = delete;
  Machine &operator=(const Machine &) = delete;

  /// Ends the look-alike's hold and expects nothing to be left.
  void census() const {
    libraries().fail_call(nullptr, 0, 0);
    release_devices(devices_);
    const char *what = "";
    if (libraries().alive(&what) != 0) fail_msg("left alive: %s", what);
    if (libraries().misuse(&what) != 0) fail_msg("misuse: %s", what);
  }

 private:
  uint32_t devices_;
  Setting library_, cuda_;
};

/// One started backend.
class Backend {
 public:
  explicit Backend(const std::string &options = "") {
    const weir_be_start desc = start_desc(options);
    const char *reason = "";
    const weir_result result = t->start(&desc, &state, &reason);
    if (result != WEIR_SUCCESS) fail_msg("start: %d: %s", result, reason);
  }
  ~Backend() { stop(); }
  Backend(const Backend &) = delete;
  Backend &operator=(const Backend &) = delete;

  void stop() {
    if (state != nullptr) t->stop(state);
    state = nullptr;
  }

  weir_be_device describe(uint32_t device = 0) const {
    weir_be_device description{};
    description.struct_size = sizeof description;
    assert_int_equal(t->device_describe(state, device, &description), WEIR_SUCCESS);
    return description;
  }
  bool can(uint64_t capability, uint32_t device = 0) const {
    return (describe(device).capabilities & capability) != 0;
  }
  /// The sentence for the thread's last failure.
  std::string sentence() const { return t->error_text(state, t->last_error_code(state)); }

  const weir_backend_table *t = libraries().table;
  weir_be_state *state = nullptr;
  std::vector<std::string> lines;  ///< what was logged above DEBUG

  weir_be_start start_desc(const std::string &options) {
    options_ = options;
    weir_be_start desc{};
    desc.struct_size = sizeof desc;
    desc.options = options_.c_str();
    desc.log = [](void *user, int32_t level, const char *line) {
      if (level != WEIR_LOG_DEBUG) static_cast<Backend *>(user)->lines.emplace_back(line);
    };
    desc.log_user = this;
    return desc;
  }

 private:
  std::string options_;
};

/// Starts a backend that must not start; the reason.
inline std::string refusal(const std::string &options, weir_result expected) {
  weir_be_start desc{};
  desc.struct_size = sizeof desc;
  desc.options = options.c_str();
  weir_be_state *state = nullptr;
  const char *reason = nullptr;
  assert_int_equal(libraries().table->start(&desc, &state, &reason), expected);
  assert_null(state);
  assert_non_null(reason);
  return reason;
}

inline void assert_contains(const std::string &text, const char *part) {
  if (text.find(part) == std::string::npos)
    fail_msg("\"%s\" does not say \"%s\"", text.c_str(), part);
}

#define ASSERT_OK(call) assert_int_equal((call), WEIR_SUCCESS)

}  // namespace weir::test
