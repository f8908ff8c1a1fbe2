// SPDX-License-Identifier: Apache-2.0
//
// The host backend, of which one device is lost from the n-th call on: whatever names it, its streams or its memory says
// so from then on. What gives something back is not refused, so that nothing is left over. A lost device works no more:
// what its streams had to do has been done before the first call says so, or it would write into memory that is given to
// others. The table's functions have no user pointer, so its state is global to the program: set it while no other
// test's context lives.
#pragma once

#include <weir/backend.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <mutex>
#include <utility>

extern "C" const weir_backend_table *weir_host_backend_query(uint32_t abi_major);

namespace weir::test {

class Losing {
 public:
  /// Nothing is lost until lose_at(); then it is `victim`.
  void reset(uint32_t victim) {
    const std::lock_guard hold(mutex_);
    streams_.clear();
    fences_.clear();
    memory_.clear();
    victim_ = victim;
    left_ = INT64_MAX;
    lost_ = false;
  }
  /// The n-th call from now on is the first that meets the loss.
  void lose_at(int64_t n) {
    const std::lock_guard hold(mutex_);
    left_ = n;
  }
  /// Not lost until now, and not from now on either.
  void spare() { lose_at(INT64_MAX); }
  bool struck() {
    const std::lock_guard hold(mutex_);
    return lost_;
  }

  /// For weir_context_desc.backends.
  static const weir_backend_table *query(uint32_t abi_major);

  // What the table's functions ask and tell.
  /// Counts a call; whether it concerns what is lost.
  bool strikes(std::initializer_list<uint32_t> devices) {
    const std::lock_guard hold(mutex_);
    if (left_ > 0 && --left_ == 0) {
      for (const auto &[stream, device] : streams_)
        if (device == victim_) (void)real->stream_synchronize(state_, stream);
      lost_ = true;
    }
    return lost_ && std::find(devices.begin(), devices.end(), victim_) != devices.end();
  }
  /// A copy meets the loss at either end too.
  bool strikes(weir_be_stream stream, const weir_be_copy *copies, uint32_t count) {
    bool concerned = of(stream) == victim_;
    for (uint32_t i = 0; i < count; ++i)
      concerned =
          concerned || at(copies[i].source) == victim_ || at(copies[i].destination) == victim_;
    return strikes({concerned ? victim_ : WEIR_DEVICE_HOST});
  }
  uint32_t of(weir_be_stream stream) { return find(streams_, stream); }
  uint32_t of(weir_be_fence fence) { return find(fences_, fence); }
  uint32_t at(uint64_t address) {
    const std::lock_guard hold(mutex_);
    auto after = memory_.upper_bound(address);
    if (after == memory_.begin()) return WEIR_DEVICE_HOST;
    --after;
    return address < after->second.first ? after->second.second : WEIR_DEVICE_HOST;
  }
  void note(weir_be_state *state, weir_be_stream stream, uint32_t device) {
    put(&streams_, stream, device);
    const std::lock_guard hold(mutex_);
    state_ = state;
  }
  void forget(weir_be_stream stream) {
    const std::lock_guard hold(mutex_);
    streams_.erase(stream);
  }
  void note(weir_be_fence fence, uint32_t device) { put(&fences_, fence, device); }
  void note(uint64_t address, uint64_t bytes, uint32_t device) {
    put(&memory_, address, std::pair(address + bytes, device));
  }
  void forget(uint64_t address) {
    const std::lock_guard hold(mutex_);
    memory_.erase(address);
  }

  const weir_backend_table *real = nullptr;

 private:
  template <class Key>
  uint32_t find(const std::map<Key, uint32_t> &in, Key key) {
    const std::lock_guard hold(mutex_);
    const auto found = in.find(key);
    return found != in.end() ? found->second : WEIR_DEVICE_HOST;
  }
  template <class Key, class Value>
  void put(std::map<Key, Value> *in, Key key, const Value &value) {
    const std::lock_guard hold(mutex_);
    in->insert_or_assign(key, value);
  }

  std::mutex mutex_;
  weir_be_state *state_ = nullptr;
  uint32_t victim_ = 0;
  int64_t left_ = INT64_MAX;
  bool lost_ = false;
  std::map<weir_be_stream, uint32_t> streams_;
  std::map<weir_be_fence, uint32_t> fences_;
  std::map<uint64_t, std::pair<uint64_t, uint32_t>> memory_;  ///< address: end, device
};
inline Losing losing;

#define WEIR_LOSE(...) \
  if (losing.strikes(__VA_ARGS__)) return WEIR_ERROR_DEVICE_LOST

inline void lose_memory(weir_backend_table &t) {
  t.granule_create = [](weir_be_state *s, uint32_t d, uint64_t bytes, uint64_t flags,
                        weir_be_granule *out) -> weir_result {
    WEIR_LOSE({d});
    return losing.real->granule_create(s, d, bytes, flags, out);
  };
  t.range_reserve = [](weir_be_state *s, uint32_t d, uint64_t bytes, uint64_t alignment,
                       uint64_t *address) -> weir_result {
    WEIR_LOSE({d});
    const weir_result result = losing.real->range_reserve(s, d, bytes, alignment, address);
    if (result == WEIR_SUCCESS) losing.note(*address, bytes, d);
    return result;
  };
  t.range_free = [](weir_be_state *s, uint32_t d, uint64_t address, uint64_t bytes) -> weir_result {
    losing.forget(address);
    return losing.real->range_free(s, d, address, bytes);
  };
  t.plain_allocate = [](weir_be_state *s, uint32_t d, uint64_t bytes, uint64_t alignment,
                        uint64_t *address) -> weir_result {
    WEIR_LOSE({d});
    const weir_result result = losing.real->plain_allocate(s, d, bytes, alignment, address);
    if (result == WEIR_SUCCESS) losing.note(*address, bytes, d);
    return result;
  };
  t.plain_free = [](weir_be_state *s, uint32_t d, uint64_t address, uint64_t bytes) -> weir_result {
    losing.forget(address);
    return losing.real->plain_free(s, d, address, bytes);
  };
  t.map = [](weir_be_state *s, uint32_t d, uint64_t address, uint64_t bytes, weir_be_granule g,
             uint64_t offset, const uint32_t *peers, uint32_t count) -> weir_result {
    WEIR_LOSE({d});
    return losing.real->map(s, d, address, bytes, g, offset, peers, count);
  };
  t.unmap = [](weir_be_state *s, uint32_t d, uint64_t address, uint64_t bytes) -> weir_result {
    WEIR_LOSE({d});
    return losing.real->unmap(s, d, address, bytes);
  };
  t.map_run = [](weir_be_state *s, uint32_t d, uint64_t address, const weir_be_piece *pieces,
                 uint32_t count, const uint32_t *peers, uint32_t peer_count) -> weir_result {
    WEIR_LOSE({d});
    return losing.real->map_run(s, d, address, pieces, count, peers, peer_count);
  };
  t.unmap_run = [](weir_be_state *s, uint32_t d, uint64_t address, uint64_t bytes) -> weir_result {
    WEIR_LOSE({d});
    return losing.real->unmap_run(s, d, address, bytes);
  };
}

inline void lose_work(weir_backend_table &t) {
  t.stream_create = [](weir_be_state *s, uint32_t d, uint64_t flags,
                       weir_be_stream *out) -> weir_result {
    WEIR_LOSE({d});
    const weir_result result = losing.real->stream_create(s, d, flags, out);
    if (result == WEIR_SUCCESS) losing.note(s, *out, d);
    return result;
  };
  t.stream_destroy = [](weir_be_state *s, weir_be_stream stream) -> weir_result {
    losing.forget(stream);
    return losing.real->stream_destroy(s, stream);
  };
  t.stream_synchronize = [](weir_be_state *s, weir_be_stream stream) -> weir_result {
    WEIR_LOSE({losing.of(stream)});
    return losing.real->stream_synchronize(s, stream);
  };
  t.fence_record = [](weir_be_state *s, weir_be_stream stream, weir_be_fence *out) -> weir_result {
    WEIR_LOSE({losing.of(stream)});
    const weir_result result = losing.real->fence_record(s, stream, out);
    losing.note(*out, losing.of(stream));
    return result;
  };
  t.stream_wait = [](weir_be_state *s, weir_be_stream stream, weir_be_fence f) -> weir_result {
    WEIR_LOSE({losing.of(stream), losing.of(f)});
    return losing.real->stream_wait(s, stream, f);
  };
  t.fence_poll = [](weir_be_state *s, weir_be_fence f) -> weir_result {
    WEIR_LOSE({losing.of(f)});
    return losing.real->fence_poll(s, f);
  };
  t.fence_wait = [](weir_be_state *s, weir_be_fence f, uint64_t timeout) -> weir_result {
    WEIR_LOSE({losing.of(f)});
    return losing.real->fence_wait(s, f, timeout);
  };
  t.copy_async = [](weir_be_state *s, weir_be_stream stream,
                    const weir_be_copy *copy) -> weir_result {
    WEIR_LOSE(stream, copy, 1);
    return losing.real->copy_async(s, stream, copy);
  };
  t.copy_batch_async = [](weir_be_state *s, weir_be_stream stream, const weir_be_copy *copies,
                          uint32_t count) -> weir_result {
    WEIR_LOSE(stream, copies, count);
    return losing.real->copy_batch_async(s, stream, copies, count);
  };
  t.fill_async = [](weir_be_state *s, weir_be_stream stream, uint64_t address, uint8_t value,
                    uint64_t bytes) -> weir_result {
    WEIR_LOSE({losing.of(stream), losing.at(address)});
    return losing.real->fill_async(s, stream, address, value, bytes);
  };
}
#undef WEIR_LOSE

inline const weir_backend_table *Losing::query(uint32_t abi_major) {
  static weir_backend_table table;
  losing.real = weir_host_backend_query(abi_major);
  table = *losing.real;
  lose_memory(table);
  lose_work(table);
  return &table;
}

}  // namespace weir::test
