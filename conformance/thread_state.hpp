// SPDX-License-Identifier: Apache-2.0
//
// What a backend must leave of the calling thread's as it found it. The choice in a vendor's runtime is looked at where there is
// one that can be asked: the library that the backend has loaded is looked up, never loaded here.
#pragma once

#include "conformance/fixtures.hpp"

#include <dlfcn.h>
#include <signal.h>

#include <cfenv>
#include <cstdlib>
#include <cstring>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace weir::conformance {

/// What a thread has chosen in its runtime before it calls the backend.
enum class Chosen : uint8_t { nothing, first, last, own_context };
inline const char *name_of(Chosen chosen) {
  switch (chosen) {
    case Chosen::nothing:
      return "nothing";
    case Chosen::first:
      return "the first device";
    case Chosen::last:
      return "the last device";
    case Chosen::own_context:
      return "a context of its own";
  }
  return "";
}

/// The function of a library that is in the process already; nullptr if there is none.
template <class Function>
inline bool find_loaded(const char *variable, const char *name, const char *symbol,
                        Function **function) {
  const char *path = std::getenv(variable);
  void *library = dlopen(path != nullptr && *path != '\0' ? path : name, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return false;
  void *found = dlsym(library, symbol);
  std::memcpy(function, &found, sizeof found);
  return found != nullptr;
}

/// What the thread has chosen in its runtime: a context, or a device. All vendors' calls return 0 for success.
class Choice {
 public:
  Choice() {
    const bool cuda =
        find_loaded("WEIR_CUDA_LIBRARY", "libcuda.so.1", "cuCtxGetCurrent", &get_context_) &&
        find_loaded("WEIR_CUDA_LIBRARY", "libcuda.so.1", "cuCtxSetCurrent", &set_context_) &&
        find_loaded("WEIR_CUDA_LIBRARY", "libcuda.so.1", "cuDevicePrimaryCtxRetain", &retain_);
    if (!cuda) get_context_ = nullptr;
    if (cuda) {
      (void)find_loaded("WEIR_CUDA_LIBRARY", "libcuda.so.1", "cuCtxCreate_v2", &create_);
      (void)find_loaded("WEIR_CUDA_LIBRARY", "libcuda.so.1", "cuCtxDestroy_v2", &destroy_);
    }
    bool hip = false;
    for (const char *name : {"libamdhip64.so.7", "libamdhip64.so.6"}) {
      hip = hip || (find_loaded("WEIR_HIP_LIBRARY", name, "hipGetDevice", &get_device_) &&
                    find_loaded("WEIR_HIP_LIBRARY", name, "hipSetDevice", &set_device_));
    }
    if (!hip) get_device_ = nullptr;
  }
  ~Choice() {
    if (own_ == nullptr) return;
    (void)set_context_(nullptr);
    (void)destroy_(own_);
  }
  Choice(const Choice &) = delete;
  Choice &operator=(const Choice &) = delete;
  bool any() const noexcept { return get_context_ != nullptr || get_device_ != nullptr; }
  /// Makes the thread choose something of the first device.
  void choose() const {
    void *context = nullptr;
    if (get_context_ != nullptr && retain_(&context, 0) == 0) (void)set_context_(context);
    if (get_device_ != nullptr) (void)set_device_(0);
  }
  /// The thread chooses, in its runtime; false if it can't. Without a runtime it can have chosen nothing.
  bool choose(Chosen chosen, int last) {
    if (chosen == Chosen::nothing) return true;
    const int ordinal = chosen == Chosen::last ? last : 0;
    if (chosen == Chosen::own_context) {
      return get_context_ != nullptr && create_ != nullptr && destroy_ != nullptr &&
             create_(&own_, 0, 0) == 0;
    }
    void *context = nullptr;
    if (get_context_ != nullptr)
      return retain_(&context, ordinal) == 0 && set_context_(context) == 0;
    return get_device_ != nullptr && set_device_(ordinal) == 0;
  }
  /// Fails if the thread's choice is not what it was when note() was called.
  void note() { get(&context_, &device_); }
  Outcome same(const char *after) const {
    void *context = nullptr;
    int device = -1;
    get(&context, &device);
    CHECK(context == context_, "after ", after, " the thread's current context is ", context,
          ", and was ", context_);
    CHECK(device == device_, "after ", after, " the thread's current device is ", device,
          ", and was ", device_);
    return {};
  }

 private:
  void get(void **context, int *device) const {
    if (get_context_ != nullptr) (void)get_context_(context);
    if (get_device_ != nullptr) (void)get_device_(device);
  }
  int (*get_context_)(void **) = nullptr;
  int (*set_context_)(void *) = nullptr;
  int (*retain_)(void **, int) = nullptr;
  int (*create_)(void **, unsigned, int) = nullptr;
  int (*destroy_)(void *) = nullptr;
  int (*get_device_)(int *) = nullptr;
  int (*set_device_)(int) = nullptr;
  void *context_ = nullptr, *own_ = nullptr;
  int device_ = -1;
};

/// Looks, after each call that the thread makes, whether its state is as it was. It gives the thread a state that nobody has by
/// chance, and takes it back.
class ThreadState : public Watch {
 public:
  ThreadState(Choice &choice, std::string who) : choice_(choice), who_(std::move(who)) {
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    sigaddset(&mask, SIGWINCH);
    pthread_sigmask(SIG_SETMASK, &mask, &before_);
    rounding_before_ = std::fegetround();
    std::fesetround(FE_DOWNWARD);
#if defined(__SSE__)
    modes_before_ = _mm_getcsr();
    _mm_setcsr(modes_before_ | flush_to_zero);
    modes_ = modes();
#endif
    choice_.note();
  }
  ~ThreadState() {
#if defined(__SSE__)
    _mm_setcsr(modes_before_);
#endif
    std::fesetround(rounding_before_);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 protected:
  Outcome same(const char *entry) override {
    const std::string after = words(entry, " (", who_, ")");
    CHECK(std::fegetround() == FE_DOWNWARD, "after ", after, " the rounding mode is ",
          std::fegetround());
#if defined(__SSE__)
    CHECK(modes() == modes_, "after ", after, " the floating-point modes are ", modes(), ", not ",
          modes_);
#endif
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    for (int signal = 1; signal < NSIG; ++signal) {
      const bool wanted = signal == SIGUSR2 || signal == SIGWINCH;
      if (sigismember(&mask, signal) < 0) continue;
      CHECK((sigismember(&mask, signal) == 1) == wanted, "after ", after, " signal ", signal,
            " is ", wanted ? "no longer" : "now", " blocked");
    }
    return choice_.same(after.c_str());
  }

 private:
#if defined(__SSE__)
  static constexpr uint32_t flush_to_zero = 0x8040;
  /// Without the flags of what has happened.
  static uint32_t modes() noexcept { return _mm_getcsr() & ~uint32_t{0x3f}; }
  uint32_t modes_before_ = 0, modes_ = 0;
#endif
  Choice &choice_;
  const std::string who_;
  sigset_t before_{};
  int rounding_before_ = 0;
};

}  // namespace weir::conformance
