// SPDX-License-Identifier: Apache-2.0
//
// Faults of streams and of the order between them.

#include "tests/mutants/mutant.hpp"

#include <mutex>
#include <thread>

namespace weir::mutants {
namespace {

constexpr uint64_t second = 1'000'000'000;

weir_result native_of(weir_be_state *state, weir_be_stream stream, void **native) {
  return real().stream_native(state, stream, native);
}

/// Which device the memory at an address is on, for faults that need to know.
Book<uint64_t, uint32_t> places;

void remember_places(weir_backend_table &t) {
  t.plain_allocate = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t alignment,
                        uint64_t *address) {
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
    if (result == WEIR_SUCCESS) places.put(reinterpret_cast<uintptr_t>(*memory), WEIR_DEVICE_HOST);
    return result;
  };
}

bool between_devices(const weir_be_copy &copy) {
  const auto to = places.below(copy.destination), from = places.below(copy.source);
  return to && from && to->second != from->second && to->second != WEIR_DEVICE_HOST &&
         from->second != WEIR_DEVICE_HOST;
}

/// A stream of the state that nobody else knows, for work that has left its order.
weir_be_stream hidden_stream(weir_be_state *state) {
  static std::mutex mutex;
  static Book<weir_be_state *, weir_be_stream> streams;
  const std::lock_guard lock(mutex);
  if (const auto known = streams.find(state)) return *known;
  weir_be_stream made = nullptr;
  if (real().stream_create(state, 0, 0, &made) == WEIR_SUCCESS) streams.put(state, made);
  return made;
}

constexpr Fault faults[] = {
    {"stream_always_idle", "stream_query says that all is done", "ST-006",
     [](weir_backend_table &t) {
       t.stream_query = [](weir_be_state *, weir_be_stream) { return weir_result{WEIR_SUCCESS}; };
     }},
    {"stream_never_idle", "stream_query never says that all is done", "ST-001",
     [](weir_backend_table &t) {
       t.stream_query = [](weir_be_state *, weir_be_stream) { return weir_result{WEIR_NOT_READY}; };
     }},
    {"synchronize_returns_early", "stream_synchronize waits for nothing", "ST-005",
     [](weir_backend_table &t) {
       t.stream_synchronize = [](weir_be_state *, weir_be_stream) {
         return weir_result{WEIR_SUCCESS};
       };
     }},
    {"host_call_at_once", "a host function runs when it is enqueued, not in its turn", "ST-015",
     [](weir_backend_table &t) {
       t.stream_host_call = [](weir_be_state *, weir_be_stream, weir_host_function function,
                               void *user) {
         if (function != nullptr) function(user);
         return weir_result{function != nullptr ? WEIR_SUCCESS : WEIR_ERROR_INVALID_ARGUMENT};
       };
     }},
    {"host_call_twice", "a host function runs twice", "ST-014",
     [](weir_backend_table &t) {
       t.stream_host_call = [](auto... rest) {
         const weir_result result = real().stream_host_call(rest...);
         if (result == WEIR_SUCCESS) (void)real().stream_host_call(rest...);
         return result;
       };
     }},
    {"host_call_not_waited_for", "fences do not wait for host functions", "ST-014,ST-015",
     [](weir_backend_table &t) {
       t.stream_host_call = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         const weir_be_stream hidden = hidden_stream(state);
         if (stream == nullptr || hidden == nullptr)
           return weir_result{WEIR_ERROR_INVALID_ARGUMENT};
         return real().stream_host_call(state, hidden, rest...);
       };
     }},
    {"stream_wait_blocks", "stream_wait blocks the calling thread until the fence has passed",
     "FE-011",
     [](weir_backend_table &t) {
       t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
         // Not for ever, so that a suite that waits for the thread can go on to say what it saw.
         (void)real().fence_wait(state, fence, 30 * second);
         return real().stream_wait(state, stream, fence);
       };
     }},
    {"stream_wait_ignored", "stream_wait orders nothing", "FE-014,FE-011",
     [](weir_backend_table &t) {
       t.stream_wait = [](weir_be_state *, weir_be_stream, weir_be_fence) {
         return weir_result{WEIR_SUCCESS};
       };
     }},
    {"stream_wait_ignores_other_devices", "stream_wait orders nothing between two devices",
     "FE-019",
     [](weir_backend_table &t) {
       static Book<weir_be_stream, uint32_t> devices;
       static Book<weir_be_fence, uint32_t> recorded;
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         const weir_result result = real().stream_create(state, device, flags, stream);
         if (result == WEIR_SUCCESS) devices.put(*stream, device);
         return result;
       };
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         const weir_result result = real().fence_record(state, stream, fence);
         if (result == WEIR_SUCCESS) recorded.put(*fence, devices.find(stream).value_or(0));
         return result;
       };
       t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
         const auto from = recorded.find(fence), to = devices.find(stream);
         return from && to && *from != *to ? weir_result{WEIR_SUCCESS}
                                           : real().stream_wait(state, stream, fence);
       };
     }},
    {"copies_between_devices_unordered", "a copy between devices does not keep its stream's order",
     "PE-005",
     [](weir_backend_table &t) {
       remember_places(t);
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *copy) {
         const bool across = stream != nullptr && copy != nullptr && between_devices(*copy);
         return real().copy_async(state, across ? hidden_stream(state) : stream, copy);
       };
     }},
    {"fills_unordered", "a fill does not keep its stream's order", "ST-004,CP-012",
     [](weir_backend_table &t) {
       t.fill_async = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         return real().fill_async(state, stream != nullptr ? hidden_stream(state) : stream,
                                  rest...);
       };
     }},
    {"stream_destroy_ignored", "stream_destroy ends nothing: streams and their threads pile up",
     "ST-018",
     [](weir_backend_table &t) {
       t.stream_destroy = [](weir_be_state *, weir_be_stream) { return weir_result{WEIR_SUCCESS}; };
     }},
    {"destroyed_stream_drops_work", "a stream that is destroyed forgets its last copy",
     "ST-008,ST-011",
     [](weir_backend_table &t) {
       // A copy is handed on by the next call about its stream, as by a runtime that collects work.
       static Book<weir_be_stream, weir_be_copy> held;
       static const auto flush = [](weir_be_state *state, weir_be_stream stream) {
         if (const auto copy = held.take(stream)) (void)real().copy_async(state, stream, &*copy);
       };
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *copy) {
         flush(state, stream);
         held.put(stream, *copy);
         return weir_result{WEIR_SUCCESS};
       };
       t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         flush(state, stream);
         return real().copy_batch_async(state, stream, rest...);
       };
       t.fill_async = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         flush(state, stream);
         return real().fill_async(state, stream, rest...);
       };
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         flush(state, stream);
         return real().fence_record(state, stream, fence);
       };
       t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
         flush(state, stream);
         return real().stream_wait(state, stream, fence);
       };
       t.stream_host_call = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         flush(state, stream);
         return real().stream_host_call(state, stream, rest...);
       };
       t.stream_synchronize = [](weir_be_state *state, weir_be_stream stream) {
         flush(state, stream);
         return real().stream_synchronize(state, stream);
       };
       t.stream_query = [](weir_be_state *state, weir_be_stream stream) {
         flush(state, stream);
         return real().stream_query(state, stream);
       };
       t.stream_destroy = [](weir_be_state *state, weir_be_stream stream) {
         (void)held.take(stream);
         return real().stream_destroy(state, stream);
       };
     }},
    {"streams_share_a_queue", "all streams of a device are one queue", "ST-007",
     [](weir_backend_table &t) {
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         static std::mutex mutex;
         static Book<std::pair<weir_be_state *, uint32_t>, weir_be_stream> first;
         const std::lock_guard lock(mutex);
         weir_be_stream queue = first.find({state, device}).value_or(nullptr);
         if (queue == nullptr || flags != 0) {
           const weir_result result = real().stream_create(state, device, flags, &queue);
           if (result != WEIR_SUCCESS) return result;
           first.put({state, device}, queue);
         }
         void *native = nullptr;
         (void)native_of(state, queue, &native);
         return real().stream_wrap(state, device, native, stream);
       };
     }},
    {"stream_always_records", "stream_check says of every stream that it records a graph", "ST-017",
     [](weir_backend_table &t) {
       t.stream_check = [](weir_be_state *, weir_be_stream) {
         return weir_result{WEIR_ERROR_STREAM_CAPTURING};
       };
     }},
    {"wrapper_of_one_thread", "STREAM_ANY_THREAD is claimed; only the wrapping thread can record",
     "ST-019",
     [](weir_backend_table &t) {
       static Book<weir_be_stream, std::thread::id> wrapped;
       t.stream_wrap = [](weir_be_state *state, uint32_t device, void *native,
                          weir_be_stream *stream) {
         const weir_result result = real().stream_wrap(state, device, native, stream);
         if (result == WEIR_SUCCESS) wrapped.put(*stream, std::this_thread::get_id());
         return result;
       };
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         const auto thread = wrapped.find(stream);
         return thread && *thread != std::this_thread::get_id()
                    ? weir_result{WEIR_ERROR_INVALID_ARGUMENT}
                    : real().fence_record(state, stream, fence);
       };
     }},
    {"stream_flags_unread", "flags of streams that nobody knows are passed over", "ST-002",
     [](weir_backend_table &t) {
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t,
                            weir_be_stream *stream) {
         return real().stream_create(state, device, 0, stream);
       };
     }},
    {"stream_on_any_device", "a stream is made on the first device where the index is wrong",
     "ST-003",
     [](weir_backend_table &t) {
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         uint32_t count = 0;
         (void)real().device_count(state, &count);
         return real().stream_create(state, device < count ? device : 0, flags, stream);
       };
     }},
    {"stream_out_on_failure", "a failed stream_create writes the handle", "ST-002,ER-007",
     [](weir_backend_table &t) {
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         const weir_result result = real().stream_create(state, device, flags, stream);
         if (result != WEIR_SUCCESS) *stream = nullptr;
         return result;
       };
     }},
    {"wrapper_owns_stream", "the end of a wrapper ends the caller's stream", "ST-009",
     [](weir_backend_table &t) {
       static Book<void *, bool> ended;
       static Book<weir_be_stream, void *> wrappers;
       t.stream_wrap = [](weir_be_state *state, uint32_t device, void *native,
                          weir_be_stream *stream) {
         const weir_result result = real().stream_wrap(state, device, native, stream);
         if (result == WEIR_SUCCESS) wrappers.put(*stream, native);
         return result;
       };
       t.stream_destroy = [](weir_be_state *state, weir_be_stream stream) {
         if (const auto native = wrappers.take(stream)) ended.put(*native, true);
         return real().stream_destroy(state, stream);
       };
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         void *native = nullptr;
         if (native_of(state, stream, &native) == WEIR_SUCCESS && ended.find(native))
           return weir_result{WEIR_ERROR_INVALID_ARGUMENT};
         return real().fence_record(state, stream, fence);
       };
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *copy) {
         void *native = nullptr;
         if (native_of(state, stream, &native) == WEIR_SUCCESS && ended.find(native))
           return weir_result{WEIR_ERROR_INVALID_ARGUMENT};
         return real().copy_async(state, stream, copy);
       };
       t.fill_async = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
         void *native = nullptr;
         if (native_of(state, stream, &native) == WEIR_SUCCESS && ended.find(native))
           return weir_result{WEIR_ERROR_INVALID_ARGUMENT};
         return real().fill_async(state, stream, rest...);
       };
       t.stream_query = [](weir_be_state *state, weir_be_stream stream) {
         void *native = nullptr;
         if (native_of(state, stream, &native) == WEIR_SUCCESS && ended.find(native))
           return weir_result{WEIR_ERROR_INVALID_ARGUMENT};
         return real().stream_query(state, stream);
       };
     }},
    {"wrapper_is_another_stream", "a wrapped stream is a new one, without order to the caller's",
     "ST-008",
     [](weir_backend_table &t) {
       t.stream_wrap = [](weir_be_state *state, uint32_t device, void *native,
                          weir_be_stream *stream) {
         const weir_result result = real().stream_wrap(state, device, native, stream);
         if (result != WEIR_SUCCESS) return result;
         (void)real().stream_destroy(state, *stream);
         return real().stream_create(state, device, 0, stream);
       };
     }},
    {"native_is_handle", "stream_native gives the backend's handle, not the runtime's", "ST-007",
     [](weir_backend_table &t) {
       t.stream_native = [](weir_be_state *, weir_be_stream stream, void **native) {
         static char nothing;
         *native = &nothing;
         return weir_result{stream != nullptr ? WEIR_SUCCESS : WEIR_ERROR_INVALID_ARGUMENT};
       };
     }},
    {"default_stream_is_none",
     "NULL is wrapped, though there is no default stream, and can't be used", "ST-010",
     [](weir_backend_table &t) {
       t.stream_wrap = [](weir_be_state *state, uint32_t device, void *native,
                          weir_be_stream *stream) {
         if (native != nullptr) return real().stream_wrap(state, device, native, stream);
         *stream = nullptr;
         return weir_result{WEIR_SUCCESS};
       };
     }},
};

}  // namespace

std::span<const Fault> stream_faults() { return faults; }

}  // namespace weir::mutants
