// SPDX-License-Identifier: Apache-2.0
//
// A timeline's file, read back and checked by the rules of its format: what each phase must have, that slices of a track nest, that
// pairs are whole, and that an arrow's ends lie in slices.
#pragma once

#include "tests/support/cmocka.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace weir::test {

using Json = nlohmann::json;

inline std::string read_text(const std::string &path) {
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

struct Slice {
  double from = 0, to = 0;
  Json event;
};

class TimelineFile {
 public:
  /// `killed`: its process was, so the list has no end, and leases may have none.
  explicit TimelineFile(const std::string &path, bool killed = false) {
    std::string text = read_text(path);
    if (killed) {
      const size_t comma = text.find_last_of(',');
      assert_true(comma != std::string::npos);
      // Nothing but blanks stands behind the last whole line.
      assert_true(text.find_first_not_of(" \n", comma + 1) == std::string::npos);
      text = text.substr(0, comma) + "]";
    }
    events = Json::parse(text);
    assert_true(events.is_array());
    for (const Json &event : events) check(event);
    killed = killed || has("i", "the trace ended early");
    find_slices(killed);
    check_pairs(killed);
    check_arrows();
  }

  std::vector<Json> all(const char *phase, const char *category = nullptr) const {
    std::vector<Json> found;
    for (const Json &event : events)
      if (event["ph"] == phase && (category == nullptr || event.value("cat", "") == category))
        found.push_back(event);
    return found;
  }
  bool has(const char *phase, const std::string &name) const {
    return std::any_of(events.begin(), events.end(), [&](const Json &event) {
      return event["ph"] == phase && event["name"] == name;
    });
  }
  /// Bytes of all moves on that row.
  uint64_t moved(const std::string &row) const {
    uint64_t bytes = 0;
    for (const Json &event : all("b", "move"))
      if (event["name"] == row) bytes += event["args"]["bytes"].get<uint64_t>();
    return bytes;
  }

  Json events;
  std::map<uint32_t, std::vector<Slice>> slices;  ///< of each track

 private:
  static void check(const Json &event) {
    assert_true(event.is_object());
    const std::string phase = event["ph"].get<std::string>();
    assert_true(event["pid"].is_number_unsigned());
    assert_true(event["name"].is_string());
    if (phase == "M" && event["name"] == "process_name") return;
    assert_true(event["tid"].is_number_unsigned());
    assert_true(event["ts"].is_number() && event["ts"].get<double>() >= 0);
    if (phase == "X") assert_true(event["dur"].is_number() && event["dur"].get<double>() >= 0);
    if (phase == "b" || phase == "e" || phase == "s" || phase == "f")
      assert_true(event["id"].is_number_unsigned() && event["cat"].is_string());
    if (phase == "C")
      for (const auto &[name, value] : event["args"].items()) assert_true(value.is_number());
    assert_true(std::string("MBEXbesfiC").find(phase) != std::string::npos);
  }

  void find_slices(bool killed) {
    std::map<uint32_t, std::vector<Json>> tracks;
    for (const Json &event : events)
      if (event["ph"] == "B" || event["ph"] == "E" || event["ph"] == "X")
        tracks[event["tid"].get<uint32_t>()].push_back(event);
    for (auto &[track, of] : tracks) {
      std::stable_sort(of.begin(), of.end(), [](const Json &a, const Json &b) {
        return a["ts"].get<double>() < b["ts"].get<double>();
      });
      std::vector<Slice> open;
      for (const Json &event : of) {
        const double at = event["ts"].get<double>();
        if (event["ph"] == "B") {
          assert_true(open.empty());  // leases have tracks to themselves
          open.push_back({at, at, event});
        } else if (event["ph"] == "E") {
          assert_int_equal(open.size(), 1);
          open.back().to = at;
          slices[track].push_back(open.back());
          open.pop_back();
        } else {
          slices[track].push_back({at, at + event["dur"].get<double>(), event});
        }
      }
      if (!killed) assert_true(open.empty());
    }
    // Of two on one track either has nothing of the other, or all.
    constexpr double rounding = 0.0015;
    for (const auto &[track, of] : slices)
      for (size_t i = 0; i < of.size(); ++i)
        for (size_t j = i + 1; j < std::min(of.size(), i + 200); ++j) {
          const Slice &a = of[i], &b = of[j];
          const bool apart = a.to <= b.from + rounding || b.to <= a.from + rounding;
          const bool within = (a.from <= b.from + rounding && b.to <= a.to + rounding) ||
                              (b.from <= a.from + rounding && a.to <= b.to + rounding);
          if (!apart && !within)
            fail_msg("slices cross: %s %s", a.event.dump().c_str(), b.event.dump().c_str());
        }
  }

  void check_pairs(bool killed) const {
    std::map<uint64_t, std::pair<Json, int>> moves;
    for (const Json &event : all("b", "move")) {
      const auto id = event["id"].get<uint64_t>();
      assert_true(moves.find(id) == moves.end());
      moves[id] = {event, 1};
    }
    for (const Json &event : all("e", "move")) {
      auto &[begin, count] = moves.at(event["id"].get<uint64_t>());
      assert_int_equal(count--, 1);
      assert_true(begin["name"] == event["name"]);
      assert_true(begin["ts"].get<double>() <= event["ts"].get<double>());
    }
    for (const auto &[id, pair] : moves)
      if (!killed) assert_int_equal(pair.second, 0);
  }

  void check_arrows() const {
    std::map<uint64_t, Json> begins;
    for (const Json &event : all("s")) begins[event["id"].get<uint64_t>()] = event;
    for (const Json &event : all("f")) {
      const Json &begin = begins.at(event["id"].get<uint64_t>());
      assert_true(begin["ts"].get<double>() <= event["ts"].get<double>() + 0.0015);
      assert_true(lies_in(event, "evict"));
      assert_true(lies_in(begin, "wait"));
    }
  }
  /// Whether the event is within a slice of that category on its track.
  bool lies_in(const Json &event, const char *category) const {
    const double at = event["ts"].get<double>();
    const auto found = slices.find(event["tid"].get<uint32_t>());
    if (found == slices.end()) return false;
    return std::any_of(found->second.begin(), found->second.end(), [&](const Slice &slice) {
      return slice.event.value("cat", "") == category && slice.from <= at + 0.0015 &&
             at <= slice.to + 0.0015;
    });
  }
};

}  // namespace weir::test
