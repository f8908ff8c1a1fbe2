// SPDX-License-Identifier: Apache-2.0
//
// The simulated Level Zero driver's command lists and events: what orders commands and what does not, what is misuse, and
// what a lost device does to work. The driver holds unordered commands back for a minute here, so that nothing
// depends on how fast the test is.
#include "tests/backends/level_zero_rig.hpp"

#include <atomic>

namespace {

using namespace weir::test;

constexpr size_t K = 1024;
constexpr const char *machine = "memory=32M;granule=64K";
constexpr const char *patient = "hold_us=60000000";

/// Memory of a device, its copy on the host, and a list to write it with.
class Desk {
 public:
  explicit Desk(Rig &rig, uint32_t flags = 0, uint32_t device = 0)
      : list(rig.list(device, 0, flags)),
        memory(rig.plain(64 * K, device)),
        host(rig.host(64 * K)),
        rig_(rig),
        reader_(rig.list(device, 0, 0, ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS)) {
    std::memset(host, 0, 64 * K);
    for (int i = 0; i < 8; ++i) std::memset(host + i * 4 * K, 'a' + i, 4 * K);
  }
  ~Desk() {
    assert_ok(ze.zeCommandListDestroy(list));
    assert_ok(ze.zeCommandListDestroy(reader_));
    rig_.free(memory);
    rig_.free(host);
  }
  Desk(const Desk &) = delete;
  Desk &operator=(const Desk &) = delete;

  /// Writes the letter to all of the first page.
  void write(char letter, ze_event_handle_t signal = nullptr,
             std::vector<ze_event_handle_t> waits = {}) {
    assert_ok(ze.zeCommandListAppendMemoryCopy(list, memory, host + (letter - 'a') * 4 * K, 4 * K,
                                               signal, static_cast<uint32_t>(waits.size()),
                                               waits.data()));
  }
  void barrier(ze_event_handle_t signal = nullptr, std::vector<ze_event_handle_t> waits = {}) {
    assert_ok(ze.zeCommandListAppendBarrier(list, signal, static_cast<uint32_t>(waits.size()),
                                            waits.empty() ? nullptr : waits.data()));
  }
  /// The letter that lies there now.
  char read() {
    char *to = host + 60 * K;
    assert_ok(ze.zeCommandListAppendMemoryCopy(reader_, to, memory, 4 * K, nullptr, 0, nullptr));
    return to[4 * K - 1];
  }
  /// Ends all work of the list.
  void finish(ze_event_handle_t event) {
    barrier(event);
    wait(event);
  }
  static void wait(ze_event_handle_t event) {
    assert_ok(ze.zeEventHostSynchronize(event, UINT64_MAX));
  }

  ze_command_list_handle_t list;
  char *memory, *host;

 private:
  Rig &rig_;
  ze_command_list_handle_t reader_;
};

void appends_are_not_in_order(void **) {
  for (int round = 0; round < 20; ++round) {
    Rig rig(machine, patient);
    {
      Desk desk(rig);
      Events events(rig, 1);
      desk.write('a');
      desk.write('b');
      desk.finish(events[0]);
      assert_int_equal(desk.read(), 'a');  // the later one ran first
    }
  }
}

void a_signal_overtakes_a_copy(void **) {
  Rig rig(machine, patient);
  Desk desk(rig);
  Events events(rig, 2);
  desk.write('a');
  desk.finish(events[0]);
  desk.write('b');
  assert_ok(ze.zeCommandListAppendSignalEvent(desk.list, events[1]));
  desk.wait(events[1]);
  assert_int_equal(desk.read(), 'a');
  assert_ok(ze.zeEventHostReset(events[0]));
  desk.finish(events[0]);
  assert_int_equal(desk.read(), 'b');
}

void held_commands_run_in_the_end(void **) {
  Rig rig(machine, "hold_us=100");
  Desk desk(rig);
  desk.write('c');
  while (ze.weir_sim_level_zero_busy_lists() != 0) std::this_thread::yield();
  assert_int_equal(desk.read(), 'c');
  Events events(rig, 1);
  desk.finish(events[0]);
}

void barriers_order(void **) {
  Rig rig(machine, patient);
  Desk desk(rig);
  Events events(rig, 1);
  desk.write('a');
  desk.barrier();
  desk.write('b');
  desk.barrier();
  desk.write('c');
  desk.finish(events[0]);
  assert_int_equal(desk.read(), 'c');
}

void a_barrier_with_events_waits_for_these_only(void **) {
  Rig rig(machine, patient);
  Desk desk(rig);
  Events events(rig, 3);
  desk.write('a');
  desk.barrier(events[1], {events[0]});
  assert_ze(ZE_RESULT_NOT_READY, ze.zeEventQueryStatus(events[1]));
  assert_ok(ze.zeEventHostSignal(events[0]));
  desk.wait(events[1]);
  assert_int_equal(desk.read(), 0);  // the write before the barrier has not run
  desk.finish(events[2]);
  assert_int_equal(desk.read(), 'a');
}

void events_order(void **) {
  Rig rig(machine, patient);
  Desk desk(rig);
  Events events(rig, 4);
  desk.write('a', events[0]);
  desk.write('b', events[1], {events[0]});
  desk.write('c', events[2], {events[0], events[1]});
  desk.wait(events[2]);
  assert_int_equal(desk.read(), 'c');
  assert_ok(ze.zeEventQueryStatus(events[0]));
  desk.finish(events[3]);
}

void a_wait_holds_up_what_follows(void **) {
  Rig rig(machine, patient);
  Desk desk(rig);
  Events events(rig, 4);
  ze_event_handle_t first = events[0];
  desk.write('a', events[3]);
  assert_ok(ze.zeCommandListAppendWaitOnEvents(desk.list, 1, &first));
  desk.write('b', events[1]);
  desk.barrier(events[2]);
  desk.wait(events[3]);  // however busy the machine is, the write has run
  assert_ze(ZE_RESULT_NOT_READY, ze.zeEventHostSynchronize(events[2], 2'000'000));
  assert_int_equal(desk.read(), 'a');
  assert_ok(ze.zeEventHostSignal(events[0]));
  desk.wait(events[2]);
  assert_int_equal(desk.read(), 'b');
}

void lists_wait_for_each_other(void **) {
  Rig rig("devices=2;memory=32M;granule=64K;links=nvlink", patient);
  Desk one(rig), two(rig, 0, 1);
  Events events(rig, 3);
  // A copy to the other device's memory, which waits for that device's own write.
  ze_event_handle_t first = events[0];
  assert_ok(ze.zeCommandListAppendMemoryCopy(one.list, two.memory, one.host + 4 * K, 4 * K,
                                             events[1], 1, &first));
  two.write('h', events[0]);
  one.wait(events[1]);
  assert_int_equal(two.read(), 'b');
  one.finish(events[2]);
}

void in_order_lists_keep_order(void **) {
  Rig rig("memory=32M;granule=64K;version=1009", patient);
  Desk desk(rig, 2);
  Events events(rig, 1);
  for (const char letter : {'a', 'b', 'c', 'd'}) desk.write(letter);
  assert_ok(ze.zeCommandListAppendSignalEvent(desk.list, events[0]));
  desk.wait(events[0]);
  assert_int_equal(desk.read(), 'd');
}

void fills_repeat_a_pattern(void **) {
  Rig rig(machine, patient);
  Desk desk(rig);
  Events events(rig, 1);
  const uint32_t pattern = 0x64636261;
  assert_ok(ze.zeCommandListAppendMemoryFill(desk.list, desk.memory, &pattern, 4, 4 * K, events[0],
                                             0, nullptr));
  desk.wait(events[0]);
  assert_int_equal(desk.read(), 'd');
  assert_ze(ZE_RESULT_ERROR_INVALID_SIZE,
            ze.zeCommandListAppendMemoryFill(desk.list, desk.memory, &pattern, 4, 6, nullptr, 0,
                                             nullptr));
  rig.expect_misuse("pattern");
}

void events_are_signalled_once(void **) {
  Rig rig(machine, patient);
  {
    Desk desk(rig);
    Events events(rig, 3);
    desk.write('a', events[0]);
    desk.wait(events[0]);
    desk.write('b', events[0]);
    desk.finish(events[1]);
    rig.expect_misuse("twice");
    assert_ze(ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT, ze.zeEventHostSignal(events[0]));
    rig.expect_misuse();
    assert_ok(ze.zeEventHostReset(events[0]));
    assert_ze(ZE_RESULT_NOT_READY, ze.zeEventQueryStatus(events[0]));
    assert_ze(ZE_RESULT_NOT_READY, ze.zeEventHostSynchronize(events[0], 0));
    desk.write('c', events[0]);
    desk.wait(events[0]);
    assert_int_equal(desk.read(), 'c');
    assert_ok(ze.zeCommandListAppendEventReset(desk.list, events[0]));
    desk.finish(events[2]);
    assert_ze(ZE_RESULT_NOT_READY, ze.zeEventQueryStatus(events[0]));
  }
}

void events_in_use_stay_as_they_are(void **) {
  Rig rig(machine, patient);
  Desk desk(rig);
  Events events(rig, 2);
  desk.write('a', events[1], {events[0]});
  for (int i = 0; i < 2; ++i) {
    assert_ze(ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT,
              ze.zeEventHostReset(events[static_cast<size_t>(i)]));
    rig.expect_misuse("reset while");
    assert_ze(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE,
              ze.zeEventDestroy(events[static_cast<size_t>(i)]));
    rig.expect_misuse();
  }
  assert_ze(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, ze.zeCommandListDestroy(desk.list));
  rig.expect_misuse();
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT, ze.zeMemFree(rig.context, desk.memory));
  rig.expect_misuse();
  assert_ok(ze.zeEventHostSignal(events[0]));
  desk.wait(events[1]);
}

void a_device_reset_can_come_too_early(void **) {
  Rig rig(machine, patient);
  Desk desk(rig), other(rig);
  Events events(rig, 3);
  desk.write('a', nullptr, {events[0], events[1]});
  assert_ok(ze.zeCommandListAppendEventReset(other.list, events[0]));
  other.finish(events[2]);
  rig.expect_misuse("zeCommandListAppendEventReset");
  assert_ok(ze.zeEventHostSignal(events[0]));
  assert_ok(ze.zeEventHostSignal(events[1]));
  assert_ok(ze.zeEventHostReset(events[2]));
  desk.finish(events[2]);
}

void pools_have_limits(void **) {
  Rig rig(machine);
  const auto pool = rig.pool(2);
  const auto event = rig.event(pool, 1);
  ze_event_handle_t none = nullptr;
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT, rig.event(pool, 2, &none));
  rig.expect_misuse("index 2");
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT, rig.event(pool, 1, &none));
  rig.expect_misuse();
  assert_ze(ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, ze.zeEventPoolDestroy(pool));
  rig.expect_misuse();
  assert_ok(ze.zeEventDestroy(event));
  assert_ok(ze.zeEventDestroy(rig.event(pool, 1)));
  assert_ok(ze.zeEventPoolDestroy(pool));
  const ze_event_pool_desc_t empty{ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, nullptr, 0, 0};
  ze_event_pool_handle_t nothing = nullptr;
  assert_ze(ZE_RESULT_ERROR_INVALID_SIZE,
            ze.zeEventPoolCreate(rig.context, &empty, 0, nullptr, &nothing));
  rig.expect_misuse();
  // The host sees events of pools that were made for it, and no others.
  const auto hidden = rig.pool(1, 0);
  const auto unseen = rig.event(hidden, 0);
  assert_ze(ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT, ze.zeEventQueryStatus(unseen));
  rig.expect_misuse();
  assert_ok(ze.zeEventDestroy(unseen));
  assert_ok(ze.zeEventPoolDestroy(hidden));
}

void pools_are_for_their_devices(void **) {
  Rig rig("devices=2;memory=32M");
  const ze_event_pool_desc_t desc{ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, nullptr,
                                  ZE_EVENT_POOL_FLAG_HOST_VISIBLE, 1};
  ze_event_pool_handle_t pool = nullptr;
  assert_ok(ze.zeEventPoolCreate(rig.context, &desc, 1, &rig.devices[1], &pool));
  const auto event = rig.event(pool, 0);
  const auto list = rig.list(0);
  assert_ze(ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT,
            ze.zeCommandListAppendSignalEvent(list, event));
  rig.expect_misuse("not visible to device 0");
  assert_ok(ze.zeCommandListDestroy(list));
  assert_ok(ze.zeEventDestroy(event));
  assert_ok(ze.zeEventPoolDestroy(pool));
}

void unmapping_does_not_wait(void **) {
  Rig rig(machine, patient);
  Desk desk(rig);
  Events events(rig, 2);
  char *range = rig.reserve(64 * K);
  const auto memory = rig.physical(64 * K);
  assert_ok(rig.map(range, 64 * K, memory));
  ze_event_handle_t first = events[0];
  assert_ok(
      ze.zeCommandListAppendMemoryCopy(desk.list, range, desk.host, 4 * K, events[1], 1, &first));
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT, ze.zeVirtualMemUnmap(rig.context, range, 64 * K));
  rig.expect_misuse("unmapping does not wait");
  assert_ok(ze.zeEventHostSignal(first));
  desk.wait(events[1]);
  assert_ok(ze.zeVirtualMemUnmap(rig.context, range, 64 * K));
  assert_ok(ze.zeVirtualMemFree(rig.context, range, 64 * K));
  assert_ok(ze.zePhysicalMemDestroy(rig.context, memory));
}

void copies_stay_inside_one_range(void **) {
  Rig rig(machine, patient);
  Desk desk(rig);
  char *range = rig.reserve(128 * K);
  const auto a = rig.physical(64 * K), b = rig.physical(64 * K);
  assert_ok(rig.map(range, 64 * K, a));
  assert_ok(rig.map(range + 64 * K, 64 * K, b));
  const auto copy = [&](void *to, const void *from, size_t bytes) {
    return ze.zeCommandListAppendMemoryCopy(desk.list, to, from, bytes, nullptr, 0, nullptr);
  };
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT, copy(range + 62 * K, desk.host, 4 * K));
  rig.expect_misuse("two mappings");
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT, copy(desk.memory + 62 * K, desk.host, 4 * K));
  rig.expect_misuse();
  assert_ze(ZE_RESULT_ERROR_OVERLAPPING_REGIONS, copy(desk.memory + K, desk.memory, 4 * K));
  rig.expect_misuse();
  assert_ze(ZE_RESULT_ERROR_INVALID_NULL_POINTER, copy(nullptr, desk.memory, 4 * K));
  rig.expect_misuse();
  assert_ok(ze.zeVirtualMemFree(rig.context, range, 128 * K));
  assert_ok(ze.zePhysicalMemDestroy(rig.context, a));
  assert_ok(ze.zePhysicalMemDestroy(rig.context, b));
}

void peers_must_be_reachable(void **) {
  Rig rig("devices=2;memory=32M;granule=64K;links=none", patient);
  Desk desk(rig);
  char *far = rig.plain(64 * K, 1);
  assert_ze(
      ZE_RESULT_ERROR_INVALID_ARGUMENT,
      ze.zeCommandListAppendMemoryCopy(desk.list, desk.memory, far, 4 * K, nullptr, 0, nullptr));
  rig.expect_misuse("zeCommandListAppendMemoryCopy");
  rig.free(far);
}

void strict_memory_is_written_all_the_same(void **) {
  Rig rig("memory=32M;granule=64K;mode=strict", patient);
  Desk desk(rig);
  Events events(rig, 1);
  desk.write('e');
  desk.finish(events[0]);
  assert_int_equal(desk.read(), 'e');
}

void two_threads_in_one_list_are_found_out(void **) {
  Rig rig("memory=32M;granule=64K;hang=zeCommandListAppendBarrier", patient);
  Desk desk(rig);
  std::thread hanging(
      [&] { assert_ok(ze.zeCommandListAppendBarrier(desk.list, nullptr, 0, nullptr)); });
  while (ze.weir_sim_calls("zeCommandListAppendBarrier") == 0) std::this_thread::yield();
  assert_ze(ZE_RESULT_ERROR_INVALID_ARGUMENT,
            ze.zeCommandListAppendMemoryCopy(desk.list, desk.memory, desk.host, 4 * K, nullptr, 0,
                                             nullptr));
  rig.expect_misuse("another thread");
  ze.weir_sim_resume();
  hanging.join();
  Events events(rig, 1);
  desk.finish(events[0]);  // now one at a time
}

void a_lost_device_ends_its_work(void **) {
  Rig rig("devices=2;memory=32M;granule=64K", patient);
  const auto one = rig.list(0), two = rig.list(1);
  {
    Events events(rig, 4);
    ze_event_handle_t never = events[0], first = events[1];
    // The first list waits for ever; the second, on a healthy device, waits for the first.
    assert_ok(ze.zeCommandListAppendBarrier(one, events[1], 1, &never));
    assert_ok(ze.zeCommandListAppendBarrier(two, events[2], 1, &first));
    std::atomic<bool> waiting{false};
    std::thread waiter([&] {
      waiting = true;
      assert_ze(ZE_RESULT_ERROR_DEVICE_LOST, ze.zeEventHostSynchronize(events[2], UINT64_MAX));
    });
    while (!waiting) std::this_thread::yield();
    ze.weir_sim_lose_device(0);
    waiter.join();
    assert_ze(ZE_RESULT_ERROR_DEVICE_LOST, ze.zeEventQueryStatus(events[1]));
    assert_ze(ZE_RESULT_ERROR_DEVICE_LOST, ze.zeCommandListAppendBarrier(one, nullptr, 0, nullptr));
    assert_ze(ZE_RESULT_ERROR_DEVICE_LOST, ze.zeDeviceGetStatus(rig.devices[0]));
    assert_ok(ze.zeDeviceGetStatus(rig.devices[1]));
    void *memory = nullptr;
    assert_ze(ZE_RESULT_ERROR_DEVICE_LOST, rig.plain(4 * K, &memory, 0));
    // The other device goes on.
    const auto healthy = rig.list(1);
    assert_ok(ze.zeCommandListAppendBarrier(healthy, events[3], 0, nullptr));
    assert_ok(ze.zeEventHostSynchronize(events[3], UINT64_MAX));
    assert_ok(ze.zeCommandListDestroy(healthy));
    assert_ok(ze.zeCommandListDestroy(one));
    assert_ze(ZE_RESULT_ERROR_DEVICE_LOST, ze.zeEventQueryStatus(events[1]));
    assert_ok(ze.zeCommandListDestroy(two));
  }
}

void a_machine_ends_with_work_that_never_would(void **) {
  {
    Rig rig(machine, patient);
    const auto list = rig.list();
    char *memory = rig.plain(64 * K), *host = rig.host(4 * K);
    ze_event_handle_t never = rig.event(rig.pool(1), 0);
    assert_ok(ze.zeCommandListAppendMemoryCopy(list, memory, host, 4 * K, nullptr, 1, &never));
    rig.leave_it_so();
  }
  Rig next;  // ends the machine before
}

void many_threads_at_once(void **) {
  Rig rig("devices=2;memory=32M;granule=64K;links=nvlink", "hold_us=50");
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&rig, t] {
      Desk desk(rig, 0, t % 2);
      Events events(rig, 2);
      for (int i = 0; i < 100; ++i) {
        const char letter = static_cast<char>('a' + i % 8);
        desk.write('h', events[0]);
        desk.write(letter, nullptr, {events[0]});
        desk.finish(events[1]);
        assert_int_equal(desk.read(), letter);
        assert_ok(ze.zeEventHostReset(events[0]));
        assert_ok(ze.zeEventHostReset(events[1]));
        char *range = rig.reserve(64 * K);
        const auto memory = rig.physical(64 * K, t % 2);
        assert_ok(rig.map(range, 64 * K, memory));
        assert_ok(ze.zeVirtualMemUnmap(rig.context, range, 64 * K));
        assert_ok(ze.zePhysicalMemDestroy(rig.context, memory));
        assert_ok(ze.zeVirtualMemFree(rig.context, range, 64 * K));
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
}

int group() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(appends_are_not_in_order),
      cmocka_unit_test(a_signal_overtakes_a_copy),
      cmocka_unit_test(held_commands_run_in_the_end),
      cmocka_unit_test(barriers_order),
      cmocka_unit_test(a_barrier_with_events_waits_for_these_only),
      cmocka_unit_test(events_order),
      cmocka_unit_test(a_wait_holds_up_what_follows),
      cmocka_unit_test(lists_wait_for_each_other),
      cmocka_unit_test(in_order_lists_keep_order),
      cmocka_unit_test(fills_repeat_a_pattern),
      cmocka_unit_test(events_are_signalled_once),
      cmocka_unit_test(events_in_use_stay_as_they_are),
      cmocka_unit_test(a_device_reset_can_come_too_early),
      cmocka_unit_test(pools_have_limits),
      cmocka_unit_test(pools_are_for_their_devices),
      cmocka_unit_test(unmapping_does_not_wait),
      cmocka_unit_test(copies_stay_inside_one_range),
      cmocka_unit_test(peers_must_be_reachable),
      cmocka_unit_test(strict_memory_is_written_all_the_same),
      cmocka_unit_test(two_threads_in_one_list_are_found_out),
      cmocka_unit_test(a_lost_device_ends_its_work),
      cmocka_unit_test(a_machine_ends_with_work_that_never_would),
      cmocka_unit_test(many_threads_at_once),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}

}  // namespace

int main() { return weir::test::run("test_sim_level_zero_commands", group); }
