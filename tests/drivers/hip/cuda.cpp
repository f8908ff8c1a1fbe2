// SPDX-License-Identifier: Apache-2.0
//
// Opening the driver, and what every entry needs of it. The primary contexts are retained until hipDeviceReset, as HIP
// keeps its devices open.

#include "tests/drivers/hip/cuda.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace weir::hip_over_cuda {
namespace {

struct Driver {
  std::mutex mutex;
  bool loaded = false;  ///< once in a process
  bool started = false;
  Cuda cuda;
  std::vector<cu::Context> contexts;
};

/// Never destroyed: a program may still call the runtime when it exits.
Driver &driver() {
  static Driver *const one = new Driver;
  return *one;
}

thread_local int thread_device = 0;

template <class Function>
void look_up(void *library, const char *name, Function **function) noexcept {
  void *found = dlsym(library, name);
  std::memcpy(function, &found, sizeof found);
}

bool load(Cuda *cuda) noexcept {
  void *library = dlopen(setting("WEIR_HIP_CUDA_LIBRARY", "libcuda.so.1"), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  cu::fn::cuGetProcAddress_v2 *newer = nullptr;
  cu::fn::cuGetProcAddress *older = nullptr;
  look_up(library, "cuGetProcAddress_v2", &newer);
  if (newer == nullptr) look_up(library, "cuGetProcAddress", &older);
  const auto find = [&](const char *symbol, int version) -> void * {
    void *found = nullptr;
    int status = 0;
    cu::Result result = cu::result::not_found;
    if (newer != nullptr) {
      result = newer(symbol, &found, version, cu::proc_default, &status);
    } else if (older != nullptr) {
      result = older(symbol, &found, version, cu::proc_default);
    }
    return result == cu::result::success ? found : nullptr;
  };
#define WEIR_FIND(name, symbol, version)            \
  {                                                 \
    void *found = find(symbol, version);            \
    std::memcpy(&cuda->name, &found, sizeof found); \
  }
  WEIR_CUDA_ENTRIES(WEIR_FIND)
#undef WEIR_FIND
  return cuda->cuInit != nullptr && cuda->cuDeviceGetCount != nullptr &&
         cuda->cuCtxPushCurrent != nullptr && cuda->cuCtxPopCurrent != nullptr &&
         cuda->cuDevicePrimaryCtxRetain != nullptr;
}

}  // namespace

const char *setting(const char *variable, const char *otherwise) noexcept {
  const char *text = secure_getenv(variable);
  return text != nullptr && *text != '\0' ? text : otherwise;
}

bool flag(const char *variable, bool otherwise) noexcept {
  return std::strcmp(setting(variable, otherwise ? "1" : "0"), "0") != 0;
}

abi::Error start() {
  Driver &one = driver();
  const std::lock_guard lock(one.mutex);
  if (one.started) return abi::success;
  if (!one.loaded && !load(&one.cuda)) return abi::no_device;
  one.loaded = true;
  if (const abi::Error error = call(one.cuda.cuInit, 0U); error != abi::success) return error;
  int count = 0;
  if (const abi::Error error = call(one.cuda.cuDeviceGetCount, &count); error != abi::success)
    return error;
  if (count == 0) return abi::no_device;
  std::vector<cu::Context> contexts;
  for (int device = 0; device < count; ++device) {
    cu::Context context = nullptr;
    const abi::Error error = call(one.cuda.cuDevicePrimaryCtxRetain, &context, device);
    if (error != abi::success) {
      for (int made = 0; made < device; ++made) call(one.cuda.cuDevicePrimaryCtxRelease, made);
      return error;
    }
    contexts.push_back(context);
  }
  one.contexts = std::move(contexts);
  one.started = true;
  return abi::success;
}

abi::Error reset(int device) {
  Driver &one = driver();
  const std::lock_guard lock(one.mutex);
  cu::Context &context = one.contexts[static_cast<size_t>(device)];
  if (context == nullptr) return abi::success;
  const abi::Error error = call(one.cuda.cuDevicePrimaryCtxRelease, device);
  if (error != abi::success) return error;
  context = nullptr;
  one.started = std::any_of(one.contexts.begin(), one.contexts.end(),
                            [](cu::Context each) { return each != nullptr; });
  return abi::success;
}

const Cuda &cuda() noexcept { return driver().cuda; }

const std::vector<cu::Context> &contexts() noexcept { return driver().contexts; }

abi::Error from_cuda(cu::Result result) noexcept {
  switch (result) {
    case cu::result::success:
    case cu::result::invalid_value:
    case cu::result::out_of_memory:
    case cu::result::not_initialized:
    case cu::result::deinitialized:
    case cu::result::no_device:
    case cu::result::invalid_device:
    case cu::result::invalid_context:
    case cu::result::map_failed:
    case cu::result::unmap_failed:
    case cu::result::already_mapped:
    case cu::result::not_mapped:
    case cu::result::ecc_uncorrectable:
    case cu::result::peer_access_unsupported:
    case cu::result::operating_system:
    case cu::result::invalid_handle:
    case cu::result::not_found:
    case cu::result::not_ready:
    case cu::result::illegal_address:
    case cu::result::launch_timeout:
    case cu::result::peer_access_already_enabled:
    case cu::result::peer_access_not_enabled:
    case cu::result::context_is_destroyed:
    case cu::result::device_assert:
    case cu::result::host_memory_already_registered:
    case cu::result::host_memory_not_registered:
    case cu::result::launch_failed:
    case cu::result::not_supported:
    case cu::result::stream_capture_unsupported:
    case cu::result::stream_capture_invalidated:
    case cu::result::stream_capture_implicit:
    case cu::result::captured_event:
    case cu::result::stream_capture_wrong_thread:
      return result;  // the two have the same numbers for these
    case cu::result::device_unavailable:
    case cu::result::nvlink_uncorrectable:
    case cu::result::contained:
    case cu::result::hardware_stack_error:
    case cu::result::illegal_instruction:
    case cu::result::misaligned_address:
    case cu::result::invalid_address_space:
    case cu::result::invalid_pc:
      return abi::launch_failure;
    default:
      return abi::unknown;
  }
}

int current_device() noexcept { return thread_device; }

void set_current_device(int device) noexcept { thread_device = device; }

InContext::InContext(int device) noexcept : error_(abi::not_initialized) {
  // HIP starts itself with the first call.
  error_ = start();
  if (error_ != abi::success) return;
  if (device < 0 || static_cast<size_t>(device) >= contexts().size()) {
    error_ = abi::invalid_device;
    return;
  }
  error_ = call(cuda().cuCtxPushCurrent, contexts()[static_cast<size_t>(device)]);
}

InContext::~InContext() {
  cu::Context popped = nullptr;
  if (error_ != abi::success) return;
  // Once more where it fails: the thread must not keep the context.
  if (cuda().cuCtxPopCurrent(&popped) != cu::result::success) cuda().cuCtxPopCurrent(&popped);
}

}  // namespace weir::hip_over_cuda
