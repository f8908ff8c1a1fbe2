// SPDX-License-Identifier: Apache-2.0
//
// The CUDA backend's streams, fences and batches against the simulated driver: the three default streams, capture,
// events that serve many fences, and what an application's thread must not notice.

#include "tests/backends/cuda_fixture.hpp"

#include <functional>

namespace {

using namespace weir::test;

const weir_backend_table &t = cuda_table();

uint64_t address_of(const void *memory) { return reinterpret_cast<uintptr_t>(memory); }

/// The primary context of device 0, current on the calling thread: what an application has.
struct Application {
  Application() {
    assert_int_equal(app::cuDevicePrimaryCtxRetain(&context, 0), 0);
    assert_int_equal(app::cuCtxPushCurrent(context), 0);
  }
  ~Application() {
    abi::Context popped = nullptr;
    assert_int_equal(app::cuCtxPopCurrent(&popped), 0);
    assert_int_equal(app::cuDevicePrimaryCtxRelease(0), 0);
  }
  abi::Stream stream(unsigned flags = abi::stream_non_blocking) {
    abi::Stream made = nullptr;
    assert_int_equal(app::cuStreamCreate(&made, flags), 0);
    return made;
  }
  abi::Context context = nullptr;
};

void end_capture(abi::Stream stream) {
  abi::Graph graph = nullptr;
  assert_int_equal(app::cuStreamEndCapture(stream, &graph), 0);
  assert_int_equal(app::cuGraphDestroy(graph), 0);
}

int capture_of(abi::Stream stream) {
  int status = abi::capture_none;
  assert_int_equal(app::cuStreamIsCapturing(stream, &status), 0);
  return status;
}

void on_another_thread(const std::function<void()> &body) {
  std::thread other(body);
  other.join();
}

void streams_are_wrapped_and_given_back(void **) {
  Cuda cuda("");
  Application application;
  abi::Stream native = application.stream();
  weir_be_stream wrapped = nullptr, made = nullptr;
  must(cuda, t.stream_wrap, 0U, static_cast<void *>(native), &wrapped);
  must(cuda, t.stream_create, 0U, uint64_t{0}, &made);
  void *seen = nullptr;
  must(cuda, t.stream_native, wrapped, &seen);
  assert_ptr_equal(seen, native);
  must(cuda, t.stream_check, wrapped);
  must(cuda, t.stream_synchronize, wrapped);
  must(cuda, t.stream_query, wrapped);
  must(cuda, t.stream_destroy, wrapped);
  must(cuda, t.stream_destroy, made);
  assert_int_equal(app::cuStreamQuery(native), 0);  // still the application's
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "no open stream", t.stream_destroy, wrapped);
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "no open stream", t.stream_query, made);
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "no open stream", t.stream_synchronize,
              weir_be_stream{nullptr});
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "flags 0x2", t.stream_create, 0U, uint64_t{2},
              &made);
  assert_int_equal(app::cuStreamDestroy(native), 0);
}

void streams_of_other_contexts_are_refused(void **) {
  Cuda cuda("devices=2");
  abi::Context own = nullptr;
  assert_int_equal(app::cuCtxCreate(&own, 0U, 0), 0);
  abi::Stream native = nullptr;
  assert_int_equal(app::cuStreamCreate(&native, abi::stream_non_blocking), 0);
  weir_be_stream wrapped = nullptr;
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "another context", t.stream_wrap, 0U,
              static_cast<void *>(native), &wrapped);
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "device 1's primary context", t.stream_wrap, 1U,
              static_cast<void *>(native), &wrapped);
  assert_null(wrapped);
  assert_int_equal(app::cuStreamDestroy(native), 0);
  // The default stream needs no context of the caller's: here one of another kind is current throughout.
  must(cuda, t.stream_wrap, 1U, static_cast<void *>(nullptr), &wrapped);
  weir_be_fence fence = 0;
  must(cuda, t.fence_record, wrapped, &fence);
  must(cuda, t.fence_wait, fence, UINT64_MAX);
  must(cuda, t.fence_destroy, fence);
  must(cuda, t.stream_destroy, wrapped);
  assert_int_equal(app::cuCtxDestroy(own), 0);
}

void default_streams_are_known_by_their_names(void **) {
  Cuda cuda("");
  for (void *native : {static_cast<void *>(nullptr), static_cast<void *>(abi::stream_legacy())}) {
    weir_be_stream legacy = nullptr;
    must(cuda, t.stream_wrap, 0U, native, &legacy);
    void *seen = &cuda;
    must(cuda, t.stream_native, legacy, &seen);
    assert_ptr_equal(seen, native);
    weir_be_fence fence = 0;
    must(cuda, t.fence_record, legacy, &fence);
    must(cuda, t.stream_wait, legacy, fence);
    must(cuda, t.fence_wait, fence, UINT64_MAX);
    must(cuda, t.fence_destroy, fence);
    // The queue is the same on every thread.
    on_another_thread([&] { must(cuda, t.stream_query, legacy); });
    must(cuda, t.stream_destroy, legacy);
  }
}

void the_per_thread_stream_answers_its_thread_only(void **) {
  Cuda cuda("");
  weir_be_stream mine = nullptr;
  must(cuda, t.stream_wrap, 0U, static_cast<void *>(abi::stream_per_thread()), &mine);
  weir_be_fence fence = 0;
  must(cuda, t.fence_record, mine, &fence);
  on_another_thread([&] {
    weir_be_fence none = 0;
    must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "another thread", t.fence_record, mine, &none);
    must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "another thread", t.stream_check, mine);
    must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "another thread", t.stream_synchronize, mine);
    must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "another thread", t.stream_wait, mine, fence);
    must(cuda, t.fence_wait, fence, UINT64_MAX);  // fences are everybody's
  });
  must(cuda, t.stream_check, mine);
  must(cuda, t.fence_destroy, fence);
  on_another_thread([&] { must(cuda, t.stream_destroy, mine); });
}

/// What is called on `stream`, while its native stream records a graph, is refused, and the recording goes on undisturbed.
/// Everything else goes on, on this thread and on others, whatever the mode.
void refuse_while_recording(Cuda &cuda, abi::Stream native, weir_be_stream stream) {
  constexpr uint64_t unit = uint64_t{2} << 20U;
  weir_be_stream own = nullptr;
  uint64_t address = 0;
  void *memory = nullptr;
  must(cuda, t.stream_create, 0U, uint64_t{0}, &own);
  must(cuda, t.plain_allocate, 0U, uint64_t{4096}, uint64_t{256}, &address);
  must(cuda, t.host_allocate, uint64_t{4096}, &memory);
  weir_be_fence before = 0, fence = 0;
  must(cuda, t.fence_record, stream, &before);
  const weir_be_copy copies[2] = {{address, address_of(memory), 64},
                                  {address + 64, address_of(memory) + 64, 64}};
  for (const int mode :
       {abi::capture_mode_global, abi::capture_mode_thread_local, abi::capture_mode_relaxed}) {
    assert_int_equal(app::cuStreamBeginCapture(native, mode), 0);
    const weir_result capturing = WEIR_ERROR_STREAM_CAPTURING;
    must_refuse(cuda, capturing, "recording a graph", t.stream_check, stream);
    must_refuse(cuda, capturing, "recording a graph", t.fence_record, stream, &fence);
    must_refuse(cuda, capturing, "recording a graph", t.stream_wait, stream, before);
    must_refuse(cuda, capturing, "recording a graph", t.stream_query, stream);
    must_refuse(cuda, capturing, "recording a graph", t.stream_synchronize, stream);
    must_refuse(cuda, capturing, "recording a graph", t.copy_async, stream, &copies[0]);
    must_refuse(cuda, capturing, "recording a graph", t.copy_batch_async, stream, &copies[0], 2U);
    must_refuse(cuda, capturing, "recording a graph", t.fill_async, stream, address, uint8_t{1},
                uint64_t{64});
    must_refuse(cuda, capturing, "recording a graph", t.stream_host_call, stream, Gate::hold,
                nullptr);
    const auto work = [&] {
      weir_be_fence beside = 0;
      uint64_t more = 0;
      void *pinned = nullptr;
      weir_be_stream another = nullptr;
      must(cuda, t.copy_async, own, &copies[0]);
      must(cuda, t.fence_record, own, &beside);
      must(cuda, t.fence_wait, beside, UINT64_MAX);
      must(cuda, t.fence_poll, before);
      must(cuda, t.fence_destroy, beside);
      must(cuda, t.plain_allocate, 0U, uint64_t{4096}, uint64_t{256}, &more);
      must(cuda, t.plain_free, 0U, more, uint64_t{4096});
      must(cuda, t.host_allocate, uint64_t{4096}, &pinned);
      must(cuda, t.host_free, pinned, uint64_t{4096});
      must(cuda, t.stream_create, 0U, uint64_t{0}, &another);
      must(cuda, t.stream_synchronize, another);
      must(cuda, t.stream_destroy, another);
      must(cuda, t.stream_query, own);
      weir_be_granule granule = 0;
      uint64_t range = 0;
      must(cuda, t.granule_create, 0U, unit, uint64_t{0}, &granule);
      must(cuda, t.range_reserve, 0U, unit, unit, &range);
      must(cuda, t.map, 0U, range, unit, granule, uint64_t{0}, nullptr, 0U);
      must(cuda, t.unmap, 0U, range, unit);
      must(cuda, t.range_free, 0U, range, unit);
      must(cuda, t.granule_destroy, 0U, granule);
    };
    // Memory is mapped on whichever thread needs it, the one that records too.
    work();
    on_another_thread(work);
    assert_int_equal(capture_of(native), abi::capture_active);
    end_capture(native);
    must(cuda, t.stream_check, stream);
  }
  must(cuda, t.fence_destroy, before);
  must(cuda, t.stream_destroy, own);
  must(cuda, t.plain_free, 0U, address, uint64_t{4096});
  must(cuda, t.host_free, memory, uint64_t{4096});
}

void a_capture_is_refused_and_left_alone(void **) {
  Cuda cuda("memory=64M", "batch_copy=1");
  Application application;
  abi::Stream native = application.stream();
  weir_be_stream wrapped = nullptr;
  must(cuda, t.stream_wrap, 0U, static_cast<void *>(native), &wrapped);
  refuse_while_recording(cuda, native, wrapped);
  must(cuda, t.stream_destroy, wrapped);
  assert_int_equal(app::cuStreamDestroy(native), 0);
}

/// A stream that was made here and whose native stream the application has asked for.
void a_capture_on_a_stream_made_here_is_refused_too(void **) {
  Cuda cuda("memory=64M", "batch_copy=1");
  weir_be_stream made = nullptr;
  void *native = nullptr;
  must(cuda, t.stream_create, 0U, uint64_t{0}, &made);
  must(cuda, t.stream_native, made, &native);
  refuse_while_recording(cuda, static_cast<abi::Stream>(native), made);
  must(cuda, t.stream_destroy, made);
}

void the_legacy_stream_is_refused_while_a_blocking_one_captures(void **) {
  Cuda cuda("");
  Application application;
  abi::Stream native = application.stream(abi::stream_default);
  weir_be_stream legacy = nullptr;
  must(cuda, t.stream_wrap, 0U, static_cast<void *>(nullptr), &legacy);
  must(cuda, t.stream_check, legacy);
  assert_int_equal(app::cuStreamBeginCapture(native, abi::capture_mode_thread_local), 0);
  weir_be_fence fence = 0;
  must_refuse(cuda, WEIR_ERROR_STREAM_CAPTURING, "906", t.stream_check, legacy);
  must_refuse(cuda, WEIR_ERROR_STREAM_CAPTURING, "906", t.fence_record, legacy, &fence);
  assert_int_equal(capture_of(native), abi::capture_active);
  end_capture(native);
  must(cuda, t.stream_check, legacy);
  must(cuda, t.stream_destroy, legacy);
  assert_int_equal(app::cuStreamDestroy(native), 0);
}

void fences_wait_with_a_limit(void **) {
  Cuda cuda("");
  weir_be_stream stream = nullptr;
  weir_be_fence fence = 0;
  Gate gate;
  must(cuda, t.stream_create, 0U, uint64_t{0}, &stream);
  must(cuda, t.stream_host_call, stream, Gate::hold, static_cast<void *>(&gate));
  must(cuda, t.fence_record, stream, &fence);
  assert_int_equal(cuda(t.stream_query, stream), WEIR_NOT_READY);
  assert_int_equal(cuda(t.fence_poll, fence), WEIR_NOT_READY);
  assert_int_equal(cuda(t.fence_wait, fence, uint64_t{0}), WEIR_ERROR_TIMEOUT);
  assert_int_equal(cuda(t.fence_wait, fence, uint64_t{1'000'000}), WEIR_ERROR_TIMEOUT);
  on_another_thread(
      [&] { assert_int_equal(cuda(t.fence_wait, fence, uint64_t{1'000}), WEIR_ERROR_TIMEOUT); });
  gate.open();
  must(cuda, t.fence_wait, fence, UINT64_MAX);
  must(cuda, t.fence_wait, fence, uint64_t{0});
  must(cuda, t.fence_poll, fence);
  must(cuda, t.fence_destroy, fence);
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "is no fence", t.fence_poll, fence);
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "is no fence", t.fence_wait, fence, uint64_t{0});
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "is no fence", t.fence_destroy, fence);
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "is no fence", t.stream_wait, stream, fence);
  must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "0 is no fence", t.fence_poll, weir_be_fence{0});
  must(cuda, t.stream_destroy, stream);
}

void events_serve_one_fence_after_another(void **) {
  Cuda cuda("");
  weir_be_stream stream = nullptr;
  must(cuda, t.stream_create, 0U, uint64_t{0}, &stream);
  weir_be_fence last = 0;
  for (int i = 0; i < 100; ++i) {
    weir_be_fence fence = 0;
    must(cuda, t.fence_record, stream, &fence);
    assert_int_not_equal(fence, 0);
    assert_int_not_equal(fence, last);
    must(cuda, t.fence_destroy, fence);
    last = fence;
  }
  assert_int_equal(sim().calls("cuEventCreate"), 1);
  // One that could not be recorded is none, and its event serves the next.
  sim().fail("cuEventRecord", 1, abi::result::operating_system);
  must_refuse(cuda, WEIR_ERROR_BACKEND, "cuEventRecord", t.fence_record, stream, &last);
  must(cuda, t.fence_record, stream, &last);
  must(cuda, t.fence_destroy, last);
  assert_int_equal(sim().calls("cuEventCreate"), 1);
  must(cuda, t.stream_destroy, stream);
}

/// A wait that was enqueued keeps to what the event stood for then, although the event serves another fence by now.
void a_destroyed_fence_is_still_waited_for(void **) {
  Cuda cuda("");
  weir_be_stream first = nullptr, second = nullptr, third = nullptr;
  must(cuda, t.stream_create, 0U, uint64_t{0}, &first);
  must(cuda, t.stream_create, 0U, uint64_t{0}, &second);
  must(cuda, t.stream_create, 0U, uint64_t{0}, &third);
  Gate gate;
  weir_be_fence fence = 0, again = 0, end = 0;
  must(cuda, t.stream_host_call, first, Gate::hold, static_cast<void *>(&gate));
  must(cuda, t.fence_record, first, &fence);
  must(cuda, t.stream_wait, second, fence);
  must(cuda, t.fence_destroy, fence);
  must(cuda, t.fence_record, third, &again);  // the same event, which has passed at once
  assert_int_equal(sim().calls("cuEventCreate"), 1);
  must(cuda, t.fence_wait, again, UINT64_MAX);
  must(cuda, t.fence_record, second, &end);
  assert_int_equal(cuda(t.fence_poll, end), WEIR_NOT_READY);
  gate.open();
  must(cuda, t.fence_wait, end, UINT64_MAX);
  must(cuda, t.fence_destroy, again);
  must(cuda, t.fence_destroy, end);
  for (weir_be_stream each : {first, second, third}) must(cuda, t.stream_destroy, each);
}

void fences_outlive_their_stream(void **) {
  Cuda cuda("devices=2");
  weir_be_stream here = nullptr, there = nullptr;
  must(cuda, t.stream_create, 0U, uint64_t{0}, &here);
  must(cuda, t.stream_create, 1U, uint64_t{0}, &there);
  Gate gate;
  weir_be_fence fence = 0, end = 0;
  must(cuda, t.stream_host_call, here, Gate::hold, static_cast<void *>(&gate));
  must(cuda, t.fence_record, here, &fence);
  must(cuda, t.stream_destroy, here);
  must(cuda, t.stream_wait, there, fence);  // across devices
  must(cuda, t.fence_record, there, &end);
  assert_int_equal(cuda(t.fence_poll, end), WEIR_NOT_READY);
  assert_int_equal(cuda(t.fence_poll, fence), WEIR_NOT_READY);
  gate.open();
  must(cuda, t.fence_wait, end, UINT64_MAX);
  must(cuda, t.fence_poll, fence);
  must(cuda, t.fence_destroy, fence);
  must(cuda, t.fence_destroy, end);
  must(cuda, t.stream_destroy, there);
}

void many_threads_share_the_fences(void **) {
  Cuda cuda("devices=2");
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      weir_be_stream stream = nullptr;
      must(cuda, t.stream_create, i % 2, uint64_t{0}, &stream);
      std::vector<weir_be_fence> held;
      for (int round = 0; round < 500; ++round) {
        weir_be_fence fence = 0;
        must(cuda, t.fence_record, stream, &fence);
        held.push_back(fence);
        if (held.size() < 7) continue;
        for (const weir_be_fence each : held) {
          must(cuda, t.fence_wait, each, UINT64_MAX);
          must(cuda, t.fence_destroy, each);
        }
        held.clear();
      }
      must(cuda, t.stream_destroy, stream);
      // What is held still ends with the backend.
    });
  }
  for (std::thread &each : threads) each.join();
}

void the_callers_context_stays(void **) {
  Cuda cuda("devices=2;memory=64M");
  // Of another device, of a context of its own, and none at all (what the other tests have).
  for (const int device : {1, 0}) {
    abi::Context own = nullptr;
    assert_int_equal(app::cuCtxCreate(&own, 0U, device), 0);
    weir_be_stream stream = nullptr;
    weir_be_fence fence = 0;
    uint64_t address = 0, free_bytes = 0, total = 0;
    void *memory = nullptr;
    must(cuda, t.stream_create, 0U, uint64_t{0}, &stream);
    must(cuda, t.plain_allocate, 0U, uint64_t{4096}, uint64_t{256}, &address);
    must(cuda, t.host_allocate, uint64_t{4096}, &memory);
    must(cuda, t.device_memory, 0U, &free_bytes, &total);
    const weir_be_copy copy{address, address_of(memory), 4096};
    must(cuda, t.copy_async, stream, &copy);
    must(cuda, t.fill_async, stream, address, uint8_t{3}, uint64_t{16});
    must(cuda, t.fence_record, stream, &fence);
    must(cuda, t.stream_wait, stream, fence);
    must(cuda, t.fence_wait, fence, UINT64_MAX);
    must(cuda, t.stream_synchronize, stream);
    must(cuda, t.stream_query, stream);
    must(cuda, t.fence_destroy, fence);
    must(cuda, t.plain_free, 0U, address, uint64_t{4096});
    must(cuda, t.host_free, memory, uint64_t{4096});
    must(cuda, t.stream_destroy, stream);
    assert_int_equal(app::cuCtxDestroy(own), 0);
  }
}

/// Pinned memory and a device's, in pieces for batches.
struct Pieces {
  static constexpr uint32_t count = 300;
  static constexpr uint64_t bytes = 512;
  explicit Pieces(Cuda &c) : cuda(c), copies(count), reads(count) {
    must(cuda, t.plain_allocate, 0U, count * bytes, uint64_t{256}, &address);
    must(cuda, t.host_allocate, count * bytes, &out);
    must(cuda, t.host_allocate, count * bytes, &back);
    for (uint32_t i = 0; i < count; ++i) {
      std::memset(static_cast<char *>(out) + i * bytes, static_cast<int>(i % 251), bytes);
      copies[i] = {address + i * bytes, address_of(out) + i * bytes, bytes};
      reads[i] = {address_of(back) + i * bytes, address + i * bytes, bytes};
    }
  }
  void round_trip(weir_be_stream stream) {
    std::memset(back, 255, count * bytes);
    must(cuda, t.copy_batch_async, stream, copies.data(), count);
    must(cuda, t.copy_batch_async, stream, reads.data(), count);
    must(cuda, t.stream_synchronize, stream);
    assert_memory_equal(back, out, count * bytes);
  }
  Cuda &cuda;
  uint64_t address = 0;
  void *out = nullptr, *back = nullptr;
  std::vector<weir_be_copy> copies, reads;
};

void batches_go_in_one_call_where_the_driver_has_it(void **) {
  for (const char *machine : {"memory=64M;version=12080", "memory=64M;version=13000"}) {
    Cuda cuda(machine, "batch_copy=1");
    Pieces pieces(cuda);
    weir_be_stream stream = nullptr;
    must(cuda, t.stream_create, 0U, uint64_t{0}, &stream);
    pieces.round_trip(stream);
    assert_int_equal(sim().calls("cuMemcpyBatchAsync"), 6);  // 128 at a time
    assert_int_equal(sim().calls("cuMemcpyBatchAsync, overlapping"), 6);
    assert_int_equal(sim().calls("cuMemcpyAsync"), 0);
    must(cuda, t.copy_batch_async, stream, pieces.copies.data(), 0U);
    must(cuda, t.copy_batch_async, stream, pieces.copies.data(), 1U);
    must_refuse(cuda, WEIR_ERROR_INVALID_ARGUMENT, "copies is NULL", t.copy_batch_async, stream,
                static_cast<const weir_be_copy *>(nullptr), 2U);
    must(cuda, t.stream_destroy, stream);
  }
}

void the_legacy_stream_gets_copy_by_copy(void **) {
  Cuda cuda("memory=64M", "batch_copy=1");
  Pieces pieces(cuda);
  weir_be_stream legacy = nullptr;
  must(cuda, t.stream_wrap, 0U, static_cast<void *>(nullptr), &legacy);
  pieces.round_trip(legacy);
  assert_int_equal(sim().calls("cuMemcpyBatchAsync"), 0);
  must(cuda, t.stream_destroy, legacy);
}

void a_batch_that_fails_is_done_again_or_not_at_all(void **) {
  Cuda cuda("memory=64M", "batch_copy=1");
  Pieces pieces(cuda);
  weir_be_stream stream = nullptr;
  must(cuda, t.stream_create, 0U, uint64_t{0}, &stream);
  sim().fail("cuMemcpyBatchAsync", 2, abi::result::not_supported);
  pieces.round_trip(stream);
  assert_int_equal(sim().calls("cuMemcpyAsync"), Pieces::count);
  // Both ways fail: nothing is under way any more when it is told.
  sim().fail("cuMemcpyBatchAsync", 3, abi::result::invalid_value);
  sim().fail("cuMemcpyAsync", 200, abi::result::unknown);
  must_refuse(cuda, WEIR_ERROR_BACKEND, "999", t.copy_batch_async, stream, pieces.copies.data(),
              Pieces::count);
  must(cuda, t.stream_query, stream);
  pieces.round_trip(stream);
  must(cuda, t.stream_destroy, stream);
}

void a_lost_device_says_so(void **) {
  Cuda cuda("memory=64M");
  cuda.lost = true;
  weir_be_stream stream = nullptr;
  weir_be_fence fence = 0, more = 0;
  uint64_t address = 0;
  must(cuda, t.stream_create, 0U, uint64_t{0}, &stream);
  must(cuda, t.plain_allocate, 0U, uint64_t{4096}, uint64_t{256}, &address);
  must(cuda, t.fence_record, stream, &fence);
  sim().lose_device(0);
  const weir_result lost = WEIR_ERROR_DEVICE_LOST;
  assert_int_equal(cuda(t.fence_record, stream, &more), lost);
  assert_int_equal(cuda(t.fence_poll, fence), lost);
  assert_int_equal(cuda(t.fence_wait, fence, UINT64_MAX), lost);
  assert_int_equal(cuda(t.stream_synchronize, stream), lost);
  assert_int_equal(cuda(t.fill_async, stream, address, uint8_t{0}, uint64_t{64}), lost);
  assert_int_equal(cuda(t.plain_allocate, 0U, uint64_t{4096}, uint64_t{256}, &address), lost);
  assert_int_not_equal(cuda.text()[0], '\0');
  // The end of it neither hangs nor faults.
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(streams_are_wrapped_and_given_back),
      cmocka_unit_test(streams_of_other_contexts_are_refused),
      cmocka_unit_test(default_streams_are_known_by_their_names),
      cmocka_unit_test(the_per_thread_stream_answers_its_thread_only),
      cmocka_unit_test(a_capture_is_refused_and_left_alone),
      cmocka_unit_test(a_capture_on_a_stream_made_here_is_refused_too),
      cmocka_unit_test(the_legacy_stream_is_refused_while_a_blocking_one_captures),
      cmocka_unit_test(fences_wait_with_a_limit),
      cmocka_unit_test(events_serve_one_fence_after_another),
      cmocka_unit_test(a_destroyed_fence_is_still_waited_for),
      cmocka_unit_test(fences_outlive_their_stream),
      cmocka_unit_test(many_threads_share_the_fences),
      cmocka_unit_test(the_callers_context_stays),
      cmocka_unit_test(batches_go_in_one_call_where_the_driver_has_it),
      cmocka_unit_test(the_legacy_stream_gets_copy_by_copy),
      cmocka_unit_test(a_batch_that_fails_is_done_again_or_not_at_all),
      cmocka_unit_test(a_lost_device_says_so),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
