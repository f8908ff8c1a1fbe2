// SPDX-License-Identifier: Apache-2.0
//
// The streams that a pool makes for its own copies are for copies alone where the device has such streams; those that a
// program asks for are ordinary ones, and on a device without the capability all are.

#include "tests/abi/pool_fixture.hpp"
#include "tests/unit/interposed_host.hpp"

namespace {

using namespace weir::test;

struct Made {
  std::atomic<uint32_t> transfers{0}, others{0};
  decltype(weir_backend_table::stream_create) next = nullptr;
};
Made made;

const weir_backend_table *counting(uint32_t abi_major) {
  if (InterposedHost::query(abi_major) == nullptr) return nullptr;
  made.next = interposed.table.stream_create;
  interposed.table.stream_create = [](weir_be_state *s, uint32_t device, uint64_t flags,
                                      weir_be_stream *out) {
    ++(flags == WEIR_BE_STREAM_TRANSFER ? made.transfers : made.others);
    return made.next(s, device, flags, out);
  };
  return &interposed.table;
}

/// More buffers than the device holds: copies go up and down.
void move_pages(const std::string &more) {
  made.transfers = made.others = 0;
  Setup setup;
  setup.options += more;
  setup.device_pages = 3;
  setup.backend = counting;
  World world(setup);
  std::vector<weir_buffer> buffers;
  for (uint32_t i = 0; i < 6; ++i) {
    buffers.push_back(world.buffer(page_bytes));
    world.fill(buffers[i], page_bytes, i + 1);
  }
  for (uint32_t i = 0; i < 6; ++i) world.check(buffers[i], page_bytes, i + 1);
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

void a_pools_own_streams_are_for_copies_alone(void **) {
  move_pages("");
  assert_true(made.transfers >= 2);
  assert_int_equal(made.others, 1);  // the program's
}

void without_the_capability_all_are_alike(void **) {
  move_pages(";host.transfer_stream=0");
  assert_int_equal(made.transfers, 0);
  assert_true(made.others >= 3);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_pools_own_streams_are_for_copies_alone),
      cmocka_unit_test(without_the_capability_all_are_alike),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
