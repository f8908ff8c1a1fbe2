// SPDX-License-Identifier: Apache-2.0
//
// weir/topology.h: words for links, the export, and measuring.

#include "api/src/guard.hpp"
#include "core/topology/describe.hpp"
#include "core/topology/link_bench.hpp"

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
  WEIR_TRY(weir::api::need_text(text, capacity, needed));
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
  return Status(capacity == 0 || capacity > document.size() ? WEIR_SUCCESS : WEIR_INCOMPLETE);
}

constexpr uint64_t usual_ns = 5'000'000'000;
constexpr uint64_t usual_bytes = uint64_t{64} << 20U;
constexpr uint64_t least_bytes = 2 * weir::topology::LinkBench::least_bytes;

Status calibrate(weir_context handle, const weir_calibrate_desc *given,
                 weir_calibrate_report *report) {
  weir::pool::Context *context = nullptr;
  WEIR_TRY(get(handle, &context));
  weir_calibrate_desc desc = WEIR_CALIBRATE_DESC_INIT;
  if (given != nullptr) WEIR_TRY(weir::read_descriptor(given, "desc", &desc));
  if ((desc.flags & ~uint64_t{WEIR_CALIBRATE_NO_CACHE}) != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "flags %#llx has bits this version does not know",
                static_cast<unsigned long long>(desc.flags));
  if (desc.reserved != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "reserved is %u, not 0", desc.reserved);
  if (desc.max_bytes != 0 && desc.max_bytes < least_bytes)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "max_bytes is %llu; at least %llu are needed",
                static_cast<unsigned long long>(desc.max_bytes),
                static_cast<unsigned long long>(least_bytes));
  weir_calibrate_report value = WEIR_CALIBRATE_REPORT_INIT;
  // A report that cannot be written is refused before anything is measured.
  if (report != nullptr) WEIR_TRY(weir::check_size_of(report, "report"));
  const weir::topology::CalibrateBounds bounds{desc.max_ns != 0 ? desc.max_ns : usual_ns,
                                               desc.max_bytes != 0 ? desc.max_bytes : usual_bytes};
  const weir::Clock usual_clock;
  const weir::Clock &clock = context->clock != nullptr ? *context->clock : usual_clock;
  weir::topology::CalibrateCounts counts;
  const bool save = (desc.flags & WEIR_CALIBRATE_NO_CACHE) == 0;
  const Status done = context->places().calibrate(bounds, save, clock, &counts, &value.saved);
  if (!done && done.code() != WEIR_ERROR_IO) return done;
  value.measured = counts.measured;
  value.failed = counts.failed;
  value.skipped = counts.skipped;
  value.elapsed_ns = counts.time_ns;
  value.folder = context->places().cache_folder();
  if (report != nullptr) WEIR_TRY(weir::write_output(value, "report", report));
  return done;
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

weir_result weir_topology_calibrate(weir_context context, const weir_calibrate_desc *desc,
                                    weir_calibrate_report *report) {
  return guarded([&] { return calibrate(context, desc, report); });
}

}  // extern "C"
