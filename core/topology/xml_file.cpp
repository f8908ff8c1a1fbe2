// SPDX-License-Identifier: Apache-2.0
//
// One pass over the tags. It is no XML parser: it checks that tags nest, the few attributes and counts that a reader would
// allocate by, and what hwloc's reader takes for granted of objects, or refuses without a word: types, sets, and what may be
// in what. Nothing here follows a set or keeps an object.
//
// The rules are those of hwloc 2.9's reader. Of format 2 every set is asked for. Format 1 (hwloc 1.x) leaves sets out, has
// NUMA nodes in the tree of CPUs, old names of types, and no order of objects: hwloc sorts them itself.

#include "core/topology/xml_file.hpp"

#include "core/topology/text.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

namespace weir::topology {
namespace {

constexpr size_t most_bytes = size_t{64} << 20U;
constexpr size_t deepest = 200;  // nested elements: a reader recurses
constexpr uint64_t most_objects = 200'000;
constexpr uint64_t most_matrix = 1024;               // a side
constexpr uint64_t most_index = uint64_t{1} << 20U;  // a reader makes a bitmap of so many bits

using Text = std::string_view;
constexpr Text blanks = " \t\r\n";
constexpr Text document_types[] = {"<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">",
                                   "<!DOCTYPE topology SYSTEM \"hwloc.dtd\">"};
constexpr Text with_text[] = {"indexes", "u64values", "userdata", "info"};
constexpr Text within_old_objects[] = {"object", "info", "page_type", "distances", "userdata"};
constexpr Text cpu_types[] = {"Machine", "Package",  "Group",    "Die",     "Core",
                              "PU",      "L1Cache",  "L2Cache",  "L3Cache", "L4Cache",
                              "L5Cache", "L1iCache", "L2iCache", "L3iCache"};
constexpr Text memory_types[] = {"NUMANode", "MemCache"};
constexpr Text other_types[] = {"Bridge", "PCIDev", "OSDev", "Misc"};
constexpr Text old_cpu_types[] = {"Machine", "System", "Socket", "Package", "Group",
                                  "Core",    "PU",     "Cache",  "NUMANode"};
constexpr Text old_roots[] = {"Machine", "System", "NUMANode"};
constexpr const char *set_names[] = {"cpuset", "complete_cpuset", "nodeset", "complete_nodeset"};

template <size_t count>
bool among(const Text (&names)[count], Text name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

/// name="value" with blanks before it.
struct Attribute {
  Text name, value;
  bool sound = false;  ///< hwloc reads it; where one is not, it passes over what is left of the tag
};

constexpr Text entities[] = {"#9", "#10", "#13", "quot", "lt", "gt", "amp"};
bool plain(Text value) {
  for (size_t at = 0; (at = value.find('&', at)) != Text::npos; ++at)
    if (!among(entities, value.substr(at + 1, value.find(';', at) - at - 1))) return false;
  return true;
}

/// Cuts the first attribute off, if there is one.
std::optional<Attribute> next_attribute(Text *rest) {
  const size_t begin = rest->find_first_not_of(" \t\n"), equals = rest->find('=');
  const size_t open = rest->find_first_of("\"'", equals);
  const size_t end = open < rest->size() ? rest->find((*rest)[open], open + 1) : Text::npos;
  if (end == Text::npos) return {};
  const Text key = rest->substr(begin, equals - begin);
  Attribute found{key, rest->substr(open + 1, end - open - 1)};
  found.sound = !key.empty() && open == equals + 1 && (*rest)[open] == '"' && plain(found.value) &&
                key.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == Text::npos;
  rest->remove_prefix(end + 1);
  return found;
}

std::optional<Text> attribute(Text all, Text name) {
  for (auto each = next_attribute(&all); each && each->sound; each = next_attribute(&all))
    if (each->name == name) return each->value;
  return {};
}

std::optional<uint64_t> number_in(Text attributes, Text name) {
  const std::optional<Text> text = attribute(attributes, name);
  return text ? whole_number(*text) : std::nullopt;
}

/// Of which a reader would take the last, and attribute() the first.
bool repeats_attribute(Text all) {
  while (const auto each = next_attribute(&all))
    if (attribute(all, each->name)) return true;
  return false;
}

/// The lowest bit of a set as hwloc writes it, words of 32 bits with the highest first: "0x00000003,,0x1". SIZE_MAX if it
/// is empty; nothing if it is no such set, or an endless one.
std::optional<size_t> first_of(Text set) {
  size_t first = SIZE_MAX;
  if (set.empty() || set.front() == ',' || set.size() > size_t{1} << 16U) return {};
  for (size_t word = 0;; ++word) {
    const size_t comma = set.rfind(',');
    const Text text = set.substr(comma + 1);  // from the beginning, where there is no comma
    const auto value = text.starts_with("0x") ? whole_number<uint32_t>(text.substr(2), 16)
                                              : std::optional<uint32_t>();
    if (!text.empty() && !value) return {};
    if (value.value_or(0) != 0 && first == SIZE_MAX)
      first = word * 32 + static_cast<size_t>(std::countr_zero(*value));
    if (comma == Text::npos) return first;
    set = set.substr(0, comma);
  }
}

uint64_t words(Text text) {
  uint64_t count = 0;
  for (size_t at = text.find_first_not_of(blanks); at != Text::npos; ++count)
    at = text.find_first_not_of(blanks, text.find_first_of(blanks, at));
  return count;
}

struct Tag {
  Text name, attributes;
  bool empty;  ///< it opens nothing
};

/// An element that is open; the latter half is of objects.
struct Open {
  Text name, type;
  size_t next_first = 0;             ///< the lowest first CPU that the next object in it may have
  bool cpus = false, nodes = false;  ///< has sets of these
  bool special = false;              ///< a bridge, a device or a remark, which has none
};

class Scan {
 public:
  Scan(Text text, const char *origin, std::pmr::memory_resource *memory)
      : rest_(text), all_(text), origin_(origin), open_(memory) {}

  Status run() {
    while (true) {
      const size_t at = rest_.find('<');
      WEIR_TRY(content(rest_.substr(0, at)));
      if (at == Text::npos) break;
      rest_.remove_prefix(at);
      const bool markup = rest_.starts_with("<!") || rest_.starts_with("<?");
      WEIR_TRY(markup ? skip_markup() : read_tag());
    }
    if (!open_.empty()) return bad("it ends within <", open_.back().name, ">");
    if (!root_) return bad("it is no XML");
    if (objects_ == 0) return bad("it has no machine");
    // hwloc gives a machine of format 1 a node if it has none.
    if (!numa_ && !old_) return bad("it has no NUMA node");
    return {};
  }

 private:
  /// What is wrong, with what it is about in its midst.
  Status bad(const char *before, Text about = "", const char *after = "") const {
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "topology file %s: byte %zu: %s%.*s%s", origin_,
                all_.size() - rest_.size(), before,
                static_cast<int>(std::min<size_t>(about.size(), 80)), about.data(), after);
  }

  /// Comments, declarations and the document type. Entities are what files use to grow beyond their size.
  Status skip_markup() {
    if (rest_.starts_with("<!--")) return skip_past("-->");
    if (rest_.starts_with("<?")) return skip_past("?>");
    if (!rest_.starts_with("<!DOCTYPE"))
      return bad("\"", rest_.substr(0, 12), "\" is not understood");
    for (const Text type : document_types)
      if (rest_.starts_with(type)) return skip_past(">");
    return bad("it has a document type of its own");
  }

  Status skip_past(Text end) {
    const size_t at = rest_.find(end);
    if (at == Text::npos) return bad("it ends before \"", end, "\"");
    rest_.remove_prefix(at + end.size());
    return {};
  }

  /// A tag ends at the first '>' that is not quoted.
  Status read_tag() {
    constexpr Text marks = "<>\"'";
    size_t end = rest_.find_first_of(marks, 1);
    while (end < rest_.size() && (rest_[end] == '"' || rest_[end] == '\'')) {
      const size_t close = std::min(rest_.find(rest_[end], end + 1), rest_.size());
      end = rest_.find_first_of(marks, close + 1);
    }
    if (end == Text::npos || rest_[end] != '>') return bad("it ends within a tag");
    Text inner = rest_.substr(1, end - 1);
    const bool closes = inner.starts_with('/');
    if (closes) inner.remove_prefix(1);
    const bool empty = inner.ends_with('/');
    if (empty) inner.remove_suffix(1);
    const Text name = inner.substr(0, inner.find_first_of(blanks));
    const Tag tag{name, inner.substr(name.size()), empty};
    if (name.empty()) return bad("a tag has no name");
    if (repeats_attribute(tag.attributes)) return bad("<", name, "> has an attribute twice");
    rest_.remove_prefix(end + 1);
    return closes ? close_tag(name) : open_tag(tag);
  }

  Status open_tag(const Tag &tag) {
    Open self;
    self.name = tag.name;
    if (open_.empty()) WEIR_TRY(open_root(tag));
    if (tag.name == "object") WEIR_TRY(check_object(tag.attributes, &self));
    if (old_ && !open_.empty()) WEIR_TRY(check_old_element(tag));
    if (tag.name == "distances2" || tag.name == "distances2hetero") WEIR_TRY(open_matrix(tag));
    if (tag.empty) return matrix_depth_ == open_.size() + 1 ? close_matrix() : Status{};
    if (open_.size() >= deepest) return bad("elements are nested too deep at <", tag.name, ">");
    open_.push_back(self);
    return {};
  }

  /// Of a format that hwloc has written once, and reads.
  Status open_root(const Tag &tag) {
    if (root_ || tag.name != "topology") return bad("<", tag.name, "> is no topology of hwloc");
    root_ = true;
    const Text version = attribute(tag.attributes, "version").value_or("1");
    const Text major = version.substr(0, version.find('.'));
    if (major != "1" && major != "2")
      return bad("it is of hwloc's format ", version, ", not 1 or 2");
    old_ = major == "1";
    return {};
  }

  Status close_tag(Text name) {
    if (open_.empty() || open_.back().name != name)
      return bad("</", name, "> closes what is not open");
    const bool matrix = matrix_depth_ == open_.size();
    open_.pop_back();
    return matrix ? close_matrix() : Status{};
  }

  Status check_object(Text attributes, Open *self) {
    if (++objects_ > most_objects) return bad("it has too many objects");
    Open &parent = open_.back();
    const bool root = objects_ == 1;
    const Text type = attribute(attributes, "type").value_or("");
    self->type = type;
    if (root && !(old_ ? among(old_roots, type) : type == "Machine"))
      return bad("the first object is \"", type, "\", no machine");
    if (!root && !old_ && type == "Machine") return bad("it has more than one machine");
    if (!root && type == "System") return bad("\"", type, "\" is within another object");
    if (parent.name != "object" && parent.name != "topology")
      return bad("an object is within <", parent.name, ">");
    if (!root && parent.name == "topology") return bad("\"", type, "\" is outside of the machine");
    const bool other = among(other_types, type);
    // Of a PCI function it is its address.
    const uint64_t most = other ? UINT32_MAX : most_index;
    const auto index = attribute(attributes, "os_index");
    if (index && whole_number(*index).value_or(UINT64_MAX) > most)
      return bad("\"", *index, "\" is no os_index");
    numa_ = numa_ || type == "NUMANode";
    if (old_) return check_old_object(attributes, parent, self);
    if (among(cpu_types, type)) return check_sets(attributes, type, &parent);
    if (among(memory_types, type)) return check_sets(attributes, type, nullptr);
    return other ? Status{} : bad("\"", type, "\" is no type of object");
  }

  /// hwloc follows these sets without a look; objects of CPUs must be in their order in *ordered. Groups of nodes without CPUs
  /// come anywhere.
  Status check_sets(Text attributes, Text type, Open *ordered) {
    for (const char *name : set_names) {
      const auto set = attribute(attributes, name);
      if (!set || !first_of(*set)) return bad("an object has no ", name, " that makes sense");
    }
    if (ordered == nullptr) return {};
    const size_t first = *first_of(*attribute(attributes, "complete_cpuset"));
    if (first == SIZE_MAX) return type == "Group" ? Status{} : bad("an object of CPUs has none");
    if (first < ordered->next_first) return bad("objects are not in the order of CPUs");
    ordered->next_first = first + 1;
    return {};
  }

  Status check_old_object(Text attributes, const Open &parent, Open *self) {
    const bool misc = self->type == "Misc", io = !misc && among(other_types, self->type);
    const bool cpuset = attribute(attributes, "cpuset").has_value();
    if (!io && !misc && !among(old_cpu_types, self->type))
      return bad("\"", self->type, "\" is no type of object");
    self->special = io || (misc && !cpuset);  // remarks with CPUs are groups
    if (!self->special && parent.special)
      return bad("\"", self->type, "\" is within a device or a remark");
    if (io && parent.type == "Misc" && parent.special)
      return bad("\"", self->type, "\" is within a remark");
    if (io && cpuset) return bad("\"", self->type, "\" has a cpuset, and is no object of CPUs");
    if (self->type == "Cache" && !is_old_cache(attributes))
      return bad("a cache has no depth and cache_type that make sense");
    return check_old_sets(attributes, parent, self);
  }

  /// Whether hwloc makes a level of it that there is; it looks a filter up by it.
  static bool is_old_cache(Text attributes) {
    const uint64_t depth = number_in(attributes, "depth").value_or(0);
    const Text type = attribute(attributes, "cache_type").value_or("0");
    const uint64_t kind = whole_number(type).value_or(UINT64_MAX);
    return depth != 0 && depth <= 5 && kind <= 2 && (kind != 2 || depth <= 3);
  }

  /// Which sets an object of format 1 has; a group that lacks some is passed over, and what is in it counts as beside it.
  Status check_old_sets(Text attributes, const Open &parent, Open *self) {
    bool has[4] = {};
    for (size_t i = 0; i < std::size(set_names); ++i) {
      const auto set = attribute(attributes, set_names[i]);
      has[i] = set.has_value();
      if (set && !first_of(*set))
        return bad("an object has no ", set_names[i], " that makes sense");
    }
    const bool group = self->type == "Group" || self->type == "Misc";
    const bool below = parent.name == "object";
    if (has[0] && !parent.cpus && below)
      return bad("\"", self->type, "\" has a cpuset, and what it is in has none");
    if (!has[0] && !self->special)
      return bad("\"", self->type,
                 below ? "\" lacks its cpuset"
                       : "\" has no cpuset: hwloc 2 reads no machine put together of several");
    const bool whole = has[0] == has[1] && has[2] == has[3] && (has[0] || !has[2]);
    const bool node = self->type == "NUMANode";
    if ((!whole && !(group && has[0])) || (node && !(has[0] && has[1] && has[2] && has[3])))
      return bad("\"", self->type, "\" has some of its sets and lacks others");
    if (has[2] && !parent.nodes && below)
      return bad("\"", self->type, "\" has a nodeset, and what it is in has none");
    self->cpus = whole ? has[0] : parent.cpus;
    self->nodes = whole ? has[2] : parent.nodes;
    return {};
  }

  /// hwloc allocates by an old matrix's size, and then takes its values as they come.
  Status check_old_element(const Tag &tag) {
    const bool within = open_.back().name == "object";
    if (within && !among(within_old_objects, tag.name))
      return bad("<", tag.name, "> is within an object");
    if (within && tag.name == "distances") return open_matrix(tag);
    if (tag.name == "latency" && matrix_depth_ == open_.size()) ++values_;
    return {};
  }

  /// Of format 1 it has no name, and a depth; it names no places.
  Status open_matrix(const Tag &tag) {
    const bool old = tag.name == "distances";
    name_ = old ? tag.name : attribute(tag.attributes, "name").value_or("(no name)");
    side_ = number_in(tag.attributes, "nbobjs").value_or(0);
    const bool deep = !old || number_in(tag.attributes, "relative_depth").value_or(0) != 0;
    if (side_ == 0 || side_ > most_matrix || !deep)
      return bad("matrix ", name_, " has no size that makes sense");
    indexes_ = old ? side_ : 0;
    values_ = 0;
    matrix_depth_ = open_.size() + 1;
    return {};
  }

  Status content(Text text) {
    const size_t first = text.find_first_not_of(blanks);
    if (first != Text::npos && (open_.empty() || !among(with_text, open_.back().name)))
      return bad("\"", text.substr(first), "\" is not understood");
    if (matrix_depth_ == 0 || open_.size() != matrix_depth_ + 1) return {};
    if (open_.back().name == "indexes") indexes_ += words(text);
    if (open_.back().name == "u64values") values_ += words(text);
    return {};
  }

  Status close_matrix() {
    matrix_depth_ = 0;
    if (indexes_ != side_) return bad("matrix ", name_, " does not name as many places as it has");
    if (values_ != side_ * side_) return bad("matrix ", name_, " has not a value for each pair");
    return {};
  }

  Text rest_, all_;
  const char *origin_;
  std::pmr::vector<Open> open_;
  bool old_ = false;  // of format 1
  bool root_ = false, numa_ = false;
  uint64_t objects_ = 0;
  size_t matrix_depth_ = 0;  // elements open within the matrix that is being read; 0 = none
  Text name_;
  uint64_t side_ = 0, indexes_ = 0, values_ = 0;
};

Status refuse(const char *path, const char *why) {
  return fail(WEIR_ERROR_INVALID_ARGUMENT, "topology file %s: %s", path, why);
}

}  // namespace

Status read_xml_file(const char *path, std::pmr::string *text) {
  const TextFile file(path);
  struct stat about {};
  if (const int error = file.about(&about); error != 0) return refuse(path, std::strerror(error));
  if (S_ISDIR(about.st_mode)) return refuse(path, "it is a directory");
  if (!S_ISREG(about.st_mode)) return refuse(path, "it is no regular file");
  if (about.st_size == 0) return refuse(path, "it is empty");
  if (static_cast<uint64_t>(about.st_size) > most_bytes)
    return refuse(path, "it is larger than 64 MiB");
  text->reserve(static_cast<size_t>(about.st_size));
  const int error = file.read(most_bytes, text);
  return error == 0 ? Status{} : refuse(path, std::strerror(error));
}

Status check_xml(std::string_view text, const char *origin, std::pmr::memory_resource *memory) {
  if (text.find('\0') != std::string_view::npos) return refuse(origin, "it is no text");
  return Scan(text, origin, memory).run();
}

}  // namespace weir::topology
