// SPDX-License-Identifier: Apache-2.0
//
// Recompression: what lies idle in COMPRESSED is coded again, densely, once it has been idle for long enough and the tier is
// half full; what is used, what is wanted elsewhere, and pools that did not ask for it are left alone. Every byte stays
// right, and what is freed is counted. On a clock of the test's own, and once by the pool's own thread.

// First: the fixture's macro `ok` would meet the core's own functions of that name.
#include "core/pool/pool.hpp"

#include "tests/unit/interleaving.hpp"
#include "tests/unit/logging_sink.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>

namespace {

using namespace weir::test;

constexpr uint64_t second = 1'000'000'000;
constexpr uint64_t idle = 8 * second;
constexpr uint64_t page_granules = 16;
const uint64_t size = 2 * page_granules * page_bytes;
constexpr uint32_t count = 4;

class TestClock final : public weir::Clock {
 public:
  uint64_t now_ns() const noexcept override { return now_.load(); }
  void pass(uint64_t ns) { now_.fetch_add(ns); }

 private:
  std::atomic<uint64_t> now_{second};
} test_clock;

/// Weights of a network as they are, in bf16: normal, around 0.02 wide. What FAST makes of them is 1.4 times as short, what
/// DENSE makes 1.5 times.
std::vector<uint8_t> weights(uint32_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<uint8_t> out(size);
  for (uint64_t at = 0; at < size; at += 2) {
    const float value = normal(random);
    std::memcpy(&out[at], reinterpret_cast<const char *>(&value) + 2, 2);
  }
  return out;
}

/// A few buffers of such bytes, all in COMPRESSED.
struct Idle : World {
  weir_buffer buffers[count] = {};

  static Setup setup(uint64_t compressed_pages, const char *codec, uint64_t idle_ns,
                     uint64_t flags = WEIR_POOL_NO_BACKGROUND) {
    Setup setup;
    setup.page_granules = page_granules;
    setup.device_pages = 4 * page_granules;
    setup.host_pages = 12 * page_granules;
    setup.flags = flags;
    setup.compressed_pages = compressed_pages * page_granules;
    setup.codec = codec;
    setup.recompress_idle_ns = idle_ns;
    setup.before_pool = [](weir_context context) {
      reinterpret_cast<weir::pool::Context *>(context)->clock = &test_clock;
    };
    return setup;
  }
  explicit Idle(const Setup &how) : World(how) {
    for (uint32_t i = 0; i < count; ++i) {
      buffers[i] = buffer(size);
      put(i);
      send_down();
    }
  }
  void put(uint32_t i) { ok(weir_buffer_write(pool, buffers[i], 0, size, weights(i).data())); }
  void check(uint32_t i) {
    std::vector<uint8_t> got(size);
    ok(weir_buffer_read(pool, buffers[i], 0, size, got.data()));
    assert_true(got == weights(i));
  }
  /// On the device, by a lease.
  void use(uint32_t i) {
    weir_lease lease = nullptr;
    uint64_t address = 0;
    ok(acquire(buffers[i], WEIR_READ, &lease, &address));
    assert_true(device_bytes(address, size) == weights(i));
    ok(weir_release(lease, streams[0]));
    ok(weir_stream_synchronize(streams[0]));
  }
  void send_down() {
    ok(weir_pool_trim(pool, 0, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr));
    ok(weir_pool_trim(pool, WEIR_DEVICE_HOST, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr));
  }
  weir::pool::Engine &engine() { return reinterpret_cast<weir::pool::Pool *>(pool)->engine(); }
  void look() {
    engine().upkeep().look_at_compressed();
    assert_string_equal(engine().validate().c_str(), "");
  }
  void end() {
    for (uint32_t i = 0; i < count; ++i) check(i);
    for (uint32_t i = 0; i < count; ++i) use(i);
    for (weir_buffer each : buffers) ok(weir_buffer_destroy(pool, each));
    assert_int_equal(stats().compressed_bytes, 0);
    close();
  }
};

void idle_pages_are_coded_again(void **) {
  Idle world(Idle::setup(11, nullptr, idle));
  const weir_pool_stats before = world.stats();
  assert_int_equal(before.compressed_raw_bytes, count * size);
  assert_true(before.compressed_bytes >= before.compressed_budget / 2);
  test_clock.pass(idle - second / 2);
  world.look();
  assert_int_equal(world.stats().recompressed_bytes, 0);
  test_clock.pass(second);
  world.look();
  const weir_pool_stats after = world.stats();
  assert_true(after.recompressed_bytes >= size);
  assert_int_equal(after.recompressed_won_bytes, before.compressed_bytes - after.compressed_bytes);
  assert_true(after.recompressed_won_bytes >= after.recompressed_bytes / 40);
  assert_int_equal(after.compressed_raw_bytes, before.compressed_raw_bytes);
  // Each version once.
  test_clock.pass(4 * idle);
  world.look();
  const weir_pool_stats later = world.stats();
  test_clock.pass(4 * idle);
  world.look();
  assert_int_equal(world.stats().compressed_in_bytes, later.compressed_in_bytes);
  world.end();
}

/// It ends where the tier is not half full any more: there is room, and what is dense comes back more slowly.
void it_stops_at_half(void **) {
  Idle world(Idle::setup(11, nullptr, idle));
  test_clock.pass(2 * idle);
  world.look();
  const weir_pool_stats stats = world.stats();
  assert_true(stats.compressed_bytes < stats.compressed_budget / 2);
  assert_true(stats.compressed_bytes + 2 * page_bytes >= stats.compressed_budget / 2);
  world.end();
}

void room_enough_is_left_alone(void **) {
  Idle world(Idle::setup(12, nullptr, idle));
  assert_true(world.stats().compressed_bytes < world.stats().compressed_budget / 2);
  test_clock.pass(2 * idle);
  world.look();
  assert_int_equal(world.stats().recompressed_bytes, 0);
  world.end();
}

/// What was used within the time is not idle, also if it lies in COMPRESSED again; nor is what has a copy higher up.
void what_is_used_is_left_alone(void **) {
  Idle world(Idle::setup(8, nullptr, idle));
  for (uint32_t turn = 0; turn < 3; ++turn) {
    test_clock.pass(idle - second);
    for (uint32_t i = 0; i < count; ++i) {
      world.use(i);
      if (i % 2 == 0) world.send_down();
    }
    world.look();
    test_clock.pass(2 * second);
    world.look();
  }
  assert_int_equal(world.stats().recompressed_bytes, 0);
  world.send_down();
  for (uint32_t turn = 0; turn < 2; ++turn) {
    test_clock.pass(idle + second);
    world.look();
  }
  assert_true(world.stats().recompressed_bytes != 0);
  world.end();
}

void only_where_it_is_wanted(void **) {
  const Setup setups[] = {Idle::setup(8, "lz4", idle), Idle::setup(8, nullptr, WEIR_NONE),
                          Idle::setup(8, nullptr, 0)};
  for (const Setup &setup : setups) {
    Idle world(setup);
    constexpr uint64_t month = 30 * 24 * 3600 * second;
    test_clock.pass(month);
    world.look();
    assert_int_equal(world.stats().recompressed_bytes, 0);
    world.end();
  }
}

/// A damaged blob is not replaced by a sound one of unknown bytes: a call that reads the page is told.
void damage_is_not_covered_up(void **) {
  Idle world(Idle::setup(8, nullptr, idle));
  uint64_t bytes = 0;
  unsigned char *blob = world.engine().inspector().compressed_blob(world.buffers[1], 1, &bytes);
  assert_non_null(blob);
  blob[bytes - 1] ^= 0x10U;
  test_clock.pass(2 * idle);
  world.look();
  std::vector<uint8_t> got(size);
  expect_result(WEIR_ERROR_CORRUPT,
                weir_buffer_read(world.pool, world.buffers[1], 0, size, got.data()));
  ok(weir_discard(world.pool, world.buffers[1], 0, WEIR_WHOLE));
  world.put(1);
  world.end();
}

/// Beside everything else that a pool's threads do.
void the_pool_does_so_by_itself(void **) {
  Setup setup = Idle::setup(8, nullptr, 1, 0);
  setup.before_pool = nullptr;
  Idle world(setup);
  while (world.stats().recompressed_bytes == 0) world.send_down();
  world.end();
}

// ---- while the thread that codes a page again stands before its blobs change hands ----

/// Calls `meanwhile` while the first page of buffer 0 is coded and not yet exchanged.
template <typename Body>
void beside(Idle &world, Body meanwhile) {
  test_clock.pass(2 * idle);
  Gate gate(world.pool, "recompressed");
  Task coder([&world] {
    world.engine().upkeep().look_at_compressed();
    return weir_result{WEIR_SUCCESS};
  });
  gate.await();
  assert_string_equal(world.engine().validate().c_str(), "");
  meanwhile();
  assert_string_equal(world.engine().validate().c_str(), "");
  gate.open();
  ok(coder.join());
  assert_string_equal(world.engine().validate().c_str(), "");
}

/// No thread is about to read the old blob: it goes.
void it_is_brought_up_meanwhile(void **) {
  Idle world(Idle::setup(8, nullptr, idle));
  beside(world, [&] { world.use(0); });
  assert_true(world.stats().recompressed_bytes != 0);
  world.end();
}

/// A thread is about to: it stays where it is, and whatever is freed in its stead is another's.
void it_is_being_brought_up(void **) {
  Idle world(Idle::setup(8, nullptr, idle));
  test_clock.pass(2 * idle);
  uint64_t recoded = 0;
  {
    Stops stops(world, {"fill", "recompressed"});
    Task coder([&world] {
      world.engine().upkeep().look_at_compressed();
      return weir_result{WEIR_SUCCESS};
    });
    stops.await("recompressed");
    Task reader([&world] {
      weir_lease lease = nullptr;
      const weir_result result = world.acquire(world.buffers[0], WEIR_READ, &lease);
      return result == WEIR_SUCCESS ? weir_release(lease, world.streams[0]) : result;
    });
    stops.await("fill");
    stops.let_go("recompressed");
    ok(coder.join());
    recoded = world.stats().recompressed_bytes;
    world.put(3);
    world.send_down();
    stops.let_go("fill");
    ok(reader.join());
  }
  assert_int_equal(recoded, (count - 1) * size);  // all but its own
  world.end();
}

void each_page_has_a_range(void **) {
  LoggingSink sink;
  weir::Ranges ranges;
  ranges.add(&sink);
  Idle world(Idle::setup(8, nullptr, idle));
  world.engine().tap.set(weir::PoolRanges{&ranges, "idle"});  // the pool has no threads of its own
  test_clock.pass(2 * idle);
  world.look();
  const std::vector<RangeEvent> events = sink.log.events();
  const auto recodes = std::count_if(events.begin(), events.end(), [](const RangeEvent &event) {
    return event.begins && event.text == "recompress a page, pool \"idle\"";
  });
  assert_true(recodes > 0);
  assert_int_equal(sink.log.pushes(), sink.log.pops());
  world.end();
}

void it_is_discarded_meanwhile(void **) {
  Idle world(Idle::setup(8, nullptr, idle));
  beside(world, [&] { ok(weir_discard(world.pool, world.buffers[0], 0, WEIR_WHOLE)); });
  std::vector<uint8_t> got(size, 1);
  ok(weir_buffer_read(world.pool, world.buffers[0], 0, size, got.data()));
  assert_true(all_zero(got));
  world.put(0);
  world.end();
}

/// A new version that is in COMPRESSED before the coder goes on.
void it_is_written_and_sent_down_meanwhile(void **) {
  Idle world(Idle::setup(8, nullptr, idle));
  beside(world, [&] {
    weir_lease lease = nullptr;
    uint64_t address = 0;
    ok(world.acquire(world.buffers[0], WEIR_DISCARD_WRITE, &lease, &address));
    write_device(world.streams[0], address, weights(7).data(), size);
    ok(weir_release(lease, world.streams[0]));
    world.send_down();
  });
  std::vector<uint8_t> got(size);
  ok(weir_buffer_read(world.pool, world.buffers[0], 0, size, got.data()));
  assert_true(got == weights(7));
  world.put(0);
  world.end();
}

void it_is_destroyed_meanwhile(void **) {
  Idle world(Idle::setup(8, nullptr, idle));
  std::optional<Task> destroyer;
  beside(world, [&] {
    destroyer.emplace([&] { return weir_buffer_destroy(world.pool, world.buffers[0]); });
  });
  ok(destroyer->join());
  world.buffers[0] = world.buffer(size);
  world.put(0);
  world.end();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(idle_pages_are_coded_again),
      cmocka_unit_test(it_stops_at_half),
      cmocka_unit_test(room_enough_is_left_alone),
      cmocka_unit_test(what_is_used_is_left_alone),
      cmocka_unit_test(only_where_it_is_wanted),
      cmocka_unit_test(damage_is_not_covered_up),
      cmocka_unit_test(the_pool_does_so_by_itself),
      cmocka_unit_test(it_is_brought_up_meanwhile),
      cmocka_unit_test(it_is_being_brought_up),
      cmocka_unit_test(each_page_has_a_range),
      cmocka_unit_test(it_is_discarded_meanwhile),
      cmocka_unit_test(it_is_written_and_sent_down_meanwhile),
      cmocka_unit_test(it_is_destroyed_meanwhile),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
