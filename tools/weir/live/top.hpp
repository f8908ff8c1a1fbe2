// SPDX-License-Identifier: Apache-2.0
//
// What `weir top` makes of looks at running programs: rates from two looks at a pool, their past, rows to be sorted and filtered. Looks
// are given to it, so nothing here reads a clock or a page.
//
// What must hold: figures come from other programs and may be any; they are differences and quotients of what may have gone backwards,
// so each is computed where it can't overflow, and is 0 where it means nothing.
#pragma once

#include "reader.hpp"

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace weir::tool {

/// Of a pool, between its last two writes that were looked at.
struct PoolRates {
  double up = 0, down = 0;  ///< bytes a second, to devices and from them
  double uses = 0;          ///< granted a second
  double hit_rate = 0;      ///< of the uses; 0 where there were none
  double refaults = 0;      ///< of the bytes up, those that had been evicted shortly before
  double waits =
      0;  ///< seconds that slow acquires waited, a second; several threads can make it more than 1
  double evictions = 0;                                ///< pages a second
  std::array<double, live::reason_count> waits_for{};  ///< of `waits`, by reason
};

/// The rates of its last looks, the newest last.
struct PoolPast {
  static constexpr size_t most = 120;
  std::deque<float> up, down;
};

/// A pool, or a program that has none or is refused.
struct TopRow {
  const LiveProgram *program = nullptr;
  const LiveContext *context = nullptr;
  const live::Pool *pool = nullptr;  ///< nullptr: there is none
  std::optional<PoolRates> rates;    ///< none after one look
  const PoolPast *past = nullptr;

  std::string name() const;  ///< the pool's, or what takes its place
};

enum class TopSort : uint8_t { process, program, pool, used, rate, hits, waits, count };
const char *sort_name(TopSort sort);

uint64_t counter_of(const live::Pool &pool, const char *name);

class Top {
 public:
  /// The view replaces the last one.
  void take(LiveView view);
  const LiveView &view() const { return view_; }
  /// Those whose program, pool, clients or number have the text in them, in their order. Valid until the next view.
  std::vector<TopRow> rows(TopSort sort, const std::string &filter) const;

 private:
  struct Key {
    pid_t process;
    uint64_t start_time;
    uint32_t context;
    uint64_t serial;
    auto operator<=>(const Key &) const = default;
  };
  struct History {
    live::Pool last{};
    std::optional<PoolRates> rates;
    PoolPast past;
    bool seen = false;  ///< in the last view
  };

  LiveView view_;
  std::map<Key, History> histories_;
};

/// The exact reverse of what changes: of two figures that only grow. 0 if it went backwards.
double grown(uint64_t before, uint64_t now);
PoolRates rates_between(const live::Pool &before, const live::Pool &now);
/// Seconds from then to now, both of one clock; 0 if it is the other way round.
double seconds_since(uint64_t then_ns, uint64_t now_ns);

/// `weir top --once`, as text and as JSON (docs/live.md has its schema).
std::string top_text(const Top &top, const std::vector<TopRow> &rows);
std::string top_json(const Top &top, const std::vector<TopRow> &rows);

/// "1.2G", four letters and the unit at most; powers of 1024.
std::string short_bytes(uint64_t bytes);
/// "12%", or "-" for nothing of nothing.
std::string percent_text(double share, int decimals = 0);
/// "1.25 GB/s", powers of ten.
std::string rate_text(double bytes_per_second);

}  // namespace weir::tool
