// SPDX-License-Identifier: Apache-2.0
//
// The list of contexts, and what is told of it at the process's end.

#include "api/src/contexts.hpp"

#include "api/src/guard.hpp"
#include "core/pool/left_behind.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace weir::api {
namespace {

struct Contexts {
  RankedMutex<Rank::process> mutex;
  std::vector<pool::Context *> all WEIR_GUARDED_BY(mutex);
  /// Whether the mutex is free. For the process's end, when no thread begins to use it any more but one may still hold it.
  bool free_now() { return static_cast<bool>(TryGuard(mutex)); }
};

/// Never ended: a context may be ended while the process is.
Contexts &contexts() {
  static Contexts *const list = new Contexts;
  return *list;
}

struct Left {
  Log log;  ///< the context's
  StackedText text;
};

/// What a context has that was not destroyed, a text for each pool. Threads may be anywhere in their calls, so nothing is waited for
/// that one may keep for long.
void list_left(pool::Context &context, std::vector<Left> *all) {
  const Log &log = context.log();
  (void)context.try_any_pool([all, &log](pool::Pool &pool) {
    PoolLock &lock = pool.engine().sync().lock;
    all->push_back({log, {}});
    StackedText &text = all->back().text;
    text += "pool" + std::string(QuotedName(pool.name()).c_str()) + " was not destroyed";
    if (!lock.free_now()) return false;
    const PoolLock::Quiet quiet;
    if (const pool::LeftBehind left(pool.engine().inspector()); left.any()) {
      text += ": " + left.line() + '\n';
      left.add_stacks(&text);
    }
    return false;
  });
  all->push_back({log, {}});
  all->back().text += "a context was not destroyed";
  if (const std::string open = context.streams().describe_open(&context, false); !open.empty())
    all->back().text += "; it has " + open;
}

/// Logs each line of the text at WARNING.
void log_lines(const Log &log, const std::string &text) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    log.callback()(log.user(), WEIR_LOG_WARNING, text.substr(at, end - at).c_str());
    at = end + 1;
  }
}

/// Runs when the program's own objects have been destroyed, or as the library is unloaded. Only where the user has asked for a log: a
/// program's own callback may be gone.
[[gnu::destructor]] void tell_what_is_left() noexcept {
  if (forked.load(std::memory_order_relaxed)) return;
#if defined(WEIR_DEBUG_CHECKS)
  if (rank_check::held != 0) return;  // a test that ends the process from within a call of Weir's
#endif
  try {
    Contexts &list = contexts();
    if (!list.free_now()) return;
    std::vector<Left> left;
    {
      // No context goes meanwhile. Stacks are described, and lines told, without the mutex.
      const Guard hold(list.mutex);
      for (pool::Context *const context : list.all) {
        const std::string ended = context->tracer().end_with_process();
        if (!logs_to_stderr(context->log())) continue;
        if (!ended.empty()) {
          left.push_back({context->log(), {}});
          left.back().text += ended;
        }
        list_left(*context, &left);
      }
    }
    for (const Left &each : left) log_lines(each.log, each.text.whole());
  } catch (...) {  // the process ends as it would have
  }
}

}  // namespace

void add_context(pool::Context *context) {
  Contexts &list = contexts();
  const Guard hold(list.mutex);
  list.all.push_back(context);
}

void remove_context(pool::Context *context) noexcept {
  Contexts &list = contexts();
  const Guard hold(list.mutex);
  std::erase(list.all, context);
}

bool look_at_pool(uint64_t serial, const std::function<void(pool::Pool &)> &look) {
  Contexts &list = contexts();
  const Guard hold(list.mutex);
  const auto has_it = [&](pool::Context *context) {
    return context->any_pool([&](pool::Pool &pool) {
      if (pool.serial() != serial) return false;
      const PoolLock::Quiet quiet;
      look(pool);
      return true;
    });
  };
  return std::any_of(list.all.begin(), list.all.end(), has_it);
}

}  // namespace weir::api
