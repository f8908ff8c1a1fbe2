// SPDX-License-Identifier: Apache-2.0
//
// Sizes: which pages a pool works with, which budgets a device may have, and how large buffers may be by the records that
// they need. What can't work is refused before anything is made, with the figures.
#pragma once

#include "core/page/config.hpp"
#include "core/page/pool_device.hpp"

namespace weir::page {

/// Where a descriptor wants its buffer.
struct ShardWish {
  uint8_t home = 0;
  uint32_t policy = 0;
  uint64_t stripe = 0;
  Compact<Shards> shards;  ///< none: all of it is at home
};

class Sizes {
 public:
  Sizes(const CountingMemory &records, EngineConfig &config, const Devices &devices,
        const BufferDirectory &buffers, const Log &log) noexcept
      : records_(records), config_(config), devices_(devices), buffers_(buffers), log_(log) {}

  // ---- devices ----
  /// One size of pages for all devices, so that any page can be on any of them: what the configuration left open.
  Status choose_pages();
  /// Whether the pool's pages fit the device, and its budget one of them.
  Status check_device_budget(const backend::Device &device, uint64_t budget) const;
  /// More than there is may be meant, but is as a rule a mistake; WEIR_UNLIMITED is none.
  void warn_of_budget(const backend::Device &device, uint64_t budget) const;

  // ---- buffers ----
  static Status check_size(uint64_t size);
  /// Whether `pages` more records of pages, and of `copies` devices' state of them, stay within the budget of records. What does
  /// not is refused before any of them is made, with the figures.
  Status room_for_records(const char *what, uint64_t size, uint64_t pages, uint64_t copies) const;
  Status room_for_buffer(const weir_buffer_desc &desc, const ShardWish &wish, bool tenant) const;

 private:
  const CountingMemory &records_;
  EngineConfig &config_;
  const Devices &devices_;
  const BufferDirectory &buffers_;
  const Log &log_;
};

}  // namespace weir::page
