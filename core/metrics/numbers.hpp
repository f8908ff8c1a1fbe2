// SPDX-License-Identifier: Apache-2.0
//
// Numbers: tells things that have one name apart. Each gets the least number that none of its name has, and keeps it for as long as
// it is there: series of one never go on as another's while it lives.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace weir::metrics {

class Numbers {
 public:
  struct Thing {
    uint64_t key = 0, more = 0;  ///< together they name it for good
    std::string name;
  };
  /// Of each of them, in their order; no two have the same key. All others are forgotten. Throws std::bad_alloc with nothing changed.
  std::vector<uint32_t> number(std::span<const Thing> things);

 private:
  using Key = std::pair<uint64_t, uint64_t>;
  struct Given {
    std::string name;
    uint32_t number = 0;
  };
  std::map<Key, Given> given_;
};

}  // namespace weir::metrics
