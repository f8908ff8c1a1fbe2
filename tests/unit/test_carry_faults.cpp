// SPDX-License-Identifier: Apache-2.0
//
// Copies over a device in between, through the host and several ways at once, with each backend call and allocation failing
// once; and with the device in between lost at every call: neither the source nor the destination is blamed, and the
// bytes come by another way.

#include <mutex>

#include "tests/unit/fault_sweep.hpp"

#include "tests/unit/routed.hpp"

namespace {

using namespace weir::test;

// ---- each call fails once ----

struct Roads : Subject {
  weir_stream streams[2] = {};

  void open(Balance *balance, const std::string &options, uint64_t page) {
    open_context(balance, options.c_str());
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
  const bool split = options == three_ways;
  const uint64_t page = split ? large_page : page_bytes;
  uint64_t relayed = 0, staged = 0, both = 0;
  sweep(kind, 0, 2, [&](Balance *balance) {
    Roads roads;
    roads.open(balance, options, page);
    roads.work(split ? large : 8 * page_bytes, split ? 1 : 2);
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
void split_backend(void **) { sweep_roads(Kind::backend, three_ways); }
void split_memory(void **) { sweep_roads(Kind::device_oom, three_ways); }

// ---- the device in between is lost ----

/// The host backend, of which device 2 is lost from the n-th call on: whatever names it, its streams or its memory says so.
struct Losing {
  static constexpr uint32_t victim = 2;
  std::mutex mutex;
  const weir_backend_table *real = nullptr;
  weir_backend_table table{};
  int64_t left = INT64_MAX;
  bool lost = false;
  std::map<weir_be_stream, uint32_t> streams;
  std::map<weir_be_fence, uint32_t> fences;
  std::map<uint64_t, std::pair<uint64_t, uint32_t>> ranges;  ///< address: end, device

  void reset(int64_t n) {
    streams.clear();
    fences.clear();
    ranges.clear();
    left = n;
    lost = false;
  }
  uint32_t device_of(uint64_t address) {
    auto after = ranges.upper_bound(address);
    if (after == ranges.begin()) return WEIR_DEVICE_HOST;
    --after;
    return address < after->second.first ? after->second.second : WEIR_DEVICE_HOST;
  }
  /// Counts a call; whether it concerns what is lost.
  bool strikes(uint32_t device, uint32_t other = WEIR_DEVICE_HOST,
               uint32_t third = WEIR_DEVICE_HOST) {
    if (left > 0 && --left == 0) lost = true;
    return lost && (device == victim || other == victim || third == victim);
  }
};
Losing losing;

#define LOSE(condition)                                          \
  {                                                              \
    const std::lock_guard hold(losing.mutex);                    \
    if (losing.strikes condition) return WEIR_ERROR_DEVICE_LOST; \
  }

const weir_backend_table *losing_query(uint32_t abi_major) {
  losing.real = weir_host_backend_query(abi_major);
  losing.table = *losing.real;
  weir_backend_table &t = losing.table;
  t.granule_create = [](weir_be_state *s, uint32_t d, uint64_t bytes, uint64_t flags,
                        weir_be_granule *out) -> weir_result {
    LOSE((d));
    return losing.real->granule_create(s, d, bytes, flags, out);
  };
  t.range_reserve = [](weir_be_state *s, uint32_t d, uint64_t bytes, uint64_t alignment,
                       uint64_t *address) -> weir_result {
    LOSE((d));
    const weir_result result = losing.real->range_reserve(s, d, bytes, alignment, address);
    const std::lock_guard hold(losing.mutex);
    if (result == WEIR_SUCCESS) losing.ranges[*address] = {*address + bytes, d};
    return result;
  };
  t.range_free = [](weir_be_state *s, uint32_t d, uint64_t address, uint64_t bytes) -> weir_result {
    {
      const std::lock_guard hold(losing.mutex);
      losing.ranges.erase(address);
    }
    return losing.real->range_free(s, d, address, bytes);
  };
  t.map = [](weir_be_state *s, uint32_t d, uint64_t address, uint64_t bytes, weir_be_granule g,
             uint64_t offset, const uint32_t *peers, uint32_t count) -> weir_result {
    LOSE((d));
    return losing.real->map(s, d, address, bytes, g, offset, peers, count);
  };
  t.unmap = [](weir_be_state *s, uint32_t d, uint64_t address, uint64_t bytes) -> weir_result {
    LOSE((d));
    return losing.real->unmap(s, d, address, bytes);
  };
  t.stream_create = [](weir_be_state *s, uint32_t d, uint64_t flags,
                       weir_be_stream *out) -> weir_result {
    LOSE((d));
    const weir_result result = losing.real->stream_create(s, d, flags, out);
    const std::lock_guard hold(losing.mutex);
    if (result == WEIR_SUCCESS) losing.streams[*out] = d;
    return result;
  };
  t.stream_synchronize = [](weir_be_state *s, weir_be_stream stream) -> weir_result {
    LOSE((losing.streams[stream]));
    return losing.real->stream_synchronize(s, stream);
  };
  t.fence_record = [](weir_be_state *s, weir_be_stream stream, weir_be_fence *out) -> weir_result {
    LOSE((losing.streams[stream]));
    const weir_result result = losing.real->fence_record(s, stream, out);
    const std::lock_guard hold(losing.mutex);
    losing.fences[*out] = losing.streams[stream];
    return result;
  };
  t.stream_wait = [](weir_be_state *s, weir_be_stream stream, weir_be_fence f) -> weir_result {
    LOSE((losing.streams[stream], losing.fences[f]));
    return losing.real->stream_wait(s, stream, f);
  };
  t.fence_poll = [](weir_be_state *s, weir_be_fence f) -> weir_result {
    LOSE((losing.fences[f]));
    return losing.real->fence_poll(s, f);
  };
  t.fence_wait = [](weir_be_state *s, weir_be_fence f, uint64_t timeout) -> weir_result {
    LOSE((losing.fences[f]));
    return losing.real->fence_wait(s, f, timeout);
  };
  t.copy_async = [](weir_be_state *s, weir_be_stream stream,
                    const weir_be_copy *copy) -> weir_result {
    LOSE((losing.streams[stream], losing.device_of(copy->source),
          losing.device_of(copy->destination)));
    return losing.real->copy_async(s, stream, copy);
  };
  t.fill_async = [](weir_be_state *s, weir_be_stream stream, uint64_t address, uint8_t value,
                    uint64_t bytes) -> weir_result {
    LOSE((losing.streams[stream], losing.device_of(address)));
    return losing.real->fill_async(s, stream, address, value, bytes);
  };
  return &t;
}

/// The positions at which it is lost while the copies are under way; everything is right at all of them.
void loss_in_between(const std::string &options, uint64_t page, uint64_t bytes) {
  uint64_t rerouted = 0;
  for (int64_t n = 1;; n += stride()) {
    losing.reset(INT64_MAX);
    World world = routed(options, page, 40, WEIR_POOL_NO_BACKGROUND, losing_query);
    weir_buffer buffer = world.buffer(bytes, 0);
    world.fill(buffer, bytes, 1, 0);
    {
      const std::lock_guard hold(losing.mutex);
      losing.left = n;
    }
    world.check(buffer, bytes, 1, 1);
    world.fill(buffer, bytes, 2, 1);
    world.check(buffer, bytes, 2, 0);
    world.fill(buffer, bytes, 3, 0);
    const bool lost = losing.lost;
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
void lost_while_it_has_a_share(void **) { loss_in_between(three_ways, large_page, large); }

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
