// SPDX-License-Identifier: Apache-2.0
//
// find_device: the device that a user's text means, out of those that a context has. Where several fit it takes the one with
// the most free memory, asked for at that moment; where none does it says what there is.
#pragma once

#include "core/pool/context.hpp"

namespace weir::pool {

/// `wishes`: one, or several separated by commas, of which the first that is met counts. NULL or "": the variable WEIR_DEVICE,
/// and where that is empty too, "gpu". Logs what was taken. INVALID_ARGUMENT: none is met, or one is no wish at all.
Status find_device(Context &context, const char *wishes, uint32_t *device);

}  // namespace weir::pool
