// SPDX-License-Identifier: Apache-2.0
//
// A stream whose channel is full: the device takes no more of it, and the runtime keeps whoever enqueues there, or records
// a fence, until it does. That is the caller's affair. Nobody else may be kept: neither calls about other streams, nor calls
// about none, nor a host function on the full stream that waits for a thread which makes such calls.
//
// On the simulated CUDA driver, which the HIP look-alike stands on too (channel_depth in tests/drivers/sim/control.h).

#include <dlfcn.h>

#include <atomic>
#include <functional>
#include <thread>

#include "tests/abi/pool_fixture.hpp"
#include "tests/support/watchdog.hpp"

namespace {

using namespace weir::test;

constexpr uint32_t depth = 2;

uint64_t (*blocked_calls)() = nullptr;

/// The functions of a driver that has channels, or nothing to test.
bool find_driver() {
  const char *driver = std::getenv("WEIR_TEST_DRIVER");
  if (driver == nullptr) return false;
  void *library = dlopen(driver, RTLD_NOW | RTLD_LOCAL);
  void *symbol = library != nullptr ? dlsym(library, "weir_sim_blocked") : nullptr;
  std::memcpy(&blocked_calls, &symbol, sizeof symbol);
  return symbol != nullptr;
}

/// A host function that keeps its stream.
struct Gate {
  std::atomic<bool> entered{false}, open{false};
  std::function<void()> inside;  ///< called by the host function before it lets go

  static void pass(void *user) {
    auto *self = static_cast<Gate *>(user);
    self->entered = true;
    self->entered.notify_all();
    if (self->inside) self->inside();
    self->open.wait(false);
  }
  void release() {
    open = true;
    open.notify_all();
  }
};

void nothing(void *) {}

/// Fills the stream: the next call about it blocks.
void fill_up(weir_stream stream, Gate *gate) {
  ok(weir_stream_host_call(stream, Gate::pass, gate));
  gate->entered.wait(false);
  for (uint32_t i = 0; i < depth; ++i) ok(weir_stream_host_call(stream, nothing, nullptr));
}

void await_blocked(uint64_t calls) {
  while (blocked_calls() < calls) std::this_thread::yield();
}

/// A call on a thread of its own, whose result is looked at when it has ended.
struct Aside {
  weir_result result = WEIR_ERROR_BUSY;
  std::thread thread;
  template <class Call>
  explicit Aside(Call call) : thread([this, call] { result = call(); }) {}
  weir_result join() {
    thread.join();
    return result;
  }
};

struct Scene {
  World world{{.device_pages = 8, .host_pages = 64, .compressed_pages = 8}};
  weir_stream full = world.streams[0], other = nullptr;
  weir_buffer here = nullptr;   ///< used on `full`, and leased there
  weir_buffer there = nullptr;  ///< resident, used on `other`
  weir_buffer away[4] = {};     ///< of 3 pages: never all resident
  weir_lease lease = nullptr;
  Gate gate;
  Watchdog dog;

  Scene() {
    ok(weir_stream_create(world.context, 0, 0, &other));
    here = world.buffer(page_bytes);
    there = world.buffer(page_bytes);
    for (weir_buffer &each : away) {
      each = world.buffer(3 * page_bytes);
      write(each, 3 * page_bytes);
    }
    write(there, page_bytes);
    ok(world.acquire(here, WEIR_DISCARD_WRITE, &lease));
  }
  void write(weir_buffer buffer, uint64_t bytes) {
    std::vector<uint8_t> data(bytes, 7);
    ok(weir_buffer_write(world.pool, buffer, 0, bytes, data.data()));
    use(buffer, WEIR_READ);
  }
  void use(weir_buffer buffer, uint32_t mode) {
    weir_use use = WEIR_USE(buffer, mode);
    weir_lease taken = nullptr;
    ok(weir_acquire(world.pool, other, &use, 1, nullptr, &taken));
    ok(weir_release(taken, other));
  }
  void call_all();
  void call_on_buffers();
  void call_about_the_pool();

  void close() {
    dog.at("weir_pool_destroy and the like");
    ok(weir_stream_synchronize(full));
    ok(weir_buffer_destroy(world.pool, here));
    ok(weir_buffer_destroy(world.pool, there));
    for (weir_buffer each : away) ok(weir_buffer_destroy(world.pool, each));
    ok(weir_stream_close(other));
    world.close();
    dog.stop();
  }
};

#define watched(call) \
  do {                \
    dog.at(#call);    \
    ok(call);         \
  } while (false)

void note_result(void *user, weir_result result, weir_lease lease) {
  *static_cast<weir_lease *>(user) = result == WEIR_SUCCESS ? lease : nullptr;
}

void Scene::call_on_buffers() {
  weir_pool pool = world.pool;
  dog.at("acquire and release of what is resident");
  use(there, WEIR_READ);
  use(there, WEIR_READ_WRITE);
  dog.at("acquire and release of what is not");
  for (int round = 0; round < 2; ++round) {
    for (weir_buffer each : away) use(each, round == 0 ? WEIR_READ : WEIR_READ_WRITE);
  }
  dog.at("acquire of a set of ranges");
  weir_use uses[2] = {WEIR_USE(away[0], WEIR_READ_WRITE), WEIR_USE(away[1], WEIR_READ)};
  uses[0].length = 100;
  uses[1].offset = page_bytes;
  uses[1].length = page_bytes;
  weir_lease set = nullptr;
  watched(weir_acquire(pool, other, uses, 2, nullptr, &set));
  watched(weir_release(set, other));
  weir_use later = WEIR_USE(away[2], WEIR_READ);
  weir_request request = nullptr;
  watched(weir_acquire_async(pool, other, &later, 1, nullptr, note_result, &set, &request));
  watched(weir_request_wait(request, nullptr));
  weir_request_close(request);
  watched(weir_release(set, other));
  watched(weir_prefetch(pool, other, uses, 2));
  watched(weir_announce(pool, other, nullptr, 0, 0));
  for (const uint32_t advice :
       {WEIR_ADVISE_COLD, WEIR_ADVISE_STREAMING, WEIR_ADVISE_WILL_NEED, WEIR_ADVISE_NORMAL}) {
    watched(weir_advise(pool, away[3], 0, WEIR_WHOLE, advice));
    watched(weir_advise(pool, here, 0, WEIR_WHOLE, advice));
  }
  std::vector<uint8_t> bytes(3 * page_bytes);
  watched(weir_buffer_read(pool, away[3], 0, bytes.size(), bytes.data()));
  watched(weir_buffer_write(pool, away[3], 0, bytes.size(), bytes.data()));
  watched(weir_discard(pool, away[3], 0, page_bytes));
  watched(weir_buffer_set_priority(pool, away[3], WEIR_PRIORITY_HIGHEST));
  watched(weir_buffer_set_priority(pool, here, 1));
  uint64_t address = 0;
  watched(weir_hold(pool, away[0], 0, &address));
  watched(weir_unhold(pool, away[0]));
  watched(weir_hold_as(pool, away[1], 0, WEIR_READ, 0, &address));
  watched(weir_unhold(pool, away[1]));
  for (weir_stream each : {other, weir_stream(nullptr)}) {
    for (const uint64_t size : {uint64_t{300}, page_bytes}) {
      watched(weir_malloc(pool, 0, each, size, &address));
      watched(weir_free(pool, each, address));
    }
  }
}

void Scene::call_about_the_pool() {
  weir_pool pool = world.pool;
  for (weir_buffer each : {here, there, away[0]}) {
    weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
    watched(weir_buffer_info_get(pool, each, 0, WEIR_WHOLE, &info));
  }
  size_t count = 0;
  weir_shard shard;
  watched(weir_buffer_shards(pool, here, 0, &shard, 1, &count));
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = page_bytes;
  const weir_buffer_desc *asked = &desc;
  weir_device home = 0;
  watched(weir_buffer_place(pool, &asked, 1, &home));
  for (const uint64_t size : {uint64_t{500}, 2 * page_bytes}) {
    weir_buffer fresh = nullptr;
    desc.size = size;
    watched(weir_buffer_create(pool, &desc, &fresh));
    dog.at("the first lease of a buffer");
    use(fresh, WEIR_DISCARD_WRITE);
    watched(weir_buffer_destroy(pool, fresh));
  }
  weir_client_desc client_desc = WEIR_CLIENT_DESC_INIT;
  weir_client client = nullptr;
  watched(weir_client_create(pool, &client_desc, &client));
  weir_client_stats client_stats = WEIR_CLIENT_STATS_INIT;
  watched(weir_client_stats_get(client, &client_stats));
  watched(weir_client_destroy(client));
  weir_pool_stats stats = WEIR_POOL_STATS_INIT;
  watched(weir_pool_stats_get(pool, &stats));
  weir_codec_stats codec_stats = WEIR_CODEC_STATS_INIT;
  watched(weir_pool_codec_stats_get(pool, &codec_stats));
  weir_pool_device_stats device_stats = WEIR_POOL_DEVICE_STATS_INIT;
  watched(weir_pool_device_stats_get(pool, 0, &device_stats));
  watched(weir_pool_reset_peak(pool, 0));
  std::vector<char> text(1U << 16U);
  watched(weir_pool_snapshot(pool, text.data(), text.size(), nullptr));
  std::vector<weir_piece> pieces(64);
  watched(weir_pool_map(pool, pieces.data(), pieces.size(), &count));
  watched(weir_pool_lost_ranges(pool, nullptr, 0, &count));
  weir_defragment_desc defragment = WEIR_DEFRAGMENT_DESC_INIT;
  weir_defragment_report report = WEIR_DEFRAGMENT_REPORT_INIT;
  watched(weir_pool_defragment(pool, &defragment, &report));
  uint64_t freed = 0;
  watched(weir_pool_trim(pool, 0, WEIR_TRIM_GRADUAL, UINT64_MAX, &freed));
  watched(weir_pool_trim(pool, 0, WEIR_TRIM_EMERGENCY, UINT64_MAX, &freed));
  weir_stream stream = nullptr;
  watched(weir_stream_create(world.context, 0, 0, &stream));
  watched(weir_stream_synchronize(stream));
  watched(weir_stream_query(stream));
  watched(weir_stream_close(stream));
}

/// Every function that may be called beside a stuck one.
void Scene::call_all() {
  call_on_buffers();
  call_about_the_pool();
  call_on_buffers();
}

void others_go_on_while_a_release_is_stuck(void **) {
  if (blocked_calls == nullptr) skip();
  Scene scene;
  fill_up(scene.full, &scene.gate);
  Aside release([&scene] { return weir_release(scene.lease, scene.full); });
  await_blocked(1);
  scene.call_all();
  assert_int_equal(blocked_calls(), 1);
  scene.dog.at("the release itself");
  scene.gate.release();
  ok(release.join());
  scene.close();
}

/// Two releases of one stream: the second waits for its turn, and neither in anybody's way.
void releases_of_one_stream_queue_up(void **) {
  if (blocked_calls == nullptr) skip();
  Scene scene;
  weir_lease second = nullptr;
  ok(scene.world.acquire(scene.there, WEIR_READ, &second));
  fill_up(scene.full, &scene.gate);
  Aside first([&scene] { return weir_release(scene.lease, scene.full); });
  await_blocked(1);
  std::atomic<bool> begun{false};
  Aside next([&] {
    begun = true;
    return weir_release(second, scene.full);
  });
  while (!begun) std::this_thread::yield();
  scene.call_about_the_pool();
  // A lease of the stream can be had too: to take one enqueues nothing.
  scene.dog.at("acquire on the full stream itself, of what is resident");
  weir_lease third = nullptr;
  ok(scene.world.acquire(scene.there, WEIR_READ, &third));
  scene.dog.at("the releases themselves");
  scene.gate.release();
  ok(first.join());
  ok(next.join());
  ok(weir_release(third, scene.full));
  scene.close();
}

/// The acquire's stream has to wait for another's work, and is full.
void others_go_on_while_an_acquire_is_stuck(void **) {
  if (blocked_calls == nullptr) skip();
  for (const uint32_t mode : {WEIR_READ, WEIR_READ_WRITE, WEIR_DISCARD_WRITE}) {
    Scene scene;
    ok(weir_release(scene.lease, scene.full));
    ok(weir_stream_synchronize(scene.full));
    // The page's last use is on a stream that stands still, so that there is something to wait for.
    weir_stream still = nullptr;
    Gate standing;
    ok(weir_stream_create(scene.world.context, 0, 0, &still));
    weir_use use = WEIR_USE(scene.here, WEIR_READ_WRITE);
    ok(weir_acquire(scene.world.pool, still, &use, 1, nullptr, &scene.lease));
    ok(weir_stream_host_call(still, Gate::pass, &standing));
    ok(weir_release(scene.lease, still));
    fill_up(scene.full, &scene.gate);
    Aside acquire([&] { return scene.world.acquire(scene.here, mode, &scene.lease); });
    await_blocked(1);
    scene.call_all();
    if (mode == WEIR_READ) {
      scene.dog.at("a read of the same buffer on another stream");
      scene.use(scene.here, WEIR_READ);
    } else {
      scene.dog.at("a conflict");
      weir_lease none = nullptr;
      weir_use same = WEIR_USE(scene.here, WEIR_READ);
      expect_result(WEIR_ERROR_LEASE_CONFLICT,
                    weir_acquire(scene.world.pool, scene.other, &same, 1, nullptr, &none));
    }
    expect_result(WEIR_ERROR_BUSY, weir_buffer_destroy(scene.world.pool, scene.here));
    expect_result(WEIR_ERROR_BUSY, weir_pool_destroy(scene.world.pool));
    assert_int_equal(blocked_calls(), 1);
    scene.dog.at("the acquire itself");
    scene.gate.release();
    standing.release();
    ok(acquire.join());
    ok(weir_release(scene.lease, scene.full));
    ok(weir_stream_synchronize(still));
    ok(weir_stream_close(still));
    scene.close();
  }
}

/// What a host function may not do itself (it must not call Weir) it can wait for: then nothing that another thread calls
/// may depend on the stream going on.
void a_host_function_waits_for_calls(void **) {
  if (blocked_calls == nullptr) skip();
  Scene scene;
  std::atomic<bool> called{false};
  scene.gate.inside = [&called] { called.wait(false); };
  scene.gate.open = true;
  fill_up(scene.full, &scene.gate);
  Aside release([&scene] { return weir_release(scene.lease, scene.full); });
  await_blocked(1);
  Aside helper([&] {
    scene.call_all();
    called = true;
    called.notify_all();
    return WEIR_SUCCESS;
  });
  ok(helper.join());
  scene.dog.at("the release itself");
  ok(release.join());
  scene.close();
}

}  // namespace

int main() {
  if (find_driver())
    // What keeps a stream here stands for a kernel: it may not keep other streams' host functions.
    setenv("WEIR_TEST_MACHINE",
           ("serial_host_calls=0;channel_depth=" + std::to_string(depth)).c_str(), 1);
  const CMUnitTest tests[] = {
      cmocka_unit_test(others_go_on_while_a_release_is_stuck),
      cmocka_unit_test(releases_of_one_stream_queue_up),
      cmocka_unit_test(others_go_on_while_an_acquire_is_stuck),
      cmocka_unit_test(a_host_function_waits_for_calls),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
