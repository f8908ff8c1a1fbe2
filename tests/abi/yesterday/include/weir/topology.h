/* SPDX-License-Identifier: Apache-2.0
 *
 * weir/topology.h - the machine as a context sees it: places, the links between them, and where each figure is from.
 *
 * What a link is comes from the backend that offers the devices, from the topology of the machine (hwloc, or a file of
 * it), or from a measurement (weir_topology_calibrate); docs/topology.md has the precedence. Neither asking nor exporting
 * starts a runtime.
 */
#ifndef WEIR_TOPOLOGY_H
#define WEIR_TOPOLOGY_H

#include <weir/context.h>

WEIR_BEGIN_DECLS

/** "nvlink" for WEIR_LINK_NVLINK; never NULL, also for unknown values ("unknown"). Never freed. */
WEIR_API const char *weir_link_kind_string(uint32_t kind);

/** "measured" for WEIR_LINK_FIGURE_MEASURED; never NULL, also for unknown values ("unknown"). Never freed. */
WEIR_API const char *weir_link_figure_string(uint32_t source);

/** What weir_topology_export writes. */
enum {
  WEIR_TOPOLOGY_JSON = 0, /**< places, devices and links; bandwidths in bytes a second one way, latencies in ns */
  WEIR_TOPOLOGY_TEXT = 1, /**< a tree, a matrix of links with GB/s (10^9 bytes), a legend; for people */
  WEIR_TOPOLOGY_SVG = 2   /**< a picture: a document of its own, without scripts */
};

/** Writes the machine with the context's devices in it: at most `capacity` bytes, always NUL-terminated if capacity > 0.
 *  *needed (may be NULL) gets the full size with the NUL. INCOMPLETE if it was cut; `text` may be NULL with a capacity
 *  of 0. The first call may look at the machine, which takes some milliseconds to tenths of a second; where
 *  that fails, the machine is the devices alone. Devices of the machine that no backend offers are in it too. */
WEIR_API weir_result weir_topology_export(weir_context context, uint32_t format, char *text, size_t capacity,
                                          size_t *needed);

/* ---- measuring links ---- */

/** Flags of weir_topology_calibrate. */
enum {
  WEIR_CALIBRATE_NO_CACHE = 1 /**< measure for this context only: write nothing to the cache */
};

/** How long, and with how much memory, to measure. */
typedef struct weir_calibrate_desc {
  uint32_t struct_size;
  uint32_t reserved;  /**< 0 */
  uint64_t flags;     /**< WEIR_CALIBRATE_* */
  /** Nanoseconds for all links together, which share them; 0 = 5 s. It is kept to within some small copies on each link,
   *  and what runtimes take to give memory. Links that there is no time for are left as they are. */
  uint64_t max_ns;
  /** Bytes of memory that may be held at once, half of them at each end of the link being measured: on a device, and
   *  pinned on the host or on another device. 0 = 64 MiB; at least 128 KiB. Less is used where there is no room. */
  uint64_t max_bytes;
} weir_calibrate_desc;
#define WEIR_CALIBRATE_DESC_INIT {sizeof(weir_calibrate_desc), 0, 0, 0, 0}

/** What became of the links; each way of a link counts as one. */
typedef struct weir_calibrate_report {
  uint32_t struct_size;
  uint32_t measured;   /**< have a figure of this call */
  uint32_t failed;     /**< a call of the backend failed (the log says which); they keep the figure that they had */
  uint32_t skipped;    /**< the time was up; they keep the figure that they had */
  uint32_t saved;      /**< files written to the cache, one a backend */
  uint32_t reserved;
  uint64_t elapsed_ns; /**< of the call */
  /** The folder of the cache. "" if the context has none: topology.cache=0, a rehearsed machine, no home in the
   *  environment. Lives as long as the context; never NULL. */
  const char *folder;
} weir_calibrate_report;
#define WEIR_CALIBRATE_REPORT_INIT {sizeof(weir_calibrate_report), 0, 0, 0, 0, 0, 0, ""}

/** Measures bandwidth and latency of every link between a device and the host, and between two devices of one backend
 *  that reach each other directly, by copies on streams and memory of its own: one link and one way at a time, on this
 *  thread, which waits. All that it takes is given back, whatever fails. The figures count at once in this context
 *  (weir_link_info_get, weir_topology_export), before all others, and are saved for later contexts on this machine with
 *  the same devices, driver and options of the backend (docs/topology.md). A latency is what a small copy takes from
 *  being enqueued to being waited for. Whatever else copies or computes meanwhile makes figures worse.
 *
 *  `desc` may be NULL: all defaults. `report` may be NULL; else it is written on success and on IO. That links fail is no
 *  error. Errors: INVALID_ARGUMENT, INVALID_HANDLE, BUSY (another thread is calibrating this context), IO (links were
 *  measured and count in this context, but cannot be saved; the message names the path), OUT_OF_HOST_MEMORY. */
WEIR_API weir_result weir_topology_calibrate(weir_context context, const weir_calibrate_desc *desc,
                                             weir_calibrate_report *report);

WEIR_END_DECLS
#endif /* WEIR_TOPOLOGY_H */
