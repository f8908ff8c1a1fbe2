// SPDX-License-Identifier: Apache-2.0
//
// Which results mean what. Sticky ones are those whose description says that the process must end to use CUDA
// again (tests/mirrors/cuda_losses.cpp reads them in the vendor's header), and those of a context or driver that is gone.
// 46, a device that is taken, is none: it comes from the calls that make a context, and goes by.
//
// The second question. A context that is broken answers every call that is made in it with its code, so that making an
// event, which needs nothing but the context, tells. A device that is gone without the context knowing fails what goes to
// it through the kernel's driver, such as the question for free memory. Neither waits for work of the device, and neither is
// among the calls that a capture forbids.

#include "backends/cuda/fault.hpp"

#include "backends/cuda/context.hpp"

#include <climits>
#include <cstdarg>
#include <cstdio>

namespace weir::cuda {
namespace {

/// Whether the second answer is that of a device that is gone, and not one about the call.
bool denies(abi::Result code) noexcept {
  namespace result = abi::result;
  switch (code) {
    case result::success:
    case result::not_ready:
    case result::device_unavailable:
    case result::invalid_context:
      return false;
    default: {
      const weir_result meaning = classify(code);
      return meaning == WEIR_ERROR_DEVICE_LOST || meaning == WEIR_ERROR_BACKEND;
    }
  }
}

bool is_gone(const Api &api, Witness witness) noexcept {
  const Relaxed relaxed(api);
  const Current current(api, witness.context);
  if (current.result() != abi::result::success) return denies(current.result());
  abi::Event event = nullptr;
  const abi::Result made = api.cuEventCreate(&event, abi::event_disable_timing);
  if (made == abi::result::success) end_quietly([&] { return api.cuEventDestroy(event); });
  if (denies(made)) return true;
  size_t available = 0, total = 0;
  return !witness.hurried && denies(api.cuMemGetInfo(&available, &total));
}

}  // namespace

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
    case result::tensor_memory_leak:
    case result::mps_rpc_failure:
    case result::mps_client_terminated:
      return WEIR_ERROR_DEVICE_LOST;
    default:
      return WEIR_ERROR_BACKEND;
  }
}

bool leaves_doubt(abi::Result code) noexcept {
  return code == abi::result::unknown || code == abi::result::external_device;
}

weir_result failure(const Api &api, Witness witness, abi::Result code, const char *format,
                    ...) noexcept {
  char what[120];
  va_list args;
  va_start(args, format);
  std::vsnprintf(what, sizeof what, format, args);
  va_end(args);
  weir_result meaning = classify(code);
  if (leaves_doubt(code) && witness.context != nullptr && is_gone(api, witness)) {
    meaning = WEIR_ERROR_DEVICE_LOST;
  }
  return common::runtime_failure(meaning, code, "%s: %s (%d): %s", what, api.name_of(code), code,
                                 api.words_of(code));
}

const char *text_of(const Api &api, int64_t native) noexcept {
  const char *sentence = common::sentence_of(native);
  if (sentence != nullptr) return sentence;
  if (native == common::native_refusal) return "refused by the CUDA backend";
  if (native < 0 || native > INT_MAX) return "unknown error code";
  return native == 0 ? "no error" : api.words_of(static_cast<abi::Result>(native));
}

}  // namespace weir::cuda
