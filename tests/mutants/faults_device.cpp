// SPDX-License-Identifier: Apache-2.0
//
// Faults in what is told about devices and links.

#include "tests/mutants/mutant.hpp"

#include <atomic>
#include <cstring>

namespace weir::mutants {
namespace {

/// Replaces device_describe by one that spoils a right description with `Spoil`.
template <auto Spoil>
void describe(weir_backend_table &t) {
  t.device_describe = [](weir_be_state *state, uint32_t device, weir_be_device *out) {
    const weir_result result = real().device_describe(state, device, out);
    if (result == WEIR_SUCCESS) Spoil(*out);
    return result;
  };
}

/// The same for device_memory.
template <auto Spoil>
void memory(weir_backend_table &t) {
  t.device_memory = [](weir_be_state *state, uint32_t device, uint64_t *free, uint64_t *total) {
    const weir_result result = real().device_memory(state, device, free, total);
    if (result == WEIR_SUCCESS) Spoil(*free, *total);
    return result;
  };
}

/// The same for link_describe; the places are told too.
template <auto Spoil>
void link(weir_backend_table &t) {
  t.link_describe = [](weir_be_state *state, uint32_t from, uint32_t to, weir_be_link *out) {
    const weir_result result = real().link_describe(state, from, to, out);
    if (result == WEIR_SUCCESS) Spoil(from, to, *out);
    return result;
  };
}

constexpr Fault faults[] = {
    {"one_device_too_many", "device_count counts a device that can't be described", "DV-002,DV-006",
     [](weir_backend_table &t) {
       t.device_count = [](weir_be_state *state, uint32_t *count) {
         const weir_result result = real().device_count(state, count);
         if (result == WEIR_SUCCESS) ++*count;
         return result;
       };
     }},
    {"any_device_described", "device_describe describes the first device under any index", "DV-014",
     [](weir_backend_table &t) {
       t.device_describe = [](weir_be_state *state, uint32_t device, weir_be_device *out) {
         const weir_result result = real().device_describe(state, device, out);
         return result == WEIR_SUCCESS ? result : real().device_describe(state, 0, out);
       };
     }},
    {"any_device_has_memory", "device_memory answers for the first device under any index",
     "DV-014",
     [](weir_backend_table &t) {
       t.device_memory = [](weir_be_state *state, uint32_t device, uint64_t *free,
                            uint64_t *total) {
         const weir_result result = real().device_memory(state, device, free, total);
         return result == WEIR_SUCCESS ? result : real().device_memory(state, 0, free, total);
       };
     }},
    {"granule_too_small", "half of the granule is reported", "PM-001,PM-002",
     [](weir_backend_table &t) { describe<[](weir_be_device &d) { d.granule /= 2; }>(t); }},
    {"large_granule_odd", "the large granule is no multiple of the small one", "DV-008",
     [](weir_backend_table &t) {
       describe<[](weir_be_device &d) { d.granule_large = d.granule + d.granule / 2; }>(t);
     }},
    {"granule_is_none", "VMM is claimed and the granule is 0 bytes", "START",
     [](weir_backend_table &t) { describe<[](weir_be_device &d) { d.granule = 0; }>(t); }},
    {"name_not_ended", "the device's name fills its field and has no end", "DV-002",
     [](weir_backend_table &t) {
       describe<[](weir_be_device &d) { std::memset(d.name, 'x', sizeof d.name); }>(t);
     }},
    {"pci_address_odd", "the PCI address has another form", "DV-003",
     [](weir_backend_table &t) {
       describe<[](weir_be_device &d) { std::strcpy(d.pci_address, "17:0.0"); }>(t);
     }},
    {"uuid_shared", "all devices have one uuid", "DV-005",
     [](weir_backend_table &t) { describe<[](weir_be_device &d) { d.uuid[15] = 0; }>(t); }},
    {"capability_unknown", "a capability is claimed that has no name", "DV-009",
     [](weir_backend_table &t) {
       describe<[](weir_be_device &d) { d.capabilities |= UINT64_C(1) << 40; }>(t);
     }},
    {"numa_node_of_nowhere", "a device is at a NUMA node that the system does not have", "DV-010",
     [](weir_backend_table &t) { describe<[](weir_be_device &d) { d.numa_node = 4242; }>(t); }},
    {"description_changes", "two descriptions of a device differ", "DV-004",
     [](weir_backend_table &t) {
       describe<[](weir_be_device &d) {
         static std::atomic<uint8_t> next{0};
         d.uuid[7] = next.fetch_add(1);
       }>(t);
     }},
    {"free_never_changes", "free memory is what it was at first, whatever is taken",
     "PM-010,PL-008",
     [](weir_backend_table &t) {
       t.device_memory = [](weir_be_state *state, uint32_t device, uint64_t *free,
                            uint64_t *total) {
         static Book<std::pair<weir_be_state *, uint32_t>, uint64_t> first;
         const weir_result result = real().device_memory(state, device, free, total);
         if (result != WEIR_SUCCESS) return result;
         if (!first.find({state, device})) first.put({state, device}, *free);
         *free = *first.find({state, device});
         return result;
       };
     }},
    {"total_as_free", "the total is reported as free", "PM-010,PL-008",
     [](weir_backend_table &t) {
       memory<[](uint64_t &free, uint64_t &total) { free = total; }>(t);
     }},
    {"more_free_than_total", "more is free than there is", "DV-006",
     [](weir_backend_table &t) {
       memory<[](uint64_t &free, uint64_t &total) { free += total; }>(t);
     }},
    {"two_totals", "device_memory tells another total than device_describe", "DV-006",
     [](weir_backend_table &t) { memory<[](uint64_t &, uint64_t &total) { total += 4096; }>(t); }},
    {"link_one_way", "a link is direct one way and none the other way", "DV-018",
     [](weir_backend_table &t) {
       link<[](uint32_t from, uint32_t to, weir_be_link &l) {
         if (from <= to) return;
         l.kind = WEIR_LINK_NONE;
         l.direct = 0;
       }>(t);
     }},
    {"link_to_itself_far", "a device is a hop away from itself", "DV-017",
     [](weir_backend_table &t) {
       link<[](uint32_t from, uint32_t to, weir_be_link &l) {
         if (from != to) return;
         l.kind = WEIR_LINK_PCIE;
         l.hops = 1;
       }>(t);
     }},
    {"link_to_host_not_direct", "the link to the host is said not to be direct, though copies work",
     "DV-018",
     [](weir_backend_table &t) {
       link<[](uint32_t from, uint32_t to, weir_be_link &l) {
         if (from == WEIR_DEVICE_HOST || to == WEIR_DEVICE_HOST) l.direct = 0;
       }>(t);
     }},
    {"link_kind_unknown", "a link's kind is a number that means nothing", "DV-016",
     [](weir_backend_table &t) {
       link<[](uint32_t, uint32_t, weir_be_link &l) { l.kind = 99; }>(t);
     }},
    {"link_of_any_index", "link_describe describes links of devices that are not there", "DV-015",
     [](weir_backend_table &t) {
       t.link_describe = [](weir_be_state *state, uint32_t from, uint32_t to, weir_be_link *out) {
         const weir_result result = real().link_describe(state, from, to, out);
         return result == WEIR_SUCCESS ? result : real().link_describe(state, 0, 0, out);
       };
     }},
    {"peer_of_any_index", "peer_enable says yes to a device that is not there", "PE-003",
     [](weir_backend_table &t) {
       t.peer_enable = [](weir_be_state *, uint32_t, uint32_t) {
         return weir_result{WEIR_SUCCESS};
       };
     }},
    {"peer_refused", "PEER is claimed and peer_enable says no", "PE-001",
     [](weir_backend_table &t) {
       t.peer_enable = [](weir_be_state *, uint32_t, uint32_t) {
         return weir_result{WEIR_ERROR_NOT_SUPPORTED};
       };
     }},
};

}  // namespace

std::span<const Fault> device_faults() { return faults; }

}  // namespace weir::mutants
