// SPDX-License-Identifier: Apache-2.0
//
// A context's figures as text: its pools describe themselves, one after the other, and the table of metrics does the rest.

#include "core/pool/meter.hpp"

#include "core/metrics/text.hpp"
#include "core/pool/context.hpp"
#include "core/pool/pool.hpp"

#include <algorithm>
#include <memory>
#include <vector>

namespace weir::pool {

std::string Meter::text() {
  std::vector<std::unique_ptr<live::Pool>> pools;
  metrics::Program program;
  program.version = std::to_string(WEIR_VERSION_MAJOR) + "." + std::to_string(WEIR_VERSION_MINOR) +
                    "." + std::to_string(WEIR_VERSION_PATCH);
  (void)context_.any_pool([&](Pool &pool) {
    if (pools.size() == most_pools) {
      ++program.hidden_pools;
    } else {
      pools.push_back(std::make_unique<live::Pool>());
      pool.engine().upkeep().publisher().describe(pools.back().get());
    }
    return false;
  });
  // Their numbers are not in the order in which they were made.
  std::ranges::sort(pools, {}, [](const auto &pool) { return pool->serial; });
  std::vector<metrics::Numbers::Thing> things;
  for (const auto &pool : pools) things.push_back({pool->serial, 0, metrics::text_of(pool->name)});
  std::vector<uint32_t> numbers;
  {
    const Guard hold(mutex_);
    numbers = numbers_.number(things);
  }
  const std::vector<live::Place> places = context_.shown_places();
  std::vector<metrics::Subject> subjects;
  for (size_t i = 0; i < pools.size(); ++i)
    subjects.push_back({metrics::with_pool({}, *pools[i], numbers[i]), pools[i].get(), places,
                        pools[i]->written_ns});
  metrics::TextSink sink;
  metrics::tell({&program, 1}, subjects, sink);
  return sink.take();
}

}  // namespace weir::pool
