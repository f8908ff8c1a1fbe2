// SPDX-License-Identifier: Apache-2.0
//
// Vulkan's result codes: in Weir's results, and in words.
#pragma once

#include "backends/common/fault.hpp"
#include "backends/vulkan/api.hpp"

namespace weir::vulkan {

using common::number;
using common::refuse;

/// What a code means to Weir; VK_SUCCESS is WEIR_SUCCESS.
weir_result result_of(VkResult code) noexcept;
/// "VK_ERROR_DEVICE_LOST"; never nullptr, static.
const char *name_of(int64_t code) noexcept;
/// Notes that a call of the runtime failed with `code` and returns what that means. printf's format says what was
/// asked of which function; the code's name follows.
weir_result runtime_refusal(VkResult code, const char *format, ...) noexcept
    __attribute__((format(printf, 2, 3)));
/// What the thread's last failure was, for error_text.
const char *text_of(int64_t native) noexcept;

}  // namespace weir::vulkan
