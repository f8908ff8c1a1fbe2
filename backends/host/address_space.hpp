// SPDX-License-Identifier: Apache-2.0
//
// The addresses of device memory: reservations without memory behind them, extents mapped into
// them, and the table that turns an address back into physical memory, so that a copy never depends
// on a mapping staying. Every precondition of the backend ABI's map group is checked here; a
// refused call has changed nothing. The table's lock is never held during a system call.
// Thread-safe.
#pragma once

#include "backends/host/memory.hpp"
#include "backends/host/options.hpp"

#include <weir/backend.h>

#include <map>
#include <memory>
#include <shared_mutex>
#include <vector>

namespace weir::host {

/// A piece of device memory that an address stands for.
struct Physical {
  uint32_t device = WEIR_DEVICE_HOST;  ///< WEIR_DEVICE_HOST: not an address of any device
  std::byte *memory = nullptr;
};

class AddressSpace {
 public:
  /// `granule` is what addresses, offsets and sizes of reserve() and map() must be multiples of.
  /// Without contents nothing is mapped in the process.
  AddressSpace(uint64_t granule, bool contents) noexcept : granule_(granule), contents_(contents) {}
  ~AddressSpace();
  AddressSpace(const AddressSpace &) = delete;
  AddressSpace &operator=(const AddressSpace &) = delete;

  /// In a `shared` reservation other devices that share may map too.
  weir_result reserve(uint32_t device, uint64_t bytes, uint64_t alignment, bool shared,
                      uint64_t *address);
  /// Refused while any device has something mapped in it.
  weir_result free(uint32_t device, uint64_t address, uint64_t bytes);
  /// The device that maps, which is the extent's, and whether it may do so in shared reservations of other devices.
  struct Mapper {
    uint32_t device = 0;
    bool shares = false;
  };
  /// Maps extent bytes [offset, offset + bytes). The mapping shares the extent's ownership and
  /// keeps `tag`, the caller's own word, for unmap() to give back.
  weir_result map(Mapper mapper, uint64_t address, uint64_t bytes, std::shared_ptr<Extent> extent,
                  uint64_t offset, Prefault prefault, uint64_t tag);
  /// Removes exactly what one map() of the device made; *tag is what that was told.
  weir_result unmap(uint32_t device, uint64_t address, uint64_t bytes, uint64_t *tag);
  /// Removes what the device's maps made of [address, +bytes), which they cover without a gap; all or none. *tags are what
  /// they were told, in order.
  weir_result unmap_run(uint32_t device, uint64_t address, uint64_t bytes,
                        std::vector<uint64_t> *tags);
  /// Whether the device's maps cover the range without a gap, and none of them in part.
  weir_result check_run(uint32_t device, uint64_t address, uint64_t bytes) const;
  /// Both in one: an address for a whole extent, until drop().
  weir_result place(uint32_t device, std::shared_ptr<Extent> extent, uint64_t alignment,
                    uint64_t *address);
  weir_result drop(uint32_t device, uint64_t address, uint64_t bytes);

  /// What the range stands for. A range that touches no reservation is host memory; one that
  /// touches a reservation must lie inside one mapping.
  weir_result translate(uint64_t address, uint64_t bytes, Physical *physical) const;

 private:
  struct Mapping {
    uint32_t device = 0;  ///< the extent's, which need not be the reservation's
    uint64_t bytes = 0;
    uint64_t offset = 0;  ///< in the extent
    std::shared_ptr<Extent> extent;
    uint64_t tag = 0;
    bool ready = false;  ///< false while map or unmap is at work on it
  };
  struct Reservation {
    uint64_t bytes = 0;
    uint32_t device = 0;
    bool plain = false;   ///< made by place(): the caller can neither map nor free it
    bool shared = false;  ///< other devices may map in it
    std::map<uint64_t, Mapping> mappings;
  };
  using Reservations = std::map<uint64_t, Reservation>;

  weir_result make(uint32_t device, uint64_t bytes, uint64_t alignment, bool plain, bool shared,
                   uint64_t *address);
  weir_result remove(uint32_t device, uint64_t address, uint64_t bytes, bool plain);
  /// The reservation of this kind that holds the whole range, of whichever device, or end().
  Reservations::iterator around(uint64_t address, uint64_t bytes, bool plain);
  weir_result connect(uint64_t address, Mapping mapping, bool shares, bool plain,
                      Prefault prefault);
  using Mappings = std::map<uint64_t, Mapping>;
  /// The device's mappings that make up the range, from *first to before *last; refused where they do not.
  static weir_result find_run(uint32_t device, uint64_t address, uint64_t bytes,
                              const Mappings &mappings, Mappings::const_iterator *first,
                              Mappings::const_iterator *last);
  const Mappings *mappings_around(uint64_t address, uint64_t bytes) const;
  weir_result disconnect(uint32_t device, uint64_t address, uint64_t bytes, bool plain,
                         uint64_t *tag);

  /// Whether the value is a multiple of the granule and, if it is a size, not 0.
  weir_result check_unit(const char *what, uint64_t value, bool size) const noexcept;

  // What they do to the process's addresses, without contents nothing; 0 or errno.
  int map_fixed(uint64_t address, uint64_t bytes, int fd, uint64_t offset, bool populate) const;
  int map_nothing(uint64_t address, uint64_t bytes) const;

  const uint64_t granule_;
  const bool contents_;
  mutable std::shared_mutex mutex_;
  Reservations reservations_;
};

}  // namespace weir::host
