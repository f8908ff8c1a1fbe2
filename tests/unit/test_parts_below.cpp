// SPDX-License-Identifier: Apache-2.0
//
// Pages that go below HOST in several parts: whole buffers, where there is no virtual-memory management. All parts
// of a page come to lie in one tier, whatever that one has room for and whichever of them compress.

#include <string>

#include "tests/abi/pool_fixture.hpp"

namespace {

using namespace weir::test;

constexpr uint64_t mib = uint64_t{1} << 20U;
const uint64_t pages_of_mib = mib / page_bytes;
constexpr uint64_t size = 10 * mib - 12345;  ///< three parts

/// Bytes of which those from `noisy` on do not compress.
struct Content {
  uint64_t address = 0, noisy = 0, seed = 0, wrong = 0;

  WEIR_UNSEEN uint8_t operator()(uint64_t i) const {
    if (i < noisy) return static_cast<uint8_t>(seed + i / 4096);
    uint64_t x = (i + 1 + seed * 0x1234567) * 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 31U)) * 0xbf58476d1ce4e5b9U;
    return static_cast<uint8_t>(x >> 56U);
  }
  static void write(void *user) {
    auto *self = static_cast<Content *>(user);
    write_bytes(reinterpret_cast<uint8_t *>(self->address), size, *self);
  }
  static void compare(void *user) {
    auto *self = static_cast<Content *>(user);
    self->wrong += wrong_bytes(reinterpret_cast<const uint8_t *>(self->address), size, *self);
  }
};

void use(World &world, weir_buffer buffer, uint32_t mode, Content *content) {
  weir_lease lease = nullptr;
  ok(world.acquire(buffer, mode, &lease, &content->address));
  ok(weir_stream_host_call(world.streams[0], mode == WEIR_READ ? Content::compare : Content::write,
                           content));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_stream_synchronize(world.streams[0]));
  assert_int_equal(content->wrong, 0);
}

/// The device holds one of three buffers at a time: each use pushes another one down.
void turns(uint64_t host_mib, uint64_t compressed_mib, uint64_t noisy, uint64_t storage_mib = 48,
           uint64_t flags = 0) {
  World world({.options = "host.memory=64M;host.granule=16K;host.granule_large=0;host.vmm=0",
               .device_pages = 12 * pages_of_mib,
               .host_pages = host_mib * pages_of_mib,
               .flags = WEIR_POOL_NO_BACKGROUND | flags,
               .compressed_pages = compressed_mib * pages_of_mib,
               .storage_pages = storage_mib * pages_of_mib});
  constexpr uint32_t count = 3;
  weir_buffer buffers[count];
  Content contents[count];
  for (uint32_t i = 0; i < count; ++i) {
    buffers[i] = world.buffer(size);
    contents[i] = Content{0, noisy, i + 1, 0};
    use(world, buffers[i], WEIR_DISCARD_WRITE, &contents[i]);
  }
  std::vector<uint8_t> got(size);
  for (uint32_t turn = 0; turn < 2; ++turn) {
    for (uint32_t i = 0; i < count; ++i) {
      use(world, buffers[i], WEIR_READ, &contents[i]);
      if (host_mib != 0)
        ok(weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr));
      ok(weir_buffer_read(world.pool, buffers[(i + 1) % count], 0, size, got.data()));
      Content other = contents[(i + 1) % count];
      other.address = reinterpret_cast<uint64_t>(got.data());
      Content::compare(&other);
      assert_int_equal(other.wrong, 0);
    }
    for (uint32_t i = 0; i < count; ++i) use(world, buffers[i], WEIR_DISCARD_WRITE, &contents[i]);
  }
  assert_true(world.stats().sunk_bytes >= 2 * size);
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
  const weir_pool_stats stats = world.stats();
  assert_int_equal(stats.compressed_bytes + stats.compressed_raw_bytes, 0);
  assert_int_equal(stats.storage_bytes + stats.storage_raw_bytes, 0);
  world.close();
}

void straight_to_storage(void **) { turns(0, 0, 0); }
void straight_past_a_full_compressed(void **) { turns(0, 6, 4 * mib); }
void straight_into_compressed_in_part(void **) { turns(0, 1, 9 * mib); }
/// Nothing of it compresses, but where files are full that does not matter.
void straight_past_full_storage(void **) { turns(0, 24, 0, 15); }
void through_host_past_full_storage(void **) { turns(24, 24, 0, 15); }
void straight_into_compressed(void **) { turns(0, 8, size); }
void through_host_past_a_full_compressed(void **) { turns(24, 6, 4 * mib); }
void through_host_into_compressed(void **) { turns(24, 8, size); }
/// A page's records are as many whether it has been below HOST or only has a checksum.
void through_host_with_checksums(void **) { turns(24, 8, 4 * mib, 48, WEIR_POOL_CHECKSUM_HOST); }

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(straight_to_storage),
      cmocka_unit_test(straight_past_a_full_compressed),
      cmocka_unit_test(straight_into_compressed_in_part),
      cmocka_unit_test(straight_past_full_storage),
      cmocka_unit_test(through_host_past_full_storage),
      cmocka_unit_test(straight_into_compressed),
      cmocka_unit_test(through_host_past_a_full_compressed),
      cmocka_unit_test(through_host_into_compressed),
      cmocka_unit_test(through_host_with_checksums),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
