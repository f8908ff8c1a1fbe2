// SPDX-License-Identifier: Apache-2.0
//
// The table of calls, and the way through enter() that is not the usual one. Counts are compared with what is
// to fail in the addition itself, so that of many threads exactly one gets the n-th call.

#include "tests/drivers/sim/calls.hpp"

#include "backends/host/link.hpp"
#include "tests/drivers/sim/options.hpp"
#include "tests/drivers/sim/stuck.hpp"

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace weir::sim {
namespace {

struct Calls {
  std::mutex mutex;
  std::condition_variable resumed;
  std::map<std::string, std::unique_ptr<Call>, std::less<>> by_name;  // guarded by mutex
  uint64_t resumes = 0;                                               // guarded by mutex
  Call any;
  std::atomic<uint64_t> latency_ns{0};
};

/// Made at first use, and never ended: functions of the driver may be called while the process ends.
Calls &calls() {
  static Calls *const all = new Calls;
  return *all;
}

/// The caller holds the mutex.
Call &find(Calls &all, std::string_view name) {
  auto it = all.by_name.find(name);
  if (it == all.by_name.end()) {
    it = all.by_name.emplace(std::string(name), std::make_unique<Call>()).first;
    it->second->name = it->first.c_str();
  }
  return *it->second;
}

/// The code that this call is to return, or 0.
int64_t count(Call &call) noexcept {
  const uint64_t number = call.count.fetch_add(1, std::memory_order_relaxed) + 1;
  if (call.fails_at.load(std::memory_order_relaxed) != number) return 0;
  call.fails_at.store(0, std::memory_order_relaxed);
  return call.code.load(std::memory_order_relaxed);
}

void hang(Calls &all, const Call &call) {
  std::unique_lock lock(all.mutex);
  const uint64_t before = all.resumes;
  all.resumed.wait(lock, [&] { return all.resumes != before || !call.hangs.load(); });
}

}  // namespace

Call &call(const char *name) {
  Calls &all = calls();
  const std::lock_guard hold(all.mutex);
  return find(all, name);
}

int64_t enter(Call &call) noexcept {
  Calls &all = calls();
  const int64_t own = count(call);
  const int64_t general = count(all.any);
  stuck_if_asked(call.name, call.count, all.any.count);
  if (const uint64_t latency = all.latency_ns.load(std::memory_order_relaxed)) {
    host::wait_until(host::now_ns() + latency);
  }
  if (call.hangs.load(std::memory_order_relaxed)) hang(all, call);
  return own != 0 ? own : general;
}

void fail_call(const char *name, uint64_t nth, int64_t code) {
  Calls &all = calls();
  const std::lock_guard hold(all.mutex);
  Call &failing = name != nullptr ? find(all, name) : all.any;
  failing.code = code;
  failing.fails_at = nth != 0 ? failing.count + nth : 0;
}

uint64_t count_calls(const char *name) noexcept {
  Calls &all = calls();
  if (name == nullptr) return all.any.count;
  const std::lock_guard hold(all.mutex);
  const auto it = all.by_name.find(std::string_view(name));
  return it != all.by_name.end() ? it->second->count.load() : 0;
}

const char *name_call(uint64_t index) noexcept {
  Calls &all = calls();
  const std::lock_guard hold(all.mutex);
  for (const auto &[name, each] : all.by_name) {
    if (index-- == 0) return each->name;
  }
  return nullptr;
}

void resume_calls() noexcept {
  Calls &all = calls();
  {
    const std::lock_guard hold(all.mutex);
    ++all.resumes;
    for (auto &[name, each] : all.by_name) each->hangs = false;
  }
  all.resumed.notify_all();
}

void restart_calls(const Options &options) {
  Calls &all = calls();
  const std::lock_guard hold(all.mutex);
  const auto restart = [](Call &each) {
    each.count = 0;
    each.fails_at = 0;
    each.code = 0;
    each.hangs = false;
  };
  restart(all.any);
  for (auto &[name, each] : all.by_name) restart(*each);
  if (!options.hang.empty()) find(all, options.hang).hangs = true;
  all.latency_ns = options.call_latency_ns;
}

}  // namespace weir::sim
