// SPDX-License-Identifier: Apache-2.0
//
// The struct_size rules of the C ABI, in one place: how descriptors are read and output structs written.

#pragma once

#include "core/base/first_size.hpp"
#include "core/base/status.hpp"

#include <algorithm>
#include <cstring>

namespace weir {

/// No struct of any version is as large: a larger size was never set by a caller.
inline constexpr uint32_t most_size = 1U << 16U;

/// Whether a caller's struct_size can be one.
template <class T>
Status check_size_of(const T *given, const char *name) {
  static_assert(first_size<T> != 0, "core/base/first_size.hpp lacks it");
  if (given == nullptr) return fail(WEIR_ERROR_INVALID_ARGUMENT, "%s is NULL", name);
  const uint32_t size = given->struct_size;
  if (size >= first_size<T> && size <= most_size) return {};
  return fail(WEIR_ERROR_INVALID_ARGUMENT,
              "%s.struct_size is %u, not %u or more; initialise it with its *_INIT macro", name,
              size, first_size<T>);
}

/// Whether all of the flags are among those that this version knows.
inline Status check_flags(uint64_t flags, uint64_t known) {
  if ((flags & ~known) == 0) return {};
  return fail(WEIR_ERROR_INVALID_ARGUMENT, "flags %#llx has bits this version does not know",
              llu(flags));
}

/// Copies a caller's descriptor into *out, which holds the defaults. A smaller one leaves the rest at its
/// default; a larger one must have a zero tail. `name` is for the message.
template <class T>
Status read_descriptor(const T *in, const char *name, T *out) {
  WEIR_TRY(check_size_of(in, name));
  const uint32_t size = in->struct_size;
  if (size == sizeof(T)) [[likely]] {
    *out = *in;
    return {};
  }
  const auto *bytes = reinterpret_cast<const unsigned char *>(in);
  for (uint32_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0)
      return fail(WEIR_ERROR_INVALID_ARGUMENT,
                  "%s has struct_size %u and a non-zero byte at %u, which this version (size %zu) "
                  "does not know",
                  name, size, i, sizeof(T));
  }
  std::memcpy(static_cast<void *>(out), in, std::min<size_t>(size, sizeof(T)));
  out->struct_size = sizeof(T);
  return {};
}

/// Writes the caller's struct, all of its struct_size bytes, and leaves struct_size as it is: *value, and zeros for what this
/// version does not know.
template <class T>
Status write_output(const T &value, const char *name, T *out) {
  WEIR_TRY(check_size_of(out, name));
  const uint32_t size = out->struct_size;
  auto *bytes = reinterpret_cast<unsigned char *>(out);
  std::memcpy(bytes, &value, std::min<size_t>(size, sizeof(T)));
  std::fill(bytes + std::min<size_t>(size, sizeof(T)), bytes + size, static_cast<unsigned char>(0));
  out->struct_size = size;
  return {};
}

}  // namespace weir
