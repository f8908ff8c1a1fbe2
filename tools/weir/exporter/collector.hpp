// SPDX-License-Identifier: Apache-2.0
//
// Collector: the figures of all live programs of the user, as the exporter tells them: read from their live pages at each request.
//
// What must hold: a program's series end with it, and no program's series go on as another's while both live. Nothing that a program
// shows can make an answer larger than a bound: pools beyond it are counted.
#pragma once

#include "../live/reader.hpp"

#include "core/metrics/numbers.hpp"
#include "core/metrics/table.hpp"

#include <mutex>
#include <vector>

namespace weir::tool::exporter {

class Collector {
 public:
  static constexpr size_t most_pools = 512;

  explicit Collector(LiveReader reader = LiveReader()) : reader_(std::move(reader)) {}

  /// Any thread; one at a time has a turn.
  void tell(metrics::Sink &sink);

  /// Of the exporter itself; those of pools are metrics::families().
  static std::vector<metrics::Family> own_families();

 private:
  std::mutex mutex_;
  const LiveReader reader_;
  metrics::Numbers programs_, pools_;
};

}  // namespace weir::tool::exporter
