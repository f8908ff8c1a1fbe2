// SPDX-License-Identifier: Apache-2.0
//
// Subtle faults of runs: of what a failed one leaves, of long ones, and of taking parts of runs away.

#include "tests/mutants/memory_tools.hpp"

namespace weir::mutants {
namespace {

using mem::Key;
using mem::refuse;

weir_result map_run(weir_be_state *state, uint32_t device, uint64_t address,
                    const weir_be_piece *pieces, uint32_t count, const uint32_t *peers,
                    uint32_t peer_count) {
  return real().map_run(state, device, address, pieces, count, peers, peer_count);
}

uint64_t size_of(const weir_be_piece *pieces, uint32_t count) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; pieces != nullptr && i < count; ++i) bytes += pieces[i].bytes;
  return bytes;
}

/// Where each run ends, by its beginning.
Book<uint64_t, uint64_t> ends;

constexpr Fault faults[] = {
    // "All are mapped, or none": undoing a run leaves alone what was there before.
    {"failed_run_unmaps_what_was_there", "a run that meets a mapping removes it when it gives up",
     "VM-028",
     [](weir_backend_table &t) {
       mem::note_maps(t);
       t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                      const weir_be_piece *pieces, uint32_t count, auto... rest) {
         const auto before = mem::mappings_in(address, size_of(pieces, count));
         const weir_result result = mem::map_run(state, device, address, pieces, count, rest...);
         if (result == WEIR_SUCCESS) return result;
         for (const auto &[at, each] : before)
           if (at != address) (void)mem::unmap(state, device, at, each.bytes);
         return refuse(state, result);
       };
     }},
    // "All are mapped, or none", and "On failure nothing has changed".
    {"failed_run_keeps_granules", "the granules of a run that failed can't be destroyed any more",
     "PE-015,VM-028,VM-031",
     [](weir_backend_table &t) {
       static Book<Key, bool> pinned;
       mem::note_granules(t);
       t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                             weir_be_granule *granule) {
         const weir_result result = mem::create(state, device, bytes, flags, granule);
         if (result == WEIR_SUCCESS) (void)pinned.take({state, *granule});
         return result;
       };
       t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                      const weir_be_piece *pieces, uint32_t count, auto... rest) {
         const weir_result result = map_run(state, device, address, pieces, count, rest...);
         if (result == WEIR_SUCCESS || pieces == nullptr || count < 2) return result;
         const Key first{state, pieces[0].granule};
         const auto block = mem::granules.find(first);
         if (block && block->device == device) pinned.put(first, true);
         return result;
       };
       t.granule_destroy = [](weir_be_state *state, uint32_t device, weir_be_granule granule) {
         return pinned.find({state, granule}) ? refuse(state)
                                              : mem::destroy(state, device, granule);
       };
     }},
    // "Maps `count` pieces side by side": as many as there are.
    {"run_cut_at_64_pieces", "of a run of more than 64 pieces the first 64 are mapped, unsaid",
     "VM-042",
     [](weir_backend_table &t) {
       t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                      const weir_be_piece *pieces, uint32_t count, auto... rest) {
         return map_run(state, device, address, pieces, std::min(count, 64U), rest...);
       };
     }},
    // "short for as many map calls ... under the same rules": the parts of a granule are pieces too.
    {"run_with_a_granule_twice", "a run in which a granule is twice is refused, despite MULTI_MAP",
     "VM-042,VM-045",
     [](weir_backend_table &t) {
       t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                      const weir_be_piece *pieces, uint32_t count, auto... rest) {
         std::vector<weir_be_granule> seen;
         for (uint32_t i = 0; pieces != nullptr && i < count; ++i) {
           const bool again = std::find(seen.begin(), seen.end(), pieces[i].granule) != seen.end();
           if (again) return refuse(state, WEIR_ERROR_NOT_SUPPORTED);
           seen.push_back(pieces[i].granule);
         }
         return map_run(state, device, address, pieces, count, rest...);
       };
     }},
    // "Each piece is a map of its own", of its own size.
    {"run_of_one_unit_pieces", "a piece of more than a granule's unit maps only its first unit",
     "ER-008,PE-012,VM-030",
     [](weir_backend_table &t) {
       mem::note_maps(t);
       t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                      const weir_be_piece *pieces, uint32_t count, auto... rest) {
         const weir_result result = mem::map_run(state, device, address, pieces, count, rest...);
         const uint64_t unit = mem::unit(state, device);
         for (uint32_t i = 0; result == WEIR_SUCCESS && i < count; address += pieces[i++].bytes) {
           const weir_be_piece &piece = pieces[i];
           if (piece.bytes <= unit || i == 0) continue;
           (void)mem::unmap(state, device, address, piece.bytes);
           (void)real().map(state, device, address, unit, piece.granule, piece.offset, rest...);
         }
         return result;
       };
       t.unmap = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const weir_result result = mem::unmap(state, device, address, bytes);
         return result == WEIR_SUCCESS
                    ? result
                    : mem::unmap(state, device, address, std::min(bytes, mem::unit(state, device)));
       };
     }},
    // MAP_RUN is told per device: "which group a capability needs".
    {"run_on_first_device_only", "every device claims MAP_RUN and only the first has it",
     "PE-026,PM-020,VM-043",
     [](weir_backend_table &t) {
       t.map_run = [](weir_be_state *state, uint32_t device, auto... rest) {
         const bool no = device != 0 && device < mem::devices(state);
         return no ? refuse(state, WEIR_ERROR_NOT_SUPPORTED)
                   : real().map_run(state, device, rest...);
       };
     }},
    // unmap_run: "Removes what ... made in [address, address+bytes)".
    {"unmap_run_to_the_end_of_run", "an unmap of some pieces of a run removes those behind too",
     "VM-030",
     [](weir_backend_table &t) {
       mem::note_maps(t);
       t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                      const weir_be_piece *pieces, uint32_t count, auto... rest) {
         const weir_result result = mem::map_run(state, device, address, pieces, count, rest...);
         if (result == WEIR_SUCCESS) ends.put(address, address + size_of(pieces, count));
         return result;
       };
       t.unmap_run = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const weir_result result = mem::unmap_run(state, device, address, bytes);
         const auto run = ends.below(address);
         if (result != WEIR_SUCCESS || !run || run->second <= address + bytes) return result;
         const uint64_t behind = address + bytes;
         for (const auto &[at, each] : mem::mappings_in(behind, run->second - behind))
           (void)mem::unmap(state, device, at, each.bytes);
         return result;
       };
     }},
    // unmap_run: "which whole pieces must cover".
    {"unmap_run_of_half_a_piece", "a run to unmap may end within a piece, which is removed whole",
     "VM-029,VM-030",
     [](weir_backend_table &t) {
       mem::note_maps(t);
       t.unmap_run = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const auto last = bytes != 0 ? mem::mapping_at(address + bytes - 1) : std::nullopt;
         const uint64_t end = last ? last->first + last->second.bytes : address + bytes;
         const bool half = last && last->second.device == device && end > address + bytes;
         return mem::unmap_run(state, device, address, half ? end - address : bytes);
       };
     }},
    // The same sentence, at the other end.
    {"unmap_run_from_within_a_piece", "a run to unmap may begin within a piece, which stays",
     "VM-044,VM-045",
     [](weir_backend_table &t) {
       mem::note_maps(t);
       t.unmap_run = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const auto first = mem::mapping_at(address);
         const uint64_t next = first ? first->first + first->second.bytes : address;
         const bool within = first && first->first != address && next - address < bytes;
         return within ? mem::unmap_run(state, device, next, address + bytes - next)
                       : mem::unmap_run(state, device, address, bytes);
       };
     }},
    // "later it can be unmapped ... together with neighbours, by whichever calls those were mapped".
    {"unmap_run_of_middle_mapped_anew",
     "a run whose middle was mapped anew can't be unmapped as one", "TH-021,VM-045",
     [](weir_backend_table &t) {
       static Book<uint64_t, int> times;
       mem::note_maps(t);
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, auto... rest) {
         const weir_result result = mem::map(state, device, address, rest...);
         if (result == WEIR_SUCCESS) times.put(address, times.find(address).value_or(0) + 1);
         return result;
       };
       t.unmap_run = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const auto run = ends.below(address);
         for (const auto &[at, each] : mem::mappings_in(address, bytes))
           if (run && run->second >= address + bytes && times.find(at)) return refuse(state);
         const weir_result result = mem::unmap_run(state, device, address, bytes);
         if (result != WEIR_SUCCESS) return result;
         (void)ends.take(address);
         return result;
       };
       t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                      const weir_be_piece *pieces, uint32_t count, auto... rest) {
         const weir_result result = mem::map_run(state, device, address, pieces, count, rest...);
         if (result != WEIR_SUCCESS) return result;
         ends.put(address, address + size_of(pieces, count));
         for (const auto &each : mem::mappings_in(address, size_of(pieces, count)))
           (void)times.take(each.first);
         return result;
       };
     }},
    // "Pieces of a run live on alone", and a granule keeps its bytes until it is destroyed.
    {"unmap_run_scrubs_last_piece",
     "the last granule of a run has lost its first byte after unmap_run", "VM-025,VM-027,VM-029",
     [](weir_backend_table &t) {
       mem::note_maps(t);
       t.unmap_run = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const auto pieces = mem::mappings_in(address, bytes);
         const weir_be_stream stream = pieces.size() > 1 ? mem::hidden_stream(state) : nullptr;
         if (stream != nullptr &&
             pieces.back().first + pieces.back().second.bytes == address + bytes) {
           if (real().fill_async(state, stream, pieces.back().first, 0, 1) == WEIR_SUCCESS)
             (void)real().stream_synchronize(state, stream);
         }
         return mem::unmap_run(state, device, address, bytes);
       };
     }},
    // unmap_run: "All are removed, or none" - and "On failure nothing has changed".
    {"refused_unmap_run_blocks_unmap", "a refused unmap_run makes its pieces refuse a single unmap",
     "PE-019,VM-029",
     [](weir_backend_table &t) {
       static Book<uint64_t, bool> ending;
       mem::note_maps(t);
       t.unmap_run = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const weir_result result = mem::unmap_run(state, device, address, bytes);
         for (const auto &each : mem::mappings_in(address, result != WEIR_SUCCESS ? bytes : 0))
           ending.put(each.first, true);
         return result;
       };
       t.unmap = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         return ending.take(address) ? refuse(state) : mem::unmap(state, device, address, bytes);
       };
     }},
    // "under the same rules": an offset in a run counts from the granule's beginning.
    {"run_offsets_add_up", "an offset in a run counts from the end of the piece before it",
     "VM-045",
     [](weir_backend_table &t) {
       t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                      const weir_be_piece *pieces, uint32_t count, const uint32_t *peers,
                      uint32_t peer_count) {
         if (pieces == nullptr || count < 2)
           return map_run(state, device, address, pieces, count, peers, peer_count);
         std::vector<weir_be_piece> moved(pieces, pieces + count);
         for (uint32_t i = 1; i < count; ++i)
           if (moved[i].granule == moved[i - 1].granule)
             moved[i].offset = moved[i - 1].offset + moved[i - 1].bytes;
         return map_run(state, device, address, moved.data(), count, peers, peer_count);
       };
     }},
    // "refused with INVALID_ARGUMENT ...: sizes of 0", of each piece.
    {"run_passes_over_empty_piece", "a piece of 0 bytes in a run is passed over, not refused",
     "VM-031",
     [](weir_backend_table &t) {
       t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                      const weir_be_piece *pieces, uint32_t count, auto... rest) {
         std::vector<weir_be_piece> full;
         for (uint32_t i = 0; pieces != nullptr && i < count; ++i)
           if (pieces[i].bytes != 0) full.push_back(pieces[i]);
         if (full.empty() || full.size() == count)
           return map_run(state, device, address, pieces, count, rest...);
         return map_run(state, device, address, full.data(), static_cast<uint32_t>(full.size()),
                        rest...);
       };
     }},
};

}  // namespace

std::span<const Fault> subtle_run_faults() { return faults; }

}  // namespace weir::mutants
