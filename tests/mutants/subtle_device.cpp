// SPDX-License-Identifier: Apache-2.0
//
// Subtle faults in what is told about devices, their memory and links, and in enabling peers.

#include "tests/mutants/memory_tools.hpp"

#include <fcntl.h>
#include <sys/sysinfo.h>

#include <atomic>
#include <cstring>

namespace weir::mutants {
namespace {

using mem::refuse;
using Place = std::pair<weir_be_state *, uint32_t>;

/// Bytes by state and device.
class Sums {
 public:
  void add(weir_be_state *state, uint32_t device, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    sums_[{state, device}] += bytes;
  }
  void take(weir_be_state *state, uint32_t device, uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    uint64_t &sum = sums_[{state, device}];
    sum -= std::min(sum, bytes);
  }
  uint64_t of(weir_be_state *state, uint32_t device) const {
    const std::lock_guard lock(mutex_);
    const auto at = sums_.find({state, device});
    return at != sums_.end() ? at->second : 0;
  }

 private:
  mutable std::mutex mutex_;
  std::map<Place, uint64_t> sums_;
};
Sums sums;

weir_result memory(weir_be_state *state, uint32_t device, uint64_t *free, uint64_t *total) {
  return real().device_memory(state, device, free, total);
}

/// Granules by state and device, in `sums`.
void sum_granules(weir_backend_table &t) {
  t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                        weir_be_granule *granule) {
    const weir_result result = mem::create(state, device, bytes, flags, granule);
    if (result == WEIR_SUCCESS) sums.add(state, device, bytes);
    return result;
  };
  t.granule_destroy = [](weir_be_state *state, uint32_t device, weir_be_granule granule) {
    const auto block = mem::granules.find({state, granule});
    const weir_result result = mem::destroy(state, device, granule);
    if (result == WEIR_SUCCESS && block) sums.take(state, device, block->bytes);
    return result;
  };
}

constexpr Fault faults[] = {
    // "It does not change while the state lives; nor do the descriptions."
    {"total_shrinks_with_use", "the total of a device falls by the plain memory that is in use",
     "TH-018",
     [](weir_backend_table &t) {
       t.plain_allocate = [](weir_be_state *state, uint32_t device, uint64_t bytes, auto... rest) {
         const weir_result result = real().plain_allocate(state, device, bytes, rest...);
         if (result == WEIR_SUCCESS) sums.add(state, device, bytes);
         return result;
       };
       t.plain_free = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const weir_result result = real().plain_free(state, device, address, bytes);
         if (result == WEIR_SUCCESS) sums.take(state, device, bytes);
         return result;
       };
       t.device_describe = [](weir_be_state *state, uint32_t device, weir_be_device *out) {
         const weir_result result = real().device_describe(state, device, out);
         if (result == WEIR_SUCCESS && out->struct_size >= sizeof *out)
           out->memory_total -= sums.of(state, device);
         return result;
       };
       t.device_memory = [](weir_be_state *state, uint32_t device, uint64_t *free,
                            uint64_t *total) {
         const weir_result result = memory(state, device, free, total);
         if (result == WEIR_SUCCESS) *total -= sums.of(state, device);
         return result;
       };
     }},
    // "`struct_size`, which the caller sets: the backend ... leaves it as it is".
    {"describe_sets_struct_size", "a description that a newer core asks for has its size changed",
     "DV-020",
     [](weir_backend_table &t) {
       t.device_describe = [](weir_be_state *state, uint32_t device, weir_be_device *out) {
         const weir_result result = real().device_describe(state, device, out);
         if (result == WEIR_SUCCESS && out->struct_size > sizeof *out)
           out->struct_size = sizeof *out;
         return result;
       };
     }},
    // "the backend writes at most that many bytes": an older core's structure is shorter.
    {"describe_refuses_short_struct", "a description that an older core asks for is refused",
     "DV-011",
     [](weir_backend_table &t) {
       t.device_describe = [](weir_be_state *state, uint32_t device, weir_be_device *out) {
         return out->struct_size < sizeof *out ? refuse(state)
                                               : real().device_describe(state, device, out);
       };
     }},
    // The same sentence, the other way: "0 means unknown in the rest".
    {"link_refuses_longer_struct", "a link that a newer core asks for is refused", "DV-020",
     [](weir_backend_table &t) {
       t.link_describe = [](weir_be_state *state, uint32_t from, uint32_t to, weir_be_link *out) {
         return out->struct_size > sizeof *out ? refuse(state)
                                               : real().link_describe(state, from, to, out);
       };
     }},
    // device_memory: "Bytes free now".
    {"free_of_first_device", "free memory of every device is that of the first", "DV-023",
     [](weir_backend_table &t) {
       t.device_memory = [](weir_be_state *state, uint32_t device, uint64_t *free,
                            uint64_t *total) {
         const weir_result result = memory(state, device, free, total);
         uint64_t other = 0;
         return result == WEIR_SUCCESS ? memory(state, 0, free, &other) : result;
       };
     }},
    // The same sentence.
    {"free_is_low_water_mark", "free memory falls with what is taken and never rises again",
     "DV-023",
     [](weir_backend_table &t) {
       t.device_memory = [](weir_be_state *state, uint32_t device, uint64_t *free,
                            uint64_t *total) {
         static Book<Place, uint64_t> least;
         const weir_result result = memory(state, device, free, total);
         if (result != WEIR_SUCCESS) return result;
         *free = std::min(*free, least.find({state, device}).value_or(*free));
         least.put({state, device}, *free);
         return result;
       };
     }},
    // The same sentence: a granule is physical memory, mapped or not.
    {"free_counts_mapped_only", "a granule is not counted as used until it is mapped", "PM-010",
     [](weir_backend_table &t) {
       mem::note_granules(t);
       sum_granules(t);
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, auto... rest) {
         const weir_result result = mem::map(state, device, address, bytes, granule, rest...);
         const auto block = mem::granules.find({state, granule});
         if (result == WEIR_SUCCESS && block) sums.take(state, device, block->bytes);
         return result;
       };
       t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                      const weir_be_piece *pieces, uint32_t count, auto... rest) {
         const weir_result result = mem::map_run(state, device, address, pieces, count, rest...);
         for (uint32_t i = 0; result == WEIR_SUCCESS && i < count; ++i) {
           const auto block = mem::granules.find({state, pieces[i].granule});
           if (block) sums.take(state, device, block->bytes);
         }
         return result;
       };
       t.device_memory = [](weir_be_state *state, uint32_t device, uint64_t *free,
                            uint64_t *total) {
         const weir_result result = memory(state, device, free, total);
         if (result == WEIR_SUCCESS) *free = std::min(*total, *free + sums.of(state, device));
         return result;
       };
     }},
    // The same sentence, of each device.
    {"granules_counted_on_first", "granules of every device count as used on the first", "PM-018",
     [](weir_backend_table &t) {
       mem::note_granules(t);
       sum_granules(t);
       t.device_memory = [](weir_be_state *state, uint32_t device, uint64_t *free,
                            uint64_t *total) {
         const weir_result result = memory(state, device, free, total);
         if (result != WEIR_SUCCESS) return result;
         if (device != 0) *free = std::min(*total, *free + sums.of(state, device));
         for (uint32_t other = 1; device == 0 && other < mem::devices(state); ++other)
           *free -= std::min(*free, sums.of(state, other));
         return result;
       };
     }},
    // link_describe: "A device's link to itself is SAME".
    {"second_self_link_is_far", "only the first device's link to itself is SAME", "DV-017",
     [](weir_backend_table &t) {
       t.link_describe = [](weir_be_state *state, uint32_t from, uint32_t to, weir_be_link *out) {
         const weir_result result = real().link_describe(state, from, to, out);
         if (result == WEIR_SUCCESS && from == to && from != 0 && from != WEIR_DEVICE_HOST &&
             out->struct_size >= sizeof *out)
           out->kind = WEIR_LINK_MEMORY;
         return result;
       };
     }},
    // link_describe: "those to and from the host are direct".
    {"second_host_link_staged", "only the first device's link to the host is direct", "DV-018",
     [](weir_backend_table &t) {
       t.link_describe = [](weir_be_state *state, uint32_t from, uint32_t to, weir_be_link *out) {
         const weir_result result = real().link_describe(state, from, to, out);
         const bool host = (from == WEIR_DEVICE_HOST) != (to == WEIR_DEVICE_HOST);
         if (result == WEIR_SUCCESS && host && from != 0 && to != 0 &&
             out->struct_size >= sizeof *out)
           out->direct = 0;
         return result;
       };
     }},
    // "Out-parameters are written only on success."
    {"link_out_on_failure", "a refused link_describe clears the structure", "DV-015",
     [](weir_backend_table &t) {
       t.link_describe = [](weir_be_state *state, uint32_t from, uint32_t to, weir_be_link *out) {
         const weir_result result = real().link_describe(state, from, to, out);
         if (result != WEIR_SUCCESS && out->struct_size >= sizeof *out) {
           out->kind = WEIR_LINK_NONE;
           out->direct = 0;
         }
         return result;
       };
     }},
    // The same sentence, of the second of two.
    {"memory_total_on_failure", "a refused device_memory writes the total", "DV-014,ER-007",
     [](weir_backend_table &t) {
       t.device_memory = [](weir_be_state *state, uint32_t device, uint64_t *free,
                            uint64_t *total) {
         const weir_result result = memory(state, device, free, total);
         if (result != WEIR_SUCCESS) *total = 0;
         return result;
       };
     }},
    // The same sentence, of a structure of which a part is filled before the refusal.
    {"describe_name_on_failure", "a refused device_describe clears the name", "DV-014",
     [](weir_backend_table &t) {
       t.device_describe = [](weir_be_state *state, uint32_t device, weir_be_device *out) {
         const weir_result result = real().device_describe(state, device, out);
         if (result != WEIR_SUCCESS && out->struct_size >= sizeof *out)
           std::memset(out->name, 0, sizeof out->name);
         return result;
       };
     }},
    // "refused with INVALID_ARGUMENT ...: devices that do not exist".
    {"link_checks_from_only", "a link from a device to one that is not there is described",
     "DV-015",
     [](weir_backend_table &t) {
       t.link_describe = [](weir_be_state *state, uint32_t from, uint32_t to, weir_be_link *out) {
         const bool there = to == WEIR_DEVICE_HOST || to < mem::devices(state);
         return real().link_describe(state, from, there ? to : 0, out);
       };
     }},
    // The same sentence.
    {"peer_enable_checks_device_only", "a peer that is not there can be enabled for a device",
     "PE-003",
     [](weir_backend_table &t) {
       t.peer_enable = [](weir_be_state *state, uint32_t device, uint32_t peer) {
         return real().peer_enable(state, device, peer < mem::devices(state) ? peer : device);
       };
     }},
    // The same sentence: WEIR_DEVICE_HOST is no device, and only link_describe takes it.
    {"memory_of_host_answered", "device_memory answers for the host with the machine's memory",
     "DV-014",
     [](weir_backend_table &t) {
       t.device_memory = [](weir_be_state *state, uint32_t device, uint64_t *free,
                            uint64_t *total) {
         struct sysinfo about {};
         if (device != WEIR_DEVICE_HOST || sysinfo(&about) != 0)
           return memory(state, device, free, total);
         *free = uint64_t{about.freeram} * about.mem_unit;
         *total = uint64_t{about.totalram} * about.mem_unit;
         return weir_result{WEIR_SUCCESS};
       };
     }},
    // The same sentence, with another result than the one that is named.
    {"no_device_is_lost", "a device that is not there is told as DEVICE_LOST by plain_allocate",
     "DV-022,ER-007,PL-011",
     [](weir_backend_table &t) {
       t.plain_allocate = [](weir_be_state *state, uint32_t device, auto... rest) {
         const weir_result result = real().plain_allocate(state, device, rest...);
         return device < mem::devices(state) ? result : weir_result{WEIR_ERROR_DEVICE_LOST};
       };
     }},
    // The same sentence, with another result than the one that is named.
    {"no_device_is_not_supported", "a device that is not there has NOT_SUPPORTED for an answer",
     "AR-013,ER-012,ER-013",
     [](weir_backend_table &t) {
       t.range_reserve = [](weir_be_state *state, uint32_t device, auto... rest) {
         const weir_result result = real().range_reserve(state, device, rest...);
         return device < mem::devices(state) ? result : weir_result{WEIR_ERROR_NOT_SUPPORTED};
       };
     }},
    // peer_enable: "Whether `device` can reach `peer`'s memory directly; enables it where the runtime asks for that."
    {"peer_enabled_once", "enabling a peer that is enabled already is an error", "PE-002",
     [](weir_backend_table &t) {
       static Book<std::pair<weir_be_state *, std::pair<uint32_t, uint32_t>>, bool> enabled;
       t.start = [](const weir_be_start *desc, weir_be_state **state, const char **reason) {
         const weir_result result = real().start(desc, state, reason);
         const uint32_t count = result == WEIR_SUCCESS ? mem::devices(*state) : 0;
         for (uint32_t i = 0; i < count * count; ++i)
           (void)enabled.take({*state, {i / count, i % count}});
         return result;
       };
       t.peer_enable = [](weir_be_state *state, uint32_t device, uint32_t peer) {
         if (enabled.find({state, {device, peer}})) return refuse(state, WEIR_ERROR_BACKEND);
         const weir_result result = real().peer_enable(state, device, peer);
         if (result == WEIR_SUCCESS) enabled.put({state, {device, peer}}, true);
         return result;
       };
     }},
    // The same sentence: the link is direct both ways.
    {"peer_enabled_upwards_only", "a device can't be given a peer whose number is below its own",
     "PE-001,PE-002,PE-004",
     [](weir_backend_table &t) {
       t.peer_enable = [](weir_be_state *state, uint32_t device, uint32_t peer) {
         const weir_result result = real().peer_enable(state, device, peer);
         return result == WEIR_SUCCESS && peer < device ? refuse(state, WEIR_ERROR_NOT_SUPPORTED)
                                                        : result;
       };
     }},
    // "On failure nothing has changed, nothing is leaked".
    {"failed_memory_query_leaks", "each refused device_memory leaves a descriptor open", "ER-014",
     [](weir_backend_table &t) {
       t.device_memory = [](auto... rest) {
         const weir_result result = memory(rest...);
         if (result != WEIR_SUCCESS) (void)open("/dev/null", O_RDONLY | O_CLOEXEC);
         return result;
       };
     }},
    // link.direct: "1 = copy_async works between the two", and PEER: "copies ... need no staging".
    {"second_pair_of_peers_fails",
     "copies work between the first pair of devices that had one, and no other", "PE-021",
     [](weir_backend_table &t) {
       mem::note_streams(t);
       t.plain_allocate = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                             uint64_t alignment, uint64_t *address) {
         const weir_result result = real().plain_allocate(state, device, bytes, alignment, address);
         if (result == WEIR_SUCCESS) mem::mapped.put(*address, {device, bytes, 0, 0, {}});
         return result;
       };
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *copy) {
         static Book<weir_be_state *, Place> first;
         if (copy == nullptr) return real().copy_async(state, stream, copy);
         const auto from = mem::mapping_at(copy->source), to = mem::mapping_at(copy->destination);
         if (from && to && from->second.device != to->second.device) {
           const auto [low, high] = std::minmax(from->second.device, to->second.device);
           const Place pair{state, low * 64 + high};
           if (first.find(state).value_or(pair) != pair) return refuse(state);
           first.put(state, pair);
         }
         return real().copy_async(state, stream, copy);
       };
     },
     "devices=4"},
};

}  // namespace

std::span<const Fault> subtle_device_faults() { return faults; }

}  // namespace weir::mutants
