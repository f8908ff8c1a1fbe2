// SPDX-License-Identifier: Apache-2.0
//
// weir/observe.h: traces and metrics.

#include "api/src/guard.hpp"

#include <weir/observe.h>

using weir::fail;
using weir::Status;
using weir::api::get;
using weir::api::guarded;
using weir::api::need;
using weir::pool::Context;

namespace {

Status check_kind(uint32_t kind) {
  if (kind == WEIR_TRACE_TIMELINE || kind == WEIR_TRACE_RECORDING) return {};
  return fail(WEIR_ERROR_INVALID_ARGUMENT, "kind is %u, no kind of trace", kind);
}

Status start_trace(weir_context handle, const weir_trace_desc *given) {
  Context *context = nullptr;
  WEIR_TRY(get(handle, &context));
  weir_trace_desc desc = WEIR_TRACE_DESC_INIT;
  WEIR_TRY(weir::read_descriptor(given, "desc", &desc));
  WEIR_TRY(check_kind(desc.kind));
  WEIR_TRY(need(desc.path, "path"));
  if (desc.path[0] == '\0') return fail(WEIR_ERROR_INVALID_ARGUMENT, "path is empty");
  return context->tracer().start(
      {.kind = desc.kind, .path = desc.path, .most_bytes = desc.max_bytes});
}

}  // namespace

extern "C" {

weir_result weir_trace_start(weir_context context, const weir_trace_desc *desc) {
  return guarded([&] { return start_trace(context, desc); });
}

weir_result weir_trace_stop(weir_context context, uint32_t kind) {
  return guarded([&]() -> Status {
    Context *object = nullptr;
    WEIR_TRY(get(context, &object));
    WEIR_TRY(check_kind(kind));
    return object->tracer().stop(kind);
  });
}

weir_result weir_metrics_text(weir_context context, char *text, size_t capacity, size_t *needed) {
  return guarded([&]() -> Status {
    Context *object = nullptr;
    WEIR_TRY(get(context, &object));
    WEIR_TRY(weir::api::need_text(text, capacity, needed));
    return weir::api::write_text(object->meter().text(), text, capacity, needed);
  });
}

}  // extern "C"
