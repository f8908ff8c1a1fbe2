// SPDX-License-Identifier: Apache-2.0
//
// The simulated CUDA driver's work: streams and the order of the legacy one, events, copies and the host memory that
// they may use, batches, host functions, and capture. Gates hold work back; nothing here waits for time to pass.

#include "tests/backends/sim_cuda.hpp"

#include <thread>

using namespace weir::test;

namespace {

void test_stream_handles(void **) {
  Sim sim("devices=2");
  IS(sim.cu.cuStreamQuery(reinterpret_cast<abi::Stream>(&sim)), invalid_handle);
  abi::Stream stream = nullptr;
  IS(sim.cu.cuStreamCreate(&stream, 8), invalid_value);
  stream = sim.stream(abi::stream_default);
  unsigned flags = 9;
  OK(sim.cu.cuStreamGetFlags(stream, &flags));
  assert_int_equal(flags, abi::stream_default);
  sim.use(1);
  int device = -1;
  OK(sim.cu.cuStreamGetDevice(stream, &device));
  assert_int_equal(device, 0);
  OK(sim.cu.cuStreamGetDevice(nullptr, &device));
  assert_int_equal(device, 1);  // the default stream is the current context's
  OK(sim.cu.cuStreamDestroy_v2(stream));
  IS(sim.cu.cuStreamSynchronize(stream), invalid_handle);
  IS(sim.cu.cuStreamDestroy_v2(nullptr), invalid_handle);
  OK(sim.cu.cuCtxSetCurrent(nullptr));
  IS(sim.cu.cuStreamQuery(nullptr), invalid_context);
}

void test_destroying_a_stream_does_not_wait(void **) {
  Sim sim;
  Gate gate;
  const abi::Stream stream = sim.stream();
  const abi::Event event = sim.event();
  OK(sim.cu.cuLaunchHostFunc(stream, Gate::pass, &gate));
  OK(sim.cu.cuEventRecord(event, stream));
  OK(sim.cu.cuStreamDestroy_v2(stream));
  IS(sim.cu.cuEventQuery(event), not_ready);
  gate.open();
  OK(sim.cu.cuEventSynchronize(event));
  assert_true(gate.passed());
  OK(sim.cu.cuEventDestroy_v2(event));
}

void test_legacy_stream_orders_blocking_ones(void **) {
  Sim sim;
  for (const abi::Stream legacy : {abi::Stream{nullptr}, abi::stream_legacy()}) {
    Gate gate;
    const abi::Stream blocking = sim.stream(abi::stream_default);
    const abi::Stream free_one = sim.stream(abi::stream_non_blocking);
    const abi::Event event = sim.event();
    OK(sim.cu.cuLaunchHostFunc(blocking, Gate::pass, &gate));
    IS(sim.cu.cuStreamQuery(legacy), not_ready);
    OK(sim.cu.cuEventRecord(event, legacy));
    IS(sim.cu.cuEventQuery(event), not_ready);
    OK(sim.cu.cuStreamSynchronize(free_one));  // exempt
    gate.open();
    OK(sim.cu.cuEventSynchronize(event));

    Gate second;
    OK(sim.cu.cuLaunchHostFunc(legacy, Gate::pass, &second));
    OK(sim.cu.cuEventRecord(event, free_one));
    OK(sim.cu.cuEventSynchronize(event));
    OK(sim.cu.cuEventRecord(event, blocking));
    IS(sim.cu.cuEventQuery(event), not_ready);
    OK(sim.cu.cuEventRecord(event, abi::stream_per_thread()));
    IS(sim.cu.cuEventQuery(event), not_ready);
    second.open();
    OK(sim.cu.cuEventSynchronize(event));
    OK(sim.cu.cuEventDestroy_v2(event));
    OK(sim.cu.cuStreamDestroy_v2(blocking));
    OK(sim.cu.cuStreamDestroy_v2(free_one));
  }
}

void test_per_thread_streams_differ(void **) {
  Sim sim;
  Gate gate;
  OK(sim.cu.cuLaunchHostFunc(abi::stream_per_thread(), Gate::pass, &gate));
  IS(sim.cu.cuStreamQuery(abi::stream_per_thread()), not_ready);
  abi::Context context = nullptr;
  OK(sim.cu.cuCtxGetCurrent(&context));
  std::thread([&] {
    OK(sim.cu.cuCtxSetCurrent(context));
    OK(sim.cu.cuStreamQuery(abi::stream_per_thread()));
    OK(sim.cu.cuCtxSetCurrent(nullptr));
  }).join();
  gate.open();
  OK(sim.cu.cuStreamSynchronize(abi::stream_per_thread()));
}

void test_events(void **) {
  Sim sim("devices=2");
  Gate first;
  Gate second;
  const abi::Stream a = sim.stream();
  const abi::Stream b = sim.stream();
  const abi::Event event = sim.event();
  OK(sim.cu.cuEventQuery(event));  // never recorded
  OK(sim.cu.cuEventSynchronize(event));
  OK(sim.cu.cuStreamWaitEvent(b, event, 0));
  OK(sim.cu.cuStreamSynchronize(b));

  OK(sim.cu.cuLaunchHostFunc(a, Gate::pass, &first));
  OK(sim.cu.cuEventRecord(event, a));
  OK(sim.cu.cuStreamWaitEvent(b, event, 0));
  OK(sim.cu.cuLaunchHostFunc(a, Gate::pass, &second));
  OK(sim.cu.cuEventRecord(event, a));  // b waits for the record of before
  IS(sim.cu.cuStreamQuery(b), not_ready);
  first.open();
  OK(sim.cu.cuStreamSynchronize(b));
  IS(sim.cu.cuEventQuery(event), not_ready);
  OK(sim.cu.cuStreamWaitEvent(b, event, 0));
  OK(sim.cu.cuEventDestroy_v2(event));  // pending; b still waits
  IS(sim.cu.cuStreamQuery(b), not_ready);
  IS(sim.cu.cuEventQuery(event), invalid_handle);
  second.open();
  OK(sim.cu.cuStreamSynchronize(b));

  const abi::Event here = sim.event();
  sim.use(1);
  const abi::Stream far = sim.stream();
  IS(sim.cu.cuEventRecord(here, far), invalid_handle);  // another context's
  OK(sim.cu.cuEventRecord(here, a));                    // whatever is current
  OK(sim.cu.cuStreamWaitEvent(far, here, 0));
  IS(sim.cu.cuStreamWaitEvent(far, here, 1), invalid_value);
  OK(sim.cu.cuStreamSynchronize(far));
  float milliseconds = 0;
  IS(sim.cu.cuEventElapsedTime(&milliseconds, here, here), invalid_handle);  // takes no time
  OK(sim.cu.cuEventDestroy_v2(here));
  for (const abi::Stream each : {a, b, far}) OK(sim.cu.cuStreamDestroy_v2(each));
}

void test_event_times(void **) {
  Sim sim;
  abi::Event from = nullptr;
  abi::Event to = nullptr;
  OK(sim.cu.cuEventCreate(&from, abi::event_default));
  OK(sim.cu.cuEventCreate(&to, abi::event_default));
  Gate gate;
  float milliseconds = -1;
  OK(sim.cu.cuEventRecord(from, nullptr));
  OK(sim.cu.cuLaunchHostFunc(nullptr, Gate::pass, &gate));
  OK(sim.cu.cuEventRecord(to, nullptr));
  IS(sim.cu.cuEventElapsedTime(&milliseconds, from, to), not_ready);
  gate.open();
  OK(sim.cu.cuEventSynchronize(to));
  OK(sim.cu.cuEventElapsedTime(&milliseconds, from, to));
  assert_true(milliseconds >= 0);
  OK(sim.cu.cuEventDestroy_v2(from));
  OK(sim.cu.cuEventDestroy_v2(to));
}

void test_host_memory(void **) {
  Sim sim;
  std::vector<unsigned char> own(3 * 4096);
  unsigned char *pinned = sim.pinned();
  abi::DevicePointer device = 0;
  OK(sim.cu.cuMemHostGetDevicePointer_v2(&device, pinned, 0));
  assert_int_equal(device, address_of(pinned));
  IS(sim.cu.cuMemHostGetDevicePointer_v2(&device, own.data(), 0), invalid_value);
  OK(sim.cu.cuMemHostRegister_v2(own.data(), 4096, abi::host_register_portable));
  IS(sim.cu.cuMemHostRegister_v2(own.data(), 4096, 0), host_memory_already_registered);
  IS(sim.cu.cuMemHostRegister_v2(own.data() + 4095, 4096, 0), host_memory_already_registered);
  IS(sim.cu.cuMemHostRegister_v2(pinned, 4096, 0), host_memory_already_registered);
  IS(sim.cu.cuMemHostRegister_v2(own.data() + 4096, 4096, 0x100), invalid_value);
  IS(sim.cu.cuMemHostRegister_v2(nullptr, 4096, 0), invalid_value);
  OK(sim.cu.cuMemHostRegister_v2(own.data() + 4096, 4096, 0));
  const char *text = nullptr;
  assert_int_equal(sim.cu.alive(&text), 4);
  assert_string_equal(text, "1 pinned ranges, 2 registrations, 1 contexts");
  IS(sim.cu.cuMemHostUnregister(own.data() + 1), host_memory_not_registered);
  IS(sim.cu.cuMemHostUnregister(pinned), host_memory_not_registered);
  OK(sim.cu.cuMemHostUnregister(own.data()));
  IS(sim.cu.cuMemHostUnregister(own.data()), host_memory_not_registered);
  OK(sim.cu.cuMemHostUnregister(own.data() + 4096));
  IS(sim.cu.cuMemFreeHost(own.data()), invalid_value);
  OK(sim.cu.cuMemFreeHost(pinned));
  IS(sim.cu.cuMemFreeHost(pinned), invalid_value);
}

void test_pinned_memory_is_read_when_the_copy_runs(void **) {
  Sim sim;
  Gate gate;
  const abi::Stream stream = sim.stream();
  const abi::DevicePointer device = sim.plain();
  unsigned char *pinned = sim.pinned();
  std::vector<unsigned char> own(4096, 1);
  OK(sim.cu.cuMemHostRegister_v2(own.data(), own.size(), 0));
  OK(sim.cu.cuLaunchHostFunc(stream, Gate::pass, &gate));
  std::memset(pinned, 1, kib64);
  OK(sim.cu.cuMemcpyHtoDAsync_v2(device, pinned, kib64, stream));
  OK(sim.cu.cuMemcpyDtoHAsync_v2(own.data(), device, own.size(), stream));  // does not wait
  std::memset(pinned, 2, kib64);
  assert_int_equal(own[0], 1);
  gate.open();
  OK(sim.cu.cuStreamSynchronize(stream));
  assert_int_equal(own[4095], 2);
  assert_true(sim.all(device, 2));
  OK(sim.cu.cuMemHostUnregister(own.data()));
  OK(sim.cu.cuMemFreeHost(pinned));
  OK(sim.cu.cuMemFree_v2(device));
  OK(sim.cu.cuStreamDestroy_v2(stream));
}

void test_pageable_memory_is_staged(void **) {
  Sim sim;
  Gate gate;
  const abi::Stream stream = sim.stream();
  const abi::DevicePointer device = sim.plain();
  std::vector<unsigned char> own(kib64, 1);
  OK(sim.cu.cuLaunchHostFunc(stream, Gate::pass, &gate));
  OK(sim.cu.cuMemcpyHtoDAsync_v2(device, own.data(), kib64, stream));
  std::memset(own.data(), 9, kib64);  // the driver has taken it
  gate.open();
  OK(sim.cu.cuMemcpyDtoHAsync_v2(own.data(), device, kib64, stream));
  assert_int_equal(own[kib64 - 1], 1);  // nobody synchronised
  std::vector<unsigned char> other(kib64, 0);
  OK(sim.cu.cuMemcpyAsync(address_of(other.data()), address_of(own.data()), kib64, stream));
  assert_int_equal(other[kib64 - 1], 1);
  OK(sim.cu.cuMemFree_v2(device));
  OK(sim.cu.cuStreamDestroy_v2(stream));
}

void test_copies_check_their_sides(void **) {
  Sim sim;
  const abi::DevicePointer device = sim.plain(1000);
  const abi::DevicePointer range = sim.range();
  unsigned char byte = 0;
  IS(sim.cu.cuMemcpyHtoDAsync_v2(address_of(&byte), &byte, 1, nullptr), invalid_value);
  IS(sim.cu.cuMemcpyDtoHAsync_v2(&byte, device + 1000, 1, nullptr), invalid_value);
  IS(sim.cu.cuMemcpyDtoHAsync_v2(&byte, range, 1, nullptr), invalid_value);  // nothing is mapped
  IS(sim.cu.cuMemcpyDtoDAsync_v2(device, device + 999, 2, nullptr), invalid_value);
  IS(sim.cu.cuMemcpyAsync(0, device, 1, nullptr), invalid_value);
  IS(sim.cu.cuMemsetD8Async(device + 990, 1, 11, nullptr), invalid_value);
  OK(sim.cu.cuMemcpyAsync(0, device, 0, nullptr));
  assert_int_equal(sim.misuses(), 6);
  OK(sim.cu.cuMemAddressFree(range, kib64));
  OK(sim.cu.cuMemFree_v2(device));
  IS(sim.cu.cuMemcpyDtoHAsync_v2(&byte, device, 1, nullptr), invalid_value);  // freed
  IS(sim.cu.cuMemFree_v2(device), invalid_value);
  OK(sim.cu.cuMemFree_v2(0));
}

void test_copies_over_mappings(void **) {
  Sim sim;
  const abi::GranuleHandle a = sim.granule();
  const abi::GranuleHandle b = sim.granule();
  const abi::DevicePointer range = sim.range(2 * kib64);
  OK(sim.cu.cuMemMap(range, kib64, 0, a, 0));
  OK(sim.cu.cuMemMap(range + kib64, kib64, 0, b, 0));
  OK(sim.access(range, 2 * kib64));
  const abi::DevicePointer plain = sim.plain(kib64);
  OK(sim.cu.cuMemsetD8_v2(range, 1, 2 * kib64));
  OK(sim.cu.cuMemsetD8_v2(plain, 2, kib64));
  OK(sim.cu.cuMemcpyDtoD_v2(range + kib64 / 2, plain, kib64));
  const auto content = sim.read(range, 2 * kib64);
  for (uint64_t i = 0; i < 2 * kib64; ++i) {
    assert_int_equal(content[i], i >= kib64 / 2 && i < kib64 + kib64 / 2 ? 2 : 1);
  }
  OK(sim.cu.cuMemFree_v2(plain));
  sim.unmapped(range, 2 * kib64);
  OK(sim.cu.cuMemRelease(a));
  OK(sim.cu.cuMemRelease(b));
}

void test_copies_between_devices(void **) {
  Sim sim("devices=2");
  const abi::DevicePointer here = sim.plain();
  OK(sim.cu.cuMemsetD8_v2(here, 5, kib64));
  OK(sim.cu.cuCtxSynchronize());
  sim.use(1);
  const abi::DevicePointer there = sim.plain();
  const abi::Stream stream = sim.stream();
  // Through host memory, as no peer access is enabled; a fill cannot do that.
  OK(sim.cu.cuMemcpyAsync(there, here, kib64, stream));
  OK(sim.cu.cuStreamSynchronize(stream));
  assert_true(sim.all(there, 5));
  OK(sim.cu.cuStreamDestroy_v2(stream));
  OK(sim.cu.cuMemFree_v2(there));
  OK(sim.cu.cuMemFree_v2(here));
}

void test_batches(void **) {
  Sim sim;
  const abi::Stream stream = sim.stream();
  const abi::DevicePointer device = sim.plain();
  unsigned char *pinned = sim.pinned();
  std::memset(pinned, 1, kib64 / 2);
  std::memset(pinned + kib64 / 2, 2, kib64 / 2);
  abi::DevicePointer destinations[] = {device, device + kib64 / 2};
  abi::DevicePointer sources[] = {address_of(pinned), address_of(pinned) + kib64 / 2};
  size_t bytes[] = {kib64 / 2, kib64 / 2};
  abi::CopyAttributes attributes{};
  attributes.source_order = abi::source_order_stream;
  size_t starts[] = {0};
  size_t failed = 7;
  OK(sim.cu.cuMemcpyBatchAsync(destinations, sources, bytes, 2, &attributes, starts, 1, &failed,
                               stream));
  OK(sim.cu.cuStreamSynchronize(stream));
  assert_true(sim.all(device, 1, kib64 / 2));
  assert_true(sim.all(device + kib64 / 2, 2, kib64 / 2));
  assert_int_equal(failed, 7);
  OK(sim.cu.cuMemcpyBatchAsync_v2(sources, destinations, bytes, 2, &attributes, starts, 1, stream));
  IS(sim.cu.cuMemcpyBatchAsync_v2(sources, destinations, bytes, 2, &attributes, starts, 1, nullptr),
     invalid_value);
  IS(sim.cu.cuMemcpyBatchAsync_v2(sources, destinations, bytes, 2, &attributes, starts, 0, stream),
     invalid_value);
  attributes.source_order = 0;
  IS(sim.cu.cuMemcpyBatchAsync_v2(sources, destinations, bytes, 2, &attributes, starts, 1, stream),
     invalid_value);
  attributes.source_order = abi::source_order_stream;
  OK(sim.cu.cuStreamSynchronize(stream));
  // All or none.
  std::memset(pinned, 8, kib64);
  destinations[1] = device + kib64;
  IS(sim.cu.cuMemcpyBatchAsync(destinations, sources, bytes, 2, &attributes, starts, 1, &failed,
                               stream),
     invalid_value);
  assert_int_equal(failed, 1);
  OK(sim.cu.cuStreamSynchronize(stream));
  assert_true(sim.all(device, 1, kib64 / 2));
  OK(sim.cu.cuMemFreeHost(pinned));
  OK(sim.cu.cuMemFree_v2(device));
  OK(sim.cu.cuStreamDestroy_v2(stream));
}

void test_host_functions_may_not_call_the_driver(void **) {
  Sim sim;
  struct Said {
    Library *cu;
    int code;
  } said{&sim.cu, 0};
  OK(sim.cu.cuLaunchHostFunc(
      nullptr,
      [](void *user) {
        auto *s = static_cast<Said *>(user);
        abi::Context context = nullptr;
        s->code = s->cu->cuCtxGetCurrent(&context);
      },
      &said));
  OK(sim.cu.cuStreamSynchronize(nullptr));
  assert_int_equal(said.code, result::not_permitted);
  assert_int_equal(sim.misuses(), 1);
}

void test_freeing_waits_and_unmapping_does_not(void **) {
  Sim sim;
  const abi::Stream stream = sim.stream();
  const abi::DevicePointer plain = sim.plain();
  const abi::DevicePointer mapped = sim.mapped();
  Gate gate;
  OK(sim.cu.cuLaunchHostFunc(stream, Gate::pass, &gate));
  sim.unmapped(mapped);
  const uint64_t before = sim.cu.calls("cuMemFree");
  std::thread opener([&] {
    while (sim.cu.calls("cuMemFree") == before) std::this_thread::yield();
    gate.open();
  });
  OK(sim.cu.cuMemFree_v2(plain));
  assert_true(gate.passed());
  opener.join();
  OK(sim.cu.cuStreamDestroy_v2(stream));
}

int capture_status(Sim &sim, abi::Stream stream) {
  int status = -1;
  OK(sim.cu.cuStreamIsCapturing(stream, &status));
  return status;
}

void test_capture(void **) {
  Sim sim;
  const abi::Stream stream = sim.stream();
  const abi::Stream other = sim.stream();
  const abi::DevicePointer device = sim.plain();
  const abi::Event event = sim.event();
  const abi::Event back = sim.event();
  OK(sim.cu.cuMemsetD8_v2(device, 1, kib64));
  OK(sim.cu.cuCtxSynchronize());
  IS(sim.cu.cuStreamBeginCapture_v2(nullptr, abi::capture_mode_relaxed),
     stream_capture_unsupported);
  OK(sim.cu.cuStreamBeginCapture_v2(stream, abi::capture_mode_relaxed));
  IS(sim.cu.cuStreamBeginCapture_v2(stream, abi::capture_mode_relaxed), illegal_state);
  OK(sim.cu.cuMemsetD8Async(device, 9, kib64, stream));  // goes into the graph
  OK(sim.cu.cuEventRecord(event, stream));
  OK(sim.cu.cuStreamWaitEvent(other, event, 0));  // the other one takes part
  assert_int_equal(capture_status(sim, other), abi::capture_active);
  OK(sim.cu.cuEventRecord(back, other));
  OK(sim.cu.cuStreamWaitEvent(stream, back, 0));
  abi::Graph graph = nullptr;
  IS(sim.cu.cuStreamEndCapture(other, &graph), stream_capture_unmatched);
  IS(sim.cu.cuStreamEndCapture(stream, &graph), stream_capture_invalidated);
  assert_null(graph);

  OK(sim.cu.cuStreamBeginCapture_v2(stream, abi::capture_mode_relaxed));
  OK(sim.cu.cuMemsetD8Async(device, 9, kib64, stream));
  OK(sim.cu.cuEventRecord(event, stream));
  IS(sim.cu.cuEventQuery(event), captured_event);
  OK(sim.cu.cuStreamWaitEvent(other, event, 0));
  OK(sim.cu.cuEventRecord(back, other));
  OK(sim.cu.cuStreamWaitEvent(stream, back, 0));
  OK(sim.cu.cuStreamEndCapture(stream, &graph));
  assert_non_null(graph);
  OK(sim.cu.cuGraphDestroy(graph));
  IS(sim.cu.cuGraphDestroy(graph), invalid_value);
  assert_int_equal(capture_status(sim, other), abi::capture_none);
  IS(sim.cu.cuStreamEndCapture(stream, &graph), illegal_state);
  assert_true(sim.all(device, 1));  // nothing of it ran

  // Asking a stream that captures spoils the capture.
  for (const bool ask : {true, false}) {
    OK(sim.cu.cuStreamBeginCapture_v2(stream, abi::capture_mode_relaxed));
    IS(ask ? sim.cu.cuStreamQuery(stream) : sim.cu.cuStreamSynchronize(stream),
       stream_capture_unsupported);
    assert_int_equal(capture_status(sim, stream), abi::capture_invalidated);
    IS(sim.cu.cuEventRecord(event, stream), stream_capture_invalidated);
    IS(sim.cu.cuStreamEndCapture(stream, &graph), stream_capture_invalidated);
  }
  // What is captured does not wait for what runs; a stream that is forked must be joined.
  OK(sim.cu.cuEventRecord(back, other));
  OK(sim.cu.cuStreamBeginCapture_v2(stream, abi::capture_mode_relaxed));
  IS(sim.cu.cuStreamWaitEvent(stream, back, 0), stream_capture_isolation);
  IS(sim.cu.cuStreamEndCapture(stream, &graph), stream_capture_invalidated);
  OK(sim.cu.cuStreamBeginCapture_v2(stream, abi::capture_mode_relaxed));
  OK(sim.cu.cuEventRecord(event, stream));
  OK(sim.cu.cuStreamWaitEvent(other, event, 0));
  IS(sim.cu.cuStreamEndCapture(stream, &graph), stream_capture_unjoined);
  OK(sim.cu.cuMemFree_v2(device));
  for (const abi::Event each : {event, back}) OK(sim.cu.cuEventDestroy_v2(each));
  for (const abi::Stream each : {stream, other}) OK(sim.cu.cuStreamDestroy_v2(each));
}

void test_capture_forbids_unsafe_calls(void **) {
  Sim sim;
  const abi::Stream stream = sim.stream();
  const abi::Event event = sim.event();
  abi::DevicePointer memory = 0;
  abi::Graph graph = nullptr;
  abi::Context context = nullptr;
  OK(sim.cu.cuCtxGetCurrent(&context));
  // Global: on every thread, unless the thread says that it does not care.
  OK(sim.cu.cuStreamBeginCapture_v2(stream, abi::capture_mode_global));
  std::thread([&] {
    OK(sim.cu.cuCtxSetCurrent(context));
    int mode = abi::capture_mode_relaxed;
    OK(sim.cu.cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, abi::capture_mode_global);
    OK(sim.cu.cuEventQuery(event));
    assert_int_equal(capture_status(sim, stream), abi::capture_active);
    OK(sim.cu.cuThreadExchangeStreamCaptureMode(&mode));
    IS(sim.cu.cuStreamEndCapture(stream, &graph), stream_capture_wrong_thread);
    IS(sim.cu.cuEventQuery(event), stream_capture_unsupported);
    OK(sim.cu.cuCtxSetCurrent(nullptr));
  }).join();
  IS(sim.cu.cuStreamEndCapture(stream, &graph), stream_capture_invalidated);

  OK(sim.cu.cuStreamBeginCapture_v2(stream, abi::capture_mode_thread_local));
  std::thread([&] { OK(sim.cu.cuEventQuery(event)); }).join();
  IS(sim.cu.cuMemAlloc_v2(&memory, 1), stream_capture_unsupported);
  IS(sim.cu.cuStreamEndCapture(stream, &graph), stream_capture_invalidated);
  OK(sim.cu.cuEventDestroy_v2(event));
  OK(sim.cu.cuStreamDestroy_v2(stream));
}

void test_capture_and_the_legacy_stream(void **) {
  Sim sim;
  const abi::Stream blocking = sim.stream(abi::stream_default);
  const abi::Event event = sim.event();
  abi::Graph graph = nullptr;
  int status = -1;
  OK(sim.cu.cuStreamBeginCapture_v2(blocking, abi::capture_mode_relaxed));
  IS(sim.cu.cuStreamIsCapturing(nullptr, &status), stream_capture_implicit);
  assert_int_equal(capture_status(sim, blocking), abi::capture_active);  // asking spoils nothing
  IS(sim.cu.cuEventRecord(event, nullptr), stream_capture_implicit);
  IS(sim.cu.cuStreamEndCapture(blocking, &graph), stream_capture_invalidated);
  OK(sim.cu.cuEventRecord(event, nullptr));
  OK(sim.cu.cuEventDestroy_v2(event));
  OK(sim.cu.cuStreamDestroy_v2(blocking));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_stream_handles),
      cmocka_unit_test(test_destroying_a_stream_does_not_wait),
      cmocka_unit_test(test_legacy_stream_orders_blocking_ones),
      cmocka_unit_test(test_per_thread_streams_differ),
      cmocka_unit_test(test_events),
      cmocka_unit_test(test_event_times),
      cmocka_unit_test(test_host_memory),
      cmocka_unit_test(test_pinned_memory_is_read_when_the_copy_runs),
      cmocka_unit_test(test_pageable_memory_is_staged),
      cmocka_unit_test(test_copies_check_their_sides),
      cmocka_unit_test(test_copies_over_mappings),
      cmocka_unit_test(test_copies_between_devices),
      cmocka_unit_test(test_batches),
      cmocka_unit_test(test_host_functions_may_not_call_the_driver),
      cmocka_unit_test(test_freeing_waits_and_unmapping_does_not),
      cmocka_unit_test(test_capture),
      cmocka_unit_test(test_capture_forbids_unsafe_calls),
      cmocka_unit_test(test_capture_and_the_legacy_stream),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
