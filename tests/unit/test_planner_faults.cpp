// SPDX-License-Identifier: Apache-2.0
//
// A pool that learns, whose own threads have no memory: the n-th allocation of theirs fails, or all from the n-th on, while a program
// repeats itself. And threads that can't be had. The program is told nothing of it and its bytes are right; nothing is left in the end.
//
// pthread_create is this program's own, to refuse. Which allocation is the n-th depends on how the threads meet: what has to hold holds of
// each.

#include "tests/unit/interleaving.hpp"
#include "tests/support/stride.hpp"

#include <dlfcn.h>
#include <pthread.h>

namespace {
std::atomic<int> threads_left{INT32_MAX};  // that may be made; then one is refused
}  // namespace

extern "C" int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                              void *(*start)(void *), void *argument) noexcept {
  if (threads_left.fetch_sub(1) == 0) return EAGAIN;
  static auto *real =
      reinterpret_cast<int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)>(
          dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, start, argument);
}

namespace {

using namespace weir::test;

/// Refuses allocations of other threads than the test's, and keeps its balance.
struct Memory {
  const std::thread::id own = std::this_thread::get_id();
  std::atomic<int64_t> left{INT64_MAX};  ///< allocations of others until the first that fails
  bool for_good = false;                 ///< all from that on
  std::atomic<int64_t> bytes{0};
  std::atomic<int64_t> refused{0};

  bool refuses() {
    if (std::this_thread::get_id() == own) return false;
    const int64_t before = left.fetch_sub(1);
    if (before > 1 || (before < 1 && !for_good)) return false;
    ++refused;
    return true;
  }
  static void *allocate(void *user, size_t size, size_t alignment) {
    auto *self = static_cast<Memory *>(user);
    void *memory = nullptr;
    if (self->refuses() || posix_memalign(&memory, std::max(alignment, sizeof(void *)), size) != 0)
      return nullptr;
    self->bytes += static_cast<int64_t>(size);
    return memory;
  }
  static void deallocate(void *user, void *memory, size_t size, size_t) {
    static_cast<Memory *>(user)->bytes -= static_cast<int64_t>(size);
    std::free(memory);
  }
};

constexpr uint64_t device_pages = 12;

weir_context context_with(Memory *memory) {
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  desc.allocator = {Memory::allocate, Memory::deallocate, memory, {}};
  desc.options = small_host;
  weir_context context = nullptr;
  ok(weir_context_create(&desc, &context));
  reinterpret_cast<weir::pool::Context *>(context)->learns = true;
  return context;
}

weir_result make_pool(weir_context context, weir_pool *pool) {
  const weir_pool_device device = {0, 0, device_pages * page_bytes, {0, 0}};
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.device_count = 1;
  desc.devices = &device;
  desc.host_budget = 128 * page_bytes;
  desc.page_size = desc.large_page_size = page_bytes;
  desc.policy = "auto";
  return weir_pool_create(context, &desc, pool);
}

/// Layers forwards, each of which leaves something behind, and backwards, where that is read and destroyed.
struct Program {
  static constexpr uint32_t layers = 12;
  World &world;
  std::vector<weir_buffer> weights, left;
  std::vector<uint32_t> seeds = std::vector<uint32_t>(layers), seeds_left = seeds;
  uint32_t written = 0;

  explicit Program(World &world_) : world(world_), left(layers) {
    for (uint32_t i = 0; i < layers; ++i) {
      weights.push_back(world.buffer(page_bytes));
      world.fill(weights[i], page_bytes, seeds[i] = ++written);
    }
  }
  void use(weir_buffer buffer, uint32_t mode, uint32_t *seed, const std::string &name) {
    weir_use use = WEIR_USE(buffer, mode);
    weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
    options.operation = name.c_str();
    weir_lease lease = nullptr;
    ok(weir_acquire(world.pool, world.streams[0], &use, 1, &options, &lease));
    if (mode != WEIR_READ) *seed = ++written;
    Kernel kernel{.address = use.address, .bytes = page_bytes, .seed = *seed};
    ok(kernel.launch(world.streams[0], mode == WEIR_READ ? Kernel::compare : Kernel::write));
    ok(weir_release(lease, world.streams[0]));
    ok(weir_stream_synchronize(world.streams[0]));
    assert_int_equal(kernel.wrong, 0);
  }
  void round() {
    for (uint32_t i = 0; i < layers; ++i) {
      use(weights[i], WEIR_READ, &seeds[i], "forward" + std::to_string(i));
      left[i] = world.buffer(page_bytes);
      use(left[i], WEIR_DISCARD_WRITE, &seeds_left[i], "leave" + std::to_string(i));
    }
    for (uint32_t i = layers; i-- > 0;) {
      use(left[i], WEIR_READ, &seeds_left[i], "take" + std::to_string(i));
      ok(weir_buffer_destroy(world.pool, left[i]));
      use(weights[i], WEIR_DISCARD_WRITE, &seeds[i], "backward" + std::to_string(i));
    }
  }
  void end() {
    for (uint32_t i = 0; i < layers; ++i) {
      world.check_read(weights[i], page_bytes, seeds[i]);
      ok(weir_buffer_destroy(world.pool, weights[i]));
    }
    validate(world);
  }
};

/// *prefetched: bytes that came ahead, though none were asked for.
void repeat_without_memory(Memory *memory, int64_t n, uint64_t *prefetched) {
  weir_context context = context_with(memory);
  weir_pool pool = nullptr;
  ok(make_pool(context, &pool));
  World world(context, pool);
  ok(weir_stream_create(context, 0, 0, &world.streams[0]));
  memory->left.store(n);
  {
    Program program(world);
    for (int round = 0; round < 8; ++round) program.round();
    program.end();
  }
  *prefetched += world.stats().prefetched_bytes;
  world.close();
  assert_int_equal(memory->bytes.load(), 0);
}

void sweep(bool for_good) {
  uint64_t prefetched = 0;
  int64_t positions = 0, n = 1;
  for (; n < 100'000; n += n < 64 ? stride() : n / 8) {
    Memory memory;
    memory.for_good = for_good;
    repeat_without_memory(&memory, n, &prefetched);
    if (memory.refused.load() == 0) break;
    ++positions;
  }
  print_message("%lld positions up to %lld; %llu bytes brought by plans\n",
                static_cast<long long>(positions), static_cast<long long>(n),
                static_cast<unsigned long long>(prefetched));
  assert_true(positions >= (stride() == 1 ? 64 : 4));
}

void an_allocation_of_the_planner_fails(void **) { sweep(false); }
void the_planner_has_no_memory_any_more(void **) { sweep(true); }

/// The first threads of a pool are needed; without those that plan and clean it goes on as "lru-window" does.
void threads_that_plan_may_be_missing(void **) {
  int missing = 0, refusals = 0;
  for (int k = 0;; ++k) {
    Memory memory;
    weir_context context = context_with(&memory);
    weir_pool pool = nullptr;
    threads_left.store(k);
    const weir_result made = make_pool(context, &pool);
    const bool refused = threads_left.exchange(INT32_MAX) < 0;
    if (made != WEIR_SUCCESS) {
      assert_true(refused);
      ++refusals;
      ok(weir_context_destroy(context));
      continue;
    }
    if (refused) ++missing;
    World world(context, pool);
    ok(weir_stream_create(context, 0, 0, &world.streams[0]));
    {
      Program program(world);
      for (int round = 0; round < 6; ++round) program.round();
      program.end();
    }
    world.close();
    assert_int_equal(memory.bytes.load(), 0);
    if (!refused) break;
  }
  print_message("%d pools without one of their threads, %d refused\n", missing, refusals);
  assert_int_equal(missing, 2);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(an_allocation_of_the_planner_fails),
      cmocka_unit_test(the_planner_has_no_memory_any_more),
      cmocka_unit_test(threads_that_plan_may_be_missing),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
