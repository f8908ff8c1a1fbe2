// SPDX-License-Identifier: Apache-2.0
//
// Faults of the table's shape: what it claims against what it has, and structures of other sizes.

#include "tests/mutants/mutant.hpp"

#include <atomic>
#include <cstdint>

namespace weir::mutants {
namespace {

/// Describes a device with capabilities taken away or added.
template <uint64_t Removed, uint64_t Added>
weir_result describe_with(weir_be_state *state, uint32_t device, weir_be_device *description) {
  const weir_result result = real().device_describe(state, device, description);
  if (result == WEIR_SUCCESS) {
    description->capabilities = (description->capabilities & ~Removed) | Added;
  }
  return result;
}

template <class Structure>
void write_whole(const Structure &full, Structure *out) {
  const uint32_t size = out->struct_size;
  *out = full;
  out->struct_size = size;
}

constexpr Fault faults[] = {
    {"vmm_without_group", "VMM is claimed, and the entries of physical memory are not there",
     "CA-001,CA-009",
     [](weir_backend_table &t) {
       t.granule_create = nullptr;
       t.granule_destroy = nullptr;
       t.range_reserve = nullptr;
       t.range_free = nullptr;
       t.map = nullptr;
       t.unmap = nullptr;
     }},
    {"half_a_group", "granules can be exported and not imported: half a group", "RT-005",
     [](weir_backend_table &t) { t.granule_import = nullptr; }},
    {"peer_without_entry", "PEER is claimed and peer_enable is NULL", "CA-007,CA-009",
     [](weir_backend_table &t) { t.peer_enable = nullptr; }},
    {"batch_without_entry", "BATCH_COPY is claimed and copy_batch_async is NULL", "CA-006,CA-009",
     [](weir_backend_table &t) { t.copy_batch_async = nullptr; }},
    {"host_call_without_entry", "HOST_CALL is claimed and stream_host_call is NULL",
     "CA-005,CA-009", [](weir_backend_table &t) { t.stream_host_call = nullptr; }},
    {"fabric_without_group", "EXPORT_FABRIC is claimed and its entries are NULL", "CA-003,CA-009",
     [](weir_backend_table &t) { t.device_describe = describe_with<0, WEIR_CAP_EXPORT_FABRIC>; }},
    {"vmm_not_claimed", "physical memory works though VMM is not claimed", "CA-001",
     [](weir_backend_table &t) { t.device_describe = describe_with<WEIR_CAP_VMM, 0>; }},
    {"peer_not_claimed", "peer_enable works though PEER is not claimed", "CA-007",
     [](weir_backend_table &t) { t.device_describe = describe_with<WEIR_CAP_PEER, 0>; }},
    {"batch_not_claimed", "batches are executed though BATCH_COPY is not claimed", "CA-006",
     [](weir_backend_table &t) { t.device_describe = describe_with<WEIR_CAP_BATCH_COPY, 0>; }},
    {"required_entry_missing", "fence_wait, a required entry, is NULL", "RT-004",
     [](weir_backend_table &t) { t.fence_wait = nullptr; }},
    {"name_in_capitals", "the table's name is no lower-case word", "RT-006",
     [](weir_backend_table &t) { t.name = "Host Backend"; }},
    {"any_version_answered", "a table is given whatever version was asked for", "RT-002",
     [](weir_backend_table &) {
       answer = [](const weir_backend_table *table, uint32_t) { return table; };
     }},
    {"table_changes", "the table changes when a state is started", "RT-003",
     [](weir_backend_table &t) {
       static std::atomic<bool> started{false};
       t.start = [](auto... rest) {
         started = true;
         return real().start(rest...);
       };
       answer = [](const weir_backend_table *table,
                   uint32_t abi_major) -> const weir_backend_table * {
         static weir_backend_table other = *table;
         other.start = real().start;
         if (abi_major != WEIR_BACKEND_ABI_MAJOR) return nullptr;
         return started ? &other : table;
       };
     }},
    {"describe_writes_past", "device_describe writes past the end of a shorter structure", "DV-011",
     [](weir_backend_table &t) {
       t.device_describe = [](weir_be_state *state, uint32_t device, weir_be_device *out) {
         weir_be_device full{};
         full.struct_size = sizeof full;
         const weir_result result = real().device_describe(state, device, &full);
         if (result == WEIR_SUCCESS) write_whole(full, out);
         return result;
       };
     }},
    {"link_writes_past", "link_describe writes past the end of a shorter structure", "DV-012",
     [](weir_backend_table &t) {
       t.link_describe = [](weir_be_state *state, uint32_t from, uint32_t to, weir_be_link *out) {
         weir_be_link full{};
         full.struct_size = sizeof full;
         const weir_result result = real().link_describe(state, from, to, &full);
         if (result == WEIR_SUCCESS) write_whole(full, out);
         return result;
       };
     }},
};

}  // namespace

std::span<const Fault> table_faults() { return faults; }

}  // namespace weir::mutants
