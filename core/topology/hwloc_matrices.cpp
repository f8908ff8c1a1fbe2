// SPDX-License-Identifier: Apache-2.0
//
// hwloc's distance matrices of GPUs, told by their name, or by what they join where a file has no names.

#include "core/topology/hwloc_tree.hpp"

#include <hwloc/distances.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace weir::topology {
namespace {

class Matrices {
 public:
  explicit Matrices(hwloc_topology_t topology) : topology_(topology) {
    unsigned count = 0;
    if (hwloc_distances_get(topology_, &count, nullptr, 0, 0) != 0) return;
    all_.resize(count);
    unsigned got = count;
    if (hwloc_distances_get(topology_, &got, all_.data(), 0, 0) != 0) got = 0;
    all_.resize(std::min(got, count));
  }
  ~Matrices() {
    for (hwloc_distances_s *each : all_) hwloc_distances_release(topology_, each);
  }
  Matrices(const Matrices &) = delete;
  Matrices &operator=(const Matrices &) = delete;

  const std::vector<hwloc_distances_s *> &all() const noexcept { return all_; }

 private:
  hwloc_topology_t topology_;
  std::vector<hwloc_distances_s *> all_;
};

struct Named {
  std::string_view name, devices;  ///< the matrix's, and what the runtime calls its devices
  uint32_t kind;
  bool hops;
};
constexpr std::array<Named, 5> known_matrices{{
    {"NVLinkBandwidth", "nvml", WEIR_LINK_NVLINK, false},
    {"NVLinkBandwidth", "cuda", WEIR_LINK_NVLINK, false},
    {"XGMIBandwidth", "rsmi", WEIR_LINK_INFINITY_FABRIC, false},
    {"XGMIHops", "", WEIR_LINK_INFINITY_FABRIC, true},
    {"XeLinkBandwidth", "ze", WEIR_LINK_XE, false},
}};

const Named *what_is(hwloc_topology_t topology, hwloc_distances_s *matrix) {
  const char *name = hwloc_distances_get_name(topology, matrix);
  if (name != nullptr) {
    const auto found = std::find_if(known_matrices.begin(), known_matrices.end(),
                                    [name](const Named &each) { return each.name == name; });
    return found != known_matrices.end() ? &*found : nullptr;
  }
  if ((matrix->kind & HWLOC_DISTANCES_KIND_MEANS_BANDWIDTH) == 0 || matrix->nbobjs == 0)
    return nullptr;
  const hwloc_obj_t first = matrix->objs[0];
  if (first == nullptr || first->type != HWLOC_OBJ_OS_DEVICE || first->name == nullptr)
    return nullptr;
  for (const Named &each : known_matrices)
    if (!each.devices.empty() && std::string_view(first->name).starts_with(each.devices))
      return &each;
  return nullptr;
}

FabricEnd end_of(hwloc_obj_t object, const KnownObjects &known) {
  if (object == nullptr) return {};
  const auto found = std::lower_bound(
      known.begin(), known.end(), object->gp_index,
      [](const KnownObject &each, uint64_t number) { return each.number < number; });
  return found != known.end() && found->number == object->gp_index ? found->end : FabricEnd{};
}

}  // namespace

Status add_matrices(hwloc_topology_t topology, const KnownObjects &known, Machine *machine) {
  const Matrices matrices(topology);
  // Bandwidths first: hops are of links that are there.
  for (const bool hops : {false, true}) {
    for (hwloc_distances_s *matrix : matrices.all()) {
      const Named *what = what_is(topology, matrix);
      if (what == nullptr || what->hops != hops) continue;
      std::pmr::vector<FabricEnd> ends(machine->memory());
      for (unsigned i = 0; i < matrix->nbobjs; ++i) ends.push_back(end_of(matrix->objs[i], known));
      const std::pmr::vector<uint64_t> values(
          matrix->values, matrix->values + size_t{matrix->nbobjs} * matrix->nbobjs,
          machine->memory());
      WEIR_TRY(add_fabric({what->kind, what->hops, ends, values}, what->name.data(), machine));
    }
  }
  return {};
}

}  // namespace weir::topology
