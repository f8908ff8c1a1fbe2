// SPDX-License-Identifier: Apache-2.0
//
// SpareNodes: a few nodes of a map that are kept for its next keys, with the memory their values have. For entries that come and go all
// the time, one or two at once. A value that is retired must be empty, and stay usable.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

namespace weir {

template <class Map>
class SpareNodes {
 public:
  /// As map.try_emplace(key, args...). Throws std::bad_alloc with the map unchanged.
  template <class... Args>
  typename Map::iterator have(Map &map, const typename Map::key_type &key, Args &&...args) {
    if (count_ == 0) return map.try_emplace(key, std::forward<Args>(args)...).first;
    if (const auto found = map.find(key); found != map.end()) return found;
    typename Map::node_type node = std::move(nodes_[--count_]);
    node.key() = key;
    return map.insert(std::move(node)).position;
  }
  /// `keep`: the value has little memory.
  void retire(Map &map, typename Map::const_iterator entry, bool keep = true) noexcept {
    if (count_ == nodes_.size() || !keep)
      map.erase(entry);
    else
      nodes_[count_++] = map.extract(entry);
  }

 private:
  std::array<typename Map::node_type, 8> nodes_;
  size_t count_ = 0;
};

}  // namespace weir
