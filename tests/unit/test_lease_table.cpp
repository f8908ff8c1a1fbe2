// SPDX-License-Identifier: Apache-2.0
//
// What conflicts with what, and how leases are counted in words and pages, without a pool: a table of buffers and a region are all
// that is needed.

#include "core/lease/lease_table.hpp"

#include "tests/unit/blocked_streams.hpp"

#include "tests/support/cmocka.hpp"  // last: it has macros with plain names

namespace {

using weir::Locked;
using weir::Place;
using weir::PoolLock;
using weir::lease::LeaseTable;
using weir::lease::Range;
using weir::page::ClaimScope;
using weir::page::Region;
using weir::page::Word;

constexpr uint64_t page = 4096;
constexpr uint8_t near = 0, far = 1;  // devices
constexpr ClaimScope here = ClaimScope::on(Place(near)), there = ClaimScope::on(Place(far));
constexpr ClaimScope anywhere = ClaimScope::any();

/// A buffer of four pages, open to hits, and two leases' records.
struct Site {
  weir::test::Scarce memory;
  PoolLock lock{weir::Log()};
  Locked held{lock};
  weir::page::RegionStore regions{std::pmr::get_default_resource()};
  weir::page::BufferDirectory buffers{regions, std::pmr::get_default_resource(), 1};
  LeaseTable table{&memory, buffers};
  Region region{0, std::pmr::get_default_resource()};
  uint32_t buffer = buffers.take(nullptr);
  const int lease = 0, other = 0;

  Site() {
    region.shape = weir::page::Geometry::paged(4 * page, page, 0);
    region.pages.resize(4);
    region.owner.buffer = buffer;
    open(buffer, 4 * page);
  }
  void open(uint32_t index, uint64_t size) {
    buffers.hot(index).set_size_device(size, 0);
    buffers.hot(index).word = Word::alive | Word::resident;
  }
  uint64_t word() { return buffers.hot(buffer).word.load(); }
  Range part(uint64_t begin, uint64_t end) { return {begin, end, buffer, &region, 0}; }
  Range all() { return part(0, 4 * page); }
  bool take(const Range &range, uint8_t mode, ClaimScope scope = here,
            const void *whose = nullptr) {
    return table.take(range, mode, scope, whose != nullptr ? whose : &lease);
  }
  bool untouched() {
    for (const weir::page::Page &each : region.pages) {
      if (each.leases != 0) return false;
    }
    return Word::leases(word()) == 0 && (word() & Word::partial) == 0 && !table.on_parts(buffer) &&
           table.count(buffer) == 0;
  }
};

void readers_share_a_buffer_and_a_writer_does_not(void **) {
  Site site;
  assert_true(site.take(site.all(), WEIR_READ));
  assert_true(site.take(site.all(), WEIR_READ));
  assert_int_equal(site.table.count(site.buffer), 2);
  assert_false(site.table.conflicts(site.all(), false, here));
  assert_true(site.table.conflicts(site.all(), true, here));
  assert_false(site.take(site.all(), WEIR_READ_WRITE));
  site.table.drop(site.all(), WEIR_READ, &site.lease);
  site.table.drop(site.all(), WEIR_READ, &site.lease);
  assert_true(site.take(site.all(), WEIR_DISCARD_WRITE));
  assert_true(site.table.conflicts(site.part(0, 1), false, here));
  assert_false(site.take(site.all(), WEIR_READ));
  assert_false(site.take(site.part(0, 1), WEIR_READ));
  site.table.drop(site.all(), WEIR_DISCARD_WRITE, &site.lease);
  assert_true(site.untouched());
}

void parts_conflict_by_bytes_at_one_place_and_by_pages_between_two(void **) {
  Site site;
  assert_true(site.take(site.part(0, 100), WEIR_READ_WRITE));
  assert_true(site.table.conflicts(site.part(99, 200), false, here));
  assert_false(site.table.conflicts(site.part(100, 200), true, here));
  assert_true(site.table.conflicts(site.part(100, 200), false, there));
  assert_false(site.table.conflicts(site.part(page, 2 * page), true, there));
  assert_false(site.table.conflicts(site.part(100, 200), true, anywhere));
  assert_true(site.table.conflicts(site.part(99, 200), true, anywhere));
  assert_true(site.take(site.part(2 * page, 3 * page), WEIR_READ, anywhere, &site.other));
  assert_false(site.table.conflicts(site.part(2 * page, 3 * page), false, there));
  assert_true(site.table.conflicts(site.part(3 * page - 1, 4 * page), true, there));
  assert_false(site.table.conflicts(site.part(3 * page, 4 * page), true, there));
}

void the_word_and_the_pages_tell_of_parts_while_there_are_some(void **) {
  Site site;
  assert_true(site.take(site.part(page - 1, page + 1), WEIR_READ));
  assert_true(site.take(site.part(page - 1, page + 1), WEIR_READ, here, &site.other));
  assert_int_equal(site.region.pages[0].leases, 2);
  assert_int_equal(site.region.pages[1].leases, 2);
  assert_int_equal(site.region.pages[2].leases, 0);
  site.table.drop(site.part(0, 1), WEIR_READ, &site.lease);  // no lease's
  site.table.drop(site.part(page - 1, page + 1), WEIR_READ, &site.other);
  assert_int_equal(site.region.pages[0].leases, 1);
  assert_true((site.word() & Word::partial) != 0);
  assert_int_equal(site.table.count(site.buffer), 1);
  site.table.drop(site.part(page - 1, page + 1), WEIR_READ, &site.other);  // not again
  assert_true(site.table.on_parts(site.buffer));
  site.table.drop(site.part(page - 1, page + 1), WEIR_READ, &site.lease);
  assert_true(site.untouched());
}

void a_hit_that_came_meanwhile_is_found_and_nothing_is_counted(void **) {
  Site site;
  site.buffers.hot(site.buffer).word |= Word::writer;
  assert_false(site.take(site.part(0, 100), WEIR_READ));
  site.buffers.hot(site.buffer).word -= Word::writer;
  assert_true(site.untouched());
  site.buffers.hot(site.buffer).word += Word::reader;
  assert_false(site.take(site.part(0, 100), WEIR_READ_WRITE));
  assert_true(site.take(site.part(0, 100), WEIR_READ));
  site.table.drop(site.part(0, 100), WEIR_READ, &site.lease);
  site.buffers.hot(site.buffer).word -= Word::reader;
  assert_true(site.untouched());
}

void without_memory_a_lease_of_a_part_changes_nothing(void **) {
  Site site;
  site.memory.out = true;
  bool thrown = false;
  try {
    (void)site.take(site.part(0, 100), WEIR_READ);
  } catch (const std::bad_alloc &) {
    thrown = true;
  }
  assert_true(thrown);
  assert_true(site.untouched());
  assert_true(site.take(site.all(), WEIR_READ));  // needs none
}

void alone_is_who_finds_no_lease_at_all(void **) {
  Site site;
  assert_true(site.take(site.part(0, 1), WEIR_READ));
  assert_false(site.table.take_alone(site.buffer));
  site.table.drop(site.part(0, 1), WEIR_READ, &site.lease);
  assert_true(site.take(site.all(), WEIR_READ));
  assert_false(site.table.take_alone(site.buffer));
  assert_true((site.word() & Word::resident) != 0);
  site.table.drop(site.all(), WEIR_READ, &site.lease);
  assert_true(site.table.take_alone(site.buffer));
  assert_true((site.word() & Word::resident) == 0);
  assert_true(site.table.conflicts(site.all(), false, anywhere));
}

void a_copy_is_kept_from_running_beside_a_writer(void **) {
  Site site;
  assert_true(site.take(site.all(), WEIR_READ));
  assert_true(site.take(site.part(0, 1), WEIR_READ));
  assert_true(site.table.close_for_copy(site.buffer));
  assert_true((site.word() & Word::resident) == 0);
  site.table.drop(site.all(), WEIR_READ, &site.lease);
  assert_true(site.take(site.part(page, page + 1), WEIR_READ_WRITE, here, &site.other));
  assert_false(site.table.close_for_copy(site.buffer));
  site.table.drop(site.part(page, page + 1), WEIR_READ_WRITE, &site.other);
  site.table.drop(site.part(0, 1), WEIR_READ, &site.lease);
  assert_true(site.take(site.all(), WEIR_READ_WRITE));
  assert_false(site.table.close_for_copy(site.buffer));
}

void a_page_is_in_use_by_leases_holds_and_work_on_it(void **) {
  Site site;
  Region &region = site.region;
  assert_false(site.table.in_use(region, 0));
  assert_true(site.take(site.part(page, page + 1), WEIR_READ));
  assert_false(site.table.in_use(region, 0));
  assert_true(site.table.in_use(region, 1));
  assert_false(site.table.close(region, 1, near));
  assert_true((site.word() & Word::resident) != 0);
  assert_true(site.table.close(region, 0, near));
  assert_true((site.word() & Word::resident) == 0);
  site.table.drop(site.part(page, page + 1), WEIR_READ, &site.lease);
  assert_true(site.take(site.all(), WEIR_READ));
  assert_true(site.table.in_use(region, 3));
  assert_false(site.table.close(region, 3, near));
  site.table.drop(site.all(), WEIR_READ, &site.lease);
  region.pages.edit(2).work_began();
  assert_true(site.table.in_use(region, 2));
  region.pages.edit(2).work_ended();
  region.holds.count = 1;
  region.holds.at = far;
  assert_true(site.table.in_use(region, 2, far));
  assert_false(site.table.in_use(region, 2, near));
  assert_true(site.table.in_use(region, 2));
  assert_false(site.table.close(region, 2, far));
  assert_true(site.table.close(region, 2, near));
}

/// Three tenants of a slab: one on the first page, one on both, one on the second.
void a_page_of_a_slab_is_in_use_by_its_tenants_alone(void **) {
  Site site;
  Region slab(1, std::pmr::get_default_resource());
  slab.is.slab = true;
  slab.shape = weir::page::Geometry::paged(2 * page, page, 0);
  slab.pages.resize(2);
  slab.tenants = weir::make_owned<weir::page::Slab>(std::pmr::get_default_resource(), 2 * page, 2U,
                                                    std::pmr::get_default_resource());
  weir::page::Slab &tenants = *slab.tenants;
  uint32_t index[3];
  const uint64_t at[3] = {0, page - 512, page + 512};
  for (size_t i = 0; i < 3; ++i) {
    index[i] = site.buffers.take(nullptr);
    site.open(index[i], 1024);
    const auto place = tenants.allocate_before(weir::page::Slab::none, at[i], 1024);
    assert_true(static_cast<bool>(place));
    tenants.set_owner(place.node, index[i]);
  }
  const auto lease = [&](size_t i, int by) {
    site.buffers.hot(index[i]).word += static_cast<uint64_t>(by) * Word::reader;
  };
  assert_false(site.table.in_use(slab, 0));
  lease(0, 1);
  assert_true(site.table.in_use(slab, 0));
  assert_false(site.table.in_use(slab, 1));
  assert_true(site.table.close(slab, 1, near));
  assert_true((site.buffers.hot(index[0]).word & Word::resident) != 0);
  assert_true((site.buffers.hot(index[1]).word & Word::resident) == 0);
  assert_true((site.buffers.hot(index[2]).word & Word::resident) == 0);
  lease(0, -1);
  lease(1, 1);
  assert_true(site.table.in_use(slab, 0));
  assert_true(site.table.in_use(slab, 1));
  assert_false(site.table.close(slab, 0, near));
  lease(1, -1);
  lease(2, 1);
  assert_false(site.table.in_use(slab, 0));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(readers_share_a_buffer_and_a_writer_does_not),
      cmocka_unit_test(parts_conflict_by_bytes_at_one_place_and_by_pages_between_two),
      cmocka_unit_test(the_word_and_the_pages_tell_of_parts_while_there_are_some),
      cmocka_unit_test(a_hit_that_came_meanwhile_is_found_and_nothing_is_counted),
      cmocka_unit_test(without_memory_a_lease_of_a_part_changes_nothing),
      cmocka_unit_test(alone_is_who_finds_no_lease_at_all),
      cmocka_unit_test(a_copy_is_kept_from_running_beside_a_writer),
      cmocka_unit_test(a_page_is_in_use_by_leases_holds_and_work_on_it),
      cmocka_unit_test(a_page_of_a_slab_is_in_use_by_its_tenants_alone),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
