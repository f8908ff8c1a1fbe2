// SPDX-License-Identifier: Apache-2.0
//
// The driver's results as the backend ABI knows them. Native codes are CUresult values.
#pragma once

#include "backends/common/fault.hpp"
#include "backends/cuda/api.hpp"

namespace weir::cuda {

using common::refuse;

/// What a driver's result means. Codes after which the context or the device answers nothing any more are
/// DEVICE_LOST; success and "not ready" are themselves.
weir_result classify(abi::Result code) noexcept;

/// Notes that a driver call failed with `code` at what the sentence says, and returns classify(code).
weir_result failure(const Api &api, abi::Result code, const char *format, ...) noexcept
    __attribute__((format(printf, 3, 4)));

/// A native code in words; never NULL.
const char *text_of(const Api &api, int64_t native) noexcept;

/// For printf.
using Number = unsigned long long;
inline Number number(uint64_t value) noexcept { return value; }

}  // namespace weir::cuda
