// SPDX-License-Identifier: Apache-2.0
//
// The start of the STORAGE tier's store: directories that are not what they should be, disks without room, systems
// without what it would rather have; that whatever failed is told and undone, and can be tried again.

#include "tests/unit/storage_fixture.hpp"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <functional>
#include <limits>

namespace {

using namespace weir::test;
using weir::Log;
using weir::Status;

constexpr Way plain{true, true, 1, false};

/// A start that is to fail leaves no descriptor and no file.
void refused(const StorageConfig &config, weir_result code, int64_t native, const char *part) {
  StorageStore store(config, {}, std::pmr::new_delete_resource());
  const uint64_t before = entries_in("/proc/self/fd");
  bad(store.start(), code, native, part);
  assert_int_equal(entries_in("/proc/self/fd"), before);
  assert_int_equal(store.budget(), 0);
}

void what_makes_no_store(void **) {
  Directory directory;
  StorageConfig config;
  config.budget = mib;
  refused(config, WEIR_ERROR_INVALID_ARGUMENT, 0, "0 directories");
  config.directories.assign(17, directory.path());
  refused(config, WEIR_ERROR_INVALID_ARGUMENT, 0, "17 directories");
  config.directories.assign(1, directory.path());
  config.budget = 0;
  refused(config, WEIR_ERROR_INVALID_ARGUMENT, 0, "a budget of 0 bytes");
  config.budget = unit - 1;
  refused(config, WEIR_ERROR_INVALID_ARGUMENT, 0, "a budget of 4095 bytes");
  config.budget = weir::tier::UnitArena::max_bytes + unit;
  refused(config, WEIR_ERROR_INVALID_ARGUMENT, 0, "a budget of 8796093026304 bytes");
  config.budget = unit;
  config.directories.assign(16, directory.path());
  StorageStore smallest(config, {}, std::pmr::new_delete_resource());
  good(smallest.start());
  assert_int_equal(smallest.budget(), unit);
}

void directories_that_are_none(void **) {
  Directory directory;
  StorageConfig config;
  config.budget = mib;
  const std::string missing = directory.path() + "/missing";
  config.directories = {directory.path(), missing};
  refused(config, WEIR_ERROR_IO, ENOENT, missing.c_str());
  refused(config, WEIR_ERROR_IO, ENOENT, "No such file or directory");
  const std::string file = directory.path() + "/file";
  close(open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  config.directories = {file};
  refused(config, WEIR_ERROR_IO, ENOTDIR, file.c_str());
  unlink(file.c_str());
  assert_int_equal(entries_in(directory.path()), 0);
}

/// Runs in a process of its own, which may do to itself what it likes. True: every check of it held.
bool in_child(const std::function<bool()> &body) {
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) _exit(body() ? 0 : 1);
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void a_directory_of_somebody_else(void **) {
  Directory directory(true);
  assert_int_equal(chmod(directory.path().c_str(), 0500), 0);
  assert_true(in_child([&] {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return false;
    StorageConfig config;
    config.directories = {directory.path()};
    config.budget = mib;
    StorageStore store(config, {}, std::pmr::new_delete_resource());
    const Status status = store.start();
    return status.code() == WEIR_ERROR_IO && weir::last_error().detail.native == EACCES &&
           std::strstr(weir::last_error().text, directory.path().c_str()) != nullptr;
  }));
}

/// The hook says so, the limit of the process says so, a real file system says so.
void no_room(void **) {
  Script hook;
  for (const int error : {ENOSPC, EDQUOT}) {
    Place place(plain, 8 * mib, &hook);
    hook.answer = [error](IoCall call, uint64_t) -> int64_t {
      return call == IoCall::preallocate ? -error : 0;
    };
    refused(place.config, WEIR_ERROR_OVER_BUDGET, error, place.config.directories[0].c_str());
    assert_int_equal(weir::last_error().detail.asked, 8 * mib);
    assert_int_not_equal(weir::last_error().detail.available, 0);
    hook.answer = {};
    place.open();  // and once there is room
  }

  rlimit limit{};
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{mib, limit.rlim_max};
  Place limited(plain, 8 * mib);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  refused(limited.config, WEIR_ERROR_OVER_BUDGET, EFBIG, "8388608 bytes (1048576 bytes available)");
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);

  Directory directory;
  if (mount("weir-test", directory.path().c_str(), "tmpfs", 0, "size=4m") != 0) {
    print_message("no small file system can be mounted here: not tried\n");
    return;
  }
  StorageConfig config;
  config.directories = {directory.path()};
  config.budget = 8 * mib;
  refused(config, WEIR_ERROR_OVER_BUDGET, ENOSPC, directory.path().c_str());
  assert_int_equal(weir::last_error().detail.asked, 8 * mib);
  assert_int_equal(weir::last_error().detail.available, 4 * mib);
  config.budget = 2 * mib;
  {
    StorageStore store(config, {}, std::pmr::new_delete_resource());
    good(store.start());
    config.budget = 3 * mib;  // which is more than is left beside it
    refused(config, WEIR_ERROR_OVER_BUDGET, ENOSPC, directory.path().c_str());
    assert_int_equal(weir::last_error().detail.available, 2 * mib);
  }
  assert_int_equal(umount(directory.path().c_str()), 0);
}

struct Lines {
  std::vector<std::pair<int32_t, std::string>> lines;
  static void add(void *user, int32_t level, const char *text) {
    static_cast<Lines *>(user)->lines.emplace_back(level, text);
  }
};

/// Then the file is as long, and the program's user hears of it.
void a_file_system_without_preallocation(void **) {
  Script hook;
  hook.answer = [](IoCall call, uint64_t) -> int64_t {
    return call == IoCall::preallocate ? -EOPNOTSUPP : 0;
  };
  Place place(Way{false, true, 1, false}, 4 * mib, &hook);
  Lines lines;
  place.log = Log(Lines::add, &lines);
  StorageStore &store = place.open();
  assert_int_equal(lines.lines.size(), 2);
  assert_int_equal(lines.lines[0].first, WEIR_LOG_WARNING);
  assert_non_null(std::strstr(lines.lines[0].second.c_str(), place.config.directories[0].c_str()));
  assert_int_equal(lines.lines[1].first, WEIR_LOG_INFO);
  assert_non_null(std::strstr(lines.lines[1].second.c_str(), store.how()));
  Memory memory(4 * mib);
  memory.fill(3);
  const UnitSlot slot = store.allocate(4 * mib);
  good(transfer(store, slot, memory.data(), 4 * mib, true));
  good(transfer(store, slot, memory.data(), 4 * mib, false));
  assert_true(memory.holds(3));
}

/// O_DIRECT that opens and then does not work is not used.
void no_direct_access(void **) {
  for (const IoCall refuses : {IoCall::read, IoCall::write}) {
    Script hook;
    std::atomic<bool> started{false};
    hook.answer = [&](IoCall call, uint64_t) -> int64_t {
      return call == refuses && !started ? -EINVAL : 0;
    };
    Place place(Way{true, true, 1, false}, mib, &hook);
    StorageStore &store = place.open();
    started = true;
    assert_non_null(std::strstr(store.how(), "page cache"));
    Memory memory(mib);
    good(transfer(store, store.allocate(mib), memory.data(), mib, true));
    const std::vector<int> files = files_in(place.config.directories[0]);
    assert_int_equal(fcntl(files[0], F_GETFL) & O_DIRECT, 0);
  }
}

/// A container's rules as a rule forbid io_uring. Threads do the same then, and no error is left of it.
void no_io_uring(void **) {
  Directory directory;
  assert_true(in_child([&] {
    sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{static_cast<unsigned short>(std::size(rules)), rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return false;
    StorageConfig config;
    config.directories = {directory.path()};
    config.budget = mib;
    config.threads = 3;
    Lines lines;
    weir::new_error() = {};
    StorageStore store(config, Log(Lines::add, &lines), std::pmr::new_delete_resource());
    Memory memory(mib);
    memory.fill(1);
    if (!store.start() || weir::last_error().result != WEIR_SUCCESS) return false;
    if (std::strstr(store.how(), "3 threads") == nullptr) return false;
    if (lines.lines.size() != 2 ||
        (lines.lines[0].second.find("Operation not permitted") == std::string::npos &&
         lines.lines[0].second.find("made without it") == std::string::npos))
      return false;
    const UnitSlot slot = store.allocate(mib);
    return transfer(store, slot, memory.data(), mib, true).ok() &&
           transfer(store, slot, memory.data(), mib, false).ok() && memory.holds(1);
  }));
}

/// Descriptors are scarce: whichever can't be had, none stays behind.
void few_descriptors(void **) {
#if defined(__SANITIZE_ADDRESS__)
  // UndefinedBehaviorSanitizer, which comes with it, looks at an object's type by way of a pipe.
  print_message("not with descriptors short under a sanitizer that needs some\n");
  skip();
#endif
  for (const bool uring : {true, false}) {
    Place place(Way{uring, true, 3, can_encrypt()}, 4 * mib);
    StorageStore store(place.config, {}, std::pmr::new_delete_resource());
    rlimit limit{};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const uint64_t before = entries_in("/proc/self/fd");
    const int next = dup(0);  // the lowest that is free
    close(next);
    Status status;
    uint64_t more = 0;
    do {
      const rlimit small{static_cast<rlim_t>(next) + more, limit.rlim_max};
      assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
      status = store.start();
      assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
      if (status) break;
      assert_int_equal(status.code(), WEIR_ERROR_IO);
      assert_int_equal(weir::last_error().detail.native, EMFILE);
      assert_int_equal(entries_in("/proc/self/fd"), before);
    } while (++more < 100);
    good(status);
    assert_true(more >= 4);
  }
}

/// A resource whose n-th allocation fails.
class Failing : public std::pmr::memory_resource {
 public:
  uint64_t left = std::numeric_limits<uint64_t>::max();
  uint64_t out = 0;

 private:
  void *do_allocate(size_t bytes, size_t alignment) override {
    if (left-- == 0) throw std::bad_alloc();
    ++out;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void *memory, size_t bytes, size_t alignment) override {
    --out;
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }
};

void every_allocation_fails_once(void **) {
  for (const bool uring : {true, false}) {
    Place place(Way{uring, true, 3, can_encrypt()}, 4 * mib);
    const uint64_t files = entries_in("/proc/self/fd");
    uint64_t failures = 0;
    for (bool started = false; !started; ++failures) {
      Failing memory;
      {
        StorageStore store(place.config, {}, &memory);
        memory.left = failures;
        try {
          good(store.start());
          started = true;
        } catch (const std::bad_alloc &) {
          assert_int_equal(entries_in("/proc/self/fd"), files);
          assert_int_equal(store.budget(), 0);
        }
        memory.left = std::numeric_limits<uint64_t>::max();
        if (!started) good(store.start());
      }
      assert_int_equal(memory.out, 0);
    }
    assert_true(failures > 4);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(what_makes_no_store),
      cmocka_unit_test(directories_that_are_none),
      cmocka_unit_test(a_directory_of_somebody_else),
      cmocka_unit_test(no_room),
      cmocka_unit_test(a_file_system_without_preallocation),
      cmocka_unit_test(no_direct_access),
      cmocka_unit_test(no_io_uring),
      cmocka_unit_test(few_descriptors),
      cmocka_unit_test(every_allocation_fails_once),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
