// SPDX-License-Identifier: Apache-2.0
//
// Faults of fences.

#include "tests/mutants/mutant.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

namespace weir::mutants {
namespace {

constexpr uint64_t second = 1'000'000'000;

weir_result record(weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
  return real().fence_record(state, stream, fence);
}

uint64_t this_thread() { return std::hash<std::thread::id>()(std::this_thread::get_id()); }

constexpr Fault faults[] = {
    {"fence_passes_early", "a fence passes before the work enqueued before it", "FE-002,FE-003",
     [](weir_backend_table &t) {
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         static Book<weir_be_state *, weir_be_stream> idle;
         if (stream == nullptr) return record(state, stream, fence);
         weir_be_stream other = idle.find(state).value_or(nullptr);
         if (other == nullptr) {
           const weir_result result = real().stream_create(state, 0, 0, &other);
           if (result != WEIR_SUCCESS) return result;
           idle.put(state, other);
         }
         return record(state, other, fence);
       };
     }},
    {"fence_always_passed", "fence_poll says that every fence has passed", "FE-003",
     [](weir_backend_table &t) {
       t.fence_poll = [](weir_be_state *, weir_be_fence) { return weir_result{WEIR_SUCCESS}; };
     }},
    {"fence_never_passes", "fence_poll never says that a fence has passed", "FE-001",
     [](weir_backend_table &t) {
       t.fence_poll = [](weir_be_state *, weir_be_fence) { return weir_result{WEIR_NOT_READY}; };
     }},
    {"fence_lost_with_stream", "a fence never passes once its stream was destroyed", "FE-018",
     [](weir_backend_table &t) {
       static Book<weir_be_fence, weir_be_stream> recorded;
       static Book<weir_be_stream, bool> ended;
       const auto lost = [](weir_be_fence fence) {
         const auto stream = recorded.find(fence);
         return stream && ended.find(*stream);
       };
       static bool (*const is_lost)(weir_be_fence) = lost;
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         const weir_result result = record(state, stream, fence);
         if (result == WEIR_SUCCESS) {
           (void)ended.take(stream);
           recorded.put(*fence, stream);
         }
         return result;
       };
       t.stream_destroy = [](weir_be_state *state, weir_be_stream stream) {
         ended.put(stream, true);
         return real().stream_destroy(state, stream);
       };
       t.fence_poll = [](weir_be_state *state, weir_be_fence fence) {
         return is_lost(fence) ? weir_result{WEIR_NOT_READY} : real().fence_poll(state, fence);
       };
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         return is_lost(fence) ? weir_result{WEIR_ERROR_TIMEOUT}
                               : real().fence_wait(state, fence, timeout_ns);
       };
     }},
    {"fence_moves", "a later record on the stream moves the fences recorded before", "FE-010",
     [](weir_backend_table &t) {
       // One number a stream, which always means the stream's latest fence.
       static Book<uint64_t, weir_be_fence> latest;
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         weir_be_fence made = 0;
         const weir_result result = record(state, stream, &made);
         if (result != WEIR_SUCCESS) return result;
         *fence = reinterpret_cast<uintptr_t>(stream);
         latest.put(*fence, made);
         return result;
       };
       t.fence_poll = [](weir_be_state *state, weir_be_fence fence) {
         return real().fence_poll(state, latest.find(fence).value_or(0));
       };
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         return real().fence_wait(state, latest.find(fence).value_or(0), timeout_ns);
       };
       t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
         return real().stream_wait(state, stream, latest.find(fence).value_or(0));
       };
     }},
    {"fence_wait_ignores_timeout", "fence_wait waits on when its time is over", "FE-005",
     [](weir_backend_table &t) {
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         // Not for ever: see mutant.hpp.
         const uint64_t longer =
             timeout_ns < UINT64_MAX / 2 ? timeout_ns + 30 * second : timeout_ns;
         return real().fence_wait(state, fence, longer);
       };
     }},
    {"fence_wait_of_nothing_waits", "fence_wait waits where it was told to ask once", "FE-004",
     [](weir_backend_table &t) {
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         return real().fence_wait(state, fence, timeout_ns == 0 ? 30 * second : timeout_ns);
       };
     }},
    {"fence_wait_gives_up", "fence_wait returns at once, whatever time it has",
     "FE-012,FE-002,FE-008",
     [](weir_backend_table &t) {
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t) {
         return real().fence_wait(state, fence, 0);
       };
     }},
    {"fence_wait_overflows", "the end of a very long wait lies in the past", "FE-008",
     [](weir_backend_table &t) {
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         const bool wraps = timeout_ns > INT64_MAX && timeout_ns != UINT64_MAX;
         return real().fence_wait(state, fence, wraps ? 0 : timeout_ns);
       };
     }},
    {"fence_of_one_waiter", "only one thread at a time can wait for fences", "FE-020",
     [](weir_backend_table &t) {
       static std::atomic<int> waiting{0};
       t.fence_wait = [](auto... rest) {
         if (waiting.fetch_add(1) != 0) {
           --waiting;
           return weir_result{WEIR_ERROR_BACKEND};
         }
         const weir_result result = real().fence_wait(rest...);
         --waiting;
         return result;
       };
     }},
    {"fence_passes_once", "fence_poll says once that a fence has passed, and then no more",
     "FE-022",
     [](weir_backend_table &t) {
       static Book<weir_be_fence, bool> told;
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         const weir_result result = record(state, stream, fence);
         if (result == WEIR_SUCCESS) (void)told.take(*fence);
         return result;
       };
       t.fence_poll = [](weir_be_state *state, weir_be_fence fence) {
         if (told.find(fence)) return weir_result{WEIR_NOT_READY};
         const weir_result result = real().fence_poll(state, fence);
         if (result == WEIR_SUCCESS) told.put(fence, true);
         return result;
       };
     }},
    {"timeout_is_success", "fence_wait says SUCCESS when its time is over", "FE-005",
     [](weir_backend_table &t) {
       t.fence_wait = [](auto... rest) {
         const weir_result result = real().fence_wait(rest...);
         return result == WEIR_ERROR_TIMEOUT ? weir_result{WEIR_SUCCESS} : result;
       };
     }},
    {"timeout_is_not_ready", "fence_wait says NOT_READY when its time is over", "FE-005",
     [](weir_backend_table &t) {
       t.fence_wait = [](auto... rest) {
         const weir_result result = real().fence_wait(rest...);
         return result == WEIR_ERROR_TIMEOUT ? weir_result{WEIR_NOT_READY} : result;
       };
     }},
    {"poll_is_timeout", "fence_poll says TIMEOUT for a fence that has not passed", "FE-003",
     [](weir_backend_table &t) {
       t.fence_poll = [](auto... rest) {
         const weir_result result = real().fence_poll(rest...);
         return result == WEIR_NOT_READY ? weir_result{WEIR_ERROR_TIMEOUT} : result;
       };
     }},
    {"fence_known_to_one_thread", "a fence is only known to the thread that recorded it", "FE-022",
     [](weir_backend_table &t) {
       static Book<weir_be_fence, uint64_t> recorded;
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         const weir_result result = record(state, stream, fence);
         if (result == WEIR_SUCCESS) recorded.put(*fence, this_thread());
         return result;
       };
       t.fence_poll = [](weir_be_state *state, weir_be_fence fence) {
         const auto thread = recorded.find(fence);
         return thread && *thread != this_thread() ? weir_result{WEIR_ERROR_INVALID_ARGUMENT}
                                                   : real().fence_poll(state, fence);
       };
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         const auto thread = recorded.find(fence);
         return thread && *thread != this_thread() ? weir_result{WEIR_ERROR_INVALID_ARGUMENT}
                                                   : real().fence_wait(state, fence, timeout_ns);
       };
     }},
    {"fence_used_up", "a fence can be waited for once", "FE-007",
     [](weir_backend_table &t) {
       static Book<weir_be_fence, bool> fresh;
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         const weir_result result = record(state, stream, fence);
         if (result == WEIR_SUCCESS) fresh.put(*fence, true);
         return result;
       };
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         if (!fresh.find(fence)) return weir_result{WEIR_ERROR_INVALID_ARGUMENT};
         const weir_result result = real().fence_wait(state, fence, timeout_ns);
         if (result == WEIR_SUCCESS) (void)fresh.take(fence);
         return result;
       };
     }},
    {"pending_fence_not_destroyed", "a fence that has not passed can't be destroyed", "FE-016",
     [](weir_backend_table &t) {
       t.fence_destroy = [](weir_be_state *state, weir_be_fence fence) {
         return real().fence_poll(state, fence) == WEIR_NOT_READY
                    ? weir_result{WEIR_ERROR_BUSY}
                    : real().fence_destroy(state, fence);
       };
     }},
    {"fence_destroy_waits", "destroying a fence waits until it has passed", "FE-016",
     [](weir_backend_table &t) {
       t.fence_destroy = [](weir_be_state *state, weir_be_fence fence) {
         (void)real().fence_wait(state, fence, 30 * second);
         return real().fence_destroy(state, fence);
       };
     }},
    {"fence_is_zero", "a fence is 0, which means none", "FE-001",
     [](weir_backend_table &t) {
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         const weir_result result = record(state, stream, fence);
         if (result == WEIR_SUCCESS) *fence = 0;
         return result;
       };
     }},
    {"fences_run_out", "destroyed fences are not used again: after 20000 there are no more",
     "LI-002",
     [](weir_backend_table &t) {
       static std::atomic<uint32_t> made{0};
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         return made.fetch_add(1) < 20000 ? record(state, stream, fence)
                                          : weir_result{WEIR_ERROR_BACKEND};
       };
     }},
};

}  // namespace

std::span<const Fault> fence_faults() { return faults; }

}  // namespace weir::mutants
