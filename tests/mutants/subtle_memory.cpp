// SPDX-License-Identifier: Apache-2.0
//
// Subtle faults of plain memory, of host memory for copies, and of registering.

#include "tests/mutants/memory_tools.hpp"

#include <atomic>

namespace weir::mutants {
namespace {

using mem::Key;
using mem::refuse;

constexpr uint64_t page = 4096;

weir_result allocate(weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t alignment,
                     uint64_t *address) {
  return real().plain_allocate(state, device, bytes, alignment, address);
}

weir_result plain_free(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
  return real().plain_free(state, device, address, bytes);
}

/// Plain memory by state and address; kept by note_plain().
Book<Key, mem::Block> plain;

weir_result note(weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t alignment,
                 uint64_t *address) {
  const weir_result result = allocate(state, device, bytes, alignment, address);
  if (result == WEIR_SUCCESS) plain.put({state, *address}, {device, bytes});
  return result;
}

weir_result forget(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
  const weir_result result = plain_free(state, device, address, bytes);
  if (result == WEIR_SUCCESS) (void)plain.take({state, address});
  return result;
}

void note_plain(weir_backend_table &t) {
  t.plain_allocate = note;
  t.plain_free = forget;
}

bool power_of_two(uint64_t value) { return value != 0 && (value & (value - 1)) == 0; }

constexpr uint64_t most_alignment = UINT64_C(2) << 20;

uint64_t number(const void *memory) { return reinterpret_cast<uintptr_t>(memory); }

/// Registered memory by its address; kept by note_registered().
Book<uint64_t, uint64_t> registered;

void note_registered(weir_backend_table &t) {
  t.host_register = [](weir_be_state *state, void *memory, uint64_t bytes) {
    const weir_result result = real().host_register(state, memory, bytes);
    if (result == WEIR_SUCCESS) registered.put(number(memory), bytes);
    return result;
  };
  t.host_unregister = [](weir_be_state *state, void *memory, uint64_t bytes) {
    const weir_result result = real().host_unregister(state, memory, bytes);
    if (result == WEIR_SUCCESS) (void)registered.take(number(memory));
    return result;
  };
}

bool second_device_registered(uint32_t device, uint64_t address) {
  const auto range = registered.below(address);
  return device != 0 && range && address - range->first < range->second;
}

/// Host memory by its address; kept by note_host().
Book<Key, uint64_t> pinned;

void note_host(weir_backend_table &t) {
  t.host_allocate = [](weir_be_state *state, uint64_t bytes, void **memory) {
    const weir_result result = real().host_allocate(state, bytes, memory);
    if (result == WEIR_SUCCESS) pinned.put({state, number(*memory)}, bytes);
    return result;
  };
  t.host_free = [](weir_be_state *state, void *memory, uint64_t bytes) {
    const weir_result result = real().host_free(state, memory, bytes);
    if (result == WEIR_SUCCESS) (void)pinned.take({state, number(memory)});
    return result;
  };
}

/// Small blocks of host memory side by side in a page of each state.
struct Slab {
  uint64_t base = 0, used = 0;
};
Book<weir_be_state *, Slab> slabs;
Book<Key, uint64_t> small_blocks;

constexpr Fault faults[] = {
    // plain_allocate: "DEVICE_OOM when there is none."
    {"plain_size_of_32_bits", "a size of plain memory loses what is above its lower 32 bits",
     "PL-019",
     [](weir_backend_table &t) {
       static constexpr auto low = [](uint64_t bytes) {
         const uint64_t cut = bytes & UINT32_MAX;
         return cut != 0 ? cut : bytes;
       };
       t.plain_allocate = [](weir_be_state *state, uint32_t device, uint64_t bytes, auto... rest) {
         return allocate(state, device, low(bytes), rest...);
       };
       t.plain_free = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         return plain_free(state, device, address, low(bytes));
       };
     },
     "memory=96G;granule=2M;granule_large=32M;prefault=0"},
    // plain_allocate: "`alignment` is a power of two <= 2 MiB".
    {"plain_top_alignment_refused", "an alignment of 2 MiB, the greatest, is refused", "PL-002",
     [](weir_backend_table &t) {
       t.plain_allocate = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                             uint64_t alignment, uint64_t *address) {
         return alignment == most_alignment ? refuse(state)
                                            : allocate(state, device, bytes, alignment, address);
       };
     }},
    // The same sentence, and "What a comment does not allow ... is refused".
    {"plain_alignment_above_top", "an alignment above 2 MiB is taken as 2 MiB, not refused",
     "ER-015,ER-016,PL-016",
     [](weir_backend_table &t) {
       t.plain_allocate = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                             uint64_t alignment, uint64_t *address) {
         return allocate(state, device, bytes,
                         power_of_two(alignment) ? std::min(alignment, most_alignment) : alignment,
                         address);
       };
     }},
    // The same sentence, of each device.
    {"second_device_plain_unaligned", "only the first device keeps alignments above a page",
     "PL-017",
     [](weir_backend_table &t) {
       static Book<Key, uint64_t> shifted;
       t.plain_allocate = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                             uint64_t alignment, uint64_t *address) {
         if (device == 0 || alignment <= page || bytes == 0 || bytes > UINT64_MAX - 2 * page)
           return allocate(state, device, bytes, alignment, address);
         uint64_t start = 0;
         const weir_result result = allocate(state, device, bytes + page, alignment, &start);
         if (result != WEIR_SUCCESS) return result;
         *address = start + page;
         shifted.put({state, *address}, bytes);
         return result;
       };
       t.plain_free = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         if (shifted.find({state, address}) != std::optional(bytes))
           return plain_free(state, device, address, bytes);
         const weir_result result = plain_free(state, device, address - page, bytes + page);
         if (result == WEIR_SUCCESS) (void)shifted.take({state, address});
         return result;
       };
     }},
    // plain_free: "`address` and `bytes` as allocated."
    {"plain_free_of_any_size", "plain_free takes sizes that were not allocated",
     "ER-015,ER-016,PL-015",
     [](weir_backend_table &t) {
       note_plain(t);
       t.plain_free = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const auto block = plain.find({state, address});
         return forget(state, device, address, block ? block->bytes : bytes);
       };
     }},
    // The same sentence; the device is one of what it was allocated with.
    {"plain_freed_by_any_device", "plain_free does not ask whose the memory is",
     "ER-015,ER-016,PL-015",
     [](weir_backend_table &t) {
       note_plain(t);
       t.plain_free = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const auto block = plain.find({state, address});
         const bool there = block && device < mem::devices(state);
         return forget(state, there ? block->device : device, address, bytes);
       };
     }},
    // "On failure nothing has changed".
    {"refused_plain_free_scrubs", "plain memory is cleared by a free that is refused",
     "ER-012,ER-015,PL-015",
     [](weir_backend_table &t) {
       note_plain(t);
       t.plain_free = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const weir_result result = forget(state, device, address, bytes);
         const auto block = plain.find({state, address});
         const weir_be_stream stream =
             result != WEIR_SUCCESS && block ? mem::hidden_stream(state) : nullptr;
         if (stream != nullptr &&
             real().fill_async(state, stream, address, 0, block->bytes) == WEIR_SUCCESS)
           (void)real().stream_synchronize(state, stream);
         return result != WEIR_SUCCESS ? refuse(state, result) : result;
       };
     }},
    // plain_free ends it: "DEVICE_OOM when there is none", and there is some.
    {"large_plain_kept", "plain memory larger than a granule is kept when it is freed",
     "FA-002,FA-003,PL-007",
     [](weir_backend_table &t) {
       note_plain(t);
       t.plain_free = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const auto block = plain.find({state, address});
         const bool right = block && block->device == device && block->bytes == bytes;
         const uint64_t large = std::max<uint64_t>(mem::unit(state, device), page);
         if (!right || bytes <= large) return forget(state, device, address, bytes);
         (void)plain.take({state, address});
         return weir_result{WEIR_SUCCESS};
       };
     }},
    // "On failure ... nothing is leaked": the alignment is looked at when the memory is there.
    {"refused_alignment_keeps_plain", "memory that is refused for its alignment stays taken",
     "ER-014",
     [](weir_backend_table &t) {
       t.plain_allocate = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                             uint64_t alignment, uint64_t *address) {
         const weir_result result = allocate(state, device, bytes, alignment, address);
         uint64_t lost = 0;
         if (result == WEIR_ERROR_INVALID_ARGUMENT)
           (void)allocate(state, device, std::min(bytes, mem::unit(state, device)), page, &lost);
         return result == WEIR_ERROR_INVALID_ARGUMENT ? refuse(state) : result;
       };
     }},
    // host_allocate: "Pinned, page-aligned memory".
    {"small_pinned_side_by_side", "small host memory after the first lies in the same page",
     "HM-020",
     [](weir_backend_table &t) {
       static std::mutex mutex;
       t.start = [](const weir_be_start *desc, weir_be_state **state, const char **reason) {
         const weir_result result = real().start(desc, state, reason);
         if (result == WEIR_SUCCESS) (void)slabs.take(*state);
         return result;
       };
       t.host_allocate = [](weir_be_state *state, uint64_t bytes, void **memory) {
         if (bytes == 0 || bytes > page / 4) return real().host_allocate(state, bytes, memory);
         const std::lock_guard lock(mutex);
         Slab slab = slabs.find(state).value_or(Slab{0, page});
         if (slab.used + bytes > page) {
           void *start = nullptr;
           const weir_result result = real().host_allocate(state, page, &start);
           if (result != WEIR_SUCCESS) return result;
           slab = {number(start), 0};
         }
         *memory = bytes_at(slab.base + slab.used);
         small_blocks.put({state, slab.base + slab.used}, bytes);
         slab.used += (bytes + 255) / 256 * 256;
         slabs.put(state, slab);
         return weir_result{WEIR_SUCCESS};
       };
       t.host_free = [](weir_be_state *state, void *memory, uint64_t bytes) {
         const std::lock_guard lock(mutex);
         const auto small = small_blocks.find({state, number(memory)});
         if (!small || *small != bytes) return real().host_free(state, memory, bytes);
         (void)small_blocks.take({state, number(memory)});
         const uint64_t base = number(memory) / page * page, end = base + page;
         const auto other = small_blocks.below({state, end - 1});
         const bool used = other && other->first.first == state && other->first.second >= base;
         if (used) return weir_result{WEIR_SUCCESS};
         if (slabs.find(state).value_or(Slab{}).base == base) (void)slabs.take(state);
         return real().host_free(state, bytes_at(base), page);
       };
     }},
    // host_free: "`memory` and `bytes` as allocated."
    {"host_free_of_any_size", "host_free takes sizes that were not allocated",
     "ER-015,ER-016,HM-016",
     [](weir_backend_table &t) {
       note_host(t);
       t.host_free = [](weir_be_state *state, void *memory, uint64_t bytes) {
         const auto known = pinned.take({state, number(memory)});
         return real().host_free(state, memory, known.value_or(bytes));
       };
     }},
    // host_unregister: "`memory` and `bytes` as registered."
    {"unregister_of_any_size", "host_unregister takes sizes that were not registered",
     "ER-015,ER-016,HM-016",
     [](weir_backend_table &t) {
       note_registered(t);
       t.host_unregister = [](weir_be_state *state, void *memory, uint64_t bytes) {
         const auto known = registered.find(number(memory));
         const weir_result result = real().host_unregister(state, memory, known.value_or(bytes));
         if (result == WEIR_SUCCESS) (void)registered.take(number(memory));
         return result;
       };
     }},
    // The same sentence: what host_allocate gave is not registered.
    {"unregister_of_allocated", "unregistering what host_allocate gave is a success",
     "ER-015,ER-016,HM-016",
     [](weir_backend_table &t) {
       note_host(t);
       t.host_unregister = [](weir_be_state *state, void *memory, uint64_t bytes) {
         const bool ours = pinned.find({state, number(memory)}) == std::optional(bytes);
         return ours ? weir_result{WEIR_SUCCESS} : real().host_unregister(state, memory, bytes);
       };
     }},
    // host_free: "`memory` and `bytes` as allocated."
    {"host_free_of_registered", "host_free of memory that is only registered is a success",
     "ER-015,ER-016,HM-016",
     [](weir_backend_table &t) {
       note_registered(t);
       t.host_free = [](weir_be_state *state, void *memory, uint64_t bytes) {
         const bool other = registered.find(number(memory)) == std::optional(bytes);
         return other ? weir_result{WEIR_SUCCESS} : real().host_free(state, memory, bytes);
       };
     }},
    // host_register: "usable for copies by every device of the backend".
    {"registered_for_first_device", "registered memory can be copied from and to by device 0 only",
     "HM-007",
     [](weir_backend_table &t) {
       note_registered(t);
       mem::deny<second_device_registered>(t);
     }},
    // The same sentence: two registrations may touch.
    {"registered_side_by_side_refused", "memory that follows registered memory is not registered",
     "HM-013",
     [](weir_backend_table &t) {
       note_registered(t);
       t.host_register = [](weir_be_state *state, void *memory, uint64_t bytes) {
         const auto before = registered.below(number(memory) - 1);
         if (memory != nullptr && before && before->first + before->second == number(memory))
           return refuse(state);
         const weir_result result = real().host_register(state, memory, bytes);
         if (result == WEIR_SUCCESS) registered.put(number(memory), bytes);
         return result;
       };
     }},
    // start: "several states may exist"; each has its own devices, for which it registers.
    {"registered_in_one_state", "memory that one state has registered is refused to another",
     "HM-021",
     [](weir_backend_table &t) {
       static Book<uint64_t, weir_be_state *> owners;
       t.host_register = [](weir_be_state *state, void *memory, uint64_t bytes) {
         const auto owner = owners.find(number(memory));
         if (owner && *owner != state) return refuse(state, WEIR_ERROR_BACKEND);
         const weir_result result = real().host_register(state, memory, bytes);
         if (result == WEIR_SUCCESS) owners.put(number(memory), state);
         return result;
       };
       t.host_unregister = [](weir_be_state *state, void *memory, uint64_t bytes) {
         const weir_result result = real().host_unregister(state, memory, bytes);
         if (result == WEIR_SUCCESS) (void)owners.take(number(memory));
         return result;
       };
     }},
    // "On failure nothing has changed".
    {"refused_register_keeps_page",
     "the page in which a registration was refused is refused the next time", "HM-012",
     [](weir_backend_table &t) {
       t.host_register = [](weir_be_state *state, void *memory, uint64_t bytes) {
         static Book<Key, bool> spoilt;
         const Key key{state, number(memory) / page};
         if (spoilt.take(key)) return refuse(state);
         const weir_result result = real().host_register(state, memory, bytes);
         if (result != WEIR_SUCCESS && number(memory) % page != 0) spoilt.put(key, true);
         return result;
       };
     }},
    // host_unregister ends a registration; "nothing is leaked".
    {"registrations_run_out", "a registration keeps its place: after 10000 there is none left",
     "LI-021",
     [](weir_backend_table &t) {
       t.host_register = [](weir_be_state *state, void *memory, uint64_t bytes) {
         static std::atomic<int> places{10000};
         if (places <= 0) return refuse(state, WEIR_ERROR_OUT_OF_HOST_MEMORY);
         const weir_result result = real().host_register(state, memory, bytes);
         if (result == WEIR_SUCCESS) --places;
         return result;
       };
     }},
    // host_allocate: memory that no one else has; stop "Frees everything the state still owns", of this state.
    {"host_memory_ends_with_other_state",
     "the last byte of host memory is cleared when another state is stopped", "RT-027",
     [](weir_backend_table &t) {
       static std::mutex mutex;
       static std::map<Key, uint64_t> live;
       t.host_allocate = [](weir_be_state *state, uint64_t bytes, void **memory) {
         const std::lock_guard lock(mutex);
         const weir_result result = real().host_allocate(state, bytes, memory);
         if (result == WEIR_SUCCESS) live[{state, number(*memory)}] = bytes;
         return result;
       };
       t.host_free = [](weir_be_state *state, void *memory, uint64_t bytes) {
         const std::lock_guard lock(mutex);
         const weir_result result = real().host_free(state, memory, bytes);
         if (result == WEIR_SUCCESS) live.erase({state, number(memory)});
         return result;
       };
       t.stop = [](weir_be_state *state) {
         {
           const std::lock_guard lock(mutex);
           std::erase_if(live, [&](const auto &each) { return each.first.first == state; });
           for (const auto &each : live) *bytes_at(each.first.second + each.second - 1) = 0;
         }
         real().stop(state);
       };
     }},
    // plain_allocate: memory that no one else has, however much there is.
    {"small_plain_given_twice", "of more than 3000 pieces of plain memory small ones share memory",
     "LI-023",
     [](weir_backend_table &t) {
       static std::mutex mutex;
       static std::map<Key, int> owners;
       static uint64_t living = 0;
       t.plain_allocate = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                             uint64_t alignment, uint64_t *address) {
         const std::lock_guard lock(mutex);
         static uint64_t last_small = 0;
         const auto shared = owners.find({state, last_small});
         if (living > 3000 && bytes <= 64 && alignment <= 64 && shared != owners.end()) {
           *address = last_small;
         } else {
           const weir_result result = allocate(state, device, bytes, alignment, address);
           if (result != WEIR_SUCCESS) return result;
           if (bytes == 64 && alignment == 64) last_small = *address;
         }
         ++living;
         ++owners[{state, *address}];
         return weir_result{WEIR_SUCCESS};
       };
       t.plain_free = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const std::lock_guard lock(mutex);
         const auto owner = owners.find({state, address});
         if (owner != owners.end() && owner->second > 1) {
           --living;
           --owner->second;
           return weir_result{WEIR_SUCCESS};
         }
         const weir_result result = plain_free(state, device, address, bytes);
         if (result == WEIR_SUCCESS && owner != owners.end()) {
           --living;
           owners.erase(owner);
         }
         return result;
       };
     }},
};

}  // namespace

std::span<const Fault> subtle_memory_faults() { return faults; }

}  // namespace weir::mutants
