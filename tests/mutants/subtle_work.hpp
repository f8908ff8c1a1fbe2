// SPDX-License-Identifier: Apache-2.0
//
// What the subtle faults of streams, fences and copies have in common: work that leaves its stream for another queue, and what
// the stream then owes that queue; fences with numbers of their own; and a nap that makes a gap in the order wide enough to see.
//
// Every native stream has a queue beside it of its own, so that work which left one stream never waits for another stream.
#pragma once

#include "tests/mutants/mutant.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace weir::mutants {

constexpr weir_result done = WEIR_SUCCESS;
constexpr weir_result refused = WEIR_ERROR_INVALID_ARGUMENT;
constexpr uint64_t mebibyte = UINT64_C(1) << 20;

inline void *native_of(weir_be_state *state, weir_be_stream stream) {
  void *native = nullptr;
  return real().stream_native(state, stream, &native) == WEIR_SUCCESS ? native : nullptr;
}

/// A wrapper and the stream it wraps have different handles.
inline bool is_wrapper(weir_be_state *state, weir_be_stream stream) {
  return stream != nullptr && native_of(state, stream) != static_cast<void *>(stream);
}

/// Holds the stream up for two milliseconds, but no more than a second in all.
inline void nap(weir_be_state *state, weir_be_stream stream) {
  static std::atomic<int> left{500};
  if (left.fetch_sub(1) <= 0) return;
  const auto sleep = [](void *) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  (void)real().stream_host_call(state, stream, sleep, nullptr);
}

/// The queues beside the streams, by native stream.
struct Aside {
  struct Queue {
    weir_be_state *state = nullptr;
    weir_be_stream stream = nullptr;
  };
  static inline Book<void *, Queue> queues;
  static inline std::mutex mutex;

  static weir_be_stream of(weir_be_state *state, weir_be_stream stream) {
    void *const native = native_of(state, stream);
    if (native == nullptr) return stream;
    const std::lock_guard lock(mutex);
    if (const auto known = queues.find(native)) return known->stream;
    weir_be_stream made = nullptr;
    if (real().stream_create(state, 0, 0, &made) != WEIR_SUCCESS) return stream;
    queues.put(native, {state, made});
    return made;
  }

  /// Calls visit(native stream, queue) for the queues of a state.
  template <class Visit>
  static void each(weir_be_state *state, Visit visit) {
    uintptr_t key = UINTPTR_MAX;
    for (auto at = queues.below(reinterpret_cast<void *>(key)); at;
         at = queues.below(reinterpret_cast<void *>(key))) {
      key = reinterpret_cast<uintptr_t>(at->first) - 1;
      if (at->second.state == state) visit(at->first, at->second.stream);
    }
  }

  /// The same, with what the stream was given so far before it.
  static weir_be_stream in_turn(weir_be_state *state, weir_be_stream stream) {
    const weir_be_stream queue = of(state, stream);
    weir_be_fence before = 0;
    if (queue != stream && real().fence_record(state, stream, &before) == WEIR_SUCCESS)
      (void)real().stream_wait(state, queue, before);
    return queue;
  }
};

/// Fences that a stream has still to wait for; ByHandle: a wrapper's debts are not its stream's.
template <bool ByHandle>
struct Owed {
  static inline Book<void *, weir_be_fence> fences;

  static void *key(weir_be_state *state, weir_be_stream stream) {
    return ByHandle ? static_cast<void *>(stream) : native_of(state, stream);
  }
  /// What was enqueued on `queue` so far is owed by `stream`.
  static void owe(weir_be_state *state, weir_be_stream stream, weir_be_stream queue) {
    weir_be_fence fence = 0;
    if (queue != stream && real().fence_record(state, queue, &fence) == WEIR_SUCCESS)
      fences.put(key(state, stream), fence);
  }
  static void pay(weir_be_state *state, weir_be_stream stream) {
    if (stream == nullptr) return;
    if (const auto fence = fences.take(key(state, stream)))
      (void)real().stream_wait(state, stream, *fence);
  }
};

/// The calls that do not pay what their stream owes.
enum Skips : unsigned {
  skip_nothing = 0,
  skip_copies = 1,
  skip_batches = 2,
  skip_fills = 4,
  skip_records = 8,
  skip_queries = 16,
  skip_synchronizes = 32,
  skip_calls = 64,
};

/// The devices of streams, by native stream: kept by keep_streams().
inline Book<void *, uint32_t> stream_devices;

inline uint32_t device_of(weir_be_state *state, weir_be_stream stream) {
  return stream != nullptr ? stream_devices.find(native_of(state, stream)).value_or(0) : 0;
}

/// What is known of a stream begins and ends with it. Its place may have been that of a stream of a state that was stopped.
inline void keep_streams(weir_backend_table &t) {
  t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                       weir_be_stream *stream) {
    const weir_result result = real().stream_create(state, device, flags, stream);
    if (result != WEIR_SUCCESS) return result;
    void *const native = native_of(state, *stream);
    stream_devices.put(native, device);
    (void)Aside::queues.take(native);
    (void)Owed<false>::fences.take(native);
    (void)Owed<true>::fences.take(*stream);
    return result;
  };
  t.stream_wrap = [](weir_be_state *state, uint32_t device, void *native, weir_be_stream *stream) {
    const weir_result result = real().stream_wrap(state, device, native, stream);
    if (result == WEIR_SUCCESS) (void)Owed<true>::fences.take(*stream);
    return result;
  };
  t.stream_destroy = [](weir_be_state *state, weir_be_stream stream) {
    const bool owner = stream != nullptr && !is_wrapper(state, stream);
    void *const native = owner ? native_of(state, stream) : nullptr;
    const weir_result result = real().stream_destroy(state, stream);
    if (result != WEIR_SUCCESS || !owner) return result;
    if (const auto queue = Aside::queues.take(native))
      (void)real().stream_destroy(state, queue->stream);
    return result;
  };
}

/// All calls about a stream pay what it owes, but those of `Not`. A fault's own entries come after this.
template <unsigned Not, bool ByHandle = false>
void pay_debts(weir_backend_table &t) {
  using Debts = Owed<ByHandle>;
  keep_streams(t);
  if constexpr ((Not & skip_copies) == 0)
    t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *copy) {
      Debts::pay(state, stream);
      return real().copy_async(state, stream, copy);
    };
  if constexpr ((Not & skip_batches) == 0)
    t.copy_batch_async = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
      Debts::pay(state, stream);
      return real().copy_batch_async(state, stream, rest...);
    };
  if constexpr ((Not & skip_fills) == 0)
    t.fill_async = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
      Debts::pay(state, stream);
      return real().fill_async(state, stream, rest...);
    };
  if constexpr ((Not & skip_records) == 0)
    t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
      Debts::pay(state, stream);
      return real().fence_record(state, stream, fence);
    };
  if constexpr ((Not & skip_queries) == 0)
    t.stream_query = [](weir_be_state *state, weir_be_stream stream) {
      Debts::pay(state, stream);
      return real().stream_query(state, stream);
    };
  if constexpr ((Not & skip_synchronizes) == 0)
    t.stream_synchronize = [](weir_be_state *state, weir_be_stream stream) {
      Debts::pay(state, stream);
      return real().stream_synchronize(state, stream);
    };
  if constexpr ((Not & skip_calls) == 0)
    t.stream_host_call = [](weir_be_state *state, weir_be_stream stream, auto... rest) {
      Debts::pay(state, stream);
      return real().stream_host_call(state, stream, rest...);
    };
  t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
    Debts::pay(state, stream);
    return real().stream_wait(state, stream, fence);
  };
}

/// Fences with numbers that are never given twice. The host backend's own are equal where the same point is marked.
struct OwnFences {
  struct Fence {
    weir_be_fence real = 0;
    weir_be_stream stream = nullptr;
  };
  static inline Book<weir_be_fence, Fence> living;
  static inline std::atomic<uint64_t> last{0};

  /// The host backend's fence, or 0, which it refuses.
  static weir_be_fence of(weir_be_fence fence) {
    const auto known = living.find(fence);
    return known ? known->real : 0;
  }
  static weir_result record(weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
    weir_be_fence made = 0;
    const weir_result result = real().fence_record(state, stream, &made);
    if (result != WEIR_SUCCESS) return result;
    const uint64_t number = ++last;
    living.put(number, {made, stream});
    *fence = number;
    return result;
  }
  static weir_result destroy(weir_be_state *state, weir_be_fence fence) {
    const auto known = living.take(fence);
    return known ? real().fence_destroy(state, known->real) : real().fence_poll(state, 0);
  }
};

inline void own_fences(weir_backend_table &t) {
  t.fence_record = OwnFences::record;
  t.fence_destroy = OwnFences::destroy;
  t.fence_poll = [](weir_be_state *state, weir_be_fence fence) {
    return real().fence_poll(state, OwnFences::of(fence));
  };
  t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
    return real().fence_wait(state, OwnFences::of(fence), timeout_ns);
  };
  t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
    return real().stream_wait(state, stream, OwnFences::of(fence));
  };
}

template <class Key, class Value>
void forget_all(Book<Key, Value> &book) {
  while (const auto last = book.below(static_cast<Key>(UINT64_MAX))) (void)book.take(last->first);
}

/// Where device memory lies, by its first address: kept by note_places().
struct Place {
  uint32_t device = 0;
  uint64_t bytes = 0;
};
inline Book<uint64_t, Place> device_places;

inline void note_places(weir_backend_table &t) {
  t.plain_allocate = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t alignment,
                        uint64_t *address) {
    const weir_result result = real().plain_allocate(state, device, bytes, alignment, address);
    if (result == WEIR_SUCCESS) device_places.put(*address, {device, bytes});
    return result;
  };
  t.plain_free = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
    const weir_result result = real().plain_free(state, device, address, bytes);
    if (result == WEIR_SUCCESS) (void)device_places.take(address);
    return result;
  };
  t.map = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
             auto... rest) {
    const weir_result result = real().map(state, device, address, bytes, rest...);
    if (result == WEIR_SUCCESS) device_places.put(address, {device, bytes});
    return result;
  };
  t.unmap = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
    const weir_result result = real().unmap(state, device, address, bytes);
    if (result == WEIR_SUCCESS) (void)device_places.take(address);
    return result;
  };
  t.map_run = [](weir_be_state *state, uint32_t device, uint64_t address,
                 const weir_be_piece *pieces, uint32_t count, auto... rest) {
    const weir_result result = real().map_run(state, device, address, pieces, count, rest...);
    for (uint32_t i = 0; result == WEIR_SUCCESS && i < count; address += pieces[i++].bytes)
      device_places.put(address, {device, pieces[i].bytes});
    return result;
  };
  t.unmap_run = [](weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
    const weir_result result = real().unmap_run(state, device, address, bytes);
    for (uint64_t at = address; result == WEIR_SUCCESS && at < address + bytes;) {
      const auto place = device_places.take(at);
      if (!place) break;
      at += place->bytes;
    }
    return result;
  };
  t.stop = [](weir_be_state *state) {
    forget_all(device_places);
    real().stop(state);
  };
}

/// The device whose memory is there, as far as it was noted; else WEIR_DEVICE_HOST.
inline uint32_t device_at(uint64_t address) {
  const auto place = device_places.below(address);
  return place && address - place->first < place->second.bytes ? place->second.device
                                                               : WEIR_DEVICE_HOST;
}

/// The last in a fault that has work beside the streams: what is still to come there, though nobody waits for it, is let finish
/// before its memory goes, if it can.
inline void guard_frees(weir_backend_table &t) {
  static weir_backend_table inner;
  inner = t;
  const auto wait = [](weir_be_state *state) {
    Aside::each(state, [state](void *, weir_be_stream queue) {
      weir_be_fence end = 0;
      if (real().fence_record(state, queue, &end) == WEIR_SUCCESS)
        (void)real().fence_wait(state, end, 30'000'000);
    });
  };
  static void (*const drain)(weir_be_state *) = wait;
  t.plain_free = [](weir_be_state *state, auto... rest) {
    drain(state);
    return inner.plain_free(state, rest...);
  };
  t.host_free = [](weir_be_state *state, auto... rest) {
    drain(state);
    return inner.host_free(state, rest...);
  };
  t.host_unregister = [](weir_be_state *state, auto... rest) {
    drain(state);
    return inner.host_unregister(state, rest...);
  };
  t.unmap = [](weir_be_state *state, auto... rest) {
    drain(state);
    return inner.unmap(state, rest...);
  };
  t.unmap_run = [](weir_be_state *state, auto... rest) {
    drain(state);
    return inner.unmap_run(state, rest...);
  };
  t.stop = [](weir_be_state *state) {
    Aside::each(state, [](void *native, weir_be_stream) { (void)Aside::queues.take(native); });
    inner.stop(state);
  };
}

}  // namespace weir::mutants
