// SPDX-License-Identifier: Apache-2.0
//
// Loading hwloc's topology with everything off that would start a runtime or bind a thread.

#include "core/topology/discover.hpp"

#include "core/topology/hwloc_tree.hpp"
#include "core/topology/xml_file.hpp"

#include <cerrno>
#include <cstring>
#include <memory>

namespace weir::topology {
namespace {

struct Destroy {
  void operator()(hwloc_topology_t topology) const noexcept { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;

/// A topology that is set up and not loaded yet; empty without memory.
Topology prepare() {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return {};
  Topology topology(made);
  // One that hwloc does not have here is refused, which is as good. PCI is read from sysfs without "pci", whose library
  // has state of the whole process, and leaves memory behind each time.
  for (const char *off : {"cuda", "nvml", "opencl", "gl", "rsmi", "levelzero", "pci"})
    (void)hwloc_topology_set_components(made, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, off);
  // Places that this process may not run on count too: a GPU may be at one of them.
  (void)hwloc_topology_set_flags(
      made, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED | HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING);
  (void)hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  (void)hwloc_topology_set_cache_types_filter(made, HWLOC_TYPE_FILTER_KEEP_NONE);
  (void)hwloc_topology_set_icache_types_filter(made, HWLOC_TYPE_FILTER_KEEP_NONE);
  for (const hwloc_obj_type_t type : {HWLOC_OBJ_CORE, HWLOC_OBJ_MISC, HWLOC_OBJ_MEMCACHE})
    (void)hwloc_topology_set_type_filter(made, type, HWLOC_TYPE_FILTER_KEEP_NONE);
  return topology;
}

Status take_over(hwloc_topology_t topology, Machine *machine) {
  KnownObjects known(machine->memory());
  WEIR_TRY(add_places(topology, machine, &known));
  WEIR_TRY(add_matrices(topology, known, machine));
  join_tiles(machine);
  add_pcie(machine);
  return {};
}

}  // namespace

Status discover_system(Machine *machine) {
  machine->set_origin("of the system");
  const Topology topology = prepare();
  if (!topology || hwloc_topology_load(topology.get()) != 0)
    return fail(WEIR_ERROR_BACKEND, "hwloc cannot tell the system's topology: %s",
                std::strerror(errno));
  return take_over(topology.get(), machine);
}

Status discover_text(std::string_view xml, const char *origin, Machine *machine) {
  WEIR_TRY(check_xml(xml, origin, machine->memory()));
  machine->set_origin(origin);
  const Topology topology = prepare();
  if (!topology) return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "no memory to read %s", origin);
  // With the NUL at its end, as hwloc's own exports are counted.
  const std::pmr::string text(xml, machine->memory());
  errno = 0;
  if (hwloc_topology_set_xmlbuffer(topology.get(), text.c_str(),
                                   static_cast<int>(text.size() + 1)) != 0 ||
      hwloc_topology_load(topology.get()) != 0) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "topology file %s: hwloc cannot read it as XML of its own (%s)", origin,
                std::strerror(errno));
  }
  return take_over(topology.get(), machine);
}

Status discover_file(const char *path, Machine *machine) {
  std::pmr::string text(machine->memory());
  WEIR_TRY(read_xml_file(path, &text));
  return discover_text(text, path, machine);
}

}  // namespace weir::topology
