// SPDX-License-Identifier: Apache-2.0
//
// A machine for tests of `weir doctor`: a folder with files of /proc and /sys, limits, and answers. It begins as one on which nothing
// holds Weir back; a test makes it worse. Nothing of the real machine is looked at.
#pragma once

#include "tests/support/cmocka.hpp"
#include "tools/weir/doctor/checks.hpp"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>

namespace weir::test {

inline constexpr uint64_t mib = uint64_t{1} << 20;
inline constexpr uint64_t gib = uint64_t{1} << 30;

class DoctorMachine {
 public:
  DoctorMachine() {
    std::string name = (std::filesystem::temp_directory_path() / "weir-doctor-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) fail_msg("cannot create %s", name.c_str());
    is.root = name;
    memory(64 * gib, 48 * gib);
    write("/proc/self/status", "Name:\tweir\nCapEff:\t0000000000000000\n");
    write("/proc/sys/vm/max_map_count", "65530\n");
    write("/proc/sys/vm/overcommit_memory", "0\n");
    write("/proc/sys/kernel/io_uring_disabled", "0\n");
    write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    is.limits.open_files = 1024;
    is.make_ring = [] { return 0; };
    is.make_memory_file = [] { return 0; };
    is.cache_folder = "/home/user/.cache/weir";
    folders["/home/user/.cache/weir"] = {};
    is.look_at_folder = [this](const std::string &path) {
      const auto found = folders.find(path);
      return found != folders.end() ? found->second : tool::doctor::Folder{.error = ENOENT};
    };
  }
  ~DoctorMachine() { std::filesystem::remove_all(is.root); }
  DoctorMachine(const DoctorMachine &) = delete;
  DoctorMachine &operator=(const DoctorMachine &) = delete;

  void write(const std::string &path, std::string_view text) const {
    const std::filesystem::path file = is.root + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  void remove(const std::string &path) const { std::filesystem::remove_all(is.root + path); }
  void memory(uint64_t total, uint64_t available, const std::string &more = "") const {
    write("/proc/meminfo", "MemTotal: " + std::to_string(total >> 10) + " kB\nMemAvailable:   " +
                               std::to_string(available >> 10) + " kB\n" + more);
  }
  /// The process is in this cgroup of version 2, which has `used` bytes of `most`.
  void cgroup_v2(const std::string &name, uint64_t most, uint64_t used,
                 const std::string &file = "memory.max") const {
    write("/proc/self/cgroup", "0::" + name + "\n");
    write("/proc/self/mountinfo",
          "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n");
    write("/sys/fs/cgroup" + name + "/memory.max", "max\n");
    write("/sys/fs/cgroup" + name + "/" + file, std::to_string(most) + "\n");
    write("/sys/fs/cgroup" + name + "/memory.current", std::to_string(used) + "\n");
  }
  void cgroup_v1(const std::string &name, uint64_t most, uint64_t used) const {
    write("/proc/self/cgroup", "5:memory:" + name + "\n0::/\n");
    write("/proc/self/mountinfo",
          "34 22 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    write("/sys/fs/cgroup/memory" + name + "/memory.limit_in_bytes", std::to_string(most) + "\n");
    write("/sys/fs/cgroup/memory" + name + "/memory.usage_in_bytes", std::to_string(used) + "\n");
  }

  tool::doctor::Machine is;
  std::map<std::string, tool::doctor::Folder> folders;  ///< others do not exist
};

}  // namespace weir::test
