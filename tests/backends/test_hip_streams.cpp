// SPDX-License-Identifier: Apache-2.0
//
// Streams, fences and copies of the HIP backend: order, ends with work left, default streams, captures, batches. Threads
// meet at gates, never by time.

#include "tests/backends/hip_fixture.hpp"

#include "backends/cuda/abi.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace {

using namespace weir::test;

/// A host function that keeps its stream until it is opened.
class Gate {
 public:
  static void stop_at(void *gate) {
    auto *self = static_cast<Gate *>(gate);
    std::unique_lock hold(self->mutex_);
    self->changed_.wait(hold, [&] { return self->open_; });
  }
  void open() {
    const std::lock_guard hold(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

void test_fences(void **) {
  const Machine machine;
  {
    const Backend backend;
    const weir_backend_table &t = *backend.t;
    weir_be_state *const s = backend.state;
    weir_be_stream held = nullptr, follower = nullptr;
    ASSERT_OK(t.stream_create(s, 0, 0, &held));
    ASSERT_OK(t.stream_create(s, 0, 0, &follower));
    Gate gate;
    weir_be_fence before = 0, after = 0, followed = 0;
    ASSERT_OK(t.fence_record(s, held, &before));
    ASSERT_OK(t.fence_wait(s, before, UINT64_MAX));
    ASSERT_OK(t.stream_host_call(s, held, &Gate::stop_at, &gate));
    ASSERT_OK(t.fence_record(s, held, &after));
    ASSERT_OK(t.stream_wait(s, follower, after));
    ASSERT_OK(t.fence_record(s, follower, &followed));
    assert_int_equal(t.fence_poll(s, after), WEIR_NOT_READY);
    assert_int_equal(t.fence_wait(s, after, 0), WEIR_ERROR_TIMEOUT);
    assert_int_equal(t.fence_wait(s, followed, 1000), WEIR_ERROR_TIMEOUT);
    assert_int_equal(t.stream_query(s, held), WEIR_NOT_READY);
    ASSERT_OK(t.fence_poll(s, before));
    gate.open();
    ASSERT_OK(t.fence_wait(s, followed, UINT64_MAX));
    ASSERT_OK(t.fence_poll(s, after));
    ASSERT_OK(t.stream_query(s, held));
    // A fence outlives its stream, is destroyed once, and is then none, although its event serves another.
    ASSERT_OK(t.stream_destroy(s, held));
    ASSERT_OK(t.fence_poll(s, after));
    ASSERT_OK(t.fence_destroy(s, after));
    weir_be_fence next = 0;
    ASSERT_OK(t.fence_record(s, follower, &next));
    assert_true(next != after && next != 0);
    assert_int_equal(t.fence_poll(s, after), WEIR_ERROR_INVALID_ARGUMENT);
    assert_contains(backend.sentence(), "is no fence");
    assert_int_equal(t.fence_destroy(s, after), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.stream_wait(s, follower, 0), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.fence_record(s, nullptr, &next), WEIR_ERROR_INVALID_ARGUMENT);
  }
  machine.census();
}

/// Ending a stream with work left does not wait, and the work is done.
void test_end_with_work(void **) {
  const Machine machine;
  {
    const Backend backend;
    const weir_backend_table &t = *backend.t;
    weir_be_state *const s = backend.state;
    weir_be_stream stream = nullptr, other = nullptr;
    uint64_t plain = 0;
    void *memory = nullptr;
    ASSERT_OK(t.plain_allocate(s, 0, mib, 256, &plain));
    ASSERT_OK(t.host_allocate(s, mib, &memory));
    std::memset(memory, 0, mib);
    ASSERT_OK(t.stream_create(s, 0, 0, &stream));
    Gate gate;
    weir_be_fence done = 0;
    ASSERT_OK(t.stream_host_call(s, stream, &Gate::stop_at, &gate));
    ASSERT_OK(t.fill_async(s, stream, plain, 0x21, mib));
    const weir_be_copy copy{reinterpret_cast<uintptr_t>(memory), plain, mib};
    ASSERT_OK(t.copy_async(s, stream, &copy));
    ASSERT_OK(t.fence_record(s, stream, &done));
    const uint64_t ended = libraries().calls("cuStreamDestroy");
    ASSERT_OK(t.stream_destroy(s, stream));
    assert_int_equal(t.stream_destroy(s, stream), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.fence_poll(s, done), WEIR_NOT_READY);
    assert_int_equal(libraries().calls("cuStreamDestroy"), ended);
    gate.open();
    ASSERT_OK(t.fence_wait(s, done, UINT64_MAX));
    assert_int_equal(static_cast<unsigned char *>(memory)[mib - 1], 0x21);
    // The next stream's end or beginning ends the one that was left.
    ASSERT_OK(t.stream_create(s, 0, 0, &other));
    assert_int_equal(libraries().calls("cuStreamDestroy"), ended + 1);
  }
  machine.census();
}

void test_wrap(void **) {
  const Machine machine(2);
  auto *create = function_of<hip_abi::fn::hipStreamCreateWithFlags>(libraries().hip,
                                                                    "hipStreamCreateWithFlags");
  auto *destroy = function_of<hip_abi::fn::hipStreamDestroy>(libraries().hip, "hipStreamDestroy");
  ASSERT_OK(libraries().set_device(1));
  hip_abi::Stream native = nullptr;
  ASSERT_OK(create(&native, 0));
  {
    const Backend backend;
    const weir_backend_table &t = *backend.t;
    weir_be_state *const s = backend.state;
    weir_be_stream stream = nullptr;
    assert_int_equal(t.stream_wrap(s, 0, native, &stream), WEIR_ERROR_INVALID_ARGUMENT);
    assert_contains(backend.sentence(), "is of device 1, not 0");
    int nonsense = 0;
    assert_int_equal(t.stream_wrap(s, 0, &nonsense, &stream), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.stream_wrap(s, 2, native, &stream), WEIR_ERROR_INVALID_ARGUMENT);
    assert_null(stream);
    ASSERT_OK(t.stream_wrap(s, 1, native, &stream));
    void *told = nullptr;
    ASSERT_OK(t.stream_native(s, stream, &told));
    assert_ptr_equal(told, native);
    weir_be_fence fence = 0;
    ASSERT_OK(t.fence_record(s, stream, &fence));
    ASSERT_OK(t.fence_wait(s, fence, UINT64_MAX));
    ASSERT_OK(t.stream_destroy(s, stream));
    // hipStreamLegacy is a stream since ROCm 7.
    void *legacy = reinterpret_cast<void *>(hip_abi::stream_legacy);
    assert_int_equal(t.stream_wrap(s, 0, legacy, &stream), WEIR_ERROR_INVALID_ARGUMENT);
    assert_contains(backend.sentence(), "HIP runtime 6.3.0");
  }
  {
    const Setting version("WEIR_HIP_LOOKALIKE_VERSION", "70125424");
    const Backend backend;
    weir_be_stream stream = nullptr;
    void *legacy = reinterpret_cast<void *>(hip_abi::stream_legacy);
    ASSERT_OK(backend.t->stream_wrap(backend.state, 0, legacy, &stream));
    ASSERT_OK(backend.t->stream_synchronize(backend.state, stream));
  }
  ASSERT_OK(destroy(native));
  machine.census();
}

/// The per-thread default stream answers where it was wrapped and nowhere else.
void test_per_thread_stream(void **) {
  const Machine machine;
  {
    const Backend backend("batch_copy=1");
    const weir_backend_table &t = *backend.t;
    weir_be_state *const s = backend.state;
    weir_be_stream stream = nullptr;
    ASSERT_OK(t.stream_wrap(s, 0, reinterpret_cast<void *>(hip_abi::stream_per_thread), &stream));
    weir_be_fence fence = 0;
    ASSERT_OK(t.fence_record(s, stream, &fence));
    ASSERT_OK(t.stream_check(s, stream));
    weir_result elsewhere[4] = {};
    weir_be_fence none = 0;
    std::thread other([&] {
      elsewhere[0] = t.fence_record(s, stream, &none);
      elsewhere[1] = t.stream_check(s, stream);
      elsewhere[2] = t.stream_synchronize(s, stream);
      elsewhere[3] = t.stream_wait(s, stream, fence);
    });
    other.join();
    for (const weir_result each : elsewhere) assert_int_equal(each, WEIR_ERROR_INVALID_ARGUMENT);
    ASSERT_OK(t.stream_synchronize(s, stream));
    ASSERT_OK(t.fence_wait(s, fence, UINT64_MAX));
    ASSERT_OK(t.stream_destroy(s, stream));
  }
  machine.census();
}

/// Nothing becomes a part of the program's graph, nor is the capture spoiled by a question.
void refuse_while_recording(const Backend &backend, weir_be_stream stream) {
  const weir_backend_table &t = *backend.t;
  weir_be_state *const s = backend.state;
  constexpr weir_result recording = WEIR_ERROR_STREAM_CAPTURING;
  uint64_t plain = 0;
  weir_be_fence fence = 0, passed = 0;
  weir_be_stream other = nullptr;
  ASSERT_OK(t.plain_allocate(s, 0, 2 * mib, 256, &plain));
  ASSERT_OK(t.stream_create(s, 0, 0, &other));
  ASSERT_OK(t.fence_record(s, other, &passed));
  const weir_be_copy copies[] = {{plain, plain + mib, mib / 2},
                                 {plain + mib / 2, plain + mib + mib / 2, mib / 2}};
  assert_int_equal(t.fence_record(s, stream, &fence), recording);
  assert_int_equal(fence, 0);
  assert_int_equal(t.stream_wait(s, stream, passed), recording);
  assert_int_equal(t.stream_query(s, stream), recording);
  assert_int_equal(t.stream_synchronize(s, stream), recording);
  assert_int_equal(t.copy_async(s, stream, copies), recording);
  assert_int_equal(t.fill_async(s, stream, plain, 1, mib), recording);
  assert_int_equal(t.stream_host_call(
                       s, stream, [](void *) {}, nullptr),
                   recording);
  if (backend.can(WEIR_CAP_BATCH_COPY)) {
    assert_int_equal(t.copy_batch_async(s, stream, copies, 2), recording);
  }
  ASSERT_OK(t.fence_destroy(s, passed));
  ASSERT_OK(t.stream_destroy(s, other));
  ASSERT_OK(t.plain_free(s, 0, plain, 2 * mib));
}

/// A capturing stream is told; and a capture in the global mode on another thread is neither met nor spoiled.
void test_capture(void **) {
  using namespace weir::cuda::abi;
  const Machine machine;
  const Setting version("WEIR_HIP_LOOKALIKE_VERSION", "70100000");  // with batches
  {
    const Backend backend;
    const weir_backend_table &t = *backend.t;
    weir_be_state *const s = backend.state;
    auto *begin = function_of<fn::cuStreamBeginCapture>(libraries().sim, "cuStreamBeginCapture_v2");
    auto *end = function_of<fn::cuStreamEndCapture>(libraries().sim, "cuStreamEndCapture");
    auto *drop = function_of<fn::cuGraphDestroy>(libraries().sim, "cuGraphDestroy");
    weir_be_stream captured = nullptr, free_stream = nullptr;
    void *native = nullptr;
    ASSERT_OK(t.stream_create(s, 0, 0, &captured));
    ASSERT_OK(t.stream_create(s, 0, 0, &free_stream));
    ASSERT_OK(t.stream_native(s, captured, &native));
    assert_int_equal(begin(static_cast<Stream>(native), capture_mode_global), result::success);
    assert_int_equal(t.stream_check(s, captured), WEIR_ERROR_STREAM_CAPTURING);
    ASSERT_OK(t.stream_check(s, free_stream));
    refuse_while_recording(backend, captured);
    alignas(4096) static char page[4096];
    std::vector<weir_result> results;
    std::thread other([&] {
      uint64_t plain = 0;
      void *memory = nullptr;
      weir_be_fence fence = 0;
      weir_be_stream made = nullptr;
      results = {t.plain_allocate(s, 0, mib, 256, &plain),
                 t.host_allocate(s, mib, &memory),
                 t.fill_async(s, free_stream, plain, 1, mib),
                 t.fence_record(s, free_stream, &fence),
                 t.fence_wait(s, fence, UINT64_MAX),
                 t.fence_poll(s, fence),
                 t.stream_query(s, free_stream),
                 t.stream_synchronize(s, free_stream),
                 t.stream_create(s, 0, 0, &made),
                 t.stream_destroy(s, made),
                 t.plain_free(s, 0, plain, mib),
                 t.host_free(s, memory, mib),
                 t.host_register(s, page, sizeof page),
                 t.host_unregister(s, page, sizeof page),
                 t.fence_destroy(s, fence)};
    });
    other.join();
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i] != WEIR_SUCCESS) fail_msg("call %zu beside a capture: %d", i, results[i]);
    }
    Graph graph = nullptr;
    assert_int_equal(end(static_cast<Stream>(native), &graph), result::success);
    assert_non_null(graph);
    assert_int_equal(drop(graph), result::success);
    ASSERT_OK(t.stream_check(s, captured));
  }
  machine.census();
}

void test_copies(void **) {
  const Machine machine;
  const Setting version("WEIR_HIP_LOOKALIKE_VERSION", "70125424");
  {
    const Backend backend("batch_copy=1");
    const weir_backend_table &t = *backend.t;
    weir_be_state *const s = backend.state;
    weir_be_stream stream = nullptr;
    uint64_t plain = 0;
    void *memory = nullptr;
    ASSERT_OK(t.stream_create(s, 0, 0, &stream));
    ASSERT_OK(t.plain_allocate(s, 0, mib, 256, &plain));
    ASSERT_OK(t.host_allocate(s, mib, &memory));
    auto *bytes = static_cast<unsigned char *>(memory);
    for (uint64_t i = 0; i < mib; ++i) bytes[i] = static_cast<unsigned char>(i / 4096);
    const uint64_t host = reinterpret_cast<uintptr_t>(memory);
    const weir_be_copy up[] = {{plain, host, 4096},
                               {plain + 8192, host + 8192, 100},
                               {plain + 8, host, 0},
                               {plain + 65536, host + 65536, 8192}};
    ASSERT_OK(t.copy_batch_async(s, stream, up, 4));
    ASSERT_OK(t.copy_batch_async(s, stream, nullptr, 0));
    ASSERT_OK(t.stream_synchronize(s, stream));
    std::memset(memory, 0xff, mib);
    const weir_be_copy down{host, plain, mib};
    ASSERT_OK(t.copy_async(s, stream, &down));
    ASSERT_OK(t.stream_synchronize(s, stream));
    assert_int_equal(bytes[4095], 0);
    assert_int_equal(bytes[8192 + 99], 2);
    assert_int_equal(bytes[65536 + 8191], 17);
    // One that the runtime fails half way is done again, or told with nothing of it under way.
    std::memset(memory, 0xff, mib);
    const weir_be_copy back[] = {{host, plain, 4096}, {host + 65536, plain + 65536, 8192}};
    libraries().fail_call("cuMemcpyAsync", 2, 1);
    ASSERT_OK(t.copy_batch_async(s, stream, back, 2));
    ASSERT_OK(t.stream_synchronize(s, stream));
    assert_int_equal(bytes[4095], 0);
    assert_int_equal(bytes[65536 + 8191], 17);
    uint64_t range = 0;
    ASSERT_OK(t.range_reserve(s, 0, unit, unit, &range));
    const weir_be_copy from_nothing[] = {back[0], {host + 65536, range, 8192}};
    const uint64_t waits = libraries().calls("cuStreamSynchronize");
    assert_int_equal(t.copy_batch_async(s, stream, from_nothing, 2), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(libraries().calls("cuStreamSynchronize"), waits + 1);
    ASSERT_OK(t.range_free(s, 0, range, unit));
    // A batch with a bad element does nothing.
    const weir_be_copy bad[] = {{host, plain + 65536, 4096}, {host + 8192, 0, 4096}};
    assert_int_equal(t.copy_batch_async(s, stream, bad, 2), WEIR_ERROR_INVALID_ARGUMENT);
    assert_contains(backend.sentence(), "a copy's source is NULL");
    ASSERT_OK(t.stream_synchronize(s, stream));
    assert_int_equal(bytes[0], 0);
    const weir_be_copy overlapping{plain + 100, plain, 200};
    assert_int_equal(t.copy_async(s, stream, &overlapping), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.copy_batch_async(s, stream, &overlapping, 1), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.copy_batch_async(s, stream, nullptr, 2), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.copy_async(s, stream, nullptr), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.stream_host_call(s, stream, nullptr, nullptr), WEIR_ERROR_INVALID_ARGUMENT);
    assert_int_equal(t.stream_create(s, 0, 2, &stream), WEIR_ERROR_INVALID_ARGUMENT);
  }
  {
    const Backend backend("batch_copy=0;host_call=0");
    weir_be_stream stream = nullptr;
    ASSERT_OK(backend.t->stream_create(backend.state, 0, 0, &stream));
    assert_int_equal(backend.t->copy_batch_async(backend.state, stream, nullptr, 0),
                     WEIR_ERROR_NOT_SUPPORTED);
    assert_int_equal(backend.t->stream_host_call(
                         backend.state, stream, [](void *) {}, nullptr),
                     WEIR_ERROR_NOT_SUPPORTED);
  }
  machine.census();
}

/// What a passed fence covers is there, however many threads record at once, and events are used again.
void test_many_fences(void **) {
  const Machine machine;
  {
    const Backend backend;
    const weir_backend_table &t = *backend.t;
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        weir_be_stream stream = nullptr;
        if (t.stream_create(backend.state, 0, 0, &stream) != WEIR_SUCCESS) ++wrong;
        for (int round = 0; round < 200; ++round) {
          weir_be_fence fence = 0;
          if (t.fence_record(backend.state, stream, &fence) != WEIR_SUCCESS) ++wrong;
          if (t.fence_wait(backend.state, fence, UINT64_MAX) != WEIR_SUCCESS) ++wrong;
          if (t.fence_destroy(backend.state, fence) != WEIR_SUCCESS) ++wrong;
        }
        if (t.stream_destroy(backend.state, stream) != WEIR_SUCCESS) ++wrong;
      });
    }
    for (std::thread &each : threads) each.join();
    assert_int_equal(wrong.load(), 0);
    assert_true(libraries().calls("cuEventCreate") <= 8);
  }
  machine.census();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(test_fences),      cmocka_unit_test(test_end_with_work),
      cmocka_unit_test(test_wrap),        cmocka_unit_test(test_per_thread_stream),
      cmocka_unit_test(test_capture),     cmocka_unit_test(test_copies),
      cmocka_unit_test(test_many_fences),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
