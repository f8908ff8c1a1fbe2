// SPDX-License-Identifier: Apache-2.0
//
// Victim: one page on its way out of a device. Drain: one round of evictions.
#pragma once

#include "core/page/pool_device.hpp"
#include "core/tier/cold_tiers.hpp"

#include <algorithm>

namespace weir::move {

/// Whoever the room is for that a round makes: told as soon as so much is free, while the rest still leaves.
class Awaiting {
 public:
  /// How many bytes are to have left the device before that is worth a look; UINT64_MAX: never.
  virtual uint64_t look_after() const noexcept = 0;
  /// Room has been made, and more is on its way. May drop the lock.
  virtual void more_room(Releasable &lock) noexcept WEIR_HELD = 0;

 protected:
  ~Awaiting() = default;
};

/// A place for a page with a neighbour (lender.hpp).
struct Loan {
  PoolDevice *to = nullptr;  ///< until it is settled
  physical::Granule *memory = nullptr;
  uint64_t address = 0;
  bool fresh = false;    ///< the granule was claimed for it; else it has an older version
  bool wipe = false;     ///< another client's bytes are in it
  bool mapped = false;   ///< by this eviction ...
  uint16_t opened = 0;   ///< ... for the peers of this generation
  bool lost = false;     ///< the neighbour is, as this eviction has found out
  bool arrived = false;  ///< the page's bytes have
};

struct Victim {
  explicit Victim(std::pmr::memory_resource *memory) : fences(memory) {}
  PageRef ref;
  Region *region = nullptr;
  uint32_t page = 0;
  std::pmr::vector<Stamp> fences;
  bool copy = false;  ///< dirty: goes to HOST, below it or to registered memory
  bool had_content = false;
  bool safe = false;      ///< its bytes are elsewhere, or not needed
  bool wiped = false;     ///< zeroed on the device, or maybe: no version any more
  bool out = false;       ///< safe, and it is to be unmapped
  bool gone = false;      ///< unmapped
  bool cached = false;    ///< clean, but copied to HOST because its other copies are below that
  bool straight = false;  ///< to the tiers below HOST, without a slot there
  bool stays = false;     ///< it is cleaned: its bytes are copied to HOST, and it stays
  /// Where its bytes go.
  struct Goal {
    tier::HostSlot slot;
    uint32_t chain = tier::ColdTiers::none;  ///< records for that, or for its places below HOST
    uint32_t bit = 0;                        ///< straight: of the tier that they came to
    uint64_t checksum = 0;                   ///< of what was copied, if one is wanted
    codec::CodecPlan plan;
    void *address = nullptr;  ///< of the slot, of registered memory or of the loan
  } to;
  Loan loan;
  /// Where it lies on the device.
  struct Origin {
    uint64_t address = 0;
    uint64_t granule = 0;                       ///< where its granule is mapped
    physical::SharedMapping *shared = nullptr;  ///< for others too
  } from;
  uint64_t bytes = 0, used = 0;
  Stamp copied;
  /// Of its copy. 0: there is none.
  struct Times {
    uint64_t began_ns = 0, landed_ns = 0;
  } times;
};

/// One round of evictions: what it has come to so far.
struct Drain {
  /// Waiters are woken when so much has been settled, and in the end: not for every small page.
  static constexpr uint64_t worth_telling = uint64_t{1} << 20U;

  PoolDevice &device;
  bool background;
  uint64_t wait_ns;   ///< for the work that uses a page
  bool stay = false;  ///< pages are cleaned, and stay
  uint64_t freed = 0;
  uint64_t cleaned = 0;  ///< bytes copied of pages that stay
  uint64_t untold = 0;
  uint64_t seen = 0;  ///< of `freed`: what the set that the room is for has looked at
  Status why{};       ///< the first failure

  void note(const Status &status) noexcept {
    if (why.ok() && !status.ok()) why = status;
  }
};

}  // namespace weir::move
