// SPDX-License-Identifier: Apache-2.0
//
// Memory that the process may take, as the library sees it (core/base/memory_limit.hpp): the least of what its cgroups and the
// machine have left. HOST's budget follows that by itself; the host backend's devices do not.
#include "checks.hpp"

#include "core/base/memory_limit.hpp"
#include "tools/weir/text.hpp"

#include <algorithm>

namespace weir::tool::doctor {
namespace {

/// As HostRoom::spare_memory has it.
uint64_t share_of(const MemoryLimit::Room &room) {
  constexpr uint64_t most = uint64_t{1} << 50U;
  const uint64_t left = std::min(room.bytes, most);
  const uint64_t reserve = std::min(left, std::min(room.limit, most) / 16);
  return std::min(left / 5 * 4, left - reserve);
}

/// The file of a cgroup, at the usual place, as a word of a shell. Of a long name MemoryLimit tells the end, behind "...": the shell
/// is to look for it.
std::string cgroup_file(const std::string &mount, std::string name, const std::string &file) {
  if (name == "/") name.clear();
  if (!name.starts_with("...")) return shell_quoted(mount + name + "/" + file);
  return "\"$(find " + mount + " -path " + shell_quoted("*" + name.substr(3) + "/" + file) + ")\"";
}

/// What ends a limit: the cgroup's file, and what a container is started with. `source` is "memory.max of /a/b".
std::vector<std::string> raise_cgroup(std::string_view source) {
  const size_t at = std::min(source.find(" of "), source.size());
  const std::string file(source.substr(0, at));
  const std::string name(source.substr(std::min(at + 4, source.size())));
  std::vector<std::string> change;
  if (file == "memory.max" || file == "memory.high")
    change.push_back("echo max >" + cgroup_file("/sys/fs/cgroup", name, file) + "  # as root");
  else if (file == "memory.limit_in_bytes")
    change.push_back("echo -1 >" + cgroup_file("/sys/fs/cgroup/memory", name, file) +
                     "  # as root");
  // Else a cgroup above has it, which can't be seen from here.
  change.emplace_back("docker run --memory SIZE  # a container: a larger one, or none");
  return change;
}

}  // namespace

std::optional<uint64_t> most_of_host(const Machine &machine) {
  const uint64_t limit = MemoryLimit(machine.root).read().limit;
  return limit == UINT64_MAX ? std::nullopt : std::optional(limit / 5 * 4);
}

Finding check_memory(const Machine &machine) {
  // Two slots of staging and a page, of 2 MiB each: the least host_budget there is (docs/budgets.md).
  constexpr uint64_t least_host = uint64_t{6} << 20;
  Finding finding{"memory", Level::ok, "", "", {}};
  finding.why =
      "a pool whose host_budget is 0 lets HOST hold four fifths of what is left, and never the "
      "last sixteenth of the limit; a device of the host backend has half of the machine's memory "
      "unless host.memory says otherwise";
  const MemoryLimit::Room room = MemoryLimit(machine.root).read();
  if (room.bytes == UINT64_MAX) {
    finding.level = Level::warn;
    finding.found =
        "not known: no limit of a cgroup can be read, nor MemAvailable of /proc/meminfo";
    finding.change = {
        "desc.host_budget = BYTES;  // in weir_pool_desc: then HOST does not go by it"};
    return finding;
  }
  const std::string source = room.source;
  const bool machine_wide = source == "MemAvailable";
  const std::string limit =
      room.limit == UINT64_MAX ? "an unknown total" : format_bytes(room.limit);
  finding.found = format_bytes(room.bytes) + " left of " + limit + " (" + source + ")";
  const auto memory = read_meminfo(machine, "MemTotal");
  if (share_of(room) < least_host) {
    finding.level = Level::bad;
    finding.found += "; HOST would hold less than the least, 6 MiB";
    finding.change = machine_wide
                         ? std::vector<std::string>{"ps -eo rss,pid,comm --sort=-rss | head"
                                                    "  # who holds it"}
                         : raise_cgroup(source);
  } else if (!machine_wide && memory && *memory / 2 > room.bytes) {
    finding.level = Level::warn;
    finding.found += "; a device of the host backend would have " + format_bytes(*memory / 2);
    finding.change = raise_cgroup(source);
    finding.change.insert(finding.change.begin(), "export WEIR_OPTIONS=host.memory=" +
                                                      std::to_string(room.bytes / 2 >> 20) + "M");
  }
  return finding;
}

}  // namespace weir::tool::doctor
