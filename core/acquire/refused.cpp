// SPDX-License-Identifier: Apache-2.0
//
// The sentences of refusals.

#include "core/acquire/refused.hpp"

#include "core/base/amount.hpp"

#include <cstdio>

namespace weir::acquire::refused {

int OverBudget::print(char *text, size_t capacity) const noexcept {
  return std::snprintf(
      text, capacity,
      "the set needs %s of device %u in whole pages; its budget is %s, of which %s are held: "
      "short of %s",
      Amount(asked).c_str(), device, Amount(budget).c_str(), Amount(held).c_str(),
      Amount(asked - available).c_str());
}

int OverQuota::print(char *text, size_t capacity) const noexcept {
  return std::snprintf(
      text, capacity,
      "client%s: the set needs %s of device %u in whole pages, its quota is %s: short of %s",
      client.c_str(), Amount(asked).c_str(), device, Amount(quota).c_str(),
      Amount(asked - quota).c_str());
}

int Short::print(char *text, size_t capacity) const noexcept {
  return std::snprintf(text, capacity, "%s of device %u are short until other leases are released",
                       Amount(bytes).c_str(), device);
}

int Held::print(char *text, size_t capacity) const noexcept {
  return std::snprintf(text, capacity, "uses[%u]%s: a hold on the buffer forbids %s", use,
                       buffer.c_str(), writes ? "writing here" : "reading");
}

int Leased::print(char *text, size_t capacity) const noexcept {
  return std::snprintf(
      text, capacity,
      "uses[%u]%s: an unreleased lease to %s bytes %llu..%llu forbids %s %llu..%llu", use,
      buffer.c_str(), other.writes ? "write" : "read", llu(other.begin), llu(other.end),
      writes ? "writing" : "reading", llu(begin), llu(end));
}

}  // namespace weir::acquire::refused
