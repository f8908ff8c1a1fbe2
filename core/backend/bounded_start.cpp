// SPDX-License-Identifier: Apache-2.0
//
// The thread that starts a runtime, and what it shares with the thread that waits for it.

#include "core/backend/bounded_start.hpp"

#include "core/base/mutex.hpp"
#include "core/base/signals.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace weir::backend {
namespace {

/// Shared by both threads, so that it outlives whichever leaves first.
struct Attempt {
  weir_backend_table table;
  std::string options;
  std::vector<std::byte> native;  ///< aligned for any type, as all of the heap's is
  std::shared_ptr<LogGate> log;
  RankedMutex<Rank::leaf> mutex;
  Signal changed;
  bool done WEIR_GUARDED_BY(mutex) = false, given_up WEIR_GUARDED_BY(mutex) = false;
  Started outcome WEIR_GUARDED_BY(mutex);

  /// False: it is given up, and no thread waits for it any more. The reason is copied on the thread that starts, as the sentence may be its own.
  bool tell(weir_result result, weir_be_state *state, const char *reason) noexcept {
    const Guard hold(mutex);
    if (given_up) return false;
    if (result == WEIR_SUCCESS) outcome.state = state;
    try {
      if (result != WEIR_SUCCESS && reason != nullptr) outcome.reason = reason;
    } catch (...) {
      // Without memory for it there is the result.
    }
    outcome.result = result;
    done = true;
    changed.notify_all();
    return true;
  }

  /// False: it is given up.
  bool await(std::chrono::nanoseconds limit, Started *result) noexcept {
    const auto end = std::chrono::steady_clock::now() + limit;
    Guard hold(mutex);
    while (!done && changed.wait_until(hold, end)) {
    }
    given_up = !done;
    if (done) *result = std::move(outcome);
    return done;
  }

  void run() noexcept {
    weir_be_start desc{};
    desc.struct_size = sizeof desc;
    desc.options = options.c_str();
    desc.log = log->wanted() ? LogGate::write : nullptr;
    desc.log_user = log.get();
    desc.native = native.empty() ? nullptr : native.data();
    const char *reason = "";
    weir_be_state *state = nullptr;
    const weir_result result = table.start(&desc, &state, &reason);
    if (!tell(result, state, reason) && result == WEIR_SUCCESS) table.stop(state);
  }
};

}  // namespace

void LogGate::write(void *user, int32_t level, const char *text) {
  auto *self = static_cast<LogGate *>(user);
  self->inside_.fetch_add(1);
  if (!self->closed_.load()) self->log_.callback()(self->log_.user(), level, text);
  self->inside_.fetch_sub(1);
}

void LogGate::close() noexcept {
  closed_.store(true);
  while (inside_.load() != 0) std::this_thread::yield();
}

Started start_within(const weir_backend_table &table, const char *options,
                     std::span<const std::byte> native, std::shared_ptr<LogGate> log,
                     uint64_t timeout_ns) {
  auto attempt = std::make_shared<Attempt>();
  attempt->table = table;
  attempt->options = options;
  attempt->native.assign(native.begin(), native.end());
  attempt->log = std::move(log);
  std::thread thread;
  {
    const SignalsBlocked blocked;
    thread = std::thread([attempt] { attempt->run(); });
  }
  const auto limit =
      std::chrono::nanoseconds(static_cast<int64_t>(std::min<uint64_t>(timeout_ns, INT64_MAX / 4)));
  Started started;
  if (attempt->await(limit, &started)) {
    thread.join();
    return started;
  }
  attempt->log->close();
  // The one thread of Weir's that is let go: it is inside a vendor's code, from which nothing can call it back.
  thread.detach();
  return {};
}

}  // namespace weir::backend
