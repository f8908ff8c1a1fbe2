// SPDX-License-Identifier: Apache-2.0
//
// Faults of runs, of access that is given later, and of streams for copies alone.

#include "tests/mutants/mutant.hpp"

#include <iterator>
#include <vector>

namespace weir::mutants {
namespace {

constexpr weir_result refused = WEIR_ERROR_INVALID_ARGUMENT;

weir_result map_all(weir_be_state *state, uint32_t device, uint64_t address,
                    const weir_be_piece *pieces, uint32_t count, const uint32_t *peers,
                    uint32_t peer_count) {
  return real().map_run(state, device, address, pieces, count, peers, peer_count);
}

weir_result map_piece(weir_be_state *state, uint32_t device, uint64_t address,
                      const weir_be_piece &piece) {
  return real().map(state, device, address, piece.bytes, piece.granule, piece.offset, nullptr, 0);
}

/// An honest answer to native_memory: of kind 1 alone, and where there may be memory. A refusal has a code, another call's.
weir_result tell_object(weir_be_state *state, uint32_t device, uint64_t address, uint32_t kind,
                        void *out) {
  weir_be_device about{};
  about.struct_size = sizeof about;
  if (const weir_result result = real().device_describe(state, device, &about);
      result != WEIR_SUCCESS)
    return result;
  uint64_t none = 0;
  if (kind != 1 || address == 0) return real().plain_allocate(state, device, 0, 4096, &none);
  auto *const words = static_cast<uint32_t *>(out);
  if (words[0] >= 8) words[1] = 1;
  return WEIR_SUCCESS;
}

void claim_native(weir_backend_table &t) {
  t.device_describe = [](weir_be_state *state, uint32_t device, weir_be_device *out) {
    const weir_result result = real().device_describe(state, device, out);
    if (result == WEIR_SUCCESS && out->struct_size >= 16)
      out->capabilities |= WEIR_CAP_NATIVE_MEMORY;
    return result;
  };
}

/// What maps and runs made, by address; kept by remember().
Book<uint64_t, uint64_t> sizes;

void remember(weir_backend_table &t) {
  t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
             auto... rest) {
    const weir_result result = real().map(state, device, address, bytes, rest...);
    if (result == WEIR_SUCCESS) sizes.put(address, bytes);
    return result;
  };
  t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                 const weir_be_piece *pieces, uint32_t count, auto... rest) {
    const weir_result result = real().map_run(state, device, address, pieces, count, rest...);
    for (uint32_t i = 0; result == WEIR_SUCCESS && i < count; address += pieces[i++].bytes)
      sizes.put(address, pieces[i].bytes);
    return result;
  };
  t.unmap = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
    const weir_result result = real().unmap(state, device, address, bytes);
    if (result == WEIR_SUCCESS) (void)sizes.take(address);
    return result;
  };
}

/// Unmaps one by one what begins in the range.
weir_result unmap_each(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
  weir_result result = WEIR_SUCCESS;
  for (uint64_t at = address; at < address + bytes && result == WEIR_SUCCESS;) {
    const auto size = sizes.take(at);
    if (!size) return refused;
    result = real().unmap(state, device, at, *size);
    at += *size;
  }
  return result;
}

template <uint64_t Capabilities>
void hide(weir_backend_table &t) {
  t.device_describe = [](weir_be_state *state, uint32_t device, weir_be_device *about) {
    const weir_result result = real().device_describe(state, device, about);
    if (result == WEIR_SUCCESS) about->capabilities &= ~Capabilities;
    return result;
  };
}

/// What runs made, by address, each as a whole; kept by note_runs().
Book<uint64_t, uint64_t> runs;

void note_runs(weir_backend_table &t) {
  t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                 const weir_be_piece *pieces, uint32_t count, auto... rest) {
    const weir_result result = real().map_run(state, device, address, pieces, count, rest...);
    uint64_t bytes = 0;
    for (uint32_t i = 0; result == WEIR_SUCCESS && i < count; ++i) bytes += pieces[i].bytes;
    if (result == WEIR_SUCCESS) runs.put(address, bytes);
    return result;
  };
}

/// Streams for copies alone; kept by note_transfers().
Book<weir_be_stream, bool> transfers;

void note_transfers(weir_backend_table &t) {
  t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                       weir_be_stream *stream) {
    const weir_result result = real().stream_create(state, device, flags, stream);
    if (result == WEIR_SUCCESS && flags != 0) transfers.put(*stream, true);
    return result;
  };
}

/// What other devices' streams reached first at an address where something is mapped, kept alive by a mapping of its own.
struct Imports {
  struct Mapping {
    uint32_t device = 0;
    uint64_t bytes = 0;
    weir_be_granule granule = 0;
  };
  static inline Book<weir_be_stream, uint32_t> streams;
  static inline Book<uint64_t, Mapping> mappings;
  static inline Book<uint64_t, uint64_t> aliases;  // by the mapping's address

  static uint64_t redirect(weir_be_state *state, weir_be_stream stream, uint64_t address) {
    const auto device = streams.find(stream);
    const auto at = mappings.below(address);
    if (!device || !at || address - at->first >= at->second.bytes) return address;
    const auto &[start, mapping] = *at;
    if (mapping.device == *device) return address;
    if (!aliases.find(start)) {
      uint64_t alias = 0;
      if (real().range_reserve(state, mapping.device, mapping.bytes, mapping.bytes, &alias) !=
              WEIR_SUCCESS ||
          real().map(state, mapping.device, alias, mapping.bytes, mapping.granule, 0, nullptr, 0) !=
              WEIR_SUCCESS)
        return address;
      aliases.put(start, alias);
    }
    return *aliases.find(start) + (address - start);
  }
};

constexpr Fault faults[] = {
    {"peer_import_stale",
     "a peer goes on reaching what it reached first at an address, whatever is mapped there now",
     "PE-020",
     [](weir_backend_table &t) {
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         const weir_result result = real().stream_create(state, device, flags, stream);
         if (result == WEIR_SUCCESS) Imports::streams.put(*stream, device);
         return result;
       };
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, auto... rest) {
         const weir_result result = real().map(state, device, address, bytes, granule, rest...);
         if (result == WEIR_SUCCESS) Imports::mappings.put(address, {device, bytes, granule});
         return result;
       };
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *copy) {
         weir_be_copy seen = *copy;
         seen.source = Imports::redirect(state, stream, copy->source);
         seen.destination = Imports::redirect(state, stream, copy->destination);
         return real().copy_async(state, stream, &seen);
       };
     }},
    {"run_backwards", "a run maps its pieces in the reverse order", "VM-025",
     [](weir_backend_table &t) {
       t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                      const weir_be_piece *pieces, uint32_t count, auto... rest) {
         if (pieces == nullptr)
           return real().map_run(state, device, address, pieces, count, rest...);
         const std::vector<weir_be_piece> turned(std::make_reverse_iterator(pieces + count),
                                                 std::make_reverse_iterator(pieces));
         return real().map_run(state, device, address, turned.data(), count, rest...);
       };
     }},
    {"run_without_last", "a run leaves its last piece out", "VM-025,VM-027",
     [](weir_backend_table &t) {
       t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                      const weir_be_piece *pieces, uint32_t count, auto... rest) {
         return real().map_run(state, device, address, pieces, count > 1 ? count - 1 : count,
                               rest...);
       };
     }},
    {"run_of_one_granule", "a run maps its first granule everywhere", "VM-025",
     [](weir_backend_table &t) {
       t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                      const weir_be_piece *pieces, uint32_t count, const uint32_t *peers,
                      uint32_t peer_count) {
         std::vector<weir_be_piece> same(pieces, pieces != nullptr ? pieces + count : pieces);
         for (weir_be_piece &each : same) each.granule = same.front().granule;
         return map_all(state, device, address, same.data(), count, peers, peer_count);
       };
     }},
    {"run_kept_in_part", "a run that fails half way stays half mapped", "VM-028",
     [](weir_backend_table &t) {
       t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                      const weir_be_piece *pieces, uint32_t count, const uint32_t *peers,
                      uint32_t peer_count) {
         const weir_result result =
             map_all(state, device, address, pieces, count, peers, peer_count);
         if (result != WEIR_SUCCESS && pieces != nullptr && count > 1)
           (void)map_piece(state, device, address, pieces[0]);
         return result;
       };
     }},
    {"run_ignores_offsets", "a run maps each granule from its beginning", "VM-033",
     [](weir_backend_table &t) {
       t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                      const weir_be_piece *pieces, uint32_t count, const uint32_t *peers,
                      uint32_t peer_count) {
         std::vector<weir_be_piece> cut(pieces, pieces != nullptr ? pieces + count : pieces);
         for (weir_be_piece &each : cut) each.offset = 0;
         return map_all(state, device, address, pieces != nullptr ? cut.data() : nullptr, count,
                        peers, peer_count);
       };
     }},
    {"run_of_nothing", "a run of no pieces is taken", "VM-031",
     [](weir_backend_table &t) {
       t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                      const weir_be_piece *pieces, uint32_t count, auto... rest) {
         return count == 0 ? weir_result{WEIR_SUCCESS}
                           : real().map_run(state, device, address, pieces, count, rest...);
       };
     }},
    {"run_of_equal_sizes", "a run takes all pieces to be as large as the first", "VM-030",
     [](weir_backend_table &t) {
       t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                      const weir_be_piece *pieces, uint32_t count, auto... rest) {
         for (uint32_t i = 1; pieces != nullptr && i < count; ++i)
           if (pieces[i].bytes != pieces[0].bytes) return refused;
         return real().map_run(state, device, address, pieces, count, rest...);
       };
     }},
    {"unmap_run_over_gaps", "an unmap of a run passes over what is not mapped", "VM-029",
     [](weir_backend_table &t) {
       remember(t);
       t.unmap_run = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         for (auto at = sizes.below(address + bytes - 1); at && at->first >= address;
              at = sizes.below(at->first)) {
           (void)real().unmap(state, device, at->first, at->second);
           (void)sizes.take(at->first);
           if (at->first == 0) break;
         }
         return weir_result{WEIR_SUCCESS};
       };
     }},
    {"unmap_run_stops_in_the_middle", "an unmap of a run removes what comes before a gap", "VM-029",
     [](weir_backend_table &t) {
       remember(t);
       t.unmap_run = unmap_each;
     }},
    {"unmap_run_only_of_runs", "an unmap of a run wants what one run had mapped", "VM-027",
     [](weir_backend_table &t) {
       note_runs(t);
       t.unmap_run = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const auto run = runs.find(address);
         return run && *run == bytes ? real().unmap_run(state, device, address, bytes) : refused;
       };
     }},
    {"unmap_in_run_takes_all", "an unmap of one piece removes the run", "VM-026",
     [](weir_backend_table &t) {
       note_runs(t);
       t.unmap = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const auto run = runs.below(address);
         const bool inside = run && address - run->first < run->second;
         return inside ? real().unmap_run(state, device, run->first, run->second)
                       : real().unmap(state, device, address, bytes);
       };
     }},
    {"run_unclaimed", "MAP_RUN is not claimed and runs are mapped all the same", "CA-014",
     hide<WEIR_CAP_MAP_RUN>},
    {"run_takes_any_peer", "a run takes peers that are not there", "PE-015",
     [](weir_backend_table &t) {
       t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                      const weir_be_piece *pieces, uint32_t count, const uint32_t *, uint32_t) {
         return map_all(state, device, address, pieces, count, nullptr, 0);
       };
     }},
    {"unmap_run_of_any_device", "an unmap of a run removes another device's piece too", "PE-019",
     [](weir_backend_table &t) {
       remember(t);
       t.unmap_run = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const weir_result result = real().unmap_run(state, device, address, bytes);
         if (result == WEIR_SUCCESS) return result;
         for (uint64_t at = address; at < address + bytes;) {
           const auto size = sizes.find(at);
           if (!size) return result;
           for (uint32_t each = 0; each < 2; ++each) (void)real().unmap(state, each, at, *size);
           at += *size;
         }
         return weir_result{WEIR_SUCCESS};
       };
     }},
    {"access_of_nothing", "access is given to what is not mapped", "PE-017",
     [](weir_backend_table &t) {
       t.access_add = [](auto... rest) {
         (void)real().access_add(rest...);
         return weir_result{WEIR_SUCCESS};
       };
     }},
    {"access_refused_again", "a peer that has access is refused when it is named again", "PE-016",
     [](weir_backend_table &t) {
       static Book<uint64_t, uint64_t> given;
       t.access_add = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                         auto... rest) {
         const auto before = given.below(address);
         if (before && address - before->first < before->second) return refused;
         const weir_result result = real().access_add(state, device, address, bytes, rest...);
         if (result == WEIR_SUCCESS) given.put(address, bytes);
         return result;
       };
     }},
    {"access_loses_a_write", "the owner's first write after access was given is lost",
     "PE-016,PE-018",
     [](weir_backend_table &t) {
       static Book<uint64_t, bool> lost;
       t.access_add = [](weir_be_state *state, uint32_t device, uint64_t address, auto... rest) {
         const weir_result result = real().access_add(state, device, address, rest...);
         if (result == WEIR_SUCCESS) lost.put(address, true);
         return result;
       };
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *copy) {
         if (lost.take(copy->source) || lost.take(copy->destination))
           return weir_result{WEIR_SUCCESS};
         return real().copy_async(state, stream, copy);
       };
     }},
    {"access_without_peers", "ACCESS_LATER is claimed and PEER is not", "CA-017",
     hide<WEIR_CAP_PEER | WEIR_CAP_SHARED_RANGE>},
    {"access_unclaimed", "ACCESS_LATER is not claimed and access is given all the same", "CA-015",
     hide<WEIR_CAP_ACCESS_LATER>},
    {"native_without_entry", "NATIVE_MEMORY is claimed and the table has no entry", "CA-020",
     claim_native},
    {"native_unclaimed", "NATIVE_MEMORY is not claimed and objects are told all the same", "CA-020",
     [](weir_backend_table &t) { t.native_memory = tell_object; }},
    {"native_of_any_kind", "objects are told of kinds that nobody knows", "CA-021",
     [](weir_backend_table &t) {
       claim_native(t);
       t.native_memory = [](weir_be_state *state, uint32_t device, uint64_t address, uint32_t,
                            void *out) { return tell_object(state, device, address, 1, out); };
     }},
    {"native_of_nowhere", "objects are told where no memory is", "CA-021",
     [](weir_backend_table &t) {
       claim_native(t);
       t.native_memory = [](weir_be_state *state, uint32_t device, uint64_t address, uint32_t kind,
                            void *out) {
         return tell_object(state, device, address != 0 ? address : 4096, kind, out);
       };
     }},
    {"native_start_of_any_kind", "objects of the program that nobody knows are left aside",
     "RT-035",
     [](weir_backend_table &t) {
       claim_native(t);
       t.native_memory = tell_object;
     }},
    {"transfer_refused", "TRANSFER_STREAM is claimed and its flag is refused", "CA-016",
     [](weir_backend_table &t) {
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         return flags != 0 ? refused : real().stream_create(state, device, flags, stream);
       };
     }},
    {"transfer_fills_nothing", "a fill on a stream for copies alone is dropped", "ST-021",
     [](weir_backend_table &t) {
       note_transfers(t);
       t.fill_async = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         return transfers.find(stream) ? weir_result{WEIR_SUCCESS}
                                       : real().fill_async(state, stream, rest...);
       };
     }},
    {"transfer_waits_for_nobody", "a stream for copies alone does not wait for fences", "ST-022",
     [](weir_backend_table &t) {
       note_transfers(t);
       t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
         return transfers.find(stream) ? weir_result{WEIR_SUCCESS}
                                       : real().stream_wait(state, stream, fence);
       };
     }},
};

}  // namespace

std::span<const Fault> run_faults() { return faults; }

}  // namespace weir::mutants
