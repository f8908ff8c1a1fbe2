// SPDX-License-Identifier: Apache-2.0
//
// DeviceMemory without a pool, on host devices that map a granule several times, once, or have no virtual memory: granules alone
// and shared against a model, which caller waits for which, and addresses. Each claim is also made with memory that fails at its n-th allocation.

#include "core/page/device_memory.hpp"
#include "core/page/region_store.hpp"

#include <map>
#include <random>

#include "tests/support/cmocka.hpp"

extern "C" const weir_backend_table *weir_host_backend_query(uint32_t abi_major);

namespace {

using namespace weir::page;
using namespace weir::physical;

constexpr uint64_t page = 65536, large = 4 * page, part = page / 4;
constexpr const char *sharing[] = {"", "multi_map=0"}, *all_kinds[] = {"", "multi_map=0", "vmm=0"};
constexpr char one[1] = {}, other[1] = {};  ///< plans

struct Site {
  weir::PoolLock lock{weir::Log()};
  weir::backend::Runtime runtime{std::pmr::get_default_resource()};
  weir::backend::Device device;
  uint64_t left = UINT64_MAX;  ///< allocations until one fails
  weir::HostMemory heap{{take, give, this, {}}};
  RegionStore regions{std::pmr::get_default_resource()};
  DeviceMemory memory;
  uint32_t failures = 0, granule = no_granule;  ///< `granule`, `joined`: of the last claim
  bool joined = false;
  explicit Site(const char *options, uint64_t pages = 48)
      : device(open(options)),
        memory(0, device, {page, large, pages * page, 0, 256 * page, 100, 250}, &heap) {}
  static void *take(void *site, size_t bytes, size_t) {
    return static_cast<Site *>(site)->left-- == 0 ? nullptr : std::malloc(bytes);
  }
  static void give(void *, void *at, size_t, size_t) { std::free(at); }
  weir::backend::Device open(const char *options) {
    assert_true(runtime.adopt(weir_host_backend_query, "").ok());
    const std::string text = std::string("memory=16M;granule=64K;granule_large=256K;") + options;
    assert_true(runtime.start(text.c_str(), {}, weir::Log(), 60'000'000'000).ok());
    weir::backend::Device made{&runtime, 0, 0, 7, {}};
    made.description.struct_size = sizeof made.description;
    assert_int_equal(made.table().device_describe(made.state(), 0, &made.description), 0);
    return made;
  }
  Region &make(uint64_t size, bool alone = false, uint32_t client = 0) WEIR_HELD {
    weir::page::Sharing::Lot lot;
    const bool lots = !alone && memory.sharing() != nullptr;
    const auto shape = lots ? memory.sharing()->place(client, size, 1, &lot) : memory.shape(size);
    Region &region = regions.make(shape, 0, client);
    region.lot = lot, region.layout.lot_place = shape.shared ? uint8_t{0} : Region::no_lot;
    auto here = weir::make_owned<Residence>(region.memory(), uint8_t{0}, region.memory());
    here->pages.resize(region.pages.size());
    region.residences.push_back(std::move(here));
    return region;
  }
  weir_result claim(const Region &region, uint32_t p, const void *maker) WEIR_HELD {
    const uint64_t room = memory.room();
    for (uint64_t n = 0;; ++n, ++failures) {
      DoomedList doomed(&heap);
      weir::Status status;
      granule = no_granule, joined = false, left = n;
      const bool enough = weir::if_memory(
          [&]() WEIR_HELD { status = memory.claim(region, p, maker, &doomed, &granule, &joined); });
      left = UINT64_MAX;
      for (const Doomed &gone : doomed) memory.granules().forget(gone);  // they had no memory
      if (enough) return status.code();
      assert_true(memory.room() == room && doomed.empty() && !joined);
      check("", true);
    }
  }
  GranuleId bring(Region &region, uint32_t p) WEIR_HELD {
    assert_true(claim(region, p, one) == WEIR_SUCCESS && granule != no_granule);
    assert_true(memory.granules().materialize(memory.at(granule)).ok());
    return region.on(0)->pages.edit(p).granule = granule;
  }
  void check(const char *wrong = "", bool lost = false) WEIR_HELD {
    assert_string_equal(memory.validate(regions, lost).c_str(), wrong);
  }
};

void what_never_had_memory_is_forgotten_and_the_rest_kept(void **) {
  for (const char *options : all_kinds) {
    Site site(options, 4);
    const weir::Locked lock(site.lock);
    DeviceMemory &memory = site.memory;
    Region &region = site.make(page);
    assert_int_equal(site.claim(region, 0, one), WEIR_SUCCESS);
    memory.unclaim(region, 0, site.granule);
    assert_int_equal(memory.granules().held(), 0);
    const GranuleId granule = site.bring(region, 0);
    assert_true(memory.in_use() == page && memory.room() == 3 * page);
    assert_true(memory.vmm() ||
                memory.page_address(region, *region.on(0), 0) == memory.at(granule).place);
    memory.at(granule).set_client(5);
    memory.unclaim(region, 0, granule);
    assert_true(memory.granules().held() != 0 && memory.in_use() == 0);
    if (memory.vmm()) assert_int_equal(memory.at(granule).client(), 5);
  }
}

void others_wait_for_the_maker_of_a_shared_granule(void **) {
  for (const char *options : sharing) {
    Site site(options);
    const weir::Locked lock(site.lock);
    DeviceMemory &memory = site.memory;
    Region &left = site.make(page + part), &right = site.make(page + part);
    weir::page::Bundle &bundle = *memory.bundle_of(left, 1);
    const weir::backend::Stamp wiped{5};
    const GranuleId granule = site.bring(left, 1);
    assert_true(site.claim(right, 0, one) == WEIR_SUCCESS && site.joined);
    memory.unclaim(right, 0, granule);  // which does not end the making
    memory.end_making(left, 0, wiped);  // nor does a page alone
    assert_int_equal(site.claim(right, 0, other), WEIR_NOT_READY);
    memory.end_making(left, 1, wiped);
    assert_true(site.claim(right, 0, other) == WEIR_SUCCESS && site.joined);
    memory.end_making(right, 0, {});
    assert_int_equal(bundle.wiped.bits, wiped.bits);  // others come after it as before
    assert_true(!memory.give(&bundle, granule, 3) && memory.at(granule).client() == client_unknown);
    assert_true(memory.give(&bundle, granule, 3));
    assert_true(memory.at(granule).client() == 3 && !bundle.wiped);
    // A maker that gives up leaves the making to others, and it is not known whose bytes are there.
    for (const void *maker : {one, other}) {
      assert_true(site.claim(right, 0, maker) == WEIR_SUCCESS && bundle.maker == maker);
      memory.at(site.granule).set_client(0);
      memory.unclaim(right, 0, site.granule);
      assert_true(memory.at(granule).client() == client_unknown && bundle.maker == nullptr);
    }
  }
}

void granules_and_counts_are_those_of_a_model(void **) {
  struct Known {
    uint32_t users = 0, seen = 0, held = 0, id = no_granule;
    const void *maker = nullptr;
  };
  for (const char *options : sharing) {
    Site site(options);
    const weir::Locked lock(site.lock);
    DeviceMemory &memory = site.memory;
    for (uint32_t i = 0; i < 24; ++i) site.make(page + i * 20480, i > 20, i % 2);
    std::mt19937 random(7);
    const auto below = [&](size_t end) { return static_cast<uint32_t>(random() % end); };
    std::map<const void *, Known> granules;
    const auto known_of = [&](Region &of, uint32_t q) -> Known & {
      if (!of.shape.fragment(q)) return granules[&of.pages[q]];
      return granules[&memory.sharing()->bundle(of.owner.client, of.lot, q < of.shape.front)];
    };
    uint64_t in_use = 0, waited = 0, joined = 0, refused = 0;
    for (uint32_t step = 1; step < 6000; ++step) {
      Region &region = site.regions.at(below(24));
      const uint32_t p = below(region.pages.size()), die = below(16);
      weir::page::DevicePage &state = region.on(0)->pages.edit(p);
      Known &known = known_of(region, p);
      if (die == 0) {
        memory.count_held(region, *region.on(0), region.holds.count == 0);
        region.holds.count ^= 1;
      } else if (die < 3) {
        state.visited = true;
        const bool was = state.borrowed;
        memory.set_borrowed(region, p, die == 1);
        assert_true(state.visited == (was == (die == 1)));
      } else if (state.granule == no_granule) {
        const void *maker = die % 2 == 0 ? one : other;
        const bool waits = known.users != 0 && known.maker != nullptr && known.maker != maker;
        const bool joins = known.users != 0 && !waits;
        const bool none = !known.users && in_use + region.shape.granule_bytes(p) > memory.budget();
        assert_int_equal(site.claim(region, p, maker), waits ? WEIR_NOT_READY : WEIR_SUCCESS);
        assert_true(site.joined == joins && (site.granule == no_granule) == (waits || none));
        waited += waits, joined += joins, refused += none;
        if (site.granule == no_granule) continue;
        if (!joins) known = {0, 0, 0, site.granule, region.shape.fragment(p) ? maker : nullptr};
        assert_int_equal(state.granule = site.granule, known.id);
        ++known.users;
        if (region.holds.count != 0 && !state.borrowed) memory.count_held(region, p, true);
      } else if (known.maker != nullptr && die < 8) {
        memory.end_making(region, p, {});
        known.maker = nullptr;
      } else {
        memory.set_borrowed(region, p, false);
        if (region.holds.count != 0) memory.count_held(region, p, false);
        const bool made = known.maker == nullptr, last = --known.users == 0;
        if (!made) memory.unclaim(region, p, state.granule);
        assert_true(!made || memory.give(memory.bundle_of(region, p), state.granule, 1) == last);
        state.granule = no_granule;
      }
      uint64_t held = 0, borrowed = 0, counted = in_use = 0;
      memory.begin_count();
      for (Region &each : site.regions)
        for (uint32_t q = 0; q < each.pages.size(); ++q) {
          const weir::page::DevicePage &there = each.on(0)->pages[q];
          const uint64_t bytes = each.shape.granule_bytes(q);
          borrowed += there.borrowed ? bytes : 0;
          if (there.granule == no_granule) continue;
          counted += memory.count_granule(each, q);
          if (std::exchange(known_of(each, q).seen, step) != step) in_use += bytes;
          if (each.holds.count == 0 || there.borrowed) continue;
          if (std::exchange(known_of(each, q).held, step) != step) held += bytes;
        }
      assert_true(memory.held_bytes() == held && memory.borrowed_bytes() == borrowed);
      assert_true(memory.in_use() == in_use && counted == in_use);
      site.check();
    }
    assert_true(waited > 50 && joined > 50 && refused > 50 && site.failures > 0);
  }
}

void limits_follow_the_budget_and_shapes_the_device(void **) {
  Site anywhere("", 1000), line("multi_map=0", 24), extents("vmm=0");
  const weir::Locked lock(anywhere.lock);
  DeviceMemory &memory = anywhere.memory;
  assert_true(memory.low_water() == 100 * page && memory.spare() == 750 * page);
  Region &region = anywhere.make(700 * page, true);
  for (uint32_t p = 0; p < 175; ++p) assert_int_equal(anywhere.claim(region, p, one), 0);
  assert_true(memory.room() == 300 * page && memory.spare() == 50 * page);
  memory.note_stuck(10 * page);
  assert_int_equal(memory.in_use(), 690 * page);
  memory.set_budget(500 * page);
  assert_true(memory.low_water() == 50 * page && memory.room() == 0 && memory.spare() == 0);
  anywhere.check("device 7: more is held than the budget");
  anywhere.check("", true);
  assert_true(memory.shape(5 * page + 1).small == 2 && memory.line_pages() == 64);
  assert_true(line.memory.small_pages(6).small == 6 && extents.memory.small_pages(6).size == page);
  // Below a page all; above, what neither shares its last page, nor fills it, nor is large.
  for (const uint64_t size : {page - 1, page, page + 1, 4 * page - 1, 4 * page + 1}) {
    assert_int_equal(memory.belongs_in_line(size), size < page);
    assert_int_equal(extents.memory.belongs_in_line(size), size < page);
    assert_int_equal(line.memory.belongs_in_line(size), size != page && size < large);
  }
}

void parts_of_a_granule_are_seen_at_their_addresses(void **) {
  for (const char *options : sharing) {
    Site site(options);
    DeviceMemory &memory = site.memory, there(1, site.device, {page, large, large}, &site.heap);
    weir::Locked lock(site.lock);
    Region *both[] = {&site.make(page + part), &site.make(page + part)};
    weir::physical::SharedMapping *const mapping = memory.mapping_of(*both[1], 0);
    uint64_t mapped[2] = {};
    volatile char *first[2] = {};
    uint16_t generation = 0;
    for (uint32_t i = 0; i < 2; ++i) {
      Residence &here = *both[i]->on(0);
      assert_true(memory.reserve(*both[i], &here.range).ok());
      const uint64_t at = mapped[i] = granule_address(*both[i], here, 1 - i);
      first[i] = reinterpret_cast<volatile char *>(memory.page_address(*both[i], here, 1 - i));
      const uint64_t place = memory.at(site.bring(*both[i], 1 - i)).place;
      const auto map = [&] { return memory.map(at, page, place, mapping, &generation); };
      assert_true(lock.unlocked(map).ok() && uintptr_t(first[i]) % page == i * both[1]->shape.lead);
    }
    assert_int_equal(mapped[0] == mapped[1], options != sharing[0]);
    *first[1] = 77;
    assert_int_equal(first[0][both[1]->shape.lead], 77);
    for (const uint64_t at : mapped) {
      assert_int_equal(*first[1], 77);
      assert_true(lock.unlocked([&] { return memory.unmap(at, page, mapping); }).ok());
    }
    // Where its lot is not, a part has a granule and addresses to itself.
    weir::page::AddressRange range;
    assert_true(!there.bundle_of(*both[1], 0) && there.reserve(*both[1], &range).ok() && range);
  }
}

void what_does_not_add_up_is_named(void **) {
  Site site("multi_map=0");
  const weir::Locked lock(site.lock);
  Region &region = site.make(page + part), &absent = site.make(page);
  weir::page::DevicePage &state = absent.on(0)->pages.edit(0);
  for (const uint32_t p : {0U, 1U}) site.bring(region, p);
  site.memory.count_held(region, 0, true);
  site.check("device 7: 0 bytes are held, 65536 counted");
  site.memory.count_held(region, 0, false), state.borrowed = true;
  site.check("device 7: 65536 bytes are borrowed, 0 counted");
  state.borrowed = false, state.granule = 0;  // which was not claimed for it
  site.check("device 7: pages and what is idle exceed what is held");
  state.granule = no_granule;
  site.memory.at(0).set_client(weir::physical::client_unused);
  site.check("device 7: unused records of granules are not listed");
  site.memory.bundle_of(region, 1)->users = 0;
  site.check("shared granules: users without a granule, or a granule without users");
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(what_never_had_memory_is_forgotten_and_the_rest_kept),
      cmocka_unit_test(others_wait_for_the_maker_of_a_shared_granule),
      cmocka_unit_test(granules_and_counts_are_those_of_a_model),
      cmocka_unit_test(limits_follow_the_budget_and_shapes_the_device),
      cmocka_unit_test(parts_of_a_granule_are_seen_at_their_addresses),
      cmocka_unit_test(what_does_not_add_up_is_named),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
