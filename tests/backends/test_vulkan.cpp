// SPDX-License-Identifier: Apache-2.0
//
// The Vulkan backend at work: a call that the driver blocks in holds up nobody else's work, queues are used by one thread at a
// time, and how many calls of the driver things take.

#include "tests/backends/vulkan_scenario.hpp"
#include "tests/support/watchdog.hpp"

#include <sys/mman.h>

#include <functional>
#include <memory>
#include <thread>

namespace {

using namespace vulkan_test;

constexpr uint64_t unit = 64 * KiB;

/// A backend with a little of everything made.
struct Bench {
  explicit Bench(const char *machine = "sparse=1;queues=3") {
    pretend(machine);
    started = std::make_unique<Backend>();
    const Backend &backend = *started;
    OK(backend.result);
    OK(t.plain_allocate(s(), 0, unit, 4096, &plain));
    OK(t.host_allocate(s(), unit, &pinned));
    OK(t.granule_create(s(), 0, unit, 0, &granule));
    OK(t.range_reserve(s(), 0, 2 * unit, unit, &range));
    OK(t.map(s(), 0, range, unit, granule, 0, nullptr, 0));
    for (weir_be_stream &each : streams) OK(t.stream_create(s(), 0, 0, &each));
  }
  weir_be_state *s() const { return started->state; }

  /// A value goes from host memory to a mapping and comes back.
  void round_trip(weir_be_stream stream, uint8_t value) {
    const Backend &backend = *started;
    auto *bytes = static_cast<uint8_t *>(pinned);
    std::memset(bytes, value, unit / 2);
    std::memset(bytes + unit / 2, 0, unit / 2);
    const weir_be_copy in{range, address_of(pinned), unit / 2};
    const weir_be_copy out{address_of(pinned) + unit / 2, range, unit / 2};
    weir_be_fence fence = 0;
    OK(t.copy_async(s(), stream, &in));
    OK(t.copy_async(s(), stream, &out));
    OK(t.fence_record(s(), stream, &fence));
    OK(t.fence_wait(s(), fence, UINT64_MAX));
    OK(t.fence_destroy(s(), fence));
    OK(t.stream_query(s(), stream));
    for (uint64_t i = unit / 2; i < unit; ++i)
      if (bytes[i] != value) fail_msg("byte %llu is %d", (unsigned long long)i, bytes[i]);
  }
  void stop() {
    started->stop();
    nothing_is_left();
  }

  const weir_backend_table &t = table();
  std::unique_ptr<Backend> started;
  weir_be_stream streams[5] = {};  // those with odd numbers share a queue, and those with even ones
  uint64_t plain = 0, range = 0;
  weir_be_granule granule = 0;
  void *pinned = nullptr;
};

/// One thread is in a call of the driver that does not come back: the others work on.
void a_blocked_call_holds_up_nobody_else(void **) {
  weir::test::Watchdog watchdog;
  void *own = mmap(nullptr, unit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  using Act = std::function<weir_result(Bench &)>;
  const weir_backend_table &t = table();
  uint64_t address = 0;
  void *memory = nullptr;
  weir_be_stream stream = nullptr;
  const Act allocate = [&](Bench &b) { return t.plain_allocate(b.s(), 0, unit, 4096, &address); };
  const Act release = [&](Bench &b) { return t.plain_free(b.s(), 0, b.plain, unit); };
  // A blocked submission holds up its own queue, and no other.
  const Act fill = [&](Bench &b) {
    weir_be_fence fence = 0;
    const weir_result result = t.fill_async(b.s(), b.streams[1], b.plain, 1, unit);
    return result == WEIR_SUCCESS ? t.fence_record(b.s(), b.streams[1], &fence) : result;
  };
  const Act synchronize = [&](Bench &b) { return t.stream_synchronize(b.s(), b.streams[1]); };
  const struct {
    const char *call;
    Act act;
  } cases[] = {
      {"vkAllocateMemory", allocate},
      {"vkCreateBuffer", allocate},
      {"vkGetBufferDeviceAddress", allocate},
      {"vkFreeMemory", release},
      {"vkDestroyBuffer", release},
      {"vkMapMemory", [&](Bench &b) { return t.host_allocate(b.s(), unit, &memory); }},
      {"vkGetMemoryHostPointerPropertiesEXT",
       [&](Bench &b) { return t.host_register(b.s(), own, unit); }},
      {"vkCreateSemaphore", [&](Bench &b) { return t.stream_create(b.s(), 0, 0, &stream); }},
      {"vkQueueBindSparse",
       [&](Bench &b) { return t.map(b.s(), 0, b.range + unit, unit, b.granule, 0, nullptr, 0); }},
      {"vkCreateCommandPool", fill},
      {"vkAllocateCommandBuffers", fill},
      {"vkEndCommandBuffer", fill},
      {"vkQueueSubmit", fill},
      {"vkWaitSemaphores", synchronize},
  };
  for (const auto &each : cases) {
    watchdog.at(each.call);
    shim().reset();
    Bench bench;
    const Backend &backend = *bench.started;
    bench.round_trip(bench.streams[0], 1);
    Gate gate;
    OK(t.stream_host_call(bench.s(), bench.streams[2], Gate::run, &gate));
    if (std::strcmp(each.call, "vkWaitSemaphores") == 0)
      OK(t.stream_host_call(bench.s(), bench.streams[1], Gate::run, &gate));
    gate.reached.wait(false);
    shim().block(each.call);
    weir_result result = WEIR_ERROR_BACKEND;
    std::thread thread([&] { result = each.act(bench); });
    shim().wait_blocked();
    bench.round_trip(bench.streams[0], 2);
    OK(t.stream_destroy(bench.s(), bench.streams[4]));
    WANT(WEIR_NOT_READY, t.stream_query(bench.s(), bench.streams[2]));
    uint64_t free_bytes = 0, total = 0;
    OK(t.device_memory(bench.s(), 0, &free_bytes, &total));
    shim().resume();
    gate.release();
    thread.join();
    if (result != WEIR_SUCCESS) fail_msg("%s: the blocked call = %d", each.call, result);
    bench.stop();
  }
  munmap(own, unit);
  watchdog.stop();
}

/// Streams that end in a driver that takes its time over it.
void a_blocked_end_of_a_stream_holds_up_nobody_else(void **) {
  weir::test::Watchdog watchdog;
  watchdog.at("vkDestroyCommandPool");
  Bench bench;
  const Backend &backend = *bench.started;
  bench.round_trip(bench.streams[0], 1);
  bench.round_trip(bench.streams[1], 2);
  shim().block("vkDestroyCommandPool");
  weir_result result = WEIR_ERROR_BACKEND;
  std::thread thread([&] { result = table().stream_destroy(bench.s(), bench.streams[1]); });
  shim().wait_blocked();
  bench.round_trip(bench.streams[0], 3);
  OK(table().stream_destroy(bench.s(), bench.streams[2]));
  shim().resume();
  thread.join();
  OK(result);
  bench.stop();
  watchdog.stop();
}

/// Many threads, few queues: copies, fills, host functions and binds, each in its own place. The shim sees who uses what.
void threads(void **) {
  weir::test::Watchdog watchdog;
  for (const char *machine :
       {"sparse=1", "sparse=1;queues=2", "sparse=1;queues=3;transfer=1", "sparse=1;queues=8"}) {
    watchdog.at(machine);
    shim().reset();
    pretend(machine);
    Backend backend;
    OK(backend.result);
    std::atomic<int> wrong{0};
    const auto work = [&](uint8_t value) {
      const weir_backend_table &t = table();
      weir_be_state *s = backend.state;
      const auto must = [&](weir_result result) { wrong += result != WEIR_SUCCESS ? 1 : 0; };
      const uint64_t flags =
          value % 2 != 0 && (backend.device().capabilities & WEIR_CAP_TRANSFER_STREAM) != 0
              ? WEIR_BE_STREAM_TRANSFER
              : 0;
      weir_be_stream one = nullptr, two = nullptr;
      weir_be_granule granule = 0;
      uint64_t range = 0;
      void *memory = nullptr;
      std::atomic<int> ran{0};
      must(t.stream_create(s, 0, 0, &one));
      must(t.stream_create(s, 0, flags, &two));
      must(t.granule_create(s, 0, unit, 0, &granule));
      must(t.range_reserve(s, 0, unit, unit, &range));
      must(t.host_allocate(s, unit, &memory));
      for (int i = 0; i < 20 && wrong == 0; ++i) {
        weir_be_fence middle = 0, end = 0;
        const weir_be_copy out{address_of(memory), range, unit};
        must(t.map(s, 0, range, unit, granule, 0, nullptr, 0));
        must(t.fill_async(s, one, range, static_cast<uint8_t>(value + i), unit));
        must(t.stream_host_call(
            s, one, [](void *user) { ++*static_cast<std::atomic<int> *>(user); }, &ran));
        must(t.fence_record(s, one, &middle));
        must(t.stream_wait(s, two, middle));
        must(t.copy_async(s, two, &out));
        must(t.fence_record(s, two, &end));
        must(t.fence_wait(s, end, UINT64_MAX));
        must(t.fence_destroy(s, middle));
        must(t.fence_destroy(s, end));
        must(t.unmap(s, 0, range, unit));
        for (uint64_t k = 0; k < unit; ++k)
          wrong += static_cast<uint8_t *>(memory)[k] != static_cast<uint8_t>(value + i) ? 1 : 0;
      }
      wrong += ran != 20 ? 1 : 0;
      must(t.stream_destroy(s, one));
      must(t.stream_destroy(s, two));
      must(t.host_free(s, memory, unit));
      must(t.range_free(s, 0, range, unit));
      must(t.granule_destroy(s, 0, granule));
    };
    std::vector<std::thread> all;
    for (int i = 0; i < 4; ++i) all.emplace_back(work, static_cast<uint8_t>(i * 50 + 1));
    for (std::thread &each : all) each.join();
    if (wrong != 0) fail_msg("%s: %d wrong", machine, wrong.load());
    backend.stop();
    nothing_is_left(machine);
  }
  watchdog.stop();
}

/// Neighbours are bound by one call, work goes to the queue by one, and what was seen done is asked for no more.
void how_many_calls(void **) {
  pretend("sparse=1");
  Backend backend;
  OK(backend.result);
  const weir_backend_table &t = table();
  weir_be_state *s = backend.state;
  constexpr uint32_t count = 8;
  weir_be_piece pieces[count];
  uint64_t range = 0;
  weir_be_stream stream = nullptr;
  weir_be_fence fence = 0, second = 0;
  OK(t.range_reserve(s, 0, count * unit, unit, &range));
  for (weir_be_piece &each : pieces) {
    each = {0, 0, unit};
    OK(t.granule_create(s, 0, unit, 0, &each.granule));
  }
  // They are slices of few allocations.
  const auto calls = [&](const char *call) { return shim().calls(call); };
  const uint64_t allocations = calls("vkAllocateMemory"), binds = calls("vkQueueBindSparse");
  assert_true(allocations <= 2);
  OK(t.map_run(s, 0, range, pieces, count, nullptr, 0));
  assert_int_equal(calls("vkQueueBindSparse"), binds + 1);
  OK(t.stream_create(s, 0, 0, &stream));
  const uint64_t submits = calls("vkQueueSubmit");
  for (uint32_t i = 0; i < count; ++i) OK(t.fill_async(s, stream, range + i * unit, 1, unit));
  assert_int_equal(calls("vkQueueSubmit"), submits);
  OK(t.fence_record(s, stream, &fence));
  assert_int_equal(calls("vkQueueSubmit"), submits + 1);
  OK(t.fence_record(s, stream, &second));
  OK(t.fence_wait(s, second, UINT64_MAX));
  assert_int_equal(calls("vkQueueSubmit"), submits + 1);
  const uint64_t all = calls(nullptr);
  OK(t.fence_poll(s, fence));
  OK(t.fence_wait(s, second, UINT64_MAX));
  assert_int_equal(calls(nullptr), all);
  OK(t.unmap_run(s, 0, range, count * unit));
  assert_int_equal(calls("vkQueueBindSparse"), binds + 2);
  backend.stop();
  nothing_is_left();
}

/// A stream that only waits for another's work ends with it, and that takes no submission; once the program may submit to its queue itself the
/// wait is handed over, so that what the program does comes after it.
void the_end_of_a_wait_is_no_submission(void **) {
  weir::test::Watchdog watchdog;
  pretend("");
  const Backend backend;
  OK(backend.result);
  const weir_backend_table &t = table();
  weir_be_state *s = backend.state;
  weir_be_stream first = nullptr, second = nullptr, third = nullptr;
  uint64_t plain = 0;
  for (weir_be_stream *each : {&first, &second, &third}) OK(t.stream_create(s, 0, 0, each));
  OK(t.plain_allocate(s, 0, unit, 4096, &plain));
  weir_be_fence held = 0, end = 0, later = 0, exposed = 0;
  const auto submits = [] { return shim().calls("vkQueueSubmit"); };
  shim().stall();  // what is submitted does not end
  OK(t.fill_async(s, first, plain, 5, unit));
  OK(t.fence_record(s, first, &held));
  const uint64_t before = submits();
  OK(t.stream_wait(s, second, held));
  OK(t.fence_record(s, second, &end));
  WANT(WEIR_NOT_READY, t.fence_poll(s, end));
  WANT(WEIR_NOT_READY, t.stream_query(s, second));
  const uint64_t waited = submits();
  // The wait is still there for what comes after.
  OK(t.fill_async(s, second, plain, 7, unit));
  OK(t.fence_record(s, second, &later));
  WANT(WEIR_NOT_READY, t.fence_poll(s, later));
  const uint64_t filled = submits();
  void *native = nullptr;
  OK(t.stream_wait(s, third, end));
  OK(t.stream_native(s, third, &native));
  OK(t.fence_record(s, third, &exposed));
  const uint64_t handed = submits();
  shim().resume();
  assert_int_equal(waited, before);
  assert_int_equal(filled, before + 1);
  assert_int_equal(handed, before + 2);
  for (const weir_be_fence each : {end, later, exposed}) OK(t.fence_wait(s, each, UINT64_MAX));
  for (const weir_be_fence each : {held, end, later, exposed}) OK(t.fence_destroy(s, each));
  for (const weir_be_stream each : {first, second, third}) {
    OK(t.stream_synchronize(s, each));
    OK(t.stream_destroy(s, each));
  }
  OK(t.plain_free(s, 0, plain, unit));
}

/// What a command would touch is checked: memory that is bound nowhere takes a device down with it.
void copies_stay_inside_what_is_there(void **) {
  Bench bench;
  const Backend &backend = *bench.started;
  const weir_backend_table &t = table();
  const uint64_t submits = shim().calls("vkQueueSubmit");
  const weir_be_copy wrong[] = {
      {bench.range + unit, bench.plain, 16},      // reserved, and nothing mapped
      {bench.range + unit - 8, bench.plain, 16},  // over the end of a mapping
      {bench.plain, bench.range, 2 * unit},       // and of plain memory
      {bench.plain, 0, 16},
      {bench.plain, bench.range, 0},
      {bench.plain, UINT64_MAX - 8, 16},
  };
  for (const weir_be_copy &each : wrong)
    WANT(WEIR_ERROR_INVALID_ARGUMENT, t.copy_async(bench.s(), bench.streams[0], &each));
  WANT(WEIR_ERROR_INVALID_ARGUMENT,
       t.fill_async(bench.s(), bench.streams[0], bench.range + unit, 1, 4));
  WANT(WEIR_ERROR_INVALID_ARGUMENT,
       t.fill_async(bench.s(), bench.streams[0], address_of(bench.pinned), 1, 4));
  OK(t.stream_synchronize(bench.s(), bench.streams[0]));
  assert_int_equal(shim().calls("vkQueueSubmit"), submits);
  bench.stop();
}

}  // namespace

int main() {
  const int cannot = prepare();
  if (cannot != 0) return cannot;
  const CMUnitTest tests[] = {
      cmocka_unit_test_setup(a_blocked_call_holds_up_nobody_else, fresh),
      cmocka_unit_test_setup(a_blocked_end_of_a_stream_holds_up_nobody_else, fresh),
      cmocka_unit_test_setup(threads, fresh),
      cmocka_unit_test_setup(how_many_calls, fresh),
      cmocka_unit_test_setup(the_end_of_a_wait_is_no_submission, fresh),
      cmocka_unit_test_setup(copies_stay_inside_what_is_there, fresh),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
