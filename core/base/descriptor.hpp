// SPDX-License-Identifier: Apache-2.0
//
// The struct_size rules of the C ABI, in one place: how descriptors are read and output structs written.

#pragma once

#include "core/base/status.hpp"

#include <algorithm>
#include <cstring>

namespace weir {

/// Copies a caller's descriptor into *out, which holds the defaults. A smaller one leaves the rest at its
/// default; a larger one must have a zero tail. `name` is for the message.
template <class T>
Status read_descriptor(const T *in, const char *name, T *out) {
  if (in == nullptr) return fail(WEIR_ERROR_INVALID_ARGUMENT, "%s is NULL", name);
  const uint32_t size = in->struct_size;
  if (size < sizeof(uint32_t) * 2) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "%s.struct_size is %u; initialise it with its *_INIT macro", name, size);
  }
  const auto *bytes = reinterpret_cast<const unsigned char *>(in);
  for (uint32_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0) {
      return fail(WEIR_ERROR_INVALID_ARGUMENT,
                  "%s has struct_size %u and a non-zero byte at %u, which this version (size %zu) "
                  "does not know",
                  name, size, i, sizeof(T));
    }
  }
  std::memcpy(static_cast<void *>(out), in, std::min<size_t>(size, sizeof(T)));
  out->struct_size = sizeof(T);
  return {};
}

/// Writes *value to the caller's struct, at most its struct_size bytes; struct_size itself is kept.
template <class T>
Status write_output(const T &value, const char *name, T *out) {
  if (out == nullptr) return fail(WEIR_ERROR_INVALID_ARGUMENT, "%s is NULL", name);
  const uint32_t size = out->struct_size;
  if (size < sizeof(uint32_t) * 2) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "%s.struct_size is %u; initialise it with its *_INIT macro", name, size);
  }
  std::memcpy(static_cast<void *>(out), &value, std::min<size_t>(size, sizeof(T)));
  out->struct_size = size;
  return {};
}

}  // namespace weir
