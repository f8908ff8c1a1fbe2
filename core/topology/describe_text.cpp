// SPDX-License-Identifier: Apache-2.0
//
// The tree, the matrix and its legend. Bridges with one way on are passed over in the tree: they say nothing but that
// they are there.

#include "core/topology/describe.hpp"

#include "core/base/status.hpp"
#include "core/topology/text.hpp"

#include <algorithm>
#include <compare>
#include <map>

namespace weir::topology {
namespace {

std::string plural(uint64_t count, const char *what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

class Tree {
 public:
  Tree(const Machine &machine, const std::vector<Row> &rows)
      : machine_(machine), below_(machine.places().size()), labels_(machine.device_count()) {
    for (uint32_t i = 1; i < machine.places().size(); ++i)
      below_[machine.places()[i].parent].push_back(i);
    for (const Row &row : rows)
      if (row.device != host_end) labels_[row.device] = row.label;
  }

  std::string print(uint32_t index = 0, size_t depth = 0) const {
    const Place &place = machine_.places()[index];
    const bool bridge = place.kind == PlaceKind::bridge || place.kind == PlaceKind::host_bridge;
    std::string text;
    if (!bridge || below_[index].size() > 1) {
      text = std::string(depth * 2, ' ') + line(place) + "\n";
      ++depth;
    }
    for (const uint32_t child : below_[index]) text += print(child, depth);
    return text;
  }

 private:
  std::string line(const Place &place) const {
    static constexpr const char *words[] = {"machine",     "package", "NUMA node", "host bridge",
                                            "PCIe bridge", "device",  "partition", "switch port"};
    std::string text = words[static_cast<size_t>(place.kind)];
    const uint32_t tiles = place.device != none ? machine_.tile_count(place.device) : 0;
    if (place.number != none) text += " " + std::to_string(place.number);
    if (tiles != 0) text = "card";
    if (place.device != none && !labels_[place.device].empty()) text = labels_[place.device];
    const auto add = [&text](const std::string &more) { text += ", " + more; };
    if (!place.name.empty()) add(std::string(place.name));
    if (!place.pci_address.empty() && !inherited(place))
      add("at " + std::string(place.pci_address));
    if (place.memory != 0) add(memory_text(place.memory));
    if (place.memory != 0 && place.memory_shared > 1)
      text += " shared by " + plural(place.memory_shared, "partition");
    if (place.integrated) add("the host's memory");
    if (place.numa_node != none) add("NUMA node " + std::to_string(place.numa_node));
    if (tiles != 0) add(plural(tiles, "partition"));
    if (!place.aliases.empty() && place.aliases != place.name)
      text += " (" + std::string(place.aliases) + ")";
    return text;
  }

  /// Whether the address is only that of the card.
  bool inherited(const Place &place) const {
    return place.kind == PlaceKind::tile &&
           same_address(place.pci_address, machine_.places()[place.parent].pci_address);
  }

  const Machine &machine_;
  std::vector<std::vector<uint32_t>> below_;
  std::vector<std::string> labels_;
};

std::string cell(const Link &link) {
  if (link.kind == WEIR_LINK_NONE) return ".";
  std::string text = short_name(link.kind);
  if (link.bandwidth != 0) text += " " + gigabytes(link.bandwidth);
  return link.direct ? text : text + "*";
}

std::string matrix(const Machine &machine, const std::vector<Row> &rows) {
  std::vector<std::vector<std::string>> cells{{""}};
  for (const Row &row : rows) cells[0].push_back(row.label);
  for (const Row &from : rows) {
    std::vector<std::string> line{from.label};
    for (const Row &to : rows)
      line.push_back(from.device == to.device ? "-" : cell(machine.link(from.device, to.device)));
    cells.push_back(std::move(line));
  }
  std::string text;
  std::vector<size_t> widths(cells[0].size());
  for (const auto &line : cells)
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  for (const auto &line : cells) {
    std::string row;
    for (size_t i = 0; i < line.size(); ++i)
      row += line[i] + std::string(widths[i] + 2 - line[i].size(), ' ');
    text += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

/// What the links of one line of the legend have in common. Measured bandwidths are all different, so they share a line.
struct LinkClass {
  uint32_t kind;
  uint64_t inverted;  ///< bandwidth's complement: the faster come first; 0 of what was measured
  uint32_t hops;
  bool direct;
  uint32_t source;
  uint32_t shared;  ///< by how many partitions of a card
  auto operator<=>(const LinkClass &) const noexcept = default;
};
struct Members {
  uint64_t count = 0, least = UINT64_MAX, most = 0;
};

std::string class_text(const LinkClass &about, const Members &members) {
  if (about.kind == WEIR_LINK_NONE)
    return ".     nothing is known, " + plural(members.count, "way") + "\n";
  std::string text = printed("%-5s %s, ", short_name(about.kind), link_kind_name(about.kind));
  const std::string least = gigabytes(members.least), most = gigabytes(members.most);
  if (members.most == 0)
    text += "speed unknown, ";
  else
    text += (least == most ? most : least + " to " + most) + " GB/s one way (" +
            link_figure_name(about.source) + "), ";
  text += plural(about.hops, "hop") + (about.direct ? "" : ", through the host (*)");
  if (about.shared > 1) text += ", shared by " + plural(about.shared, "partition");
  return text + ": " + plural(members.count, "way") + "\n";
}

/// A line for each class of links in the matrix.
std::string legend(const Machine &machine, const std::vector<Row> &rows) {
  std::map<LinkClass, Members> classes;
  for (const Row &from : rows) {
    for (const Row &to : rows) {
      if (from.device == to.device) continue;
      const Link link = machine.link(from.device, to.device);
      const bool measured = link.source == WEIR_LINK_FIGURE_MEASURED;
      Members &members = classes[{link.kind, measured ? 0 : ~link.bandwidth, link.hops, link.direct,
                                  link.source, machine.sharing(from.device, to.device)}];
      ++members.count;
      members.least = std::min(members.least, link.bandwidth);
      members.most = std::max(members.most, link.bandwidth);
    }
  }
  std::string text;
  for (const auto &[about, members] : classes) text += class_text(about, members);
  return text;
}

}  // namespace

std::vector<Row> rows_of(const Machine &machine) {
  std::vector<Row> rows;
  for (uint32_t i = 0; i < machine.device_count(); ++i) {
    const uint32_t number = machine.device(i).context_device;
    if (number != none)
      rows.push_back({i, "D" + std::to_string(number)});
    else if (machine.device(machine.card(i)).context_device == none && !machine.has_tiles(i))
      rows.push_back({i, "G" + std::to_string(i)});
  }
  std::ranges::stable_sort(
      rows, {}, [&](const Row &row) { return machine.device(row.device).context_device; });
  if (!rows.empty()) rows.push_back({host_end, "host"});
  return rows;
}

std::string gigabytes(uint64_t bandwidth) {
  // In hundredths, tenths or whole ones: about three digits.
  const unsigned decimals = bandwidth >= UINT64_C(999'500'000'000) ? 0
                            : bandwidth >= UINT64_C(9'995'000'000) ? 1
                                                                   : 2;
  static constexpr uint64_t units[] = {1'000'000'000, 100'000'000, 10'000'000},
                            ones[] = {1, 10, 100};
  const uint64_t unit = units[decimals], one = ones[decimals];
  const uint64_t value = bandwidth / unit + (bandwidth % unit >= unit / 2 ? 1 : 0);
  if (value % one == 0) return std::to_string(value / one);
  return printed("%llu.%0*u", llu(value / one), static_cast<int>(decimals),
                 static_cast<unsigned>(value % one));
}

const char *short_name(uint32_t kind) noexcept {
  static constexpr const char *names[] = {".",  "SAME", "PCIE", "NV", "XGMI",
                                          "XE", "MEM",  "C2C",  "NET"};
  return kind < std::size(names) ? names[kind] : "?";
}

std::string memory_text(uint64_t bytes) {
  static constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  uint64_t tenths = bytes > UINT64_MAX / 10 ? UINT64_MAX : bytes * 10;
  size_t unit = 0;
  for (; tenths >= 10240 && unit + 1 < std::size(units); ++unit) tenths = tenths / 1024;
  std::string text = std::to_string(tenths / 10);
  if (tenths % 10 != 0 && tenths < 1000) text += "." + std::to_string(tenths % 10);
  return text + " " + units[unit];
}

std::string describe_text(const Machine &machine) {
  const std::vector<Row> rows = rows_of(machine);
  std::string text =
      "topology " + std::string(machine.origin()) + "\n" + Tree(machine, rows).print();
  if (rows.empty()) return text + "\nno devices\n";
  return text + "\nlinks, from row to column, GB/s one way\n" + matrix(machine, rows) + "\n" +
         legend(machine, rows);
}

}  // namespace weir::topology
