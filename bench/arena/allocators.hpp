// SPDX-License-Identifier: Apache-2.0
//
// The allocators that are compared, in one shape: weir_arena through the C ABI, a best fit over two ordered
// containers, and the C library's malloc. Each must round and align as the arena does, so that all place the same
// ranges.
#pragma once

#include <weir/arena.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <malloc.h>
#include <map>
#include <set>
#include <utility>

namespace weir::bench {

constexpr uint64_t quantum = 256;
constexpr uint64_t gib = uint64_t{1} << 30;

constexpr uint64_t rounded(uint64_t size) { return (size + quantum - 1) & ~(quantum - 1); }

[[noreturn]] inline void die(const char *what) {
  std::fprintf(stderr, "bench_arena: %s: %s\n", what, weir_last_error());
  std::exit(1);
}

/// A range as the caller keeps it: `name` is what the allocator wants back. Size 0: none.
struct Range {
  uint64_t name = 0;
  uint64_t size = 0;
};

class WeirArena {
 public:
  explicit WeirArena(uint64_t size) {
    weir_arena_desc desc = WEIR_ARENA_DESC_INIT;
    desc.size = size;
    desc.quantum = quantum;
    if (weir_arena_create(&desc, &arena_) != WEIR_SUCCESS) die("create");
  }
  ~WeirArena() { weir_arena_destroy(arena_); }
  WeirArena(const WeirArena &) = delete;
  WeirArena &operator=(const WeirArena &) = delete;

  Range allocate(uint64_t size, uint64_t alignment = quantum) {
    Range range{0, size};
    uint64_t offset = 0;
    const weir_result result = weir_arena_allocate(arena_, size, alignment, &range.name, &offset);
    if (result == WEIR_SUCCESS) return range;
    if (result != WEIR_ERROR_OVER_BUDGET) die("allocate");
    return {};
  }
  void free(const Range &range) {
    if (weir_arena_free(arena_, range.name) != WEIR_SUCCESS) die("free");
  }
  weir_arena_stats stats() const {
    weir_arena_stats stats = WEIR_ARENA_STATS_INIT;
    if (weir_arena_stats_get(arena_, &stats) != WEIR_SUCCESS) die("stats");
    return stats;
  }

 private:
  weir_arena arena_ = nullptr;
};

class MapBestFit {
 public:
  explicit MapBestFit(uint64_t size) { add(0, size); }

  Range allocate(uint64_t size) {
    size = rounded(size);
    const auto found = by_size_.lower_bound({size, 0});
    if (found == by_size_.end()) return {};
    const auto [length, offset] = *found;
    by_size_.erase(found);
    by_offset_.erase(offset);
    if (length > size) add(offset + size, length - size);
    return Range{offset, size};
  }
  void free(const Range &range) {
    uint64_t begin = range.name;
    uint64_t end = begin + range.size;
    auto after = by_offset_.lower_bound(begin);
    if (after != by_offset_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == begin) {
        begin = before->first;
        remove(before);
      }
    }
    if (after != by_offset_.end() && after->first == end) {
      end += after->second;
      remove(after);
    }
    add(begin, end - begin);
  }

 private:
  using ByOffset = std::map<uint64_t, uint64_t>;
  void add(uint64_t offset, uint64_t length) {
    by_offset_.emplace(offset, length);
    by_size_.emplace(length, offset);
  }
  void remove(ByOffset::iterator range) {
    by_size_.erase({range->second, range->first});
    by_offset_.erase(range);
  }

  ByOffset by_offset_;
  std::set<std::pair<uint64_t, uint64_t>> by_size_;
};

/// A byte for each unit of 256, never touched: the same sizes in the same proportions, without the system calls
/// that malloc makes for what is longer than 32 MiB. Its records lie in the memory, as they do for its users.
class CMalloc {
 public:
  explicit CMalloc(uint64_t) {
    if (mallopt(M_MMAP_THRESHOLD, 32 << 20) != 1 || mallopt(M_TRIM_THRESHOLD, INT32_MAX) != 1) {
      die("mallopt");
    }
  }
  Range allocate(uint64_t size) {
    void *memory = std::malloc(static_cast<size_t>(rounded(size) / quantum));
    return {reinterpret_cast<uintptr_t>(memory), memory != nullptr ? size : 0};
  }
  void free(const Range &range) { std::free(reinterpret_cast<void *>(range.name)); }
};

}  // namespace weir::bench
