// SPDX-License-Identifier: Apache-2.0
//
// The screen's parts: the table of pools, the pool that is chosen, the keys. Widths are in columns of the terminal.
#include "frame.hpp"

#include "names.hpp"

#include "core/base/name.hpp"

#include "../text.hpp"

#include <algorithm>
#include <cmath>
#include <cwchar>
#include <string_view>

namespace weir::tool {
namespace {

constexpr const char *tier_titles[] = {"DEVICE", "HOST", "COMPRESSED", "STORAGE"};
/// A character and how many columns it takes; what the terminal may not show is '?'.
struct Glyph {
  std::string_view bytes;
  int columns;
};
Glyph next_glyph(std::string_view text, bool utf8) {
  const size_t length = utf8_character(text);
  const std::string_view bytes = text.substr(0, std::max<size_t>(length, 1));
  if (length == 1 && bytes[0] >= ' ' && bytes[0] != '\x7f') return {bytes, 1};
  if (!utf8 || length < 2) return {bytes, -1};
  wchar_t wide = 0;
  std::mbstate_t state{};
  const size_t read = std::mbrtowc(&wide, bytes.data(), bytes.size(), &state);
  return {bytes, read == bytes.size() ? wcwidth(wide) : -1};
}

std::string short_rate(double bytes_per_second) {
  constexpr const char *units[] = {"", "k", "M", "G", "T", "P"};
  size_t unit = 0;
  while (bytes_per_second >= 999.5 && unit + 1 < std::size(units)) {
    bytes_per_second /= 1000;
    ++unit;
  }
  return format_fixed(bytes_per_second, unit != 0 && bytes_per_second < 9.95 ? 1 : 0) + units[unit];
}

std::string used_of(const live::Amounts &amounts) {
  return short_bytes(amounts.used) +
         (amounts.budget != live::no_limit ? "/" + short_bytes(amounts.budget) : "");
}

double used_share(const live::Amounts &amounts) {
  if (amounts.budget == 0 || amounts.budget == live::no_limit) return 0;
  return static_cast<double>(amounts.used) / static_cast<double>(amounts.budget);
}

/// What most wait for now, with how many.
std::string waiting_now(const live::Pool &pool, bool all) {
  std::string text;
  uint64_t most = 0;
  for (uint32_t i = 0; i < std::min(pool.reason_count, live::reason_count + 0U); ++i) {
    const uint64_t now = pool.waits[i].now;
    if (now == 0 || (!all && now <= most)) continue;
    most = now;
    const std::string one = std::to_string(now) + ' ' + live_reason_names[i];
    text = all && !text.empty() ? text + ", " + one : one;
  }
  return text;
}

/// Columns of a table: a line is made of its cells.
class Cells {
 public:
  Cells(int width, bool utf8, ScreenStyle style) : left_(width), utf8_(utf8), style_(style) {}
  void add(const std::string &text, int columns, bool right = false) {
    add(text, columns, style_, right);
  }
  void add(const std::string &text, int columns, ScreenStyle style, bool right = false) {
    const int taken = std::min(columns, left_);
    if (taken <= 0) return;
    line_.push_back({fitted(text, taken, utf8_, right), style});
    left_ -= taken;
    if (left_ > 0) line_.push_back({" ", style_});
    left_ -= std::min(left_, 1);
  }
  void rest(const std::string &text) { add(text, left_); }
  int left() const { return left_; }
  /// Filled up, so that a style shows on all of it.
  ScreenLine line() {
    if (left_ > 0) line_.push_back({std::string(static_cast<size_t>(left_), ' '), style_});
    left_ = 0;
    return line_;
  }

 private:
  ScreenLine line_;
  int left_;
  bool utf8_;
  ScreenStyle style_;
};

class Painter {
 public:
  Painter(const Top &top, const std::vector<TopRow> &rows, TopChoice &choice, int height, int width)
      : top_(top), rows_(rows), choice_(choice), height_(height), width_(width) {}

  std::vector<ScreenLine> paint() {
    if (height_ <= 0 || width_ <= 0) return {};
    settle();
    add_title();
    if (choice_.help) {
      add_help();
    } else {
      add_table();
      add_detail();
    }
    lines_.resize(static_cast<size_t>(std::max(height_ - 1, 0)));
    add_keys();
    lines_.resize(static_cast<size_t>(height_));
    return std::move(lines_);
  }

 private:
  void say(const std::string &text, ScreenStyle style = ScreenStyle::plain) {
    lines_.push_back({{fitted(text, width_, choice_.utf8), style}});
  }
  Cells cells(ScreenStyle style = ScreenStyle::plain) const {
    return {width_, choice_.utf8, style};
  }

  static std::tuple<pid_t, uint32_t, uint64_t> key_of(const TopRow &row) {
    return {row.program->process, row.context != nullptr ? row.context->number : 0,
            row.pool != nullptr ? row.pool->serial : 0};
  }

  /// The selection is a row that there is, and one that is shown.
  void settle() {
    constexpr int least_detail = 12;
    if (!choice_.moved) {
      const auto at = std::ranges::find(rows_, choice_.pool, key_of);
      if (at != rows_.end()) choice_.selected = static_cast<size_t>(at - rows_.begin());
    }
    choice_.selected = std::min(choice_.selected, rows_.empty() ? 0 : rows_.size() - 1);
    if (!rows_.empty()) choice_.pool = key_of(rows_[choice_.selected]);
    choice_.moved = false;
    const int room = height_ - 3;  // without title, head and keys
    const int most = std::max({room - least_detail, room / 2, 1});
    table_ = std::clamp(static_cast<int>(std::min<size_t>(rows_.size(), 10000)), 1, most);
    const auto shown = static_cast<size_t>(table_);
    choice_.first = std::min(choice_.first, choice_.selected);
    if (choice_.selected >= choice_.first + shown) choice_.first = choice_.selected - shown + 1;
    choice_.first = std::min(choice_.first, rows_.size() - std::min(rows_.size(), shown));
  }

  void add_title() {
    double up = 0, down = 0;
    size_t pools = 0;
    std::vector<pid_t> processes;
    for (const TopRow &row : rows_) {
      if (std::ranges::find(processes, row.program->process) == processes.end())
        processes.push_back(row.program->process);
      pools += row.pool != nullptr ? 1 : 0;
      if (!row.rates) continue;
      up += row.rates->up;
      down += row.rates->down;
    }
    const size_t programs = processes.size();
    std::string text = "weir top   " + std::to_string(programs) +
                       (programs == 1 ? " program, " : " programs, ") + std::to_string(pools) +
                       (pools == 1 ? " pool" : " pools") + "   up " + rate_text(up) + "   down " +
                       rate_text(down);
    if (choice_.frozen) text += "   FROZEN";
    say(text, ScreenStyle::title);
  }

  bool wide() const { return width_ >= 120; }

  void add_table() {
    const int spare = std::max(0, width_ - (wide() ? 120 : 80));
    const int names = 11 + std::min(spare / 3, 20);
    Cells head = cells(ScreenStyle::head);
    head.add("PID", 7, true);
    head.add("PROGRAM", names);
    head.add("POOL", names);
    for (int i = 0; i < (wide() ? 4 : 1); ++i) head.add(tier_titles[i], 11, true);
    head.add("UP/s", 5, true);
    head.add("DOWN/s", 6, true);
    head.add("HIT", 4, true);
    head.add("REFLT", 5, true);
    head.add("WAIT", 5, true);
    head.rest("FOR");
    lines_.push_back(head.line());
    for (size_t i = choice_.first;
         i < rows_.size() && i < choice_.first + static_cast<size_t>(table_); ++i)
      add_row(rows_[i], i == choice_.selected, names);
    if (rows_.empty())
      say(choice_.filter.empty() ? "no program of this user shows pools"
                                 : "none has \"" + choice_.filter + "\" in it");
  }

  void add_row(const TopRow &row, bool selected, int names) {
    const bool refused = row.program->state == LiveProgram::State::refused;
    Cells line = cells(selected  ? ScreenStyle::selected
                       : refused ? ScreenStyle::warning
                                 : ScreenStyle::plain);
    line.add(std::to_string(row.program->process), 7, true);
    line.add(row.program->name, names);
    if (row.pool == nullptr) {
      line.rest(refused ? row.program->reason : row.name());
      lines_.push_back(line.line());
      return;
    }
    const PoolRates rates = row.rates.value_or(PoolRates{});
    line.add(row.name(), names);
    for (int i = 0; i < (wide() ? 4 : 1); ++i) {
      const live::Amounts &tier = row.pool->tiers[static_cast<size_t>(i)];
      line.add(tier.budget == 0 && tier.used == 0 ? "-" : used_of(tier), 11, true);
    }
    line.add(short_rate(rates.up), 5, true);
    line.add(short_rate(rates.down), 6, true);
    line.add(rates.uses > 0 ? percent_text(rates.hit_rate) : "-", 4, true);
    line.add(rates.up > 0 ? percent_text(rates.refaults) : "-", 5, true);
    line.add(rates.waits > 0 ? percent_text(rates.waits) : "-", 5, true);
    line.rest(waiting_now(*row.pool, wide()));
    lines_.push_back(line.line());
  }

  // ---- the pool that is chosen ----
  void add_detail() {
    if (rows_.empty()) return;
    const TopRow &row = rows_[choice_.selected];
    std::string title = row.program->name + " (" + std::to_string(row.program->process) + ")";
    if (row.pool == nullptr) {
      say("");
      say(title + ": " + row.name(), ScreenStyle::title);
      add_folded(row.program->reason);
      return;
    }
    title = row.name() + " of " + title + "   Weir " + row.context->library + "   written " +
            format_fixed(seconds_since(row.pool->written_ns, top_.view().now_ns), 1) + " s ago";
    if (row.pool->background == 0) title += ", as of its last slow call";
    say("");
    say(title, ScreenStyle::title);
    switch (choice_.tab) {
      case TopChoice::Tab::clients:
        return add_clients(row);
      case TopChoice::Tab::devices:
        return add_devices(row);
      default:
        add_overview(row);
    }
    // What fits below.
    const auto left = [this] { return height_ - 1 - static_cast<int>(lines_.size()); };
    constexpr int least = 4;
    if (left() < least) return;
    say("");
    add_devices(row);
    if (left() < least) return;
    say("");
    add_clients(row);
  }

  void add_folded(const std::string &text) {
    const auto width = static_cast<size_t>(width_);
    for (size_t at = 0; at < text.size(); at += width) say(text.substr(at, width));
  }

  void add_tiers(const live::Pool &pool) {
    Cells head = cells(ScreenStyle::head);
    head.add("TIER", 10);
    for (const char *name : {"BUDGET", "USED", "LEASED", "COLD"}) head.add(name, 7, true);
    lines_.push_back(head.line());
    for (uint32_t i = 0; i < live::tier_count; ++i) {
      const live::Amounts &tier = pool.tiers[i];
      if (i != 0 && tier.budget == 0 && tier.used == 0) continue;
      Cells line = cells();
      line.add(tier_titles[i], 10);
      line.add(short_bytes(tier.budget), 7, true);
      for (const uint64_t bytes : {tier.used, tier.leased, tier.cold})
        line.add(short_bytes(bytes), 7, true);
      const int bar = std::min(line.left() - 6, 60);
      const double share = used_share(tier);
      if (bar >= 5)
        line.add(bar_text(share, bar), bar, share > 0.99 ? ScreenStyle::warning : ScreenStyle::bar);
      line.add(percent_text(share), 5, true);
      lines_.push_back(line.line());
    }
  }

  void add_overview(const TopRow &row) {
    const live::Pool &pool = *row.pool;
    const PoolRates rates = row.rates.value_or(PoolRates{});
    add_tiers(pool);
    for (const auto &[name, rate, past] : {std::tuple("UP", rates.up, &row.past->up),
                                           std::tuple("DOWN", rates.down, &row.past->down)}) {
      Cells line = cells();
      line.add(name, 10);
      line.add(rate_text(rate), 11, true);
      const int columns = std::min(line.left() - 1, static_cast<int>(PoolPast::most));
      if (columns > 0)
        line.add(spark_text(*past, columns, choice_.utf8), columns, ScreenStyle::bar);
      lines_.push_back(line.line());
    }
    const auto total = [&](const char *name) { return counter_of(pool, name); };
    say("USES       " + short_rate(rates.uses) + "/s, " +
        (rates.uses > 0 ? percent_text(rates.hit_rate, 1) + " of them hits" : "none now") + "; " +
        short_rate(rates.evictions) + " pages/s evicted");
    say("REFAULTS   " +
        (rates.up > 0 ? percent_text(rates.refaults, 1) + " of what comes up now, " : "") +
        short_bytes(total("refaulted_bytes")) + " of " + short_bytes(total("promoted_bytes")) +
        " in all");
    say("REFUSED    over budget " + std::to_string(total("over_budget")) + ", would block " +
        std::to_string(total("would_block")) + ", conflicts " +
        std::to_string(total("lease_conflicts")) + ", device out of memory " +
        std::to_string(total("device_oom")));
    std::string waits = "WAITS      " + percent_text(rates.waits, 1) + " of a thread's time";
    for (uint32_t i = 0; i < live::reason_count; ++i)
      if (rates.waits_for[i] >= 0.0005)
        waits +=
            std::string(", ") + live_reason_names[i] + ' ' + percent_text(rates.waits_for[i], 1);
    say(waits);
    const std::string now = waiting_now(pool, true);
    say("WAITING    " + (now.empty() ? "nobody" : now),
        now.empty() ? ScreenStyle::plain : ScreenStyle::warning);
    say("leased and cold as of " +
            (pool.walked_ns != 0
                 ? format_fixed(seconds_since(pool.walked_ns, top_.view().now_ns), 1) + " s ago"
                 : std::string("no whole walk yet")) +
            "; " + short_rate(static_cast<double>(total("buffers"))) + " buffers, " +
            std::to_string(pool.clients) + (pool.clients == 1 ? " client" : " clients"),
        ScreenStyle::dim);
  }

  void add_clients(const TopRow &row) {
    Cells head = cells(ScreenStyle::head);
    const int name = std::clamp(width_ - 66, 10, 30);
    head.add("CLIENT", name);
    head.add("BUFFERS", 7, true);
    head.add("DEVICE", 11, true);
    head.add("LEASED", 6, true);
    head.add("COLD", 6, true);
    for (int i = 1; i < 4; ++i) head.add(tier_titles[i], 11, true);
    lines_.push_back(head.line());
    for (uint32_t i = 0; i < row.pool->client_count; ++i) {
      const live::Client &client = row.pool->client[i];
      const std::string text = live_text(client.name);
      Cells line = cells();
      line.add(!text.empty()    ? text
               : client.id == 0 ? "the pool's own"
                                : "no. " + std::to_string(client.id),
               name);
      line.add(std::to_string(client.buffers), 7, true);
      line.add(used_of(client.tiers[0]), 11, true);
      line.add(short_bytes(client.tiers[0].leased), 6, true);
      line.add(short_bytes(client.tiers[0].cold), 6, true);
      for (size_t tier = 1; tier < 4; ++tier) line.add(used_of(client.tiers[tier]), 11, true);
      lines_.push_back(line.line());
    }
    if (row.pool->clients > row.pool->client_count)
      say("and " + std::to_string(row.pool->clients - row.pool->client_count) + " more",
          ScreenStyle::dim);
  }

  void add_devices(const TopRow &row) {
    Cells head = cells(ScreenStyle::head);
    head.add("ID", 3, true);
    head.add("BACKEND", 10);
    for (const char *title : {"BUDGET", "USED", "LEASED", "COLD", "HELD", "LENT", "PEAK"})
      head.add(title, 6, true);
    head.rest("NAME");
    lines_.push_back(head.line());
    for (uint32_t i = 0; i < row.pool->device_count; ++i) {
      const live::Device &device = row.pool->devices[i];
      const auto place = std::ranges::find(row.context->places, device.id, &live::Place::id);
      const bool known = place != row.context->places.end();
      Cells line = cells(device.state != WEIR_POOL_DEVICE_PRESENT ? ScreenStyle::warning
                                                                  : ScreenStyle::plain);
      line.add(std::to_string(device.id), 3, true);
      line.add(known ? live_text(place->backend) : "?", 10);
      for (const uint64_t bytes :
           {device.amounts.budget, device.amounts.used, device.amounts.leased, device.amounts.cold,
            device.held_bytes, device.borrowed_bytes, device.peak_bytes})
        line.add(short_bytes(bytes), 6, true);
      const char *const states[] = {"", "LEAVING ", "LOST "};
      line.rest(states[device.state] + (known ? live_text(place->name) : ""));
      lines_.push_back(line.line());
    }
  }

  void add_help() {
    for (const char *line :
         {"", "F1 h ?      this page, and back",
          "F4 /        filter by program, pool, client or PID; Esc ends it",
          "F5 space    freeze, and go on",
          "F6 s        sort by pid, program, pool, used, rate, misses, waits",
          "Tab         of the chosen pool: overview, clients, devices",
          "arrows      choose a pool (j and k, PgUp, PgDn, Home, End)",
          "+ -         look less or more often", "F10 q       quit", "",
          "UP, DOWN    bytes copied to and from devices, a second",
          "HIT         of the uses, those granted with everything resident",
          "REFLT       of the bytes up, those that had been evicted shortly before",
          "WAIT        of a thread's time, what slow acquires waited; FOR: for what now",
          "LEASED      of buffers with unreleased leases; COLD: of those advised so"})
      say(line);
  }

  void add_keys() {
    if (choice_.typing) {
      lines_.push_back({{fitted("filter: " + choice_.filter + "_   (Enter takes it, Esc ends it)",
                                width_, choice_.utf8),
                         ScreenStyle::key}});
      return;
    }
    const std::string filter = choice_.filter.substr(0, 12);
    const char *const tabs[] = {"Clients", "Devices", "Overview"};  // where Tab leads
    ScreenLine line;
    int left = width_;
    for (const auto &[key, meaning] :
         {std::pair<std::string, std::string>{"F1", "Help"},
          {"F4", choice_.filter.empty() ? "Filter" : "Filter:" + filter},
          {"F5", choice_.frozen ? "Go on" : "Freeze"},
          {"F6", std::string("Sort:") + sort_name(choice_.sort)},
          {"Tab", tabs[static_cast<size_t>(choice_.tab)]},
          {choice_.utf8 ? "↑↓" : "jk", "Choose"},
          {"F10", "Quit"}}) {
      const int key_columns = key == "↑↓" ? 2 : static_cast<int>(key.size());
      const int columns = key_columns + static_cast<int>(meaning.size()) + 2;
      if (columns > left) break;
      line.push_back({key, ScreenStyle::plain});
      line.push_back({meaning + ' ', ScreenStyle::key});
      line.push_back({" ", ScreenStyle::plain});
      left -= columns;
    }
    lines_.push_back(std::move(line));
  }

  const Top &top_;
  const std::vector<TopRow> &rows_;
  TopChoice &choice_;
  const int height_, width_;
  int table_ = 1;
  std::vector<ScreenLine> lines_;
};

}  // namespace

std::string fitted(const std::string &text, int columns, bool utf8, bool right) {
  std::string shown;
  int taken = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const Glyph glyph = next_glyph(rest, utf8);
    rest.remove_prefix(glyph.bytes.size());
    const int width = glyph.columns < 0 ? 1 : glyph.columns;
    if (taken + width > columns) break;
    glyph.columns < 0 ? shown.append("?") : shown.append(glyph.bytes);
    taken += width;
  }
  const std::string blanks(static_cast<size_t>(std::max(columns - taken, 0)), ' ');
  return right ? blanks + shown : shown + blanks;
}

std::string bar_text(double share, int columns) {
  const int inner = std::max(columns - 2, 0);
  const double all = std::clamp(share, 0.0, 1.0) * inner;
  const auto full = static_cast<size_t>(std::lround(all));
  return '[' + std::string(full, '|') + std::string(static_cast<size_t>(inner) - full, ' ') + ']';
}

std::string spark_text(const std::deque<float> &past, int columns, bool utf8) {
  constexpr const char *blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr char letters[] = "_.-:=+*#";
  const size_t count = std::min(past.size(), static_cast<size_t>(std::max(columns, 0)));
  const auto from = past.end() - static_cast<std::ptrdiff_t>(count);
  const float most = count != 0 ? *std::max_element(from, past.end()) : 0;
  std::string text(static_cast<size_t>(columns) - count, ' ');
  for (auto at = from; at != past.end(); ++at) {
    const float share = most > 0 ? *at / most : 0;
    const auto level = static_cast<size_t>(std::clamp(std::lround(share * 7), 0L, 7L));
    utf8 ? text.append(blocks[level]) : text.append(1, letters[level]);
  }
  return text;
}

std::vector<ScreenLine> draw_top(const Top &top, const std::vector<TopRow> &rows, TopChoice *choice,
                                 int height, int width) {
  return Painter(top, rows, *choice, height, width).paint();
}

}  // namespace weir::tool
