// SPDX-License-Identifier: Apache-2.0
//
// UseWalk: how many bytes are leased, and how many have been advised COLD, by tier, device and client. No counter tells: the hit path
// counts leases in the buffers' words. So it looks at all buffers by and by, and tells what the last whole look has found.
//
// What must hold: a step looks at a bounded number of pages, goes on by number in the midst of a buffer, too, and allocates nothing.
// Bytes count where their latest version lies, in the nearest tier that has it.
#pragma once

#include "core/page/env.hpp"
#include "core/live/layout.hpp"
#include "core/page/env.hpp"

#include <array>

namespace weir::pool {

/// The clients that are shown one by one, each in a place that it keeps.
class ShownClients {
 public:
  static constexpr uint32_t none = UINT32_MAX;

  /// Takes in those that have come, as far as there are places, and gives up the places of those that have gone. Bounded.
  void follow(const Accounts &accounts) noexcept WEIR_HELD;
  /// In this place, or `none`.
  uint32_t at(size_t place) const noexcept { return ids_[place]; }
  /// `none`: it is not shown.
  uint32_t place_of(uint32_t client) const noexcept;
  static constexpr size_t places() noexcept { return live::most_clients; }

 private:
  std::array<uint32_t, live::most_clients> ids_ = [] {
    std::array<uint32_t, live::most_clients> ids;
    ids.fill(none);
    return ids;
  }();
  uint32_t next_ = 0;  ///< the client to look at
};

class UseWalk {
 public:
  struct Bytes {
    uint64_t leased = 0, cold = 0;
  };
  struct Sums {
    std::array<Bytes, live::tier_count> tiers{};
    std::array<Bytes, live::most_devices> devices{};
    std::array<std::array<Bytes, live::tier_count>, live::most_clients> clients{};
    std::array<uint32_t, live::most_clients> client_ids{};  ///< whose place that was
    uint64_t ended_ns = 0;                                  ///< 0: none has ended yet
  };

  UseWalk(const Env &env, const PageLayer &page, const ShownClients &shown) noexcept
      : env_(env), page_(page), shown_(shown) {}

  /// Looks on, at about so many buffers and pages, and eight times as many numbers that are no buffer's.
  void step(uint32_t most) noexcept WEIR_HELD;
  const Sums &last() const noexcept { return last_; }
  /// Of the client in that place, if the last walk knew it there.
  Bytes of_client(size_t place, uint32_t client, uint32_t tier) const noexcept;

 private:
  /// From the page that it stands at. Returns the pages it has looked at; *done: the buffer's last was among them.
  uint32_t look(uint32_t index, uint32_t most, bool *done) noexcept WEIR_HELD;
  void add(const Region &region, uint32_t page, uint64_t bytes, bool leased, bool cold,
           uint32_t place) noexcept WEIR_HELD;
  void begin() noexcept;

  const Env &env_;
  const PageLayer &page_;
  const ShownClients &shown_;
  Sums now_, last_;
  uint32_t next_ = 0;        ///< the buffer to look at ...
  uint32_t page_at_ = 0;     ///< ... from this page of its region on
  uint64_t generation_ = 0;  ///< that it had when the first of its pages was looked at
};

}  // namespace weir::pool
