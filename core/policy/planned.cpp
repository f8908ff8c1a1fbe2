// SPDX-License-Identifier: Apache-2.0
//
// The "auto" policy, and policies by name. It carries out plans: what a plan has given up (GivenUp) goes before all else that has an
// owner, and a prefetch of the plan's takes nothing but that. Where there is no plan, or it has given up too little, lru-window decides.

#include "core/base/pool_lock.hpp"
#include "core/policy/given_up.hpp"
#include "core/policy/lru_window.hpp"

#include <cstring>

namespace weir::policy {
namespace {

class Planned final : public Policy {
 public:
  Planned(View &view, std::pmr::memory_resource *memory)
      : view_(view), queue_(memory), rest_(make_lru_window(view, memory)) {}

  void admit(const PageRef &page, uint64_t tick) override { rest_->admit(page, tick); }
  void reserve(size_t pages) override { rest_->reserve(pages); }
  void forget_some() noexcept override { rest_->forget_some(); }
  void dispose(const PageRef &page, bool borrowed) override { rest_->dispose(page, borrowed); }
  bool any_disposable() const noexcept override { return rest_->any_disposable(); }
  bool give_back(const PageRef &page, uint64_t tick) noexcept override {
    return rest_->give_back(page, tick);
  }
  bool list_own(uint32_t client) override { return rest_->list_own(client); }
  GivenUp *given_up() noexcept override { return &queue_; }

  uint64_t choose(const Wanted &wanted, std::pmr::vector<PageRef> *victims) override {
    if (wanted.disposable_only || wanted.dead_before != UINT64_MAX)
      return rest_->choose(wanted, victims);
    const size_t first = victims->size();
    const uint64_t ownerless = take_ownerless(wanted, victims);
    if (ownerless >= wanted.bytes) return ownerless;
    const size_t owned = victims->size();
    const auto give_back = [&]() noexcept {  // they have just left that list: it has room for them
      for (size_t i = first; i < owned; ++i) {
        PageInfo info;
        const PageRef &page = (*victims)[i];
        if (!view_.describe(page, &info)) continue;
        if_memory([&] { rest_->dispose(page, info.borrowed); });
      }
      victims->resize(first);
    };
    Wanted left = wanted;
    left.bytes -= ownerless;
    uint64_t found = 0;
    try {
      found = take_owned(left, victims);
    } catch (...) {
      give_back();
      throw;
    }
    if (found >= left.bytes || !wanted.all_or_nothing) return ownerless + found;
    give_back();
    return 0;
  }

 private:
  /// What nobody owns any more costs nothing, and what was given up may be used after all: it waits until there is no other.
  uint64_t take_ownerless(const Wanted &wanted, std::pmr::vector<PageRef> *victims) {
    if (!rest_->any_disposable()) return 0;
    Wanted ownerless = wanted;
    ownerless.disposable_only = true;
    ownerless.all_or_nothing = false;
    return rest_->choose(ownerless, victims);
  }

  uint64_t take_owned(const Wanted &wanted, std::pmr::vector<PageRef> *victims) {
    const uint64_t found = queue_.choose(wanted, view_, victims);
    if (found >= wanted.bytes) return found;
    Wanted more = wanted;
    more.bytes -= found;
    return found + rest_->choose(more, victims);
  }

  View &view_;
  GivenUp queue_;
  Owned<Policy> rest_;
};

}  // namespace

Owned<Policy> make_policy(const char *name, View &view, std::pmr::memory_resource *memory) {
  if (std::strcmp(name, "lru-window") == 0) return make_lru_window(view, memory);
  if (std::strcmp(name, "auto") == 0)
    return adopt_as<Policy>(make_owned<Planned>(memory, view, memory));
  return {};
}

}  // namespace weir::policy
