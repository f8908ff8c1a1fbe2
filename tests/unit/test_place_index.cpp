// SPDX-License-Identifier: Apache-2.0
//
// The index of places (core/page/place_index.hpp) and the sets that it is made of (core/page/id_set.hpp), without a pool: against
// std::set and against a recount, while regions come, go and move, and what a walk costs beside one over all regions.

#include "core/base/memory.hpp"
#include "core/page/place_index.hpp"
#include "tests/support/cmocka.hpp"

#include <chrono>
#include <deque>
#include <random>
#include <set>
#include <type_traits>

namespace {

using weir::Compact;
using weir::Place;
using weir::page::IdSet;
using weir::page::PlaceIndex;
using weir::page::Region;
using weir::page::Walk;

std::pmr::memory_resource *memory() { return std::pmr::new_delete_resource(); }

// ---- sets ----

/// No set of these tests has a number as large.
constexpr uint64_t end = 1'000'000;

uint32_t next_of(const IdSet &set, uint64_t from) {
  uint32_t id = IdSet::none;
  for (; id == IdSet::none && from < end; from = (from / IdSet::group + 1) * IdSet::group)
    id = set.next_in_group(static_cast<uint32_t>(from));
  return id;
}

void the_next_number_is_found_over_any_hole(void **) {
  IdSet set(memory());
  assert_int_equal(next_of(set, 0), IdSet::none);
  set.reserve(end);
  assert_int_equal(next_of(set, 0), IdSet::none);
  // Beside the edges of words and of words of words, and far from each other.
  const uint32_t ids[] = {0, 63, 64, 4095, 4096, 4097, 262'143, 262'144, 999'999};
  for (const uint32_t id : ids) set.insert(id);
  set.insert(64);
  assert_int_equal(set.size(), std::size(ids));
  uint32_t at = 0;
  for (const uint32_t id : ids) {
    assert_int_equal(next_of(set, at), id);
    assert_int_equal(next_of(set, id), id);
    at = id + 1;
  }
  assert_int_equal(next_of(set, at), IdSet::none);
  assert_int_equal(set.next_in_group(UINT32_MAX - 1), IdSet::none);
  for (const uint32_t id : ids) set.erase(id);
  set.erase(5);
  assert_int_equal(set.size(), 0);
  assert_int_equal(next_of(set, 0), IdSet::none);
}

void a_million_numbers_come_and_go_as_in_a_set(void **) {
  IdSet set(memory());
  std::set<uint32_t> model;
  std::mt19937 random(20);
  for (size_t room = 1000; room <= end; room *= 10) {
    set.reserve(room);
    const auto most = static_cast<uint32_t>(room);
    for (int i = 0; i < 20'000; ++i) {
      // In clusters, so that words fill and empty.
      const uint32_t id =
          static_cast<uint32_t>((random() % 8 * (most / 8) + random() % 300) % most);
      if (random() % 2 == 0) {
        set.insert(id);
        model.insert(id);
      } else {
        set.erase(id);
        model.erase(id);
      }
      const uint32_t from = static_cast<uint32_t>(random() % most);
      const auto next = model.lower_bound(from);
      assert_int_equal(next_of(set, from), next != model.end() ? *next : IdSet::none);
    }
    assert_int_equal(set.size(), model.size());
  }
}

/// Refuses memory when told, and counts what is out.
struct Refusing final : std::pmr::memory_resource {
  size_t out = 0;
  bool refuse = false;
  void *do_allocate(size_t bytes, size_t alignment) override {
    if (refuse) throw std::bad_alloc();
    out += bytes;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void *at, size_t bytes, size_t alignment) override {
    out -= bytes;
    std::pmr::new_delete_resource()->deallocate(at, bytes, alignment);
  }
  bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }
};

void only_what_reserves_allocates(void **) {
  Refusing counted;
  PlaceIndex index(&counted);
  index.open(0);
  index.open(3);  // and those between
  index.reserve(1'000'000);
  // 11 sets, of at most an eighth of a byte and its 64th for each region; and the counts.
  assert_true(static_cast<double>(counted.out) < 1'000'000 * (11 * 0.128 + 12.8) + 4096);
  counted.refuse = true;
  Region region(999'999, memory());
  index.settle(region, 3);
  index.note(region, weir::page::Page{}.arrived(weir::page::host_bit));
  assert_int_equal(index.next(PlaceIndex::home(3), 0), 999'999);
  bool refused = false;
  try {
    index.open(4);
  } catch (const std::bad_alloc &) {
    refused = true;
  }
  assert_true(refused);
  counted.refuse = false;
  index.forget(region);
  assert_true(index.check(region.id, nullptr));
}

// ---- the index ----

/// As the engine has them: by id, with holes.
struct Regions {
  weir::Log log;
  weir::PoolLock lock{log};
  std::deque<Compact<Region>> all;
  PlaceIndex index{memory()};

  Regions() {
    index.open(0);
    index.open(1);
  }
  Region &make(uint32_t pages, uint8_t home) {
    const auto id = static_cast<uint32_t>(all.size());
    index.reserve(id + size_t{1});
    all.push_back(weir::make_owned<Region>(memory(), id, memory()));
    return fill(id, pages, home);
  }
  Region &make_again(uint32_t id, uint32_t pages, uint8_t home) {
    all[id] = weir::make_owned<Region>(memory(), id, memory());
    return fill(id, pages, home);
  }
  Region &at(uint32_t id) noexcept { return *all[id]; }
  void end(Region &region) {
    const uint32_t id = region.id;
    index.forget(region);
    all[id].reset();
  }
  void change(Region &region, uint32_t page, weir::page::PlaceChange change) {
    index.note(region, change);
    assert_true(page < region.pages.size());
  }
  std::vector<uint32_t> in(PlaceIndex::Sets sets)WEIR_HELD {
    std::vector<uint32_t> ids;
    for (const Region &region : Walk(index, sets, *this)) ids.push_back(region.id);
    return ids;
  }
  void check() const {
    for (uint32_t id = 0; id < all.size(); ++id) assert_true(index.check(id, all[id].get()));
  }

 private:
  Region &fill(uint32_t id, uint32_t pages, uint8_t home) {
    Region &region = *all[id];
    region.pages.resize(pages);
    index.settle(region, home);
    return region;
  }
};

void a_region_is_at_a_tier_until_its_last_page_has_left(void **) {
  Regions regions;
  const weir::Locked lock(regions.lock);
  Region &region = regions.make(2, 0);
  (void)regions.make(2, 1);
  const auto host = PlaceIndex::at(Place::host);
  weir::page::Page &first = region.pages.edit(0), &second = region.pages.edit(1);
  regions.change(region, 0, first.take_slot({7, 0}));  // a place, without a version yet
  regions.change(region, 0, first.arrived(weir::page::host_bit));
  regions.change(region, 1, second.written(weir::page::host_bit | weir::page::storage_bit));
  regions.check();
  regions.change(region, 0, first.left(weir::page::host_bit));
  regions.change(region, 1, second.discarded());
  assert_true(regions.in(host) == std::vector<uint32_t>{0});
  assert_true(regions.in(PlaceIndex::at(Place::storage)).empty());
  regions.change(region, 0, first.take_slot({}));
  assert_true(regions.in(host).empty());
  regions.check();
  // What is not told is found by a recount.
  const auto untold = first.arrived(weir::page::compressed_bit);
  assert_false(regions.index.check(0, &region));
  regions.change(region, 0, untold);
  regions.check();
}

void a_region_is_on_a_device_while_a_page_is_not_absent(void **) {
  Regions regions;
  const weir::Locked lock(regions.lock);
  Region &region = regions.make(1, 0);
  region.residences.push_back(
      weir::make_owned<weir::page::Residence>(memory(), uint8_t{1}, memory()));
  weir::page::Residence &here = *region.residences[0];
  here.pages.resize(1);
  const auto there = PlaceIndex::at(Place(1));
  here.coming = 1;
  (void)here.pages.edit(0).apply(weir::page::Step::begin_fill);
  regions.index.note(region, here);
  assert_true(regions.in(there) == std::vector<uint32_t>{0});
  assert_true(regions.in(PlaceIndex::at(Place(0))).empty());
  regions.check();
  here.coming = 0;
  (void)here.pages.edit(0).apply(weir::page::Step::fill_failed);
  regions.index.note(region, here);
  assert_true(regions.in(there).empty());
  regions.check();
}

void a_walk_survives_what_it_does(void **) {
  Regions regions;
  const weir::Locked lock(regions.lock);
  for (int i = 0; i < 200; ++i) (void)regions.make(1, static_cast<uint8_t>(i % 2));
  const auto home = PlaceIndex::home(0);
  std::vector<uint32_t> seen;
  for (Region &region : Walk(regions.index, home, regions)) {
    const uint32_t id = region.id;
    seen.push_back(id);
    if (id == 10) {
      regions.end(region);            // itself
      regions.end(*regions.all[12]);  // the next
      regions.index.settle(*regions.all[14], 1);
      regions.index.settle(*regions.all[5], 0);   // behind it
      regions.index.settle(*regions.all[17], 0);  // before it
    }
    if (id == 198) {
      (void)regions.make_again(10, 1, 0);
      (void)regions.make(1, 0);  // the numbers grow
    }
  }
  std::vector<uint32_t> expected;
  for (uint32_t id = 0; id < 200; id += 2) {
    if (id == 18) expected.push_back(17);
    if (id != 12 && id != 14) expected.push_back(id);
  }
  expected.push_back(200);
  assert_true(seen == expected);
  regions.check();
  // A device that comes later has room for all there are.
  regions.index.open(2);
  regions.index.settle(*regions.all[200], 2);
  assert_true(regions.in(PlaceIndex::home(2)) == std::vector<uint32_t>{200});
  regions.check();
}

void a_search_goes_round(void **) {
  Regions regions;
  const weir::Locked lock(regions.lock);
  for (int i = 0; i < 300; ++i) (void)regions.make(1, 0);
  const auto host = PlaceIndex::at(Place::host);
  assert_int_equal(regions.index.next_around(Place::host), PlaceIndex::none);
  for (const uint32_t id : {5U, 130U, 299U}) {
    Region &region = *regions.all[id];
    regions.change(region, 0, region.pages.edit(0).arrived(weir::page::host_bit));
  }
  assert_int_equal(regions.index.count(Place::host), 3);
  assert_int_equal(regions.index.next_around(Place::host), 5);
  assert_int_equal(regions.index.next_around(Place::host), 130);
  regions.change(*regions.all[5], 0, regions.all[5]->pages.edit(0).left(weir::page::host_bit));
  assert_int_equal(regions.index.next_around(Place::host), 299);
  assert_int_equal(regions.index.next_around(Place::host), 130);
  regions.change(*regions.all[5], 0, regions.all[5]->pages.edit(0).arrived(weir::page::host_bit));
  // Several sets: each region once, in the order of their numbers.
  Region &both = *regions.all[130];
  regions.change(both, 0, both.pages.edit(0).arrived(weir::page::storage_bit));
  Region &stored = *regions.all[7];
  regions.change(stored, 0, stored.pages.edit(0).arrived(weir::page::storage_bit));
  const auto found = regions.in(host | PlaceIndex::at(Place::storage));
  assert_true((found == std::vector<uint32_t>{5, 7, 130, 299}));
}

/// Prints a ratio; that the results are the same is the test.
void a_walk_costs_what_it_finds(void **) {
  Regions regions;
  const weir::Locked lock(regions.lock);
  constexpr uint32_t count = 200'000;
  for (uint32_t i = 0; i < count; ++i) (void)regions.make(1, 0);
  for (uint32_t i = 0; i < 100; ++i) {
    Region &region = *regions.all[i * 1999];
    regions.change(region, 0, region.pages.edit(0).arrived(weir::page::host_bit));
  }
  using Clock = std::chrono::steady_clock;
  uint64_t before = 0, after = 0;
  const auto start = Clock::now();
  for (const auto &region : regions.all) {
    if (region == nullptr) continue;
    for (const weir::page::Page &page : region->pages)
      before += (page.latest() & weir::page::host_bit) != 0 ? region->id : 0;
  }
  const auto middle = Clock::now();
  for (const Region &region : Walk(regions.index, PlaceIndex::at(Place::host), regions)) {
    for (const weir::page::Page &page : region.pages)
      after += (page.latest() & weir::page::host_bit) != 0 ? region.id : 0;
  }
  const auto last = Clock::now();
  assert_true(before == after && before != 0);
  std::printf(
      "%u regions, 100 of them at the place: a walk over all of them takes %.0f times as long\n",
      count,
      static_cast<double>((middle - start).count()) /
          static_cast<double>(std::max<int64_t>((last - middle).count(), 1)));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(the_next_number_is_found_over_any_hole),
      cmocka_unit_test(a_million_numbers_come_and_go_as_in_a_set),
      cmocka_unit_test(only_what_reserves_allocates),
      cmocka_unit_test(a_region_is_at_a_tier_until_its_last_page_has_left),
      cmocka_unit_test(a_region_is_on_a_device_while_a_page_is_not_absent),
      cmocka_unit_test(a_walk_survives_what_it_does),
      cmocka_unit_test(a_search_goes_round),
      cmocka_unit_test(a_walk_costs_what_it_finds),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
