// SPDX-License-Identifier: Apache-2.0
//
// Subtle faults of granules and of address ranges.

#include "tests/mutants/memory_tools.hpp"

#include <atomic>
#include <thread>

namespace weir::mutants {
namespace {

using mem::Key;
using mem::refuse;

weir_result create(weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                   weir_be_granule *granule) {
  return real().granule_create(state, device, bytes, flags, granule);
}

/// Handles of 16 bits, counted on and on; what each stands for.
struct Short {
  static inline std::atomic<uint32_t> next{0};
  static inline Book<Key, weir_be_granule> known;

  static weir_be_granule full(weir_be_state *state, weir_be_granule handle) {
    return known.find({state, handle}).value_or(handle);
  }
  static void give(weir_be_state *state, weir_be_granule *granule) {
    const weir_be_granule handle = next++ % 65535 + 1;
    known.put({state, handle}, *granule);
    *granule = handle;
  }
};

struct Shift {
  uint64_t reserved, bytes;
};

constexpr uint64_t gibibyte = UINT64_C(1) << 30;

constexpr Fault faults[] = {
    // "On failure nothing has changed".
    {"oom_told_twice", "after an allocation without room the next granule is refused too",
     "ER-007,ER-008,FA-006",
     [](weir_backend_table &t) {
       static Book<std::pair<weir_be_state *, uint32_t>, bool> sticky;
       t.plain_allocate = [](weir_be_state *state, uint32_t device, auto... rest) {
         const weir_result result = real().plain_allocate(state, device, rest...);
         if (result == WEIR_ERROR_DEVICE_OOM) sticky.put({state, device}, true);
         return result;
       };
       t.granule_create = [](weir_be_state *state, uint32_t device, auto... rest) {
         return sticky.take({state, device}) ? refuse(state, WEIR_ERROR_DEVICE_OOM)
                                             : real().granule_create(state, device, rest...);
       };
     }},
    // The same sentence, and DEVICE_LOST is "the device no longer answers".
    {"oom_loses_other_device", "a device without room makes the next one's memory call say LOST",
     "ER-016,ER-017,FA-006",
     [](weir_backend_table &t) {
       static Book<std::pair<weir_be_state *, uint32_t>, bool> lost;
       t.granule_create = [](weir_be_state *state, uint32_t device, auto... rest) {
         const weir_result result = real().granule_create(state, device, rest...);
         const uint32_t other = (device + 1) % std::max(mem::devices(state), 1U);
         if (result == WEIR_ERROR_DEVICE_OOM && other != device) lost.put({state, other}, true);
         return result;
       };
       t.device_memory = [](weir_be_state *state, uint32_t device, auto... rest) {
         return lost.take({state, device}) ? refuse(state, WEIR_ERROR_DEVICE_LOST)
                                           : real().device_memory(state, device, rest...);
       };
     }},
    // granule_create: "DEVICE_OOM when the device has none left".
    {"granule_beyond_total_is_invalid",
     "a granule larger than the device is refused as INVALID_ARGUMENT", "PM-009",
     [](weir_backend_table &t) {
       t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, auto... rest) {
         const weir_result result = create(state, device, bytes, rest...);
         const bool never = bytes > mem::about(state, device).memory_total;
         return result == WEIR_ERROR_DEVICE_OOM && never ? weir_result{WEIR_ERROR_INVALID_ARGUMENT}
                                                         : result;
       };
     }},
    // granule_create: "NOT_SUPPORTED for a flag without its capability".
    {"fabric_flag_is_invalid", "a flag without its capability is refused as INVALID_ARGUMENT",
     "PM-007",
     [](weir_backend_table &t) {
       t.granule_create = [](auto... rest) {
         const weir_result result = create(rest...);
         return result == WEIR_ERROR_NOT_SUPPORTED ? weir_result{WEIR_ERROR_INVALID_ARGUMENT}
                                                   : result;
       };
     }},
    // "On failure ... nothing is leaked": the flags are looked at when the memory is there.
    {"refused_flag_keeps_granule", "a granule that is refused for its flags keeps its memory",
     "ER-014",
     [](weir_backend_table &t) {
       t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, auto... rest) {
         const weir_result result = create(state, device, bytes, rest...);
         weir_be_granule lost = 0;
         if (result == WEIR_ERROR_NOT_SUPPORTED) (void)create(state, device, bytes, 0, &lost);
         return result;
       };
     }},
    // The same sentence: what is missing is found out piece by piece.
    {"oom_keeps_a_piece", "a granule for which there is no room takes a piece of what is left",
     "ER-008,FA-001",
     [](weir_backend_table &t) {
       t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, auto... rest) {
         const weir_result result = create(state, device, bytes, rest...);
         weir_be_granule lost = 0;
         if (result == WEIR_ERROR_DEVICE_OOM)
           (void)create(state, device, mem::unit(state, device), 0, &lost);
         return result;
       };
     }},
    // granule_destroy and "What a comment does not allow and the backend can see is refused".
    {"granule_destroyed_by_any_device", "granule_destroy does not ask whose the granule is",
     "ER-012,ER-015,ER-016",
     [](weir_backend_table &t) {
       mem::note_granules(t);
       t.granule_destroy = [](weir_be_state *state, uint32_t device, weir_be_granule granule) {
         const auto block = mem::granules.find({state, granule});
         return mem::destroy(state, block ? block->device : device, granule);
       };
     }},
    // "On failure nothing has changed".
    {"refused_destroy_counts_as_free", "a mapped granule's refused end makes more memory look free",
     "PM-021",
     [](weir_backend_table &t) {
       mem::note_granules(t);
       static Book<std::pair<weir_be_state *, uint32_t>, uint64_t> gained;
       t.granule_destroy = [](weir_be_state *state, uint32_t device, weir_be_granule granule) {
         const auto block = mem::granules.find({state, granule});
         const weir_result result = mem::destroy(state, device, granule);
         if (result != WEIR_SUCCESS && block && block->device == device)
           gained.put({state, device}, gained.find({state, device}).value_or(0) + block->bytes);
         return result;
       };
       t.device_memory = [](weir_be_state *state, uint32_t device, uint64_t *free,
                            uint64_t *total) {
         const weir_result result = real().device_memory(state, device, free, total);
         if (result == WEIR_SUCCESS)
           *free = std::min(*total, *free + gained.find({state, device}).value_or(0));
         return result;
       };
     }},
    // The same sentence.
    {"refused_destroy_is_the_last", "a granule whose end was refused can't be destroyed any more",
     "EX-014,FA-004,PM-012",
     [](weir_backend_table &t) {
       mem::note_granules(t);
       static Book<Key, bool> ending;
       t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                             weir_be_granule *granule) {
         const weir_result result = mem::create(state, device, bytes, flags, granule);
         if (result == WEIR_SUCCESS) (void)ending.take({state, *granule});
         return result;
       };
       t.granule_destroy = [](weir_be_state *state, uint32_t device, weir_be_granule granule) {
         const Key key{state, granule};
         if (ending.find(key)) return refuse(state);
         const bool live = mem::granules.find(key).has_value();
         const weir_result result = mem::destroy(state, device, granule);
         if (result != WEIR_SUCCESS && live) ending.put(key, true);
         return result;
       };
     }},
    // A handle is one granule's for as long as that lives: "Physical memory; 0 is none."
    {"granule_ids_of_16_bits", "after 65535 granules a new one gets the handle of one that lives",
     "LI-019",
     [](weir_backend_table &t) {
       t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                             weir_be_granule *granule) {
         const weir_result result = create(state, device, bytes, flags, granule);
         if (result == WEIR_SUCCESS) Short::give(state, granule);
         return result;
       };
       t.granule_import = [](weir_be_state *state, uint32_t device, int32_t fd, uint64_t bytes,
                             weir_be_granule *granule) {
         const weir_result result = real().granule_import(state, device, fd, bytes, granule);
         if (result == WEIR_SUCCESS) Short::give(state, granule);
         return result;
       };
       t.granule_destroy = [](weir_be_state *state, uint32_t device, weir_be_granule granule) {
         const weir_result result =
             real().granule_destroy(state, device, Short::full(state, granule));
         if (result == WEIR_SUCCESS) (void)Short::known.take({state, granule});
         return result;
       };
       t.granule_export = [](weir_be_state *state, uint32_t device, weir_be_granule granule,
                             int32_t *fd) {
         return real().granule_export(state, device, Short::full(state, granule), fd);
       };
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, auto... rest) {
         return real().map(state, device, address, bytes, Short::full(state, granule), rest...);
       };
       t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                      const weir_be_piece *pieces, uint32_t count, auto... rest) {
         if (pieces == nullptr)
           return real().map_run(state, device, address, pieces, count, rest...);
         std::vector<weir_be_piece> full(pieces, pieces + count);
         for (weir_be_piece &each : full) each.granule = Short::full(state, each.granule);
         return real().map_run(state, device, address, full.data(), count, rest...);
       };
     }},
    // granule_create: "DEVICE_OOM when the device has none left", and granule_destroy ends it.
    {"granule_end_on_other_thread_leaks",
     "a granule that another thread than its maker's ends gives no memory back", "PM-022",
     [](weir_backend_table &t) {
       static Book<Key, std::thread::id> makers;
       t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                             weir_be_granule *granule) {
         const weir_result result = mem::create(state, device, bytes, flags, granule);
         if (result == WEIR_SUCCESS) makers.put({state, *granule}, std::this_thread::get_id());
         return result;
       };
       t.granule_destroy = [](weir_be_state *state, uint32_t device, weir_be_granule granule) {
         const weir_result result = real().granule_destroy(state, device, granule);
         const auto maker = makers.take({state, granule});
         const auto block = mem::granules.take({state, granule});
         weir_be_granule kept = 0;
         if (result == WEIR_SUCCESS && block && maker && *maker != std::this_thread::get_id())
           (void)create(state, device, block->bytes, 0, &kept);
         return result;
       };
     }},
    // range_reserve: "`alignment` is a power of two >= granule".
    {"range_aligned_to_1g_at_most", "an alignment above 1 GiB is kept as far as 1 GiB", "AR-019",
     [](weir_backend_table &t) {
       static Book<uint64_t, Shift> shifted;
       t.range_reserve = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                            uint64_t alignment, uint64_t *address) {
         if (alignment <= gibibyte || bytes == 0 || bytes > UINT64_MAX - gibibyte)
           return real().range_reserve(state, device, bytes, alignment, address);
         uint64_t start = 0;
         const weir_result result =
             real().range_reserve(state, device, bytes + gibibyte, alignment, &start);
         if (result != WEIR_SUCCESS) return result;
         *address = start + gibibyte;
         shifted.put(*address, {start, bytes + gibibyte});
         return result;
       };
       t.range_free = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const auto shift = shifted.find(address);
         if (!shift || shift->bytes != bytes + gibibyte)
           return real().range_free(state, device, address, bytes);
         const weir_result result = real().range_free(state, device, shift->reserved, shift->bytes);
         if (result == WEIR_SUCCESS) (void)shifted.take(address);
         return result;
       };
     }},
    // The same sentence.
    {"range_alignment_below_granule", "an alignment below the granule is rounded up, not refused",
     "AR-006",
     [](weir_backend_table &t) {
       t.range_reserve = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                            uint64_t alignment, uint64_t *address) {
         const bool power = alignment != 0 && (alignment & (alignment - 1)) == 0;
         return real().range_reserve(
             state, device, bytes,
             power ? std::max(alignment, mem::unit(state, device)) : alignment, address);
       };
     }},
    // "refused with INVALID_ARGUMENT ...: sizes of 0 or of the wrong multiple".
    {"range_size_rounded_up", "a range of no whole granules is rounded up, not refused", "AR-005",
     [](weir_backend_table &t) {
       static Book<uint64_t, Shift> rounded;
       t.range_reserve = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                            uint64_t alignment, uint64_t *address) {
         const uint64_t unit = mem::unit(state, device), over = bytes % unit;
         if (over == 0 || bytes > UINT64_MAX - unit)
           return real().range_reserve(state, device, bytes, alignment, address);
         const uint64_t whole = bytes - over + unit;
         const weir_result result = real().range_reserve(state, device, whole, alignment, address);
         if (result == WEIR_SUCCESS) rounded.put(*address, {whole, bytes});
         return result;
       };
       t.range_free = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const auto known = rounded.find(address);
         const bool ours = known && known->bytes == bytes;
         return real().range_free(state, device, address, ours ? known->reserved : bytes);
       };
     }},
    // range_free: "`address` and `bytes` as reserved".
    {"range_free_from_inside", "a range can be freed by an address inside and what follows it",
     "AR-009",
     [](weir_backend_table &t) {
       mem::note_ranges(t);
       t.range_free = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const auto range = mem::range_at(address);
         const bool tail = range && address + bytes == range->first + range->second.bytes;
         const weir_result result =
             tail ? real().range_free(state, device, range->first, range->second.bytes)
                  : real().range_free(state, device, address, bytes);
         if (result == WEIR_SUCCESS) (void)mem::ranges.take(tail ? range->first : address);
         return result;
       };
     }},
    // range_free and "What a comment does not allow and the backend can see is refused".
    {"range_freed_by_any_device", "range_free does not ask whose the range is", "PE-013",
     [](weir_backend_table &t) {
       mem::note_ranges(t);
       t.range_free = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const auto range = mem::ranges.find(address);
         const bool there = device < mem::devices(state);
         return real().range_free(state, range && there ? range->device : device, address, bytes);
       };
     }},
    // "On failure nothing has changed".
    {"refused_free_closes_range", "nothing can be mapped in a range after its free was refused",
     "AR-009",
     [](weir_backend_table &t) {
       static Book<uint64_t, bool> closed;
       t.range_reserve = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                            uint64_t alignment, uint64_t *address) {
         const weir_result result = mem::reserve(state, device, bytes, alignment, address);
         if (result == WEIR_SUCCESS) (void)closed.take(*address);
         return result;
       };
       t.range_free = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const weir_result result = real().range_free(state, device, address, bytes);
         if (result != WEIR_SUCCESS && mem::ranges.find(address)) closed.put(address, true);
         return result;
       };
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, auto... rest) {
         const auto range = mem::range_at(address);
         return range && closed.find(range->first) ? refuse(state)
                                                   : real().map(state, device, address, rest...);
       };
     }},
    // "Out-parameters are written only on success."
    {"range_out_on_failure", "a refused range_reserve writes the address", "AR-004,AR-005,AR-012",
     [](weir_backend_table &t) {
       t.range_reserve = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                            uint64_t alignment, uint64_t *address) {
         const weir_result result = real().range_reserve(state, device, bytes, alignment, address);
         if (result != WEIR_SUCCESS) *address = 0;
         return result;
       };
     }},
    // weir_be_device.address_space: "bytes that range_reserve can give in all; 0 = plenty".
    {"address_space_never_returned", "freed ranges still count against the device's address space",
     "DV-020",
     [](weir_backend_table &t) {
       static constexpr uint64_t all = UINT64_C(1) << 40;
       static Book<std::pair<weir_be_state *, uint32_t>, uint64_t> given;
       t.start = [](const weir_be_start *desc, weir_be_state **state, const char **reason) {
         const weir_result result = real().start(desc, state, reason);
         for (uint32_t i = 0; result == WEIR_SUCCESS && i < mem::devices(*state); ++i)
           given.put({*state, i}, 0);
         return result;
       };
       t.device_describe = [](weir_be_state *state, uint32_t device, weir_be_device *out) {
         const weir_result result = real().device_describe(state, device, out);
         if (result == WEIR_SUCCESS && out->struct_size >= sizeof *out && out->granule != 0)
           out->address_space = all;
         return result;
       };
       t.range_reserve = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                            uint64_t alignment, uint64_t *address) {
         const uint64_t before = given.find({state, device}).value_or(0);
         if (device < mem::devices(state) && bytes > all - before)
           return bytes % mem::unit(state, device) != 0 ? refuse(state)
                                                        : refuse(state, WEIR_ERROR_BACKEND);
         const weir_result result = real().range_reserve(state, device, bytes, alignment, address);
         if (result == WEIR_SUCCESS) given.put({state, device}, before + bytes);
         return result;
       };
     }},
    // granule_create: "Makes `bytes` ... of physical memory".
    {"granule_size_of_32_bits", "a size of a granule loses what is above its lower 32 bits",
     "PM-023",
     [](weir_backend_table &t) {
       t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                             weir_be_granule *granule) {
         const uint64_t cut = bytes & UINT32_MAX;
         return create(state, device, cut != 0 ? cut : bytes, flags, granule);
       };
     },
     "memory=96G;granule=2M;granule_large=32M;prefault=0"},
};

}  // namespace

std::span<const Fault> subtle_granule_faults() { return faults; }

}  // namespace weir::mutants
