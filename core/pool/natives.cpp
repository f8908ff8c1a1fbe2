// SPDX-License-Identifier: Apache-2.0
//
// Reading weir_context_desc.natives.

#include "core/pool/natives.hpp"

#include "core/base/descriptor.hpp"

#include <cstring>

namespace weir::pool {
namespace {

/// What each backend's struct begins with.
struct Head {
  uint32_t struct_size, kind;
};

Head head_of(const weir_native &entry) noexcept {
  Head head{};
  std::memcpy(&head, entry.handles, sizeof head);
  return head;
}

}  // namespace

Status Natives::read(const weir_context_desc &desc) {
  constexpr uint32_t most = 64;
  if (desc.reserved != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "desc.reserved is %u, not 0", desc.reserved);
  if (desc.native_count > most)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "native_count is %u, more than %u", desc.native_count,
                most);
  if (desc.native_count != 0 && desc.natives == nullptr)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "native_count is %u and natives is NULL",
                desc.native_count);
  entries_ = {desc.natives, desc.native_count};
  for (uint32_t i = 0; i < entries_.size(); ++i) WEIR_TRY(check(i));
  return {};
}

Status Natives::check(uint32_t i) const {
  const weir_native &entry = entries_[i];
  if (entry.backend == nullptr || entry.backend[0] == '\0')
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "natives[%u].backend is %s", i,
                entry.backend == nullptr ? "NULL" : "\"\"");
  if (entry.handles == nullptr)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "natives[%u].handles is NULL", i);
  const uint32_t size = head_of(entry).struct_size;
  if (size < sizeof(Head) || size > most_size)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "natives[%u].handles begins with a struct_size of %u; initialise it with its "
                "*_INIT macro",
                i, size);
  for (uint32_t other = 0; other < i; ++other)
    if (std::strcmp(entries_[other].backend, entry.backend) == 0)
      return fail(WEIR_ERROR_INVALID_ARGUMENT,
                  "natives[%u] and natives[%u] are both for backend \"%s\"", other, i,
                  entry.backend);
  return {};
}

std::span<const std::byte> Natives::of(const char *backend) const noexcept {
  for (const weir_native &entry : entries_)
    if (std::strcmp(entry.backend, backend) == 0)
      return {static_cast<const std::byte *>(entry.handles), head_of(entry).struct_size};
  return {};
}

Status Natives::not_loaded(uint32_t i) const {
  return fail(WEIR_ERROR_INVALID_ARGUMENT,
              "natives[%u] is for backend \"%.63s\", which is not among those of this context", i,
              entries_[i].backend);
}

}  // namespace weir::pool
