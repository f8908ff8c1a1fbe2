// SPDX-License-Identifier: Apache-2.0
//
// Rates, pasts, and the order of rows.
#include "top.hpp"

#include "names.hpp"

#include "../text.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <iterator>

namespace weir::tool {
namespace {

double share_of(double part, double whole) { return whole > 0 ? std::min(part / whole, 1.0) : 0; }

bool contains_text(const std::string &text, const std::string &part) {
  const auto same = [](unsigned char a, unsigned char b) {
    return std::tolower(a) == std::tolower(b);
  };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

bool passes(const TopRow &row, const std::string &filter) {
  if (filter.empty() || contains_text(row.program->name, filter) ||
      contains_text(row.name(), filter) || std::to_string(row.program->process) == filter)
    return true;
  if (row.pool == nullptr) return false;
  return std::any_of(
      row.pool->client.begin(), row.pool->client.begin() + row.pool->client_count,
      [&](const live::Client &client) { return contains_text(live_text(client.name), filter); });
}

/// What the largest comes first by.
double weight(const TopRow &row, TopSort sort) {
  if (row.pool == nullptr) return -1;
  switch (sort) {
    case TopSort::used:
      return static_cast<double>(row.pool->tiers[live::device_tier].used);
    case TopSort::rate:
      return row.rates ? row.rates->up + row.rates->down : 0;
    case TopSort::waits:
      return row.rates ? row.rates->waits : 0;
    default:  // the worst first
      return row.rates && row.rates->uses > 0 ? 1 - row.rates->hit_rate : -0.5;
  }
}

}  // namespace

const char *sort_name(TopSort sort) {
  constexpr const char *names[] = {"pid", "program", "pool", "used", "rate", "misses", "waits"};
  static_assert(std::size(names) == static_cast<size_t>(TopSort::count));
  return names[static_cast<size_t>(sort)];
}

uint64_t counter_of(const live::Pool &pool, const char *name) {
  for (uint32_t i = 0; i < std::min(pool.counter_count, live::counter_count); ++i)
    if (std::strcmp(live_counter_names[i], name) == 0) return pool.counters[i];
  return 0;
}

double grown(uint64_t before, uint64_t now) {
  return now > before ? static_cast<double>(now - before) : 0;
}

double seconds_since(uint64_t then_ns, uint64_t now_ns) { return grown(then_ns, now_ns) / 1e9; }

PoolRates rates_between(const live::Pool &before, const live::Pool &now) {
  PoolRates rates;
  const double seconds = seconds_since(before.written_ns, now.written_ns);
  if (seconds <= 0) return rates;
  const auto more = [&](const char *name) {
    return grown(counter_of(before, name), counter_of(now, name));
  };
  const double up = more("promoted_bytes"), hits = more("hits"), uses = hits + more("misses");
  rates.up = up / seconds;
  rates.down = more("demoted_bytes") / seconds;
  rates.uses = uses / seconds;
  rates.hit_rate = share_of(hits, uses);
  rates.refaults = share_of(more("refaulted_bytes"), up);
  rates.evictions = more("evictions") / seconds;
  const uint32_t reasons =
      std::min({before.reason_count, now.reason_count, live::reason_count + 0U});
  for (uint32_t i = 0; i < reasons; ++i) {
    rates.waits_for[i] = grown(before.waits[i].total_ns, now.waits[i].total_ns) / 1e9 / seconds;
    rates.waits += rates.waits_for[i];
  }
  return rates;
}

std::string TopRow::name() const {
  if (pool != nullptr) {
    const std::string text = live_text(pool->name);
    return text.empty() ? "-" : text;
  }
  if (program->state == LiveProgram::State::refused) return "refused";
  return program->state == LiveProgram::State::busy ? "busy" : "no pool";
}

void Top::take(LiveView view) {
  view_ = std::move(view);
  for (auto &[key, history] : histories_) history.seen = false;
  for (const LiveProgram &program : view_.programs) {
    for (const LiveContext &context : program.contexts) {
      for (const live::Pool &pool : context.pools) {
        const auto [at, fresh] = histories_.try_emplace(
            Key{program.process, program.start_time, context.number, pool.serial});
        History &history = at->second;
        history.seen = true;
        if (!fresh) {
          history.rates = rates_between(history.last, pool);
          for (auto [past, value] : {std::pair(&history.past.up, history.rates->up),
                                     std::pair(&history.past.down, history.rates->down)}) {
            if (past->size() == PoolPast::most) past->pop_front();
            past->push_back(static_cast<float>(value));
          }
        }
        history.last = pool;
      }
    }
  }
  // A pool that was being written at this look keeps its past.
  const auto busy = [this](const Key &key) {
    return std::ranges::any_of(view_.programs, [&](const LiveProgram &program) {
      return program.process == key.process && program.state == LiveProgram::State::busy;
    });
  };
  std::erase_if(histories_,
                [&](const auto &each) { return !each.second.seen && !busy(each.first); });
}

std::vector<TopRow> Top::rows(TopSort sort, const std::string &filter) const {
  std::vector<TopRow> rows;
  const auto add = [&](const TopRow &row) {
    if (passes(row, filter)) rows.push_back(row);
  };
  for (const LiveProgram &program : view_.programs) {
    bool any = false;
    for (const LiveContext &context : program.contexts) {
      for (const live::Pool &pool : context.pools) {
        any = true;
        const History &history =
            histories_.at(Key{program.process, program.start_time, context.number, pool.serial});
        add({&program, &context, &pool, history.rates, &history.past});
      }
    }
    if (!any || program.state == LiveProgram::State::refused)
      add({&program, nullptr, nullptr, {}, nullptr});
  }
  const auto by_text = [&](auto &&text) {
    std::ranges::stable_sort(rows,
                             [&](const TopRow &a, const TopRow &b) { return text(a) < text(b); });
  };
  if (sort == TopSort::program) {
    by_text([](const TopRow &row) { return row.program->name; });
  } else if (sort == TopSort::pool) {
    by_text([](const TopRow &row) { return row.name(); });
  } else if (sort != TopSort::process) {
    std::ranges::stable_sort(
        rows, [&](const TopRow &a, const TopRow &b) { return weight(a, sort) > weight(b, sort); });
  }
  return rows;
}

std::string short_bytes(uint64_t bytes) {
  constexpr const char *units[] = {"", "K", "M", "G", "T", "P", "E"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return format_fixed(value, unit != 0 && value < 9.95 ? 1 : 0) + units[unit];
}

std::string percent_text(double part, int decimals) {
  return format_fixed(part * 100, decimals) + "%";
}

std::string rate_text(double bytes_per_second) {
  const double gigabytes = bytes_per_second / 1e9;
  return format_fixed(gigabytes, gigabytes < 9.995 ? 2 : gigabytes < 99.95 ? 1 : 0) + " GB/s";
}

}  // namespace weir::tool
