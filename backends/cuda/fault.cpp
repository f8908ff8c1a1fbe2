// SPDX-License-Identifier: Apache-2.0
//
// Which results mean what. Sticky ones are those whose description says that the process must end to use CUDA
// again, and those of a context or driver that is gone.

#include "backends/cuda/fault.hpp"

#include <climits>
#include <cstdarg>
#include <cstdio>

namespace weir::cuda {

weir_result classify(abi::Result code) noexcept {
  namespace result = abi::result;
  if (code >= result::stream_capture_unsupported && code <= result::stream_capture_wrong_thread) {
    return WEIR_ERROR_STREAM_CAPTURING;
  }
  switch (code) {
    case result::success:
      return WEIR_SUCCESS;
    case result::not_ready:
      return WEIR_NOT_READY;
    case result::out_of_memory:
      return WEIR_ERROR_DEVICE_OOM;
    case result::invalid_value:
    case result::invalid_handle:
    case result::invalid_device:
      return WEIR_ERROR_INVALID_ARGUMENT;
    case result::not_supported:
    case result::not_permitted:
    case result::peer_access_unsupported:
      return WEIR_ERROR_NOT_SUPPORTED;
    case result::deinitialized:
    case result::device_unavailable:
    case result::ecc_uncorrectable:
    case result::nvlink_uncorrectable:
    case result::contained:
    case result::illegal_address:
    case result::launch_timeout:
    case result::context_is_destroyed:
    case result::device_assert:
    case result::hardware_stack_error:
    case result::illegal_instruction:
    case result::misaligned_address:
    case result::invalid_address_space:
    case result::invalid_pc:
    case result::launch_failed:
    case result::mps_client_terminated:
      return WEIR_ERROR_DEVICE_LOST;
    default:
      return WEIR_ERROR_BACKEND;
  }
}

weir_result failure(const Api &api, abi::Result code, const char *format, ...) noexcept {
  char what[120];
  va_list args;
  va_start(args, format);
  std::vsnprintf(what, sizeof what, format, args);
  va_end(args);
  return common::runtime_failure(classify(code), code, "%s: %s (%d): %s", what, api.name_of(code),
                                 code, api.words_of(code));
}

const char *text_of(const Api &api, int64_t native) noexcept {
  const char *sentence = common::sentence_of(native);
  if (sentence != nullptr) return sentence;
  if (native == common::native_refusal) return "refused by the CUDA backend";
  if (native < 0 || native > INT_MAX) return "unknown error code";
  return native == 0 ? "no error" : api.words_of(static_cast<abi::Result>(native));
}

}  // namespace weir::cuda
