// SPDX-License-Identifier: Apache-2.0
//
// Results in words, and the thread's last error.

#include "api/src/contexts.hpp"
#include "api/src/guard.hpp"
#include "core/pool/report.hpp"

namespace weir::api {
namespace {

/// What the report is made for; the pool is looked at for no other.
bool is_refusal(weir_result result) noexcept {
  return result == WEIR_ERROR_OVER_BUDGET || result == WEIR_ERROR_DEVICE_OOM ||
         result == WEIR_ERROR_WOULD_BLOCK || result == WEIR_ERROR_TIMEOUT ||
         result == WEIR_ERROR_LEASE_CONFLICT || result == WEIR_ERROR_DATA_LOST;
}

/// The sentence alone where there is no pool to look at: in a forked child its locks may be held for ever.
std::string report_on(const LastError &error) {
  StackedText text;
  if (error.pool != 0 && !forked.load(std::memory_order_relaxed))
    (void)look_at_pool(error.pool, [&](pool::Pool &pool) {
      text = pool::report(pool.engine().inspector(), pool.name(), error);
    });
  if (!text.empty() || error.text[0] == '\0') return text.whole();
  return std::string(error.text) + '\n';
}

}  // namespace

weir_result failed(weir_pool pool, weir_result result) noexcept {
  if (unread_error().result != result) (void)fail(result, "%s", weir_result_string(result));
  auto *const object = reinterpret_cast<pool::Pool *>(pool);
  if (object != nullptr && is_refusal(result) && object->alive()) object->note_refusal(result);
  return result;
}

}  // namespace weir::api

#define WEIR_TEXT_(x) #x
#define WEIR_TEXT(x) WEIR_TEXT_(x)

extern "C" {

const char *weir_result_string(weir_result result) {
  switch (result) {
    case WEIR_SUCCESS:
      return "success";
    case WEIR_NOT_READY:
      return "not ready";
    case WEIR_INCOMPLETE:
      return "incomplete";
    case WEIR_ERROR_INVALID_ARGUMENT:
      return "invalid argument";
    case WEIR_ERROR_INVALID_HANDLE:
      return "invalid handle";
    case WEIR_ERROR_NOT_SUPPORTED:
      return "not supported";
    case WEIR_ERROR_OUT_OF_HOST_MEMORY:
      return "out of host memory";
    case WEIR_ERROR_OVER_BUDGET:
      return "over budget";
    case WEIR_ERROR_WOULD_BLOCK:
      return "would block";
    case WEIR_ERROR_TIMEOUT:
      return "timeout";
    case WEIR_ERROR_LEASE_CONFLICT:
      return "lease conflict";
    case WEIR_ERROR_BUSY:
      return "busy";
    case WEIR_ERROR_DEVICE_OOM:
      return "device out of memory";
    case WEIR_ERROR_DEVICE_LOST:
      return "device lost";
    case WEIR_ERROR_DATA_LOST:
      return "data lost";
    case WEIR_ERROR_CORRUPT:
      return "corrupt";
    case WEIR_ERROR_BACKEND:
      return "backend failure";
    case WEIR_ERROR_STREAM_CAPTURING:
      return "stream is capturing";
    case WEIR_ERROR_FORKED:
      return "forked child";
    case WEIR_ERROR_IO:
      return "input/output error";
    case WEIR_ERROR_CANCELLED:
      return "cancelled";
    case WEIR_ERROR_DEVICE_REMOVED:
      return "device removed from the pool";
    case WEIR_ERROR_INTERNAL:
      return "internal error";
    default:
      return "unknown result";
  }
}

const char *weir_version_string(void) {
  return WEIR_TEXT(WEIR_VERSION_MAJOR) "." WEIR_TEXT(WEIR_VERSION_MINOR) "." WEIR_TEXT(
      WEIR_VERSION_PATCH);
}

uint32_t weir_version_number(void) { return WEIR_VERSION_NUMBER; }

const char *weir_last_error(void) { return weir::last_error().text; }

weir_result weir_last_error_report(char *text, size_t capacity, size_t *needed) {
  const weir::LastError error = weir::last_error();
  const weir::KeepError keep;  // asking changes nothing, whatever the answer is
  try {
    if (const weir::Status can = weir::api::need_text(text, capacity, needed); !can)
      return can.code();
    return weir::api::write_text(weir::api::report_on(error), text, capacity, needed).code();
  } catch (const std::bad_alloc &) {
    return WEIR_ERROR_OUT_OF_HOST_MEMORY;
  } catch (...) {
    return WEIR_ERROR_INTERNAL;
  }
}

weir_result weir_last_error_info(weir_error_info *info) {
  const weir::LastError &error = weir::last_error();
  weir_error_info value = WEIR_ERROR_INFO_INIT;
  value.result = error.result;
  value.tier = error.detail.tier;
  value.device = error.detail.device;
  value.asked = error.detail.asked;
  value.available = error.detail.available;
  value.short_by =
      error.detail.asked > error.detail.available ? error.detail.asked - error.detail.available : 0;
  value.use_index = error.detail.use_index;
  value.native_code = error.detail.native;
  return weir::write_output(value, "info", info).code();
}

}  // extern "C"
