// SPDX-License-Identifier: Apache-2.0
//
// What an acquire tells that is refused: the facts, which fail_later() keeps, and the sentence that is made of them if it is read. A
// program may be refused thousands of times a second and look at the code alone.
#pragma once

#include "core/base/name.hpp"
#include "core/base/status.hpp"
#include "core/lease/lease_table.hpp"

#include <cstddef>
#include <cstdint>

namespace weir::acquire::refused {

/// A set that is larger than its device lets it be.
struct OverBudget {
  uint64_t asked, budget, held, available;
  weir_device device;
  int print(char *text, size_t capacity) const noexcept;
};

/// ... than one of its clients may have there.
struct OverQuota {
  QuotedName client;
  uint64_t asked, quota;
  weir_device device;
  int print(char *text, size_t capacity) const noexcept;
};

/// The room is leased.
struct Short {
  uint64_t bytes;
  weir_device device;
  int print(char *text, size_t capacity) const noexcept;
};

/// A hold is in the way.
struct Held {
  QuotedName buffer;
  uint32_t use;
  bool writes;
  int print(char *text, size_t capacity) const noexcept;
};

/// Another lease is.
struct Leased {
  QuotedName buffer;
  lease::LeaseTable::Conflict other;
  uint64_t begin, end;  ///< of the bytes that were asked for
  uint32_t use;
  bool writes;
  int print(char *text, size_t capacity) const noexcept;
};

}  // namespace weir::acquire::refused
