// SPDX-License-Identifier: Apache-2.0
//
// Accounts and Charge (core/base/accounts.hpp), without a pool: quotas are hard and of one place each, a charge is given back with its
// own size and client or absorbed, and in checked builds a forgotten one ends the process.

#include "core/base/accounts.hpp"
#include "tests/support/cmocka.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>

namespace {

using weir::Accounts;
using weir::Charge;

uint32_t add_client(Accounts &accounts, uint64_t device_quota, uint64_t host_quota) {
  weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  desc.name = "trainer";
  desc.priority = WEIR_PRIORITY_HIGH;
  desc.device_quota = device_quota;
  desc.host_quota = host_quota;
  desc.compressed_quota = WEIR_NONE;
  uint32_t id = UINT32_MAX;
  assert_true(accounts.create_client(desc, &id).ok());
  return id;
}

void a_quota_is_hard_and_of_one_place(void **) {
  Accounts accounts(std::pmr::new_delete_resource());
  const uint32_t one = add_client(accounts, 100, 50);
  const uint32_t two = add_client(accounts, 100, 0);
  assert_int_equal(one, 0);
  assert_int_equal(two, 1);
  Charge first = accounts.charge(one, 3, 70);
  assert_true(static_cast<bool>(first));
  assert_false(static_cast<bool>(accounts.charge(one, 3, 31)));
  assert_int_equal(accounts.quota(one, 3).room(), 30);
  assert_int_equal(accounts.quota(one, 4).room(), 100);
  assert_int_equal(accounts.quota(two, 3).room(), 100);
  assert_int_equal(accounts.quota(one, Accounts::host).limit(), 50);
  assert_true(accounts.quota(two, Accounts::host).limit() == UINT64_MAX);  // 0: none
  assert_int_equal(accounts.quota(one, Accounts::compressed).limit(), 0);  // WEIR_NONE: nothing
  assert_false(static_cast<bool>(accounts.charge(one, Accounts::compressed, 1)));
  first.give_back();
  assert_int_equal(accounts.quota(one, 3).room(), 100);
}

void what_absorbs_a_charge_ends_it(void **) {
  Accounts accounts(std::pmr::new_delete_resource());
  const uint32_t client = add_client(accounts, 100, 50);
  {
    Charge charge = accounts.charge(client, 0, 60);
    const Charge moved = [&] {
      charge.absorb();
      return std::move(charge);
    }();
    assert_false(static_cast<bool>(moved));
  }
  assert_int_equal(accounts.quota(client, 0).used(), 60);
  accounts.freed(client, 0, 60);
  assert_int_equal(accounts.quota(client, 0).used(), 0);
}

void memory_that_is_not_there_is_not_paid_for(void **) {
  Accounts accounts(std::pmr::new_delete_resource());
  const uint32_t client = add_client(accounts, 100, 50);
  Charge refused = accounts.charge(client, 0, 60);
  assert_false(refused.pay_for([] { return false; }));
  assert_int_equal(accounts.quota(client, 0).used(), 0);
  Charge thrown = accounts.charge(client, 0, 60);
  bool caught = false;
  try {
    (void)thrown.pay_for([]() -> bool { throw std::bad_alloc(); });
  } catch (const std::bad_alloc &) {
    caught = true;
  }
  assert_true(caught);
  assert_int_equal(accounts.quota(client, 0).used(), 0);
  Charge paid = accounts.charge(client, 0, 60);
  assert_int_equal(paid.pay_for([] { return 7; }), 7);
  assert_int_equal(accounts.quota(client, 0).used(), 60);
}

void a_client_is_counted_and_named(void **) {
  Accounts accounts(std::pmr::new_delete_resource());
  const uint32_t client = add_client(accounts, 100, 50);
  assert_int_equal(accounts.clients(), 1);
  assert_string_equal(accounts.name(client), "trainer");
  assert_int_equal(accounts.priority(client, WEIR_PRIORITY_NORMAL), WEIR_PRIORITY_HIGH);
  assert_int_equal(accounts.priority(client, WEIR_PRIORITY_HIGHEST), WEIR_PRIORITY_HIGHEST);
  accounts.charge(client, 0, 10).absorb();
  accounts.charge(client, 27, 20).absorb();
  accounts.charge(client, Accounts::host, 5).absorb();
  accounts.add_buffer(client);
  weir_client_stats stats = WEIR_CLIENT_STATS_INIT;
  accounts.describe(client, &stats);
  assert_int_equal(stats.buffers, 1);
  assert_int_equal(stats.device_bytes, 30);
  assert_int_equal(stats.host_bytes, 5);
  assert_int_equal(stats.storage_bytes, 0);
  const weir::Status busy = accounts.destroy_client(client);
  assert_int_equal(busy.code(), WEIR_ERROR_BUSY);
  assert_non_null(std::strstr(weir::last_error().text, "\"trainer\" has 1 buffers"));
  accounts.remove_buffer(client);
  assert_true(accounts.destroy_client(client).ok());
  weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  desc.priority = WEIR_PRIORITY_HIGHEST + 1;
  uint32_t id = 0;
  assert_int_equal(accounts.create_client(desc, &id).code(), WEIR_ERROR_INVALID_ARGUMENT);
  assert_int_equal(accounts.clients(), 1);
}

void a_forgotten_charge_is_told(void **) {
#if !defined(NDEBUG)
  Accounts accounts(std::pmr::new_delete_resource());
  const uint32_t client = add_client(accounts, 100, 50);
  const pid_t child = fork();
  if (child == 0) {
    (void)signal(SIGABRT, SIG_DFL);
    (void)freopen("/dev/null", "w", stderr);
    { const Charge forgotten = accounts.charge(client, 0, 60); }
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
#else
  skip();  // looked at in checked builds only
#endif
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_quota_is_hard_and_of_one_place),
      cmocka_unit_test(what_absorbs_a_charge_ends_it),
      cmocka_unit_test(memory_that_is_not_there_is_not_paid_for),
      cmocka_unit_test(a_client_is_counted_and_named),
      cmocka_unit_test(a_forgotten_charge_is_told),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
