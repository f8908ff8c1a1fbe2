// SPDX-License-Identifier: Apache-2.0
//
// Starting the runtime, one step at a time: the version first, because older runtimes have other types under the same
// names and must not be called.

#include "backends/hip/runtime.hpp"

#include <cstdio>
#include <cstring>

namespace weir::hip {
namespace {

constexpr int per_major = 10'000'000;
constexpr int per_minor = 100'000;
/// The first release that has hipMemcpyBatchAsync; an older library's function of that name would be something else.
constexpr int batches_since = 70'100'000;

std::string failed(const char *call, abi::Error error) {
  return std::string(call) + " failed with " + std::to_string(error) + " (" + words(error) + ")";
}

}  // namespace

bool Runtime::ask_version(std::string *reason) {
  abi::fn::hipRuntimeGetVersion *ask = nullptr;
  if (!library_.find("hipRuntimeGetVersion", &ask)) {
    *reason = library_.name() + " is no HIP runtime: it has no hipRuntimeGetVersion";
    return false;
  }
  int version = 0;
  if (const abi::Error error = ask(&version); error != abi::success) {
    *reason = failed("hipRuntimeGetVersion", error);
    return false;
  }
  const std::string major = std::to_string(version / per_major);
  const std::string minor = std::to_string(version % per_major / per_minor);
  if (version < abi::first_version) {
    *reason = "HIP runtime " + major + "." + minor + " found, 6.0 needed";
    return false;
  }
  version_ = version;
  version_text_ = major + "." + minor + "." + std::to_string(version % per_minor);
  return true;
}

void Runtime::find_functions() {
  const auto find = [this](const char *name, abi::Need need, auto **function) {
    const bool too_early = need == abi::Need::batch_copy && version_ < batches_since;
    if (!too_early && library_.find(name, function)) return;
    missing_ |= bit(need);
    lacking_ += (lacking_.empty() ? "" : ", ") + std::string(name);
  };
#define WEIR_HIP_FIND(name, need) find(#name, abi::Need::need, &functions_.name);
  WEIR_HIP_ENTRIES(WEIR_HIP_FIND)
#undef WEIR_HIP_FIND
}

bool Runtime::start(std::string *reason) {
  if (!library_.open("WEIR_HIP_LIBRARY",
                     {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"}, reason)) {
    reason->insert(0, "no HIP runtime: ");
    return false;
  }
  if (!ask_version(reason)) return false;
  find_functions();
  if (!has(abi::Need::runtime)) {
    *reason = "HIP runtime " + version_text_ + " lacks " + lacking_;
    return false;
  }
  if (const abi::Error error = functions_.hipInit(0); error != abi::success) {
    *reason = failed("hipInit", error);
    return false;
  }
  int count = 0;
  if (const abi::Error error = functions_.hipGetDeviceCount(&count); error != abi::success) {
    *reason = failed("hipGetDeviceCount", error);
    return false;
  }
  if (count <= 0) {
    *reason = "HIP runtime " + version_text_ + " finds no device";
    return false;
  }
  devices_ = static_cast<uint32_t>(count);
  return true;
}

weir_result result_of(abi::Error error) noexcept {
  switch (error) {
    case abi::success:
      return WEIR_SUCCESS;
    case abi::not_ready:
      return WEIR_NOT_READY;
    case abi::out_of_memory:
    case abi::runtime_memory:
      return WEIR_ERROR_DEVICE_OOM;
    case abi::not_supported:
    case abi::peer_access_unsupported:
      return WEIR_ERROR_NOT_SUPPORTED;
    case abi::stream_capture_unsupported:
    case abi::stream_capture_invalidated:
    case abi::stream_capture_implicit:
    case abi::stream_capture_wrong_thread:
    case abi::captured_event:
      return WEIR_ERROR_STREAM_CAPTURING;
    case abi::deinitialized:
    case abi::no_device:
    case abi::ecc_not_correctable:
    case abi::illegal_address:
    case abi::launch_time_out:
    case abi::assertion:
    case abi::launch_failure:
      return WEIR_ERROR_DEVICE_LOST;
    default:
      return WEIR_ERROR_BACKEND;
  }
}

const char *words(abi::Error error) noexcept {
  switch (error) {
    case abi::success:
      return "no error";
    case abi::invalid_value:
      return "invalid value";
    case abi::out_of_memory:
      return "out of memory";
    case abi::not_initialized:
      return "not initialized";
    case abi::deinitialized:
      return "the runtime is shutting down";
    case abi::invalid_device_pointer:
      return "invalid device pointer";
    case abi::insufficient_driver:
      return "the driver is older than the runtime";
    case abi::no_device:
      return "no device";
    case abi::invalid_device:
      return "invalid device";
    case abi::invalid_context:
      return "invalid context";
    case abi::map_failed:
      return "mapping failed";
    case abi::unmap_failed:
      return "unmapping failed";
    case abi::already_mapped:
      return "already mapped";
    case abi::not_mapped:
      return "not mapped";
    case abi::ecc_not_correctable:
      return "uncorrectable memory error";
    case abi::peer_access_unsupported:
      return "peer access is not supported";
    case abi::operating_system:
      return "an operating-system call failed";
    case abi::invalid_handle:
      return "invalid handle";
    case abi::not_found:
      return "not found";
    case abi::not_ready:
      return "not ready";
    case abi::illegal_address:
      return "illegal memory access on the device";
    case abi::launch_time_out:
      return "a kernel ran too long";
    case abi::peer_access_already_enabled:
      return "peer access is enabled already";
    case abi::peer_access_not_enabled:
      return "peer access is not enabled";
    case abi::context_is_destroyed:
      return "the stream or its context is gone";
    case abi::assertion:
      return "an assertion failed on the device";
    case abi::host_memory_already_registered:
      return "the host memory is registered already";
    case abi::host_memory_not_registered:
      return "the host memory is not registered";
    case abi::launch_failure:
      return "the device failed while it ran a kernel";
    case abi::not_supported:
      return "not supported";
    case abi::stream_capture_unsupported:
      return "not allowed while a stream is capturing";
    case abi::stream_capture_invalidated:
      return "the stream's capture was invalidated";
    case abi::stream_capture_implicit:
      return "the legacy stream can't be used during a capture";
    case abi::captured_event:
      return "the event was recorded in a capture";
    case abi::stream_capture_wrong_thread:
      return "the capture belongs to another thread";
    case abi::unknown:
      return "unknown error";
    case abi::runtime_memory:
      return "a memory call of the lower runtime failed";
    case abi::runtime_other:
      return "a call of the lower runtime failed";
    default:
      return "an error without words here; see hipError_t";
  }
}

weir_result checked(abi::Error error, const char *what) noexcept {
  if (error == abi::success) return WEIR_SUCCESS;
  if (error == abi::not_ready) return WEIR_NOT_READY;
  return runtime_failure(result_of(error), error, "%s: %s (%d)", what, words(error), error);
}

weir_result checked_argument(abi::Error error, const char *what) noexcept {
  switch (error) {
    case abi::invalid_value:
    case abi::invalid_device_pointer:
    case abi::invalid_handle:
    case abi::context_is_destroyed:
    case abi::host_memory_already_registered:
    case abi::host_memory_not_registered:
      return runtime_failure(WEIR_ERROR_INVALID_ARGUMENT, error, "%s: %s (%d)", what, words(error),
                             error);
    default:
      return checked(error, what);
  }
}

OnDevice::OnDevice(const Runtime &runtime, uint32_t device) noexcept
    : runtime_(runtime), relaxed_(runtime) {
  result_ = checked(runtime.call().hipGetDevice(&before_), "hipGetDevice");
  if (result_ != WEIR_SUCCESS || before_ == static_cast<int>(device)) return;
  result_ = checked(runtime.call().hipSetDevice(static_cast<int>(device)), "hipSetDevice");
  changed_ = result_ == WEIR_SUCCESS;
}

OnDevice::~OnDevice() {
  if (changed_) end_quietly([&] { return runtime_.call().hipSetDevice(before_); });
}

}  // namespace weir::hip
