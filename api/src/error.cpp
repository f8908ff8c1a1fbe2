// SPDX-License-Identifier: Apache-2.0
//
// Results in words, and the thread's last error.

#include "api/src/guard.hpp"

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
