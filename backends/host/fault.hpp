// SPDX-License-Identifier: Apache-2.0
//
// Failures of the host backend, told the way all backends do. Native codes are errno values where a system
// call failed.
#pragma once

#include "backends/common/fault.hpp"

namespace weir::host {

using common::last_native;
using common::native_refusal;
using common::refuse;
using common::system_failure;

/// Never nullptr; valid until the thread's next failure. The sentence of the calling thread's last failure if
/// `native` is its code, else the system's words for the code.
inline const char *text_of(int64_t native) noexcept {
  const char *sentence = common::sentence_of(native);
  return sentence != nullptr ? sentence : common::system_words(native);
}

}  // namespace weir::host
