/* SPDX-License-Identifier: Apache-2.0
 *
 * weir/arena.h - the offset allocator alone: it hands out ranges of a number line and touches no memory.
 *
 * Units are the caller's (bytes, pages, blocks). A two-level segregated fit (Masmano et al., "TLSF: a new
 * dynamic memory allocator for real-time systems", ECRTS 2004) with out-of-band nodes: allocation and free
 * are O(1). Not thread-safe: the caller serialises calls on one arena; different arenas are independent.
 */
#ifndef WEIR_ARENA_H
#define WEIR_ARENA_H

#include <weir/types.h>

WEIR_BEGIN_DECLS

/** Names an allocation of one arena: index and generation, so that a stale one is recognised. Never 0. */
typedef uint64_t weir_arena_allocation;

typedef struct weir_arena_desc {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t size;   /**< units in the arena, 1 .. 2^48 */
  uint64_t quantum; /**< sizes are rounded up to multiples of this power of two; 0 = 1 */
} weir_arena_desc;
#define WEIR_ARENA_DESC_INIT {sizeof(weir_arena_desc), 0, 0, 0}

typedef struct weir_arena_stats {
  uint32_t struct_size;
  uint32_t allocations;
  uint64_t size;
  uint64_t used;
  uint64_t free;
  uint64_t largest_free;  /**< found by a bounded look at the largest class: exact */
  uint64_t free_ranges;
  uint64_t node_bytes;    /**< host memory of the nodes */
} weir_arena_stats;
#define WEIR_ARENA_STATS_INIT {sizeof(weir_arena_stats), 0, 0, 0, 0, 0, 0, 0}

/** The caller owns *arena. Errors: INVALID_ARGUMENT, OUT_OF_HOST_MEMORY. */
WEIR_API weir_result weir_arena_create(const weir_arena_desc *desc, weir_arena *arena);
/** Destroys it with all its allocations. NULL is allowed. */
WEIR_API void weir_arena_destroy(weir_arena arena);
/** Finds a free range of `size` units whose offset is a multiple of `alignment` (a power of two up to 2^30;
 *  0 = 1). OVER_BUDGET: no such range (asked and largest free are in weir_last_error_info). */
WEIR_API weir_result weir_arena_allocate(weir_arena arena, uint64_t size, uint64_t alignment,
                                         weir_arena_allocation *allocation, uint64_t *offset);
/** INVALID_HANDLE if the allocation is not a live one. */
WEIR_API weir_result weir_arena_free(weir_arena arena, weir_arena_allocation allocation);
WEIR_API weir_result weir_arena_info(weir_arena arena, weir_arena_allocation allocation, uint64_t *offset,
                                     uint64_t *size);
/** Adds units at the end, or takes free ones away from there. Shrinking: BUSY if the end is in use. */
WEIR_API weir_result weir_arena_resize(weir_arena arena, uint64_t size);
WEIR_API weir_result weir_arena_stats_get(weir_arena arena, weir_arena_stats *stats);
/** Walks every node and checks every invariant; INTERNAL names the first that does not hold. O(n). */
WEIR_API weir_result weir_arena_validate(weir_arena arena);

WEIR_END_DECLS
#endif /* WEIR_ARENA_H */
