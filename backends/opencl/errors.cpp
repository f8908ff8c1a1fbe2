// SPDX-License-Identifier: Apache-2.0
//
// The table of codes. A code that is not in it is an extension's, or a newer driver's.

#include "backends/opencl/errors.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <iterator>

namespace weir::opencl {
namespace {

/// NVIDIA's driver: a kernel read or wrote what is not there. Its context answers nothing else from then on.
constexpr cl_int illegal_access_nv = -9999;
/// cl_khr_icd: the loader found no driver.
constexpr cl_int platform_not_found = -1001;

struct Code {
  cl_int code;
  weir_result result;
  const char *name;
};

#define CODE(code, result) \
  { code, WEIR_##result, #code }
constexpr Code codes[] = {
    CODE(CL_SUCCESS, SUCCESS),
    CODE(CL_DEVICE_NOT_FOUND, ERROR_BACKEND),
    CODE(CL_DEVICE_NOT_AVAILABLE, ERROR_DEVICE_LOST),
    CODE(CL_COMPILER_NOT_AVAILABLE, ERROR_BACKEND),
    CODE(CL_MEM_OBJECT_ALLOCATION_FAILURE, ERROR_DEVICE_OOM),
    CODE(CL_OUT_OF_RESOURCES, ERROR_BACKEND),
    CODE(CL_OUT_OF_HOST_MEMORY, ERROR_OUT_OF_HOST_MEMORY),
    CODE(CL_PROFILING_INFO_NOT_AVAILABLE, ERROR_BACKEND),
    CODE(CL_MEM_COPY_OVERLAP, ERROR_INVALID_ARGUMENT),
    CODE(CL_MAP_FAILURE, ERROR_BACKEND),
    CODE(CL_MISALIGNED_SUB_BUFFER_OFFSET, ERROR_INVALID_ARGUMENT),
    CODE(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, ERROR_DEVICE_LOST),
    CODE(CL_INVALID_VALUE, ERROR_INVALID_ARGUMENT),
    CODE(CL_INVALID_DEVICE_TYPE, ERROR_INVALID_ARGUMENT),
    CODE(CL_INVALID_PLATFORM, ERROR_INVALID_ARGUMENT),
    CODE(CL_INVALID_DEVICE, ERROR_INVALID_ARGUMENT),
    CODE(CL_INVALID_CONTEXT, ERROR_INVALID_ARGUMENT),
    CODE(CL_INVALID_QUEUE_PROPERTIES, ERROR_NOT_SUPPORTED),
    CODE(CL_INVALID_COMMAND_QUEUE, ERROR_INVALID_ARGUMENT),
    CODE(CL_INVALID_HOST_PTR, ERROR_INVALID_ARGUMENT),
    CODE(CL_INVALID_MEM_OBJECT, ERROR_INVALID_ARGUMENT),
    CODE(CL_INVALID_EVENT_WAIT_LIST, ERROR_INVALID_ARGUMENT),
    CODE(CL_INVALID_EVENT, ERROR_INVALID_ARGUMENT),
    CODE(CL_INVALID_OPERATION, ERROR_NOT_SUPPORTED),
    CODE(CL_INVALID_BUFFER_SIZE, ERROR_INVALID_ARGUMENT),
    CODE(CL_INVALID_PROPERTY, ERROR_NOT_SUPPORTED),
};
#undef CODE

const Code *find(int64_t code) noexcept {
  const auto it = std::find_if(std::begin(codes), std::end(codes), [&](const Code &each) {
    return static_cast<int64_t>(each.code) == code;
  });
  return it != std::end(codes) ? it : nullptr;
}

}  // namespace

weir_result result_of(cl_int code) noexcept {
  if (means_loss(code)) return WEIR_ERROR_DEVICE_LOST;
  const Code *found = find(code);
  return found != nullptr ? found->result : WEIR_ERROR_BACKEND;
}

weir_result memory_result_of(cl_int code) noexcept {
  const bool full = code == CL_OUT_OF_RESOURCES || code == CL_INVALID_BUFFER_SIZE;
  return full ? WEIR_ERROR_DEVICE_OOM : result_of(code);
}

bool means_loss(cl_int code) noexcept {
  // Queues, contexts and devices are asked about only while they live.
  return code == CL_DEVICE_NOT_AVAILABLE || code == CL_INVALID_COMMAND_QUEUE ||
         code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST || code == CL_INVALID_CONTEXT ||
         code == CL_INVALID_DEVICE || code == illegal_access_nv;
}

const char *name_of(int64_t code) noexcept {
  if (code == illegal_access_nv) return "illegal access (NVIDIA)";
  if (code == platform_not_found) return "CL_PLATFORM_NOT_FOUND_KHR";
  const Code *found = find(code);
  return found != nullptr ? found->name : "a code that is not known here";
}

weir_result runtime_refusal(weir_result result, cl_int code, const char *format, ...) noexcept {
  char asked[128];
  va_list args;
  va_start(args, format);
  std::vsnprintf(asked, sizeof asked, format, args);
  va_end(args);
  return common::runtime_failure(result, code, "%s: %s (%d)", asked, name_of(code), code);
}

const char *text_of(int64_t native) noexcept {
  const char *sentence = common::sentence_of(native);
  return sentence != nullptr ? sentence : name_of(native);
}

}  // namespace weir::opencl
