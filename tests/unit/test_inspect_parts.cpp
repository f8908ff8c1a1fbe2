// SPDX-License-Identifier: Apache-2.0
//
// Looking at all buffers holds up no call: snapshots and lists of what was lost take the pool's lock for 1000 buffers at a time, and
// look at no further one after 4096 pages. What lives throughout is told of once, what comes or goes meanwhile once or not at all.

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "tests/unit/gate.hpp"
#include "tests/unit/interleaving.hpp"
#include "tests/unit/parts.hpp"

namespace {

using namespace weir::test;

weir_buffer make(World &world, uint64_t size, uint64_t tag) {
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = size;
  desc.tag = tag;
  weir_buffer buffer = nullptr;
  ok(weir_buffer_create(world.pool, &desc, &buffer));
  return buffer;
}

std::string snapshot(weir_pool pool) {
  size_t needed = 0;
  ok(weir_pool_snapshot(pool, nullptr, 0, &needed));
  std::string text(needed + 4096, '\0');  // counters may have more digits by now
  ok(weir_pool_snapshot(pool, text.data(), text.size(), &needed));
  text.resize(needed - 1);
  return text;
}

void nobody_waits_for_more_than_a_part(void **) {
  struct Case {
    uint32_t buffers;
    uint64_t pages;  ///< of each
    uint32_t parts;  ///< with one for numbers that are no buffer's, where there are such left
  };
  const Case cases[] = {{1, 1, 1}, {1000, 1, 2}, {2500, 1, 3}, {200, 64, 4}, {3, 5000, 4}};
  for (const Case &each : cases) {
    World world({.device_pages = 8});
    for (uint32_t i = 0; i < each.buffers; ++i) make(world, each.pages * page_bytes, i);
    {
      Parts parts(world, "inspect.part");
      const auto document = nlohmann::json::parse(snapshot(world.pool));
      assert_int_equal(document["buffers"].size(), each.buffers);
      assert_int_equal(parts.take(), 2 * each.parts);  // its length was asked for first
      size_t lost = 1;
      ok(weir_pool_lost_ranges(world.pool, nullptr, 0, &lost));
      assert_int_equal(lost, 0);
      assert_int_equal(parts.take(), each.parts);
    }
    world.close();
  }
}

void buffers_that_come_and_go_are_told_of_once_or_not_at_all(void **) {
  constexpr uint64_t count = 2500;
  World world({.device_pages = 8});
  std::vector<weir_buffer> buffers;
  for (uint64_t i = 0; i < count; ++i) buffers.push_back(make(world, 256, i));
  auto gate = std::make_unique<Gate>(world.pool, "inspect.part");
  std::string text(1U << 21U, '\0');
  size_t needed = 0;
  Task looking([&] { return weir_pool_snapshot(world.pool, text.data(), text.size(), &needed); });
  gate->await();  // the first thousand are looked at
  // The pool does whatever it is asked for meanwhile.
  weir_lease lease = nullptr;
  weir_use uses[] = {WEIR_USE(buffers[5], WEIR_READ_WRITE),
                     WEIR_USE(buffers[2000], WEIR_READ_WRITE)};
  ok(weir_acquire(world.pool, world.streams[0], uses, 2, nullptr, &lease));
  ok(weir_release(lease, world.streams[0]));
  for (const uint64_t gone : {7, 900, 1500, 2400})
    ok(weir_buffer_destroy(world.pool, buffers[gone]));
  for (uint64_t fresh = count; fresh < count + 8; ++fresh) make(world, 256, fresh);
  gate->open();
  ok(looking.join());
  text.resize(needed - 1);
  std::map<uint64_t, int> told;
  const auto document = nlohmann::json::parse(text);
  for (const auto &buffer : document["buffers"]) ++told[buffer["tag"]];
  for (uint64_t tag = 0; tag < count + 8; ++tag) {
    const bool stayed = tag < count && tag != 7 && tag != 900 && tag != 1500 && tag != 2400;
    assert_in_range(told[tag], stayed ? 1 : 0, 1);
  }
  assert_int_equal(told[7], 1);  // looked at before it went
  assert_int_equal(told[1500], 0);
  gate.reset();
  world.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(nobody_waits_for_more_than_a_part),
      cmocka_unit_test(buffers_that_come_and_go_are_told_of_once_or_not_at_all),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
