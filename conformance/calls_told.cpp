// SPDX-License-Identifier: Apache-2.0
//
// Reading the page: what was under way, the last calls, and the sentence about a crash or a timeout. The writer of the page may have
// been killed at any point, so nothing in it is believed to be whole: lengths are bounded here.
#include "conformance/calls.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

// The linker's names of the places where the program begins and ends.
extern "C" const char __executable_start[];  // NOLINT(bugprone-reserved-identifier)
extern "C" const char end[];

namespace weir::conformance {
namespace {

constexpr uint64_t second = 1'000'000'000;

std::string argument_of(const CallRecord &record, size_t at) {
  const uint64_t value = record.values[at];
  switch (record.sorts[at]) {
    case CallRecord::Sort::pointer:
      return value != 0 ? number(value) : "NULL";
    case CallRecord::Sort::negative_too:
      return std::to_string(static_cast<int64_t>(value));
    case CallRecord::Sort::number:
      break;
  }
  return number(value);
}

/// "map(0, 0x7f.., 65536, 1, 0, NULL, 0)".
std::string call_text(const CallRecord &record) {
  std::string text = record.entry.get() + "(";
  const size_t count = std::min<size_t>(record.count, CallRecord::most_arguments);
  for (size_t i = 0; i < count; ++i) text += (i != 0 ? ", " : "") + argument_of(record, i);
  return text + ")";
}

std::string site_text(const CallRecord &record) {
  const std::string file = record.file.get();
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(record.line);
}

/// What the thread is in; nullptr if in nothing.
const CallRecord *open_call(const CallSlot &slot) {
  const CallRecord *open = nullptr;
  for (const CallRing *ring : {&slot.before, &slot.failing}) {
    for (const CallRecord &record : ring->records) {
      if (record.state.load(std::memory_order_acquire) != CallRecord::State::under_way) continue;
      if (open == nullptr || record.began_ns > open->began_ns) open = &record;
    }
  }
  return open;
}

/// Those that wrote something, in the order in which it was made.
std::vector<const CallRecord *> ordered(const CallRing &ring) {
  std::vector<const CallRecord *> records;
  const uint64_t used = std::min<uint64_t>(ring.calls, CallRing::kept);
  for (uint64_t i = ring.calls - used; i < ring.calls; ++i) {
    const CallRecord &record = ring.records[i % CallRing::kept];
    if (record.state.load(std::memory_order_acquire) != CallRecord::State::none)
      records.push_back(&record);
  }
  return records;
}

bool is_main(const CallPage &page, const CallSlot &slot) {
  return slot.process == page.process && slot.owner == page.process;
}

/// Slots that have calls; the main thread's first, then those of its process.
std::vector<const CallSlot *> told_slots(const CallPage &page) {
  std::vector<const CallSlot *> slots;
  for (const CallSlot &slot : page.slots) {
    if (slot.before.calls + slot.failing.calls != 0) slots.push_back(&slot);
  }
  std::stable_sort(slots.begin(), slots.end(), [&page](const CallSlot *a, const CallSlot *b) {
    const auto rank = [&page](const CallSlot &slot) {
      return is_main(page, slot) ? 0 : slot.process == page.process ? 1 : 2;
    };
    return rank(*a) < rank(*b);
  });
  return slots;
}

std::string thread_name_of(const CallPage &page, const CallSlot &slot) {
  if (is_main(page, slot)) return "the main thread";
  const std::string text = slot.process == page.process ? "thread " : "the other process's thread ";
  return text + std::to_string(slot.owner);
}

std::string lines_of(const CallRing &ring, uint64_t last_ns) {
  std::string text;
  for (const CallRecord *record : ordered(ring)) {
    const auto state = record->state.load(std::memory_order_acquire);
    text += "  " + call_text(*record);
    if (state == CallRecord::State::answered) text += " = " + result_name(record->result);
    if (state == CallRecord::State::under_way) text += ", still under way";
    text += ", called at " + site_text(*record);
    const uint64_t before_ms = (last_ns - std::min(last_ns, record->began_ns)) / 1'000'000;
    if (before_ms != 0) text += ", " + std::to_string(before_ms) + " ms before the last call";
    text += "\n";
  }
  return text;
}

}  // namespace

void ProgramText::set(const char *text) noexcept {
  offset_ = reinterpret_cast<uintptr_t>(text) - reinterpret_cast<uintptr_t>(__executable_start);
}

std::string ProgramText::get() const {
  const auto size = static_cast<uint64_t>(::end - __executable_start);
  if (offset_ >= size) return "?";
  const char *text = __executable_start + offset_;
  return {text, strnlen(text, std::min<size_t>(size - offset_, 256))};
}

std::string calls_under_way(const CallPage &page, uint64_t now_ns) {
  std::string text, last;
  for (const CallSlot *slot : told_slots(page)) {
    const CallRecord *open = open_call(*slot);
    if (open == nullptr && is_main(page, *slot)) {
      auto records = ordered(slot->failing);
      if (records.empty()) records = ordered(slot->before);
      if (!records.empty())
        last = ", the last of the main thread was " + call_text(*records.back()) + ", called at " +
               site_text(*records.back());
    }
    if (open == nullptr) continue;
    if (!text.empty()) {
      text += slot->process == page.process ? "; another thread in " : "; the other process in ";
    } else {
      text = is_main(page, *slot)            ? "in "
             : slot->process == page.process ? "outside of any call on the main thread; "
                                               "another thread in "
                                             : "outside of any call; the other process in ";
    }
    text += call_text(*open) + ", called at " + site_text(*open);
    const uint64_t took = now_ns > open->began_ns ? now_ns - open->began_ns : 0;
    if (took >= second) text += ", for " + std::to_string(took / second) + " s";
  }
  return text.empty() ? "outside of any call" + last : text;
}

std::string last_calls(const CallPage &page) {
  std::string text;
  uint64_t last_ns = 0;
  for (const CallSlot *slot : told_slots(page)) {
    for (const CallRing *ring : {&slot->before, &slot->failing}) {
      for (const CallRecord *record : ordered(*ring)) last_ns = std::max(last_ns, record->began_ns);
    }
  }
  for (const CallSlot *slot : told_slots(page)) {
    const std::string name = thread_name_of(page, *slot);
    if (slot->before.calls != 0)
      text += "the last calls of " + name + ":\n" + lines_of(slot->before, last_ns);
    if (slot->failing.calls != 0)
      text += "the last calls of " + name + " after something had failed:\n" +
              lines_of(slot->failing, last_ns);
  }
  return text;
}

std::string failure_told(const CallPage &page) {
  const size_t bytes = page.failure_bytes.load(std::memory_order_acquire);
  return {page.failure, std::min(bytes, sizeof page.failure)};
}

bool taking_down(const CallPage &page) {
  return page.failing_thread.load(std::memory_order_acquire) == page.process ||
         page.phase.load(std::memory_order_acquire) >= CallPage::Phase::ending;
}

std::string told_end(const CallPage &page, const std::string &end, const std::string &under_way) {
  const std::string failure = failure_told(page);
  std::string text = failure.empty() ? end : "fail: " + failure + "; then " + end;
  if (!failure.empty() && taking_down(page)) text += " while it was taken down";
  if (failure.empty() && page.phase.load(std::memory_order_acquire) == CallPage::Phase::ending)
    text += " when nothing had failed and the state was stopped";
  return text + ", " + under_way;
}

}  // namespace weir::conformance
