// SPDX-License-Identifier: Apache-2.0
//
// The placements by name.
#include "choices.hpp"
#include "error.hpp"
#include "placement_kinds.hpp"

namespace weir::tool {
namespace {

constexpr uint64_t most_granules = uint64_t{1} << 26;
constexpr uint64_t few_granules = uint64_t{1} << 24;
constexpr uint64_t granules_a_block = 4096;

}  // namespace

void GranuleCount::check(const std::string &trace, uint64_t peak_live_bytes) const {
  const uint64_t live = peak_live_bytes / granule_;
  const uint64_t most_opened = few_granules + granules_a_block * blocks_;
  if (live <= most_granules && opened_ <= most_opened) return;
  const bool at_once = live > most_granules;
  throw ToolError("trace '" + trace + "': its blocks take " +
                  std::to_string(at_once ? live : opened_) + " granules of " +
                  std::to_string(granule_) + " bytes" + (at_once ? " at once" : "") +
                  ", more than the " + std::to_string(at_once ? most_granules : most_opened) +
                  " that this program follows; a larger --granule has fewer");
}

std::string_view placement_name(PlacementKind kind) {
  switch (kind) {
    case PlacementKind::multi_map:
      return "multi-map";
    case PlacementKind::vmm:
      return "vmm";
    case PlacementKind::segments:
      return "segments";
    case PlacementKind::pytorch:
      return "pytorch";
  }
  return "";
}

std::optional<PlacementKind> placement_of(std::string_view name) {
  for (const PlacementKind kind : all_placements)
    if (name == placement_name(kind)) return kind;
  return std::nullopt;
}

Choices placement_choices() {
  Choices names;
  for (const PlacementKind kind : all_placements) names.push_back(placement_name(kind));
  return names;
}

std::unique_ptr<Placement> make_placement(PlacementKind kind, const PlacementOptions &options) {
  switch (kind) {
    case PlacementKind::multi_map:
      return make_multi_map_placement(options);
    case PlacementKind::vmm:
      return make_vmm_placement(options);
    case PlacementKind::segments:
      return make_segments_placement(options);
    case PlacementKind::pytorch:
      break;
  }
  return make_pytorch_placement(options);
}

}  // namespace weir::tool
