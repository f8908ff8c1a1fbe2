// SPDX-License-Identifier: Apache-2.0
//
// Host functions in the order of the Level Zero backend's streams: after what was enqueued before them, before what was
// enqueued later, once each, on streams of ours and of the program's, and not at all on a device that is gone. What must
// not happen is shown by gates that the test opens, not by time.

#include "tests/backends/level_zero_fixture.hpp"

#include <atomic>
#include <thread>
#include <vector>

using namespace level_zero_test;

namespace {

/// A function that waits until the test lets it go on.
struct Gate {
  std::atomic<bool> reached{false}, open{false};
  static void stand(void *user) {
    auto *self = static_cast<Gate *>(user);
    self->reached.store(true);
    self->reached.notify_all();
    self->open.wait(false);
  }
  void let_go() {
    open.store(true);
    open.notify_all();
  }
};

/// Appends its number to a list.
struct Step {
  std::vector<int> *list = nullptr;
  int number = 0;
  static void run(void *user) {
    auto *self = static_cast<Step *>(user);
    self->list->push_back(self->number);
  }
};

void one_stream_s_functions_and_copies_are_in_order(void **) {
  machine("devices=1;memory=64M");
  {
    Backend backend;
    weir_be_stream stream = nullptr;
    uint64_t memory = 0;
    void *host = nullptr;
    assert_ok(backend, backend->plain_allocate(backend.state, 0, 4096, 4096, &memory));
    assert_ok(backend, backend->host_allocate(backend.state, 4096, &host));
    assert_ok(backend, backend->stream_create(backend.state, 0, 0, &stream));
    auto *bytes = static_cast<unsigned char *>(host);
    struct Look {
      unsigned char *bytes;
      int seen;
      static void run(void *user) {
        auto *self = static_cast<Look *>(user);
        self->seen = self->bytes[4095];
        self->bytes[4095] = static_cast<unsigned char>(self->seen + 100);
      }
    };
    std::vector<Look> looks(20, Look{bytes, -1});
    const weir_be_copy down{reinterpret_cast<uintptr_t>(host), memory, 4096};
    for (size_t i = 0; i < looks.size(); ++i) {
      // Each function sees the fill before it, and the next fill's copy comes after what it wrote.
      assert_ok(backend, backend->fill_async(backend.state, stream, memory,
                                             static_cast<uint8_t>(i + 1), 4096));
      assert_ok(backend, backend->copy_async(backend.state, stream, &down));
      assert_ok(backend, backend->stream_host_call(backend.state, stream, Look::run, &looks[i]));
    }
    assert_ok(backend, backend->stream_synchronize(backend.state, stream));
    for (size_t i = 0; i < looks.size(); ++i) assert_int_equal(looks[i].seen, i + 1);
    assert_int_equal(bytes[4095], 20 + 100);
    assert_refused(backend, WEIR_ERROR_INVALID_ARGUMENT, "host function is NULL",
                   backend->stream_host_call(backend.state, stream, nullptr, nullptr));
    assert_ok(backend, backend->stream_destroy(backend.state, stream));
  }
  assert_clean();
}

void a_function_holds_up_its_own_stream_only(void **) {
  machine("devices=1;memory=64M");
  {
    Backend backend;
    weir_be_stream held = nullptr, other = nullptr;
    assert_ok(backend, backend->stream_create(backend.state, 0, 0, &held));
    assert_ok(backend, backend->stream_create(backend.state, 0, 0, &other));
    Gate gate;
    assert_ok(backend, backend->stream_host_call(backend.state, held, Gate::stand, &gate));
    weir_be_fence after = 0;
    assert_ok(backend, backend->fence_record(backend.state, held, &after));
    std::vector<int> list;
    Step step{&list, 1};
    assert_ok(backend, backend->stream_host_call(backend.state, other, Step::run, &step));
    assert_ok(backend, backend->stream_synchronize(backend.state, other));
    assert_int_equal(list.size(), 1);
    gate.reached.wait(false);
    assert_int_equal(backend->fence_poll(backend.state, after), WEIR_NOT_READY);
    assert_int_equal(backend->stream_query(backend.state, held), WEIR_NOT_READY);
    gate.let_go();
    assert_ok(backend, backend->fence_wait(backend.state, after, UINT64_MAX));
    assert_ok(backend, backend->fence_destroy(backend.state, after));
    assert_ok(backend, backend->stream_destroy(backend.state, held));
    assert_ok(backend, backend->stream_destroy(backend.state, other));
  }
  assert_clean();
}

/// Destroying a stream does not wait for its functions, and they run all the same.
void functions_outlive_their_stream(void **) {
  machine("devices=1;memory=64M");
  std::vector<int> list;
  Step steps[] = {{&list, 1}, {&list, 2}};
  Gate gate;
  {
    Backend backend;
    weir_be_stream stream = nullptr;
    assert_ok(backend, backend->stream_create(backend.state, 0, 0, &stream));
    assert_ok(backend, backend->stream_host_call(backend.state, stream, Gate::stand, &gate));
    for (Step &step : steps)
      assert_ok(backend, backend->stream_host_call(backend.state, stream, Step::run, &step));
    weir_be_fence end = 0;
    assert_ok(backend, backend->fence_record(backend.state, stream, &end));
    assert_ok(backend, backend->stream_destroy(backend.state, stream));
    assert_int_equal(backend->fence_poll(backend.state, end), WEIR_NOT_READY);
    gate.let_go();
    assert_ok(backend, backend->fence_wait(backend.state, end, UINT64_MAX));
    assert_int_equal(list.size(), 2);
    assert_int_equal(list[1], 2);
    assert_ok(backend, backend->fence_destroy(backend.state, end));
  }
  assert_clean();
}

void the_program_s_list_takes_functions_too(void **) {
  machine("devices=1;memory=64M");
  {
    Program program;
    const abi::CommandList list = program.list(0);
    {
      Backend backend(program.option().c_str());
      weir_be_stream stream = nullptr;
      assert_ok(backend, backend->stream_wrap(backend.state, 0, list, &stream));
      std::vector<int> numbers;
      Step first{&numbers, 1}, second{&numbers, 2};
      program.hold(list);
      assert_ok(backend, backend->stream_host_call(backend.state, stream, Step::run, &first));
      assert_ok(backend, backend->stream_host_call(backend.state, stream, Step::run, &second));
      assert_int_equal(backend->stream_query(backend.state, stream), WEIR_NOT_READY);
      program.open_gate();
      assert_ok(backend, backend->stream_synchronize(backend.state, stream));
      assert_int_equal(numbers.size(), 2);
      assert_int_equal(numbers[0], 1);
      assert_ok(backend, backend->stream_destroy(backend.state, stream));
    }
    program.end(list);
  }
  assert_clean();
}

/// Nothing hangs, and what had not run never does.
void a_lost_device_runs_no_more(void **) {
  machine("devices=1;memory=64M");
  {
    Program program;
    const abi::CommandList list = program.list(0);
    {
      Backend backend(program.option().c_str());
      weir_be_stream stream = nullptr;
      assert_ok(backend, backend->stream_wrap(backend.state, 0, list, &stream));
      program.hold(list);
      std::vector<int> numbers;
      Step step{&numbers, 1};
      assert_ok(backend, backend->stream_host_call(backend.state, stream, Step::run, &step));
      sim().lose(0);
      assert_int_equal(backend->stream_synchronize(backend.state, stream), WEIR_ERROR_DEVICE_LOST);
      (void)backend->stream_destroy(backend.state, stream);
      backend.stop();
      assert_int_equal(numbers.size(), 0);
    }
    (void)Program::call<abi::CommandListDestroyFn>("zeCommandListDestroy")(list);
  }
  const char *what = "";
  if (sim().alive(&what) != 0) fail_msg("left over: %s", what);
}

}  // namespace

int main() {
  if (!prepare("test_level_zero_host_calls")) return skipped;
  const CMUnitTest tests[] = {
      cmocka_unit_test(one_stream_s_functions_and_copies_are_in_order),
      cmocka_unit_test(a_function_holds_up_its_own_stream_only),
      cmocka_unit_test(functions_outlive_their_stream),
      cmocka_unit_test(the_program_s_list_takes_functions_too),
      cmocka_unit_test(a_lost_device_runs_no_more),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
