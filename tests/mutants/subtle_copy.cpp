// SPDX-License-Identifier: Apache-2.0
//
// Subtle faults of copies and fills: of large ones, of those between certain places, and of memory that is mapped twice.

#include "tests/mutants/subtle_work.hpp"

#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

namespace weir::mutants {
namespace {

constexpr uint64_t large = 8 * mebibyte;

weir_result copy(weir_be_state *state, weir_be_stream stream, const weir_be_copy &one) {
  return real().copy_async(state, stream, &one);
}

bool is_large(weir_be_stream stream, const weir_be_copy *given) {
  return stream != nullptr && given != nullptr && given->bytes > large;
}

weir_be_copy part(const weir_be_copy &whole, uint64_t offset, uint64_t bytes) {
  return {whole.destination + offset, whole.source + offset, bytes};
}

/// Does a copy on the queue beside its stream, which owes it; `in_turn`: after what the stream was given before.
weir_result copy_aside(weir_be_state *state, weir_be_stream stream, const weir_be_copy &one,
                       bool in_turn) {
  const weir_be_stream queue = in_turn ? Aside::in_turn(state, stream) : Aside::of(state, stream);
  if (in_turn) nap(state, queue);
  const weir_result result = copy(state, queue, one);
  Owed<false>::owe(state, stream, queue);
  return result;
}

/// Replaces copies for which `Which` holds by ones that do not wait for what their stream has to do before.
template <auto Which>
void let_jump(weir_backend_table &t) {
  pay_debts<skip_nothing>(t);
  note_places(t);
  t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *given) {
    Owed<false>::pay(state, stream);
    const bool jumps = stream != nullptr && given != nullptr && Which(state, stream, *given);
    return jumps ? copy_aside(state, stream, *given, false)
                 : real().copy_async(state, stream, given);
  };
}

void free_bytes(void *memory) { delete[] static_cast<std::byte *>(memory); }

/// Memory of the host's own heap until the stream has come so far; nullptr where it can't be.
std::byte *scratch(uint64_t bytes) {
  return bytes <= 64 * mebibyte ? new std::byte[bytes] : nullptr;
}

weir_result end_scratch(weir_be_state *state, weir_be_stream stream, std::byte *memory) {
  // Where there are no host functions, it stays.
  (void)real().stream_host_call(state, stream, free_bytes, memory);
  return done;
}

/// Address ranges and plain memory of devices.
Book<uint64_t, uint64_t> ranges;

/// Registered host memory.
Book<uint64_t, uint64_t> registered;

/// Fills' values that a stream was told last, by stream.
Book<weir_be_stream, uint8_t> values;
struct Refill {
  weir_be_stream stream = nullptr;
  uint64_t address = 0, bytes = 0;
  uint8_t value = 0;
  static void run(void *self) {
    const std::unique_ptr<Refill> fill(static_cast<Refill *>(self));
    const uint8_t last = values.find(fill->stream).value_or(fill->value);
    if (last != fill->value) std::memset(bytes_at(fill->address), last, fill->bytes);
  }
};

/// What is mapped where, how often each granule is, and what fills of a mapping have still to come.
struct Aliases {
  struct Mapping {
    weir_be_granule granule = 0;
    uint64_t bytes = 0;
  };
  static inline Book<uint64_t, Mapping> mappings;
  static inline Book<std::pair<weir_be_state *, weir_be_granule>, int> counts;
  static inline Book<uint64_t, weir_be_fence> fills;

  static void count(weir_be_state *state, weir_be_granule granule, int more) {
    counts.put({state, granule}, counts.find({state, granule}).value_or(0) + more);
  }
  static uint64_t start_of(uint64_t address) {
    const auto at = mappings.below(address);
    return at && address - at->first < at->second.bytes ? at->first : 0;
  }
  static bool twice(weir_be_state *state, uint64_t start) {
    const auto mapping = mappings.find(start);
    return mapping && counts.find({state, mapping->granule}).value_or(0) > 1;
  }
  /// What begins in the range is mapped there no more, or was so in a state that was stopped.
  static void forget(weir_be_state *state, uint64_t address, uint64_t bytes) {
    for (auto at = mappings.below(address + (bytes - 1)); at && at->first >= address;
         at = mappings.below(address + (bytes - 1))) {
      (void)mappings.take(at->first);
      (void)fills.take(at->first);
      count(state, at->second.granule, -1);
    }
  }
  /// The stream waits for fills through the mapping that the address is in, and through no other.
  static void wait(weir_be_state *state, weir_be_stream stream, uint64_t address) {
    const auto fill = fills.find(start_of(address));
    if (fill && stream != nullptr) (void)real().stream_wait(state, stream, *fill);
  }
};

constexpr Fault faults[] = {
    // "In-order queues".
    {"large_copy_in_device_jumps_queue",
     "a copy of more than 8 MiB within a device does not wait for what its stream does before it",
     "CP-030",
     [](weir_backend_table &t) {
       let_jump<[](weir_be_state *, weir_be_stream, const weir_be_copy &c) {
         const uint32_t to = device_at(c.destination);
         return large < c.bytes && to != WEIR_DEVICE_HOST && to == device_at(c.source);
       }>(t);
       guard_frees(t);
     },
     "memory=128M"},
    // "In-order queues"; both sides of a copy may be "host memory from host_allocate / host_register".
    {"host_copy_jumps_queue", "a copy from host memory to host memory does not wait for its turn",
     "CP-029",
     [](weir_backend_table &t) {
       let_jump<[](weir_be_state *, weir_be_stream, const weir_be_copy &c) {
         return device_at(c.destination) == WEIR_DEVICE_HOST &&
                device_at(c.source) == WEIR_DEVICE_HOST;
       }>(t);
       guard_frees(t);
     }},
    // "In-order queues", of both the devices that a copy is between.
    {"pulled_copy_jumps_queue",
     "a copy from another device does not wait for its turn where the destination's stream does it",
     "PE-005",
     [](weir_backend_table &t) {
       let_jump<[](weir_be_state *state, weir_be_stream stream, const weir_be_copy &c) {
         const uint32_t to = device_at(c.destination), from = device_at(c.source);
         return to != from && from != WEIR_DEVICE_HOST && to == device_of(state, stream);
       }>(t);
       guard_frees(t);
     }},
    // "In-order queues": the whole of a copy comes before what is enqueued later.
    {"large_copy_half_late",
     "the second half of a copy of more than 8 MiB is done beside later work", "CP-006",
     [](weir_backend_table &t) {
       pay_debts<skip_copies | skip_batches | skip_fills | skip_calls>(t);
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *given) {
         if (!is_large(stream, given)) return real().copy_async(state, stream, given);
         const uint64_t half = given->bytes / 2;
         const weir_result result = copy(state, stream, part(*given, 0, half));
         if (result != WEIR_SUCCESS) return result;
         return copy_aside(state, stream, part(*given, half, given->bytes - half), true);
       };
       guard_frees(t);
     }},
    // fence_record: "Marks the end of what is enqueued on the stream so far."
    {"large_readback_passes_early",
     "fences do not wait for the last MiB of a copy of more than 8 MiB to the host", "CP-030",
     [](weir_backend_table &t) {
       pay_debts<skip_records>(t);
       note_places(t);
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *given) {
         Owed<false>::pay(state, stream);
         if (!is_large(stream, given) || device_at(given->destination) != WEIR_DEVICE_HOST ||
             device_at(given->source) == WEIR_DEVICE_HOST)
           return real().copy_async(state, stream, given);
         const uint64_t before = given->bytes - mebibyte;
         const weir_result result = copy(state, stream, part(*given, 0, before));
         return result != WEIR_SUCCESS
                    ? result
                    : copy_aside(state, stream, part(*given, before, mebibyte), true);
       };
       guard_frees(t);
     }},
    // weir_be_copy: "bytes: how many".
    {"large_copy_drops_odd_tail",
     "a copy of more than 8 MiB is done in pages; what is left of the last page is not",
     "CP-006,CP-011",
     [](weir_backend_table &t) {
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *given) {
         return is_large(stream, given)
                    ? copy(state, stream, part(*given, 0, given->bytes & ~UINT64_C(4095)))
                    : real().copy_async(state, stream, given);
       };
     }},
    // weir_be_copy: "source: address of the first byte read", 64 bits of it.
    {"source_offset_in_31_bits", "a copy's place in a range of more than 2 GiB is kept in 31 bits",
     "AR-016",
     [](weir_backend_table &t) {
       t.range_reserve = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t align,
                            uint64_t *address) {
         const weir_result result = real().range_reserve(state, device, bytes, align, address);
         if (result == WEIR_SUCCESS) ranges.put(*address, bytes);
         return result;
       };
       t.plain_allocate = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t align,
                             uint64_t *address) {
         const weir_result result = real().plain_allocate(state, device, bytes, align, address);
         if (result == WEIR_SUCCESS) ranges.put(*address, bytes);
         return result;
       };
       t.range_free = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const weir_result result = real().range_free(state, device, address, bytes);
         if (result == WEIR_SUCCESS) (void)ranges.take(address);
         return result;
       };
       t.plain_free = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         const weir_result result = real().plain_free(state, device, address, bytes);
         if (result == WEIR_SUCCESS) (void)ranges.take(address);
         return result;
       };
       t.stop = [](weir_be_state *state) {
         forget_all(ranges);
         real().stop(state);
       };
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *given) {
         const auto range = given != nullptr ? ranges.below(given->source) : std::nullopt;
         const uint64_t offset = range ? given->source - range->first : 0;
         if (range && offset < range->second && offset > INT32_MAX &&
             copy(state, stream,
                  {given->destination, range->first + (offset & INT32_MAX), given->bytes}) ==
                 WEIR_SUCCESS)
           return done;
         return real().copy_async(state, stream, given);
       };
     }},
    // fill_async: "Fills device memory with a byte", `bytes` of it.
    {"fill_size_in_32_bits", "a fill's size is kept in 32 bits", "NONE",
     [](weir_backend_table &t) {
       t.fill_async = [](weir_be_state *state, weir_be_stream stream, uint64_t address,
                         uint8_t value, uint64_t bytes) {
         const uint64_t kept = bytes & UINT32_MAX;
         return bytes != 0 && kept == 0 ? done
                                        : real().fill_async(state, stream, address, value, kept);
       };
     }},
    // "In-order queues": a copy reads its source in its turn, registered memory too.
    {"registered_source_read_early",
     "up to 64 KiB of registered memory are read when the copy is enqueued", "CP-029,HM-018",
     [](weir_backend_table &t) {
       t.host_register = [](weir_be_state *state, void *memory, uint64_t bytes) {
         const weir_result result = real().host_register(state, memory, bytes);
         if (result == WEIR_SUCCESS) registered.put(reinterpret_cast<uintptr_t>(memory), bytes);
         return result;
       };
       t.host_unregister = [](weir_be_state *state, void *memory, uint64_t bytes) {
         const weir_result result = real().host_unregister(state, memory, bytes);
         if (result == WEIR_SUCCESS) (void)registered.take(reinterpret_cast<uintptr_t>(memory));
         return result;
       };
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *given) {
         const auto home = given != nullptr ? registered.below(given->source) : std::nullopt;
         const uint64_t offset = home ? given->source - home->first : 0;
         if (!home || given->bytes == 0 || given->bytes > 65536 || offset >= home->second ||
             given->bytes > home->second - offset)
           return real().copy_async(state, stream, given);
         std::byte *const snapshot = scratch(given->bytes);
         std::memcpy(snapshot, bytes_at(given->source), given->bytes);
         const weir_result result =
             copy(state, stream,
                  {given->destination, reinterpret_cast<uintptr_t>(snapshot), given->bytes});
         if (result == WEIR_SUCCESS) return end_scratch(state, stream, snapshot);
         delete[] snapshot;
         return result;
       };
     }},
    // fill_async: "Fills device memory", from `address` on.
    {"fill_from_word_before", "a fill that begins within 16 bytes begins where they begin",
     "CP-009,CP-011,CP-012",
     [](weir_backend_table &t) {
       t.fill_async = [](weir_be_state *state, weir_be_stream stream, uint64_t address,
                         uint8_t value, uint64_t bytes) {
         const uint64_t before = address % 16;
         if (before != 0 && bytes != 0 && bytes < UINT64_MAX - before &&
             real().fill_async(state, stream, address - before, value, bytes + before) ==
                 WEIR_SUCCESS)
           return done;
         return real().fill_async(state, stream, address, value, bytes);
       };
     }},
    // fill_async: "with a byte", its own; fills that wait in a queue have one each.
    {"fills_of_stream_share_value", "fills that wait in a stream all write the value of the latest",
     "CP-009,CP-012,ST-021",
     [](weir_backend_table &t) {
       t.fill_async = [](weir_be_state *state, weir_be_stream stream, uint64_t address,
                         uint8_t value, uint64_t bytes) {
         const weir_result result = real().fill_async(state, stream, address, value, bytes);
         if (result != WEIR_SUCCESS) return result;
         values.put(stream, value);
         auto fill = std::make_unique<Refill>(Refill{stream, address, bytes, value});
         if (real().stream_host_call(state, stream, Refill::run, fill.get()) == WEIR_SUCCESS)
           (void)fill.release();
         return result;
       };
     }},
    // "No copies do nothing, and may be INVALID_ARGUMENT; likewise copies and fills of 0 bytes."
    {"fill_of_nothing_not_supported", "a fill of 0 bytes is refused with NOT_SUPPORTED", "CP-033",
     [](weir_backend_table &t) {
       t.fill_async = [](weir_be_state *state, weir_be_stream stream, uint64_t address,
                         uint8_t value, uint64_t bytes) {
         const weir_result result = real().fill_async(state, stream, address, value, bytes);
         return bytes == 0 && stream != nullptr ? weir_result{WEIR_ERROR_NOT_SUPPORTED} : result;
       };
     }},
    // MULTI_MAP: "one granule may be live at several addresses"; stream_wait orders "work", at whichever address.
    {"alias_sees_fill_late",
     "what a fill wrote at one address of a granule is seen late at another, fence or not",
     "VM-023",
     [](weir_backend_table &t) {
       pay_debts<skip_copies | skip_batches | skip_fills | skip_records | skip_calls>(t);
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                  weir_be_granule granule, auto... rest) {
         const weir_result result = real().map(state, device, address, bytes, granule, rest...);
         if (result != WEIR_SUCCESS) return result;
         Aliases::mappings.put(address, {granule, bytes});
         Aliases::count(state, granule, 1);
         return result;
       };
       t.unmap = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         if (const auto fill = Aliases::fills.take(address))
           (void)real().fence_wait(state, *fill, 1'000'000'000);
         const weir_result result = real().unmap(state, device, address, bytes);
         if (result == WEIR_SUCCESS) Aliases::forget(state, address, bytes);
         return result;
       };
       // Runs come and go as they should; nothing is known of them.
       t.unmap_run = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
         for (auto at = Aliases::fills.below(address + (bytes - 1)); at && at->first >= address;
              at = Aliases::fills.below(address + (bytes - 1))) {
           (void)real().fence_wait(state, at->second, 1'000'000'000);
           (void)Aliases::fills.take(at->first);
         }
         const weir_result result = real().unmap_run(state, device, address, bytes);
         if (result == WEIR_SUCCESS) Aliases::forget(state, address, bytes);
         return result;
       };
       t.stop = [](weir_be_state *state) {
         Aliases::forget(state, 1, UINT64_MAX);
         real().stop(state);
       };
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *given) {
         if (given != nullptr) Aliases::wait(state, stream, given->source);
         if (given != nullptr) Aliases::wait(state, stream, given->destination);
         return real().copy_async(state, stream, given);
       };
       t.fill_async = [](weir_be_state *state, weir_be_stream stream, uint64_t address,
                         uint8_t value, uint64_t bytes) {
         Aliases::wait(state, stream, address);
         const uint64_t start = Aliases::start_of(address);
         if (stream == nullptr || start == 0 || !Aliases::twice(state, start))
           return real().fill_async(state, stream, address, value, bytes);
         const weir_be_stream queue = Aside::in_turn(state, stream);
         nap(state, queue);
         const weir_result result = real().fill_async(state, queue, address, value, bytes);
         weir_be_fence end = 0;
         if (result == WEIR_SUCCESS && real().fence_record(state, queue, &end) == WEIR_SUCCESS)
           Aliases::fills.put(start, end);
         Owed<false>::owe(state, stream, queue);
         return result;
       };
       guard_frees(t);
     }},
};

}  // namespace

std::span<const Fault> subtle_copy_faults() { return faults; }

}  // namespace weir::mutants
