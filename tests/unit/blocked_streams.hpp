// SPDX-License-Identifier: Apache-2.0
//
// What tests of the lease layer have instead of a pool: memory that runs out when it is told to, and two streams of the host
// backend whose work does not end before it is told to.
#pragma once

#include "core/backend/stream.hpp"
#include "tests/unit/interposed_host.hpp"

#include <memory_resource>
#include <new>

#include "tests/support/cmocka.hpp"  // last: it has macros with plain names

namespace weir::test {

class Scarce final : public std::pmr::memory_resource {
 public:
  bool out = false;

 private:
  void *do_allocate(size_t bytes, size_t alignment) override {
    if (out) throw std::bad_alloc();
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void *memory, size_t bytes, size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }
};

struct BlockedStreams {
  struct Blocked {
    backend::Stream *stream = nullptr;
    Blocker work;

    /// The stream's work so far.
    backend::Stamp use(bool write) {
      uint64_t point = 0;
      assert_true(stream->timeline.record(&point).ok());
      return backend::Stamp::make(stream->slot, point, write);
    }
    void finish() {
      work.open();
      assert_true(stream->timeline.wait(stream->timeline.last(), UINT64_MAX).ok());
    }
  };

  backend::Runtime runtime{std::pmr::get_default_resource()};
  backend::Device device;
  Ticks ticks;
  backend::StreamTable streams{std::pmr::get_default_resource(), &ticks};
  Blocked first, second;

  BlockedStreams() {
    assert_true(runtime.adopt(weir_host_backend_query, "").ok());
    assert_true(runtime.start("memory=4M;granule=64K", {}, Log(), 60'000'000'000).ok());
    device.runtime = &runtime;
    for (Blocked *each : {&first, &second}) {
      assert_true(streams.open(&device, false, nullptr, this, &each->stream).ok());
      assert_int_equal(runtime.table().stream_host_call(runtime.state(), each->stream->native,
                                                        Blocker::stand, &each->work),
                       WEIR_SUCCESS);
    }
  }
  BlockedStreams(const BlockedStreams &) = delete;
  BlockedStreams &operator=(const BlockedStreams &) = delete;
  ~BlockedStreams() {
    for (Blocked *each : {&first, &second}) {
      each->work.open();
      each->stream->timeline.drain();
      each->stream->synchronize();  // its thread may not yet have come to the blocker
      (void)streams.close(each->stream);
    }
  }
};

}  // namespace weir::test
