// SPDX-License-Identifier: Apache-2.0
//
// The placements by name.
#include "placement_kinds.hpp"

namespace weir::tool {

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
