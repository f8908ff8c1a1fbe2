/* SPDX-License-Identifier: Apache-2.0
 *
 * weir/lease.h - the right to use bytes on a stream: acquire a set, enqueue work, release.
 *
 *     weir_use uses[2] = {WEIR_USE(weights, WEIR_READ), WEIR_USE(output, WEIR_DISCARD_WRITE)};
 *     weir_acquire(pool, stream, uses, 2, NULL, &lease);
 *     launch(stream, uses[0].address, uses[1].address);
 *     weir_release(lease, stream);
 *
 * All uses of a lease are resident at the same time from acquire to the completion of the work that was
 * enqueued on the stream before release. docs/leases.md explains the model.
 */
#ifndef WEIR_LEASE_H
#define WEIR_LEASE_H

#include <weir/buffer.h>

WEIR_BEGIN_DECLS

/** Modes of a use. */
enum {
  WEIR_READ = 1,         /**< many readers at a time */
  WEIR_READ_WRITE = 2,   /**< alone */
  WEIR_DISCARD_WRITE = 3 /**< alone; the old contents of the range are not needed: it is undefined until written */
};

/** Flags of a use. */
enum {
  /** Reads (and writes) straight from the peer where access allows: if every page of the use has its latest version in the
   *  memory of one other device of the pool that the stream's device reaches directly, and not all of them are on the
   *  stream's device, then the lease is on that memory. `address` is the other device's and valid on the stream's; the
   *  pages stay there for as long as the lease's work, nothing is copied and the stream's device gives no memory for it.
   *  Uses of one buffer in a set go together: all of them have the flag, and one device has them all, or none is used so.
   *  Where that is not possible the use is an ordinary one. So are a writing use of a buffer below a page, one of never-written pages, and
   *  one on a stream of WEIR_DEVICE_HOST. docs/leases.md#remote. */
  WEIR_USE_ALLOW_REMOTE = 1
};

/** One use of a set. Fixed size: 64 bytes; reserved words must be zero. */
typedef struct weir_use {
  weir_buffer buffer; /**< of the lease's pool */
  uint64_t offset;    /**< of the first byte */
  uint64_t length;    /**< WEIR_WHOLE = to the buffer's end */
  uint32_t mode;      /**< WEIR_READ, WEIR_READ_WRITE or WEIR_DISCARD_WRITE */
  uint32_t flags;     /**< WEIR_USE_*; other bits must be 0 */
  uint64_t address;   /**< out: where byte `offset` is, on the stream's device or in its reach (WEIR_USE_ALLOW_REMOTE) */
  uint64_t reserved[3];
} weir_use;
#define WEIR_USE_INIT {NULL, 0, WEIR_WHOLE, WEIR_READ, 0, 0, {0, 0, 0}}
/** Initialises a weir_use of the whole buffer. */
#define WEIR_USE(buffer, mode) {(buffer), 0, WEIR_WHOLE, (mode), 0, 0, {0, 0, 0}}

/** Answers the number of an operation's name in this pool, for weir_acquire_options and weir_operation: 1 and up, the same for the
 *  same name for as long as the pool lives. A policy learns from it what a program does again and again. Ask once, outside of the
 *  loop: passing the number costs an acquire nothing, while the name itself would be looked up each time. `name` is copied: bytes
 *  as they are, 1 to 1023 of them before the 0. 65,536 names of a pool have numbers of their own; all further names get one that they share, and
 *  weir_pool_stats.shared_operation_ids counts how often. Numbers of one pool mean nothing to another. Thread-safe.
 *  Errors (*id is not written): INVALID_HANDLE, INVALID_ARGUMENT (a name that is NULL, empty or too long; id is NULL),
 *  OUT_OF_HOST_MEMORY (the name has got no number). docs/operations.md tells what to name. */
WEIR_API weir_result weir_operation_id(weir_pool pool, const char *name, uint32_t *id);

/** How to acquire. NULL in its place means all defaults. */
typedef struct weir_acquire_options {
  uint32_t struct_size;
  uint32_t operation_id;   /**< what weir_operation_id of the lease's pool answered; 0 = none. Another: INVALID_ARGUMENT */
  uint64_t flags;          /**< WEIR_ACQUIRE_* */
  uint64_t timeout_ns;     /**< how long to wait for other leases; 0 = do not, WEIR_INFINITE needs SOLE_HOLDER */
  const char *operation;   /**< a name, looked up as by weir_operation_id, where operation_id is 0 (else it is not looked at); NULL = none. One
                                that is empty, too long or finds no memory counts as none. Not looked at after the call, be it weir_acquire_async */
} weir_acquire_options;
#define WEIR_ACQUIRE_OPTIONS_INIT {sizeof(weir_acquire_options), 0, 0, 0, NULL}

/** Flags of weir_acquire. */
enum {
  /** The caller's word that it holds no other lease (and no other thread waits for one it holds), so that
   *  waiting without a deadline can't deadlock. */
  WEIR_ACQUIRE_SOLE_HOLDER = 1
};

/** Acquires a set of uses on a stream, all or nothing. May block the thread on allocation, mapping and
 *  copies that make room, also on the work of released leases that must end before their pages can go; when
 *  it returns, the stream itself waits for whatever is still in flight. Uses of one buffer may overlap. At most 65535 uses.
 *  Errors (nothing is changed by any of them, nor are addresses written):
 *    LEASE_CONFLICT     an unreleased lease, or a hold, forbids one of the uses (use_index tells which);
 *    OVER_BUDGET        the set, rounded to pages, exceeds what the device's budget or the client's
 *                       quota can ever give beside what is held; or HOST has no room for what must leave the device;
 *    WOULD_BLOCK        it would fit if other leases were released; TIMEOUT when that took too long;
 *    STREAM_CAPTURING, DATA_LOST, DEVICE_LOST, DEVICE_OOM, BACKEND, INVALID_*, OUT_OF_HOST_MEMORY.
 *  A range conflicts byte by byte on one device; between devices ranges are widened to whole pages.
 *  Thread-safe; the order of acquires on one stream is the order of the calls. */
WEIR_API weir_result weir_acquire(weir_pool pool, weir_stream stream, weir_use *uses, size_t count,
                                  const weir_acquire_options *options, weir_lease *lease);

/** Runs when an asynchronous acquire has ended: `lease` is the caller's if result is WEIR_SUCCESS; else the thread's last error
 *  (weir_last_error) tells why. Called once, on a thread of the pool, with no lock held; it may call any function of Weir but those that wait or destroy the pool: weir_request_wait and
 *  weir_pool_destroy answer BUSY there. */
typedef void (*weir_acquire_callback)(void *user, weir_result result, weir_lease lease);

/** As weir_acquire, on a thread of the pool. `uses` must stay valid until the callback runs (addresses are written there);
 *  `options` is copied, with what it points to. Requests of a pool run in order. The caller closes *request
 *  (may be NULL: closed by itself). NOT_SUPPORTED for a wrapped stream of a device without WEIR_CAP_STREAM_ANY_THREAD. */
WEIR_API weir_result weir_acquire_async(weir_pool pool, weir_stream stream, weir_use *uses, size_t count,
                                        const weir_acquire_options *options, weir_acquire_callback callback,
                                        void *user, weir_request *request);
/** Blocks until the callback has returned; *result (may be NULL) gets the acquire's result, and if that is an error the calling
 *  thread's last error tells why. BUSY from within a callback of the pool's, if the request has not ended. */
WEIR_API weir_result weir_request_wait(weir_request request, weir_result *result);
/** Asks a waiting acquire to end with CANCELLED; one that is already granted is not undone. */
WEIR_API weir_result weir_request_cancel(weir_request request);
/** Gives the handle back; the request itself goes on. NULL is allowed. */
WEIR_API void weir_request_close(weir_request request);

/** Ends the lease: what was enqueued on `stream` so far is the work it protects. `stream` is the lease's own or
 *  another of the same device that has been made to wait for it. The lease is over whatever the result;
 *  an error tells that a fence could not be recorded (the stream was synchronised instead) or that the
 *  device is lost. Nothing is changed by INVALID_HANDLE (no such lease or stream) and INVALID_ARGUMENT (a stream
 *  of another device). */
WEIR_API weir_result weir_release(weir_lease lease, weir_stream stream);

/** Starts bringing the uses' bytes to the stream's device, as far as that needs no lease to end and no
 *  page to leave that is needed sooner. Returns at once (with WEIR_POOL_NO_BACKGROUND it does the work itself); failures are silent (a later acquire
 *  tells). Until they are used, or the stream has made as many acquires as the device's budget has pages, the bytes count as needed next:
 *  other prefetches and background demotion leave their pages alone. What there is no room for waits for the next call. Modes other than
 *  WEIR_READ mean the same as READ, DISCARD_WRITE reserves room only. INVALID_ARGUMENT or INVALID_HANDLE for one of the uses (use_index
 *  tells which): none is brought. At most 2^24 uses. */
WEIR_API weir_result weir_prefetch(weir_pool pool, weir_stream stream, const weir_use *uses, size_t count);

/** One operation to come. Fixed size: 48 bytes. */
typedef struct weir_operation {
  const char *name;      /**< may be NULL. Not looked at where operation_id is not 0, nor after the call */
  const weir_use *uses;  /**< copied; addresses are not written */
  uint64_t use_count;    /**< entries of `uses` */
  uint64_t operation_id; /**< what weir_operation_id of the pool answered; 0 = none. Another: INVALID_ARGUMENT, and nothing is announced */
  uint64_t reserved[2];
} weir_operation;
#define WEIR_OPERATION_INIT {NULL, NULL, 0, 0, {0, 0}}

/** Flags of weir_announce. */
enum { WEIR_ANNOUNCE_REPLACE = 1 /**< forget what was announced on this stream before */ };

/** Tells what the next acquires on `stream` will use, in order; each acquire on the stream (async ones too)
 *  consumes one announced operation. Announcements steer prefetch and eviction and are never an obligation:
 *  a buffer destroyed meanwhile is skipped. Appends unless WEIR_ANNOUNCE_REPLACE; count 0 with it clears. At most
 *  2^24 operations a call, of 65535 uses each. */
WEIR_API weir_result weir_announce(weir_pool pool, weir_stream stream, const weir_operation *operations,
                                   size_t count, uint64_t flags);

WEIR_END_DECLS
#endif /* WEIR_LEASE_H */
