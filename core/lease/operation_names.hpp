// SPDX-License-Identifier: Apache-2.0
//
// OperationNames: a pool's names of operations and their numbers. A program gives a name once and passes the number from then on, so
// that telling what an operation is costs an acquire nothing. Numbers count up from 1, and a name keeps its number for as long as
// the pool lives. Only so many names have numbers of their own: all others share one more.
//
// What must hold: names are added, never removed, so finding one needs no lock. A table that has grown too small stays until the
// end, because a thread may still read it; all of them together are no larger than the last one twice. Thread-safe.
#pragma once

#include "core/base/memory.hpp"
#include "core/base/mutex.hpp"

#include <atomic>
#include <forward_list>
#include <memory_resource>
#include <string>
#include <string_view>
#include <vector>

namespace weir::lease {

class OperationNames {
 public:
  static constexpr uint32_t most = 65536;  ///< names that have a number of their own: 1 .. most
  static constexpr uint32_t shared_id = most + 1;  ///< that of all further names
  static constexpr size_t longest = 1023;          ///< bytes of a name
  static constexpr uint32_t none = 0;              ///< no operation's number

  explicit OperationNames(std::pmr::memory_resource *memory) noexcept
      : memory_(memory), entries_(memory), tables_(memory) {}

  /// The name's number. The name is copied; it has 1 to `longest` bytes. Throws std::bad_alloc with nothing changed.
  uint32_t id_of(std::string_view name);
  /// For callers that would rather go on without a number: `none` for a name that is empty, too long, or finds no memory.
  uint32_t try_id_of(const char *name) noexcept;
  /// The names that have numbers of their own, by number, from 1 on; they live as long as this does. Throws std::bad_alloc.
  std::pmr::vector<std::string_view> all();
  /// Whether id_of() has answered this number.
  bool given(uint64_t id) const noexcept {
    return id != none && id <= given_.load(std::memory_order_acquire);
  }
  /// How many calls were answered with the shared number.
  uint64_t shared_calls() const noexcept { return shared_calls_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    Entry(std::string_view name, size_t name_hash, std::pmr::memory_resource *memory)
        : text(name, memory), hash(name_hash) {}
    const std::pmr::string text;
    const size_t hash;
    uint32_t id = none;  ///< written before the entry is in a table
  };
  /// Names by their hash, each in the first slot that was free from there on. At most half of the slots are taken.
  struct Table {
    Table(size_t size, std::pmr::memory_resource *memory) : slots(size, memory) {}
    const Entry *find(std::string_view name, size_t hash) const noexcept;
    void put(const Entry &entry) noexcept;
    std::pmr::vector<std::atomic<const Entry *>> slots;  ///< a power of two of them
  };
  const Entry *find(std::string_view name, size_t hash) const noexcept;
  uint32_t share() noexcept;
  void make_room() WEIR_REQUIRES(mutex_);

  std::pmr::memory_resource *const memory_;
  std::atomic<const Table *> table_{nullptr};  ///< the largest
  std::atomic<uint32_t> given_{0};             ///< the highest number that was answered
  std::atomic<uint64_t> shared_calls_{0};
  RankedMutex<Rank::leaf> mutex_;  ///< taken to add a name
  std::pmr::forward_list<Entry> entries_ WEIR_GUARDED_BY(mutex_);
  std::pmr::forward_list<Table> tables_ WEIR_GUARDED_BY(mutex_);  ///< the largest first
};

}  // namespace weir::lease
