// SPDX-License-Identifier: Apache-2.0
//
// Faults of plain memory and of host memory for copies.

#include "tests/mutants/mutant.hpp"

#include <algorithm>

namespace weir::mutants {
namespace {

weir_result plain(weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t alignment,
                  uint64_t *address) {
  return real().plain_allocate(state, device, bytes, alignment, address);
}

constexpr uint64_t page = 4096;

constexpr Fault faults[] = {
    {"plain_not_aligned", "an alignment above 64 bytes is not kept", "PL-002",
     [](weir_backend_table &t) {
       static Book<uint64_t, uint64_t> sizes;
       t.plain_allocate = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                             uint64_t alignment, uint64_t *address) {
         if (alignment <= 64 || bytes == 0 || bytes > UINT64_MAX - 64) {
           return plain(state, device, bytes, alignment, address);
         }
         uint64_t start = 0;
         const weir_result result = plain(state, device, bytes + 64, alignment, &start);
         if (result != WEIR_SUCCESS) return result;
         *address = start + 64;
         sizes.put(*address, bytes);
         return result;
       };
       t.plain_free = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         if (sizes.find(address) != std::optional(bytes))
           return real().plain_free(state, device, address, bytes);
         const weir_result result = real().plain_free(state, device, address - 64, bytes + 64);
         if (result == WEIR_SUCCESS) (void)sizes.take(address);
         return result;
       };
     }},
    {"plain_overlaps", "the end of one allocation is the beginning of another", "PL-006",
     [](weir_backend_table &t) {
       struct Last {
         uint64_t address, bytes;
       };
       static Book<uint32_t, Last> last;
       t.plain_allocate = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                             uint64_t alignment, uint64_t *address) {
         const auto before = last.take(device);
         if (before && bytes != 0 && bytes <= before->bytes) {
           *address = before->address;
           return weir_result{WEIR_SUCCESS};
         }
         const weir_result result = plain(state, device, bytes, alignment, address);
         if (result == WEIR_SUCCESS) last.put(device, {*address, bytes});
         return result;
       };
       t.plain_free = [](auto... rest) {
         (void)real().plain_free(rest...);
         return weir_result{WEIR_SUCCESS};
       };
     }},
    {"plain_of_nothing", "plain memory of 0 bytes is given", "PL-004",
     [](weir_backend_table &t) {
       t.plain_allocate = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                             uint64_t alignment, uint64_t *address) {
         return plain(state, device, std::max<uint64_t>(bytes, 1), alignment, address);
       };
     }},
    {"plain_alignment_any", "an alignment that is no power of two is taken", "PL-005",
     [](weir_backend_table &t) {
       t.plain_allocate = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                             uint64_t alignment, uint64_t *address) {
         const bool right = alignment != 0 && (alignment & (alignment - 1)) == 0;
         return plain(state, device, bytes, right ? alignment : 64, address);
       };
     }},
    {"plain_out_on_failure", "a failed allocation writes the address", "PL-004,ER-007",
     [](weir_backend_table &t) {
       t.plain_allocate = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                             uint64_t alignment, uint64_t *address) {
         const weir_result result = plain(state, device, bytes, alignment, address);
         if (result != WEIR_SUCCESS) *address = 0;
         return result;
       };
     }},
    {"plain_leaks", "plain_free gives no memory back", "PL-007",
     [](weir_backend_table &t) {
       t.plain_free = [](weir_be_state *, uint32_t, uint64_t, uint64_t) {
         return weir_result{WEIR_SUCCESS};
       };
     }},
    {"plain_on_first_device", "plain memory of every device is taken from the first", "PL-014",
     [](weir_backend_table &t) {
       t.plain_allocate = [](weir_be_state *state, uint32_t device, auto... rest) {
         uint32_t count = 0;
         (void)real().device_count(state, &count);
         return real().plain_allocate(state, device < count ? 0 : device, rest...);
       };
       t.plain_free = [](weir_be_state *state, uint32_t device, auto... rest) {
         uint32_t count = 0;
         (void)real().device_count(state, &count);
         return real().plain_free(state, device < count ? 0 : device, rest...);
       };
     }},
    {"pinned_not_on_page", "host memory does not begin at a page", "HM-001",
     [](weir_backend_table &t) {
       t.host_allocate = [](weir_be_state *state, uint64_t bytes, void **memory) {
         if (bytes == 0 || bytes > UINT64_MAX - page)
           return real().host_allocate(state, bytes, memory);
         void *start = nullptr;
         const weir_result result = real().host_allocate(state, bytes + 256, &start);
         if (result == WEIR_SUCCESS) *memory = static_cast<unsigned char *>(start) + 256;
         return result;
       };
       t.host_free = [](weir_be_state *state, void *memory, uint64_t bytes) {
         return real().host_free(state, static_cast<unsigned char *>(memory) - 256, bytes + 256);
       };
     }},
    {"pinned_of_nothing", "host memory of 0 bytes is given", "HM-003",
     [](weir_backend_table &t) {
       t.host_allocate = [](weir_be_state *state, uint64_t bytes, void **memory) {
         return real().host_allocate(state, std::max<uint64_t>(bytes, 1), memory);
       };
     }},
    {"pinned_out_on_failure", "a failed host_allocate writes the pointer", "HM-003",
     [](weir_backend_table &t) {
       t.host_allocate = [](weir_be_state *state, uint64_t bytes, void **memory) {
         const weir_result result = real().host_allocate(state, bytes, memory);
         if (result != WEIR_SUCCESS) *memory = nullptr;
         return result;
       };
     }},
    {"pinned_leaks", "host_free gives nothing back", "HM-015",
     [](weir_backend_table &t) {
       t.host_free = [](weir_be_state *, void *, uint64_t) { return weir_result{WEIR_SUCCESS}; };
     }},
    {"registered_twice", "memory that is registered is registered once more", "HM-009",
     [](weir_backend_table &t) {
       t.host_register = [](weir_be_state *state, void *memory, uint64_t bytes) {
         const weir_result result = real().host_register(state, memory, bytes);
         const bool page_aligned = reinterpret_cast<uintptr_t>(memory) % page == 0;
         return memory != nullptr && bytes != 0 && page_aligned ? weir_result{WEIR_SUCCESS}
                                                                : result;
       };
     }},
    {"registered_off_page", "memory that does not begin at a page is registered", "HM-012",
     [](weir_backend_table &t) {
       t.host_register = [](weir_be_state *state, void *memory, uint64_t bytes) {
         const weir_result result = real().host_register(state, memory, bytes);
         const bool page_aligned = reinterpret_cast<uintptr_t>(memory) % page == 0;
         return page_aligned ? result : weir_result{WEIR_SUCCESS};
       };
     }},
    {"unregister_ignored", "unregistered memory stays registered", "HM-010,HM-011",
     [](weir_backend_table &t) {
       t.host_unregister = [](weir_be_state *, void *, uint64_t) {
         return weir_result{WEIR_SUCCESS};
       };
     }},
    {"unregister_of_anything", "unregistering what is not registered is a success", "HM-010",
     [](weir_backend_table &t) {
       t.host_unregister = [](auto... rest) {
         (void)real().host_unregister(rest...);
         return weir_result{WEIR_SUCCESS};
       };
     }},
    {"register_refused", "HOST_REGISTER is claimed and registering is refused", "HM-007",
     [](weir_backend_table &t) {
       t.host_register = [](weir_be_state *, void *, uint64_t) {
         return weir_result{WEIR_ERROR_NOT_SUPPORTED};
       };
     }},
};

}  // namespace

std::span<const Fault> memory_faults() { return faults; }

}  // namespace weir::mutants
