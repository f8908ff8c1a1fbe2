// SPDX-License-Identifier: Apache-2.0
//
// Which streams may be writing on other devices' memory: until when that is known, and what is lost with a writer. No pool is needed.

#include "core/lease/remote_writes.hpp"

#include "tests/unit/blocked_streams.hpp"

#include "tests/support/cmocka.hpp"  // last: it has macros with plain names

namespace {

using weir::Locked;
using weir::PoolLock;
using weir::lease::Lease;
using weir::lease::RemoteWrite;
using weir::lease::RemoteWrites;

struct Site : weir::test::BlockedStreams {
  weir::test::Scarce memory;
  PoolLock lock{weir::Log()};
  Locked held{lock};
  RemoteWrites writes{&memory, streams};
  weir::backend::Device other;
  Lease lease{&memory}, another{&memory};

  std::vector<uint32_t> lose(const weir::backend::Device &writer) {
    std::vector<uint32_t> buffers;
    writes.lose(writer, [&](const RemoteWrite &write) { buffers.push_back(write.buffer); });
    return buffers;
  }
};

void a_write_is_known_until_its_work_is_done(void **) {
  Site site;
  site.writes.reserve(2);
  site.writes.note({&site.lease, 7, 0, 0, 100, &site.device});
  assert_true(site.writes.any_by(site.device));
  assert_false(site.writes.any_by(site.other));
  site.writes.end(&site.another, site.second.use(true));
  site.second.finish();
  assert_true(site.writes.any_by(site.device));  // it was another's release
  site.writes.end(&site.lease, site.first.use(true));
  assert_true(site.writes.any_by(site.device));
  site.first.finish();
  assert_false(site.writes.any_by(site.device));
  assert_true(site.lose(site.device).empty());
}

void a_record_that_is_used_again_is_another_lease(void **) {
  Site site;
  site.writes.reserve(2);
  site.writes.note({&site.lease, 7, 0, 0, 100, &site.device});
  site.writes.end(&site.lease, site.first.use(true));
  site.writes.note({&site.lease, 8, 0, 0, 100, &site.device});
  site.writes.end(&site.lease, site.second.use(true));
  site.second.finish();
  assert_true(site.lose(site.device) == std::vector<uint32_t>{7});
}

void what_a_lost_writer_has_not_done_is_shown_once(void **) {
  Site site;
  site.writes.reserve(3);
  site.memory.out = true;  // noting takes none
  site.writes.note({&site.lease, 1, 0, 0, 100, &site.device});
  site.writes.note({&site.lease, 2, 0, 0, 100, &site.other});
  site.writes.note({&site.another, 3, 0, 0, 100, &site.device});
  site.writes.end(&site.another, site.first.use(true));
  assert_true((site.lose(site.device) == std::vector<uint32_t>{1, 3}));
  assert_true(site.lose(site.device).empty());
  assert_true(site.writes.any_by(site.other));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_write_is_known_until_its_work_is_done),
      cmocka_unit_test(a_record_that_is_used_again_is_another_lease),
      cmocka_unit_test(what_a_lost_writer_has_not_done_is_shown_once),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
