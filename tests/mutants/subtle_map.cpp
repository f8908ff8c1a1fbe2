// SPDX-License-Identifier: Apache-2.0
//
// Subtle faults of mapping and unmapping a device's own granules in its own ranges.

#include "tests/mutants/memory_tools.hpp"

#include <atomic>
#include <thread>

namespace weir::mutants {
namespace {

using mem::Key;
using mem::refuse;

weir_result map(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                weir_be_granule granule, uint64_t offset, const uint32_t *peers, uint32_t count) {
  return real().map(state, device, address, bytes, granule, offset, peers, count);
}

weir_result unmap(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
  return real().unmap(state, device, address, bytes);
}

/// How many mappings of a granule there are; kept by count_aliases().
Book<Key, int> alive;

int alive_of(weir_be_state *state, weir_be_granule granule) {
  return alive.find({state, granule}).value_or(0);
}

weir_result map_counted(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                        weir_be_granule granule, uint64_t offset, const uint32_t *peers,
                        uint32_t count) {
  const weir_result result = mem::map(state, device, address, bytes, granule, offset, peers, count);
  if (result == WEIR_SUCCESS) alive.put({state, granule}, alive_of(state, granule) + 1);
  return result;
}

weir_result unmap_counted(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
  const auto mapping = mem::mapped.find(address);
  const weir_result result = mem::unmap(state, device, address, bytes);
  if (result == WEIR_SUCCESS && mapping)
    alive.put({state, mapping->granule}, alive_of(state, mapping->granule) - 1);
  return result;
}

void count_aliases(weir_backend_table &t) {
  mem::note_maps(t);
  t.map = map_counted;
  t.unmap = unmap_counted;
  t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                        weir_be_granule *granule) {
    const weir_result result = mem::create(state, device, bytes, flags, granule);
    if (result == WEIR_SUCCESS) alive.put({state, *granule}, 0);
    return result;
  };
}

Book<uint64_t, bool> closed;  // mappings, by address

bool in_closed(uint32_t, uint64_t address) {
  const auto mapping = mem::mapping_at(address);
  return mapping && closed.find(mapping->first);
}

/// A place in a range, as a backend sees it that keeps it in 32 bits.
uint64_t wrapped(uint64_t address) {
  const auto range = mem::range_at(address);
  return range ? range->first + ((address - range->first) & UINT32_MAX) : address;
}

constexpr Fault faults[] = {
    // "On failure nothing has changed"; granule_destroy: "Legal only when it is mapped nowhere."
    {"refused_map_keeps_granule", "a granule whose map was refused can't be destroyed any more",
     "PE-007,VM-012,VM-021",
     [](weir_backend_table &t) {
       static Book<Key, bool> pinned;
       mem::note_granules(t);
       t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                             weir_be_granule *granule) {
         const weir_result result = mem::create(state, device, bytes, flags, granule);
         if (result == WEIR_SUCCESS) (void)pinned.take({state, *granule});
         return result;
       };
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, auto... rest) {
         const weir_result result = map(state, device, address, bytes, granule, rest...);
         const auto block = mem::granules.find({state, granule});
         if (result != WEIR_SUCCESS && block && block->device == device)
           pinned.put({state, granule}, true);
         return result;
       };
       t.granule_destroy = [](weir_be_state *state, uint32_t device, weir_be_granule granule) {
         return pinned.find({state, granule}) ? refuse(state)
                                              : mem::destroy(state, device, granule);
       };
     }},
    // "On failure nothing has changed".
    {"refused_map_keeps_place", "the place of a map that was refused for its offset stays taken",
     "VM-010",
     [](weir_backend_table &t) {
       mem::note_granules(t);
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, uint64_t offset, auto... rest) {
         static Book<Key, bool> taken;
         if (taken.find({state, address})) return refuse(state);
         const weir_result result = map(state, device, address, bytes, granule, offset, rest...);
         const auto block = mem::granules.find({state, granule});
         if (result != WEIR_SUCCESS && block && offset > 0 && offset + bytes > block->bytes)
           taken.put({state, address}, true);
         return result;
       };
     }},
    // "On failure nothing has changed": the peers are looked at when the mapping is made.
    {"refused_peer_leaves_mapping", "a map that is refused for its peers is there all the same",
     "PE-007",
     [](weir_backend_table &t) {
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, uint64_t offset, const uint32_t *peers, uint32_t count) {
         const weir_result result =
             map(state, device, address, bytes, granule, offset, peers, count);
         if (result == WEIR_SUCCESS || count == 0) return result;
         (void)map(state, device, address, bytes, granule, offset, nullptr, 0);
         return refuse(state, result);
       };
     }},
    // "On failure nothing has changed".
    {"refused_unmap_closes_mapping", "after an unmap that was refused copies find nothing there",
     "PE-012,VM-014",
     [](weir_backend_table &t) {
       mem::note_maps(t);
       mem::deny<in_closed>(t);
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, auto... rest) {
         const weir_result result = mem::map(state, device, address, rest...);
         if (result == WEIR_SUCCESS) (void)closed.take(address);
         return result;
       };
       t.unmap = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const weir_result result = mem::unmap(state, device, address, bytes);
         if (result != WEIR_SUCCESS && mem::mapped.find(address)) closed.put(address, true);
         return result;
       };
     }},
    // map: "Maps granule bytes [offset, offset+bytes)".
    {"map_offset_of_31_bits", "an offset in a granule of more than 2 GiB loses its upper bits",
     "VM-048",
     [](weir_backend_table &t) {
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, uint64_t offset, auto... rest) {
         return map(state, device, address, bytes, granule, offset & INT32_MAX, rest...);
       };
     },
     "memory=96G;granule=2M;granule_large=32M;prefault=0"},
    // map: "at `address` ... inside one reservation".
    {"map_beyond_4g_of_range", "a map 4 GiB behind a range's beginning goes to its beginning",
     "AR-016",
     [](weir_backend_table &t) {
       mem::note_ranges(t);
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, auto... rest) {
         return map(state, device, wrapped(address), rest...);
       };
       t.unmap = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         return unmap(state, device, wrapped(address), bytes);
       };
     }},
    // The same sentence: the last place is inside too.
    {"map_to_range_end_refused", "a map that ends where its range does is refused, but for a whole",
     "AR-014,LI-005,VM-007",
     [](weir_backend_table &t) {
       mem::note_ranges(t);
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  auto... rest) {
         const auto range = mem::range_at(address);
         const bool last = range && address != range->first &&
                           address + bytes == range->first + range->second.bytes;
         return last ? refuse(state) : map(state, device, address, bytes, rest...);
       };
     }},
    // map: "where nothing is mapped".
    {"map_into_next_is_cut", "a map that reaches into the next mapping ends before it, unsaid",
     "VM-012",
     [](weir_backend_table &t) {
       static Book<uint64_t, std::pair<uint64_t, uint64_t>> cuts;  // what was asked, what is mapped
       mem::note_maps(t);
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  auto... rest) {
         const weir_result result = mem::map(state, device, address, bytes, rest...);
         if (result != WEIR_ERROR_INVALID_ARGUMENT || bytes > UINT64_MAX - address) return result;
         const auto next = mem::mappings_in(address, bytes);
         if (next.empty() || next.front().first == address) return result;
         const uint64_t cut = next.front().first - address;
         const weir_result less = mem::map(state, device, address, cut, rest...);
         if (less == WEIR_SUCCESS) cuts.put(address, {bytes, cut});
         return less;
       };
       t.unmap = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const auto cut = cuts.find(address);
         if (!cut || cut->first != bytes) return mem::unmap(state, device, address, bytes);
         (void)cuts.take(address);
         return mem::unmap(state, device, address, cut->second);
       };
     }},
    // map: "Without WEIR_CAP_MAP_PART ... anything else is NOT_SUPPORTED."
    {"part_refused_as_invalid", "without MAP_PART a part of a granule is INVALID_ARGUMENT",
     "VM-024",
     [](weir_backend_table &t) {
       mem::hide<WEIR_CAP_MAP_PART>(t);
       mem::note_granules(t);
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, uint64_t offset, auto... rest) {
         const auto block = mem::granules.find({state, granule});
         const bool part = block && (offset != 0 || bytes != block->bytes);
         return part ? refuse(state) : map(state, device, address, bytes, granule, offset, rest...);
       };
       t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                      const weir_be_piece *pieces, uint32_t count, auto... rest) {
         for (uint32_t i = 0; pieces != nullptr && i < count; ++i) {
           const auto block = mem::granules.find({state, pieces[i].granule});
           if (block && (pieces[i].offset != 0 || pieces[i].bytes != block->bytes))
             return refuse(state, WEIR_ERROR_NOT_SUPPORTED);
         }
         return real().map_run(state, device, address, pieces, count, rest...);
       };
     }},
    // map: "A granule is mapped once at a time unless WEIR_CAP_MULTI_MAP": at a time, not for ever.
    {"mapped_once_for_ever", "without MULTI_MAP a granule that was unmapped can't be mapped again",
     "TH-002,TH-016,VM-003",
     [](weir_backend_table &t) {
       static Book<Key, bool> used;
       mem::hide<WEIR_CAP_MULTI_MAP>(t);
       t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                             weir_be_granule *granule) {
         const weir_result result = mem::create(state, device, bytes, flags, granule);
         if (result == WEIR_SUCCESS) (void)used.take({state, *granule});
         return result;
       };
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, auto... rest) {
         if (used.find({state, granule})) return refuse(state);
         const weir_result result = map(state, device, address, bytes, granule, rest...);
         if (result == WEIR_SUCCESS) used.put({state, granule}, true);
         return result;
       };
     }},
    // MULTI_MAP: "one granule may be live at several addresses".
    {"third_alias_is_other_memory", "at the third address of a granule there is other memory",
     "VM-016",
     [](weir_backend_table &t) {
       static Book<uint64_t, weir_be_granule> shadows;
       count_aliases(t);
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, auto... rest) {
         const auto block = mem::granules.find({state, granule});
         weir_be_granule shadow = 0;
         if (!block || alive_of(state, granule) != 2 ||
             real().granule_create(state, device, block->bytes, 0, &shadow) != WEIR_SUCCESS)
           return map_counted(state, device, address, bytes, granule, rest...);
         const weir_result result = map(state, device, address, bytes, shadow, rest...);
         if (result == WEIR_SUCCESS)
           shadows.put(address, shadow);
         else
           (void)real().granule_destroy(state, device, shadow);
         return result;
       };
       t.unmap = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const weir_result result = unmap_counted(state, device, address, bytes);
         const auto shadow = result == WEIR_SUCCESS ? shadows.take(address) : std::nullopt;
         if (shadow) (void)real().granule_destroy(state, device, *shadow);
         return result;
       };
     }},
    // unmap: "Removes exactly what one map call made".
    {"unmap_ends_all_aliases", "unmapping a granule at one address unmaps it at the others",
     "VM-016",
     [](weir_backend_table &t) {
       static Book<Key, uint64_t> ended;
       count_aliases(t);
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, auto... rest) {
         const weir_result result = map_counted(state, device, address, rest...);
         if (result == WEIR_SUCCESS) (void)ended.take({state, address});
         return result;
       };
       t.unmap = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         if (const auto before = ended.find({state, address}); before && *before == bytes) {
           (void)ended.take({state, address});
           return weir_result{WEIR_SUCCESS};
         }
         const auto mapping = mem::mapped.find(address);
         const weir_result result = unmap_counted(state, device, address, bytes);
         if (result != WEIR_SUCCESS || !mapping || alive_of(state, mapping->granule) <= 0)
           return result;
         for (const auto &[at, each] : mem::mappings_in(1, UINT64_MAX - 1)) {
           if (each.granule == mapping->granule && each.device == device &&
               unmap_counted(state, device, at, each.bytes) == WEIR_SUCCESS)
             ended.put({state, at}, each.bytes);
         }
         return result;
       };
     }},
    // "In-order queues"; MULTI_MAP: both addresses are the same memory.
    {"alias_copies_unordered",
     "a copy through a granule's second address leaves its stream's order", "VM-016,VM-023,VM-027",
     [](weir_backend_table &t) {
       count_aliases(t);
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, auto... rest) {
         const bool second = alive_of(state, granule) > 0;
         const weir_result result = map_counted(state, device, address, bytes, granule, rest...);
         if (result == WEIR_SUCCESS) (void)closed.take(address);
         if (result == WEIR_SUCCESS && second) closed.put(address, true);
         return result;
       };
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *copy) {
         const bool leaves = stream != nullptr && copy != nullptr &&
                             (in_closed(0, copy->source) || in_closed(0, copy->destination));
         const weir_be_stream hidden = leaves ? mem::hidden_stream(state) : nullptr;
         return real().copy_async(state, hidden != nullptr ? hidden : stream, copy);
       };
     }},
    // unmap: "Removes exactly what one map call made".
    {"unmap_of_two_maps", "one unmap removes two mappings side by side, if told their sizes' sum",
     "PE-012,VM-014",
     [](weir_backend_table &t) {
       mem::note_maps(t);
       t.unmap = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const weir_result result = mem::unmap(state, device, address, bytes);
         if (result == WEIR_SUCCESS) return result;
         const auto first = mem::mapped.find(address);
         const auto second = first ? mem::mapped.find(address + first->bytes) : std::nullopt;
         if (!second || first->bytes + second->bytes != bytes) return result;
         const weir_result half = mem::unmap(state, device, address, first->bytes);
         return half == WEIR_SUCCESS
                    ? mem::unmap(state, device, address + first->bytes, second->bytes)
                    : half;
       };
     }},
    // MAP_ANY_THREAD: "mapping may be called on the application's threads".
    {"unmap_by_mapping_thread_only", "MAP_ANY_THREAD is claimed; who mapped must unmap", "VM-047",
     [](weir_backend_table &t) {
       static Book<uint64_t, std::thread::id> threads;
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, auto... rest) {
         const weir_result result = map(state, device, address, rest...);
         if (result == WEIR_SUCCESS) threads.put(address, std::this_thread::get_id());
         return result;
       };
       t.unmap = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const auto thread = threads.find(address);
         return thread && *thread != std::this_thread::get_id()
                    ? refuse(state)
                    : unmap(state, device, address, bytes);
       };
     }},
    // unmap removes what map made, its record too; "nothing is leaked".
    {"mapping_ids_run_out", "mappings have numbers that are not used again: 50000 are all",
     "LI-020",
     [](weir_backend_table &t) {
       t.map = [](weir_be_state *state, auto... rest) {
         static std::atomic<int> left{50000};
         if (left <= 0) return refuse(state, WEIR_ERROR_BACKEND);
         const weir_result result = map(state, rest...);
         if (result == WEIR_SUCCESS) --left;
         return result;
       };
     }},
    // MULTI_MAP: "one granule may be live at several addresses", of which no number is told.
    {"granule_at_16_addresses", "a granule can't be mapped at more than 16 addresses at once",
     "VM-038",
     [](weir_backend_table &t) {
       count_aliases(t);
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, auto... rest) {
         return alive_of(state, granule) >= 16
                    ? refuse(state, WEIR_ERROR_BACKEND)
                    : map_counted(state, device, address, bytes, granule, rest...);
       };
     }},
};

}  // namespace

std::span<const Fault> subtle_map_faults() { return faults; }

}  // namespace weir::mutants
