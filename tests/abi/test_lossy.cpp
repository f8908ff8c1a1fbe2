// SPDX-License-Identifier: Apache-2.0
//
// Lossy demotion: a buffer that declares it gets its floats back rounded once they were in COMPRESSED, to exactly the nearest
// value of the type that was named, at half the room or less; nobody else does, and nothing is rounded anywhere else. What
// rounding is like is tests/unit/test_narrow.cpp's; here it is where and when.

#include "tests/abi/pool_fixture.hpp"

#include <cmath>
#include <cstring>

namespace {

using namespace weir::test;

constexpr uint64_t bf16 = WEIR_BUFFER_LOSSY_BF16;
constexpr uint64_t f16 = WEIR_BUFFER_LOSSY_F16;
const uint64_t size = 24 * page_bytes;
const uint64_t count = size / 4;

/// Around one, of either sign, no two alike, and none exact in 16 bits.
std::vector<float> floats(uint32_t seed) {
  std::vector<float> out(count);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t x = (i + 1 + seed * 0x1234567) * 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 31U)) * 0xbf58476d1ce4e5b9U;
    const auto step = static_cast<float>((x >> 40U) % 1000003U);
    out[i] = (i % 2 == 0 ? 1.0F : -1.0F) * (0.25F + step * 3.1e-6F) + 1e-7F;
  }
  return out;
}

/// With so many bits kept, as double's arithmetic rounds.
float nearest(float value, int bits) {
  const int exponent = std::ilogb(value) - (bits - 1);
  return std::ldexp(static_cast<float>(std::nearbyint(std::ldexp(value, -exponent))), exponent);
}

struct Lossy : World {
  explicit Lossy(uint64_t host_pages = 64, uint64_t storage_pages = 0, uint64_t flags = 0,
                 uint64_t compressed_pages = 96, const char *options = small_host)
      : World({.options = options,
               .device_pages = 28,
               .host_pages = host_pages,
               .flags = WEIR_POOL_NO_BACKGROUND | flags,
               .compressed_pages = compressed_pages,
               .storage_pages = storage_pages}) {}
  weir_buffer make(uint64_t flags, uint64_t bytes = size, weir_client client = nullptr) {
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = bytes;
    desc.client = client;
    desc.element = WEIR_ELEMENT_F32;
    desc.flags = flags;
    weir_buffer made = nullptr;
    ok(weir_buffer_create(pool, &desc, &made));
    return made;
  }
  void put(weir_buffer buffer, const std::vector<float> &values) {
    ok(weir_buffer_write(pool, buffer, 0, values.size() * 4, values.data()));
  }
  /// On the device, so that it is written there last.
  void put_on_device(weir_buffer buffer, const std::vector<float> &values) {
    weir_lease lease = nullptr;
    uint64_t address = 0;
    ok(acquire(buffer, WEIR_DISCARD_WRITE, &lease, &address));
    write_device(streams[0], address, values.data(), size);
    ok(weir_release(lease, streams[0]));
    ok(weir_stream_synchronize(streams[0]));
  }
  std::vector<float> get(weir_buffer buffer) {
    std::vector<float> out(count);
    ok(weir_buffer_read(pool, buffer, 0, size, out.data()));
    return out;
  }
  std::vector<float> get_on_device(weir_buffer buffer) {
    weir_lease lease = nullptr;
    uint64_t address = 0;
    ok(acquire(buffer, WEIR_READ, &lease, &address));
    std::vector<float> out(count);
    read_device(streams[0], address, out.data(), size);
    ok(weir_release(lease, streams[0]));
    ok(weir_stream_synchronize(streams[0]));
    return out;
  }
  void to_host() { ok(weir_pool_trim(pool, 0, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr)); }
  void below() {
    to_host();
    ok(weir_pool_trim(pool, WEIR_DEVICE_HOST, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr));
  }
};

bool same(const std::vector<float> &a, const std::vector<float> &b) {
  return std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
}

std::vector<float> rounded(std::vector<float> values, uint64_t flag) {
  for (float &value : values) value = nearest(value, flag == bf16 ? 8 : 11);
  return values;
}

// ---- where and when ----

void it_comes_back_rounded(void **) {
  for (const uint64_t flag : {bf16, f16}) {
    Lossy world;
    weir_buffer buffer = world.make(flag);
    const std::vector<float> exact = floats(1);
    world.put_on_device(buffer, exact);
    assert_true(same(world.get(buffer), exact));
    assert_true(same(world.get_on_device(buffer), exact));
    world.to_host();
    assert_true(same(world.get(buffer), exact));
    world.below();
    assert_true(same(world.get(buffer), rounded(exact, flag)));
    assert_true(same(world.get_on_device(buffer), rounded(exact, flag)));
    for (int turn = 0; turn < 3; ++turn) world.below();
    assert_true(same(world.get(buffer), rounded(exact, flag)));
    ok(weir_buffer_destroy(world.pool, buffer));
    world.close();
  }
}

void it_takes_half_the_room(void **) {
  uint64_t taken[3] = {};
  const uint64_t flags[] = {0, bf16, f16};
  for (int i = 0; i < 3; ++i) {
    Lossy world;
    weir_buffer buffer = world.make(flags[i]);
    world.put(buffer, floats(2));
    world.below();
    assert_int_equal(world.stats().compressed_raw_bytes, size);
    taken[i] = world.stats().compressed_bytes;
    ok(weir_buffer_destroy(world.pool, buffer));
    world.close();
  }
  assert_true(taken[0] > size / 2);
  assert_true(taken[1] <= size / 2);
  assert_true(taken[2] <= size / 2);
}

void nobody_else_is_rounded(void **) {
  Lossy world;
  weir_buffer plain = world.make(0);
  weir_buffer lossy = world.make(bf16);
  world.put(plain, floats(3));
  world.put(lossy, floats(4));
  world.below();
  assert_true(same(world.get(plain), floats(3)));
  assert_true(same(world.get(lossy), rounded(floats(4), bf16)));
  ok(weir_buffer_destroy(world.pool, lossy));
  // What takes over a dead buffer's memory has its own say.
  weir_buffer next = world.make(0);
  world.put_on_device(next, floats(5));
  world.below();
  assert_true(same(world.get(next), floats(5)));
  for (weir_buffer each : {plain, next}) ok(weir_buffer_destroy(world.pool, each));
  world.close();
}

/// Without HOST pages go straight from the device; without COMPRESSED, or past it, they stay exact.
void by_every_way_down(void **) {
  {
    Lossy world(0);
    weir_buffer buffer = world.make(bf16);
    world.put_on_device(buffer, floats(6));
    world.to_host();
    assert_int_equal(world.stats().compressed_raw_bytes, size);
    assert_true(same(world.get(buffer), rounded(floats(6), bf16)));
    ok(weir_buffer_destroy(world.pool, buffer));
    world.close();
  }
  for (const uint64_t host : {uint64_t{0}, uint64_t{64}}) {
    Lossy world(host, 96, 0, 0);
    weir_buffer buffer = world.make(bf16);
    world.put_on_device(buffer, floats(7));
    world.below();
    assert_int_equal(world.stats().storage_raw_bytes, size);
    assert_true(same(world.get(buffer), floats(7)));
    ok(weir_buffer_destroy(world.pool, buffer));
    world.close();
  }
}

/// From the device or from HOST, to COMPRESSED or past it, by the client's quota there: rounded there alone. A page that was coded in
/// vain goes to STORAGE as it was.
void past_host_and_past_compressed(void **) {
  enum class From { device, cold, host };  // HOST: there is none; it is passed; it is not
  for (const From from : {From::device, From::cold, From::host}) {
    const uint64_t flag = from == From::cold ? f16 : bf16;
    for (const uint64_t quota : {uint64_t{WEIR_NONE}, uint64_t{0}}) {
      Lossy world(from == From::device ? 0 : 64, 96, WEIR_POOL_CHECKSUM_HOST, 96);
      weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
      desc.compressed_quota = quota;
      weir_client client = nullptr;
      ok(weir_client_create(world.pool, &desc, &client));
      // Scrubbed, a page is overwritten wherever it passes.
      const uint64_t scrub = from == From::cold ? WEIR_BUFFER_SCRUB : 0;
      weir_buffer buffer = world.make(flag | scrub, size, client);
      const std::vector<float> exact = floats(12);
      world.put_on_device(buffer, exact);
      if (from == From::cold) ok(weir_advise(world.pool, buffer, 0, WEIR_WHOLE, WEIR_ADVISE_COLD));
      from == From::host ? world.below() : world.to_host();
      const weir_pool_stats stats = world.stats();
      assert_int_equal(stats.host_used_bytes, 0);
      assert_int_equal(stats.compressed_raw_bytes, quota == 0 ? size : 0);
      assert_int_equal(stats.storage_raw_bytes, quota == 0 ? 0 : size);
      const std::vector<float> wanted = quota == 0 ? rounded(exact, flag) : exact;
      assert_true(same(world.get(buffer), wanted));
      assert_true(same(world.get_on_device(buffer), wanted));
      assert_int_equal(world.stats().checksum_failures, 0);
      ok(weir_buffer_destroy(world.pool, buffer));
      ok(weir_client_destroy(client));
      world.close();
    }
  }
}

/// COMPRESSED is full: some of it goes on to STORAGE, as it is by then, and some past COMPRESSED, exact.
void through_storage(void **) {
  Lossy world(64, 96, 0, 4);
  weir_buffer buffer = world.make(bf16);
  const std::vector<float> exact = floats(8);
  world.put_on_device(buffer, exact);
  world.below();
  assert_true(world.stats().storage_raw_bytes != 0);
  const std::vector<float> got = world.get(buffer);
  const std::vector<float> near = rounded(exact, bf16);
  uint64_t changed = 0;
  for (uint64_t i = 0; i < count; ++i) {
    assert_true(got[i] == exact[i] || got[i] == near[i]);
    changed += got[i] != exact[i] ? 1 : 0;
  }
  assert_true(changed != 0);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

/// A page has one checksum, and it is the right one wherever the page is read.
void with_checksums_of_host(void **) {
  Lossy world(64, 96, WEIR_POOL_CHECKSUM_HOST, 96);
  weir_buffer buffer = world.make(f16);
  std::vector<float> exact = floats(9);
  world.put_on_device(buffer, exact);
  world.to_host();
  for (int turn = 0; turn < 3; ++turn) {
    world.below();
    assert_true(same(world.get_on_device(buffer), rounded(exact, f16)));
    world.to_host();
    assert_true(same(world.get(buffer), rounded(exact, f16)));
    exact = floats(10 + static_cast<uint32_t>(turn));
    world.put(buffer, exact);
    assert_true(same(world.get(buffer), exact));
  }
  assert_int_equal(world.stats().checksum_failures, 0);
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

/// Pages in parts, the last of them short, and three bytes behind the last whole float.
void in_parts(void **) {
  for (const uint64_t host : {uint64_t{0}, uint64_t{1280}}) {
    World world({.options = "host.memory=64M;host.granule=16K;host.granule_large=0;host.vmm=0",
                 .device_pages = 768,
                 .host_pages = host,
                 .compressed_pages = 640});
    const uint64_t floats_in = (uint64_t{9} << 20U) / 4 + 77;
    const uint64_t bytes = floats_in * 4 + 3;
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = bytes;
    desc.element = WEIR_ELEMENT_F32;
    desc.flags = bf16;
    weir_buffer buffer = nullptr;
    ok(weir_buffer_create(world.pool, &desc, &buffer));
    std::vector<uint8_t> in(bytes, 0xab), out(bytes);
    for (uint64_t i = 0; i < floats_in; ++i) {
      const float value = 1.0F + static_cast<float>(i % 9973) * 1e-5F;
      std::memcpy(&in[4 * i], &value, 4);
    }
    weir_lease lease = nullptr;
    uint64_t address = 0;
    ok(world.acquire(buffer, WEIR_DISCARD_WRITE, &lease, &address));
    write_device(world.streams[0], address, in.data(), bytes);
    ok(weir_release(lease, world.streams[0]));
    ok(weir_stream_synchronize(world.streams[0]));
    ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr));
    if (host != 0)
      ok(weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr));
    ok(weir_buffer_read(world.pool, buffer, 0, bytes, out.data()));
    assert_int_equal(world.stats().compressed_raw_bytes, bytes);
    for (uint64_t i = 0; i < floats_in; ++i) {
      float was = 0, is = 0;
      std::memcpy(&was, &in[4 * i], 4);
      std::memcpy(&is, &out[4 * i], 4);
      if (is != nearest(was, 8)) fail_msg("element %u", static_cast<unsigned>(i));
    }
    for (uint64_t i = 4 * floats_in; i < bytes; ++i) assert_int_equal(out[i], 0xab);
    ok(weir_buffer_destroy(world.pool, buffer));
    world.close();
  }
}

void small_buffers_stay_exact(void **) {
  Lossy world;
  const uint64_t bytes = 400;
  weir_buffer buffer = world.make(bf16, bytes);
  std::vector<float> exact = floats(11);
  exact.resize(bytes / 4);
  world.put(buffer, exact);
  world.below();
  std::vector<float> got(bytes / 4);
  ok(weir_buffer_read(world.pool, buffer, 0, bytes, got.data()));
  assert_true(same(got, exact));
  ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

// ---- what is refused ----

void refusals(void **) {
  Lossy world;
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = size;
  desc.flags = bf16;
  weir_buffer buffer = nullptr;
  for (const uint32_t element : {uint32_t{WEIR_ELEMENT_ANY}, uint32_t{WEIR_ELEMENT_BF16},
                                 uint32_t{WEIR_ELEMENT_F16}, uint32_t{WEIR_ELEMENT_F64}}) {
    desc.element = element;
    expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_buffer_create(world.pool, &desc, &buffer));
    assert_non_null(std::strstr(weir_last_error(), std::to_string(element).c_str()));
  }
  desc.element = WEIR_ELEMENT_F32;
  desc.flags = bf16 | f16;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_buffer_create(world.pool, &desc, &buffer));
  assert_non_null(std::strstr(weir_last_error(), "LOSSY"));
  world.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(it_comes_back_rounded),         cmocka_unit_test(it_takes_half_the_room),
      cmocka_unit_test(nobody_else_is_rounded),        cmocka_unit_test(by_every_way_down),
      cmocka_unit_test(past_host_and_past_compressed), cmocka_unit_test(through_storage),
      cmocka_unit_test(with_checksums_of_host),        cmocka_unit_test(in_parts),
      cmocka_unit_test(small_buffers_stay_exact),      cmocka_unit_test(refusals),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
