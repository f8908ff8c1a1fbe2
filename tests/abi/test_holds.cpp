// SPDX-License-Identifier: Apache-2.0
//
// Holds: the table of docs/leases.md, walked. Every call is made against every mode, on the device that holds, elsewhere and on
// the CPU; what is granted must show and change the held memory, what is refused must change nothing, and what a "graph" (a
// kernel without a lease) writes into held memory is the latest version whatever else has copies.

#include "tests/abi/pool_fixture.hpp"

namespace {

using namespace weir::test;

const uint64_t size = 3 * page_bytes - 700;

enum Mode : uint32_t { none, reading, shared, alone, modes };
constexpr const char *mode_names[modes] = {"none", "READ", "shared", "alone"};

/// One buffer on a pool of two devices, with bytes the test knows.
struct Case {
  World world;
  weir_stream cpu = nullptr;
  weir_buffer buffer = nullptr;
  uint64_t bytes;
  uint32_t at, other;  ///< the device that holds, and the one that does not
  uint64_t address = 0;
  uint64_t begin = 0, length;  ///< of what the calls name
  uint32_t seed = 0;
  std::vector<uint8_t> contents;

  explicit Case(uint32_t at_, uint64_t bytes_ = size, const char *more = "")
      : world({.options = std::string(small_host) + ";host.devices=2" + more,
               .device_pages = 8,
               .devices = 2,
               .compressed_pages = 16}),
        bytes(bytes_),
        at(at_),
        other(1 - at_),
        length(bytes_),
        contents(bytes_) {
    ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
    buffer = world.buffer(bytes, 0);
  }
  void close() {
    ok(weir_buffer_destroy(world.pool, buffer));
    ok(weir_stream_close(cpu));
    world.close();
  }

  void note(uint64_t from, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) contents[from + i] = pattern(seed, i);
  }
  weir_result hold(Mode mode, uint32_t device, uint64_t *where) {
    if (mode == none) return WEIR_SUCCESS;
    return weir_hold_as(world.pool, buffer, device, mode == reading ? WEIR_READ : WEIR_READ_WRITE,
                        mode == alone ? WEIR_HOLD_ALONE : 0, where);
  }
  /// Copies of the bytes wherever there can be any, all of them good.
  void spread() {
    ++seed;
    note(0, bytes);
    ok(weir_buffer_write(world.pool, buffer, 0, bytes, contents.data()));
    if (bytes < page_bytes) {
      see_on(0);
      return;
    }
    see_on(other);
    see_on(at);
    see_on_cpu();
  }
  /// A kernel that no lease covers.
  void graph() {
    ++seed;
    Kernel kernel{address, bytes, seed, 0};
    ok(kernel.launch(world.streams[at], Kernel::write));
    ok(weir_stream_synchronize(world.streams[at]));
    note(0, bytes);
  }
  void see_on(uint32_t device) {
    weir_lease lease = nullptr;
    uint64_t there = 0;
    ok(world.acquire(buffer, WEIR_READ, &lease, &there, device));
    assert_true(world.device_bytes(there, bytes, device) == contents);
    ok(weir_release(lease, world.streams[device]));
  }
  void see_on_cpu() {
    weir_use use = WEIR_USE(buffer, WEIR_READ);
    weir_lease lease = nullptr;
    ok(weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease));
    assert_memory_equal(reinterpret_cast<void *>(use.address), contents.data(), bytes);
    ok(weir_release(lease, cpu));
  }
  void see_by_call() {
    std::vector<uint8_t> copy(bytes);
    ok(weir_buffer_read(world.pool, buffer, 0, bytes, copy.data()));
    assert_true(copy == contents);
  }
  void see_held() { assert_true(world.device_bytes(address, bytes, at) == contents); }

  /// A lease on the part that the calls name, and if it writes, a kernel under it.
  weir_result lease(uint32_t mode, uint32_t device) {
    weir_stream stream = device == WEIR_DEVICE_HOST ? cpu : world.streams[device];
    weir_use use{buffer, begin, length, mode, 0, 0, {0, 0, 0}};
    weir_lease taken = nullptr;
    const weir_result result = weir_acquire(world.pool, stream, &use, 1, nullptr, &taken);
    if (result != WEIR_SUCCESS) return result;
    Kernel kernel{use.address, length, ++seed, 0};
    if (device == WEIR_DEVICE_HOST) {
      if (mode != WEIR_READ) Kernel::write(&kernel);
      if (mode == WEIR_READ) assert_memory_equal(kernel.range(), contents.data() + begin, length);
    } else if (mode != WEIR_READ) {
      ok(kernel.launch(stream, Kernel::write));
    } else {
      const std::vector<uint8_t> seen = world.device_bytes(use.address, length, device);
      assert_memory_equal(seen.data(), contents.data() + begin, length);
    }
    if (mode != WEIR_READ) note(begin, length);
    ok(weir_release(taken, stream));
    ok(weir_stream_synchronize(stream));
    return result;
  }
};

// ---- the table ----

constexpr weir_result granted = WEIR_SUCCESS;
constexpr weir_result refused = WEIR_ERROR_LEASE_CONFLICT;
constexpr weir_result busy = WEIR_ERROR_BUSY;

struct Row {
  const char *name;
  weir_result (*call)(Case &c);
  weir_result wanted[modes];
};

template <uint32_t mode>
weir_result here(Case &c) {
  return c.lease(mode, c.at);
}
template <uint32_t mode>
weir_result elsewhere(Case &c) {
  return c.lease(mode, c.other);
}
template <uint32_t mode>
weir_result on_cpu(Case &c) {
  return c.lease(mode, WEIR_DEVICE_HOST);
}
weir_result read_call(Case &c) {
  std::vector<uint8_t> copy(c.length);
  const weir_result result =
      weir_buffer_read(c.world.pool, c.buffer, c.begin, c.length, copy.data());
  if (result == WEIR_SUCCESS)
    assert_memory_equal(copy.data(), c.contents.data() + c.begin, c.length);
  return result;
}
weir_result write_call(Case &c) {
  ++c.seed;
  std::vector<uint8_t> fresh(c.length);
  for (uint64_t i = 0; i < c.length; ++i) fresh[i] = pattern(c.seed, i);
  const weir_result result =
      weir_buffer_write(c.world.pool, c.buffer, c.begin, c.length, fresh.data());
  if (result == WEIR_SUCCESS) c.note(c.begin, c.length);
  return result;
}
/// Whole pages read as zero from then on; the rest stays.
weir_result discard_call(Case &c) {
  const weir_result result = weir_discard(c.world.pool, c.buffer, c.begin, c.length);
  for (uint64_t page = 0; result == WEIR_SUCCESS && page < c.bytes; page += page_bytes) {
    const uint64_t end = std::min(page + page_bytes, c.bytes);
    if (page < c.begin || end > c.begin + c.length) continue;
    std::fill(c.contents.begin() + static_cast<ptrdiff_t>(page),
              c.contents.begin() + static_cast<ptrdiff_t>(end), uint8_t{0});
  }
  return result;
}
template <bool here>
weir_result prefetch(Case &c) {
  const weir_use use = WEIR_USE(c.buffer, WEIR_READ);
  return weir_prefetch(c.world.pool, c.world.streams[here ? c.at : c.other], &use, 1);
}
template <bool here>
weir_result announce(Case &c) {
  weir_use use = WEIR_USE(c.buffer, WEIR_READ);
  const weir_operation next = {"next", &use, 1, {0, 0, 0}};
  weir_stream stream = c.world.streams[here ? c.at : c.other];
  const weir_result result = weir_announce(c.world.pool, stream, &next, 1, WEIR_ANNOUNCE_REPLACE);
  ok(weir_announce(c.world.pool, stream, nullptr, 0, WEIR_ANNOUNCE_REPLACE));
  return result;
}
template <uint32_t advice>
weir_result advise(Case &c) {
  const weir_result result = weir_advise(c.world.pool, c.buffer, 0, WEIR_WHOLE, advice);
  ok(weir_advise(c.world.pool, c.buffer, 0, WEIR_WHOLE, WEIR_ADVISE_NORMAL));
  return result;
}
weir_result prioritise(Case &c) {
  return weir_buffer_set_priority(c.world.pool, c.buffer, WEIR_PRIORITY_LOWEST);
}
weir_result trim(Case &c) {
  for (const weir_device device : {0U, 1U, uint32_t{WEIR_DEVICE_HOST}})
    ok(weir_pool_trim(c.world.pool, device, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  return WEIR_SUCCESS;
}
weir_result defragment(Case &c) {
  weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
  weir_defragment_report report = WEIR_DEFRAGMENT_REPORT_INIT;
  return weir_pool_defragment(c.world.pool, &desc, &report);
}
/// Another buffer wants all the memory that is not held, on both devices.
weir_result evict(Case &c) {
  for (uint32_t device = 0; device < 2; ++device) {
    weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
    ok(weir_pool_device_stats_get(c.world.pool, device, &stats));
    const uint64_t rest = 8 * page_bytes - stats.held_bytes;
    weir_buffer greedy = c.world.buffer(rest, device);
    c.world.fill(greedy, rest, 77, device);
    ok(weir_buffer_destroy(c.world.pool, greedy));
  }
  return WEIR_SUCCESS;
}
weir_result destroy(Case &c) {
  const weir_result result = weir_buffer_destroy(c.world.pool, c.buffer);
  if (result == WEIR_SUCCESS) {
    c.buffer = c.world.buffer(c.bytes, 0);
    c.spread();
  }
  return result;
}
weir_result host_register(Case &c) {
  static uint8_t *const memory = aligned_memory(4 * page_bytes);
  const weir_result result = weir_host_register(c.world.pool, c.buffer, memory, 0);
  if (result == WEIR_SUCCESS) ok(weir_host_unregister(c.world.pool, c.buffer));
  return result;
}
template <Mode mode, bool here>
weir_result hold(Case &c) {
  uint64_t where = 0;
  const weir_result result = c.hold(mode, here ? c.at : c.other, &where);
  if (result != WEIR_SUCCESS) return result;
  if (c.address != 0 && here) assert_int_equal(where, c.address);
  ok(weir_unhold(c.world.pool, c.buffer));
  return result;
}
weir_result remove_it(Case &c) {
  const weir_result result = weir_pool_remove_device(c.world.pool, c.at, WEIR_INFINITE);
  const weir_pool_device entry = {c.at, 0, 8 * page_bytes, {0, 0}};
  if (result == WEIR_SUCCESS) ok(weir_pool_add_device(c.world.pool, &entry));
  return result;
}

constexpr Row rows[] = {
    //                                       none     READ     shared   alone
    {"READ lease here", here<1>, {granted, granted, granted, refused}},
    {"READ_WRITE lease here", here<2>, {granted, refused, granted, refused}},
    {"DISCARD_WRITE lease here", here<3>, {granted, refused, granted, refused}},
    {"READ lease elsewhere", elsewhere<1>, {granted, granted, granted, refused}},
    {"READ_WRITE lease elsewhere", elsewhere<2>, {granted, refused, refused, refused}},
    {"DISCARD_WRITE lease elsewhere", elsewhere<3>, {granted, refused, refused, refused}},
    {"READ lease of the CPU", on_cpu<1>, {granted, granted, granted, refused}},
    {"READ_WRITE lease of the CPU", on_cpu<2>, {granted, refused, refused, refused}},
    {"DISCARD_WRITE lease of the CPU", on_cpu<3>, {granted, refused, refused, refused}},
    {"weir_buffer_read", read_call, {granted, granted, granted, refused}},
    {"weir_buffer_write", write_call, {granted, refused, granted, refused}},
    {"weir_discard", discard_call, {granted, refused, granted, refused}},
    {"weir_prefetch here", prefetch<true>, {granted, granted, granted, granted}},
    {"weir_prefetch elsewhere", prefetch<false>, {granted, granted, granted, granted}},
    {"weir_announce here", announce<true>, {granted, granted, granted, granted}},
    {"weir_announce elsewhere", announce<false>, {granted, granted, granted, granted}},
    {"WILL_NEED", advise<WEIR_ADVISE_WILL_NEED>, {granted, granted, granted, granted}},
    {"COLD", advise<WEIR_ADVISE_COLD>, {granted, granted, granted, granted}},
    {"weir_buffer_set_priority", prioritise, {granted, granted, granted, granted}},
    {"weir_pool_trim", trim, {granted, granted, granted, granted}},
    {"weir_pool_defragment", defragment, {granted, granted, granted, granted}},
    {"eviction", evict, {granted, granted, granted, granted}},
    {"weir_host_register", host_register, {granted, busy, busy, busy}},
    {"hold READ here", hold<reading, true>, {granted, granted, refused, refused}},
    {"hold shared here", hold<shared, true>, {granted, refused, granted, refused}},
    {"hold alone here", hold<alone, true>, {granted, refused, refused, refused}},
    {"hold READ elsewhere", hold<reading, false>, {granted, refused, refused, refused}},
    {"hold shared elsewhere", hold<shared, false>, {granted, refused, refused, refused}},
    {"hold alone elsewhere", hold<alone, false>, {granted, refused, refused, refused}},
    {"weir_pool_remove_device", remove_it, {granted, busy, busy, busy}},
    {"weir_buffer_destroy", destroy, {granted, busy, busy, busy}},
};

/// What the mode lets one see while it lasts, and what everybody sees after it.
void look_at_all(Case &c, Mode mode, bool held) {
  if (held && mode != none) c.see_held();
  if (held && mode == alone) return;
  c.see_by_call();
  c.see_on(c.at);
  c.see_on(c.other);
  c.see_on_cpu();
  c.see_by_call();
}

void walk(Case &c, Mode mode, const Row &row) {
  c.spread();
  c.address = 0;
  ok(c.hold(mode, c.at, &c.address));
  if (mode == shared || mode == alone) c.graph();
  const weir_result got = row.call(c);
  if (got != row.wanted[mode])
    print_error("%s against %s on device %u: %d (%s)\n", row.name, mode_names[mode], c.at, got,
                weir_last_error());
  assert_int_equal(got, row.wanted[mode]);
  look_at_all(c, mode, true);
  // And once more: no copy that was made meanwhile counts.
  if (mode == shared || mode == alone) {
    c.graph();
    if (got == WEIR_SUCCESS) assert_int_equal(row.call(c), WEIR_SUCCESS);
    look_at_all(c, mode, true);
    c.graph();
  }
  if (mode != none) ok(weir_unhold(c.world.pool, c.buffer));
  if (row.call == trim || row.call == evict) ok(row.call(c));
  look_at_all(c, mode, false);
  assert_int_equal(c.world.stats().device_held_bytes, 0);
}

void walk_table(uint64_t begin, uint64_t length, const char *more) {
  for (const uint32_t at : {0U, 1U}) {
    for (uint32_t mode = none; mode < modes; ++mode) {
      Case c(at, size, more);
      c.begin = begin;
      c.length = length;
      for (const Row &row : rows) walk(c, static_cast<Mode>(mode), row);
      c.close();
    }
  }
}

void every_call_against_every_mode(void **) { walk_table(0, size, ""); }
void on_parts(void **) {
  if (!Target::get().host()) skip();  // the engine's affair alone
  walk_table(page_bytes - 300, page_bytes + 900, "");
}
void without_vmm(void **) {
  if (!Target::get().host()) skip();
  walk_table(0, size, ";host.vmm=0");
}

// ---- holds against leases that are out ----

/// READ: as a lease that reads; shared: no lease may write; alone: as one that writes.
void leases_that_are_out(void **) {
  struct Out {
    uint32_t mode, device;
    weir_result wanted[modes];
  };
  constexpr uint32_t host = WEIR_DEVICE_HOST;
  constexpr Out outs[] = {
      {WEIR_READ, 0, {granted, granted, granted, refused}},
      {WEIR_READ, 1, {granted, granted, granted, refused}},
      {WEIR_READ, host, {granted, granted, granted, refused}},
      {WEIR_READ_WRITE, 0, {granted, refused, refused, refused}},
      {WEIR_READ_WRITE, 1, {granted, refused, refused, refused}},
      {WEIR_DISCARD_WRITE, host, {granted, refused, refused, refused}},
  };
  for (const Out &out : outs) {
    for (const uint64_t length : {uint64_t{WEIR_WHOLE}, uint64_t{1000}}) {
      for (uint32_t mode = reading; mode < modes; ++mode) {
        Case c(0);
        c.spread();
        weir_stream stream = out.device == host ? c.cpu : c.world.streams[out.device];
        weir_use use{c.buffer, 0, length, out.mode, 0, 0, {0, 0, 0}};
        weir_lease lease = nullptr;
        ok(weir_acquire(c.world.pool, stream, &use, 1, nullptr, &lease));
        const weir_result got = c.hold(static_cast<Mode>(mode), c.at, &c.address);
        assert_int_equal(got, out.wanted[mode]);
        if (got == WEIR_SUCCESS && mode == shared) {
          c.graph();
          // What the CPU looks at is an older version, and stays in place.
          if (out.device == host) {
            const auto *seen = reinterpret_cast<const volatile uint8_t *>(use.address);
            for (uint64_t i = 0; i < 1000; ++i) assert_int_equal(seen[i], pattern(c.seed - 1, i));
          }
          c.see_by_call();
        }
        if (out.mode != WEIR_DISCARD_WRITE || got == WEIR_SUCCESS) {
          ok(weir_release(lease, stream));
        } else {
          Kernel kernel{use.address, length == WEIR_WHOLE ? size : length, ++c.seed, 0};
          Kernel::write(&kernel);
          c.note(0, kernel.bytes);
          ok(weir_release(lease, stream));
        }
        if (got == WEIR_SUCCESS) ok(weir_unhold(c.world.pool, c.buffer));
        look_at_all(c, none, false);
        c.close();
      }
    }
  }
}

/// A lease of the CPU on a part stays readable while the rest of its page is written under a hold, and after it.
void what_the_cpu_looks_at_stays(void **) {
  Case c(0);
  c.spread();
  ok(c.hold(shared, 0, &c.address));
  weir_use use{c.buffer, 0, 1000, WEIR_READ, 0, 0, {0, 0, 0}};
  weir_lease lease = nullptr;
  ok(weir_acquire(c.world.pool, c.cpu, &use, 1, nullptr, &lease));
  const auto look = [&] {
    const auto *seen = reinterpret_cast<const volatile uint8_t *>(use.address);
    for (uint64_t i = 0; i < 1000; ++i) assert_int_equal(seen[i], c.contents[i]);
  };
  const uint8_t bytes[3] = {1, 2, 3};
  expect_result(refused, weir_buffer_write(c.world.pool, c.buffer, 999, 3, bytes));
  for (const uint64_t at : {uint64_t{1000}, page_bytes + 5}) {
    ok(weir_buffer_write(c.world.pool, c.buffer, at, 3, bytes));
    std::copy_n(bytes, 3, c.contents.begin() + static_cast<ptrdiff_t>(at));
    look();
    c.see_held();
    c.see_by_call();
  }
  ok(trim(c));
  look();
  ok(weir_unhold(c.world.pool, c.buffer));
  ok(weir_buffer_write(c.world.pool, c.buffer, 2000, 3, bytes));
  std::copy_n(bytes, 3, c.contents.begin() + 2000);
  look();
  ok(weir_release(lease, c.cpu));
  ok(trim(c));
  look_at_all(c, none, false);
  c.close();
}

// ---- what a graph writes ----

enum Before { in_host, in_compressed, on_both, on_the_neighbour, registered, unwritten };

/// Wherever the bytes were before, what is written to the held memory is what everybody reads after.
void what_a_graph_writes_is_kept(void **) {
  for (const Before before :
       {in_host, in_compressed, on_both, on_the_neighbour, registered, unwritten}) {
    for (const Mode mode : {shared, alone}) {
      Case c(0);
      uint8_t *memory = aligned_memory(4 * page_bytes);
      if (before == registered) ok(weir_host_register(c.world.pool, c.buffer, memory, 0));
      if (before != unwritten) c.spread();
      if (before == in_host || before == in_compressed) ok(evict(c));
      if (before == in_compressed)
        ok(weir_pool_trim(c.world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_EMERGENCY, WEIR_WHOLE,
                          nullptr));
      if (before == on_the_neighbour) ok(c.lease(WEIR_READ_WRITE, 1));
      ok(c.hold(mode, 0, &c.address));
      c.see_held();
      c.graph();
      ok(trim(c));
      ok(evict(c));
      ok(defragment(c));
      c.see_held();
      if (before == registered) {
        expect_result(mode == alone ? refused : granted,
                      weir_host_unregister(c.world.pool, c.buffer));
        if (mode == shared) assert_memory_equal(memory, c.contents.data(), size);
        c.graph();
      }
      ok(weir_unhold(c.world.pool, c.buffer));
      ok(trim(c));
      ok(evict(c));
      look_at_all(c, none, false);
      c.close();
      std::free(memory);
    }
  }
}

// ---- small buffers ----

/// A held tenant shares its page with others, who go on as they were; elsewhere it can't be used, for it can't leave its place.
void small_buffers(void **) {
  for (const Mode mode : {reading, shared, alone}) {
    Case c(0, 3000);
    weir_buffer others[2] = {c.world.buffer(5000), c.world.buffer(2000)};
    c.spread();
    c.world.fill(others[0], 5000, 91);
    c.world.fill(others[1], 2000, 92);
    ok(evict(c));
    c.world.check(others[0], 5000, 91);  // the page is in HOST too
    ok(c.hold(mode, 0, &c.address));
    if (mode != reading) c.graph();
    c.see_held();
    c.world.fill(others[0], 5000, 93);
    std::vector<uint8_t> bytes(2000);
    for (uint64_t i = 0; i < 2000; ++i) bytes[i] = pattern(94, i);
    ok(weir_buffer_write(c.world.pool, others[1], 0, 2000, bytes.data()));
    c.world.check_read(others[0], 5000, 93);
    c.world.check(others[1], 2000, 94);
    const bool may_read = mode != alone;
    const bool may_write = mode == shared;
    const auto answer = [](bool may) { return may ? granted : refused; };
    expect_result(answer(may_read), read_call(c));
    expect_result(answer(may_read), c.lease(WEIR_READ, 0));
    expect_result(answer(may_write), c.lease(WEIR_READ_WRITE, 0));
    expect_result(answer(may_write), c.lease(WEIR_DISCARD_WRITE, 0));
    expect_result(answer(may_write), write_call(c));
    c.see_held();
    for (const uint32_t use : {WEIR_READ, WEIR_READ_WRITE, WEIR_DISCARD_WRITE}) {
      expect_result(refused, c.lease(use, 1));
      expect_result(refused, c.lease(use, WEIR_DEVICE_HOST));
    }
    expect_result(answer(may_write), weir_discard(c.world.pool, c.buffer, 0, WEIR_WHOLE));
    if (may_write) {
      std::fill(c.contents.begin(), c.contents.end(), uint8_t{0});
      c.see_held();
      c.see_by_call();
    }
    uint64_t again = 0;
    expect_result(refused, c.hold(mode, 1, &again));
    if (mode != reading) c.graph();
    ok(trim(c));
    c.see_held();
    ok(weir_unhold(c.world.pool, c.buffer));
    look_at_all(c, none, false);
    c.world.check(others[1], 2000, 94, 1);
    for (weir_buffer buffer : others) ok(weir_buffer_destroy(c.world.pool, buffer));
    c.close();
  }
}

/// What the user writes there is kept, whatever happens round it.
void memory_of_weir_malloc(void **) {
  Case c(0);
  for (const uint64_t bytes : {uint64_t{700}, page_bytes + 5, 2 * page_bytes}) {
    uint64_t address = 0;
    ok(weir_malloc(c.world.pool, 0, nullptr, bytes, &address));
    for (uint32_t seed = 1; seed < 4; ++seed) {
      Kernel kernel{address, bytes, seed, 0};
      ok(kernel.launch(c.world.streams[0], Kernel::write));
      ok(weir_stream_synchronize(c.world.streams[0]));
      ok(trim(c));
      ok(defragment(c));
      ok(evict(c));
      ok(kernel.launch(c.world.streams[0], Kernel::compare));
      ok(weir_stream_synchronize(c.world.streams[0]));
      assert_int_equal(kernel.wrong, 0);
    }
    ok(weir_free(c.world.pool, nullptr, address));
  }
  c.close();
}

// ---- the rest ----

void holds_nest(void **) {
  for (const Mode mode : {reading, shared}) {
    Case c(1);
    c.spread();
    uint64_t again = 0;
    ok(c.hold(mode, 1, &c.address));
    // What is granted under the hold does not keep it from nesting.
    weir_lease lease = nullptr;
    ok(c.world.acquire(c.buffer, mode == shared ? WEIR_READ_WRITE : WEIR_READ, &lease, nullptr, 1));
    ok(c.hold(mode, 1, &again));
    assert_int_equal(again, c.address);
    ok(weir_release(lease, c.world.streams[1]));
    ok(weir_unhold(c.world.pool, c.buffer));
    expect_result(refused, c.lease(WEIR_READ_WRITE, 0));
    if (mode == shared) c.graph();
    ok(trim(c));
    c.see_held();
    ok(weir_unhold(c.world.pool, c.buffer));
    expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_unhold(c.world.pool, c.buffer));
    look_at_all(c, none, false);
    ok(c.lease(WEIR_READ_WRITE, 0));
    c.close();
  }
}

/// A copy elsewhere, made for a lease under the hold, is no reason to be short of memory there.
void copies_elsewhere_are_not_held(void **) {
  Case c(0);
  c.spread();
  ok(c.hold(shared, 0, &c.address));
  c.graph();
  c.see_on(1);
  weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
  ok(weir_pool_device_stats_get(c.world.pool, 1, &stats));
  assert_int_equal(stats.held_bytes, 0);
  weir_buffer greedy = c.world.buffer(8 * page_bytes, 1);
  c.world.fill(greedy, 8 * page_bytes, 5, 1);
  c.see_on(1);
  ok(weir_pool_remove_device(c.world.pool, 1, WEIR_INFINITE));
  c.see_held();
  ok(weir_unhold(c.world.pool, c.buffer));
  c.see_by_call();
  ok(weir_buffer_destroy(c.world.pool, greedy));
  c.close();
}

void refusals(void **) {
  Case c(0);
  uint64_t address = 17;
  weir_pool pool = c.world.pool;
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_hold_as(pool, c.buffer, 0, 0, 0, &address));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_hold_as(pool, c.buffer, 0, WEIR_DISCARD_WRITE, 0, &address));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_hold_as(pool, c.buffer, 0, WEIR_READ, WEIR_HOLD_ALONE, &address));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_hold_as(pool, c.buffer, 0, WEIR_READ_WRITE, 2, &address));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_hold_as(pool, c.buffer, 9, WEIR_READ, 0, &address));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT,
                weir_hold_as(pool, c.buffer, 0, WEIR_READ, 0, nullptr));
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_hold_as(pool, nullptr, 0, WEIR_READ, 0, &address));
  expect_result(WEIR_ERROR_INVALID_HANDLE,
                weir_hold_as(nullptr, c.buffer, 0, WEIR_READ, 0, &address));
  assert_int_equal(address, 17);
  ok(weir_hold_as(pool, c.buffer, WEIR_DEVICE_DEFAULT, WEIR_READ, 0, &address));
  // A set is refused as one, and the use that is to blame is named.
  weir_buffer free_one = c.world.buffer(page_bytes);
  weir_use uses[2] = {WEIR_USE(free_one, WEIR_READ_WRITE), WEIR_USE(c.buffer, WEIR_READ_WRITE)};
  weir_lease lease = nullptr;
  expect_result(refused, weir_acquire(pool, c.world.streams[0], uses, 2, nullptr, &lease));
  assert_int_equal(last_error().use_index, 1);
  c.world.fill(free_one, page_bytes, 1);
  ok(weir_unhold(pool, c.buffer));
  ok(weir_buffer_destroy(pool, free_one));
  c.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(every_call_against_every_mode),
      cmocka_unit_test(on_parts),
      cmocka_unit_test(without_vmm),
      cmocka_unit_test(leases_that_are_out),
      cmocka_unit_test(what_the_cpu_looks_at_stays),
      cmocka_unit_test(what_a_graph_writes_is_kept),
      cmocka_unit_test(small_buffers),
      cmocka_unit_test(memory_of_weir_malloc),
      cmocka_unit_test(holds_nest),
      cmocka_unit_test(copies_elsewhere_are_not_held),
      cmocka_unit_test(refusals),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
