// SPDX-License-Identifier: Apache-2.0
//
// Planner: which tenants of which places move where, so that memory is won. It knows ranges on number lines only: no
// engine, no memory behind them, no lock. Places are evacuated whole, the emptiest first, into the holes of fuller ones,
// by best fit; or one range of a place is cleared.
//
// A target is always a hole of the state that was given, never one that another move of the plan makes. So each move can
// be executed alone, any prefix (any subset) leaves a valid state, and no tenant moves twice.
#pragma once

#include "core/physical/arena_classes.hpp"

#include <cstdint>
#include <memory_resource>
#include <vector>

namespace weir::defrag {

struct Tenant {
  uint64_t offset = 0, size = 0;
  uint32_t name = 0;           ///< the caller's
  uint8_t alignment_log2 = 0;  ///< of wherever it goes
  bool movable = true;         ///< false: it stays, and with it its place
  /// No tenant: nothing may go there, but it keeps no place from being emptied.
  bool filler = false;
};

/// What a place is good for.
struct PlaceRole {
  uint64_t worth = 0;  ///< bytes won when it is empty; 0: not worth emptying
  bool target = true;  ///< takes tenants in
};

struct Bounds {
  uint64_t bytes = UINT64_MAX;  ///< moved by the plan, at most
  uint64_t moves = UINT64_MAX;
  /// Bytes moved for a thousand bytes won: a place that costs more stays as it is.
  uint64_t cost_permille = 1000;
  /// clear_range(): what finds no hole may leave altogether.
  bool may_evict = false;
};

struct Move {
  static constexpr uint32_t none = UINT32_MAX;

  uint32_t tenant = 0;     ///< by the order of add_tenant()
  uint32_t from = 0;       ///< places, by the order of add_place()
  uint32_t to = 0;         ///< none: it is to be evicted
  uint64_t offset = 0;     ///< in `to`, in the free range ...
  uint32_t before = none;  ///< ... that ends where this tenant begins; none: where the place ends
  bool last = false;       ///< of its place: when all of its moves are done, that is empty
};

struct Outcome {
  uint64_t moved_bytes = 0;  ///< of all moves
  /// Worth of the places that are empty when all of them are done, or the range cleared.
  uint64_t won_bytes = 0;
  uint64_t no_room_bytes = 0;  ///< of tenants whose places could not be emptied, for want of holes
  bool bounded = false;        ///< there was more to do than the bounds allow
  uint64_t range = 0;          ///< clear_range(): where it begins; won_bytes 0: there is none
};

class Planner {
 public:
  explicit Planner(std::pmr::memory_resource *memory) : memory_(memory) {}

  void clear() noexcept;
  /// The tenants that are added next are its; in the order of their offsets, and they do not overlap.
  void add_place(uint64_t size, const PlaceRole &role);
  void add_tenant(const Tenant &tenant);
  const Tenant &tenant(uint32_t i) const noexcept { return tenants_[i]; }

  /// Appends moves that empty places. Throws std::bad_alloc.
  Outcome evacuate(const Bounds &bounds, std::pmr::vector<Move> *moves);
  /// Appends moves after which a range of `bytes`, at a multiple of 2^alignment_log2, is free in the place: those that
  /// move the fewest bytes. None if there is none within the bounds.
  Outcome clear_range(uint32_t place, uint64_t bytes, uint8_t alignment_log2, const Bounds &bounds,
                      std::pmr::vector<Move> *moves);

 private:
  struct Place {
    uint64_t size = 0, used = 0, worth = 0;
    uint32_t first = 0, count = 0;
    uint32_t fixed = 0;
    bool target = false;
    bool opened = false;  ///< its holes are among those that are given out: it is emptied no more
    bool left = false;    ///< it has been, or is being, emptied
    uint32_t first_hole = 0, last_hole = 0;  ///< opened: those it had then
  };
  struct Hole {
    uint64_t offset = 0, size = 0;
    uint32_t place = 0, before = 0;
    uint32_t before_in_bin = 0, after_in_bin = 0;
  };
  /// A taken piece of a hole, to be taken back.
  struct Taken {
    uint32_t hole = 0, gap = 0;
    Hole old;
  };
  struct Window {
    uint64_t begin = 0, bytes = 0;
    uint32_t first = 0, last = 0;  ///< tenants [first, last)
  };

  static constexpr uint32_t none = UINT32_MAX;
  /// 32 for each power of two.
  using Classes = physical::SizeClasses<5>;
  static constexpr uint32_t looks = 8;  ///< at holes of one class
  /// Places without room, before the rest is given up.
  static constexpr uint32_t most_failures = 16;
  static constexpr uint32_t most_windows = 12;

  void reset_holes() noexcept;
  void add_hole(uint32_t place, uint64_t offset, uint64_t end, uint32_t before);
  void put(uint32_t hole) noexcept;
  void remove(uint32_t hole) noexcept;
  uint32_t find(const Tenant &tenant) const noexcept;
  uint64_t take(uint32_t hole, uint32_t tenant);
  void take_back() noexcept;
  template <class Visit>
  void each_gap(const Place &place, Visit visit) const;
  void open(uint32_t place);
  bool open_fullest();
  void close_again(size_t opened) noexcept;
  bool plan_place(uint32_t place, std::pmr::vector<Move> *moves);
  bool place_tenant(uint32_t tenant, Move *move);
  void sort_big_first(uint32_t first, uint32_t last);
  bool emptier(uint32_t a, uint32_t b) const noexcept;
  /// The orders of the two heaps: the emptiest source and the fullest target come first.
  auto fuller() const noexcept {
    return [this](uint32_t a, uint32_t b) { return emptier(b, a); };
  }
  auto less_full() const noexcept {
    return [this](uint32_t a, uint32_t b) { return emptier(a, b); };
  }
  void list_windows(const Place &place, uint64_t bytes, uint8_t alignment_log2,
                    const Bounds &bounds);
  void open_around(uint32_t place, uint64_t begin, uint64_t end);

  std::pmr::memory_resource *memory_;
  std::pmr::vector<Place> places_{memory_};
  std::pmr::vector<Tenant> tenants_{memory_};
  std::pmr::vector<Hole> holes_{memory_};
  std::pmr::vector<Taken> taken_{memory_};
  std::pmr::vector<uint32_t> order_{memory_};
  std::pmr::vector<uint32_t> sources_{memory_}, targets_{memory_};  ///< heaps
  std::pmr::vector<uint32_t> opened_{memory_};
  std::pmr::vector<Window> windows_{memory_};
  /// Of holes, by the class of their size.
  std::pmr::vector<uint32_t> heads_{Classes::of(UINT64_MAX) + 1, none, memory_};
  physical::UsedClasses<5, UINT64_MAX> used_;
};

}  // namespace weir::defrag
