// SPDX-License-Identifier: Apache-2.0
//
// Finding the driver. Its look-up function is the one symbol taken from the library itself; all others come
// from it, in their forms for the legacy default stream, so that NULL means the same queue in every program.

#include "backends/cuda/api.hpp"

#include "backends/common/fault.hpp"

#include <cstring>

namespace weir::cuda {
namespace {

constexpr int oldest = 12000;

struct Symbol {
  const char *name;
  int version;
};
#define WEIR_CUDA_SYMBOL(entry, symbol, since) \
  [[maybe_unused]] constexpr Symbol symbol_##entry{symbol, since};
WEIR_CUDA_ENTRIES(WEIR_CUDA_SYMBOL)
#undef WEIR_CUDA_SYMBOL

std::string version_text(int version) {
  return std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
}

template <class Function>
void assign(Function **function, void *found) noexcept {
  std::memcpy(function, &found, sizeof found);
}

}  // namespace

const char *Api::name_of(abi::Result code) const noexcept {
  const char *text = nullptr;
  if (cuGetErrorName == nullptr || cuGetErrorName(code, &text) != abi::result::success)
    text = nullptr;
  return text != nullptr ? text : "an unknown error";
}

const char *Api::words_of(abi::Result code) const noexcept {
  const char *text = nullptr;
  if (cuGetErrorString == nullptr || cuGetErrorString(code, &text) != abi::result::success)
    text = nullptr;
  return text != nullptr ? text : "unknown error code";
}

weir_result Api::load(std::string *reason) {
  if (!library_.open("WEIR_CUDA_LIBRARY", {"libcuda.so.1"}, reason)) {
    reason->insert(0, "no CUDA driver: ");
    return WEIR_ERROR_NOT_SUPPORTED;
  }
  WEIR_BACKEND_TRY(find_look_up(reason));
  WEIR_BACKEND_TRY(check_version(reason));
  WEIR_BACKEND_TRY(find_entries(reason));
  const abi::Result started = cuInit(0);
  if (started == abi::result::no_device) {
    *reason = "CUDA driver " + version_text(version_) + " found, but no device it can use";
    return WEIR_ERROR_NOT_SUPPORTED;
  }
  if (started != abi::result::success) {
    *reason = "CUDA driver " + version_text(version_) +
              " found, but it does not start: " + name_of(started) + " (" +
              std::to_string(started) + "): " + words_of(started);
    return WEIR_ERROR_NOT_SUPPORTED;
  }
  return WEIR_SUCCESS;
}

weir_result Api::find_look_up(std::string *reason) {
  if (library_.find("cuGetProcAddress_v2", &look_up_)) return WEIR_SUCCESS;
  if (library_.find("cuGetProcAddress", &old_look_up_)) return WEIR_SUCCESS;
  *reason = library_.name() + " has no cuGetProcAddress: no CUDA driver, or one older than 11.3";
  return WEIR_ERROR_NOT_SUPPORTED;
}

abi::Result Api::find(const char *symbol, int version, void **function) const noexcept {
  *function = nullptr;
  if (look_up_ == nullptr) return old_look_up_(symbol, function, version, abi::proc_legacy_stream);
  int found = abi::proc_not_found;
  const abi::Result result = look_up_(symbol, function, version, abi::proc_legacy_stream, &found);
  if (found != abi::proc_found) *function = nullptr;
  return result;
}

weir_result Api::check_version(std::string *reason) {
  void *found = nullptr;
  abi::Result result =
      find(symbol_cuDriverGetVersion.name, symbol_cuDriverGetVersion.version, &found);
  if (result == abi::result::success && found != nullptr) {
    assign(&cuDriverGetVersion, found);
    result = cuDriverGetVersion(&version_);
  }
  if (result == abi::result::stub_library) {
    *reason =
        library_.name() + " is the toolkit's stub library, made for linking only: no CUDA driver";
    return WEIR_ERROR_NOT_SUPPORTED;
  }
  if (result != abi::result::success || found == nullptr) {
    *reason = library_.name() + " does not tell its version (error " + std::to_string(result) + ")";
    return WEIR_ERROR_NOT_SUPPORTED;
  }
  if (version_ < oldest) {
    *reason =
        "CUDA driver " + version_text(version_) + " found, " + version_text(oldest) + " needed";
    return WEIR_ERROR_NOT_SUPPORTED;
  }
  return WEIR_SUCCESS;
}

weir_result Api::find_entries(std::string *reason) {
  void *found = nullptr;
// The look-up takes no version newer than the driver.
#define WEIR_CUDA_FIND(entry)                                                              \
  if (symbol_##entry.version > version_ ||                                                 \
      find(symbol_##entry.name, symbol_##entry.version, &found) != abi::result::success) { \
    found = nullptr;                                                                       \
  }                                                                                        \
  assign(&entry, found);
#define WEIR_CUDA_NEED(entry)                                                             \
  WEIR_CUDA_FIND(entry)                                                                   \
  if (entry == nullptr) {                                                                 \
    *reason = "CUDA driver " + version_text(version_) + " has no " + symbol_##entry.name; \
    return WEIR_ERROR_NOT_SUPPORTED;                                                      \
  }
  WEIR_CUDA_REQUIRED(WEIR_CUDA_NEED)
  WEIR_CUDA_OPTIONAL(WEIR_CUDA_FIND)
#undef WEIR_CUDA_NEED
#undef WEIR_CUDA_FIND
  return WEIR_SUCCESS;
}

}  // namespace weir::cuda
