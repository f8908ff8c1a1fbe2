// SPDX-License-Identifier: Apache-2.0
//
// What every function of the C ABI does first and last: refuse in a forked child, and let no exception out.
// Also how handles become objects.
#pragma once

#include "core/base/descriptor.hpp"
#include "core/base/status.hpp"
#include "core/pool/pool.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <string_view>

namespace weir::api {

/// Set in the child by a handler that weir_context_create registers.
extern std::atomic<bool> forked;

/// A call has failed, on that pool (NULL: on none). Where no sentence was written for it, what an earlier call wrote is replaced by the
/// result's name. A refusal is noted with the pool.
[[gnu::cold, gnu::noinline]] weir_result failed(weir_pool pool, weir_result result) noexcept;

template <class Body>
weir_result guarded(weir_pool pool, Body &&body) noexcept {
  if (forked.load(std::memory_order_relaxed)) [[unlikely]] {
    return fail(WEIR_ERROR_FORKED,
                "this process is a child of fork(); create a context of its own after exec")
        .code();
  }
  try {
    const weir_result result = body().code();
    if (result < 0) [[unlikely]]
      return failed(pool, result);
    return result;
  } catch (const std::bad_alloc &) {
    return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "no host memory for Weir's own records").code();
  } catch (const std::exception &error) {
    return fail(WEIR_ERROR_INTERNAL, "unexpected: %s", error.what()).code();
  } catch (...) {
    return fail(WEIR_ERROR_INTERNAL, "unexpected exception").code();
  }
}

template <class Body>
weir_result guarded(Body &&body) noexcept {
  return guarded(nullptr, std::forward<Body>(body));
}

inline Status get(weir_context handle, pool::Context **context) {
  *context = reinterpret_cast<pool::Context *>(handle);
  if (*context != nullptr && (*context)->alive()) return {};
  return fail(WEIR_ERROR_INVALID_HANDLE, "%p is no context", static_cast<void *>(handle));
}
inline Status get(weir_pool handle, pool::Pool **pool) {
  *pool = reinterpret_cast<pool::Pool *>(handle);
  if (*pool != nullptr && (*pool)->alive()) return {};
  return fail(WEIR_ERROR_INVALID_HANDLE, "%p is no pool", static_cast<void *>(handle));
}
inline Status get(weir_stream handle, backend::Stream **stream) {
  *stream = reinterpret_cast<backend::Stream *>(handle);
  if (*stream != nullptr && (*stream)->alive()) return {};
  return fail(WEIR_ERROR_INVALID_HANDLE, "%p is no open stream", static_cast<void *>(handle));
}
inline Status get(weir_client handle, pool::ClientHandle **client) {
  *client = reinterpret_cast<pool::ClientHandle *>(handle);
  if (*client != nullptr && (*client)->magic == pool::ClientHandle::alive_magic) return {};
  return fail(WEIR_ERROR_INVALID_HANDLE, "%p is no client", static_cast<void *>(handle));
}
/// A stream of the pool's own context.
inline Status get(pool::Pool &pool, weir_stream handle, backend::Stream **stream) {
  WEIR_TRY(get(handle, stream));
  if ((*stream)->owner == &pool.context()) return {};
  return fail(WEIR_ERROR_INVALID_HANDLE, "stream %p is of another context than the pool",
              static_cast<void *>(handle));
}

inline Status need(const void *pointer, const char *name) {
  return pointer != nullptr ? Status{} : fail(WEIR_ERROR_INVALID_ARGUMENT, "%s is NULL", name);
}

/// Where a text is to be written, and its length; at least one of the two.
inline Status need_text(const char *text, size_t capacity, const size_t *needed) {
  if (text == nullptr && capacity != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "text is NULL and capacity %zu", capacity);
  if (capacity == 0 && needed == nullptr)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "capacity is 0 and needed is NULL");
  return {};
}

/// Writes a text to where need_text() has found room, cut if it must be.
inline Status write_text(std::string_view from, char *text, size_t capacity, size_t *needed) {
  if (needed != nullptr) *needed = from.size() + 1;
  if (capacity != 0) {
    const size_t length = std::min(capacity - 1, from.size());
    std::memcpy(text, from.data(), length);
    text[length] = '\0';
  }
  return Status(capacity == 0 || capacity > from.size() ? WEIR_SUCCESS : WEIR_INCOMPLETE);
}

}  // namespace weir::api
