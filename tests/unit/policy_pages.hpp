// SPDX-License-Identifier: Apache-2.0
//
// Pages of one region as a policy under test sees them, and how often it has looked.
#pragma once

#include "core/policy/policy.hpp"

#include <map>
#include <set>

namespace weir::test {

constexpr uint64_t page_bytes = 4096;

/// Pages and when each was used last.
struct Pages final : policy::View {
  std::map<uint32_t, uint64_t> used;
  std::map<uint32_t, uint64_t> foreseen;  ///< operations until then
  std::map<uint32_t, uint32_t> clients;   ///< of those that are not client 0's
  std::set<uint32_t> ownerless, borrowed, leased;
  uint32_t done = UINT32_MAX;  ///< the page that is not read again
  uint64_t clock = 0;
  mutable uint64_t looks = 0;
  std::map<uint32_t, uint64_t> crowded;  ///< of pages with many buffers: the use that was seen last
  uint64_t whole_looks = 0;              ///< at all of them

  bool knows(const policy::PageRef &page) noexcept override { return used.count(page.page) != 0; }
  bool describe(const policy::PageRef &page, policy::PageInfo *info) override {
    if (const auto seen = crowded.find(page.page); seen != crowded.end()) {
      ++whole_looks;
      seen->second = used.count(page.page) != 0 ? used[page.page] : 0;
    }
    return look(page, info);
  }
  bool glance(const policy::PageRef &page, policy::PageInfo *info) override {
    if (!look(page, info)) return false;
    const auto seen = crowded.find(page.page);
    if (seen == crowded.end()) return true;
    info->rough = true;
    info->evictable = true;
    info->last_use = seen->second;
    return true;
  }
  bool look(const policy::PageRef &page, policy::PageInfo *info) {
    ++looks;
    const auto found = used.find(page.page);
    if (found == used.end()) return false;
    *info = policy::PageInfo{};
    info->bytes = page_bytes;
    info->last_use = found->second;
    info->evictable = leased.count(page.page) == 0;
    if (const auto next = foreseen.find(page.page); next != foreseen.end())
      info->foreseen = next->second;
    info->done = page.page == done;
    info->borrowed = borrowed.count(page.page) != 0 && ownerless.count(page.page) == 0;
    info->disposable = info->borrowed || ownerless.count(page.page) != 0;
    info->dead_since = info->borrowed ? policy::PageInfo::lives : 0;
    info->client = client_of(page);
    return true;
  }
  uint32_t client_of(const policy::PageRef &page) const noexcept override {
    ++looks;
    const auto found = clients.find(page.page);
    return found != clients.end() ? found->second : 0;
  }
  uint64_t piece = 4096;  ///< pages that one piece of a list looks at
  bool list(uint32_t client, policy::PageCursor *from, const Visit &visit) override {
    uint64_t looked = 0;
    for (auto next = used.lower_bound(from->page); next != used.end(); ++next) {
      if (looked++ == piece) return false;
      const policy::PageRef page{1, next->first, 1};
      if (client_of(page) == client && borrowed.count(page.page) == 0) visit(page, next->second);
      from->page = next->first + 1;
    }
    return true;
  }
  uint64_t now() const override { return clock; }
};

}  // namespace weir::test
