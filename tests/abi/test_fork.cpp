// SPDX-License-Identifier: Apache-2.0
//
// A child of fork(): every function that stands on a context answers FORKED there, with valid handles, with NULL
// and while the parent's other threads are inside the library; what touches no runtime works on. The child uses
// nothing of CMocka: its exit status is the number of the first wrong answer.

#include <weir/arena.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#include "tests/abi/pool_fixture.hpp"

namespace {

using namespace weir::test;

/// One of every kind of handle, made before the fork.
struct Objects {
  World world;
  weir_buffer buffer = nullptr;
  weir_client client = nullptr;
  weir_lease lease = nullptr;
  weir_request request = nullptr;
  weir_use use = WEIR_USE_INIT;
  uint64_t address = 0;

  Objects() {
    weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
    ok(weir_client_create(world.pool, &desc, &client));
    buffer = world.buffer(page_bytes);
    use = WEIR_USE(buffer, WEIR_READ);
    ok(world.acquire(buffer, WEIR_READ, &lease));
    ok(weir_malloc(world.pool, 0, nullptr, 100, &address));
    ok(weir_acquire_async(world.pool, world.streams[0], &use, 1, nullptr, take, this, &request));
    ok(weir_request_wait(request, nullptr));
  }
  static void take(void *user, weir_result, weir_lease lease) {
    auto *self = static_cast<Objects *>(user);
    (void)weir_release(lease, self->world.streams[0]);
  }
  void close() {
    weir_request_close(request);
    ok(weir_free(world.pool, nullptr, address));
    ok(weir_release(lease, world.streams[0]));
    ok(weir_client_destroy(client));
    world.close();
  }
};

using Calls = std::vector<std::function<weir_result()>>;

/// Every function of context.h and pool.h that returns a result, in the headers' order.
void add_context_and_pool(Calls &calls, Objects &o) {
  static uint32_t count = 0;
  static uint64_t freed = 0;
  static size_t needed = 0;
  static uint64_t learned = 0;
  static void *native = nullptr;
  static weir_context context = nullptr;
  static weir_stream stream = nullptr;
  static weir_pool pool = nullptr;
  static weir_client client = nullptr;
  static weir_pool_stats stats{};
  static const weir_pool_device device{0, 0, 4 * page_bytes, {0, 0}};
  static weir_context_desc context_desc = WEIR_CONTEXT_DESC_INIT;
  static weir_pool_desc pool_desc = WEIR_POOL_DESC_INIT;
  static weir_client_desc client_desc = WEIR_CLIENT_DESC_INIT;
  static weir_backend_info backend = WEIR_BACKEND_INFO_INIT;
  static weir_device_info info = WEIR_DEVICE_INFO_INIT;
  static weir_link_info link = WEIR_LINK_INFO_INIT;
  static weir_client_stats client_stats = WEIR_CLIENT_STATS_INIT;
  static weir_pool_device_stats device_stats = WEIR_POOL_DEVICE_STATS_INIT;
  pool_desc.device_count = 1;
  pool_desc.devices = &device;
  stats.struct_size = sizeof stats;
  const weir_context c = o.world.context;
  const weir_pool p = o.world.pool;
  const weir_stream s = o.world.streams[0];
  const auto nothing = [](void *) {};
  calls.insert(calls.end(),
               {[] { return weir_context_create(&context_desc, &context); },
                [=] { return weir_context_destroy(c); },
                [=] { return weir_backend_count(c, &count); },
                [=] { return weir_backend_info_get(c, 0, &backend); },
                [=] { return weir_device_count(c, &count); },
                [=] { return weir_device_info_get(c, 0, &info); },
                [=] { return weir_device_find(c, "host", &count); },
                [=] { return weir_link_info_get(c, 0, 0, &link); },
                [=] { return weir_topology_export(c, WEIR_TOPOLOGY_JSON, nullptr, 0, &needed); },
                [=] { return weir_topology_calibrate(c, nullptr, nullptr); },
                [=] { return weir_stream_create(c, 0, 0, &stream); },
                [=] { return weir_stream_wrap(c, 0, s, 0, &stream); },
                [=] { return weir_stream_close(s); },
                [=] { return weir_stream_native(s, &native); },
                [=] { return weir_stream_synchronize(s); },
                [=] { return weir_stream_query(s); },
                [=] { return weir_stream_host_call(s, nothing, nullptr); },
                [=] { return weir_pool_create(c, &pool_desc, &pool); },
                [=] { return weir_pool_destroy(p); },
                [=] { return weir_client_create(p, &client_desc, &client); },
                [&o] { return weir_client_destroy(o.client); },
                [&o] { return weir_client_stats_get(o.client, &client_stats); },
                [=] { return weir_pool_trim(p, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, &freed); },
                [=] { return weir_pool_reset_peak(p, 0); },
                [=] { return weir_pool_stats_get(p, &stats); },
                [=] { return weir_pool_device_stats_get(p, 0, &device_stats); },
                [=] { return weir_pool_snapshot(p, nullptr, 0, &needed); },
                [=] { return weir_pool_policy_save(p, nullptr, 0, &learned); },
                [=] { return weir_pool_policy_load(p, &learned, sizeof learned); },
                [=] { return weir_pool_map(p, nullptr, 0, &needed); },
                [] { return weir_context_destroy(nullptr); },
                [] { return weir_pool_destroy(nullptr); },
                [] { return weir_client_destroy(nullptr); },
                [] { return weir_stream_close(nullptr); }});
}

/// The same of buffer.h and lease.h.
void add_buffer_and_lease(Calls &calls, Objects &o) {
  static uint64_t address = 0;
  static uint8_t byte = 0;
  static uint32_t id = 0;
  static size_t needed = 0;
  static weir_buffer buffer = nullptr;
  static weir_lease lease = nullptr;
  static weir_request request = nullptr;
  static weir_result result = 0;
  static weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  static weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
  static uint8_t *const memory = aligned_memory(page_bytes);
  desc.size = 1;
  const weir_pool p = o.world.pool;
  const weir_stream s = o.world.streams[0];
  const weir_buffer b = o.buffer;
  calls.insert(calls.end(), {[=] { return weir_buffer_create(p, &desc, &buffer); },
                             [=] { return weir_buffer_destroy(p, b); },
                             [=] { return weir_buffer_info_get(p, b, 0, WEIR_WHOLE, &info); },
                             [=] { return weir_buffer_read(p, b, 0, 1, &byte); },
                             [=] { return weir_buffer_write(p, b, 0, 1, &byte); },
                             [=] { return weir_advise(p, b, 0, WEIR_WHOLE, WEIR_ADVISE_COLD); },
                             [=] { return weir_discard(p, b, 0, WEIR_WHOLE); },
                             [=] { return weir_buffer_set_priority(p, b, 0); },
                             [=] { return weir_buffer_set_name(p, b, "name"); },
                             [=] { return weir_buffer_name(p, b, nullptr, 0, &needed); },
                             [=] { return weir_hold(p, b, 0, &address); },
                             [=] { return weir_unhold(p, b); },
                             [=] { return weir_host_register(p, b, memory, 0); },
                             [=] { return weir_host_unregister(p, b); },
                             [=] { return weir_malloc(p, 0, nullptr, 1, &address); },
                             [&o] { return weir_free(o.world.pool, nullptr, o.address); },
                             [=] { return weir_free(p, nullptr, 0); },
                             [&o, p, s] { return weir_acquire(p, s, &o.use, 1, nullptr, &lease); },
                             [&o, p, s] {
                               return weir_acquire_async(p, s, &o.use, 1, nullptr, Objects::take,
                                                         nullptr, &request);
                             },
                             [&o] { return weir_request_wait(o.request, &result); },
                             [&o] { return weir_request_cancel(o.request); },
                             [&o] { return weir_release(o.lease, o.world.streams[0]); },
                             [&o, p, s] { return weir_prefetch(p, s, &o.use, 1); },
                             [=] { return weir_announce(p, s, nullptr, 0, WEIR_ANNOUNCE_REPLACE); },
                             [=] { return weir_operation_id(p, "name", &id); }});
}

/// 0, or what the child says was wrong.
int in_child(const std::function<int()> &look) {
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) _exit(look());
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

void every_call_in_the_child_is_refused(void **) {
  Objects objects;
  Calls calls;
  add_context_and_pool(calls, objects);
  add_buffer_and_lease(calls, objects);
  const int wrong = in_child([&calls] {
    for (size_t i = 0; i < calls.size(); ++i) {
      weir_error_info info = WEIR_ERROR_INFO_INIT;
      if (calls[i]() != WEIR_ERROR_FORKED) return static_cast<int>(i) + 1;
      if (weir_last_error_info(&info) != WEIR_SUCCESS || info.result != WEIR_ERROR_FORKED)
        return 200;
      if (std::strstr(weir_last_error(), "fork") == nullptr) return 201;
    }
    return 0;
  });
  assert_int_equal(wrong, 0);
  objects.close();
}

void what_needs_no_runtime_works_in_the_child(void **) {
  World world;
  const int wrong = in_child([] {
    weir_arena_desc desc = WEIR_ARENA_DESC_INIT;
    desc.size = 100;
    weir_arena arena = nullptr;
    weir_arena_allocation place = 0;
    uint64_t offset = 0;
    if (std::strcmp(weir_version_string(), "1.0.0") != 0) return 1;
    if (weir_version_number() != WEIR_VERSION_NUMBER) return 1;
    const std::vector<uint8_t> in(100000, 7);
    std::vector<uint8_t> blob(weir_compress_bound(in.size())), out(in.size());
    uint64_t blob_bytes = 0;
    if (weir_compress(nullptr, in.data(), in.size(), blob.data(), blob.size(), &blob_bytes) != 0 ||
        weir_decompress(blob.data(), blob_bytes, out.data(), out.size(), nullptr) != 0 || out != in)
      return 6;
    if (std::strcmp(weir_result_string(WEIR_ERROR_FORKED), "unknown result") == 0) return 2;
    if (weir_arena_create(&desc, &arena) != WEIR_SUCCESS) return 3;
    if (weir_arena_allocate(arena, 60, 0, &place, &offset) != WEIR_SUCCESS) return 4;
    if (weir_arena_allocate(arena, 60, 0, &place, &offset) != WEIR_ERROR_OVER_BUDGET) return 5;
    weir_arena_destroy(arena);
    return 0;
  });
  assert_int_equal(wrong, 0);
  world.close();
}

/// The fork finds other threads inside the library, with its locks taken: the child is refused all the same.
void a_fork_among_busy_threads(void **) {
  World world({.device_pages = 4, .host_pages = 16});
  weir_buffer buffers[2] = {world.buffer(3 * page_bytes), world.buffer(3 * page_bytes)};
  std::atomic<bool> stop{false};
  std::atomic<uint32_t> turns{0};
  std::atomic<uint32_t> wrong{0};
  std::thread busy([&] {
    for (uint32_t i = 0; !stop.load(); ++i) {
      weir_lease lease = nullptr;
      if (world.acquire(buffers[i % 2], WEIR_READ_WRITE, &lease) != WEIR_SUCCESS ||
          weir_release(lease, world.streams[0]) != WEIR_SUCCESS)
        ++wrong;
      ++turns;
    }
  });
  for (uint32_t forks = 0; forks < 5; ++forks) {
    for (const uint32_t from = turns.load(); turns.load() == from;) std::this_thread::yield();
    const int refused = in_child([&] {
      weir_pool_stats stats{};
      stats.struct_size = sizeof stats;
      weir_lease lease = nullptr;
      if (weir_pool_stats_get(world.pool, &stats) != WEIR_ERROR_FORKED) return 1;
      if (world.acquire(buffers[0], WEIR_READ, &lease) != WEIR_ERROR_FORKED) return 2;
      return weir_pool_destroy(world.pool) == WEIR_ERROR_FORKED ? 0 : 3;
    });
    if (refused != 0) ++wrong;
  }
  stop.store(true);
  busy.join();
  assert_int_equal(wrong.load(), 0);
  world.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(every_call_in_the_child_is_refused),
      cmocka_unit_test(what_needs_no_runtime_works_in_the_child),
      cmocka_unit_test(a_fork_among_busy_threads),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
