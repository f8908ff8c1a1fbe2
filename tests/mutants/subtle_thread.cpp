// SPDX-License-Identifier: Apache-2.0
//
// Subtle faults of entries that several threads call, and of what an entry leaves of the thread that called it. As in
// faults_thread.cpp a thread waits in a window for company, and what threads share is atomic or in a Book.

#include "tests/mutants/subtle_work.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <atomic>
#include <thread>
#include <utility>

namespace weir::mutants {
namespace {

weir_result create(weir_be_state *state, uint32_t device, uint64_t flags, weir_be_stream *stream) {
  return real().stream_create(state, device, flags, stream);
}

/// Fails like a call that the runtime refused, with a code.
weir_result broken(weir_be_state *state) {
  (void)real().fence_poll(state, 0);
  return WEIR_ERROR_BACKEND;
}

/// The calling thread, by a number that is never another's, and those that have ended.
Book<uint64_t, bool> ended_threads;
struct Thread {
  uint64_t number = 0;
  Thread() {
    static std::atomic<uint64_t> last{0};
    number = ++last;
  }
  ~Thread() { ended_threads.put(number, true); }
  Thread(const Thread &) = delete;
  Thread &operator=(const Thread &) = delete;
};
uint64_t this_thread() {
  thread_local const Thread me;
  return me.number;
}

/// Whose a fence or a stream is: the thread that made it.
Book<weir_be_fence, uint64_t> fence_threads;
Book<weir_be_stream, uint64_t> stream_threads;

bool orphan(weir_be_fence fence) {
  const auto thread = fence_threads.find(fence);
  return thread && ended_threads.find(*thread);
}

/// NULL, which is refused, for a stream whose maker has ended.
weir_be_stream with_maker(weir_be_stream stream) {
  const auto thread = stream_threads.find(stream);
  return thread && ended_threads.find(*thread) ? nullptr : stream;
}

/// The fences that each thread has recorded and not destroyed.
Book<uint64_t, int64_t> outstanding;

/// Whether the thread's last copy was refused.
thread_local bool copy_refused = false;
/// Whether the thread's last failure was a batch.
thread_local bool batch_failed = false;

/// Streams on which a copy was refused.
Book<weir_be_stream, weir_result> refusals;

constexpr Fault faults[] = {
    // "Entries leave the calling thread's runtime state ... as they found it."
    {"refused_stream_leaves_signals_blocked",
     "stream_create blocks signals while it makes a thread, and leaves them so when it is refused",
     "RT-027",
     [](weir_backend_table &t) {
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         sigset_t all, before;
         sigfillset(&all);
         // What ends a program that went wrong is never blocked.
         for (const int signal :
              {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGINT, SIGTERM, SIGALRM})
           sigdelset(&all, signal);
         pthread_sigmask(SIG_BLOCK, &all, &before);
         const weir_result result = create(state, device, flags, stream);
         if (result == WEIR_SUCCESS) pthread_sigmask(SIG_SETMASK, &before, nullptr);
         return result;
       };
     }},
#if defined(__x86_64__)
    // The same sentence: a batch that is written with vector instructions, and small numbers that are 0 ever after.
    {"batch_leaves_flush_to_zero", "a batch leaves the thread's small floating-point numbers at 0",
     "RT-027",
     [](weir_backend_table &t) {
       t.copy_batch_async = [](auto... rest) {
         const weir_result result = real().copy_batch_async(rest...);
         _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
         return result;
       };
     }},
#endif
    // The same sentence: the name was meant for the worker.
    {"stream_names_calling_thread", "stream_create gives its worker's name to the calling thread",
     "RT-034",
     [](weir_backend_table &t) {
       t.stream_create = [](auto... rest) {
         const weir_result result = real().stream_create(rest...);
         if (result == WEIR_SUCCESS) (void)pthread_setname_np(pthread_self(), "gpu-queue");
         return result;
       };
     }},
    // The same sentence: the thread goes near the device and stays there.
    {"second_device_pins_thread",
     "stream_create for another device leaves the thread on the processors near that device",
     "RT-034",
     [](weir_backend_table &t) {
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         const weir_result result = create(state, device, flags, stream);
         cpu_set_t one;
         CPU_ZERO(&one);
         const int here = sched_getcpu();
         if (result != WEIR_SUCCESS || device == 0 || here < 0 || here >= CPU_SETSIZE)
           return result;
         CPU_SET(static_cast<size_t>(here), &one);
         (void)sched_setaffinity(0, sizeof one, &one);
         return result;
       };
     }},
    // The same sentence.
    {"synchronize_leaves_cancel_off",
     "stream_synchronize leaves the thread so that it can't be cancelled", "RT-034",
     [](weir_backend_table &t) {
       t.stream_synchronize = [](auto... rest) {
         int before = 0;
         (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
         return real().stream_synchronize(rest...);
       };
     }},
    // "last_error_code() gives the thread a code that is not 0 until its next call".
    {"no_code_for_refused_batch", "last_error_code is 0 after a batch was refused", "ER-015,ER-016",
     [](weir_backend_table &t) {
       t.copy_batch_async = [](auto... rest) {
         const weir_result result = real().copy_batch_async(rest...);
         batch_failed = result != WEIR_SUCCESS;
         return result;
       };
       t.copy_async = [](auto... rest) {
         batch_failed = false;
         return real().copy_async(rest...);
       };
       t.plain_allocate = [](auto... rest) {
         batch_failed = false;
         return real().plain_allocate(rest...);
       };
       t.stream_create = [](auto... rest) {
         batch_failed = false;
         return real().stream_create(rest...);
       };
       t.last_error_code = [](weir_be_state *state) {
         return batch_failed ? int64_t{0} : real().last_error_code(state);
       };
     }},
    // "On failure nothing has changed": the next call is what it would have been.
    {"refused_copy_spoils_record", "the first record of a thread after its copy was refused fails",
     "ER-016,ER-017,ST-028",
     [](weir_backend_table &t) {
       t.copy_async = [](auto... rest) {
         const weir_result result = real().copy_async(rest...);
         copy_refused = copy_refused || result != WEIR_SUCCESS;
         return result;
       };
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         if (std::exchange(copy_refused, false)) return broken(state);
         return real().fence_record(state, stream, fence);
       };
     }},
    // The same sentence, and another thread may meet it.
    {"refused_copy_told_by_synchronize",
     "who synchronizes a stream is told of the copy that it refused, as if it had failed",
     "CP-014,ER-009",
     [](weir_backend_table &t) {
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         const weir_result result = create(state, device, flags, stream);
         if (result == WEIR_SUCCESS) (void)refusals.take(*stream);
         return result;
       };
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *copy) {
         const weir_result result = real().copy_async(state, stream, copy);
         if (result != WEIR_SUCCESS && stream != nullptr) refusals.put(stream, result);
         return result;
       };
       t.stream_synchronize = [](weir_be_state *state, weir_be_stream stream) {
         const weir_result result = real().stream_synchronize(state, stream);
         return refusals.take(stream) ? broken(state) : result;
       };
     }},
    // STREAM_ANY_THREAD: "on one made by stream_create any may always" enqueue and record.
    {"stream_of_two_threads", "a stream takes fills from its maker and one more thread",
     "TH-019,TH-023",
     [](weir_backend_table &t) {
       static Book<std::pair<weir_be_stream, uint64_t>, bool> known;
       static Book<weir_be_stream, uint32_t> counts;
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         const weir_result result = create(state, device, flags, stream);
         if (result == WEIR_SUCCESS) counts.put(*stream, 0);
         if (result == WEIR_SUCCESS) stream_threads.put(*stream, this_thread());
         return result;
       };
       t.fill_async = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         const auto maker = stream_threads.find(stream);
         if (!maker || *maker == this_thread() || known.find({stream, this_thread()}))
           return real().fill_async(state, stream, rest...);
         const uint32_t count = counts.find(stream).value_or(0);
         if (count != 0) return real().fill_async(state, nullptr, rest...);
         counts.put(stream, count + 1);
         known.put({stream, this_thread()}, true);
         return real().fill_async(state, stream, rest...);
       };
     }},
    // "Entries are thread-safe": each thread's function is enqueued, with its user.
    {"function_of_thread_lost", "of two host functions that are enqueued at once one is lost",
     "TH-019",
     [](weir_backend_table &t) {
       static std::atomic<uint64_t> place{0};
       t.stream_host_call = [](weir_be_state *state, weir_be_stream stream,
                               weir_host_function function, void *user) {
         if (stream == nullptr || function == nullptr)
           return real().stream_host_call(state, stream, function, user);
         place = this_thread();
         window();
         if (place.load() == this_thread())
           return real().stream_host_call(state, stream, function, user);
         const auto nothing = [](void *) {};
         return real().stream_host_call(state, stream, nothing, nullptr);
       };
     }},
    // "Entries are thread-safe": batches of two threads, on two streams, have nothing to do with each other.
    {"batch_of_thread_lost", "batches are put together in one list: of two at once one is lost",
     "TH-019",
     [](weir_backend_table &t) {
       static std::atomic<uint64_t> list{0};
       t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         list = this_thread();
         window();
         return list.load() == this_thread() || stream == nullptr
                    ? real().copy_batch_async(state, stream, rest...)
                    : done;
       };
     }},
    // "Entries are thread-safe"; "Work enqueued on `stream` from now on runs after the fence", that fence.
    {"waits_of_threads_mixed", "of two stream_waits at once both wait for one fence", "TH-026",
     [](weir_backend_table &t) {
       static Book<weir_be_state *, weir_be_fence> current;
       t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
         if (stream == nullptr || fence == 0) return real().stream_wait(state, stream, fence);
         current.put(state, fence);
         window();
         return real().stream_wait(state, stream, current.find(state).value_or(fence));
       };
       t.stop = [](weir_be_state *state) {
         (void)current.take(state);
         real().stop(state);
       };
     }},
    // "Entries are thread-safe": a fill's value is the caller's own.
    {"fills_of_threads_mixed", "of two fills at once both write one value", "TH-027",
     [](weir_backend_table &t) {
       static std::atomic<uint8_t> current{0};
       t.fill_async = [](weir_be_state *state, weir_be_stream stream, uint64_t address,
                         uint8_t value, uint64_t bytes) {
         current = value;
         window();
         return real().fill_async(state, stream, address, current.load(), bytes);
       };
     }},
    // "waited for any number of times by any thread": whether or not the thread that recorded it lives.
    {"fences_end_with_their_thread", "fences are gone when the thread that recorded them has ended",
     "TH-025",
     [](weir_backend_table &t) {
       own_fences(t);
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         const weir_result result = OwnFences::record(state, stream, fence);
         if (result == WEIR_SUCCESS) fence_threads.put(*fence, this_thread());
         return result;
       };
       t.fence_poll = [](weir_be_state *state, weir_be_fence fence) {
         return real().fence_poll(state, orphan(fence) ? 0 : OwnFences::of(fence));
       };
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         return real().fence_wait(state, orphan(fence) ? 0 : OwnFences::of(fence), timeout_ns);
       };
     }},
    // STREAM_ANY_THREAD: "on one made by stream_create any may always", also when its maker is gone.
    {"streams_end_with_their_thread",
     "a stream takes no copies when the thread that made it has ended", "TH-025",
     [](weir_backend_table &t) {
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         const weir_result result = create(state, device, flags, stream);
         if (result == WEIR_SUCCESS) stream_threads.put(*stream, this_thread());
         return result;
       };
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *copy) {
         return real().copy_async(state, with_maker(stream), copy);
       };
       t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         return real().copy_batch_async(state, with_maker(stream), rest...);
       };
     }},
    // "destroyed once", by any thread: "Ends a fence".
    {"fences_destroyed_elsewhere_leak",
     "a fence keeps its place if another thread destroys it; a thread has 30,000", "LI-011",
     [](weir_backend_table &t) {
       own_fences(t);
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         const int64_t kept = outstanding.find(this_thread()).value_or(0);
         if (kept >= 30'000) return broken(state);
         const weir_result result = OwnFences::record(state, stream, fence);
         if (result != WEIR_SUCCESS) return result;
         fence_threads.put(*fence, this_thread());
         outstanding.put(this_thread(), kept + 1);
         return result;
       };
       t.fence_destroy = [](weir_be_state *state, weir_be_fence fence) {
         const auto thread = fence_threads.take(fence);
         if (thread && *thread == this_thread())
           outstanding.put(*thread, outstanding.find(*thread).value_or(0) - 1);
         return OwnFences::destroy(state, fence);
       };
     }},
};

}  // namespace

std::span<const Fault> subtle_thread_faults() { return faults; }

}  // namespace weir::mutants
