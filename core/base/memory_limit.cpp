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
#include <string_view>
#include <utility>

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
      const char *from = chunk_ + at_;
      const auto *stop = static_cast<const char *>(std::memchr(from, '\n', end_ - at_));
      const size_t found = stop != nullptr ? static_cast<size_t>(stop - from) : end_ - at_;
      const size_t kept = std::min(found, longest - size);
      std::memcpy(line_ + size, from, kept);
      size += kept;
      at_ += found;
      if (stop == nullptr) continue;
      ++at_;
      break;
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

bool parse(string_view text, uint64_t &value) noexcept {
  uint64_t parsed = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc{} || stop != text.data() + text.size()) return false;
  value = parsed;
  return true;
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

/// How often a path from /proc goes up ("/../..", as a cgroup namespace shows what lies above it); `rest`: below that.
size_t ups(string_view path, string_view &rest) noexcept {
  size_t count = 0;
  while (path == "/.." || path.starts_with("/../")) {
    path.remove_prefix(3);
    ++count;
  }
  rest = path;
  return count;
}

/// Where a cgroup is in a mount that shows the hierarchy from `mount_root` on; `inside` is empty for the mount itself. False
/// if the mount shows neither the cgroup nor one that is surely above it.
bool locate(string_view mount_root, string_view cgroup, string_view &inside) noexcept {
  if (mount_root == "/") mount_root = "";
  if (cgroup == "/") cgroup = "";
  string_view root_rest;
  string_view cgroup_rest;
  const size_t root_ups = ups(mount_root, root_rest);
  const size_t cgroup_ups = ups(cgroup, cgroup_rest);
  if (root_ups > cgroup_ups) {
    // The mount begins further up than any name we know: its root is above us if it lies straight up, else elsewhere.
    inside = "";
    return root_rest.empty();
  }
  if (root_ups < cgroup_ups || !cgroup_rest.starts_with(root_rest)) return false;
  inside = cgroup_rest.substr(root_rest.size());
  return inside.empty() || inside.front() == '/';
}

class Reader {
 public:
  explicit Reader(string_view root) noexcept : root_(root) {}

  MemoryLimit::Room read() noexcept {
    find_cgroups();
    if (has_v1_ || has_v2_) walk_mounts();
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
        v2_ = Path(line);
        has_v2_ = true;
      } else if (lists(controllers, "memory")) {
        v1_ = Path(line);
        has_v1_ = true;
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
      if (v2 ? !has_v2_ : !has_v1_) continue;
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
    const string_view cgroup = v2 ? v2_.view() : v1_.view();
    string_view inside;
    if (!locate(mount_root, cgroup, inside)) return;
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

  void level_v2(const Path &folder, string_view name) noexcept {
    uint64_t most = UINT64_MAX;
    uint64_t high = UINT64_MAX;
    const bool has_most = number(folder, "/memory.max", most);
    const bool has_high = number(folder, "/memory.high", high);
    uint64_t used = 0;
    if ((!has_most && !has_high) || !number(folder, "/memory.current", used)) return;
    used -= std::min(used, stat_sum(folder, "inactive_file", "slab_reclaimable"));
    if (has_most) limit(most, used, "memory.max", name);
    if (has_high) limit(high, used, "memory.high", name);
  }

  void level_v1(const Path &folder, string_view name, bool own) noexcept {
    uint64_t inherits = 1;
    if (!own && number(folder, "/memory.use_hierarchy", inherits) && inherits == 0) return;
    uint64_t most = UINT64_MAX;
    uint64_t inherited = UINT64_MAX;
    const bool has_most = number(folder, "/memory.limit_in_bytes", most) && most < unlimited;
    // The tightest limit of all ancestors, also of those that no mount shows. What they use is not known, but it's no
    // less than what we do.
    const bool has_inherited =
        own && stat(folder, "hierarchical_memory_limit", inherited) && inherited < unlimited;
    uint64_t used = 0;
    if ((!has_most && !has_inherited) || !number(folder, "/memory.usage_in_bytes", used)) return;
    used -= std::min(used, stat_sum(folder, "total_inactive_file", {}));
    if (has_most) limit(most, used, "memory.limit_in_bytes", name);
    if (has_inherited) limit(inherited, used, "hierarchical_memory_limit", name);
  }

  void machine() noexcept {
    uint64_t available = 0;
    if (!meminfo("MemAvailable", available) || available >= room_.bytes) return;
    uint64_t total = UINT64_MAX;
    meminfo("MemTotal", total);
    room_.bytes = available;
    room_.limit = total;
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

  /// The number a file consists of; false if it is none, "max" for example.
  static bool number(const Path &folder, string_view name, uint64_t &value) noexcept {
    Lines lines(Path(folder).append(name).text());
    string_view line;
    return lines.next(line) && parse(line, value);
  }

  static bool stat(const Path &folder, string_view key, uint64_t &value) noexcept {
    Lines lines(Path(folder).append("/memory.stat").text());
    for (string_view line; lines.next(line);)
      if (take(line, ' ') == key) return parse(line, value);
    return false;
  }

  /// What is missing counts as 0, so that room is never told which may not be there.
  static uint64_t stat_sum(const Path &folder, string_view first, string_view second) noexcept {
    uint64_t sum = 0;
    for (const string_view key : {first, second}) {
      uint64_t value = 0;
      if (!key.empty() && stat(folder, key, value)) sum += std::min(value, UINT64_MAX - sum);
    }
    return sum;
  }

  bool meminfo(string_view key, uint64_t &bytes) const noexcept {
    Lines lines(Path(root_).append("/proc/meminfo").text());
    for (string_view line; lines.next(line);) {
      if (take(line, ':') != key) continue;
      line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
      uint64_t kib = 0;
      if (!parse(take(line, ' '), kib) || line != "kB" || kib > UINT64_MAX >> 10) return false;
      bytes = kib << 10;
      return true;
    }
    return false;
  }

  string_view root_;
  Path v1_;
  Path v2_;
  bool has_v1_ = false;
  bool has_v2_ = false;
  MemoryLimit::Room room_;
};

}  // namespace

MemoryLimit::MemoryLimit(std::string root) : root_(std::move(root)) {}

MemoryLimit::Room MemoryLimit::read() const noexcept { return Reader(root_).read(); }

}  // namespace weir
