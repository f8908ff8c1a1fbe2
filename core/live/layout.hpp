// SPDX-License-Identifier: Apache-2.0
//
// The live page, byte by byte: what a program writes of one context into a sealed memory file, and what others read of it. A Header,
// then one Slot for each pool that has one. Plain data of fixed size: the library and the weir command share this file and no code.
//
// What must hold: the page has no pointer and no index that a reader follows unchecked. A change of this file is a new `layout_version`,
// but that counters are added at the end of weir_pool_stats: `counter_count` says how many there are. Bytes that were never written are 0.
//
// A slot is read as one moment by its sequence: odd while it is being written, another number afterwards.
#pragma once

#include <weir/pool.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace weir::live {

inline constexpr uint64_t page_magic = 0x6576694c'72696557;  // "WeirLive", as the bytes lie
inline constexpr uint32_t layout_version = 1;
/// What the memory file is called in /proc/PID/fd.
inline constexpr char page_name[] = "weir-live";

inline constexpr uint32_t most_pools = 32;    ///< that have a slot; further ones are counted
inline constexpr uint32_t most_devices = 28;  ///< as many as a pool can have
inline constexpr uint32_t most_clients = 64;  ///< of a pool, shown one by one
inline constexpr uint32_t most_counters = 192;
inline constexpr uint32_t most_reasons = 16;
inline constexpr uint32_t most_durations = 16;
inline constexpr uint32_t most_places = 64;  ///< devices of the context
inline constexpr uint32_t name_bytes = 64;   ///< a name's, cut where a character ends, and a NUL

enum Tier : uint32_t { device_tier, host_tier, compressed_tier, storage_tier, tier_count };

/// Why slow acquires wait, in the order of Pool::waits.
#define WEIR_LIVE_WAITS(X)                                                             \
  X(conflict, "others move the same pages, or lease them in a way that excludes this") \
  X(room, "others hold the memory, or have asked for it before")                       \
  X(eviction, "pages leave to make room")                                              \
  X(copy, "copies are on the way")                                                     \
  X(io, "STORAGE is read and written")                                                 \
  X(decode, "pages of COMPRESSED or STORAGE are decoded")                              \
  X(mapping, "memory is made, mapped or unmapped")
enum Reason : uint32_t {
#define WEIR_LIVE_REASON(name, meaning) wait_##name,
  WEIR_LIVE_WAITS(WEIR_LIVE_REASON)
#undef WEIR_LIVE_REASON
      reason_count
};

inline constexpr uint64_t no_limit = UINT64_MAX;

/// Bytes in one tier.
struct Amounts {
  uint64_t budget;  ///< or a client's quota; no_limit: it has none
  uint64_t used;    ///< charged
  uint64_t leased;  ///< of buffers with unreleased leases, as of Pool::walked_ns
  uint64_t
      cold;  ///< of buffers that the program has advised COLD and not used since, as of Pool::walked_ns
};

struct Client {
  uint32_t id;  ///< 0: the pool's own
  uint32_t buffers;
  int32_t priority;
  uint32_t reserved;
  std::array<char, name_bytes> name;
  std::array<Amounts, tier_count> tiers;
};

struct Device {
  uint32_t id;     ///< in the context
  uint32_t state;  ///< WEIR_POOL_DEVICE_*
  Amounts amounts;
  uint64_t free_bytes;      ///< of what is used: free for other buffers
  uint64_t held_bytes;      ///< of that: weir_hold, weir_malloc
  uint64_t borrowed_bytes;  ///< of that: pages of neighbours
  uint64_t peak_bytes;
};

struct Wait {
  uint64_t total_ns;  ///< of waits that have ended
  uint64_t now;       ///< threads that wait at this moment
  uint64_t reserved;
};

/// How many waits or moves took how long: up to 1 µs, 4 µs and so on; the last bucket has no bound.
struct Durations {
  std::array<uint64_t, most_durations> counts;
  uint64_t sum_ns;
};

struct Pool {
  uint64_t
      serial;  ///< of the process, no other has it; 0: the slot is free, and nothing else in it counts
  /// CLOCK_MONOTONIC, or what the pool tells time by.
  uint64_t began_ns, written_ns;
  /// When the last look at all buffers ended, from which come leased and cold bytes; 0: none has yet.
  uint64_t walked_ns;
  std::array<char, name_bytes> name;
  uint32_t background;  ///< 1: the page follows by itself; 0: with the pool's slow calls
  uint32_t counter_count, reason_count;
  uint32_t device_count;    ///< that are below
  uint32_t client_count;    ///< that are below
  uint32_t clients;         ///< in all
  uint32_t duration_count;  ///< of Durations::counts
  uint32_t reserved;
  std::array<Amounts, tier_count> tiers;
  /// As in weir_pool_stats: WEIR_POOL_STATS_FIELDS.
  std::array<uint64_t, most_counters> counters;
  std::array<Wait, most_reasons> waits;
  /// Slow acquires, from their beginning to their end.
  Durations acquires;
  /// Moves of pages whose end the program saw, by the tiers that they led from and to.
  std::array<std::array<Durations, tier_count>, tier_count> moves;
  std::array<Device, most_devices> devices;
  std::array<Client, most_clients> client;
};

struct Slot {
  uint64_t sequence;
  std::array<uint64_t, 7> reserved;
  Pool pool;
};

/// A device of the context.
struct Place {
  uint32_t id;
  uint32_t reserved;
  uint64_t memory_bytes;
  std::array<char, name_bytes> name, backend;
};

/// Written before the page can be found, but for the pools that have no slot.
struct Header {
  uint64_t magic;
  uint32_t version;
  uint32_t header_bytes, slot_bytes,
      slot_count;  ///< of this build; a reader that knows others refuses
  int32_t process;
  uint32_t context;                               ///< its number in the process, from 1
  uint64_t start_time;                            ///< field 22 of /proc/PID/stat
  uint64_t began_ns;                              ///< CLOCK_MONOTONIC
  std::array<char, name_bytes> program, library;  ///< the program's name, the library's version
  uint64_t pools_without_slot;
  uint32_t place_count;  ///< that are below
  uint32_t places;       ///< in all
  std::array<uint64_t, 8> reserved;
  std::array<Place, most_places> place;
};

inline constexpr size_t header_bytes = (sizeof(Header) + 4095) / 4096 * 4096;
inline constexpr size_t slot_bytes = (sizeof(Slot) + 63) / 64 * 64;
inline constexpr size_t page_bytes = (header_bytes + most_pools * slot_bytes + 4095) / 4096 * 4096;
constexpr size_t slot_offset(uint32_t slot) noexcept { return header_bytes + slot * slot_bytes; }

inline constexpr uint32_t counter_count = 0
#define WEIR_LIVE_COUNT(name, meaning) +1
    WEIR_POOL_STATS_FIELDS(WEIR_LIVE_COUNT)
#undef WEIR_LIVE_COUNT
    ;
static_assert(counter_count <= most_counters && reason_count <= most_reasons);
static_assert(std::is_trivially_copyable_v<Header> && std::is_standard_layout_v<Header>);
static_assert(std::is_trivially_copyable_v<Slot> && std::is_standard_layout_v<Slot>);
// A compiler that lays it out otherwise would read and write another version.
static_assert(sizeof(Client) == 208 && sizeof(Device) == 72 && sizeof(Wait) == 24 &&
              sizeof(Place) == 144 && sizeof(Pool) == 19816 && sizeof(Header) == 9472);

}  // namespace weir::live
