// SPDX-License-Identifier: Apache-2.0
//
// Faults that end the process or keep it for ever, to prove that the suite tells what it was about then. Unlike other faults these
// crash and hang on purpose, in the call that they are about and in no other. cmake/WeirTreeTests.cmake has what must be told.

#include "tests/mutants/mutant.hpp"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <set>
#include <thread>

namespace weir::mutants {
namespace {

/// The streams that stream_create made, whose work is under way until they say that they have none.
class Streams {
 public:
  void add(weir_be_stream stream) {
    const std::lock_guard hold(mutex_);
    streams_.insert(stream);
    any_ = true;
  }
  void remove(weir_be_stream stream) {
    const std::lock_guard hold(mutex_);
    streams_.erase(stream);
  }
  bool busy(weir_be_state *state) {
    const std::lock_guard hold(mutex_);
    for (const weir_be_stream stream : streams_) {
      if (real().stream_query(state, stream) == WEIR_NOT_READY) return true;
    }
    return false;
  }
  /// Whether there ever was one.
  bool any() {
    const std::lock_guard hold(mutex_);
    return any_;
  }

 private:
  std::mutex mutex_;
  std::set<weir_be_stream> streams_;
  bool any_ = false;
};
Streams streams;

void note_streams(weir_backend_table &t) {
  t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                       weir_be_stream *stream) {
    const weir_result result = real().stream_create(state, device, flags, stream);
    if (result == WEIR_SUCCESS) streams.add(*stream);
    return result;
  };
  t.stream_destroy = [](weir_be_state *state, weir_be_stream stream) {
    streams.remove(stream);
    return real().stream_destroy(state, stream);
  };
}

/// As memory that is given back while a copy uses it would.
void crash_if_busy(weir_be_state *state) {
  if (streams.busy(state)) raise(SIGSEGV);
}

constexpr Fault faults[] = {
    {"crash_in_fence_wait", "fence_wait crashes", "FE-007",
     [](weir_backend_table &t) {
       t.fence_wait = [](weir_be_state *, weir_be_fence, uint64_t) {
         raise(SIGSEGV);
         return weir_result{WEIR_SUCCESS};
       };
     }},
    {"hang_in_fence_poll", "fence_poll never returns", "FE-007,FE-001",
     [](weir_backend_table &t) {
       t.fence_poll = [](weir_be_state *, weir_be_fence) {
         for (;;) pause();
         return weir_result{WEIR_SUCCESS};
       };
     }},
    {"crash_when_taken_down", "a fill writes a byte too few, and plain_free crashes", "CP-*",
     [](weir_backend_table &t) {
       t.fill_async = [](weir_be_state *state, weir_be_stream stream, uint64_t address,
                         uint8_t value, uint64_t bytes) {
         return real().fill_async(state, stream, address, value, bytes > 1 ? bytes - 1 : bytes);
       };
       t.plain_free = [](weir_be_state *, uint32_t, uint64_t, uint64_t) {
         raise(SIGSEGV);
         return weir_result{WEIR_SUCCESS};
       };
     }},
    {"crash_in_stop", "stop crashes where a stream was made", "ST-*",
     [](weir_backend_table &t) {
       note_streams(t);
       t.stop = [](weir_be_state *state) {
         if (streams.any()) raise(SIGSEGV);
         real().stop(state);
       };
     }},
    {"free_amid_work_crashes",
     "a fence passes before the work in front of it, and memory given back amid work crashes",
     "FE-002",
     [](weir_backend_table &t) {
       note_streams(t);
       t.copy_async = [](weir_be_state *state, weir_be_stream stream, const weir_be_copy *copy) {
         // Long enough for a test that does not wait to end before it.
         const auto slow = [](void *) { std::this_thread::sleep_for(std::chrono::seconds(1)); };
         (void)real().stream_host_call(state, stream, slow, nullptr);
         return real().copy_async(state, stream, copy);
       };
       t.fence_poll = [](weir_be_state *, weir_be_fence) { return weir_result{WEIR_SUCCESS}; };
       t.plain_free = [](weir_be_state *state, auto... rest) {
         crash_if_busy(state);
         return real().plain_free(state, rest...);
       };
       t.host_free = [](weir_be_state *state, auto... rest) {
         crash_if_busy(state);
         return real().host_free(state, rest...);
       };
       t.unmap = [](weir_be_state *state, auto... rest) {
         crash_if_busy(state);
         return real().unmap(state, rest...);
       };
     }},
};

}  // namespace

std::span<const Fault> gross_faults() { return faults; }

}  // namespace weir::mutants
