// SPDX-License-Identifier: Apache-2.0
//
// The simulated CUDA driver's ways to be more like a real machine: a stream's channel that is full, host functions that run
// one after another, and memory of a file that can't be registered.

#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "tests/backends/sim_cuda.hpp"

namespace {

using namespace weir::test;

void nothing(void *) {}

uint64_t blocked(const Sim &sim) {
  uint64_t (*ask)() = nullptr;
  void *symbol = sim.cu.symbol("weir_sim_blocked");
  assert_non_null(symbol);
  std::memcpy(&ask, &symbol, sizeof ask);
  return ask();
}

/// Each call that enqueues, or records, blocks while two entries and more are pending, and no other does.
void test_full_channel(void **) {
  Sim sim("channel_depth=1;serial_host_calls=0");  // the gate stands for a kernel
  const abi::Stream full = sim.stream(), other = sim.stream();
  const abi::Event event = sim.event(), early = sim.event();
  const abi::DevicePointer device = sim.plain();
  unsigned char *pinned = sim.pinned();
  const std::function<abi::Result()> calls[] = {
      [&] { return sim.cu.cuLaunchHostFunc(full, nothing, nullptr); },
      [&] { return sim.cu.cuMemcpyHtoDAsync_v2(device, pinned, kib64, full); },
      [&] { return sim.cu.cuEventRecord(event, full); },
      [&] { return sim.cu.cuStreamWaitEvent(full, early, 0); },
  };
  for (const auto &call : calls) {
    Gate gate;
    OK(sim.cu.cuEventRecord(early, full));
    OK(sim.cu.cuLaunchHostFunc(full, Gate::pass, &gate));
    gate.wait_for_visitor();
    OK(sim.cu.cuLaunchHostFunc(full, nothing, nullptr));
    assert_int_equal(blocked(sim), 0);
    abi::Context context = nullptr;
    OK(sim.cu.cuCtxGetCurrent(&context));
    std::thread caller([&] {
      OK(sim.cu.cuCtxSetCurrent(context));
      OK(call());
      OK(sim.cu.cuCtxSetCurrent(nullptr));
    });
    while (blocked(sim) == 0) std::this_thread::yield();
    OK(sim.cu.cuEventQuery(early));
    IS(sim.cu.cuStreamQuery(full), not_ready);
    OK(sim.cu.cuLaunchHostFunc(other, nothing, nullptr));
    OK(sim.cu.cuStreamSynchronize(other));
    assert_int_equal(blocked(sim), 1);
    gate.open();
    caller.join();
    OK(sim.cu.cuStreamSynchronize(full));
    assert_int_equal(blocked(sim), 0);
  }
  OK(sim.cu.cuMemFree_v2(device));
  OK(sim.cu.cuMemFreeHost(pinned));
  for (const abi::Event each : {event, early}) OK(sim.cu.cuEventDestroy_v2(each));
  for (const abi::Stream each : {full, other}) OK(sim.cu.cuStreamDestroy_v2(each));
}

void set(void *user) { static_cast<std::atomic<bool> *>(user)->store(true); }

/// A host function that blocks keeps those of other streams of its device, and nothing else of theirs.
void test_host_functions_take_turns(void **) {
  for (const bool serial : {true, false}) {
    Sim sim(serial ? "" : "serial_host_calls=0");
    const abi::Stream first = sim.stream(), second = sim.stream(), third = sim.stream();
    const abi::DevicePointer device = sim.plain();
    unsigned char *pinned = sim.pinned();
    Gate gate;
    std::atomic<bool> ran{false};
    OK(sim.cu.cuLaunchHostFunc(first, Gate::pass, &gate));
    gate.wait_for_visitor();
    OK(sim.cu.cuLaunchHostFunc(second, set, &ran));
    OK(sim.cu.cuMemcpyHtoDAsync_v2(device, pinned, kib64, third));
    OK(sim.cu.cuStreamSynchronize(third));
    if (serial) {
      IS(sim.cu.cuStreamQuery(second), not_ready);
      assert_false(ran);
    } else {
      OK(sim.cu.cuStreamSynchronize(second));
      assert_true(ran);
    }
    gate.open();
    OK(sim.cu.cuStreamSynchronize(second));
    OK(sim.cu.cuStreamSynchronize(first));
    assert_true(ran);
    OK(sim.cu.cuMemFree_v2(device));
    OK(sim.cu.cuMemFreeHost(pinned));
    for (const abi::Stream each : {first, second, third}) OK(sim.cu.cuStreamDestroy_v2(each));
  }
}

void test_memory_of_a_file(void **) {
  for (const bool refused : {false, true}) {
    Sim sim(refused ? "memfd=0" : "");
    const int file = memfd_create("test", MFD_CLOEXEC);
    assert_int_equal(ftruncate(file, kib64), 0);
    void *of_file = mmap(nullptr, kib64, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    void *plain = mmap(nullptr, kib64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(of_file != MAP_FAILED && plain != MAP_FAILED);
    const abi::Result got = sim.cu.cuMemHostRegister_v2(of_file, kib64, 0);
    assert_int_equal(got, refused ? result::not_supported : result::success);
    if (!refused) OK(sim.cu.cuMemHostUnregister(of_file));
    OK(sim.cu.cuMemHostRegister_v2(plain, kib64, 0));
    OK(sim.cu.cuMemHostUnregister(plain));
    munmap(of_file, kib64);
    munmap(plain, kib64);
    close(file);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_full_channel),
      cmocka_unit_test(test_host_functions_take_turns),
      cmocka_unit_test(test_memory_of_a_file),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
