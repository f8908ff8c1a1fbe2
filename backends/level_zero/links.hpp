// SPDX-License-Identifier: Apache-2.0
//
// What connects two places, as the driver reports it. Nothing is measured here.
#pragma once

#include "backends/level_zero/devices.hpp"

namespace weir::level_zero {

/// `from` and `to` are devices or WEIR_DEVICE_HOST, and valid.
void describe_link(const Platform &platform, uint32_t from, uint32_t to, weir_be_link *link);

}  // namespace weir::level_zero
