// SPDX-License-Identifier: Apache-2.0
//
// `weir doctor`: each check on machines that tests make up (good, bad, files missing, nonsense in files, cgroups of both versions, a
// container without /proc/sys), and the command itself, whose exit status is what it has found.
// WEIR_BIN_DIR says where the program is; without it the command's tests skip.
#include "tests/tools/doctor_machine.hpp"
#include "tests/tools/program.hpp"

#include <nlohmann/json.hpp>

#include <set>

namespace {

using namespace weir::tool::doctor;
using weir::test::contains;
using weir::test::DoctorMachine;
using weir::test::gib;
using weir::test::mib;
using weir::test::Outcome;
using weir::test::run_weir;

std::string text_of(const Finding &finding) {
  std::string text = finding.check + ": " + finding.found;
  for (const std::string &change : finding.change) text += "\n  " + change;
  return text;
}

/// A finding that is not ok says what to change, and one that is does not; all say what they found, and why it matters.
void expect(const Finding &finding, Level level, const std::vector<std::string> &words) {
  const std::string text = text_of(finding);
  if (finding.level != level)
    fail_msg("level %d: %s", static_cast<int>(finding.level), text.c_str());
  for (const std::string &word : words)
    if (!contains(text, word)) fail_msg("no \"%s\" in %s", word.c_str(), text.c_str());
  assert_true(!finding.found.empty() && !finding.why.empty());
  if (finding.change.empty() != (level == Level::ok)) fail_msg("changes: %s", text.c_str());
}

void a_good_machine(void **) {
  DoctorMachine machine;
  machine.is.storage = {"/spill"};
  machine.folders["/spill"] = {.free_bytes = 100 * gib};
  const std::vector<Finding> findings = examine(machine.is);
  std::set<std::string> names;
  for (const Finding &finding : findings) {
    expect(finding, Level::ok, {});
    names.insert(finding.check);
  }
  assert_int_equal(names.size(), findings.size());
  for (const char *name :
       {"memory", "memory-files", "file-size", "address-space", "overcommit", "mappings",
        "huge-pages", "locked-memory", "io-uring", "open-files", "cache-folder", "storage"})
    if (names.count(name) != 1) fail_msg("no check %s", name);
}

void a_bad_machine(void **) {
  DoctorMachine machine;
  machine.memory(64 * gib, 1 * gib, "CommitLimit: 1024 kB\nCommitted_AS: 2048 kB\n");
  machine.write("/proc/sys/vm/max_map_count", "1000\n");
  machine.write("/proc/sys/vm/overcommit_memory", "2\n");
  machine.write("/proc/sys/kernel/io_uring_disabled", "2\n");
  machine.write("/proc/sys/vm/memfd_noexec", "2\n");
  machine.write("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  machine.is.limits = {64 << 10, 1 * gib, 1 * gib, 8};
  machine.is.make_ring = [] { return EPERM; };
  machine.is.make_memory_file = [] { return EACCES; };
  machine.folders["/home/user/.cache/weir"].error = EROFS;
  machine.is.storage = {"/absent"};
  size_t bad = 0;
  for (const Finding &finding : examine(machine.is)) {
    assert_true(finding.level != Level::ok);
    expect(finding, finding.level, {});
    bad += finding.level == Level::bad ? 1 : 0;
  }
  assert_int_equal(bad, 7);
}

// ---- limits ----

void locked_memory(void **) {
  DoctorMachine machine;
  expect(check_locked_memory(machine.is), Level::ok, {"no limit"});
  machine.is.limits.locked_memory = 8 * mib;
  // Four fifths of the machine's 64 GiB.
  expect(check_locked_memory(machine.is), Level::warn,
         {"8.00 MiB; HOST may hold up to 51.2 GiB", "ulimit -l unlimited", "LimitMEMLOCK=infinity",
          "* - memlock unlimited", "--ulimit memlock=-1"});
  machine.is.limits.locked_memory = 52 * gib;
  expect(check_locked_memory(machine.is), Level::ok, {"52.0 GiB"});
  machine.is.limits.locked_memory = 7 * gib;
  expect(check_locked_memory(machine.is), Level::warn, {});
  machine.cgroup_v2("/a", 8 * gib, 0);  // 6.4 GiB
  expect(check_locked_memory(machine.is), Level::ok, {});
  machine.is.limits.locked_memory = 0;
  expect(check_locked_memory(machine.is), Level::warn, {"0 B"});
  // Bit 14 is CAP_IPC_LOCK, 13 and 15 are others.
  machine.write("/proc/self/status", "CapInh:\t0000000000004000\nCapEff:\t000000000000a000\n");
  expect(check_locked_memory(machine.is), Level::warn, {});
  machine.write("/proc/self/status", "CapInh:\t0\nCapEff:\t0000000000004000\n");
  expect(check_locked_memory(machine.is), Level::ok, {"CAP_IPC_LOCK"});
  machine.write("/proc/self/status", "CapEff:\tnonsense\n");
  expect(check_locked_memory(machine.is), Level::warn, {});
  machine.remove("/proc");
  expect(check_locked_memory(machine.is), Level::warn, {"0 B"});
}

void address_space_and_file_size(void **) {
  for (const bool files : {false, true}) {
    DoctorMachine machine;
    const auto check = [&] {
      return files ? check_file_size(machine.is) : check_address_space(machine.is);
    };
    uint64_t &limit = files ? machine.is.limits.file_size : machine.is.limits.address_space;
    expect(check(), Level::ok, {"no limit"});
    limit = 32 * gib;  // half of the machine's memory: the default device just fits
    expect(check(), Level::warn,
           {"32.0 GiB", files ? "ulimit -f unlimited" : "ulimit -v unlimited"});
    limit = 32 * gib - 1;
    expect(check(), Level::bad, {files ? "LimitFSIZE=infinity" : "LimitAS=infinity"});
    machine.remove("/proc/meminfo");
    expect(check(), Level::warn, {});
  }
}

void open_files(void **) {
  DoctorMachine machine;
  expect(check_open_files(machine.is), Level::ok, {"1024"});
  machine.is.limits.open_files = 116;
  expect(check_open_files(machine.is), Level::ok, {});
  machine.is.limits.open_files = 115;
  expect(check_open_files(machine.is), Level::warn, {"115; 116 are enough", "ulimit -n 1024"});
  machine.is.limits.open_files = 13;
  expect(check_open_files(machine.is), Level::bad, {"LimitNOFILE=1024"});
  machine.is.limits.open_files = no_limit;
  expect(check_open_files(machine.is), Level::ok, {"no limit"});
}

// ---- the kernel ----

void mappings(void **) {
  DoctorMachine machine;  // 64 GiB are 32768 granules
  expect(check_mappings(machine.is), Level::ok, {"vm.max_map_count is 65530"});
  machine.write("/proc/sys/vm/max_map_count", "32768\n");
  expect(check_mappings(machine.is), Level::ok, {});
  machine.write("/proc/sys/vm/max_map_count", "32767\n");
  expect(check_mappings(machine.is), Level::warn,
         {"is 32767; all of the machine's memory in granules is 32768",
          "sysctl -w vm.max_map_count=1048576",
          "echo vm.max_map_count=1048576 >>/etc/sysctl.d/90-weir.conf"});
  machine.memory(2048 * gib, 48 * gib);
  expect(check_mappings(machine.is), Level::warn, {"=2097152"});
  machine.remove("/proc/meminfo");
  expect(check_mappings(machine.is), Level::ok, {});
  machine.write("/proc/sys/vm/max_map_count", "many\n");
  expect(check_mappings(machine.is), Level::warn, {"not known", "'many', which is no number"});
  machine.write("/proc/sys/vm/max_map_count", "99999999999999999999999\n");
  expect(check_mappings(machine.is), Level::warn, {"which is no number"});
  machine.write("/proc/sys/vm/max_map_count", "65530 of them\n");
  expect(check_mappings(machine.is), Level::warn, {"'65530 of them'"});
  machine.write("/proc/sys/vm/max_map_count", "-1\n");
  expect(check_mappings(machine.is), Level::warn, {"'-1'"});
  machine.write("/proc/sys/vm/max_map_count", "");
  expect(check_mappings(machine.is), Level::warn, {"''"});
}

void io_uring(void **) {
  DoctorMachine machine;
  machine.write("/proc/sys/kernel/io_uring_disabled", "2\n");
  expect(check_io_uring(machine.is), Level::ok, {"works"});  // what works is not forbidden
  machine.is.make_ring = [] { return EPERM; };
  expect(check_io_uring(machine.is), Level::warn,
         {"Operation not permitted; kernel.io_uring_disabled is 2",
          "sysctl -w kernel.io_uring_disabled=0"});
  machine.write("/proc/sys/kernel/io_uring_disabled", "0\n");
  expect(check_io_uring(machine.is), Level::warn, {"disabled is 0", "seccomp=PROFILE.json"});
  machine.remove("/proc/sys/kernel/io_uring_disabled");  // kernels before 6.6
  expect(check_io_uring(machine.is), Level::warn, {"seccomp=PROFILE.json"});
  assert_false(contains(check_io_uring(machine.is).found, "disabled"));
  machine.write("/proc/sys/kernel/io_uring_disabled", "perhaps");
  expect(check_io_uring(machine.is), Level::warn, {"'perhaps'"});
  machine.is.make_ring = [] { return ENOSYS; };
  expect(check_io_uring(machine.is), Level::warn, {"CONFIG_IO_URING=y"});
  machine.is.make_ring = [] { return ENOMEM; };
  expect(check_io_uring(machine.is), Level::warn, {"ulimit -l unlimited"});
}

void huge_pages(void **) {
  const std::string path = "/sys/kernel/mm/transparent_hugepage/enabled";
  DoctorMachine machine;
  expect(check_huge_pages(machine.is), Level::ok, {"madvise"});
  machine.write(path, "[always] madvise never\n");
  expect(check_huge_pages(machine.is), Level::ok, {"always"});
  machine.write(path, "always madvise [never]\n");
  expect(check_huge_pages(machine.is), Level::warn, {"never", "echo madvise >" + path});
  machine.write(path, "always madvise never\n");
  expect(check_huge_pages(machine.is), Level::warn, {"not known", "'always madvise never'"});
  machine.remove("/sys");
  expect(check_huge_pages(machine.is), Level::warn, {path + ": No such file"});
}

void memory_files(void **) {
  DoctorMachine machine;
  machine.write("/proc/sys/vm/memfd_noexec", "2\n");
  expect(check_memory_files(machine.is), Level::ok, {"works"});
  machine.is.make_memory_file = [] { return EACCES; };
  expect(check_memory_files(machine.is), Level::bad,
         {"Permission denied; vm.memfd_noexec is 2", "sysctl -w vm.memfd_noexec=1"});
  machine.write("/proc/sys/vm/memfd_noexec", "1\n");
  expect(check_memory_files(machine.is), Level::bad, {"seccomp=PROFILE.json"});
  machine.remove("/proc/sys/vm/memfd_noexec");
  machine.is.make_memory_file = [] { return EMFILE; };
  expect(check_memory_files(machine.is), Level::bad, {"ulimit -n 1024"});
}

void overcommit(void **) {
  DoctorMachine machine;
  const std::string path = "/proc/sys/vm/overcommit_memory";
  expect(check_overcommit(machine.is), Level::ok, {"is 0"});
  machine.write(path, "1\n");
  expect(check_overcommit(machine.is), Level::ok, {"is 1"});
  machine.write(path, "2\n");
  expect(check_overcommit(machine.is), Level::warn, {"is 2", "sysctl -w vm.overcommit_memory=0"});
  machine.memory(64 * gib, 48 * gib, "CommitLimit: 1048576 kB\nCommitted_AS: 983040 kB\n");
  expect(check_overcommit(machine.is), Level::warn, {"64.0 MiB of 1.00 GiB are left"});
  machine.memory(64 * gib, 48 * gib, "CommitLimit: 1048576 kB\nCommitted_AS: 983041 kB\n");
  expect(check_overcommit(machine.is), Level::bad, {});
  machine.memory(64 * gib, 48 * gib, "CommitLimit: 1048576 kB\nCommitted_AS: 9830410 kB\n");
  expect(check_overcommit(machine.is), Level::bad, {"0 B of 1.00 GiB"});
  machine.memory(64 * gib, 48 * gib, "CommitLimit: 1048576 MB\nCommitted_AS: x kB\n");
  expect(check_overcommit(machine.is), Level::warn, {});
  machine.write(path, "two\n");
  expect(check_overcommit(machine.is), Level::warn, {"'two'"});
  machine.remove(path);
  expect(check_overcommit(machine.is), Level::warn, {path + ": No such file"});
}

// ---- memory ----

void memory_of_the_machine(void **) {
  DoctorMachine machine;
  expect(check_memory(machine.is), Level::ok, {"48.0 GiB left of 64.0 GiB (MemAvailable)"});
  machine.memory(64 * gib, 4 * gib + 6 * mib);  // the sixteenth that is kept, and the least of HOST
  expect(check_memory(machine.is), Level::ok, {});
  machine.memory(64 * gib, 4 * gib + 6 * mib - 1024);
  expect(check_memory(machine.is), Level::bad, {"less than the least", "ps -eo rss"});
  machine.write("/proc/meminfo", "MemAvailable: 1048576 kB\n");
  expect(check_memory(machine.is), Level::bad, {"an unknown total"});
  machine.write("/proc/meminfo", "MemTotal: lots\nMemAvailable: some kB\n");
  expect(check_memory(machine.is), Level::warn, {"not known", "host_budget"});
  machine.remove("/proc");
  expect(check_memory(machine.is), Level::warn, {"not known"});
}

void memory_of_a_cgroup(void **) {
  DoctorMachine machine;
  machine.cgroup_v2("/a.slice/b", 40 * gib, 1 * gib);
  expect(check_memory(machine.is), Level::ok,
         {"39.0 GiB left of 40.0 GiB (memory.max of /a.slice/b)"});
  machine.cgroup_v2("/a.slice/b", 8 * gib, 2 * gib);
  expect(check_memory(machine.is), Level::warn,
         {"6.00 GiB left of 8.00 GiB", "a device of the host backend would have 32.0 GiB",
          "export WEIR_OPTIONS=host.memory=3072M",
          "echo max >'/sys/fs/cgroup/a.slice/b/memory.max'", "docker run --memory"});
  machine.cgroup_v2("/a.slice/b", 8 * gib, 8 * gib - mib);
  expect(check_memory(machine.is), Level::bad,
         {"less than the least", "echo max >'/sys/fs/cgroup/a.slice/b/memory.max'"});
  machine.cgroup_v2("/", 8 * gib, 2 * gib, "memory.high");
  expect(check_memory(machine.is), Level::warn,
         {"(memory.high of /)", "echo max >'/sys/fs/cgroup/memory.high'"});
}

/// Of a long name the end is told; the command finds the rest.
void memory_of_a_cgroup_with_a_long_name(void **) {
  DoctorMachine machine;
  const std::string name = "/kubepods.slice/" + std::string(60, 'a') + "/" + std::string(40, 'b');
  machine.cgroup_v2(name, 8 * gib, 2 * gib);
  const Finding finding = check_memory(machine.is);
  expect(finding, Level::warn,
         {"(memory.max of ...", "echo max >\"$(find /sys/fs/cgroup -path '*"});
  assert_true(contains(text_of(finding), "/" + std::string(40, 'b') + "/memory.max')\""));
}

/// A limit that only the least of all above tells: there is no file of one's own to write to.
void memory_of_a_cgroup_above(void **) {
  DoctorMachine machine;
  machine.cgroup_v1("/docker/c", 9223372036854771712U, 2 * gib);
  machine.write("/sys/fs/cgroup/memory/docker/c/memory.stat",
                "hierarchical_memory_limit 8589934592\n");
  const Finding finding = check_memory(machine.is);
  expect(finding, Level::warn, {"hierarchical_memory_limit", "docker run --memory"});
  assert_false(contains(text_of(finding), "echo -1"));
}

void memory_of_a_cgroup_of_version_1(void **) {
  DoctorMachine machine;
  machine.cgroup_v1("/docker/c", 8 * gib, 2 * gib);
  expect(check_memory(machine.is), Level::warn,
         {"6.00 GiB left of 8.00 GiB (memory.limit_in_bytes of /docker/c)",
          "echo -1 >'/sys/fs/cgroup/memory/docker/c/memory.limit_in_bytes'"});
  machine.cgroup_v1("/docker/c", 9223372036854771712U, 2 * gib);  // no limit
  expect(check_memory(machine.is), Level::ok, {"MemAvailable"});
  machine.write("/sys/fs/cgroup/memory/docker/c/memory.limit_in_bytes", "garbage\n");
  expect(check_memory(machine.is), Level::ok, {"MemAvailable"});
}

/// It sees neither /proc/sys nor /sys; what it can be asked for works.
void a_container_without_settings(void **) {
  DoctorMachine machine;
  machine.remove("/proc/sys");
  machine.remove("/sys");
  std::set<std::string> unknown;
  for (const Finding &finding : examine(machine.is)) {
    if (finding.level == Level::ok) continue;
    expect(finding, Level::warn, {"not known", "No such file", "outside of a container"});
    unknown.insert(finding.check);
  }
  assert_true(unknown == std::set<std::string>({"mappings", "huge-pages", "overcommit"}));
}

// ---- folders ----

void the_cache_folder(void **) {
  DoctorMachine machine;
  expect(check_cache_folder(machine.is), Level::ok, {"'/home/user/.cache/weir'"});
  machine.folders.clear();
  machine.folders["/home/user"] = {};
  expect(check_cache_folder(machine.is), Level::ok, {"does not exist yet"});
  machine.folders["/home/user"].error = EACCES;
  expect(check_cache_folder(machine.is), Level::warn,
         {"no file can be made in '/home/user': Permission denied",
          "sudo install -d -o \"$(id -un)\" -m 700 '/home/user/.cache/weir'",
          "export WEIR_CACHE_DIR="});
  machine.folders["/home/user"].error = EROFS;
  expect(check_cache_folder(machine.is), Level::warn, {"Read-only", "export WEIR_CACHE_DIR="});
  machine.folders.clear();  // not even "/": told, and no loop
  expect(check_cache_folder(machine.is), Level::warn, {"'/'"});
  machine.is.cache_folder = "relative//";
  expect(check_cache_folder(machine.is), Level::warn, {"'.'"});
  machine.is.cache_folder = "";
  expect(check_cache_folder(machine.is), Level::warn, {"none: WEIR_CACHE_DIR"});
}

void where_the_cache_folder_is(void **) {
  std::map<std::string, std::string> variables;
  const auto get = [&](const char *name) {
    const auto found = variables.find(name);
    return found != variables.end() ? found->second.c_str() : nullptr;
  };
  assert_string_equal(cache_folder(get).c_str(), "");
  variables["HOME"] = "/home/user";
  assert_string_equal(cache_folder(get).c_str(), "/home/user/.cache/weir");
  variables["XDG_CACHE_HOME"] = "not/absolute";
  assert_string_equal(cache_folder(get).c_str(), "/home/user/.cache/weir");
  variables["XDG_CACHE_HOME"] = "/cache";
  assert_string_equal(cache_folder(get).c_str(), "/cache/weir");
  variables["WEIR_CACHE_DIR"] = "mine";
  assert_string_equal(cache_folder(get).c_str(), "mine");
}

void spill_folders(void **) {
  DoctorMachine machine;
  machine.folders["/disk"] = {.free_bytes = 5 * gib};
  expect(check_storage_folder(machine.is, "/disk"), Level::ok, {"'/disk', 5.00 GiB free"});
  machine.folders["/run"] = {.in_memory = true, .direct = false, .free_bytes = 5 * gib};
  expect(check_storage_folder(machine.is, "/run"), Level::warn, {"tmpfs", "findmnt"});
  machine.folders["/net"] = {.direct = false, .free_bytes = 5 * gib};
  expect(check_storage_folder(machine.is, "/net"), Level::warn, {"without O_DIRECT"});
  expect(check_storage_folder(machine.is, "/it's absent"), Level::bad,
         {"'/it's absent': No such file", "mkdir -p '/it'\\''s absent'"});
  machine.folders["/theirs"].error = EACCES;
  expect(check_storage_folder(machine.is, "/theirs"), Level::bad,
         {"Permission denied", "sudo install -d"});
  machine.folders["/file"].error = ENOTDIR;
  expect(check_storage_folder(machine.is, "/file"), Level::bad, {"Not a directory", "findmnt"});
}

/// Real folders: one that is there, one that is not, and a file.
void folders_are_looked_at(void **) {
  const weir::test::TemporaryFile file("x");
  const std::string folder = file.path().substr(0, file.path().rfind('/'));
  const Folder found = look_at_folder(folder);
  assert_int_equal(found.error, 0);
  assert_true(found.free_bytes > 0);
  assert_int_equal(look_at_folder(file.path() + "-absent").error, ENOENT);
  assert_int_equal(look_at_folder(file.path()).error, ENOTDIR);
}

// ---- the command ----

void the_status_is_the_finding(void **) {
  if (!weir::test::weir_is_there()) return;
  const Outcome outcome = run_weir({"doctor", "--json"});
  const auto report = nlohmann::json::parse(outcome.output);
  assert_int_equal(outcome.status, report["bad"] > 0 ? 1 : 0);
  std::map<std::string, int> levels;
  for (const auto &check : report["checks"]) {
    ++levels[check["level"]];
    for (const char *field : {"check", "found", "why"})
      assert_false(check[field].get<std::string>().empty());
    assert_int_equal(check["change"].empty(), check["level"] == "ok");
  }
  for (const char *level : {"ok", "warn", "bad"}) assert_int_equal(report[level], levels[level]);
  assert_int_equal(report["checks"].size(), 11);
}

void the_command_tells(void **) {
  if (!weir::test::weir_is_there()) return;
  const Outcome outcome =
      run_weir({"doctor", "--storage", "/nonexistent/a", "--storage", "/dev/null"});
  assert_int_equal(outcome.status, 1);
  assert_true(
      contains(outcome.output, "bad   storage        no file can be made in '/nonexistent/a'"));
  assert_true(contains(outcome.output, "change         mkdir -p '/nonexistent/a'"));
  assert_true(contains(outcome.output, "'/dev/null': Not a directory"));
  assert_true(contains(outcome.output, "13 checks: "));
  std::vector<std::string> many = {"doctor"};
  for (int i = 0; i < 17; ++i) many.insert(many.end(), {"--storage", "/"});
  assert_true(contains(run_weir(many).errors, "17 directories are more than 16"));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_good_machine),
      cmocka_unit_test(a_bad_machine),
      cmocka_unit_test(locked_memory),
      cmocka_unit_test(address_space_and_file_size),
      cmocka_unit_test(open_files),
      cmocka_unit_test(mappings),
      cmocka_unit_test(io_uring),
      cmocka_unit_test(huge_pages),
      cmocka_unit_test(memory_files),
      cmocka_unit_test(overcommit),
      cmocka_unit_test(memory_of_the_machine),
      cmocka_unit_test(memory_of_a_cgroup),
      cmocka_unit_test(memory_of_a_cgroup_with_a_long_name),
      cmocka_unit_test(memory_of_a_cgroup_above),
      cmocka_unit_test(memory_of_a_cgroup_of_version_1),
      cmocka_unit_test(a_container_without_settings),
      cmocka_unit_test(the_cache_folder),
      cmocka_unit_test(where_the_cache_folder_is),
      cmocka_unit_test(spill_folders),
      cmocka_unit_test(folders_are_looked_at),
      cmocka_unit_test(the_status_is_the_finding),
      cmocka_unit_test(the_command_tells),
  };
  return cmocka_run_group_tests_name("weir doctor", tests, nullptr, nullptr);
}
