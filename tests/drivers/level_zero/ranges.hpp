// SPDX-License-Identifier: Apache-2.0
//
// Whose memory an address is: allocations, reservations and imported host memory, each with the context that it
// belongs to, and what is mapped where. Where its bytes are is the machine's to know. Guarded by the driver's mutex.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "tests/drivers/level_zero/objects.hpp"

namespace weir::sim::ze {

struct Range {
  enum class What : uint8_t { device, host, imported, reservation };
  What what = What::device;
  uint64_t bytes = 0;
  uint32_t device = UINT32_MAX;      ///< What::device
  std::optional<Belonging> context;  ///< none: imported memory is the driver's
  uint64_t id = 0;                   ///< never used twice
};

struct Mapping {
  uint64_t bytes = 0;
  std::shared_ptr<PhysicalMemory> physical;
};

class Ranges {
 public:
  using Map = std::map<uint64_t, Range>;
  using Mappings = std::map<uint64_t, Mapping>;

  void add(uint64_t address, Range range) {
    range.id = ++last_id_;
    ranges_.emplace(address, std::move(range));
  }
  void remove(uint64_t address) { ranges_.erase(address); }
  /// The range that begins there, or nullptr.
  Range *at(uint64_t address) {
    const auto it = ranges_.find(address);
    return it != ranges_.end() ? &it->second : nullptr;
  }
  /// The first range that shares a byte with these, or end().
  Map::const_iterator touching(uint64_t address, uint64_t bytes) const {
    auto it = ranges_.upper_bound(address);
    if (it != ranges_.begin()) {
      const auto before = std::prev(it);
      if (address - before->first < before->second.bytes) return before;
    }
    return it != ranges_.end() && it->first - address < bytes ? it : ranges_.end();
  }
  Map::const_iterator end() const noexcept { return ranges_.end(); }

  /// What is mapped where, in all reservations.
  Mappings &mappings() noexcept { return mappings_; }

 private:
  Map ranges_;
  Mappings mappings_;
  uint64_t last_id_ = 0;
};

}  // namespace weir::sim::ze
