// SPDX-License-Identifier: Apache-2.0
//
// Subtle faults of ranges in which several devices map, of the peers that a map names, and of access that is given later.

#include "tests/mutants/memory_tools.hpp"

namespace weir::mutants {
namespace {

using mem::refuse;

constexpr uint32_t most_devices = 64;

/// Devices by mapping and number, of which the backend says that they have no access.
Book<std::pair<uint64_t, uint32_t>, bool> revoked;

bool is_revoked(uint32_t device, uint64_t address) {
  const auto mapping = mem::mapping_at(address);
  return mapping && revoked.find({mapping->first, device});
}

void forget_revoked(uint64_t address) {
  for (uint32_t device = 0; device < most_devices; ++device) (void)revoked.take({address, device});
}

bool has(const std::vector<uint32_t> &devices, uint32_t device) {
  return std::find(devices.begin(), devices.end(), device) != devices.end();
}

/// A new mapping is everybody's whom it names; the rest is for a fault to say.
void deny_revoked(weir_backend_table &t) {
  mem::note_maps(t);
  mem::deny<is_revoked>(t);
  t.map = [](weir_be_state *state, uint32_t device, uint64_t address, auto... rest) {
    const weir_result result = mem::map(state, device, address, rest...);
    if (result == WEIR_SUCCESS) forget_revoked(address);
    return result;
  };
  t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                 const weir_be_piece *pieces, uint32_t count, auto... rest) {
    const weir_result result = mem::map_run(state, device, address, pieces, count, rest...);
    for (uint32_t i = 0; result == WEIR_SUCCESS && i < count; address += pieces[i++].bytes)
      forget_revoked(address);
    return result;
  };
}

bool later_peer(uint32_t device, uint64_t address) {
  const auto mapping = mem::mapping_at(address);
  if (!mapping || mapping->second.device == device) return false;
  const std::vector<uint32_t> &peers = mapping->second.peers;
  return has(peers, device) && peers.front() != device;
}

/// The other device that has mapped in a range; kept by the faults that ask.
Book<uint64_t, uint32_t> guests;

weir_result reserve_without_guest(weir_be_state *state, uint32_t device, uint64_t bytes,
                                  uint64_t alignment, uint64_t *address) {
  const weir_result result = mem::reserve(state, device, bytes, alignment, address);
  if (result == WEIR_SUCCESS) (void)guests.take(*address);
  return result;
}

std::mutex streams_mutex;
std::map<weir_be_stream, std::pair<weir_be_state *, uint32_t>> open_streams;

/// Whether a stream of the device has work to do.
bool works(weir_be_state *state, uint32_t device) {
  const std::lock_guard lock(streams_mutex);
  for (const auto &[stream, home] : open_streams) {
    if (home == std::pair(state, device) && real().stream_query(state, stream) == WEIR_NOT_READY)
      return true;
  }
  return false;
}

constexpr Fault faults[] = {
    // "refused with INVALID_ARGUMENT ...: devices that do not exist".
    {"map_checks_first_peer_only", "of the peers of a map only the first must be there",
     "ER-012,ER-015,ER-016",
     [](weir_backend_table &t) {
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, uint64_t offset, const uint32_t *peers, uint32_t count) {
         return real().map(state, device, address, bytes, granule, offset, peers,
                           std::min(count, 1U));
       };
     }},
    // map: "readable and writable by `device` ... and by `peers`".
    {"second_peer_gets_no_access", "of the peers of a map only the first has access", "PE-022",
     [](weir_backend_table &t) {
       mem::note_maps(t);
       mem::deny<later_peer>(t);
     },
     "devices=4"},
    // The same sentence, of as many as there are.
    {"map_of_33_peers", "a map that names more than 32 peers is refused", "PE-029",
     [](weir_backend_table &t) {
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, uint64_t offset, const uint32_t *peers, uint32_t count) {
         return count > 32
                    ? refuse(state)
                    : real().map(state, device, address, bytes, granule, offset, peers, count);
       };
     },
     "devices=40"},
    // The same sentence: until it is unmapped, whatever is mapped beside it.
    {"later_map_revokes_peers", "a map takes the access of peers it does not name from its range",
     "PE-028",
     [](weir_backend_table &t) {
       mem::note_ranges(t);
       deny_revoked(t);
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, uint64_t offset, const uint32_t *peers, uint32_t count) {
         const weir_result result =
             mem::map(state, device, address, bytes, granule, offset, peers, count);
         const auto range = mem::range_at(address);
         if (result != WEIR_SUCCESS || !range) return result;
         forget_revoked(address);
         const std::vector<uint32_t> named(peers, peers + count);
         for (const auto &[at, each] : mem::mappings_in(range->first, range->second.bytes))
           for (const uint32_t peer : each.peers)
             if (at != address && each.device == device && !has(named, peer))
               revoked.put({at, peer}, true);
         return result;
       };
     }},
    // map: "with WEIR_CAP_SHARED_RANGE on both devices it may be another's of the backend".
    {"shared_range_of_first_only", "other devices may map in the ranges of the first device only",
     "PE-028",
     [](weir_backend_table &t) {
       mem::note_ranges(t);
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, auto... rest) {
         const auto range = mem::range_at(address);
         const bool no = range && range->second.device != device && range->second.device != 0;
         return no ? refuse(state) : real().map(state, device, address, rest...);
       };
     }},
    // The same sentence, and "several devices may map into disjoint places of one reservation".
    {"shared_with_one_other_only", "a range can be shared with one other device, not with two",
     "PE-031",
     [](weir_backend_table &t) {
       t.range_reserve = reserve_without_guest;
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, auto... rest) {
         if (!mem::foreign(device, address)) return real().map(state, device, address, rest...);
         const uint64_t range = mem::range_at(address)->first;
         if (guests.find(range).value_or(device) != device) return refuse(state);
         const weir_result result = real().map(state, device, address, rest...);
         if (result == WEIR_SUCCESS) guests.put(range, device);
         return result;
       };
     },
     "devices=4"},
    // range_free: "nothing is mapped in it, by no device" - and then it is freed.
    {"foreign_unmap_leaves_range_busy", "a range in which another device had mapped can't be freed",
     "PE-011,PE-013,PE-019",
     [](weir_backend_table &t) {
       t.range_reserve = reserve_without_guest;
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, auto... rest) {
         const weir_result result = real().map(state, device, address, rest...);
         if (result == WEIR_SUCCESS && mem::foreign(device, address))
           guests.put(mem::range_at(address)->first, device);
         return result;
       };
       t.range_free = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         return guests.find(address) ? refuse(state)
                                     : real().range_free(state, device, address, bytes);
       };
     }},
    // map: "Maps granule bytes [offset, offset+bytes)", in another's range too.
    {"foreign_map_ignores_offset", "in another's range a granule is mapped from its beginning",
     "PE-032",
     [](weir_backend_table &t) {
       mem::note_ranges(t);
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, uint64_t offset, auto... rest) {
         return real().map(state, device, address, bytes, granule,
                           mem::foreign(device, address) ? 0 : offset, rest...);
       };
     }},
    // unmap: "`device` is the one that call was told", not the range's.
    {"foreign_unmap_wants_owner", "what another device mapped is unmapped in the owner's name only",
     "PE-011,PE-013,PE-019",
     [](weir_backend_table &t) {
       mem::note_ranges(t);
       mem::note_maps(t);
       t.unmap = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const auto range = mem::range_at(address);
         const auto mapping = mem::mapped.find(address);
         if (!range || !mapping || range->second.device == mapping->device)
           return mem::unmap(state, device, address, bytes);
         return range->second.device == device ? mem::unmap(state, mapping->device, address, bytes)
                                               : refuse(state);
       };
     }},
    // map_run: "short for as many map calls ..., under the same rules".
    {"foreign_run_refused", "a run in another device's range is refused, though a map is not",
     "PE-032",
     [](weir_backend_table &t) {
       mem::note_ranges(t);
       t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address, auto... rest) {
         return mem::foreign(device, address) ? refuse(state)
                                              : real().map_run(state, device, address, rest...);
       };
     }},
    // map_run: "with the same peers", all pieces.
    {"run_gives_peers_first_piece", "the peers of a run have access to its first piece only",
     "PE-015",
     [](weir_backend_table &t) {
       deny_revoked(t);
       t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                      const weir_be_piece *pieces, uint32_t count, const uint32_t *peers,
                      uint32_t peer_count) {
         const weir_result result =
             mem::map_run(state, device, address, pieces, count, peers, peer_count);
         for (uint32_t i = 0; result == WEIR_SUCCESS && i < count; address += pieces[i++].bytes) {
           forget_revoked(address);
           for (uint32_t peer = 0; i != 0 && peer < peer_count; ++peer)
             if (peers[peer] != device) revoked.put({address, peers[peer]}, true);
         }
         return result;
       };
     }},
    // access_add: "Makes [address, address+bytes) readable and writable by `peers` too".
    {"access_to_first_piece_only", "access is given to the first piece of what was named",
     "PE-016,PE-018",
     [](weir_backend_table &t) {
       deny_revoked(t);
       t.access_add = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                         const uint32_t *peers, uint32_t count) {
         const weir_result result = real().access_add(state, device, address, bytes, peers, count);
         if (result != WEIR_SUCCESS) return result;
         for (const auto &[at, each] : mem::mappings_in(address, bytes))
           for (uint32_t i = 0; at != address && i < count; ++i)
             if (peers[i] != device && !has(each.peers, peers[i]))
               revoked.put({at, peers[i]}, true);
         return result;
       };
     }},
    // access_add: "Whoever has access keeps it".
    {"access_takes_from_others", "giving access to a peer takes it from those the map had named",
     "PE-030",
     [](weir_backend_table &t) {
       deny_revoked(t);
       t.access_add = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                         const uint32_t *peers, uint32_t count) {
         const weir_result result = real().access_add(state, device, address, bytes, peers, count);
         if (result != WEIR_SUCCESS) return result;
         const std::vector<uint32_t> named(peers, peers + count);
         for (const auto &[at, each] : mem::mappings_in(address, bytes)) {
           for (const uint32_t peer : each.peers)
             if (peer != device && !has(named, peer)) revoked.put({at, peer}, true);
           for (const uint32_t peer : named) (void)revoked.take({at, peer});
         }
         return result;
       };
     },
     "devices=4"},
    // access_add: "work that uses them may be pending".
    {"access_refused_under_work", "access is refused while a stream of the device has work to do",
     "PE-018",
     [](weir_backend_table &t) {
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         const weir_result result = real().stream_create(state, device, flags, stream);
         const std::lock_guard lock(streams_mutex);
         if (result == WEIR_SUCCESS) open_streams[*stream] = {state, device};
         return result;
       };
       t.stream_destroy = [](weir_be_state *state, weir_be_stream stream) {
         {
           const std::lock_guard lock(streams_mutex);
           open_streams.erase(stream);
         }
         return real().stream_destroy(state, stream);
       };
       t.stop = [](weir_be_state *state) {
         {
           const std::lock_guard lock(streams_mutex);
           std::erase_if(open_streams,
                         [&](const auto &each) { return each.second.first == state; });
         }
         real().stop(state);
       };
       t.access_add = [](weir_be_state *state, uint32_t device, auto... rest) {
         return works(state, device) ? refuse(state, WEIR_ERROR_BACKEND)
                                     : real().access_add(state, device, rest...);
       };
     }},
    // access_add: "Whole pieces that `device` has mapped must cover it".
    {"access_by_any_device",
     "access is given in the name of a device that has mapped nothing there", "PE-033",
     [](weir_backend_table &t) {
       mem::note_maps(t);
       t.access_add = [](weir_be_state *state, uint32_t device, uint64_t address, auto... rest) {
         const auto mapping = mem::mapped.find(address);
         const bool there = mapping && device < mem::devices(state);
         // The host backend's devices need no access, so that it is given is all there is to say.
         return there && mapping->device != device
                    ? weir_result{WEIR_SUCCESS}
                    : real().access_add(state, device, address, rest...);
       };
     }},
    // The same sentence: "Whole pieces".
    {"access_to_part_of_piece", "access to a part of a piece is not refused", "PE-017",
     [](weir_backend_table &t) {
       mem::note_maps(t);
       t.access_add = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                         auto... rest) {
         const auto mapping = mem::mapped.find(address);
         const bool part = mapping && bytes != 0 && bytes < mapping->bytes;
         return real().access_add(state, device, address, part ? mapping->bytes : bytes, rest...);
       };
     }},
    // access_add: "`peers` ..., of which there is one at least".
    {"access_for_nobody", "access that is given to no peer is a success", "PE-017",
     [](weir_backend_table &t) {
       t.access_add = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                         const uint32_t *peers, uint32_t count) {
         const uint32_t some = count == 0 && mem::devices(state) > 1 ? 1 : count;
         const uint32_t other = device == 0 ? 1 : 0;
         return real().access_add(state, device, address, bytes, count == 0 ? &other : peers, some);
       };
     }},
    // "refused with INVALID_ARGUMENT ...: devices that do not exist".
    {"access_checks_last_peer_only", "of the peers that are given access the last must be there",
     "PE-027",
     [](weir_backend_table &t) {
       t.access_add = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                         const uint32_t *peers, uint32_t count) {
         const bool several = peers != nullptr && count > 1;
         return real().access_add(state, device, address, bytes,
                                  several ? peers + count - 1 : peers, several ? 1 : count);
       };
     }},
    // map: "readable and writable by `device` ... and by `peers`", whatever was mapped there before.
    {"access_loss_outlives_unmap", "a peer that a map did not name has none in the next map there",
     "PE-021,PE-022,PE-023",
     [](weir_backend_table &t) {
       mem::note_maps(t);
       mem::deny<is_revoked>(t);
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, uint64_t offset, const uint32_t *peers, uint32_t count) {
         static Book<uint64_t, std::vector<uint32_t>> first;
         const weir_result result =
             mem::map(state, device, address, bytes, granule, offset, peers, count);
         if (result != WEIR_SUCCESS) return result;
         const std::vector<uint32_t> named(peers, peers + count);
         const auto before = first.find(address);
         if (!before) first.put(address, named);
         for (const uint32_t peer : named)
           if (before && peer != device && !has(*before, peer)) revoked.put({address, peer}, true);
         return result;
       };
     }},
};

}  // namespace

std::span<const Fault> subtle_shared_faults() { return faults; }

}  // namespace weir::mutants
