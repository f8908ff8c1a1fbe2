// SPDX-License-Identifier: Apache-2.0
//
// Subtle faults of streams as queues: what is asked of them while they wait, what they leave out of an answer, and what a state
// that is stopped leaves to the next.

#include "tests/mutants/subtle_work.hpp"

#include <atomic>

namespace weir::mutants {
namespace {

/// The last wait of each stream, if no work came after it: by native stream.
Book<void *, weir_be_fence> last_waits;

void forget_wait(weir_be_state *state, weir_be_stream stream) {
  if (stream != nullptr) (void)last_waits.take(native_of(state, stream));
}

/// Streams for copies alone, by native stream, and what was recorded on them.
Book<void *, bool> transfers;
Book<weir_be_fence, bool> transfer_fences;

bool is_transfer(weir_be_state *state, weir_be_stream stream) {
  return stream != nullptr && transfers.find(native_of(state, stream)).has_value();
}

void note_transfer(weir_be_state *state, weir_be_stream stream, uint64_t flags) {
  (void)transfers.take(native_of(state, stream));
  if (flags != 0) transfers.put(native_of(state, stream), true);
}

/// Streams that the thread has found idle, by native stream.
thread_local Book<void *, bool> idle;

constexpr Fault faults[] = {
    // stream_native: "The runtime's own handle, as stream_wrap takes it", which is told the device that stream_create was told.
    {"second_device_streams_on_first", "streams of another device are made on the first",
     "LI-013,RT-024,TH-020",
     [](weir_backend_table &t) {
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         uint32_t count = 0;
         (void)real().device_count(state, &count);
         return real().stream_create(state, device < count ? 0 : device, flags, stream);
       };
     }},
    // stream_query: "SUCCESS or NOT_READY".
    {"query_waiting_is_busy", "stream_query says BUSY of a stream that waits for a fence", "FE-011",
     [](weir_backend_table &t) {
       t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
         const weir_result result = real().stream_wait(state, stream, fence);
         if (result == WEIR_SUCCESS) last_waits.put(native_of(state, stream), fence);
         return result;
       };
       t.stream_query = [](weir_be_state *state, weir_be_stream stream) {
         const weir_result result = real().stream_query(state, stream);
         if (result != WEIR_NOT_READY) return result;
         const auto fence = last_waits.find(native_of(state, stream));
         return fence && real().fence_poll(state, *fence) == WEIR_NOT_READY
                    ? weir_result{WEIR_ERROR_BUSY}
                    : result;
       };
     }},
    // stream_query: "asked again, it is SUCCESS".
    {"wrapped_stream_never_idle", "stream_query never says of a wrapped stream that all is done",
     "ST-023",
     [](weir_backend_table &t) {
       static Book<weir_be_stream, bool> wrapped;
       t.stream_wrap = [](weir_be_state *state, uint32_t device, void *native,
                          weir_be_stream *stream) {
         const weir_result result = real().stream_wrap(state, device, native, stream);
         if (result == WEIR_SUCCESS) wrapped.put(*stream, true);
         return result;
       };
       t.stream_destroy = [](weir_be_state *state, weir_be_stream stream) {
         (void)wrapped.take(stream);
         return real().stream_destroy(state, stream);
       };
       t.stream_query = [](weir_be_state *state, weir_be_stream stream) {
         const weir_result result = real().stream_query(state, stream);
         return wrapped.find(stream) ? weir_result{WEIR_NOT_READY} : result;
       };
     }},
    // stream_check: "SUCCESS, or STREAM_CAPTURING when the stream is recording a graph."
    {"check_answers_not_ready", "stream_check says NOT_READY of a stream that has work to do",
     "ST-017",
     [](weir_backend_table &t) {
       t.stream_check = [](weir_be_state *state, weir_be_stream stream) {
         return real().stream_query(state, stream);
       };
     }},
    // weir_be_stream: "NULL is none"; "What a comment does not allow and the backend can see is refused with INVALID_ARGUMENT".
    {"none_stream_is_idle",
     "stream_query and stream_synchronize take none for a stream that is idle",
     "ER-015,ER-016,ER-017",
     [](weir_backend_table &t) {
       t.stream_query = [](weir_be_state *state, weir_be_stream stream) {
         return stream == nullptr ? done : real().stream_query(state, stream);
       };
       t.stream_synchronize = [](weir_be_state *state, weir_be_stream stream) {
         return stream == nullptr ? done : real().stream_synchronize(state, stream);
       };
     }},
    // stop: "Frees everything the state still owns, also when its streams have work to do"; "several states may exist".
    {"busy_stop_spoils_next_stream",
     "after a state was stopped while a stream had work to do, the next stream is refused",
     "RT-019",
     [](weir_backend_table &t) {
       static Book<weir_be_state *, weir_be_fence> ends;
       static std::atomic<bool> spoilt{false};
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *copy) {
         const weir_result result = real().copy_async(state, stream, copy);
         weir_be_fence end = 0;
         if (result == WEIR_SUCCESS && real().fence_record(state, stream, &end) == WEIR_SUCCESS)
           ends.put(state, end);
         return result;
       };
       t.stop = [](weir_be_state *state) {
         const auto end = ends.take(state);
         if (end && real().fence_poll(state, *end) == WEIR_NOT_READY) spoilt = true;
         real().stop(state);
       };
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         if (!spoilt.exchange(false)) return real().stream_create(state, device, flags, stream);
         (void)real().stream_query(state, nullptr);
         return weir_result{WEIR_ERROR_BACKEND};
       };
     }},
    // "waited for any number of times by any thread or stream of the backend".
    {"transfer_fence_unheard",
     "ordinary streams do not wait for fences of streams for copies alone", "ST-022",
     [](weir_backend_table &t) {
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         const weir_result result = real().stream_create(state, device, flags, stream);
         if (result == WEIR_SUCCESS) note_transfer(state, *stream, flags);
         return result;
       };
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         const weir_result result = real().fence_record(state, stream, fence);
         if (result != WEIR_SUCCESS) return result;
         (void)transfer_fences.take(*fence);
         if (is_transfer(state, stream)) transfer_fences.put(*fence, true);
         return result;
       };
       t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
         return stream != nullptr && !is_transfer(state, stream) && transfer_fences.find(fence)
                    ? done
                    : real().stream_wait(state, stream, fence);
       };
     }},
    // stream_wait: "Work enqueued on `stream` from now on runs after the fence", a batch too.
    {"transfer_batch_skips_wait",
     "on a stream for copies alone a batch right after a wait does not wait",
     "CP-026,FE-024,TH-019",
     [](weir_backend_table &t) {
       pay_debts<skip_nothing>(t);
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         const weir_result result = real().stream_create(state, device, flags, stream);
         if (result != WEIR_SUCCESS) return result;
         (void)Aside::queues.take(native_of(state, *stream));
         (void)Owed<false>::fences.take(native_of(state, *stream));
         note_transfer(state, *stream, flags);
         return result;
       };
       t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
         if (!is_transfer(state, stream)) return real().stream_wait(state, stream, fence);
         // What came before the wait is waited for; the batch that follows goes beside.
         Owed<false>::pay(state, stream);
         (void)Aside::in_turn(state, stream);
         const weir_result result = real().stream_wait(state, stream, fence);
         if (result == WEIR_SUCCESS) last_waits.put(native_of(state, stream), fence);
         return result;
       };
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *copy) {
         forget_wait(state, stream);
         Owed<false>::pay(state, stream);
         return real().copy_async(state, stream, copy);
       };
       t.fill_async = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         forget_wait(state, stream);
         Owed<false>::pay(state, stream);
         return real().fill_async(state, stream, rest...);
       };
       t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         Owed<false>::pay(state, stream);
         if (!is_transfer(state, stream) || !last_waits.take(native_of(state, stream)))
           return real().copy_batch_async(state, stream, rest...);
         const weir_be_stream queue = Aside::of(state, stream);
         const weir_result result = real().copy_batch_async(state, queue, rest...);
         Owed<false>::owe(state, stream, queue);
         return result;
       };
       guard_frees(t);
     }},
    // stream_query: SUCCESS means that everything on the stream has finished, as with stream_synchronize.
    {"query_forgets_fills", "a fill is done by another engine, which stream_query does not ask",
     "ST-028",
     [](weir_backend_table &t) {
       pay_debts<skip_queries>(t);
       t.fill_async = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         if (stream == nullptr) return real().fill_async(state, stream, rest...);
         Owed<false>::pay(state, stream);
         const weir_be_stream queue = Aside::in_turn(state, stream);
         nap(state, queue);
         const weir_result result = real().fill_async(state, queue, rest...);
         Owed<false>::owe(state, stream, queue);
         return result;
       };
       guard_frees(t);
     }},
    // "Blocks the thread until everything enqueued on the stream so far has finished", batches too.
    {"synchronize_forgets_batches",
     "a batch is done by another engine, which stream_synchronize does not ask",
     "CP-016,LI-004,PE-009",
     [](weir_backend_table &t) {
       pay_debts<skip_synchronizes>(t);
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
    // stream_query: "SUCCESS or NOT_READY", of any stream of the backend, not the one that was asked about last.
    {"query_idle_once_is_idle",
     "a stream that was found idle is idle until work comes from the thread that asked", "ST-039",
     [](weir_backend_table &t) {
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         const weir_result result = real().stream_create(state, device, flags, stream);
         if (result == WEIR_SUCCESS) (void)idle.take(native_of(state, *stream));
         return result;
       };
       t.stream_query = [](weir_be_state *state, weir_be_stream stream) {
         if (stream != nullptr && idle.find(native_of(state, stream))) return done;
         const weir_result result = real().stream_query(state, stream);
         if (result == WEIR_SUCCESS) idle.put(native_of(state, stream), true);
         return result;
       };
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *copy) {
         if (stream != nullptr) (void)idle.take(native_of(state, stream));
         return real().copy_async(state, stream, copy);
       };
       t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         if (stream != nullptr) (void)idle.take(native_of(state, stream));
         return real().copy_batch_async(state, stream, rest...);
       };
       t.fill_async = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         if (stream != nullptr) (void)idle.take(native_of(state, stream));
         return real().fill_async(state, stream, rest...);
       };
       t.stream_host_call = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         if (stream != nullptr) (void)idle.take(native_of(state, stream));
         return real().stream_host_call(state, stream, rest...);
       };
       t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
         if (stream != nullptr) (void)idle.take(native_of(state, stream));
         return real().stream_wait(state, stream, fence);
       };
     }},
};

}  // namespace

std::span<const Fault> subtle_queue_faults() { return faults; }

}  // namespace weir::mutants
