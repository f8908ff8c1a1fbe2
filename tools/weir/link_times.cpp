// SPDX-License-Identifier: Apache-2.0
//
// LinkTimes: the file, which is on no disk, its lines, and what they come to.
#include "link_times.hpp"

#include "error.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>

namespace weir::tool {
namespace {

/// Those between begin and end, in order; none of them overlaps another.
Times tidy(Times times, uint64_t begin, uint64_t end) {
  std::sort(times.begin(), times.end());
  Times tidied;
  for (auto [from, to] : times) {
    from = std::max(from, begin);
    to = std::min(to, end);
    if (from >= to) continue;
    if (!tidied.empty() && from <= tidied.back().second)
      tidied.back().second = std::max(tidied.back().second, to);
    else
      tidied.emplace_back(from, to);
  }
  return tidied;
}

double seconds_of(const Times &times) {
  uint64_t sum = 0;
  for (const auto &[from, to] : times) sum += to - from;
  return static_cast<double>(sum) * 1e-9;
}

std::string all_of(int file) {
  std::string text;
  char part[65536];
  for (;;) {
    const ssize_t got = pread(file, part, sizeof part, static_cast<off_t>(text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw ToolError(std::string("cannot read the links' times: ") + std::strerror(errno));
    if (got == 0) return text;
    text.append(part, static_cast<size_t>(got));
  }
}

}  // namespace

LinkTimes::LinkTimes() : file_(memfd_create("weir-link-times", MFD_CLOEXEC)) {
  if (file_ < 0)
    throw ToolError(std::string("cannot make a file for the links' times: ") +
                    std::strerror(errno));
}

LinkTimes::~LinkTimes() { close(file_); }

std::string LinkTimes::option() const { return ";host.link_log=" + std::to_string(file_); }

LinkBusy LinkTimes::between(uint64_t begin_ns, uint64_t end_ns) const {
  std::istringstream text(all_of(file_));
  Times up, down;
  bool whole = false;
  for (std::string line; std::getline(text, line);) {
    whole = line == "end";
    if (whole) break;
    std::istringstream words(line);
    std::string from, to;
    uint64_t begin = 0, end = 0;
    if (!(words >> from >> to >> begin >> end)) break;  // some were lost, and the line says so
    if (from == "h") up.emplace_back(begin, end);
    if (to == "h") down.emplace_back(begin, end);
  }
  if (!whole) throw ToolError("the host backend had no memory to tell when its links were busy");
  return link_busy(std::move(up), std::move(down), begin_ns, end_ns);
}

LinkBusy link_busy(Times up, Times down, uint64_t begin_ns, uint64_t end_ns) {
  up = tidy(std::move(up), begin_ns, end_ns);
  down = tidy(std::move(down), begin_ns, end_ns);
  LinkBusy busy{seconds_of(up), seconds_of(down)};
  Times both;
  for (auto a = up.begin(), b = down.begin(); a != up.end() && b != down.end();) {
    const uint64_t from = std::max(a->first, b->first), to = std::min(a->second, b->second);
    if (from < to) both.emplace_back(from, to);
    a->second < b->second ? ++a : ++b;
  }
  busy.both = seconds_of(both);
  return busy;
}

}  // namespace weir::tool
