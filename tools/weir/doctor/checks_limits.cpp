// SPDX-License-Identifier: Apache-2.0
//
// Limits of the process. What Weir needs of each is in the code that it names: io_uring_lane.cpp and cipher.cpp (locked memory),
// backends/host/memory.cpp and host_store.cpp (address space, size of files), spill_file.cpp (files).
#include "checks.hpp"

#include "tools/weir/text.hpp"

namespace weir::tool::doctor {
namespace {

/// The three places where a limit is set, by its names there; "" where it can't be.
std::vector<std::string> raise(const std::string &shell, const std::string &pam,
                               const std::string &systemd, const std::string &docker) {
  std::vector<std::string> change;
  if (!shell.empty()) change.push_back(shell + "  # in this shell, as far as its hard limit goes");
  change.push_back("echo '* - " + pam +
                   "' >>/etc/security/limits.d/90-weir.conf  # as root; from the next login on");
  change.push_back(systemd + "  # a service: in [Service] of its unit");
  if (!docker.empty()) change.push_back("docker run --ulimit " + docker + "  # a container");
  return change;
}

/// The default device of the host backend has half of the machine's memory, in one file and one mapping. A limit below is bad.
Level by_default_device(const Machine &machine, uint64_t limit) {
  const auto memory = read_meminfo(machine, "MemTotal");
  return memory && limit < *memory / 2 ? Level::bad : Level::warn;
}

}  // namespace

Finding check_locked_memory(const Machine &machine) {
  Finding finding{"locked-memory", Level::ok, "", "", {}};
  finding.why =
      "STORAGE registers staging and HOST's memory with io_uring, which locks it; what is beyond "
      "the limit is not registered, and every transfer from or to it pins its pages anew";
  const uint64_t limit = machine.limits.locked_memory;
  finding.found = limit == no_limit ? "no limit" : format_bytes(limit);
  if (limit == no_limit) return finding;
  if (may_lock_any(machine)) {
    finding.found += ", which does not hold for this process (CAP_IPC_LOCK)";
    return finding;
  }
  const auto most = most_of_host(machine);
  if (most && limit >= *most) return finding;
  finding.level = Level::warn;
  if (most) finding.found += "; HOST may hold up to " + format_bytes(*most);
  finding.change =
      raise("ulimit -l unlimited", "memlock unlimited", "LimitMEMLOCK=infinity", "memlock=-1");
  return finding;
}

/// Of a limit on how large one thing of the process may be.
Finding check_size(const Machine &machine, uint64_t limit, Finding finding) {
  if (limit == no_limit) {
    finding.found = "no limit";
    finding.change.clear();
    return finding;
  }
  finding.level = by_default_device(machine, limit);
  finding.found = format_bytes(limit);
  return finding;
}

Finding check_address_space(const Machine &machine) {
  return check_size(machine, machine.limits.address_space,
                    {"address-space", Level::ok, "",
                     "every buffer reserves its whole range, and a device of the host backend is "
                     "mapped whole: by "
                     "default half of the machine's memory",
                     raise("ulimit -v unlimited", "as unlimited", "LimitAS=infinity", "")});
}

Finding check_file_size(const Machine &machine) {
  return check_size(
      machine, machine.limits.file_size,
      {"file-size", Level::ok, "",
       "HOST, a device of the host backend and each spill file are one file each, in memory or on "
       "disk; none can be larger than this",
       raise("ulimit -f unlimited", "fsize unlimited", "LimitFSIZE=infinity", "fsize=-1")});
}

Finding check_open_files(const Machine &machine) {
  // 64 devices of the host backend, HOST, 16 spill files, an eventfd for each of 32 threads that read and write, and the three that
  // every program has.
  constexpr uint64_t enough = 64 + 1 + 16 + 32 + 3;
  // One device, HOST, one spill file with its 8 threads, and those three.
  constexpr uint64_t least = 1 + 1 + 1 + 8 + 3;
  Finding finding{"open-files", Level::ok, "no limit", "", {}};
  finding.why =
      "each device of the host backend, HOST, each spill folder and each thread that reads or "
      "writes "
      "there has an open file, and so has every granule that is exported";
  const uint64_t limit = machine.limits.open_files;
  if (limit == no_limit) return finding;
  finding.found = std::to_string(limit);
  if (limit >= enough) return finding;
  finding.level = limit < least ? Level::bad : Level::warn;
  finding.found += "; " + std::to_string(enough) + " are enough without exports";
  finding.change = raise("ulimit -n 1024", "nofile 1024", "LimitNOFILE=1024", "nofile=1024");
  return finding;
}

}  // namespace weir::tool::doctor
