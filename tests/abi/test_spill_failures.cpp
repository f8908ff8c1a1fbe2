// SPDX-License-Identifier: Apache-2.0
//
// Real failures of spill directories, through the C ABI: file systems without room, directories that can't be written,
// limits of the process, and processes that are killed while they spill. A pool that can't be made says which directory
// it was and what was asked of it, and leaves neither files nor descriptors; whoever ends, however, leaves no file. What
// takes root (mounting a small file system) is skipped without.

#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "tests/abi/pool_fixture.hpp"

namespace {
std::atomic<int> allocated_beyond{0};  ///< calls that asked a file system for more than it had
}

/// The system's, which the library reaches through this one.
extern "C" int fallocate(int file, int mode, off_t offset, off_t length) {
  struct statvfs about {};
  if (fstatvfs(file, &about) == 0 &&
      static_cast<uint64_t>(length) > uint64_t{about.f_bavail} * about.f_frsize)
    allocated_beyond.fetch_add(1);
  return static_cast<int>(syscall(SYS_fallocate, file, mode, offset, length));
}

namespace {

using namespace weir::test;

constexpr uint64_t mib = uint64_t{1} << 20U;

uint64_t entries_in(const char *path) {
  DIR *directory = opendir(path);
  assert_non_null(directory);
  uint64_t count = 0;
  while (const dirent *entry = readdir(directory)) count += entry->d_name[0] != '.' ? 1 : 0;
  closedir(directory);
  return count;
}
uint64_t open_files() { return entries_in("/proc/self/fd"); }

/// A directory that is empty again when it goes, if asked for with a file system of its own in it.
class Folder {
 public:
  explicit Folder(const char *options = nullptr) {
    path_ = std::string(spill_folder()) + "/weir-spill-XXXXXX";
    assert_non_null(mkdtemp(path_.data()));
    if (options == nullptr) return;
    mounted_ = mount("tmpfs", path_.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options) == 0;
  }
  bool mounted() const { return mounted_; }
  const char *path() const { return path_.c_str(); }
  void read_only() const {
    assert_int_equal(mount("tmpfs", path(), "tmpfs", MS_REMOUNT | MS_RDONLY, nullptr), 0);
  }
  uint64_t free_bytes() const {
    struct statvfs about {};
    assert_int_equal(statvfs(path(), &about), 0);
    return uint64_t{about.f_bfree} * about.f_frsize;
  }
  /// The last line of a test, as destructors do not run where an assertion fails.
  void remove() {
    assert_int_equal(entries_in(path()), 0);
    if (mounted_) assert_int_equal(umount(path()), 0);
    assert_int_equal(rmdir(path()), 0);
  }

 private:
  std::string path_;
  bool mounted_ = false;
};

void needs_root() {
  if (geteuid() == 0) return;
  print_message("skipped: only root can mount a file system\n");
  skip();
}

weir_result make_pool(weir_context context, std::initializer_list<const char *> paths,
                      uint64_t bytes, weir_pool *pool, uint64_t flags = 0) {
  const std::vector<const char *> all(paths);
  const weir_pool_device device{0, 0, 4 * page_bytes, {0, 0}};
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.device_count = 1;
  desc.devices = &device;
  desc.flags = flags | WEIR_POOL_NO_BACKGROUND;
  desc.host_budget = 8 * page_bytes;
  desc.page_size = desc.large_page_size = page_bytes;
  desc.storage_budget = bytes;
  desc.storage_paths = all.data();
  desc.storage_path_count = static_cast<uint32_t>(all.size());
  return weir_pool_create(context, &desc, pool);
}

/// A pool that can't be made: the error, what it says, and nothing left. `others` are directories that are fine.
void refused(weir_context context, std::initializer_list<const char *> paths, uint64_t bytes,
             weir_result code, int64_t native, std::initializer_list<std::string> says) {
  const uint64_t files = open_files();
  for (const uint64_t flags :
       {uint64_t{0}, uint64_t{WEIR_POOL_NO_IO_URING}, uint64_t{WEIR_POOL_BUFFERED_STORAGE}}) {
    weir_pool pool = nullptr;
    expect_result(code, make_pool(context, paths, bytes, &pool, flags));
    const weir_error_info info = last_error();
    assert_int_equal(info.tier, WEIR_TIER_STORAGE);
    assert_int_equal(info.native_code, native);
    for (const std::string &part : says) {
      if (std::strstr(weir_last_error(), part.c_str()) == nullptr)
        print_error("no \"%s\" in \"%s\"\n", part.c_str(), weir_last_error());
      assert_non_null(std::strstr(weir_last_error(), part.c_str()));
    }
    assert_null(pool);
    assert_int_equal(open_files(), files);
  }
}

/// Buffers of twelve times the device's memory go down to the files and come back.
void use(weir_context context, weir_pool pool, uint32_t seed) {
  constexpr uint32_t count = 16;
  const uint64_t size = 3 * page_bytes;
  World world(context, pool);
  ok(weir_stream_create(context, 0, 0, &world.streams[0]));
  weir_buffer buffers[count];
  for (uint32_t i = 0; i < count; ++i) {
    buffers[i] = world.buffer(size);
    world.fill(buffers[i], size, seed + i);
  }
  assert_true(world.stats().storage_bytes > 0);
  for (uint32_t i = 0; i < count; ++i) world.check(buffers[i], size, seed + i);
  for (uint32_t i = 0; i < count; ++i) world.check_read(buffers[i], size, seed + i);
  assert_int_equal(world.stats().io_errors, 0);
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(pool, buffer));
  ok(weir_stream_close(world.streams[0]));
}

void a_file_system_without_room(void **) {
  needs_root();
  Folder small("size=2m");
  if (!small.mounted()) skip();
  Folder large;
  weir_context context = make_context(small_host);
  refused(context, {small.path()}, 4 * mib, WEIR_ERROR_OVER_BUDGET, ENOSPC,
          {small.path(), std::to_string(4 * mib), std::to_string(2 * mib)});
  // Striped over two, it is the second that has no room; the first is left as it was.
  refused(context, {large.path(), small.path()}, 8 * mib, WEIR_ERROR_OVER_BUDGET, ENOSPC,
          {small.path(), std::to_string(4 * mib)});
  assert_int_equal(small.free_bytes(), 2 * mib);
  // Nor was the file system full for a moment: what it has not got was not asked of it.
  assert_int_equal(allocated_beyond, 0);

  weir_pool pool = nullptr;
  weir_pool second = nullptr;
  ok(make_pool(context, {small.path()}, 3 * mib / 2, &pool));
  assert_int_equal(small.free_bytes(), mib / 2);
  expect_result(WEIR_ERROR_OVER_BUDGET, make_pool(context, {small.path()}, mib, &second));
  // The room was taken in advance: what fills the file system up now is not this pool's matter.
  const std::string other = std::string(small.path()) + "/other";
  const int file = open(other.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  assert_true(file >= 0);
  while (posix_fallocate(file, 0, static_cast<off_t>(small.free_bytes())) == 0 &&
         small.free_bytes() > 4096) {
  }
  use(context, pool, 1);
  close(file);
  assert_int_equal(unlink(other.c_str()), 0);
  ok(weir_pool_destroy(pool));
  assert_int_equal(small.free_bytes(), 2 * mib);
  ok(weir_context_destroy(context));
  small.remove();
  large.remove();
}

void directories_that_cannot_be_written(void **) {
  Folder folder;
  weir_context context = make_context(small_host);
  const std::string missing = std::string(folder.path()) + "/missing";
  refused(context, {missing.c_str()}, mib, WEIR_ERROR_IO, ENOENT, {missing});
  refused(context, {folder.path(), missing.c_str()}, mib, WEIR_ERROR_IO, ENOENT, {missing});
  const std::string plain = std::string(folder.path()) + "/plain";
  close(open(plain.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  refused(context, {plain.c_str()}, mib, WEIR_ERROR_IO, ENOTDIR, {plain});
  assert_int_equal(unlink(plain.c_str()), 0);
  assert_int_equal(chmod(folder.path(), 0500), 0);
  const bool root = geteuid() == 0;
  if (root) assert_int_equal(seteuid(65534), 0);
  refused(context, {folder.path()}, mib, WEIR_ERROR_IO, EACCES, {folder.path()});
  if (root) assert_int_equal(seteuid(0), 0);
  assert_int_equal(chmod(folder.path(), 0700), 0);
  ok(weir_context_destroy(context));
  folder.remove();
}

void a_read_only_file_system(void **) {
  needs_root();
  Folder folder("size=4m");
  if (!folder.mounted()) skip();
  folder.read_only();
  weir_context context = make_context(small_host);
  refused(context, {folder.path()}, mib, WEIR_ERROR_IO, EROFS, {folder.path()});
  ok(weir_context_destroy(context));
  folder.remove();
}

/// From now on, until it is called with 0.
void limit_files(uint64_t bytes) {
  static rlimit before{};
  static bool known = false;
  if (!known) assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  known = true;
  rlimit limit = before;
  if (bytes != 0) limit.rlim_cur = bytes;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

void the_limit_of_a_files_size(void **) {
  Folder folder;
  weir_context context = make_context(small_host);
  limit_files(2 * mib);
  // No signal either, which would end the program.
  refused(context, {folder.path()}, 4 * mib, WEIR_ERROR_OVER_BUDGET, EFBIG,
          {folder.path(), std::to_string(4 * mib), std::to_string(2 * mib)});
  weir_pool pool = nullptr;
  ok(make_pool(context, {folder.path()}, 2 * mib, &pool));
  use(context, pool, 3);
  ok(weir_pool_destroy(pool));
  ok(make_pool(context, {folder.path(), folder.path()}, 4 * mib, &pool));
  use(context, pool, 4);
  ok(weir_pool_destroy(pool));
  ok(weir_context_destroy(context));
  limit_files(0);
  folder.remove();
}

/// Host memory is files too, to the system: what does not fit them is refused, and nobody is killed.
void the_limit_of_a_files_size_and_host_memory(void **) {
  limit_files(mib);
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  desc.options = small_host;
  weir_context context = nullptr;
  if (weir_context_create(&desc, &context) == WEIR_SUCCESS) ok(weir_context_destroy(context));
  limit_files(0);
  World world({.device_pages = 4, .host_pages = 128});
  weir_buffer buffer = world.buffer(4 * page_bytes);
  weir_buffer other = world.buffer(4 * page_bytes);
  world.fill(buffer, 4 * page_bytes, 1);
  limit_files(mib);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_IO, world.acquire(other, WEIR_DISCARD_WRITE, &lease));
  assert_int_equal(last_error().native_code, EFBIG);
  assert_int_equal(last_error().tier, WEIR_TIER_HOST);
  limit_files(0);
  world.fill(other, 4 * page_bytes, 2);
  world.check(buffer, 4 * page_bytes, 1);
  world.check(other, 4 * page_bytes, 2);
  for (weir_buffer b : {buffer, other}) ok(weir_buffer_destroy(world.pool, b));
  world.close();
}

void two_pools_in_one_directory(void **) {
  Folder folder;
  const uint64_t files = open_files();
  weir_context contexts[2] = {make_context(small_host), make_context(small_host)};
  weir_pool pools[4] = {};
  for (uint32_t i = 0; i < 4; ++i)
    ok(make_pool(contexts[i / 2], {folder.path()}, 2 * mib, &pools[i]));
  for (uint32_t turn = 0; turn < 2; ++turn) {
    for (uint32_t i = 0; i < 4; ++i) use(contexts[i / 2], pools[i], 10 * i + turn);
  }
  assert_int_equal(entries_in(folder.path()), 0);
  for (weir_pool pool : pools) ok(weir_pool_destroy(pool));
  for (weir_context context : contexts) ok(weir_context_destroy(context));
  assert_int_equal(open_files(), files);
  folder.remove();
}

/// What the child does: spills until it is killed.
int spill_for_ever(const char *path) {
  weir_context context = make_context(small_host);
  weir_pool pool = nullptr;
  ok(make_pool(context, {path}, 2 * mib, &pool));
  for (uint32_t turn = 0;; ++turn) {
    use(context, pool, turn);
    if (turn == 0 && write(STDOUT_FILENO, "+", 1) != 1) return 1;
  }
}

void nothing_is_left_of_a_killed_process(void **) {
  const bool own = geteuid() == 0;
  Folder folder(own ? "size=8m" : nullptr);
  const uint64_t before = folder.free_bytes();
  for (uint32_t turn = 0; turn < 3; ++turn) {
    int ready[2];
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      (void)dup2(ready[1], STDOUT_FILENO);
      execl("/proc/self/exe", "test_spill_failures", "--spill", folder.path(), nullptr);
      _exit(127);
    }
    close(ready[1]);
    char said = 0;
    assert_int_equal(read(ready[0], &said, 1), 1);
    assert_int_equal(said, '+');
    close(ready[0]);
    if (folder.mounted()) assert_int_equal(folder.free_bytes(), before - 2 * mib);
    assert_int_equal(kill(child, SIGKILL), 0);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(entries_in(folder.path()), 0);
    // Nobody holds the unnamed file any more either. A ring of the kernel's may take a moment to let go of it.
    for (uint32_t i = 0; folder.mounted() && folder.free_bytes() != before && i < 5000; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (folder.mounted()) assert_int_equal(folder.free_bytes(), before);
  }
  folder.remove();
}

}  // namespace

int main(int argc, char **argv) {
  if (argc == 3 && std::strcmp(argv[1], "--spill") == 0) return spill_for_ever(argv[2]);
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_file_system_without_room),
      cmocka_unit_test(directories_that_cannot_be_written),
      cmocka_unit_test(a_read_only_file_system),
      cmocka_unit_test(the_limit_of_a_files_size),
      cmocka_unit_test(the_limit_of_a_files_size_and_host_memory),
      cmocka_unit_test(two_pools_in_one_directory),
      cmocka_unit_test(nothing_is_left_of_a_killed_process),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
