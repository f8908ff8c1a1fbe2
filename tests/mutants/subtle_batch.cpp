// SPDX-License-Identifier: Apache-2.0
//
// Subtle faults of batches: of what is in them, of how many, and of what comes before and after them.

#include "tests/mutants/subtle_work.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <vector>

namespace weir::mutants {
namespace {

weir_result batch(weir_be_state *state, weir_be_stream stream,
                  const std::vector<weir_be_copy> &copies) {
  return real().copy_batch_async(state, stream, copies.data(),
                                 static_cast<uint32_t>(copies.size()));
}

std::vector<weir_be_copy> list(const weir_be_copy *copies, uint32_t count) {
  return copies != nullptr ? std::vector<weir_be_copy>(copies, copies + count)
                           : std::vector<weir_be_copy>();
}

enum class Way { within, in, out, across };

Way way_of(const weir_be_copy &copy) {
  const uint32_t to = device_at(copy.destination), from = device_at(copy.source);
  if (to == from) return Way::within;
  if (from == WEIR_DEVICE_HOST) return Way::in;
  return to == WEIR_DEVICE_HOST ? Way::out : Way::across;
}

constexpr Fault faults[] = {
    // copy_batch_async: "Enqueues all or none"; `count` has 32 bits.
    {"batch_count_in_16_bits", "of a batch of more than 65,535 copies the count is cut to 16 bits",
     "CP-025",
     [](weir_backend_table &t) {
       t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream,
                               const weir_be_copy *copies, uint32_t count) {
         return real().copy_batch_async(state, stream, copies, count & UINT16_MAX);
       };
     }},
    // "Enqueues all or none".
    {"batch_in_parts_of_1024",
     "a batch is enqueued in parts of 1,024, and a part that is refused alone", "CP-032",
     [](weir_backend_table &t) {
       t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream,
                               const weir_be_copy *copies, uint32_t count) {
         constexpr uint32_t part = 1024;
         if (copies == nullptr || count <= part)
           return real().copy_batch_async(state, stream, copies, count);
         weir_result result = WEIR_SUCCESS;
         for (uint32_t at = 0; at < count && result == WEIR_SUCCESS; at += part)
           result = real().copy_batch_async(state, stream, copies + at, std::min(part, count - at));
         return result;
       };
     }},
    // "In-order queues", for each copy of a batch; only "order among them is free".
    {"batch_for_others_jumps_queue",
     "copies of a batch into another device than the first copy's do not wait for their turn",
     "CP-018",
     [](weir_backend_table &t) {
       pay_debts<skip_nothing>(t);
       note_places(t);
       t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream,
                               const weir_be_copy *copies, uint32_t count) {
         Owed<false>::pay(state, stream);
         std::vector<weir_be_copy> first = list(copies, count), others;
         if (stream == nullptr || first.empty())
           return real().copy_batch_async(state, stream, copies, count);
         const uint32_t device = device_at(first.front().destination);
         const auto rest = std::stable_partition(
             first.begin(), first.end(),
             [device](const weir_be_copy &each) { return device_at(each.destination) == device; });
         others.assign(rest, first.end());
         first.erase(rest, first.end());
         weir_result result = batch(state, stream, first);
         if (result != WEIR_SUCCESS || others.empty()) return result;
         const weir_be_stream queue = Aside::of(state, stream);
         result = batch(state, queue, others);
         Owed<false>::owe(state, stream, queue);
         return result;
       };
       guard_frees(t);
     }},
    // weir_be_copy: "source: address of the first byte read", of each.
    {"batch_joins_by_destination",
     "copies of a batch whose destinations touch are joined, wherever their sources are", "CP-027",
     [](weir_backend_table &t) {
       note_places(t);
       t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream,
                               const weir_be_copy *copies, uint32_t count) {
         std::vector<weir_be_copy> joined;
         for (const weir_be_copy &each : list(copies, count)) {
           const bool touches =
               !joined.empty() && each.bytes != 0 &&
               joined.back().destination + joined.back().bytes == each.destination &&
               // What is read instead is device memory, or the call is refused and done as given.
               way_of(joined.back()) != Way::in && way_of(each) == way_of(joined.back()) &&
               device_at(each.source) != WEIR_DEVICE_HOST;
           if (touches)
             joined.back().bytes += each.bytes;
           else
             joined.push_back(each);
         }
         if (joined.size() < count && batch(state, stream, joined) == WEIR_SUCCESS) return done;
         return real().copy_batch_async(state, stream, copies, count);
       };
     }},
    // "Enqueues all or none": a source may be copied to several places.
    {"batch_once_for_each_source", "of a batch's copies with one source only the last is done",
     "CP-025,CP-027,CP-029",
     [](weir_backend_table &t) {
       t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream,
                               const weir_be_copy *copies, uint32_t count) {
         std::map<uint64_t, weir_be_copy> by_source;
         for (const weir_be_copy &each : list(copies, count)) {
           // One that is to be refused makes the whole refused.
           if (each.bytes == 0) return real().copy_batch_async(state, stream, copies, count);
           by_source.insert_or_assign(each.source, each);
         }
         std::vector<weir_be_copy> kept;
         for (const auto &[source, each] : by_source) kept.push_back(each);
         return kept.size() < count ? batch(state, stream, kept)
                                    : real().copy_batch_async(state, stream, copies, count);
       };
     }},
    // "refused with INVALID_ARGUMENT, unless another result is named: sizes of 0".
    {"batch_with_bad_copy_is_backend", "a batch with a copy of 0 bytes is refused with BACKEND",
     "CP-018,CP-027,ST-028",
     [](weir_backend_table &t) {
       t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream,
                               const weir_be_copy *copies, uint32_t count) {
         const weir_result result = real().copy_batch_async(state, stream, copies, count);
         return result == refused && stream != nullptr && count > 1
                    ? weir_result{WEIR_ERROR_BACKEND}
                    : result;
       };
     }},
    // stream_host_call: "to run on a CPU thread in the stream's order".
    {"function_overtakes_batch", "a host function right behind a batch does not wait for it",
     "CP-026,ST-027,TH-019",
     [](weir_backend_table &t) {
       pay_debts<skip_calls>(t);
       t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         if (stream == nullptr) return real().copy_batch_async(state, stream, rest...);
         Owed<false>::pay(state, stream);
         const weir_be_stream queue = Aside::in_turn(state, stream);
         nap(state, queue);
         const weir_result result = real().copy_batch_async(state, queue, rest...);
         Owed<false>::owe(state, stream, queue);
         return result;
       };
       guard_frees(t);
     }},
    // The same, the other way: what comes after a host function waits until it has returned.
    {"batch_overtakes_function", "a batch right behind a host function does not wait for it",
     "CP-026,PE-023,ST-027",
     [](weir_backend_table &t) {
       pay_debts<skip_batches>(t);
       t.stream_host_call = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         if (stream == nullptr) return real().stream_host_call(state, stream, rest...);
         Owed<false>::pay(state, stream);
         const weir_be_stream queue = Aside::in_turn(state, stream);
         const weir_result result = real().stream_host_call(state, queue, rest...);
         Owed<false>::owe(state, stream, queue);
         return result;
       };
       guard_frees(t);
     }},
    // stream_wait: "Work enqueued on `stream` from now on runs after the fence": all copies of a batch.
    {"batch_waits_with_first_copy", "of a batch right behind a wait only the first copy waits",
     "CP-026,CP-027,CP-029",
     [](weir_backend_table &t) {
       pay_debts<skip_nothing>(t);
       t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
         Owed<false>::pay(state, stream);
         if (stream == nullptr || real().fence_poll(state, fence) != WEIR_NOT_READY)
           return real().stream_wait(state, stream, fence);
         Owed<false>::fences.put(native_of(state, stream), fence);
         return done;
       };
       t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream,
                               const weir_be_copy *copies, uint32_t count) {
         const bool waits =
             stream != nullptr && Owed<false>::fences.find(native_of(state, stream)).has_value();
         if (!waits || copies == nullptr || count < 2 || copies[0].bytes == 0) {
           Owed<false>::pay(state, stream);
           return real().copy_batch_async(state, stream, copies, count);
         }
         const weir_result result = real().copy_batch_async(state, stream, copies + 1, count - 1);
         Owed<false>::pay(state, stream);
         return result == WEIR_SUCCESS ? real().copy_batch_async(state, stream, copies, 1) : result;
       };
     }},
    // weir_be_copy: "bytes: how many", in 64 bits, in a batch too.
    {"batch_sizes_in_24_bits", "the size of a copy in a batch is kept in 24 bits", "CP-031",
     [](weir_backend_table &t) {
       t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream,
                               const weir_be_copy *copies, uint32_t count) {
         std::vector<weir_be_copy> cut = list(copies, count);
         for (weir_be_copy &each : cut)
           if (each.bytes % (16 * mebibyte) != 0) each.bytes %= 16 * mebibyte;
         return cut.empty() ? real().copy_batch_async(state, stream, copies, count)
                            : batch(state, stream, cut);
       };
     }},
    // copy_batch_async takes weir_be_copy: "Both sides are addresses: device addresses, or host memory", each for itself.
    {"batch_of_one_direction", "a batch with copies to the device and from it is refused", "CP-016",
     [](weir_backend_table &t) {
       note_places(t);
       t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream,
                               const weir_be_copy *copies, uint32_t count) {
         bool in = false, out = false;
         for (const weir_be_copy &each : list(copies, count)) {
           in = in || way_of(each) == Way::in;
           out = out || way_of(each) == Way::out;
         }
         return real().copy_batch_async(state, in && out ? nullptr : stream, copies, count);
       };
     }},
    // "On failure nothing has changed, nothing is leaked".
    {"refused_batches_keep_places", "a batch that is refused keeps one of 1,000 places", "CP-032",
     [](weir_backend_table &t) {
       static std::atomic<uint32_t> kept{0};
       t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         if (kept >= 1000) {
           (void)real().stream_query(state, nullptr);
           return weir_result{WEIR_ERROR_OUT_OF_HOST_MEMORY};
         }
         const weir_result result = real().copy_batch_async(state, stream, rest...);
         if (result != WEIR_SUCCESS) ++kept;
         return result;
       };
     }},
};

}  // namespace

std::span<const Fault> subtle_batch_faults() { return faults; }

}  // namespace weir::mutants
