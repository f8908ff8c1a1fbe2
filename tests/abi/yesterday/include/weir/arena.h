/* SPDX-License-Identifier: Apache-2.0
 *
 * weir/arena.h - the offset allocator alone: it hands out ranges of a number line and touches no memory.
 *
 * Units are the caller's (bytes, pages, blocks). A two-level segregated fit (Masmano et al., "TLSF: a new
 * dynamic memory allocator for real-time systems", ECRTS 2004) with out-of-band nodes: allocation and free
 * are O(1). Not thread-safe: the caller serialises calls on one arena, those that only read included; different
 * arenas are independent.
 */
#ifndef WEIR_ARENA_H
#define WEIR_ARENA_H

#include <weir/types.h>

WEIR_BEGIN_DECLS

/** Names an allocation of one arena: index and generation, so that a stale one is recognised. Never 0. */
typedef uint64_t weir_arena_allocation;

/** What an arena is made with. */
typedef struct weir_arena_desc {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t size;   /**< units in the arena, 1 .. 2^48 */
  uint64_t quantum; /**< sizes are rounded up to multiples of this power of two; 0 = 1 */
} weir_arena_desc;
#define WEIR_ARENA_DESC_INIT {sizeof(weir_arena_desc), 0, 0, 0}

/** The counters of an arena. */
typedef struct weir_arena_stats {
  uint32_t struct_size;
  uint32_t allocations;   /**< live ones */
  uint64_t size;          /**< units in all */
  uint64_t used;          /**< units in allocations */
  uint64_t free;          /**< units in free ranges */
  uint64_t largest_free;  /**< exact; O(1) unless the largest was taken since: then a walk of the largest class */
  uint64_t free_ranges;   /**< how many */
  uint64_t node_bytes;    /**< host memory of the nodes */
} weir_arena_stats;
#define WEIR_ARENA_STATS_INIT {sizeof(weir_arena_stats), 0, 0, 0, 0, 0, 0, 0}

/** Class k holds the ranges of 2^k to 2^(k+1) - 1 units. So many there are for good. */
#define WEIR_ARENA_CLASSES 64
/** Ranges of one class of sizes. */
typedef struct weir_arena_class {
  uint64_t free_ranges; /**< how many */
  uint64_t free_units;  /**< in them together */
  uint64_t live_ranges; /**< how many */
  uint64_t live_units;  /**< in them together */
} weir_arena_class;

/** How an arena is cut up. */
typedef struct weir_arena_report {
  uint32_t struct_size;
  /** External fragmentation in parts per million: 1 - largest_free / free, rounded down; 0 if nothing is free. It is
   *  the share of the free units that the largest request that could be met would leave (Wilson et al., "Dynamic
   *  storage allocation: a survey and critical review", IWMM 1995, discuss it and its rivals). */
  uint32_t fragmentation_ppm;
  uint64_t size;                                /**< units in all */
  uint64_t used;                                /**< units in live ranges */
  uint64_t free;                                /**< units in free ranges */
  uint64_t free_ranges;                         /**< how many */
  uint64_t live_ranges;                         /**< how many */
  uint64_t largest_free;                        /**< units of the largest */
  uint64_t largest_live;                        /**< units of the largest */
  uint64_t tail;                                /**< free units that end the arena: used last, and what shrinking could take away */
  weir_arena_class classes[WEIR_ARENA_CLASSES]; /**< by size */
} weir_arena_report;
#define WEIR_ARENA_REPORT_INIT {sizeof(weir_arena_report), 0, 0, 0, 0, 0, 0, 0, 0, 0, {{0, 0, 0, 0}}}

/** A range as a walk shows it. */
typedef struct weir_arena_range {
  weir_arena_allocation allocation; /**< 0: free */
  uint64_t offset;                  /**< of its first unit */
  uint64_t size;                    /**< units */
} weir_arena_range;
/** Is shown a range, which is the walk's and good until the function returns. It may ask the arena (info, stats,
 *  report, validate, another walk) but not change it: allocate, free and resize answer BUSY, and destroy is
 *  forbidden. It must return, and throw nothing. Anything but WEIR_SUCCESS ends the walk. */
typedef weir_result (*weir_arena_visitor)(void *user, const weir_arena_range *range);

/** The caller owns *arena. Errors: INVALID_ARGUMENT, OUT_OF_HOST_MEMORY. */
WEIR_API weir_result weir_arena_create(const weir_arena_desc *desc, weir_arena *arena);
/** Destroys it with all its allocations. NULL is allowed. */
WEIR_API void weir_arena_destroy(weir_arena arena);
/** Finds a free range of `size` units whose offset is a multiple of `alignment` (a power of two up to 2^30;
 *  0 = 1). OVER_BUDGET: none was found, in about the time of a success. weir_last_error_info then has what was asked
 *  and, as available, a free range that can be had: the longest of a few of the largest class. */
WEIR_API weir_result weir_arena_allocate(weir_arena arena, uint64_t size, uint64_t alignment,
                                         weir_arena_allocation *allocation, uint64_t *offset);
/** Needs no memory. INVALID_HANDLE if the allocation is not a live one. */
WEIR_API weir_result weir_arena_free(weir_arena arena, weir_arena_allocation allocation);
/** Where a live allocation lies. INVALID_HANDLE as for weir_arena_free. */
WEIR_API weir_result weir_arena_info(weir_arena arena, weir_arena_allocation allocation, uint64_t *offset,
                                     uint64_t *size);
/** Adds units at the end, or takes free ones away from there. Shrinking: BUSY if the end is in use. */
WEIR_API weir_result weir_arena_resize(weir_arena arena, uint64_t size);
/** Fills *stats. O(1), but for largest_free. */
WEIR_API weir_result weir_arena_stats_get(weir_arena arena, weir_arena_stats *stats);
/** Fills *report. Walks every range: O(n). */
WEIR_API weir_result weir_arena_report_get(weir_arena arena, weir_arena_report *report);
/** Shows every range, live and free, in the order of their offsets and without gaps. O(n). Returns what ended it:
 *  WEIR_SUCCESS after the last, or what the visitor returned. */
WEIR_API weir_result weir_arena_walk(weir_arena arena, weir_arena_visitor visitor, void *user);
/** Walks every node and checks every invariant; INTERNAL names the first that does not hold. O(n). */
WEIR_API weir_result weir_arena_validate(weir_arena arena);

WEIR_END_DECLS
#endif /* WEIR_ARENA_H */
