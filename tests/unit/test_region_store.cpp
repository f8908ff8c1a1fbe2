// SPDX-License-Identifier: Apache-2.0
//
// RegionStore without a pool: ids and generations, walks that make and free on their way, when a region has ended, and which kept
// region a new one takes over.

#include "core/page/region_pin.hpp"
#include "core/page/region_store.hpp"

#include <initializer_list>
#include <vector>

#include "tests/support/cmocka.hpp"

namespace {

using weir::make_owned;
using weir::page::Geometry;
using weir::page::Region;
using weir::page::RegionStore;
using weir::page::Residence;

constexpr uint64_t page = 4096;

struct Site {
  weir::Log log;
  weir::PoolLock lock{log};
  std::pmr::memory_resource *memory = std::pmr::get_default_resource();
  RegionStore regions{memory};

  Region &make(uint32_t pages = 1, uint32_t client = 0) WEIR_HELD {
    return regions.make(Geometry::paged(pages * page, page, 0), 0, client);
  }
  /// All of it on device 0, and without an owner.
  Region &make_kept(uint32_t pages) WEIR_HELD {
    Region &region = make(pages);
    weir::Compact<Residence> here = make_owned<Residence>(memory, uint8_t{0}, memory);
    here->pages.resize(pages);
    here->resident = pages;
    region.residences.push_back(std::move(here));
    region.is.kept = true;
    regions.list_kept(region);
    return region;
  }
  std::vector<uint32_t> ids() WEIR_HELD {
    std::vector<uint32_t> ids;
    for (Region &region : regions) ids.push_back(region.id);
    return ids;
  }
};

bool are(const std::vector<uint32_t> &ids, std::initializer_list<uint32_t> expected) {
  return ids == std::vector<uint32_t>(expected);
}

void ids_come_back_with_another_generation(void **) {
  Site site;
  const weir::Locked lock(site.lock);
  for (uint32_t id = 0; id < 4; ++id) assert_int_equal(site.make(id + 1).id, id);
  assert_int_equal(site.regions.pages(), 1 + 2 + 3 + 4);
  const uint16_t before = site.regions.generation(site.regions.at(1));
  site.regions.free(site.regions.at(1));
  site.regions.free(site.regions.at(3));
  assert_int_equal(site.regions.pages(), 1 + 3);
  assert_null(site.regions.live(1));
  assert_null(site.regions.find(1, before));
  assert_null(site.regions.live(4));
  assert_true(are(site.ids(), {0, 2}));
  // The last to go is the first to come back.
  assert_int_equal(site.make().id, 3);
  assert_int_equal(site.make().id, 1);
  assert_int_equal(site.make().id, 4);
  assert_null(site.regions.find(1, before));
  assert_ptr_equal(site.regions.find(1, before + 1U), &site.regions.at(1));
  assert_int_equal(site.regions.ids(), 5);
}

void walks_bear_changes(void **) {
  Site site;
  const weir::Locked lock(site.lock);
  for (int i = 0; i < 4; ++i) site.make();
  std::vector<uint32_t> seen;
  for (Region &region : site.regions) {
    seen.push_back(region.id);
    if (region.id == 0) {
      site.regions.free(site.regions.at(1));  // the next one
      site.regions.free(region);
    } else if (region.id == 3) {
      // One behind, and one that is yet to come.
      assert_int_equal(site.make().id, 0);
      assert_int_equal(site.make().id, 1);
      assert_int_equal(site.make().id, 4);
    }
  }
  assert_true(are(seen, {0, 2, 3, 4}));
  assert_true(are(site.ids(), {0, 1, 2, 3, 4}));
  RegionStore none(site.memory);
  for (Region &region : none) fail_msg("region %u of an empty store", region.id);
}

void ended_without_owner_work_and_pages(void **) {
  Site site;
  const weir::Locked lock(site.lock);
  Region &region = site.make_kept(2);
  Residence &here = *region.residences[0];
  assert_false(RegionStore::ended(region));
  here.resident = 0;
  assert_true(RegionStore::ended(region));
  weir::page::RegionPin pin(region);
  assert_false(RegionStore::ended(region));
  assert_ptr_equal(pin.give_back(), &region);
  assert_true(RegionStore::ended(region));
  region.is.kept = false;
  assert_false(RegionStore::ended(region));
  // A slab has an owner while it has a tenant.
  Region &slab = site.make(4);
  slab.tenants = make_owned<weir::page::Slab>(site.memory, 4 * page, 4U, site.memory);
  slab.is.slab = true;
  assert_true(RegionStore::ended(slab));
  assert_ptr_equal(site.regions.find_slab(slab.id, site.regions.generation(slab)), &slab);
  assert_null(site.regions.find_slab(region.id, site.regions.generation(region)));
  slab.tenants->count = 1;
  assert_false(RegionStore::ended(slab));
}

void the_latest_kept_is_taken_first(void **) {
  Site site;
  const weir::Locked lock(site.lock);
  const auto wanted = Geometry::paged(2 * page - 100, page, 0);
  const auto find = [&]() WEIR_HELD { return site.regions.find_kept(wanted, 1, 0, 0); };
  assert_null(find());
  Region &first = site.make_kept(2);
  Region &second = site.make_kept(2);
  Region &third = site.make_kept(2);
  Region &other = site.make_kept(3);
  std::vector<uint32_t> listed;
  site.regions.for_each_kept([&](const Region &region) {
    if (region.pages.size() == 2) listed.push_back(region.id);
    return true;
  });
  assert_true(are(listed, {third.id, second.id, first.id}));
  assert_ptr_equal(find(), &third);
  assert_null(site.regions.find_kept(wanted, 1, 1, 0));
  assert_null(site.regions.find_kept(wanted, 1, 0, 1));
  site.regions.free(second);  // out of the middle
  site.regions.adopt(third, wanted.size);
  assert_false(third.is.kept || third.is.listed);
  assert_int_equal(third.shape.size, wanted.size);
  assert_ptr_equal(find(), &first);
  // What has left the device in part is not offered any more, nor after it is whole again.
  first.residences[0]->resident = 1;
  assert_null(find());
  first.residences[0]->resident = 2;
  assert_null(find());
  assert_true(other.is.listed);
}

void one_worked_on_is_not_taken_over(void **) {
  Site site;
  const weir::Locked lock(site.lock);
  Region &region = site.make_kept(1);
  Region &busy = site.make_kept(1);
  weir::page::RegionPin pin(busy);
  assert_ptr_equal(site.regions.find_kept(region.shape, 1, 0, 0), &region);
  assert_false(busy.is.listed);
  (void)pin.give_back();
}

void another_shape_counts_its_pages(void **) {
  Site site;
  const weir::Locked lock(site.lock);
  Region &region = site.make(2);
  region.pages.reserve(5);
  site.regions.reshape(region, Geometry::paged(5 * page, page, 0));
  assert_int_equal(site.regions.pages(), 5);
  assert_int_equal(region.pages.size(), 5);
  site.regions.free(region);
  assert_int_equal(site.regions.pages(), 0);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(ids_come_back_with_another_generation),
      cmocka_unit_test(walks_bear_changes),
      cmocka_unit_test(ended_without_owner_work_and_pages),
      cmocka_unit_test(the_latest_kept_is_taken_first),
      cmocka_unit_test(one_worked_on_is_not_taken_over),
      cmocka_unit_test(another_shape_counts_its_pages),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
