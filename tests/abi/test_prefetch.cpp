// SPDX-License-Identifier: Apache-2.0
//
// weir_prefetch in a sequential scan, counted through the statistics: it never moves more bytes than the same scan without it, and hits
// as often as an announced scan does. A page that was prefetched stays until it is used, or until its stream has made as many
// acquires as the pool has pages.

#include "tests/abi/pool_fixture.hpp"
#include "tests/support/stride.hpp"

namespace {

using namespace weir::test;

constexpr uint32_t buffers_in_scan = 64;
constexpr uint32_t passes = 2;

enum class Ahead { none, announced, before, after_acquire, after_release };

struct Scan {
  uint64_t pages = 3;  ///< of the device
  uint64_t bytes = page_bytes;
  uint32_t mode = WEIR_READ;
  Ahead ahead = Ahead::none;
  uint32_t distance = 1;
  bool both = false;  ///< at every step all of the next `distance`, not the last of them only
  bool written =
      false;  ///< by leases just before, so that the device has the last of them, not copied down yet
  bool streaming = false;
  uint64_t flags = WEIR_POOL_NO_BACKGROUND;
};

struct Moved {
  uint64_t promoted = 0, demoted = 0, hits = 0;
  uint64_t bytes() const { return promoted + demoted; }
};

void prefetch_from(World &world, const Scan &scan, weir_buffer *buffers, uint32_t step) {
  for (uint32_t d = scan.both ? 1 : scan.distance; d <= scan.distance; ++d) {
    if (step + d >= passes * buffers_in_scan) return;
    const weir_use next = WEIR_USE(buffers[(step + d) % buffers_in_scan], WEIR_READ);
    ok(weir_prefetch(world.pool, world.streams[0], &next, 1));
  }
}

Moved run_scan(const Scan &scan) {
  const uint64_t all_pages = (buffers_in_scan * scan.bytes + page_bytes - 1) / page_bytes + 8;
  World world({.options = "host.memory=64M;host.granule=16K;host.granule_large=0",
               .device_pages = scan.pages,
               .host_pages = 2 * all_pages,
               .flags = scan.flags});
  weir_buffer buffers[buffers_in_scan];
  const std::vector<uint8_t> content(scan.bytes, 7);
  for (weir_buffer &buffer : buffers) {
    buffer = world.buffer(scan.bytes);
    if (scan.written) {
      world.fill(buffer, scan.bytes, 1);
    } else {
      ok(weir_buffer_write(world.pool, buffer, 0, scan.bytes, content.data()));
    }
    if (scan.streaming) ok(weir_advise(world.pool, buffer, 0, WEIR_WHOLE, WEIR_ADVISE_STREAMING));
  }
  if (!scan.written) ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  if (scan.ahead == Ahead::announced) {
    for (uint32_t i = 0; i < passes * buffers_in_scan; ++i) {
      const weir_use use = WEIR_USE(buffers[i % buffers_in_scan], scan.mode);
      const weir_operation operation = {nullptr, &use, 1, 0, {0, 0}};
      ok(weir_announce(world.pool, world.streams[0], &operation, 1, 0));
    }
  }
  const weir_pool_stats before = world.stats();
  for (uint32_t i = 0; i < passes * buffers_in_scan; ++i) {
    weir_lease lease = nullptr;
    if (scan.ahead == Ahead::before) prefetch_from(world, scan, buffers, i);
    ok(world.acquire(buffers[i % buffers_in_scan], scan.mode, &lease));
    if (scan.ahead == Ahead::after_acquire) prefetch_from(world, scan, buffers, i);
    ok(weir_release(lease, world.streams[0]));
    if (scan.ahead == Ahead::after_release) prefetch_from(world, scan, buffers, i);
  }
  const weir_pool_stats after = world.stats();
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
  return Moved{after.promoted_bytes - before.promoted_bytes,
               after.demoted_bytes - before.demoted_bytes, after.hits - before.hits};
}

const char *name_of(Ahead ahead) {
  const char *const names[] = {"none", "announced", "before", "after the acquire",
                               "after the release"};
  return names[static_cast<size_t>(ahead)];
}

/// Every order and distance, against the same scan without prefetch and announced.
void scans(Scan scan, std::initializer_list<uint64_t> sizes, bool exact = true) {
  uint32_t wrong = 0;
  const int64_t stride = size_stride(Target::get().host());
  for (int64_t i = 0; i < std::ssize(sizes); i += stride) {
    const uint64_t pages = sizes.begin()[i];
    scan.pages = pages;
    scan.both = false;
    scan.ahead = Ahead::none;
    const Moved without = run_scan(scan);
    scan.ahead = Ahead::announced;
    const Moved announced = run_scan(scan);
    for (const Ahead ahead : {Ahead::before, Ahead::after_acquire, Ahead::after_release}) {
      for (const uint32_t way : {1U, 2U, 3U}) {
        scan.ahead = ahead;
        scan.distance = std::min(way, 2U);
        scan.both = way == 3;
        const Moved with = run_scan(scan);
        // Into free memory the first comes whatever is used before it, which may need its room.
        const bool first =
            ahead == Ahead::before && scan.pages * page_bytes < (scan.distance + 1) * scan.bytes;
        const bool more = exact && with.bytes() > without.bytes() + (first ? scan.bytes : 0);
        const bool fewer = with.hits + buffers_in_scan / 10 < announced.hits;
        if (!more && !fewer) continue;
        ++wrong;
        const auto number = [](uint64_t value) { return static_cast<unsigned long long>(value); };
        print_error(
            "%llu pages, %s, %u ahead%s: %llu bytes and %llu hits; without %llu and %llu, "
            "announced %llu and %llu\n",
            number(pages), name_of(ahead), scan.distance, scan.both ? " and less" : "",
            number(with.bytes()), number(with.hits), number(without.bytes()), number(without.hits),
            number(announced.bytes()), number(announced.hits));
      }
    }
  }
  assert_int_equal(wrong, 0);
}

void reads_of_a_page(void **) { scans({}, {3, 4, 5, 8, 16, 31, 32, 33, 48, 63, 64, 65, 128}); }
void writes_of_a_page(void **) { scans({.mode = WEIR_READ_WRITE}, {3, 4, 31, 48, 64}); }
/// What is there from before makes fewer bytes without prefetch: hits are all that is promised.
void after_it_was_written(void **) { scans({.written = true}, {3, 24, 48}, false); }
void of_streaming_buffers(void **) { scans({.streaming = true}, {3, 16, 40}); }
void of_several_pages(void **) { scans({.bytes = 3 * page_bytes}, {3, 5, 6, 9, 32, 100}); }
void of_two_pages(void **) { scans({.bytes = 2 * page_bytes - 100}, {3, 4, 6, 31, 64}); }
void of_small_buffers(void **) { scans({.bytes = page_bytes / 4}, {3, 7, 15, 17}); }

// ---- sets ----

/// C = A x B in tiles of a page, as the examples multiply: a set of three tiles a step, those of the step after it asked for by one
/// call. Each step ends before the next begins: which page makes room depends on which uses have ended, so the bytes would be those
/// of the machine's speed.
Moved multiply(uint64_t pages, Ahead ahead) {
  constexpr uint32_t across = 6, tiles = across * across, steps = tiles * across;
  World world({.device_pages = pages, .host_pages = 4 * tiles});
  std::vector<weir_buffer> a, b, c;
  const std::vector<uint8_t> content(page_bytes, 7);
  for (uint32_t i = 0; i < 3 * tiles; ++i) {
    auto &matrix = i < tiles ? a : i < 2 * tiles ? b : c;
    matrix.push_back(world.buffer(page_bytes));
    if (i < 2 * tiles)
      ok(weir_buffer_write(world.pool, matrix.back(), 0, page_bytes, content.data()));
  }
  const auto uses_of = [&](uint32_t step) {
    const uint32_t k = step % across, i = step / tiles, place = step / across % across;
    const uint32_t j = i % 2 == 0 ? place : across - 1 - place;
    const uint32_t mode = k == 0 ? WEIR_DISCARD_WRITE : WEIR_READ_WRITE;
    const weir_use uses[] = {WEIR_USE(a[i * across + k], WEIR_READ),
                             WEIR_USE(b[k * across + j], WEIR_READ),
                             WEIR_USE(c[i * across + j], mode)};
    return std::to_array(uses);
  };
  const auto prefetch = [&](uint32_t step) {
    if (step == steps) return;
    const auto next = uses_of(step);
    ok(weir_prefetch(world.pool, world.streams[0], next.data(), next.size()));
  };
  const weir_pool_stats before = world.stats();
  for (uint32_t step = 0; step < steps; ++step) {
    auto uses = uses_of(step);
    weir_lease lease = nullptr;
    if (ahead == Ahead::before) prefetch(step + 1);
    ok(weir_acquire(world.pool, world.streams[0], uses.data(), uses.size(), nullptr, &lease));
    if (ahead == Ahead::after_acquire) prefetch(step + 1);
    ok(weir_release(lease, world.streams[0]));
    ok(weir_stream_synchronize(world.streams[0]));
    if (ahead == Ahead::after_release) prefetch(step + 1);
  }
  const weir_pool_stats after = world.stats();
  for (const auto &matrix : {a, b, c}) {
    for (weir_buffer buffer : matrix) ok(weir_buffer_destroy(world.pool, buffer));
  }
  world.close();
  return Moved{after.promoted_bytes - before.promoted_bytes,
               after.demoted_bytes - before.demoted_bytes, after.hits - before.hits};
}

/// No more than without it in the pool of the examples, a quarter of the matrices. Where the pool is a page too small for what is
/// used again, a set that comes a step early costs a hit; never much. What makes room depends a little on which copies have ended:
/// on a busy machine a run in a hundred moves some pages more, so a run that moves too many is made again, twice at most.
void of_matrices(void **) {
  uint64_t all_with = 0, all_without = 0;
  for (const uint64_t pages : {6U, 9U, 13U, 20U, 27U, 40U, 64U, 100U}) {
    const Moved without = multiply(pages, Ahead::none);
    const auto few = [&](const Moved &with) {
      return pages == 27 ? with.bytes() <= without.bytes()
                         : with.bytes() * 100 <= without.bytes() * 105;
    };
    for (const Ahead ahead : {Ahead::before, Ahead::after_acquire, Ahead::after_release}) {
      Moved with = multiply(pages, ahead);
      for (int again = 0; again < 2 && !few(with); ++again) with = multiply(pages, ahead);
      assert_true(few(with));
      assert_true(with.hits > without.hits);
      all_with += with.bytes();
      all_without += without.bytes();
    }
  }
  assert_true(all_with * 100 <= all_without * 102);
}

// ---- what keeps its place, and for how long ----

/// Buffers of a page each, with bytes in HOST and nothing on the device.
struct Row {
  World world;
  std::vector<weir_buffer> buffers;

  Row(uint64_t device_pages, uint32_t count, uint64_t flags = WEIR_POOL_NO_BACKGROUND)
      : world({.device_pages = device_pages, .host_pages = 128, .flags = flags}) {
    const std::vector<uint8_t> content(page_bytes, 7);
    for (uint32_t i = 0; i < count; ++i) {
      buffers.push_back(world.buffer(page_bytes));
      ok(weir_buffer_write(world.pool, buffers[i], 0, page_bytes, content.data()));
    }
    ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  }
  void prefetch(uint32_t i) {
    const weir_use use = WEIR_USE(buffers[i], WEIR_READ);
    ok(weir_prefetch(world.pool, world.streams[0], &use, 1));
  }
  /// Acquires and releases buffers [first, end) as one set.
  void use(uint32_t first, uint32_t end) {
    std::vector<weir_use> uses;
    for (uint32_t i = first; i < end; ++i) uses.push_back(WEIR_USE(buffers[i], WEIR_READ));
    weir_lease lease = nullptr;
    ok(weir_acquire(world.pool, world.streams[0], uses.data(), uses.size(), nullptr, &lease));
    ok(weir_release(lease, world.streams[0]));
  }
  bool there(uint32_t i) {
    weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
    ok(weir_buffer_info_get(world.pool, buffers[i], 0, WEIR_WHOLE, &info));
    return info.device_bytes == page_bytes;
  }
  void close() {
    for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
    world.close();
  }
};

constexpr uint32_t row_pages = 8;

/// The eighth acquire still goes by it; the ninth takes the oldest page, which it is.
void protection_ends_with_misses(void **) {
  Row row(row_pages, 12);
  row.prefetch(0);
  for (uint32_t i = 1; i <= row_pages; ++i) row.use(i, i + 1);
  assert_true(row.there(0));
  row.use(9, 10);
  assert_false(row.there(0));
  row.close();
}

/// Hits count, one by one and in sets, which have two uses here and are one acquire.
void protection_ends_with_hits(void **) {
  for (const uint32_t set : {1U, 2U}) {
    for (const uint32_t hits : {row_pages - 2, row_pages - 1}) {
      Row row(row_pages, 12);
      row.prefetch(0);
      for (uint32_t i = 0; i <= hits; ++i) row.use(1, 1 + set);
      row.use(3, 11 - set);  // with what has been used one page too many
      assert_int_equal(row.there(0), hits == row_pages - 2);
      row.close();
    }
  }
}

/// A page that was there already is kept like one that was brought.
void resident_pages_are_kept_too(void **) {
  Row row(4, 8);
  for (uint32_t i = 0; i < 4; ++i) row.use(i, i + 1);
  row.prefetch(0);
  row.use(4, 5);
  assert_true(row.there(0));
  assert_false(row.there(1));
  row.close();
}

/// Prefetches do not take each other's room. What there was no room for comes in its turn.
void prefetches_wait_for_each_other(void **) {
  Row row(4, 8);
  for (uint32_t i = 0; i < 6; ++i) row.prefetch(i);
  for (uint32_t i = 0; i < 6; ++i) assert_int_equal(row.there(i), i < 4);
  row.use(0, 1);
  row.use(1, 2);
  row.prefetch(6);
  for (uint32_t i = 0; i < 7; ++i) assert_int_equal(row.there(i), i >= 2 && i < 6);
  row.close();
}

/// Two devices, both full: what waits for the one stands in the queue among what waits for the other, and is looked at again at
/// every call. When there is room, all of it comes, and once.
void two_devices_wait_in_one_queue(void **) {
  constexpr uint32_t pages = 6;
  World world({.options = std::string(small_host) + ";host.devices=2",
               .device_pages = pages + 1,
               .devices = 2});
  const std::vector<uint8_t> content(page_bytes, 7);
  for (uint32_t pattern = 0; pattern < 1U << pages; ++pattern) {
    std::vector<weir_buffer> held, wanted;
    std::vector<weir_lease> leases;
    for (uint32_t device = 0; device < 2; ++device) {
      weir_lease lease = nullptr;
      held.push_back(world.buffer((pages + 1) * page_bytes));
      ok(world.acquire(held.back(), WEIR_READ_WRITE, &lease, nullptr, device));
      leases.push_back(lease);
    }
    for (uint32_t i = 0; i < pages; ++i) {
      wanted.push_back(world.buffer(page_bytes));
      ok(weir_buffer_write(world.pool, wanted[i], 0, page_bytes, content.data()));
    }
    const auto prefetch = [&](uint32_t i) {
      const weir_use use = WEIR_USE(wanted[i], WEIR_READ);
      ok(weir_prefetch(world.pool, world.streams[pattern >> i & 1U], &use, 1));
    };
    const uint64_t before = world.stats().promoted_bytes;
    for (uint32_t i = 0; i < pages; ++i) prefetch(i);
    assert_int_equal(world.stats().promoted_bytes, before);
    for (uint32_t device = 0; device < 2; ++device)
      ok(weir_release(leases[device], world.streams[device]));
    for (weir_buffer buffer : held) ok(weir_buffer_destroy(world.pool, buffer));
    prefetch(0);
    assert_int_equal(world.stats().promoted_bytes, before + pages * page_bytes);
    for (weir_buffer buffer : wanted) ok(weir_buffer_destroy(world.pool, buffer));
  }
  world.close();
}

/// Also without background threads; it has no stream, so that the acquires of all that miss count.
void advice_is_a_prefetch(void **) {
  Row row(4, 8);
  ok(weir_advise(row.world.pool, row.buffers[0], 0, WEIR_WHOLE, WEIR_ADVISE_WILL_NEED));
  assert_true(row.there(0));
  for (uint32_t i = 1; i <= 4; ++i) row.use(i, i + 1);
  assert_true(row.there(0));
  row.use(5, 6);
  assert_false(row.there(0));
  row.close();
}

}  // namespace

int main() {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_of_a_page),
      cmocka_unit_test(writes_of_a_page),
      cmocka_unit_test(after_it_was_written),
      cmocka_unit_test(of_streaming_buffers),
      cmocka_unit_test(of_several_pages),
      cmocka_unit_test(of_two_pages),
      cmocka_unit_test(of_small_buffers),
      cmocka_unit_test(of_matrices),
      cmocka_unit_test(protection_ends_with_misses),
      cmocka_unit_test(protection_ends_with_hits),
      cmocka_unit_test(resident_pages_are_kept_too),
      cmocka_unit_test(prefetches_wait_for_each_other),
      cmocka_unit_test(two_devices_wait_in_one_queue),
      cmocka_unit_test(advice_is_a_prefetch),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
