// SPDX-License-Identifier: Apache-2.0
//
// Writing the page: slots of threads, calls, and the failures that are still held.
#include "conformance/calls.hpp"

#include "conformance/fixtures.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <list>

namespace weir::conformance {
namespace {

CallPage own_page;
std::atomic<CallPage *> current_page{&own_page};
std::atomic<bool> tells_failures{true};
std::atomic<uint64_t> episode{0};  ///< 0: no failure is held

void clear(CallRing &ring) noexcept {
  ring.calls = 0;
  for (CallRecord &record : ring.records)
    record.state.store(CallRecord::State::none, std::memory_order_relaxed);
}

bool under_way(const CallRing &ring) noexcept {
  return std::any_of(ring.records.begin(), ring.records.end(), [](const CallRecord &record) {
    return record.state.load(std::memory_order_relaxed) == CallRecord::State::under_way;
  });
}

/// A thread's claim to a slot, which ends with the thread. What the thread did stays readable until another one takes the slot.
class Claim {
 public:
  ~Claim() {
    if (slot_ != nullptr) slot_->thread.store(0, std::memory_order_release);
    slot_ = nullptr;
    over_ = true;
  }
  CallSlot *known() const noexcept { return slot_; }
  CallSlot *slot() noexcept {
    if (slot_ == nullptr && !over_) take();
    return slot_;
  }

 private:
  void take() noexcept {
    // Threads that come one after the other take the slots in turn, so that those that have ended are still told.
    static std::atomic<uint32_t> next{0};
    const uint32_t me = thread_number(), start = next.fetch_add(1);
    CallPage &page = call_page();
    for (size_t i = 0; i < CallPage::most_threads; ++i) {
      CallSlot &slot = page.slots[(start + i) % CallPage::most_threads];
      uint32_t nobody = 0;
      if (!slot.thread.compare_exchange_strong(nobody, me, std::memory_order_acq_rel)) continue;
      slot.process = static_cast<uint32_t>(getpid());
      slot.owner = me;
      clear(slot.before);
      clear(slot.failing);
      slot_ = &slot;
      return;
    }
  }

  CallSlot *slot_ = nullptr;
  bool over_ = false;
};

Claim &claim() noexcept {
  static thread_local Claim mine;
  return mine;
}

/// The failures that an Outcome still holds. They live as long as the process: outcomes may go after any destructor.
struct Failures {
  struct Failure {
    std::string text;
    uint32_t thread;
  };
  std::mutex mutex;
  std::list<Failure> held;
  uint64_t times = 0;  ///< that there was none, and then one

  /// Under the mutex. The first of them stands in the page.
  void show() {
    if (!tells_failures.load()) return;
    CallPage &page = call_page();
    if (held.empty()) {
      page.failure_bytes.store(0, std::memory_order_release);
      return;
    }
    const std::string &text = held.front().text;
    const size_t used = std::min(text.size(), sizeof page.failure);
    std::memcpy(page.failure, text.data(), used);
    page.failing_thread.store(held.front().thread, std::memory_order_relaxed);
    page.failure_bytes.store(static_cast<uint32_t>(used), std::memory_order_release);
  }
};

Failures &failures() {
  static auto *const all = new Failures;
  return *all;
}

}  // namespace

void share_calls(bool mine) {
  struct stat info {};
  if (fstat(calls_descriptor, &info) != 0 || info.st_size != off_t{sizeof(CallPage)}) return;
  void *memory =
      mmap(nullptr, sizeof(CallPage), PROT_READ | PROT_WRITE, MAP_SHARED, calls_descriptor, 0);
  if (memory == MAP_FAILED) return;
  auto *const page = static_cast<CallPage *>(memory);
  if (page->magic != CallPage::right) {
    munmap(memory, sizeof(CallPage));
    return;
  }
  if (mine) page->process = static_cast<uint32_t>(getpid());
  tells_failures = mine;
  fcntl(calls_descriptor, F_SETFD, FD_CLOEXEC);
  current_page = page;
}

int shared_calls() noexcept { return current_page.load() != &own_page ? calls_descriptor : -1; }

CallPage &call_page() noexcept { return *current_page.load(std::memory_order_acquire); }

void set_phase(CallPage::Phase phase) noexcept {
  call_page().phase.store(phase, std::memory_order_release);
}

uint32_t thread_number() noexcept {
  static thread_local const auto number = static_cast<uint32_t>(gettid());
  return number;
}

void Call::begin(const Site &site, const char *entry, size_t count, const CallRecord::Sort *sorts,
                 const uint64_t *values) noexcept {
  CallSlot *slot = claim().slot();
  if (slot == nullptr) return;
  CallRing &ring = failing_episode() != 0 ? slot->failing : slot->before;
  if (&ring == &slot->before && slot->failing.calls != 0 && !under_way(slot->failing))
    clear(slot->failing);  // the failure was given up
  CallRecord &record = ring.records[ring.calls++ % CallRing::kept];
  record.state.store(CallRecord::State::none, std::memory_order_release);
  record.entry.set(entry);
  record.file.set(site.file_name());
  record.line = site.line();
  record.count = static_cast<uint32_t>(count);
  for (size_t i = 0; i < count; ++i) {
    record.sorts[i] = sorts[i];
    record.values[i] = values[i];
  }
  // The coarse clock is a tenth of the price, and counts in the same time as now_ns().
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  record.began_ns =
      static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
  record.state.store(CallRecord::State::under_way, std::memory_order_release);
  record_ = &record;
}

void Call::end(CallRecord::State how, weir_result result) noexcept {
  if (record_ == nullptr) return;
  record_->result = result;
  record_->state.store(how, std::memory_order_release);
  record_ = nullptr;
}

bool Call::may_be_made() noexcept {
  const CallSlot *slot = claim().known();
  if (slot == nullptr || slot->before.calls + slot->failing.calls == 0) return false;
  return !under_way(slot->before) && !under_way(slot->failing);
}

// ---- failures

std::shared_ptr<void> hold_failure(const std::string &text) {
  Failures &all = failures();
  const std::lock_guard hold(all.mutex);
  if (all.held.empty()) episode = ++all.times;
  const auto at = all.held.insert(all.held.end(), {text, thread_number()});
  all.show();
  // The place in the list is what is pointed to; only the deleter looks at it.
  return {&*at, [at](void *) {
            Failures &those = failures();
            const std::lock_guard again(those.mutex);
            those.held.erase(at);
            if (those.held.empty()) episode = 0;
            those.show();
          }};
}

uint64_t failing_episode() noexcept { return episode.load(std::memory_order_acquire); }

}  // namespace weir::conformance
