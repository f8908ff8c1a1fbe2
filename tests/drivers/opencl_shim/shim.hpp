// SPDX-License-Identifier: Apache-2.0
//
// What the shim knows and was told, and the way of every call through it. State is the library's, guarded by one lock
// that is never held while the loader is called.
#pragma once

#include "backends/opencl/cl.hpp"
#include "tests/drivers/opencl_shim/control.h"

#include <array>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>

namespace weir::opencl_shim {

/// The loader's functions, and what a platform has of the extension's.
struct Functions {
#define WEIR_OPENCL_FUNCTION(result, name, parameters, arguments) \
  result(CL_API_CALL *name) parameters = nullptr;
#define WEIR_OPENCL_EXTENSION WEIR_OPENCL_FUNCTION
#include "backends/opencl/functions.def"
#undef WEIR_OPENCL_EXTENSION
#undef WEIR_OPENCL_FUNCTION
};

/// Objects that are counted.
enum Object { contexts, queues, events, memory, object_kinds };

struct Pretence {
  bool platforms = true, svm = true, host_usm = true, functions = true, unified = true;
  bool identity = false;
  int usm = -1;  ///< -1: as the devices say
  int gpu = -1;  ///< -1: as the devices say
  std::string version;
};

class Shim {
 public:
  static Shim &get();
  /// The loader's functions. Where the platform has no USM of its own and it is pretended, those are made over SVM.
  const Functions &real() const noexcept { return real_; }

  /// Begins a call: counts it, blocks where told to. False: it answers *code.
  bool enter(const char *call, bool about_device, bool can_fail, cl_int *code);
  void count(Object kind, int change) noexcept;
  /// What clGetEventInfo tells of a command's status.
  cl_int status(cl_int real) const noexcept;
  Pretence pretence() const;
  /// A device's number, in the order in which they were listed.
  int number_of(cl_device_id device);
  void list(const cl_device_id *devices, cl_uint count);

  void reset();
  int pretend(const char *options);
  void fail(const char *call, uint64_t nth, cl_int code);
  uint64_t calls(const char *call);
  const char *failed();
  void lose(cl_int code);
  void break_commands(cl_int status);
  void stall();
  void block(const char *call);
  uint64_t blocked();
  void resume();
  uint64_t alive(const char **text);

 private:
  Shim();
  bool set(std::string_view key, std::string_view value);

  Functions real_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Pretence pretence_;
  std::map<std::string, uint64_t> calls_;
  uint64_t all_calls_ = 0, fail_in_ = 0, blocked_ = 0;
  std::string fail_call_, blocked_call_, failed_, alive_text_;
  cl_int fail_code_ = 0, lost_code_ = 0, broken_status_ = 0;
  bool stalled_ = false;
  std::array<int64_t, object_kinds> alive_{};
  std::map<cl_device_id, int> devices_;
};

/// Calls that end something, or are about platforms alone: a lost device does not show in them.
constexpr bool is_about_device(std::string_view name) {
  return !(name.starts_with("clRelease") || name.starts_with("clRetain") ||
           name.find("Free") != name.npos || name.find("Platform") != name.npos ||
           name == "clSetUserEventStatus");
}

/// Writes a code where a call takes one: its parameter of type cl_int *.
struct TellCode {
  cl_int code;
  template <class... Arguments>
  void operator()(Arguments... arguments) const {
    (tell(arguments), ...);
  }
  void tell(cl_int *out) const {
    if (out != nullptr) *out = code;
  }
  template <class Other>
  void tell(Other) const {}
};

/// How many events a call gives out: its parameter of type cl_event * says whether one is wanted.
struct EventsGiven {
  template <class... Arguments>
  int operator()(Arguments... arguments) const {
    return (0 + ... + given(arguments));
  }
  static int given(cl_event *out) { return out != nullptr ? 1 : 0; }
  template <class Other>
  static int given(Other) {
    return 0;
  }
};

/// Objects made and ended, by the name of a call that went well.
template <class Given>
void note(std::string_view name, Given events_given) {
  Shim &shim = Shim::get();
  const auto count = [&](Object kind, std::string_view make, std::string_view keep,
                         std::string_view end) {
    if (name == make || name == keep) shim.count(kind, 1);
    if (name == end) shim.count(kind, -1);
  };
  count(contexts, "clCreateContext", "clRetainContext", "clReleaseContext");
  count(queues, "clCreateCommandQueueWithProperties", "clRetainCommandQueue",
        "clReleaseCommandQueue");
  count(events, "clCreateUserEvent", "clRetainEvent", "clReleaseEvent");
  count(memory, "clSVMAlloc", "clDeviceMemAllocINTEL", "clSVMFree");
  count(memory, "clHostMemAllocINTEL", "", "clMemFreeINTEL");
  const int given = events_given();
  if (given != 0) shim.count(events, given);
}

/// One call: `tell` writes a code, `call` makes it at the loader.
template <class Result, class Tell, class Given, class Call>
Result pass(const char *name, Tell tell, Given given, Call call) {
  constexpr bool can_fail = !std::is_void_v<Result>;
  cl_int code = CL_SUCCESS;
  if (!Shim::get().enter(name, is_about_device(name), can_fail, &code)) {
    if constexpr (std::is_same_v<Result, cl_int>) return code;
    if constexpr (std::is_pointer_v<Result>) {
      tell(TellCode{code});
      return nullptr;
    }
  }
  if constexpr (std::is_void_v<Result>) {
    call();
    note(name, given);
  } else {
    const Result result = call();
    bool well = true;
    if constexpr (std::is_pointer_v<Result>) {
      well = result != nullptr;
    } else {
      well = result == CL_SUCCESS;
    }
    if (well) note(name, given);
    return result;
  }
}

// Calls that are answered by what is pretended, where that says otherwise than the loader.
cl_int platform_ids(cl_uint capacity, cl_platform_id *platforms, cl_uint *count);
cl_int device_ids(cl_platform_id platform, cl_device_type type, cl_uint capacity,
                  cl_device_id *devices, cl_uint *count);
cl_int device_info(cl_device_id device, cl_device_info name, size_t size, void *value,
                   size_t *needed);
cl_int event_info(cl_event event, cl_event_info name, size_t size, void *value, size_t *needed);
void *extension(cl_platform_id platform, const char *name);

}  // namespace weir::opencl_shim
