// SPDX-License-Identifier: Apache-2.0
//
// Granules that several buffers share, through the C ABI: rounding costs next to nothing, contents and addresses outlive
// neighbours that come, go and are evicted, and clients never share; with a granule at several addresses and at one. Without
// virtual-memory management nothing is rounded.

#include "tests/abi/pool_fixture.hpp"

#include <weir/backend.h>

namespace {

using namespace weir::test;

const uint64_t odd = 2 * page_bytes + page_bytes / 2 + 100;  ///< its rounding wastes much

bool shares(World &world, uint32_t device = 0) {
  weir_device_info info = WEIR_DEVICE_INFO_INIT;
  ok(weir_device_info_get(world.context, device, &info));
  return (info.capabilities & WEIR_CAP_VMM) != 0;
}

/// Whether what is left alone in a granule can move to another one.
bool moves(World &world) {
  weir_device_info info = WEIR_DEVICE_INFO_INIT;
  ok(weir_device_info_get(world.context, 0, &info));
  return shares(world) && (info.capabilities & WEIR_CAP_MULTI_MAP) != 0;
}

uint64_t in_use(World &world) {
  const weir_pool_stats stats = world.stats();
  return stats.device_bytes - stats.device_free_bytes;
}

uint64_t address_of(World &world, weir_buffer buffer) {
  weir_lease lease = nullptr;
  uint64_t address = 0;
  ok(world.acquire(buffer, WEIR_READ, &lease, &address));
  ok(weir_release(lease, world.streams[0]));
  return address;
}

void trim_all(World &world) {
  ok(weir_stream_synchronize(world.streams[0]));
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
}

struct Setting {
  const char *more;
  bool vmm;
};
constexpr Setting settings[] = {{"", true},
                                {";host.multi_map=0", true},
                                {";host.vmm=0", false},
                                {";host.map_any_thread=0", true}};

/// Eight buffers that end in the midst of a page take as many pages as their bytes do, and one.
void rounding_costs_next_to_nothing(void **) {
  for (const Setting &setting : settings) {
    World world({.options = std::string(small_host) + setting.more, .device_pages = 48});
    weir_buffer buffers[8];
    for (uint32_t i = 0; i < 8; ++i) {
      buffers[i] = world.buffer(odd + 300 * i);
      world.fill(buffers[i], odd + 300 * i, i + 1);
    }
    if (setting.vmm) assert_true(in_use(world) <= 22 * page_bytes);
    for (uint32_t i = 0; i < 8; ++i) world.check(buffers[i], odd + 300 * i, i + 1);
    weir_client_stats held = WEIR_CLIENT_STATS_INIT;
    weir_client client = nullptr;
    const weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
    ok(weir_client_create(world.pool, &desc, &client));
    ok(weir_client_stats_get(client, &held));
    assert_int_equal(held.device_bytes, 0);
    for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
    trim_all(world);
    if (setting.vmm) assert_int_equal(world.stats().device_bytes, 0);
    ok(weir_client_destroy(client));
    world.close();
  }
}

/// Neighbours are destroyed, evicted and made again around those that stay.
void neighbours_come_and_go(void **) {
  for (const Setting &setting : settings) {
    World world(
        {.options = std::string(small_host) + setting.more, .device_pages = 48, .host_pages = 128});
    constexpr uint32_t count = 9;
    weir_buffer buffers[count];
    uint64_t addresses[count];
    const auto size = [](uint32_t i) { return odd + 700 * (i % 5); };
    for (uint32_t i = 0; i < count; ++i) {
      buffers[i] = world.buffer(size(i));
      world.fill(buffers[i], size(i), i + 1);
      addresses[i] = address_of(world, buffers[i]);
    }
    uint64_t held = 0;
    for (uint32_t round = 0; round < 6; ++round) {
      // Who is held stays where it is; its neighbours' parts of the same granules leave and come back.
      weir_buffer stays = buffers[(2 * round + 1) % count];
      ok(weir_hold(world.pool, stays, 0, &held));
      assert_true(world.stats().device_held_bytes >= 2 * page_bytes);
      assert_true(world.stats().device_held_bytes <= 4 * page_bytes);
      trim_all(world);
      for (uint32_t i = round % 2; i < count; i += 2) {
        world.check(buffers[i], size(i), i + 1);
        if (setting.vmm) assert_int_equal(address_of(world, buffers[i]), addresses[i]);
      }
      ok(weir_unhold(world.pool, stays));
      assert_int_equal(world.stats().device_held_bytes, 0);
      const uint32_t gone = (3 * round) % count;
      ok(weir_buffer_destroy(world.pool, buffers[gone]));
      buffers[gone] = world.buffer(size(gone));
      world.fill(buffers[gone], size(gone), gone + 1);
      addresses[gone] = address_of(world, buffers[gone]);
      for (uint32_t i = 0; i < count; ++i) world.check_read(buffers[i], size(i), i + 1);
    }
    for (uint32_t i = 0; i < count; ++i) world.check(buffers[i], size(i), i + 1);
    world.close();
  }
}

/// What a client left behind is zeroed before another one's buffer lies there, also where that does not reach.
void clients_share_nothing_of(const char *more) {
  // What one leaves the next one takes.
  World world({.options = std::string(small_host) + more, .device_pages = 12});
  const weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  for (uint32_t round = 0; round < 3; ++round) {
    weir_client client = nullptr;
    ok(weir_client_create(world.pool, &desc, &client));
    weir_buffer buffers[3];
    for (weir_buffer &buffer : buffers) {
      buffer = world.buffer(odd, WEIR_DEVICE_DEFAULT, client);
      weir_lease lease = nullptr;
      uint64_t address = 0;
      ok(world.acquire(buffer, WEIR_READ, &lease, &address));
      assert_true(all_zero(world.device_bytes(address, odd)));
      // Round the buffer there are the client's own bytes only, and he has written none.
      const uint64_t begin = address / page_bytes * page_bytes;
      const uint64_t end = (address + odd + page_bytes - 1) / page_bytes * page_bytes;
      if (shares(world)) assert_true(all_zero(world.device_bytes(begin, end - begin)));
      ok(weir_release(lease, world.streams[0]));
    }
    for (weir_buffer buffer : buffers) world.fill(buffer, odd, 7 + round);
    weir_client_stats held = WEIR_CLIENT_STATS_INIT;
    ok(weir_client_stats_get(client, &held));
    assert_true(held.device_bytes >= 3 * odd);
    for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
    ok(weir_client_stats_get(client, &held));
    assert_int_equal(held.device_bytes, 0);
    ok(weir_client_destroy(client));
  }
  world.close();
}

void clients_share_nothing(void **) {
  for (const Setting &setting : settings) clients_share_nothing_of(setting.more);
}

/// What needs all of the budget begins with a page of its own, and fits; what asks for an alignment gets it.
void large_ones_and_aligned_ones_begin_with_a_page(void **) {
  World world({.device_pages = 8});
  weir_buffer small = world.buffer(page_bytes + 4096);
  world.fill(small, page_bytes + 4096, 1);
  weir_buffer large = world.buffer(8 * page_bytes - 5000);
  world.fill(large, 8 * page_bytes - 5000, 2);
  world.check(large, 8 * page_bytes - 5000, 2);
  world.check(small, page_bytes + 4096, 1);
  ok(weir_buffer_destroy(world.pool, large));
  for (uint32_t i = 0; i < 4; ++i) {
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = page_bytes + page_bytes / 4;
    desc.alignment = page_bytes;
    weir_buffer aligned = nullptr;
    ok(weir_buffer_create(world.pool, &desc, &aligned));
    assert_int_equal(address_of(world, aligned) % page_bytes, 0);
  }
  world.close();
}

/// The CPU's view of a buffer that begins within a page is contiguous, its own memory may stand for it, and another device
/// has it whole.
void it_can_be_used_everywhere(void **) {
  World world(
      {.options = std::string(small_host) + ";host.devices=2", .device_pages = 48, .devices = 2});
  weir_buffer buffers[6];
  for (uint32_t i = 0; i < 6; ++i) {
    buffers[i] = world.buffer(odd + 4096 * i);
    world.fill(buffers[i], odd + 4096 * i, i + 1);
  }
  weir_stream cpu = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  for (uint32_t i = 0; i < 6; ++i) {
    const uint64_t size = odd + 4096 * i;
    world.check(buffers[i], size, i + 1, 1);
    weir_use use = WEIR_USE(buffers[i], WEIR_READ_WRITE);
    weir_lease lease = nullptr;
    const weir_result leased = weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease);
    if (leased != WEIR_ERROR_NOT_SUPPORTED) {
      ok(leased);
      auto *bytes = reinterpret_cast<uint8_t *>(use.address);
      for (uint64_t b = 0; b < size; ++b) {
        assert_int_equal(bytes[b], pattern(i + 1, b));
        bytes[b] = pattern(i + 50, b);
      }
      ok(weir_release(lease, cpu));
    } else {
      world.fill(buffers[i], size, i + 50);
    }
    world.check(buffers[i], size, i + 50, 0);
    uint8_t *memory = aligned_memory((size + page_bytes - 1) / page_bytes * page_bytes);
    if (weir_host_register(world.pool, buffers[i], memory, 0) == WEIR_SUCCESS) {
      world.check(buffers[i], size, i + 50, 1);
      ok(weir_host_unregister(world.pool, buffers[i]));
      for (uint64_t b = 0; b < size; ++b) assert_int_equal(memory[b], pattern(i + 50, b));
    }
    std::free(memory);
    uint8_t part[64];
    ok(weir_buffer_read(world.pool, buffers[i], page_bytes - 32, sizeof part, part));
    for (uint64_t b = 0; b < sizeof part; ++b)
      assert_int_equal(part[b], pattern(i + 50, page_bytes - 32 + b));
  }
  ok(weir_stream_close(cpu));
  world.close();
}

/// What is left alone in a granule moves in with others, and stays at its address.
void parts_that_are_left_alone_move_together(void **) {
  World world({.options = std::string(small_host), .device_pages = 64, .host_pages = 128});
  if (!moves(world)) {
    world.close();
    skip();
  }
  constexpr uint32_t count = 40;
  weir_buffer buffers[count];
  uint64_t addresses[count];
  const auto size = [](uint32_t i) { return page_bytes + page_bytes / 8 + 300 * i; };
  for (uint32_t i = 0; i < count; ++i) {
    buffers[i] = world.buffer(size(i));
    world.fill(buffers[i], size(i), i + 1);
    addresses[i] = address_of(world, buffers[i]);
  }
  uint64_t left_bytes = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (i % 4 != 1) {
      ok(weir_buffer_destroy(world.pool, buffers[i]));
      buffers[i] = nullptr;
    } else {
      left_bytes += size(i);
    }
  }
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_GRADUAL, WEIR_WHOLE, nullptr));  // what was destroyed
  const uint64_t before = in_use(world);
  weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
  desc.flags = WEIR_DEFRAGMENT_WAIT;
  desc.max_moves = 1;
  weir_defragment_report report = WEIR_DEFRAGMENT_REPORT_INIT;
  // Leased and held ones stay.
  weir_lease leases[count] = {};
  for (uint32_t i = 1; i < count; i += 4) {
    if (i % 8 == 1) ok(world.acquire(buffers[i], WEIR_READ, &leases[i]));
    uint64_t held = 0;
    if (i % 8 == 5) ok(weir_hold(world.pool, buffers[i], 0, &held));
  }
  ok(weir_pool_defragment(world.pool, &desc, &report));
  assert_int_equal(report.remap_moves, 0);
  assert_true(report.leased_bytes > 0 && report.held_bytes > 0);
  assert_int_equal(in_use(world), before);
  for (uint32_t i = 1; i < count; i += 4) {
    if (i % 8 == 1) ok(weir_release(leases[i], world.streams[0]));
    if (i % 8 == 5) ok(weir_unhold(world.pool, buffers[i]));
  }
  ok(weir_pool_defragment(world.pool, &desc, &report));
  assert_int_equal(report.remap_moves, 1);
  assert_int_equal(report.won_bytes, page_bytes);
  assert_true(report.moved_bytes > 0 && report.moved_bytes < page_bytes);
  assert_int_equal(in_use(world), before - page_bytes);
  desc.max_moves = 0;
  ok(weir_pool_defragment(world.pool, &desc, &report));
  assert_int_equal(report.finished, 1);
  assert_true(in_use(world) <= left_bytes + 4 * page_bytes);
  ok(weir_pool_defragment(world.pool, &desc, &report));
  assert_int_equal(report.remap_moves, 0);
  for (uint32_t i = 1; i < count; i += 4) {
    assert_int_equal(address_of(world, buffers[i]), addresses[i]);
    world.check(buffers[i], size(i), i + 1);
  }
  trim_all(world);
  for (uint32_t i = 1; i < count; i += 4) world.check(buffers[i], size(i), i + 1);
  world.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(rounding_costs_next_to_nothing),
      cmocka_unit_test(neighbours_come_and_go),
      cmocka_unit_test(clients_share_nothing),
      cmocka_unit_test(large_ones_and_aligned_ones_begin_with_a_page),
      cmocka_unit_test(it_can_be_used_everywhere),
      cmocka_unit_test(parts_that_are_left_alone_move_together),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
