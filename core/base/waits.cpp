// SPDX-License-Identifier: Apache-2.0
//
// What each thread is in.

#include "core/base/waits.hpp"

namespace weir::detail {

thread_local ThreadWaits thread_waits __attribute__((tls_model("initial-exec")));

}  // namespace weir::detail
