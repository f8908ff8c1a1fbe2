// SPDX-License-Identifier: Apache-2.0
//
// weir/topology.h: words for links, and the export.

#include "api/src/guard.hpp"

#include "core/topology/machine.hpp"

using weir::Status;
using weir::api::get;
using weir::api::guarded;

extern "C" {

const char *weir_link_kind_string(uint32_t kind) { return weir::topology::link_kind_name(kind); }

const char *weir_link_figure_string(uint32_t source) {
  return weir::topology::link_figure_name(source);
}

}  // extern "C"
