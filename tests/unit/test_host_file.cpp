// SPDX-License-Identifier: Apache-2.0
//
// HOST's memory lies in a file that the runtime registers. Where it refuses to, from the first piece on or later, or the system
// takes no part of a file back, HOST goes on with the runtime's own allocator: nothing is lost, it is logged once, and what
// can't be had that way is refused with a reason. fallocate is this program's own, to refuse.

#include <dirent.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string_view>

#include "tests/abi/pool_fixture.hpp"
#include "tests/unit/interposed_host.hpp"

namespace {

std::atomic<bool> no_holes{false};

}  // namespace

extern "C" int fallocate(int file, int mode, off_t offset, off_t length) noexcept {
  if (no_holes && mode != 0) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return static_cast<int>(syscall(SYS_fallocate, file, mode, offset, length));
}

namespace {

using namespace weir::test;

constexpr uint64_t mib = uint64_t{1} << 20U;
constexpr uint64_t chunk = 64 * mib;

std::atomic<int> registrations{0}, refuse_from{INT32_MAX}, allocations{0}, refuse_allocations{0};
std::atomic<int> lines{0};

weir_result answer(const char *entry) {
  const std::string_view name(entry);
  if (name == "host_register" && ++registrations >= refuse_from) return WEIR_ERROR_BACKEND;
  if (name == "host_allocate") {
    ++allocations;
    if (refuse_allocations.load() > 0 && refuse_allocations.fetch_sub(1) > 0)
      return WEIR_ERROR_OUT_OF_HOST_MEMORY;
  }
  return WEIR_SUCCESS;
}

void note_line(void *, int32_t level, const char *text) {
  if (level >= WEIR_LOG_WARNING && std::strstr(text, "host memory in a file") != nullptr) ++lines;
}

/// Blocks of memory that the store's file has.
int64_t file_blocks() {
  DIR *folder = opendir("/proc/self/fd");
  assert_non_null(folder);
  int64_t blocks = -1;
  while (const dirent *entry = readdir(folder)) {
    char target[64] = {};
    if (readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1) <= 0) continue;
    struct stat about {};
    if (std::strstr(target, "memfd:weir-host") != nullptr &&
        fstatat(dirfd(folder), entry->d_name, &about, 0) == 0)
      blocks = about.st_blocks;
  }
  closedir(folder);
  return blocks;
}

weir_context context_with_log() {
  registrations = allocations = refuse_allocations = lines = 0;
  refuse_from = INT32_MAX;
  interposed.interpose = answer;
  const weir_backend_query_fn backend = InterposedHost::query;
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH | WEIR_CONTEXT_NO_HOST_BACKEND;
  desc.backend_count = 1;
  desc.backends = &backend;
  desc.log = note_line;
  const std::string own = Target::get().options(small_host);
  desc.options = own.c_str();
  weir_context context = nullptr;
  ok(weir_context_create(&desc, &context));
  return context;
}

weir_pool make_pool(weir_context context, uint64_t host_budget) {
  weir_pool_device device = {};
  device.budget = 8 * page_bytes;
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.device_count = 1;
  desc.devices = &device;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  desc.host_budget = host_budget;
  desc.page_size = desc.large_page_size = page_bytes;
  weir_pool pool = nullptr;
  ok(weir_pool_create(context, &desc, &pool));
  return pool;
}

struct Scene : World {
  weir_stream cpu = nullptr;

  explicit Scene(int refuse = INT32_MAX, uint64_t host_budget = 4 * mib)
      : World(context_with_log(), nullptr) {
    refuse_from = refuse;
    pool = make_pool(context, host_budget);
    ok(weir_stream_create(context, 0, 0, &streams[0]));
    ok(weir_stream_create(context, WEIR_DEVICE_HOST, 0, &cpu));
  }
  weir_result lease_on_cpu(weir_buffer of, weir_lease *lease) {
    weir_use use = WEIR_USE(of, WEIR_READ);
    return weir_acquire(pool, cpu, &use, 1, nullptr, lease);
  }
  void end() {
    ok(weir_stream_close(cpu));
    close();
    interposed.interpose = nullptr;
    no_holes = false;
  }
  /// Twice as much as the device has goes there and back.
  void spill_and_restore() {
    constexpr uint32_t count = 16;
    weir_buffer buffers[count];
    for (uint32_t i = 0; i < count; ++i) {
      buffers[i] = buffer(page_bytes);
      fill(buffers[i], page_bytes, i);
    }
    assert_true(stats().host_used_bytes >= 8 * page_bytes);
    for (uint32_t i = 0; i < count; ++i) check(buffers[i], page_bytes, i);
    for (weir_buffer each : buffers) ok(weir_buffer_destroy(pool, each));
  }
  void cpu_leases_are_refused() {
    weir_buffer kept = buffer(page_bytes);
    fill(kept, page_bytes, 3);
    weir_lease lease = nullptr;
    expect_result(WEIR_ERROR_NOT_SUPPORTED, lease_on_cpu(kept, &lease));
    assert_non_null(std::strstr(weir_last_error(), "host lease"));
    check(kept, page_bytes, 3);
    check_read(kept, page_bytes, 3);
    ok(weir_buffer_destroy(pool, kept));
  }
};

void the_first_piece_is_refused(void **) {
  Scene scene(1);
  scene.spill_and_restore();
  scene.cpu_leases_are_refused();
  assert_int_equal(registrations, 1);
  assert_int_equal(lines, 1);
  assert_int_equal(file_blocks(), 0);
  ok(weir_pool_trim(scene.pool, WEIR_DEVICE_HOST, WEIR_TRIM_EMERGENCY, UINT64_MAX, nullptr));
  assert_int_equal(scene.stats().host_bytes, 0);
  scene.spill_and_restore();
  assert_int_equal(lines, 1);
  scene.end();
}

/// Nothing can be had at all: that says nothing about the file, which is asked for again.
void no_memory_is_not_the_files_fault(void **) {
  Scene scene(1);
  refuse_allocations = 1;
  weir_buffer buffer = scene.buffer(page_bytes);
  std::vector<uint8_t> bytes(page_bytes, 5);
  expect_result(WEIR_ERROR_BACKEND,
                weir_buffer_write(scene.pool, buffer, 0, bytes.size(), bytes.data()));
  assert_int_equal(lines, 0);
  refuse_from = INT32_MAX;
  ok(weir_buffer_write(scene.pool, buffer, 0, bytes.size(), bytes.data()));
  weir_lease lease = nullptr;
  ok(scene.lease_on_cpu(buffer, &lease));
  ok(weir_release(lease, scene.cpu));
  assert_int_equal(lines, 0);
  ok(weir_buffer_destroy(scene.pool, buffer));
  scene.end();
}

/// The first piece is in the file, the next ones are not. Both hold what was put there, and both go back.
void a_later_piece_is_refused(void **) {
  Scene scene(2, 2 * chunk + 8 * mib);
  constexpr uint64_t size = 8 * mib;
  weir_buffer buffers[12];
  for (uint32_t i = 0; i < 12; ++i) {
    buffers[i] = scene.buffer(size);
    std::vector<uint8_t> bytes(size);
    write_bytes(bytes.data(), size, PatternOf{i});
    ok(weir_buffer_write(scene.pool, buffers[i], 0, size, bytes.data()));
  }
  assert_int_equal(registrations, 2);
  assert_int_equal(lines, 1);
  assert_true(scene.stats().host_bytes > chunk);
  for (uint32_t i = 0; i < 12; ++i) scene.check_read(buffers[i], size, i);
  // Of the leases on the CPU those go on that find their pages in the file.
  weir_lease lease = nullptr;
  ok(scene.lease_on_cpu(buffers[0], &lease));
  ok(weir_release(lease, scene.cpu));
  expect_result(WEIR_ERROR_NOT_SUPPORTED, scene.lease_on_cpu(buffers[11], &lease));
  for (uint32_t i = 0; i < 12; ++i) scene.check_read(buffers[i], size, i);
  for (weir_buffer each : buffers) ok(weir_buffer_destroy(scene.pool, each));
  ok(weir_pool_trim(scene.pool, WEIR_DEVICE_HOST, WEIR_TRIM_EMERGENCY, UINT64_MAX, nullptr));
  assert_int_equal(scene.stats().host_bytes, 0);
  assert_int_equal(file_blocks(), 0);
  assert_int_equal(lines, 1);
  scene.end();
}

void no_part_of_a_file_goes_back(void **) {
  no_holes = true;
  Scene scene;
  assert_int_equal(lines, 1);
  scene.spill_and_restore();
  scene.cpu_leases_are_refused();
  assert_int_equal(registrations, 0);
  assert_true(allocations > 0);
  assert_int_equal(lines, 1);
  scene.end();
}

/// It could at first: what is in the file goes back with the file's last piece.
void the_file_stops_giving_back(void **) {
  Scene scene;
  scene.spill_and_restore();
  assert_true(file_blocks() > 0);
  no_holes = true;
  ok(weir_pool_trim(scene.pool, WEIR_DEVICE_HOST, WEIR_TRIM_EMERGENCY, UINT64_MAX, nullptr));
  assert_int_equal(scene.stats().host_bytes, 0);
  assert_int_equal(file_blocks(), 0);
  assert_int_equal(lines, 1);
  scene.spill_and_restore();
  assert_true(allocations > 0);
  scene.cpu_leases_are_refused();
  scene.end();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(the_first_piece_is_refused),
      cmocka_unit_test(no_memory_is_not_the_files_fault),
      cmocka_unit_test(a_later_piece_is_refused),
      cmocka_unit_test(no_part_of_a_file_goes_back),
      cmocka_unit_test(the_file_stops_giving_back),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
