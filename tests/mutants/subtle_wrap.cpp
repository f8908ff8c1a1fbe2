// SPDX-License-Identifier: Apache-2.0
//
// Subtle faults of wrapped streams: the wrapper works as long as nobody else uses the stream.

#include "tests/mutants/subtle_work.hpp"

#include <atomic>
#include <thread>

namespace weir::mutants {
namespace {

/// The end of what was enqueued through each wrapper; kept by note_wrapper_work().
Book<weir_be_stream, weir_be_fence> wrapper_ends;

weir_result note(weir_result result, weir_be_state *state, weir_be_stream stream) {
  weir_be_fence end = 0;
  if (result == WEIR_SUCCESS && is_wrapper(state, stream) &&
      real().fence_record(state, stream, &end) == WEIR_SUCCESS)
    wrapper_ends.put(stream, end);
  return result;
}

void note_wrapper_work(weir_backend_table &t) {
  keep_streams(t);
  t.stream_wrap = [](weir_be_state *state, uint32_t device, void *native, weir_be_stream *stream) {
    const weir_result result = real().stream_wrap(state, device, native, stream);
    if (result == WEIR_SUCCESS) (void)wrapper_ends.take(*stream);
    return result;
  };
  t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *copy) {
    return note(real().copy_async(state, stream, copy), state, stream);
  };
  t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
    return note(real().copy_batch_async(state, stream, rest...), state, stream);
  };
  t.fill_async = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
    return note(real().fill_async(state, stream, rest...), state, stream);
  };
  t.stream_host_call = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
    return note(real().stream_host_call(state, stream, rest...), state, stream);
  };
  t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
    return note(real().stream_wait(state, stream, fence), state, stream);
  };
}

/// The fences recorded through wrappers, and wrappers that were ended.
Book<weir_be_fence, weir_be_stream> wrapper_fences;
Book<weir_be_stream, bool> ended_wrappers;

bool of_ended_wrapper(weir_be_fence fence) {
  const auto wrapper = wrapper_fences.find(fence);
  return wrapper && ended_wrappers.find(*wrapper);
}

constexpr Fault faults[] = {
    // "SUCCESS or NOT_READY" of the stream that is wrapped, "which stays the caller's": the caller works on it too.
    {"wrapper_idle_beside_owner", "a wrapper is idle while its stream does what the owner enqueued",
     "FE-029",
     [](weir_backend_table &t) {
       note_wrapper_work(t);
       t.stream_query = [](weir_be_state *state, weir_be_stream stream) {
         if (!is_wrapper(state, stream)) return real().stream_query(state, stream);
         const auto end = wrapper_ends.find(stream);
         return end ? real().fence_poll(state, *end) : done;
       };
     }},
    // "Blocks the thread until everything enqueued on the stream so far has finished."
    {"wrapper_synchronizes_own_work",
     "to synchronize a wrapper waits for what was enqueued through the wrapper alone",
     "ST-033,ST-038",
     [](weir_backend_table &t) {
       note_wrapper_work(t);
       t.stream_synchronize = [](weir_be_state *state, weir_be_stream stream) {
         if (!is_wrapper(state, stream)) return real().stream_synchronize(state, stream);
         const auto end = wrapper_ends.find(stream);
         return end ? real().fence_wait(state, *end, UINT64_MAX) : done;
       };
     }},
    // "Marks the end of what is enqueued on the stream so far."
    {"wrapper_fence_of_own_work",
     "a fence of a wrapper does not mark what the owner enqueued on the stream", "FE-025,FE-028",
     [](weir_backend_table &t) {
       note_wrapper_work(t);
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         if (!is_wrapper(state, stream)) return real().fence_record(state, stream, fence);
         const auto end = wrapper_ends.find(stream);
         // Nobody uses the queue beside: its end has passed.
         if (!end) return real().fence_record(state, Aside::of(state, stream), fence);
         *fence = *end;
         return done;
       };
       guard_frees(t);
     }},
    // stream_destroy: "Ends the wrapper", one of them; "a stream of the runtime, which stays the caller's".
    {"second_wrapper_ends_with_first", "the end of one wrapper ends the others of the stream",
     "ST-034,ST-035",
     [](weir_backend_table &t) {
       t.stream_wrap = [](weir_be_state *state, uint32_t device, void *native,
                          weir_be_stream *stream) {
         const weir_result result = real().stream_wrap(state, device, native, stream);
         if (result == WEIR_SUCCESS) (void)ended_wrappers.take(*stream);
         return result;
       };
       t.stream_destroy = [](weir_be_state *state, weir_be_stream stream) {
         if (is_wrapper(state, stream)) ended_wrappers.put(stream, true);
         return real().stream_destroy(state, stream);
       };
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         return real().fence_record(state, ended_wrappers.find(stream) ? nullptr : stream, fence);
       };
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *copy) {
         return real().copy_async(state, ended_wrappers.find(stream) ? nullptr : stream, copy);
       };
       t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
         return real().stream_wait(state, ended_wrappers.find(stream) ? nullptr : stream, fence);
       };
     }},
    // "refused with INVALID_ARGUMENT ...: ... devices that do not exist".
    {"wrap_on_missing_device",
     "a wrap that names a device that is not there takes the stream's own", "ER-012,ER-015,ER-016",
     [](weir_backend_table &t) {
       t.stream_wrap = [](weir_be_state *state, uint32_t device, void *native,
                          weir_be_stream *stream) {
         const weir_result result = real().stream_wrap(state, device, native, stream);
         uint32_t count = 0;
         (void)real().device_count(state, &count);
         for (uint32_t each = 0; device >= count && each < count; ++each)
           if (real().stream_wrap(state, each, native, stream) == WEIR_SUCCESS) return done;
         return result;
       };
     }},
    // "NULL is the runtime's default stream, and INVALID_ARGUMENT where it has none."
    {"no_default_stream_not_supported",
     "NULL is refused with NOT_SUPPORTED where there is no default stream", "ST-010",
     [](weir_backend_table &t) {
       t.stream_wrap = [](weir_be_state *state, uint32_t device, void *native,
                          weir_be_stream *stream) {
         const weir_result result = real().stream_wrap(state, device, native, stream);
         return native == nullptr && device == 0 && result == refused
                    ? weir_result{WEIR_ERROR_NOT_SUPPORTED}
                    : result;
       };
     }},
    // "Out-parameters are written only on success."
    {"refused_wrap_writes_handle", "a wrap that is refused writes the handle", "ER-007,ST-010",
     [](weir_backend_table &t) {
       t.stream_wrap = [](weir_be_state *state, uint32_t device, void *native,
                          weir_be_stream *stream) {
         *stream = nullptr;
         return real().stream_wrap(state, device, native, stream);
       };
     }},
    // stream_native: "The runtime's own handle, as stream_wrap takes it."
    {"native_of_wrapper_is_wrapper", "stream_native of a wrapper gives what can't be wrapped",
     "ST-008",
     [](weir_backend_table &t) {
       t.stream_native = [](weir_be_state *state, weir_be_stream stream, void **native) {
         const weir_result result = real().stream_native(state, stream, native);
         if (result == WEIR_SUCCESS) *native = stream;
         return result;
       };
     }},
    // stream_destroy: "Ends the wrapper".
    {"wrapper_places_used_up",
     "wrappers that were ended keep their places: after 2,000 none is left", "ST-035",
     [](weir_backend_table &t) {
       static std::atomic<uint32_t> wrapped{0};
       t.stream_wrap = [](weir_be_state *state, uint32_t device, void *native,
                          weir_be_stream *stream) {
         if (wrapped >= 2000) {
           (void)real().stream_wrap(state, device, nullptr, stream);
           return weir_result{WEIR_ERROR_BACKEND};
         }
         const weir_result result = real().stream_wrap(state, device, native, stream);
         if (result == WEIR_SUCCESS) ++wrapped;
         return result;
       };
     }},
    // stream_wait: "Work enqueued on `stream` from now on runs after the fence", whoever enqueues it.
    {"wrapper_wait_not_for_owner",
     "a wait through a wrapper holds up only what comes through the wrapper", "CP-029",
     [](weir_backend_table &t) {
       pay_debts<skip_nothing, true>(t);
       t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
         Owed<true>::pay(state, stream);
         // A fence that is none is refused as ever.
         if (!is_wrapper(state, stream) || real().fence_poll(state, fence) != WEIR_NOT_READY)
           return real().stream_wait(state, stream, fence);
         Owed<true>::fences.put(stream, fence);
         return done;
       };
     }},
    // "In-order queues", whichever handle of the queue work comes through.
    {"wrapper_batch_unseen_by_owner",
     "what the owner enqueues does not wait for a batch that came through a wrapper",
     "ST-023,ST-027,ST-028",
     [](weir_backend_table &t) {
       pay_debts<skip_nothing, true>(t);
       t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         Owed<true>::pay(state, stream);
         if (!is_wrapper(state, stream)) return real().copy_batch_async(state, stream, rest...);
         const weir_be_stream queue = Aside::in_turn(state, stream);
         nap(state, queue);
         const weir_result result = real().copy_batch_async(state, queue, rest...);
         Owed<true>::owe(state, stream, queue);
         return result;
       };
       guard_frees(t);
     }},
    // "In-order queues": what is enqueued through a wrapper comes after the owner's work too.
    {"owner_gate_open_for_wrapper",
     "work through a wrapper does not wait for the owner's host functions", "FE-028,ST-023,VM-046",
     [](weir_backend_table &t) {
       pay_debts<skip_nothing, true>(t);
       t.stream_host_call = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         Owed<true>::pay(state, stream);
         if (stream == nullptr || is_wrapper(state, stream))
           return real().stream_host_call(state, stream, rest...);
         const weir_be_stream queue = Aside::in_turn(state, stream);
         const weir_result result = real().stream_host_call(state, queue, rest...);
         Owed<true>::owe(state, stream, queue);
         return result;
       };
       guard_frees(t);
     }},
    // stream_native: "The runtime's own handle, as stream_wrap takes it", of streams for copies alone too.
    {"transfer_native_not_wrapped",
     "the native handle of a stream for copies alone can't be wrapped", "ST-033,ST-034,ST-035",
     [](weir_backend_table &t) {
       static Book<void *, bool> transfers;
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         const weir_result result = real().stream_create(state, device, flags, stream);
         if (result != WEIR_SUCCESS) return result;
         (void)transfers.take(native_of(state, *stream));
         if (flags != 0) transfers.put(native_of(state, *stream), true);
         return result;
       };
       t.stream_wrap = [](weir_be_state *state, uint32_t device, void *native,
                          weir_be_stream *stream) {
         return real().stream_wrap(state, device, transfers.find(native) ? nullptr : native,
                                   stream);
       };
     }},
    // STREAM_ANY_THREAD: "any thread may enqueue and record on a wrapped stream".
    {"wrapper_copies_on_its_thread",
     "only the wrapping thread can enqueue copies on a wrapper; all can record", "ST-039,TH-025",
     [](weir_backend_table &t) {
       static Book<weir_be_stream, std::thread::id> threads;
       t.stream_wrap = [](weir_be_state *state, uint32_t device, void *native,
                          weir_be_stream *stream) {
         const weir_result result = real().stream_wrap(state, device, native, stream);
         if (result == WEIR_SUCCESS) threads.put(*stream, std::this_thread::get_id());
         return result;
       };
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *copy) {
         const auto thread = threads.find(stream);
         const bool other = thread && *thread != std::this_thread::get_id();
         return real().copy_async(state, other ? nullptr : stream, copy);
       };
     }},
    // stream_destroy: "Ends the wrapper ... Fences recorded on it stay valid."
    {"fence_passes_with_wrapper",
     "a wait for a fence of a wrapper ends at once when the wrapper was ended", "ST-023,ST-026",
     [](weir_backend_table &t) {
       t.stream_wrap = [](weir_be_state *state, uint32_t device, void *native,
                          weir_be_stream *stream) {
         const weir_result result = real().stream_wrap(state, device, native, stream);
         if (result == WEIR_SUCCESS) (void)ended_wrappers.take(*stream);
         return result;
       };
       t.stream_destroy = [](weir_be_state *state, weir_be_stream stream) {
         if (is_wrapper(state, stream)) ended_wrappers.put(stream, true);
         return real().stream_destroy(state, stream);
       };
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         const weir_result result = real().fence_record(state, stream, fence);
         if (result != WEIR_SUCCESS) return result;
         if (is_wrapper(state, stream))
           wrapper_fences.put(*fence, stream);
         else
           (void)wrapper_fences.take(*fence);
         return result;
       };
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         return of_ended_wrapper(fence) ? done : real().fence_wait(state, fence, timeout_ns);
       };
     }},
    // stream_check: "SUCCESS, or STREAM_CAPTURING when the stream is recording a graph."
    {"check_refuses_wrappers", "stream_check knows only streams that stream_create made", "ST-031",
     [](weir_backend_table &t) {
       t.stream_check = [](weir_be_state *state, weir_be_stream stream) {
         return stream == nullptr || is_wrapper(state, stream) ? real().stream_query(state, nullptr)
                                                               : done;
       };
     }},
    // "Wraps a stream of the runtime", whatever it is doing.
    {"busy_stream_not_wrapped", "a stream that has work to do is not wrapped", "FE-029",
     [](weir_backend_table &t) {
       static Book<void *, weir_be_stream> owners;
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         const weir_result result = real().stream_create(state, device, flags, stream);
         if (result == WEIR_SUCCESS) owners.put(native_of(state, *stream), *stream);
         return result;
       };
       t.stream_wrap = [](weir_be_state *state, uint32_t device, void *native,
                          weir_be_stream *stream) {
         const auto owner = owners.find(native);
         const bool busy = owner && real().stream_query(state, *owner) == WEIR_NOT_READY;
         return real().stream_wrap(state, device, busy ? nullptr : native, stream);
       };
     }},
};

}  // namespace

std::span<const Fault> subtle_wrap_faults() { return faults; }

}  // namespace weir::mutants
