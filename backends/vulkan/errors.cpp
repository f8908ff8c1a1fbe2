// SPDX-License-Identifier: Apache-2.0
//
// The table of codes. A code that is not in it is a newer driver's.

#include "backends/vulkan/errors.hpp"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>

namespace weir::vulkan {
namespace {

struct Code {
  VkResult code;
  weir_result result;
  const char *name;
};

#define CODE(code, result) \
  { code, WEIR_##result, #code }
constexpr std::array<Code, 21> codes{{
    CODE(VK_SUCCESS, SUCCESS),
    CODE(VK_NOT_READY, NOT_READY),
    CODE(VK_TIMEOUT, ERROR_TIMEOUT),
    CODE(VK_INCOMPLETE, ERROR_BACKEND),
    CODE(VK_ERROR_OUT_OF_HOST_MEMORY, ERROR_OUT_OF_HOST_MEMORY),
    CODE(VK_ERROR_OUT_OF_DEVICE_MEMORY, ERROR_DEVICE_OOM),
    CODE(VK_ERROR_INITIALIZATION_FAILED, ERROR_BACKEND),
    CODE(VK_ERROR_DEVICE_LOST, ERROR_DEVICE_LOST),
    CODE(VK_ERROR_MEMORY_MAP_FAILED, ERROR_OUT_OF_HOST_MEMORY),
    CODE(VK_ERROR_LAYER_NOT_PRESENT, ERROR_NOT_SUPPORTED),
    CODE(VK_ERROR_EXTENSION_NOT_PRESENT, ERROR_NOT_SUPPORTED),
    CODE(VK_ERROR_FEATURE_NOT_PRESENT, ERROR_NOT_SUPPORTED),
    CODE(VK_ERROR_INCOMPATIBLE_DRIVER, ERROR_NOT_SUPPORTED),
    // Of allocations: the device has no more of them to give.
    CODE(VK_ERROR_TOO_MANY_OBJECTS, ERROR_DEVICE_OOM),
    CODE(VK_ERROR_FORMAT_NOT_SUPPORTED, ERROR_NOT_SUPPORTED),
    CODE(VK_ERROR_FRAGMENTED_POOL, ERROR_DEVICE_OOM),
    CODE(VK_ERROR_UNKNOWN, ERROR_BACKEND),
    CODE(VK_ERROR_OUT_OF_POOL_MEMORY, ERROR_DEVICE_OOM),
    CODE(VK_ERROR_INVALID_EXTERNAL_HANDLE, ERROR_INVALID_ARGUMENT),
    CODE(VK_ERROR_FRAGMENTATION, ERROR_DEVICE_OOM),
    CODE(VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS, ERROR_BACKEND),
}};
#undef CODE

const Code *find_code(int64_t code) noexcept {
  const auto it = std::find_if(codes.begin(), codes.end(),
                               [&](const Code &each) { return int64_t{each.code} == code; });
  return it != codes.end() ? &*it : nullptr;
}

}  // namespace

weir_result result_of(VkResult code) noexcept {
  const Code *found = find_code(code);
  return found != nullptr ? found->result : WEIR_ERROR_BACKEND;
}

const char *name_of(int64_t code) noexcept {
  const Code *found = find_code(code);
  return found != nullptr ? found->name : "a result code that is not known here";
}

weir_result runtime_refusal(VkResult code, const char *format, ...) noexcept {
  char asked[128];
  va_list args;
  va_start(args, format);
  std::vsnprintf(asked, sizeof asked, format, args);
  va_end(args);
  return common::runtime_failure(result_of(code), code, "%s: %s (%d)", asked, name_of(code),
                                 static_cast<int>(code));
}

const char *text_of(int64_t native) noexcept {
  const char *sentence = common::sentence_of(native);
  return sentence != nullptr ? sentence : name_of(native);
}

}  // namespace weir::vulkan
