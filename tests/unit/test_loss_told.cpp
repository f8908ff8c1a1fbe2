// SPDX-License-Identifier: Apache-2.0
//
// How a loss is told when something is in the way: no thread for another callback, and a log callback that waits for a thread that
// needs the pool. pthread_create is this program's own, to refuse. Nothing depends on how long anything takes, but that a hang is
// given up at some time.

#include "tests/unit/interleaving.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <condition_variable>
#include <future>
#include <mutex>

namespace {
std::atomic<bool> no_threads{false};
}  // namespace

extern "C" int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                              void *(*start)(void *), void *argument) noexcept {
  if (no_threads.load()) return EAGAIN;
  static auto *real =
      reinterpret_cast<int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)>(
          dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, start, argument);
}

namespace {

using namespace weir::test;

Setup two() {
  Setup setup;
  setup.options = std::string(small_host) + ";host.devices=2";
  setup.devices = 2;
  return setup;
}

struct Told {
  std::mutex mutex;
  std::condition_variable changed;
  uint32_t count = 0;

  static void tell(void *user, const weir_device_loss *) {
    auto *self = static_cast<Told *>(user);
    std::lock_guard hold(self->mutex);
    ++self->count;
    self->changed.notify_all();
  }
  bool await() {
    std::unique_lock hold(mutex);
    return changed.wait_for(hold, std::chrono::seconds(20), [this] { return count != 0; });
  }
};

void a_callback_that_has_no_thread_leaves_the_former(void **) {
  World world(two());
  Told former;
  Told later;
  ok(weir_pool_set_loss_callback(world.pool, Told::tell, &former));
  no_threads = true;
  const weir_result got = weir_pool_set_loss_callback(world.pool, Told::tell, &later);
  no_threads = false;
  assert_int_equal(got, WEIR_ERROR_OUT_OF_HOST_MEMORY);
  engine_of(world).lose_device(1);
  assert_true(former.await());
  assert_int_equal(later.count, 0);
  // It is told of once, and a callback set after it is told too.
  ok(weir_pool_set_loss_callback(world.pool, Told::tell, &later));
  assert_true(later.await());
  ok(weir_pool_set_loss_callback(world.pool, nullptr, nullptr));
  assert_int_equal(former.count, 1);
  assert_int_equal(later.count, 1);
  world.close();
}

/// Waits, at every line, for another thread's call into the pool.
struct Patient {
  weir_pool pool = nullptr;
  uint32_t lines = 0, stuck = 0;
  std::vector<std::future<void>> calls;

  static void log(void *user, int32_t, const char *) {
    auto *self = static_cast<Patient *>(user);
    if (self->pool == nullptr) return;
    ++self->lines;
    self->calls.push_back(std::async(std::launch::async, [self] {
      weir_pool_stats stats = WEIR_POOL_STATS_INIT;
      (void)weir_pool_stats_get(self->pool, &stats);
    }));
    self->stuck +=
        self->calls.back().wait_for(std::chrono::seconds(20)) != std::future_status::ready;
  }
};

/// The lines of a loss and of a device that leaves are logged with no lock held.
void a_log_may_wait_for_who_needs_the_pool(void **) {
  Patient patient;
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  desc.options = "host.memory=16M;host.granule=16K;host.granule_large=0;host.devices=2";
  desc.log = Patient::log;
  desc.log_user = &patient;
  weir_context context = nullptr;
  ok(weir_context_create(&desc, &context));
  const weir_pool_device devices[] = {{0, 0, 8 * page_bytes, {0, 0}},
                                      {1, 0, 8 * page_bytes, {0, 0}}};
  weir_pool_desc about = WEIR_POOL_DESC_INIT;
  about.devices = devices;
  about.device_count = 2;
  about.host_budget = 64 * page_bytes;
  weir_pool pool = nullptr;
  ok(weir_pool_create(context, &about, &pool));
  World world(context, pool);
  patient.pool = pool;
  engine_of(world).lose_device(1);
  assert_int_equal(patient.lines, 1);
  ok(weir_pool_remove_device(pool, 1, WEIR_INFINITE));
  assert_int_equal(patient.lines, 2);
  assert_int_equal(patient.stuck, 0);
  patient.calls.clear();
  world.close();
}

}  // namespace

int main() {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_callback_that_has_no_thread_leaves_the_former),
      cmocka_unit_test(a_log_may_wait_for_who_needs_the_pool)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
