// SPDX-License-Identifier: Apache-2.0
//
// What a backend must leave of the calling thread's as it found it. The choice in a vendor's runtime is looked at where there is
// one that can be asked: the library that the backend has loaded is looked up, never loaded here.
#pragma once

#include "conformance/fixtures.hpp"

#include <dlfcn.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include <cfenv>
#include <cstdlib>
#include <cstring>
#include <string>

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

/// How a thread is set while it is watched: two ways that differ in everything, so that a backend can't leave the thread as it was
/// by setting it one way always.
struct Manner {
  int rounding;
  uint32_t floating;  ///< flush to zero and denormals are zero, in the register's bits
  int blocked_signal, other_blocked_signal;
  const char *name;  ///< the thread's
  unsigned long slack_ns;
};
inline constexpr Manner manners[] = {
    {FE_DOWNWARD, 0x8040, SIGUSR2, SIGWINCH, "suite's thread", 61'000},
    {FE_UPWARD, 0, SIGUSR1, SIGTTOU, "thread of suite", 1'000'000},
};

/// What the system keeps for a thread.
class SystemState {
 public:
  static SystemState of_this_thread() {
    SystemState is;
    pthread_getname_np(pthread_self(), is.name_, sizeof is.name_);
    is.slack_ = prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL);
    CPU_ZERO(&is.processors_);
    (void)pthread_getaffinity_np(pthread_self(), sizeof is.processors_, &is.processors_);
    sched_param parameters{};
    (void)pthread_getschedparam(pthread_self(), &is.policy_, &parameters);
    is.priority_ = parameters.sched_priority;
    // Neither can be asked for without being set.
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &is.cancel_state_);
    (void)pthread_setcancelstate(is.cancel_state_, nullptr);
    (void)pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &is.cancel_type_);
    (void)pthread_setcanceltype(is.cancel_type_, nullptr);
    is.locale_ = uselocale(nullptr);
    return is;
  }
  Outcome same(const SystemState &now, const std::string &after) const {
    CHECK(std::strcmp(name_, now.name_) == 0, "after ", after, " the thread is called ", now.name_,
          ", not ", name_);
    CHECK(slack_ == now.slack_, "after ", after, " the thread's timer slack is ", now.slack_,
          " ns, not ", slack_);
    CHECK(CPU_EQUAL(&processors_, &now.processors_) != 0, "after ", after,
          " the thread may run on ", CPU_COUNT(&now.processors_),
          " processors, or on others than before, when there were ", CPU_COUNT(&processors_));
    CHECK(policy_ == now.policy_ && priority_ == now.priority_, "after ", after,
          " the thread is scheduled by policy ", now.policy_, " and priority ", now.priority_);
    CHECK(cancel_state_ == now.cancel_state_ && cancel_type_ == now.cancel_type_, "after ", after,
          " the thread's cancellation has state ", now.cancel_state_, " and type ",
          now.cancel_type_);
    CHECK(locale_ == now.locale_, "after ", after, " the thread has another locale");
    return {};
  }

 private:
  char name_[16] = {};
  int slack_ = 0, policy_ = 0, priority_ = 0, cancel_state_ = 0, cancel_type_ = 0;
  cpu_set_t processors_{};
  locale_t locale_ = nullptr;
};

/// What is looked at: what the header names, or what the system keeps for a thread besides.
enum class Looks : uint8_t { named, besides };

/// Looks, after each call that the thread makes, whether its state is as it was. It gives the thread a state that no thread has by
/// chance, and takes it back. For threads of the suite's own, which are never cancelled.
class ThreadState : public Watch {
 public:
  ThreadState(Choice &choice, std::string who, const Manner &manner = manners[0],
              Looks looks = Looks::named)
      : choice_(choice), who_(std::move(who)), manner_(manner), looks_(looks) {
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, manner.blocked_signal);
    sigaddset(&mask, manner.other_blocked_signal);
    pthread_sigmask(SIG_SETMASK, &mask, &before_);
    rounding_before_ = std::fegetround();
    std::fesetround(manner.rounding);
#if defined(__SSE__)
    modes_before_ = _mm_getcsr();
    _mm_setcsr((modes_before_ & ~flush_to_zero) | manner.floating);
    modes_ = modes();
#endif
    pthread_getname_np(pthread_self(), name_before_, sizeof name_before_);
    slack_before_ = prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL);
    pthread_setname_np(pthread_self(), manner.name);
    (void)prctl(PR_SET_TIMERSLACK, manner.slack_ns, 0UL, 0UL, 0UL);
    system_ = SystemState::of_this_thread();
    choice_.note();
  }
  ~ThreadState() {
    (void)prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack_before_), 0UL, 0UL, 0UL);
    pthread_setname_np(pthread_self(), name_before_);
#if defined(__SSE__)
    _mm_setcsr(modes_before_);
#endif
    std::fesetround(rounding_before_);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 protected:
  Outcome same(const char *entry) override {
    const std::string after = words(entry, " (", who_, ")");
    if (looks_ == Looks::besides) return system_.same(SystemState::of_this_thread(), after);
    CHECK(std::fegetround() == manner_.rounding, "after ", after, " the rounding mode is ",
          std::fegetround());
#if defined(__SSE__)
    CHECK(modes() == modes_, "after ", after, " the floating-point modes are ", modes(), ", not ",
          modes_);
#endif
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    for (int signal = 1; signal < NSIG; ++signal) {
      const bool wanted =
          signal == manner_.blocked_signal || signal == manner_.other_blocked_signal;
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
  const Manner &manner_;
  const Looks looks_;
  SystemState system_;
  sigset_t before_{};
  int rounding_before_ = 0, slack_before_ = 0;
  char name_before_[16] = {};
};

}  // namespace weir::conformance
