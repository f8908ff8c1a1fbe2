// SPDX-License-Identifier: Apache-2.0
//
// The device addresses of the machine: one space for all devices, as vendors have. Reservations; mappings of
// physical memory, which nobody reaches until access is set, device by device; and plain memory, which has an
// address at once and is its owner's. All addresses lie in windows that nothing else of the process is ever put
// into, so an address that was a device's is known as one, however stale.
//
// In strict mode the windows stay PROT_NONE and copies go through the table. In alias mode a mapping that any
// device may reach is CPU memory at its address too.
//
// Every refusal is counted as misuse with a sentence, and has changed nothing. Thread-safe.
#pragma once

#include "tests/drivers/sim/answer.hpp"
#include "tests/drivers/sim/census.hpp"
#include "tests/drivers/sim/memory.hpp"
#include "tests/drivers/sim/window.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <vector>

namespace weir::sim {

/// A set of devices, one bit each.
using DeviceSet = uint64_t;
constexpr DeviceSet device_bit(uint32_t device) noexcept { return DeviceSet{1} << device; }

enum class Access : uint8_t { none, read, read_write };

/// A piece of memory that part of an address range stands for.
struct Piece {
  std::byte *memory = nullptr;
  uint64_t bytes = 0;
  uint32_t device = UINT32_MAX;          ///< whose memory; UINT32_MAX: the host's
  bool plain = false;                    ///< device memory that was not mapped but allocated
  uint64_t mapping = 0;                  ///< names the mapping, never used twice; 0: the host's
  std::shared_ptr<const Physical> keep;  ///< NULL: the host's
};

/// What an address is, for drivers' questions about pointers.
struct Found {
  enum class What : uint8_t { host, stale, reserved, mapped, plain } what = What::host;
  uint64_t address = 0, bytes = 0;  ///< the reservation, mapping or allocation around it; stale: 0
  uint32_t device = UINT32_MAX;     ///< mapped, plain: whose memory
  std::shared_ptr<Physical> physical;
};

class AddressSpace {
 public:
  AddressSpace(Census &census, uint64_t granule, bool strict) noexcept
      : census_(census), granule_(granule), strict_(strict) {}
  ~AddressSpace();
  AddressSpace(const AddressSpace &) = delete;
  AddressSpace &operator=(const AddressSpace &) = delete;

  /// `alignment`: 0 or a power of two.
  Answer reserve(uint64_t bytes, uint64_t alignment, uint64_t *address);
  /// Exactly what was reserved, with nothing mapped in it.
  Answer free(uint64_t address, uint64_t bytes);
  /// Maps physical bytes [offset, offset + bytes) inside one reservation, where nothing is mapped. Nobody has
  /// access yet.
  Answer map(uint64_t address, uint64_t bytes, std::shared_ptr<Physical> physical, uint64_t offset);
  /// Sets what the devices may do with the range, which is made of whole mappings without gaps.
  Answer set_access(uint64_t address, uint64_t bytes, DeviceSet devices, Access access);
  /// What the device may do at the address, which is mapped.
  Answer get_access(uint64_t address, uint32_t device, Access *access) const;
  /// Removes the mappings that the range is made of, whole ones without gaps.
  Answer unmap(uint64_t address, uint64_t bytes);

  /// An address for the first `bytes` of `physical`, until drop().
  Answer place(std::shared_ptr<Physical> physical, uint64_t bytes, uint64_t alignment,
               uint64_t *address);
  /// `address` as place() gave it.
  Answer drop(uint64_t address);

  Found find(uint64_t address) const;
  /// Whether the range touches a window: if so, it is no host memory.
  bool is_device(uint64_t address, uint64_t bytes) const noexcept;

  /// The memory of the range for work of `device`, piece by piece; `plain_of` are the devices whose plain memory it
  /// reaches. A range outside the windows is host memory. illegal_address, which is no misuse of a call: *why says
  /// in words what is not there.
  Answer resolve(uint64_t address, uint64_t bytes, uint32_t device, bool write, DeviceSet plain_of,
                 std::vector<Piece> *pieces, std::string *why) const;
  /// Whether the mappings that the pieces came from are still what the range stands for.
  bool still(uint64_t address, const std::vector<Piece> &pieces) const;

 private:
  struct Mapping {
    uint64_t bytes = 0;
    uint64_t offset = 0;  ///< in the physical memory
    std::shared_ptr<Physical> physical;
    DeviceSet readers = 0, writers = 0;
    uint64_t name = 0;
    bool plain = false;
  };
  struct Reservation {
    uint64_t bytes = 0;
    bool plain = false;  ///< made by place()
  };
  using Mappings = std::map<uint64_t, Mapping>;
  using Reservations = std::map<uint64_t, Reservation>;

  // The caller holds the mutex, for all of these.
  Answer make_room(uint64_t bytes, uint64_t alignment, uint64_t *address);
  void give_room(uint64_t address, uint64_t bytes);
  bool open_window(uint64_t bytes);
  bool touches_window(uint64_t address, uint64_t bytes) const noexcept;
  /// Whether the range is made of whole mappings without gaps; *first is its first one.
  bool whole(uint64_t address, uint64_t bytes, Mappings::iterator *first);
  /// The mapping around the address, or end().
  Mappings::const_iterator around(uint64_t address) const;
  /// The reservation around the range, or end().
  Reservations::const_iterator home(uint64_t address, uint64_t bytes) const;
  bool occupied(uint64_t address, uint64_t bytes) const;
  /// Makes the CPU see at the address what devices may reach. 0 or an errno value.
  int show(uint64_t address, const Mapping &mapping) const noexcept;
  int hide(uint64_t address, uint64_t bytes) const noexcept;

  Census &census_;
  const uint64_t granule_;
  const bool strict_;
  mutable std::shared_mutex mutex_;
  std::vector<Window> windows_;
  Reservations reservations_;
  Mappings mappings_;  ///< of all reservations
  uint64_t last_name_ = 0;
};

}  // namespace weir::sim
