// SPDX-License-Identifier: Apache-2.0
//
// Writing the graph. The tree to the left of the devices is the way that bytes take to the host: bridges with one way on are
// passed over, as in the text of `weir topo`; the parts of a card that share its link hang at one box for the card.
#include "tools/weir/topo/dot.hpp"

#include "tools/weir/topo/dot_text.hpp"
#include "tools/weir/topo/fabric.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace weir::tool::topo {
namespace {

constexpr size_t longest_name = 34;
/// NUMA nodes without a device are told one by one up to here.
constexpr size_t most_idle_nodes = 8;
/// More single links than these get more room.
constexpr std::ptrdiff_t crowded = 8;

std::string id_of(const char *what, uint32_t number) { return what + std::to_string(number); }

std::string counted(uint64_t count, const char *what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

class Graph {
 public:
  explicit Graph(const MachineTold &machine) : machine_(machine) {
    for (const RowTold &row : machine_.rows) row_of_[row.place] = &row;
    for (const RowTold &row : machine_.rows) hang(row);
    for (const auto &entry : up_) deepest_ = std::max(deepest_, depth(entry.first));
  }

  std::string write() {
    add_memory();
    for (const uint32_t place : drawn_) add_branch(place);
    for (const RowTold &row : machine_.rows) add_device(row);
    add_tree();
    add_fabric();
    std::string text =
        "digraph topology {\n"
        "graph [rankdir=LR, nodesep=0.12, ranksep=0.3, splines=true, pad=0.15, "
        "labelloc=b, "
        "labeljust=l, fontname=\"DejaVu Sans,Verdana,sans-serif\", bgcolor=\"" +
        std::string(page_ink.light) + "\",\nlabel=" + legend() +
        "];\n"
        "node [shape=box, style=\"filled,rounded\", margin=\"0.09,0.05\", "
        "fontname=\"DejaVu Sans,Verdana,sans-serif\"];\n"
        "edge [dir=none, fontname=\"DejaVu Sans,Verdana,sans-serif\"];\n"
        "subgraph cluster_machine {\ncolor=\"" +
        std::string(page_ink.light) + "\"; labelloc=t; labeljust=l;\nlabel=" + title() + ";\n";
    for (const auto &[package, nodes] : inside_)
      text += package == none ? nodes : cluster(package, nodes);
    return text + "}\n" + edges_ + "}\n";
  }

 private:
  const PlaceTold &place(uint32_t index) const { return machine_.places[index]; }

  /// The card that a row is a part of and that has no row itself, or none.
  uint32_t card_of(uint32_t row) const {
    const bool part = place(row).kind == "subdevice" && row_of_.count(place(row).parent) == 0;
    return part ? place(row).parent : none;
  }

  /// Finds out what lies between a device and the host.
  void hang(const RowTold &row) {
    const LinkTold &host = machine_.link(row.place, 0);
    if (host.kind == "none") return;
    uint32_t below = row.place;
    const uint32_t card = card_of(row.place);
    if (card != none) {
      drawn_.insert(card);
      up_[row.place] = card;
      below = card;
    } else if (place(row.place).kind == "subdevice") {
      up_[row.place] = place(row.place).parent;
      return;
    }
    while (host.kind == "pcie" && place(below).parent != none) {
      uint32_t next = place(below).parent;
      while (next != none && is_bridge(next) && branches(next) < 2) next = place(next).parent;
      if (next == none || !is_bridge(next)) break;
      drawn_.insert(next);
      up_[below] = next;
      below = next;
    }
    const uint32_t node = machine_.node_of(row.place);
    up_.try_emplace(below, node != none ? node : 0);
    if (node == none)
      host_used_ = true;
    else
      used_nodes_.insert(node);
  }

  bool is_bridge(uint32_t index) const {
    return place(index).kind == "host_bridge" || place(index).kind == "pcie_bridge";
  }

  /// How many of a bridge's ways lead to a device.
  size_t branches(uint32_t bridge) const {
    std::set<uint32_t> ways;
    for (const RowTold &row : machine_.rows)
      for (uint32_t at = row.place; at != none; at = place(at).parent)
        if (place(at).parent == bridge) ways.insert(at);
    return ways.size();
  }

  size_t depth(uint32_t index) const {
    size_t count = 0;
    for (auto at = up_.find(index); at != up_.end(); at = up_.find(at->second)) ++count;
    return count;
  }

  uint32_t package_of(uint32_t index) const {
    const uint32_t package = machine_.above(index, "package");
    if (package != none) return package;
    const uint32_t node = machine_.node_of(index);
    return node == none ? none : machine_.above(node, "package");
  }

  void add_node(uint32_t package, const std::string &id, const std::vector<Line> &lines, Ink fill,
                Ink edge) {
    put(package, id + " [label=" + label_of(lines) + ", fillcolor=\"" + fill.light +
                     "\", color=\"" + edge.light + "\"];\n");
  }

  void add_memory() {
    std::map<uint32_t, std::vector<uint32_t>> idle;
    for (uint32_t i = 0; i < machine_.places.size(); ++i) {
      if (place(i).kind != "numa_node") continue;
      if (used_nodes_.count(i) == 0)
        idle[package_of(i)].push_back(i);
      else
        add_memory_node(i);
    }
    const bool any = !idle.empty() || !used_nodes_.empty();
    for (const auto &[package, nodes] : idle) {
      if (nodes.size() <= most_idle_nodes) {
        for (const uint32_t node : nodes) add_idle_node(node);
        continue;
      }
      uint64_t bytes = 0;
      for (const uint32_t node : nodes) bytes += place(node).memory;
      add_node(package, id_of("idle", package),
               {{"host memory", text_ink, 12, true},
                {std::to_string(nodes.size()) + " NUMA nodes without a device", soft_ink},
                {bytes != 0 ? memory_text(bytes) : "", text_ink}},
               host_ink, host_edge_ink);
    }
    if (any && !host_used_) return;
    const uint64_t bytes = any ? 0 : place(0).memory;
    add_node(none, "p0",
             {{"host", text_ink, 12, true},
              {any ? "which NUMA node is not told" : "", soft_ink},
              {bytes != 0 ? memory_text(bytes) : "", text_ink}},
             host_ink, host_edge_ink);
  }

  /// It has no line; one that is not drawn keeps it among its neighbours: to the first device at a node after it, else the last.
  void add_idle_node(uint32_t index) {
    add_memory_node(index);
    uint32_t near = none;
    for (const RowTold &row : machine_.rows) {
      const uint32_t node = machine_.node_of(row.place);
      if (node == none || package_of(row.place) != package_of(index)) continue;
      near = row.place;
      if (node > index) break;
    }
    if (near != none)
      edges_ += id_of("p", index) + " -> " + id_of("p", near) + " [style=invis, weight=0];\n";
  }

  void add_memory_node(uint32_t index) {
    const PlaceTold &node = place(index);
    add_node(package_of(index), id_of("p", index),
             {{"host memory", text_ink, 12, true},
              {node.number != none ? "NUMA node " + std::to_string(node.number) : "NUMA node ?",
               soft_ink},
              {node.memory != 0 ? memory_text(node.memory) : "size not told", text_ink}},
             host_ink, host_edge_ink);
  }

  void add_branch(uint32_t index) {
    const PlaceTold &one = place(index);
    const bool card = !is_bridge(index);
    const auto parts =
        std::count_if(machine_.rows.begin(), machine_.rows.end(),
                      [&](const RowTold &row) { return place(row.place).parent == index; });
    const std::string what = card                        ? "card"
                             : one.kind == "host_bridge" ? "PCIe host bridge"
                                                         : "PCIe bridge";
    add_node(package_of(index), id_of("p", index),
             {{what, text_ink, 11, true},
              {card ? shortened(one.name, longest_name) : "", text_ink, 10},
              {card && one.memory != 0 ? memory_of(one) : "", text_ink, 10},
              {card ? counted(static_cast<uint64_t>(parts), "partition") : "", text_ink, 10},
              {shortened(one.pci_address, longest_name), soft_ink, 10}},
             bridge_ink, bridge_edge_ink);
  }

  static std::string memory_of(const PlaceTold &device) {
    if (device.memory == 0) return "memory size not told";
    std::string text = memory_text(device.memory);
    if (device.integrated) text += " of the host's";
    if (device.memory_shared > 1) text += ", shared by " + std::to_string(device.memory_shared);
    return text;
  }

  void add_device(const RowTold &row) {
    const PlaceTold &device = place(row.place);
    const uint32_t node = machine_.node_of(row.place);
    std::string where =
        card_of(row.place) == none ? shortened(device.pci_address, longest_name) : "";
    if (node != none && place(node).number != none)
      where += (where.empty() ? "" : ", ") + ("NUMA node " + std::to_string(place(node).number));
    add_node(package_of(row.place), id_of("p", row.place),
             {{row.label + "  " + memory_of(device), text_ink, 12, true},
              {shortened(device.name, longest_name), text_ink, 10},
              {where, soft_ink, 10}},
             device_ink, device_edge_ink);
  }

  struct Edge {
    std::string from, to;
    std::string kind;
    uint64_t bandwidth = 0;
    std::string text;
    uint32_t package = none;  ///< in whose box the text is
    size_t length = 1;        ///< in ranks
    bool to_hub = false;
  };

  /// A line from left to right. Its text stands in it as a node of its own, so that nothing else is laid over it, and level with
  /// the device.
  void add_edge(const Edge &edge) {
    const KindWords &words = words_of(edge.kind);
    used_kinds_.insert(words.kind);
    const std::string look = std::string(" [color=\"") + words.ink.light +
                             "\", penwidth=" + pen_width(edge.bandwidth) + ", ";
    const std::string end = edge.to_hub ? "" : ":w";
    std::string from = edge.from;
    size_t length = edge.to_hub && !edge.text.empty() ? 4 : (edge.to_hub ? 1 : 2) * edge.length;
    if (!edge.text.empty()) {
      from = id_of("t", texts_++);
      put(edge.package, from + " [shape=plain, style=\"\", margin=0, label=" +
                            label_of({{edge.text, words.ink, 10}}, true) + "];\n");
      edges_ += edge.from + (edge.to_hub ? ":e" : "") + " -> " + from + ":w" + look +
                (edge.to_hub ? "weight=20];\n" : "weight=1];\n");
      from += ":e";
      --length;
    } else if (edge.to_hub) {
      from += ":e";
    }
    edges_ += from + " -> " + edge.to + end + look + "weight=" + (edge.to_hub ? "1" : "20") +
              ", minlen=" + std::to_string(length) + "];\n";
  }

  /// The last comes first: with ranks from left to right Graphviz puts a box's nodes from the bottom up.
  void put(uint32_t package, const std::string &node) {
    inside_[package] = node + inside_[package];
  }

  void add_tree() {
    std::set<uint32_t> told;
    for (const RowTold &row : machine_.rows)
      for (auto at = up_.find(row.place); at != up_.end(); at = up_.find(at->second)) {
        const LinkTold &back = machine_.link(row.place, 0), &there = machine_.link(0, row.place);
        if (!told.insert(at->first).second) continue;
        const size_t length = at->first == row.place ? deepest_ - depth(row.place) + 1 : 1;
        const std::string from = id_of("p", at->second), to = id_of("p", at->first);
        const uint32_t package = package_of(at->first);
        const bool part = at->first == row.place && up_.count(at->second) != 0 &&
                          !is_bridge(at->second) && there.shared > 1;
        if (part) {  // its card's line has the figures
          add_edge({from, to, there.kind, 0, "", package, length});
        } else if (is_bridge(at->first)) {
          const uint64_t figure = place(at->first).upstream;
          add_edge({from, to, "pcie", figure, figure != 0 ? link_text("pcie", figure, figure) : "",
                    package, length});
        } else {
          std::string text = link_text(there.kind, there.bandwidth, back.bandwidth);
          if (there.shared > 1) text += ", shared by " + std::to_string(there.shared);
          if (there.source == "measured" || back.source == "measured") text += ", measured";
          add_edge({from, to, there.kind, std::max(there.bandwidth, back.bandwidth), text, package,
                    length});
        }
      }
  }

  void add_fabric() {
    uint32_t number = 0;
    const std::vector<FabricGroup> groups = fabric_of(machine_);
    const auto singles =
        std::ranges::count(groups, FabricGroup::Shape::single, &FabricGroup::shape);
    // Many lines that cross need room to be told apart.
    const size_t length = singles > crowded ? 4 : 1;
    for (const FabricGroup &group : groups) {
      const std::string id = id_of("f", number++);
      const KindWords &words = words_of(group.kind);
      const bool single = group.shape == FabricGroup::Shape::single;
      const uint32_t home = home_of(group);
      put(home, id + " [label=" + label_of(single ? single_lines(group) : hub_lines(group)) +
                    ", fillcolor=\"" + hub_ink.light + "\", color=\"" + words.ink.light + "\"];\n");
      for (const uint32_t member : group.members) {
        const uint32_t at = machine_.rows[member].place;
        const bool stays = single && package_of(at) == home;
        add_edge({id_of("p", at), id, group.kind, group.bandwidth.high,
                  stays ? "" : member_text(group, member), package_of(at), length, true});
      }
    }
  }

  /// The box that a link stands in: that of the package that both ends are in, if there is one. What is joined over packages stands
  /// to the right of all, and its lines have their text where they leave a box: a line without would have to go around it.
  uint32_t home_of(const FabricGroup &group) const {
    if (group.shape != FabricGroup::Shape::single) return none;
    const uint32_t a = package_of(machine_.rows[group.links.front().a].place),
                   b = package_of(machine_.rows[group.links.front().b].place);
    return a == b ? a : none;
  }

  std::vector<Line> single_lines(const FabricGroup &group) const {
    const FabricLink &link = group.links.front();
    return {{link_text(group.kind, link.to_b, link.to_a), words_of(group.kind).ink, 11, true},
            {machine_.rows[link.a].label + " \xE2\x80\x93 " + machine_.rows[link.b].label, soft_ink,
             10}};
  }

  uint64_t switch_ports() const {
    return static_cast<uint64_t>(
        std::count_if(machine_.places.begin(), machine_.places.end(),
                      [](const PlaceTold &one) { return one.kind == "switch_port"; }));
  }
  bool switched(const FabricGroup &group) const {
    return switch_ports() != 0 && group.kind == "nvlink" && group.every_two;
  }

  static std::string range_of(const Bandwidth &bandwidth) {
    if (bandwidth.high == 0) return "speed unknown";
    const std::string low = gigabytes(bandwidth.low), high = gigabytes(bandwidth.high);
    return (low == high ? low : low + "\xE2\x80\x93" + high) + " GB/s";
  }

  std::vector<Line> hub_lines(const FabricGroup &group) const {
    const KindWords &words = words_of(group.kind);
    const std::string figure = range_of(group.bandwidth);
    if (switched(group))
      return {{"NVSwitch", words.ink, 12, true},
              {counted(switch_ports(), "port"), text_ink},
              {figure + " between any two", text_ink}};
    if (group.shape == FabricGroup::Shape::some)
      return {{words.name, words.ink, 12, true},
              {counted(group.links.size(), "link") + " of " + figure + ",", text_ink},
              {"between some: weir topo prints which", text_ink}};
    return {{words.name, words.ink, 12, true},
            {counted(group.links.size(), "link") + " of " + figure, text_ink},
            {group.every_two ? "between any two" : "between any two that", text_ink},
            {group.every_two ? "" : "have no other link", text_ink}};
  }

  std::string member_text(const FabricGroup &group, uint32_t member) const {
    const std::string figure = range_of(group.bandwidth);
    if (switched(group)) return figure;
    const auto count =
        std::count_if(group.links.begin(), group.links.end(),
                      [&](const FabricLink &link) { return link.a == member || link.b == member; });
    return std::to_string(count) + " \xC3\x97 " + figure;
  }

  std::string cluster(uint32_t package, const std::string &nodes) const {
    const PlaceTold &one = place(package);
    return "subgraph cluster_" + std::to_string(package) +
           " {\nstyle=\"filled,rounded\"; fillcolor=\"" + area_ink.light + "\"; color=\"" +
           frame_ink.light + "\"; margin=12; labelloc=t; labeljust=l;\nlabel=" +
           label_of({{"package " + (one.number != none ? std::to_string(one.number) : "?") +
                          (one.name.empty() ? "" : ", " + shortened(one.name, 50)),
                      soft_ink}}) +
           ";\n" + nodes + "}\n";
  }

  std::string title() const {
    const PlaceTold &machine = place(0);
    std::string what = machine.name.empty() ? "machine" : shortened(machine.name, 60);
    if (machine.memory != 0) what += ", " + memory_text(machine.memory) + " of host memory";
    const auto count = machine_.rows.size();
    std::string origin = machine_.origin;
    if (origin.size() > 70) origin = shortened(origin.substr(origin.find_last_of('/') + 1), 70);
    return label_of(
        {{what, text_ink, 15, true},
         {"topology " + shortened(origin, 70) + (count == 0 ? "; no devices" : ""), soft_ink, 11}});
  }

  static std::string legend_text(const std::string &text, int size, Ink ink) {
    return "<TD ALIGN=\"LEFT\" WIDTH=\"" + std::to_string(width_of(text, size, false)) +
           "\"><FONT POINT-SIZE=\"" + std::to_string(size) + "\" COLOR=\"" + ink.light + "\">" +
           text + "</FONT></TD>";
  }

  std::string legend() const {
    static constexpr const char *notes[] = {
        "Wider lines are faster. GB/s: 10^9 bytes a second, one way.",
        "Not drawn: ways between devices over PCIe or the host;", "weir topo prints these."};
    const std::string table =
        "<TABLE BORDER=\"0\" CELLBORDER=\"0\" CELLPADDING=\"2\" CELLSPACING=\"1\">";
    std::string keys;
    int left = width_of(notes[0], 10, false);
    for (const KindWords &kind : all_kinds()) {
      if (used_kinds_.count(kind.kind) == 0) continue;
      keys += "<TD FIXEDSIZE=\"TRUE\" WIDTH=\"28\" HEIGHT=\"5\" BGCOLOR=\"" +
              std::string(kind.ink.light) + "\"></TD>" + legend_text(kind.name, 11, text_ink);
      left -= 28 + 12 + width_of(kind.name, 11, false);
    }
    // Room that is left over goes to all cells alike, so none is left.
    if (left > 0) keys += "<TD WIDTH=\"" + std::to_string(left) + "\"></TD>";
    std::string rows =
        "<TR><TD ALIGN=\"LEFT\">" + table + "<TR>" + keys + "</TR></TABLE></TD></TR>";
    for (const char *note : notes) rows += "<TR>" + legend_text(note, 10, soft_ink) + "</TR>";
    return "<" + table + rows + "</TABLE>>";
  }

  const MachineTold &machine_;
  std::map<uint32_t, const RowTold *> row_of_;  ///< by place
  std::map<uint32_t, uint32_t> up_;             ///< by place: what it hangs at, to the left of it
  std::set<uint32_t> drawn_;                    ///< bridges that branch, and cards in partitions
  std::set<uint32_t> used_nodes_;
  bool host_used_ = false;  ///< some device is at no NUMA node
  size_t deepest_ = 0;
  std::map<uint32_t, std::string> inside_;  ///< by package: nodes
  std::string edges_;
  uint32_t texts_ = 0;
  std::set<std::string> used_kinds_;
};

}  // namespace

std::string dot_of(const MachineTold &machine) { return Graph(machine).write(); }

std::string dark_rules() {
  std::string rules;
  const auto add = [&rules](Ink ink) {
    const std::string light = ink.light, dark = ink.dark;
    rules += "[fill=\"" + light + "\"]{fill:" + dark + "}[stroke=\"" + light +
             "\"]{stroke:" + dark + "}";
  };
  for (const Ink ink : {page_ink, text_ink, soft_ink, frame_ink, area_ink, host_ink, host_edge_ink,
                        device_ink, device_edge_ink, bridge_ink, bridge_edge_ink, hub_ink})
    add(ink);
  for (const KindWords &kind : all_kinds()) add(kind.ink);
  return rules;
}

}  // namespace weir::tool::topo
