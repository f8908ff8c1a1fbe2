// SPDX-License-Identifier: Apache-2.0
//
// The rules, as of hwloc 2.9's reader. Of format 2 every set is asked for. Format 1 (hwloc 1.x) leaves sets out, has NUMA
// nodes in the tree of CPUs, old names of types, and no order of objects: hwloc sorts them itself.

#include "core/topology/xml_objects.hpp"

#include <array>
#include <bit>
#include <charconv>

namespace weir::topology {
namespace {

constexpr uint64_t most_index = uint64_t{1} << 20U;  // a reader makes a bitmap of so many bits

/// The lowest bit of a set as hwloc writes it, words of 32 bits with the highest first: "0x00000003,,0x1". SIZE_MAX if it
/// is empty; nothing if it is no such set, or an endless one.
std::optional<size_t> first_of(std::string_view set) {
  size_t first = SIZE_MAX, word = 0;
  if (set.empty() || set.size() > size_t{1} << 16U) return {};
  for (size_t end = set.size();; ++word) {
    const size_t comma = end == 0 ? std::string_view::npos : set.rfind(',', end - 1);
    const size_t begin = comma == std::string_view::npos ? 0 : comma + 1;
    std::string_view text = set.substr(begin, end - begin);
    uint32_t value = 0;
    if (!text.empty()) {
      if (!text.starts_with("0x")) return {};
      text.remove_prefix(2);
      const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
      if (error != std::errc{} || stop != text.data() + text.size()) return {};
    }
    if (value != 0 && first == SIZE_MAX)
      first = word * 32 + static_cast<size_t>(std::countr_zero(value));
    if (comma == std::string_view::npos) return first;
    end = comma;
  }
}

constexpr std::string_view cpu_types[] = {"Machine", "Package",  "Group",    "Die",     "Core",
                                          "PU",      "L1Cache",  "L2Cache",  "L3Cache", "L4Cache",
                                          "L5Cache", "L1iCache", "L2iCache", "L3iCache"};
constexpr std::string_view memory_types[] = {"NUMANode", "MemCache"};
constexpr std::string_view other_types[] = {"Bridge", "PCIDev", "OSDev", "Misc"};
constexpr std::string_view old_cpu_types[] = {"Machine", "System", "Socket", "Package", "Group",
                                              "Core",    "PU",     "Cache",  "NUMANode"};
constexpr std::string_view old_roots[] = {"Machine", "System", "NUMANode"};

constexpr std::array<const char *, 4> set_names{"cpuset", "complete_cpuset", "nodeset",
                                                "complete_nodeset"};

/// hwloc follows these sets without a look; objects must be in their order. Groups of nodes without CPUs come anywhere.
Wrong check_sets(std::string_view attributes, std::string_view type, bool ordered, Open *parent) {
  for (const char *name : set_names) {
    const auto set = attribute(attributes, name);
    if (!set || !first_of(*set)) return {"an object has no %.*s that makes sense", name};
  }
  if (!ordered) return {};
  const size_t first = *first_of(*attribute(attributes, "complete_cpuset"));
  if (first == SIZE_MAX)
    return type == "Group" ? Wrong{} : Wrong{"an object of CPUs has none%.*s", ""};
  if (first < parent->next_first) return {"objects are not in the order of CPUs%.*s", ""};
  parent->next_first = first + 1;
  return {};
}

/// The level that hwloc makes of an old cache; it looks a filter up by it.
Wrong check_old_cache(std::string_view attributes) {
  const uint64_t depth = whole_number(attribute(attributes, "depth")).value_or(0);
  const auto type = attribute(attributes, "cache_type");
  const uint64_t kind = type ? whole_number(type).value_or(UINT64_MAX) : 0;
  if (depth == 0 || depth > 5 || kind > 2 || (kind == 2 && depth > 3))
    return {"a cache has no depth and cache_type that make sense%.*s", ""};
  return {};
}

/// Which sets an object of format 1 has; a group that lacks some is passed over, and what is in it counts as beside it.
Wrong check_old_sets(std::string_view attributes, const Open &parent, Open *self) {
  bool has[4] = {};
  for (size_t i = 0; i < set_names.size(); ++i) {
    const auto set = attribute(attributes, set_names[i]);
    has[i] = set.has_value();
    if (set && !first_of(*set)) return {"an object has no %.*s that makes sense", set_names[i]};
  }
  const bool group = self->type == "Group" || self->type == "Misc";
  if (has[0] && !parent.cpus && parent.name == "object")
    return {"\"%.*s\" has a cpuset, and what it is in has none", self->type};
  if (!has[0] && !self->special && parent.name != "object")
    return {"\"%.*s\" has no cpuset: hwloc 2 reads no machine put together of several", self->type};
  if (!has[0] && !self->special) return {"\"%.*s\" lacks its cpuset", self->type};
  const bool whole = has[0] == has[1] && has[2] == has[3] && (has[0] || !has[2]);
  const bool node = self->type == "NUMANode";
  if ((!whole && !(group && has[0])) || (node && !(has[0] && has[1] && has[2] && has[3])))
    return {"\"%.*s\" has some of its sets and lacks others", self->type};
  if (has[2] && !parent.nodes && parent.name == "object")
    return {"\"%.*s\" has a nodeset, and what it is in has none", self->type};
  self->cpus = whole ? has[0] : parent.cpus;
  self->nodes = whole ? has[2] : parent.nodes;
  return {};
}

Wrong check_old(std::string_view attributes, const Open &parent, Open *self) {
  // Remarks with CPUs are groups.
  const bool remark = self->type == "Misc" && !attribute(attributes, "cpuset");
  const bool io = among(other_types, self->type) && self->type != "Misc";
  if (!io && self->type != "Misc" && !among(old_cpu_types, self->type))
    return {"\"%.*s\" is no type of object", self->type};
  self->special = io || remark;
  if (!self->special && parent.special)
    return {"\"%.*s\" is within a device or a remark", self->type};
  if (io && parent.type == "Misc" && parent.special)
    return {"\"%.*s\" is within a remark", self->type};
  if (io && attribute(attributes, "cpuset"))
    return {"\"%.*s\" has a cpuset, and is no object of CPUs", self->type};
  if (self->type == "Cache") {
    const Wrong wrong = check_old_cache(attributes);
    if (wrong.format != nullptr) return wrong;
  }
  return check_old_sets(attributes, parent, self);
}

}  // namespace

std::optional<std::string_view> attribute(std::string_view all, std::string_view name) {
  for (size_t at = 0; at < all.size();) {
    at = all.find_first_not_of(blanks, at);
    if (at == std::string_view::npos) break;
    const size_t equals = all.find('=', at);
    if (equals == std::string_view::npos || equals + 1 >= all.size()) break;
    std::string_view key = all.substr(at, equals - at);
    key = key.substr(0, key.find_last_not_of(blanks) + 1);
    const size_t open = all.find_first_not_of(blanks, equals + 1);
    if (open == std::string_view::npos || (all[open] != '"' && all[open] != '\'')) break;
    const size_t end = all.find(all[open], open + 1);
    if (end == std::string_view::npos) break;
    if (key == name) return all.substr(open + 1, end - open - 1);
    at = end + 1;
  }
  return {};
}

bool repeats_attribute(std::string_view all) {
  for (size_t at = 0; at < all.size();) {
    const size_t begin = all.find_first_not_of(blanks, at), equals = all.find('=', at);
    if (begin == std::string_view::npos || equals == std::string_view::npos) break;
    const size_t open = all.find_first_of("\"'", equals);
    const size_t end = open == std::string_view::npos ? open : all.find(all[open], open + 1);
    if (end == std::string_view::npos) break;
    std::string_view key = all.substr(begin, equals - begin);
    key = key.substr(0, key.find_last_not_of(blanks) + 1);
    at = end + 1;
    if (attribute(all.substr(at), key)) return true;
  }
  return false;
}

std::optional<uint64_t> whole_number(std::optional<std::string_view> text) {
  uint64_t value = 0;
  if (!text) return {};
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size()) return {};
  return value;
}

Wrong ObjectRules::set_version(std::string_view version) {
  const std::string_view major = version.substr(0, version.find('.'));
  if (major != "1" && major != "2") return {"it is of hwloc's format %.*s, not 1 or 2", version};
  format_ = major == "1" ? 1 : 2;
  return {};
}

Wrong ObjectRules::check(std::string_view attributes, Open *parent, Open *self) {
  self->type = attribute(attributes, "type").value_or("");
  const bool root = !any_, old = format_ == 1;
  any_ = true;
  if (root && !(old ? among(old_roots, self->type) : self->type == "Machine"))
    return {"the first object is \"%.*s\", no machine", self->type};
  if (!root && !old && self->type == "Machine") return {"it has more than one machine%.*s", ""};
  if (!root && self->type == "System") return {"\"%.*s\" is within another object", self->type};
  if (parent->name != "object" && (parent->name != "topology"))
    return {"an object is within <%.*s>", parent->name};
  if (!root && parent->name == "topology")
    return {"\"%.*s\" is outside of the machine", self->type};
  // Of a PCI function it is its address.
  const uint64_t most = among(other_types, self->type) ? UINT32_MAX : most_index;
  const auto index = attribute(attributes, "os_index");
  if (index && whole_number(index).value_or(UINT64_MAX) > most)
    return {"\"%.*s\" is no os_index", *index};
  if (old) return check_old(attributes, *parent, self);
  if (among(cpu_types, self->type)) return check_sets(attributes, self->type, true, parent);
  if (among(memory_types, self->type)) return check_sets(attributes, self->type, false, parent);
  return among(other_types, self->type) ? Wrong{}
                                        : Wrong{"\"%.*s\" is no type of object", self->type};
}

}  // namespace weir::topology
