// SPDX-License-Identifier: Apache-2.0
//
// What the look-alike knows of virtual memory: reservations, mappings and physical memory, so that it can refuse what
// AMD's runtime refuses or is reported to get wrong, where NVIDIA's driver would do it. Counts of references are AMD's:
// memory that is released while mapped lives until it is unmapped.
#pragma once

#include "tests/drivers/hip/cuda.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace weir::hip_over_cuda {

/// What hipMemGenericAllocationHandle_t points to.
struct Allocation {
  cu::GranuleHandle granule = 0;
  size_t bytes = 0;  ///< 0 for imported memory: the runtime does not know
  int device = 0;
  uint32_t references = 1;  ///< the program's, and one a mapping
};

/// A reservation as the program knows it, and as the driver does.
struct Reservation {
  size_t bytes = 0;
  cu::DevicePointer base = 0;
  size_t whole = 0;
};

struct Mapping {
  size_t bytes = 0;
  Allocation *allocation = nullptr;
  bool accessible = false;
  std::vector<int> users;  ///< the devices that were given access
};

class Ranges {
 public:
  std::mutex mutex;
  std::map<uintptr_t, Reservation> reservations;
  std::map<uintptr_t, Mapping> mappings;
  std::map<const void *, std::unique_ptr<Allocation>> allocations;  ///< by their handles
  /// Freed memory that a runtime which frees nothing keeps until its addresses are freed.
  std::multimap<uintptr_t, cu::GranuleHandle> kept;

  /// Takes a new allocation; its handle.
  abi::Memory add(std::unique_ptr<Allocation> made) {
    Allocation *allocation = made.get();
    allocations.emplace(allocation, std::move(made));
    return reinterpret_cast<abi::Memory>(allocation);
  }

  /// The first address of the reservation that holds all of the range, or 0.
  uintptr_t reservation(uintptr_t address, size_t bytes) const;
  /// Whether mappings of the range's reservation, from the first on, have that many bytes together.
  bool sums_up(uintptr_t address, size_t bytes) const;
  /// Whether a copy may touch the range: outside of all reservations, or inside one accessible mapping.
  bool copyable(uintptr_t address, size_t bytes) const;
};

Ranges &ranges();

}  // namespace weir::hip_over_cuda
