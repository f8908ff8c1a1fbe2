// SPDX-License-Identifier: Apache-2.0
//
// Subtle faults of waiting for fences: of the time it takes, of who wakes whom, and of what a wait leaves behind.

#include "tests/mutants/subtle_work.hpp"

#include <sys/prctl.h>

#include <atomic>
#include <cerrno>
#include <cfenv>
#include <chrono>
#include <ctime>
#include <mutex>

namespace weir::mutants {
namespace {

constexpr uint64_t millisecond = 1'000'000, second = 1'000'000'000;

weir_result wait(weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
  return real().fence_wait(state, fence, timeout_ns);
}

uint64_t now() {
  return static_cast<uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

/// How long to wait in this slice of a wait that ends at `end`.
uint64_t slice(uint64_t end, uint64_t longest) {
  const uint64_t at = now(), left = end > at ? end - at : 0;
  return left < longest ? left : longest;
}

uint64_t end_of(uint64_t timeout_ns) {
  const uint64_t at = now();
  return timeout_ns < UINT64_MAX - at ? at + timeout_ns : UINT64_MAX;
}

/// Held by threads that wait, as by a backend with one lock; nobody waits for it for more than five seconds.
std::timed_mutex runtime_lock;
constexpr std::chrono::seconds longest_hold{5};

/// Until when a poll's answer is not asked for again.
Book<weir_be_fence, uint64_t> old_answers;

constexpr Fault faults[] = {
    // fence_wait: "Blocks up to timeout_ns": not for less while the fence has not passed.
    {"timeout_in_whole_milliseconds",
     "the time to wait is cut to whole milliseconds, below 1 to none", "FE-025",
     [](weir_backend_table &t) {
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         const bool limited = timeout_ns != UINT64_MAX;
         return wait(state, fence, limited ? timeout_ns / millisecond * millisecond : timeout_ns);
       };
     }},
    // "Blocks up to timeout_ns"; timeout_ns has 64 bits.
    {"timeout_in_32_bits", "of the time to wait only the lower 32 bits count", "FE-025",
     [](weir_backend_table &t) {
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         const bool limited = timeout_ns != UINT64_MAX;
         return wait(state, fence, limited ? timeout_ns & UINT32_MAX : timeout_ns);
       };
     }},
    // "Blocks up to timeout_ns".
    {"timeout_in_whole_seconds", "the time to wait is rounded up to whole seconds", "FE-025,FE-028",
     [](weir_backend_table &t) {
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         const bool rounded = timeout_ns >= millisecond && timeout_ns < UINT64_MAX - second;
         return wait(state, fence,
                     rounded ? (timeout_ns + second - 1) / second * second : timeout_ns);
       };
     }},
    // "UINT64_MAX = no limit".
    {"no_limit_is_five_seconds", "a wait without limit ends with TIMEOUT after five seconds",
     "NONE",
     [](weir_backend_table &t) {
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         return wait(state, fence, timeout_ns == UINT64_MAX ? 5 * second : timeout_ns);
       };
     }},
    // fence_wait: "(0 = poll ...): SUCCESS or WEIR_ERROR_TIMEOUT".
    {"wait_of_no_time_is_not_ready", "a wait of no time answers as a poll does, with NOT_READY",
     "FE-004",
     [](weir_backend_table &t) {
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         return timeout_ns == 0 ? real().fence_poll(state, fence) : wait(state, fence, timeout_ns);
       };
     }},
    // "Blocks up to timeout_ns", on every device.
    {"timeout_of_first_device_only", "a wait for a fence of another device goes on past its time",
     "FE-025,FE-028,FE-029",
     [](weir_backend_table &t) {
       keep_streams(t);
       own_fences(t);
       static Book<weir_be_fence, bool> second_device;
       t.fence_record = [](weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
         const weir_result result = OwnFences::record(state, stream, fence);
         if (result == WEIR_SUCCESS && device_of(state, stream) != 0)
           second_device.put(*fence, true);
         return result;
       };
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         const bool longer = timeout_ns != 0 && timeout_ns < 5 * second;
         return wait(state, OwnFences::of(fence),
                     longer && second_device.find(fence) ? 5 * second : timeout_ns);
       };
     }},
    // fence_wait: "SUCCESS or WEIR_ERROR_TIMEOUT", and TIMEOUT when the time is over.
    {"signal_ends_wait", "a signal that the thread handles ends its wait with TIMEOUT", "FE-035",
     [](weir_backend_table &t) {
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         const uint64_t end = end_of(timeout_ns);
         weir_result result = wait(state, fence, 0);
         while (result == WEIR_ERROR_TIMEOUT) {
           const uint64_t pause = slice(end, millisecond / 5);
           if (pause == 0) break;
           const timespec nap{0, static_cast<long>(pause)};
           if (clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, nullptr) == EINTR) return result;
           result = wait(state, fence, 0);
         }
         return result;
       };
     }},
    // "waited for ... by any thread": each waiter waits for its own fence.
    {"waiter_woken_by_another_fence",
     "when a fence passes, all threads that wait are woken and none looks whether it was its own",
     "TH-019",
     [](weir_backend_table &t) {
       static std::atomic<uint64_t> wakes{0};
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         weir_result result = wait(state, fence, 0);
         if (result != WEIR_ERROR_TIMEOUT || timeout_ns == 0) return result;
         const uint64_t end = end_of(timeout_ns), before = wakes.load();
         while (result == WEIR_ERROR_TIMEOUT && wakes.load() == before) {
           const uint64_t pause = slice(end, millisecond);
           if (pause == 0) return result;
           result = wait(state, fence, pause);
         }
         if (result == WEIR_SUCCESS) ++wakes;
         return result == WEIR_ERROR_TIMEOUT ? done : result;
       };
     }},
    // fence_poll: "SUCCESS or NOT_READY", of now: a fence that a wait saw pass has passed.
    {"poll_repeats_old_answer", "a poll that said NOT_READY says so again for a fifth of a second",
     "FE-003,FE-020",
     [](weir_backend_table &t) {
       own_fences(t);
       t.fence_poll = [](weir_be_state *state, weir_be_fence fence) {
         if (now() < old_answers.find(fence).value_or(0)) return weir_result{WEIR_NOT_READY};
         const weir_result result = real().fence_poll(state, OwnFences::of(fence));
         if (result == WEIR_NOT_READY) old_answers.put(fence, now() + second / 5);
         return result;
       };
       t.fence_destroy = [](weir_be_state *state, weir_be_fence fence) {
         (void)old_answers.take(fence);
         return OwnFences::destroy(state, fence);
       };
     }},
    // "waited for any number of times".
    {"timed_out_fence_waits_no_more",
     "after a wait that timed out the next for the fence returns at once", "FE-005",
     [](weir_backend_table &t) {
       own_fences(t);
       static Book<weir_be_fence, bool> timed_out;
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         const bool before = timed_out.find(fence).has_value();
         const bool limited = timeout_ns != UINT64_MAX;
         const weir_result result =
             wait(state, OwnFences::of(fence), before && limited ? 0 : timeout_ns);
         if (result == WEIR_ERROR_TIMEOUT && timeout_ns != 0) timed_out.put(fence, true);
         return result;
       };
       t.fence_destroy = [](weir_be_state *state, weir_be_fence fence) {
         (void)timed_out.take(fence);
         return OwnFences::destroy(state, fence);
       };
     }},
    // "NOT_READY and TIMEOUT are answers": they leave nothing behind.
    {"timed_out_waits_pile_up", "a wait that timed out keeps its place; there are 2,000", "FE-034",
     [](weir_backend_table &t) {
       static std::atomic<uint32_t> kept{0};
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         if (timeout_ns != 0 && kept >= 2000) {
           (void)real().fence_poll(state, 0);
           return weir_result{WEIR_ERROR_BACKEND};
         }
         const weir_result result = wait(state, fence, timeout_ns);
         if (result == WEIR_ERROR_TIMEOUT && timeout_ns != 0) ++kept;
         return result;
       };
     }},
    // "Blocks up to timeout_ns", whatever other threads do.
    {"timed_wait_behind_synchronize",
     "a wait with a limit waits first for threads that synchronize, whatever its limit", "FE-029",
     [](weir_backend_table &t) {
       t.stream_synchronize = [](weir_be_state *state, weir_be_stream stream) {
         const std::unique_lock hold(runtime_lock, longest_hold);
         return real().stream_synchronize(state, stream);
       };
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         { const std::unique_lock hold(runtime_lock, longest_hold); }
         return wait(state, fence, timeout_ns);
       };
     }},
    // stream_wait: "Does not block the thread."
    {"stream_wait_behind_waiter", "stream_wait blocks while another thread waits for a fence",
     "FE-029",
     [](weir_backend_table &t) {
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         if (timeout_ns == 0) return wait(state, fence, timeout_ns);
         const std::unique_lock hold(runtime_lock, std::try_to_lock);
         return wait(state, fence, timeout_ns);
       };
       t.stream_wait = [](weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
         const std::unique_lock hold(runtime_lock, longest_hold);
         return real().stream_wait(state, stream, fence);
       };
     }},
    // "Entries leave the calling thread's runtime state ... as they found it."
    {"wait_leaves_timer_slack",
     "a wait that has to sleep leaves the thread with another timer slack", "RT-034",
     [](weir_backend_table &t) {
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         const weir_result result = wait(state, fence, 0);
         if (result != WEIR_ERROR_TIMEOUT || timeout_ns == 0) return result;
         (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
         return wait(state, fence, timeout_ns);
       };
     }},
    // The same sentence, on the way out that is taken seldom.
    {"timeout_leaves_rounding", "a wait that times out leaves the thread with another rounding",
     "RT-027",
     [](weir_backend_table &t) {
       t.fence_wait = [](weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
         const int before = std::fegetround();
         std::fesetround(FE_UPWARD);
         const weir_result result = wait(state, fence, timeout_ns);
         if (result != WEIR_ERROR_TIMEOUT || timeout_ns == 0) std::fesetround(before);
         return result;
       };
     }},
};

}  // namespace

std::span<const Fault> subtle_timeout_faults() { return faults; }

}  // namespace weir::mutants
