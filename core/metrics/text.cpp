// SPDX-License-Identifier: Apache-2.0
//
// Numbers, labels and histograms as Prometheus' text format has them.

#include "core/metrics/text.hpp"

#include "core/base/waits.hpp"

#include <array>
#include <charconv>
#include <limits>

namespace weir::metrics {
namespace {

void add_escaped(std::string_view from, bool quoted, std::string *text) {
  for (const char each : from) {
    if (each == '\\') {
      *text += "\\\\";
    } else if (each == '\n') {
      *text += "\\n";
    } else if (each == '"' && quoted) {
      *text += "\\\"";
    } else {
      *text += each;
    }
  }
}

}  // namespace

double bound_of(size_t bucket) noexcept {
  const uint64_t ns = Durations::bound_ns(bucket);
  return ns != UINT64_MAX ? static_cast<double>(ns) / 1e9 : std::numeric_limits<double>::infinity();
}

std::string bound_text(size_t bucket) {
  if (Durations::bound_ns(bucket) == UINT64_MAX) return "+Inf";
  std::array<char, 40> text{};
  const auto end = std::to_chars(text.begin(), text.end(), bound_of(bucket));
  return {text.begin(), end.ptr};
}

std::string number_text(const Number &number) {
  std::string text = std::to_string(number.whole);
  if (number.nano == 0) return text;
  const std::string digits = std::to_string(1'000'000'000U + number.nano).substr(1);
  return text + "." + digits.substr(0, digits.find_last_not_of('0') + 1);
}

void TextSink::family(const Family &family) {
  family_ = family;
  told_ = false;
}

void TextSink::head() {
  if (told_) return;
  told_ = true;
  text_ += std::string("# HELP ") + family_.name + " ";
  add_escaped(family_.help, false, &text_);
  text_ += std::string("\n# TYPE ") + family_.name + " " + type_name(family_.type) + "\n";
}

void TextSink::line(const char *suffix, const Labels &labels, std::string_view bound,
                    const Number &number) {
  text_ += family_.name;
  text_ += suffix;
  char before = '{';
  const auto add = [&](std::string_view name, std::string_view value) {
    text_ += before;
    before = ',';
    text_ += name;
    text_ += "=\"";
    add_escaped(value, true, &text_);
    text_ += '"';
  };
  for (const Label &label : labels) add(label.name, label.value);
  if (!bound.empty()) add("le", bound);
  if (before == ',') text_ += '}';
  text_ += ' ';
  text_ += number_text(number);
  text_ += '\n';
}

void TextSink::value(const Labels &labels, const Number &number) {
  head();
  line("", labels, {}, number);
}

void TextSink::histogram(const Labels &labels, const Histogram &of) {
  head();
  uint64_t all = 0;
  for (size_t bucket = 0; bucket < of.counts.size(); ++bucket) {
    all += of.counts[bucket];
    line("_bucket", labels, bound_text(bucket), {all});
  }
  line("_sum", labels, {}, Number::of_ns(of.sum_ns));
  line("_count", labels, {}, {all});
}

}  // namespace weir::metrics
