// SPDX-License-Identifier: Apache-2.0
//
// The values of options that take one of a set, by name. What is refused, what --help shows and what a shell completes all come from
// these lists. Each is written where its names are given a meaning, so that none can be left out of it.
#pragma once

#include "usage.hpp"

namespace weir::tool {

Choices data_choices();         ///< --data
Choices store_codec_choices();  ///< --codec of what replays
Choices pace_choices();         ///< --pace, beside numbers
Choices policy_choices();       ///< --policy
Choices placement_choices();    ///< --placement
Choices colour_choices();       ///< --colour
Choices codec_choices();        ///< --codec of `weir codec`
Choices element_choices();      ///< --element
Choices backend_choices();      ///< --backend: those of ours; there may be others
Choices sort_choices();         ///< --sort of `weir top`
Choices shell_choices();        ///< of `weir completion`

}  // namespace weir::tool
