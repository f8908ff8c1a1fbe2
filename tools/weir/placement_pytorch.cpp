// SPDX-License-Identifier: Apache-2.0
//
// A model of PyTorch's CUDA caching allocator, without expandable segments, by its published rules: sizes rounded to 512
// bytes; two pools, up to 1 MiB and above; segments of 2 MiB for the small pool, of 20 MiB for requests below 10 MiB, else
// rounded to 2 MiB; best fit; a block of the small pool is split if 512 bytes remain, of the large pool if more than 1 MiB
// does; neighbours merge when freed; wholly free segments are given back only when a new one does not fit. A yardstick: it
// copies nothing, and its sizes do not follow the granule.
#include "placement_kinds.hpp"

#include <map>
#include <set>
#include <unordered_map>

namespace weir::tool {
namespace {

constexpr uint64_t mi = uint64_t{1} << 20;
constexpr uint64_t least_block = 512;
constexpr uint64_t most_small = mi;
constexpr uint64_t small_segment = 2 * mi;
constexpr uint64_t large_segment = 20 * mi;
constexpr uint64_t least_own_segment = 10 * mi;
constexpr uint64_t segment_rounding = 2 * mi;

class PytorchPlacement final : public Placement {
 public:
  explicit PytorchPlacement(const PlacementOptions &options) : options_(options) {}

  bool allocate(uint32_t block, uint64_t bytes) override {
    const uint64_t size = round_up(bytes, least_block);
    const bool small = size <= most_small;
    auto fit = free_[small].lower_bound({size, 0, 0});
    if (fit == free_[small].end()) {
      if (!reserve(segment_size(size), small)) return false;
      fit = free_[small].lower_bound({size, 0, 0});
    }
    const Free found = *fit;
    free_[small].erase(fit);
    Segment &segment = segments_.at(found.segment);
    const uint64_t rest = found.size - size;
    const bool split = small ? rest >= least_block : rest > most_small;
    const uint64_t taken = split ? size : found.size;
    if (split) {
      segment.blocks[found.offset + size] = {rest, false};
      free_[small].insert({rest, found.segment, found.offset + size});
    }
    segment.blocks[found.offset] = {taken, true};
    blocks_.emplace(block, Place{found.segment, found.offset, bytes});
    counters_.allocated_bytes += bytes;
    return true;
  }

  void free(uint32_t block) override {
    const auto found = blocks_.find(block);
    const Place place = found->second;
    blocks_.erase(found);
    Segment &segment = segments_.at(place.segment);
    auto &pool = free_[segment.small];
    auto at = segment.blocks.find(place.offset);
    at->second.live = false;
    if (at != segment.blocks.begin()) {
      const auto before = std::prev(at);
      if (!before->second.live) {
        pool.erase({before->second.size, place.segment, before->first});
        before->second.size += at->second.size;
        segment.blocks.erase(at);
        at = before;
      }
    }
    const auto after = std::next(at);
    if (after != segment.blocks.end() && !after->second.live) {
      pool.erase({after->second.size, place.segment, after->first});
      at->second.size += after->second.size;
      segment.blocks.erase(after);
    }
    pool.insert({at->second.size, place.segment, at->first});
  }

  std::vector<Container> containers() const override {
    std::vector<Container> all;
    for (const auto &[id, segment] : segments_) all.push_back({id, segment.bytes});
    return all;
  }

  std::vector<Piece> pieces(uint32_t block) const override {
    const Place &place = blocks_.at(block);
    return {{place.segment, place.offset, place.bytes}};
  }

 private:
  struct Range {
    uint64_t size = 0;
    bool live = false;
  };
  struct Segment {
    uint64_t bytes = 0;
    bool small = false;
    std::map<uint64_t, Range> blocks;  ///< by offset
  };
  /// Ordered as the best fit looks for it; segments are numbered as their addresses would rise.
  struct Free {
    uint64_t size = 0, segment = 0, offset = 0;
    auto operator<=>(const Free &) const = default;
  };
  struct Place {
    uint64_t segment = 0, offset = 0, bytes = 0;
  };

  static uint64_t round_up(uint64_t bytes, uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
  }
  static uint64_t segment_size(uint64_t size) {
    if (size <= most_small) return small_segment;
    return size < least_own_segment ? large_segment : round_up(size, segment_rounding);
  }

  bool reserve(uint64_t bytes, bool small) {
    const auto fits = [&] {
      return bytes <= options_.capacity && counters_.reserved_bytes <= options_.capacity - bytes;
    };
    if (!fits()) release_cached();
    if (!fits()) return false;
    const uint64_t id = next_segment_++;
    segments_.emplace(id, Segment{bytes, small, {{0, {bytes, false}}}});
    free_[small].insert({bytes, id, 0});
    counters_.reserved_bytes += bytes;
    counters_.peak_reserved_bytes =
        std::max(counters_.peak_reserved_bytes, counters_.reserved_bytes);
    ++counters_.opened;
    ++counters_.map_calls;
    return true;
  }

  void release_cached() {
    for (auto it = segments_.begin(); it != segments_.end();) {
      const Segment &segment = it->second;
      if (segment.blocks.size() == 1 && !segment.blocks.begin()->second.live) {
        free_[segment.small].erase({segment.bytes, it->first, 0});
        counters_.reserved_bytes -= segment.bytes;
        it = segments_.erase(it);
      } else {
        ++it;
      }
    }
  }

  const PlacementOptions options_;
  std::map<uint64_t, Segment> segments_;
  std::set<Free> free_[2];  ///< of the large pool, of the small one
  std::unordered_map<uint32_t, Place> blocks_;
  uint64_t next_segment_ = 0;
};

}  // namespace

std::unique_ptr<Placement> make_pytorch_placement(const PlacementOptions &options) {
  return std::make_unique<PytorchPlacement>(options);
}

}  // namespace weir::tool
