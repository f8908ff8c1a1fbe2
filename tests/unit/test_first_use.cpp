// SPDX-License-Identifier: Apache-2.0
//
// The first use of small buffers, when the place in their page may still hold another's bytes: it is zeroed once,
// whole, whoever comes and whatever happens to its pages meanwhile. One thread is held in the middle of it.

#include "tests/unit/interleaving.hpp"

namespace {

using namespace weir::test;

const uint64_t three_quarters = page_bytes / 4 * 3;
const uint64_t eighth = page_bytes / 8;

/// `expected` of `bytes` from `offset`, the rest of the buffer zero.
void check_parts(World &world, weir_buffer buffer, uint64_t size,
                 std::initializer_list<std::pair<uint64_t, uint32_t>> parts) {
  std::vector<unsigned char> expected(size, 0), got(size, 1);
  for (const auto &[offset, seed] : parts) {
    Kernel kernel{reinterpret_cast<uint64_t>(&expected[offset]), eighth, seed, 0};
    Kernel::write(&kernel);
  }
  ok(weir_buffer_read(world.pool, buffer, 0, size, got.data()));
  assert_memory_equal(expected.data(), got.data(), size);
}

weir_result lease_part(World &world, weir_buffer buffer, weir_stream stream, uint64_t offset,
                       uint32_t seed) {
  weir_use use = WEIR_USE(buffer, WEIR_READ_WRITE);
  use.offset = offset;
  use.length = eighth;
  weir_lease lease = nullptr;
  weir_result result = weir_acquire(world.pool, stream, &use, 1, nullptr, &lease);
  if (result != WEIR_SUCCESS) return result;
  Kernel kernel{use.address, eighth, seed, 0};
  result = kernel.launch(stream, Kernel::write);
  const weir_result released = weir_release(lease, stream);
  const weir_result ended = weir_stream_synchronize(stream);
  if (result == WEIR_SUCCESS) result = released;
  return result == WEIR_SUCCESS ? ended : result;
}

weir_result write_part(World &world, weir_buffer buffer, uint64_t offset, uint32_t seed) {
  std::vector<unsigned char> bytes(eighth);
  Kernel kernel{reinterpret_cast<uint64_t>(bytes.data()), eighth, seed, 0};
  Kernel::write(&kernel);
  return weir_buffer_write(world.pool, buffer, offset, eighth, bytes.data());
}

/// What uses a part: a lease, or the host.
weir_result use_part(World &world, bool host, weir_buffer buffer, weir_stream stream,
                     uint64_t offset, uint32_t seed) {
  return host ? write_part(world, buffer, offset, seed)
              : lease_part(world, buffer, stream, offset, seed);
}

/// The buffer lies on two pages, and only the second is named by who uses it: the first must not leave meanwhile.
/// (Without virtual-memory management no small buffer lies on two pages.)
void a_trim_meets_the_first_use(void **state) {
  for (const bool host : {false, true}) {
    World world = world_for(state);
    weir_buffer neighbour = world.buffer(three_quarters);
    weir_buffer buffer = world.buffer(three_quarters);
    world.fill(neighbour, three_quarters, 1);  // the page they share is on the device
    {
      Gate gate(world.pool, host ? "copy" : "fill");
      Task user([&] { return use_part(world, host, buffer, world.streams[0], page_bytes / 2, 2); });
      gate.await();
      ok(trim_all(world));
      gate.open();
      ok(user.join());
    }
    world.check(neighbour, three_quarters, 1);
    check_parts(world, buffer, three_quarters, {{page_bytes / 2, 2}});
    ok(weir_buffer_destroy(world.pool, neighbour));
    ok(weir_buffer_destroy(world.pool, buffer));
    close_clean(world);
  }
}

/// Two threads use disjoint parts for the first time: what the first has written is not zeroed again.
void two_first_uses(void **state) {
  for (const int hosts : {0, 1, 2, 3}) {  // a bit for each of the two
    World world = world_for(state);
    weir_buffer neighbour = world.buffer(page_bytes / 4);
    weir_buffer buffer = world.buffer(page_bytes / 4);
    world.fill(neighbour, page_bytes / 4, 1);
    weir_stream other = nullptr;
    ok(weir_stream_create(world.context, 0, 0, &other));
    {
      Gate gate(world.pool, (hosts & 1) != 0 ? "copy" : "fill");
      Task first([&] { return use_part(world, (hosts & 1) != 0, buffer, world.streams[0], 0, 2); });
      gate.await();
      Task second([&] { return use_part(world, (hosts & 2) != 0, buffer, other, eighth, 3); });
      // It has to wait, which nothing shows; one that does not wait gets the time to end, and to be caught.
      for (int i = 0; i < 20000 && !second.ended(); ++i) std::this_thread::yield();
      gate.open();
      ok(first.join());
      ok(second.join());
    }
    check_parts(world, buffer, page_bytes / 4, {{0, 2}, {eighth, 3}});
    ok(weir_stream_close(other));
    ok(weir_buffer_destroy(world.pool, neighbour));
    ok(weir_buffer_destroy(world.pool, buffer));
    close_clean(world);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      {"a_trim_meets_the_first_use", a_trim_meets_the_first_use, nullptr, nullptr,
       const_cast<char *>(vmm)},
      BOTH(two_first_uses),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
