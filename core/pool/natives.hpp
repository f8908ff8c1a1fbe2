// SPDX-License-Identifier: Apache-2.0
//
// Natives: what a program has of runtimes already (weir_context_desc.natives), while its context is made: which backend each entry is
// for, and that none is left over. What must hold: an entry is used by its backend or the context is refused; it is never left aside.
#pragma once

#include "core/base/status.hpp"

#include <weir/context.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace weir::pool {

class Natives {
 public:
  /// Looks at the entries themselves. They are the caller's while this lives.
  Status read(const weir_context_desc &desc);
  /// The bytes of the struct for that backend; none: there is no entry for it.
  std::span<const std::byte> of(const char *backend) const noexcept;
  /// Whether there is one for each entry: `is_loaded(name)` tells of backends.
  template <class IsLoaded>
  Status check_all(IsLoaded &&is_loaded) const {
    for (uint32_t i = 0; i < entries_.size(); ++i)
      if (!is_loaded(entries_[i].backend)) return not_loaded(i);
    return {};
  }

 private:
  Status check(uint32_t i) const;
  Status not_loaded(uint32_t i) const;

  std::span<const weir_native> entries_;
};

}  // namespace weir::pool
