/* SPDX-License-Identifier: Apache-2.0
 *
 * weir/buffer.h - buffers: virtual allocations whose bytes live wherever the pool has room.
 *
 * A new buffer reads as zero and occupies no memory. Its bytes are reached through leases (weir/lease.h)
 * or, for convenience, weir_buffer_read and weir_buffer_write. On devices with WEIR_CAP_VMM a buffer of a
 * page or more has one address per device for life; a smaller one may be moved while it is not leased
 * unless it was made with WEIR_BUFFER_STABLE_ADDRESS.
 */
#ifndef WEIR_BUFFER_H
#define WEIR_BUFFER_H

#include <weir/pool.h>

WEIR_BEGIN_DECLS

/** Flags of a buffer. */
enum {
  WEIR_BUFFER_STABLE_ADDRESS = 1, /**< keep one address for life, also below a page; NOT_SUPPORTED without VMM */
  /** The memory of every copy of its bytes is overwritten with zeros when the copy ends, not only before another client sees it: on
   *  devices, in HOST, in COMPRESSED, in staging that it passed, and in spill files, where zeros of the same length are written. It
   *  is done by the time that the call, or the background work, that ended the copy is over. Memory that a transfer under way still
   *  reads is overwritten after the transfer, in the next call that moves pages. weir_buffer_destroy, weir_pool_trim,
   *  weir_pool_remove_device and weir_pool_destroy wait for such transfers. Device memory that the caller's work still uses when
   *  its buffer is destroyed is overwritten when Weir takes it back: by weir_pool_trim or weir_pool_destroy at the latest. An older
   *  version that its own pages on a device still hold is overwritten with them. A write that fails is tried again, by trim too; its place is not
   *  reused until then. The caller's registered memory and a lost device are not overwritten. A drive may keep old blocks
   *  whatever is written over them: WEIR_POOL_ENCRYPT_STORAGE is the answer there. */
  WEIR_BUFFER_SCRUB = 2,
  /** LOSSY, and never chosen by Weir: its floats (`element` must be WEIR_ELEMENT_F32) may come back rounded to the nearest value of
   *  bf16, or of f16, ties to even, once they have been demoted to COMPRESSED; they take half the room there, or less. An element is wrong by at
   *  most |x| / 2^8 (2^-134 for denormals) with bf16, |x| / 2^11 (2^-25 below 2^-14) with f16. NaNs, infinities, zeros and what would
   *  become infinite come back as they are, but for the lower bits of a NaN's payload. Rounding again changes nothing more. This may
   *  happen at any time when the buffer is not leased. On devices, in HOST, and in STORAGE when it is reached past COMPRESSED, nothing is
   *  rounded; nor are buffers below a page. WEIR_POOL_CHECKSUM_HOST does not cover such buffers in HOST. */
  WEIR_BUFFER_LOSSY_BF16 = 4,
  WEIR_BUFFER_LOSSY_F16 = 8
};

/** How a buffer is dealt out. */
enum {
  WEIR_SHARD_STRIPED = 1, /**< stripes in turn, so many for each device as its weight says */
  WEIR_SHARD_BLOCKED = 2  /**< one run of bytes for each device, in their order, as long as its weight says */
};

/** How one buffer is dealt out to several devices of the pool, for what is larger than one device, or is computed on by all of
 *  them. It has one address, the same on all of these devices; each of its pages is brought to the device that the layout
 *  names, and used by the others over their links. docs/sharding.md. */
typedef struct weir_shard_desc {
  uint32_t struct_size;
  uint32_t policy;            /**< WEIR_SHARD_* */
  const weir_device *devices; /**< 1 to 28 different ones of the pool, each reached directly by all others: copied */
  const uint32_t *weights;    /**< of each device, 1 to 65535: copied. NULL: all alike */
  uint32_t device_count;      /**< entries of `devices`, and of `weights` */
  uint32_t reserved;          /**< 0 */
  uint64_t stripe;            /**< bytes of a stripe, a multiple of the pool's page size; 0: Weir chooses a page's. Blocks have none: 0 */
} weir_shard_desc;
#define WEIR_SHARD_DESC_INIT {sizeof(weir_shard_desc), WEIR_SHARD_STRIPED, NULL, NULL, 0, 0, 0}

/** What a buffer is made with. */
typedef struct weir_buffer_desc {
  uint32_t struct_size;
  int32_t priority;      /**< WEIR_PRIORITY_* */
  uint64_t flags;        /**< WEIR_BUFFER_* */
  uint64_t size;         /**< > 0 */
  uint64_t alignment;    /**< of its address; a power of two up to the page size; 0 = 256 */
  weir_client client;    /**< NULL = the pool's own */
  weir_device home;      /**< where it is expected to be used; must be of the pool. Or WEIR_DEVICE_ANY: Weir chooses (below) */
  uint32_t element;      /**< WEIR_ELEMENT_*: what its bytes are, if known. They are looked at all the same, so this helps only
                              where a look is not enough, and a wrong one costs next to nothing. Not for buffers below a page. */
  uint64_t tag;          /**< the caller's; shown in snapshots */
  const weir_device *users; /**< those that will use it, WEIR_DEVICE_HOST for leases of the CPU: copied. One that is listed n times
                                 uses it n times as often. They count where Weir chooses the home, and forbid nothing. */
  uint32_t user_count;   /**< entries of `users`, at most 1024; 0 = not known */
  uint32_t reserved;     /**< 0 */
  const weir_shard_desc *shards; /**< NULL: all of it is at home on one device. Else `home` is the first of the shards' devices (or
                                      left at WEIR_DEVICE_DEFAULT or WEIR_DEVICE_ANY), and `users` is empty. Copied. Each of several
                                      needs WEIR_CAP_SHARED_RANGE: else NOT_SUPPORTED. A size below a page takes a page of its own. */
  const char *name;              /**< what errors, reports and snapshots call it: as for weir_buffer_set_name. Copied; NULL: nothing.
                                      weir_buffer_place looks at none. */
} weir_buffer_desc;
#define WEIR_BUFFER_DESC_INIT {sizeof(weir_buffer_desc), 0, 0, 0, 0, NULL, WEIR_DEVICE_DEFAULT, 0, 0, NULL, 0, 0, NULL, NULL}

/* With `home` = WEIR_DEVICE_ANY the home is the device of the pool that lengthens a round of all uses of all live buffers the
 * least, in a model in which each user reaches all bytes of its buffers over the machine's links, and what a device has
 * promised beyond its budget lies at its neighbours or in HOST, from where its users fetch it, and the home fetches it and sends it back:
 *
 *     sum over homes h, users u:  W(h,u) [ (1 - f(h)) T(h,u)  +  sum over p: f(h,p) (u = h ? 2 T(h,p) : max(T(p,u), T(h,u))) ]
 *
 * W: the bytes a round that u uses of the buffers at home on h; T: seconds a byte takes, the slower of both ways, 0 from h to h, both
 * links where copies pass the host; f(h): the share of what is promised that exceeds the budget, f(h,p) of it what lies at p. A buffer
 * without users counts as used by its home. Of devices that differ by less than a fiftieth the one nearest to the calling thread's NUMA node is taken,
 * then to the one with the least promised for its budget, then to the first; without users the least promised comes first. Left out are
 * lost devices, for STABLE_ADDRESS those without VMM, and those whose pages are smaller than the alignment. weir_buffer_info_get tells
 * what was chosen; docs/topology.md has more. */

/** Creates a buffer; no device memory is taken before it is first acquired. The caller owns *buffer. Any thread.
 *  Errors: INVALID_ARGUMENT, NOT_SUPPORTED, OUT_OF_HOST_MEMORY, BACKEND (no address space left), DEVICE_LOST (WEIR_DEVICE_ANY, and
 *  every device of the pool is lost). */
WEIR_API weir_result weir_buffer_create(weir_pool pool, const weir_buffer_desc *desc, weir_buffer *buffer);

/** Homes for `count` buffers (1 to 4096) that are going to be made, chosen together: made one by one, a buffer takes room that a later
 *  one needs more. homes[i] is for *descs[i], of which `size`, `flags`, `alignment`, `home` and the users count; a `home` other than
 *  WEIR_DEVICE_ANY is kept, and the others are chosen with it in mind. Nothing is made or set aside: put the answer into `home`. Any thread; takes up
 *  to milliseconds for some hundred buffers, without holding other calls up. Errors: INVALID_ARGUMENT, NOT_SUPPORTED (no device can be the
 *  home of one of them), OUT_OF_HOST_MEMORY, DEVICE_LOST (all are); homes[] is not written then. */
WEIR_API weir_result weir_buffer_place(weir_pool pool, const weir_buffer_desc *const *descs, size_t count,
                                       weir_device *homes);

/** Ends a buffer; its contents are dropped. BUSY while it is leased or held (nothing is changed then). Work
 *  of released leases still in flight is waited for in the background: its memory is charged until then. */
WEIR_API weir_result weir_buffer_destroy(weir_pool pool, weir_buffer buffer);

/** Where the bytes of a buffer are. */
typedef struct weir_buffer_info {
  uint32_t struct_size;
  weir_device home;         /**< where it is expected to be used */
  uint64_t size;            /**< bytes, as asked for */
  uint64_t tag;             /**< the caller's */
  uint64_t address;         /**< on the home device; 0 if it has none at present */
  /* of the range asked about, by where the latest version lies: */
  uint64_t device_bytes;    /**< on the home device; of a sharded buffer, each page's own */
  uint64_t peer_bytes;      /**< on other devices of the pool, and not on the home device */
  uint64_t host_bytes;      /**< in HOST, and on no device */
  uint64_t both_bytes;      /**< of device_bytes, those that are in HOST too (clean) */
  uint64_t unwritten_bytes; /**< never written, or discarded: they read as zero */
  uint64_t lost_bytes;      /**< lost with a device */
  uint32_t leases;          /**< unreleased leases on the buffer */
  int32_t priority;          /**< WEIR_PRIORITY_*: the buffer's own, as set last, plus its client's; a tenant's: its slab's */
  uint32_t held;            /**< holds not yet undone */
  uint32_t pages;           /**< 0 for a tenant of a slab */
  uint64_t compressed_bytes; /**< in COMPRESSED, and neither on a device nor in HOST */
  uint64_t storage_bytes;    /**< in STORAGE, and nowhere else */
} weir_buffer_info;
#define WEIR_BUFFER_INFO_INIT {sizeof(weir_buffer_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/** Where the bytes [offset, offset+length) are, in whole pages clipped to the range. Stops nothing. */
WEIR_API weir_result weir_buffer_info_get(weir_pool pool, weir_buffer buffer, uint64_t offset, uint64_t length,
                                       weir_buffer_info *info);

/** A run of bytes of a buffer that one device is home to. Fixed size: 32 bytes. */
typedef struct weir_shard {
  uint64_t offset;    /**< of the first byte, in the buffer */
  uint64_t length;    /**< bytes */
  weir_device device; /**< whose they are */
  uint32_t reserved;
  uint64_t reserved2;
} weir_shard;

/** The layout of a buffer, from the run on that byte `offset` is in: *count runs, of which the first `capacity` are written
 *  (INCOMPLETE: not all). They end at whole pages, but for the last, and two that follow each other are of two devices; a buffer
 *  without shards is one run on its home. Where the bytes are at present is weir_buffer_info_get's to
 *  tell. The layout changes only when a device leaves the pool. Any thread. Errors: INVALID_ARGUMENT, INVALID_HANDLE. */
WEIR_API weir_result weir_buffer_shards(weir_pool pool, weir_buffer buffer, uint64_t offset, weir_shard *shards,
                                        size_t capacity, size_t *count);

/** Copies bytes out to `destination`, from whatever tier they are on; nothing is promoted. Waits for the
 *  work that writes them, and for the copy. LEASE_CONFLICT against an unreleased write lease on the range, or WEIR_HOLD_ALONE. */
WEIR_API weir_result weir_buffer_read(weir_pool pool, weir_buffer buffer, uint64_t offset, uint64_t length,
                                      void *destination);

/** Copies bytes in. Waits for work that uses the range, and for the copy. Pages resident on a device are
 *  written there, others in HOST: OVER_BUDGET if that is full. LEASE_CONFLICT against any unreleased lease on
 *  the range, or a hold that forbids writing (weir_hold_as). If it fails, bytes of the range before the failure may already be new; none outside change. */
WEIR_API weir_result weir_buffer_write(weir_pool pool, weir_buffer buffer, uint64_t offset, uint64_t length,
                                       const void *source);

/** What weir_advise is told. */
enum {
  WEIR_ADVISE_NORMAL = 0,
  WEIR_ADVISE_COLD = 1,      /**< not needed soon: first choice for eviction until its next use */
  WEIR_ADVISE_WILL_NEED = 2, /**< same as a prefetch of the range to the home device */
  WEIR_ADVISE_STREAMING = 3  /**< used once and not again for long: evicted first after each use */
};

/** A hint; it may be ignored and never changes contents. Lasts until the next advice. */
WEIR_API weir_result weir_advise(weir_pool pool, weir_buffer buffer, uint64_t offset, uint64_t length,
                                 uint32_t advice);

/** The contents of the range are no longer needed: pages wholly inside it are dropped without a copy and
 *  read as zero from then on; bytes of pages only partly inside are left as they are. Waits for pages that Weir is
 *  moving. LEASE_CONFLICT against an unreleased lease on the range, or a hold that forbids writing; a shared one zeroes held pages. */
WEIR_API weir_result weir_discard(weir_pool pool, weir_buffer buffer, uint64_t offset, uint64_t length);

/** Gives the buffer a name, or another: UTF-8, copied; its first 255 bytes are kept, up to the end of a character. NULL or "" takes it
 *  away. Names need not differ. Error texts, reports and snapshots have them, with a backslash, an x and two hexadecimal digits for
 *  each control character and byte that is no UTF-8. A buffer without a name costs no memory for one. Any thread. Errors:
 *  INVALID_HANDLE, OUT_OF_HOST_MEMORY (it keeps the name that it had). */
WEIR_API weir_result weir_buffer_set_name(weir_pool pool, weir_buffer buffer, const char *name);

/** Writes the buffer's name as it was given, cut to what is kept: at most `capacity` bytes, always NUL-terminated if capacity > 0. *needed
 *  (may be NULL) gets the full size with the NUL; that of "" where it has none. INCOMPLETE if it was cut; `text` may be NULL with a
 *  capacity of 0. Any thread. Errors: INVALID_HANDLE, INVALID_ARGUMENT. */
WEIR_API weir_result weir_buffer_name(weir_pool pool, weir_buffer buffer, char *text, size_t capacity, size_t *needed);

/** Changes the eviction class: WEIR_PRIORITY_*, to which its client's is added as at its creation. A tenant of a slab has its slab's class
 *  until it gets pages of its own, as it does when it is used on another device; it takes this one on then. What a plan has
 *  decided by the old class stands (docs/policies.md). Any thread. Errors: INVALID_HANDLE, INVALID_ARGUMENT, OUT_OF_HOST_MEMORY. */
WEIR_API weir_result weir_buffer_set_priority(weir_pool pool, weir_buffer buffer, int32_t priority);

/** Makes the whole buffer resident on `device` and keeps it there until weir_unhold, without a lease: for
 *  captured graphs and exported memory. Returns when the bytes are there. Held bytes count
 *  against the budget of every later acquire. What is written to the held memory, by any code, is the buffer's latest version, until
 *  weir_unhold and after it. Leases on `device` are granted meanwhile, and so are weir_buffer_write and weir_discard: all of
 *  them use the held memory, and their order with the work under the hold is the caller's. A lease elsewhere that reads, and
 *  weir_buffer_read, copy from the held memory each time; one that writes, the CPU's too, is refused: LEASE_CONFLICT. Holds nest;
 *  LEASE_CONFLICT while the buffer is leased for writing, or held on another device or in another mode.
 *  Other errors as weir_acquire. The same as weir_hold_as with WEIR_READ_WRITE and no flags. */
WEIR_API weir_result weir_hold(weir_pool pool, weir_buffer buffer, weir_device device, uint64_t *address);

/** Flags of weir_hold_as. */
enum {
  /** With WEIR_READ_WRITE: while it lasts, leases, reads, writes and discards of the buffer are refused: LEASE_CONFLICT. */
  WEIR_HOLD_ALONE = 1
};

/** weir_hold in a mode. WEIR_READ: the holder must not write the buffer, and leases that write, weir_buffer_write and weir_discard
 *  are refused (LEASE_CONFLICT); copies elsewhere stay good. WEIR_READ_WRITE: as weir_hold, or with WEIR_HOLD_ALONE for its holder
 *  alone. Holds with WEIR_READ nest, and so do shared ones with WEIR_READ_WRITE; every other pair, and a second device, is
 *  LEASE_CONFLICT. A first hold is refused, with LEASE_CONFLICT, by an unreleased lease that writes; with WEIR_HOLD_ALONE by any.
 *  INVALID_ARGUMENT: another mode or flag, or WEIR_HOLD_ALONE with WEIR_READ. docs/leases.md has every call against every mode. */
WEIR_API weir_result weir_hold_as(weir_pool pool, weir_buffer buffer, weir_device device, uint32_t mode,
                                  uint64_t flags, uint64_t *address);
/** Undoes one hold, whatever its mode. The caller has made sure that no work enqueued under the hold is still running. */
WEIR_API weir_result weir_unhold(weir_pool pool, weir_buffer buffer);

/** Flags of weir_host_register. */
enum {
  WEIR_HOST_LOAD = 1 /**< the memory's contents become the buffer's */
};

/** Gives the buffer `memory` (of at least its size, page-aligned) as the home of its HOST
 *  copies: what is demoted goes there and is not charged to the host budget. With WEIR_HOST_LOAD the
 *  memory's contents become the buffer's. The memory must stay valid and untouched until weir_host_unregister or the
 *  buffer's end. Not for tenants of slabs (buffers below a page): NOT_SUPPORTED. BUSY while leased. */
WEIR_API weir_result weir_host_register(weir_pool pool, weir_buffer buffer, void *memory, uint64_t flags);
/** Writes the buffer's latest contents to the registered memory, waits, and parts from it: the memory is
 *  the caller's again and holds the contents; the buffer keeps them too. OVER_BUDGET if it then fits nowhere (nothing changed). */
WEIR_API weir_result weir_host_unregister(weir_pool pool, weir_buffer buffer);

/** Stream-ordered allocation for frameworks' allocators: always resident, never moved, aligned to 256 bytes, charged as held.
 *  `stream` may be NULL (ready for any stream). Memory may be reused from frees on the same stream at
 *  once. *address is valid for work enqueued on `stream` from now on. Contents are zero or the same client's own old bytes.
 *  Errors: OVER_BUDGET, WOULD_BLOCK, DEVICE_OOM, DEVICE_LOST, STREAM_CAPTURING, INVALID_ARGUMENT. */
WEIR_API weir_result weir_malloc(weir_pool pool, weir_device device, weir_stream stream, uint64_t size,
                                 uint64_t *address);
/** Frees memory of weir_malloc after the work enqueued so far on `stream` (NULL: now). Address 0 is allowed.
 *  Errors: STREAM_CAPTURING, INVALID_HANDLE and INVALID_ARGUMENT (no such allocation) change nothing. After any other (BACKEND,
 *  DEVICE_LOST: the end of the work could not be marked) the memory is freed all the same. */
WEIR_API weir_result weir_free(weir_pool pool, weir_stream stream, uint64_t address);

WEIR_END_DECLS
#endif /* WEIR_BUFFER_H */
