// SPDX-License-Identifier: Apache-2.0
//
// The table of metrics: each family's name, type, help and labels, and how its values are read from the figures of a pool as the
// live page has them. Programs that serve their own figures and the exporter read this one table.
//
// What must hold: names keep Prometheus' rules (a base unit, `_total` for what only grows); a label is a name or a small number,
// never an address or a process's number; all values of a family are told together. How many there are of a pool is bounded by the
// page's layout.
#pragma once

#include "core/live/layout.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::metrics {

enum class Type : uint8_t { counter, gauge, histogram };
constexpr const char *type_name(Type type) noexcept {
  return type == Type::counter ? "counter" : type == Type::gauge ? "gauge" : "histogram";
}

/// `value` is as it is shown; a format escapes what it must.
struct Label {
  std::string_view name;
  std::string value;
};
using Labels = std::vector<Label>;

/// A decimal with nine digits: counts and nanoseconds are told exactly.
struct Number {
  uint64_t whole = 0;
  uint32_t nano = 0;
  static constexpr Number of_ns(uint64_t ns) noexcept {
    return {ns / 1'000'000'000, static_cast<uint32_t>(ns % 1'000'000'000)};
  }
  /// 0 of 0 is 0.
  static Number ratio(uint64_t of, uint64_t to) noexcept;
};

/// Counts by bucket, not added up; the bounds are Durations'.
struct Histogram {
  std::span<const uint64_t> counts;
  uint64_t sum_ns = 0;
};

/// A program, or what of one shows its pools together.
struct Program {
  Labels labels;
  std::string version;        ///< of its library
  uint64_t hidden_pools = 0;  ///< that are not among the subjects
};

/// A pool.
struct Subject {
  Labels labels;  ///< the program's, `pool` and `pool_number`
  const live::Pool *pool = nullptr;
  std::span<const live::Place> places;  ///< devices of its context
  uint64_t now_ns = 0;                  ///< on the clock of Pool::written_ns
};

struct Family {
  const char *name;
  Type type;
  const char *labels;  ///< beside the subject's, for the documentation; "" for none
  std::string help;
};

/// Takes the values, family by family. No family comes twice; one may have no values.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void family(const Family &family) = 0;
  virtual void value(const Labels &labels, const Number &number) = 0;
  virtual void histogram(const Labels &labels, const Histogram &of) = 0;
};

/// In the order in which tell() tells them.
std::vector<Family> families();
void tell(std::span<const Program> programs, std::span<const Subject> subjects, Sink &sink);

/// Labels of a pool, with its name as it is shown and a number among those of that name.
Labels with_pool(Labels labels, const live::Pool &pool, uint32_t number);
/// A name of the page, as it is shown.
std::string text_of(const std::array<char, live::name_bytes> &name);

}  // namespace weir::metrics
