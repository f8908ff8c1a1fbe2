// SPDX-License-Identifier: Apache-2.0
//
// For tests of the OpenCL backend: the plugin, loaded by path, over the shim and whichever OpenCL the machine has. Each
// test begins with a shim that was told nothing, and ends what it made; what is left then is a failure.
#pragma once

#include "backends/opencl/cl.hpp"
#include "tests/backends/shimmed_plugin.hpp"
#include "tests/drivers/opencl_shim/control.h"
#include "tests/support/cmocka.hpp"

#include <weir/backend.h>

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace opencl_test {

using namespace shimmed;

inline std::string shim_path() { return in_build("drivers/libweir_opencl_shim.so"); }

inline constexpr uint64_t size = 256 * 1024;

/// The shim: its controls, and OpenCL itself.
struct Shim {
  void *library = open_library(shim_path());
#define WEIR_SHIM_MEMBER(name)                      \
  std::remove_reference_t<decltype(::name)> *name = \
      function_of<std::remove_reference_t<decltype(::name)>>(library, #name)
  WEIR_SHIM_MEMBER(weir_shim_reset);
  WEIR_SHIM_MEMBER(weir_shim_pretend);
  WEIR_SHIM_MEMBER(weir_shim_fail);
  WEIR_SHIM_MEMBER(weir_shim_calls);
  WEIR_SHIM_MEMBER(weir_shim_failed);
  WEIR_SHIM_MEMBER(weir_shim_lose);
  WEIR_SHIM_MEMBER(weir_shim_break);
  WEIR_SHIM_MEMBER(weir_shim_stall);
  WEIR_SHIM_MEMBER(weir_shim_block);
  WEIR_SHIM_MEMBER(weir_shim_blocked);
  WEIR_SHIM_MEMBER(weir_shim_resume);
  WEIR_SHIM_MEMBER(weir_shim_alive);
  WEIR_SHIM_MEMBER(clGetPlatformIDs);
  WEIR_SHIM_MEMBER(clGetDeviceIDs);
  WEIR_SHIM_MEMBER(clCreateContext);
  WEIR_SHIM_MEMBER(clReleaseContext);
  WEIR_SHIM_MEMBER(clGetContextInfo);
  WEIR_SHIM_MEMBER(clCreateCommandQueueWithProperties);
  WEIR_SHIM_MEMBER(clReleaseCommandQueue);
  WEIR_SHIM_MEMBER(clGetCommandQueueInfo);
  WEIR_SHIM_MEMBER(clCreateUserEvent);
  WEIR_SHIM_MEMBER(clSetUserEventStatus);
  WEIR_SHIM_MEMBER(clReleaseEvent);
  WEIR_SHIM_MEMBER(clEnqueueBarrierWithWaitList);
  WEIR_SHIM_MEMBER(clFlush);
#undef WEIR_SHIM_MEMBER
};

inline Shim &shim() {
  static Shim controls;
  return controls;
}

inline const weir_backend_table &table() {
  static const weir_backend_table *found = [] {
    void *library = open_library(in_build("weir/1/libweir_backend_opencl.so"));
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
  Log log;

  explicit Backend(const char *options = "memory=64M", const void *native = nullptr) {
    const weir_be_start desc = {sizeof desc, 0, options, Log::take, &log, native};
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
};

inline void check(const Backend &backend, weir_result got, weir_result wanted, const char *call,
                  int line) {
  if (got != wanted)
    fail_msg("line %d: %s = %d, wanted %d (%s)", line, call, got, wanted,
             backend.state != nullptr ? backend.error().c_str() : backend.reason.c_str());
}
#define WANT(wanted, call) opencl_test::check(backend, (call), (wanted), #call, __LINE__)
#define OK(call) WANT(WEIR_SUCCESS, call)

inline void nothing_is_left() {
  const char *text = "";
  if (shim().weir_shim_alive(&text) != 0) fail_msg("left in the runtime: %s", text);
}

inline int fresh(void **) {
  shim().weir_shim_reset();
  return 0;
}

/// Why no test can run here; "" if they can.
inline std::string missing() {
  cl_uint count = 0;
  void *loader = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (loader == nullptr) return "there is no OpenCL loader here";
  const auto list =
      function_of<cl_int(cl_uint, cl_platform_id *, cl_uint *)>(loader, "clGetPlatformIDs");
  if (list(0, nullptr, &count) != CL_SUCCESS || count == 0) return "OpenCL has no platform here";
  return "";
}

/// Names the shim, before anything is loaded; says why nothing can be tested.
inline int prepare(int argc) {
  (void)argc;
  const std::string why = missing();
  if (!why.empty()) {
    std::printf("skipped: %s\n", why.c_str());
    return skipped;
  }
  setenv("WEIR_OPENCL_LIBRARY", shim_path().c_str(), 1);
  // Where the driver is PoCL there are two devices, unless somebody wants it otherwise.
  setenv("POCL_DEVICES", "pthread pthread", 0);
  return 0;
}

}  // namespace opencl_test
