// SPDX-License-Identifier: Apache-2.0
//
// Placement: which device of a pool a buffer should be at home on. A cost model and nothing else: it knows budgets, what is
// promised and to whom, links and users, holds no lock and touches no buffer.
//
// The cost of a pool is the time that a round of uses takes, in which every user reaches all bytes of his buffers once, or as
// often as he is said to (docs/topology.md):
//
//     cost  = sum over homes h, users u of   W(h,u) [ (1 - f(h)) T(h,u) + sum over p of f(h,p) S(h,u,p) ]
//     W(h,u) = bytes of the buffers at home on h, times how often u uses them
//     T(a,b) = seconds a byte takes from a to b; both links where copies pass the host; 0 for a = b
//     f(h)   = the share of what h has promised that exceeds its budget
//     f(h,p) = of it, what lies at p: at the fastest neighbours better than the host that have not promised all of theirs, the
//              rest in the host
//     S(h,u,p) = T(p,u), at least T(h,u); 2 T(h,p) for u = h, since for what comes up something else goes down
//
// A new buffer goes to where the cost grows least, its links' latencies included. Growths within a fiftieth of each other are
// one: measured links differ by more from run to run. Of these homes the nearest to the caller's NUMA node wins, then
// the least loaded by promised bytes over budget, then the first. A buffer whose users are not known counts as used by its home,
// which costs nothing anywhere with room; it goes to the least loaded home, then the nearest.
#pragma once

#include "core/base/numa.hpp"
#include "core/page/region.hpp"
#include "core/page/users.hpp"
#include "core/transfer/routes.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace weir::page {

/// What the buffers at home on a device are said to cost: exact, so that it is 0 again without them.
struct Promise {
  uint64_t bytes = 0;
  std::array<uint64_t, Users::count> traffic{};  ///< bytes a round, by user

  /// Without users the home alone is one.
  void add(uint8_t home, uint64_t more, const Users &users) noexcept;
  void add(uint8_t home, uint64_t more) noexcept {
    bytes += more;
    traffic[home] += more;
  }
  void remove(uint8_t home, uint64_t less, const Users &users) noexcept {
    add(home, uint64_t{0} - less, users);
  }
  void remove(uint8_t home, uint64_t less) noexcept { add(home, uint64_t{0} - less); }
  bool operator==(const Promise &) const = default;
};

class Placement {
 public:
  static constexpr uint8_t nowhere = UINT8_MAX;

  struct Place {
    uint64_t budget = 0;
    Promise promise;
    uint32_t node = numa::unknown;
    bool usable = true;  ///< neither lost nor left out
  };
  struct Wish {
    uint64_t bytes = 0;
    Users users;
    uint32_t unfit = 0;      ///< bits of places that it can't be at home on
    uint8_t home = nowhere;  ///< chosen already, if it is somewhere
  };

  /// The routes' devices in their order; nothing of the arguments is kept but `places`. `node`: where the thread is that makes the buffers.
  Placement(const transfer::Routes &routes, const numa::Nodes &nodes, uint32_t node,
            std::pmr::vector<Place> places);

  /// Seconds a round of all uses takes.
  double cost() const noexcept;
  /// The home for one buffer more; nowhere: no place is usable. Nothing is promised by it.
  uint8_t choose(const Wish &wish) noexcept;
  /// Homes for several, each known to the others: one after the other, those first that lose most by a wrong one, then as long
  /// as it helps one is moved or two change places.
  void choose_all(std::pmr::vector<Wish> *wishes);

 private:
  bool fits(const Wish &wish, uint8_t home) const noexcept {
    return places_[home].usable && (wish.unfit >> home & 1U) == 0;
  }
  double with(const Wish &wish, uint8_t home) noexcept;
  double reach(const Wish &wish, uint8_t home) const noexcept;
  double out_of_place(uint8_t home, double over,
                      std::array<double, Users::count> *room) const noexcept;
  bool move_each(std::pmr::vector<Wish> *wishes, double *least) noexcept;
  bool swap_two(std::pmr::vector<Wish> *wishes, double *least) noexcept;

  std::pmr::vector<Place> places_;
  std::array<std::array<transfer::Routes::Pace, Users::count>, Users::count> pace_{};
  std::array<uint32_t, Users::count> lenders_{};  ///< of each place, as bits
  std::array<uint32_t, Users::count> away_{};     ///< of each place from the thread's node
};

}  // namespace weir::page
