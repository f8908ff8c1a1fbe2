// SPDX-License-Identifier: Apache-2.0
//
// Subtle faults of starting and stopping, of what is told about failures, and of what a call leaves in its thread.

#include "tests/mutants/memory_tools.hpp"

#include <fcntl.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <cfenv>
#include <cstdio>
#include <thread>

namespace weir::mutants {
namespace {

using mem::Key;
using mem::refuse;
using T = weir_backend_table;

void leave_descriptor() { (void)open("/dev/null", O_RDONLY | O_CLOEXEC); }

/// What states have, and what each of it is like.
struct Ledger {
  std::mutex mutex;
  std::map<Key, mem::Block> entries;

  void put(const Key &key, const mem::Block &block) {
    const std::lock_guard lock(mutex);
    entries[key] = block;
  }
  void erase(const Key &key) {
    const std::lock_guard lock(mutex);
    entries.erase(key);
  }
  /// What the state has, taken out.
  std::vector<std::pair<uint64_t, mem::Block>> take(weir_be_state *state) {
    const std::lock_guard lock(mutex);
    std::vector<std::pair<uint64_t, mem::Block>> taken;
    for (auto at = entries.lower_bound({state, 0}); at != entries.end() && at->first.first == state;
         at = entries.erase(at))
      taken.emplace_back(at->first.second, at->second);
    return taken;
  }
};
Ledger ledger;

/// The calling thread's last result of an entry that is given to watch().
thread_local weir_result last_result = WEIR_SUCCESS;
thread_local bool asked = false;

template <auto Member>
void watch_one(T &t) {
  t.*Member = [](weir_be_state *state, auto... rest) {
    asked = false;
    return last_result = (real().*Member)(state, rest...);
  };
}

template <auto... Members>
void watch(T &t) {
  (watch_one<Members>(t), ...);
}

/// Everything but the fast path, which fails for dead handles only.
void watch_all(T &t) {
  watch<&T::device_count, &T::device_describe, &T::device_memory, &T::link_describe,
        &T::granule_create, &T::granule_destroy, &T::range_reserve, &T::range_free, &T::map,
        &T::unmap, &T::granule_export, &T::granule_import, &T::plain_allocate, &T::plain_free,
        &T::host_allocate, &T::host_free, &T::host_register, &T::host_unregister, &T::stream_create,
        &T::stream_wrap, &T::stream_destroy, &T::stream_native, &T::stream_query,
        &T::stream_synchronize, &T::stream_host_call, &T::fence_record, &T::stream_wait,
        &T::copy_async, &T::copy_batch_async, &T::fill_async, &T::peer_enable, &T::map_run,
        &T::unmap_run, &T::access_add>(t);
}

struct Listener {
  weir_be_state *state;
  weir_log_callback log;
  void *user;
};
std::mutex listeners_mutex;
std::vector<Listener> listeners;

void log_to_last(void *, int32_t level, const char *text) {
  Listener last{};
  {
    const std::lock_guard lock(listeners_mutex);
    if (!listeners.empty()) last = listeners.back();
  }
  if (last.log != nullptr) last.log(last.user, level, text);
}

constexpr Fault faults[] = {
    // "What a backend does not know of weir_be_start it ignores"; "fields may be appended".
    {"start_refuses_longer_desc", "a start by a newer core, whose descriptor is longer, is refused",
     "RT-020",
     [](T &t) {
       t.start = [](const weir_be_start *desc, weir_be_state **state, const char **reason) {
         if (desc->struct_size <= sizeof(weir_be_start)) return real().start(desc, state, reason);
         *reason = "the core is of another version";
         return weir_result{WEIR_ERROR_INVALID_ARGUMENT};
       };
     }},
    // "*reason (... static or owned by the library until this thread's next start) says why".
    {"reason_shared_by_threads", "a failed start's reason is overwritten by another thread's",
     "RT-022",
     [](T &t) {
       t.start = [](const weir_be_start *desc, weir_be_state **state, const char **reason) {
         static std::mutex mutex;
         static char text[512];
         const weir_result result = real().start(desc, state, reason);
         if (result == WEIR_SUCCESS) return result;
         const std::lock_guard lock(mutex);
         std::snprintf(text, sizeof text, "%s", *reason);
         *reason = text;
         return result;
       };
     }},
    // The same sentence: the next start ends it, and no other call.
    {"reason_shares_error_text", "a start's reason is overwritten by the thread's next failed call",
     "RT-016",
     [](T &t) {
       static thread_local char text[512];
       static void (*const overwrite)(weir_be_state *) = [](weir_be_state *state) {
         const int64_t code = real().last_error_code(state);
         std::snprintf(text, sizeof text, "%s", real().error_text(state, code));
       };
       t.start = [](const weir_be_start *desc, weir_be_state **state, const char **reason) {
         const weir_result result = real().start(desc, state, reason);
         if (result == WEIR_SUCCESS) return result;
         std::snprintf(text, sizeof text, "%s", *reason);
         *reason = text;
         return result;
       };
       t.plain_allocate = [](weir_be_state *state, auto... rest) {
         const weir_result result = real().plain_allocate(state, rest...);
         if (result != WEIR_SUCCESS) overwrite(state);
         return result;
       };
       t.device_describe = [](weir_be_state *state, auto... rest) {
         const weir_result result = real().device_describe(state, rest...);
         if (result != WEIR_SUCCESS) overwrite(state);
         return result;
       };
       t.granule_create = [](weir_be_state *state, auto... rest) {
         const weir_result result = real().granule_create(state, rest...);
         if (result != WEIR_SUCCESS) overwrite(state);
         return result;
       };
     }},
    // "On failure nothing has changed, nothing is leaked".
    {"failed_start_keeps_slot", "a failed start keeps its place: after 32 of them none succeeds",
     "RT-009",
     [](T &t) {
       t.start = [](const weir_be_start *desc, weir_be_state **state, const char **reason) {
         static std::atomic<int> slots{32};
         if (slots <= 0) {
           *reason = "all states are in use";
           return weir_result{WEIR_ERROR_BACKEND};
         }
         const weir_result result = real().start(desc, state, reason);
         if (result != WEIR_SUCCESS) --slots;
         return result;
       };
     }},
    // stop: "Frees everything the state still owns".
    {"stop_leaks_live_granules",
     "granules that live when a state is stopped are missing in the next", "RT-013",
     [](T &t) {
       static std::array<std::atomic<uint64_t>, 64> lost;
       t.start = [](const weir_be_start *desc, weir_be_state **state, const char **reason) {
         const weir_result result = real().start(desc, state, reason);
         for (uint32_t i = 0; result == WEIR_SUCCESS && i < lost.size(); ++i) {
           weir_be_granule granule = 0;
           if (lost[i] != 0 && i < mem::devices(*state))
             (void)real().granule_create(*state, i, lost[i], 0, &granule);
         }
         return result;
       };
       t.granule_create = [](weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                             weir_be_granule *granule) {
         const weir_result result = real().granule_create(state, device, bytes, flags, granule);
         if (result == WEIR_SUCCESS) ledger.put({state, *granule}, {device, bytes});
         return result;
       };
       t.granule_destroy = [](weir_be_state *state, uint32_t device, weir_be_granule granule) {
         const weir_result result = real().granule_destroy(state, device, granule);
         if (result == WEIR_SUCCESS) ledger.erase({state, granule});
         return result;
       };
       t.stop = [](weir_be_state *state) {
         for (const auto &each : ledger.take(state))
           lost[each.second.device % lost.size()] += each.second.bytes;
         real().stop(state);
       };
     }},
    // The same sentence.
    {"stop_leaks_imports", "an imported granule that lives at stop leaves its descriptor open",
     "RT-033",
     [](T &t) {
       t.granule_import = [](weir_be_state *state, uint32_t device, int32_t fd, uint64_t bytes,
                             weir_be_granule *granule) {
         const weir_result result = real().granule_import(state, device, fd, bytes, granule);
         if (result == WEIR_SUCCESS) ledger.put({state, *granule}, {device, bytes});
         return result;
       };
       t.granule_destroy = [](weir_be_state *state, uint32_t device, weir_be_granule granule) {
         const weir_result result = real().granule_destroy(state, device, granule);
         if (result == WEIR_SUCCESS) ledger.erase({state, granule});
         return result;
       };
       t.stop = [](weir_be_state *state) {
         for (size_t i = ledger.take(state).size(); i-- > 0;) leave_descriptor();
         real().stop(state);
       };
     }},
    // stop: "Any thread may call it."
    {"stop_needs_starting_thread", "a stop by another thread than the starting one ends nothing",
     "RT-032",
     [](T &t) {
       static Book<weir_be_state *, std::thread::id> starters;
       t.start = [](const weir_be_start *desc, weir_be_state **state, const char **reason) {
         const weir_result result = real().start(desc, state, reason);
         if (result == WEIR_SUCCESS) starters.put(*state, std::this_thread::get_id());
         return result;
       };
       t.stop = [](weir_be_state *state) {
         const auto starter = starters.take(state);
         if (!starter || *starter == std::this_thread::get_id()) real().stop(state);
       };
     }},
    // stop: "also when its streams have work to do: that is waited for or given up".
    {"stop_leaks_when_busy", "a stream with work to do leaves a descriptor open at stop", "RT-013",
     [](T &t) {
       t.stream_create = [](weir_be_state *state, uint32_t device, uint64_t flags,
                            weir_be_stream *stream) {
         const weir_result result = real().stream_create(state, device, flags, stream);
         if (result == WEIR_SUCCESS)
           ledger.put({state, reinterpret_cast<uintptr_t>(*stream)}, {device, 0});
         return result;
       };
       t.stream_destroy = [](weir_be_state *state, weir_be_stream stream) {
         const weir_result result = real().stream_destroy(state, stream);
         if (result == WEIR_SUCCESS) ledger.erase({state, reinterpret_cast<uintptr_t>(stream)});
         return result;
       };
       t.stop = [](weir_be_state *state) {
         for (const auto &each : ledger.take(state)) {
           const auto stream = reinterpret_cast<weir_be_stream>(static_cast<uintptr_t>(each.first));
           if (real().stream_query(state, stream) == WEIR_NOT_READY) leave_descriptor();
         }
         real().stop(state);
       };
     }},
    // runtime_version: "Lives as long as the state."
    {"version_ends_with_other_state", "the version becomes \"\" when another state is stopped",
     "RT-029",
     [](T &t) {
       static std::atomic<bool> ended{false};
       t.start = [](const weir_be_start *desc, weir_be_state **state, const char **reason) {
         const weir_result result = real().start(desc, state, reason);
         if (result == WEIR_SUCCESS) ended = false;
         return result;
       };
       t.runtime_version = [](weir_be_state *state) {
         return ended ? "" : real().runtime_version(state);
       };
       t.stop = [](weir_be_state *state) {
         real().stop(state);
         ended = true;
       };
     }},
    // last_error_code: "Asking changes nothing."
    {"error_code_cleared_by_asking", "the second time it is asked for, the last error code is 0",
     "ER-004,ER-006",
     [](T &t) {
       watch_all(t);
       t.last_error_code = [](weir_be_state *state) {
         return std::exchange(asked, true) ? int64_t{0} : real().last_error_code(state);
       };
     }},
    // "On failure ... last_error_code() gives the thread a code that is not 0".
    {"not_supported_has_no_code", "a failure that is NOT_SUPPORTED has no code", "ER-015,ER-016",
     [](T &t) {
       watch_all(t);
       t.last_error_code = [](weir_be_state *state) {
         return last_result == WEIR_ERROR_NOT_SUPPORTED ? int64_t{0}
                                                        : real().last_error_code(state);
       };
     }},
    // The same sentence: "gives the thread a code".
    {"map_error_code_of_worker", "a refused map's code stays with a worker thread of the backend",
     "ER-015,VM-040,VM-041",
     [](T &t) {
       t.map = [](weir_be_state *state, auto... rest) {
         weir_result result = WEIR_ERROR_OUT_OF_HOST_MEMORY;
         try {
           std::thread([&] { result = real().map(state, rest...); }).join();
         } catch (...) {
           result = real().map(state, rest...);
         }
         return result;
       };
     }},
    // error_text: "valid until the thread's next failure".
    {"error_text_one_a_thread",
     "the text of a code is overwritten when another code's is asked for", "RT-030",
     [](T &t) {
       t.error_text = [](weir_be_state *state, int64_t native) -> const char * {
         static thread_local char text[256];
         std::snprintf(text, sizeof text, "%s", real().error_text(state, native));
         return text;
       };
     }},
    // "log_user goes with log"; "Called once per context; several states may exist."
    {"log_goes_to_last_state", "lines for the log go to the state that was started last", "RT-031",
     [](T &t) {
       t.start = [](const weir_be_start *desc, weir_be_state **state, const char **reason) {
         weir_be_start other = *desc;
         other.log = log_to_last;
         const weir_result result = real().start(&other, state, reason);
         const std::lock_guard lock(listeners_mutex);
         if (result == WEIR_SUCCESS) listeners.push_back({*state, desc->log, desc->log_user});
         return result;
       };
       t.stop = [](weir_be_state *state) {
         real().stop(state);
         const std::lock_guard lock(listeners_mutex);
         std::erase_if(listeners, [&](const Listener &each) { return each.state == state; });
       };
     }},
    // "Entries leave the calling thread's runtime state ... as they found it."
    {"failed_register_leaves_mask", "a refused registration leaves signals of the thread blocked",
     "RT-027",
     [](T &t) {
       t.host_register = [](weir_be_state *state, void *memory, uint64_t bytes) {
         const weir_result result = real().host_register(state, memory, bytes);
         sigset_t one;
         sigemptyset(&one);
         sigaddset(&one, SIGTERM);
         if (result != WEIR_SUCCESS) pthread_sigmask(SIG_BLOCK, &one, nullptr);
         return result;
       };
     }},
    // The same sentence.
    {"failed_map_leaves_rounding", "a refused map leaves the thread with another rounding",
     "RT-027",
     [](T &t) {
       t.map = [](auto... rest) {
         const weir_result result = real().map(rest...);
         if (result != WEIR_SUCCESS) std::fesetround(FE_UPWARD);
         return result;
       };
     }},
    // "Entries are thread-safe unless the comment says otherwise."
    {"new_thread_fails_once", "the first allocation of every thread but the starting one fails",
     "TH-003,TH-004,TH-008",
     [](T &t) {
       static thread_local bool known = false;
       t.start = [](auto... rest) {
         known = true;
         return real().start(rest...);
       };
       t.plain_allocate = [](weir_be_state *state, auto... rest) {
         return std::exchange(known, true) ? real().plain_allocate(state, rest...)
                                           : refuse(state, WEIR_ERROR_BACKEND);
       };
     }},
    // device_count: "It does not change while the state lives"; "several states may exist".
    {"device_count_is_global", "the number of devices is that of the state started last", "DV-027",
     [](T &t) {
       static std::atomic<uint32_t> count{0};
       t.start = [](const weir_be_start *desc, weir_be_state **state, const char **reason) {
         const weir_result result = real().start(desc, state, reason);
         if (result == WEIR_SUCCESS) count = mem::devices(*state);
         return result;
       };
       t.device_count = [](weir_be_state *, uint32_t *out) {
         *out = count;
         return weir_result{WEIR_SUCCESS};
       };
     }},
};

}  // namespace

std::span<const Fault> subtle_state_faults() { return faults; }

}  // namespace weir::mutants
