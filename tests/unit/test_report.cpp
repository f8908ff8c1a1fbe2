// SPDX-License-Identifier: Apache-2.0
//
// weir_last_error_report: what it says of each kind of refusal, and that its advice is good: each test makes the situation, finds the
// sentence, does as it says, and sees the call succeed. And when it says no more than the sentence: without an error, without a pool.

#include "tests/unit/interposed_host.hpp"
#include "tests/unit/report_text.hpp"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>

namespace {

using namespace weir::test;

void a_budget_that_is_too_small(void **) {
  {
    World world({.device_pages = 8});
    weir_buffer small = buffer(world, "small", 2), large = buffer(world, "large", 9);
    world.fill(small, 2 * page_bytes, 1);
    weir_lease lease = nullptr;
    expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(large, WEIR_READ, &lease));
    expect_report({"\"small\"", "not in use", "weir_pool_device.budget", amount(9).c_str(),
                   "Device 0 now: budget"});
    ok(weir_buffer_destroy(world.pool, small));
    ok(weir_buffer_destroy(world.pool, large));
    world.close();
  }
  World world({.device_pages = 9});  // as it says
  weir_buffer large = buffer(world, "large", 9);
  world.fill(large, 9 * page_bytes, 1);
  ok(weir_buffer_destroy(world.pool, large));
  world.close();
}

void held_memory(void **) {
  World world({.device_pages = 8});
  weir_buffer held = buffer(world, "held one", 4), other = buffer(world, "other", 6);
  uint64_t address = 0;
  ok(weir_hold(world.pool, held, 0, &address));
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(other, WEIR_READ, &lease));
  expect_report({"\"held one\", of ", ", held\n", "weir_unhold", amount(2).c_str()});
  ok(weir_unhold(world.pool, held));
  ok(world.acquire(other, WEIR_READ, &lease));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_buffer_destroy(world.pool, held));
  ok(weir_buffer_destroy(world.pool, other));
  world.close();
}

/// Two pools, whose budgets are more than the device has together: the second finds less than its own.
void a_device_that_others_have(void **) {
  World world({.options = "host.memory=128K;host.granule=16K;host.granule_large=0;topology.cache=0",
               .device_pages = 8});
  weir_pool_device device{};
  device.budget = 8 * page_bytes;
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.devices = &device;
  desc.device_count = 1;
  desc.host_budget = 16 * page_bytes;
  weir_pool other = nullptr;
  ok(weir_pool_create(world.context, &desc, &other));
  weir_buffer mine = buffer(world, "mine", 6);
  world.fill(mine, 6 * page_bytes, 1);
  weir_buffer_desc large = WEIR_BUFFER_DESC_INIT;
  large.size = 6 * page_bytes;
  weir_buffer wanted = nullptr;
  ok(weir_buffer_create(other, &large, &wanted));
  weir_use use = WEIR_USE(wanted, WEIR_READ);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_DEVICE_OOM,
                weir_acquire(other, world.streams[0], &use, 1, nullptr, &lease));
  expect_report({"the set needs", amount(6).c_str(), "had less memory than weir_pool_device.budget",
                 "make a new pool"});
  ok(weir_buffer_destroy(other, wanted));
  ok(weir_pool_destroy(other));
  // As it says: what others had is given back, and a new pool made.
  ok(weir_buffer_destroy(world.pool, mine));
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  ok(weir_pool_create(world.context, &desc, &other));
  ok(weir_buffer_create(other, &large, &wanted));
  use = WEIR_USE(wanted, WEIR_READ);
  ok(weir_acquire(other, world.streams[0], &use, 1, nullptr, &lease));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_stream_synchronize(world.streams[0]));
  ok(weir_buffer_destroy(other, wanted));
  ok(weir_pool_destroy(other));
  world.close();
}

void a_clients_quota(void **) {
  for (const uint64_t quota : {2, 3}) {
    World world({.device_pages = 8});
    weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
    desc.name = "tenant";
    desc.device_quota = quota * page_bytes;
    weir_client client = nullptr;
    ok(weir_client_create(world.pool, &desc, &client));
    weir_buffer large = buffer(world, "large", 3, client);
    weir_lease lease = nullptr;
    if (quota == 2) {
      expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(large, WEIR_READ, &lease));
      expect_report({"client \"tenant\"", "weir_client_desc.device_quota", amount(3).c_str()});
    } else {
      ok(world.acquire(large, WEIR_READ, &lease));
      ok(weir_release(lease, world.streams[0]));
    }
    ok(weir_buffer_destroy(world.pool, large));
    ok(weir_client_destroy(client));
    world.close();
  }
}

/// Fills buffers of a page until one is refused; how many were not.
uint64_t fill_until_refused(World &world, std::vector<weir_buffer> *made, uint64_t most,
                            weir_client client = nullptr) {
  for (uint64_t i = 0; i < most; ++i) {
    made->push_back(buffer(world, ("page " + std::to_string(i)).c_str(), 1, client));
    weir_lease lease = nullptr;
    Kernel kernel{0, page_bytes, 7, 0};
    const weir_result result =
        world.acquire(made->back(), WEIR_DISCARD_WRITE, &lease, &kernel.address);
    if (result != WEIR_SUCCESS) {
      assert_int_equal(result, WEIR_ERROR_OVER_BUDGET);
      return i;
    }
    ok(kernel.launch(world.streams[0], Kernel::write));
    ok(weir_release(lease, world.streams[0]));
    ok(weir_stream_synchronize(world.streams[0]));
  }
  return most;
}
void host_is_full(void **) {
  uint64_t before = 0;
  for (const uint64_t host_pages : {4, 5}) {
    World world({.device_pages = 4, .host_pages = host_pages});
    std::vector<weir_buffer> made;
    const uint64_t fit = fill_until_refused(world, &made, 64);
    if (host_pages == 4) {
      expect_report(
          {"host_budget by", amount(1).c_str(), "storage_budget", "HOST now: budget", "\"page "});
      before = fit;
    }
    assert_int_equal(fit, before + (host_pages - 4));  // a page more of budget, a page more fits
    destroy_all(world, made);
    world.close();
  }
  // Or with a tier below it.
  World world({.device_pages = 4, .host_pages = 4, .storage_pages = 64});
  std::vector<weir_buffer> made;
  assert_int_equal(fill_until_refused(world, &made, before + 8), before + 8);
  destroy_all(world, made);
  world.close();
}

void a_clients_quota_of_host(void **) {
  uint64_t before = 0;
  for (const uint64_t quota : {4, 5}) {
    World world({.device_pages = 4, .host_pages = 64});
    weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
    desc.name = "tenant";
    desc.host_quota = quota * page_bytes;
    weir_client client = nullptr;
    ok(weir_client_create(world.pool, &desc, &client));
    std::vector<weir_buffer> made;
    const uint64_t fit = fill_until_refused(world, &made, 64, client);
    if (quota == 4) {
      expect_report({"weir_client_desc.host_quota of client \"tenant\" by", amount(1).c_str()});
      before = fit;
    }
    assert_int_equal(fit, before + (quota - 4));
    destroy_all(world, made);
    ok(weir_client_destroy(client));
    world.close();
  }
}

void storage_is_full(void **) {
  std::set<uint64_t> fits;
  for (const uint64_t storage_pages : {64, 128}) {
    World world({.device_pages = 4, .host_pages = 8, .storage_pages = storage_pages});
    std::vector<weir_buffer> made;
    fits.insert(fill_until_refused(world, &made, 400));
    expect_report({"weir_pool_desc.storage_budget by", "STORAGE: budget", "weir_discard"});
    destroy_all(world, made);
    world.close();
  }
  assert_int_equal(fits.size(), 2);
}

void a_clients_quota_of_storage(void **) {
  World world({.device_pages = 4, .host_pages = 8, .storage_pages = 256});
  weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  desc.name = "tenant";
  desc.storage_quota = 16 * page_bytes;
  weir_client client = nullptr;
  ok(weir_client_create(world.pool, &desc, &client));
  std::vector<weir_buffer> made;
  assert_true(fill_until_refused(world, &made, 200, client) < 200);
  expect_report({"weir_client_desc.storage_quota of client \"tenant\" by"});
  desc.storage_quota = 0;  // as much as the pool has
  weir_client larger = nullptr;
  destroy_all(world, made);
  made.clear();
  ok(weir_client_create(world.pool, &desc, &larger));
  assert_int_equal(fill_until_refused(world, &made, 200, larger), 200);
  destroy_all(world, made);
  ok(weir_client_destroy(client));
  ok(weir_client_destroy(larger));
  world.close();
}

void bytes_that_were_lost(void **) {
  World world({.options = std::string(small_host) + ";host.devices=2", .devices = 2});
  weir_buffer one = buffer(world, "one", 2);
  world.fill(one, 2 * page_bytes, 1, 1);
  engine_of(world).lose_device(1);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_DATA_LOST, world.acquire(one, WEIR_READ, &lease));
  expect_report({"\"one\"", "WEIR_DISCARD_WRITE", "weir_pool_lost_ranges", ", lost 32 KiB"});
  ok(weir_discard(world.pool, one, 0, WEIR_WHOLE));
  ok(world.acquire(one, WEIR_READ, &lease));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_buffer_destroy(world.pool, one));
  world.close();
}

void a_device_that_does_not_leave(void **) {
  World world({.options = std::string(small_host) + ";host.devices=2", .devices = 2});
  weir_buffer one = buffer(world, "one", 1);
  weir_lease lease = nullptr;
  ok(world.acquire(one, WEIR_READ_WRITE, &lease, nullptr, 1));
  expect_result(WEIR_ERROR_TIMEOUT, weir_pool_remove_device(world.pool, 1, 1));
  expect_report(
      {"\"one\"", "leased (1)", "release the leases on device 1", "weir_pool_remove_device"});
  ok(weir_release(lease, world.streams[1]));
  ok(weir_pool_remove_device(world.pool, 1, WEIR_INFINITE));
  ok(weir_buffer_destroy(world.pool, one));
  world.close();
}

void allocations_have_no_names(void **) {
  World world({.device_pages = 8});
  uint64_t small = 0, large = 0;
  ok(weir_malloc(world.pool, 0, world.streams[0], page_bytes / 4, &small));
  ok(weir_malloc(world.pool, 0, world.streams[0], 3 * page_bytes, &large));
  weir_buffer most = buffer(world, "most", 8);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(most, WEIR_READ, &lease));
  const std::string text = report();
  const size_t first = text.find("memory of weir_malloc");
  assert_true(first != std::string::npos);
  assert_true(text.find("memory of weir_malloc", first + 1) != std::string::npos);
  expect_report({"weir_free"});
  ok(weir_free(world.pool, world.streams[0], small));
  ok(weir_free(world.pool, world.streams[0], large));
  ok(weir_stream_synchronize(world.streams[0]));
  ok(world.acquire(most, WEIR_READ, &lease));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_buffer_destroy(world.pool, most));
  world.close();
}

void the_five_largest_are_listed(void **) {
  World world({.device_pages = 32});
  std::vector<weir_buffer> made;
  for (const uint64_t pages : {1, 5, 2, 6, 3, 4, 1}) {
    made.push_back(buffer(world, (std::to_string(pages) + " pages").c_str(), pages));
    world.fill(made.back(), pages * page_bytes, 1);
  }
  made.push_back(buffer(world, "too large", 33));
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(made.back(), WEIR_READ, &lease));
  const std::string text = report();
  size_t at = text.find("Of 7 buffers");
  assert_true(at != std::string::npos);
  for (const char *each :
       {"\"6 pages\"", "\"5 pages\"", "\"4 pages\"", "\"3 pages\"", "\"2 pages\""}) {
    const size_t next = text.find(each);
    assert_true(next != std::string::npos && next > at);
    at = next;
  }
  assert_true(text.find("\"1 pages\"") == std::string::npos);
  destroy_all(world, made);
  world.close();
}

/// No pool, one that is gone, no error: the sentence alone, and no mistake.
void without_a_pool(void **) {
  static uint8_t *const no_pool = aligned_memory(page_bytes);
  expect_result(WEIR_ERROR_INVALID_HANDLE, weir_pool_destroy(reinterpret_cast<weir_pool>(no_pool)));
  const std::string sentence = weir_last_error();
  assert_string_equal(report().c_str(), (sentence + "\n").c_str());
  char text[8];
  std::memset(text, '#', sizeof text);
  size_t needed = 0;
  expect_result(WEIR_INCOMPLETE, weir_last_error_report(text, 4, &needed));
  assert_int_equal(needed, sentence.size() + 2);
  assert_int_equal(text[3], 0);
  assert_int_equal(text[4], '#');
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_last_error_report(nullptr, 4, &needed));
  expect_result(WEIR_ERROR_INVALID_ARGUMENT, weir_last_error_report(nullptr, 0, nullptr));
  assert_string_equal(weir_last_error(), sentence.c_str());
  std::string nothing = "x";
  std::thread other([&] { nothing = report(); });  // a thread without an error
  other.join();
  assert_string_equal(nothing.c_str(), "");
  // The pool has gone, and another may have its place.
  std::string before;
  {
    World world({.device_pages = 1});
    weir_buffer large = buffer(world, "large", 2);
    weir_lease lease = nullptr;
    expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(large, WEIR_READ, &lease));
    before = weir_last_error();
    ok(weir_buffer_destroy(world.pool, large));
    world.close();
  }
  World world;
  assert_string_equal(weir_last_error(), before.c_str());
  assert_string_equal(report().c_str(), (before + "\n").c_str());
  world.close();
}

/// The error of an asynchronous acquire comes to the thread that waits for it, with all that the report needs.
void of_an_asynchronous_acquire(void **) {
  World world({.device_pages = 4});
  weir_buffer large = buffer(world, "large", 5);
  weir_use use = WEIR_USE(large, WEIR_READ);
  weir_request request = nullptr;
  ok(weir_acquire_async(
      world.pool, world.streams[0], &use, 1, nullptr, [](void *, weir_result, weir_lease) {},
      nullptr, &request));
  weir_result result = WEIR_SUCCESS;
  ok(weir_request_wait(request, &result));
  expect_result(WEIR_ERROR_OVER_BUDGET, result);
  expect_report({"Device 0 now", "weir_pool_device.budget"});
  weir_request_close(request);
  ok(weir_buffer_destroy(world.pool, large));
  world.close();
}

std::vector<std::string> files_in(const std::string &folder) {
  std::vector<std::string> found;
  DIR *dir = opendir(folder.c_str());
  assert_non_null(dir);
  while (const dirent *entry = readdir(dir))
    if (entry->d_name[0] != '.') found.push_back(folder + "/" + entry->d_name);
  closedir(dir);
  return found;
}

/// WEIR_OOM_DUMP: the first shortage of each pool, and nothing else, in a file of the owner's.
void the_first_shortage_is_dumped(void **) {
  char folder[] = "/tmp/weir-test-XXXXXX";
  assert_non_null(mkdtemp(folder));
  assert_int_equal(setenv("WEIR_OOM_DUMP", folder, 1), 0);
  World world({.device_pages = 4});
  weir_buffer first = buffer(world, "first", 4), large = buffer(world, "large", 5);
  world.fill(first, 4 * page_bytes, 1);
  weir_lease lease = nullptr, other = nullptr;
  ok(world.acquire(first, WEIR_READ, &lease));
  expect_result(WEIR_ERROR_LEASE_CONFLICT, world.acquire(first, WEIR_READ_WRITE, &other));
  assert_int_equal(files_in(folder).size(), 0);  // no shortage
  for (int i = 0; i < 3; ++i) {
    expect_result(WEIR_ERROR_OVER_BUDGET, world.acquire(large, WEIR_READ, &other));
    assert_true(std::strstr(weir_last_error(), "the set needs") != nullptr);
    assert_int_equal(files_in(folder).size(), 1);
  }
  const std::string path = files_in(folder)[0];
  struct stat info {};
  assert_int_equal(stat(path.c_str(), &info), 0);
  assert_int_equal(info.st_mode & 0777, 0600);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  assert_true(text.str().find("\"first\"") != std::string::npos);
  ok(weir_release(lease, world.streams[0]));
  ok(weir_buffer_destroy(world.pool, first));
  ok(weir_buffer_destroy(world.pool, large));
  world.close();
  assert_int_equal(unlink(path.c_str()), 0);
  // One that is there already is left alone, and the process's number may be in the folder's name. An asynchronous acquire's counts.
  const std::string with_number = std::string(folder) + "/" + std::to_string(getpid());
  assert_int_equal(mkdir(with_number.c_str(), 0700), 0);
  assert_int_equal(setenv("WEIR_OOM_DUMP", (std::string(folder) + "/%p").c_str(), 1), 0);
  World third({.device_pages = 1});
  const std::string taken =
      with_number + "/weir-oom-" + std::to_string(getpid()) + "-" +
      std::to_string(reinterpret_cast<weir::pool::Pool *>(third.pool)->serial()) + ".json";
  std::ofstream(taken) << "mine";
  weir_buffer wide = buffer(third, "wide", 2);
  weir_use use = WEIR_USE(wide, WEIR_READ);
  weir_request request = nullptr;
  ok(weir_acquire_async(
      third.pool, third.streams[0], &use, 1, nullptr, [](void *, weir_result, weir_lease) {},
      nullptr, &request));
  weir_result result = WEIR_SUCCESS;
  ok(weir_request_wait(request, &result));
  expect_result(WEIR_ERROR_OVER_BUDGET, result);
  weir_request_close(request);
  assert_int_equal(files_in(with_number).size(), 2);
  std::stringstream mine;
  mine << std::ifstream(taken).rdbuf();
  assert_string_equal(mine.str().c_str(), "mine");
  for (const std::string &each : files_in(with_number)) assert_int_equal(unlink(each.c_str()), 0);
  assert_int_equal(rmdir(with_number.c_str()), 0);
  ok(weir_buffer_destroy(third.pool, wide));
  third.close();
  // One that is not there is made.
  World fresh({.device_pages = 1});
  wide = buffer(fresh, "wide", 2);
  expect_result(WEIR_ERROR_OVER_BUDGET, fresh.acquire(wide, WEIR_READ, &lease));
  struct stat made {};
  assert_int_equal(stat(with_number.c_str(), &made), 0);
  assert_int_equal(made.st_mode & 0777, 0700);
  assert_int_equal(files_in(with_number).size(), 1);
  assert_int_equal(unlink(files_in(with_number)[0].c_str()), 0);
  assert_int_equal(rmdir(with_number.c_str()), 0);
  ok(weir_buffer_destroy(fresh.pool, wide));
  fresh.close();
  // Another folder that is not there: the call says what it would have said.
  assert_int_equal(setenv("WEIR_OOM_DUMP", (std::string(folder) + "/none").c_str(), 1), 0);
  World another({.device_pages = 1});
  weir_buffer two = buffer(another, "two", 2);
  expect_result(WEIR_ERROR_OVER_BUDGET, another.acquire(two, WEIR_READ, &lease));
  assert_true(std::strstr(weir_last_error(), "the set needs") != nullptr);
  ok(weir_buffer_destroy(another.pool, two));
  another.close();
  assert_int_equal(unsetenv("WEIR_OOM_DUMP"), 0);
  assert_int_equal(rmdir(folder), 0);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_budget_that_is_too_small),
      cmocka_unit_test(held_memory),
      cmocka_unit_test(a_device_that_others_have),
      cmocka_unit_test(a_clients_quota),
      cmocka_unit_test(host_is_full),
      cmocka_unit_test(a_clients_quota_of_host),
      cmocka_unit_test(storage_is_full),
      cmocka_unit_test(a_clients_quota_of_storage),
      cmocka_unit_test(bytes_that_were_lost),
      cmocka_unit_test(a_device_that_does_not_leave),
      cmocka_unit_test(allocations_have_no_names),
      cmocka_unit_test(the_five_largest_are_listed),
      cmocka_unit_test(without_a_pool),
      cmocka_unit_test(of_an_asynchronous_acquire),
      cmocka_unit_test(the_first_shortage_is_dumped),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
