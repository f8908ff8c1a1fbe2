// SPDX-License-Identifier: Apache-2.0
//
// hwloc's distance matrices of GPUs, told by their name, or by what they join where a file has no names.

#include "core/topology/hwloc_tree.hpp"
#include "core/topology/hwloc_views.hpp"

#include <hwloc/distances.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

namespace weir::topology {
namespace {

struct Release {
  hwloc_topology_t topology;
  void operator()(hwloc_distances_s *matrix) const noexcept {
    hwloc_distances_release(topology, matrix);
  }
};
using Matrix = std::unique_ptr<hwloc_distances_s, Release>;

std::vector<Matrix> matrices_of(hwloc_topology_t topology) {
  unsigned count = 0;
  if (hwloc_distances_get(topology, &count, nullptr, 0, 0) != 0) return {};
  std::vector<hwloc_distances_s *> all(count);
  std::vector<Matrix> owned;
  owned.reserve(count);
  if (hwloc_distances_get(topology, &count, all.data(), 0, 0) != 0) return {};
  all.resize(std::min<size_t>(all.size(), count));
  for (hwloc_distances_s *each : all) owned.emplace_back(each, Release{topology});
  return owned;
}

struct Named {
  std::string_view name, devices;  ///< the matrix's, and what the runtime calls its devices
  uint32_t kind;
  bool hops;
};
constexpr Named known_matrices[] = {
    {"NVLinkBandwidth", "nvml", WEIR_LINK_NVLINK, false},
    {"NVLinkBandwidth", "cuda", WEIR_LINK_NVLINK, false},
    {"XGMIBandwidth", "rsmi", WEIR_LINK_INFINITY_FABRIC, false},
    {"XGMIHops", "", WEIR_LINK_INFINITY_FABRIC, true},
    {"XeLinkBandwidth", "ze", WEIR_LINK_XE, false},
};

const Named *what_is(hwloc_topology_t topology, hwloc_distances_s *matrix) {
  const char *name = hwloc_distances_get_name(topology, matrix);
  std::string_view first;  // the name of what it joins first, of bandwidths without a name
  if (name == nullptr && (matrix->kind & HWLOC_DISTANCES_KIND_MEANS_BANDWIDTH) != 0 &&
      matrix->nbobjs != 0 && matrix->objs[0] != nullptr &&
      matrix->objs[0]->type == HWLOC_OBJ_OS_DEVICE)
    first = text_of(matrix->objs[0]->name);
  for (const Named &each : known_matrices)
    if (name != nullptr ? each.name == name
                        : !each.devices.empty() && first.starts_with(each.devices))
      return &each;
  return nullptr;
}

}  // namespace

Status add_matrices(hwloc_topology_t topology, const KnownObjects &known, Machine *machine) {
  const std::vector<Matrix> matrices = matrices_of(topology);
  // Bandwidths first: hops are of links that are there.
  for (const bool hops : {false, true}) {
    for (const Matrix &matrix : matrices) {
      const Named *what = what_is(topology, matrix.get());
      if (what == nullptr || what->hops != hops) continue;
      std::pmr::vector<FabricEnd> ends(matrix->nbobjs, machine->memory());
      for (unsigned i = 0; i < matrix->nbobjs; ++i) {
        if (matrix->objs[i] == nullptr) continue;
        const auto end = known.find(matrix->objs[i]->gp_index);
        if (end != known.end()) ends[i] = end->second;
      }
      const std::span<const uint64_t> values(matrix->values, ends.size() * ends.size());
      WEIR_TRY(add_fabric({what->kind, what->hops, ends, values}, what->name.data(), machine));
    }
  }
  return {};
}

}  // namespace weir::topology
