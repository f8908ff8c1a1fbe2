// SPDX-License-Identifier: Apache-2.0
//
// Names and their numbers. An entry is complete before a slot points to it, and a table is filled before table_ does.

#include "core/lease/operation_names.hpp"

#include <cstring>
#include <functional>

namespace weir::lease {
namespace {

constexpr size_t first_slots = 64;

}  // namespace

// ---- the table ----

const OperationNames::Entry *OperationNames::Table::find(std::string_view name,
                                                         size_t hash) const noexcept {
  const size_t mask = slots.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    const Entry *entry = slots[at].load(std::memory_order_acquire);
    if (entry == nullptr || (entry->hash == hash && entry->text == name)) return entry;
  }
}

void OperationNames::Table::put(const Entry &entry) noexcept {
  const size_t mask = slots.size() - 1;
  size_t at = entry.hash & mask;
  while (slots[at].load(std::memory_order_relaxed) != nullptr) at = (at + 1) & mask;
  slots[at].store(&entry, std::memory_order_release);
}

/// For one more name. Throws std::bad_alloc with nothing changed.
void OperationNames::make_room() {
  const size_t taken = given_.load(std::memory_order_relaxed);
  const size_t slots = tables_.empty() ? 0 : tables_.front().slots.size();
  if (2 * (taken + 1) <= slots) return;
  std::pmr::forward_list<Table> larger(memory_);
  larger.emplace_front(slots != 0 ? 2 * slots : first_slots, memory_);
  for (const Entry &entry : entries_) larger.front().put(entry);
  tables_.splice_after(tables_.before_begin(), larger);
  table_.store(&tables_.front(), std::memory_order_release);
}

// ---- names ----

const OperationNames::Entry *OperationNames::find(std::string_view name,
                                                  size_t hash) const noexcept {
  const Table *table = table_.load(std::memory_order_acquire);
  return table != nullptr ? table->find(name, hash) : nullptr;
}

uint32_t OperationNames::share() noexcept {
  shared_calls_.fetch_add(1, std::memory_order_relaxed);
  return shared_id;
}

uint32_t OperationNames::id_of(std::string_view name) {
  const size_t hash = std::hash<std::string_view>{}(name);
  // Read first: if no number is left now, then a name that is not found will not come either.
  const bool full = given_.load(std::memory_order_acquire) == shared_id;
  if (const Entry *entry = find(name, hash); entry != nullptr) return entry->id;
  if (full) return share();
  const Guard hold(mutex_);
  if (const Entry *entry = find(name, hash); entry != nullptr) return entry->id;
  const uint32_t given = given_.load(std::memory_order_relaxed);
  if (given >= most) {
    given_.store(shared_id, std::memory_order_release);
    return share();
  }
  std::pmr::forward_list<Entry> fresh(memory_);
  fresh.emplace_front(name, hash, memory_);
  make_room();
  Entry &entry = fresh.front();
  entry.id = given + 1;
  entries_.splice_after(entries_.before_begin(), fresh);
  tables_.front().put(entry);
  given_.store(entry.id, std::memory_order_release);
  return entry.id;
}

std::pmr::vector<std::string_view> OperationNames::all() {
  const Guard hold(mutex_);
  // The newest is the first of the list, and has the highest number.
  const size_t count = entries_.empty() ? 0 : entries_.front().id;
  std::pmr::vector<std::string_view> names(count, memory_);
  for (const Entry &entry : entries_) names[entry.id - 1] = entry.text;
  return names;
}

uint32_t OperationNames::try_id_of(const char *name) noexcept {
  const size_t length = strnlen(name, longest + 1);
  if (length == 0 || length > longest) return none;
  try {
    return id_of({name, length});
  } catch (const std::bad_alloc &) {
    return none;
  }
}

}  // namespace weir::lease
