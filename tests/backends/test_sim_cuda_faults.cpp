// SPDX-License-Identifier: Apache-2.0
//
// The simulated CUDA driver when things go wrong: memory that is unmapped too early or was never opened to a device,
// sticky errors, calls told to fail or to hang, a lost device, and what is left over. Threads last, for the sanitizers.

#include "tests/backends/sim_cuda.hpp"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

using namespace weir::test;

namespace {

/// The first misuse's sentence has these words.
void assert_told(Sim &sim, const char *words) {
  const char *text = nullptr;
  assert_true(sim.cu.misuse(&text) > 0);
  if (std::strstr(text, words) == nullptr) fail_msg("told \"%s\", not %s", text, words);
}

void test_unmapping_too_early_is_seen(void **) {
  Sim sim;
  const abi::Stream stream = sim.stream();
  const abi::DevicePointer device = sim.mapped();
  unsigned char *pinned = sim.pinned();
  Gate gate;
  OK(sim.cu.cuLaunchHostFunc(stream, Gate::pass, &gate));
  OK(sim.cu.cuMemcpyHtoDAsync_v2(device, pinned, kib64, stream));  // legal when it is enqueued
  sim.unmapped(device);
  assert_int_equal(sim.misuses(), 0);
  gate.open();
  IS(sim.cu.cuStreamSynchronize(stream), illegal_address);
  assert_told(sim, "nothing is mapped there");

  // The whole context is done for, until its end; what ends something does so all the same.
  abi::DevicePointer plain = 0;
  IS(sim.cu.cuMemAlloc_v2(&plain, 1), illegal_address);
  IS(sim.cu.cuStreamQuery(nullptr), illegal_address);
  IS(sim.cu.cuCtxSynchronize(), illegal_address);
  IS(sim.cu.cuMemFreeHost(pinned), illegal_address);
  IS(sim.cu.cuStreamDestroy_v2(stream), illegal_address);
  const char *text = nullptr;
  assert_int_equal(sim.cu.alive(&text), 1);
  OK(sim.cu.cuCtxSetCurrent(nullptr));
  OK(sim.cu.cuDevicePrimaryCtxRelease_v2(0));
  abi::Context context = nullptr;
  OK(sim.cu.cuDevicePrimaryCtxRetain(&context, 0));
  OK(sim.cu.cuCtxSetCurrent(context));
  OK(sim.cu.cuMemAlloc_v2(&plain, 1));
  OK(sim.cu.cuMemFree_v2(plain));
}

void test_freeing_an_event_of_a_broken_context(void **) {
  Sim sim;
  const abi::DevicePointer device = sim.mapped();
  const abi::Stream stream = sim.stream();
  const abi::Event event = sim.event();
  bool called = false;
  OK(sim.access(device, kib64, 0, abi::access_read));
  OK(sim.cu.cuMemsetD8Async(device, 1, kib64, stream));  // may only be read
  // The stream may have come to the fill already, and then every call says so.
  const int launched = sim.cu.cuLaunchHostFunc(
      stream, [](void *user) { *static_cast<bool *>(user) = true; }, &called);
  assert_true(launched == result::success || launched == result::illegal_address);
  const int recorded = sim.cu.cuEventRecord(event, stream);
  assert_true(recorded == result::success || recorded == result::illegal_address);
  IS(sim.cu.cuStreamSynchronize(stream), illegal_address);
  IS(sim.cu.cuEventQuery(event), illegal_address);
  assert_false(called);  // host functions do not run in a context that is in trouble
  IS(sim.cu.cuEventDestroy_v2(event), illegal_address);
  IS(sim.cu.cuStreamDestroy_v2(stream), illegal_address);
  IS(sim.cu.cuMemUnmap(device, kib64), illegal_address);
  OK(sim.cu.cuMemAddressFree(device, kib64));
}

void test_access_is_per_device(void **) {
  Sim sim("devices=2");
  const abi::DevicePointer of_first = sim.mapped();
  unsigned char *pinned = sim.pinned();
  sim.use(1);
  const abi::Stream second = sim.stream();
  // Peer access between contexts opens no mapped memory.
  abi::Context first = nullptr;
  OK(sim.cu.cuDevicePrimaryCtxRetain(&first, 0));
  OK(sim.cu.cuCtxEnablePeerAccess(first, 0));
  OK(sim.cu.cuDevicePrimaryCtxRelease_v2(0));
  const abi::AccessDescription both[] = {{{abi::location_device, 0}, abi::access_read_write},
                                         {{abi::location_device, 1}, abi::access_read_write}};
  OK(sim.cu.cuMemSetAccess(of_first, kib64, both, 2));
  OK(sim.cu.cuMemcpyHtoDAsync_v2(of_first, pinned, kib64, second));
  OK(sim.cu.cuStreamSynchronize(second));
  OK(sim.access(of_first, kib64, 1, abi::access_none));
  OK(sim.cu.cuMemcpyHtoDAsync_v2(of_first, pinned, kib64, second));
  IS(sim.cu.cuStreamSynchronize(second), illegal_address);
  assert_told(sim, "no access");
  // The other device has nothing to do with it.
  sim.use(0);
  OK(sim.cu.cuMemFreeHost(pinned));
  OK(sim.cu.cuMemsetD8_v2(of_first, 1, kib64));
  OK(sim.cu.cuCtxSynchronize());
  IS(sim.cu.cuStreamDestroy_v2(second), illegal_address);
  sim.unmapped(of_first);
}

void test_plain_memory_of_a_peer(void **) {
  Sim sim("devices=2");
  const abi::Context first = sim.use(0);
  const abi::DevicePointer of_first = sim.plain();
  sim.use(1);
  OK(sim.cu.cuCtxEnablePeerAccess(first, 0));
  OK(sim.cu.cuMemsetD8_v2(of_first, 6, kib64));
  OK(sim.cu.cuCtxSynchronize());
  OK(sim.cu.cuCtxDisablePeerAccess(first));
  OK(sim.cu.cuMemsetD8_v2(of_first, 7, kib64));
  IS(sim.cu.cuCtxSynchronize(), illegal_address);
  sim.use(0);
  assert_true(sim.all(of_first, 6));
  const uint64_t before = sim.misuses();
  sim.use(1);
  IS(sim.cu.cuMemFree_v2(of_first), illegal_address);  // freed all the same, from another context
  sim.release(0);
  sim.release(0);
  sim.release(0);
  assert_int_equal(sim.misuses(), before);
}

void test_calls_fail_when_told(void **) {
  Sim sim;
  abi::DevicePointer range = 0;
  const uint64_t before = sim.cu.calls("cuMemAddressReserve");
  sim.cu.fail_call("cuMemAddressReserve", 2, result::out_of_memory);
  OK(sim.cu.cuMemAddressReserve(&range, kib64, 0, 0, 0));
  abi::DevicePointer none = 0;
  IS(sim.cu.cuMemAddressReserve(&none, kib64, 0, 0, 0), out_of_memory);
  assert_int_equal(none, 0);
  assert_int_equal(sim.cu.calls("cuMemAddressReserve") - before, 2);
  OK(sim.cu.cuMemAddressFree(range, kib64));  // others go on
  OK(sim.cu.cuMemAddressReserve(&range, kib64, 0, 0, 0));

  // Whatever comes third.
  sim.cu.fail_call(nullptr, 3, result::unknown);
  abi::Context context = nullptr;
  OK(sim.cu.cuCtxGetCurrent(&context));
  OK(sim.cu.cuStreamQuery(nullptr));
  IS(sim.cu.cuMemAddressFree(range, kib64), unknown);
  OK(sim.cu.cuMemAddressFree(range, kib64));
  sim.cu.fail_call("cuStreamQuery", 1, result::unknown);
  sim.cu.fail_call("cuStreamQuery", 0, 0);  // taken back
  OK(sim.cu.cuStreamQuery(nullptr));
  const uint64_t all = sim.cu.calls(nullptr);
  OK(sim.cu.cuStreamQuery(nullptr));
  assert_int_equal(sim.cu.calls(nullptr), all + 1);
  assert_int_equal(sim.misuses(), 0);
}

void test_a_call_hangs_until_told(void **) {
  Sim sim("hang=cuStreamCreate");
  std::atomic<bool> back{false};
  abi::Context context = nullptr;
  OK(sim.cu.cuCtxGetCurrent(&context));
  abi::Stream stream = nullptr;
  std::thread caller([&] {
    OK(sim.cu.cuCtxSetCurrent(context));
    OK(sim.cu.cuStreamCreate(&stream, abi::stream_non_blocking));
    back = true;
    OK(sim.cu.cuCtxSetCurrent(nullptr));
  });
  while (sim.cu.calls("cuStreamCreate") == 0) std::this_thread::yield();
  OK(sim.cu.cuStreamQuery(nullptr));  // others do not hang
  assert_false(back);
  sim.cu.resume();
  caller.join();
  assert_true(back);
  OK(sim.cu.cuStreamDestroy_v2(stream));
}

void test_calls_take_time(void **) {
  Sim sim("call_latency_ns=2000000");
  const auto before = std::chrono::steady_clock::now();
  OK(sim.cu.cuStreamQuery(nullptr));
  assert_true(std::chrono::steady_clock::now() - before >= std::chrono::milliseconds(2));
}

void test_links_take_time(void **) {
  Sim sim("link_bandwidth=10M;memory=8M");
  unsigned char *pinned = sim.pinned();
  const abi::DevicePointer device = sim.plain();
  const auto before = std::chrono::steady_clock::now();
  OK(sim.cu.cuMemcpyHtoD_v2(device, pinned, kib64));
  assert_true(std::chrono::steady_clock::now() - before >= std::chrono::milliseconds(6));
  OK(sim.cu.cuMemFree_v2(device));
  OK(sim.cu.cuMemFreeHost(pinned));
}

void test_lost_device(void **) {
  Sim sim("devices=2");
  const abi::Stream stream = sim.stream();
  const abi::Event event = sim.event();
  const abi::DevicePointer device = sim.mapped();
  unsigned char *pinned = sim.pinned();
  Gate gate;
  OK(sim.cu.cuLaunchHostFunc(stream, Gate::pass, &gate));
  OK(sim.cu.cuMemcpyDtoHAsync_v2(pinned, device, kib64, stream));
  OK(sim.cu.cuEventRecord(event, stream));
  gate.wait_for_visitor();
  std::thread loser([&] {
    while (sim.cu.calls("cuEventSynchronize") == 0) std::this_thread::yield();
    sim.cu.lose_device(0);
  });
  IS(sim.cu.cuEventSynchronize(event), launch_failed);  // though its work never ends
  loser.join();
  IS(sim.cu.cuStreamQuery(stream), launch_failed);
  abi::GranuleHandle memory = 0;
  const auto p = Sim::properties();
  IS(sim.cu.cuMemCreate(&memory, kib64, &p, 0), launch_failed);
  // The other device works on.
  sim.use(1);
  const abi::DevicePointer alive = sim.plain();
  OK(sim.cu.cuMemsetD8_v2(alive, 1, kib64));
  assert_true(sim.all(alive, 1));
  OK(sim.cu.cuMemFree_v2(alive));
  OK(sim.cu.cuMemFreeHost(pinned));
  gate.open();
  IS(sim.cu.cuEventDestroy_v2(event), launch_failed);
  IS(sim.cu.cuStreamDestroy_v2(stream), launch_failed);
  IS(sim.cu.cuMemUnmap(device, kib64), launch_failed);
  OK(sim.cu.cuMemAddressFree(device, kib64));
  sim.release(0);
  abi::Context context = nullptr;
  IS(sim.cu.cuDevicePrimaryCtxRetain(&context, 0), device_unavailable);
}

void test_leftovers_are_counted(void **) {
  Library &cu = library();
  assert_int_equal(cu.configure("memory=4M;granule=64K;mode=strict"), 0);
  OK(cu.cuInit(0));
  abi::Context context = nullptr;
  OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
  OK(cu.cuCtxSetCurrent(context));
  const auto p = Sim::properties();
  abi::GranuleHandle memory = 0;
  abi::DevicePointer range = 0;
  abi::DevicePointer plain = 0;
  abi::Stream stream = nullptr;
  abi::Event event = nullptr;
  OK(cu.cuMemCreate(&memory, kib64, &p, 0));
  OK(cu.cuMemAddressReserve(&range, kib64, 0, 0, 0));
  OK(cu.cuMemMap(range, kib64, 0, memory, 0));
  OK(cu.cuMemAlloc_v2(&plain, 1));
  OK(cu.cuStreamCreate(&stream, 0));
  OK(cu.cuEventCreate(&event, 0));
  OK(cu.cuStreamSynchronize(nullptr));  // default streams are nobody's to end
  const char *text = nullptr;
  assert_int_equal(cu.alive(&text), 7);
  assert_string_equal(text,
                      "1 granules, 1 reservations, 1 mappings, 1 plain allocations, 1 streams, "
                      "1 events, 1 contexts");
  OK(cu.cuMemRelease(memory));
  assert_int_equal(cu.alive(&text), 6);
  // A new machine ends the old one, work and leftovers and all.
  assert_int_equal(cu.configure(""), 0);
  assert_int_equal(cu.alive(&text), 0);
  assert_string_equal(text, "");
}

/// Bytes of all devices' memory files that the system really keeps.
uint64_t kept_bytes() {
  uint64_t bytes = 0;
  DIR *folder = opendir("/proc/self/fd");
  assert_non_null(folder);
  while (const dirent *entry = readdir(folder)) {
    char target[256];
    const ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
    if (length <= 0) continue;
    target[length] = '\0';
    struct stat info {};
    if (std::strncmp(target, "/memfd:weir-", 12) == 0 &&
        fstatat(dirfd(folder), entry->d_name, &info, 0) == 0) {
      bytes += static_cast<uint64_t>(info.st_blocks) * 512;
    }
  }
  closedir(folder);
  return bytes;
}

void test_freed_memory_goes_back_to_the_system(void **) {
  Sim sim;
  const uint64_t before = kept_bytes();
  const abi::DevicePointer mapped = sim.mapped(16 * kib64);
  const abi::DevicePointer plain = sim.plain(16 * kib64);
  OK(sim.cu.cuMemsetD8_v2(mapped, 1, 16 * kib64));
  OK(sim.cu.cuMemsetD8_v2(plain, 1, 16 * kib64));
  OK(sim.cu.cuCtxSynchronize());
  assert_true(kept_bytes() >= before + 32 * kib64);
  sim.unmapped(mapped, 16 * kib64);
  OK(sim.cu.cuMemFree_v2(plain));
  assert_int_equal(kept_bytes(), before);
}

/// One thread's share: mapping, copying and unmapping on a stream of its own, again and again.
void work(Sim &sim, abi::Context context, unsigned char value) {
  OK(sim.cu.cuCtxSetCurrent(context));
  const abi::Stream stream =
      sim.stream(value % 2 == 0 ? abi::stream_default : abi::stream_non_blocking);
  const abi::Event event = sim.event();
  unsigned char *pinned = sim.pinned();
  const abi::GranuleHandle memory = sim.granule();
  for (int i = 0; i < 50; ++i) {
    const abi::DevicePointer range = sim.range();
    OK(sim.cu.cuMemMap(range, kib64, 0, memory, 0));
    OK(sim.access(range));
    OK(sim.cu.cuMemsetD8Async(range, value, kib64, stream));
    OK(sim.cu.cuMemcpyDtoHAsync_v2(pinned, range, kib64, stream));
    OK(sim.cu.cuEventRecord(event, stream));
    OK(sim.cu.cuStreamWaitEvent(nullptr, event, 0));
    OK(sim.cu.cuEventSynchronize(event));
    assert_int_equal(pinned[kib64 - 1], value);
    sim.unmapped(range);
  }
  OK(sim.cu.cuMemRelease(memory));
  OK(sim.cu.cuMemFreeHost(pinned));
  OK(sim.cu.cuEventDestroy_v2(event));
  OK(sim.cu.cuStreamDestroy_v2(stream));
  OK(sim.cu.cuCtxSetCurrent(nullptr));
}

void test_threads(void **) {
  for (const char *mode : {"mode=strict", "mode=alias"}) {
    Sim sim(mode);
    abi::Context context = nullptr;
    OK(sim.cu.cuCtxGetCurrent(&context));
    std::vector<std::thread> threads;
    for (unsigned char i = 1; i <= 4; ++i) {
      threads.emplace_back([&sim, context, i] { work(sim, context, i); });
    }
    for (std::thread &each : threads) each.join();
    assert_int_equal(sim.misuses(), 0);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_unmapping_too_early_is_seen),
      cmocka_unit_test(test_freeing_an_event_of_a_broken_context),
      cmocka_unit_test(test_access_is_per_device),
      cmocka_unit_test(test_plain_memory_of_a_peer),
      cmocka_unit_test(test_calls_fail_when_told),
      cmocka_unit_test(test_a_call_hangs_until_told),
      cmocka_unit_test(test_calls_take_time),
      cmocka_unit_test(test_links_take_time),
      cmocka_unit_test(test_lost_device),
      cmocka_unit_test(test_leftovers_are_counted),
      cmocka_unit_test(test_freed_memory_goes_back_to_the_system),
      cmocka_unit_test(test_threads),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
