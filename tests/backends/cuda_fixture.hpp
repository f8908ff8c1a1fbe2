// SPDX-License-Identifier: Apache-2.0
//
// What tests of the CUDA backend share: the plugin, the simulated driver with its controls, and a started backend that
// is stopped at the end with nothing left alive. Every entry is called through `Cuda::operator()`, which holds that the
// thread's current context and capture mode are as they were.
#pragma once

#include "backends/cuda/abi.hpp"
#include "tests/drivers/sim/control.h"
#include "tests/support/cmocka.hpp"

#include <weir/backend.h>

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace weir::test {

namespace abi = weir::cuda::abi;

inline std::string built(const char *path) {
  return std::string(getenv("WEIR_LIB_DIR")) + '/' + path;
}

inline void *open_library(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail_msg("%s", dlerror());
  return library;
}

template <class Function>
Function *symbol_of(void *library, const char *name) {
  void *found = dlsym(library, name);
  if (found == nullptr) fail_msg("no symbol %s", name);
  Function *function = nullptr;
  std::memcpy(&function, &found, sizeof function);
  return function;
}

inline const weir_backend_table &cuda_table() {
  static const weir_backend_table *table = symbol_of<const weir_backend_table *(uint32_t)>(
      open_library(built("weir/1/libweir_backend_cuda.so")),
      WEIR_BACKEND_QUERY_SYMBOL)(WEIR_BACKEND_ABI_MAJOR);
  return *table;
}

/// The simulated driver: its controls, and its CUDA functions for what an application does beside Weir.
struct Sim {
  static const std::string &path() {
    static const std::string path = built("drivers/libweir_sim_cuda.so");
    return path;
  }
  static void *library() {
    static void *library = open_library(path());
    return library;
  }
#define WEIR_TEST_CONTROL(name)             \
  decltype(::weir_sim_##name) *const name = \
      symbol_of<decltype(::weir_sim_##name)>(library(), "weir_sim_" #name);
  WEIR_TEST_CONTROL(configure)
  WEIR_TEST_CONTROL(complaint)
  WEIR_TEST_CONTROL(fail)
  WEIR_TEST_CONTROL(sticky)
  WEIR_TEST_CONTROL(calls)
  WEIR_TEST_CONTROL(misuse)
  WEIR_TEST_CONTROL(lose_device)
  WEIR_TEST_CONTROL(alive)
#undef WEIR_TEST_CONTROL

  void machine(const char *options) const {
    if (configure(options) != 0) fail_msg("%s: %s", options, complaint());
    assert_int_equal(setenv("WEIR_CUDA_LIBRARY", path().c_str(), 1), 0);
  }

  template <class Function>
  static Function *driver(const char *name, int version) {
    static auto *look_up =
        symbol_of<abi::fn::cuGetProcAddress_v2>(library(), "cuGetProcAddress_v2");
    void *found = nullptr;
    int status = abi::proc_not_found;
    if (look_up(name, &found, version, abi::proc_legacy_stream, &status) != 0 || found == nullptr) {
      fail_msg("the simulated driver has no %s", name);
    }
    Function *function = nullptr;
    std::memcpy(&function, &found, sizeof function);
    return function;
  }
};
#define WEIR_TEST_SYMBOL(entry, symbol, version)                             \
  template <class... Args>                                                   \
  abi::Result entry(Args... args) {                                          \
    static auto *const found = Sim::driver<abi::fn::entry>(symbol, version); \
    return found(args...);                                                   \
  }
/// The driver's functions as an application calls them.
namespace app {
WEIR_CUDA_ENTRIES(WEIR_TEST_SYMBOL)
}
#undef WEIR_TEST_SYMBOL

inline const Sim &sim() {
  static const Sim sim;
  return sim;
}

/// The calling thread's CUDA state that entries must not change. A thread without any has no context.
struct ThreadState {
  abi::Context context = nullptr;
  int mode = abi::capture_mode_global;

  static ThreadState now() {
    ThreadState state;
    (void)app::cuCtxGetCurrent(&state.context);
    int mode = abi::capture_mode_relaxed;
    if (app::cuThreadExchangeStreamCaptureMode(&mode) == abi::result::success) {
      state.mode = mode;
      (void)app::cuThreadExchangeStreamCaptureMode(&mode);
    }
    return state;
  }
};

/// A machine, the backend started on it, and at the end nothing alive and no call that a strict reader would blame.
class Cuda {
 public:
  explicit Cuda(const char *machine, const char *options = "") {
    sim().machine(machine);
    weir_be_start desc{sizeof desc, 0, options, nullptr, nullptr, nullptr};
    const char *reason = "";
    if (t.start(&desc, &state, &reason) != WEIR_SUCCESS) fail_msg("start: %s", reason);
  }
  ~Cuda() { stop(); }
  Cuda(const Cuda &) = delete;
  Cuda &operator=(const Cuda &) = delete;

  void stop() {
    if (state == nullptr) return;
    t.stop(state);
    state = nullptr;
    if (lost) return;
    const char *text = "";
    if (sim().alive(&text) != 0) fail_msg("left alive: %s", text);
    if (sim().misuse(&text) != 0) fail_msg("misuse of the driver: %s", text);
  }

  template <class Entry, class... Args>
  weir_result operator()(Entry entry, Args... args) const {
    const ThreadState before = ThreadState::now();
    const weir_result result = entry(state, args...);
    const ThreadState after = ThreadState::now();
    assert_ptr_equal(before.context, after.context);
    assert_int_equal(before.mode, after.mode);
    return result;
  }
  const char *text() const { return t.error_text(state, t.last_error_code(state)); }

  const weir_backend_table &t = cuda_table();
  weir_be_state *state = nullptr;
  bool lost = false;  ///< frees can't work any more
};

/// One call that must succeed; says why if it does not.
#define must(cuda, ...)                                                                    \
  do {                                                                                     \
    const weir_result must_ = (cuda)(__VA_ARGS__);                                         \
    if (must_ != WEIR_SUCCESS) fail_msg("%s: %d: %s", #__VA_ARGS__, must_, (cuda).text()); \
  } while (false)

/// One call that must be refused with `result` and a sentence that has `words` in it.
#define must_refuse(cuda, wanted, words, ...)                                                \
  do {                                                                                       \
    const weir_result refused_ = (cuda)(__VA_ARGS__);                                        \
    if (refused_ != (wanted)) fail_msg("%s: %d: %s", #__VA_ARGS__, refused_, (cuda).text()); \
    if (std::strstr((cuda).text(), words) == nullptr)                                        \
      fail_msg("'%s' has no '%s'", (cuda).text(), words);                                    \
  } while (false)

/// What the device may do with the mapped memory at the address.
inline unsigned long long access_of(int device, uint64_t address) {
  const abi::Location who{abi::location_device, device};
  unsigned long long flags = 99;
  assert_int_equal(app::cuMemGetAccess(&flags, &who, address), abi::result::success);
  return flags;
}

/// Work that stands in a stream until it is opened.
class Gate {
 public:
  static void hold(void *gate) {
    while (!static_cast<Gate *>(gate)->open_.load()) std::this_thread::yield();
  }
  void open() { open_.store(true); }
  ~Gate() { open(); }

 private:
  std::atomic<bool> open_{false};
};

}  // namespace weir::test
