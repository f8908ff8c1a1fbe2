// SPDX-License-Identifier: Apache-2.0
//
// Granules of the Vulkan backend in another process: descriptors are the driver's own, Mesa's for the CPU, and so is what it says of one that is
// none of its own; the shim binds the memory (control.h says why). The other process is this program once more, which is told a number.

#include "tests/backends/vulkan_fixture.hpp"
#include "tests/support/watchdog.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>

namespace vulkan_test {
namespace {

constexpr uint64_t unit = 64 * KiB;
constexpr const char *with_exports = "sparse=1;exports=1";

/// A granule in an address of its own, with memory that the CPU sees.
struct Mapped {
  const Backend &backend;
  weir_be_granule granule;
  uint64_t bytes, address = 0;
  weir_be_stream stream = nullptr;
  void *host = nullptr;

  Mapped(const Backend &of, weir_be_granule what, uint64_t size)
      : backend(of), granule(what), bytes(size) {
    OK(table().range_reserve(backend.state, 0, bytes, unit, &address));
    OK(table().map(backend.state, 0, address, bytes, granule, 0, nullptr, 0));
    OK(table().stream_create(backend.state, 0, 0, &stream));
    OK(table().host_allocate(backend.state, bytes, &host));
  }
  ~Mapped() {
    OK(table().stream_destroy(backend.state, stream));
    OK(table().unmap(backend.state, 0, address, bytes));
    OK(table().range_free(backend.state, 0, address, bytes));
    OK(table().granule_destroy(backend.state, 0, granule));
    OK(table().host_free(backend.state, host, bytes));
  }
  Mapped(const Mapped &) = delete;
  Mapped &operator=(const Mapped &) = delete;

  void fill(uint8_t byte) const {
    OK(table().fill_async(backend.state, stream, address, byte, bytes));
    OK(table().stream_synchronize(backend.state, stream));
  }
  /// All bytes are this one.
  bool holds(uint8_t byte) const {
    std::memset(host, byte + 1, bytes);
    const weir_be_copy out{address_of(host), address, bytes};
    OK(table().copy_async(backend.state, stream, &out));
    OK(table().stream_synchronize(backend.state, stream));
    const auto *all = static_cast<const uint8_t *>(host);
    return std::all_of(all, all + bytes, [&](uint8_t each) { return each == byte; });
  }
};

uint64_t free_bytes_of(const Backend &backend) {
  uint64_t left = 0, total = 0;
  OK(table().device_memory(backend.state, 0, &left, &total));
  return left;
}

size_t open_descriptors() {
  DIR *all = opendir("/proc/self/fd");
  assert_non_null(all);
  size_t count = 0;
  while (readdir(all) != nullptr) ++count;
  closedir(all);
  return count;
}

/// The other process: sees 21 everywhere, and leaves 42 there.
int look_at(int fd, uint64_t bytes) {
  pretend(with_exports);
  Backend backend;
  if (backend.result != WEIR_SUCCESS) return 2;
  weir_be_granule granule = 0;
  if (table().granule_import(backend.state, 0, fd, bytes, &granule) != WEIR_SUCCESS) {
    std::fprintf(stderr, "%s\n", backend.error().c_str());
    return 3;
  }
  {
    const Mapped mapped(backend, granule, bytes);
    if (!mapped.holds(21)) return 4;
    mapped.fill(42);
  }
  backend.stop();
  nothing_is_left("in the other process");
  return 0;
}

void another_process_sees_the_bytes(void **) {
  pretend(with_exports);
  weir::test::Watchdog watchdog;
  watchdog.at("another process");
  for (const uint64_t bytes : {unit, 5 * unit, 4 * MiB}) {
    Backend backend;
    OK(backend.result);
    weir_be_granule granule = 0;
    int32_t fd = -1;
    OK(table().granule_create(backend.state, 0, bytes, WEIR_BE_GRANULE_EXPORT_FD, &granule));
    OK(table().granule_export(backend.state, 0, granule, &fd));
    {
      const Mapped mapped(backend, granule, bytes);
      mapped.fill(21);
      const std::string number = std::to_string(fd), size = std::to_string(bytes);
      const pid_t child = fork();
      if (child == 0) {
        (void)fcntl(fd, F_SETFD, 0);
        execl("/proc/self/exe", "test_vulkan_export", "--look-at", number.c_str(), size.c_str(),
              nullptr);
        _exit(9);
      }
      int status = -1;
      assert_int_equal(waitpid(child, &status, 0), child);
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the other process ended with %#x", static_cast<unsigned>(status));
      assert_true(mapped.holds(42));
    }
    close(fd);
    backend.stop();
    nothing_is_left();
  }
  watchdog.stop();
}

/// It is the maker's memory: what a process imports of its own takes no more of the device, and gives none back.
void imports_take_no_memory(void **) {
  pretend(with_exports);
  Backend backend("memory=8M;granule=64K");
  OK(backend.result);
  const uint64_t whole = free_bytes_of(backend);
  weir_be_granule granule = 0, imports[4] = {};
  int32_t fd = -1;
  OK(table().granule_create(backend.state, 0, 5 * MiB, WEIR_BE_GRANULE_EXPORT_FD, &granule));
  OK(table().granule_export(backend.state, 0, granule, &fd));
  for (weir_be_granule &each : imports)
    OK(table().granule_import(backend.state, 0, fd, 5 * MiB, &each));
  assert_int_equal(free_bytes_of(backend), whole - 5 * MiB);
  for (const weir_be_granule each : imports) OK(table().granule_destroy(backend.state, 0, each));
  assert_int_equal(free_bytes_of(backend), whole - 5 * MiB);
  OK(table().granule_destroy(backend.state, 0, granule));
  assert_int_equal(free_bytes_of(backend), whole);
  close(fd);
  backend.stop();
  nothing_is_left();
}

/// A descriptor of memory that another driver made: the host backend's here, an exported granule of the same size.
int descriptor_of_the_host_backend() {
  const auto *host = function_of<const weir_backend_table *(uint32_t)>(
      open_library(in_build("weir/1/libweir_backend_host.so")),
      WEIR_BACKEND_QUERY_SYMBOL)(WEIR_BACKEND_ABI_MAJOR);
  const weir_be_start desc = {sizeof desc, 0,       "memory=64K;granule=64K;devices=1",
                              nullptr,     nullptr, nullptr};
  weir_be_state *state = nullptr;
  const char *why = nullptr;
  assert_int_equal(host->start(&desc, &state, &why), WEIR_SUCCESS);
  weir_be_granule granule = 0;
  int32_t fd = -1;
  assert_int_equal(host->granule_create(state, 0, unit, WEIR_BE_GRANULE_EXPORT_FD, &granule),
                   WEIR_SUCCESS);
  assert_int_equal(host->granule_export(state, 0, granule, &fd), WEIR_SUCCESS);
  assert_int_equal(host->granule_destroy(state, 0, granule), WEIR_SUCCESS);
  host->stop(state);
  return fd;
}

void words_are_in(const std::string &text, std::initializer_list<std::string> words) {
  for (const std::string &word : words)
    if (text.find(word) == std::string::npos)
      fail_msg("\"%s\" is not in: %s", word.c_str(), text.c_str());
}

/// Refused by name, with what would do; nothing is written, and the descriptor stays the caller's.
void descriptors_of_others(void **) {
  pretend(with_exports);
  Backend backend;
  OK(backend.result);
  const int of_host = descriptor_of_the_host_backend();
  const int zeros = memfd_create("somebody-elses", MFD_CLOEXEC);
  assert_int_equal(ftruncate(zeros, unit), 0);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  int both[2];
  assert_int_equal(pipe(both), 0);
  const size_t open_before = open_descriptors();
  weir_be_granule granule = 77;
  WANT(WEIR_ERROR_INVALID_ARGUMENT,
       table().granule_import(backend.state, 0, zeros, unit, &granule));
  words_are_in(backend.error(), {"descriptor " + std::to_string(zeros), "memfd:somebody-elses",
                                 "llvmpipe, Mesa", "one that it exported is needed", "UUID"});
  WANT(WEIR_ERROR_INVALID_ARGUMENT, table().granule_import(backend.state, 0, null, unit, &granule));
  words_are_in(backend.error(), {"/dev/null", "llvmpipe, Mesa", "needed"});
  WANT(WEIR_ERROR_INVALID_ARGUMENT,
       table().granule_import(backend.state, 0, of_host, unit, &granule));
  words_are_in(backend.error(),
               {"descriptor " + std::to_string(of_host), "llvmpipe, Mesa", "UUID"});
  WANT(WEIR_ERROR_INVALID_ARGUMENT,
       table().granule_import(backend.state, 0, both[0], unit, &granule));
  words_are_in(backend.error(), {"no descriptor of memory"});
  WANT(WEIR_ERROR_INVALID_ARGUMENT, table().granule_import(backend.state, 0, -1, unit, &granule));
  WANT(WEIR_ERROR_INVALID_ARGUMENT,
       table().granule_import(backend.state, 0, zeros, 2 * unit, &granule));
  words_are_in(backend.error(), {"65536", "131072"});
  assert_int_equal(granule, 77);
  assert_int_equal(open_descriptors(), open_before);
  for (const int each : {of_host, zeros, null, both[0], both[1]}) assert_int_equal(close(each), 0);
  backend.stop();
  nothing_is_left();
}

/// Mesa's driver for the CPU binds exported memory wrong: where it is seen by its name nothing leaves the process.
void not_on_a_driver_that_binds_them_wrong(void **) {
  pretend("sparse=1");
  const Backend backend;
  OK(backend.result);
  assert_int_equal(backend.device().capabilities & WEIR_CAP_EXPORT_FD, 0);
  assert_true((backend.device().capabilities & WEIR_CAP_VMM) != 0);
  weir_be_granule granule = 0;
  WANT(WEIR_ERROR_NOT_SUPPORTED,
       table().granule_create(backend.state, 0, unit, WEIR_BE_GRANULE_EXPORT_FD, &granule));
}

void without_the_option_or_the_extension(void **) {
  pretend(with_exports);
  {
    const Backend backend("export_fd=0;memory=64M");
    OK(backend.result);
    assert_int_equal(backend.device().capabilities & WEIR_CAP_EXPORT_FD, 0);
  }
  pretend(std::string(with_exports) + ";without=VK_KHR_external_memory_fd");
  const Backend backend;
  OK(backend.result);
  assert_int_equal(backend.device().capabilities & WEIR_CAP_EXPORT_FD, 0);
  assert_true((backend.device().capabilities & WEIR_CAP_VMM) != 0);
}

}  // namespace
}  // namespace vulkan_test

int main(int argc, char **argv) {
  using namespace vulkan_test;
  const int cannot = prepare();
  if (cannot != 0) return cannot;
  if (argc == 4 && std::strcmp(argv[1], "--look-at") == 0)
    return look_at(std::atoi(argv[2]), std::strtoull(argv[3], nullptr, 10));
  const CMUnitTest tests[] = {
      cmocka_unit_test_setup(another_process_sees_the_bytes, fresh),
      cmocka_unit_test_setup(imports_take_no_memory, fresh),
      cmocka_unit_test_setup(descriptors_of_others, fresh),
      cmocka_unit_test_setup(not_on_a_driver_that_binds_them_wrong, fresh),
      cmocka_unit_test_setup(without_the_option_or_the_extension, fresh),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
