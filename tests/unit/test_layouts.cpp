// SPDX-License-Identifier: Apache-2.0
//
// Where buffers that share granules begin and end: what a dead one leaves beside a living one is used by the next; and what has
// been used keeps its address.

#include "tests/unit/interleaving.hpp"

namespace {

using namespace weir::test;

constexpr uint64_t pairs = 16;
constexpr uint64_t budget_pages = 3 * pairs;
const uint64_t size_of_two = page_bytes + page_bytes / 2;  ///< two take three granules

World shared_world(void **state, uint64_t pages = budget_pages, uint64_t host_pages = 0) {
  return World({.options = std::string(small_host) + static_cast<const char *>(*state),
                .device_pages = pages,
                .host_pages = host_pages});
}

/// Buffers of one and a half pages that need all of memory.
std::vector<weir_buffer> full(World &world) {
  std::vector<weir_buffer> all;
  for (uint32_t i = 0; i < 2 * pairs; ++i) {
    all.push_back(world.buffer(size_of_two));
    world.fill(all.back(), size_of_two, i + 1);
  }
  return all;
}

/// Every second one dies. Returns the others.
std::vector<weir_buffer> half_of(World &world, const std::vector<weir_buffer> &all) {
  std::vector<weir_buffer> left;
  for (uint32_t i = 0; i < 2 * pairs; ++i) {
    if (i % 2 == 0) {
      left.push_back(all[i]);
    } else {
      ok(weir_buffer_destroy(world.pool, all[i]));
    }
  }
  return left;
}

/// A little smaller than what died, so that none of those can be taken over as it is.
const uint64_t other_size = size_of_two - 4096;

void close_world(World &world, const std::vector<weir_buffer> &old,
                 const std::vector<weir_buffer> &fresh) {
  for (uint32_t i = 0; i < old.size(); ++i) {
    world.check(old[i], size_of_two, 2 * i + 1);
    ok(weir_buffer_destroy(world.pool, old[i]));
  }
  for (uint32_t i = 0; i < fresh.size(); ++i) {
    world.check(fresh[i], other_size, 100 + i);
    ok(weir_buffer_destroy(world.pool, fresh[i]));
  }
  ok(trim_all(world));
  validate(world);
  world.close();
}

void rooms_of_the_dead_are_used(void **state) {
  World world = shared_world(state);
  const std::vector<weir_buffer> old = half_of(world, full(world));
  std::vector<weir_buffer> fresh;
  for (uint32_t i = 0; i < pairs; ++i) {
    fresh.push_back(world.buffer(other_size));
    world.fill(fresh[i], other_size, 100 + i);
    validate(world);
  }
  close_world(world, old, fresh);
}

uint64_t address_of(World &world, weir_buffer buffer) {
  weir_lease lease = nullptr;
  uint64_t address = 0;
  ok(world.acquire(buffer, WEIR_DISCARD_WRITE, &lease, &address));
  ok(weir_release(lease, world.streams[0]));
  return address;
}

/// Without bytes and without memory it is as it was before its first use, but that its address has been told.
void what_was_used_stays(void **state) {
  World world = shared_world(
      state, budget_pages + 2);  // one of the others may have to do without a neighbour
  weir_buffer buffer = world.buffer(other_size);
  const uint64_t address = address_of(world, buffer);
  ok(weir_discard(world.pool, buffer, 0, WEIR_WHOLE));
  ok(trim_all(world));
  assert_int_equal(world.stats().device_bytes - world.stats().device_free_bytes, 0);
  const std::vector<weir_buffer> old = half_of(world, full(world));
  assert_int_equal(address_of(world, buffer), address);
  ok(weir_buffer_destroy(world.pool, buffer));
  close_world(world, old, {});
}

/// Written on the CPU before any device has it: the bytes come along.
void what_was_written_elsewhere_stays(void **state) {
  World world = shared_world(state, budget_pages, 2 * budget_pages);
  weir_buffer buffer = world.buffer(other_size);
  const std::vector<uint8_t> bytes(other_size, 0x5a);
  ok(weir_buffer_write(world.pool, buffer, 0, other_size, bytes.data()));
  const std::vector<weir_buffer> old = half_of(world, full(world));
  std::vector<uint8_t> found(other_size);
  const uint64_t address = [&] {
    weir_lease lease = nullptr;
    uint64_t at = 0;
    ok(world.acquire(buffer, WEIR_READ, &lease, &at));
    found = world.device_bytes(at, other_size);
    ok(weir_release(lease, world.streams[0]));
    return at;
  }();
  assert_true(address % 4096 == 0);
  assert_true(found == bytes);
  ok(weir_buffer_destroy(world.pool, buffer));
  close_world(world, old, {});
}

/// An address that was asked for before the first use is the one that the use gets.
void what_was_told_stays(void **state) {
  World world = shared_world(state, budget_pages + 2);
  weir_buffer buffer = world.buffer(other_size);
  weir_buffer beside = world.buffer(size_of_two);  // so that no other has the granule they share
  const uint64_t told = query(world, buffer).address;
  assert_int_not_equal(told, 0);
  const std::vector<weir_buffer> old = half_of(world, full(world));
  assert_int_equal(address_of(world, buffer), told);
  assert_int_equal(query(world, buffer).address, told);
  for (weir_buffer made : {buffer, beside}) ok(weir_buffer_destroy(world.pool, made));
  close_world(world, old, {});
}

constexpr char several[] = "";
constexpr char one[] = ";host.multi_map=0";

}  // namespace

#define EACH(test)                                                           \
  {#test, test, nullptr, nullptr, const_cast<char *>(several)}, {            \
#test ", one address", test, nullptr, nullptr, const_cast < char *>(one) \
  }

int main() {
  const CMUnitTest tests[] = {
      EACH(rooms_of_the_dead_are_used),
      EACH(what_was_used_stays),
      EACH(what_was_written_elsewhere_stays),
      EACH(what_was_told_stays),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
