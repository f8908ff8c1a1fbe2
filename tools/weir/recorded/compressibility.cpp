// SPDX-License-Identifier: Apache-2.0
//
// Bytes that were compressed and what was left of them, from the last `stats` of each pool.
#include "tools/weir/recorded/compressibility.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

namespace weir::tool::recorded {
namespace {

double figure(const Figures &figures, std::string_view name) {
  const auto found = std::find_if(figures.begin(), figures.end(),
                                  [name](const auto &figure) { return figure.first == name; });
  return found == figures.end() ? 0 : static_cast<double>(found->second);
}

}  // namespace

std::optional<uint64_t> random_words_of(const Program &program) {
  std::map<uint32_t, const Figures *> last;  // they count from the pool's beginning on
  for (const ProgramCall &call : program.calls)
    if (call.kind == CallKind::stats) last[call.pool] = &program.figures[call.thing];
  double in = 0, out = 0;
  for (const auto &[pool, figures] : last) {
    // What did not compress was kept as it was.
    const double kept = figure(*figures, "incompressible_bytes");
    in += figure(*figures, "compressed_in_bytes") + kept;
    out += figure(*figures, "compressed_out_bytes") + kept;
  }
  if (in == 0) return std::nullopt;
  return static_cast<uint64_t>(std::clamp(std::round(64 * out / in), 1.0, 64.0));
}

}  // namespace weir::tool::recorded
