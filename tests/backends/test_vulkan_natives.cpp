// SPDX-License-Identifier: Apache-2.0
//
// The Vulkan backend in the program's own device: on Mesa's driver for the CPU, with one queue that both use, without and with sparse
// binding.

#include "tests/backends/vulkan_engine.hpp"

#include <atomic>
#include <memory>
#include <string>
#include <thread>

namespace vulkan_test {
namespace {

weir_result start_in(const void *native, weir_be_state **state, std::string *why) {
  weir_be_start desc{};
  desc.struct_size = sizeof desc;
  desc.options = "granule=64K";
  desc.native = native;
  const char *reason = "";
  const weir_result result = table().start(&desc, state, &reason);
  *why = reason;
  return result;
}

void refused(const weir_vulkan_device &told, const char *words) {
  weir_be_state *state = nullptr;
  std::string why;
  assert_int_equal(start_in(&told, &state, &why), WEIR_ERROR_INVALID_ARGUMENT);
  if (why.find(words) == std::string::npos)
    fail_msg("\"%s\" does not say \"%s\"", why.c_str(), words);
}

void what_a_device_lacks_is_named(void **) {
  Engine engine;
  weir_vulkan_device told = engine.natives();
  told.kind = 7;
  refused(told, "kind 7");
  told = engine.natives();
  told.struct_size = 8;
  refused(told, "struct_size is 8");
  told = engine.natives();
  told.enabled = WEIR_VULKAN_TIMELINE_SEMAPHORE;
  refused(told, "bufferDeviceAddress is not enabled");
  told = engine.natives();
  told.enabled = WEIR_VULKAN_BUFFER_DEVICE_ADDRESS;
  refused(told, "timelineSemaphore is not enabled");
  told = engine.natives();
  told.queue_count = 0;
  refused(told, "0 queues");
  told = engine.natives();
  told.queues[0].family = 9;
  refused(told, "family 9");
  told = engine.natives();
  told.queues[0].unlock = nullptr;
  refused(told, "one of lock and unlock");
  told = engine.natives();
  told.device = nullptr;
  refused(told, "NULL");
  assert_int_equal(engine.locks.load(), 0);
}

/// The program fills Weir's memory by buffer and offset, Weir copies it out on the program's queue; and the other way round.
void both_use_one_queue(void **) {
  Engine engine;
  const weir_backend_table &t = table();
  weir_be_state *state = nullptr;
  std::string why;
  auto told = std::make_unique<weir_vulkan_device>(engine.natives());
  if (start_in(told.get(), &state, &why) != WEIR_SUCCESS) fail_msg("%s", why.c_str());
  told.reset();  // it was read during the call alone
  constexpr uint64_t bytes = 64 * KiB;
  uint64_t address = 0;
  void *host = nullptr;
  assert_int_equal(t.plain_allocate(state, 0, bytes, 4096, &address), WEIR_SUCCESS);
  assert_int_equal(t.host_allocate(state, bytes, &host), WEIR_SUCCESS);
  weir_vulkan_buffer at = WEIR_VULKAN_BUFFER_INIT;
  assert_int_equal(t.native_memory(state, 0, address + 4096, WEIR_VULKAN_BUFFER, &at),
                   WEIR_SUCCESS);
  assert_true(at.buffer != 0 && at.device == engine.device);
  assert_int_equal(at.bytes, bytes - 4096);
  assert_int_equal(t.native_memory(state, 0, address + bytes, WEIR_VULKAN_BUFFER, &at),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(t.native_memory(state, 0, address, WEIR_VULKAN_BUFFER, &at), WEIR_SUCCESS);
  weir_be_stream stream = nullptr;
  weir_vulkan_queue mine = engine.shared();
  mine.semaphore = reinterpret_cast<uintptr_t>(engine.semaphore);
  mine.value = reinterpret_cast<const uint64_t *>(&engine.value);
  assert_int_equal(t.stream_wrap(state, 0, &mine, &stream), WEIR_SUCCESS);
  weir_vulkan_queue other = mine;
  other.queue = &other;
  weir_be_stream none = nullptr;
  assert_int_equal(t.stream_wrap(state, 0, &other, &none), WEIR_ERROR_INVALID_ARGUMENT);
  auto *words = static_cast<uint32_t *>(host);
  for (uint32_t round = 1; round <= 50; ++round) {
    engine.fill(at, bytes, round);
    // The program's own value tells of the fill: no submission of Weir's.
    const int before = engine.locks.load();
    weir_be_fence filled = 0, copied = 0;
    assert_int_equal(t.fence_record(state, stream, &filled), WEIR_SUCCESS);
    assert_int_equal(engine.locks.load(), before);
    assert_int_equal(t.fence_wait(state, filled, UINT64_MAX), WEIR_SUCCESS);
    const weir_be_copy out{reinterpret_cast<uintptr_t>(host), address, bytes};
    assert_int_equal(t.copy_async(state, stream, &out), WEIR_SUCCESS);
    // Its last value was before the copy: this fence must not pass by it.
    assert_int_equal(t.fence_record(state, stream, &copied), WEIR_SUCCESS);
    assert_true(engine.locks.load() > before);
    engine.fill(at, bytes, ~round);  // comes after the copy
    assert_int_equal(t.fence_wait(state, copied, UINT64_MAX), WEIR_SUCCESS);
    assert_int_equal(words[0], round);
    assert_int_equal(words[bytes / 4 - 1], round);
    assert_int_equal(t.fence_destroy(state, filled), WEIR_SUCCESS);
    assert_int_equal(t.fence_destroy(state, copied), WEIR_SUCCESS);
  }
  // The last fill is the program's, and uses what is freed below.
  weir_be_fence last = 0;
  assert_int_equal(t.fence_record(state, stream, &last), WEIR_SUCCESS);
  assert_int_equal(t.fence_wait(state, last, UINT64_MAX), WEIR_SUCCESS);
  assert_int_equal(t.fence_destroy(state, last), WEIR_SUCCESS);
  assert_int_equal(t.stream_host_call(
                       state, stream, [](void *) {}, nullptr),
                   WEIR_ERROR_NOT_SUPPORTED);
  assert_int_equal(t.stream_destroy(state, stream), WEIR_SUCCESS);
  assert_int_equal(t.plain_free(state, 0, address, bytes), WEIR_SUCCESS);
  assert_int_equal(t.host_free(state, host, bytes), WEIR_SUCCESS);
  t.stop(state);
  assert_false(engine.misused.load());
  assert_false(engine.held.load());
}

/// Whether the driver itself binds sparse buffers.
bool binds_itself() {
  const Backend backend;
  return (backend.device().capabilities & WEIR_CAP_VMM) != 0;
}

weir_be_device about(weir_be_state *state) {
  weir_be_device told{};
  told.struct_size = sizeof told;
  assert_int_equal(table().device_describe(state, 0, &told), WEIR_SUCCESS);
  return told;
}

/// Granules in the program's device: bound on its queue, under its lock; it fills them by buffer and offset, and they keep their bytes
/// when they move.
void granules_in_the_programs_device() {
  Engine engine(true);
  const weir_backend_table &t = table();
  weir_be_state *state = nullptr;
  std::string why;
  const weir_vulkan_device told = engine.natives();
  if (start_in(&told, &state, &why) != WEIR_SUCCESS) fail_msg("%s", why.c_str());
  assert_int_equal(about(state).capabilities & (WEIR_CAP_VMM | WEIR_CAP_MULTI_MAP),
                   WEIR_CAP_VMM | WEIR_CAP_MULTI_MAP);
  const uint64_t unit = about(state).granule, bytes = 4 * unit;
  uint64_t range = 0;
  void *host = nullptr;
  weir_be_stream stream = nullptr;
  assert_int_equal(t.range_reserve(state, 0, bytes, unit, &range), WEIR_SUCCESS);
  assert_int_equal(t.host_allocate(state, bytes, &host), WEIR_SUCCESS);
  assert_int_equal(t.stream_create(state, 0, 0, &stream), WEIR_SUCCESS);
  weir_be_granule granules[2] = {};
  for (weir_be_granule &each : granules)
    assert_int_equal(t.granule_create(state, 0, unit, 0, &each), WEIR_SUCCESS);
  const int before = engine.locks.load();
  const weir_be_piece pieces[] = {{granules[0], 0, unit}, {granules[1], 0, unit}};
  assert_int_equal(t.map_run(state, 0, range, pieces, 2, nullptr, 0), WEIR_SUCCESS);
  assert_int_equal(engine.locks.load(), before + 1);
  weir_vulkan_buffer at = WEIR_VULKAN_BUFFER_INIT;
  assert_int_equal(t.native_memory(state, 0, range + unit, WEIR_VULKAN_BUFFER, &at), WEIR_SUCCESS);
  assert_true(at.buffer != 0 && at.device == engine.device);
  engine.fill(at, unit, 0x11111111);
  engine.finish();
  // The second one moves to the end, and is in two places there.
  assert_int_equal(t.unmap_run(state, 0, range, 2 * unit), WEIR_SUCCESS);
  for (const uint64_t place : {2, 3})
    assert_int_equal(t.map(state, 0, range + place * unit, unit, granules[1], 0, nullptr, 0),
                     WEIR_SUCCESS);
  const auto *words = static_cast<const uint32_t *>(host);
  const auto look = [&](uint64_t place) {
    std::memset(host, 0, unit);
    const weir_be_copy out{reinterpret_cast<uintptr_t>(host), range + place * unit, unit};
    assert_int_equal(t.copy_async(state, stream, &out), WEIR_SUCCESS);
    assert_int_equal(t.stream_synchronize(state, stream), WEIR_SUCCESS);
    assert_int_equal(words[0], words[unit / 4 - 1]);
    return words[0];
  };
  assert_int_equal(look(2), 0x11111111);
  assert_int_equal(t.native_memory(state, 0, range + 3 * unit, WEIR_VULKAN_BUFFER, &at),
                   WEIR_SUCCESS);
  engine.fill(at, unit, 0x22222222);
  engine.finish();
  assert_int_equal(look(2), 0x22222222);
  assert_int_equal(t.unmap_run(state, 0, range + 2 * unit, 2 * unit), WEIR_SUCCESS);
  for (const weir_be_granule each : granules)
    assert_int_equal(t.granule_destroy(state, 0, each), WEIR_SUCCESS);
  assert_int_equal(t.range_free(state, 0, range, bytes), WEIR_SUCCESS);
  assert_int_equal(t.stream_destroy(state, stream), WEIR_SUCCESS);
  assert_int_equal(t.host_free(state, host, bytes), WEIR_SUCCESS);
  t.stop(state);
  assert_false(engine.misused.load());
  assert_false(engine.held.load());
}

void granules_on_sparse_buffers(void **) {
  if (binds_itself()) granules_in_the_programs_device();
  pretend("sparse=1");
  granules_in_the_programs_device();
  nothing_is_left();
}

/// A device that binds, on which the program enabled less, has no more than that.
void what_is_not_enabled_is_not_there(void **) {
  pretend("sparse=1;exports=1");
  Engine engine(true);
  const struct {
    uint64_t taken, missing, left;
  } cases[] = {
      {WEIR_VULKAN_SPARSE | WEIR_VULKAN_SPARSE_ALIASED, WEIR_CAP_VMM | WEIR_CAP_EXPORT_FD, 0},
      {WEIR_VULKAN_SPARSE_ALIASED, WEIR_CAP_MULTI_MAP, WEIR_CAP_VMM | WEIR_CAP_EXPORT_FD},
      {WEIR_VULKAN_EXTERNAL_MEMORY_FD, WEIR_CAP_EXPORT_FD, WEIR_CAP_VMM | WEIR_CAP_MULTI_MAP},
      {0, 0, WEIR_CAP_VMM | WEIR_CAP_MULTI_MAP | WEIR_CAP_EXPORT_FD},
  };
  for (const auto &each : cases) {
    weir_vulkan_device told = engine.natives();
    told.enabled &= ~each.taken;
    weir_be_state *state = nullptr;
    std::string why;
    if (start_in(&told, &state, &why) != WEIR_SUCCESS) fail_msg("%s", why.c_str());
    const uint64_t has = about(state).capabilities;
    assert_int_equal(has & each.missing, 0);
    assert_int_equal(has & each.left, each.left);
    table().stop(state);
  }
  // Nor is it taken at its word where the device can't.
  pretend("sparse=0");
  refused(engine.natives(), "WEIR_VULKAN_SPARSE: the device has not the features sparseBinding");
  pretend("sparse=1;without=VK_KHR_external_memory_fd");
  refused(engine.natives(), "VK_KHR_external_memory_fd");
  pretend("sparse=1");
}

/// The program's queue waits for a stream of Weir's before it goes on, also where several threads are at it.
void the_programs_work_waits_for_weirs(void **) {
  Engine engine;
  const weir_backend_table &t = table();
  weir_be_state *state = nullptr;
  std::string why;
  const weir_vulkan_device told = engine.natives();
  if (start_in(&told, &state, &why) != WEIR_SUCCESS) fail_msg("%s", why.c_str());
  constexpr uint64_t bytes = 4 * KiB;
  std::atomic<int> wrong{0};
  const auto work = [&] {
    uint64_t address = 0;
    void *host = nullptr;
    weir_be_stream own = nullptr, wrapped = nullptr;
    weir_vulkan_queue mine = engine.shared();
    const bool made = t.plain_allocate(state, 0, bytes, 4096, &address) == WEIR_SUCCESS &&
                      t.host_allocate(state, bytes, &host) == WEIR_SUCCESS &&
                      t.stream_create(state, 0, 0, &own) == WEIR_SUCCESS &&
                      t.stream_wrap(state, 0, &mine, &wrapped) == WEIR_SUCCESS;
    if (!made) ++wrong;
    for (int round = 0; made && round < 30; ++round) {
      weir_be_fence filled = 0;
      const weir_be_copy out{reinterpret_cast<uintptr_t>(host), address, bytes};
      const bool done =
          t.fill_async(state, own, address, static_cast<uint8_t>(round), bytes) == WEIR_SUCCESS &&
          t.fence_record(state, own, &filled) == WEIR_SUCCESS &&
          t.stream_wait(state, wrapped, filled) == WEIR_SUCCESS &&
          t.copy_async(state, wrapped, &out) == WEIR_SUCCESS &&
          t.stream_synchronize(state, wrapped) == WEIR_SUCCESS &&
          t.fence_destroy(state, filled) == WEIR_SUCCESS;
      if (!done || static_cast<uint8_t *>(host)[bytes - 1] != static_cast<uint8_t>(round)) ++wrong;
    }
    if (!made) return;
    (void)t.stream_destroy(state, wrapped);
    (void)t.stream_destroy(state, own);
  };
  std::thread threads[] = {std::thread(work), std::thread(work), std::thread(work)};
  for (std::thread &thread : threads) thread.join();
  t.stop(state);
  assert_int_equal(wrong.load(), 0);
  assert_false(engine.misused.load());
}

}  // namespace
}  // namespace vulkan_test

int main() {
  using namespace vulkan_test;
  const int cannot = prepare();
  if (cannot != 0) return cannot;
  const CMUnitTest tests[] = {
      cmocka_unit_test_setup(what_a_device_lacks_is_named, fresh),
      cmocka_unit_test_setup(both_use_one_queue, fresh),
      cmocka_unit_test_setup(the_programs_work_waits_for_weirs, fresh),
      cmocka_unit_test_setup(granules_on_sparse_buffers, fresh),
      cmocka_unit_test_setup(what_is_not_enabled_is_not_there, fresh),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
