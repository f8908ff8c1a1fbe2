// SPDX-License-Identifier: Apache-2.0
//
// Numbers are looked up by what a thing is, and given by what its name has free.

#include "core/metrics/numbers.hpp"

#include <set>

namespace weir::metrics {

std::vector<uint32_t> Numbers::number(std::span<const Thing> things) {
  std::map<Key, Given> now;
  std::map<std::string, std::set<uint32_t>> taken;
  for (const Thing &thing : things) {
    const auto had = given_.find({thing.key, thing.more});
    if (had == given_.end() || had->second.name != thing.name) continue;
    now.insert(*had);
    taken[thing.name].insert(had->second.number);
  }
  std::vector<uint32_t> numbers;
  std::map<std::string, uint32_t> next;  // below it all numbers of the name are taken
  for (const Thing &thing : things) {
    const auto [at, fresh] = now.try_emplace({thing.key, thing.more});
    if (fresh) {
      std::set<uint32_t> &of_name = taken[thing.name];
      uint32_t &free = next[thing.name];
      while (of_name.contains(free)) ++free;
      of_name.insert(free);
      at->second = {thing.name, free};
    }
    numbers.push_back(at->second.number);
  }
  given_.swap(now);
  return numbers;
}

}  // namespace weir::metrics
