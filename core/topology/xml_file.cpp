// SPDX-License-Identifier: Apache-2.0
//
// One pass over the tags. It is no XML parser: it checks that tags nest, and the few attributes and counts that a reader
// would allocate by. What objects must have is in xml_objects.cpp.

#include "core/topology/xml_file.hpp"

#include "core/topology/xml_objects.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <vector>

namespace weir::topology {
namespace {

constexpr size_t most_bytes = size_t{64} << 20U;
constexpr size_t deepest = 200;  // nested elements: a reader recurses
constexpr uint64_t most_objects = 200'000;
constexpr uint64_t most_matrix = 1024;  // a side
constexpr std::string_view document_types[] = {"<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">",
                                               "<!DOCTYPE topology SYSTEM \"hwloc.dtd\">"};

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

uint64_t words(std::string_view text) {
  uint64_t count = 0;
  for (size_t at = text.find_first_not_of(blanks); at != std::string_view::npos; ++count) {
    const size_t end = text.find_first_of(blanks, at);
    at = end == std::string_view::npos ? end : text.find_first_not_of(blanks, end);
  }
  return count;
}

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
    // hwloc gives a machine of format 1 a node if it has none.
    if (!numa_ && !rules_.first_format()) return bad("it has no NUMA node%.*s", "");
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
      if (std::none_of(std::begin(document_types), std::end(document_types),
                       [this](std::string_view each) { return rest_.starts_with(each); }))
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
    if (repeats_attribute(tag->attributes)) return bad("<%.*s> has an attribute twice", tag->name);
    rest_.remove_prefix(end + 1);
    return {};
  }

  Status open_tag(const Tag &tag) {
    Open self;
    self.name = tag.name;
    if (open_.empty()) {
      if (root_ || tag.name != "topology") return bad("<%.*s> is no topology of hwloc", tag.name);
      root_ = true;
      const Wrong wrong = rules_.set_version(attribute(tag.attributes, "version").value_or("1"));
      if (wrong.format != nullptr) return bad(wrong.format, wrong.named);
    }
    if (tag.name == "object") WEIR_TRY(check_object(tag, &self));
    if (rules_.first_format() && !open_.empty()) WEIR_TRY(check_old_element(tag));
    if (tag.name == "distances2" || tag.name == "distances2hetero") WEIR_TRY(open_matrix(tag));
    if (tag.empty) return matrix_depth_ == open_.size() + 1 ? close_matrix() : Status{};
    if (open_.size() >= deepest) return bad("elements are nested too deep at <%.*s>", tag.name);
    open_.push_back(self);
    return {};
  }

  Status close_tag(const Tag &tag) {
    if (open_.empty() || open_.back().name != tag.name)
      return bad("</%.*s> closes what is not open", tag.name);
    const bool matrix = matrix_depth_ == open_.size();
    open_.pop_back();
    return matrix ? close_matrix() : Status{};
  }

  Status check_object(const Tag &tag, Open *self) {
    if (++objects_ > most_objects) return bad("it has too many objects%.*s", "");
    const Wrong wrong = rules_.check(tag.attributes, &open_.back(), self);
    if (wrong.format != nullptr) return bad(wrong.format, wrong.named);
    numa_ = numa_ || self->type == "NUMANode";
    return {};
  }

  /// hwloc allocates by an old matrix's size, and then takes its values as they come.
  Status check_old_element(const Tag &tag) {
    const bool within = open_.back().name == "object";
    constexpr std::string_view known[] = {"object", "info", "page_type", "distances", "userdata"};
    if (within && !among(known, tag.name)) return bad("<%.*s> is within an object", tag.name);
    if (within && tag.name == "distances") return open_old_matrix(tag);
    if (tag.name == "latency" && matrix_depth_ == open_.size()) ++values_;
    return {};
  }

  Status open_old_matrix(const Tag &tag) {
    const auto side = whole_number(attribute(tag.attributes, "nbobjs"));
    const auto depth = whole_number(attribute(tag.attributes, "relative_depth"));
    if (!side || *side == 0 || *side > most_matrix || !depth || *depth == 0)
      return bad("<%.*s> has no size that makes sense", tag.name);
    name_ = tag.name;
    side_ = indexes_ = *side;
    values_ = 0;
    matrix_depth_ = open_.size() + 1;
    return {};
  }

  Status open_matrix(const Tag &tag) {
    name_ = attribute(tag.attributes, "name").value_or("(no name)");
    const auto side = whole_number(attribute(tag.attributes, "nbobjs"));
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
  ObjectRules rules_;
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
