// SPDX-License-Identifier: Apache-2.0
//
// Faults of ranges in which several devices map: a backend that claims WEIR_CAP_SHARED_RANGE and does not mean it, or
// looks at one device's mappings only.

#include "tests/mutants/mutant.hpp"

#include <atomic>

namespace weir::mutants {
namespace {

struct Range {
  uint32_t device = 0;
  uint64_t bytes = 0;
};
struct Mapping {
  uint32_t device = 0;
  uint64_t bytes = 0;
};
Book<uint64_t, Range> ranges;      // by address; kept by remember()
Book<uint64_t, Mapping> mappings;  // likewise

weir_result range_reserve(weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t alignment,
                          uint64_t *address) {
  const weir_result result = real().range_reserve(state, device, bytes, alignment, address);
  if (result == WEIR_SUCCESS) ranges.put(*address, {device, bytes});
  return result;
}

weir_result map(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                weir_be_granule granule, uint64_t offset, const uint32_t *peers, uint32_t count) {
  const weir_result result =
      real().map(state, device, address, bytes, granule, offset, peers, count);
  if (result == WEIR_SUCCESS) mappings.put(address, {device, bytes});
  return result;
}

weir_result unmap(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
  const weir_result result = real().unmap(state, device, address, bytes);
  if (result == WEIR_SUCCESS) (void)mappings.take(address);
  return result;
}

void remember(weir_backend_table &t) {
  t.range_reserve = range_reserve;
  t.map = map;
  t.unmap = unmap;
}

/// Whether the address lies in a range of another device.
bool foreign(uint32_t device, uint64_t address) {
  const auto range = ranges.below(address);
  return range && address - range->first < range->second.bytes && range->second.device != device;
}

weir_result without(weir_be_state *state, uint32_t device, weir_be_device *about,
                    uint64_t capabilities) {
  const weir_result result = real().device_describe(state, device, about);
  if (result == WEIR_SUCCESS) about->capabilities &= ~capabilities;
  return result;
}

constexpr Fault faults[] = {
    {"shared_range_without_peers", "SHARED_RANGE is claimed and PEER is not", "CA-012",
     [](weir_backend_table &t) {
       t.device_describe = [](weir_be_state *state, uint32_t device, weir_be_device *about) {
         return without(state, device, about, WEIR_CAP_PEER);
       };
     }},
    {"shared_range_unclaimed", "SHARED_RANGE is not claimed and other devices map all the same",
     "CA-013",
     [](weir_backend_table &t) {
       t.device_describe = [](weir_be_state *state, uint32_t device, weir_be_device *about) {
         return without(state, device, about, WEIR_CAP_SHARED_RANGE);
       };
     }},
    {"shared_range_refused", "SHARED_RANGE is claimed and a map in another's range is refused",
     "PE-011",
     [](weir_backend_table &t) {
       remember(t);
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, auto... rest) {
         return foreign(device, address) ? weir_result{WEIR_ERROR_INVALID_ARGUMENT}
                                         : map(state, device, address, rest...);
       };
     }},
    {"shared_unmap_takes_neighbour", "unmap in another's range removes the next mapping too",
     "PE-012",
     [](weir_backend_table &t) {
       remember(t);
       t.unmap = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const weir_result result = unmap(state, device, address, bytes);
         const auto next = mappings.find(address + bytes);
         if (result == WEIR_SUCCESS && next && foreign(device, address))
           (void)unmap(state, next->device, address + bytes, next->bytes);
         return result;
       };
     }},
    {"shared_unmap_of_any_device", "unmap does not ask whose mapping it is", "PE-012",
     [](weir_backend_table &t) {
       remember(t);
       t.unmap = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const auto mapping = mappings.find(address);
         return unmap(state, mapping ? mapping->device : device, address, bytes);
       };
     }},
    {"shared_range_freed_under_another",
     "a range is freed while another device has something mapped in it", "PE-013",
     [](weir_backend_table &t) {
       remember(t);
       t.range_free = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         for (auto at = mappings.below(address + bytes - 1); at && at->first >= address;
              at = mappings.below(at->first - 1)) {
           if (at->second.device != device)
             (void)unmap(state, at->second.device, at->first, at->second.bytes);
         }
         return real().range_free(state, device, address, bytes);
       };
     }},
    {"shared_maps_meet", "of two maps at once one goes where the other was to go", "PE-014",
     [](weir_backend_table &t) {
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, auto... rest) {
         static std::atomic<uint64_t> last{0};
         last = address;
         window();
         return real().map(state, device, last, rest...);
       };
     }},
};

}  // namespace

std::span<const Fault> shared_faults() { return faults; }

}  // namespace weir::mutants
