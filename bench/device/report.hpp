// SPDX-License-Identifier: Apache-2.0
//
// What bench_device says: figures that explain themselves. Each is a ratio to a yardstick of the same run, with the
// unit and the yardstick in words; the two absolute values are told on a real device only, where they mean something.
// Every figure is a line on standard output as soon as it is known, and all of them are one document in the end.
#pragma once

#include "bench/device/device.hpp"

#include <string>
#include <vector>

namespace weir::bench {

/// One measured thing and its yardstick, repetition by repetition.
class Series {
 public:
  void add(double subject, double yardstick) {
    subjects_.push_back(subject);
    yardsticks_.push_back(yardstick);
    ratios_.push_back(subject / yardstick);
  }
  size_t size() const { return ratios_.size(); }
  Pair pair() const {
    const auto [low, high] = std::minmax_element(ratios_.begin(), ratios_.end());
    return {median(subjects_), median(yardsticks_), median(ratios_), *low, *high};
  }

 private:
  std::vector<double> subjects_;
  std::vector<double> yardsticks_;
  std::vector<double> ratios_;
};

/// How a figure reads.
struct Meaning {
  const char *name;
  const char *what;
  const char *yardstick;
  const char *unit;  ///< of the absolute values; the ratio has none
  const char *goal = "";
};

class Report {
 public:
  Report(const Settings &settings, const Backend &backend)
      : settings_(settings), backend_(backend) {
    Json json("device");
    json.count("schema", 1)
        .text("backend", settings.backend.c_str())
        .text("device", backend.device().name)
        .text("pci_address", backend.device().pci_address)
        .text("runtime_version", backend.version())
        .text("libraries", backend.libraries().c_str())
        .count("real", backend.real() ? 1 : 0)
        .count("memory_total_bytes", backend.device().memory_total)
        .count("granule_bytes", backend.device().granule)
        .count("bytes", settings.bytes)
        .count("page_bytes", settings.page)
        .count("pages_per_buffer", settings.run)
        .text("options", settings.options.c_str())
        .count("repetitions", static_cast<uint64_t>(settings.repetitions));
    say(json);
  }

  /// `extra` adds what else belongs to the figure: the case, or how many.
  template <class Extra>
  void figure(const Meaning &meaning, const Series &series, Extra &&extra) {
    const Pair pair = series.pair();
    Json json = begin(meaning);
    extra(json);
    json.text("yardstick", meaning.yardstick)
        .number("ratio", pair.ratio)
        .number("ratio_low", pair.ratio_low)
        .number("ratio_high", pair.ratio_high)
        .count("samples", series.size());
    if (*meaning.goal != '\0') json.text("goal", meaning.goal);
    if (backend_.real()) {
      json.number("value", pair.subject)
          .number("yardstick_value", pair.yardstick)
          .text("unit", meaning.unit);
    }
    say(json);
  }
  void figure(const Meaning &meaning, const Series &series) {
    figure(meaning, series, [](Json &) {});
  }
  void skipped(const Meaning &meaning, const char *reason) {
    Json json = begin(meaning);
    say(json.text("skipped", reason));
  }

  /// The document, if one was asked for.
  void write() const {
    if (settings_.json.empty()) return;
    std::FILE *file = std::fopen(settings_.json.c_str(), "w");
    bool good = file != nullptr && std::fputs("[\n", file) >= 0;
    for (size_t i = 0; good && i < lines_.size(); ++i)
      good = std::fprintf(file, "%s%s", i == 0 ? "" : ",\n", lines_[i].c_str()) >= 0;
    good = good && std::fputs("\n]\n", file) >= 0;
    if (file == nullptr || std::fclose(file) != 0 || !good) {
      std::perror(settings_.json.c_str());
      std::exit(1);
    }
  }

 private:
  Json begin(const Meaning &meaning) const {
    Json json((std::string("device_") + meaning.name).c_str());
    json.text("backend", settings_.backend.c_str()).text("what", meaning.what);
    return json;
  }
  void say(Json &json) {
    lines_.push_back(json.object());
    json.print();
  }

  const Settings &settings_;
  const Backend &backend_;
  std::vector<std::string> lines_;
};

/// The parts; each makes what it needs and ends it.
void measure_transfers(const Settings &settings, const Backend &backend, Report &report);
void measure_leases(const Settings &settings, const Backend &backend, Report &report);
void measure_kernels(const Settings &settings, const Backend &backend, Report &report);
void measure_registered(const Settings &settings, const Backend &backend, Report &report);
void measure_channel(const Settings &settings, const Backend &backend, Report &report);
void measure_beside(const Settings &settings, const Backend &backend, Report &report);
void measure_allocation(const Settings &settings, const Backend &backend, Report &report);

}  // namespace weir::bench
