// SPDX-License-Identifier: Apache-2.0
//
// Faults of copies, batches and fills.

#include "tests/mutants/mutant.hpp"

#include <cstring>

namespace weir::mutants {
namespace {

weir_result copy(weir_be_state *state, weir_be_stream stream, uint64_t destination, uint64_t source,
                 uint64_t bytes) {
  const weir_be_copy one{destination, source, bytes};
  return real().copy_async(state, stream, &one);
}

/// Replaces copy_async by one that changes what is copied.
template <auto Spoil>
void spoil(weir_backend_table &t) {
  t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *given) {
    if (given == nullptr || given->bytes == 0) return real().copy_async(state, stream, given);
    weir_be_copy other = *given;
    Spoil(other);
    return other.bytes != 0 ? real().copy_async(state, stream, &other) : weir_result{WEIR_SUCCESS};
  };
}

constexpr Fault faults[] = {
    {"copy_drops_last_byte", "the last byte of a copy is not written", "CP-001",
     [](weir_backend_table &t) { spoil<[](weir_be_copy &c) { --c.bytes; }>(t); }},
    {"copy_in_words", "a copy's size is rounded down to words of 4 bytes", "CP-001",
     [](weir_backend_table &t) { spoil<[](weir_be_copy &c) { c.bytes &= ~UINT64_C(3); }>(t); }},
    {"copy_from_even_address", "an odd source is rounded down", "CP-001,CP-002",
     [](weir_backend_table &t) { spoil<[](weir_be_copy &c) { c.source &= ~UINT64_C(1); }>(t); }},
    {"copy_to_even_address", "an odd destination is rounded down", "CP-001,CP-002",
     [](weir_backend_table &t) {
       spoil<[](weir_be_copy &c) { c.destination &= ~UINT64_C(1); }>(t);
     }},
    {"copy_in_16_bits", "a copy's size is kept in 16 bits", "CP-006",
     [](weir_backend_table &t) { spoil<[](weir_be_copy &c) { c.bytes &= 0xffff; }>(t); }},
    {"copy_reads_early", "a copy reads its source when it is enqueued, not in its turn",
     "ST-004,CP-008",
     [](weir_backend_table &t) {
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *given) {
         void *snapshot = nullptr;
         if (given == nullptr || given->bytes == 0 || given->bytes > UINT64_C(64) << 20 ||
             real().host_allocate(state, given->bytes, &snapshot) != WEIR_SUCCESS) {
           return real().copy_async(state, stream, given);
         }
         // The snapshot is the state's until it is stopped: the copy is still to come.
         std::memcpy(snapshot, bytes_at(given->source), given->bytes);
         return copy(state, stream, given->destination, reinterpret_cast<uintptr_t>(snapshot),
                     given->bytes);
       };
     }},
    {"copy_eats_source", "a copy out of device memory leaves zeros behind it", "CP-007",
     [](weir_backend_table &t) {
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *given) {
         const weir_result result = real().copy_async(state, stream, given);
         // Refused for host memory, which stays as it is.
         if (result == WEIR_SUCCESS)
           (void)real().fill_async(state, stream, given->source, 0, given->bytes);
         return result;
       };
     }},
    {"copy_blocks", "enqueueing a copy waits for what the stream has still to do", "ST-013",
     [](weir_backend_table &t) {
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *given) {
         weir_be_fence before = 0;
         if (real().fence_record(state, stream, &before) == WEIR_SUCCESS)
           (void)real().fence_wait(state, before, 30'000'000'000);
         return real().copy_async(state, stream, given);
       };
     }},
    {"copy_failures_swallowed", "a copy that is refused is said to be enqueued", "CP-014",
     [](weir_backend_table &t) {
       t.copy_async = [](auto... rest) {
         (void)real().copy_async(rest...);
         return weir_result{WEIR_SUCCESS};
       };
     }},
    {"peer_copies_refused", "links are said to be direct and copies between devices are refused",
     "PE-004,PE-010",
     [](weir_backend_table &t) {
       static Book<uint64_t, uint32_t> places;
       t.plain_allocate = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                             uint64_t alignment, uint64_t *address) {
         const weir_result result = real().plain_allocate(state, device, bytes, alignment, address);
         if (result == WEIR_SUCCESS) places.put(*address, device);
         return result;
       };
       t.map = [](weir_be_state *state, uint32_t device, uint64_t address, auto... rest) {
         const weir_result result = real().map(state, device, address, rest...);
         if (result == WEIR_SUCCESS) places.put(address, device);
         return result;
       };
       t.host_allocate = [](weir_be_state *state, uint64_t bytes, void **memory) {
         const weir_result result = real().host_allocate(state, bytes, memory);
         if (result == WEIR_SUCCESS)
           places.put(reinterpret_cast<uintptr_t>(*memory), WEIR_DEVICE_HOST);
         return result;
       };
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *given) {
         const auto to = places.below(given->destination), from = places.below(given->source);
         const bool across = to && from && to->second != from->second &&
                             to->second != WEIR_DEVICE_HOST && from->second != WEIR_DEVICE_HOST;
         return across ? weir_result{WEIR_ERROR_NOT_SUPPORTED}
                       : real().copy_async(state, stream, given);
       };
     }},
    {"peer_copies_lost", "copies between devices do nothing", "PE-005",
     [](weir_backend_table &t) {
       static Book<uint64_t, uint32_t> places;
       t.plain_allocate = [](weir_be_state *state, uint32_t device, uint64_t bytes,
                             uint64_t alignment, uint64_t *address) {
         const weir_result result = real().plain_allocate(state, device, bytes, alignment, address);
         if (result == WEIR_SUCCESS) places.put(*address, device);
         return result;
       };
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *given) {
         const auto to = places.find(given->destination), from = places.find(given->source);
         return to && from && *to != *from ? weir_result{WEIR_SUCCESS}
                                           : real().copy_async(state, stream, given);
       };
     }},
    {"batch_does_first", "a batch executes its first copy only", "CP-016",
     [](weir_backend_table &t) {
       t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream,
                               const weir_be_copy *copies, uint32_t count) {
         return real().copy_batch_async(state, stream, copies, count != 0 ? 1 : 0);
       };
     }},
    {"batch_drops_last", "a batch drops its last copy", "CP-016",
     [](weir_backend_table &t) {
       t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream,
                               const weir_be_copy *copies, uint32_t count) {
         return real().copy_batch_async(state, stream, copies, count > 1 ? count - 1 : count);
       };
     }},
    {"batch_half_done", "a batch with a bad copy executes those before it", "CP-018",
     [](weir_backend_table &t) {
       t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream,
                               const weir_be_copy *copies, uint32_t count) {
         weir_result result = WEIR_SUCCESS;
         for (uint32_t i = 0; i < count && result == WEIR_SUCCESS; ++i) {
           result = real().copy_async(state, stream, copies + i);
         }
         return result;
       };
     }},
    {"batch_skips_bad", "a batch passes over a bad copy in silence", "CP-018",
     [](weir_backend_table &t) {
       t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream,
                               const weir_be_copy *copies, uint32_t count) {
         for (uint32_t i = 0; i < count; ++i) (void)real().copy_async(state, stream, copies + i);
         return weir_result{WEIR_SUCCESS};
       };
     }},
    {"batch_not_in_stream", "a batch does not wait for what its stream has to do before it",
     "CP-019,CP-020",
     [](weir_backend_table &t) {
       t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream,
                               const weir_be_copy *copies, uint32_t count) {
         static Book<weir_be_state *, weir_be_stream> others;
         weir_be_stream other = others.find(state).value_or(nullptr);
         if (other == nullptr && real().stream_create(state, 0, 0, &other) == WEIR_SUCCESS)
           others.put(state, other);
         return real().copy_batch_async(state, stream != nullptr ? other : stream, copies, count);
       };
     }},
    {"fill_one_beyond", "a fill writes one byte beyond its end", "CP-009",
     [](weir_backend_table &t) {
       t.fill_async = [](weir_be_state *state, weir_be_stream stream, uint64_t address,
                         uint8_t value, uint64_t bytes) {
         // At the end of its memory there is no byte beyond.
         if (bytes != 0 && bytes != UINT64_MAX &&
             real().fill_async(state, stream, address, value, bytes + 1) == WEIR_SUCCESS) {
           return weir_result{WEIR_SUCCESS};
         }
         return real().fill_async(state, stream, address, value, bytes);
       };
     }},
    {"fill_short", "a fill leaves out its last byte", "CP-009",
     [](weir_backend_table &t) {
       t.fill_async = [](weir_be_state *state, weir_be_stream stream, uint64_t address,
                         uint8_t value, uint64_t bytes) {
         return real().fill_async(state, stream, address, value, bytes > 1 ? bytes - 1 : bytes);
       };
     }},
    {"fill_in_words", "a fill's size is rounded down to words of 4 bytes", "CP-009",
     [](weir_backend_table &t) {
       t.fill_async = [](weir_be_state *state, weir_be_stream stream, uint64_t address,
                         uint8_t value, uint64_t bytes) {
         const uint64_t words = bytes & ~UINT64_C(3);
         return bytes != 0 && words == 0 ? weir_result{WEIR_SUCCESS}
                                         : real().fill_async(state, stream, address, value, words);
       };
     }},
    {"fill_in_7_bits", "a fill's value loses its highest bit", "CP-010",
     [](weir_backend_table &t) {
       t.fill_async = [](weir_be_state *state, weir_be_stream stream, uint64_t address,
                         uint8_t value, uint64_t bytes) {
         return real().fill_async(state, stream, address, value & 0x7f, bytes);
       };
     }},
    {"fill_failures_swallowed", "a fill that is refused is said to be enqueued", "CP-021",
     [](weir_backend_table &t) {
       t.fill_async = [](auto... rest) {
         (void)real().fill_async(rest...);
         return weir_result{WEIR_SUCCESS};
       };
     }},
};

}  // namespace

std::span<const Fault> copy_faults() { return faults; }

}  // namespace weir::mutants
