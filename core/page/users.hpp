// SPDX-License-Identifier: Apache-2.0
//
// Users: who is said to use a buffer, and how often (weir_buffer_desc). What homes are chosen by; nothing else depends on it.
#pragma once

#include "core/page/page.hpp"

#include <array>
#include <cstdint>

namespace weir::page {

/// How often each device of a pool, by its position, is said to use a buffer in one round; the CPU comes last.
struct Users {
  static constexpr size_t cpu = max_devices;
  static constexpr size_t count = cpu + 1;
  std::array<uint16_t, count> times{};

  bool any() const noexcept { return times != std::array<uint16_t, count>{}; }
};

}  // namespace weir::page
