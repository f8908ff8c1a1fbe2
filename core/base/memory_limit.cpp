// SPDX-License-Identifier: Apache-2.0
//
// MemoryLimit: the walk from the process's cgroups up to the roots of their mounts, and the arithmetic at each. It
// allocates nothing, because it is asked when memory runs short, and opens files for reading only.
//
// What counts as reclaimable is taken off a cgroup's usage. The rule is the kubelet's for the "working set" by which
// it evicts pods (usage - inactive_file), and beside it slab_reclaimable, which the kernel's own MemAvailable counts
// too (Documentation/admin-guide/cgroup-v2.rst: "part of slab that might be reclaimed, such as dentries and inodes";
// version 1 does not tell it). Active file pages are left out, though the kernel could take them: they are in use.
#include "core/base/memory_limit.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace weir {
namespace {

using std::string_view;

/// From here on a limit is none: version 1 writes "no limit" as the largest multiple of a page in a signed 64-bit number.
constexpr uint64_t unlimited = uint64_t{1} << 62;

/// A path in place. One that grows too long names nothing, so that opening it fails.
class Path {
 public:
  Path() noexcept = default;
  explicit Path(string_view text) noexcept { append(text); }

  Path &append(string_view part) noexcept {
    if (part.size() >= sizeof text_ - size_) {
      size_ = 0;
      broken_ = true;
    }
    if (broken_) return *this;
    std::memcpy(text_ + size_, part.data(), part.size());
    size_ += part.size();
    text_[size_] = '\0';
    return *this;
  }
  void cut(size_t size) noexcept {
    size_ = std::min(size, size_);
    text_[size_] = '\0';
  }
  string_view view() const noexcept { return {text_, size_}; }
  size_t size() const noexcept { return size_; }
  const char *text() const noexcept { return broken_ ? "" : text_; }

 private:
  char text_[4096] = "";
  size_t size_ = 0;
  bool broken_ = false;
};

/// The lines of a file, each cut at `longest` bytes. A file that can't be opened or read has no (more) lines.
class Lines {
 public:
  explicit Lines(const char *path) noexcept : file_(open(path, O_RDONLY | O_CLOEXEC)) {}
  ~Lines() {
    if (file_ >= 0) close(file_);
  }
  Lines(const Lines &) = delete;
  Lines &operator=(const Lines &) = delete;

  /// `line` is valid until the next call.
  bool next(string_view &line) noexcept {
    size_t size = 0;
    bool any = false;
    while (at_ < end_ || refill()) {
      any = true;
      const char letter = chunk_[at_++];
      if (letter == '\n') break;
      if (size < longest) line_[size++] = letter;
    }
    line = {line_, size};
    return any;
  }

 private:
  static constexpr size_t longest = 8192;

  bool refill() noexcept {
    if (file_ < 0) return false;
    ssize_t got = 0;
    do {
      got = read(file_, chunk_, sizeof chunk_);
    } while (got < 0 && errno == EINTR);
    at_ = 0;
    end_ = got > 0 ? static_cast<size_t>(got) : 0;
    return end_ != 0;
  }

  int file_;
  size_t at_ = 0;
  size_t end_ = 0;
  char chunk_[4096];
  char line_[longest];
};

std::optional<uint64_t> parse(string_view text) noexcept {
  uint64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || stop != text.data() + text.size()) return {};
  return value;
}

/// What stands before the next `separator`, which is taken off `rest` with it.
string_view take(string_view &rest, char separator) noexcept {
  const size_t at = std::min(rest.find(separator), rest.size());
  const string_view part = rest.substr(0, at);
  rest.remove_prefix(std::min(at + 1, rest.size()));
  return part;
}

bool lists(string_view names, string_view wanted) noexcept {
  while (!names.empty())
    if (take(names, ',') == wanted) return true;
  return false;
}

/// /proc/self/mountinfo writes blanks and backslashes as \ooo.
void append_unescaped(Path &path, string_view field) noexcept {
  const auto digit = [&](size_t i) {
    return i < field.size() && field[i] >= '0' && field[i] <= '7' ? field[i] - '0' : -1;
  };
  for (size_t i = 0; i < field.size(); ++i) {
    char letter = field[i];
    if (letter == '\\' && digit(i + 1) >= 0 && digit(i + 2) >= 0 && digit(i + 3) >= 0) {
      letter = static_cast<char>(digit(i + 1) * 64 + digit(i + 2) * 8 + digit(i + 3));
      i += 3;
    }
    path.append({&letter, 1});
  }
}

/// How often a path from /proc goes up ("/../..", as a cgroup namespace shows what lies above it), which is cut off.
size_t take_ups(string_view &path) noexcept {
  size_t count = 0;
  while (path == "/.." || path.starts_with("/../")) {
    path.remove_prefix(3);
    ++count;
  }
  return count;
}

/// Where a cgroup is in a mount that shows the hierarchy from `mount_root` on; empty for the mount itself. None if
/// the mount shows neither the cgroup nor one that is surely above it.
std::optional<string_view> locate(string_view mount_root, string_view cgroup) noexcept {
  if (mount_root == "/") mount_root = "";
  if (cgroup == "/") cgroup = "";
  const size_t root_ups = take_ups(mount_root);
  const size_t cgroup_ups = take_ups(cgroup);
  // The mount begins further up than any name we know: its root is above us if it lies straight up, else elsewhere.
  if (root_ups > cgroup_ups && mount_root.empty()) return "";
  if (root_ups != cgroup_ups || !cgroup.starts_with(mount_root)) return {};
  const string_view inside = cgroup.substr(mount_root.size());
  if (!inside.empty() && inside.front() != '/') return {};
  return inside;
}

class Reader {
 public:
  explicit Reader(string_view root) noexcept : root_(root) {}

  MemoryLimit::Room read() noexcept {
    find_cgroups();
    if (v1_ || v2_) walk_mounts();
    machine();
    return room_;
  }

 private:
  void find_cgroups() noexcept {
    Lines lines(Path(root_).append("/proc/self/cgroup").text());
    for (string_view line; lines.next(line);) {
      const string_view hierarchy = take(line, ':');
      const string_view controllers = take(line, ':');  // the path behind it may hold colons
      if (line.empty() || line.front() != '/') continue;
      if (hierarchy == "0" && controllers.empty()) {
        v2_.emplace(line);
      } else if (lists(controllers, "memory")) {
        v1_.emplace(line);
      }
    }
  }

  /// Each mount of the hierarchy counts: they may begin at different roots, and what any of them shows above us limits us.
  void walk_mounts() noexcept {
    Lines lines(Path(root_).append("/proc/self/mountinfo").text());
    for (string_view line; lines.next(line);) {
      const size_t separator = line.find(" - ");
      if (separator == string_view::npos) continue;
      string_view type_fields = line.substr(separator + 3);
      const string_view type = take(type_fields, ' ');
      take(type_fields, ' ');  // its source
      const bool v2 = type == "cgroup2";
      if (!v2 && (type != "cgroup" || !lists(type_fields, "memory"))) continue;
      if (!(v2 ? v2_ : v1_)) continue;
      string_view fields = line.substr(0, separator);
      for (int skipped = 0; skipped < 3; ++skipped) take(fields, ' ');
      Path mount_root;
      append_unescaped(mount_root, take(fields, ' '));
      Path point(root_);
      append_unescaped(point, take(fields, ' '));
      if (mount_root.size() != 0) walk(v2, mount_root.view(), point);
    }
  }

  void walk(bool v2, string_view mount_root, const Path &point) noexcept {
    const string_view cgroup = (v2 ? v2_ : v1_)->view();
    const std::optional<string_view> located = locate(mount_root, cgroup);
    if (!located) return;
    string_view inside = *located;
    string_view name = inside.empty() ? mount_root : cgroup;  // loses its end as `inside` does
    Path folder(point);
    folder.append(inside);
    for (bool own = true;; own = false) {
      v2 ? level_v2(folder, name) : level_v1(folder, name, own);
      if (inside.empty()) return;
      const size_t slash = inside.rfind('/');  // it begins with one
      const size_t cut = inside.size() - (slash != string_view::npos ? slash : 0);
      inside.remove_suffix(cut);
      name.remove_suffix(std::min(cut, name.size()));
      folder.cut(folder.size() - cut);
    }
  }

  struct Limit {
    const char *file;
    std::optional<uint64_t> most;
  };

  void level_v2(const Path &folder, string_view name) noexcept {
    level(folder, name, "/memory.current", {"inactive_file", "slab_reclaimable"},
          {{"memory.max", number(folder, "/memory.max")},
           {"memory.high", number(folder, "/memory.high")}});
  }

  void level_v1(const Path &folder, string_view name, bool own) noexcept {
    if (!own && number(folder, "/memory.use_hierarchy") == uint64_t{0}) return;
    auto most = number(folder, "/memory.limit_in_bytes");
    if (most && *most >= unlimited) most.reset();
    // The tightest limit of all ancestors, also of those that no mount shows. What they use is not known, but it's no
    // less than what we do.
    auto inherited = own ? stat(folder, "hierarchical_memory_limit") : std::nullopt;
    if (inherited && *inherited >= unlimited) inherited.reset();
    level(folder, name, "/memory.usage_in_bytes", {"total_inactive_file"},
          {{"memory.limit_in_bytes", most}, {"hierarchical_memory_limit", inherited}});
  }

  void level(const Path &folder, string_view name, const char *usage,
             std::initializer_list<string_view> reclaimable,
             std::initializer_list<Limit> limits) noexcept {
    if (std::none_of(limits.begin(), limits.end(), [](const Limit &each) { return each.most; }))
      return;
    auto used = number(folder, usage);
    if (!used) return;
    // What is missing counts as 0, so that room is never told which may not be there.
    for (const string_view key : reclaimable)
      *used -= std::min(*used, stat(folder, key).value_or(0));
    for (const Limit &each : limits)
      if (each.most) limit(*each.most, *used, each.file, name);
  }

  void machine() noexcept {
    const auto available = meminfo("MemAvailable");
    if (!available || *available >= room_.bytes) return;
    room_.bytes = *available;
    room_.limit = meminfo("MemTotal").value_or(UINT64_MAX);
    std::snprintf(room_.source, sizeof room_.source, "MemAvailable");
  }

  void limit(uint64_t most, uint64_t used, const char *file, string_view name) noexcept {
    const uint64_t left = most - std::min(most, used);
    if (left >= room_.bytes) return;
    room_.bytes = left;
    room_.limit = most;
    if (name.empty()) name = "/";
    // Of a name that is too long the end tells more than the beginning.
    const size_t space = sizeof room_.source - std::strlen(file) - sizeof " of ...";
    const bool cut = name.size() > space;
    if (cut) name.remove_prefix(name.size() - space);
    std::snprintf(room_.source, sizeof room_.source, "%s of %s%.*s", file, cut ? "..." : "",
                  static_cast<int>(name.size()), name.data());
  }

  /// The number a file consists of; none if it is none, "max" for example.
  static std::optional<uint64_t> number(const Path &folder, string_view name) noexcept {
    Lines lines(Path(folder).append(name).text());
    string_view line;
    return lines.next(line) ? parse(line) : std::nullopt;
  }

  static std::optional<uint64_t> stat(const Path &folder, string_view key) noexcept {
    Lines lines(Path(folder).append("/memory.stat").text());
    for (string_view line; lines.next(line);)
      if (take(line, ' ') == key) return parse(line);
    return {};
  }

  std::optional<uint64_t> meminfo(string_view key) const noexcept {
    Lines lines(Path(root_).append("/proc/meminfo").text());
    for (string_view line; lines.next(line);) {
      if (take(line, ':') != key) continue;
      line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
      const auto kib = parse(take(line, ' '));
      if (!kib || line != "kB" || *kib > UINT64_MAX >> 10) return {};
      return *kib << 10;
    }
    return {};
  }

  string_view root_;
  std::optional<Path> v1_, v2_;
  MemoryLimit::Room room_;
};

}  // namespace

MemoryLimit::Room MemoryLimit::read() const noexcept { return Reader(root_).read(); }

}  // namespace weir
