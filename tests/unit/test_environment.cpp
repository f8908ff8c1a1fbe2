// SPDX-License-Identifier: Apache-2.0
//
// What the environment asks for: sizes and switches as they are read, traces whose files can't be whole, and that a program which runs
// securely is asked for nothing.

#include "tests/support/cmocka.hpp"
#include "tests/unit/timeline_file.hpp"

#include "core/base/environment.hpp"

#include <weir/weir.h>

#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <mutex>

namespace {

using namespace weir;
using namespace weir::test;

void ok(weir_result result) { assert_int_equal(result, WEIR_SUCCESS); }

/// A folder of the test's own, which goes with the object.
class Folder {
 public:
  Folder() { assert_non_null(mkdtemp(path_)); }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const char *name) const { return std::string(path_) + "/" + name; }
  const char *path() const { return path_; }
  size_t files() const {
    size_t count = 0;
    for ([[maybe_unused]] const auto &each : std::filesystem::recursive_directory_iterator(path_))
      ++count;
    return count;
  }

 private:
  char path_[64] = "/tmp/weir-environment-XXXXXX";
};

class Variable {
 public:
  Variable(const char *name, const std::string &value) : name_(name) {
    assert_int_equal(setenv(name, value.c_str(), 1), 0);
  }
  ~Variable() { (void)unsetenv(name_); }

 private:
  const char *name_;
};

/// A context with a pool of one device, its log, and a buffer that fits and one that does not.
class Program {
 public:
  Program() {
    weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
    desc.options = "host.memory=4M;host.granule=64K";
    desc.log = [](void *user, int32_t level, const char *text) {
      auto &self = *static_cast<Program *>(user);
      const std::lock_guard hold(self.mutex_);
      if (level <= WEIR_LOG_WARNING) self.warnings_.emplace_back(text);
    };
    desc.log_user = this;
    ok(weir_context_create(&desc, &context_));
    const weir_pool_device device{0, 0, 1 << 20, {0, 0}};
    weir_pool_desc pool = WEIR_POOL_DESC_INIT;
    pool.devices = &device;
    pool.device_count = 1;
    pool.flags = WEIR_POOL_NO_BACKGROUND;
    ok(weir_pool_create(context_, &pool, &pool_));
    ok(weir_stream_create(context_, 0, 0, &stream_));
    weir_buffer_desc buffer = WEIR_BUFFER_DESC_INIT;
    buffer.size = 64 << 10;
    ok(weir_buffer_create(pool_, &buffer, &small_));
    buffer.size = 2 << 20;
    ok(weir_buffer_create(pool_, &buffer, &large_));
  }
  weir_result use(weir_buffer buffer) {
    weir_use one = WEIR_USE(buffer, WEIR_READ_WRITE);
    weir_lease lease = nullptr;
    const weir_result result = weir_acquire(pool_, stream_, &one, 1, nullptr, &lease);
    if (result == WEIR_SUCCESS) ok(weir_release(lease, stream_));
    return result;
  }
  weir_buffer small() const { return small_; }
  weir_buffer large() const { return large_; }
  void end() {
    ok(weir_stream_synchronize(stream_));
    ok(weir_buffer_destroy(pool_, small_));
    ok(weir_buffer_destroy(pool_, large_));
    ok(weir_pool_destroy(pool_));
    ok(weir_stream_close(stream_));
    ok(weir_context_destroy(context_));
  }
  size_t warnings_with(const std::string &word) {
    const std::lock_guard hold(mutex_);
    size_t count = 0;
    for (const std::string &each : warnings_) count += each.find(word) != std::string::npos;
    return count;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> warnings_;
  weir_context context_ = nullptr;
  weir_pool pool_ = nullptr;
  weir_stream stream_ = nullptr;
  weir_buffer small_ = nullptr, large_ = nullptr;
};

void sizes_are_read_whole_or_not(void **) {
  const struct {
    const char *text;
    std::optional<uint64_t> bytes;
  } rows[] = {
      {"0", 0},
      {"65536", 65536},
      {"64K", 65536},
      {"3M", 3 << 20},
      {"2G", uint64_t{2} << 30},
      {"1T", uint64_t{1} << 40},
      {"18446744073709551615", UINT64_MAX},
      {"16777215T", uint64_t{16777215} << 40},
      {"16777216T", {}},
      {"18446744073709551616", {}},
      {"", {}},
      {"K", {}},
      {"-1", {}},
      {"1e6", {}},
      {"1 G", {}},
      {"1GB", {}},
      {"1g", {}},
      {" 1", {}},
  };
  for (const auto &row : rows) {
    if (read_size(row.text) != row.bytes) print_error("of '%s'\n", row.text);
    assert_true(read_size(row.text) == row.bytes);
  }
}

void a_trace_ends_at_the_size_that_was_asked_for(void **) {
  const struct {
    const char *bytes;
    const char *warning;
    bool early;
  } rows[] = {{"96K", "it has come to its size", true},
              {"98304", "it has come to its size", true},
              {"1", "is \"1\", less than a trace has at least: 65536 are taken", true},
              {"1Z", "is \"1Z\", and not read", false},
              {"-1", "is \"-1\", and not read", false},
              {"0", "", false},
              {"", "", false},
              {"1G", "", false}};
  for (const auto &row : rows) {
    const Folder folder;
    const std::string path = folder / "trace.json";
    const Variable bytes("WEIR_TRACE_BYTES", row.bytes);
    Program program = [&] {
      const Variable trace("WEIR_TRACE", path);
      return Program();
    }();
    for (int i = 0; i < 500; ++i) ok(program.use(program.small()));
    program.end();
    struct stat about {};
    assert_int_equal(stat(path.c_str(), &about), 0);
    if (row.early != (about.st_size <= 98304))
      print_error("with '%s': %ld\n", row.bytes, static_cast<long>(about.st_size));
    assert_int_equal(about.st_size <= 98304, row.early);
    assert_int_equal(program.warnings_with("ends here"), row.early ? 1 : 0);
    if (*row.warning != '\0') assert_int_equal(program.warnings_with(row.warning), 1);
    const TimelineFile file(path);
    assert_int_equal(file.has("i", "the trace ended early"), row.early);
  }
}

/// The full disk is reported once, by the trace's thread or by the call that ends the trace, whichever meets it.
void a_full_disk_is_told_once(void **) {
  rlimit before{};
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  (void)signal(SIGXFSZ, SIG_IGN);
  for (int round = 0; round < 20; ++round) {
    for (const char *variable : {"WEIR_TRACE", "WEIR_RECORD"}) {
      const Folder folder;
      Program program = [&] {
        const Variable trace(variable, folder / "file");
        return Program();
      }();
      for (int i = 0; i < 20 * round; ++i) ok(program.use(program.small()));
      const rlimit none{0, before.rlim_max};
      assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
      ok(program.use(program.small()));
      program.end();
      assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
      assert_int_equal(program.warnings_with("ends here: "), 1);
    }
  }
  (void)signal(SIGXFSZ, SIG_DFL);
}

void what_is_no_switch_is_told(void **) {
  for (const char *value : {"yes", "2", "true"}) {
    const Variable stacks("WEIR_STACKS", value);
    Program program;
    assert_int_equal(
        program.warnings_with("WEIR_STACKS is \"" + std::string(value) + "\", and not read"), 1);
    program.end();
  }
  for (const char *value : {"0", "1", ""}) {
    const Variable stacks("WEIR_STACKS", value);
    Program program;
    assert_int_equal(program.warnings_with("WEIR_STACKS"), 0);
    program.end();
  }
}

constexpr int is_secure = 10, is_not_secure = 11;

/// In a process whose file gave it another user: does what would write files, were it asked for.
[[noreturn]] void run_securely() {
  if (getauxval(AT_SECURE) == 0) _exit(is_not_secure);
  Program program;
  (void)program.use(program.small());
  (void)program.use(program.large());
  program.end();
  _exit(is_secure);
}

void who_runs_securely_is_asked_for_nothing(void **) {
  if (geteuid() != 0) {
    print_message("not root: no file can be given another user\n");
    skip();
  }
  const Folder programs, files;
  // Only the owner's own work would be refused there.
  assert_int_equal(chmod(programs.path(), 0755), 0);
  assert_int_equal(chmod(files.path(), 0777), 0);
  const std::string copy = programs / "program";
  std::filesystem::copy_file("/proc/self/exe", copy);
  constexpr uid_t nobody = 65534;
  assert_int_equal(chown(copy.c_str(), nobody, static_cast<gid_t>(-1)), 0);
  assert_int_equal(chmod(copy.c_str(), 04755), 0);
  const auto run = [&](const char *program) {
    const pid_t child = fork();
    if (child == 0) {
      for (const char *name : {"WEIR_TRACE", "WEIR_RECORD"})
        (void)setenv(name, (files / name).c_str(), 1);
      (void)setenv("WEIR_OOM_DUMP", files.path(), 1);
      (void)setenv("XDG_RUNTIME_DIR", files.path(), 1);
      (void)execl(program, program, "securely", static_cast<char *>(nullptr));
      _exit(1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
  };
  const int ended = run(copy.c_str());
  if (ended == is_not_secure) {
    std::filesystem::remove_all(programs.path());
    std::filesystem::remove_all(files.path());
    print_message("programs in /tmp get no other user\n");
    skip();
  }
  assert_int_equal(ended, is_secure);
  assert_int_equal(files.files(), 0);
}

}  // namespace

int main(int argc, char **argv) {
  if (argc == 2 && std::string(argv[1]) == "securely") run_securely();
  const CMUnitTest tests[] = {
      cmocka_unit_test(sizes_are_read_whole_or_not),
      cmocka_unit_test(a_trace_ends_at_the_size_that_was_asked_for),
      cmocka_unit_test(a_full_disk_is_told_once),
      cmocka_unit_test(what_is_no_switch_is_told),
      cmocka_unit_test(who_runs_securely_is_asked_for_nothing),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
