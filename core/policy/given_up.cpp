// SPDX-License-Identifier: Apache-2.0
//
// Pages that a plan has done with.

#include "core/policy/given_up.hpp"

#include "core/base/pool_lock.hpp"

#include <algorithm>

namespace weir::policy {

void GivenUp::give_up(const PageRef &page, uint64_t tick, uint64_t bytes, bool dirty) {
  if (size() >= sweep_at_) sweep();
  auto found = regions_.find(page.region);
  if (found != regions_.end() && found->second.generation != page.generation) {
    regions_.erase(found);  // another region has the slot
    found = regions_.end();
  }
  const bool fresh = found == regions_.end();
  if (fresh) {
    std::pmr::vector<uint32_t> none(regions_.get_allocator().resource());
    found = regions_.emplace(page.region, Listed{page.generation, 0, 0, std::move(none)}).first;
  }
  Listed &listed = found->second;
  try {
    if (listed.turns.size() <= page.page) listed.turns.resize(page.page + 1);
    (dirty ? dirty_ : clean_).push_back(Entry{page, turns_ + 1, tick, bytes});
  } catch (...) {
    if (fresh) regions_.erase(found);
    throw;
  }
  if (++turns_ == UINT32_MAX) turns_ = 0;  // what was listed so long ago came up long since
  if (listed.turns[page.page] == 0) listed.bytes += bytes;
  listed.tick = tick;
  listed.turns[page.page] = (dirty ? dirty_ : clean_).back().turn;
}

void GivenUp::clear() noexcept {
  clean_.clear();
  dirty_.clear();
  regions_.clear();
}

bool GivenUp::holds(const PageRef &page) const noexcept {
  const auto found = regions_.find(page.region);
  if (found == regions_.end() || found->second.generation != page.generation) return false;
  const auto &turns = found->second.turns;
  return turns.size() > page.page && turns[page.page] != 0;
}

bool GivenUp::stands(const Entry &entry) const noexcept {
  return holds(entry.page) &&
         regions_.find(entry.page.region)->second.turns[entry.page.page] == entry.turn;
}

void GivenUp::unlist(const Entry &entry) noexcept {
  if (!stands(entry)) return;
  const auto found = regions_.find(entry.page.region);
  Listed &listed = found->second;
  listed.turns[entry.page.page] = 0;
  listed.bytes -= std::min(listed.bytes, entry.bytes);
  if (listed.bytes == 0) regions_.erase(found);
}

bool GivenUp::look(const Entry &entry, View &view, PageInfo *info) noexcept {
  if (!stands(entry)) return false;
  const bool there = view.describe(entry.page, info);
  // What a call has prefetched since is as good as used.
  if (there && info->last_use <= entry.tick && info->prefetch == UINT64_MAX) return true;
  unlist(entry);
  return false;
}

uint64_t GivenUp::take(Queue &from, const Wanted &wanted, View &view,
                       std::pmr::vector<Entry> *taken) {
  uint64_t found = 0;
  size_t kept = 0, at = 0;
  constexpr size_t most_passed = 64;  // of those that can't go now
  for (; at < from.size() && found < wanted.bytes && kept < most_passed; ++at) {
    PageInfo info;
    if (!look(from[at], view, &info)) continue;
    const bool may = info.evictable &&
                     (wanted.client == UINT32_MAX || wanted.client == info.client) &&
                     !(info.dirty && wanted.clean_only) && !(!info.dirty && wanted.dirty_only) &&
                     !(info.next_use != UINT64_MAX && info.next_use < wanted.not_before);
    if (may && taken->size() < taken->capacity()) {
      taken->push_back(from[at]);
      found += info.bytes;
    } else {
      std::swap(from[kept++], from[at]);
    }
  }
  // Those passed over are the first again, in their order.
  from.erase(from.begin() + static_cast<ptrdiff_t>(kept),
             from.begin() + static_cast<ptrdiff_t>(at));
  return found;
}

uint64_t GivenUp::choose(const Wanted &wanted, View &view, std::pmr::vector<PageRef> *victims) {
  if (size() == 0) return 0;
  constexpr size_t most = 4096;
  std::pmr::vector<Entry> taken(regions_.get_allocator().resource());
  taken.reserve(std::min({size(), most, static_cast<size_t>(wanted.bytes / 4096 + 1)}));
  victims->reserve(victims->size() + taken.capacity());
  uint64_t found = take(clean_, wanted, view, &taken);
  const size_t clean = taken.size();
  if (found < wanted.bytes && !wanted.given_up_only) {
    Wanted more = wanted;
    more.bytes -= found;
    found += take(dirty_, more, view, &taken);
  }
  if (wanted.all_or_nothing && found < wanted.bytes) {
    // They have just been taken from there: a deque may need memory for them all the same, and without it they are listed no more.
    for (size_t i = taken.size(); i-- > 0;) {
      if (!if_memory([&] { (i < clean ? clean_ : dirty_).push_front(taken[i]); })) unlist(taken[i]);
    }
    return 0;
  }
  for (const Entry &entry : taken) {
    unlist(entry);
    victims->push_back(entry.page);
  }
  return found;
}

bool GivenUp::next_to_clean(uint64_t bytes, View &view, std::pmr::vector<PageRef> *pages) {
  uint64_t found = 0;
  size_t looked = 0;
  constexpr size_t most_looked = 64;
  for (size_t at = 0; at < dirty_.size() && found < bytes && looked < most_looked;) {
    PageInfo info;
    const Entry entry = dirty_[at];
    if (!look(entry, view, &info)) {
      dirty_.erase(dirty_.begin() + static_cast<ptrdiff_t>(at));
      continue;
    }
    ++looked;
    ++at;
    if (!info.dirty || !info.evictable) continue;
    pages->push_back(entry.page);
    found += info.bytes;
  }
  return found != 0;
}

void GivenUp::settle(const std::pmr::vector<PageRef> &pages, View &view) noexcept {
  for (const PageRef &page : pages) {
    const auto same = [&page](const Entry &entry) {
      return entry.page.region == page.region && entry.page.page == page.page &&
             entry.page.generation == page.generation;
    };
    const auto at = std::ranges::find_if(dirty_, same);
    if (at == dirty_.end()) continue;
    const Entry entry = *at;
    PageInfo info;
    const bool listed = look(entry, view, &info);
    // What could not be cleaned lets the others go first.
    Queue &next = listed && info.dirty ? dirty_ : clean_;
    dirty_.erase(at);
    if (listed && !if_memory([&] { next.push_back(entry); })) unlist(entry);
  }
}

void GivenUp::sweep() noexcept {
  for (Queue *queue : {&clean_, &dirty_})
    std::erase_if(*queue, [this](const Entry &entry) { return !stands(entry); });
  sweep_at_ = std::max<size_t>(256, 2 * size());
}

}  // namespace weir::policy
