// SPDX-License-Identifier: Apache-2.0
//
// Settings of the kernel. Where the system can be asked whether something works, the answer counts, and the setting only tells what
// to change; where it can't, a setting that is missing or makes no sense is a warning.
#include "checks.hpp"

#include "tools/weir/text.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace weir::tool::doctor {
namespace {

std::vector<std::string> set_sysctl(const std::string &name, uint64_t value) {
  const std::string assignment = name + "=" + std::to_string(value);
  return {"sysctl -w " + assignment + "  # as root; until the next start of the machine",
          "echo " + assignment + " >>/etc/sysctl.d/90-weir.conf  # as root; from then on"};
}

/// A setting that can't be read, as it happens in a container without /proc/sys.
void cannot_tell(const std::string &problem, const std::string &name, Finding *finding) {
  finding->level = Level::warn;
  finding->found = "not known: " + problem;
  finding->change = {"sysctl " + name + "  # on the machine itself, outside of a container"};
}

constexpr const char *seccomp =
    "docker run --security-opt seccomp=PROFILE.json  # one that allows ";

}  // namespace

Finding check_mappings(const Machine &machine) {
  constexpr uint64_t granule = uint64_t{2} << 20;  // the host backend's, and of most drivers
  constexpr uint64_t usual = 1U << 20;             // what several distributions set
  Finding finding{"mappings", Level::ok, "", "", {}};
  finding.why =
      "a granule of the host backend (2 MiB) and a page under a host lease is a mapping each, "
      "where "
      "it does not lie beside the one before; without one left, acquires fail";
  const Number count = read_number(machine, "/proc/sys/vm/max_map_count");
  if (!count.value) {
    cannot_tell(count.problem, "vm.max_map_count", &finding);
    return finding;
  }
  finding.found = "vm.max_map_count is " + std::to_string(*count.value);
  const uint64_t needed = read_meminfo(machine, "MemTotal").value_or(0) / granule;
  if (*count.value >= needed) return finding;
  finding.level = Level::warn;
  finding.found += "; all of the machine's memory in granules is " + std::to_string(needed);
  finding.change = set_sysctl("vm.max_map_count", std::max(usual, std::bit_ceil(2 * needed)));
  return finding;
}

Finding check_io_uring(const Machine &machine) {
  Finding finding{"io-uring", Level::ok, "io_uring_setup works", "", {}};
  finding.why =
      "STORAGE reads and writes by io_uring, with many transfers under way; without it threads do, "
      "with one each";
  const int error = machine.make_ring();
  if (error == 0) return finding;
  finding.level = Level::warn;
  finding.found = std::string("io_uring_setup fails: ") + std::strerror(error);
  const Number setting = read_number(machine, "/proc/sys/kernel/io_uring_disabled");
  if (setting.value)
    finding.found += "; kernel.io_uring_disabled is " + std::to_string(*setting.value);
  if (!setting.value && !setting.absent) finding.found += "; " + setting.problem;
  if (setting.value.value_or(0) != 0)
    finding.change = set_sysctl("kernel.io_uring_disabled", 0);
  else if (error == ENOSYS)
    finding.change = {"CONFIG_IO_URING=y  # in the configuration of the kernel"};
  else if (error == ENOMEM)
    finding.change = {"ulimit -l unlimited  # kernels before 5.12 count rings as locked memory"};
  else
    finding.change = {seccomp + std::string("io_uring_setup, io_uring_enter, io_uring_register")};
  return finding;
}

Finding check_huge_pages(const Machine &machine) {
  const std::string path = "/sys/kernel/mm/transparent_hugepage/enabled";
  Finding finding{"huge-pages", Level::ok, "", "", {}};
  finding.why =
      "the table of buffers asks for huge pages, so that a lease on one of very many buffers does "
      "not miss the TLB beside the cache";
  finding.change = {"echo madvise >" + path + "  # as root; until the next start of the machine",
                    "transparent_hugepage=madvise  # on the kernel's command line; from then on"};
  const Text text = read_text(machine, path);
  for (const char *mode : {"always", "madvise", "never"}) {
    if (!text.value || text.value->find(std::string("[") + mode + "]") == std::string::npos)
      continue;
    finding.found = std::string("transparent huge pages: ") + mode;
    if (std::strcmp(mode, "never") == 0)
      finding.level = Level::warn;
    else
      finding.change.clear();
    return finding;
  }
  finding.level = Level::warn;
  finding.found = "not known: " +
                  (text.value ? path + " holds '" + text.value->substr(0, 40) + "'" : text.problem);
  finding.change = {"cat " + path + "  # on the machine itself, outside of a container"};
  return finding;
}

Finding check_memory_files(const Machine &machine) {
  Finding finding{"memory-files", Level::ok, "memfd_create works", "", {}};
  finding.why =
      "the host backend's devices and HOST's memory lie in memory files; without them that backend "
      "does not start, and host leases are refused";
  const int error = machine.make_memory_file();
  if (error == 0) return finding;
  finding.level = Level::bad;
  finding.found = std::string("memfd_create fails: ") + std::strerror(error);
  const Number setting = read_number(machine, "/proc/sys/vm/memfd_noexec");
  if (setting.value) finding.found += "; vm.memfd_noexec is " + std::to_string(*setting.value);
  if (!setting.value && !setting.absent) finding.found += "; " + setting.problem;
  if (setting.value.value_or(0) >= 2)
    finding.change = set_sysctl("vm.memfd_noexec", 1);
  else if (error == EMFILE || error == ENFILE)
    finding.change = {"ulimit -n 1024  # in this shell, as far as its hard limit goes"};
  else
    finding.change = {seccomp + std::string("memfd_create")};
  return finding;
}

Finding check_overcommit(const Machine &machine) {
  constexpr uint64_t host_chunk = uint64_t{64} << 20;  // HOST grows by this much at least
  Finding finding{"overcommit", Level::ok, "", "", {}};
  finding.why =
      "where the system promises no more than it has (2), all of the budget of COMPRESSED is taken "
      "when a pool is made, and HOST's memory counts with what every process has been promised";
  const Number mode = read_number(machine, "/proc/sys/vm/overcommit_memory");
  if (!mode.value) {
    cannot_tell(mode.problem, "vm.overcommit_memory", &finding);
    return finding;
  }
  finding.found = "vm.overcommit_memory is " + std::to_string(*mode.value);
  if (*mode.value < 2) return finding;
  finding.level = Level::warn;
  finding.change = set_sysctl("vm.overcommit_memory", 0);
  const auto most = read_meminfo(machine, "CommitLimit");
  const auto promised = read_meminfo(machine, "Committed_AS");
  if (!most || !promised) return finding;
  const uint64_t left = *most - std::min(*most, *promised);
  finding.found += "; " + format_bytes(left) + " of " + format_bytes(*most) + " are left";
  if (left < host_chunk) finding.level = Level::bad;
  return finding;
}

}  // namespace weir::tool::doctor
