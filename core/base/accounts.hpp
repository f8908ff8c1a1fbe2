// SPDX-License-Identifier: Apache-2.0
//
// Accounts: the clients of a pool, and of each its quota, and what is charged to it, on every device and tier. Client 0
// is the pool's own. What a device or tier has for all clients together is for its store to keep (physical/, tier/).
//
// What must hold: bytes are charged to a client exactly while there is a Charge for them, or what has absorbed it. charge() comes
// before the memory is looked for. The store that got the memory absorbs the Charge, and calls freed() once, when it has the memory no more:
// a slot of HOST, a blob below HOST, a page's granule on a device.
//
// The rule for pages on a device: a page is charged to its region's client while it has a granule there, and an owner or a move that
// is bringing it. So its charge ends
//   - as the granule is given back, if the page has an owner or the move that was to bring it has failed;
//   - as the owner goes, if the page is in place: one that is being brought is left to the move;
//   - as the move ends that has brought it, if the owner has gone meanwhile.
// A page without an owner is charged to no client: Accounts is told nothing when it goes, and a region that takes it over charges anew.
#pragma once

#include "core/base/budget.hpp"
#include "core/base/memory.hpp"
#include "core/base/name.hpp"
#include "core/base/place.hpp"
#include "core/base/pool_lock.hpp"
#include "core/base/status.hpp"

#include <weir/pool.h>

#include <array>
#include <bit>
#include <string>
#include <vector>

namespace weir {

class Accounts {
 public:
  /// A place is a device of the pool, by its position, or one of the tiers.
  static constexpr uint8_t devices = 28, storage = 28, compressed = 29, host = 30, places = 31;
  static constexpr uint8_t at(Place place) noexcept {
    return static_cast<uint8_t>(std::countr_zero(place.bit()));
  }

  explicit Accounts(std::pmr::memory_resource *memory) noexcept : clients_(memory) {}

  // ---- clients ----
  Status create_client(const weir_client_desc &desc, uint32_t *id) WEIR_HELD;
  /// BUSY while it has buffers. Its record stays: granules remember whose bytes they hold by its number.
  Status destroy_client(uint32_t id) WEIR_HELD;
  uint32_t clients() const noexcept WEIR_HELD { return static_cast<uint32_t>(clients_.size()); }
  /// The clients that have not been destroyed.
  uint32_t living() const noexcept WEIR_HELD { return living_; }
  /// False: it has been destroyed.
  bool lives(uint32_t client) const noexcept WEIR_HELD { return !find(client).ended; }
  int32_t priority(uint32_t client) const noexcept WEIR_HELD { return find(client).priority; }
  const char *name(uint32_t client) const noexcept WEIR_HELD { return find(client).name.c_str(); }
  QuotedName quoted(uint32_t client) const noexcept WEIR_HELD {
    return QuotedName(find(client).name);
  }
  /// The priority of a client's buffer that was made with `wanted`.
  int8_t priority(uint32_t client, int32_t wanted) const noexcept WEIR_HELD;
  void add_buffer(uint32_t client) noexcept WEIR_HELD { ++clients_[client]->buffers; }
  void remove_buffer(uint32_t client) noexcept WEIR_HELD { --clients_[client]->buffers; }
  void describe(uint32_t client, weir_client_stats *stats) const noexcept WEIR_HELD;

  // ---- bytes ----
  const Budget &quota(uint32_t client, uint8_t place) const noexcept WEIR_HELD {
    return find(client).quotas[place];
  }
  /// An empty Charge where the client's quota has no room for it.
  Charge charge(uint32_t client, uint8_t place, uint64_t bytes) noexcept WEIR_HELD {
    return Charge(clients_[client]->quotas[place], bytes);
  }
  /// The memory that had absorbed a charge is freed, or has no owner any more.
  void freed(uint32_t client, uint8_t place, uint64_t bytes) noexcept WEIR_HELD {
    clients_[client]->quotas[place].refund(bytes);
  }

 private:
  struct Client {
    explicit Client(std::pmr::memory_resource *memory) : name(memory) {}
    int32_t priority = 0;
    uint32_t buffers = 0;
    bool ended = false;
    std::pmr::string name;
    std::array<Budget, places> quotas;
  };
  const Client &find(uint32_t client) const noexcept WEIR_HELD { return *clients_[client]; }

  std::pmr::vector<Owned<Client>> clients_ WEIR_GUARDED;  ///< by number
  uint32_t living_ WEIR_GUARDED = 0;
};

}  // namespace weir
