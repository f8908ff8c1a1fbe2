// SPDX-License-Identifier: Apache-2.0
//
// The weir_arena_* functions over physical::Arena. Handles are generation and index; a generation of a live
// node is odd, so a handle is never 0. An arena belongs to no context: its nodes come from the C++ heap.
//
// Must never let an exception through, and must refuse in about the time an allocation takes: callers that
// spill on refusal meet it on their hot path.

#include "core/base/descriptor.hpp"
#include "core/base/status.hpp"
#include "core/physical/arena.hpp"
#include "core/physical/arena_report.hpp"

#include <weir/arena.h>

#include <bit>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <new>

struct weir_arena_s {
  weir_arena_s(uint64_t size, uint64_t quantum_)
      : ranges(size, quantum_, std::pmr::new_delete_resource()), quantum(quantum_) {}
  weir::physical::Arena ranges;
  uint64_t quantum;
  uint32_t walks = 0;  ///< under way: nothing may change
};

namespace {

using weir::fail;
using weir::Status;
using weir::physical::Arena;

constexpr uint64_t max_size = uint64_t{1} << 48;

weir_result null_arena() { return fail(WEIR_ERROR_INVALID_HANDLE, "arena is NULL").code(); }

/// Whether the arena can be changed, or why not.
weir_result changeable(weir_arena arena) {
  if (arena == nullptr) return null_arena();
  if (arena->walks == 0) return WEIR_SUCCESS;
  return fail(WEIR_ERROR_BUSY, "a walk of the arena is under way: its visitor may not change it")
      .code();
}

weir_result no_memory() {
  return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "the arena's node table could not grow").code();
}

weir_arena_allocation handle_of(const Arena &ranges, Arena::Node node) {
  return uint64_t{ranges.generation(node)} << 32 | node;
}

/// The live node a handle names, or none with the error told.
Arena::Node find(const Arena &ranges, weir_arena_allocation allocation) {
  const auto node = static_cast<Arena::Node>(allocation);
  if (ranges.live(node) && ranges.generation(node) == allocation >> 32) return node;
  (void)fail(WEIR_ERROR_INVALID_HANDLE, "allocation 0x%" PRIx64 " is not a live one of this arena",
             allocation);
  return Arena::none;
}

/// What a request was refused for.
struct NoRange {
  uint64_t size, alignment, largest;
  int print(char *text, size_t capacity) const noexcept {
    return std::snprintf(text, capacity,
                         "no free range of %" PRIu64 " units at alignment %" PRIu64
                         "; the largest has %" PRIu64,
                         size, alignment, largest);
  }
};

weir_result refuse(uint64_t size, uint64_t alignment, const Arena &ranges) {
  const uint64_t largest = ranges.large_free();
  return weir::fail_later(WEIR_ERROR_OVER_BUDGET, {.asked = size, .available = largest},
                          NoRange{size, alignment, largest})
      .code();
}

Status check(const weir_arena_desc &desc) {
  const weir_result invalid = WEIR_ERROR_INVALID_ARGUMENT;
  if (desc.reserved != 0)
    return fail(invalid, "desc.reserved is %" PRIu32 ", not 0", desc.reserved);
  if (desc.size == 0 || desc.size > max_size) {
    return fail(invalid, "desc.size is %" PRIu64 ", not in 1 .. 2^48", desc.size);
  }
  if (desc.quantum != 0 && !std::has_single_bit(desc.quantum)) {
    return fail(invalid, "desc.quantum is %" PRIu64 ", not a power of two", desc.quantum);
  }
  if (desc.quantum > desc.size) {
    return fail(invalid, "desc.quantum is %" PRIu64 ", more than desc.size %" PRIu64, desc.quantum,
                desc.size);
  }
  return {};
}

}  // namespace

weir_result weir_arena_create(const weir_arena_desc *desc, weir_arena *arena) {
  weir_arena_desc full = WEIR_ARENA_DESC_INIT;
  if (Status read = weir::read_descriptor(desc, "desc", &full); !read) return read.code();
  if (Status valid = check(full); !valid) return valid.code();
  if (arena == nullptr) return fail(WEIR_ERROR_INVALID_ARGUMENT, "arena is NULL").code();
  try {
    const uint64_t quantum = full.quantum != 0 ? full.quantum : 1;
    *arena = std::make_unique<weir_arena_s>(full.size, quantum).release();
    return WEIR_SUCCESS;
  } catch (const std::bad_alloc &) {
    return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "no host memory for an arena").code();
  }
}

void weir_arena_destroy(weir_arena arena) { std::unique_ptr<weir_arena_s>{arena}.reset(); }

weir_result weir_arena_allocate(weir_arena arena, uint64_t size, uint64_t alignment,
                                weir_arena_allocation *allocation, uint64_t *offset) {
  if (weir_result result = changeable(arena); result != WEIR_SUCCESS) [[unlikely]]
    return result;
  const weir_result invalid = WEIR_ERROR_INVALID_ARGUMENT;
  if (alignment == 0) alignment = 1;
  // Not has_single_bit(): without an instruction for it, it is a call that counts bits.
  if ((alignment & (alignment - 1)) != 0 || alignment > Arena::max_alignment) {
    return fail(invalid, "alignment is %" PRIu64 ", not a power of two up to 2^30", alignment)
        .code();
  }
  if (size == 0) return fail(invalid, "size is 0").code();
  if (allocation == nullptr) return fail(invalid, "allocation is NULL").code();
  if (offset == nullptr) return fail(invalid, "offset is NULL").code();
  try {
    const Arena::Allocation place = arena->ranges.allocate(size, alignment);
    if (!place) return refuse(size, alignment, arena->ranges);
    *allocation = handle_of(arena->ranges, place.node);
    *offset = place.offset;
    return WEIR_SUCCESS;
  } catch (const std::bad_alloc &) {
    return no_memory();
  }
}

weir_result weir_arena_free(weir_arena arena, weir_arena_allocation allocation) {
  if (weir_result result = changeable(arena); result != WEIR_SUCCESS) [[unlikely]]
    return result;
  const Arena::Node node = find(arena->ranges, allocation);
  if (node == Arena::none) return WEIR_ERROR_INVALID_HANDLE;
  arena->ranges.free(node);
  return WEIR_SUCCESS;
}

weir_result weir_arena_info(weir_arena arena, weir_arena_allocation allocation, uint64_t *offset,
                            uint64_t *size) {
  if (arena == nullptr) return null_arena();
  if (offset == nullptr) return fail(WEIR_ERROR_INVALID_ARGUMENT, "offset is NULL").code();
  if (size == nullptr) return fail(WEIR_ERROR_INVALID_ARGUMENT, "size is NULL").code();
  const Arena::Node node = find(arena->ranges, allocation);
  if (node == Arena::none) return WEIR_ERROR_INVALID_HANDLE;
  *offset = arena->ranges.offset(node);
  *size = arena->ranges.size(node);
  return WEIR_SUCCESS;
}

weir_result weir_arena_resize(weir_arena arena, uint64_t size) {
  if (weir_result result = changeable(arena); result != WEIR_SUCCESS) [[unlikely]]
    return result;
  if (size == 0 || size > max_size) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "size is %" PRIu64 ", not in 1 .. 2^48", size).code();
  }
  if (size < arena->quantum) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "size is %" PRIu64 ", less than the quantum %" PRIu64,
                size, arena->quantum)
        .code();
  }
  try {
    if (arena->ranges.resize(size)) return WEIR_SUCCESS;
    return fail(WEIR_ERROR_BUSY, "the arena can't shrink to %" PRIu64 " units: its end is in use",
                size)
        .code();
  } catch (const std::bad_alloc &) {
    return no_memory();
  }
}

weir_result weir_arena_stats_get(weir_arena arena, weir_arena_stats *stats) {
  if (arena == nullptr) return null_arena();
  const Arena &ranges = arena->ranges;
  weir_arena_stats full = WEIR_ARENA_STATS_INIT;
  full.allocations = ranges.allocations();
  full.size = ranges.size();
  full.used = ranges.used();
  full.free = ranges.free_units();
  full.largest_free = ranges.largest_free();
  full.free_ranges = ranges.free_ranges();
  full.node_bytes = ranges.node_bytes();
  return weir::write_output(full, "stats", stats).code();
}

weir_result weir_arena_report_get(weir_arena arena, weir_arena_report *report) {
  using weir::physical::ArenaReport;
  static_assert(ArenaReport::class_count <= WEIR_ARENA_CLASSES);
  if (arena == nullptr) return null_arena();
  const ArenaReport counted = weir::physical::report(arena->ranges);
  weir_arena_report full = WEIR_ARENA_REPORT_INIT;
  full.fragmentation_ppm = counted.fragmentation_ppm();
  full.size = arena->ranges.size();
  full.used = counted.live.units;
  full.free = counted.free.units;
  full.free_ranges = counted.free.ranges;
  full.live_ranges = counted.live.ranges;
  full.largest_free = counted.free.longest;
  full.largest_live = counted.live.longest;
  full.tail = counted.tail;
  for (size_t i = 0; i < ArenaReport::class_count; ++i) {
    full.classes[i] = {counted.free_classes[i].ranges, counted.free_classes[i].units,
                       counted.live_classes[i].ranges, counted.live_classes[i].units};
  }
  return weir::write_output(full, "report", report).code();
}

weir_result weir_arena_walk(weir_arena arena, weir_arena_visitor visitor, void *user) {
  if (arena == nullptr) return null_arena();
  if (visitor == nullptr) return fail(WEIR_ERROR_INVALID_ARGUMENT, "visitor is NULL").code();
  const Arena &ranges = arena->ranges;
  weir_result result = WEIR_SUCCESS;
  ++arena->walks;
  ranges.each_range([&](uint64_t offset, uint64_t size, Arena::Node node) {
    const weir_arena_range range{node != Arena::none ? handle_of(ranges, node) : 0, offset, size};
    result = visitor(user, &range);
    return result == WEIR_SUCCESS;
  });
  --arena->walks;
  return result;
}

weir_result weir_arena_validate(weir_arena arena) {
  if (arena == nullptr) return null_arena();
  try {
    const std::string broken = arena->ranges.validate();
    if (broken.empty()) return WEIR_SUCCESS;
    return fail(WEIR_ERROR_INTERNAL, "%s", broken.c_str()).code();
  } catch (const std::bad_alloc &) {
    return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "no host memory to say which invariant broke")
        .code();
  }
}
