/* SPDX-License-Identifier: Apache-2.0
 *
 * weir/backend.h - the backend ABI: what a runtime (CUDA, HIP, Level Zero, the host) must offer to Weir.
 *
 * A backend is a shared library that exports one function, WEIR_BACKEND_QUERY_SYMBOL, or a function of that
 * type linked into the program. It returns a table that lives as long as the library. The core calls the
 * table and nothing else of the backend; the backend calls nothing of the core but the callbacks it is given.
 *
 * Rules for every entry:
 *  - Entries are thread-safe unless the comment says otherwise. They never throw and never exit.
 *  - They return a weir_result. On failure nothing has changed, nothing is leaked, and last_error_code() gives the
 *    thread a code that is not 0 until its next call: the runtime's own where a call of it failed, else one of the
 *    backend's. NOT_READY and TIMEOUT are answers, and need no code. The code after a call that succeeded, or
 *    after a call with another state, is not specified.
 *  - What a comment does not allow and the backend can see is refused with INVALID_ARGUMENT, unless another result is
 *    named: sizes of 0 or of the wrong multiple, unknown flags, devices that do not exist, 0 and NULL where a granule, a
 *    fence or a stream is needed. Handles and addresses that are dead or made up need not be recognised, nor a wrong
 *    size that the backend rounds up to the right one. Host memory or addresses that can't be had are
 *    OUT_OF_HOST_MEMORY, or INVALID_ARGUMENT or DEVICE_OOM where the runtime says no more.
 *  - Out-parameters are written only on success. weir_be_device and weir_be_link begin with `struct_size`, which the
 *    caller sets: the backend writes at most that many bytes, leaves it as it is, and 0 means unknown in the rest, which
 *    the caller zeroes.
 *  - Entries leave the calling thread's runtime state as they found it: the runtime's current device or context, and the
 *    thread's signal mask and floating-point modes.
 *  - What enqueues (copies, fills, waits, records, host functions) does not wait for work, while fewer than 200 calls are
 *    outstanding on the stream; a copy from host memory to host memory may. What asks (a check, query or poll) does not
 *    either; of a stream that the program may use as well it may take some milliseconds. Entries that make and end
 *    memory, maps and streams may wait for work of any stream, as runtimes do.
 *  - There is room for what device and system have memory for, and at least for 64 streams, 10,000 fences that have
 *    not passed, 5,000 copies in a stream that goes on, 256 ranges, hundreds of maps, 1,000 pieces of plain memory and 256 of host memory.
 *  - Devices are named by their index within the backend, addresses are uint64_t, sizes are bytes.
 *  - A NULL entry means NOT_SUPPORTED. Groups are all or none; which group a capability needs is said at the
 *    group. The loader refuses a table whose capabilities and groups disagree.
 *  - A table may be larger than the core knows (a newer backend) or smaller (an older one): entries are only appended,
 *    each a group of its own with a capability of its own, so none is ever required of a backend of an earlier version.
 *  - A capability permits and never restricts: a core that does not know one does without it. A flag is given only to a
 *    device with the capability for it. What a backend does not know of weir_be_start it ignores.
 */
#ifndef WEIR_BACKEND_H
#define WEIR_BACKEND_H

#include <weir/context.h>

WEIR_BEGIN_DECLS

/** Version of this interface: a backend and a core fit together if theirs is the same. */
#define WEIR_BACKEND_ABI_MAJOR 1
/** The name of the function that a backend's library exports: a weir_backend_query_fn. */
#define WEIR_BACKEND_QUERY_SYMBOL "weir_backend_query"

/** The backend's own state, made by start(). */
typedef struct weir_be_state weir_be_state;
/** Physical memory; 0 is none. */
typedef uint64_t weir_be_granule;
/** A stream as the backend knows it; NULL is none. */
typedef struct weir_be_stream_s *weir_be_stream;
/** A one-shot marker of a point in a stream; 0 is none. Any value the backend likes: a pointer, a number. */
typedef uint64_t weir_be_fence;

/** What start() is told. */
typedef struct weir_be_start {
  uint32_t struct_size;    /**< the caller's: fields may be appended */
  uint32_t reserved;       /**< 0 */
  const char *options;     /**< "key=value" joined by ';', the backend's own keys only, without its prefix; "" if none */
  weir_log_callback log;   /**< may be NULL; same rules as in weir_context_desc */
  void *log_user;          /**< goes with `log` */
  /** NULL, or objects of the program that the backend is to use in place of its own: a struct of the backend's public header, which
   *  begins with two uint32_t, its size and its kind. Only a backend with the group `native_memory` is given any. It is the core's for
   *  the time of the call. A kind, a size or an object that the backend can't use is INVALID_ARGUMENT with the reason; it never makes
   *  its own instead. */
  const void *native;
} weir_be_start;

/** A device, as device_describe tells it. */
typedef struct weir_be_device {
  uint32_t struct_size;
  uint32_t numa_node;      /**< UINT32_MAX if unknown */
  uint64_t capabilities;   /**< WEIR_CAP_* */
  uint64_t memory_total;   /**< bytes */
  uint64_t granule;        /**< smallest physical unit and its alignment, a power of two; 0 without VMM */
  uint64_t granule_large;  /**< a size that maps more cheaply per byte, a multiple of granule; 0 = none */
  uint64_t address_space;  /**< bytes that range_reserve can give in all; 0 = plenty */
  char name[64];           /**< printable, and ends within its field */
  char pci_address[32];    /**< "0000:17:00.0" in lower case, "" if there is none */
  uint8_t uuid[16];        /**< tells devices apart, also between backends; all 0 if there is none */
} weir_be_device;

/** The path between two places, as link_describe tells it. */
typedef struct weir_be_link {
  uint32_t struct_size;
  uint32_t kind;           /**< WEIR_LINK_* */
  uint64_t bandwidth;      /**< bytes a second one way; 0 = unknown */
  uint64_t latency_ns;     /**< 0 = unknown */
  uint32_t hops;           /**< links in a row; 0 from a device to itself, elsewhere at least 1 where it is known */
  uint32_t direct;         /**< 1 = copy_async works between the two */
} weir_be_link;

/* How a granule may leave the process; said when it is made. */
#define WEIR_BE_GRANULE_EXPORT_FD UINT64_C(1)     /**< to another process, as a file descriptor */
#define WEIR_BE_GRANULE_EXPORT_FABRIC UINT64_C(2) /**< to another machine, as a weir_be_fabric_handle */

/* What a stream is for; said when it is made. */
#define WEIR_BE_STREAM_TRANSFER UINT64_C(1) /**< copies, fills, waits and fences only: copy engines may run them */

/** One granule of a run: its bytes [offset, offset+bytes), as map takes them. */
typedef struct weir_be_piece {
  weir_be_granule granule; /**< whose memory */
  uint64_t offset;         /**< where in it */
  uint64_t bytes;          /**< how much of it, and how much of the addresses */
} weir_be_piece;

/** What names a granule on every machine of one fabric. */
typedef struct weir_be_fabric_handle {
  uint8_t bytes[64]; /**< the runtime's own */
} weir_be_fabric_handle;

/** One copy. Both sides are addresses: device addresses, or host memory from host_allocate / host_register.
 *  Ranges do not overlap: what a copy does whose sides overlap is undefined. */
typedef struct weir_be_copy {
  uint64_t destination; /**< address of the first byte written */
  uint64_t source;      /**< address of the first byte read */
  uint64_t bytes;       /**< how many */
} weir_be_copy;

/** What a backend is: its entry point (weir_backend_query_fn) returns one, or NULL if it does not speak the major version
 *  that it is asked for. */
typedef struct weir_backend_table {
  uint32_t struct_size;
  uint32_t abi_major;      /**< WEIR_BACKEND_ABI_MAJOR */
  const char *name;        /**< "host", "cuda": lower case, also the prefix of its options */

  /* ---- runtime (required) ---- */
  /** Finds and starts the runtime. On failure *reason (never NULL then, static or owned by the library until
   *  this thread's next start) says why in words for a person: "HIP runtime 5.2 found, 6.0 needed". Called once per context; several states may exist. */
  weir_result (*start)(const weir_be_start *desc, weir_be_state **state, const char **reason);
  /** Frees everything the state still owns, also when its streams have work to do: that is waited for or given up. When it
   *  returns nothing of the state runs any more, neither host functions nor the log. No other entry is running or will be
   *  called with it. Any thread may call it. */
  void (*stop)(weir_be_state *state);
  /** The runtime's version, "" if unknown. Lives as long as the state. */
  const char *(*runtime_version)(weir_be_state *state);
  /** The calling thread's last native error code, 0 if none. Asking changes nothing. */
  int64_t (*last_error_code)(weir_be_state *state);
  /** A native code in words; never NULL; valid until the thread's next failure. */
  const char *(*error_text)(weir_be_state *state, int64_t native);

  /* ---- devices (required) ---- */
  /** It does not change while the state lives; nor do the descriptions. */
  weir_result (*device_count)(weir_be_state *state, uint32_t *count);
  /** Fills *description for one of the devices. */
  weir_result (*device_describe)(weir_be_state *state, uint32_t device, weir_be_device *description);
  /** Bytes free now, and in all as in the description. */
  weir_result (*device_memory)(weir_be_state *state, uint32_t device, uint64_t *free_bytes, uint64_t *total_bytes);
  /** `from` or `to` may be WEIR_DEVICE_HOST. A device's link to itself is SAME, those to and from the host are direct. */
  weir_result (*link_describe)(weir_be_state *state, uint32_t from, uint32_t to, weir_be_link *link);

  /* ---- physical memory: all or none, WEIR_CAP_VMM; ranges with other devices' granules: WEIR_CAP_SHARED_RANGE, which
   *      needs WEIR_CAP_VMM and WEIR_CAP_PEER ---- */
  /** Makes `bytes` (a multiple of the granule) of physical memory on the device. Contents are undefined.
   *  `flags` are WEIR_BE_GRANULE_*: runtimes fix at creation how memory may leave the process. DEVICE_OOM when the
   *  device has none left; NOT_SUPPORTED for a flag without its capability; either NOT_SUPPORTED or INVALID_ARGUMENT for a
   *  flag that the backend does not know. */
  weir_result (*granule_create)(weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t flags,
                                weir_be_granule *granule);
  /** Legal only when it is mapped nowhere. */
  weir_result (*granule_destroy)(weir_be_state *state, uint32_t device, weir_be_granule granule);
  /** Reserves addresses of the device without memory behind them; `alignment` is a power of two >= granule. One of more
   *  than 1 GiB may be refused. */
  weir_result (*range_reserve)(weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t alignment,
                               uint64_t *address);
  /** `address` and `bytes` as reserved; nothing is mapped in it, by no device. */
  weir_result (*range_free)(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes);
  /** Maps granule bytes [offset, offset+bytes) at `address` (all multiples of the granule size) inside one reservation,
   *  where nothing is mapped, readable and writable by `device`, whose the granule is, and by `peers`. The reservation is
   *  the device's own; with WEIR_CAP_SHARED_RANGE on both devices it may be another's of the backend, which has access only
   *  where it is one of `peers`. Without WEIR_CAP_MAP_PART a granule is mapped whole: `offset` is 0 and `bytes` its size,
   *  and anything else is NOT_SUPPORTED. When it returns, work enqueued from now on sees it. Called on one thread per device
   *  unless WEIR_CAP_MAP_ANY_THREAD, so with WEIR_CAP_SHARED_RANGE several devices may map into disjoint places of one
   *  reservation at the same time. A granule is mapped once at a time unless WEIR_CAP_MULTI_MAP. `peers` are other devices,
   *  each once and in any order, and NULL only where there are none. That a device without access is kept from the memory is
   *  not promised. */
  weir_result (*map)(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                     weir_be_granule granule, uint64_t offset, const uint32_t *peers, uint32_t peer_count);
  /** Removes exactly what one map call made; `device` is the one that call was told. The core calls it only when no work
   *  that uses the address is pending; it relies on no synchronisation by it. With WEIR_CAP_SHARED_RANGE, where a device was
   *  lost, what others mapped in its ranges can be unmapped all the same. What the lost device has mapped itself is gone in any case, so
   *  that the range can be freed; DEVICE_LOST says that the runtime would not unmap it, and that nothing else can be mapped at the
   *  place again. */
  weir_result (*unmap)(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes);

  /* ---- export: all or none, WEIR_CAP_EXPORT_FD ---- */
  /** A new descriptor of a granule made with WEIR_BE_GRANULE_EXPORT_FD; the caller closes it. It can be sent to another
   *  process. The exporter keeps the granule for as long as others use it. */
  weir_result (*granule_export)(weir_be_state *state, uint32_t device, weir_be_granule granule, int32_t *fd);
  /** Imports exported memory as a granule. `bytes` is the size with which it was exported: another number is refused where the
   *  backend can see it. The descriptor stays the caller's. Ended by granule_destroy. */
  weir_result (*granule_import)(weir_be_state *state, uint32_t device, int32_t fd, uint64_t bytes,
                                weir_be_granule *granule);

  /* ---- plain memory (required) ---- */
  /** Memory with an address at once; `alignment` is a power of two <= 2 MiB. DEVICE_OOM when there is none. */
  weir_result (*plain_allocate)(weir_be_state *state, uint32_t device, uint64_t bytes, uint64_t alignment,
                                uint64_t *address);
  /** `address` and `bytes` as allocated. No work that uses them is pending. */
  weir_result (*plain_free)(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes);

  /* ---- host memory for copies: host_allocate required; register: all or none, WEIR_CAP_HOST_REGISTER ---- */
  /** Pinned, page-aligned memory that every device of the backend can copy to and from. */
  weir_result (*host_allocate)(weir_be_state *state, uint64_t bytes, void **memory);
  /** `memory` and `bytes` as allocated. No copy that uses them is pending. */
  weir_result (*host_free)(weir_be_state *state, void *memory, uint64_t bytes);
  /** Makes existing page-aligned host memory usable for copies by every device of the backend. `bytes` need be no whole
   *  pages; the rest of the last page may be registered with them. Memory that another state has registered may be refused. */
  weir_result (*host_register)(weir_be_state *state, void *memory, uint64_t bytes);
  /** `memory` and `bytes` as registered. No copy that uses them is pending. */
  weir_result (*host_unregister)(weir_be_state *state, void *memory, uint64_t bytes);

  /* ---- streams (required; host_call: WEIR_CAP_HOST_CALL) ---- */
  /** In-order queues; different streams are unordered. `flags` are 0 or WEIR_BE_STREAM_TRANSFER: that needs
   *  WEIR_CAP_TRANSFER_STREAM, and without it is INVALID_ARGUMENT. Any threads may use the stream, several at a time: the
   *  order between what different threads enqueue is not specified. */
  weir_result (*stream_create)(weir_be_state *state, uint32_t device, uint64_t flags, weir_be_stream *stream);
  /** Wraps a stream of the runtime, which stays the caller's. NULL is the runtime's default stream, and INVALID_ARGUMENT
   *  where it has none. A stream that means another queue on every thread (CUDA's per-thread default stream) answers on the
   *  wrapping thread only, elsewhere with INVALID_ARGUMENT. */
  weir_result (*stream_wrap)(weir_be_state *state, uint32_t device, void *native, weir_be_stream *stream);
  /** Ends the wrapper; a native stream made by stream_create ends too, after its work has finished. The call should not
   *  wait for that: meanwhile the core opens and closes no other stream. Fences recorded on it stay valid. */
  weir_result (*stream_destroy)(weir_be_state *state, weir_be_stream stream);
  /** The runtime's own handle, as stream_wrap takes it. */
  weir_result (*stream_native)(weir_be_state *state, weir_be_stream stream, void **native);
  /** SUCCESS, or STREAM_CAPTURING when the stream is recording a graph. Called by every acquire, so nanoseconds matter.
   *  NULL where streams can't do that. */
  weir_result (*stream_check)(weir_be_state *state, weir_be_stream stream);
  /** Blocks the thread until everything enqueued on the stream so far has finished. */
  weir_result (*stream_synchronize)(weir_be_state *state, weir_be_stream stream);
  /** SUCCESS or NOT_READY. A stream that the program may use as well (one that was wrapped, or whose native stream was asked
   *  for) may be NOT_READY a few times more after its work has finished; asked again, it is SUCCESS. */
  weir_result (*stream_query)(weir_be_state *state, weir_be_stream stream);
  /** Enqueues function(user), to run on a CPU thread in the stream's order. The function may block; what is behind it in the
   *  stream, and what waits for that, waits. Other streams' host functions may wait for it too, as when the runtime has one
   *  thread for all, but nothing else of other streams does. It calls no entry. */
  weir_result (*stream_host_call)(weir_be_state *state, weir_be_stream stream, weir_host_function function,
                                  void *user);

  /* ---- fences (required) ----
   * A fence is recorded once, waited for any number of times by any thread or stream of the backend, and destroyed
   * once, passed or not. fence_record and fence_poll are on Weir's fastest path: tens of nanoseconds matter. */
  /** Marks the end of what is enqueued on the stream so far. */
  weir_result (*fence_record)(weir_be_state *state, weir_be_stream stream, weir_be_fence *fence);
  /** Work enqueued on `stream` from now on runs after the fence. Does not block the thread until that passes. */
  weir_result (*stream_wait)(weir_be_state *state, weir_be_stream stream, weir_be_fence fence);
  weir_result (*fence_poll)(weir_be_state *state, weir_be_fence fence);     /**< SUCCESS or NOT_READY */
  /** Blocks up to timeout_ns (0 = poll, UINT64_MAX = no limit): SUCCESS or WEIR_ERROR_TIMEOUT. */
  weir_result (*fence_wait)(weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns);
  /** Ends a fence, passed or not. Nothing will ask about it any more. */
  weir_result (*fence_destroy)(weir_be_state *state, weir_be_fence fence);

  /* ---- copies (copy and fill required; batch: WEIR_CAP_BATCH_COPY) ---- */
  /** Enqueues a copy. A copy never spans two map calls' ranges or two reservations on either side. */
  weir_result (*copy_async)(weir_be_state *state, weir_be_stream stream, const weir_be_copy *copy);
  /** Enqueues all or none; order among them is free, so none writes what another reads or writes. No copies do nothing, and
   *  may be INVALID_ARGUMENT; likewise copies and fills of 0 bytes. */
  weir_result (*copy_batch_async)(weir_be_state *state, weir_be_stream stream, const weir_be_copy *copies,
                                  uint32_t count);
  /** Fills device memory with a byte. For host memory it is undefined. */
  weir_result (*fill_async)(weir_be_state *state, weir_be_stream stream, uint64_t address, uint8_t value,
                            uint64_t bytes);

  /* ---- peers: all or none, WEIR_CAP_PEER ---- */
  /** Whether `device` can reach `peer`'s memory directly; enables it where the runtime asks for that. SUCCESS wherever the
   *  link is direct, and NOT_SUPPORTED where it can't. For a device and itself the answer is not specified. */
  weir_result (*peer_enable)(weir_be_state *state, uint32_t device, uint32_t peer);

  /* ---- export over a fabric, between the machines of one: all or none, WEIR_CAP_EXPORT_FABRIC ---- */
  /** A handle of a granule made with WEIR_BE_GRANULE_EXPORT_FABRIC, good on every machine of the fabric. */
  weir_result (*granule_export_fabric)(weir_be_state *state, uint32_t device, weir_be_granule granule,
                                       weir_be_fabric_handle *handle);
  /** Imports exported memory as a granule. `bytes` is the size with which it was exported. Ended by granule_destroy. */
  weir_result (*granule_import_fabric)(weir_be_state *state, uint32_t device, const weir_be_fabric_handle *handle,
                                       uint64_t bytes, weir_be_granule *granule);

  /* ---- runs of granules: all or none, WEIR_CAP_MAP_RUN, which needs WEIR_CAP_VMM ---- */
  /** Maps `count` pieces side by side, the first at `address`: short for as many map calls with the same peers, under the
   *  same rules and on the same thread. All are mapped, or none. Each piece is a map of its own: later it can be unmapped
   *  alone, and mapped elsewhere, or unmapped together with neighbours, by whichever calls those were mapped. */
  weir_result (*map_run)(weir_be_state *state, uint32_t device, uint64_t address, const weir_be_piece *pieces,
                         uint32_t count, const uint32_t *peers, uint32_t peer_count);
  /** Removes what map and map_run of `device` made in [address, address+bytes), which whole pieces must cover without a
   *  gap: short for an unmap of each, under the same rules. All are removed, or none; with DEVICE_LOST as in unmap. */
  weir_result (*unmap_run)(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes);

  /* ---- access of peers to what is mapped: all or none, WEIR_CAP_ACCESS_LATER, which needs WEIR_CAP_VMM and
   *      WEIR_CAP_PEER ---- */
  /** Makes [address, address+bytes) readable and writable by `peers` too, of which there is one at least, until it is unmapped. Whole pieces that `device`
   *  has mapped must cover it without a gap; work that uses them may be pending. When it returns, work that the peers
   *  enqueue from now on sees the memory. A peer that has access already keeps it, also one that is named again. On the
   *  same thread as map. */
  weir_result (*access_add)(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                            const uint32_t *peers, uint32_t peer_count);

  /* ---- the runtime's own objects: all or none, WEIR_CAP_NATIVE_MEMORY ---- */
  /** The runtime's object behind an address of the device's memory (plain, or mapped). `out` is a struct of the backend's public header, which `kind`
   *  names; it begins with a uint32_t, its size, which the caller sets: at most that many bytes are written, and it stays as it is. An unknown kind, a
   *  size that is too small for the kind, and an address where the device has no memory are INVALID_ARGUMENT. It does not wait. */
  weir_result (*native_memory)(weir_be_state *state, uint32_t device, uint64_t address, uint32_t kind, void *out);
} weir_backend_table;

WEIR_END_DECLS
#endif /* WEIR_BACKEND_H */
