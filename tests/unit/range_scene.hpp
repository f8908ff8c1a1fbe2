// SPDX-License-Identifier: Apache-2.0
//
// What the tests of range hits share: a buffer of eight pages whose ranges are leased by the hit path of one stream, and another stream.
#pragma once

#include "tests/unit/interposed_host.hpp"
#include "tests/unit/lock_holder.hpp"

namespace weir::test {

constexpr uint32_t pages = 8;
inline const uint64_t size = pages * page_bytes;

inline weir_use part(weir_buffer buffer, uint32_t mode, uint32_t first, uint32_t count = 1) {
  weir_use use = WEIR_USE(buffer, mode);
  use.offset = first * page_bytes;
  use.length = count * page_bytes;
  return use;
}

struct RangeScene : World {
  weir_buffer buffer_ = nullptr;
  weir_stream other = nullptr;
  uint64_t address = 0;

  explicit RangeScene(const Setup &setup = {.device_pages = 32, .host_pages = 64}) : World(setup) {
    ok(weir_stream_create(context, 0, 0, &other));
    buffer_ = written(1);
  }
  /// Its ranges are leased by the hit path of the first stream from now on.
  weir_buffer written(uint32_t seed) {
    const weir_buffer made = buffer(size);
    fill(made, size, seed);
    weir_lease lease = nullptr;
    ok(acquire(made, WEIR_READ_WRITE, &lease, &address));
    ok(weir_release(lease, streams[0]));
    ok(weir_stream_synchronize(streams[0]));
    once(part(made, WEIR_READ, 0));
    return made;
  }
  weir_result lease(weir_use use, weir_lease *out, weir_stream stream = nullptr) {
    return weir_acquire(pool, stream != nullptr ? stream : streams[0], &use, 1, nullptr, out);
  }
  void once(weir_use use, weir_stream stream = nullptr) {
    weir_lease out = nullptr;
    ok(lease(use, &out, stream));
    ok(weir_release(out, stream != nullptr ? stream : streams[0]));
  }
  /// A kernel that stands in the stream, under a lease.
  void stand(weir_use use, weir_stream stream, Blocker *work) {
    weir_lease out = nullptr;
    ok(lease(use, &out, stream));
    ok(weir_stream_host_call(stream, Blocker::stand, work));
    ok(weir_release(out, stream));
  }
  void end() {
    ok(weir_stream_synchronize(streams[0]));
    ok(weir_stream_synchronize(other));
    validate(*this);
    ok(weir_buffer_destroy(pool, buffer_));
    ok(weir_stream_close(other));
    close();
  }
};

}  // namespace weir::test
