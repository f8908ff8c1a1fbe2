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

enum {
  WEIR_BUFFER_STABLE_ADDRESS = 1, /**< keep one address for life, also below a page; NOT_SUPPORTED without VMM */
  WEIR_BUFFER_SCRUB = 2           /**< zero its memory when it is freed, not only before another client sees it */
};

typedef struct weir_buffer_desc {
  uint32_t struct_size;
  int32_t priority;      /**< WEIR_PRIORITY_* */
  uint64_t flags;        /**< WEIR_BUFFER_* */
  uint64_t size;         /**< > 0 */
  uint64_t alignment;    /**< of its address; a power of two up to the page size; 0 = 256 */
  weir_client client;    /**< NULL = the pool's own */
  weir_device home;      /**< where it is expected to be used; must be of the pool */
  uint32_t reserved;
  uint64_t tag;          /**< the caller's; shown in snapshots */
} weir_buffer_desc;
#define WEIR_BUFFER_DESC_INIT {sizeof(weir_buffer_desc), 0, 0, 0, 0, NULL, WEIR_DEVICE_DEFAULT, 0, 0}

/** Creates a buffer; no device memory is taken before it is first acquired. The caller owns *buffer.
 *  Errors: INVALID_ARGUMENT, NOT_SUPPORTED, OUT_OF_HOST_MEMORY, BACKEND (no address space left). */
WEIR_API weir_result weir_buffer_create(weir_pool pool, const weir_buffer_desc *desc, weir_buffer *buffer);

/** Ends a buffer; its contents are dropped. BUSY while it is leased or held (nothing is changed then). Work
 *  of released leases still in flight is waited for in the background: its memory is charged until then. */
WEIR_API weir_result weir_buffer_destroy(weir_pool pool, weir_buffer buffer);

typedef struct weir_buffer_info {
  uint32_t struct_size;
  weir_device home;
  uint64_t size;
  uint64_t tag;
  uint64_t address;         /**< on the home device; 0 if it has none at present */
  /* of the range asked about, by where the latest version lies: */
  uint64_t device_bytes;    /**< on the home device */
  uint64_t peer_bytes;      /**< on other devices of the pool, and not on the home device */
  uint64_t host_bytes;      /**< in HOST, and on no device */
  uint64_t both_bytes;      /**< of device_bytes, those that are in HOST too (clean) */
  uint64_t unwritten_bytes; /**< never written, or discarded: they read as zero */
  uint64_t lost_bytes;      /**< lost with a device */
  uint32_t leases;          /**< unreleased leases on the buffer */
  int32_t priority;
  uint32_t held;            /**< holds not yet undone */
  uint32_t pages;           /**< 0 for a tenant of a slab */
  uint64_t compressed_bytes; /**< in COMPRESSED, and neither on a device nor in HOST */
  uint64_t storage_bytes;    /**< in STORAGE, and nowhere else */
} weir_buffer_info;
#define WEIR_BUFFER_INFO_INIT {sizeof(weir_buffer_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/** Where the bytes [offset, offset+length) are, in whole pages clipped to the range. Stops nothing. */
WEIR_API weir_result weir_buffer_query(weir_pool pool, weir_buffer buffer, uint64_t offset, uint64_t length,
                                       weir_buffer_info *info);

/** Copies bytes out to `destination`, from whatever tier they are on; nothing is promoted. Waits for the
 *  work that writes them, and for the copy. LEASE_CONFLICT against an unreleased write lease on the range. */
WEIR_API weir_result weir_buffer_read(weir_pool pool, weir_buffer buffer, uint64_t offset, uint64_t length,
                                      void *destination);

/** Copies bytes in. Waits for work that uses the range, and for the copy. Pages resident on a device are
 *  written there, others in HOST: OVER_BUDGET if that is full. LEASE_CONFLICT against any unreleased lease on
 *  the range. If it fails, bytes of the range before the failure may already be new; none outside change. */
WEIR_API weir_result weir_buffer_write(weir_pool pool, weir_buffer buffer, uint64_t offset, uint64_t length,
                                       const void *source);

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
 *  moving. LEASE_CONFLICT against an unreleased lease on the range. */
WEIR_API weir_result weir_discard(weir_pool pool, weir_buffer buffer, uint64_t offset, uint64_t length);

/** Changes the eviction class. A tenant of a slab takes it on when it next moves. */
WEIR_API weir_result weir_buffer_set_priority(weir_pool pool, weir_buffer buffer, int32_t priority);

/** Makes the whole buffer resident on `device` and keeps it there until weir_unhold, without a lease: for
 *  captured graphs and exported memory. Holds nest. Returns when the bytes are there. Held bytes count
 *  against the budget of every later acquire. LEASE_CONFLICT while it is leased for writing; later writers are the
 *  caller's to order with the work under the hold. Other errors as weir_acquire. */
WEIR_API weir_result weir_hold(weir_pool pool, weir_buffer buffer, weir_device device, uint64_t *address);
/** Undoes one hold. The caller has made sure that no work enqueued under the hold is still running. */
WEIR_API weir_result weir_unhold(weir_pool pool, weir_buffer buffer);

/** Gives the buffer `memory` (of at least its size, page-aligned) as the home of its HOST
 *  copies: what is demoted goes there and is not charged to the host budget. With WEIR_HOST_LOAD the
 *  memory's contents become the buffer's. The memory must stay valid and untouched until weir_host_unregister or the
 *  buffer's end. Not for tenants of slabs (buffers below a page): NOT_SUPPORTED. BUSY while leased. */
enum { WEIR_HOST_LOAD = 1 };
WEIR_API weir_result weir_host_register(weir_pool pool, weir_buffer buffer, void *memory, uint64_t flags);
/** Writes the buffer's latest contents to the registered memory, waits, and parts from it: the memory is
 *  the caller's again and holds the contents; the buffer keeps them too. OVER_BUDGET if it then fits nowhere (nothing changed). */
WEIR_API weir_result weir_host_unregister(weir_pool pool, weir_buffer buffer);

/** Stream-ordered allocation for frameworks' allocators: always resident, never moved, charged as held.
 *  `stream` may be NULL (ready for any stream). Memory may be reused from frees on the same stream at
 *  once. *address is valid for work enqueued on `stream` from now on. Contents are zero or the same client's own old bytes.
 *  Errors: OVER_BUDGET, WOULD_BLOCK, DEVICE_OOM, DEVICE_LOST, STREAM_CAPTURING, INVALID_ARGUMENT. */
WEIR_API weir_result weir_malloc(weir_pool pool, weir_device device, weir_stream stream, uint64_t size,
                                 uint64_t *address);
/** Frees memory of weir_malloc after the work enqueued so far on `stream` (NULL: now). Address 0 is allowed. */
WEIR_API weir_result weir_free(weir_pool pool, weir_stream stream, uint64_t address);

WEIR_END_DECLS
#endif /* WEIR_BUFFER_H */
