// SPDX-License-Identifier: Apache-2.0
//
// OpenCL's error codes: in Weir's results, and in words. What CL_OUT_OF_RESOURCES means depends on the call: memory
// that is not there, or a device that is gone.
#pragma once

#include "backends/common/fault.hpp"
#include "backends/opencl/cl.hpp"

namespace weir::opencl {

using common::number;
using common::refuse;

/// What a code means to Weir; CL_SUCCESS is WEIR_SUCCESS.
weir_result result_of(cl_int code) noexcept;
/// The same of a call that makes memory.
weir_result memory_result_of(cl_int code) noexcept;
/// Nothing of the device or its context answers any more. CL_OUT_OF_RESOURCES alone says less than that.
bool means_loss(cl_int code) noexcept;
/// "CL_OUT_OF_RESOURCES"; never nullptr, static.
const char *name_of(int64_t code) noexcept;
/// Notes that a call of the runtime failed with `code` and returns `result`. printf's format says what was asked of which
/// function; the code's name follows.
weir_result runtime_refusal(weir_result result, cl_int code, const char *format, ...) noexcept
    __attribute__((format(printf, 3, 4)));
/// What the thread's last failure was, for error_text.
const char *text_of(int64_t native) noexcept;

}  // namespace weir::opencl
