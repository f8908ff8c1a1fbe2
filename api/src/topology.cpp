// SPDX-License-Identifier: Apache-2.0
//
// weir/topology.h: words for links, and the export.

#include "api/src/guard.hpp"
#include "core/topology/describe.hpp"

#include <algorithm>
#include <cstring>
#include <string>

using weir::fail;
using weir::Status;
using weir::api::get;
using weir::api::guarded;

namespace {

Status export_to(weir_context handle, uint32_t format, char *text, size_t capacity,
                 size_t *needed) {
  weir::pool::Context *context = nullptr;
  WEIR_TRY(get(handle, &context));
  if (format > WEIR_TOPOLOGY_SVG)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "format is %u, no WEIR_TOPOLOGY_*", format);
  if (text == nullptr && capacity != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "text is NULL and capacity %zu", capacity);
  std::string document;
  context->places().with_machine([&](const weir::topology::Machine &machine) {
    document = format == WEIR_TOPOLOGY_JSON   ? weir::topology::describe_json(machine)
               : format == WEIR_TOPOLOGY_TEXT ? weir::topology::describe_text(machine)
                                              : weir::topology::describe_svg(machine);
  });
  if (needed != nullptr) *needed = document.size() + 1;
  if (capacity != 0) {
    const size_t length = std::min(capacity - 1, document.size());
    std::memcpy(text, document.data(), length);
    text[length] = '\0';
  }
  if (capacity > document.size() || (capacity == 0 && needed != nullptr)) return {};
  return fail(WEIR_ERROR_INVALID_ARGUMENT, "capacity is %zu, the topology takes %zu", capacity,
              document.size() + 1);
}

}  // namespace

extern "C" {

const char *weir_link_kind_string(uint32_t kind) { return weir::topology::link_kind_name(kind); }

const char *weir_link_figure_string(uint32_t source) {
  return weir::topology::link_figure_name(source);
}

weir_result weir_topology_export(weir_context context, uint32_t format, char *text, size_t capacity,
                                 size_t *needed) {
  return guarded([&] { return export_to(context, format, text, capacity, needed); });
}

}  // extern "C"
