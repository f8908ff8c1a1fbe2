// SPDX-License-Identifier: Apache-2.0
//
// The program's own objects, as weir/opencl.h has them: reading the context that it hands over, and telling which
// allocation an address lies in.
#pragma once

#include "backends/opencl/memory.hpp"
#include "backends/opencl/options.hpp"

#include <weir/backend.h>

#include <string>

namespace weir::opencl {

/// Puts the program's context into the options. "" or a sentence that says what is wrong with it.
std::string read_native(const weir_be_start &desc, Options *options);

/// What native_memory tells.
weir_result tell_memory(const Platform &platform, const Memory &memory, uint32_t device,
                        uint64_t address, uint32_t kind, void *out);

}  // namespace weir::opencl
