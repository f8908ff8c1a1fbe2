// SPDX-License-Identifier: Apache-2.0
//
// Chains and ColdTiers without a pool: where the parts of pages lie, which client is charged what for that, and what is given back. With
// COMPRESSED, with STORAGE (in a folder that goes with the test) and with both. No page is moved. Seeds are fixed.

#include "core/tier/cold_tiers.hpp"
#include "backends/host/table.hpp"
#include "tests/unit/storage_fixture.hpp"

#include <map>
#include <random>

namespace {

using weir::Place;
using weir::test::good;
using namespace weir::tier;

constexpr uint64_t unit = UnitArena::unit, part = 16 * unit;
constexpr uint32_t none = Chains::none, packed_bit = Place::compressed.bit(),
                   stored_bit = Place::storage.bit();

/// The n-th allocation from now on fails, and only that.
struct Failing final : std::pmr::memory_resource {
  uint64_t left = UINT64_MAX;
  void *do_allocate(size_t bytes, size_t alignment) override {
    if (left-- == 0) throw std::bad_alloc();
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void *at, size_t bytes, size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(at, bytes, alignment);
  }
  bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }
};

/// The chain's records, which are so many, hold one mark (none: nothing) and get another one.
uint32_t mark(Chains &chains, uint32_t first, uint32_t parts, uint32_t from, uint32_t to) {
  for (uint32_t at = first; at != none; at = chains[at].next, --parts) {
    assert_true(parts != 0 && chains[at].checksum() == uint64_t{from + 1} << 31U);
    chains[at].set_checksum(uint64_t{to + 1} << 31U);
    for (const Place tier : {Place::compressed, Place::storage})
      assert_int_equal(std::exchange(chains[at].in(tier).node, to), from);
  }
  assert_int_equal(parts, 0);
  return first;
}

void a_chain_is_whole_or_nothing_and_its_20_byte_records_are_used_again(void **) {
  assert_int_equal(sizeof(PartRecord), 20);
  bool refused = true;
  for (uint64_t n = 0; refused; ++n) {
    Failing memory;
    Chains chains(&memory);
    const auto take = [&](uint32_t parts, uint32_t to) {
      return mark(chains, chains.take(parts), parts, none, to);
    };
    const uint32_t kept = take(3, 1);
    chains.give(take(47, 2));
    memory.left = 0;
    const uint32_t again = take(47, 3);  // without memory
    memory.left = n;
    refused = !weir::if_memory([&] { chains.give(take(500, 5)); });
    assert_true(refused || n > 1);
    memory.left = UINT64_MAX;
    mark(chains, take(300, 4), 300, 4, 0);
    mark(chains, kept, 3, 1, 0);
    mark(chains, again, 47, 3, 0);
  }
}

/// Client 0 has no quotas; client 1 may have four units in each tier.
struct Site {
  Failing memory;
  weir::Log log;
  weir::PoolLock lock{log};
  weir::test::Directory directory{true};
  weir::numa::Nodes nodes{"/nowhere"};
  weir::Clock clock;
  weir::Ticks ticks;
  weir::backend::Runtime runtime{&memory};
  weir::backend::StreamTable streams{&memory, &ticks};
  weir::Accounts accounts{&memory};
  ColdTiers cold{&memory, accounts};

  Site(uint64_t packed, uint64_t stored) {
    good(runtime.adopt(weir_host_backend_query, ""));
    good(runtime.start("memory=4M;granule=64K", {}, log, UINT64_MAX));
    ColdTiers::Config config{.compressed = packed * unit,
                             .storage = {{directory.path()}, stored * unit},
                             .staging_slots = 2,
                             .part_bytes = part,
                             .nodes = &nodes};
    if (packed + stored != 0) good(cold.start(config, runtime, streams, clock, log));
    const weir::Locked held(lock);
    weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
    uint32_t id = 0;
    good(accounts.create_client(desc, &id));
    desc.name = "short";
    desc.compressed_quota = desc.storage_quota = 4 * unit;
    good(accounts.create_client(desc, &id));
  }
  ColdStore &in(uint32_t bit) const { return *cold.store(bit); }
  UnitSlot put(uint32_t record, uint32_t bit, uint64_t bytes, uint32_t client = 0) WEIR_HELD {
    const UnitSlot slot = cold.try_place(in(bit), client, bytes);
    if (slot) cold.place(record, in(bit), slot);
    return slot;
  }
};

void a_page_has_a_record_for_each_part_or_one_for_its_checksum(void **) {
  for (const auto &[packed, stored] : {std::pair{0U, 0U}, {8U, 0U}, {0U, 8U}, {8U, 8U}}) {
    Site site(packed, stored);
    const weir::Locked lock(site.lock);
    assert_true(site.cold.any() == (packed + stored != 0));
    for (const uint64_t bytes : {uint64_t{1}, part, part + 1, 3 * part - 1}) {
      assert_int_equal(site.cold.parts_of(bytes), site.cold.any() ? (bytes - 1) / part + 1 : 1);
      const uint32_t chain = site.cold.take_chain(bytes);
      site.cold.set_checksum(chain, UINT64_MAX - bytes);
      assert_true(site.cold.checksum(chain) == UINT64_MAX - bytes);
      assert_false(site.cold.free_places(chain, 0, true, UINT32_MAX));  // it has none
      site.cold.give_chain(chain);
    }
    assert_int_equal(site.cold.checksum(none), 0);
  }
}

/// Places come and go at random, and sometimes there is no memory for one. After each step all is counted again.
void places_take_quota_until_freed_and_room_until_overwritten(void **) {
  Site site(600, 600);
  const weir::Locked lock(site.lock);
  ColdTiers &cold = site.cold;
  std::array<uint32_t, 12> chains{};  // of clients 0 and 1 in turn
  for (uint32_t &chain : chains) chain = cold.take_chain(4 * part);
  std::map<uint32_t, UnitSlot> slots[2];  // by record, in COMPRESSED and in STORAGE
  std::vector<UnitSlot> retired;
  std::mt19937 random(2);
  uint32_t refused = 0;
  for (int step = 0; step < 3000; ++step) {
    const auto i = static_cast<uint32_t>(random() % chains.size());
    const uint32_t to = random() % 2 == 0 ? packed_bit : stored_bit;
    for (uint32_t at = chains[i]; random() % 4 != 0 && at != none; at = cold.next(at)) {
      UnitSlot &slot = slots[to == stored_bit][at];
      if (slot) continue;
      const uint64_t bytes = random() % 9000 + 1, rounded = UnitArena::rounded(bytes);
      const bool fits = rounded <= cold.quota(i % 2, site.in(to)).room();
      const auto put = [&]() WEIR_HELD { slot = site.put(at, to, bytes, i % 2); };
      site.memory.left = random() % 4 == 0 ? UINT64_MAX : 0;
      const bool done = weir::if_memory(put);
      site.memory.left = UINT64_MAX;
      assert_int_equal(slot ? site.in(to).bytes(slot) : 0, done && fits ? rounded : 0);
      refused += done ? 0 : 1;
    }
    const uint32_t bits = std::array{packed_bit, stored_bit, UINT32_MAX, 1U}[random() % 4];
    const bool secret = random() % 2 == 0;
    bool left = false;
    for (uint32_t at = chains[i]; at != none; at = cold.next(at)) {
      if ((bits & packed_bit) != 0) slots[0][at] = {};
      const UnitSlot freed =
          (bits & stored_bit) != 0 ? std::exchange(slots[1][at], {}) : UnitSlot{};
      if (freed && secret) retired.push_back(freed), left = true;
    }
    assert_int_equal(cold.free_places(chains[i], i % 2, secret, bits), left);
    for (const uint32_t bit : {packed_bit, stored_bit}) {
      uint64_t bytes[3] = {};  // of clients, and of what is to be overwritten
      for (uint32_t c = 0; c < chains.size(); ++c) {
        for (uint32_t at = chains[c]; at != none; at = cold.next(at)) {
          const UnitSlot slot = slots[bit == stored_bit][at];
          assert_int_equal(cold.record(at).in(Place::of_bit(bit)).node, slot.node);
          bytes[c % 2] += slot ? site.in(bit).bytes(slot) : 0;
        }
      }
      for (const UnitSlot slot : retired)
        bytes[2] += bit == stored_bit ? site.in(bit).bytes(slot) : 0;
      for (const uint32_t client : {0U, 1U})
        assert_int_equal(cold.quota(client, site.in(bit)).used(), bytes[client]);
      assert_int_equal(site.in(bit).used(), bytes[0] + bytes[1] + bytes[2]);
    }
    if (retired.empty()) continue;
    assert_int_equal(cold.storage()->take_retired().node, retired.back().node);
    cold.storage()->free_overwritten(retired.back());
    retired.pop_back();
  }
  assert_true(refused > 1);
}

void secret_bytes_in_compressed_are_overwritten_at_once(void **) {
  Site site(8, 0);
  const weir::Locked lock(site.lock);
  const uint32_t chain = site.cold.take_chain(part);
  weir::poison::enabled() = true;
  for (const uint32_t wanted : {0U, weir::poison::word(1)}) {
    unsigned char *at = site.cold.compressed()->address(site.put(chain, packed_bit, 8000, 1));
    std::memset(at, 7, 8000);
    assert_false(site.cold.free_places(chain, 1, wanted == 0, packed_bit));
    for (int i = 0; i < 2000; ++i, at += 4) assert_memory_equal(at, &wanted, 4);
  }
  weir::poison::enabled() = weir::poison::built_in;
}

void parts_are_listed_with_their_blobs_and_the_rest_in_the_last(void **) {
  Site site(64, 64);
  const weir::Locked lock(site.lock);
  const uint64_t used = 2 * part + 100, bytes[] = {part, part, 100};
  const uint32_t blobs[] = {1000, 5000, 70, 0, 777, 0};
  const uint32_t chain = site.cold.take_chain(used), other = site.cold.take_chain(used);
  std::vector<UnitSlot> slots;
  for (const uint32_t bit : {packed_bit, stored_bit})
    for (uint32_t at = chain, i = 0; at != none; at = site.cold.next(at), ++i)
      slots.push_back(site.put(at, bit, bit == packed_bit ? blobs[i] : bytes[i]));
  site.cold.storage()->set_blob_bytes(slots[4], 777);
  site.cold.set_checksum(chain, 5);
  site.cold.exchange(other, chain, stored_bit);
  assert_int_equal(site.cold.checksum(chain), 5);
  std::pmr::vector<LiftPart> parts;
  LiftPart like;
  like.page = 9;
  site.cold.list_parts(chain, packed_bit, used, like, &parts);
  site.cold.list_parts(other, stored_bit, used, like, &parts);
  assert_int_equal(parts.size(), 6);
  for (size_t i = 0; i < 6; ++i) {
    const LiftPart &one = parts[i];
    assert_true(one.place.node == slots[i].node && one.place.first == slots[i].first);
    assert_true(one.page == 9 && one.bit() == (i < 3 ? packed_bit : stored_bit));
    assert_int_equal(one.blob, blobs[i]);
    assert_int_equal(one.offset, i % 3 * part);
    assert_int_equal(one.bytes, bytes[i % 3]);
  }
}

void low_water_is_a_32nd_or_two_parts_but_at_most_a_quarter(void **) {
  Site site(8, 0);
  const uint64_t budgets[] = {0, 4, 8, 64, 96}, quarters[] = {0, 4, 8, 8, 12};  // of parts
  for (size_t i = 0; i < 5; ++i)
    assert_int_equal(site.cold.low_water(budgets[i] * part), quarters[i] * part / 4);
}

void what_comes_sooner_from_storage_goes_there_but_for_one_in_64(void **) {
  Site site(8, 16);
  const weir::Locked lock(site.lock);
  Pace &packed = site.cold.compressed()->pace, &stored = site.cold.storage()->pace;
  const auto expect = [&](uint32_t wanted) WEIR_HELD {
    uint32_t passed = 0;
    for (uint32_t i = 0; i < 256; ++i) passed += site.cold.storage_is_quicker() ? 1 : 0;
    assert_int_equal(passed, wanted);
  };
  for (Pace *pace : {&packed, &stored}) pace->went_down(1000, 4000);
  packed.came_up(1000, 4000);
  expect(0);  // it is not known yet how bytes come up from STORAGE
  stored.came_up(1000, 4000);
  expect(0);  // no difference
  packed.came_up(1000, 8000);
  expect(252);
  (void)site.cold.try_place(site.in(stored_bit), 0, 13 * unit);
  expect(252);
  (void)site.cold.try_place(site.in(stored_bit), 0, unit);
  expect(0);  // an eighth of it is left
}

void a_refusal_charges_nothing_and_tells_what_tier_and_client_have_left(void **) {
  for (const uint32_t bits : {packed_bit, stored_bit, packed_bit | stored_bit}) {
    const bool packed = bits != stored_bit, stored = bits != packed_bit;
    Site site(packed ? 8 : 0, stored ? 9 : 0);
    const weir::Locked lock(site.lock);
    for (const uint32_t bit : {packed_bit, stored_bit}) {
      if ((bits & bit) == 0) continue;
      ColdStore &store = site.in(bit);
      (void)site.cold.try_place(store, 1, bit == packed_bit ? 3 * unit : unit);
      assert_int_equal(site.cold.try_place(store, 0, store.room() + 1).node, UINT32_MAX);
      assert_int_equal(site.cold.quota(0, store).used(), 0);
    }
    std::string text = packed ? "has 12 KiB (12288 bytes) of 32 KiB (32768 bytes) in use, "
                              : "has 0 bytes of 0 bytes in use, ";
    text += stored ? "STORAGE 4 KiB (4096 bytes) of 36 KiB (36864 bytes)"
                   : "STORAGE 0 bytes of 0 bytes";
    for (const uint32_t client : {0U, 1U}) {
      const uint64_t left = (stored ? 8 : 5) - (stored ? 5 : 4) * client;
      assert_int_equal(site.cold.fail_full(client, 77).code(), WEIR_ERROR_OVER_BUDGET);
      const weir::LastError &error = weir::last_error();
      assert_int_equal(error.detail.tier, stored ? WEIR_TIER_STORAGE : WEIR_TIER_COMPRESSED);
      assert_true(error.detail.asked == 77 && error.detail.available == left * unit);
      assert_non_null(std::strstr(error.text, text.c_str()));
      const char *quota =
          std::strstr(error.text, client == 0 ? "quota" : "quota of client \"short\"");
      assert_true((quota != nullptr) == (client == 1));
    }
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_chain_is_whole_or_nothing_and_its_20_byte_records_are_used_again),
      cmocka_unit_test(a_page_has_a_record_for_each_part_or_one_for_its_checksum),
      cmocka_unit_test(places_take_quota_until_freed_and_room_until_overwritten),
      cmocka_unit_test(secret_bytes_in_compressed_are_overwritten_at_once),
      cmocka_unit_test(parts_are_listed_with_their_blobs_and_the_rest_in_the_last),
      cmocka_unit_test(low_water_is_a_32nd_or_two_parts_but_at_most_a_quarter),
      cmocka_unit_test(what_comes_sooner_from_storage_goes_there_but_for_one_in_64),
      cmocka_unit_test(a_refusal_charges_nothing_and_tells_what_tier_and_client_have_left),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
