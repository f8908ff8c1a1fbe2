/* SPDX-License-Identifier: Apache-2.0
 *
 * weir/types.h - the words every other public header uses: results, handles, places, errors.
 *
 * Rules of the C ABI (they hold for every function of Weir):
 *  - Every function returns a weir_result unless it cannot fail; out-parameters come last and are
 *    written only on success, unless the function's comment says otherwise.
 *  - Descriptors begin with `uint32_t struct_size`; initialise them with their *_INIT macro. One of an older
 *    header is accepted and extended with zeros, one of a newer header if what this library does not know of it is
 *    zero. Unknown flag bits and numbers are refused.
 *  - Output structs begin with `struct_size` too, and are initialised by their *_INIT macro: the library writes that
 *    many bytes, with zeros for what it does not know.
 *  - Array elements (weir_use, weir_operation, weir_pool_device) have a fixed size; their reserved words
 *    must be zero, as their *_INIT macro makes them.
 *  - What is written into the caller's array or text is cut where there is no room: the call answers
 *    WEIR_INCOMPLETE, and says how much there is. A capacity of 0 only asks for that, and is answered with WEIR_SUCCESS.
 *  - Sizes, offsets and budgets are bytes; times are nanoseconds.
 *  - Nothing throws, aborts or calls exit across this boundary.
 *  - Every function may be called from any thread unless its comment says otherwise.
 *  - Comments name the errors that need words. Beside these every function may answer INVALID_ARGUMENT and
 *    INVALID_HANDLE, one that reaches a runtime also DEVICE_LOST and BACKEND, one that moves or reads
 *    contents DATA_LOST, CORRUPT and IO, and one that needs bookkeeping OUT_OF_HOST_MEMORY.
 *  - A handle must not be used while another thread destroys it; that apart, a dead or foreign handle
 *    of a buffer or lease is recognised and answered with WEIR_ERROR_INVALID_HANDLE.
 *  - After fork(), every call in the child returns WEIR_ERROR_FORKED, but for what touches no runtime: weir_arena_*,
 *    weir/codec.h, versions, texts and the last error.
 *
 * docs/abi.md says what later versions may change, and what they may not.
 */
#ifndef WEIR_TYPES_H
#define WEIR_TYPES_H

#include <stddef.h>
#include <stdint.h>

#if UINTPTR_MAX != UINT64_MAX
#error "Weir is for machines with addresses of 64 bits"
#endif

/** @{ Version of these headers; weir_version_number and weir_version_string are the library's. */
#define WEIR_VERSION_MAJOR 1
#define WEIR_VERSION_MINOR 0
#define WEIR_VERSION_PATCH 0
#define WEIR_VERSION_NUMBER (WEIR_VERSION_MAJOR * 1000000 + WEIR_VERSION_MINOR * 1000 + WEIR_VERSION_PATCH)
/** @} */

#if defined(WEIR_STATIC)
#define WEIR_API
#elif defined(__GNUC__)
#define WEIR_API __attribute__((visibility("default")))
#else
#define WEIR_API
#endif

#ifdef __cplusplus
#define WEIR_BEGIN_DECLS extern "C" {
#define WEIR_END_DECLS }
#else
#define WEIR_BEGIN_DECLS
#define WEIR_END_DECLS
#endif

WEIR_BEGIN_DECLS

/** Outcome of a call: 0 is success, positive values are answers that are not errors, negative ones errors. */
typedef int32_t weir_result;

/** Values of a weir_result. */
enum {
  WEIR_SUCCESS = 0,
  WEIR_NOT_READY = 1,  /**< a query was answered: the work is not finished yet */
  WEIR_INCOMPLETE = 2, /**< a list or a text was cut for want of room; the call says how much there is */

  WEIR_ERROR_INVALID_ARGUMENT = -1,   /**< an argument is out of range; the message names it and its value */
  WEIR_ERROR_INVALID_HANDLE = -2,     /**< a handle is NULL, dead, or belongs to another pool or context */
  WEIR_ERROR_NOT_SUPPORTED = -3,      /**< not possible here; the message says why (docs/not-supported.md) */
  WEIR_ERROR_OUT_OF_HOST_MEMORY = -4, /**< the host allocator refused; nothing was changed */
  WEIR_ERROR_OVER_BUDGET = -5,        /**< the request can never fit the budget as it stands; bytes short are told */
  WEIR_ERROR_WOULD_BLOCK = -6,        /**< it fits, but not while other leases are held; try after a release */
  WEIR_ERROR_TIMEOUT = -7,            /**< the deadline passed while waiting for other leases */
  WEIR_ERROR_LEASE_CONFLICT = -8,     /**< an unreleased lease (write against any, any against write) or a hold forbids it */
  WEIR_ERROR_BUSY = -9,               /**< the object is still in use */
  WEIR_ERROR_DEVICE_OOM = -10,        /**< the runtime refused memory inside the budget; the budget was lowered */
  WEIR_ERROR_DEVICE_LOST = -11,       /**< the device no longer answers */
  WEIR_ERROR_DATA_LOST = -12,         /**< the only copy of these bytes was on a lost device */
  WEIR_ERROR_CORRUPT = -13,           /**< stored bytes failed their checksum and no other copy exists */
  WEIR_ERROR_BACKEND = -14,           /**< a runtime call failed; its native code is in weir_error_info */
  WEIR_ERROR_STREAM_CAPTURING = -15,  /**< the stream records a graph; residency can't be promised (see weir_hold) */
  WEIR_ERROR_FORKED = -16,            /**< called in a child of fork(); GPU state does not survive a fork */
  WEIR_ERROR_IO = -17,                /**< a file operation failed; errno is the native code */
  WEIR_ERROR_CANCELLED = -18,         /**< the request was cancelled, or its pool is being destroyed */
  WEIR_ERROR_DEVICE_REMOVED = -19,    /**< the device is leaving the pool, or has left it (weir_pool_remove_device) */
  WEIR_ERROR_INTERNAL = -20           /**< an invariant of Weir's own did not hold; please report it */
};

/** A short constant text such as "over budget"; never NULL, also for unknown values. Never freed. */
WEIR_API const char *weir_result_string(weir_result result);

/** Library version as "major.minor.patch". Never freed. */
WEIR_API const char *weir_version_string(void);

/** Library version as one number, to be compared: major * 1000000 + minor * 1000 + patch. */
WEIR_API uint32_t weir_version_number(void);

/** @{ Handles: opaque; created and destroyed by the functions of their own header. */
typedef struct weir_context_s *weir_context;
typedef struct weir_pool_s *weir_pool;
typedef struct weir_client_s *weir_client;
typedef struct weir_buffer_s *weir_buffer;
typedef struct weir_stream_s *weir_stream;
typedef struct weir_lease_s *weir_lease;
typedef struct weir_request_s *weir_request;
typedef struct weir_arena_s *weir_arena;
/** @} */

/** A place with memory: an index of weir_device_count(), or WEIR_DEVICE_HOST for the CPU's own memory. Numbers from
 *  0xffffff00 on are no device's. */
typedef uint32_t weir_device;
/** The CPU's own memory, as a place. */
#define WEIR_DEVICE_HOST UINT32_C(0xffffffff)
/** Where a device is optional: the first of the pool or of the context. */
#define WEIR_DEVICE_DEFAULT UINT32_C(0xfffffffe)
/** Where several are meant: every device of the pool. */
#define WEIR_DEVICE_ALL UINT32_C(0xfffffffd)
/** As a buffer's home: Weir chooses one (weir/buffer.h). Nowhere else. */
#define WEIR_DEVICE_ANY UINT32_C(0xfffffffc)

/** As a length: from the offset to the buffer's end. */
#define WEIR_WHOLE UINT64_MAX
/** As a budget: no limit of Weir's own. */
#define WEIR_UNLIMITED UINT64_MAX
/** As a budget or quota, where 0 means that Weir chooses or that there is none: nothing at all. */
#define WEIR_NONE (UINT64_MAX - 1)
/** As a timeout: wait without a deadline (weir_acquire then asks for WEIR_ACQUIRE_SOLE_HOLDER). */
#define WEIR_INFINITE UINT64_MAX

/** The tiers. Their numbers are not their order: a later version may put a tier in between. */
enum {
  WEIR_TIER_NONE = 0,
  WEIR_TIER_DEVICE = 1,
  WEIR_TIER_PEER = 2,
  WEIR_TIER_HOST = 3,
  WEIR_TIER_COMPRESSED = 4,
  WEIR_TIER_STORAGE = 5
};

/** What a buffer's bytes are: knowing it, the codec compresses better; the bytes never change. */
enum {
  WEIR_ELEMENT_ANY = 0, /**< found out by looking */
  WEIR_ELEMENT_F16 = 1,
  WEIR_ELEMENT_BF16 = 2,
  WEIR_ELEMENT_F32 = 3,
  WEIR_ELEMENT_F64 = 4
};
/** Entries of arrays by WEIR_ELEMENT_*, for good; those that no element has are 0. */
#define WEIR_ELEMENT_SLOTS 32

/** The numbers behind the thread's last error. Fields that do not apply are 0, but for `device` and `use_index`. */
typedef struct weir_error_info {
  uint32_t struct_size;
  weir_result result;      /**< the error these numbers belong to */
  uint32_t tier;           /**< WEIR_TIER_* that was short */
  weir_device device;      /**< the device concerned, or WEIR_DEVICE_HOST; that too where none is */
  uint64_t asked;          /**< bytes asked for, rounded as they would be charged */
  uint64_t available;      /**< bytes that could have been had */
  uint64_t short_by;       /**< asked - available, where that is the reason */
  uint64_t use_index;      /**< which element of uses[], where one is to blame; else UINT64_MAX */
  int64_t native_code;     /**< the runtime's or the system's own code */
} weir_error_info;
#define WEIR_ERROR_INFO_INIT {sizeof(weir_error_info), 0, 0, 0, 0, 0, 0, 0, 0}

/** The calling thread's last error in one sentence, "" if there was none. Valid until the thread's next call. */
WEIR_API const char *weir_last_error(void);

/** The rest of the calling thread's last error, for people, in lines of UTF-8: the sentence, and if a pool has refused a call (OVER_BUDGET,
 *  DEVICE_OOM, WOULD_BLOCK, TIMEOUT, LEASE_CONFLICT, DATA_LOST) what the tier that was short has now, the five buffers with most
 *  of it, by name, held, leased or not in use, and what to do. Made when it is asked for, from what the pool is then; of a pool that has
 *  ended, and in a child of fork(), it is the sentence alone. It looks at all buffers, as weir_pool_snapshot does; meanwhile
 *  no context or pool of the process is made or ended, and no stream of that pool's context is closed. Writes at most `capacity` bytes, always NUL-terminated if capacity > 0; *needed (may be NULL) gets
 *  the full size with the NUL (a later call's may be another). INCOMPLETE if it was cut; `text` may be NULL with a capacity of 0. "" if
 *  there was no error. Any thread, for its own error; this call changes no error. Errors: INVALID_ARGUMENT, OUT_OF_HOST_MEMORY. */
WEIR_API weir_result weir_last_error_report(char *text, size_t capacity, size_t *needed);

/** Copies the numbers of the calling thread's last error into *info (bounded by info->struct_size). */
WEIR_API weir_result weir_last_error_info(weir_error_info *info);

WEIR_END_DECLS
#endif /* WEIR_TYPES_H */
