// SPDX-License-Identifier: Apache-2.0
//
// weir_pool_map: what it tells must be a picture of real memory. Pieces overlap nothing, lie inside what is held, and
// a written buffer's latest bytes are all somewhere. Every number asserted here follows from weir/pool.h.
#include "tests/abi/pool_fixture.hpp"

#include <atomic>
#include <map>
#include <thread>
#include <tuple>

using namespace weir::test;

namespace {

constexpr uint64_t small = 3000;

std::vector<weir_piece> map_of(weir_pool pool) {
  size_t count = 0;
  ok(weir_pool_map(pool, nullptr, 0, &count));
  std::vector<weir_piece> pieces(count);
  ok(weir_pool_map(pool, pieces.data(), pieces.size(), &count));
  pieces.resize(count);
  return pieces;
}

using Place = std::tuple<uint32_t, weir_device, uint64_t>;
Place place_of(const weir_piece &piece) { return {piece.tier, piece.device, piece.container}; }

/// Containers are told once; the others lie inside them and beside each other.
void expect_a_picture(const std::vector<weir_piece> &pieces) {
  std::map<Place, uint64_t> containers;
  std::map<Place, std::map<uint64_t, uint64_t>> taken;  // offset to end
  for (const weir_piece &piece : pieces) {
    assert_true(piece.bytes > 0);
    if (piece.state != WEIR_PIECE_RESERVED) continue;
    assert_int_equal(piece.offset, 0);
    assert_true(containers.emplace(place_of(piece), piece.bytes).second);
  }
  for (const weir_piece &piece : pieces) {
    if (piece.state == WEIR_PIECE_RESERVED) continue;
    const uint64_t end = piece.offset + piece.bytes;
    if (piece.tier != WEIR_TIER_COMPRESSED) {
      assert_int_equal(containers.count(place_of(piece)), 1);
      assert_true(end <= containers[place_of(piece)]);
    }
    auto &line = taken[place_of(piece)];
    const auto after = line.lower_bound(piece.offset);
    if (after != line.end()) assert_true(end <= after->first);
    if (after != line.begin()) assert_true(std::prev(after)->second <= piece.offset);
    line.emplace(piece.offset, end);
  }
}

uint64_t bytes_of(const std::vector<weir_piece> &pieces, uint32_t tier, uint32_t state) {
  uint64_t bytes = 0;
  for (const weir_piece &piece : pieces)
    if (piece.tier == tier && piece.state == state) bytes += piece.bytes;
  return bytes;
}

/// Of a buffer, what its latest pieces on a device or in HOST cover, each byte once.
uint64_t latest_bytes(const std::vector<weir_piece> &pieces, weir_buffer buffer) {
  std::map<uint64_t, uint64_t> runs;
  for (const weir_piece &piece : pieces)
    if (piece.buffer == buffer && piece.tier <= WEIR_TIER_HOST &&
        (piece.state == WEIR_PIECE_ONLY || piece.state == WEIR_PIECE_COPY)) {
      uint64_t &end = runs[piece.buffer_offset];
      end = std::max(end, piece.buffer_offset + piece.bytes);
    }
  uint64_t bytes = 0, seen = 0;
  for (const auto &[from, to] : runs) {
    bytes += to - std::min(to, std::max(from, seen));
    seen = std::max(seen, to);
  }
  return bytes;
}

/// Large ones twice what the device holds, and small ones that share pages.
struct Tenants {
  std::vector<weir_buffer> large, little;
  void make(World &world) {
    for (uint32_t i = 0; i < 5; ++i) {
      large.push_back(world.buffer(2 * page_bytes + 4096));
      world.fill(large.back(), 2 * page_bytes + 4096, i);
      little.push_back(world.buffer(small));
      world.fill(little.back(), small, i);
    }
  }
};

void everything_is_somewhere(void **) {
  World world;
  Tenants tenants;
  tenants.make(world);
  const auto pieces = map_of(world.pool);
  expect_a_picture(pieces);
  assert_int_equal(bytes_of(pieces, WEIR_TIER_DEVICE, WEIR_PIECE_RESERVED),
                   world.stats().device_bytes);
  assert_true(bytes_of(pieces, WEIR_TIER_HOST, WEIR_PIECE_ONLY) > 0);  // it did not all fit
  for (const weir_buffer buffer : tenants.large)
    assert_true(latest_bytes(pieces, buffer) >= 2 * page_bytes + 4096);
  for (const weir_buffer buffer : tenants.little)
    assert_true(latest_bytes(pieces, buffer) >= small);
  world.close();
}

void tags_and_states_are_told(void **) {
  World world;
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.tag = 77;
  weir_buffer buffers[2] = {nullptr, nullptr};
  for (const uint64_t size : {page_bytes, small}) {
    desc.size = size;
    ok(weir_buffer_create(world.pool, &desc, &buffers[size == small]));
  }
  assert_int_equal(bytes_of(map_of(world.pool), WEIR_TIER_DEVICE, WEIR_PIECE_ONLY), 0);
  weir_lease lease = nullptr;
  ok(world.acquire(buffers[0], WEIR_READ, &lease));
  ok(weir_release(lease, world.streams[0]));
  world.fill(buffers[1], small, 3);
  ok(weir_stream_synchronize(world.streams[0]));
  uint32_t seen = 0;
  for (const weir_piece &piece : map_of(world.pool)) {
    if (piece.buffer == nullptr) continue;
    assert_int_equal(piece.tag, 77);
    assert_int_equal(piece.tier, WEIR_TIER_DEVICE);
    assert_int_equal(piece.state, WEIR_PIECE_ONLY);  // zeros that were read are latest bytes too
    ++seen;
  }
  assert_int_equal(seen, 2);
  ok(weir_buffer_destroy(world.pool, buffers[0]));
  const auto pieces = map_of(world.pool);
  assert_int_equal(bytes_of(pieces, WEIR_TIER_DEVICE, WEIR_PIECE_KEPT), page_bytes);
  expect_a_picture(pieces);
  world.close();
}

void tiers_below_host_are_told(void **) {
  Setup setup;
  setup.host_pages = 4;
  setup.compressed_pages = 64;
  setup.storage_pages = 64;
  World world(setup);
  Tenants tenants;
  tenants.make(world);
  tenants.make(world);
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  const auto pieces = map_of(world.pool);
  expect_a_picture(pieces);
  uint64_t compressed = 0, stored = 0;
  for (const weir_piece &piece : pieces) {
    if (piece.state == WEIR_PIECE_RESERVED) continue;
    compressed += piece.tier == WEIR_TIER_COMPRESSED ? piece.bytes : 0;
    stored += piece.tier == WEIR_TIER_STORAGE ? piece.bytes : 0;
  }
  const weir_pool_stats stats = world.stats();
  assert_true(compressed + stored > 0);
  assert_true(compressed >= stats.compressed_bytes);  // in whole units
  assert_int_equal(stored, stats.storage_bytes);
  assert_int_equal(bytes_of(pieces, WEIR_TIER_STORAGE, WEIR_PIECE_RESERVED), stats.storage_budget);
  world.close();
}

/// A page may have records for its checksum alone, whether there are tiers below HOST or not.
void checksums_in_host_need_no_tier_below_it(void **) {
  for (const uint64_t below : {0, 64}) {
    Setup setup;
    setup.flags |= WEIR_POOL_CHECKSUM_HOST;
    setup.compressed_pages = below;
    World world(setup);
    Tenants tenants;
    tenants.make(world);
    ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
    const auto pieces = map_of(world.pool);
    expect_a_picture(pieces);
    for (const weir_buffer buffer : tenants.large)
      assert_true(latest_bytes(pieces, buffer) >= 2 * page_bytes + 4096);
    ok(weir_buffer_destroy(world.pool, tenants.large[0]));  // kept records too
    expect_a_picture(map_of(world.pool));
    world.close();
  }
}

/// Buffers come, are written, go and are evicted while somebody looks: each look is a picture of one moment.
void it_can_be_asked_while_memory_moves(void **) {
  Setup setup;
  setup.flags = 0;
  setup.compressed_pages = 32;
  World world(setup);
  constexpr int rounds = 60;
  std::atomic<int> refused{0};
  std::atomic<bool> over{false};
  std::thread worker([&] {
    std::vector<weir_buffer> alive;
    for (int i = 0; i < rounds; ++i) {
      weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
      desc.size = i % 3 == 0 ? small : 2 * page_bytes;
      weir_buffer made = nullptr;
      weir_lease lease = nullptr;
      refused += weir_buffer_create(world.pool, &desc, &made) != WEIR_SUCCESS;
      alive.push_back(made);
      refused += world.acquire(made, WEIR_DISCARD_WRITE, &lease) != WEIR_SUCCESS;
      refused += weir_release(lease, world.streams[0]) != WEIR_SUCCESS;
      if (i % 4 != 3) continue;
      refused += weir_buffer_destroy(world.pool, alive.front()) != WEIR_SUCCESS;
      alive.erase(alive.begin());
    }
    over = true;
  });
  // Looked at when the worker is through: a failed assertion must not leave it running.
  std::vector<std::vector<weir_piece>> looks;
  while (!over && looks.size() < 500) {
    std::vector<weir_piece> pieces(4096);
    size_t count = 0;
    if (weir_pool_map(world.pool, pieces.data(), pieces.size(), &count) != WEIR_SUCCESS) ++refused;
    pieces.resize(std::min(count, pieces.size()));
    looks.push_back(std::move(pieces));
  }
  worker.join();
  assert_int_equal(refused, 0);
  looks.push_back(map_of(world.pool));
  for (const auto &pieces : looks) expect_a_picture(pieces);
  ok(weir_stream_synchronize(world.streams[0]));
  world.close();
}

void what_is_wrong_is_told(void **) {
  World world;
  const weir_buffer buffer = world.buffer(3 * page_bytes);
  world.fill(buffer, 3 * page_bytes, 1);
  weir_piece pieces[2] = {};
  size_t count = 0;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_map(world.pool, pieces, 2, nullptr));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_pool_map(world.pool, nullptr, 2, &count));
  assert_int_equal(count, 0);
  expect_result(WEIR_INCOMPLETE, weir_pool_map(world.pool, pieces, 2, &count));
  assert_true(count > 2);
  assert_true(pieces[1].bytes != 0);
  world.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(everything_is_somewhere),
      cmocka_unit_test(tags_and_states_are_told),
      cmocka_unit_test(tiers_below_host_are_told),
      cmocka_unit_test(checksums_in_host_need_no_tier_below_it),
      cmocka_unit_test(it_can_be_asked_while_memory_moves),
      cmocka_unit_test(what_is_wrong_is_told),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
