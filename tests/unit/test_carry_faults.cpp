// SPDX-License-Identifier: Apache-2.0
//
// Copies over a device in between, through the host and several ways at once, with each backend call and allocation failing
// once; and with the device in between lost at every call: neither the source nor the destination is blamed, and the
// bytes come by another way.

#include "tests/unit/fault_sweep.hpp"
#include "tests/unit/losing_host.hpp"

#include "tests/unit/routed.hpp"

namespace {

using namespace weir::test;

// ---- each call fails once ----

struct Roads : Subject {
  weir_stream streams[2] = {};

  void open(Balance *balance, const std::string &options, uint64_t page) {
    open_context(balance, options.c_str());
    if (options == three_small_ways) split_small(context);
    weir_pool_device devices[3] = {};
    for (uint32_t i = 0; i < 3; ++i) devices[i] = {i, 0, 40 * page, {0, 0}};
    weir_pool_desc desc = WEIR_POOL_DESC_INIT;
    desc.devices = devices;
    desc.device_count = 3;
    desc.host_budget = 64 * page;
    desc.page_size = desc.large_page_size = page;
    desc.flags = WEIR_POOL_NO_BACKGROUND;
    open_pool(desc);
    streams[0] = stream;
    twice("weir_stream_create", [&] { return weir_stream_create(context, 1, 0, &streams[1]); });
  }
  void work(uint64_t bytes, uint32_t turns) {
    add(bytes);
    fill(0, 1);
    for (uint32_t turn = 0; turn < turns; ++turn) {
      stream = streams[1];
      check(0, "on the other device");
      fill(0, 2 + 2 * turn);
      stream = streams[0];
      check(0, "back");
      fill(0, 3 + 2 * turn);
      // What it took in between may have to be given back now.
      twice("weir_pool_trim",
            [&] { return weir_pool_trim(pool, 2, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr); });
    }
    check_read(0);
  }
  weir_pool_stats stats() {
    weir_pool_stats out{};
    out.struct_size = sizeof(out);
    ok(weir_pool_stats_get(pool, &out));
    return out;
  }
  void end() {
    destroy_buffers();
    for (const weir_device device :
         {weir_device{0}, weir_device{1}, weir_device{2}, weir_device{WEIR_DEVICE_HOST}})
      twice("weir_pool_trim",
            [&] { return weir_pool_trim(pool, device, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr); });
    assert_int_equal(reinterpret_cast<weir::pool::Pool *>(pool)->engine().validate().size(), 0);
    assert_int_equal(stats().device_bytes, 0);
    assert_int_equal(stats().host_bytes, 0);
    ok(weir_stream_close(streams[1]));
    stream = streams[0];
    close();
  }
};

void sweep_roads(Kind kind, const std::string &options) {
  const bool split = options == three_small_ways;
  const uint64_t page = split ? small_page : page_bytes;
  uint64_t relayed = 0, staged = 0, both = 0;
  sweep(kind, 0, 2, [&](Balance *balance) {
    Roads roads;
    roads.open(balance, options, page);
    roads.work(split ? small_large : 8 * page_bytes, split ? 1 : 2);
    relayed = std::max(relayed, roads.stats().relayed_bytes);
    staged = std::max(staged, roads.stats().host_relayed_bytes);
    both = std::max(both, roads.stats().split_bytes);
    roads.end();
  });
  assert_int_equal(relayed != 0, options != apart);
  assert_true(staged != 0 || !split);
  assert_int_equal(both != 0, split);
}

void relay_backend(void **) { sweep_roads(Kind::backend, around_a_corner); }
void relay_memory(void **) { sweep_roads(Kind::device_oom, around_a_corner); }
void relay_allocator(void **) { sweep_roads(Kind::allocator, around_a_corner); }
void staged_backend(void **) { sweep_roads(Kind::backend, apart); }
void staged_allocator(void **) { sweep_roads(Kind::allocator, apart); }
void split_backend(void **) { sweep_roads(Kind::backend, three_small_ways); }
void split_memory(void **) { sweep_roads(Kind::device_oom, three_small_ways); }

// ---- the device in between is lost ----

/// The positions at which it is lost while the copies are under way; everything is right at all of them.
void loss_in_between(const std::string &options, uint64_t page, uint64_t bytes) {
  uint64_t rerouted = 0;
  for (int64_t n = 1;; n += stride()) {
    losing.reset(2);
    World world = routed(options, page, 40, WEIR_POOL_NO_BACKGROUND, Losing::query);
    weir_buffer buffer = world.buffer(bytes, 0);
    world.fill(buffer, bytes, 1, 0);
    losing.lose_at(n);
    world.check(buffer, bytes, 1, 1);
    world.fill(buffer, bytes, 2, 1);
    world.check(buffer, bytes, 2, 0);
    world.fill(buffer, bytes, 3, 0);
    const bool lost = losing.struck();
    world.check(buffer, bytes, 3, 1);
    validate(world);
    const weir_pool_stats stats = world.stats();
    assert_int_equal(stats.peer_bytes, 3 * bytes);
    if (stats.relayed_bytes != stats.peer_bytes) ++rerouted;
    ok(weir_buffer_destroy(world.pool, buffer));
    for (uint32_t device = 0; device < 3; ++device)
      (void)weir_pool_trim(world.pool, device, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr);
    validate(world);
    world.close();
    if (!lost) {
      print_message("%lld positions\n", static_cast<long long>(n - 1));
      assert_true(n > 20);
      break;
    }
  }
  assert_true(rerouted > 0);
}

void lost_while_it_relays(void **) { loss_in_between(around_a_corner, page_bytes, 8 * page_bytes); }
void lost_while_it_has_a_share(void **) {
  loss_in_between(three_small_ways, small_page, small_large);
}

}  // namespace

int main(int argc, char **argv) {
  if (!Target::get().host()) return 77;  // only the host backend is told what its links are like
  const CMUnitTest tests[] = {
      cmocka_unit_test(relay_backend),
      cmocka_unit_test(relay_memory),
      cmocka_unit_test(relay_allocator),
      cmocka_unit_test(staged_backend),
      cmocka_unit_test(staged_allocator),
      cmocka_unit_test(split_backend),
      cmocka_unit_test(split_memory),
      cmocka_unit_test(lost_while_it_relays),
      cmocka_unit_test(lost_while_it_has_a_share),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
