// SPDX-License-Identifier: Apache-2.0
//
// BufferDirectory without a pool: handles and their generations, places, tags, users, addresses of weir_malloc, and what holds
// allow.

#include "core/page/buffer_directory.hpp"

#include "tests/unit/blocked_streams.hpp"  // Scarce

namespace {

using weir::Place;
using weir::page::BufferDirectory;
using weir::page::ClaimScope;
using weir::page::Geometry;
using weir::page::HoldKind;
using weir::page::Region;
using weir::page::RegionStore;
using weir::page::Target;
using weir::page::Users;
using weir::page::Word;

constexpr uint64_t page = 4096;

struct Site {
  weir::Log log;
  weir::PoolLock lock{log};
  std::pmr::memory_resource *memory = std::pmr::get_default_resource();
  RegionStore regions{memory};
  BufferDirectory buffers{regions, memory, 7};

  Region &make_region() WEIR_HELD { return regions.make(Geometry::paged(page, page, 0), 0, 0); }
  uint32_t make(uint64_t size, const Users *users = nullptr) WEIR_HELD {
    const uint32_t index = buffers.take(users);
    buffers.settle(index, make_region());
    buffers.describe(index, size, 3);
    buffers.publish(index, 0);
    return index;
  }
  void end(uint32_t index) WEIR_HELD {
    buffers.kill(index);
    buffers.give(index);
  }
  weir_result find(weir_buffer buffer, uint32_t *index) {
    return buffers.find(buffer, index).code();
  }
};

void a_handle_names_one_life(void **) {
  Site site;
  const weir::Locked lock(site.lock);
  const uint32_t index = site.make(1000);
  const weir_buffer first = site.buffers.handle(index);
  uint32_t found = UINT32_MAX;
  assert_int_equal(site.find(first, &found), WEIR_SUCCESS);
  assert_int_equal(found, index);
  assert_int_equal(site.buffers.hot(index).size(), 1000);
  assert_int_equal(site.buffers.hot(index).device(), 3);
  assert_int_equal(site.buffers.live(), 1);
  assert_int_equal(site.buffers.bytes(), 1000);
  // No call gets at one that is about to end, nor at what follows it.
  site.buffers.hot(index).word.fetch_or(Word::closing);
  assert_int_equal(site.find(first, &found), WEIR_ERROR_INVALID_HANDLE);
  site.end(index);
  assert_int_equal(site.buffers.live(), 0);
  assert_int_equal(site.buffers.bytes(), 0);
  assert_int_equal(site.find(first, &found), WEIR_ERROR_INVALID_HANDLE);
  assert_int_equal(site.make(5), index);
  assert_int_equal(site.find(first, &found), WEIR_ERROR_INVALID_HANDLE);
  assert_int_equal(site.find(site.buffers.handle(index), &found), WEIR_SUCCESS);
  assert_int_equal(site.find(nullptr, &found), WEIR_ERROR_INVALID_HANDLE);
  // Of another pool.
  BufferDirectory other(site.regions, site.memory, 8);
  assert_int_equal(other.find(site.buffers.handle(index), &found).code(),
                   WEIR_ERROR_INVALID_HANDLE);
}

void flags_are_the_callers(void **) {
  Site site;
  const weir::Locked lock(site.lock);
  const uint32_t index = site.buffers.take(nullptr);
  site.buffers.settle(index, site.make_region());
  site.buffers.hot(index).stamp.store(1);
  site.buffers.hot(index).address = 1;
  site.buffers.describe(index, 10, 0);
  assert_int_equal(site.buffers.hot(index).stamp.load(), 0);
  assert_int_equal(site.buffers.hot(index).address, 0);
  site.buffers.publish(index, Word::virgin | Word::history);
  const uint64_t word = site.buffers.hot(index).word.load();
  assert_int_equal(word & ~Word::generation_mask, Word::alive | Word::virgin | Word::history);
  site.buffers.kill(index);
  assert_int_equal(site.buffers.hot(index).word.load(), word & Word::generation_mask);
}

void ranges_lie_within(void **) {
  Site site;
  const weir::Locked lock(site.lock);
  const uint32_t index = site.make(1000);
  const auto check = [&](uint64_t offset, uint64_t length, uint64_t expected) {
    const bool fits = site.buffers.range_of(index, offset, &length).ok();
    assert_int_equal(fits ? length : 0, expected);
  };
  check(0, WEIR_WHOLE, 1000);
  check(1, WEIR_WHOLE, 999);
  check(0, 1000, 1000);
  check(999, 1, 1);
  check(1000, WEIR_WHOLE, 0);
  check(999, 2, 0);
  check(0, 0, 0);
  check(2, UINT64_MAX - 1, 0);
}

void places_and_tags(void **) {
  Site site;
  const weir::Locked lock(site.lock);
  const uint32_t index = site.make(1000);
  Region &own = *site.buffers.target(index).region;
  own.tag = 11;
  assert_false(site.buffers.tenant(index));
  assert_int_equal(site.buffers.tag_of(index), 11);
  assert_int_equal(site.buffers.tenant_tag(index), 0);
  Region &slab = site.make_region();
  slab.tenants = weir::make_owned<weir::page::Slab>(site.memory, page, 1U, site.memory);
  (void)slab.tenants->allocate(256, 256);
  const auto place = slab.tenants->allocate(1024, 256);
  site.buffers.settle(index, slab, place.node);
  const Target where = site.buffers.target(index);
  assert_ptr_equal(where.region, &slab);
  assert_int_equal(where.base, place.offset);
  assert_int_not_equal(where.base, 0);
  assert_int_equal(where.size, 1000);
  assert_true(site.buffers.tenant(index));
  assert_int_equal(site.buffers.node(index), place.node);
  assert_true(site.buffers.lies_at(index, slab, place.node));
  assert_false(site.buffers.lies_at(index, own, place.node));
  assert_false(site.buffers.lies_at(index, slab, place.node + 1));
  site.buffers.set_tag(index, 0);
  assert_int_equal(site.buffers.tag_of(index), 0);
  site.buffers.set_tag(index, 12);
  assert_int_equal(site.buffers.tag_of(index), 12);
  // It goes with the buffer, not with the index.
  site.end(index);
  assert_int_equal(site.make(1), index);
  assert_int_equal(site.buffers.tenant_tag(index), 0);
}

void users_stay_until_the_index_goes(void **) {
  Site site;
  const weir::Locked lock(site.lock);
  Users users;
  users.times[2] = 5;
  const uint32_t index = site.make(1, &users);
  assert_int_equal(site.buffers.users_of(index)->times[2], 5);
  assert_null(site.buffers.users_of(site.make(1)));
  site.buffers.kill(index);
  assert_non_null(site.buffers.users_of(index));
  site.buffers.give(index);
  assert_int_equal(site.make(1), index);
  assert_null(site.buffers.users_of(index));
}

void addresses_are_taken_once(void **) {
  Site site;
  const weir::Locked lock(site.lock);
  const uint32_t index = site.make(1);
  site.buffers.set_address(index, 0x1000);
  assert_int_equal(site.buffers.addresses(), 1);
  assert_int_equal(site.buffers.take_address(0x2000), BufferDirectory::none);
  assert_int_equal(site.buffers.take_address(0x1000), index);
  assert_int_equal(site.buffers.take_address(0x1000), BufferDirectory::none);
  assert_int_equal(site.buffers.addresses(), 0);
}

void holds_forbid_by_kind_and_place(void **) {
  Site site;
  const weir::Locked lock(site.lock);
  const uint32_t index = site.make(1);
  BufferDirectory &buffers = site.buffers;
  constexpr ClaimScope here = ClaimScope::on(Place(1)), elsewhere = ClaimScope::on(Place(0));
  const auto forbids = [&](bool write, ClaimScope scope)
                           WEIR_HELD { return buffers.hold_forbids(index, write, scope); };
  assert_false(forbids(true, elsewhere));
  struct Case {
    HoldKind kind;
    bool read, write, write_elsewhere, write_anywhere;
  };
  for (const Case &c : {Case{HoldKind::read, false, true, true, true},
                        Case{HoldKind::shared, false, false, true, false},
                        Case{HoldKind::alone, true, true, true, true}}) {
    buffers.begin_hold(index);
    assert_false(forbids(true, here));  // it is only coming
    buffers.count_hold(index, c.kind, here);
    buffers.end_hold(index);
    assert_int_equal(forbids(false, here), c.read);
    assert_int_equal(forbids(false, elsewhere), c.read);
    assert_int_equal(forbids(true, here), c.write);
    assert_int_equal(forbids(true, elsewhere), c.write_elsewhere);
    assert_int_equal(forbids(true, ClaimScope::any()), c.write_anywhere);
    for (const HoldKind kind : {HoldKind::read, HoldKind::shared, HoldKind::alone}) {
      const bool joins = kind == c.kind && kind != HoldKind::alone;
      assert_int_equal(buffers.check_hold(index, kind, here).code(),
                       joins ? WEIR_SUCCESS : WEIR_ERROR_LEASE_CONFLICT);
      assert_int_equal(buffers.check_hold(index, kind, elsewhere).code(),
                       WEIR_ERROR_LEASE_CONFLICT);
    }
    assert_true(buffers.drop_hold(index));
    assert_false(forbids(true, elsewhere));
    assert_int_equal(buffers.check_hold(index, HoldKind::alone, elsewhere).code(), WEIR_SUCCESS);
  }
}

void the_record_is_theirs_who_bring_it_in(void **) {
  Site site;
  const weir::Locked lock(site.lock);
  const uint32_t index = site.make(1);
  BufferDirectory &buffers = site.buffers;
  constexpr ClaimScope scope = ClaimScope::on(Place(2));
  // One fails while another succeeds, and a third comes before the first hold ends.
  buffers.begin_hold(index);
  buffers.begin_hold(index);
  assert_null(buffers.hold_of(index));
  assert_true(buffers.held(index));
  buffers.end_hold(index);
  assert_true(buffers.held(index));
  buffers.count_hold(index, HoldKind::shared, scope);
  buffers.count_hold(index);
  buffers.end_hold(index);
  assert_int_equal(buffers.hold_of(index)->count, 2);
  assert_true(buffers.hold_of(index)->scope == scope);
  assert_false(buffers.drop_hold(index));
  buffers.begin_hold(index);
  assert_true(buffers.drop_hold(index));
  assert_null(buffers.hold_of(index));
  assert_true(buffers.held(index));
  buffers.end_hold(index);
  assert_false(buffers.held(index));
  // A hold ends with its buffer.
  buffers.begin_hold(index);
  buffers.count_hold(index, HoldKind::read, scope);
  buffers.end_hold(index);
  site.end(index);
  assert_false(buffers.held(index));
}

/// Names and stacks come with an index and go with it; where there is no memory for them nothing has changed.
void names_and_stacks_go_with_the_index(void **) {
  weir::test::Scarce memory;
  RegionStore regions(&memory);
  BufferDirectory buffers(regions, &memory, 7);
  const weir::Log log;
  weir::PoolLock pool_lock(log);
  const weir::Locked lock(pool_lock);
  const std::string name(100, 'n'), other(200, 'o');
  const uint32_t index = buffers.take(nullptr, name, 5);
  assert_true(buffers.name_of(index) == name);
  assert_int_equal(buffers.stack_of(index), 5);
  memory.out = true;
  const auto throws = [](auto &&step) {
    try {
      step();
    } catch (const std::bad_alloc &) {
      return true;
    }
    return false;
  };
  assert_true(throws([&]() WEIR_HELD { buffers.set_name(index, other); }));
  assert_true(buffers.name_of(index) == name);
  assert_true(throws([&]() WEIR_HELD { (void)buffers.take(nullptr, other); }));
  assert_true(throws([&]() WEIR_HELD { (void)buffers.take(nullptr, {}, 6); }));
  memory.out = false;
  // Neither of the two that failed has left anything.
  for (int i = 0; i < 4; ++i) {
    const uint32_t next = buffers.take(nullptr);
    assert_true(next != index && buffers.name_of(next).empty());
    assert_int_equal(buffers.stack_of(next), 0);
  }
  buffers.set_name(index, "");
  assert_true(buffers.name_of(index).empty());
  buffers.set_name(index, other);
  buffers.give(index);
  assert_true(buffers.name_of(index).empty());
  assert_int_equal(buffers.stack_of(index), 0);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_handle_names_one_life),
      cmocka_unit_test(flags_are_the_callers),
      cmocka_unit_test(ranges_lie_within),
      cmocka_unit_test(places_and_tags),
      cmocka_unit_test(users_stay_until_the_index_goes),
      cmocka_unit_test(addresses_are_taken_once),
      cmocka_unit_test(holds_forbid_by_kind_and_place),
      cmocka_unit_test(the_record_is_theirs_who_bring_it_in),
      cmocka_unit_test(names_and_stacks_go_with_the_index),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
