// SPDX-License-Identifier: Apache-2.0
//
// A host budget of 0 follows what the machine and the cgroups leave: on made-up files, which a test changes under a
// running pool; and in a real memory cgroup, in which a program writes and verifies several times what it may hold, is
// never killed, and goes on when the limit is lowered. The cgroup is skipped where none can be made, and
// under the sanitizers, whose own memory grows between two looks by more than HOST leaves for it.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

// First: the fixture's macro `ok` would meet the core's own functions of that name.
#include "core/pool/pool.hpp"

#include "tests/abi/pool_fixture.hpp"

namespace {

using namespace weir::test;

constexpr uint64_t mib = uint64_t{1} << 20U;
constexpr uint64_t large_page = 2 * mib;
constexpr auto patience = std::chrono::seconds(30);  // to fail by, not to wait for

/// A pool whose host memory follows; `root`: of the files that tell the limits.
World following(uint64_t storage_bytes, const char *root) {
  weir_context context = make_context("host.memory=64M;host.granule=2M;host.granule_large=0");
  reinterpret_cast<weir::pool::Context *>(context)->memory_root = root;
  const weir_pool_device device{0, 0, 32 * mib, {0, 0}};
  const char *folder = spill_folder();
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.device_count = 1;
  desc.devices = &device;
  desc.page_size = desc.large_page_size = large_page;
  desc.storage_budget = storage_bytes;
  desc.storage_paths = &folder;
  desc.storage_path_count = 1;
  weir_pool pool = nullptr;
  ok(weir_pool_create(context, &desc, &pool));
  World world(context, pool);
  ok(weir_stream_create(context, 0, 0, &world.streams[0]));
  return world;
}

/// Looks at the machine until what must come has come; by number of looks, not by time.
template <typename Done>
bool comes_by_looking(World &world, Done done) {
  auto &engine = reinterpret_cast<weir::pool::Pool *>(world.pool)->engine();
  for (int looks = 0; looks < 64; ++looks) {
    engine.upkeep().look_at_memory();
    if (done()) return true;
  }
  return false;
}

/// For what the kernel or another process does in its own time.
template <typename Done>
bool comes(Done done) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// ---- on files of the test's own ----

/// A machine with one cgroup of version 2.
class Machine {
 public:
  Machine() {
    root_ = std::string(spill_folder()) + "/weir-limits-XXXXXX";
    assert_non_null(mkdtemp(root_.data()));
    write("/proc/meminfo", "MemTotal: 16000000 kB\nMemFree: 12345 kB\nMemAvailable: 8000000 kB\n");
    write("/proc/self/cgroup", "0::/box\n");
    write("/proc/self/mountinfo", "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    write("/sys/fs/cgroup/box/memory.high", "max\n");
    write("/sys/fs/cgroup/box/memory.stat",
          "anon 1\nfile 2\ninactive_file 0\nslab_reclaimable 0\n");
    use(0);
    limit(64 * mib);
  }
  const char *root() const { return root_.c_str(); }
  void limit(uint64_t bytes) {
    write("/sys/fs/cgroup/box/memory.max", std::to_string(bytes) + "\n");
  }
  void use(uint64_t bytes) {
    write("/sys/fs/cgroup/box/memory.current", std::to_string(bytes) + "\n");
  }
  void remove() { std::filesystem::remove_all(root_); }

 private:
  /// Whole at once: the pool reads whenever it likes.
  void write(const char *path, const std::string &text) const {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file.string() + ".new", std::ios::binary) << text;
    std::filesystem::rename(file.string() + ".new", file);
  }
  std::string root_;
};

void the_budget_follows_a_file(void **) {
  constexpr uint32_t count = 10;
  constexpr uint64_t size = 4 * mib;
  Machine machine;
  World world = following(128 * mib, machine.root());
  const uint64_t staging = world.stats().staging_bytes;
  const auto budget = [&] { return world.stats().host_budget - staging; };
  const auto held = [&] { return world.stats().host_bytes - staging; };
  const auto spare = [](uint64_t bytes) { return bytes / 5 * 4 / 4096 * 4096; };
  assert_int_equal(budget(), spare(64 * mib));
  machine.use(32 * mib);
  assert_true(comes_by_looking(world, [&] { return budget() == held() + spare(32 * mib); }));
  machine.use(0);
  assert_true(comes_by_looking(world, [&] { return budget() == held() + spare(64 * mib); }));

  weir_buffer buffers[count];
  for (uint32_t i = 0; i < count; ++i) {
    buffers[i] = world.buffer(size);
    world.fill(buffers[i], size, i + 1);
  }
  assert_true(held() > 0);
  const uint64_t full = held();
  // The limit is passed: HOST gives back what it holds, and its pages move on.
  machine.use(65 * mib);
  assert_true(comes_by_looking(world, [&] { return held() < full / 2; }));
  assert_true(world.stats().storage_bytes > 0);
  for (uint32_t i = 0; i < count; ++i) world.check_read(buffers[i], size, i + 1);
  // While it is, work goes on with next to nothing.
  for (uint32_t i = 0; i < count; ++i) world.check(buffers[i], size, i + 1);
  for (uint32_t i = 0; i < count; ++i) world.fill(buffers[i], size, i + 50);
  machine.use(0);
  assert_true(comes_by_looking(world, [&] { return budget() >= spare(64 * mib); }));
  for (uint32_t i = 0; i < count; ++i) world.check(buffers[i], size, i + 50);
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
  machine.remove();
}

// ---- in a real cgroup ----

/// A memory cgroup of the test's own: version 2, or 1.
class Cgroup {
 public:
  /// False: there is none to be had.
  bool make(uint64_t limit) {
    const std::string name = "weir-test-" + std::to_string(getpid());
    for (const char *base : {"/sys/fs/cgroup/", "/sys/fs/cgroup/memory/"}) {
      path_ = base + name;
      if (mkdir(path_.c_str(), 0755) != 0) continue;
      v2_ = access(file("memory.max").c_str(), W_OK) == 0;
      if ((v2_ || access(file("memory.limit_in_bytes").c_str(), W_OK) == 0) && set_limit(limit)) {
        if (v2_) (void)write("memory.swap.max", "0");
        return true;
      }
      rmdir(path_.c_str());
    }
    return false;
  }
  bool set_limit(uint64_t bytes) {
    return write(v2_ ? "memory.max" : "memory.limit_in_bytes", std::to_string(bytes));
  }
  std::string processes() const { return file("cgroup.procs"); }
  uint64_t kills() const {
    return number(v2_ ? "memory.events" : "memory.oom_control", "oom_kill ");
  }
  uint64_t most() const { return number(v2_ ? "memory.peak" : "memory.max_usage_in_bytes", ""); }
  uint64_t now() const { return number(v2_ ? "memory.current" : "memory.usage_in_bytes", ""); }
  void remove() {
    // What it used may be accounted for a moment longer than its processes live.
    assert_true(comes([this] { return rmdir(path_.c_str()) == 0; }));
  }

 private:
  std::string file(const char *name) const { return path_ + "/" + name; }
  bool write(const char *name, const std::string &text) const {
    const int descriptor = open(file(name).c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) return false;
    const bool done =
        ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    close(descriptor);
    return done;
  }
  /// The number after `key` in a file; 0 if it has none.
  uint64_t number(const char *name, const std::string &key) const {
    std::ifstream in(file(name));
    for (std::string line; std::getline(in, line);) {
      if (line.compare(0, key.size(), key) == 0)
        return std::strtoull(line.c_str() + key.size(), nullptr, 10);
    }
    return 0;
  }
  std::string path_;
  bool v2_ = false;
};

constexpr uint64_t buffer_bytes = 8 * mib;

/// In the cgroup: writes and verifies `count` buffers, says so ('w'), waits to be told that the limit is another, works
/// until the host budget is below `below`, says so ('l'), and does the first thing once more with twice as many.
int work_within(uint32_t count, uint64_t below) {
  World world = following(uint64_t{2} * count * buffer_bytes + 64 * mib, "");
  std::vector<weir_buffer> buffers;
  const auto all = [&](uint32_t many, uint32_t seed) {
    while (buffers.size() < many) buffers.push_back(world.buffer(buffer_bytes));
    for (uint32_t i = 0; i < many; ++i) world.fill(buffers[i], buffer_bytes, seed + i);
    for (uint32_t i = 0; i < many; ++i) world.check(buffers[i], buffer_bytes, seed + i);
  };
  const auto say = [](char what) { assert_int_equal(write(STDOUT_FILENO, &what, 1), 1); };
  all(count, 1);
  say('w');
  if (below != 0) {
    char told = 0;
    assert_int_equal(read(STDIN_FILENO, &told, 1), 1);
    uint32_t turn = 0;
    assert_true(comes([&] {
      world.check(buffers[turn % count], buffer_bytes, 1 + turn % count);
      ++turn;
      return world.stats().host_budget < below;
    }));
    say('l');
    all(2 * count, 7);
  }
  const weir_pool_stats stats = world.stats();
  assert_int_equal(stats.checksum_failures + stats.io_errors, 0);
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
  return 0;
}

struct Child {
  pid_t id = 0;
  int to = -1, from = -1;

  Child(const Cgroup &cgroup, uint32_t count, uint64_t below) {
    int in[2], out[2];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    const std::string processes = cgroup.processes();
    const std::string many = std::to_string(count);
    const std::string most = std::to_string(below);
    id = fork();
    assert_true(id >= 0);
    if (id == 0) {
      const int join = open(processes.c_str(), O_WRONLY | O_CLOEXEC);
      if (join < 0 || write(join, "0", 1) != 1) _exit(126);
      (void)dup2(in[0], STDIN_FILENO);
      (void)dup2(out[1], STDOUT_FILENO);
      execl("/proc/self/exe", "test_memory_follows", "--within", many.c_str(), most.c_str(),
            nullptr);
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to = in[1];
    from = out[0];
  }
  void hear(char what) const {
    char said = 0;
    if (read(from, &said, 1) != 1) {
      int status = 0;
      (void)waitpid(id, &status, 0);
      fail_msg("the child ended, status %#x", static_cast<unsigned>(status));
    }
    assert_int_equal(said, what);
  }
  void end() const {
    int status = 0;
    assert_int_equal(waitpid(id, &status, 0), id);
    if (WIFSIGNALED(status)) print_error("killed by signal %d\n", WTERMSIG(status));
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    close(to);
    close(from);
  }
};

void needs_cgroup(Cgroup *cgroup, uint64_t limit) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  print_message("skipped: the sanitizer's own memory does not fit\n");
  skip();
#endif
  if (cgroup->make(limit)) return;
  print_message("skipped: no memory cgroup can be made here\n");
  skip();
}

void several_times_the_limit(void **) {
  constexpr uint64_t limit = 192 * mib;
  Cgroup cgroup;
  needs_cgroup(&cgroup, limit);
  const Child child(cgroup, 4 * limit / buffer_bytes, 0);
  child.hear('w');
  child.end();
  print_message("at most %llu MiB of %llu\n", static_cast<unsigned long long>(cgroup.most() / mib),
                static_cast<unsigned long long>(limit / mib));
  assert_int_equal(cgroup.kills(), 0);
  assert_true(cgroup.most() > limit / 2);
  assert_true(cgroup.most() <= limit);
  cgroup.remove();
}

/// The limit comes down to what is in use and a little more: HOST may have no more than its part of that little.
void the_limit_is_lowered(void **) {
  constexpr uint64_t limit = 512 * mib;
  Cgroup cgroup;
  needs_cgroup(&cgroup, limit);
  const uint32_t count = 12;
  const Child child(cgroup, count, limit / 2);
  child.hear('w');
  uint64_t lower = cgroup.now() + 48 * mib;
  assert_true(lower < limit / 2 + 48 * mib);
  assert_true(cgroup.set_limit(lower));
  assert_int_equal(write(child.to, "+", 1), 1);
  child.hear('l');
  child.end();
  assert_int_equal(cgroup.kills(), 0);
  cgroup.remove();
}

}  // namespace

int main(int argc, char **argv) {
  if (argc == 4 && std::strcmp(argv[1], "--within") == 0)
    return work_within(static_cast<uint32_t>(std::atoi(argv[2])),
                       std::strtoull(argv[3], nullptr, 10));
  const CMUnitTest tests[] = {
      cmocka_unit_test(the_budget_follows_a_file),
      cmocka_unit_test(several_times_the_limit),
      cmocka_unit_test(the_limit_is_lowered),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
