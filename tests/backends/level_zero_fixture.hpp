// SPDX-License-Identifier: Apache-2.0
//
// For tests of the Level Zero backend: the plugin, loaded by path, over the real loader and the simulated
// driver. Each test configures a machine of its own and ends what it made; what is left then is a failure.
#pragma once

#include "backends/level_zero/abi.hpp"
#include "tests/drivers/level_zero/control.h"
#include "tests/drivers/sim/control.h"
#include "tests/support/cmocka.hpp"

#include <weir/backend.h>

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace level_zero_test {

namespace abi = weir::level_zero::abi;

inline constexpr uint64_t MiB = uint64_t{1} << 20U;
inline constexpr int skipped = 77;

/// Aborts with a sentence; for what no test can go on without.
template <class Function>
Function *function_of(void *library, const char *name) {
  void *found = dlsym(library, name);
  if (found == nullptr) {
    std::fprintf(stderr, "no %s\n", name);
    std::abort();
  }
  Function *function = nullptr;
  std::memcpy(&function, &found, sizeof found);
  return function;
}

inline std::string in_build(const std::string &path) {
  const char *folder = std::getenv("WEIR_LIB_DIR");
  return std::string(folder != nullptr ? folder : "build/release/lib") + "/" + path;
}

inline std::string driver_path() { return in_build("drivers/libweir_sim_level_zero.so"); }

inline void *open_library(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::abort();
  }
  return library;
}

/// The simulated driver's controls.
struct Sim {
  void *library = open_library(driver_path());
  decltype(&weir_sim_configure) configure =
      function_of<int(const char *)>(library, "weir_sim_configure");
  decltype(&weir_sim_fail) fail =
      function_of<void(const char *, uint64_t, int64_t)>(library, "weir_sim_fail");
  decltype(&weir_sim_calls) calls = function_of<uint64_t(const char *)>(library, "weir_sim_calls");
  decltype(&weir_sim_level_zero_copy_lists) copy_lists =
      function_of<uint64_t()>(library, "weir_sim_level_zero_copy_lists");
  decltype(&weir_sim_misuse) misuse =
      function_of<uint64_t(const char **)>(library, "weir_sim_misuse");
  decltype(&weir_sim_lose_device) lose =
      function_of<void(uint32_t)>(library, "weir_sim_lose_device");
  decltype(&weir_sim_alive) alive = function_of<uint64_t(const char **)>(library, "weir_sim_alive");
};

inline Sim &sim() {
  static Sim controls;
  return controls;
}

inline const weir_backend_table &table() {
  static const weir_backend_table *found = function_of<const weir_backend_table *(uint32_t)>(
      open_library(in_build("weir/1/libweir_backend_level_zero.so")),
      WEIR_BACKEND_QUERY_SYMBOL)(WEIR_BACKEND_ABI_MAJOR);
  return *found;
}

/// A new machine; `driver` is for WEIR_SIM_ZE.
inline void machine(const char *options, const char *driver = "") {
  setenv("WEIR_SIM_ZE", driver, 1);
  if (sim().configure(options) != 0) fail_msg("the machine '%s' was refused", options);
}

/// Nothing is left, and the driver was never misused.
inline void assert_clean() {
  const char *what = "";
  if (sim().misuse(&what) != 0) fail_msg("misuse: %s", what);
  if (sim().alive(&what) != 0) fail_msg("left over: %s", what);
}

/// A started state. Ends it, and looks whether anything is left.
class Backend {
 public:
  explicit Backend(const char *options = "") {
    weir_be_start desc{sizeof desc, 0, options, nullptr, nullptr, nullptr};
    const char *reason = nullptr;
    const weir_result result = table().start(&desc, &state, &reason);
    if (result != WEIR_SUCCESS) fail_msg("start(%s): %d, %s", options, result, reason);
  }
  ~Backend() { stop(); }
  Backend(const Backend &) = delete;
  Backend &operator=(const Backend &) = delete;
  void stop() {
    if (state != nullptr) table().stop(state);
    state = nullptr;
  }
  const weir_backend_table *operator->() const { return &table(); }
  const char *why() const { return table().error_text(state, table().last_error_code(state)); }

  weir_be_state *state = nullptr;
};

#define assert_ok(backend, call)                                                          \
  do {                                                                                    \
    const weir_result result_ = (call);                                                   \
    if (result_ != WEIR_SUCCESS) fail_msg("%s: %d, %s", #call, result_, (backend).why()); \
  } while (false)
/// The call is refused with `code`, and the sentence contains `part`.
#define assert_refused(backend, code, part, call)                                       \
  do {                                                                                  \
    assert_int_equal((call), (code));                                                   \
    if (std::strstr((backend).why(), (part)) == nullptr)                                \
      fail_msg("%s: the reason is '%s', without '%s'", #call, (backend).why(), (part)); \
  } while (false)

/// The program's own side: a context and lists that it made itself, by the loader's functions.
class Program {
 public:
  Program() {
    abi::Driver driver = nullptr;
    uint32_t count = 1;
    check(call<abi::InitFn>("zeInit")(abi::init_flag_gpu_only));
    check(call<abi::DriverGetFn>("zeDriverGet")(&count, &driver));
    count = 4;
    check(call<abi::DeviceGetFn>("zeDeviceGet")(driver, &count, devices));
    const abi::ContextDesc context_desc;
    check(call<abi::ContextCreateFn>("zeContextCreate")(driver, &context_desc, &context));
    abi::EventPoolDesc pool_desc;
    pool_desc.count = 8;
    check(
        call<abi::EventPoolCreateFn>("zeEventPoolCreate")(context, &pool_desc, 0, nullptr, &pool));
    abi::EventDesc event_desc;
    check(call<abi::EventCreateFn>("zeEventCreate")(pool, &event_desc, &gate));
  }
  ~Program() {
    (void)call<abi::EventDestroyFn>("zeEventDestroy")(gate);
    (void)call<abi::EventPoolDestroyFn>("zeEventPoolDestroy")(pool);
    (void)call<abi::ContextDestroyFn>("zeContextDestroy")(context);
  }
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  /// For the option that makes the backend work in this context.
  std::string option() const {
    char text[40];
    std::snprintf(text, sizeof text, "context=%p", static_cast<void *>(context));
    return text;
  }
  abi::CommandList list(uint32_t device) const {
    const abi::CommandQueueDesc desc;
    abi::CommandList made = nullptr;
    check(call<abi::CommandListCreateImmediateFn>("zeCommandListCreateImmediate")(
        context, devices[device], &desc, &made));
    return made;
  }
  void end(abi::CommandList list) const {
    check(call<abi::CommandListDestroyFn>("zeCommandListDestroy")(list));
  }
  /// What follows on the list waits for open_gate().
  void hold(abi::CommandList list) {
    check(call<abi::CommandListAppendBarrierFn>("zeCommandListAppendBarrier")(list, nullptr, 1,
                                                                              &gate));
  }
  void open_gate() { check(call<abi::EventHostResetFn>("zeEventHostSignal")(gate)); }

  template <class Function>
  static Function *call(const char *name) {
    static void *loader = open_library("libze_loader.so.1");
    return function_of<Function>(loader, name);
  }
  static void check(abi::Result result) {
    if (result != abi::success) fail_msg("the program's own call failed with 0x%x", result);
  }

  abi::Device devices[4] = {};
  abi::Context context = nullptr;
  abi::EventPool pool = nullptr;
  abi::Event gate = nullptr;
};

/// The environment that the loader reads. False, with a sentence, where there is no loader.
inline bool prepare(const char *program) {
  setenv("ZE_ENABLE_ALT_DRIVERS", driver_path().c_str(), 1);
  if (dlopen("libze_loader.so.1", RTLD_NOW | RTLD_LOCAL) != nullptr) return true;
  std::printf("%s: skipped: %s\n", program, dlerror());
  return false;
}

inline void assert_says(const std::string &said, const char *part) {
  if (said.find(part) == std::string::npos) fail_msg("'%s' without '%s'", said.c_str(), part);
}

inline weir_be_device describe(const Backend &backend, uint32_t device) {
  weir_be_device found{};
  found.struct_size = sizeof found;
  assert_ok(backend, backend->device_describe(backend.state, device, &found));
  return found;
}

}  // namespace level_zero_test
