// SPDX-License-Identifier: Apache-2.0
//
// No client sees another's bytes. One client writes a mark over every byte that it can have in every tier, and dies; then
// another one looks everywhere it may look, and where it may not but can: behind a buffer's last byte. What it finds is zero or
// its own. Memory of the host that is let go of is poisoned besides (core/base/poison.hpp), by the name of the client that had it, so that
// what was never marked, and what Weir itself left in staging, is seen as well.

#include <cstring>

#include "core/base/poison.hpp"
#include "tests/unit/gate.hpp"

#include "tests/unit/interleaving.hpp"
#include "tests/unit/marks.hpp"

namespace {

using namespace weir::test;

constexpr uint8_t mark = 0xa7;
constexpr uint64_t host_unit = 4096;

struct Case {
  const char *name;
  const char *options = "";
  uint64_t compressed = 0, storage = 0;
  const char *codec = nullptr;
  uint64_t device_pages = 8;
};
const Case cases[] = {
    {"device and HOST"},
    {"without MULTI_MAP", ";host.multi_map=0"},
    {"without VMM", ";host.vmm=0"},
    {"COMPRESSED", "", 32, 0, "raw"},
    {"STORAGE", "", 0, 64},
    {"COMPRESSED and STORAGE", "", 16, 64, "lz4"},
    {"without VMM, COMPRESSED and STORAGE", ";host.vmm=0", 24, 64, "raw"},
};

/// Whole pages, parts of pages, and less than one.
const uint64_t sizes[] = {
    page_bytes, 3 * page_bytes, page_bytes + 100, 2 * page_bytes - 9, page_bytes / 2 + 77, 5000,
    600};

struct Clients {
  World world;
  weir_stream cpu = nullptr;
  weir_client first = nullptr, second = nullptr;
  uint32_t own = 0;  ///< number of the client that looks

  explicit Clients(const Case &about)
      : world({.options = std::string(small_host) + about.options,
               .device_pages = about.device_pages,
               .host_pages = 24,
               .compressed_pages = about.compressed,
               .storage_pages = about.storage,
               .codec = about.codec}) {
    weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
    desc.name = "first";
    ok(weir_client_create(world.pool, &desc, &first));
    desc.name = "second";
    ok(weir_client_create(world.pool, &desc, &second));
    ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
    own = 2;
  }
  void close() {
    ok(weir_stream_close(cpu));
    ok(weir_client_destroy(second));
    const std::string wrong = reinterpret_cast<weir::pool::Pool *>(world.pool)->engine().validate();
    assert_string_equal(wrong.c_str(), "");
    world.close();
  }
};

/// Zero, or what this client has left itself.
void expect_nobodys(const Clients &clients, const uint8_t *bytes, uint64_t count,
                    const char *where) {
  uint64_t run = 0;
  for (uint64_t i = 0; i < count; ++i) {
    run = bytes[i] == mark ? run + 1 : 0;
    if (run == 4)
      fail_msg("%s: another client's bytes at %llu of %llu", where,
               static_cast<unsigned long long>(i - 3), static_cast<unsigned long long>(count));
    if (i % 4 != 3) continue;
    uint32_t word = 0;
    std::memcpy(&word, bytes + i - 3, sizeof word);
    if ((word & 0xffff0000U) == weir::poison::mark && word != weir::poison::word(clients.own))
      fail_msg("%s: poison of %x at %llu", where, word & 0xffffU,
               static_cast<unsigned long long>(i - 3));
  }
}

void write_bytes_of(World &world, weir_buffer buffer, const std::vector<uint8_t> &all) {
  weir_lease lease = nullptr;
  uint64_t address = 0;
  ok(world.acquire(buffer, WEIR_DISCARD_WRITE, &lease, &address));
  write_device(world.streams[0], address, all.data(), all.size());
  ok(weir_release(lease, world.streams[0]));
}

void write_mark(World &world, weir_buffer buffer, uint64_t bytes) {
  write_bytes_of(world, buffer, std::vector<uint8_t>(bytes, mark));
}
/// What does not compress.
void write_noise(World &world, weir_buffer buffer, uint64_t bytes) {
  std::vector<uint8_t> all(bytes);
  uint32_t state = 1;
  for (uint8_t &byte : all) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<uint8_t>((state >> 24U) & 0x7fU);
  }
  write_bytes_of(world, buffer, all);
}

/// The first client fills all that it can have, by a device and by the CPU, moves it through all tiers, and dies.
void fill_and_die(Clients &clients) {
  World &world = clients.world;
  std::vector<weir_buffer> made;
  for (int round = 0; round < 2; ++round) {
    for (const uint64_t bytes : sizes) {
      made.push_back(world.buffer(bytes, WEIR_DEVICE_DEFAULT, clients.first));
      write_mark(world, made.back(), bytes);
    }
    for (const uint64_t bytes : sizes) {
      made.push_back(world.buffer(bytes, WEIR_DEVICE_DEFAULT, clients.first));
      weir_use use = WEIR_USE(made.back(), WEIR_DISCARD_WRITE);
      weir_lease lease = nullptr;
      const weir_result leased = weir_acquire(world.pool, clients.cpu, &use, 1, nullptr, &lease);
      if (leased == WEIR_ERROR_OVER_BUDGET) continue;
      ok(leased);
      // To the end of the last page of the CPU's: a write there spoils no other bytes.
      std::memset(reinterpret_cast<void *>(use.address), mark,
                  (bytes + host_unit - 1) / host_unit * host_unit);
      ok(weir_release(lease, clients.cpu));
    }
    ok(trim_all(world));
    ok(weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr));
  }
  std::vector<uint8_t> bytes(page_bytes);
  for (weir_buffer buffer : made) (void)weir_buffer_read(world.pool, buffer, 0, 500, bytes.data());
  for (weir_buffer buffer : made) ok(weir_buffer_destroy(world.pool, buffer));
  ok(weir_client_destroy(clients.first));
}

void read_back(Clients &clients, weir_buffer buffer, uint64_t bytes, const char *where) {
  std::vector<uint8_t> out(bytes);
  ok(weir_buffer_read(clients.world.pool, buffer, 0, bytes, out.data()));
  expect_nobodys(clients, out.data(), bytes, where);
}

void look_by_host_lease(Clients &clients, weir_buffer buffer, uint64_t bytes, uint32_t mode) {
  weir_use use = WEIR_USE(buffer, mode);
  weir_lease lease = nullptr;
  ok(weir_acquire(clients.world.pool, clients.cpu, &use, 1, nullptr, &lease));
  expect_nobodys(clients, reinterpret_cast<const uint8_t *>(use.address),
                 (bytes + host_unit - 1) / host_unit * host_unit, "a lease on the CPU");
  ok(weir_release(lease, clients.cpu));
}

/// As much as the CPU and a kernel can reach without a fault.
void look_by_device_lease(Clients &clients, weir_buffer buffer, uint64_t bytes, uint32_t mode,
                          bool whole_pages) {
  weir_lease lease = nullptr;
  uint64_t address = 0;
  ok(clients.world.acquire(buffer, mode, &lease, &address));
  const uint64_t unit = whole_pages && bytes >= page_bytes ? page_bytes : 256;
  const uint64_t before = whole_pages ? address % unit : 0;
  const uint64_t reach = (before + bytes + unit - 1) / unit * unit - before;
  const std::vector<uint8_t> found = clients.world.device_bytes(address, reach);
  expect_nobodys(clients, found.data(), found.size(), "a lease on a device");
  ok(weir_release(lease, clients.world.streams[0]));
}

void down_and_up(Clients &clients, weir_buffer buffer, uint64_t bytes) {
  World &world = clients.world;
  ok(trim_all(world));
  read_back(clients, buffer, bytes, "a page in HOST");
  ok(weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr));
  read_back(clients, buffer, bytes, "a page below HOST");
}

void look_everywhere(Clients &clients, uint64_t bytes, bool whole_pages) {
  World &world = clients.world;
  const auto fresh = [&] { return world.buffer(bytes, WEIR_DEVICE_DEFAULT, clients.second); };
  const auto drop = [&](weir_buffer buffer) { ok(weir_buffer_destroy(world.pool, buffer)); };
  weir_buffer buffer = fresh();
  look_by_host_lease(clients, buffer, bytes, WEIR_DISCARD_WRITE);
  read_back(clients, buffer, bytes, "a read after a lease on the CPU");
  look_by_device_lease(clients, buffer, bytes, WEIR_READ, whole_pages);
  down_and_up(clients, buffer, bytes);
  drop(buffer);

  buffer = fresh();
  look_by_device_lease(clients, buffer, bytes, WEIR_DISCARD_WRITE, whole_pages);
  down_and_up(clients, buffer, bytes);
  look_by_device_lease(clients, buffer, bytes, WEIR_READ, whole_pages);
  look_by_host_lease(clients, buffer, bytes, WEIR_READ_WRITE);
  drop(buffer);

  buffer = fresh();
  const uint8_t byte = 1;
  ok(weir_buffer_write(world.pool, buffer, bytes / 2, 1, &byte));
  read_back(clients, buffer, bytes, "a read around one byte written");
  look_by_host_lease(clients, buffer, bytes, WEIR_READ);
  down_and_up(clients, buffer, bytes);
  ok(weir_buffer_write(world.pool, buffer, bytes / 3, 1, &byte));
  look_by_host_lease(clients, buffer, bytes, WEIR_READ);
  look_by_device_lease(clients, buffer, bytes, WEIR_READ, whole_pages);
  drop(buffer);

  buffer = fresh();
  uint64_t address = 0;
  ok(weir_hold(world.pool, buffer, 0, &address));
  const std::vector<uint8_t> held = world.device_bytes(address, bytes);
  expect_nobodys(clients, held.data(), held.size(), "held memory");
  ok(weir_unhold(world.pool, buffer));
  drop(buffer);

  // Of the pool's own client, which is a third one.
  clients.own = 0;
  ok(weir_malloc(world.pool, 0, world.streams[0], bytes, &address));
  const std::vector<uint8_t> malloced = world.device_bytes(address, bytes);
  expect_nobodys(clients, malloced.data(), malloced.size(), "weir_malloc");
  ok(weir_free(world.pool, world.streams[0], address));
  clients.own = 2;
}

/// Registered memory is the caller's; what Weir gives the buffer afterwards is not.
void look_past_registered_memory(Clients &clients, bool vmm) {
  World &world = clients.world;
  const uint64_t bytes = page_bytes + 100;
  weir_buffer buffer = world.buffer(bytes, WEIR_DEVICE_DEFAULT, clients.second);
  static uint8_t *memory = aligned_memory(2 * page_bytes);
  std::memset(memory, 1, 2 * page_bytes);
  ok(weir_host_register(world.pool, buffer, memory, WEIR_HOST_LOAD));
  ok(weir_host_unregister(world.pool, buffer));
  look_by_host_lease(clients, buffer, bytes, WEIR_READ_WRITE);
  look_by_device_lease(clients, buffer, bytes, WEIR_READ, vmm);
  ok(weir_buffer_destroy(world.pool, buffer));
}

void fill_host(Clients &clients) {
  World &world = clients.world;
  std::vector<weir_buffer> all;
  for (;;) {
    weir_buffer buffer = world.buffer(page_bytes, WEIR_DEVICE_DEFAULT, clients.second);
    weir_use use = WEIR_USE(buffer, WEIR_DISCARD_WRITE);
    weir_lease lease = nullptr;
    const weir_result result = weir_acquire(world.pool, clients.cpu, &use, 1, nullptr, &lease);
    all.push_back(buffer);
    if (result != WEIR_SUCCESS || all.size() > 48) {
      if (result == WEIR_SUCCESS) ok(weir_release(lease, clients.cpu));
      break;
    }
    expect_nobodys(clients, reinterpret_cast<const uint8_t *>(use.address), page_bytes,
                   "one of many leases on the CPU");
    ok(weir_release(lease, clients.cpu));
  }
  for (weir_buffer buffer : all) {
    read_back(clients, buffer, page_bytes, "a read of one of many");
    ok(weir_buffer_destroy(world.pool, buffer));
  }
}

void one_dies_and_another_looks(void **) {
  weir::poison::enabled().store(true);
  for (const Case &about : cases) {
    print_message("%s\n", about.name);
    const bool vmm = std::strstr(about.options, "vmm=0") == nullptr;
    for (const uint64_t bytes : sizes) {
      Clients clients(about);
      fill_and_die(clients);
      look_everywhere(clients, bytes, vmm);
      clients.close();
    }
    Clients clients(about);
    fill_and_die(clients);
    look_past_registered_memory(clients, vmm);
    fill_host(clients);
    clients.close();
  }
}

/// What goes down in whole units takes nothing along that lies behind the last byte: no staging, no slot, no blob.
void lower_tiers_get_what_is_written(void **) {
  weir::poison::enabled().store(true);
  for (const bool past_host : {false, true}) {
    for (const char *codec : {static_cast<const char *>(nullptr), "raw"}) {
      World world({.device_pages = 8,
                   .host_pages = 32,
                   .compressed_pages = codec != nullptr ? 8U : 0U,
                   .storage_pages = 64,
                   .codec = codec});
      std::vector<weir_buffer> all;
      for (const uint64_t bytes : {page_bytes - 100, 2 * page_bytes - 5000, uint64_t{5000}}) {
        weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
        desc.size = bytes;
        desc.flags = WEIR_BUFFER_STABLE_ADDRESS;
        weir_buffer buffer = nullptr;
        ok(weir_buffer_create(world.pool, &desc, &buffer));
        all.push_back(buffer);
        if (past_host) ok(weir_advise(world.pool, buffer, 0, WEIR_WHOLE, WEIR_ADVISE_COLD));
        write_noise(world, buffer, bytes);
        if (past_host) ok(weir_advise(world.pool, buffer, 0, WEIR_WHOLE, WEIR_ADVISE_COLD));
      }
      ok(trim_all(world));
      ok(weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr));
      // From COMPRESSED on to STORAGE: what comes after needs the room.
      std::vector<weir_buffer> more;
      for (int i = 0; codec != nullptr && i < 24; ++i) {
        more.push_back(world.buffer(page_bytes));
        write_noise(world, more.back(), page_bytes);
        ok(trim_all(world));
        ok(weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr));
      }
      assert_true(world.stats().storage_bytes != 0);
      each_spill_file([](const std::vector<uint8_t> &found) {
        for (uint64_t at = 0; at + 4 <= found.size(); ++at) {
          uint32_t word = 0;
          std::memcpy(&word, found.data() + at, sizeof word);
          if ((word & 0xffff0000U) == weir::poison::mark)
            fail_msg("poison of %x in a spill file at %llu", word & 0xffffU,
                     static_cast<unsigned long long>(at));
        }
      });
      for (weir_buffer buffer : all) ok(weir_buffer_destroy(world.pool, buffer));
      for (weir_buffer buffer : more) ok(weir_buffer_destroy(world.pool, buffer));
      world.close();
    }
  }
}

/// Without VMM a client's own old bytes stay, and where another was in the block at the end of an extent, that end alone is zeroed.
void only_ends_are_zeroed_among_ones_own(void **) {
  Clients clients({.name = "without VMM", .options = ";host.vmm=0", .device_pages = 64});
  World &world = clients.world;
  constexpr uint64_t block = uint64_t{64} << 10U;
  const auto take = [&](weir_client client, uint64_t bytes, uint8_t byte, uint64_t *address) {
    weir_buffer buffer = world.buffer(bytes, WEIR_DEVICE_DEFAULT, client);
    weir_lease lease = nullptr;
    ok(world.acquire(buffer, WEIR_DISCARD_WRITE, &lease, address));
    const std::vector<uint8_t> found = world.device_bytes(*address, bytes);
    if (client == clients.second) expect_nobodys(clients, found.data(), bytes, "an extent");
    write_device(world.streams[0], *address, std::vector<uint8_t>(bytes, byte).data(), bytes);
    ok(weir_release(lease, world.streams[0]));
    return buffer;
  };
  // Back to the segment, which the anchor keeps.
  const auto give = [&](weir_buffer buffer) {
    ok(weir_buffer_destroy(world.pool, buffer));
    ok(trim_all(world));
  };
  uint64_t start = 0, address = 0;
  weir_buffer anchor = take(clients.second, block, 1, &start);
  weir_use hold = WEIR_USE(anchor, WEIR_READ);
  weir_lease held = nullptr;
  ok(weir_acquire(world.pool, world.streams[0], &hold, 1, nullptr, &held));
  start += block;
  give(take(clients.second, 12 * block, 1, &address));
  assert_int_equal(address, start);
  give(take(clients.first, 2 * block, mark, &address));
  assert_int_equal(address, start);
  weir_buffer before = take(clients.second, block + block / 2, 1, &address);
  assert_int_equal(address, start);
  weir_buffer behind = world.buffer(4 * block, WEIR_DEVICE_DEFAULT, clients.second);
  weir_lease lease = nullptr;
  ok(world.acquire(behind, WEIR_DISCARD_WRITE, &lease, &address));
  assert_int_equal(address, start + block + block / 2);
  const std::vector<uint8_t> found = world.device_bytes(address, 4 * block);
  for (uint64_t i = 0; i < found.size(); ++i) assert_int_equal(found[i], i < block / 2 ? 0 : 1);
  ok(weir_release(lease, world.streams[0]));
  ok(weir_release(held, world.streams[0]));
  for (weir_buffer buffer : {anchor, before, behind}) ok(weir_buffer_destroy(world.pool, buffer));
  ok(weir_client_destroy(clients.first));
  clients.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(one_dies_and_another_looks),
      cmocka_unit_test(lower_tiers_get_what_is_written),
      cmocka_unit_test(only_ends_are_zeroed_among_ones_own),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
