// SPDX-License-Identifier: Apache-2.0
//
// Placement with virtual memory where a granule has one address: blocks lie on a line of addresses and share the granules
// at their boundaries (core/physical/shared_line.hpp). A granule is reserved while a live byte lies in it.
#include "placement_kinds.hpp"

#include "core/physical/shared_line.hpp"

#include <memory_resource>
#include <unordered_map>

namespace weir::tool {
namespace {

using physical::SharedLine;

constexpr uint64_t line_bytes = uint64_t{1} << 47;

class VmmPlacement final : public Placement {
 public:
  explicit VmmPlacement(const PlacementOptions &options)
      : options_(options), line_(line_bytes, options.granule, std::pmr::new_delete_resource()) {}

  bool allocate(uint32_t block, uint64_t bytes) override {
    const SharedLine::Plan plan = line_.choose(bytes);
    if (!plan || counters_.reserved_bytes + plan.opens.count * options_.granule > options_.capacity)
      return false;
    counters_.allocated_bytes += bytes;
    blocks_.emplace(block, line_.commit(plan, block));
    counters_.opened += plan.opens.count;
    counters_.map_calls += plan.opens.count;
    counters_.reserved_bytes = line_.open_pages() * options_.granule;
    counters_.peak_reserved_bytes =
        std::max(counters_.peak_reserved_bytes, counters_.reserved_bytes);
    return true;
  }

  void free(uint32_t block) override {
    const auto found = blocks_.find(block);
    line_.release(found->second);
    blocks_.erase(found);
    counters_.reserved_bytes = line_.open_pages() * options_.granule;
  }

  std::vector<Container> containers() const override {
    std::vector<Container> all;
    uint64_t next = 0;  // the first page not listed yet
    for (SharedLine::Run run = line_.first(); run; run = line_.next(run)) {
      const uint64_t end = line_.address(run) + line_.bytes(run);
      for (uint64_t page = std::max(next, line_.address(run) / options_.granule);
           page * options_.granule < end; ++page) {
        all.push_back({page, options_.granule});
        next = page + 1;
      }
    }
    return all;
  }

  std::vector<Piece> pieces(uint32_t block) const override {
    const SharedLine::Run run = blocks_.at(block);
    std::vector<Piece> all;
    const uint64_t end = line_.address(run) + line_.bytes(run);
    for (uint64_t at = line_.address(run); at < end;) {
      const uint64_t offset = at % options_.granule;
      const uint64_t bytes = std::min(options_.granule - offset, end - at);
      all.push_back({at / options_.granule, offset, bytes});
      at += bytes;
    }
    return all;
  }

 private:
  const PlacementOptions options_;
  SharedLine line_;
  std::unordered_map<uint32_t, SharedLine::Run> blocks_;
};

}  // namespace

std::unique_ptr<Placement> make_vmm_placement(const PlacementOptions &options) {
  return std::make_unique<VmmPlacement>(options);
}

}  // namespace weir::tool
