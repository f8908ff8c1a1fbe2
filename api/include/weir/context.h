/* SPDX-License-Identifier: Apache-2.0
 *
 * weir/context.h - loaded backends, the devices they found, the links between them, and streams.
 *
 * A context is the root object: create one per process, destroy it last. Contexts are independent of
 * each other; objects of one are foreign to another.
 */
#ifndef WEIR_CONTEXT_H
#define WEIR_CONTEXT_H

#include <weir/types.h>

WEIR_BEGIN_DECLS

/** Host memory for Weir's own bookkeeping. Both functions or neither; `user` is given to them as it is. Called from any thread, also concurrently;
 *  must not call Weir. Buffers' contents never come from here. */
typedef struct weir_allocator {
  void *(*allocate)(void *user, size_t size, size_t alignment); /**< NULL = out of memory */
  void (*deallocate)(void *user, void *memory, size_t size, size_t alignment); /**< what `allocate` gave, with its size and alignment */
  void *user;                                                   /**< goes with both */
  void *reserved[3];                                            /**< NULL */
} weir_allocator;

/** Levels of what is logged. */
enum { WEIR_LOG_ERROR = 0, WEIR_LOG_WARNING = 1, WEIR_LOG_INFO = 2, WEIR_LOG_DEBUG = 3 };

/** Receives one line without a line end. Runs on any thread, never while a lock of Weir is held; it may
 *  call weir_last_error and nothing else. `text` is valid during the call only. */
typedef void (*weir_log_callback)(void *user, int32_t level, const char *text);

struct weir_backend_table;
/** A backend's entry point, see weir/backend.h. */
typedef const struct weir_backend_table *(*weir_backend_query_fn)(uint32_t abi_major);

/** Objects of the program that a backend is to use in place of its own: an engine's VkDevice and queues, a cl_context. Which there are is
 *  in the backend's own header (weir/vulkan.h, weir/opencl.h). */
typedef struct weir_native {
  const char *backend; /**< the backend's name: "vulkan" */
  /** A struct of the backend's header. It begins with two uint32_t: its size, and the kind that it is of. It is copied; what it
   *  refers to is the program's, and lives as that header says. */
  const void *handles;
} weir_native;

/** What a context is made with. */
typedef struct weir_context_desc {
  uint32_t struct_size;
  uint32_t backend_count;                 /**< entries of `backends` */
  uint64_t flags;                         /**< WEIR_CONTEXT_* */
  const weir_backend_query_fn *backends;  /**< further backends linked into the program; tried after the built-in host one */
  /** NULL-terminated list of backend libraries to load by path; NULL = only those of the search folder (below). A file
   *  that every user may write to, or that lies in such a folder, is refused. */
  const char *const *backend_paths;
  /** Options for backends, "backend.key=value" joined by ';', e.g. "host.devices=2;host.memory=1G", and of the context
   *  itself, "topology.key=value". The keys are in docs/host-backend.md, cuda.md, hip.md, level-zero.md, vulkan.md and topology.md. NULL reads the environment variable WEIR_OPTIONS (ignored
   *  under secure execution); given ones win over it, and a WARNING says so where it is set to something else. Unknown keys, and options of a backend that is not loaded, are an error that names them. */
  const char *options;
  weir_allocator allocator;               /**< all NULL = malloc/free */
  weir_log_callback log;                  /**< NULL = the environment variable WEIR_LOG decides: lines of the level it names
                                               (error, warning, info, debug) and worse go to stderr; set to something
                                               else it means warning, not set nothing */
  void *log_user;                         /**< goes with `log` */
  /** How long a backend's runtime may take to start; 0 = 60 s. One that takes longer is given up: it is not available,
   *  and a thread of it may stay behind in the runtime until the process ends. */
  uint64_t start_timeout_ns;
  /** What the program has of a runtime already, at most one entry for each backend. One that is not loaded, takes no such objects, or
   *  can't work with these is an error of weir_context_create that says what is missing: it never makes its own instead. NULL = none. */
  const weir_native *natives;
  uint32_t native_count;                  /**< entries of `natives` */
  uint32_t reserved;                      /**< 0 */
} weir_context_desc;
#define WEIR_CONTEXT_DESC_INIT {sizeof(weir_context_desc), 0, 0, NULL, NULL, NULL, {NULL, NULL, NULL, {NULL, NULL, NULL}}, NULL, NULL, 0, NULL, 0, 0}

/** Flags of a context. */
enum {
  /** Do not offer the built-in host backend. */
  WEIR_CONTEXT_NO_HOST_BACKEND = 1,
  /** Do not load libweir_backend_*.so from the search folder: "weir/1" (1: WEIR_BACKEND_ABI_MAJOR), beside libweir (or beside the program that
   *  libweir is linked into). */
  WEIR_CONTEXT_NO_SEARCH = 2,
  /** Keep the call stack of each weir_buffer_create and weir_malloc: the innermost 32 calls, each distinct stack once, in some 64 MiB
   *  (what has no room is counted). Reports, snapshots and the lines about what was not destroyed show them. It makes those two
   *  calls some microseconds slower. WEIR_STACKS=1 in the environment does the same. */
  WEIR_CONTEXT_STACKS = 4
};

/** Loads the backends and finds the devices. `desc` may be NULL: all defaults. A backend that can't start is not an
 *  error: see weir_backend_info. The caller owns *context. It may take as long as the runtimes take to start, which is
 *  seconds with some drivers. Errors: INVALID_ARGUMENT (also: `natives` of a kind that the backend does not know, or of a backend
 *  that is not there), OUT_OF_HOST_MEMORY, NOT_SUPPORTED (`natives` of a backend that takes none), BACKEND (a backend named in the
 *  descriptor is no backend, is refused, or can't work with the `natives` that are for it). */
WEIR_API weir_result weir_context_create(const weir_context_desc *desc, weir_context *context);

/** Ends the context. BUSY while pools or streams of it exist (nothing is changed then). NULL is allowed. */
WEIR_API weir_result weir_context_destroy(weir_context context);

/** What became of one backend. Strings live as long as the context and are never NULL. */
typedef struct weir_backend_info {
  uint32_t struct_size;
  uint32_t available;    /**< 1 = it started; 0 = see `reason` */
  uint32_t device_count; /**< 0 if it is not available */
  uint32_t first_device; /**< its devices are first_device .. first_device + device_count - 1 */
  const char *name;      /**< "host", "cuda", ... */
  const char *version;   /**< of the runtime found, "" if none */
  const char *reason;    /**< why it is not available, "" if it is */
  const char *path;      /**< the library it came from, "built-in" for the host backend, "linked" for `backends` */
} weir_backend_info;
#define WEIR_BACKEND_INFO_INIT {sizeof(weir_backend_info), 0, 0, 0, NULL, NULL, NULL, NULL}

/** How many backends were found, also those that are not available. It does not change while the context lives. */
WEIR_API weir_result weir_backend_count(weir_context context, uint32_t *count);
/** Errors: INVALID_ARGUMENT (`index` is not below the count). */
WEIR_API weir_result weir_backend_info_get(weir_context context, uint32_t index, weir_backend_info *info);

/** What a device can do (weir_device_info.capabilities); the meaning of each is in docs/backend-abi.md. */
#define WEIR_CAP_VMM UINT64_C(1)                    /**< address ranges and physical granules can be mapped freely */
#define WEIR_CAP_MULTI_MAP UINT64_C(2)              /**< one granule may be live at several addresses */
#define WEIR_CAP_MAP_MAY_BLOCK_DEVICE UINT64_C(4)   /**< mapping may wait for running work */
#define WEIR_CAP_STREAM_ANY_THREAD UINT64_C(8)      /**< any thread may record on a wrapped stream */
#define WEIR_CAP_PEER UINT64_C(16)                  /**< copies to other devices of the backend need no host staging */
#define WEIR_CAP_EXPORT_FD UINT64_C(32)             /**< granules can be exported as file descriptors */
#define WEIR_CAP_BATCH_COPY UINT64_C(64)            /**< many copies in one call cost less than one by one */
#define WEIR_CAP_KERNELS UINT64_C(128)              /**< the backend launches kernels */
#define WEIR_CAP_HOST_CALL UINT64_C(256)            /**< streams can run a host function in order */
#define WEIR_CAP_HOST_ACCESS UINT64_C(512)          /**< the CPU may dereference device addresses */
#define WEIR_CAP_MAP_ANY_THREAD UINT64_C(1024)      /**< mapping may be called on the application's threads, and gains nothing from another */
#define WEIR_CAP_HOST_REGISTER UINT64_C(2048)       /**< the caller's own host memory can be registered for copies */
#define WEIR_CAP_EXPORT_FABRIC UINT64_C(4096)       /**< granules can be exported to other machines of a fabric */
#define WEIR_CAP_MAP_PART UINT64_C(8192)            /**< a part of a granule may be mapped, at an offset */
#define WEIR_CAP_INTEGRATED UINT64_C(16384)         /**< its memory is the host's own: pages do not leave it for HOST */
#define WEIR_CAP_SHARED_RANGE UINT64_C(32768)       /**< granules of other devices of its backend may be mapped in ranges it reserved */
#define WEIR_CAP_MAP_RUN UINT64_C(65536)            /**< granules side by side are mapped and unmapped in one call */
#define WEIR_CAP_ACCESS_LATER UINT64_C(131072)      /**< other devices can be given access to memory that is mapped already */
#define WEIR_CAP_TRANSFER_STREAM UINT64_C(262144)   /**< streams for copies alone can be made, for copy engines to run */
#define WEIR_CAP_NATIVE_MEMORY UINT64_C(524288)     /**< the runtime's own object behind an address can be told (weir_native_memory) */

/** What a device is. */
typedef struct weir_device_info {
  uint32_t struct_size;
  uint32_t backend;         /**< index for weir_backend_info_get */
  uint64_t capabilities;    /**< WEIR_CAP_* */
  uint64_t memory_total;    /**< bytes */
  uint64_t memory_free;     /**< bytes, at the time of the call, as the runtime tells them */
  uint64_t granule;         /**< smallest physical unit in bytes, 0 without VMM */
  uint32_t numa_node;       /**< the system's number; the backend's word, else the topology's; UINT32_MAX if unknown */
  uint32_t reserved;
  char name[64];            /**< for people; ends within its field */
  char pci_address[32];     /**< "0000:17:00.0", "" if there is none */
  uint8_t uuid[16];         /**< the runtime's, all 0 if it tells none */
  /** Partitions (tiles, MIG slices, CPX) of one card are devices with the same `parent`: the least of their numbers.
   *  A device that is no partition has its own number. Devices of two backends at one address are one device, no partitions. */
  weir_device parent;
  uint32_t partition;       /**< which of the card's partitions it is, from 0, in the order of the runtime */
  uint32_t partition_count; /**< how many of them its backend offers; 1 = it is the whole card, as far as is known */
  uint32_t reserved2;
} weir_device_info;
#define WEIR_DEVICE_INFO_INIT {sizeof(weir_device_info), 0, 0, 0, 0, 0, 0, 0, {0}, {0}, {0}, 0, 0, 0, 0}

/** How many devices there are: weir_device is an index below it. Neither changes while the context lives; a device that
 *  is lost keeps its index. */
WEIR_API weir_result weir_device_count(weir_context context, uint32_t *count);
/** Asks the runtime for the free memory, which takes microseconds and, at a vendor's first call, may set its device up.
 *  Errors: INVALID_ARGUMENT (no such device; WEIR_DEVICE_HOST is none), DEVICE_LOST, BACKEND. */
WEIR_API weir_result weir_device_info_get(weir_context context, weir_device device, weir_device_info *info);

/** The device that a text means. The caller gives `wish`, or lets the program's user give it: NULL or "" is the environment
 *  variable WEIR_DEVICE (ignored under secure execution), and "gpu" where that is not set. A wish is one of
 *    "gpu"              of the devices of all backends but "host" the one with the most free memory at that moment
 *    "gpu:1"            the second of them in the order of their numbers, whatever its memory; a card that two backends
 *                       offer counts once, as the first's
 *    "cuda", "host"     of that backend's devices the one with the most free memory
 *    "cuda:0"           the first of that backend
 *    "GPU-5a1c...", "MIG-..."  the device with this UUID, as the vendor's tools write it; the prefix and dashes may be left out
 *    "0000:17:00.0"     the device at this PCI address; the domain may be left out. Of several partitions the one with the
 *                       most free memory
 *  or several of them with commas between: the first that is met counts, so "gpu,host" takes the host's memory only where
 *  there is no GPU. A device that is lost meets no wish that leaves a choice ("gpu", "cuda"), and is what "cuda:0" means all
 *  the same. Capitals do not matter. What was taken is logged as INFO, as WARNING if it was not the first of several.
 *  It asks the runtimes for the free memory (weir_device_info_get). May be called from any thread.
 *  Errors, which leave *device as it is: INVALID_ARGUMENT (none is met: the message lists what there is, and why backends are
 *  not available; or one of the list, even behind the one that is met, has no such form). */
WEIR_API weir_result weir_device_find(weir_context context, const char *wish, weir_device *device);

/** Kinds of links. */
enum {
  WEIR_LINK_NONE = 0, WEIR_LINK_SAME = 1, WEIR_LINK_PCIE = 2, WEIR_LINK_NVLINK = 3,
  WEIR_LINK_INFINITY_FABRIC = 4, WEIR_LINK_XE = 5, WEIR_LINK_MEMORY = 6,
  WEIR_LINK_C2C = 7,    /**< between the chips of one package, as a GPU and its CPU */
  WEIR_LINK_NETWORK = 8 /**< to another machine */
};

/** Where a link's bandwidth is from. The numbers are not an order. */
enum {
  WEIR_LINK_FIGURE_NONE = 0,     /**< it is unknown */
  WEIR_LINK_FIGURE_PCIE = 1,     /**< derived: the least PCIe generation times lanes on the way */
  WEIR_LINK_FIGURE_TOPOLOGY = 2, /**< the machine's topology, or a file of it, gives it */
  WEIR_LINK_FIGURE_BACKEND = 3,  /**< the backend reports it */
  WEIR_LINK_FIGURE_MEASURED = 4  /**< it was measured here */
};

/** What lies between two places. */
typedef struct weir_link_info {
  uint32_t struct_size;
  uint32_t kind;             /**< WEIR_LINK_* */
  uint64_t bandwidth;        /**< bytes a second one way, 0 = unknown */
  uint64_t latency_ns;       /**< 0 = unknown */
  uint32_t hops;             /**< links in a row between the two; 0 from a device to itself */
  uint32_t direct;           /**< 1 = copies need no host staging */
  uint32_t source;           /**< of `bandwidth`: WEIR_LINK_FIGURE_* */
  uint32_t reported_source;  /**< of `reported_bandwidth`: WEIR_LINK_FIGURE_*, never MEASURED */
  uint64_t reported_bandwidth; /**< what `bandwidth` is where nothing is measured, 0 = unknown */
  /** How many partitions of one card (weir_device_info.partition_count) have this link in common, so that its bandwidth is
   *  theirs together: a partition's links to the host and to other cards are the card's. 1 = it is the two ends' own. Of
   *  two partitioned ends the greater count. */
  uint32_t shared_with;
  uint32_t reserved;
} weir_link_info;
#define WEIR_LINK_INFO_INIT {sizeof(weir_link_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/** The path between two places; either may be WEIR_DEVICE_HOST. It is what the backend reports, and where that leaves
 *  something open what the machine's topology tells (docs/topology.md); figures that weir_topology_calibrate measured, now
 *  or in an earlier run whose cache file the context's first such call reads, come before both. Between devices of two backends copies are never
 *  direct; two devices of one PCI address are the SAME. Where nothing is known the kind is NONE. The first call about a
 *  device with a PCI address may look at the machine, which takes some milliseconds to tenths of a second. Errors:
 *  INVALID_ARGUMENT, DEVICE_LOST, BACKEND. */
WEIR_API weir_result weir_link_info_get(weir_context context, weir_device from, weir_device to, weir_link_info *info);

/** The runtime's own object behind an address that a lease, weir_hold, weir_malloc or weir_pool_map gave on `device`, for interfaces that
 *  take objects and offsets in place of addresses: a VkBuffer. `kind` says which struct of the backend's header `out` points to; it begins
 *  with its size, a uint32_t that the caller sets (its *_INIT macro). What is told holds for as long as the address does, and the object
 *  stays Weir's. Any thread; nothing waits. Errors: INVALID_ARGUMENT (no such device, no memory of the device at `address` as far as
 *  the backend can tell, a kind or size that it does not know), NOT_SUPPORTED (the device lacks WEIR_CAP_NATIVE_MEMORY:
 *  its addresses are what its interfaces take; or WEIR_DEVICE_HOST), DEVICE_LOST, BACKEND. */
WEIR_API weir_result weir_native_memory(weir_context context, weir_device device, uint64_t address, uint32_t kind,
                                        void *out);

/* ---- streams ----
 * A stream is an in-order queue of the runtime. Weir orders its work before and after yours by recording
 * fences on it; it never synchronises it. */

/** Creates a native stream on `device` and wraps it. `device` may be WEIR_DEVICE_HOST: leases on that
 *  stream give CPU addresses and are ordered by the calling thread itself; or WEIR_DEVICE_DEFAULT, the context's first
 *  device. `flags` must be 0. The caller owns *stream and ends it with weir_stream_close. Errors: INVALID_ARGUMENT,
 *  NOT_SUPPORTED (too many streams), OUT_OF_HOST_MEMORY, DEVICE_OOM, DEVICE_LOST, BACKEND. */
WEIR_API weir_result weir_stream_create(weir_context context, weir_device device, uint64_t flags, weir_stream *stream);

/** Wraps a stream of the runtime: CUstream, hipStream_t, an in-order Level Zero command list, or what
 *  weir_stream_native gave. Where a runtime's queue is more than a handle, `native` points to a struct of the backend's header, which
 *  is copied. NULL is the runtime's default stream, where it has one (CUDA, HIP: the legacy default
 *  stream). A stream that means another queue on each thread (CUDA's CU_STREAM_PER_THREAD) may be used through the
 *  wrapper on the wrapping thread only. The native stream stays the caller's and must outlive the wrapper; the
 *  wrapper is the caller's too. `flags` must be 0. In which runtime's context the stream must be is in docs/cuda.md,
 *  hip.md and level-zero.md. Errors: INVALID_ARGUMENT (also: no stream of this device, as far as its runtime can tell),
 *  NOT_SUPPORTED (WEIR_DEVICE_HOST has no native streams; too many streams), DEVICE_LOST, BACKEND. */
WEIR_API weir_result weir_stream_wrap(weir_context context, weir_device device, void *native, uint64_t flags,
                                      weir_stream *stream);

/** Closes the wrapper, and ends the native stream if weir_stream_create made it; call it before a native stream of your
 *  own is destroyed. It does not wait: work already enqueued is finished, and waited for wherever Weir depends on it.
 *  Errors: BUSY while leases taken on it are unreleased (nothing is changed then), INVALID_HANDLE. NULL is allowed. */
WEIR_API weir_result weir_stream_close(weir_stream stream);

/** The runtime's own handle, as weir_stream_wrap takes it; its owner stays the same. Errors: NOT_SUPPORTED (a stream of
 *  WEIR_DEVICE_HOST has none), INVALID_HANDLE. */
WEIR_API weir_result weir_stream_native(weir_stream stream, void **native);

/** Blocks the thread until everything enqueued on the stream so far has finished; returns at once on a stream of
 *  WEIR_DEVICE_HOST. Errors: INVALID_HANDLE, STREAM_CAPTURING, DEVICE_LOST, BACKEND. */
WEIR_API weir_result weir_stream_synchronize(weir_stream stream);

/** WEIR_SUCCESS when everything enqueued so far has finished, WEIR_NOT_READY otherwise; never blocks. Errors: as
 *  weir_stream_synchronize. */
WEIR_API weir_result weir_stream_query(weir_stream stream);

/** What weir_stream_host_call runs. It must not call Weir or the runtime, nor throw. */
typedef void (*weir_host_function)(void *user);
/** Enqueues function(user), to run on a CPU thread in stream order; `user` stays the caller's and must live until then.
 *  On the host backend this is how "kernels" run. Functions of different streams may run one after another: while one blocks,
 *  those of the device's other streams may have to wait (CUDA runs them on one thread). Errors: INVALID_ARGUMENT, NOT_SUPPORTED (the
 *  device lacks WEIR_CAP_HOST_CALL), STREAM_CAPTURING, DEVICE_LOST, BACKEND. */
WEIR_API weir_result weir_stream_host_call(weir_stream stream, weir_host_function function, void *user);

WEIR_END_DECLS
#endif /* WEIR_CONTEXT_H */
