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
  /// Whether the mutex is free, for the process's end, when nobody begins to use it any more but other threads may.
  bool free_now() WEIR_IS_LOCK {
    if (!mutex.try_lock()) return false;
    mutex.unlock();
    return true;
  }
};

/// Never ended: a context may be ended while the process is.
Contexts &contexts() {
  static Contexts *const list = new Contexts;
  return *list;
}

/// What a context has, in lines. Threads may be anywhere in their calls, so nothing is waited for that one may keep for long.
std::vector<std::string> left_of(pool::Context &context) {
  std::vector<StackedText> texts;
  (void)context.try_any_pool([&texts](pool::Pool &pool) {
    PoolLock &lock = pool.engine().sync().lock;
    StackedText &text = texts.emplace_back();
    text += "pool" + std::string(QuotedName(pool.name()).c_str()) + " was not destroyed";
    if (!lock.free_now()) return false;
    const PoolLock::Quiet quiet;
    if (const pool::LeftBehind left(pool.engine().inspector()); left.any()) {
      text += ": " + left.line() + '\n';
      left.add_stacks(&text);
    }
    return false;
  });
  std::vector<std::string> lines;
  for (const StackedText &text : texts) {
    const std::string whole = text.whole();
    for (size_t at = 0; at < whole.size();) {
      const size_t end = std::min(whole.find('\n', at), whole.size());
      lines.push_back(whole.substr(at, end - at));
      at = end + 1;
    }
  }
  lines.push_back("a context was not destroyed");
  return lines;
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
    std::vector<pool::Context *> all;
    {
      const Guard hold(list.mutex);
      all = list.all;
    }
    for (pool::Context *const context : all) {
      const Log &log = context->log();
      if (!logs_to_stderr(log)) continue;
      for (const std::string &line : left_of(*context))
        log.callback()(log.user(), WEIR_LOG_WARNING, line.c_str());
    }
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
