// SPDX-License-Identifier: Apache-2.0
//
// The Level Zero backend's streams and fences over the real loader and the simulated driver, which keeps to no
// order but what the specification promises and tells of every event that is reset or signalled too early;
// then what becomes of failing calls and lost devices. Nothing here depends on time passing.

#include "tests/backends/level_zero_fixture.hpp"
#include "tests/support/stride.hpp"

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

using namespace level_zero_test;

namespace {

/// A device's memory, pinned memory and a stream, for copies.
struct Bench {
  explicit Bench(const Backend &on, uint32_t device = 0) : backend(on) {
    assert_ok(on, on->plain_allocate(on.state, device, 4 * MiB, 4096, &memory));
    assert_ok(on, on->host_allocate(on.state, 4 * MiB, &host));
    assert_ok(on, on->stream_create(on.state, device, 0, &stream));
    near = reinterpret_cast<uintptr_t>(host);
    bytes = static_cast<unsigned char *>(host);
  }
  void fill(weir_be_stream on, uint64_t address, uint8_t value, uint64_t size) const {
    assert_ok(backend, backend->fill_async(backend.state, on, address, value, size));
  }
  void copy(weir_be_stream on, uint64_t destination, uint64_t source, uint64_t size) const {
    const weir_be_copy what{destination, source, size};
    assert_ok(backend, backend->copy_async(backend.state, on, &what));
  }
  weir_be_fence record(weir_be_stream on) const {
    weir_be_fence fence = 0;
    assert_ok(backend, backend->fence_record(backend.state, on, &fence));
    return fence;
  }
  void finish(weir_be_fence fence) const {
    assert_ok(backend, backend->fence_wait(backend.state, fence, UINT64_MAX));
    assert_ok(backend, backend->fence_destroy(backend.state, fence));
  }

  const Backend &backend;
  uint64_t memory = 0, near = 0;
  void *host = nullptr;
  unsigned char *bytes = nullptr;
  weir_be_stream stream = nullptr;
};

/// A stream that does nothing until the program opens its gate.
struct Held {
  Held(Program &by, const Backend &on) : program(by), backend(on), list(by.list(0)) {
    program.hold(list);
    assert_ok(on, on->stream_wrap(on.state, 0, list, &stream));
  }
  ~Held() {
    (void)backend->stream_destroy(backend.state, stream);
    program.end(list);
  }
  Held(const Held &) = delete;
  Held &operator=(const Held &) = delete;
  Program &program;
  const Backend &backend;
  abi::CommandList list;
  weir_be_stream stream = nullptr;
};

/// A chain of commands on one stream, each of which needs the one before.
void run_chain(const Bench &b, weir_be_stream stream) {
  for (uint8_t round = 1; round <= 20; ++round) {
    b.fill(stream, b.memory, round, MiB);
    b.copy(stream, b.memory + MiB, b.memory, MiB);
    b.copy(stream, b.memory + 2 * MiB, b.memory + MiB, MiB);
    b.copy(stream, b.near, b.memory + 2 * MiB, MiB);
    b.finish(b.record(stream));
    assert_int_equal(b.bytes[0], round);
    assert_int_equal(b.bytes[MiB - 1], round);
  }
}

void in_order_without_the_flag(void **) {
  machine("devices=1;memory=64M");
  {
    Backend backend;
    const Bench bench(backend);
    run_chain(bench, bench.stream);
  }
  assert_clean();
}

void in_order_with_the_flag(void **) {
  machine("devices=1;memory=64M;version=1009");
  {
    Backend backend;
    const Bench bench(backend);
    const uint64_t before = sim().calls("zeCommandListAppendBarrier");
    run_chain(bench, bench.stream);
    // Only the fences: the list keeps the order by itself.
    assert_int_equal(sim().calls("zeCommandListAppendBarrier") - before, 20);
  }
  assert_clean();
}

void in_order_on_the_programs_list(void **) {
  machine("devices=1;memory=64M");
  {
    Program program;
    {
      Backend backend(program.option().c_str());
      const Bench bench(backend);
      abi::CommandList list = program.list(0);
      weir_be_stream stream = nullptr;
      void *native = nullptr;
      assert_ok(backend, backend->stream_wrap(backend.state, 0, list, &stream));
      assert_ok(backend, backend->stream_native(backend.state, stream, &native));
      assert_ptr_equal(native, list);
      run_chain(bench, stream);
      assert_ok(backend, backend->stream_destroy(backend.state, stream));
      program.end(list);
    }
  }
  assert_clean();
}

// The program's own commands and Weir's, in turn on one list: the program's in both senses.
void in_order_with_the_programs_commands(void **) {
  const auto own_copy =
      Program::call<abi::CommandListAppendMemoryCopyFn>("zeCommandListAppendMemoryCopy");
  const auto mix = [&](const Bench &b, weir_be_stream stream, abi::CommandList list) {
    for (uint8_t round = 1; round <= 10; ++round) {
      b.fill(stream, b.memory, round, MiB);
      Program::check(own_copy(list, reinterpret_cast<void *>(b.memory + MiB),
                              reinterpret_cast<void *>(b.memory), MiB, nullptr, 0, nullptr));
      b.copy(stream, b.near, b.memory + MiB, MiB);
      assert_ok(b.backend, b.backend->stream_synchronize(b.backend.state, stream));
      assert_int_equal(b.bytes[0], round);
    }
  };
  machine("devices=1;memory=64M");
  {
    Program program;
    {
      Backend backend(program.option().c_str());
      const Bench bench(backend);
      abi::CommandList list = program.list(0);
      weir_be_stream stream = nullptr;
      assert_ok(backend, backend->stream_wrap(backend.state, 0, list, &stream));
      mix(bench, stream, list);
      assert_ok(backend, backend->stream_destroy(backend.state, stream));
      program.end(list);
      // A list that Weir made and gave to the program, with a command of Weir's on it already.
      void *native = nullptr;
      bench.fill(bench.stream, bench.memory, 99, MiB);
      assert_ok(backend, backend->stream_native(backend.state, bench.stream, &native));
      mix(bench, bench.stream, static_cast<abi::CommandList>(native));
    }
  }
  assert_clean();
}

void stream_misuse(void **) {
  machine("devices=1;memory=64M");
  {
    Backend backend;
    const Bench bench(backend);
    const auto &b = backend;
    weir_be_stream stream = nullptr, dead = nullptr;
    weir_be_fence fence = 0;
    assert_refused(b, WEIR_ERROR_INVALID_ARGUMENT, "no default stream",
                   b->stream_wrap(b.state, 0, nullptr, &stream));
    assert_refused(b, WEIR_ERROR_INVALID_ARGUMENT, "stream flags 0x4",
                   b->stream_create(b.state, 0, 4, &stream));
    assert_refused(b, WEIR_ERROR_INVALID_ARGUMENT, "device 3 of 1",
                   b->stream_create(b.state, 3, 0, &stream));
    assert_refused(b, WEIR_ERROR_INVALID_ARGUMENT, "is no open stream",
                   b->stream_query(b.state, nullptr));
    assert_ok(b, b->stream_create(b.state, 0, 0, &dead));
    assert_ok(b, b->stream_destroy(b.state, dead));
    assert_refused(b, WEIR_ERROR_INVALID_ARGUMENT, "is no open stream",
                   b->fence_record(b.state, dead, &fence));
    assert_refused(b, WEIR_ERROR_INVALID_ARGUMENT, "is no open stream",
                   b->stream_destroy(b.state, dead));
    assert_refused(b, WEIR_ERROR_INVALID_ARGUMENT, "0 is no fence", b->fence_poll(b.state, 0));
    fence = bench.record(bench.stream);
    bench.finish(fence);
    assert_refused(b, WEIR_ERROR_INVALID_ARGUMENT, "is no fence", b->fence_poll(b.state, fence));
    assert_refused(b, WEIR_ERROR_INVALID_ARGUMENT, "is no fence", b->fence_destroy(b.state, fence));
    assert_refused(b, WEIR_ERROR_INVALID_ARGUMENT, "is no fence",
                   b->stream_wait(b.state, bench.stream, fence));
    const weir_be_copy empty{bench.memory, bench.near, 0},
        beyond{bench.memory, bench.near, 5 * MiB};
    assert_refused(b, WEIR_ERROR_INVALID_ARGUMENT, "+0)",
                   b->copy_async(b.state, bench.stream, &empty));
    assert_refused(b, WEIR_ERROR_INVALID_ARGUMENT, "the source",
                   b->copy_async(b.state, bench.stream, &beyond));
    assert_refused(b, WEIR_ERROR_INVALID_ARGUMENT, "is NULL",
                   b->copy_async(b.state, bench.stream, nullptr));
    assert_refused(b, WEIR_ERROR_INVALID_ARGUMENT, "host memory",
                   b->fill_async(b.state, bench.stream, bench.near, 1, MiB));
  }
  assert_clean();
}

void fences_wait_for_their_work(void **) {
  machine("devices=1;memory=64M");
  {
    Program program;
    {
      Backend backend(program.option().c_str());
      const Bench bench(backend);
      Held held(program, backend);
      bench.fill(held.stream, bench.memory, 7, MiB);
      const weir_be_fence filled = bench.record(held.stream);
      assert_int_equal(backend->fence_poll(backend.state, filled), WEIR_NOT_READY);
      assert_int_equal(backend->fence_wait(backend.state, filled, 0), WEIR_ERROR_TIMEOUT);
      assert_int_equal(backend->fence_wait(backend.state, filled, 1000), WEIR_ERROR_TIMEOUT);
      assert_int_equal(backend->stream_query(backend.state, held.stream), WEIR_NOT_READY);
      // Twice, and by a thread that does not block.
      assert_ok(backend, backend->stream_wait(backend.state, bench.stream, filled));
      assert_ok(backend, backend->stream_wait(backend.state, bench.stream, filled));
      assert_ok(backend, backend->fence_destroy(backend.state, filled));
      bench.copy(bench.stream, bench.near, bench.memory, MiB);
      const weir_be_fence copied = bench.record(bench.stream);
      assert_int_equal(backend->fence_poll(backend.state, copied), WEIR_NOT_READY);
      assert_int_equal(backend->stream_query(backend.state, bench.stream), WEIR_NOT_READY);
      // Time for a copy that does not wait to be done; one that does is not.
      assert_int_equal(backend->fence_wait(backend.state, copied, 20'000'000), WEIR_ERROR_TIMEOUT);
      program.open_gate();
      bench.finish(copied);
      assert_int_equal(bench.bytes[MiB - 1], 7);
      assert_ok(backend, backend->stream_synchronize(backend.state, bench.stream));
      assert_ok(backend, backend->stream_query(backend.state, bench.stream));
      assert_ok(backend, backend->stream_synchronize(backend.state, held.stream));
    }
  }
  assert_clean();
}

// Fences are destroyed while commands still wait for them, and their events come back into use by the hundred.
// The driver tells of every event that is reset too early.
/// Nobody else uses the stream: it is not asked a second time, and a fence that is gone has passed too.
void a_query_after_the_fence_is_answered(void **) {
  machine("devices=1;memory=64M");
  {
    Backend backend;
    const Bench bench(backend);
    for (uint8_t round = 1; round <= 20; ++round) {
      bench.fill(bench.stream, bench.memory, round, MiB);
      const weir_be_fence filled = bench.record(bench.stream);
      assert_ok(backend, backend->fence_wait(backend.state, filled, UINT64_MAX));
      if (round % 2 == 0) assert_ok(backend, backend->fence_destroy(backend.state, filled));
      assert_ok(backend, backend->stream_query(backend.state, bench.stream));
      if (round % 2 != 0) assert_ok(backend, backend->fence_destroy(backend.state, filled));
    }
  }
  assert_clean();
}

void storm_behind_a_gate(void **) {
  machine("devices=1;memory=64M");
  {
    Program program;
    {
      Backend backend(program.option().c_str());
      const Bench bench(backend);
      weir_be_stream others[3] = {};
      for (weir_be_stream &each : others) {
        assert_ok(backend, backend->stream_create(backend.state, 0, 0, &each));
      }
      Held held(program, backend);
      for (int i = 0; i < 300; ++i) {
        const weir_be_fence fence = bench.record(held.stream);
        assert_ok(backend, backend->stream_wait(backend.state, others[i % 3], fence));
        const weir_be_fence behind = bench.record(others[i % 3]);
        assert_ok(backend, backend->fence_destroy(backend.state, fence));
        assert_ok(backend, backend->stream_wait(backend.state, others[(i + 1) % 3], behind));
        assert_ok(backend, backend->fence_destroy(backend.state, behind));
      }
      bench.fill(others[0], bench.memory, 9, MiB);
      const weir_be_fence last = bench.record(others[0]);
      assert_int_equal(backend->fence_wait(backend.state, last, 20'000'000), WEIR_ERROR_TIMEOUT);
      program.open_gate();
      bench.finish(last);
      for (const weir_be_stream each : others) {
        assert_ok(backend, backend->stream_synchronize(backend.state, each));
      }
      // All those events serve again: no more are made.
      const uint64_t made = sim().calls("zeEventCreate");
      for (int i = 0; i < 600; ++i) bench.finish(bench.record(bench.stream));
      assert_int_equal(sim().calls("zeEventCreate"), made);
      assert_ok(backend, backend->stream_synchronize(backend.state, held.stream));
    }
  }
  assert_clean();
}

// A fence that is waited for stays in use until the waiting stream has gone on, not only until it has passed.
void event_is_kept_for_its_waiter(void **) {
  machine("devices=1;memory=64M");
  {
    Program program;
    {
      Backend backend(program.option().c_str());
      const Bench bench(backend);
      Held held(program, backend);
      for (int round = 0; round < 50; ++round) {
        const weir_be_fence fence = bench.record(bench.stream);
        // Enqueued behind the gate, so it is not looked at while the fence passes.
        assert_ok(backend, backend->stream_wait(backend.state, held.stream, fence));
        assert_ok(backend, backend->fence_wait(backend.state, fence, UINT64_MAX));
        assert_ok(backend, backend->fence_destroy(backend.state, fence));
      }
      program.open_gate();
      assert_ok(backend, backend->stream_synchronize(backend.state, held.stream));
    }
  }
  assert_clean();
}

void streams_end_without_blocking(void **) {
  machine("devices=1;memory=64M");
  {
    Program program;
    {
      Backend backend(program.option().c_str());
      const Bench bench(backend);
      Held held(program, backend);
      const weir_be_fence gate = bench.record(held.stream);
      weir_be_stream stream = nullptr;
      assert_ok(backend, backend->stream_create(backend.state, 0, 0, &stream));
      assert_ok(backend, backend->stream_wait(backend.state, stream, gate));
      bench.fill(stream, bench.memory, 5, MiB);
      const weir_be_fence filled = bench.record(stream);
      const uint64_t ended = sim().calls("zeCommandListDestroy");
      assert_ok(backend, backend->stream_destroy(backend.state, stream));
      assert_int_equal(sim().calls("zeCommandListDestroy"), ended);
      assert_int_equal(backend->fence_poll(backend.state, filled), WEIR_NOT_READY);
      program.open_gate();
      bench.finish(filled);
      bench.copy(bench.stream, bench.near, bench.memory, MiB);
      assert_ok(backend, backend->stream_synchronize(backend.state, bench.stream));
      assert_int_equal(bench.bytes[0], 5);
      bench.finish(gate);
      assert_ok(backend, backend->stream_synchronize(backend.state, held.stream));
    }
    // The list that was destroyed above, and those that stop() ended.
    assert_int_equal(sim().calls("zeCommandListDestroy"), 3);
  }
  assert_clean();
}

// From 4 GiB on commands are split. Nothing of it runs: the device is lost before the gate opens.
void large_commands_are_split(void **) {
  machine("devices=1;memory=16G;mode=strict");
  {
    Program program;
    {
      Backend backend(program.option().c_str());
      Held held(program, backend);
      uint64_t memory = 0;
      const uint64_t size = uint64_t{6} << 30U;
      assert_ok(backend, backend->plain_allocate(backend.state, 0, 2 * size, 4096, &memory));
      const weir_be_copy copy{memory, memory + size, size};
      const uint64_t before = sim().calls("zeCommandListAppendMemoryCopy");
      assert_ok(backend, backend->copy_async(backend.state, held.stream, &copy));
      assert_int_equal(sim().calls("zeCommandListAppendMemoryCopy") - before, 3);
      assert_ok(backend, backend->fill_async(backend.state, held.stream, memory, 1, size));
      assert_int_equal(sim().calls("zeCommandListAppendMemoryFill"), 3);
      sim().lose(0);
    }
  }
  assert_int_equal(sim().misuse(nullptr), 0);
}

void lost_device(void **) {
  machine("devices=1;memory=64M");
  {
    Program program;
    {
      Backend backend(program.option().c_str());
      const Bench bench(backend);
      Held held(program, backend);
      weir_be_granule granule = 0;
      weir_be_stream stream = nullptr;
      assert_ok(backend, backend->granule_create(backend.state, 0, 2 * MiB, 0, &granule));
      assert_ok(backend, backend->stream_create(backend.state, 0, 0, &stream));
      const weir_be_fence gate = bench.record(held.stream);
      assert_ok(backend, backend->stream_wait(backend.state, bench.stream, gate));
      const weir_be_fence behind = bench.record(bench.stream);
      sim().lose(0);
      const auto lost = [&](weir_result result) {
        assert_int_equal(result, WEIR_ERROR_DEVICE_LOST);
        assert_non_null(std::strstr(backend.why(), "ZE_RESULT_ERROR_DEVICE_LOST"));
      };
      weir_be_fence fence = 0;
      lost(backend->fence_poll(backend.state, behind));
      lost(backend->fence_wait(backend.state, behind, UINT64_MAX));
      lost(backend->fence_record(backend.state, bench.stream, &fence));
      lost(backend->stream_synchronize(backend.state, bench.stream));
      lost(backend->fill_async(backend.state, bench.stream, bench.memory, 1, MiB));
      lost(backend->granule_create(backend.state, 0, 2 * MiB, 0, &granule));
      // What is there can be given up all the same.
      assert_ok(backend, backend->fence_destroy(backend.state, gate));
      assert_ok(backend, backend->fence_destroy(backend.state, behind));
      assert_ok(backend, backend->stream_destroy(backend.state, stream));
      assert_ok(backend, backend->stream_destroy(backend.state, bench.stream));
    }
  }
  assert_int_equal(sim().misuse(nullptr), 0);
}

void threads(void **) {
  machine("devices=1;memory=64M");
  {
    Backend backend;
    const Bench bench(backend);
    weir_be_stream streams[3] = {};
    for (weir_be_stream &each : streams) {
      assert_ok(backend, backend->stream_create(backend.state, 0, 0, &each));
    }
    std::atomic<int> failures{0};
    const auto work = [&](int self) {
      for (int i = 0; i < 200; ++i) {
        weir_be_fence fence = 0;
        const weir_be_stream from = streams[(self + i) % 3], to = streams[(self + 2 * i + 1) % 3];
        bool ok = backend->fence_record(backend.state, from, &fence) == WEIR_SUCCESS;
        ok = ok && backend->stream_wait(backend.state, to, fence) == WEIR_SUCCESS;
        if (i % 3 == 0) {
          ok = ok && backend->fence_wait(backend.state, fence, UINT64_MAX) == WEIR_SUCCESS;
        }
        ok = ok && backend->fence_poll(backend.state, fence) >= 0;
        ok = ok && backend->fence_destroy(backend.state, fence) == WEIR_SUCCESS;
        ok = ok && backend->stream_query(backend.state, to) >= 0;
        if (!ok) ++failures;
      }
    };
    std::vector<std::thread> pool;
    for (int i = 0; i < 3; ++i) pool.emplace_back(work, i);
    for (std::thread &each : pool) each.join();
    assert_int_equal(failures, 0);
  }
  assert_clean();
}

// ---- failing calls

/// Ends the scenario at the first refusal; what was made is left to stop().
#define STEP(call)                             \
  do {                                         \
    if (const weir_result r = (call); r < 0) { \
      return r;                                \
    }                                          \
  } while (false)

weir_result memory_scenario(weir_be_state *s) {
  const weir_backend_table &t = table();
  weir_be_granule granule = 0;
  uint64_t base = 0, plain = 0;
  void *host = nullptr;
  STEP(t.granule_create(s, 0, 2 * MiB, 0, &granule));
  STEP(t.range_reserve(s, 0, 8 * MiB, 4 * MiB, &base));
  STEP(t.map(s, 0, base, 2 * MiB, granule, 0, nullptr, 0));
  STEP(t.plain_allocate(s, 0, MiB, 4096, &plain));
  STEP(t.host_allocate(s, MiB, &host));
  STEP(t.host_free(s, host, MiB));
  STEP(t.plain_free(s, 0, plain, MiB));
  STEP(t.unmap(s, 0, base, 2 * MiB));
  STEP(t.range_free(s, 0, base, 8 * MiB));
  return t.granule_destroy(s, 0, granule);
}

weir_result stream_scenario(weir_be_state *s) {
  const weir_backend_table &t = table();
  weir_be_stream one = nullptr, two = nullptr;
  weir_be_fence first = 0, second = 0;
  uint64_t plain = 0;
  STEP(t.plain_allocate(s, 0, MiB, 4096, &plain));
  STEP(t.stream_create(s, 0, 0, &one));
  STEP(t.stream_create(s, 0, 0, &two));
  STEP(t.fill_async(s, one, plain, 1, MiB));
  STEP(t.fence_record(s, one, &first));
  STEP(t.stream_wait(s, two, first));
  STEP(t.fence_destroy(s, first));
  STEP(t.fill_async(s, two, plain, 2, MiB));
  STEP(t.stream_query(s, two));
  STEP(t.stream_host_call(
      s, two, [](void *) {}, nullptr));
  STEP(t.fence_record(s, two, &second));
  STEP(t.fence_wait(s, second, UINT64_MAX));
  STEP(t.fence_destroy(s, second));
  STEP(t.stream_synchronize(s, one));
  STEP(t.stream_destroy(s, one));
  STEP(t.stream_destroy(s, two));
  return WEIR_SUCCESS;
}

/// Lets each call of the driver fail once, at every place. Nothing may be left, and a call that failed is told.
void sweep(const std::function<weir_result(weir_be_state *)> &scenario, abi::Result code) {
  for (uint64_t place = 1;; place += static_cast<uint64_t>(weir::test::stride())) {
    machine("devices=1;memory=64M", "hold_us=0");  // orders are not what is looked at here
    weir_be_start desc{sizeof desc, 0, "", nullptr, nullptr, nullptr};
    weir_be_state *state = nullptr;
    const char *reason = nullptr;
    const uint64_t before = sim().calls(nullptr);
    sim().fail(nullptr, place, code);
    if (table().start(&desc, &state, &reason) == WEIR_SUCCESS) {
      (void)scenario(state);
      // The scenario can be run again: what failed has changed nothing.
      if (scenario(state) < 0) {
        sim().fail(nullptr, 0, 0);
        if (const weir_result again = scenario(state); again < 0)
          fail_msg("after the failure of call %d: %d, %s", static_cast<int>(place), again,
                   table().error_text(state, table().last_error_code(state)));
      }
      table().stop(state);
    }
    const uint64_t calls = sim().calls(nullptr) - before;
    sim().fail(nullptr, 0, 0);
    const char *what = "";
    if (sim().alive(&what) != 0)
      fail_msg("call %d failed: left over: %s", static_cast<int>(place), what);
    if (sim().misuse(&what) != 0)
      fail_msg("call %d failed: misuse: %s", static_cast<int>(place), what);
    if (place > calls) break;
    assert_true(place < 2000);
  }
}

void faults_in_memory(void **) {
  sweep(memory_scenario, abi::error_out_of_host_memory);
  sweep(memory_scenario, abi::error_unknown);
}
void faults_in_streams(void **) {
  sweep(stream_scenario, abi::error_out_of_host_memory);
  sweep(stream_scenario, abi::error_unknown);
}

/// Streams for copies alone lie on the copy engine, the others where kernels run.
void transfers_have_their_engine(void **) {
  machine("memory=64M");
  {
    const Backend backend;
    const Bench bench(backend);
    assert_int_equal(sim().copy_lists(), 0);
    weir_be_stream transfer = nullptr;
    assert_ok(backend,
              backend->stream_create(backend.state, 0, WEIR_BE_STREAM_TRANSFER, &transfer));
    assert_int_equal(sim().copy_lists(), 1);
    bench.fill(transfer, bench.memory, 5, 4096);
    bench.copy(transfer, bench.near, bench.memory, 4096);
    assert_ok(backend, backend->stream_synchronize(backend.state, transfer));
    assert_int_equal(bench.bytes[4095], 5);
    assert_refused(backend, WEIR_ERROR_INVALID_ARGUMENT, "flags 0x3",
                   backend->stream_create(backend.state, 0, 3, &transfer));
    assert_ok(backend, backend->stream_destroy(backend.state, transfer));
  }
  assert_clean();
  machine("memory=64M");
  const Backend without("transfer_stream=0");
  weir_be_stream stream = nullptr;
  assert_refused(without, WEIR_ERROR_INVALID_ARGUMENT, "flags 0x1",
                 without->stream_create(without.state, 0, WEIR_BE_STREAM_TRANSFER, &stream));
}

}  // namespace

int main() {
  if (!prepare("test_level_zero_streams")) return skipped;
  const CMUnitTest tests[] = {
      cmocka_unit_test(in_order_without_the_flag),
      cmocka_unit_test(in_order_with_the_flag),
      cmocka_unit_test(in_order_on_the_programs_list),
      cmocka_unit_test(in_order_with_the_programs_commands),
      cmocka_unit_test(stream_misuse),
      cmocka_unit_test(fences_wait_for_their_work),
      cmocka_unit_test(a_query_after_the_fence_is_answered),
      cmocka_unit_test(storm_behind_a_gate),
      cmocka_unit_test(event_is_kept_for_its_waiter),
      cmocka_unit_test(streams_end_without_blocking),
      cmocka_unit_test(large_commands_are_split),
      cmocka_unit_test(lost_device),
      cmocka_unit_test(threads),
      cmocka_unit_test(faults_in_memory),
      cmocka_unit_test(faults_in_streams),
      cmocka_unit_test(transfers_have_their_engine),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
