// SPDX-License-Identifier: Apache-2.0
//
// The host's memory as the machine's devices know it: pinned memory that the driver made, and the program's own
// that it registered. Everything else is pageable. Thread-safe.
#pragma once

#include "tests/drivers/sim/answer.hpp"
#include "tests/drivers/sim/census.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>

namespace weir::sim {

/// Whether the mapping at the address is of a memfd, as the kernel tells.
bool lies_in_memfd(const void *memory);

enum class HostKind : uint8_t { pageable, pinned, registered };

class HostMemory {
 public:
  explicit HostMemory(Census &census) noexcept : census_(census) {}
  ~HostMemory();
  HostMemory(const HostMemory &) = delete;
  HostMemory &operator=(const HostMemory &) = delete;

  /// Begins `inset` bytes into a page.
  Answer allocate(uint64_t bytes, void **memory, uint64_t inset = 0);
  /// `memory` as allocate() gave it.
  Answer release(void *memory);
  /// Any range that overlaps no other.
  Answer enroll(void *memory, uint64_t bytes);
  /// `memory` as enroll() was given it.
  Answer dismiss(void *memory);

  /// What the whole range is; a range that is only in part pinned is pageable.
  HostKind kind(uint64_t address, uint64_t bytes) const noexcept;
  /// The range around the address; false if it is pageable.
  bool find(uint64_t address, uint64_t *start, uint64_t *bytes, HostKind *kind) const noexcept;

 private:
  struct Range {
    uint64_t bytes = 0;
    bool own = false;  ///< made by allocate()
  };
  bool overlaps(uint64_t address, uint64_t bytes) const noexcept;

  Census &census_;
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, Range> ranges_;
};

}  // namespace weir::sim
