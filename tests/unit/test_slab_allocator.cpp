// SPDX-License-Identifier: Apache-2.0
//
// SlabAllocator without a pool: which slab a tenant comes to, what is counted of it, and what a group knows of its slabs.

#include "core/page/slab_allocator.hpp"

#include <vector>

#include "tests/support/cmocka.hpp"

namespace {

using weir::make_owned;
using weir::page::Geometry;
using weir::page::Kin;
using weir::page::Region;
using weir::page::RegionStore;
using weir::page::Residence;
using weir::page::SlabAllocator;
using weir::page::Step;
using Place = SlabAllocator::Place;

constexpr uint64_t page = 4096;
constexpr uint32_t pages = 4;

struct Site {
  weir::Log log;
  weir::PoolLock lock{log};
  std::pmr::memory_resource *memory = std::pmr::get_default_resource();
  RegionStore regions{memory};
  weir::Accounts accounts{memory};
  SlabAllocator slabs{regions, accounts, memory};

  /// Clients 0 to 3 without quotas, and one that may have two pages on a device.
  Site() {
    const weir::Locked held(lock);
    weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
    uint32_t id = 0;
    for (uint32_t i = 0; i < limited; ++i)
      assert_int_equal(accounts.create_client(desc, &id).code(), WEIR_SUCCESS);
    desc.device_quota = 2 * page;
    assert_int_equal(accounts.create_client(desc, &id).code(), WEIR_SUCCESS);
    assert_int_equal(id, limited);
  }
  static constexpr uint32_t limited = 4;

  Region &open(const Kin &kin = {}) WEIR_HELD {
    Region &region = regions.make(Geometry::paged(pages * page, page, 0), kin.home, kin.client);
    weir::Compact<Residence> here = make_owned<Residence>(memory, kin.home, memory);
    here->pages.resize(pages);
    region.residences.push_back(std::move(here));
    slabs.open(region, kin);
    return region;
  }
  /// The page is on the slab's home device.
  static void bring(Region &slab, uint32_t p) {
    weir::page::DevicePage &here = slab.residences[0]->pages.edit(p);
    (void)here.apply(Step::begin_fill);
    here.granule = weir::physical::GranuleId(p);
    (void)here.apply(Step::filled);
  }
  Region *find(uint64_t size, Place *place, const Kin &kin = {},
               uint64_t alignment = 256) WEIR_HELD {
    return slabs.find(kin, size, alignment, place);
  }
  void assert_valid() WEIR_HELD {
    for (Region &region : regions) {
      uint32_t p = 0;
      assert_string_equal(slabs.validate(region, &p).c_str(), "");
    }
  }
};

void the_smallest_range_that_holds_it(void **) {
  Site site;
  const weir::Locked lock(site.lock);
  Place place;
  assert_null(site.find(256, &place));
  Region &wide = site.open();
  Region &narrow = site.open();
  const Place most = narrow.tenants->allocate(3 * page, 256);
  assert_true(site.slabs.occupy(narrow, most));
  assert_ptr_equal(site.find(page, &place), &narrow);
  assert_ptr_equal(site.find(256, &place), &wide);  // the other is full
  assert_ptr_equal(site.find(4 * page - 256, &place), &wide);
  Place none;
  assert_null(site.find(256, &none));
  assert_false(static_cast<bool>(none));
  site.assert_valid();
}

void tenants_are_counted_by_page(void **) {
  Site site;
  const weir::Locked lock(site.lock);
  Region &slab = site.open();
  assert_int_equal(site.slabs.count(), 0);
  Place across, within;
  assert_ptr_equal(site.find(page + 256, &across), &slab);
  assert_ptr_equal(site.find(512, &within), &slab);
  assert_int_equal(site.slabs.count(), 1);
  assert_int_equal(slab.tenants->count, 2);
  assert_int_equal(slab.tenants->taken, page + 256 + 512);
  assert_int_equal(slab.tenants->pages[0].tenants, 1);
  assert_int_equal(slab.tenants->pages[1].tenants, 2);
  assert_false(slab.idle(1));
  assert_true(slab.idle(2));
  site.slabs.vacate(slab, across.node, 7);
  assert_true(slab.idle(0));
  assert_int_equal(slab.tenants->pages[0].idle_since, 7);
  assert_int_equal(slab.tenants->pages[1].tenants, 1);
  assert_int_equal(slab.tenants->pages[1].idle_since, 0);
  assert_false(slab.vacant());
  site.slabs.vacate(slab, within.node, 8);
  assert_true(slab.vacant());
  assert_int_equal(slab.tenants->taken, 0);
  assert_int_equal(site.slabs.count(), 0);
  site.assert_valid();
}

void pages_that_are_there_are_charged_once(void **) {
  Site site;
  const weir::Locked lock(site.lock);
  const Kin kin{0, Site::limited, 0, false};
  Region &slab = site.open(kin);
  Site::bring(slab, 0);
  Site::bring(slab, 1);
  const auto used = [&]() WEIR_HELD { return site.accounts.quota(Site::limited, 0).used(); };
  weir::Charge other = site.accounts.charge(Site::limited, 0, page);
  assert_true(static_cast<bool>(other));
  Place place;
  assert_null(site.find(page + 256, &place, kin));  // two pages that are no buffer's
  assert_int_equal(used(), page);
  assert_int_equal(slab.tenants->allocations(), 0);
  assert_ptr_equal(site.find(512, &place, kin), &slab);
  assert_int_equal(used(), 2 * page);
  assert_ptr_equal(site.find(512, &place, kin), &slab);
  assert_int_equal(used(), 2 * page);
  other.give_back();
  assert_ptr_equal(site.find(2 * page, &place, kin), &slab);  // 0 has tenants, 2 is not there
  assert_int_equal(used(), 2 * page);
  site.assert_valid();
}

void an_idle_page_on_its_way_is_left_alone(void **) {
  Site site;
  const weir::Locked lock(site.lock);
  Region &slab = site.open();
  slab.pages.edit(0).work_began();
  Place place;
  assert_null(site.find(512, &place));
  assert_int_equal(slab.tenants->allocations(), 0);
  slab.pages.edit(0).work_ended();
  assert_ptr_equal(site.find(512, &place), &slab);
  slab.pages.edit(0).work_began();  // it has a tenant, which waits anyway
  assert_ptr_equal(site.find(512, &place), &slab);
}

void kin_share_slabs_and_nobody_else(void **) {
  Site site;
  const weir::Locked lock(site.lock);
  const Kin kin{1, 2, -3, false};
  Region &slab = site.open(kin);
  Place place;
  for (const Kin &other : {Kin{0, 2, -3, false}, Kin{1, 3, -3, false}, Kin{1, 2, 3, false}})
    assert_null(site.find(256, &place, other));
  assert_ptr_equal(site.find(256, &place, kin), &slab);
  // The device leaves: all of it goes on elsewhere.
  site.slabs.move(slab, 0);
  slab.home = 0;
  assert_null(site.find(256, &place, kin));
  assert_ptr_equal(site.find(256, &place, Kin{0, 2, -3, false}), &slab);
  uint32_t groups = 0;
  SlabAllocator::Cursor from;
  const auto look = [&](uint64_t number, const SlabAllocator::Ids &ids, size_t at)
                        WEIR_HELD -> uint64_t {
    ++groups;
    assert_ptr_equal(site.slabs.group(number), &ids);
    assert_int_equal(ids.size(), 1);
    assert_int_equal(ids[at], slab.id);
    return 1;
  };
  assert_true(site.slabs.walk(&from, look));
  assert_int_equal(groups, 1);
  assert_null(site.slabs.group(UINT64_MAX));
  site.assert_valid();
}

void the_last_takes_the_place_of_one_that_ends(void **) {
  Site site;
  const weir::Locked lock(site.lock);
  Region &first = site.open();
  Region &second = site.open();
  Region &third = site.open();
  assert_true(site.slabs.occupy(second, second.tenants->allocate(2 * page, 256)));
  site.slabs.close(first);
  site.regions.free(first);
  site.assert_valid();
  Place place;
  assert_ptr_equal(site.find(2 * page, &place), &second);
  assert_ptr_equal(site.find(4 * page, &place), &third);
  assert_null(site.find(256, &place));
}

void an_alignment_is_found_where_it_must_be(void **) {
  Site site;
  const weir::Locked lock(site.lock);
  // More slabs than are looked at, each with a page free that begins nowhere near one.
  for (int i = 0; i < 8; ++i) {
    Region &slab = site.open();
    for (const uint64_t size : {uint64_t{256}, page, 3 * page - 256}) {
      const Place place = slab.tenants->allocate(size, 256);
      assert_true(site.slabs.occupy(slab, place));
      if (size == page) assert_int_equal(place.offset, 256);
    }
    for (auto node = slab.tenants->first(); node != weir::page::Slab::none;
         node = slab.tenants->next(node)) {
      if (slab.tenants->size(node) == page) {
        site.slabs.vacate(slab, node, 0);
        break;
      }
    }
  }
  Place place;
  assert_null(site.find(page, &place, {}, page));
  Region &sure = site.open();
  assert_ptr_equal(site.find(page, &place, {}, page), &sure);
  assert_int_equal(place.offset % page, 0);
  site.assert_valid();
}

void lines_use_pages_in_use_first(void **) {
  Site site;
  const weir::Locked lock(site.lock);
  const Kin kin{0, 0, 0, true};
  Region &line = site.open(kin);
  const auto take = [&](uint64_t bytes) WEIR_HELD {
    Place place;
    Region *slab = site.slabs.find_pinned(kin, bytes, page, &place);
    if (slab != nullptr) assert_true(site.slabs.occupy(*slab, place));
    return slab != nullptr ? place : Place{};
  };
  const Place first = take(page / 2);
  assert_int_equal(first.offset, 0);
  assert_int_equal(take(page / 4).offset, page / 2);
  // It begins in what is left of the first page, and opens one.
  const Place across = take(page);
  assert_int_equal(across.offset, page / 2 + page / 4);
  assert_true(line.tenants->pages[1].closed == weir::page::Slab::none);
  assert_true(line.tenants->pages[2].closed != weir::page::Slab::none);
  assert_int_equal(line.tenants->longest_closed, 2);
  assert_false(static_cast<bool>(take(3 * page)));
  site.assert_valid();
  site.slabs.vacate(line, across.node, 1);
  assert_int_equal(line.tenants->longest_closed, 3);
  site.assert_valid();
  // Such as are there rather than others.
  Site::bring(line, 3);
  assert_int_equal(take(page).offset, 3 * page);
  site.assert_valid();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(the_smallest_range_that_holds_it),
      cmocka_unit_test(tenants_are_counted_by_page),
      cmocka_unit_test(pages_that_are_there_are_charged_once),
      cmocka_unit_test(an_idle_page_on_its_way_is_left_alone),
      cmocka_unit_test(kin_share_slabs_and_nobody_else),
      cmocka_unit_test(the_last_takes_the_place_of_one_that_ends),
      cmocka_unit_test(an_alignment_is_found_where_it_must_be),
      cmocka_unit_test(lines_use_pages_in_use_first),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
