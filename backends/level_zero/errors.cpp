// SPDX-License-Identifier: Apache-2.0
//
// The table of codes. A code that is not in it is a newer driver's.

#include "backends/level_zero/errors.hpp"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>

namespace weir::level_zero {
namespace {

struct Code {
  abi::Result code;
  weir_result result;
  const char *name;
};

#define CODE(code, name, result) \
  { abi::code, WEIR_##result, "ZE_RESULT_" #name }
constexpr std::array<Code, 41> codes{{
    CODE(success, SUCCESS, SUCCESS),
    CODE(not_ready, NOT_READY, NOT_READY),
    CODE(error_device_lost, ERROR_DEVICE_LOST, ERROR_DEVICE_LOST),
    CODE(error_out_of_host_memory, ERROR_OUT_OF_HOST_MEMORY, ERROR_OUT_OF_HOST_MEMORY),
    CODE(error_out_of_device_memory, ERROR_OUT_OF_DEVICE_MEMORY, ERROR_DEVICE_OOM),
    CODE(error_module_build_failure, ERROR_MODULE_BUILD_FAILURE, ERROR_BACKEND),
    CODE(error_module_link_failure, ERROR_MODULE_LINK_FAILURE, ERROR_BACKEND),
    // What the device held is gone with a reset, so there is nothing to wait for.
    CODE(error_device_requires_reset, ERROR_DEVICE_REQUIRES_RESET, ERROR_DEVICE_LOST),
    // The device comes back by itself: a failure of this call, no loss.
    CODE(error_device_in_low_power_state, ERROR_DEVICE_IN_LOW_POWER_STATE, ERROR_BACKEND),
    CODE(error_insufficient_permissions, ERROR_INSUFFICIENT_PERMISSIONS, ERROR_BACKEND),
    CODE(error_not_available, ERROR_NOT_AVAILABLE, ERROR_BACKEND),
    CODE(error_dependency_unavailable, ERROR_DEPENDENCY_UNAVAILABLE, ERROR_BACKEND),
    CODE(warning_dropped_data, WARNING_DROPPED_DATA, ERROR_BACKEND),
    CODE(error_uninitialized, ERROR_UNINITIALIZED, ERROR_BACKEND),
    CODE(error_unsupported_version, ERROR_UNSUPPORTED_VERSION, ERROR_NOT_SUPPORTED),
    CODE(error_unsupported_feature, ERROR_UNSUPPORTED_FEATURE, ERROR_NOT_SUPPORTED),
    CODE(error_invalid_argument, ERROR_INVALID_ARGUMENT, ERROR_INVALID_ARGUMENT),
    CODE(error_invalid_null_handle, ERROR_INVALID_NULL_HANDLE, ERROR_INVALID_ARGUMENT),
    CODE(error_handle_object_in_use, ERROR_HANDLE_OBJECT_IN_USE, ERROR_BUSY),
    CODE(error_invalid_null_pointer, ERROR_INVALID_NULL_POINTER, ERROR_INVALID_ARGUMENT),
    CODE(error_invalid_size, ERROR_INVALID_SIZE, ERROR_INVALID_ARGUMENT),
    CODE(error_unsupported_size, ERROR_UNSUPPORTED_SIZE, ERROR_NOT_SUPPORTED),
    CODE(error_unsupported_alignment, ERROR_UNSUPPORTED_ALIGNMENT, ERROR_NOT_SUPPORTED),
    CODE(error_invalid_synchronization_object, ERROR_INVALID_SYNCHRONIZATION_OBJECT,
         ERROR_INVALID_ARGUMENT),
    CODE(error_invalid_enumeration, ERROR_INVALID_ENUMERATION, ERROR_INVALID_ARGUMENT),
    CODE(error_unsupported_enumeration, ERROR_UNSUPPORTED_ENUMERATION, ERROR_NOT_SUPPORTED),
    CODE(error_unsupported_image_format, ERROR_UNSUPPORTED_IMAGE_FORMAT, ERROR_NOT_SUPPORTED),
    CODE(error_invalid_native_binary, ERROR_INVALID_NATIVE_BINARY, ERROR_INVALID_ARGUMENT),
    CODE(error_invalid_global_name, ERROR_INVALID_GLOBAL_NAME, ERROR_INVALID_ARGUMENT),
    CODE(error_invalid_kernel_name, ERROR_INVALID_KERNEL_NAME, ERROR_INVALID_ARGUMENT),
    CODE(error_invalid_function_name, ERROR_INVALID_FUNCTION_NAME, ERROR_INVALID_ARGUMENT),
    CODE(error_invalid_group_size_dimension, ERROR_INVALID_GROUP_SIZE_DIMENSION,
         ERROR_INVALID_ARGUMENT),
    CODE(error_invalid_global_width_dimension, ERROR_INVALID_GLOBAL_WIDTH_DIMENSION,
         ERROR_INVALID_ARGUMENT),
    CODE(error_invalid_kernel_argument_index, ERROR_INVALID_KERNEL_ARGUMENT_INDEX,
         ERROR_INVALID_ARGUMENT),
    CODE(error_invalid_kernel_argument_size, ERROR_INVALID_KERNEL_ARGUMENT_SIZE,
         ERROR_INVALID_ARGUMENT),
    CODE(error_invalid_kernel_attribute_value, ERROR_INVALID_KERNEL_ATTRIBUTE_VALUE,
         ERROR_INVALID_ARGUMENT),
    CODE(error_invalid_module_unlinked, ERROR_INVALID_MODULE_UNLINKED, ERROR_INVALID_ARGUMENT),
    CODE(error_invalid_command_list_type, ERROR_INVALID_COMMAND_LIST_TYPE, ERROR_INVALID_ARGUMENT),
    CODE(error_overlapping_regions, ERROR_OVERLAPPING_REGIONS, ERROR_INVALID_ARGUMENT),
    CODE(warning_action_required, WARNING_ACTION_REQUIRED, ERROR_BACKEND),
    CODE(error_unknown, ERROR_UNKNOWN, ERROR_BACKEND),
}};
#undef CODE

const Code *find(int64_t code) noexcept {
  const auto it = std::find_if(codes.begin(), codes.end(), [&](const Code &each) {
    return static_cast<int64_t>(each.code) == code;
  });
  return it != codes.end() ? &*it : nullptr;
}

}  // namespace

weir_result result_of(abi::Result code) noexcept {
  const Code *found = find(code);
  return found != nullptr ? found->result : WEIR_ERROR_BACKEND;
}

const char *name_of(int64_t code) noexcept {
  const Code *found = find(code);
  return found != nullptr ? found->name : "a result code that is not known here";
}

weir_result runtime_refusal(abi::Result code, const char *format, ...) noexcept {
  char asked[128];
  va_list args;
  va_start(args, format);
  std::vsnprintf(asked, sizeof asked, format, args);
  va_end(args);
  return common::runtime_failure(result_of(code), code, "%s: %s (0x%x)", asked, name_of(code),
                                 code);
}

const char *text_of(int64_t native) noexcept {
  const char *sentence = common::sentence_of(native);
  return sentence != nullptr ? sentence : name_of(native);
}

}  // namespace weir::level_zero
