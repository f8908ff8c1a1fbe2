// SPDX-License-Identifier: Apache-2.0
//
// One pass over the tags. It is no XML parser: it checks that tags nest, and the few attributes and counts that a reader
// would allocate by.

#include "core/topology/xml_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>
#include <optional>
#include <vector>

namespace weir::topology {
namespace {

constexpr size_t most_bytes = size_t{64} << 20U;
constexpr size_t deepest = 200;  // nested elements: a reader recurses
constexpr uint64_t most_objects = 200'000;
constexpr uint64_t most_matrix = 1024;               // a side
constexpr uint64_t most_index = uint64_t{1} << 20U;  // a reader makes a bitmap of so many bits
constexpr std::string_view document_type = "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">";
constexpr std::string_view blanks = " \t\r\n";

struct Closing {
  int fd;
  ~Closing() { close(fd); }
};

Status refuse(const char *path, const char *why) {
  return fail(WEIR_ERROR_INVALID_ARGUMENT, "topology file %s: %s", path, why);
}

struct Tag {
  std::string_view name, attributes;
  bool closes = false, empty = false;
};

/// The value of an attribute; attributes are name="value" with blanks around.
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

std::optional<uint64_t> number(std::optional<std::string_view> text) {
  uint64_t value = 0;
  if (!text) return {};
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size()) return {};
  return value;
}

uint64_t words(std::string_view text) {
  uint64_t count = 0;
  for (size_t at = text.find_first_not_of(blanks); at != std::string_view::npos; ++count) {
    const size_t end = text.find_first_of(blanks, at);
    at = end == std::string_view::npos ? end : text.find_first_not_of(blanks, end);
  }
  return count;
}

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

template <size_t count>
bool among(const std::string_view (&names)[count], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

/// An element that is open.
struct Open {
  std::string_view name;
  size_t next_first = 0;  ///< the lowest first CPU that the next object in it may have
};

class Scan {
 public:
  Scan(std::string_view text, const char *origin, std::pmr::memory_resource *memory)
      : rest_(text), all_(text), origin_(origin), open_(memory) {}

  Status run() {
    while (true) {
      const size_t at = rest_.find('<');
      const std::string_view between = rest_.substr(0, at);
      WEIR_TRY(content(between));
      if (at == std::string_view::npos) break;
      rest_.remove_prefix(at);
      bool skipped = false;
      WEIR_TRY(skip_markup(&skipped));
      if (skipped) continue;
      Tag tag;
      WEIR_TRY(read_tag(&tag));
      WEIR_TRY(tag.closes ? close_tag(tag) : open_tag(tag));
    }
    if (!open_.empty()) return bad("it ends within <%.*s>", open_.back().name);
    if (!root_) return bad("it is no XML%.*s", "");
    if (objects_ == 0) return bad("it has no machine%.*s", "");
    if (!numa_) return bad("it has no NUMA node%.*s", "");
    return {};
  }

 private:
  /// The format has one %.*s.
  __attribute__((format(printf, 2, 0))) Status bad(const char *format, std::string_view named) {
    char why[256];
    const size_t cut = named.size() < 80 ? named.size() : 80;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    std::snprintf(why, sizeof why, format, static_cast<int>(cut), named.data());
#pragma GCC diagnostic pop
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "topology file %s: byte %zu: %s", origin_,
                all_.size() - rest_.size(), why);
  }

  /// Comments, declarations and the document type. Entities are what files use to grow beyond their size.
  Status skip_markup(bool *skipped) {
    *skipped = true;
    if (rest_.starts_with("<!--")) return skip_past("-->");
    if (rest_.starts_with("<?")) return skip_past("?>");
    if (rest_.starts_with("<!DOCTYPE")) {
      if (!rest_.starts_with(document_type))
        return bad("it has a document type of its own%.*s", "");
      return skip_past(">");
    }
    if (rest_.starts_with("<!")) return bad("\"%.*s\" is not understood", rest_.substr(0, 12));
    *skipped = false;
    return {};
  }

  Status skip_past(std::string_view end) {
    const size_t at = rest_.find(end);
    if (at == std::string_view::npos) return bad("it ends before \"%.*s\"", end);
    rest_.remove_prefix(at + end.size());
    return {};
  }

  Status read_tag(Tag *tag) {
    size_t end = 1;
    char quote = '\0';
    for (; end < rest_.size() && (quote != '\0' || rest_[end] != '>'); ++end) {
      const char c = rest_[end];
      if (quote == '\0' && c == '<') break;
      if (quote == c)
        quote = '\0';
      else if (quote == '\0' && (c == '"' || c == '\''))
        quote = c;
    }
    if (end >= rest_.size() || rest_[end] != '>') return bad("it ends within a tag%.*s", "");
    std::string_view inner = rest_.substr(1, end - 1);
    tag->closes = inner.starts_with('/');
    if (tag->closes) inner.remove_prefix(1);
    tag->empty = inner.ends_with('/');
    if (tag->empty) inner.remove_suffix(1);
    tag->name = inner.substr(0, inner.find_first_of(blanks));
    tag->attributes = inner.substr(tag->name.size());
    if (tag->name.empty()) return bad("a tag has no name%.*s", "");
    rest_.remove_prefix(end + 1);
    return {};
  }

  Status open_tag(const Tag &tag) {
    if (open_.empty()) {
      if (root_ || tag.name != "topology") return bad("<%.*s> is no topology of hwloc", tag.name);
      root_ = true;
      const std::string_view version = attribute(tag.attributes, "version").value_or("1");
      if (version.substr(0, version.find('.')) != "2")
        return bad("it is of hwloc's format %.*s, not 2", version);
    }
    if (tag.name == "object") WEIR_TRY(check_object(tag));
    if (tag.name == "distances2" || tag.name == "distances2hetero") WEIR_TRY(open_matrix(tag));
    if (tag.empty) return matrix_depth_ == open_.size() + 1 ? close_matrix() : Status{};
    if (open_.size() >= deepest) return bad("elements are nested too deep at <%.*s>", tag.name);
    open_.push_back({tag.name});
    return {};
  }

  Status close_tag(const Tag &tag) {
    if (open_.empty() || open_.back().name != tag.name)
      return bad("</%.*s> closes what is not open", tag.name);
    const bool matrix = matrix_depth_ == open_.size();
    open_.pop_back();
    return matrix ? close_matrix() : Status{};
  }

  Status check_object(const Tag &tag) {
    const std::string_view type = attribute(tag.attributes, "type").value_or("");
    if (objects_ == 0 && type != "Machine")
      return bad("the first object is \"%.*s\", no machine", type);
    if (objects_ != 0 && type == "Machine") return bad("it has more than one machine%.*s", "");
    if (open_.size() != 1 && open_.back().name != "object")
      return bad("an object is within <%.*s>", open_.back().name);
    if (objects_ != 0 && open_.size() == 1) return bad("\"%.*s\" is outside of the machine", type);
    if (++objects_ > most_objects) return bad("it has too many objects%.*s", "");
    const auto index = attribute(tag.attributes, "os_index");
    if (index && number(index).value_or(UINT64_MAX) > most_index)
      return bad("\"%.*s\" is no os_index", *index);
    numa_ = numa_ || type == "NUMANode";
    if (among(cpu_types, type)) return check_sets(tag, true);
    if (among(memory_types, type)) return check_sets(tag, false);
    return among(other_types, type) ? Status{} : bad("\"%.*s\" is no type of object", type);
  }

  /// hwloc follows these sets without a look; objects must be in their order.
  Status check_sets(const Tag &tag, bool ordered) {
    for (const char *name : {"cpuset", "complete_cpuset", "nodeset", "complete_nodeset"}) {
      const auto set = attribute(tag.attributes, name);
      if (!set || !first_of(*set)) return bad("an object has no %.*s that makes sense", name);
    }
    const size_t first = *first_of(*attribute(tag.attributes, "complete_cpuset"));
    if (!ordered) return {};
    if (first == SIZE_MAX) return bad("an object of CPUs has none%.*s", "");
    if (first < open_.back().next_first) return bad("objects are not in the order of CPUs%.*s", "");
    open_.back().next_first = first + 1;
    return {};
  }

  Status open_matrix(const Tag &tag) {
    name_ = attribute(tag.attributes, "name").value_or("(no name)");
    const auto side = number(attribute(tag.attributes, "nbobjs"));
    if (!side || *side == 0 || *side > most_matrix)
      return bad("matrix %.*s has no size that makes sense", name_);
    side_ = *side;
    indexes_ = values_ = 0;
    matrix_depth_ = open_.size() + 1;
    return {};
  }

  Status content(std::string_view text) {
    constexpr std::string_view with_text[] = {"indexes", "u64values", "userdata", "info"};
    const bool allowed = !open_.empty() && among(with_text, open_.back().name);
    if (!allowed && text.find_first_not_of(blanks) != std::string_view::npos)
      return bad("\"%.*s\" is not understood", text.substr(text.find_first_not_of(blanks)));
    if (matrix_depth_ == 0 || open_.size() != matrix_depth_ + 1) return {};
    if (open_.back().name == "indexes") indexes_ += words(text);
    if (open_.back().name == "u64values") values_ += words(text);
    return {};
  }

  Status close_matrix() {
    matrix_depth_ = 0;
    if (indexes_ != side_) return bad("matrix %.*s does not name as many places as it has", name_);
    if (values_ != side_ * side_) return bad("matrix %.*s has not a value for each pair", name_);
    return {};
  }

  std::string_view rest_, all_;
  const char *origin_;
  std::pmr::vector<Open> open_;
  bool root_ = false, numa_ = false;
  uint64_t objects_ = 0;
  size_t matrix_depth_ = 0;  // elements open within the matrix that is being read; 0 = none
  std::string_view name_;
  uint64_t side_ = 0, indexes_ = 0, values_ = 0;
};

}  // namespace

Status read_xml_file(const char *path, std::pmr::string *text) {
  // Without blocking: a pipe that nobody writes to must not hold the program up.
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return refuse(path, std::strerror(errno));
  const Closing closing{fd};
  struct stat about {};
  if (fstat(fd, &about) != 0) return refuse(path, std::strerror(errno));
  if (S_ISDIR(about.st_mode)) return refuse(path, "it is a directory");
  if (!S_ISREG(about.st_mode)) return refuse(path, "it is no regular file");
  if (about.st_size == 0) return refuse(path, "it is empty");
  if (static_cast<uint64_t>(about.st_size) > most_bytes)
    return refuse(path, "it is larger than 64 MiB");
  text->resize(static_cast<size_t>(about.st_size));
  size_t done = 0;
  while (done < text->size()) {
    const ssize_t got = read(fd, text->data() + done, text->size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse(path, std::strerror(errno));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  text->resize(done);
  return {};
}

Status check_xml(std::string_view text, const char *origin, std::pmr::memory_resource *memory) {
  if (text.find('\0') != std::string_view::npos) return refuse(origin, "it is no text");
  return Scan(text, origin, memory).run();
}

}  // namespace weir::topology
