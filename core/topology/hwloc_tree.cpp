// SPDX-License-Identifier: Apache-2.0
//
// Places of hwloc's tree. Of PCIe only what leads to a device or a switch is kept. A PCI function is one device, whatever
// number of runtimes has given it an OS device; the parts of one that Level Zero names are its tiles.

#include "core/topology/hwloc_tree.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace weir::topology {
namespace {

constexpr uint16_t nvidia = 0x10de, amd = 0x1002, intel = 0x8086;

/// hwloc hands on what a file gives for some of its enums, unlooked at: a number until it has been compared.
template <class Enum>
uint32_t number_of(const Enum &value) noexcept {
  static_assert(sizeof(Enum) == sizeof(uint32_t));
  uint32_t number = 0;
  std::memcpy(&number, &value, sizeof number);
  return number;
}

std::string_view text_of(const char *text) { return text != nullptr ? text : ""; }

std::string_view info_of(hwloc_obj_t object, const char *name) {
  return text_of(hwloc_obj_get_info_by_name(object, name));
}

/// What a runtime names its devices; the order is that of preference where no PCI function tells them apart.
enum class Runtime : uint8_t { other, opencl, nvml, cuda, rsmi, level_zero };

Runtime runtime_of(hwloc_obj_t object) {
  if (object->type != HWLOC_OBJ_OS_DEVICE) return Runtime::other;
  const uint32_t kind = number_of(object->attr->osdev.type);
  if (kind != HWLOC_OBJ_OSDEV_GPU && kind != HWLOC_OBJ_OSDEV_COPROC) return Runtime::other;
  // By name: older files have no subtypes.
  const std::string_view name = text_of(object->name);
  const auto numbered = [name](std::string_view prefix) {
    return name.starts_with(prefix) && name.size() > prefix.size() && name[prefix.size()] >= '0' &&
           name[prefix.size()] <= '9';
  };
  if (numbered("cuda")) return Runtime::cuda;
  if (numbered("nvml")) return Runtime::nvml;
  if (numbered("rsmi") || numbered("hip")) return Runtime::rsmi;
  if (numbered("ze")) return Runtime::level_zero;
  if (numbered("opencl")) {
    const std::string_view type = info_of(object, "OpenCLDeviceType");
    return type.empty() || type == "GPU" ? Runtime::opencl : Runtime::other;
  }
  return Runtime::other;
}

/// GPUs, by who makes them and what they say they are.
bool is_gpu(const hwloc_obj_attr_u::hwloc_pcidev_attr_s &pci) {
  const bool maker = pci.vendor_id == nvidia || pci.vendor_id == amd || pci.vendor_id == intel;
  const bool display = pci.class_id == 0x0300 || pci.class_id == 0x0302 || pci.class_id == 0x0380;
  return (maker && display) || (pci.vendor_id == amd && pci.class_id == 0x1200);
}

bool is_switch(hwloc_obj_t object) {
  const auto &pci = object->attr->pcidev;
  return object->type == HWLOC_OBJ_PCI_DEVICE &&
         (text_of(object->subtype) == "NVSwitch" ||
          (pci.vendor_id == nvidia && pci.class_id == 0x0680));
}

bool has_runtime(hwloc_obj_t object) {
  for (hwloc_obj_t child = object->io_first_child; child != nullptr; child = child->next_sibling)
    if (runtime_of(child) != Runtime::other) return true;
  return false;
}

bool is_device(hwloc_obj_t object) {
  return object->type == HWLOC_OBJ_PCI_DEVICE &&
         (is_gpu(object->attr->pcidev) || has_runtime(object));
}

bool leads_to_device(hwloc_obj_t object) {
  if (is_device(object) || is_switch(object)) return true;
  for (hwloc_obj_t child = object->io_first_child; child != nullptr; child = child->next_sibling)
    if (leads_to_device(child)) return true;
  return false;
}

/// hwloc has gigabytes a second as a float; what makes no sense is unknown.
uint64_t speed_of(float gigabytes) {
  if (!std::isfinite(gigabytes) || gigabytes <= 0 || gigabytes > 100'000) return 0;
  return static_cast<uint64_t>(std::llround(static_cast<double>(gigabytes) * 1e6)) * 1000;
}

uint64_t kibibytes(std::string_view text) {
  constexpr uint64_t most = uint64_t{1} << 40U;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && value <= most ? value * 1024
                                                                                   : 0;
}

/// Printable, and with no character that separates names in options.
void set_name(std::pmr::string *name, std::string_view text) {
  name->assign(text.substr(0, 63));
  for (char &c : *name)
    if (c < ' ' || c > '~' || c == ',' || c == ';') c = ' ';
}

void write_address(const hwloc_obj_attr_u::hwloc_pcidev_attr_s &pci, std::pmr::string *address) {
  char text[32];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", pci.domain, pci.bus, pci.dev, pci.func);
  *address = text;
}

class Walk {
 public:
  Walk(hwloc_topology_t topology, Machine *machine, KnownObjects *known)
      : topology_(topology), machine_(machine), known_(known) {}

  Status run() {
    hwloc_obj_t root = hwloc_get_root_obj(topology_);
    Place &machine = machine_->add(PlaceKind::machine, none);
    machine.memory = root->total_memory;
    set_name(&machine.name, info_of(root, "DMIProductName"));
    if (machine.name.empty()) set_name(&machine.name, info_of(root, "PlatformModel"));
    cpu_side(root, 0);
    for (Runtime runtime :
         {Runtime::level_zero, Runtime::rsmi, Runtime::cuda, Runtime::nvml, Runtime::opencl})
      bare_devices(runtime);
    if (machine_->device_count() > Machine::most_devices || too_many_)
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "topology %s: it has more than %u devices",
                  machine_->origin().c_str(), Machine::most_devices);
    return {};
  }

 private:
  void know(hwloc_obj_t object, EndKind kind, uint32_t device) {
    known_->push_back({object->gp_index, {kind, device}});
  }

  uint32_t add(PlaceKind kind, uint32_t parent) {
    machine_->add(kind, parent);
    return static_cast<uint32_t>(machine_->places().size() - 1);
  }

  /// Packages, and NUMA nodes in them; a node that is the only one of its object holds what is there.
  void cpu_side(hwloc_obj_t object, uint32_t place) {
    uint32_t nodes = 0, inner = place;
    for (hwloc_obj_t node = object->memory_first_child; node != nullptr;
         node = node->next_sibling) {
      if (node->type != HWLOC_OBJ_NUMANODE) continue;
      ++nodes;
      inner = add(PlaceKind::numa_node, place);
      machine_->place(inner).number = node->os_index;
      machine_->place(inner).memory = node->attr->numanode.local_memory;
      know(node, EndKind::host, none);
    }
    if (nodes != 1) inner = place;
    for (hwloc_obj_t child = object->first_child; child != nullptr; child = child->next_sibling) {
      uint32_t at = inner;
      if (child->type == HWLOC_OBJ_PACKAGE) {
        at = add(PlaceKind::package, inner);
        machine_->place(at).number =
            child->os_index != HWLOC_UNKNOWN_INDEX ? child->os_index : none;
        set_name(&machine_->place(at).name, info_of(child, "CPUModel"));
        know(child, EndKind::host, none);
      }
      if (child->type != HWLOC_OBJ_PU) cpu_side(child, at);
    }
    for (hwloc_obj_t child = object->io_first_child; child != nullptr; child = child->next_sibling)
      io_side(child, inner);
  }

  void io_side(hwloc_obj_t object, uint32_t parent) {
    if (too_many_ || !leads_to_device(object)) return;
    if (is_switch(object)) {
      const uint32_t place = add(PlaceKind::switch_port, parent);
      write_address(object->attr->pcidev, &machine_->place(place).pci_address);
      machine_->place(place).upstream = speed_of(object->attr->pcidev.linkspeed);
      set_name(&machine_->place(place).name, "NVSwitch");
      know(object, EndKind::switch_port, none);
      return;
    }
    if (is_device(object)) return pci_device(object, parent);
    uint32_t at = parent;
    if (object->type == HWLOC_OBJ_BRIDGE) {
      const auto &bridge = object->attr->bridge;
      const bool from_pci = number_of(bridge.upstream_type) == HWLOC_OBJ_BRIDGE_PCI;
      at = add(from_pci ? PlaceKind::bridge : PlaceKind::host_bridge, parent);
      if (from_pci) {
        machine_->place(at).upstream = speed_of(bridge.upstream.pci.linkspeed);
        write_address(bridge.upstream.pci, &machine_->place(at).pci_address);
      }
    }
    for (hwloc_obj_t child = object->io_first_child; child != nullptr; child = child->next_sibling)
      io_side(child, at);
  }

  void pci_device(hwloc_obj_t object, uint32_t parent) {
    const uint32_t place = add(PlaceKind::device, parent);
    write_address(object->attr->pcidev, &machine_->place(place).pci_address);
    machine_->place(place).upstream = speed_of(object->attr->pcidev.linkspeed);
    machine_->place(place).numa_node = node_of(object);
    become_device(object, place);
    for (hwloc_obj_t child = object->io_first_child; child != nullptr; child = child->next_sibling)
      os_device(child, place);
    name_device(object, place);
  }

  void become_device(hwloc_obj_t object, uint32_t place) {
    if (machine_->device_count() >= Machine::most_devices) {
      too_many_ = true;
      return;
    }
    machine_->make_device(place);
    know(object, EndKind::device, machine_->place(place).device);
  }

  /// What a runtime says of the device at `place`.
  void os_device(hwloc_obj_t object, uint32_t place) {
    if (runtime_of(object) == Runtime::other) return;
    Place &device = machine_->place(place);
    if (device.device != none) know(object, EndKind::device, device.device);
    if (!device.aliases.empty()) device.aliases += ' ';
    device.aliases += text_of(object->name);
    for (const char *model : {"GPUModel", "LevelZeroModel"})
      if (device.name.empty()) set_name(&device.name, info_of(object, model));
    for (const char *memory : {"CUDAGlobalMemorySize", "RSMIVRAMSize", "OpenCLGlobalMemorySize"})
      if (device.memory == 0) device.memory = kibibytes(info_of(object, memory));
    if (device.memory == 0)
      device.memory = kibibytes(info_of(object, "LevelZeroHBMSize")) +
                      kibibytes(info_of(object, "LevelZeroDDRSize"));
    uint32_t number = 0;
    for (hwloc_obj_t part = object->io_first_child; part != nullptr; part = part->next_sibling)
      if (runtime_of(part) == Runtime::level_zero) tile(part, place, number++);
  }

  void tile(hwloc_obj_t object, uint32_t parent, uint32_t number) {
    const uint32_t place = add(PlaceKind::tile, parent);
    machine_->place(place).number = number;
    machine_->place(place).numa_node = machine_->place(parent).numa_node;
    machine_->place(place).pci_address = machine_->place(parent).pci_address;
    become_device(object, place);
    Place &made = machine_->place(place);
    made.aliases = text_of(object->name);
    set_name(&made.name, text_of(object->name));
    made.memory = kibibytes(info_of(object, "LevelZeroHBMSize")) +
                  kibibytes(info_of(object, "LevelZeroDDRSize"));
  }

  void name_device(hwloc_obj_t object, uint32_t place) {
    Place &device = machine_->place(place);
    if (device.name.empty() && object->type == HWLOC_OBJ_PCI_DEVICE)
      set_name(&device.name, info_of(object, "PCIDevice"));
    if (!device.name.empty()) return;
    if (!device.aliases.empty()) {
      set_name(&device.name, std::string_view(device.aliases).substr(0, device.aliases.find(' ')));
      return;
    }
    char text[32];
    const auto &pci = object->attr->pcidev;
    std::snprintf(text, sizeof text, "GPU %04x:%04x", pci.vendor_id, pci.device_id);
    set_name(&device.name, text);
  }

  /// OS devices without a PCI function, of one runtime: those of a second would be the same devices again.
  void bare_devices(Runtime runtime) {
    if (bare_) return;
    for (hwloc_obj_t object = hwloc_get_next_osdev(topology_, nullptr); object != nullptr;
         object = hwloc_get_next_osdev(topology_, object)) {
      if (runtime_of(object) != runtime || within_io(object)) continue;
      bare_ = true;
      const uint32_t place = add(PlaceKind::device, 0);
      machine_->place(place).numa_node = node_of(object);
      become_device(object, place);
      os_device(object, place);
      name_device(object, place);
      if (too_many_) return;
    }
  }

  /// Of a PCI function, or a part of another OS device.
  static bool within_io(hwloc_obj_t object) {
    return object->parent != nullptr && (object->parent->type == HWLOC_OBJ_PCI_DEVICE ||
                                         object->parent->type == HWLOC_OBJ_OS_DEVICE);
  }

  /// The nearest node; unknown where all of several are as near.
  uint32_t node_of(hwloc_obj_t object) const {
    hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology_, object);
    if (near == nullptr || near->nodeset == nullptr) return none;
    const int first = hwloc_bitmap_first(near->nodeset);
    const bool one = hwloc_bitmap_weight(near->nodeset) == 1;
    if (first < 0 || (!one && near->parent == nullptr)) return none;
    return static_cast<uint32_t>(first);
  }

  hwloc_topology_t topology_;
  Machine *machine_;
  KnownObjects *known_;
  bool bare_ = false, too_many_ = false;
};

}  // namespace

Status add_places(hwloc_topology_t topology, Machine *machine, KnownObjects *known) {
  WEIR_TRY(Walk(topology, machine, known).run());
  std::sort(known->begin(), known->end(),
            [](const KnownObject &a, const KnownObject &b) { return a.number < b.number; });
  return {};
}

}  // namespace weir::topology
