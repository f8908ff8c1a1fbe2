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

WEIR_END_DECLS
#endif /* WEIR_TOPOLOGY_H */
