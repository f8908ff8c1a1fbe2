// SPDX-License-Identifier: Apache-2.0
//
// Holds: the table of docs/leases.md, walked. Every call is made against every mode, on the device that holds, elsewhere and on
// the CPU; what is granted must show and change the held memory, what is refused must change nothing, and what a "graph" (a
// kernel without a lease) writes into held memory is the latest version whatever else has copies.

#include "tests/abi/hold_case.hpp"

namespace {

using namespace weir::test;

// ---- the table ----

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
  const weir_operation next = {"next", &use, 1, 0, {0, 0}};
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

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(every_call_against_every_mode),
      cmocka_unit_test(on_parts),
      cmocka_unit_test(without_vmm),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
