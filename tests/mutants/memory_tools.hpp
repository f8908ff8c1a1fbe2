// SPDX-License-Identifier: Apache-2.0
//
// What the subtle faults of devices, memory, mappings and export have in common: refusing as a backend would, and
// records of what lives. The records are kept only where a fault asks for them with a note_...().
#pragma once

#include "tests/mutants/mutant.hpp"

#include <algorithm>
#include <vector>

namespace weir::mutants::mem {

/// Handles of two states may be the same number.
using Key = std::pair<weir_be_state *, uint64_t>;

/// Refuses a call, with a code for the thread as the header wants it.
inline weir_result refuse(weir_be_state *state, weir_result result = WEIR_ERROR_INVALID_ARGUMENT) {
  uint64_t free = 0, total = 0;
  (void)real().device_memory(state, UINT32_MAX, &free, &total);
  return result;
}

inline uint32_t devices(weir_be_state *state) {
  uint32_t count = 0;
  (void)real().device_count(state, &count);
  return count;
}

inline weir_be_device about(weir_be_state *state, uint32_t device) {
  weir_be_device description{};
  description.struct_size = sizeof description;
  if (device < devices(state)) (void)real().device_describe(state, device, &description);
  return description;
}

inline uint64_t unit(weir_be_state *state, uint32_t device) {
  return std::max<uint64_t>(about(state, device).granule, 1);
}

/// Takes capabilities out of all descriptions.
template <uint64_t Capabilities>
void hide(weir_backend_table &t) {
  t.device_describe = [](weir_be_state *state, uint32_t device, weir_be_device *out) {
    const weir_result result = real().device_describe(state, device, out);
    if (result == WEIR_SUCCESS && out->struct_size >= 16) out->capabilities &= ~Capabilities;
    return result;
  };
}

/// A stream of the state that nobody else knows.
inline weir_be_stream hidden_stream(weir_be_state *state) {
  static std::mutex mutex;
  static Book<weir_be_state *, weir_be_stream> known;
  const std::lock_guard lock(mutex);
  if (const auto before = known.find(state)) {
    // A state that was stopped may have had the same address.
    weir_be_stream wrapper = nullptr;
    if (real().stream_wrap(state, 0, *before, &wrapper) == WEIR_SUCCESS) return *before;
  }
  weir_be_stream made = nullptr;
  if (real().stream_create(state, 0, 0, &made) == WEIR_SUCCESS) known.put(state, made);
  return made;
}

// ---- granules

struct Block {
  uint32_t device = 0;
  uint64_t bytes = 0;
};
inline Book<Key, Block> granules;

inline weir_result create(weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                          weir_be_granule *granule) {
  const weir_result result = real().granule_create(state, device, bytes, flags, granule);
  if (result == WEIR_SUCCESS) granules.put({state, *granule}, {device, bytes});
  return result;
}

inline weir_result destroy(weir_be_state *state, uint32_t device, weir_be_granule granule) {
  const weir_result result = real().granule_destroy(state, device, granule);
  if (result == WEIR_SUCCESS) (void)granules.take({state, granule});
  return result;
}

inline weir_result import(weir_be_state *state, uint32_t device, int32_t fd, uint64_t bytes,
                          weir_be_granule *granule) {
  const weir_result result = real().granule_import(state, device, fd, bytes, granule);
  if (result == WEIR_SUCCESS) granules.put({state, *granule}, {device, bytes});
  return result;
}

inline void note_granules(weir_backend_table &t) {
  t.granule_create = create;
  t.granule_destroy = destroy;
  t.granule_import = import;
}

// ---- ranges

inline Book<uint64_t, Block> ranges;

inline weir_result reserve(weir_be_state *state, uint32_t device, uint64_t bytes,
                           uint64_t alignment, uint64_t *address) {
  const weir_result result = real().range_reserve(state, device, bytes, alignment, address);
  if (result == WEIR_SUCCESS) ranges.put(*address, {device, bytes});
  return result;
}

inline void note_ranges(weir_backend_table &t) { t.range_reserve = reserve; }

/// The range around an address.
inline std::optional<std::pair<uint64_t, Block>> range_at(uint64_t address) {
  const auto range = ranges.below(address);
  return range && address - range->first < range->second.bytes ? range : std::nullopt;
}

inline bool foreign(uint32_t device, uint64_t address) {
  const auto range = range_at(address);
  return range && range->second.device != device;
}

// ---- mappings

struct Mapped {
  uint32_t device = 0;
  uint64_t bytes = 0, offset = 0;
  weir_be_granule granule = 0;
  std::vector<uint32_t> peers;
};
inline Book<uint64_t, Mapped> mapped;

/// The mapping around an address.
inline std::optional<std::pair<uint64_t, Mapped>> mapping_at(uint64_t address) {
  const auto mapping = mapped.below(address);
  return mapping && address - mapping->first < mapping->second.bytes ? mapping : std::nullopt;
}

/// Those that begin in [address, address+bytes), from the first on.
inline std::vector<std::pair<uint64_t, Mapped>> mappings_in(uint64_t address, uint64_t bytes) {
  std::vector<std::pair<uint64_t, Mapped>> found;
  if (bytes == 0 || address == 0) return found;
  for (auto at = mapped.below(address + bytes - 1); at && at->first >= address;
       at = mapped.below(at->first - 1))
    found.insert(found.begin(), *at);
  return found;
}

inline weir_result map(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                       weir_be_granule granule, uint64_t offset, const uint32_t *peers,
                       uint32_t count) {
  const weir_result result =
      real().map(state, device, address, bytes, granule, offset, peers, count);
  if (result == WEIR_SUCCESS)
    mapped.put(address, {device, bytes, offset, granule, {peers, peers + count}});
  return result;
}

inline weir_result unmap(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
  const weir_result result = real().unmap(state, device, address, bytes);
  if (result == WEIR_SUCCESS) (void)mapped.take(address);
  return result;
}

inline weir_result map_run(weir_be_state *state, uint32_t device, uint64_t address,
                           const weir_be_piece *pieces, uint32_t count, const uint32_t *peers,
                           uint32_t peer_count) {
  const weir_result result =
      real().map_run(state, device, address, pieces, count, peers, peer_count);
  for (uint32_t i = 0; result == WEIR_SUCCESS && i < count; address += pieces[i++].bytes)
    mapped.put(address, {device,
                         pieces[i].bytes,
                         pieces[i].offset,
                         pieces[i].granule,
                         {peers, peers + peer_count}});
  return result;
}

inline weir_result unmap_run(weir_be_state *state, uint32_t device, uint64_t address,
                             uint64_t bytes) {
  const weir_result result = real().unmap_run(state, device, address, bytes);
  if (result != WEIR_SUCCESS) return result;
  for (const auto &each : mappings_in(address, bytes)) (void)mapped.take(each.first);
  return result;
}

inline void note_maps(weir_backend_table &t) {
  t.map = map;
  t.unmap = unmap;
  t.map_run = map_run;
  t.unmap_run = unmap_run;
}

// ---- streams

inline Book<weir_be_stream, uint32_t> streams;

/// Notes of which device a stream is.
inline void note_streams(weir_backend_table &t) {
  t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                       weir_be_stream *stream) {
    const weir_result result = real().stream_create(state, device, flags, stream);
    if (result == WEIR_SUCCESS) streams.put(*stream, device);
    return result;
  };
  t.stream_wrap = [](weir_be_state *state, uint32_t device, void *native, weir_be_stream *stream) {
    const weir_result result = real().stream_wrap(state, device, native, stream);
    if (result == WEIR_SUCCESS) streams.put(*stream, device);
    return result;
  };
}

/// Makes copies and fills refuse what `Denied(device of the stream, address)` says.
template <auto Denied>
void deny(weir_backend_table &t) {
  note_streams(t);
  t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *copy) {
    const auto device = streams.find(stream);
    const bool no = device && copy != nullptr &&
                    (Denied(*device, copy->source) || Denied(*device, copy->destination));
    return no ? refuse(state) : real().copy_async(state, stream, copy);
  };
  t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *copies,
                          uint32_t count) {
    const auto device = streams.find(stream);
    for (uint32_t i = 0; device && copies != nullptr && i < count; ++i)
      if (Denied(*device, copies[i].source) || Denied(*device, copies[i].destination))
        return refuse(state);
    return real().copy_batch_async(state, stream, copies, count);
  };
  t.fill_async = [](weir_be_state *state, weir_be_stream stream, uint64_t address, auto... rest) {
    const auto device = streams.find(stream);
    return device && Denied(*device, address) ? refuse(state)
                                              : real().fill_async(state, stream, address, rest...);
  };
}

}  // namespace weir::mutants::mem
