// SPDX-License-Identifier: Apache-2.0
//
// Names and words of the vendor's codes, and the look-up of functions. None of these needs cuInit.

#include "tests/drivers/cuda/driver.hpp"

#include <cstring>

namespace weir::sim_cuda {
namespace {

struct Error {
  Result code;
  const char *name;
  const char *text;
};

constexpr Error errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "the library is a stub"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "the device is busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no device"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "invalid device kernel image"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported"},
    {304, "CUDA_ERROR_OPERATING_SYSTEM", "a call of the operating system failed"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {401, "CUDA_ERROR_ILLEGAL_STATE", "a resource is in the wrong state for this"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "illegal memory access"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "a launch ran into its time limit"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is enabled already"},
    {705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "the context is destroyed"},
    {710, "CUDA_ERROR_ASSERT", "an assertion of device code failed"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "host memory is registered already"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "host memory is not registered"},
    {714, "CUDA_ERROR_HARDWARE_STACK_ERROR", "hardware stack error"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {721, "CUDA_ERROR_TENSOR_MEMORY_LEAK", "tensor memory was not deallocated"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "the system is not ready"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "driver versions do not match"},
    {806, "CUDA_ERROR_MPS_RPC_FAILURE", "a call to the MPS server failed"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "not permitted while a stream captures"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "the capture failed before this call"},
    {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "two captures would be merged"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "the capture began in another stream"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "a captured stream was not joined"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "a dependency crosses the capture's border"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "an implicit dependency on a capturing stream"},
    {907, "CUDA_ERROR_CAPTURED_EVENT", "the event was recorded in a capture"},
    {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "the capture began on another thread"},
    {909, "CUDA_ERROR_TIMEOUT", "time limit reached"},
    {911, "CUDA_ERROR_EXTERNAL_DEVICE", "an error of a device outside of the GPU"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

Result words(Result error, const char **text, const char *Error::*field) {
  if (text == nullptr) return result::invalid_value;
  *text = nullptr;
  for (const Error &each : errors) {
    if (each.code == error) *text = each.*field;
  }
  return *text != nullptr ? result::success : result::invalid_value;
}

struct Symbol {
  const char *name;
  int since, until;
  void *address;
};

template <class Function>
void *address_of(Function *function) noexcept {
  void *address = nullptr;
  std::memcpy(&address, &function, sizeof address);
  return address;
}

/// Whether the simulated driver has the function at all.
bool present(const sim::Options &options, const char *name) {
  if (std::strcmp(name, "cuMemcpyBatchAsync") == 0) return options.batch_copy;
  if (std::strcmp(name, "cuLaunchHostFunc") == 0) return options.host_call;
  return true;
}

/// abi::proc_*; *function is NULL unless found.
Result look_up(Driver &driver, const char *name, void **function, int version, int *status) {
  static const Symbol symbols[] = {
#define WEIR_SIM_CUDA_SYMBOL(space, type, exported, looked_up, since, until) \
  {looked_up, since, until, address_of(&::exported)},
      WEIR_SIM_CUDA_FUNCTIONS(WEIR_SIM_CUDA_SYMBOL)
#undef WEIR_SIM_CUDA_SYMBOL
  };
  if (name == nullptr || function == nullptr || version > driver.version()) {
    return WEIR_SIM_MISUSE(driver, result::invalid_value, "looking up %s at version %d of %d",
                           name != nullptr ? name : "NULL", version, driver.version());
  }
  *function = nullptr;
  *status = abi::proc_not_found;
  if (!present(driver.machine.options(), name)) return result::success;
  for (const Symbol &symbol : symbols) {
    // A function that is newer than the driver is as unknown as one that never was.
    if (std::strcmp(symbol.name, name) != 0 || symbol.since > driver.version()) continue;
    if (version >= symbol.since && version < symbol.until) {
      *function = symbol.address;
      *status = abi::proc_found;
      return result::success;
    }
    *status = abi::proc_version_not_sufficient;
  }
  return result::success;
}

}  // namespace
}  // namespace weir::sim_cuda

using namespace weir::sim_cuda;

Result cuGetProcAddress(const char *symbol, void **function, int version, uint64_t) {
  return at_any_time("cuGetProcAddress", [&](Driver &driver) -> Result {
    int status = abi::proc_not_found;
    WEIR_SIM_TRY(look_up(driver, symbol, function, version, &status));
    return status == abi::proc_found ? result::success : result::not_found;
  });
}

Result cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t, int *found) {
  return at_any_time("cuGetProcAddress", [&](Driver &driver) -> Result {
    int status = abi::proc_not_found;
    WEIR_SIM_TRY(look_up(driver, symbol, function, version, &status));
    if (found != nullptr) *found = status;
    return result::success;
  });
}

Result cuGetErrorName(Result error, const char **text) {
  return at_any_time("cuGetErrorName", [&](Driver &) { return words(error, text, &Error::name); });
}

Result cuGetErrorString(Result error, const char **text) {
  return at_any_time("cuGetErrorString",
                     [&](Driver &) { return words(error, text, &Error::text); });
}

Result cuDriverGetVersion(int *version) {
  return at_any_time("cuDriverGetVersion", [&](Driver &driver) -> Result {
    if (version == nullptr) return result::invalid_value;
    *version = driver.version();
    return result::success;
  });
}

Result cuInit(unsigned flags) {
  return at_any_time("cuInit", [&](Driver &driver) -> Result {
    if (flags != 0) return WEIR_SIM_MISUSE(driver, result::invalid_value, "cuInit(%u)", flags);
    if (driver.machine.devices() == 0) return result::no_device;
    driver.initialized = true;
    return result::success;
  });
}
