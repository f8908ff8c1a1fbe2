// SPDX-License-Identifier: Apache-2.0
//
// What every entry of a backend's table is wrapped in: exceptions become results, and failures are told to
// the log, where no lock is held. A state has `log` and `log_user` as its start() was given them.
#pragma once

#include "backends/common/fault.hpp"

#include <cstdio>
#include <cstring>
#include <new>
#include <system_error>

namespace weir::common {

/// Runs `body`. `backend` and `entry` name the call in the log.
template <class State, class Body>
weir_result enter(State *state, const char *backend, const char *entry, Body body) noexcept {
  weir_result result = WEIR_SUCCESS;
  try {
    result = body();
  } catch (const std::bad_alloc &) {
    result = refuse(WEIR_ERROR_OUT_OF_HOST_MEMORY, "no host memory for the backend's own records");
  } catch (const std::system_error &error) {
    result = system_failure(error.code().value());
  } catch (...) {
    result = refuse(WEIR_ERROR_INTERNAL, "an unexpected exception");
  }
  if (result < 0 && state->log != nullptr) {
    const char *sentence = sentence_of(last_native());
    char line[256];
    std::snprintf(line, sizeof line, "%s: %s: %s", backend, entry,
                  sentence != nullptr ? sentence : "failed");
    state->log(state->log_user, WEIR_LOG_DEBUG, line);
  }
  return result;
}

/// Writes as much of an output structure as the caller has room for; struct_size keeps the caller's value.
template <class Struct>
void give(const Struct &full, Struct *out) noexcept {
  const uint32_t size = out->struct_size;
  std::memcpy(out, &full, size < sizeof full ? size : sizeof full);
  out->struct_size = size;
}

}  // namespace weir::common
