// SPDX-License-Identifier: Apache-2.0
//
// TextSink: values as Prometheus' text format 0.0.4. What must hold: whatever a name is, it stays within its quotes.
#pragma once

#include "core/metrics/table.hpp"

namespace weir::metrics {

class TextSink final : public Sink {
 public:
  void family(const Family &family) override;
  void value(const Labels &labels, const Number &number) override;
  void histogram(const Labels &labels, const Histogram &of) override;

  std::string take() { return std::move(text_); }

 private:
  void head();
  void line(const char *suffix, const Labels &labels, std::string_view bound, const Number &number);

  std::string text_;
  Family family_{};
  bool told_ = false;  ///< what the family is
};

/// A histogram's bound as text, in seconds: "1e-06", and "+Inf" for the last.
std::string bound_text(size_t bucket);
/// The same as a number.
double bound_of(size_t bucket) noexcept;
std::string number_text(const Number &number);

}  // namespace weir::metrics
