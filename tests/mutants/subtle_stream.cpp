// SPDX-License-Identifier: Apache-2.0
//
// Subtle faults of streams: of making and ending them, of asking them and of host functions.

#include "tests/mutants/subtle_work.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

namespace weir::mutants {
namespace {

constexpr uint64_t millisecond = 1'000'000;

weir_result create(weir_be_state *state, uint32_t device, uint64_t flags, weir_be_stream *stream) {
  return real().stream_create(state, device, flags, stream);
}

/// Fails like a call that the runtime refused, with a code.
weir_result broken(weir_be_state *state) {
  (void)real().stream_query(state, nullptr);
  return WEIR_ERROR_BACKEND;
}

/// Whether streams were ended, told to work that is still in them: by native stream.
using Flag = std::shared_ptr<std::atomic<bool>>;
Book<void *, Flag> ends;

Flag end_of(weir_be_state *state, weir_be_stream stream) {
  return ends.find(native_of(state, stream)).value_or(nullptr);
}

void note_ends(weir_backend_table &t) {
  t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                       weir_be_stream *stream) {
    const weir_result result = create(state, device, flags, stream);
    if (result == WEIR_SUCCESS)
      ends.put(native_of(state, *stream), std::make_shared<std::atomic<bool>>(false));
    return result;
  };
  t.stream_destroy = [](weir_be_state *state, weir_be_stream stream) {
    const bool owner = stream != nullptr && !is_wrapper(state, stream);
    const Flag end = owner ? end_of(state, stream) : nullptr;
    const weir_result result = real().stream_destroy(state, stream);
    if (result == WEIR_SUCCESS && end != nullptr) end->store(true);
    return result;
  };
}

/// A host function that is to be left out where its stream has ended.
struct Call {
  weir_host_function function = nullptr;
  void *user = nullptr;
  Flag ended;
  static void run(void *self) {
    const std::unique_ptr<Call> call(static_cast<Call *>(self));
    if (call->ended == nullptr || !call->ended->load()) call->function(call->user);
  }
};

/// A wait for a fence that is given up when the stream has ended.
struct Wait {
  weir_be_state *state = nullptr;
  weir_be_fence fence = 0;
  Flag ended;
  static void run(void *self) {
    const std::unique_ptr<Wait> wait(static_cast<Wait *>(self));
    while (!wait->ended->load() &&
           real().fence_wait(wait->state, wait->fence, millisecond) == WEIR_ERROR_TIMEOUT) {
    }
  }
};

constexpr Fault faults[] = {
    // "unknown flags" are INVALID_ARGUMENT; `flags` are 64 bits.
    {"stream_flags_in_32_bits", "of a stream's flags only the lower half is looked at", "ST-002",
     [](weir_backend_table &t) {
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         return create(state, device, flags & UINT32_MAX, stream);
       };
     }},
    // WEIR_BE_STREAM_TRANSFER "without it is INVALID_ARGUMENT"; "unknown flags" are too.
    {"stream_flags_not_supported", "unknown flags of a stream are refused with NOT_SUPPORTED",
     "ER-007,ER-013,ST-002",
     [](weir_backend_table &t) {
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         const weir_result result = create(state, device, flags, stream);
         return flags != 0 && result == refused ? weir_result{WEIR_ERROR_NOT_SUPPORTED} : result;
       };
     }},
    // TRANSFER_STREAM, told by a device: "stream_create takes WEIR_BE_STREAM_TRANSFER".
    {"transfer_on_first_device_only", "only the first device makes the streams for copies alone",
     "CA-018,CA-019,VM-035",
     [](weir_backend_table &t) {
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         return create(state, device, device != 0 && flags != 0 ? UINT64_MAX : flags, stream);
       };
     }},
    // stream_destroy: "a native stream made by stream_create ends too".
    {"transfer_queue_not_given_back",
     "a stream for copies alone keeps its engine when it has ended; there are 128", "ST-035,ST-036",
     [](weir_backend_table &t) {
       static std::atomic<uint32_t> used{0};
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         if (flags == WEIR_BE_STREAM_TRANSFER && used >= 128) return broken(state);
         const weir_result result = create(state, device, flags, stream);
         if (result == WEIR_SUCCESS && flags != 0) ++used;
         return result;
       };
     }},
    // "On failure nothing has changed, nothing is leaked".
    {"refused_stream_takes_place", "a stream that was refused keeps one of 512 places",
     "ER-008,ER-014",
     [](weir_backend_table &t) {
       static std::atomic<int> lost{0};
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         if (lost >= 512) return broken(state);
         const weir_result result = create(state, device, flags, stream);
         if (result != WEIR_SUCCESS) ++lost;
         return result;
       };
     }},
    // stream_destroy: "ends too, after its work has finished".
    {"destroyed_stream_skips_functions",
     "host functions that a destroyed stream has still to run are left out", "ST-026",
     [](weir_backend_table &t) {
       note_ends(t);
       t.stream_host_call = [](weir_be_state *state, weir_be_stream stream,
                               weir_host_function function, void *user) {
         if (stream == nullptr || function == nullptr)
           return real().stream_host_call(state, stream, function, user);
         auto call = std::make_unique<Call>(Call{function, user, end_of(state, stream)});
         const weir_result result = real().stream_host_call(state, stream, Call::run, call.get());
         if (result == WEIR_SUCCESS) (void)call.release();
         return result;
       };
     }},
    // stream_destroy: "ends too, after its work has finished", and the work after a fence "runs after the fence".
    {"destroyed_stream_stops_waiting",
     "a stream that is destroyed does what it has to do without waiting for fences", "ST-037",
     [](weir_backend_table &t) {
       note_ends(t);
       t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
         const Flag ended = stream != nullptr ? end_of(state, stream) : nullptr;
         if (ended == nullptr || real().fence_poll(state, fence) != WEIR_NOT_READY)
           return real().stream_wait(state, stream, fence);
         auto wait = std::make_unique<Wait>(Wait{state, fence, ended});
         if (real().stream_host_call(state, stream, Wait::run, wait.get()) != WEIR_SUCCESS)
           return real().stream_wait(state, stream, fence);
         (void)wait.release();
         return done;
       };
     }},
    // stream_destroy: "The call should not wait for that".
    {"busy_stream_destroy_waits", "stream_destroy waits for what the stream has still to do",
     "FE-029,ST-023",
     [](weir_backend_table &t) {
       t.stream_destroy = [](weir_be_state *state, weir_be_stream stream) {
         weir_be_fence end = 0;
         if (stream != nullptr && real().fence_record(state, stream, &end) == WEIR_SUCCESS)
           (void)real().fence_wait(state, end, 5'000 * millisecond);
         return real().stream_destroy(state, stream);
       };
     }},
    // "Blocks the thread until everything enqueued on the stream so far has finished."
    {"synchronize_until_idle",
     "stream_synchronize waits for what others enqueue meanwhile, until the stream is idle",
     "ST-038",
     [](weir_backend_table &t) {
       t.stream_synchronize = [](weir_be_state *state, weir_be_stream stream) {
         const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
         weir_result result = real().stream_synchronize(state, stream);
         while (result == WEIR_SUCCESS && std::chrono::steady_clock::now() < end) {
           weir_be_fence fence = 0;
           if (real().stream_query(state, stream) == WEIR_SUCCESS) break;
           result = real().fence_record(state, stream, &fence);
           if (result == WEIR_SUCCESS) (void)real().fence_wait(state, fence, 100 * millisecond);
         }
         return result;
       };
     }},
    // "Blocks the thread until everything enqueued on the stream so far has finished", on every device.
    {"synchronize_of_first_device", "to synchronize a stream of another device waits for nothing",
     "HM-002,PL-013,ST-016",
     [](weir_backend_table &t) {
       keep_streams(t);
       t.stream_synchronize = [](weir_be_state *state, weir_be_stream stream) {
         return device_of(state, stream) != 0 ? done : real().stream_synchronize(state, stream);
       };
     }},
    // "Entries are thread-safe"; "Blocks the thread until ...", each thread that calls.
    {"second_synchronize_returns",
     "while a thread synchronizes a stream, another that does so returns at once", "TH-019",
     [](weir_backend_table &t) {
       static Book<weir_be_stream, bool> busy;
       t.stream_synchronize = [](weir_be_state *state, weir_be_stream stream) {
         if (busy.find(stream)) return done;
         busy.put(stream, true);
         const weir_result result = real().stream_synchronize(state, stream);
         (void)busy.take(stream);
         return result;
       };
     }},
    // "Enqueues function(user), to run ... in the stream's order": what comes after it begins when it has returned.
    {"work_overtakes_host_function",
     "copies and fills behind a host function do not wait for it; fences and queries do", "ST-015",
     [](weir_backend_table &t) {
       pay_debts<skip_copies | skip_batches | skip_fills | skip_calls>(t);
       t.stream_host_call = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         if (stream == nullptr) return real().stream_host_call(state, stream, rest...);
         const weir_be_stream queue = Aside::in_turn(state, stream);
         const weir_result result = real().stream_host_call(state, queue, rest...);
         Owed<false>::owe(state, stream, queue);
         return result;
       };
       guard_frees(t);
     }},
    // "Enqueues function(user)", with the user that came with it.
    {"host_function_user_shared",
     "a function that is enqueued twice before it ran gets the later user both times", "ST-014",
     [](weir_backend_table &t) {
       static Book<std::pair<weir_be_stream, weir_host_function>, void *> users;
       struct Named {
         weir_be_stream stream;
         weir_host_function function;
         static void run(void *self) {
           const std::unique_ptr<Named> n(static_cast<Named *>(self));
           n->function(users.find({n->stream, n->function}).value_or(nullptr));
         }
       };
       t.stream_host_call = [](weir_be_state *state, weir_be_stream stream,
                               weir_host_function function, void *user) {
         if (stream == nullptr || function == nullptr)
           return real().stream_host_call(state, stream, function, user);
         users.put({stream, function}, user);
         auto named = std::unique_ptr<Named>(new Named{stream, function});
         const weir_result result = real().stream_host_call(state, stream, Named::run, named.get());
         if (result == WEIR_SUCCESS) (void)named.release();
         return result;
       };
     }},
    // "different streams are unordered": a stream that was made is none of those that live.
    {"stream_number_256_is_an_old_one",
     "stream numbers are 8 bits: the 257th stream is the first again, if that lives", "ST-036",
     [](weir_backend_table &t) {
       struct Old {
         weir_be_state *state;
         uint32_t device;
         void *native;
       };
       static Book<uint32_t, Old> made;  // living streams, by number
       static Book<void *, uint32_t> numbers;
       static Book<void *, bool> twins;
       static std::atomic<uint32_t> next{0};
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         const uint32_t number = next++ % 256;
         const auto old = made.find(number);
         if (old && old->state == state && old->device == device && flags == 0 &&
             real().stream_wrap(state, device, old->native, stream) == WEIR_SUCCESS) {
           twins.put(old->native, true);
           return done;
         }
         const weir_result result = create(state, device, flags, stream);
         if (result != WEIR_SUCCESS) return result;
         void *const native = native_of(state, *stream);
         (void)twins.take(native);
         numbers.put(native, number);
         made.put(number, {state, device, native});
         return result;
       };
       t.stream_destroy = [](weir_be_state *state, weir_be_stream stream) {
         if (stream == nullptr || is_wrapper(state, stream))
           return real().stream_destroy(state, stream);
         void *const native = native_of(state, stream);
         if (const auto number = numbers.take(native)) (void)made.take(*number);
         // Its twin may go on with it; it ends with the state.
         return twins.take(native) ? done : real().stream_destroy(state, stream);
       };
     }},
};

}  // namespace

std::span<const Fault> subtle_stream_faults() { return faults; }

}  // namespace weir::mutants
