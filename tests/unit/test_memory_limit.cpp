// SPDX-License-Identifier: Apache-2.0
//
// The reader of the host's memory limits, on made-up /proc and cgroup trees: whichever cgroup has least left decides,
// whatever the mounts look like, and files that are missing or say nonsense decide nothing.
#include "core/base/memory_limit.hpp"

#include "tests/support/cmocka.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace {

using weir::MemoryLimit;

constexpr uint64_t mib = uint64_t{1} << 20;
constexpr uint64_t machine_available = 8000 * mib;
constexpr uint64_t machine_total = 16000 * mib;

std::string number(uint64_t value) { return std::to_string(value) + "\n"; }

/// A root of its own with the files a test gives it. It begins as a machine without cgroups.
class Machine {
 public:
  Machine() {
    std::string name = (std::filesystem::temp_directory_path() / "weir-limits-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) fail_msg("cannot create %s", name.c_str());
    root_ = name;
    write("/proc/meminfo", "MemTotal:       " + std::to_string(machine_total >> 10) +
                               " kB\nMemFree:        12345 kB\nMemAvailable:   " +
                               std::to_string(machine_available >> 10) + " kB\n");
  }
  ~Machine() { std::filesystem::remove_all(root_); }
  Machine(const Machine &) = delete;
  Machine &operator=(const Machine &) = delete;

  void write(const std::string &path, std::string_view text) const {
    const std::filesystem::path file = root_.string() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }
  void remove(const std::string &path) const { std::filesystem::remove_all(root_.string() + path); }
  void cgroups(std::string_view text) const { write("/proc/self/cgroup", text); }
  void mounts(std::string_view text) const {
    write("/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda rw\n" + std::string(text));
  }
  /// A cgroup of version 2 that uses `used` bytes of at most `most`.
  void v2(const std::string &folder, const std::string &most, uint64_t used) const {
    write(folder + "/memory.max", most + "\n");
    write(folder + "/memory.high", "max\n");
    write(folder + "/memory.current", number(used));
    write(folder + "/memory.stat", "anon 1\nfile 2\ninactive_file 0\nslab_reclaimable 0\n");
  }
  void v1(const std::string &folder, uint64_t most, uint64_t used) const {
    write(folder + "/memory.limit_in_bytes", number(most));
    write(folder + "/memory.usage_in_bytes", number(used));
    write(folder + "/memory.use_hierarchy", "1\n");
    write(folder + "/memory.stat",
          "cache 1\nrss 2\nhierarchical_memory_limit 9223372036854771712\n");
  }
  MemoryLimit::Room read() const { return MemoryLimit(root_.string()).read(); }

  void expect(uint64_t bytes, uint64_t limit, std::string_view source) const {
    const MemoryLimit::Room room = read();
    assert_string_equal(room.source, std::string(source).c_str());
    assert_int_equal(room.bytes, bytes);
    assert_int_equal(room.limit, limit);
  }
  void expect_machine() const { expect(machine_available, machine_total, "MemAvailable"); }

 private:
  std::filesystem::path root_;
};

constexpr const char *v2_mount = "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char *v1_mount =
    "34 22 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
    "35 22 0:31 / /sys/fs/cgroup/memory rw,relatime shared:9 master:1 - cgroup cgroup rw,memory\n";
constexpr uint64_t v1_none = UINT64_C(9223372036854771712);

void without_cgroups_the_machine_decides(void **) {
  const Machine machine;
  machine.expect_machine();
  machine.cgroups("0::/a\n");  // and no mountinfo
  machine.expect_machine();
  machine.mounts("");
  machine.expect_machine();
}

void version_2(void **) {
  const Machine machine;
  machine.cgroups("0::/user/job\n");
  machine.mounts(v2_mount);
  machine.v2("/sys/fs/cgroup/user/job", std::to_string(1000 * mib), 300 * mib);
  machine.v2("/sys/fs/cgroup/user", "max", 5000 * mib);
  machine.expect(700 * mib, 1000 * mib, "memory.max of /user/job");

  // What the kernel can take back is room.
  machine.write("/sys/fs/cgroup/user/job/memory.stat",
                "anon 5\ninactive_file " + number(60 * mib) + "active_file " + number(100 * mib) +
                    "slab_reclaimable " + number(40 * mib) + "slab " + number(70 * mib));
  machine.expect(800 * mib, 1000 * mib, "memory.max of /user/job");
  machine.remove("/sys/fs/cgroup/user/job/memory.stat");
  machine.expect(700 * mib, 1000 * mib, "memory.max of /user/job");
  // More reclaimable than used: the counters are read one after the other.
  machine.write("/sys/fs/cgroup/user/job/memory.stat", "inactive_file " + number(400 * mib));
  machine.expect(1000 * mib, 1000 * mib, "memory.max of /user/job");
  machine.remove("/sys/fs/cgroup/user/job/memory.stat");

  machine.write("/sys/fs/cgroup/user/job/memory.high", number(900 * mib));
  machine.expect(600 * mib, 900 * mib, "memory.high of /user/job");
  machine.write("/sys/fs/cgroup/user/job/memory.high", number(1100 * mib));
  machine.expect(700 * mib, 1000 * mib, "memory.max of /user/job");
  machine.write("/sys/fs/cgroup/user/job/memory.high", number(250 * mib));
  machine.expect(0, 250 * mib, "memory.high of /user/job");  // passed, and no wrap below it
  machine.write("/sys/fs/cgroup/user/job/memory.high", "0\n");
  machine.expect(0, 0, "memory.high of /user/job");

  machine.v2("/sys/fs/cgroup/user/job", "max", 300 * mib);
  machine.expect_machine();
  machine.write("/sys/fs/cgroup/user/job/memory.high", number(800 * mib));
  machine.expect(500 * mib, 800 * mib, "memory.high of /user/job");
  machine.v2("/sys/fs/cgroup/user/job", std::to_string(9000 * mib), 300 * mib);
  machine.expect_machine();  // it has more left than the machine
}

void the_tightest_ancestor_decides(void **) {
  const Machine machine;
  machine.cgroups("0::/a/b/c\n");
  machine.mounts(v2_mount);
  machine.v2("/sys/fs/cgroup/a/b/c", std::to_string(4000 * mib), 100 * mib);
  machine.v2("/sys/fs/cgroup/a/b", "max", 900 * mib);
  machine.v2("/sys/fs/cgroup/a", std::to_string(1000 * mib), 950 * mib);
  machine.expect(50 * mib, 1000 * mib, "memory.max of /a");
  machine.v2("/sys/fs/cgroup", std::to_string(2000 * mib), 1990 * mib);  // a container's own root
  machine.expect(10 * mib, 2000 * mib, "memory.max of /");
  machine.v2("/sys/fs/cgroup", std::to_string(2000 * mib), 1000 * mib);
  machine.v2("/sys/fs/cgroup/ab", "1", 0);  // a neighbour
  machine.expect(50 * mib, 1000 * mib, "memory.max of /a");
  machine.remove("/sys/fs/cgroup/a/b");  // gone or hidden: those above it hold all the same
  machine.expect(50 * mib, 1000 * mib, "memory.max of /a");
}

void containers(void **) {
  const Machine machine;
  // A cgroup namespace: the path is "/" and the mount is the container's cgroup.
  machine.cgroups("0::/\n");
  machine.mounts(v2_mount);
  machine.v2("/sys/fs/cgroup", std::to_string(500 * mib), 100 * mib);
  machine.expect(400 * mib, 500 * mib, "memory.max of /");

  // The host's names with a bind mount of the container's cgroup.
  machine.cgroups("0::/docker/abc\n");
  machine.mounts("30 22 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  machine.expect(400 * mib, 500 * mib, "memory.max of /docker/abc");
  machine.cgroups("0::/docker/abc/inner\n");
  machine.v2("/sys/fs/cgroup/inner", std::to_string(200 * mib), 50 * mib);
  machine.expect(150 * mib, 200 * mib, "memory.max of /docker/abc/inner");
  machine.v2("/sys/fs/cgroup", std::to_string(500 * mib), 490 * mib);
  machine.expect(10 * mib, 500 * mib, "memory.max of /docker/abc");

  // A mount that shows another part of the hierarchy says nothing, even if the names are alike.
  machine.cgroups("0::/docker/abcdef\n");
  machine.expect_machine();
  machine.cgroups("0::/docker\n");
  machine.expect_machine();

  // The namespace's root is below the mount's: what the mount shows at its root is above us.
  machine.cgroups("0::/\n");
  machine.mounts("30 22 0:26 /../.. /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  machine.expect(10 * mib, 500 * mib, "memory.max of /../..");
  machine.cgroups("0::/x\n");  // not the mount's own "x", which lies beside us
  machine.v2("/sys/fs/cgroup/x", "1", 0);
  machine.expect(10 * mib, 500 * mib, "memory.max of /../..");
  machine.cgroups("0::/\n");
  machine.mounts("30 22 0:26 /../other /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
  machine.expect_machine();
  // Both lie beside the namespace's root.
  machine.cgroups("0::/../other/inner\n");
  machine.expect(10 * mib, 500 * mib, "memory.max of /../other");
  machine.cgroups("0::/../other2\n");
  machine.expect_machine();
  machine.mounts(v2_mount);  // it shows the namespace's root, and the process is outside
  machine.expect_machine();
}

void version_1(void **) {
  const Machine machine;
  const std::string root = "/sys/fs/cgroup/memory";
  machine.cgroups("5:cpu,cpuacct:/x\n4:memory:/jobs/one\n1:name=systemd:/z\n");
  machine.mounts(v1_mount);
  machine.v1(root + "/jobs/one", 3000 * mib, 1000 * mib);
  machine.v1(root + "/jobs", v1_none, 2000 * mib);
  machine.v1(root, v1_none, 9000 * mib);
  machine.expect(2000 * mib, 3000 * mib, "memory.limit_in_bytes of /jobs/one");
  machine.write(root + "/jobs/one/memory.stat",
                "inactive_file " + number(1 * mib) + "total_inactive_file " + number(500 * mib));
  machine.expect(2500 * mib, 3000 * mib, "memory.limit_in_bytes of /jobs/one");

  machine.v1(root + "/jobs", 2100 * mib, 2000 * mib);
  machine.expect(100 * mib, 2100 * mib, "memory.limit_in_bytes of /jobs");
  machine.write(root + "/jobs/memory.use_hierarchy", "0\n");  // its limit is not for those below
  machine.expect(2500 * mib, 3000 * mib, "memory.limit_in_bytes of /jobs/one");

  machine.v1(root + "/jobs/one", v1_none, 1000 * mib);
  machine.expect_machine();
  machine.remove("/proc/meminfo");
  machine.expect(UINT64_MAX, UINT64_MAX, "");  // "no limit" is no number either
  // A limit above what the mount shows.
  machine.write(root + "/jobs/one/memory.stat", "hierarchical_memory_limit " + number(1500 * mib) +
                                                    "total_inactive_file " + number(100 * mib));
  machine.expect(600 * mib, 1500 * mib, "hierarchical_memory_limit of /jobs/one");
}

void both_versions_at_once(void **) {
  const Machine machine;
  machine.cgroups("4:memory:/job\n1:name=systemd:/s\n0::/slice/job\n");
  machine.mounts(std::string(v1_mount) +
                 "41 22 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  machine.write("/sys/fs/cgroup/unified/slice/job/cgroup.procs", "1\n");
  machine.v1("/sys/fs/cgroup/memory/job", 700 * mib, 200 * mib);
  machine.expect(500 * mib, 700 * mib, "memory.limit_in_bytes of /job");
  // The controller is on version 2, version 1 is mounted and has no memory file.
  machine.remove("/sys/fs/cgroup/memory");
  machine.v2("/sys/fs/cgroup/unified/slice/job", std::to_string(600 * mib), 200 * mib);
  machine.expect(400 * mib, 600 * mib, "memory.max of /slice/job");
}

void several_mounts_of_one_hierarchy(void **) {
  const Machine machine;
  machine.cgroups("0::/outer/inner\n");
  machine.mounts(
      "30 22 0:26 /outer/inner /one rw - cgroup2 cgroup2 rw\n"
      "31 22 0:26 / /two rw - cgroup2 cgroup2 rw\n"
      "32 22 0:26 /elsewhere /three rw - cgroup2 cgroup2 rw\n");
  machine.v2("/one", std::to_string(500 * mib), 100 * mib);
  machine.v2("/two/outer/inner", std::to_string(500 * mib), 100 * mib);
  machine.v2("/two/outer", std::to_string(500 * mib), 200 * mib);
  machine.v2("/three", std::to_string(500 * mib), 499 * mib);
  machine.expect(300 * mib, 500 * mib, "memory.max of /outer");
}

void odd_names(void **) {
  const Machine machine;
  machine.cgroups("0::/with blank/a:b\\x2d\n");
  machine.mounts("30 22 0:26 /with\\040blank /mnt/my\\040groups\\134 rw - cgroup2 cgroup2 rw\n");
  machine.v2("/mnt/my groups\\/a:b\\x2d", std::to_string(500 * mib), 100 * mib);
  machine.expect(400 * mib, 500 * mib, "memory.max of /with blank/a:b\\x2d");

  const std::string id(120, 'f');
  machine.cgroups("0::/docker/" + id + "/end\n");
  machine.mounts(v2_mount);
  machine.v2("/sys/fs/cgroup/docker/" + id + "/end", std::to_string(50 * mib), 0);
  const MemoryLimit::Room room = machine.read();
  assert_int_equal(room.bytes, 50 * mib);
  const std::string_view source = room.source;
  assert_int_equal(source.size(), sizeof room.source - 1);
  assert_true(source.starts_with("memory.max of ...fff"));
  assert_true(source.ends_with("fff/end"));

  machine.cgroups("0::/" + std::string(9000, 'x') + "\n");
  machine.expect_machine();
  machine.mounts(std::string(9000, 'y') + "\n" + std::string(v2_mount));  // a line that is cut
  machine.cgroups("0::/docker/" + id + "/end\n");
  assert_int_equal(machine.read().bytes, 50 * mib);
}

void nonsense_does_not_limit(void **) {
  const Machine machine;
  machine.cgroups("0::/job\n4:memory:/job\n");
  machine.mounts(std::string(v2_mount) + v1_mount);
  const std::string v2 = "/sys/fs/cgroup/job";
  const std::string v1 = "/sys/fs/cgroup/memory/job";
  for (const char *text : {"", "\n", "garbage\n", "-5\n", "5 MiB\n", " 5\n", "0x10\n", "5.5\n",
                           "99999999999999999999999\n"}) {
    machine.v2(v2, text, 1);
    machine.v1(v1, 5, 1);
    machine.write(v1 + "/memory.limit_in_bytes", text);
    machine.expect_machine();
    // The limit is good, what is used is not told.
    machine.v2(v2, "5", 1);
    machine.v1(v1, 5, 1);
    machine.write(v2 + "/memory.current", text);
    machine.write(v1 + "/memory.usage_in_bytes", text);
    machine.expect_machine();
    // Nothing is known to be reclaimable.
    machine.v2(v2, std::to_string(100 * mib), 40 * mib);
    machine.write(v2 + "/memory.stat", std::string("inactive_file ") + text);
    machine.expect(60 * mib, 100 * mib, "memory.max of /job");
    machine.remove(v2);
  }
  machine.remove(v1);
  for (const char *text :
       {"", "0\n", "::\n", "0::\n", "0::relative\n", "4:memory\n", "nothing\n"}) {
    machine.v2("/sys/fs/cgroup", "1", 1);
    machine.cgroups(text);
    machine.expect_machine();
  }
  machine.cgroups("0::/\n");
  for (const char *text : {"\n", " - \n", "30 22 0:26 - cgroup2\n", "- cgroup2 x rw\n",
                           "30 22 0:26 / /sys/fs/cgroup rw cgroup2 x\n"}) {
    machine.mounts(text);
    machine.expect_machine();
  }
}

void meminfo_may_be_missing_or_broken(void **) {
  const Machine machine;
  for (const char *text : {"", "MemAvailable: 5\n", "MemAvailable: 5 MB\n", "MemAvailable: -5 kB\n",
                           "MemAvailable: 99999999999999999999 kB\n",
                           "MemAvailable: 18446744073709551615 kB\n", "MemAvailable:\n"}) {
    machine.write("/proc/meminfo", text);
    machine.expect(UINT64_MAX, UINT64_MAX, "");
  }
  machine.write("/proc/meminfo", "MemAvailable: 5 kB\n");
  machine.expect(5 << 10, UINT64_MAX, "MemAvailable");
  machine.remove("/proc/meminfo");
  machine.expect(UINT64_MAX, UINT64_MAX, "");
  machine.write("/proc/meminfo/a_folder", "");
  machine.expect(UINT64_MAX, UINT64_MAX, "");
}

void a_limit_that_changes_is_seen(void **) {
  const Machine machine;
  machine.cgroups("0::/job\n");
  machine.mounts(v2_mount);
  machine.v2("/sys/fs/cgroup/job", std::to_string(1000 * mib), 300 * mib);
  machine.expect(700 * mib, 1000 * mib, "memory.max of /job");
  machine.v2("/sys/fs/cgroup/job", std::to_string(1000 * mib), 600 * mib);
  machine.expect(400 * mib, 1000 * mib, "memory.max of /job");
  machine.cgroups("0::/other\n");
  machine.expect_machine();
}

void this_machine(void **) {
  const MemoryLimit::Room room = MemoryLimit().read();
  assert_true(room.bytes > 16 * mib);
  assert_true(room.bytes < uint64_t{1} << 50);
  assert_true(room.limit >= room.bytes);
  assert_true(room.source[0] != '\0');
  print_message("%llu MiB left of %llu MiB by %s\n",
                static_cast<unsigned long long>(room.bytes >> 20),
                static_cast<unsigned long long>(room.limit >> 20), room.source);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(without_cgroups_the_machine_decides),
      cmocka_unit_test(version_2),
      cmocka_unit_test(the_tightest_ancestor_decides),
      cmocka_unit_test(containers),
      cmocka_unit_test(version_1),
      cmocka_unit_test(both_versions_at_once),
      cmocka_unit_test(several_mounts_of_one_hierarchy),
      cmocka_unit_test(odd_names),
      cmocka_unit_test(nonsense_does_not_limit),
      cmocka_unit_test(meminfo_may_be_missing_or_broken),
      cmocka_unit_test(a_limit_that_changes_is_seen),
      cmocka_unit_test(this_machine),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
