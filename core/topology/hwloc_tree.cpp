// SPDX-License-Identifier: Apache-2.0
//
// Places of hwloc's tree. Of PCIe only what leads to a device or a switch is kept. A PCI function is one device, whatever
// number of runtimes has given it an OS device; what one runtime counts as several are its partitions.

#include "core/topology/hwloc_tree.hpp"

#include "core/topology/hwloc_views.hpp"
#include "core/topology/text.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

namespace weir::topology {
namespace {

constexpr uint16_t nvidia = 0x10de, amd = 0x1002, intel = 0x8086;

/// GPUs, by their maker and the class that they report.
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

bool is_device(hwloc_obj_t object) {
  const auto shown = [](hwloc_obj_t child) { return runtime_of(child) != Runtime::other; };
  return object->type == HWLOC_OBJ_PCI_DEVICE &&
         (is_gpu(object->attr->pcidev) ||
          std::ranges::any_of(listed(object->io_first_child), shown));
}

bool leads_to_device(hwloc_obj_t object) {
  return is_device(object) || is_switch(object) ||
         std::ranges::any_of(listed(object->io_first_child), leads_to_device);
}

bool is_within(hwloc_obj_t object, hwloc_obj_type_t type) {
  return object->parent != nullptr && object->parent->type == type;
}

/// hwloc has gigabytes a second as a float; what makes no sense is unknown.
uint64_t speed_of(float gigabytes) {
  if (!std::isfinite(gigabytes) || gigabytes <= 0 || gigabytes > 100'000) return 0;
  return static_cast<uint64_t>(std::llround(static_cast<double>(gigabytes) * 1e6)) * 1000;
}

uint64_t kibibytes(std::string_view text) {
  const uint64_t value = whole_number(text).value_or(0);
  return value <= uint64_t{1} << 40U ? value * 1024 : 0;
}

/// Printable, and with no character that separates names in options.
void set_name(std::pmr::string *name, std::string_view text) {
  name->assign(text.substr(0, 63));
  for (char &c : *name)
    if (c < ' ' || c > '~' || c == ',' || c == ';') c = ' ';
}

uint64_t memory_of(hwloc_obj_t object) {
  for (const char *memory : {"CUDAGlobalMemorySize", "RSMIVRAMSize", "OpenCLGlobalMemorySize"})
    if (const uint64_t bytes = kibibytes(info_of(object, memory)); bytes != 0) return bytes;
  return kibibytes(info_of(object, "LevelZeroHBMSize")) +
         kibibytes(info_of(object, "LevelZeroDDRSize")) +
         kibibytes(info_of(object, "LevelZeroMemorySize"));
}

void tell_pci(const hwloc_obj_attr_u::hwloc_pcidev_attr_s &pci, Place *place) {
  place->pci_address = printed("%04x:%02x:%02x.%x", pci.domain, pci.bus, pci.dev, pci.func);
  place->upstream = speed_of(pci.linkspeed);
}

class Walk {
 public:
  Walk(hwloc_topology_t topology, Machine *machine, KnownObjects *known)
      : topology_(topology), machine_(machine), known_(known) {}

  Status run() {
    hwloc_obj_t root = hwloc_get_root_obj(topology_);
    Place &machine = machine_->place(machine_->add(PlaceKind::machine, none));
    machine.memory = root->total_memory;
    set_name(&machine.name, info_of(root, "DMIProductName"));
    if (machine.name.empty()) set_name(&machine.name, info_of(root, "PlatformModel"));
    cpu_side(root, 0);
    for (Runtime runtime : {Runtime::level_zero, Runtime::rsmi, Runtime::hip, Runtime::cuda,
                            Runtime::nvml, Runtime::opencl})
      if (bare_devices(runtime)) break;
    if (too_many_)
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "topology %s: it has more than %u devices",
                  machine_->origin().c_str(), Machine::most_devices);
    return {};
  }

 private:
  void know(hwloc_obj_t object, EndKind kind, uint32_t device) {
    known_->try_emplace(object->gp_index, FabricEnd{kind, device});
  }

  /// Packages, and NUMA nodes in them; a node that is the only one of its object holds what is there.
  void cpu_side(hwloc_obj_t object, uint32_t place) {
    uint32_t nodes = 0, inner = place;
    for (hwloc_obj_t node : listed(object->memory_first_child)) {
      if (node->type != HWLOC_OBJ_NUMANODE) continue;
      ++nodes;
      inner = machine_->add(PlaceKind::numa_node, place);
      machine_->place(inner).number = node->os_index;
      machine_->place(inner).memory = node->attr->numanode.local_memory;
      know(node, EndKind::device, host_end);
    }
    if (nodes != 1) inner = place;
    for (hwloc_obj_t child : listed(object->first_child)) {
      uint32_t at = inner;
      if (child->type == HWLOC_OBJ_PACKAGE) {
        at = machine_->add(PlaceKind::package, inner);
        machine_->place(at).number = child->os_index;  // an unknown one is `none`
        set_name(&machine_->place(at).name, info_of(child, "CPUModel"));
        know(child, EndKind::device, host_end);
      }
      if (child->type != HWLOC_OBJ_PU) cpu_side(child, at);
    }
    for (hwloc_obj_t child : listed(object->io_first_child)) io_side(child, inner);
  }

  void io_side(hwloc_obj_t object, uint32_t parent) {
    if (too_many_ || !leads_to_device(object)) return;
    if (is_switch(object)) {
      const uint32_t place = machine_->add(PlaceKind::switch_port, parent);
      tell_pci(object->attr->pcidev, &machine_->place(place));
      set_name(&machine_->place(place).name, "NVSwitch");
      know(object, EndKind::switch_port, none);
      return;
    }
    if (is_device(object)) return device(object, parent);
    uint32_t at = parent;
    if (object->type == HWLOC_OBJ_BRIDGE) {
      const auto &bridge = object->attr->bridge;
      const bool from_pci = number_of(bridge.upstream_type) == HWLOC_OBJ_BRIDGE_PCI;
      at = machine_->add(from_pci ? PlaceKind::bridge : PlaceKind::host_bridge, parent);
      if (from_pci) tell_pci(bridge.upstream.pci, &machine_->place(at));
    }
    for (hwloc_obj_t child : listed(object->io_first_child)) io_side(child, at);
  }

  /// A PCI function, or an OS device that is in none.
  void device(hwloc_obj_t object, uint32_t parent) {
    const uint32_t place = machine_->add(PlaceKind::device, parent);
    if (object->type == HWLOC_OBJ_PCI_DEVICE) {
      tell_pci(object->attr->pcidev, &machine_->place(place));
      ++functions_;
    }
    machine_->place(place).numa_node = node_of(object);
    become_device(object, place);
    show(Views(object, beside(object)), object, place);
  }

  void become_device(hwloc_obj_t object, uint32_t place) {
    if (machine_->device_count() >= Machine::most_devices) {
      too_many_ = true;
      return;
    }
    machine_->make_device(place);
    know(object, EndKind::device, machine_->place(place).device);
  }

  /// What runtimes say of the card at `place`, and its partitions.
  void show(const Views &views, hwloc_obj_t object, uint32_t place) {
    std::vector<uint32_t> tiles;
    for (size_t i = 0; i < views.part_count() && !too_many_; ++i)
      tiles.push_back(tile(views.teller()->parts[i], place, static_cast<uint32_t>(i)));
    if (too_many_) return;
    bool host_memory = false;
    for (const View &view : views.all()) {
      const bool parts = views.tells_parts(view);
      if (view.whole != nullptr) host_memory |= tell(view.whole, place, true);
      for (size_t i = 0; i < view.parts.size(); ++i)
        host_memory |= tell(view.parts[i], parts ? tiles[i] : place, parts);
    }
    // A slice's name is no card's.
    if (!tiles.empty() && !machine_->place(tiles[0]).slice)
      name_of_model(views.teller()->parts[0], place);
    name_device(object, place);
    for (const uint32_t each : tiles)
      if (machine_->place(each).name.empty())
        set_name(&machine_->place(each).name, machine_->place(place).name);
    settle_memory(place, tiles, views.flat());
    if (host_memory) settle_host_memory(place, tiles);
  }

  /// What one OS device says of the device at `place`; `measures`: and of its size. Whether that works in the host's memory:
  /// GTT is memory of the host that a card may reach, and this one has nothing else.
  bool tell(hwloc_obj_t object, uint32_t place, bool measures) {
    Place &device = machine_->place(place);
    if (device.device != none) know(object, EndKind::device, device.device);
    if (!device.aliases.empty()) device.aliases += ' ';
    device.aliases += text_of(object->name);
    name_of_model(object, place);
    if (measures && device.memory == 0) device.memory = memory_of(object);
    return runtime_of(object) == Runtime::rsmi && kibibytes(info_of(object, "RSMIGTTSize")) != 0 &&
           kibibytes(info_of(object, "RSMIVRAMSize")) == 0;
  }

  void name_of_model(hwloc_obj_t object, uint32_t place) {
    Place &device = machine_->place(place);
    for (const char *model : {"GPUModel", "LevelZeroModel"})
      if (device.name.empty()) set_name(&device.name, info_of(object, model));
  }

  /// Where the card says how much it has and its partitions don't, or all say more than it has, they have it together. The
  /// first of AMD's partitions speaks for the card, and so does each of Level Zero's where they are flat.
  void settle_memory(uint32_t place, const std::vector<uint32_t> &tiles, bool flat) {
    Place &card = machine_->place(place);
    uint64_t sum = 0;
    size_t told = 0;
    for (const uint32_t each : tiles) {
      sum += machine_->place(each).memory;
      told += machine_->place(each).memory != 0 ? 1 : 0;
    }
    if (tiles.empty()) return;
    const uint64_t first = machine_->place(tiles[0]).memory;
    const bool for_card = tiles.size() > 1 && first != 0 && (told == 1 || flat);
    if (for_card && card.memory == 0) card.memory = first;
    const bool one = for_card || told == 0 || (told == tiles.size() && sum > card.memory);
    if (card.memory == 0 || !one) return;
    for (const uint32_t each : tiles) share_memory(each, card.memory, tiles.size());
  }

  void settle_host_memory(uint32_t place, const std::vector<uint32_t> &tiles) {
    Place &card = machine_->place(place);
    card.integrated = true;
    for (const Place &each : machine_->places())
      if (each.kind == PlaceKind::numa_node && each.number == card.numa_node &&
          card.numa_node != none)
        card.memory = each.memory;
    for (const uint32_t each : tiles) {
      machine_->place(each).integrated = true;
      share_memory(each, card.memory, tiles.size());
    }
  }

  void share_memory(uint32_t place, uint64_t bytes, size_t count) {
    machine_->place(place).memory = bytes;
    machine_->place(place).memory_shared = static_cast<uint32_t>(count);
  }

  uint32_t tile(hwloc_obj_t object, uint32_t parent, uint32_t number) {
    const uint32_t place = machine_->add(PlaceKind::tile, parent);
    Place &made = machine_->place(place);
    made.number = number;
    made.numa_node = machine_->place(parent).numa_node;
    made.pci_address = machine_->place(parent).pci_address;
    made.slice = runtime_of(object) == Runtime::cuda;
    become_device(object, place);
    if (runtime_of(object) == Runtime::level_zero)
      set_name(&machine_->place(place).name, text_of(object->name));
    return place;
  }

  void name_device(hwloc_obj_t object, uint32_t place) {
    Place &device = machine_->place(place);
    if (device.name.empty() && object->type == HWLOC_OBJ_PCI_DEVICE)
      set_name(&device.name, info_of(object, "PCIDevice"));
    if (!device.name.empty()) return;
    const auto &pci = object->attr->pcidev;
    set_name(&device.name, device.aliases.empty()
                               ? printed("GPU %04x:%04x", pci.vendor_id, pci.device_id)
                               : std::string(device.aliases.substr(0, device.aliases.find(' '))));
  }

  /// OS devices without a PCI function, of one runtime: those of a second would be the same devices again. They may also be
  /// functions that this runtime has not named, if there are as many. Whether it has any.
  bool bare_devices(Runtime runtime) {
    std::vector<hwloc_obj_t> found;
    size_t named = 0;
    for (hwloc_obj_t object = hwloc_get_next_osdev(topology_, nullptr); object != nullptr;
         object = hwloc_get_next_osdev(topology_, object)) {
      if (runtime_of(object) != runtime) continue;
      if (is_within(object, HWLOC_OBJ_PCI_DEVICE)) ++named;
      if (!within_io(object)) found.push_back(object);
    }
    if (found.empty() || (named == 0 && functions_ >= found.size())) return false;
    for (hwloc_obj_t object : found)
      if (!too_many_) device(object, 0);
    return true;
  }

  /// Of a card, or a part of another OS device.
  static bool within_io(hwloc_obj_t object) {
    return is_within(object, HWLOC_OBJ_PCI_DEVICE) || is_within(object, HWLOC_OBJ_OS_DEVICE) ||
           card_beside(object) != nullptr;
  }

  /// hwloc before 2.12 looks for a partition's function, which is none that the system has, and leaves it below the bridge
  /// where it would be. It is of the card there, if that is the only one and has more of the same runtime.
  static hwloc_obj_t card_beside(hwloc_obj_t object) {
    if (!is_within(object, HWLOC_OBJ_BRIDGE) || runtime_of(object) == Runtime::other)
      return nullptr;
    hwloc_obj_t card = nullptr;
    for (hwloc_obj_t each : listed(object->parent->io_first_child)) {
      if (!is_device(each)) continue;
      if (card != nullptr) return nullptr;
      card = each;
    }
    if (card == nullptr) return nullptr;
    return parts_within(card, runtime_of(object)).empty() ? nullptr : card;
  }

  static std::vector<hwloc_obj_t> beside(hwloc_obj_t card) {
    if (!is_within(card, HWLOC_OBJ_BRIDGE)) return {};
    std::vector<hwloc_obj_t> found = listed(card->parent->io_first_child);
    std::erase_if(found, [&](hwloc_obj_t each) { return card_beside(each) != card; });
    return found;
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
  size_t functions_ = 0;  // devices that are PCI functions
  bool too_many_ = false;
};

}  // namespace

Status add_places(hwloc_topology_t topology, Machine *machine, KnownObjects *known) {
  return Walk(topology, machine, known).run();
}

}  // namespace weir::topology
