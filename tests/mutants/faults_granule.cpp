// SPDX-License-Identifier: Apache-2.0
//
// Faults of physical memory and address ranges.

#include "tests/mutants/mutant.hpp"

#include <algorithm>
#include <atomic>

namespace weir::mutants {
namespace {

uint64_t granule_of(weir_be_state *state, uint32_t device) {
  weir_be_device description{};
  description.struct_size = sizeof description;
  const weir_result result = real().device_describe(state, device, &description);
  return result == WEIR_SUCCESS && description.granule != 0 ? description.granule : 1;
}

weir_result create(weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                   weir_be_granule *granule) {
  return real().granule_create(state, device, bytes, flags, granule);
}

struct Shift {
  uint64_t reserved, bytes;
};

constexpr Fault faults[] = {
    {"oom_told_as_backend", "no memory left is told as BACKEND, not DEVICE_OOM", "PM-009,PL-009",
     [](weir_backend_table &t) {
       t.granule_create = [](auto... rest) {
         const weir_result result = create(rest...);
         return result == WEIR_ERROR_DEVICE_OOM ? weir_result{WEIR_ERROR_BACKEND} : result;
       };
       t.plain_allocate = [](auto... rest) {
         const weir_result result = real().plain_allocate(rest...);
         return result == WEIR_ERROR_DEVICE_OOM ? weir_result{WEIR_ERROR_BACKEND} : result;
       };
     }},
    {"oom_swallowed", "where there is no room, a smaller granule is given", "PM-009",
     [](weir_backend_table &t) {
       t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                             weir_be_granule *granule) {
         const weir_result result = create(state, device, bytes, flags, granule);
         if (result != WEIR_ERROR_DEVICE_OOM) return result;
         return create(state, device, granule_of(state, device), flags, granule);
       };
     }},
    {"oom_gives_nothing", "where there is no room, SUCCESS and a granule that is none", "PM-009",
     [](weir_backend_table &t) {
       t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                             weir_be_granule *granule) {
         const weir_result result = create(state, device, bytes, flags, granule);
         if (result != WEIR_ERROR_DEVICE_OOM) return result;
         *granule = UINT64_C(0x7fffffff0000ffff);
         return weir_result{WEIR_SUCCESS};
       };
     }},
    {"granule_of_any_size", "a size that is no multiple of the granule is rounded up", "PM-003",
     [](weir_backend_table &t) {
       t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                             weir_be_granule *granule) {
         const uint64_t unit = granule_of(state, device);
         const uint64_t whole = bytes % unit == 0 ? bytes : bytes + unit - bytes % unit;
         return create(state, device, whole, flags, granule);
       };
     }},
    {"granule_of_no_size", "a granule of 0 bytes is given", "PM-004",
     [](weir_backend_table &t) {
       t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                             weir_be_granule *granule) {
         const uint64_t some = bytes != 0 ? bytes : granule_of(state, device);
         return create(state, device, some, flags, granule);
       };
     }},
    {"granule_is_zero", "a granule's handle is 0, which means none", "PM-001",
     [](weir_backend_table &t) {
       t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                             weir_be_granule *granule) {
         const weir_result result = create(state, device, bytes, flags, granule);
         if (result == WEIR_SUCCESS) *granule = 0;
         return result;
       };
     }},
    {"granule_flags_unread", "flags of granules that nobody knows are passed over", "PM-008",
     [](weir_backend_table &t) {
       t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                             weir_be_granule *granule) {
         return create(state, device, bytes, flags & WEIR_BE_GRANULE_EXPORT_FD, granule);
       };
     }},
    {"granule_out_on_failure", "a failed granule_create writes the handle", "PM-003,ER-007",
     [](weir_backend_table &t) {
       t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                             weir_be_granule *granule) {
         const weir_result result = create(state, device, bytes, flags, granule);
         if (result != WEIR_SUCCESS) *granule = 0;
         return result;
       };
     }},
    {"granule_on_any_device", "a granule is made on the first device where the index is wrong",
     "PM-015",
     [](weir_backend_table &t) {
       t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                             weir_be_granule *granule) {
         uint32_t count = 0;
         (void)real().device_count(state, &count);
         return create(state, device < count ? device : 0, bytes, flags, granule);
       };
     }},
    {"granule_on_first_device", "granules of every device are taken from the first", "PM-018",
     [](weir_backend_table &t) {
       t.granule_create = [](weir_be_state *state, uint32_t device, auto... rest) {
         uint32_t count = 0;
         (void)real().device_count(state, &count);
         return create(state, device < count ? 0 : device, rest...);
       };
       t.granule_destroy = [](weir_be_state *state, uint32_t, weir_be_granule granule) {
         return real().granule_destroy(state, 0, granule);
       };
       t.range_reserve = [](weir_be_state *state, uint32_t device, auto... rest) {
         uint32_t count = 0;
         (void)real().device_count(state, &count);
         return real().range_reserve(state, device < count ? 0 : device, rest...);
       };
       t.range_free = [](weir_be_state *state, uint32_t, auto... rest) {
         return real().range_free(state, 0, rest...);
       };
       t.map = [](weir_be_state *state, uint32_t, auto... rest) {
         return real().map(state, 0, rest...);
       };
       t.unmap = [](weir_be_state *state, uint32_t, auto... rest) {
         return real().unmap(state, 0, rest...);
       };
     }},
    {"granule_leaks", "granule_destroy gives no memory back", "PM-011",
     [](weir_backend_table &t) {
       t.granule_destroy = [](weir_be_state *, uint32_t, weir_be_granule) {
         return weir_result{WEIR_SUCCESS};
       };
     }},
    {"granules_share_memory", "a new granule is the one that was made before it, once more",
     "PM-013",
     [](weir_backend_table &t) {
       static Book<std::pair<uint32_t, uint64_t>, weir_be_granule> last;
       t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                             weir_be_granule *granule) {
         if (const auto twin = last.take({device, bytes})) {
           *granule = *twin;
           return weir_result{WEIR_SUCCESS};
         }
         const weir_result result = create(state, device, bytes, flags, granule);
         if (result == WEIR_SUCCESS) last.put({device, bytes}, *granule);
         return result;
       };
       t.granule_destroy = [](weir_be_state *state, uint32_t device, weir_be_granule granule) {
         // The twin's end must not be an error of another kind.
         (void)real().granule_destroy(state, device, granule);
         return weir_result{WEIR_SUCCESS};
       };
     }},
    {"range_not_aligned", "an alignment above the granule is not kept", "AR-002",
     [](weir_backend_table &t) {
       static Book<uint64_t, Shift> shifted;
       t.range_reserve = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                            uint64_t alignment, uint64_t *address) {
         const uint64_t unit = granule_of(state, device);
         if (alignment <= unit || bytes == 0 || bytes % unit != 0) {
           return real().range_reserve(state, device, bytes, alignment, address);
         }
         uint64_t start = 0;
         const weir_result result =
             real().range_reserve(state, device, bytes + alignment, alignment, &start);
         if (result != WEIR_SUCCESS) return result;
         shifted.put(start + unit, {start, bytes + alignment});
         *address = start + unit;
         return result;
       };
       t.range_free = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const auto shift = shifted.find(address);
         if (!shift) return real().range_free(state, device, address, bytes);
         const weir_result result = real().range_free(state, device, shift->reserved, shift->bytes);
         if (result == WEIR_SUCCESS) (void)shifted.take(address);
         return result;
       };
     }},
    {"range_alignment_any", "an alignment that is no power of two is taken", "AR-006",
     [](weir_backend_table &t) {
       t.range_reserve = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t,
                            uint64_t *address) {
         return real().range_reserve(state, device, bytes, granule_of(state, device), address);
       };
     }},
    {"range_given_twice", "a range is reserved that is reserved already", "AR-003",
     [](weir_backend_table &t) {
       static Book<std::pair<uint32_t, uint64_t>, uint64_t> last;
       t.range_reserve = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                            uint64_t alignment, uint64_t *address) {
         if (const auto before = last.take({device, bytes})) {
           *address = *before;
           return weir_result{WEIR_SUCCESS};
         }
         const weir_result result = real().range_reserve(state, device, bytes, alignment, address);
         if (result == WEIR_SUCCESS) last.put({device, bytes}, *address);
         return result;
       };
     }},
    {"range_free_does_nothing", "a freed range stays reserved", "AR-010,AR-011",
     [](weir_backend_table &t) {
       t.range_free = [](weir_be_state *, uint32_t, uint64_t, uint64_t) {
         return weir_result{WEIR_SUCCESS};
       };
     }},
    {"range_free_of_any_size", "range_free takes sizes that were not reserved", "AR-009",
     [](weir_backend_table &t) {
       static Book<uint64_t, uint64_t> sizes;
       t.range_reserve = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                            uint64_t alignment, uint64_t *address) {
         const weir_result result = real().range_reserve(state, device, bytes, alignment, address);
         if (result == WEIR_SUCCESS) sizes.put(*address, bytes);
         return result;
       };
       t.range_free = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         return real().range_free(state, device, address, sizes.find(address).value_or(bytes));
       };
     }},
    {"range_of_no_size", "a range of 0 bytes is reserved", "AR-004",
     [](weir_backend_table &t) {
       t.range_reserve = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                            uint64_t alignment, uint64_t *address) {
         const uint64_t some = bytes != 0 ? bytes : granule_of(state, device);
         return real().range_reserve(state, device, some, alignment, address);
       };
     }},
};

}  // namespace

std::span<const Fault> granule_faults() { return faults; }

}  // namespace weir::mutants
