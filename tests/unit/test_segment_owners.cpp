// SPDX-License-Identifier: Apache-2.0
//
// Whose bytes the free memory of segments holds: what of an extent may be another client's.

#include "tests/unit/segment_bench.hpp"

namespace {

using namespace weir::test::segments;

/// Takes the first client's memory, in which each extent is where it is told.
struct Owned {
  std::unique_ptr<Bench> bench = std::make_unique<Bench>(16 * mib, 16 * mib);
  GranulePool &pool() { return *bench->pool; }
  /// What lies behind it is free.
  GranuleId at(uint64_t offset, uint64_t bytes) {
    const GranuleId id = pool().claim_at(0, offset, bytes, weir::physical::Segments::none);
    assert_true(id != no_granule);
    return id;
  }
  void release(GranuleId id, uint32_t client) {
    pool().at(id).set_client(client);
    pool().release(id);
  }
  void expect(GranuleId id, uint32_t client, bool all, uint64_t front = 0, uint64_t back = 0) {
    const auto found = pool().foreign(pool().at(id), client);
    assert_int_equal(found.all, all);
    if (all) return;
    assert_int_equal(found.front, front);
    assert_int_equal(found.back, back);
  }
};

constexpr uint64_t block = 64 << 10U;

void free_memory_remembers_whose_bytes_it_holds(void **) {
  Owned owned;
  GranuleId id = owned.bench->take(mib);
  owned.expect(id, 1, true);  // whatever the runtime left there
  owned.release(id, 1);
  id = owned.at(0, mib);
  owned.expect(id, 1, false);
  owned.expect(id, 2, true);
  owned.release(id, 2);
  id = owned.at(0, mib);
  owned.expect(id, 1, true);
  owned.expect(id, 2, false);
  owned.release(id, weir::physical::client_unknown);
  id = owned.at(0, mib);
  owned.expect(id, 2, true);
  // In pieces, and as one afterwards.
  owned.release(id, 1);
  id = owned.at(0, mib / 2);
  const GranuleId other = owned.at(mib / 2, mib / 2);
  owned.release(other, 2);
  owned.release(id, 1);
  id = owned.at(0, mib / 2);
  owned.expect(id, 1, false);
  owned.pool().release(id);
  id = owned.at(0, mib);
  owned.expect(id, 1, true);
  owned.expect(id, 2, true);
  owned.pool().release(id);
  // A segment that went back takes that with it.
  id = owned.at(0, mib);
  owned.release(id, 1);
  assert_int_equal(owned.bench->trim(UINT64_MAX), 16 * mib);
  id = owned.bench->take(mib);
  owned.expect(id, 1, true);
  owned.pool().release(id);
  owned.bench->check();
  owned.bench->end();
}

/// Blocks in which several clients were belong to no client until one has had all of one.
void only_the_ends_of_an_extent_may_be_anothers(void **) {
  Owned owned;
  GranuleId id = owned.bench->take(16 * mib);
  owned.release(id, 1);
  id = owned.at(0, block + block / 2);
  owned.release(id, 2);
  id = owned.at(0, block + block / 2);
  GranuleId behind = owned.at(block + block / 2, 4 * block);
  owned.expect(behind, 1, false, block / 2, 0);
  owned.expect(behind, 2, true);
  const GranuleId last = owned.at(5 * block + block / 2, 2 * block);
  owned.expect(last, 1, false);
  owned.release(last, 2);
  owned.expect(behind, 1, false, block / 2, block / 2);
  owned.release(behind, 1);
  // What was the first client's before is that no more where the second had a part of the block.
  behind = owned.at(block + block / 2, 4 * block);
  owned.expect(behind, 1, false, block / 2, block / 2);
  owned.pool().release(behind);
  owned.pool().release(id);
  // Within one block, and across two.
  id = owned.at(0, 16 * mib);
  owned.release(id, 1);
  id = owned.at(256, 256);
  owned.expect(id, 1, false);
  owned.release(id, 2);
  id = owned.at(block - 512, 1024);
  owned.expect(id, 1, false, 512, 0);
  owned.pool().release(id);
  id = owned.at(0, block);
  owned.expect(id, 1, true);
  owned.release(id, 1);
  id = owned.at(0, block);
  owned.expect(id, 1, false);
  owned.pool().release(id);
  owned.bench->check();
  owned.bench->end();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(free_memory_remembers_whose_bytes_it_holds),
      cmocka_unit_test(only_the_ends_of_an_extent_may_be_anothers),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
