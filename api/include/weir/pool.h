/* SPDX-License-Identifier: Apache-2.0
 *
 * weir/pool.h - pools (budgets over devices and tiers) and clients (who bytes are charged to).
 *
 * A pool promises more memory than its devices have: device, host, compressed and storage budgets in all. Budgets
 * are hard: Weir's own doing never charges more than them, and what does not fit is refused at once, exactly.
 * docs/tiers.md says what each tier costs and promises.
 */
#ifndef WEIR_POOL_H
#define WEIR_POOL_H

#include <weir/context.h>

WEIR_BEGIN_DECLS

/** One device of a pool. Fixed size: 32 bytes. */
typedef struct weir_pool_device {
  weir_device device;
  uint32_t reserved0;
  uint64_t budget; /**< bytes of its memory the pool may hold; rounded down to granules */
  uint64_t reserved[2];
} weir_pool_device;

typedef struct weir_pool_desc {
  uint32_t struct_size;
  uint32_t device_count;             /**< 1 .. 28 */
  const weir_pool_device *devices;   /**< copied; each device at most once; the first is WEIR_DEVICE_DEFAULT */
  uint64_t flags;                    /**< WEIR_POOL_* */
  uint64_t host_budget;              /**< bytes of pinned host memory; WEIR_NONE = none but for staging; 0 = follows what
                                          the machine and the cgroup have to spare (docs/budgets.md) */
  uint64_t page_size;                /**< 0 = the device's granule; else a multiple of it */
  uint64_t large_page_size;          /**< 0 = chosen by the budget; equal to page_size = one class only */
  uint32_t watermark_low;            /**< thousandths of the device budget kept free; below it background demotion starts (0 = 10) */
  uint32_t watermark_high;           /**< ... and goes on until this many are free (0 = 30) */
  uint64_t evict_wait_ns;            /**< how long one eviction may wait for the fences of released work (0 = 10 s) */
  const char *policy;                /**< NULL = "lru-window" */
  const char *name;                  /**< for logs and snapshots; NULL = "pool" */
  uint64_t compressed_budget;        /**< bytes of pageable host memory for compressed pages; 0 = no such tier */
  uint64_t storage_budget;           /**< bytes of spill files in all, preallocated by weir_pool_create; 0 = no such tier */
  const char *const *storage_paths;  /**< directories; each gets one unlinked file, pages are striped over them; copied */
  uint32_t storage_path_count;       /**< 1 .. 16 with a storage_budget */
  uint32_t compress_threads;         /**< threads that (de)compress; 0 = a quarter of the CPUs, at least one */
  uint32_t compress_share;           /**< percent of a CPU each of them may use in the background, 1 .. 100; 0 = 100.
                                          What a caller waits for is not held back. */
  uint32_t reserved;
  const char *codec;                 /**< "auto" (NULL), "lz4", "zstd" or "raw": what compressed blocks may be coded with */
} weir_pool_desc;
#define WEIR_POOL_DESC_INIT {sizeof(weir_pool_desc), 0, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0, NULL, 0, 0, 0, 0, NULL}

enum {
  WEIR_POOL_NO_BACKGROUND = 1,     /**< no demotion or prefetch threads: all work happens inside calls */
  WEIR_POOL_CHECKSUM_HOST = 2,     /**< checksum every page that is demoted to host memory, and compare it before the bytes are used again */
  WEIR_POOL_ENCRYPT_STORAGE = 4,   /**< AES-256-XTS with a random key that is kept in memory only; NOT_SUPPORTED without libcrypto */
  WEIR_POOL_BUFFERED_STORAGE = 8,  /**< through the page cache: no O_DIRECT even where the file system has it */
  WEIR_POOL_NO_IO_URING = 16       /**< pread and pwrite on threads, even where io_uring works */
};

/** Creates a pool. Host memory is taken as it is needed (in chunks, in the background), device memory too.
 *  The caller owns *pool. Errors: INVALID_ARGUMENT, OUT_OF_HOST_MEMORY, DEVICE_OOM, BACKEND, NOT_SUPPORTED. */
WEIR_API weir_result weir_pool_create(weir_context context, const weir_pool_desc *desc, weir_pool *pool);

/** Ends a pool. BUSY while leases are unreleased or weir_malloc memory is out. Buffers and clients still
 *  alive die with it, and their contents are dropped; it waits for work in flight on them. NULL is allowed. */
WEIR_API weir_result weir_pool_destroy(weir_pool pool);

/** Eviction order between buffers: lower classes go first. */
enum {
  WEIR_PRIORITY_LOWEST = -2, WEIR_PRIORITY_LOW = -1, WEIR_PRIORITY_NORMAL = 0,
  WEIR_PRIORITY_HIGH = 1, WEIR_PRIORITY_HIGHEST = 2
};

typedef struct weir_client_desc {
  uint32_t struct_size;
  int32_t priority;       /**< added to the buffers' own priority, clamped to the range */
  uint64_t device_quota;  /**< bytes it may hold on each device; 0 = the pool's budget */
  uint64_t host_quota;    /**< bytes it may hold in HOST; 0 = the pool's budget */
  const char *name;       /**< copied; NULL = "" */
  uint64_t compressed_quota; /**< bytes it may hold in COMPRESSED, as compressed; 0 = the pool's budget */
  uint64_t storage_quota;    /**< bytes it may hold in STORAGE, as stored; 0 = the pool's budget */
} weir_client_desc;
#define WEIR_CLIENT_DESC_INIT {sizeof(weir_client_desc), 0, 0, 0, NULL, 0, 0}

/** A client is charged for what its buffers hold. Memory never passes from one client to another unzeroed.
 *  The caller owns *client. Buffers made without a client belong to the pool's own, which has no quota. */
WEIR_API weir_result weir_client_create(weir_pool pool, const weir_client_desc *desc, weir_client *client);

/** BUSY while it has buffers. NULL is allowed. */
WEIR_API weir_result weir_client_destroy(weir_client client);

typedef struct weir_client_stats {
  uint32_t struct_size;
  uint32_t buffers;
  uint64_t device_bytes; /**< held on all devices, in whole pages */
  uint64_t host_bytes;
  uint64_t compressed_bytes;
  uint64_t storage_bytes;
} weir_client_stats;
#define WEIR_CLIENT_STATS_INIT {sizeof(weir_client_stats), 0, 0, 0, 0, 0}
WEIR_API weir_result weir_client_stats_get(weir_client client, weir_client_stats *stats);

/** How hard a trim tries. */
enum {
  WEIR_TRIM_GRADUAL = 0,   /**< idle granules and clean pages */
  WEIR_TRIM_SELECTIVE = 1, /**< ... and dirty pages, in the policy's order */
  WEIR_TRIM_EMERGENCY = 2  /**< ... everything that is neither leased nor held, and spare host memory too */
};

/** Gives device memory back to the system until `bytes` are freed or nothing more can go. *freed (may be
 *  NULL) is written also when less than `bytes` could be freed; that is no error. `device` may be
 *  WEIR_DEVICE_HOST: spare pinned memory is returned. Errors: INVALID_ARGUMENT, BACKEND. */
WEIR_API weir_result weir_pool_trim(weir_pool pool, weir_device device, uint32_t level, uint64_t bytes,
                                    uint64_t *freed);

/** The pool's counters: X(name, meaning). Appended to, never reordered. */
#define WEIR_POOL_STATS_FIELDS(X)                                                              \
  X(device_budget, "bytes all devices may hold, after any reduction by DEVICE_OOM")            \
  X(device_bytes, "bytes of device memory held from the system")                               \
  X(device_free_bytes, "of those, idle in free lists")                                         \
  X(device_held_bytes, "of those, held (weir_hold, weir_malloc)")                              \
  X(host_budget, "bytes HOST may hold")                                                        \
  X(host_bytes, "bytes of pinned memory held from the system")                                 \
  X(host_used_bytes, "of those, occupied by pages")                                            \
  X(buffers, "live buffers")                                                                   \
  X(pages, "pages of live buffers and slabs, and of dead ones not yet given up")                                                  \
  X(slabs, "slabs")                                                                            \
  X(buffer_bytes, "bytes of live buffers as asked for")                                        \
  X(bookkeeping_bytes, "host memory the pool's own records take")                              \
  X(hits, "uses granted with everything resident")                                             \
  X(misses, "uses that had to bring in at least one page")                                     \
  X(promoted_bytes, "bytes copied up to a device")                                             \
  X(demoted_bytes, "bytes copied down from a device")                                          \
  X(dropped_clean_bytes, "bytes evicted without a copy, because another latest copy existed")  \
  X(discarded_bytes, "bytes evicted without a copy, because they were discarded or never written") \
  X(zero_filled_bytes, "bytes of never-written pages zeroed on a device")                      \
  X(prefetched_bytes, "of promoted_bytes, those brought in ahead of demand")                   \
  X(background_demoted_bytes, "of demoted_bytes, those copied down ahead of demand")           \
  X(peer_bytes, "bytes copied between devices")                                                \
  X(evictions, "pages evicted")                                                                \
  X(eviction_failures, "evictions given up: a copy failed or a fence took too long")           \
  X(over_budget, "acquires refused with OVER_BUDGET")                                          \
  X(would_block, "acquires refused with WOULD_BLOCK or TIMEOUT")                               \
  X(lease_conflicts, "acquires refused with LEASE_CONFLICT")                                   \
  X(device_oom, "times the runtime refused memory inside the budget")                          \
  X(refaults, "promoted bytes that had been evicted within the last device_budget bytes of evictions") \
  X(wait_ns, "time acquires spent waiting for other leases")                                   \
  X(checksum_failures, "pages found in a lower tier with other bytes than were demoted")         \
  X(staging_bytes, "of host_bytes, those that lower tiers are reached through")                \
  X(compressed_budget, "bytes COMPRESSED may hold")                                            \
  X(compressed_bytes, "bytes of memory compressed pages take")                                 \
  X(compressed_raw_bytes, "bytes of those pages uncompressed")                                 \
  X(storage_budget, "bytes of the spill files")                                                \
  X(storage_bytes, "of those, occupied by pages")                                              \
  X(storage_raw_bytes, "bytes of those pages uncompressed")                                    \
  X(storage_written_bytes, "bytes written to the spill files")                                 \
  X(storage_read_bytes, "bytes read back from them")                                           \
  X(compressed_in_bytes, "bytes of pages compressed, before")                                  \
  X(compressed_out_bytes, "... and after")                                                     \
  X(decompressed_bytes, "bytes of pages decompressed")                                         \
  X(incompressible_bytes, "bytes of pages that were not compressed because it would not pay")  \
  X(sunk_bytes, "bytes of pages moved out of HOST to a lower tier, or past it")                \
  X(lifted_bytes, "bytes of pages brought up from a lower tier than HOST")                     \
  X(io_errors, "reads and writes of the spill files that failed")                              \
  X(cached_bytes, "of dropped_clean_bytes, those copied to HOST all the same, to be nearer than below it")

typedef struct weir_pool_stats {
  uint32_t struct_size;
  uint32_t reserved;
#define WEIR_POOL_STATS_MEMBER(name, meaning) uint64_t name;
  WEIR_POOL_STATS_FIELDS(WEIR_POOL_STATS_MEMBER)
#undef WEIR_POOL_STATS_MEMBER
} weir_pool_stats;

/** Fills *stats (set struct_size first). O(1) in the number of buffers. */
WEIR_API weir_result weir_pool_stats_get(weir_pool pool, weir_pool_stats *stats);

/** Per-device numbers of a pool. */
typedef struct weir_pool_device_stats {
  uint32_t struct_size;
  weir_device device;
  uint64_t budget;
  uint64_t bytes;       /**< held from the system */
  uint64_t free_bytes;  /**< of those, idle */
  uint64_t held_bytes;  /**< of those, held */
  uint64_t page_size;
  uint64_t large_page_size;
} weir_pool_device_stats;
#define WEIR_POOL_DEVICE_STATS_INIT {sizeof(weir_pool_device_stats), 0, 0, 0, 0, 0, 0, 0}
WEIR_API weir_result weir_pool_device_stats_get(weir_pool pool, weir_device device, weir_pool_device_stats *stats);

/** Writes a JSON document of the pool, its devices, clients and buffers: at most `capacity` bytes, always
 *  NUL-terminated if capacity > 0. *needed (may be NULL) gets the full size with the NUL. Stops nothing, but
 *  walks all buffers under the pool's lock. INVALID_ARGUMENT if it was cut; capacity 0
 *  with a `needed` only asks for the size. */
WEIR_API weir_result weir_pool_snapshot(weir_pool pool, char *text, size_t capacity, size_t *needed);

WEIR_END_DECLS
#endif /* WEIR_POOL_H */
