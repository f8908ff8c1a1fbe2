// SPDX-License-Identifier: Apache-2.0
//
// Faults of starting, stopping and telling about failures.

#include "tests/mutants/mutant.hpp"

#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <string>

namespace weir::mutants {
namespace {

/// Starts with those options only that are understood by themselves.
weir_result start_with_known(const weir_be_start *desc, weir_be_state **state,
                             const char **reason) {
  std::string known;
  const std::string options = desc->options != nullptr ? desc->options : "";
  weir_be_start other = *desc;
  for (size_t at = 0; at < options.size();) {
    const size_t end = std::min(options.find(';', at), options.size());
    const std::string pair = options.substr(at, end - at);
    other.options = pair.c_str();
    weir_be_state *alone = nullptr;
    if (real().start(&other, &alone, reason) == WEIR_SUCCESS) {
      real().stop(alone);
      known += pair + ';';
    }
    at = end + 1;
  }
  other.options = known.c_str();
  return real().start(&other, state, reason);
}

constexpr Fault faults[] = {
    {"no_reason", "a failed start leaves no reason", "RT-007",
     [](weir_backend_table &t) {
       t.start = [](const weir_be_start *desc, weir_be_state **state, const char **reason) {
         const weir_result result = real().start(desc, state, reason);
         if (result != WEIR_SUCCESS) *reason = nullptr;
         return result;
       };
     }},
    {"unknown_option_passed_over", "an option that nobody knows is passed over in silence",
     "RT-007",
     [](weir_backend_table &t) {
       t.start = [](const weir_be_start *desc, weir_be_state **state, const char **reason) {
         const weir_result result = real().start(desc, state, reason);
         if (result != WEIR_ERROR_INVALID_ARGUMENT) return result;
         return start_with_known(desc, state, reason);
       };
     }},
    {"failed_start_writes_state", "a failed start writes the state", "RT-007",
     [](weir_backend_table &t) {
       t.start = [](const weir_be_start *desc, weir_be_state **state, const char **reason) {
         static char nothing;
         const weir_result result = real().start(desc, state, reason);
         if (result != WEIR_SUCCESS) *state = reinterpret_cast<weir_be_state *>(&nothing);
         return result;
       };
     }},
    {"failed_start_leaks", "each failed start leaves a descriptor open", "RT-009",
     [](weir_backend_table &t) {
       t.start = [](const weir_be_start *desc, weir_be_state **state, const char **reason) {
         const weir_result result = real().start(desc, state, reason);
         if (result != WEIR_SUCCESS) (void)open("/dev/null", O_RDONLY | O_CLOEXEC);
         return result;
       };
     }},
    {"no_version", "runtime_version is NULL", "RT-010",
     [](weir_backend_table &t) {
       t.runtime_version = [](weir_be_state *) -> const char * { return nullptr; };
     }},
    {"no_error_code", "last_error_code is 0 after a failure", "ER-002",
     [](weir_backend_table &t) { t.last_error_code = [](weir_be_state *) { return int64_t{0}; }; }},
    {"error_code_shared", "the last code is the process's, not the thread's", "ER-001,ER-004",
     [](weir_backend_table &t) {
       static std::atomic<int64_t> code{0};
       t.last_error_code = [](weir_be_state *) { return code.load(); };
       t.plain_allocate = [](weir_be_state *state, auto... rest) {
         const weir_result result = real().plain_allocate(state, rest...);
         if (result != WEIR_SUCCESS) code = real().last_error_code(state);
         return result;
       };
       t.device_describe = [](weir_be_state *state, auto... rest) {
         const weir_result result = real().device_describe(state, rest...);
         if (result != WEIR_SUCCESS) code = real().last_error_code(state);
         return result;
       };
       t.device_memory = [](weir_be_state *state, auto... rest) {
         const weir_result result = real().device_memory(state, rest...);
         if (result != WEIR_SUCCESS) code = real().last_error_code(state);
         return result;
       };
     }},
    {"no_error_text", "a code has no text", "ER-002",
     [](weir_backend_table &t) {
       t.error_text = [](weir_be_state *, int64_t) -> const char * { return nullptr; };
     }},
    {"no_text_for_unknown", "a code that nobody knows has no text", "ER-005",
     [](weir_backend_table &t) {
       t.error_text = [](weir_be_state *state, int64_t native) -> const char * {
         return native < 0 || native > 4095 ? nullptr : real().error_text(state, native);
       };
     }},
    {"failure_is_positive", "failures are positive numbers", "DV-014",
     [](weir_backend_table &t) {
       t.device_describe = [](weir_be_state *state, auto... rest) {
         const weir_result result = real().device_describe(state, rest...);
         return result < 0 ? -result + 1 : result;
       };
     }},
    {"second_state_ends_first", "stopping one state breaks the copies of the others", "RT-011",
     [](weir_backend_table &t) {
       static std::atomic<bool> broken{false};
       t.stop = [](weir_be_state *state) {
         real().stop(state);
         broken = true;
       };
       t.start = [](auto... rest) {
         const weir_result result = real().start(rest...);
         if (result == WEIR_SUCCESS) broken = false;
         return result;
       };
       t.copy_async = [](auto... rest) {
         return broken ? weir_result{WEIR_ERROR_BACKEND} : real().copy_async(rest...);
       };
     }},
    {"one_state_for_all", "a second start gives the first one's state", "RT-011",
     [](weir_backend_table &t) {
       static std::mutex mutex;
       static weir_be_state *only = nullptr;
       static int users = 0;
       t.start = [](const weir_be_start *desc, weir_be_state **state, const char **reason) {
         const std::lock_guard lock(mutex);
         if (only == nullptr) {
           const weir_result result = real().start(desc, &only, reason);
           if (result != WEIR_SUCCESS) return result;
         }
         ++users;
         *state = only;
         return weir_result{WEIR_SUCCESS};
       };
       t.stop = [](weir_be_state *) {
         const std::lock_guard lock(mutex);
         if (--users == 0) real().stop(std::exchange(only, nullptr));
       };
     }},
    {"signals_stay_blocked", "an entry leaves signals of the calling thread blocked", "RT-015",
     [](weir_backend_table &t) {
       t.plain_allocate = [](auto... rest) {
         sigset_t one;
         sigemptyset(&one);
         sigaddset(&one, SIGUSR1);
         pthread_sigmask(SIG_BLOCK, &one, nullptr);
         return real().plain_allocate(rest...);
       };
     }},
    {"rounding_changed", "an entry leaves the calling thread with another rounding", "RT-015",
     [](weir_backend_table &t) {
       t.plain_allocate = [](auto... rest) {
         std::fesetround(FE_TOWARDZERO);
         return real().plain_allocate(rest...);
       };
     }},
    {"version_moves", "the version's text is written over by the next start", "RT-010",
     [](weir_backend_table &t) {
       static std::atomic<char> text[2] = {'0', '\0'};
       static_assert(sizeof text == 2);
       t.runtime_version = [](weir_be_state *) { return reinterpret_cast<const char *>(text); };
       t.start = [](auto... rest) {
         text[0] = static_cast<char>(text[0] + 1);
         return real().start(rest...);
       };
     }},
    {"log_line_ended", "lines for the log have a line end", "RT-014",
     [](weir_backend_table &t) {
       static Book<weir_be_state *, std::pair<weir_log_callback, void *>> logs;
       t.start = [](const weir_be_start *desc, weir_be_state **state, const char **reason) {
         const weir_result result = real().start(desc, state, reason);
         if (result == WEIR_SUCCESS) logs.put(*state, {desc->log, desc->log_user});
         return result;
       };
       t.plain_allocate = [](weir_be_state *state, auto... rest) {
         const weir_result result = real().plain_allocate(state, rest...);
         const auto log = logs.find(state);
         if (result < 0 && log && log->first != nullptr)
           log->first(log->second, WEIR_LOG_ERROR, "no memory\n");
         return result;
       };
     }},
    {"reason_names_nothing", "the reason for a refused option does not name it", "RT-007",
     [](weir_backend_table &t) {
       t.start = [](const weir_be_start *desc, weir_be_state **state, const char **reason) {
         const weir_result result = real().start(desc, state, reason);
         if (result != WEIR_SUCCESS) *reason = "an option is wrong";
         return result;
       };
     }},
    {"stop_leaks", "stop ends nothing: threads, descriptors and memory stay", "RT-013",
     [](weir_backend_table &t) { t.stop = [](weir_be_state *) {}; }},
    {"stop_leaks_descriptor", "each state leaves a descriptor open when it is stopped", "RT-013",
     [](weir_backend_table &t) {
       t.stop = [](weir_be_state *state) {
         real().stop(state);
         (void)open("/dev/null", O_RDONLY | O_CLOEXEC);
       };
     }},
};

}  // namespace

std::span<const Fault> state_faults() { return faults; }

}  // namespace weir::mutants
