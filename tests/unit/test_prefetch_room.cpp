// SPDX-License-Identifier: Apache-2.0
//
// Prefetches and acquires that are after the same room: only a lease makes an acquire answer WOULD_BLOCK. What Weir's
// own threads have in hand (pages they have chosen as victims, granules they have taken for a prefetch) comes back by
// itself, and is waited for.

#include "tests/unit/interleaving.hpp"

#include <random>

namespace {

using namespace weir::test;

/// One thread, one lease at a time, each the whole of the device, and the next one prefetched while it is out.
void no_lease_no_refusal(void **) {
  constexpr uint32_t count = 9;
  constexpr uint32_t turns = 1500;
  Setup setup;
  setup.device_pages = 6;
  setup.flags = 0;
  World world(setup);
  weir_buffer buffers[count];
  for (uint32_t i = 0; i < count; ++i) buffers[i] = world.buffer(2 * page_bytes);
  uint32_t refused = 0;
  for (uint32_t turn = 0; turn < turns; ++turn) {
    weir_use uses[3];
    weir_use next[3];
    for (uint32_t u = 0; u < 3; ++u) {
      uses[u] = WEIR_USE(buffers[(turn * (u + 1) + u * 3) % count], WEIR_READ_WRITE);
      next[u] = WEIR_USE(buffers[((turn + 1) * (u + 1) + u * 3) % count], WEIR_READ);
    }
    weir_lease lease = nullptr;
    const weir_result got = weir_acquire(world.pool, world.streams[0], uses, 3, nullptr, &lease);
    if (got == WEIR_ERROR_WOULD_BLOCK) {
      ++refused;
    } else {
      ok(got);
    }
    ok(weir_prefetch(world.pool, world.streams[0], next, 3));
    if (lease != nullptr) ok(weir_release(lease, world.streams[0]));
  }
  print_message("%u of %u acquires were refused\n", refused, turns);
  assert_int_equal(refused, 0);
  engine_of(world).wait_idle();
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
  engine_of(world).wait_idle();  // the background threads may be at what the dead have left
  close_clean(world);
}

/// Sets and prefetches at random, each of up to all of the device, and no lease out when a set is asked for. What an acquire waits
/// to make room for, a prefetch may bring meanwhile.
void random_sets_are_not_refused(void **) {
  constexpr uint32_t count = 14;
  constexpr uint32_t turns = 800;
  for (const bool leased : {false, true}) {
    Setup setup;
    setup.device_pages = 6;
    setup.flags = 0;
    World world(setup);
    std::mt19937 random(7);
    weir_buffer buffers[count];
    uint32_t pages[count];
    for (uint32_t i = 0; i < count; ++i) {
      pages[i] = 1 + static_cast<uint32_t>(random() % 3);
      buffers[i] = world.buffer(pages[i] * page_bytes);
      world.fill(buffers[i], pages[i] * page_bytes, i);
    }
    const auto choose = [&] {
      std::vector<weir_use> uses;
      uint32_t used = 0;
      for (uint32_t left = 6; uses.size() < 4;) {
        const uint32_t i = static_cast<uint32_t>(random() % count);
        if ((used >> i & 1U) != 0 || pages[i] > left) break;
        used |= 1U << i;
        left -= pages[i];
        uses.push_back(WEIR_USE(buffers[i], WEIR_READ));
      }
      return uses;
    };
    uint32_t refused = 0;
    for (uint32_t turn = 0; turn < turns; ++turn) {
      std::vector<weir_use> uses = choose();
      const std::vector<weir_use> next = choose();
      weir_lease lease = nullptr;
      if (!leased) ok(weir_prefetch(world.pool, world.streams[0], next.data(), next.size()));
      const weir_result got =
          weir_acquire(world.pool, world.streams[0], uses.data(), uses.size(), nullptr, &lease);
      if (got == WEIR_ERROR_WOULD_BLOCK) {
        ++refused;
      } else {
        ok(got);
      }
      if (leased) ok(weir_prefetch(world.pool, world.streams[0], next.data(), next.size()));
      if (lease != nullptr) ok(weir_release(lease, world.streams[0]));
    }
    assert_int_equal(refused, 0);
    engine_of(world).wait_idle();
    for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
    engine_of(world).wait_idle();
    close_clean(world);
  }
}

struct Moved {
  uint64_t promoted, demoted, hits;
};

constexpr uint32_t scanned = 64;

/// Twice through `scanned` buffers, with the prefetcher's and the demoter's threads. Ahead 0: without prefetch.
Moved scan_in_the_background(uint64_t pages, uint32_t ahead, bool before) {
  Setup setup;
  setup.options = "host.memory=16M;host.granule=16K;host.granule_large=0";
  setup.device_pages = pages;
  setup.host_pages = 2 * scanned;
  setup.flags = 0;
  World world(setup);
  std::vector<weir_buffer> buffers;
  const std::vector<uint8_t> content(page_bytes, 7);
  for (uint32_t i = 0; i < scanned; ++i) {
    buffers.push_back(world.buffer(page_bytes));
    ok(weir_buffer_write(world.pool, buffers[i], 0, page_bytes, content.data()));
  }
  ok(trim_all(world));
  const weir_pool_stats start = world.stats();
  const auto prefetch = [&](uint32_t i) {
    if (ahead == 0 || i >= 2 * scanned) return;
    const weir_use use = WEIR_USE(buffers[i % scanned], WEIR_READ);
    ok(weir_prefetch(world.pool, world.streams[0], &use, 1));
    engine_of(world).wait_idle();
  };
  for (uint32_t i = 0; i < 2 * scanned; ++i) {
    weir_lease lease = nullptr;
    if (before) prefetch(i + ahead);
    ok(world.acquire(buffers[i % scanned], WEIR_READ, &lease));
    if (!before) prefetch(i + ahead);
    ok(weir_release(lease, world.streams[0]));
  }
  const weir_pool_stats end = world.stats();
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
  return Moved{end.promoted_bytes - start.promoted_bytes, end.demoted_bytes - start.demoted_bytes,
               end.hits - start.hits};
}

/// Each page is brought once a pass, ahead of its use, and no more than without prefetch.
void a_scan_in_the_background(void **) {
  for (const uint64_t pages : {3U, 4U, 8U, 31U, 48U}) {
    // A page that the demoter has let go of at the right moment is a hit by luck: it counts as brought.
    const Moved without = scan_in_the_background(pages, 0, true);
    const uint64_t most = without.promoted + without.demoted + without.hits * page_bytes;
    for (const uint32_t ahead : {1U, 2U}) {
      for (const bool before : {true, false}) {
        const Moved with = scan_in_the_background(pages, ahead, before);
        assert_true(with.promoted + with.demoted <= most);
        assert_int_equal(with.promoted, 2 * scanned * page_bytes);
        assert_int_equal(with.demoted, 0);
        assert_int_equal(with.hits, 2 * scanned - ahead);
      }
    }
  }
}

}  // namespace

int main() {
  const struct CMUnitTest tests[] = {cmocka_unit_test(no_lease_no_refusal),
                                     cmocka_unit_test(random_sets_are_not_refused),
                                     cmocka_unit_test(a_scan_in_the_background)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
