// SPDX-License-Identifier: Apache-2.0
//
// The thread that starts, and what it shares with who waits for it.

#include "core/backend/bounded_start.hpp"

#include "core/base/signals.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace weir::backend {
namespace {

/// Shared by both threads, so that it outlives whichever leaves first.
struct Attempt {
  weir_backend_table table;
  std::string options;
  std::shared_ptr<LogGate> log;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false, given_up = false;
  Started outcome;

  /// Copied on the thread that starts, as the sentence may be its own. Without memory for it there is the result.
  void keep(const char *reason) noexcept {
    try {
      outcome.reason = reason != nullptr ? reason : "";
    } catch (...) {
      outcome.reason.clear();
    }
  }

  void run() noexcept {
    weir_be_start desc{};
    desc.struct_size = sizeof desc;
    desc.options = options.c_str();
    desc.log = log->wanted() ? LogGate::write : nullptr;
    desc.log_user = log.get();
    const char *reason = "";
    weir_be_state *state = nullptr;
    const weir_result result = table.start(&desc, &state, &reason);
    std::unique_lock hold(mutex);
    if (given_up) {
      hold.unlock();
      if (result == WEIR_SUCCESS) table.stop(state);
      return;
    }
    if (result != WEIR_SUCCESS) keep(reason);
    outcome.state = result == WEIR_SUCCESS ? state : nullptr;
    outcome.result = result;
    done = true;
    changed.notify_all();
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
                     std::shared_ptr<LogGate> log, uint64_t timeout_ns) {
  auto attempt = std::make_shared<Attempt>();
  attempt->table = table;
  attempt->options = options;
  attempt->log = std::move(log);
  std::thread thread;
  {
    const SignalsBlocked blocked;
    thread = std::thread([attempt] { attempt->run(); });
  }
  std::unique_lock hold(attempt->mutex);
  const auto limit =
      std::chrono::nanoseconds(static_cast<int64_t>(std::min<uint64_t>(timeout_ns, INT64_MAX / 4)));
  if (attempt->changed.wait_for(hold, limit, [&] { return attempt->done; })) {
    hold.unlock();
    thread.join();
    return std::move(attempt->outcome);
  }
  attempt->given_up = true;
  hold.unlock();
  attempt->log->close();
  // The one thread of Weir's that is let go: it is inside a vendor's code, from which nothing can call it back.
  thread.detach();
  return {};
}

}  // namespace weir::backend
