// SPDX-License-Identifier: Apache-2.0
//
// Subtle faults of fences: of what they mark, of who waits for them, and of their end.

#include "tests/mutants/subtle_work.hpp"

#include <array>
#include <atomic>
#include <memory>

namespace weir::mutants {
namespace {

constexpr uint64_t millisecond = 1'000'000;

weir_result record(weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
  return real().fence_record(state, stream, fence);
}

weir_result wait_for(weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
  return real().stream_wait(state, stream, fence);
}

/// Fails like a call that the runtime refused, with a code.
weir_result broken(weir_be_state *state) {
  (void)real().fence_poll(state, 0);
  return WEIR_ERROR_BACKEND;
}

/// What was before the waits that are the last work of a stream: by native stream.
Book<void *, weir_be_fence> before_waits;

void note_work(weir_be_state *state, weir_be_stream stream) {
  if (stream != nullptr) (void)before_waits.take(native_of(state, stream));
}

/// A wait for a fence of OwnFences that ends when the fence was destroyed.
struct Watch {
  weir_be_state *state = nullptr;
  weir_be_fence fence = 0;
  static void run(void *self) {
    const std::unique_ptr<Watch> watch(static_cast<Watch *>(self));
    weir_be_fence real_fence = OwnFences::of(watch->fence);
    while (real_fence != 0 &&
           real().fence_wait(watch->state, real_fence, millisecond) == WEIR_ERROR_TIMEOUT)
      real_fence = OwnFences::of(watch->fence);
  }
};

/// Streams that were destroyed, by handle.
Book<weir_be_stream, bool> ended_streams;

void note_ended(weir_backend_table &t) {
  t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                       weir_be_stream *stream) {
    const weir_result result = real().stream_create(state, device, flags, stream);
    if (result == WEIR_SUCCESS) (void)ended_streams.take(*stream);
    return result;
  };
  t.stream_destroy = [](weir_be_state *state, weir_be_stream stream) {
    const weir_result result = real().stream_destroy(state, stream);
    if (result == WEIR_SUCCESS) ended_streams.put(stream, true);
    return result;
  };
}

constexpr Fault faults[] = {
    // "Marks the end of what is enqueued on the stream so far", and what was enqueued after a wait "runs after the fence".
    {"fence_right_after_wait_passes",
     "a fence that is recorded right after a wait passes before what was waited for",
     "FE-014,FE-017,FE-019",
     [](weir_backend_table &t) {
       t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
         weir_be_fence before = 0;
         const weir_result known = record(state, stream, &before);
         const weir_result result = wait_for(state, stream, fence);
         if (result == WEIR_SUCCESS && known == WEIR_SUCCESS &&
             !before_waits.find(native_of(state, stream)))
           before_waits.put(native_of(state, stream), before);
         return result;
       };
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         const auto before =
             stream != nullptr ? before_waits.find(native_of(state, stream)) : std::nullopt;
         if (!before) return record(state, stream, fence);
         *fence = *before;
         return done;
       };
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         const weir_result result = real().stream_create(state, device, flags, stream);
         if (result == WEIR_SUCCESS) note_work(state, *stream);
         return result;
       };
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *copy) {
         note_work(state, stream);
         return real().copy_async(state, stream, copy);
       };
       t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         note_work(state, stream);
         return real().copy_batch_async(state, stream, rest...);
       };
       t.fill_async = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         note_work(state, stream);
         return real().fill_async(state, stream, rest...);
       };
       t.stream_host_call = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         note_work(state, stream);
         return real().stream_host_call(state, stream, rest...);
       };
     }},
    // "A fence is recorded once, waited for any number of times": it means its own point for as long as it lives.
    {"fence_numbers_in_16_bits",
     "fences have 65,536 numbers: one more than that means another's point, though both live",
     "LI-011",
     [](weir_backend_table &t) {
       static std::array<std::atomic<weir_be_fence>, 65536> points;
       static std::array<std::atomic<weir_be_state *>, 65536> states;
       static std::atomic<uint32_t> next{0};
       const auto point = [](weir_be_state *state, weir_be_fence fence) {
         const bool known = fence >= 1 && fence <= points.size() && states[fence - 1] == state;
         return known ? points[fence - 1].load() : 0;
       };
       static uint64_t (*const point_of)(weir_be_state *, weir_be_fence) = point;
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         weir_be_fence made = 0;
         const weir_result result = record(state, stream, &made);
         if (result != WEIR_SUCCESS) return result;
         const uint32_t number = next++ % 65536;
         points[number] = made;
         states[number] = state;
         *fence = number + 1;
         return result;
       };
       t.fence_poll = [](weir_be_state *state, weir_be_fence fence) {
         return real().fence_poll(state, point_of(state, fence));
       };
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         // Not for ever: the other's point may be held up by who waits here.
         const bool limited = timeout_ns != UINT64_MAX;
         return real().fence_wait(state, point_of(state, fence),
                                  limited ? timeout_ns : 20'000 * millisecond);
       };
       t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
         return wait_for(state, stream, point_of(state, fence));
       };
     }},
    // fence_destroy: "Ends a fence, passed or not"; work enqueued after stream_wait "runs after the fence" all the same.
    {"wait_ends_with_fence",
     "a stream that waits for a fence goes on when the fence is destroyed, passed or not", "FE-017",
     [](weir_backend_table &t) {
       own_fences(t);
       t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
         const weir_be_fence known = OwnFences::of(fence);
         if (stream == nullptr || real().fence_poll(state, known) != WEIR_NOT_READY)
           return wait_for(state, stream, known);
         auto watch = std::make_unique<Watch>(Watch{state, fence});
         if (real().stream_host_call(state, stream, Watch::run, watch.get()) != WEIR_SUCCESS)
           return wait_for(state, stream, known);
         (void)watch.release();
         return done;
       };
     }},
    // "waited for any number of times by any thread or stream".
    {"fence_of_128_waits", "a fence has room for 128 streams that wait; one more does not wait",
     "ST-036",
     [](weir_backend_table &t) {
       own_fences(t);
       static Book<weir_be_fence, uint32_t> waits;
       t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
         const uint32_t before = waits.find(fence).value_or(0);
         waits.put(fence, before + 1);
         return stream != nullptr && OwnFences::of(fence) != 0 && before >= 128
                    ? done
                    : wait_for(state, stream, OwnFences::of(fence));
       };
       t.fence_destroy = [](weir_be_state *state, weir_be_fence fence) {
         (void)waits.take(fence);
         return OwnFences::destroy(state, fence);
       };
     }},
    // "Work enqueued on `stream` from now on runs after the fence", also between streams of one device that is not the first.
    {"wait_in_second_device_dropped",
     "a wait between two streams of one device is left out, but on the first device",
     "HM-018,LI-012,ST-030",
     [](weir_backend_table &t) {
       keep_streams(t);
       own_fences(t);
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         const weir_result result = OwnFences::record(state, stream, fence);
         // Of the stream only the device is wanted, which its handle in `living` may outlive.
         if (result == WEIR_SUCCESS && device_of(state, stream) == 0)
           OwnFences::living.put(*fence, {OwnFences::of(*fence), nullptr});
         return result;
       };
       t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
         const auto known = OwnFences::living.find(fence);
         const bool near = known && known->stream != nullptr && known->stream != stream &&
                           device_of(state, stream) != 0;
         return near ? done : wait_for(state, stream, OwnFences::of(fence));
       };
     }},
    // "Work enqueued on `stream` from now on runs after the fence": after each fence that was named.
    {"last_wait_wins", "of two waits in a row a stream keeps the second one", "CP-029,LI-012",
     [](weir_backend_table &t) {
       pay_debts<skip_nothing>(t);
       t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
         if (stream == nullptr || real().fence_poll(state, fence) != WEIR_NOT_READY)
           return wait_for(state, stream, fence);
         Owed<false>::fences.put(native_of(state, stream), fence);
         return done;
       };
     }},
    // "Work enqueued on `stream` from now on runs after the fence", host functions too.
    {"function_skips_wait", "a host function right after a wait does not wait; copies and fills do",
     "ST-037,FE-024",
     [](weir_backend_table &t) {
       pay_debts<skip_calls>(t);
       t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
         Owed<false>::pay(state, stream);
         if (stream == nullptr || real().fence_poll(state, fence) != WEIR_NOT_READY)
           return wait_for(state, stream, fence);
         Owed<false>::fences.put(native_of(state, stream), fence);
         return done;
       };
     }},
    // "recorded once, ... destroyed once": each record makes a fence that is ended by itself.
    {"equal_fences_end_together",
     "two fences of one point are one: when the first is destroyed the second is unknown",
     "FE-015,FE-016,LI-001",
     [](weir_backend_table &t) {
       own_fences(t);
       static Book<weir_be_fence, weir_be_fence> points;
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         weir_be_fence made = 0;
         const weir_result result = record(state, stream, &made);
         if (result != WEIR_SUCCESS) return result;
         const auto equal = points.find(made);
         if (equal && OwnFences::of(*equal) == made) {
           *fence = *equal;
           return result;
         }
         const weir_result again = OwnFences::record(state, stream, fence);
         if (again == WEIR_SUCCESS) points.put(OwnFences::of(*fence), *fence);
         return again;
       };
     }},
    // start: "several states may exist"; stop: "Frees everything the state still owns", that state.
    {"stop_ends_fences_of_all", "stopping a state ends the fences of the other states too",
     "RT-027",
     [](weir_backend_table &t) {
       own_fences(t);
       static std::atomic<uint64_t> ended{0};
       t.stop = [](weir_be_state *state) {
         real().stop(state);
         ended = OwnFences::last.load();
       };
       t.fence_poll = [](weir_be_state *state, weir_be_fence fence) {
         return real().fence_poll(state, fence > ended ? OwnFences::of(fence) : 0);
       };
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         return real().fence_wait(state, fence > ended ? OwnFences::of(fence) : 0, timeout_ns);
       };
     }},
    // stream_destroy: "Fences recorded on it stay valid"; "waited for ... by any ... stream".
    {"wait_for_ended_stream_dropped",
     "a stream does not wait for a fence whose stream was destroyed with work to do",
     "FE-027,VM-037,VM-046",
     [](weir_backend_table &t) {
       note_ended(t);
       own_fences(t);
       t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
         const auto known = OwnFences::living.find(fence);
         return stream != nullptr && known && ended_streams.find(known->stream)
                    ? done
                    : wait_for(state, stream, OwnFences::of(fence));
       };
     }},
    // fence_poll: "SUCCESS or NOT_READY"; "different streams are unordered".
    {"fences_pass_in_order_of_record",
     "when a fence is seen to have passed, all that were recorded before it have, on any stream",
     "FE-032",
     [](weir_backend_table &t) {
       own_fences(t);
       static std::atomic<uint64_t> passed{0};
       t.fence_poll = [](weir_be_state *state, weir_be_fence fence) {
         const weir_be_fence known = OwnFences::of(fence);
         if (known != 0 && fence <= passed) return done;
         const weir_result result = real().fence_poll(state, known);
         if (result == WEIR_SUCCESS) passed = fence;
         return result;
       };
     }},
    // "Ends a fence, passed or not": the place of one that has not passed is free again too.
    {"unpassed_fences_keep_places",
     "a fence that is destroyed before it has passed keeps its place; there are 10,000", "FE-033",
     [](weir_backend_table &t) {
       static std::atomic<uint32_t> kept{0};
       t.fence_destroy = [](weir_be_state *state, weir_be_fence fence) {
         if (real().fence_poll(state, fence) == WEIR_NOT_READY) ++kept;
         return real().fence_destroy(state, fence);
       };
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         return kept < 10'000 ? record(state, stream, fence) : broken(state);
       };
     }},
    // "Marks the end of what is enqueued on the stream", of any device; runtimes' events belong to one.
    {"spare_fence_of_other_device",
     "a fence of one device is taken again for another, whose runtime refuses it",
     "LI-011,LI-013,LI-018",
     [](weir_backend_table &t) {
       keep_streams(t);
       own_fences(t);
       static Book<weir_be_fence, uint32_t> devices;
       static std::atomic<uint64_t> spare{0};  // the device + 1 of the one given back last
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         const uint32_t device = device_of(state, stream);
         const uint64_t last = spare.exchange(0);
         if (stream != nullptr && last != 0 && last != device + UINT64_C(1)) return broken(state);
         const weir_result result = OwnFences::record(state, stream, fence);
         if (result == WEIR_SUCCESS) devices.put(*fence, device);
         return result;
       };
       t.fence_destroy = [](weir_be_state *state, weir_be_fence fence) {
         if (const auto device = devices.take(fence)) spare = *device + UINT64_C(1);
         return OwnFences::destroy(state, fence);
       };
     }},
    // "Out-parameters are written only on success."
    {"refused_record_writes_fence", "a record that is refused writes the fence", "ER-013",
     [](weir_backend_table &t) {
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         *fence = 0;
         return record(state, stream, fence);
       };
     }},
    // weir_be_fence: "0 is none"; "What a comment does not allow and the backend can see is refused with INVALID_ARGUMENT".
    {"none_fence_is_waited_for", "stream_wait takes none for a fence that has passed",
     "ER-015,ER-016,ER-017",
     [](weir_backend_table &t) {
       t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
         return stream != nullptr && fence == 0 ? done : wait_for(state, stream, fence);
       };
     }},
    // The same, and fence_wait is to refuse; the sentence has one result for it, INVALID_ARGUMENT.
    {"none_fence_times_out", "fence_wait says TIMEOUT of none, as of a fence that has not passed",
     "ER-013,ER-015",
     [](weir_backend_table &t) {
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         return fence == 0 ? weir_result{WEIR_ERROR_TIMEOUT}
                           : real().fence_wait(state, fence, timeout_ns);
       };
     }},
};

}  // namespace

std::span<const Fault> subtle_fence_faults() { return faults; }

}  // namespace weir::mutants
