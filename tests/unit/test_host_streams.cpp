// SPDX-License-Identifier: Apache-2.0
//
// The host backend's streams and fences through the backend table: order, what a fence promises, fences that
// outlive their stream, and threads that record, poll and wait at the same time.
#include <atomic>
#include <thread>

#include "tests/unit/host_streams.hpp"

namespace {

using namespace weir::test;

void a_stream_runs_in_order(void **) {
  HostBackend backend;
  const weir_be_stream stream = backend.stream();
  Record record;
  std::vector<Record::Mark> marks;
  std::vector<int> expected;
  for (int i = 0; i < 500; ++i) {
    marks.push_back({&record, i});
    expected.push_back(i);
  }
  for (auto &mark : marks) {
    backend.check(backend->stream_host_call(backend.state(), stream, Record::note, &mark));
  }
  backend.check(backend->stream_synchronize(backend.state(), stream));
  assert_true(record.values() == expected);
}

void a_fence_tells_before_from_after(void **) {
  HostBackend backend;
  Gate gate;
  const weir_be_stream stream = backend.stream();
  const weir_be_fence before = backend.record(stream);
  gate.hold(backend, stream);
  const weir_be_fence after = backend.record(stream);
  assert_int_equal(backend->fence_poll(backend.state(), before), WEIR_SUCCESS);
  assert_int_equal(backend->fence_poll(backend.state(), after), WEIR_NOT_READY);
  assert_int_equal(backend->stream_query(backend.state(), stream), WEIR_NOT_READY);
  assert_int_equal(backend->fence_wait(backend.state(), after, 0), WEIR_ERROR_TIMEOUT);
  assert_int_equal(backend->fence_wait(backend.state(), after, 2'000'000), WEIR_ERROR_TIMEOUT);
  gate.open();
  backend.check(backend->fence_wait(backend.state(), after, UINT64_MAX));
  backend.check(backend->fence_poll(backend.state(), after));
  backend.check(backend->stream_query(backend.state(), stream));
  backend.check(backend->fence_destroy(backend.state(), after));
}

void a_stream_waits_for_another(void **) {
  HostBackend backend("devices=2");
  Gate gate;
  Record record;
  const weir_be_stream first = backend.stream(0), second = backend.stream(1);
  Record::Mark one{&record, 1}, two{&record, 2};
  gate.hold(backend, first);
  backend.check(backend->stream_host_call(backend.state(), first, Record::note, &one));
  const weir_be_fence fence = backend.record(first);
  backend.check(backend->stream_wait(backend.state(), second, fence));
  backend.check(backend->stream_host_call(backend.state(), second, Record::note, &two));
  const weir_be_fence last = backend.record(second);
  // The second stream is idle but for the wait; it has every chance to run ahead here.
  assert_int_equal(backend->fence_wait(backend.state(), last, 3'000'000), WEIR_ERROR_TIMEOUT);
  assert_true(record.values().empty());
  gate.open();
  backend.check(backend->fence_wait(backend.state(), last, UINT64_MAX));
  assert_true(record.values() == (std::vector<int>{1, 2}));
}

void waits_that_change_nothing_enqueue_nothing(void **) {
  HostBackend backend;
  Gate gate;
  const weir_be_stream stream = backend.stream(), other = backend.stream();
  const weir_be_fence passed = backend.record(other);
  gate.hold(backend, stream);
  const weir_be_fence pending = backend.record(stream);
  backend.check(backend->stream_wait(backend.state(), stream, pending));
  backend.check(backend->stream_wait(backend.state(), stream, passed));
  assert_int_equal(backend.record(stream), pending);
  gate.open();
}

void a_fence_outlives_its_stream_and_its_slot(void **) {
  HostBackend backend;
  Gate gate, later;
  weir_be_stream stream = backend.stream();
  gate.hold(backend, stream);
  const weir_be_fence fence = backend.record(stream);
  // Destroying does not wait for the work, which holds the gate.
  backend.check(backend->stream_destroy(backend.state(), stream));
  assert_int_equal(backend->fence_poll(backend.state(), fence), WEIR_NOT_READY);
  gate.open();
  backend.check(backend->fence_wait(backend.state(), fence, UINT64_MAX));
  // New streams until one gets the old one's place; its fences are others than the old one's.
  weir_be_stream reused = nullptr;
  for (int i = 0; i < 200 && reused != stream; ++i) {
    if (reused != nullptr) backend.check(backend->stream_destroy(backend.state(), reused));
    reused = backend.stream();
  }
  assert_ptr_equal(reused, stream);
  later.hold(backend, reused);
  const weir_be_fence fresh = backend.record(reused);
  assert_true(fresh != fence);
  backend.check(backend->fence_poll(backend.state(), fence));
  assert_int_equal(backend->fence_poll(backend.state(), fresh), WEIR_NOT_READY);
  later.open();
  backend.check(backend->fence_wait(backend.state(), fresh, UINT64_MAX));
}

void stop_finishes_what_is_queued(void **) {
  Record record;
  std::vector<Record::Mark> marks(50, Record::Mark{&record, 3});
  HostBackend backend;
  const weir_be_stream kept = backend.stream(), destroyed = backend.stream();
  for (size_t i = 0; i < marks.size(); ++i) {
    backend.check(backend->stream_host_call(backend.state(), i % 2 == 0 ? kept : destroyed,
                                            Record::note, &marks[i]));
  }
  backend.check(backend->stream_wait(backend.state(), kept, backend.record(destroyed)));
  backend.check(backend->stream_destroy(backend.state(), destroyed));
  backend.stop();
  assert_int_equal(record.values().size(), marks.size());
}

void a_chain_through_many_streams(void **) {
  HostBackend backend;
  constexpr int count = 48;
  Record record;
  std::vector<Record::Mark> marks;
  std::vector<int> expected;
  for (int i = 0; i < count; ++i) {
    marks.push_back({&record, i});
    expected.push_back(i);
  }
  Gate gate;
  std::vector<weir_be_stream> streams;
  for (int i = 0; i < count; ++i) streams.push_back(backend.stream());
  gate.hold(backend, streams[0]);
  weir_be_fence fence = backend.record(streams[0]);
  for (int i = 0; i < count; ++i) {
    const weir_be_stream stream = streams[static_cast<size_t>(i)];
    backend.check(backend->stream_wait(backend.state(), stream, fence));
    backend.check(backend->stream_host_call(backend.state(), stream, Record::note,
                                            &marks[static_cast<size_t>(i)]));
    fence = backend.record(stream);
  }
  gate.open();
  backend.check(backend->fence_wait(backend.state(), fence, UINT64_MAX));
  assert_true(record.values() == expected);
}

void wrapping_leaves_the_stream_alone(void **) {
  HostBackend backend("devices=2");
  const weir_be_stream stream = backend.stream(1);
  void *native = nullptr;
  backend.check(backend->stream_native(backend.state(), stream, &native));
  weir_be_stream wrapper = nullptr;
  assert_int_equal(backend->stream_wrap(backend.state(), 0, native, &wrapper),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(backend->stream_wrap(backend.state(), 1, &backend, &wrapper),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(backend->stream_wrap(backend.state(), 1, nullptr, &wrapper),
                   WEIR_ERROR_INVALID_ARGUMENT);
  backend.check(backend->stream_wrap(backend.state(), 1, native, &wrapper));
  Gate gate;
  gate.hold(backend, wrapper);
  assert_int_equal(backend.record(stream), backend.record(wrapper));
  assert_null(backend->stream_check);  // its streams record no graphs
  void *again = nullptr;
  backend.check(backend->stream_native(backend.state(), wrapper, &again));
  assert_ptr_equal(again, native);
  backend.check(backend->stream_destroy(backend.state(), wrapper));
  gate.open();
  Record record;
  Record::Mark mark{&record, 5};
  backend.check(backend->stream_host_call(backend.state(), stream, Record::note, &mark));
  backend.check(backend->stream_synchronize(backend.state(), stream));
  assert_true(record.values() == (std::vector<int>{5}));
  backend.check(backend->stream_destroy(backend.state(), stream));
  assert_int_equal(backend->stream_destroy(backend.state(), stream), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(backend->stream_wrap(backend.state(), 1, native, &wrapper),
                   WEIR_ERROR_INVALID_ARGUMENT);
}

void bad_arguments_are_refused(void **) {
  HostBackend backend;
  const weir_be_stream stream = backend.stream();
  weir_be_stream other = nullptr;
  assert_int_equal(backend->stream_create(backend.state(), 1, 0, &other),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(backend->stream_create(backend.state(), 0, 4, &other),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_null(other);
  assert_int_equal(backend->fence_poll(backend.state(), 0), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(backend->fence_poll(backend.state(), UINT64_MAX), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(backend->fence_wait(backend.state(), 0, 5), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(backend->stream_wait(backend.state(), stream, 0), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(backend->stream_host_call(backend.state(), stream, nullptr, nullptr),
                   WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(backend->stream_host_call(backend.state(), nullptr, Record::note, nullptr),
                   WEIR_ERROR_INVALID_ARGUMENT);
}

void add_one(void *user) {
  static_cast<std::atomic<uint64_t> *>(user)->fetch_add(1, std::memory_order_relaxed);
}

void threads_record_poll_and_wait(void **) {
  HostBackend backend;
  const std::vector<weir_be_stream> streams{backend.stream(), backend.stream()};
  constexpr int rounds = 300;
  std::atomic<int> wrong{0};
  const auto enqueue = [&](size_t index) {
    const weir_be_stream own = streams[index % 2], other = streams[(index + 1) % 2];
    std::atomic<uint64_t> mine{0};
    for (uint64_t i = 1; i <= rounds; ++i) {
      weir_be_fence fence = 0, theirs = 0;
      int failures =
          backend->stream_host_call(backend.state(), own, add_one, &mine) != WEIR_SUCCESS;
      failures += backend->fence_record(backend.state(), own, &fence) != WEIR_SUCCESS;
      failures += backend->fence_record(backend.state(), other, &theirs) != WEIR_SUCCESS;
      failures += backend->stream_wait(backend.state(), own, theirs) != WEIR_SUCCESS;
      if (i % 3 == 0) {
        failures += backend->fence_wait(backend.state(), fence, UINT64_MAX) != WEIR_SUCCESS;
      } else {
        while (backend->fence_poll(backend.state(), fence) == WEIR_NOT_READY)
          std::this_thread::yield();
      }
      // A passed fence means that what was enqueued before it has run, and is visible here.
      if (failures != 0 || mine.load(std::memory_order_relaxed) != i) wrong.fetch_add(1);
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 4; ++i) threads.emplace_back(enqueue, i);
  for (auto &thread : threads) thread.join();
  assert_int_equal(wrong.load(), 0);
}

void threads_open_and_close_streams(void **) {
  HostBackend backend;
  std::atomic<int> wrong{0};
  const auto churn = [&] {
    std::atomic<uint64_t> ran{0};
    weir_be_fence last = 0;
    for (uint64_t i = 1; i <= 40; ++i) {
      weir_be_stream stream = nullptr;
      int failures = backend->stream_create(backend.state(), 0, 0, &stream) != WEIR_SUCCESS;
      if (failures == 0) {
        if (last != 0)
          failures += backend->stream_wait(backend.state(), stream, last) != WEIR_SUCCESS;
        failures +=
            backend->stream_host_call(backend.state(), stream, add_one, &ran) != WEIR_SUCCESS;
        failures += backend->fence_record(backend.state(), stream, &last) != WEIR_SUCCESS;
        failures += backend->stream_destroy(backend.state(), stream) != WEIR_SUCCESS;
      }
      wrong.fetch_add(failures);
    }
    if (backend->fence_wait(backend.state(), last, UINT64_MAX) != WEIR_SUCCESS ||
        ran.load() != 40) {
      wrong.fetch_add(1);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(churn);
  for (auto &thread : threads) thread.join();
  assert_int_equal(wrong.load(), 0);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_stream_runs_in_order),
      cmocka_unit_test(a_fence_tells_before_from_after),
      cmocka_unit_test(a_stream_waits_for_another),
      cmocka_unit_test(waits_that_change_nothing_enqueue_nothing),
      cmocka_unit_test(a_fence_outlives_its_stream_and_its_slot),
      cmocka_unit_test(stop_finishes_what_is_queued),
      cmocka_unit_test(a_chain_through_many_streams),
      cmocka_unit_test(wrapping_leaves_the_stream_alone),
      cmocka_unit_test(bad_arguments_are_refused),
      cmocka_unit_test(threads_record_poll_and_wait),
      cmocka_unit_test(threads_open_and_close_streams),
  };
  return cmocka_run_group_tests_name("host streams", tests, nullptr, nullptr);
}
