// SPDX-License-Identifier: Apache-2.0
//
// The "auto" policy, and policies by name. It carries out plans: what a plan has given up goes before all else (GivenUp), and a
// prefetch of the plan's takes nothing but that. Where there is no plan, or it has given up too little, lru-window decides.

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
  void dispose(const PageRef &page) override { rest_->dispose(page); }
  bool any_disposable() const noexcept override { return rest_->any_disposable(); }
  bool give_back(const PageRef &page, uint64_t tick) noexcept override {
    return rest_->give_back(page, tick);
  }
  GivenUp *given_up() noexcept override { return &queue_; }

  uint64_t choose(const Wanted &wanted, std::pmr::vector<PageRef> *victims) override {
    if (wanted.disposable_only || wanted.dead_before != UINT64_MAX)
      return rest_->choose(wanted, victims);
    const uint64_t found = queue_.choose(wanted, view_, victims);
    if (found >= wanted.bytes) return found;
    Wanted more = wanted;
    more.bytes -= found;
    return found + rest_->choose(more, victims);
  }

 private:
  View &view_;
  GivenUp queue_;
  Owned<Policy> rest_;
};

}  // namespace

Owned<Policy> make_policy(const char *name, View &view, std::pmr::memory_resource *memory) {
  if (name == nullptr || std::strcmp(name, "lru-window") == 0) return make_lru_window(view, memory);
  if (std::strcmp(name, "auto") == 0)
    return adopt_as<Policy>(make_owned<Planned>(memory, view, memory));
  return {};
}

}  // namespace weir::policy
