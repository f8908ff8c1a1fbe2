/* SPDX-License-Identifier: Apache-2.0
 *
 * weir/topology.h - the machine as a context sees it: places, the links between them, and where each figure is from.
 *
 * What a link is comes from the backend that offers the devices, from the topology of the machine (hwloc, or a file of
 * it), or from a measurement; docs/topology.md has the precedence. Neither asking nor exporting starts a runtime.
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
 *  *needed (may be NULL) gets the full size with the NUL. INVALID_ARGUMENT if it was cut; capacity 0 with a `needed` only
 *  asks for the size. The first call may look at the machine, which takes some milliseconds to tenths of a second; where
 *  that fails, the machine is the devices alone. Devices of the machine that no backend offers are in it too. */
WEIR_API weir_result weir_topology_export(weir_context context, uint32_t format, char *text, size_t capacity,
                                          size_t *needed);

WEIR_END_DECLS
#endif /* WEIR_TOPOLOGY_H */
