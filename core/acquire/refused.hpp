// SPDX-License-Identifier: Apache-2.0
//
// What an acquire tells that is refused: the facts, which fail_later() keeps, and the sentence that is made of them if it is read. A
// program may be refused thousands of times a second and look at the code alone.
#pragma once

#include "core/base/amount.hpp"
#include "core/base/name.hpp"
#include "core/base/status.hpp"
#include "core/lease/lease_table.hpp"

#include <cstdio>

namespace weir::acquire::refused {

/// A set that is larger than its device lets it be.
struct OverBudget {
  uint64_t asked, budget, held, available;
  weir_device device;
  int print(char *text, size_t capacity) const noexcept {
    return std::snprintf(
        text, capacity,
        "the set needs %s of device %u in whole pages; its budget is %s, of which %s are held: "
        "short of %s",
        Amount(asked).c_str(), device, Amount(budget).c_str(), Amount(held).c_str(),
        Amount(asked - available).c_str());
  }
};

/// ... than one of its clients may have there.
struct OverQuota {
  QuotedName client;
  uint64_t asked, quota;
  weir_device device;
  int print(char *text, size_t capacity) const noexcept {
    return std::snprintf(
        text, capacity,
        "client%s: the set needs %s of device %u in whole pages, its quota is %s: short of %s",
        client.c_str(), Amount(asked).c_str(), device, Amount(quota).c_str(),
        Amount(asked - quota).c_str());
  }
};

/// The room is leased.
struct Short {
  uint64_t bytes;
  weir_device device;
  int print(char *text, size_t capacity) const noexcept {
    return std::snprintf(text, capacity,
                         "%s of device %u are short until other leases are released",
                         Amount(bytes).c_str(), device);
  }
};

/// A hold is in the way.
struct Held {
  QuotedName buffer;
  uint32_t use;
  bool writes;
  int print(char *text, size_t capacity) const noexcept {
    return std::snprintf(text, capacity, "uses[%u]%s: a hold on the buffer forbids %s", use,
                         buffer.c_str(), writes ? "writing here" : "reading");
  }
};

/// Another lease is.
struct Leased {
  QuotedName buffer;
  lease::LeaseTable::Conflict other;
  uint64_t begin, end;  ///< of the bytes that were asked for
  uint32_t use;
  bool writes;
  int print(char *text, size_t capacity) const noexcept {
    return std::snprintf(
        text, capacity,
        "uses[%u]%s: an unreleased lease to %s bytes %llu..%llu forbids %s %llu..%llu", use,
        buffer.c_str(), other.writes ? "write" : "read", llu(other.begin), llu(other.end),
        writes ? "writing" : "reading", llu(begin), llu(end));
  }
};

}  // namespace weir::acquire::refused
