// SPDX-License-Identifier: Apache-2.0
//
// Each class of the core with a thread of its own is started, changed, stopped and destroyed from two threads at a time, and from
// its own callback where it has one: the defragmenter, the loss watch, asynchronous acquires, the engine's demoter,
// prefetchers and sinker, the recompressor, the lanes of STORAGE, the workers, the mapper, and the bounded start of a
// backend. Each ends whatever the order; none runs twice; none takes the program's signals. Meant for ThreadSanitizer too.
//
// Where an order matters it is made with gates; the rest is repeated a few times, and right in every order.

#include <csignal>
#include <filesystem>
#include <fstream>

// First: the fixture's macro `ok` would meet the core's own functions of that name.
#include "core/base/workers.hpp"

#include "tests/unit/interleaving.hpp"
#include "tests/unit/losing_host.hpp"

namespace {

using namespace weir::test;

constexpr int rounds = 20;

/// Runs both at once, as nearly as a door can make it, and says what they answered.
template <class One, class Other>
std::pair<weir_result, weir_result> together(One one, Other other) {
  std::atomic<int> ready{0};
  const auto from_the_door = [&ready](auto body) {
    return [&ready, body] {
      ++ready;
      while (ready < 2) std::this_thread::yield();
      return body();
    };
  };
  Task first(from_the_door(one));
  Task second(from_the_door(other));
  const weir_result mine = first.join();
  return {mine, second.join()};
}

size_t threads_now() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

/// What a thread has ended as may be seen a moment after it was joined.
void expect_threads(size_t wanted) {
  while (threads_now() > wanted) std::this_thread::yield();
  assert_int_equal(threads_now(), wanted);
}

weir_result defragmentation(weir_pool pool, uint32_t threshold) {
  weir_defragmentation_desc desc = WEIR_DEFRAGMENTATION_DESC_INIT;
  desc.threshold_permille = threshold;
  desc.max_cost_permille = 1000;
  return weir_pool_set_defragmentation(pool, &desc);
}

/// Every fourth of many small buffers lives on.
std::vector<weir_buffer> scatter(World &world) {
  const uint64_t bytes = page_bytes / 8;
  std::vector<weir_buffer> all, left;
  for (uint32_t i = 0; i < 64; ++i) {
    all.push_back(world.buffer(bytes));
    world.fill(all[i], bytes, i);
  }
  for (uint32_t i = 0; i < 64; ++i) {
    if (i % 4 == 0)
      left.push_back(all[i]);
    else
      ok(weir_buffer_destroy(world.pool, all[i]));
  }
  return left;
}

/// With something to do for a defragmenter, which has been at work before: a stream it works on may have a thread.
void prepare(World &world) {
  (void)scatter(world);
  const weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
  ok(weir_pool_defragment(world.pool, &desc, nullptr));
  (void)scatter(world);
}

/// A thread of the pool's is inside a step while one caller ends it and another starts it again.
void defragmenter_is_started_while_it_ends(void **) {
  World world({.device_pages = 40, .flags = 0});
  prepare(world);
  const size_t before = threads_now();
  {
    Gate gate(world.pool, "compact.claimed");
    ok(defragmentation(world.pool, 1));
    gate.await();
    Task off([&] { return defragmentation(world.pool, 0); });
    assert_true(keeps_waiting(off));
    Task on([&] { return defragmentation(world.pool, 1); });
    Task off_again([&] { return defragmentation(world.pool, 0); });
    assert_true(keeps_waiting(off));
    gate.open();
    ok(off.join());
    ok(on.join());
    ok(off_again.join());
    ok(defragmentation(world.pool, 1));
    expect_threads(before + 1);
    ok(defragmentation(world.pool, 0));
    expect_threads(before);
  }
  world.close();
}

void defragmenter_is_changed_from_two_threads(void **) {
  World world({.device_pages = 40, .flags = 0});
  prepare(world);
  const size_t before = threads_now();
  for (int i = 0; i < rounds; ++i) {
    const auto [off, on] = together([&] { return defragmentation(world.pool, 0); },
                                    [&] { return defragmentation(world.pool, 1); });
    ok(off);
    ok(on);
    const auto [one, other] = together([&] { return defragmentation(world.pool, 500); },
                                       [&] { return defragmentation(world.pool, 1); });
    ok(one);
    ok(other);
    expect_threads(before + 1);
  }
  world.close();  // while it runs
}

// ---- the loss watch ----

struct Watcher {
  weir_pool pool = nullptr;
  std::atomic<int> calls{0}, wrong{0};
  std::atomic<bool> standing{false}, open{true};

  static void tell(void *user, const weir_device_loss *loss) {
    auto *self = static_cast<Watcher *>(user);
    ++self->calls;
    self->wrong += loss->device != 0;
    // Its own end is not its own to bring about.
    self->wrong += weir_pool_set_loss_callback(self->pool, nullptr, nullptr) != WEIR_ERROR_BUSY;
    self->wrong += weir_pool_destroy(self->pool) != WEIR_ERROR_BUSY;
    self->standing = true;
    while (!self->open) std::this_thread::yield();
  }
};

void loss_watch_is_changed_from_two_threads(void **) {
  losing.reset(0);
  World world({.options = std::string(small_host) + ";host.devices=2",
               .flags = 0,
               .devices = 2,
               .backend = Losing::query});
  Watcher watchers[2];
  for (Watcher &watcher : watchers) watcher.pool = world.pool;
  const auto set = [&](Watcher *watcher) {
    return weir_pool_set_loss_callback(world.pool, watcher != nullptr ? Watcher::tell : nullptr,
                                       watcher);
  };
  const size_t before = threads_now();
  for (int i = 0; i < rounds; ++i) {
    const auto [one, other] =
        together([&] { return set(&watchers[0]); }, [&] { return set(&watchers[1]); });
    ok(one);
    ok(other);
    expect_threads(before + 1);
    const auto [off, on] =
        together([&] { return set(nullptr); }, [&] { return set(&watchers[1]); });
    ok(off);
    ok(on);
  }
  // A call is under way: a thread that changes it waits, and a second one too.
  watchers[1].open = false;
  ok(set(&watchers[1]));
  const weir_buffer buffer = world.buffer(page_bytes, 0);
  losing.lose_at(1);
  weir_lease lease = nullptr;
  expect_result(WEIR_ERROR_DEVICE_LOST, world.acquire(buffer, WEIR_READ, &lease));
  while (!watchers[1].standing) std::this_thread::yield();
  Task off([&] { return set(nullptr); });
  Task on([&] { return set(&watchers[0]); });
  assert_true(keeps_waiting(off));
  assert_true(keeps_waiting(on));
  watchers[1].open = true;
  ok(off.join());
  ok(on.join());
  ok(set(nullptr));
  expect_threads(before);
  assert_int_equal(watchers[1].calls, 1);
  ok(set(&watchers[0]));
  world.close();
  for (const Watcher &watcher : watchers) assert_int_equal(watcher.wrong, 0);
}

// ---- asynchronous acquires ----

struct Caller {
  World &world;
  weir_use use;
  weir_acquire_callback callback = nullptr;
  std::atomic<weir_request> next{nullptr};
  std::atomic<int> calls{0}, wrong{0};
  std::atomic<bool> standing{false}, open{true};

  Caller(World &world_, weir_buffer buffer) : world(world_), use(WEIR_USE(buffer, WEIR_READ)) {}
  weir_result submit(weir_acquire_callback to, weir_request *request) {
    return weir_acquire_async(world.pool, world.streams[0], &use, 1, nullptr, to, this, request);
  }
  static void release(void *user, weir_result result, weir_lease lease) {
    auto *self = static_cast<Caller *>(user);
    self->wrong += result != WEIR_SUCCESS;
    self->wrong += weir_release(lease, self->world.streams[0]) != WEIR_SUCCESS;
    ++self->calls;
  }
  /// What would wait for this very thread is refused; the pool is of use otherwise.
  static void misuse(void *user, weir_result result, weir_lease lease) {
    auto *self = static_cast<Caller *>(user);
    while (self->next == nullptr) std::this_thread::yield();
    weir_result ended = WEIR_SUCCESS;
    self->wrong += weir_request_wait(self->next, &ended) != WEIR_ERROR_BUSY;
    release(user, result, lease);
    self->wrong += weir_pool_destroy(self->world.pool) != WEIR_ERROR_BUSY;
    Kernel kernel{0, page_bytes, 1};
    self->wrong += run(self->world, self->use.buffer, WEIR_READ, &kernel) != WEIR_SUCCESS;
    self->wrong += kernel.wrong != 0;
  }
  static void stand(void *user, weir_result result, weir_lease lease) {
    release(user, result, lease);
    auto *self = static_cast<Caller *>(user);
    self->standing = true;
    while (!self->open) std::this_thread::yield();
    weir_buffer_info info = WEIR_BUFFER_INFO_INIT;  // the pool is still there
    self->wrong += weir_buffer_info_get(self->world.pool, self->use.buffer, 0, WEIR_WHOLE, &info) !=
                   WEIR_SUCCESS;
  }
};

void requests_are_made_from_two_threads(void **) {
  World world({.flags = 0});
  const weir_buffer buffer = world.buffer(page_bytes);
  world.fill(buffer, page_bytes, 1);
  Caller caller(world, buffer);
  const size_t before = threads_now();
  const auto one_of_many = [&] {
    weir_request request = nullptr;
    weir_result result = caller.submit(Caller::release, &request);
    if (result != WEIR_SUCCESS) return result;
    (void)weir_request_cancel(nullptr);
    result = weir_request_wait(request, nullptr);
    weir_request_close(request);
    return result;
  };
  for (int i = 0; i < rounds; ++i) {
    const auto [one, other] = together(one_of_many, one_of_many);
    ok(one);
    ok(other);
    expect_threads(before + 1);
  }
  weir_request first = nullptr;
  weir_request second = nullptr;
  ok(caller.submit(Caller::misuse, &first));
  ok(caller.submit(Caller::release, &second));
  caller.next = second;
  for (weir_request request : {first, second}) {
    ok(weir_request_wait(request, nullptr));
    weir_request_close(request);
  }
  assert_int_equal(caller.calls, 2 * rounds + 2);
  // The thread that destroys the pool waits for the callback that is under way.
  caller.open = false;
  ok(caller.submit(Caller::stand, nullptr));
  while (!caller.standing) std::this_thread::yield();
  Task end([&] { return weir_pool_destroy(world.pool); });
  assert_true(keeps_waiting(end));
  caller.open = true;
  ok(end.join());
  assert_int_equal(caller.wrong, 0);
  world.pool = nullptr;
  world.close();
}

// ---- threads that live as long as their pool ----

/// Fills, reads and drops more than the devices and HOST hold, so that every thread of the pool's has something to do.
weir_result live(weir_context context) {
  weir_pool_device device{};
  device.budget = 6 * page_bytes;
  const char *folder = spill_folder();
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.device_count = 1;
  desc.devices = &device;
  desc.host_budget = 64 * page_bytes;
  desc.compressed_budget = 8 * page_bytes;
  desc.storage_budget = 256 * page_bytes;
  desc.storage_paths = &folder;
  desc.storage_path_count = 1;
  desc.recompress_idle_ns = 1;
  desc.page_size = desc.large_page_size = page_bytes;
  weir_pool pool = nullptr;
  weir_stream stream = nullptr;
  weir_result result = weir_stream_create(context, 0, 0, &stream);
  if (result != WEIR_SUCCESS) return result;
  result = weir_pool_create(context, &desc, &pool);
  const std::vector<uint8_t> bytes(4 * page_bytes, 7);
  for (int i = 0; i < 24 && result == WEIR_SUCCESS; ++i) {
    weir_buffer_desc wanted = WEIR_BUFFER_DESC_INIT;
    wanted.size = bytes.size();
    weir_buffer buffer = nullptr;
    result = weir_buffer_create(pool, &wanted, &buffer);
    if (result == WEIR_SUCCESS)
      result = weir_buffer_write(pool, buffer, 0, bytes.size(), bytes.data());
    weir_use use = WEIR_USE(buffer, WEIR_READ);
    if (result == WEIR_SUCCESS) result = weir_prefetch(pool, stream, &use, 1);
    weir_lease lease = nullptr;
    if (result == WEIR_SUCCESS && i % 2 == 0) {
      result = weir_acquire(pool, stream, &use, 1, nullptr, &lease);
      if (result == WEIR_SUCCESS) result = weir_release(lease, stream);
      if (result == WEIR_ERROR_WOULD_BLOCK) result = WEIR_SUCCESS;  // the prefetches have the room
    }
  }
  if (result != WEIR_SUCCESS) print_error("%s\n", weir_last_error());
  const weir_result ended = weir_pool_destroy(pool);  // with much under way
  const weir_result closed = weir_stream_close(stream);
  if (result == WEIR_SUCCESS) result = ended;
  return result == WEIR_SUCCESS ? closed : result;
}

/// Demoter, prefetchers, sinker, recompressor, lanes, workers, and the mapper where the backend wants one.
void pools_live_beside_each_other(void **) {
  for (const char *more : {"", ";host.map_any_thread=0"}) {
    const weir_context context = make_context((std::string(small_host) + more).c_str());
    const size_t before = threads_now();
    for (int i = 0; i < 4; ++i) {
      const auto [one, other] =
          together([&] { return live(context); }, [&] { return live(context); });
      ok(one);
      ok(other);
    }
    expect_threads(before);
    ok(weir_context_destroy(context));
  }
}

/// The signals that a thread of this program, other than those of `old`, would take.
uint64_t signals_taken(const std::vector<std::string> &old) {
  uint64_t taken = 0;
  for (const auto &entry : std::filesystem::directory_iterator("/proc/self/task")) {
    if (std::find(old.begin(), old.end(), entry.path()) != old.end()) continue;
    std::ifstream status(entry.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("SigBlk:", 0) == 0) taken |= ~std::stoull(line.substr(7), nullptr, 16);
    }
  }
  return taken;
}

void no_thread_takes_the_programs_signals(void **) {
  std::vector<std::string> old;
  for (const auto &entry : std::filesystem::directory_iterator("/proc/self/task"))
    old.push_back(entry.path());
  World world({.options = std::string(small_host) + ";host.map_any_thread=0",
               .flags = 0,
               .compressed_pages = 8,
               .storage_pages = 64});
  const weir_buffer buffer = world.buffer(page_bytes);
  world.fill(buffer, page_bytes, 1);
  Caller caller(world, buffer);
  weir_request request = nullptr;
  ok(caller.submit(Caller::release, &request));
  ok(weir_request_wait(request, nullptr));
  weir_request_close(request);
  ok(defragmentation(world.pool, 1));
  Watcher watcher;
  ok(weir_pool_set_loss_callback(world.pool, Watcher::tell, &watcher));
  assert_true(threads_now() >= old.size() + 8);
  const uint64_t taken = signals_taken(old);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGCHLD, SIGUSR1, SIGPROF, SIGIO})
    assert_int_equal(taken >> static_cast<unsigned>(signal - 1) & 1U, 0);
  world.close();
}

// ---- workers ----

void workers_are_stopped_while_they_start(void **) {
  const weir::Clock clock;
  for (const uint32_t share : {100U, 50U}) {
    weir::Workers workers(3, share, clock);
    std::atomic<uint32_t> done{0};
    const auto job = [&]() -> weir_result {
      for (int i = 0; i < rounds; ++i) {
        workers.run(
            8,
            [](void *count, uint32_t) noexcept { ++*static_cast<std::atomic<uint32_t> *>(count); },
            &done,
            i % 2 == 0 ? weir::Workers::Urgency::demand : weir::Workers::Urgency::background);
      }
      return WEIR_SUCCESS;
    };
    const auto change = [&]() -> weir_result {
      for (int i = 0; i < rounds; ++i) {
        if (const weir::Status status = workers.start(); !status) return status.code();
        workers.stop();
      }
      return WEIR_SUCCESS;
    };
    const size_t before = threads_now();
    Task busy(job);
    const auto [one, other] = together(change, change);
    ok(one);
    ok(other);
    ok(busy.join());
    assert_int_equal(done, 8 * rounds);
    expect_threads(before);
    assert_true(static_cast<bool>(workers.start()));
    assert_int_equal(workers.threads(), 3);
  }
}

// ---- the start of a backend ----

struct SlowStart {
  std::atomic<int> inside{0}, lines{0};
  std::atomic<bool> open{false};
  static void log(void *user, int32_t, const char *) {
    ++static_cast<SlowStart *>(user)->lines;
    (void)weir_last_error();
  }
  static const weir_backend_table *query(uint32_t abi_major);
};
SlowStart slow;

const weir_backend_table *SlowStart::query(uint32_t abi_major) {
  static const weir_backend_table table = [abi_major] {
    weir_backend_table slowly = *weir_host_backend_query(abi_major);
    slowly.start = [](const weir_be_start *desc, weir_be_state **state, const char **reason) {
      ++slow.inside;
      while (!slow.open) std::this_thread::yield();
      if (desc->log != nullptr) desc->log(desc->log_user, WEIR_LOG_INFO, "late");
      return weir_host_backend_query(WEIR_BACKEND_ABI_MAJOR)->start(desc, state, reason);
    };
    return slowly;
  }();
  return &table;
}

/// One waits as long as it takes, the other has long gone when the runtime answers.
void backends_start_for_two_contexts(void **) {
  const auto make = [](uint64_t limit, weir_context *context) {
    weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
    desc.flags = WEIR_CONTEXT_NO_SEARCH | WEIR_CONTEXT_NO_HOST_BACKEND;
    weir_backend_query_fn backend = SlowStart::query;
    desc.backend_count = 1;
    desc.backends = &backend;
    desc.options = small_host;
    desc.log = SlowStart::log;
    desc.log_user = &slow;
    desc.start_timeout_ns = limit;
    return weir_context_create(&desc, context);
  };
  const size_t before = threads_now();
  weir_context patient = nullptr;
  weir_context hasty = nullptr;
  Task waits([&] { return make(0, &patient); });
  ok(make(1, &hasty));
  weir_backend_info info = WEIR_BACKEND_INFO_INIT;
  ok(weir_backend_info_get(hasty, 0, &info));
  assert_int_equal(info.available, 0);
  ok(weir_context_destroy(hasty));
  while (slow.inside < 2) std::this_thread::yield();
  assert_true(keeps_waiting(waits));
  slow.lines = 0;
  slow.open = true;
  ok(waits.join());
  ok(weir_backend_info_get(patient, 0, &info));
  assert_int_equal(info.available, 1);
  ok(weir_context_destroy(patient));
  expect_threads(before);           // the one that was let go has ended too
  assert_int_equal(slow.lines, 1);  // and logged nothing: its context is gone
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(defragmenter_is_started_while_it_ends),
      cmocka_unit_test(defragmenter_is_changed_from_two_threads),
      cmocka_unit_test(loss_watch_is_changed_from_two_threads),
      cmocka_unit_test(requests_are_made_from_two_threads),
      cmocka_unit_test(pools_live_beside_each_other),
      cmocka_unit_test(no_thread_takes_the_programs_signals),
      cmocka_unit_test(workers_are_stopped_while_they_start),
      cmocka_unit_test(backends_start_for_two_contexts),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
