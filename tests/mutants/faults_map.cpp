// SPDX-License-Identifier: Apache-2.0
//
// Faults of mapping and unmapping.

#include "tests/mutants/mutant.hpp"

#include <atomic>
#include <cstring>

namespace weir::mutants {
namespace {

struct Mapping {
  uint64_t bytes = 0, offset = 0;
  weir_be_granule granule = 0;
};
Book<uint64_t, Mapping> mappings;  // by address; kept by remember()

weir_result map(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                weir_be_granule granule, uint64_t offset, const uint32_t *peers,
                uint32_t peer_count) {
  const weir_result result =
      real().map(state, device, address, bytes, granule, offset, peers, peer_count);
  if (result == WEIR_SUCCESS) mappings.put(address, {bytes, offset, granule});
  return result;
}

weir_result unmap(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
  const weir_result result = real().unmap(state, device, address, bytes);
  if (result == WEIR_SUCCESS) (void)mappings.take(address);
  return result;
}

void remember(weir_backend_table &t) {
  t.map = map;
  t.unmap = unmap;
}

std::atomic<uint64_t> fresh{0};  // the address that was mapped last and not written since

constexpr Fault faults[] = {
    {"map_ignores_offset", "map puts the granule's beginning there, whatever the offset", "VM-006",
     [](weir_backend_table &t) {
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, uint64_t, const uint32_t *peers, uint32_t count) {
         return real().map(state, device, address, bytes, granule, 0, peers, count);
       };
     }},
    {"map_of_nothing", "a map of 0 bytes is taken", "VM-009",
     [](weir_backend_table &t) {
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  auto... rest) {
         return bytes == 0 ? weir_result{WEIR_SUCCESS}
                           : real().map(state, device, address, bytes, rest...);
       };
     }},
    {"map_over_another", "a map into addresses that are mapped replaces what was there", "VM-012",
     [](weir_backend_table &t) {
       remember(t);
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  auto... rest) {
         const weir_result result = map(state, device, address, bytes, rest...);
         const auto before = mappings.find(address);
         if (result == WEIR_SUCCESS || !before) return result;
         (void)unmap(state, device, address, before->bytes);
         return map(state, device, address, bytes, rest...);
       };
     }},
    {"map_failures_swallowed", "a map that can't be made is said to be there", "VM-010,VM-011",
     [](weir_backend_table &t) {
       t.map = [](auto... rest) {
         const weir_result result = real().map(rest...);
         return result == WEIR_ERROR_INVALID_ARGUMENT ? weir_result{WEIR_SUCCESS} : result;
       };
     }},
    {"map_beyond_granule", "a map longer than its granule is cut to it in silence", "VM-010",
     [](weir_backend_table &t) {
       static Book<weir_be_granule, uint64_t> sizes;
       t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                             weir_be_granule *granule) {
         const weir_result result = real().granule_create(state, device, bytes, flags, granule);
         if (result == WEIR_SUCCESS) sizes.put(*granule, bytes);
         return result;
       };
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, uint64_t offset, auto... rest) {
         const uint64_t size = sizes.find(granule).value_or(UINT64_MAX);
         const uint64_t room = offset < size ? size - offset : bytes;
         const uint64_t cut = bytes < room ? bytes : room;
         return real().map(state, device, address, cut, granule, offset, rest...);
       };
     }},
    {"map_visible_late", "the first write into memory that was just mapped is lost",
     "VM-001,VM-002",
     [](weir_backend_table &t) {
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, auto... rest) {
         const weir_result result = real().map(state, device, address, rest...);
         if (result == WEIR_SUCCESS) fresh = address;
         return result;
       };
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *copy) {
         uint64_t address = copy->destination;
         if (fresh.compare_exchange_strong(address, 0)) return weir_result{WEIR_SUCCESS};
         return real().copy_async(state, stream, copy);
       };
       t.fill_async = [](weir_be_state *state, weir_be_stream stream, uint64_t address,
                         auto... rest) {
         uint64_t expected = address;
         if (fresh.compare_exchange_strong(expected, 0)) return weir_result{WEIR_SUCCESS};
         return real().fill_async(state, stream, address, rest...);
       };
     }},
    {"map_of_any_peer", "map takes peers that are not there", "PE-007",
     [](weir_backend_table &t) {
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, uint64_t offset, const uint32_t *, uint32_t) {
         return real().map(state, device, address, bytes, granule, offset, nullptr, 0);
       };
     }},
    {"multi_map_refused", "MULTI_MAP is claimed and a second mapping is refused", "VM-016",
     [](weir_backend_table &t) {
       remember(t);
       static Book<weir_be_granule, uint64_t> places;
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, auto... rest) {
         const auto place = places.find(granule);
         const auto there = place ? mappings.find(*place) : std::nullopt;
         if (there && there->granule == granule) return weir_result{WEIR_ERROR_NOT_SUPPORTED};
         const weir_result result = map(state, device, address, bytes, granule, rest...);
         if (result == WEIR_SUCCESS) places.put(granule, address);
         return result;
       };
     }},
    {"unmap_takes_neighbour", "unmap removes the next mapping too", "VM-013",
     [](weir_backend_table &t) {
       remember(t);
       t.unmap = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const weir_result result = unmap(state, device, address, bytes);
         if (result != WEIR_SUCCESS) return result;
         if (const auto next = mappings.find(address + bytes))
           (void)unmap(state, device, address + bytes, next->bytes);
         return result;
       };
     }},
    {"unmap_removes_half", "unmap leaves the second half mapped", "VM-004",
     [](weir_backend_table &t) {
       remember(t);
       t.unmap = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const auto whole = mappings.find(address);
         const weir_result result = unmap(state, device, address, bytes);
         if (result != WEIR_SUCCESS || !whole) return result;
         const uint64_t half = bytes / 2;
         (void)real().map(state, device, address + half, half, whole->granule, whole->offset + half,
                          nullptr, 0);
         return result;
       };
     }},
    {"unmap_late", "unmap takes effect at the next unmap", "VM-004",
     [](weir_backend_table &t) {
       t.unmap = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         struct Later {
           uint32_t device;
           uint64_t address, bytes;
         };
         static Book<weir_be_state *, Later> later;
         const auto due = later.take(state);
         later.put(state, {device, address, bytes});
         return due ? real().unmap(state, due->device, due->address, due->bytes)
                    : weir_result{WEIR_SUCCESS};
       };
     }},
    {"unmap_of_any_size", "unmap takes sizes that were not mapped", "VM-014",
     [](weir_backend_table &t) {
       remember(t);
       t.unmap = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const auto whole = mappings.find(address);
         return unmap(state, device, address, whole ? whole->bytes : bytes);
       };
     }},
    {"unmap_of_nothing", "unmap of what is not mapped is a success", "VM-015",
     [](weir_backend_table &t) {
       t.unmap = [](auto... rest) {
         const weir_result result = real().unmap(rest...);
         return result == WEIR_ERROR_INVALID_ARGUMENT ? weir_result{WEIR_SUCCESS} : result;
       };
     }},
    {"contents_lost_at_unmap", "a granule's contents are gone when it is mapped again",
     "VM-004,VM-005",
     [](weir_backend_table &t) {
       remember(t);
       t.unmap = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const auto whole = mappings.find(address);
         if (whole && whole->bytes == bytes) std::memset(bytes_at(address), 0, bytes);
         return unmap(state, device, address, bytes);
       };
     }},
    {"mapped_granule_destroyed", "a granule is destroyed while it is mapped", "PM-012",
     [](weir_backend_table &t) {
       t.granule_destroy = [](auto... rest) {
         (void)real().granule_destroy(rest...);
         return weir_result{WEIR_SUCCESS};
       };
     }},
    {"range_freed_while_mapped", "a range is freed while something is mapped in it",
     "AR-009,AR-010",
     [](weir_backend_table &t) {
       t.range_free = [](auto... rest) {
         (void)real().range_free(rest...);
         return weir_result{WEIR_SUCCESS};
       };
     }},
};

}  // namespace

std::span<const Fault> map_faults() { return faults; }

}  // namespace weir::mutants
