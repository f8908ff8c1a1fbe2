/* SPDX-License-Identifier: Apache-2.0
 *
 * weir/pool.h - pools (budgets over devices and tiers) and clients (to which bytes are charged).
 *
 * A pool promises more memory than its devices have: device, host, compressed and storage budgets in all. Budgets
 * are hard: Weir's own doing never charges more than them, and what does not fit is refused at once, exactly.
 * docs/tiers.md says what each tier costs and promises.
 */
#ifndef WEIR_POOL_H
#define WEIR_POOL_H

#include <weir/codec.h>
#include <weir/context.h>

WEIR_BEGIN_DECLS

/** One device of a pool. Fixed size: 32 bytes. */
typedef struct weir_pool_device {
  weir_device device; /**< one of the context's */
  uint32_t reserved0;
  uint64_t budget;    /**< bytes of its memory the pool may hold; rounded down to granules. More than it has is allowed, with a
                           WARNING, but for WEIR_UNLIMITED */
  uint64_t reserved[2];
} weir_pool_device;
#define WEIR_POOL_DEVICE_INIT {0, 0, 0, {0, 0}}

/** What a pool is made with. */
typedef struct weir_pool_desc {
  uint32_t struct_size;
  uint32_t device_count;             /**< 1 .. 28 */
  const weir_pool_device *devices;   /**< copied; each device at most once; the first is WEIR_DEVICE_DEFAULT */
  uint64_t flags;                    /**< WEIR_POOL_* */
  uint64_t host_budget;              /**< bytes of pinned host memory; WEIR_NONE = none but for staging; 0 = follows what
                                          the machine and the cgroup have to spare (docs/budgets.md) */
  uint64_t page_size;                /**< 0 = the largest of the devices' granules, and 4 MiB where that is 2 MiB, every device's budget has
                                          64 of them and the other sizes allow it (docs/budgets.md); else a power of two times the largest granule, at most 1 GiB.
                                          Without VMM a multiple of 256, at least 4096 (0 = 2 MiB) */
  uint64_t large_page_size;          /**< 0 = chosen by the budget; equal to page_size = one class only; else a power of two times
                                          page_size, at most 1 GiB. More than a device's budget: one class only, told by a WARNING */
  uint32_t watermark_low_permille;            /**< thousandths of the device budget kept free; below it background demotion starts (0 = 10) */
  uint32_t watermark_high_permille;           /**< ... and goes on until this many are free (0 = 30) */
  uint64_t evict_wait_ns;            /**< how long one eviction may wait for the fences of released work (0 = 10 s) */
  const char *policy;                /**< "auto" learns what each stream does, and evicts and brings back by a plan of what comes; policy_memory of
                                          host memory and more, and two threads. "lru-window": what was used longest ago and is not announced
                                          goes first. NULL: "auto" in a pool that is made with 64 MiB or more of device memory, a record_budget of
                                          128 MiB or more, and threads (no WEIR_POOL_NO_BACKGROUND); else "lru-window" (docs/policies.md).
                                          Others: INVALID_ARGUMENT */
  const char *name;                  /**< for logs and snapshots, copied: its first 255 bytes, up to the end of a character; NULL = "pool" */
  uint64_t compressed_budget;        /**< bytes of pageable host memory for compressed pages; 0 = no such tier */
  uint64_t storage_budget;           /**< bytes of spill files in all, preallocated by weir_pool_create; 0 = no such tier */
  const char *const *storage_paths;  /**< directories that exist; each gets one unlinked file, pages are striped over them; copied */
  uint32_t storage_path_count;       /**< 1 .. 16 with a storage_budget */
  uint32_t compress_threads;         /**< threads that (de)compress; 0 = a quarter of the CPUs, at least one */
  uint32_t compress_share_percent;           /**< percent of a CPU each of them may use in the background, 1 .. 100; 0 = 100.
                                          What a caller waits for is not held back. */
  uint32_t reserved;
  const char *codec;                 /**< what compressed blocks may be coded with: "auto" (NULL), or one of the methods that
                                          weir_compress_desc.codec names */
  uint64_t idle_grace_ns;            /**< device memory that was not needed for this long goes back to the system by and by, all but
                                          a reserve as large as the high watermark (0 = 10 s; WEIR_NONE = only by
                                          weir_pool_trim, as with WEIR_POOL_NO_BACKGROUND) */
  uint64_t segment_size;             /**< what device memory is taken in where there is no VMM; at least a page. 0 = an eighth of what is
                                          held already, but from 32 MiB to an eighth of the budget, and at most 1 GiB */
  uint64_t recompress_idle_ns;       /**< pages that lie unused in COMPRESSED for this long are compressed again, harder, while the tier
                                          is half full at least; within compress_share_percent, with codec "auto" only (0 = 10 s;
                                          WEIR_NONE = never, as with WEIR_POOL_NO_BACKGROUND) */
  uint64_t rebalance_bytes_per_second; /**< at most so much goes from HOST and below to neighbours that have memory to spare by now, in
                                          the background (0 = 1 GiB a second; WEIR_NONE = only by weir_pool_rebalance, as
                                          with WEIR_POOL_NO_BACKGROUND; never with WEIR_POOL_NO_PEER) */
  uint64_t record_budget;            /**< bytes of host memory that the pool's own records (bookkeeping_bytes) may take when a buffer is
                                          made: a buffer that needs more is refused (0 = 1/64 of the machine's memory; WEIR_UNLIMITED = no limit) */
  uint64_t policy_memory;            /**< bytes of host memory for what "auto" learns, of all devices and streams together, counted in
                                          bookkeeping_bytes: what does not fit is forgotten, the oldest first. At least 2 MiB, and less than
                                          record_budget (0 = 32 MiB, or a quarter of record_budget). Other policies take none */
  uint32_t policy_cpu_percent;       /**< percent of one CPU that "auto" may use to learn and plan, 1 .. 100 (0 = 10). While that is used up it
                                          learns nothing, which weir_pool_stats.lost_uses counts, and decides as "lru-window" */
  uint32_t reserved2;
} weir_pool_desc;
#define WEIR_POOL_DESC_INIT {sizeof(weir_pool_desc), 0, NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0, NULL, 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0}

/** Flags of a pool. */
enum {
  WEIR_POOL_NO_BACKGROUND = 1,     /**< no demotion or prefetch threads: all work happens inside calls */
  WEIR_POOL_CHECKSUM_HOST = 2,     /**< checksum every page that is demoted to host memory, and compare it before the bytes are used again */
  WEIR_POOL_ENCRYPT_STORAGE = 4,   /**< AES-256-XTS with a random key that is kept in memory only. Core dumps of the process can have it: libcrypto
                                          keeps what it makes of it in its ordinary heap (docs/tiers.md). NOT_SUPPORTED without libcrypto */
  WEIR_POOL_BUFFERED_STORAGE = 8,  /**< through the page cache: no O_DIRECT even where the file system has it */
  WEIR_POOL_NO_IO_URING = 16,      /**< pread and pwrite on threads, even where io_uring works */
  WEIR_POOL_NO_PEER = 32           /**< no page leaves a device for a neighbour's idle memory: HOST is the first place to go */
};

/** Creates a pool. Host memory is taken as it is needed (in chunks, in the background), device memory too.
 *  The caller owns *pool. Errors: INVALID_ARGUMENT, OUT_OF_HOST_MEMORY, DEVICE_OOM, BACKEND, NOT_SUPPORTED, IO (the
 *  spill files can't be made). */
WEIR_API weir_result weir_pool_create(weir_context context, const weir_pool_desc *desc, weir_pool *pool);

/** Ends a pool. BUSY while leases are unreleased, weir_malloc memory is out, a device is being removed or asynchronous acquires
 *  have not ended, and from within a callback of the pool's; a callback under way on its thread is waited for. Buffers and clients still
 *  alive die with it, and their contents are dropped; it waits for work in flight on them. NULL is allowed. */
WEIR_API weir_result weir_pool_destroy(weir_pool pool);

/** Adds a device of the context to the pool, while it is used: at once for leases, neighbours' pages and new buffers. It must
 *  be of the same backend as the pool's other devices and take pages of their size. One that has left may come back; its budget may
 *  be another then. Copies from memory that was mapped before it came go through the host until that memory is mapped anew. Any thread.
 *  Nothing is changed on failure. Errors: INVALID_ARGUMENT (it is of the pool already; more than 28 in the pool's life), NOT_SUPPORTED,
 *  DEVICE_LOST, OUT_OF_HOST_MEMORY, BACKEND. */
WEIR_API weir_result weir_pool_add_device(weir_pool pool, const weir_pool_device *device);

/** Copies up to `bytes` of spilled pages from HOST and below to neighbours of their home that have memory to spare and a better link to
 *  it than the host's, the most recently used buffers' first: the next use brings them from there. As after a spill to a neighbour, the
 *  owner of the memory gets it back as soon as it wants it. Evicts nothing. *moved (may be NULL) gets the bytes. Returns when the copies have
 *  been enqueued. A pool with background threads does this by itself, at the rate it was made with. Any thread.
 *  Errors: INVALID_HANDLE, OUT_OF_HOST_MEMORY. */
WEIR_API weir_result weir_pool_rebalance(weir_pool pool, uint64_t bytes, uint64_t *moved);

/** Takes a device out of the pool, with nothing lost: from now on it is given nothing new (acquires on its streams answer
 *  DEVICE_REMOVED), leases there and of its streams are waited for, pages move to other devices or down the tiers, its memory goes back to the
 *  system, and buffers that had it as their home get the nearest device instead (weir_buffer_info.home; their address there is another).
 *  Blocks the calling thread, `timeout_ns` at most (WEIR_INFINITE: no bound), but for the copies of up to 32 MiB that are under way then. It holds
 *  no lock meanwhile: other threads go on. A lost device can be removed too.
 *  Errors, after which the device is of the pool as before and takes leases again (pages that have moved come back when they are
 *  used): TIMEOUT (leases or work on them did not end), CANCELLED, OVER_BUDGET (the other tiers have no room), BUSY (held memory,
 *  weir_malloc memory, the last device of a sharded buffer, or it is being removed already), INVALID_ARGUMENT (not of the pool, or its only device), IO, BACKEND,
 *  OUT_OF_HOST_MEMORY. */
WEIR_API weir_result weir_pool_remove_device(weir_pool pool, weir_device device, uint64_t timeout_ns);

/** Ends a weir_pool_remove_device that another thread is in, with CANCELLED there. INVALID_ARGUMENT: there is none, or not any more. */
WEIR_API weir_result weir_pool_cancel_remove(weir_pool pool, weir_device device);

/** A device that was lost, and what went with it. */
typedef struct weir_device_loss {
  uint32_t struct_size;
  weir_device device;  /**< which */
  uint64_t generation; /**< the pool's (weir_pool_stats.generation) as it was lost */
  uint64_t lost_bytes; /**< that were nowhere else; weir_pool_lost_ranges names them */
} weir_device_loss;
#define WEIR_DEVICE_LOSS_INIT {sizeof(weir_device_loss), 0, 0, 0}

/** Called on a thread of the pool's own, one loss at a time, in the order of generations, with no lock held. It may call anything for
 *  this pool but weir_pool_destroy and weir_pool_set_loss_callback; it must not throw. *loss is valid during the call. */
typedef void (*weir_loss_callback)(void *user, const weir_device_loss *loss);

/** Sets the pool's callback for lost devices, or none (NULL). A pool notices a loss when a call of its own meets it; losses from
 *  before are told too. Waits for a call of the former callback that is under way; after that it is not called again. Errors: OUT_OF_HOST_MEMORY (no
 *  thread), BUSY (from within a callback). */
WEIR_API weir_result weir_pool_set_loss_callback(weir_pool pool, weir_loss_callback callback, void *user);

/** Bytes of a buffer that were lost with a device. Fixed size: 64 bytes. */
typedef struct weir_lost_range {
  weir_buffer buffer;   /**< whose */
  uint64_t tag;         /**< the buffer's */
  uint64_t offset;      /**< in the buffer */
  uint64_t length;      /**< bytes */
  uint64_t reserved[4]; /**< 0 */
} weir_lost_range;

/** Tells what is lost now, in whole pages clipped to the buffers: *count ranges, of which the first `capacity` are written
 *  (INCOMPLETE: not all; `ranges` may be NULL with a capacity of 0). A range ends being lost when it is written anew with
 *  DISCARD_WRITE, or discarded. Any thread. Looks at 1000 buffers at a time under the pool's lock, and at no further one after 4096
 *  pages: all that was lost before the call and still is, is told; what is lost meanwhile may be. */
WEIR_API weir_result weir_pool_lost_ranges(weir_pool pool, weir_lost_range *ranges, size_t capacity, size_t *count);

/** Eviction order between buffers: lower classes go first. */
enum {
  WEIR_PRIORITY_LOWEST = -2, WEIR_PRIORITY_LOW = -1, WEIR_PRIORITY_NORMAL = 0,
  WEIR_PRIORITY_HIGH = 1, WEIR_PRIORITY_HIGHEST = 2
};

/** What a client is made with. */
typedef struct weir_client_desc {
  uint32_t struct_size;
  int32_t priority;       /**< added to the buffers' own priority, clamped to the range */
  uint64_t device_quota;  /**< bytes it may hold on each device; 0 = the pool's budget, WEIR_NONE = nothing */
  uint64_t host_quota;    /**< bytes it may hold in HOST; 0 = the pool's budget, WEIR_NONE = nothing */
  const char *name;       /**< copied: its first 255 bytes, up to the end of a character; NULL = "" */
  uint64_t compressed_quota; /**< bytes it may hold in COMPRESSED, as compressed; 0 = the pool's budget, WEIR_NONE = nothing */
  uint64_t storage_quota;    /**< bytes it may hold in STORAGE, as stored; 0 = the pool's budget, WEIR_NONE = nothing */
} weir_client_desc;
#define WEIR_CLIENT_DESC_INIT {sizeof(weir_client_desc), 0, 0, 0, NULL, 0, 0}

/** A client is charged for what its buffers hold. Memory never passes from one client to another unzeroed.
 *  The caller owns *client. Buffers made without a client belong to the pool's own, which has no quota. */
WEIR_API weir_result weir_client_create(weir_pool pool, const weir_client_desc *desc, weir_client *client);

/** Ends a client. BUSY while it has buffers (nothing is changed then). NULL is allowed. */
WEIR_API weir_result weir_client_destroy(weir_client client);

/** What a client is charged for. */
typedef struct weir_client_stats {
  uint32_t struct_size;
  uint32_t buffers;          /**< live ones */
  uint64_t device_bytes;     /**< held on all devices: whole pages, and of shared granules its own parts */
  uint64_t host_bytes;       /**< held in HOST */
  uint64_t compressed_bytes; /**< held in COMPRESSED, as compressed */
  uint64_t storage_bytes;    /**< held in STORAGE, as stored */
} weir_client_stats;
#define WEIR_CLIENT_STATS_INIT {sizeof(weir_client_stats), 0, 0, 0, 0, 0}
/** Fills *stats. */
WEIR_API weir_result weir_client_stats_get(weir_client client, weir_client_stats *stats);

/** How hard a trim tries. */
enum {
  WEIR_TRIM_GRADUAL = 0,   /**< idle granules and clean pages */
  WEIR_TRIM_SELECTIVE = 1, /**< ... and dirty pages, in the policy's order */
  WEIR_TRIM_EMERGENCY = 2  /**< ... everything that is neither leased nor held, and spare host memory too */
};

/** Gives device memory back to the system until `bytes` are freed or nothing more can go; where there is no VMM it goes
 *  by whole segments, once they are empty. *freed (may be NULL) is written also when less than `bytes` could be freed; that is no error. `device` may be
 *  WEIR_DEVICE_HOST: spare pinned memory is returned. Errors: INVALID_ARGUMENT, BACKEND. */
WEIR_API weir_result weir_pool_trim(weir_pool pool, weir_device device, uint32_t level, uint64_t bytes,
                                    uint64_t *freed);

/** Flags of weir_pool_defragment. */
enum {
  WEIR_DEFRAGMENT_WAIT = 1, /**< waits until the copies, and older work on the places that they leave, have ended: the memory won is free
                                 when the call returns. Without it the call waits for no device, and a later call frees the rest. */
  WEIR_DEFRAGMENT_EVICT = 2 /**< without VMM: what is in the way of a longer range and fits nowhere else is evicted */
};

/** Asked between two steps, on the thread that called weir_pool_defragment and without any lock: nonzero ends the call. It may
 *  call anything but weir_pool_destroy for this pool; it must not throw. */
typedef int32_t (*weir_defragment_break)(void *user);

/** Bounds of one call. 0 = no bound. Bytes and moves, evictions among them, are never exceeded; time is checked before each step, and a step hands at
 *  most 32 moves or 4 MiB (or one larger buffer) to the device. */
typedef struct weir_defragment_desc {
  uint32_t struct_size;
  weir_device device; /**< one of the pool's, WEIR_DEVICE_DEFAULT or WEIR_DEVICE_ALL */
  uint64_t flags;     /**< WEIR_DEFRAGMENT_* */
  uint64_t max_bytes; /**< moved */
  uint64_t max_moves;                /**< how many */
  uint64_t max_ns;                   /**< of the call */
  uint32_t max_cost_permille;  /**< bytes moved for a thousand bytes won; what costs more is left alone (0 = 1000) */
  uint32_t reserved;
  weir_defragment_break should_stop; /**< may be NULL */
  void *user;                        /**< goes with `should_stop` */
} weir_defragment_desc;
#define WEIR_DEFRAGMENT_DESC_INIT {sizeof(weir_defragment_desc), WEIR_DEVICE_ALL, 0, 0, 0, 0, 0, 0, NULL, NULL}

/** What a call did, and what it left. Of several devices the sums, and the worst fragmentation. */
typedef struct weir_defragment_report {
  uint32_t struct_size;
  uint32_t finished;        /**< 1: no bound ended it; calling again at once would change nothing */
  uint64_t moved_bytes;     /**< copied on the device */
  uint64_t copy_moves;      /**< tenants moved, those without contents too */
  uint64_t remap_moves;     /**< parts of buffers that went to a granule with others; their addresses stay */
  uint64_t evict_moves;     /**< with WEIR_DEFRAGMENT_EVICT */
  uint64_t evicted_bytes;        /**< that left the device by them */
  uint64_t won_bytes;       /**< device memory that was not free before and is now: of slabs, and of dead buffers without VMM */
  uint64_t largest_free_before; /**< without VMM: the longest free range of one device */
  uint64_t largest_free_after;   /**< the same, as the call left it */
  uint64_t elapsed_ns;              /**< of the call */
  uint64_t leased_bytes;    /**< what stayed: leased, or used by a call under way */
  uint64_t held_bytes;      /**< ... held (weir_hold) */
  uint64_t pinned_bytes;    /**< ... of weir_malloc */
  uint64_t stable_bytes;    /**< ... STABLE_ADDRESS. 0 in this version: such buffers own whole pages */
  uint64_t busy_bytes;      /**< ... not on the device as a whole, being brought in, taken out or moved */
  uint64_t no_room_bytes;   /**< ... would fit nowhere else */
  uint32_t fragmentation_before_permille; /**< thousandths: of the memory of slabs, what no buffer uses; without VMM of the free bytes,
                                      what lies outside the longest range, if that is more */
  uint32_t fragmentation_after_permille; /**< the same, as the call left it */
} weir_defragment_report;
#define WEIR_DEFRAGMENT_REPORT_INIT \
  {sizeof(weir_defragment_report), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/** Moves small buffers together so that slabs become empty, and without VMM all buffers, so that free ranges become long. Buffers
 *  that move get another address: the next lease tells it. Buffers that are leased, held or STABLE_ADDRESS, and weir_malloc's memory, stay.
 *  The copies run in the order of the streams, after released work on the buffers; later work waits for them on the device.
 *  Acquiring or destroying a buffer meanwhile is allowed. Incremental: a call goes on where the last one stopped.
 *  *report (may be NULL) is written also if the call fails halfway. What has no room in the tiers below stays (no_room_bytes).
 *  Any thread. Errors: INVALID_ARGUMENT, OUT_OF_HOST_MEMORY, BACKEND, DEVICE_LOST, and IO of what is evicted. */
WEIR_API weir_result weir_pool_defragment(weir_pool pool, const weir_defragment_desc *desc,
                                          weir_defragment_report *report);

/** Defragmentation in the background. */
typedef struct weir_defragmentation_desc {
  uint32_t struct_size;
  uint32_t threshold_permille;        /**< thousandths of fragmentation (weir_defragment_report) above which it works; 0 = off, as after
                                  weir_pool_create */
  uint64_t flags;            /**< 0 */
  uint64_t bytes_per_second; /**< moved, at most (0 = 256 MiB) */
  uint32_t max_cost_permille;         /**< as in weir_defragment_desc (0 = 500) */
  uint32_t reserved;
} weir_defragmentation_desc;
#define WEIR_DEFRAGMENTATION_DESC_INIT {sizeof(weir_defragmentation_desc), 0, 0, 0, 0, 0}

/** Starts, changes or ends (threshold_permille 0) the pool's defragmentation by a thread of its own, which looks ten times a second,
 *  waits for no device and evicts nothing. Ending waits for the step under way. Any thread; calls take turns. Errors: INVALID_ARGUMENT,
 *  OUT_OF_HOST_MEMORY; NOT_SUPPORTED: the pool was made with WEIR_POOL_NO_BACKGROUND. */
WEIR_API weir_result weir_pool_set_defragmentation(weir_pool pool, const weir_defragmentation_desc *desc);

/** Writes what the pool's policy has learned of the program, for weir_pool_policy_load of a later pool, also in another process: at most
 *  64 MiB into the caller's `bytes`, if `capacity` is enough; *needed gets how many they are. A capacity of 0 only asks (`bytes` may be NULL).
 *  The bytes have the names of operations in them, sizes of buffers and the order of uses; nothing of any content, and no address. They
 *  are a cache: a later release of the library may refuse them (docs/abi.md). What was acquired before the call is in them: the call waits for the pool's
 *  thread that learns it, a second at most, and not where its share of a CPU (policy_cpu_percent) is used up. The program may run on:
 *  then *needed may be more the next time. Host memory of about three times the bytes is taken for the time of the call, and the pool's lock
 *  for moments. Any thread; takes turns with other saves and loads of the pool. docs/policies.md tells when to save.
 *  Errors (nothing is written to `bytes`): INVALID_ARGUMENT (`needed` is NULL, `bytes` is NULL with a capacity; `capacity` is too small:
 *  *needed tells what would do), NOT_SUPPORTED (this pool learns nothing; the message says why), OUT_OF_HOST_MEMORY. */
WEIR_API weir_result weir_pool_policy_save(weir_pool pool, void *bytes, uint64_t capacity, uint64_t *needed);

/** Loads into the pool's policy what another one has learned and weir_pool_policy_save has written: `size` bytes, which are not looked at after
 *  the call. The first round of the program is then planned as a later one would be. To be called before the first acquire of the pool; buffers and
 *  streams may exist. Loading again before it replaces all that was loaded. A device gets what the one at the same position in
 *  the saving pool's list has learned. The program's names get numbers (weir_operation_id). The bytes may be anything: they are checked as a whole before
 *  anything is allocated or changed, and what they say can cost a program time and nothing else. Takes about a second for each
 *  million operations, and host memory of about twice the bytes beside that of the policy. Any thread; takes turns with other saves and loads.
 *  Errors (the pool knows what it did before; at OUT_OF_HOST_MEMORY some names may have got numbers): INVALID_ARGUMENT (`bytes` is NULL;
 *  something has been acquired), CORRUPT (cut, damaged, or no saved policy), NOT_SUPPORTED (of another version of the format, byte
 *  order, policy or page size; or this pool learns nothing: the message says which), OUT_OF_HOST_MEMORY. */
WEIR_API weir_result weir_pool_policy_load(weir_pool pool, const void *bytes, uint64_t size);

/** The pool's counters: X(name, meaning). Appended to, never reordered. */
#define WEIR_POOL_STATS_FIELDS(X)                                                              \
  X(device_budget, "bytes all devices may hold, after any reduction by DEVICE_OOM")            \
  X(device_bytes, "bytes of device memory held from the system")                               \
  X(device_free_bytes, "of those, used by nobody: in free lists, or free in segments")         \
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
  X(prefetched_bytes, "of promoted_bytes and peer_bytes, those brought in ahead of demand")    \
  X(background_demoted_bytes, "of demoted_bytes, those copied down ahead of demand")           \
  X(peer_bytes, "bytes copied between devices")                                                \
  X(evictions, "pages evicted")                                                                \
  X(eviction_failures, "evictions given up: no room below, a failed copy, a slow fence")       \
  X(over_budget, "acquires refused with OVER_BUDGET")                                          \
  X(would_block, "acquires refused with WOULD_BLOCK or TIMEOUT")                               \
  X(lease_conflicts, "acquires refused with LEASE_CONFLICT")                                   \
  X(device_oom, "times the runtime refused memory inside the budget")                          \
  X(refaulted_bytes, "promoted bytes that had been evicted within the last device_budget bytes of evictions") \
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
  X(cached_bytes, "of dropped_clean_bytes, those copied to HOST all the same, to be nearer than below it") \
  X(device_peak_bytes, "the most device memory ever held from the system, each device's added up") \
  X(device_segments, "segments held on devices without VMM")                                   \
  X(device_returned_bytes, "bytes of idle device memory given back to the system after idle_grace_ns") \
  X(defragment_moves, "tenants moved by defragmentation")                                      \
  X(defragment_moved_bytes, "bytes of those, copied")                                          \
  X(defragment_evicted_bytes, "bytes that left a device because they lay in the way")          \
  X(defragment_won_bytes, "bytes of device memory that defragmentation has freed")             \
  X(recompressed_bytes, "bytes of pages compressed again, harder, while they lay idle in COMPRESSED") \
  X(recompressed_won_bytes, "bytes of COMPRESSED that were freed by it")                       \
  X(lent_bytes, "of demoted_bytes, those copied to a neighbour's idle memory")                 \
  X(borrowed_bytes, "device memory that such pages take now")                                  \
  X(relayed_bytes, "of peer_bytes, those copied through a third device")                       \
  X(host_relayed_bytes, "of peer_bytes, those copied through the host")                        \
  X(split_bytes, "of peer_bytes, those of copies that went several ways at once") \
  X(rebalanced_bytes, "bytes copied from HOST and below to neighbours that had memory to spare") \
  X(generation, "changes of the pool's devices so far: one added, one removed, one lost") \
  X(remote_uses, "uses granted on another device's memory (WEIR_USE_ALLOW_REMOTE)") \
  X(shared_operation_ids, "times a name got the number that all names beyond the first 65,536 share (weir_operation_id)") \
  X(learned_operations, "operations that the policy has learned from") \
  X(lost_uses, "uses, births and deaths of buffers that it has not learned from: its log was full, or its share of the CPU used up. A use of a part of a buffer counts twice") \
  X(planned_operations, "operations that a plan foresaw, and that came while it was carried out") \
  X(plans_made, "plans made, each from what was there then") \
  X(plan_fetched_bytes, "of prefetched_bytes, those that a plan wanted by a date") \
  X(plan_cleaned_bytes, "of background_demoted_bytes, those that stayed on the device: a plan has done with them") \
  X(policy_switches, "times that it began to follow plans or ceased to: what it foresees comes true or does not, it may use the CPU or may not") \
  X(policy_carries_plans, "1: it carries out plans now; 0: it does not") \
  X(plans_ended_untrusted, "of plans_made, those that ended because what they foresaw did not come true") \
  X(plans_ended_moved, "... because the program went on elsewhere, or with other sizes") \
  X(plans_ended_missed, "... because too much had to be fetched that they did not have") \
  X(plans_ended_old, "... because they had lasted for 4096 operations") \
  X(plans_ended_budget, "... because the device's budget had changed") \
  X(plans_ended_device, "... because a device left, was lost, or came") \
  X(plans_ended_share, "... because the share of the CPU (policy_cpu_percent) was used up") \
  X(plans_ended_announced, "... because what was announced was used up or taken back, or took their place") \
  X(plans_ended_memory, "... because there was no memory")

/** The counters of a pool: a uint64_t for each of WEIR_POOL_STATS_FIELDS. */
typedef struct weir_pool_stats {
  uint32_t struct_size;
  uint32_t reserved;
#define WEIR_POOL_STATS_MEMBER(name, meaning) uint64_t name;
  WEIR_POOL_STATS_FIELDS(WEIR_POOL_STATS_MEMBER)
#undef WEIR_POOL_STATS_MEMBER
} weir_pool_stats;
/** A field of WEIR_POOL_STATS_INIT. */
#define WEIR_POOL_STATS_ZERO(name, meaning) , 0
#define WEIR_POOL_STATS_INIT {sizeof(weir_pool_stats), 0 WEIR_POOL_STATS_FIELDS(WEIR_POOL_STATS_ZERO)}

/** Fills *stats. O(1) in the number of buffers. */
WEIR_API weir_result weir_pool_stats_get(weir_pool pool, weir_pool_stats *stats);

/** What a pool's codec did so far, to tell what pays: of the pages it compressed, the blocks by the method that coded them
 *  (WEIR_CODEC_*), and the pages by what their elements were taken for (WEIR_ELEMENT_*). The pages' bytes are those of
 *  compressed_in_bytes and compressed_out_bytes, tables included; a page that is coded twice counts twice. */
typedef struct weir_codec_stats {
  uint32_t struct_size;
  uint32_t reserved;
  weir_codec_share methods[WEIR_CODEC_SLOTS];    /**< by WEIR_CODEC_* */
  weir_codec_share elements[WEIR_ELEMENT_SLOTS]; /**< by WEIR_ELEMENT_* */
} weir_codec_stats;
#define WEIR_CODEC_STATS_INIT {sizeof(weir_codec_stats), 0, {{0, 0}}, {{0, 0}}}

/** All zero without a COMPRESSED tier and a STORAGE tier. O(1). Errors: INVALID_ARGUMENT. */
WEIR_API weir_result weir_pool_codec_stats_get(weir_pool pool, weir_codec_stats *stats);

/** What has become of a device of a pool. */
enum {
  WEIR_POOL_DEVICE_PRESENT = 0,
  WEIR_POOL_DEVICE_LEAVING = 1, /**< weir_pool_remove_device is at work */
  WEIR_POOL_DEVICE_LOST = 2
};

/** Per-device numbers of a pool. */
typedef struct weir_pool_device_stats {
  uint32_t struct_size;
  weir_device device;       /**< which */
  uint64_t budget;          /**< bytes it may hold, after any reduction by DEVICE_OOM */
  uint64_t bytes;           /**< held from the system */
  uint64_t free_bytes;      /**< of those, not in use */
  uint64_t held_bytes;      /**< of those, held */
  uint64_t page_size;       /**< bytes of a small page */
  uint64_t large_page_size; /**< bytes of a large page */
  uint64_t peak_bytes;      /**< the most ever held from the system, or since weir_pool_reset_peak() */
  uint64_t segments;        /**< held, where there is no VMM */
  uint64_t returned_bytes;  /**< given back to the system after idle_grace_ns */
  uint32_t state;           /**< WEIR_POOL_DEVICE_* */
  uint32_t reserved;
  uint64_t memory_total;    /**< bytes of memory the device has, whatever the budget; 0 = not known */
} weir_pool_device_stats;
#define WEIR_POOL_DEVICE_STATS_INIT {sizeof(weir_pool_device_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
/** Fills *stats. Errors: INVALID_ARGUMENT (`device` is not of the pool). */
WEIR_API weir_result weir_pool_device_stats_get(weir_pool pool, weir_device device, weir_pool_device_stats *stats);

/** Counts peak_bytes anew, from what is held now: for the peak of one phase of a program. */
WEIR_API weir_result weir_pool_reset_peak(weir_pool pool, weir_device device);

/** Writes a JSON document of the pool, its devices, clients and buffers: at most `capacity` bytes, always
 *  NUL-terminated if capacity > 0. *needed (may be NULL) gets the full size with the NUL. Stops nothing, and looks at 1000 buffers
 *  at a time under the pool's lock, and at no further one after 4096 pages. Each buffer is told as it was at one moment, but the whole
 *  is of several: a buffer that is made or destroyed meanwhile is there once or not at all, and counters need not be the sums of
 *  buffers. INCOMPLETE if it was cut; `text` may be NULL with a capacity of 0. */
WEIR_API weir_result weir_pool_snapshot(weir_pool pool, char *text, size_t capacity, size_t *needed);

/** What a weir_piece tells of the bytes in it. */
enum {
  WEIR_PIECE_RESERVED = 0,  /**< memory held from the system, used or not: granule, segment, chunk or spill files */
  WEIR_PIECE_ONLY = 1,      /**< the latest version, which lies nowhere else */
  WEIR_PIECE_COPY = 2,      /**< the latest version, which lies elsewhere too */
  WEIR_PIECE_STALE = 3,     /**< an older version, or one that is being written */
  WEIR_PIECE_UNWRITTEN = 4, /**< nothing written yet, or discarded: reads as zero */
  WEIR_PIECE_MOVING = 5,    /**< on its way in or out */
  WEIR_PIECE_KEPT = 6       /**< of a destroyed buffer; the first to be evicted, or taken over by one of its shape */
};

/** A run of memory and what lies in it. Fixed size: 96 bytes. */
typedef struct weir_piece {
  uint32_t tier;          /**< WEIR_TIER_DEVICE, _HOST, _COMPRESSED or _STORAGE */
  weir_device device;     /**< DEVICE: whose memory; else WEIR_DEVICE_HOST */
  uint32_t state;         /**< WEIR_PIECE_* */
  uint32_t reserved;
  uint64_t container;     /**< DEVICE: the granule's number, or without VMM the segment's address; HOST: the chunk; else 0 */
  uint64_t offset;        /**< in the container */
  uint64_t bytes;         /**< of memory; below HOST what the coded bytes take */
  uint64_t buffer_offset; /**< of its first byte in the buffer */
  uint64_t tag;           /**< the buffer's */
  weir_buffer buffer;     /**< NULL: no buffer's, or (below HOST) that of several small buffers */
  uint64_t reserved2[4];  /**< 0 */
} weir_piece;

/** Tells where everything lies in a pool: *count pieces, of which the first `capacity` are written. Each thing
 *  held from the system is a WEIR_PIECE_RESERVED; the other pieces lie in those, and overlap none of their kind. In no order.
 *  INCOMPLETE: `pieces` had no room for all (*count says how many there are, at that moment; `pieces` may be NULL with a capacity of 0).
 *  A granule on its way between a free list and a page is left out, and so is the caller's own memory (weir_host_register). Any thread. Walks all pages under the pool's lock,
 *  in one taking: for tools, not for every frame. */
WEIR_API weir_result weir_pool_map(weir_pool pool, weir_piece *pieces, size_t capacity, size_t *count);

WEIR_END_DECLS
#endif /* WEIR_POOL_H */
