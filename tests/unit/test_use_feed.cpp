// SPDX-License-Identifier: Apache-2.0
//
// What a pool that learns writes into its log (core/lease/use_log.hpp): the uses of every acquire in the program's order, whichever way it was
// granted, between the births and deaths of buffers. The log alone: test_use_ring.cpp.
//
// Must be reproducible: threads that run at the same time are told apart by what they use, and only what the program orders is
// compared in order. No test logs more than fits before it drains.

#include <map>
#include <memory>
#include <set>

// First: the fixture's macro `ok` would meet the core's own functions of that name.
#include "core/lease/use_log.hpp"

#include "tests/unit/interleaving.hpp"

namespace {

using namespace weir::test;
using weir::lease::ObservedOperation;
using weir::lease::ObservedStream;

void learn(weir_context context) {
  reinterpret_cast<weir::pool::Context *>(context)->learns = true;
}
World learning(uint64_t flags = 0, uint64_t pages = 8) {
  return World({.device_pages = pages, .flags = flags, .before_pool = learn});
}

/// What it is told, in words: "s:abR" is an operation on the stream named s, of the buffers named a, to write, and b, to read.
class Scribe final : public weir::lease::Observer {
 public:
  std::string text;
  std::map<uint32_t, std::string> streams;  ///< names, by slot and then by life: "s", "s2" ...
  bool wrong = false;                       ///< a use of what is not alive, or something missed

  void name(weir_buffer buffer, char letter) { names_[number(buffer)] = letter; }

  void observe(const ObservedOperation &operation) override {
    put(stream(operation.stream) + ":");
    for (const auto &use : operation.uses) {
      wrong = wrong || !alive_.contains(key(use.buffer, use.generation));
      text += letter(use.buffer);
      if (use.end != UINT64_MAX)
        text += "[" + std::to_string(use.begin) + "," + std::to_string(use.end) + ")";
      text += use.mode == WEIR_READ ? "" : use.mode == WEIR_READ_WRITE ? "W" : "D";
    }
    if (operation.name != 0) text += "#" + std::to_string(operation.name);
  }
  void born(uint32_t buffer, uint64_t generation, uint64_t bytes) override {
    wrong = wrong || bytes == 0 || !alive_.insert(key(buffer, generation)).second;
    put(std::string("+") + letter(buffer));
  }
  void died(uint32_t buffer, uint64_t generation) override {
    wrong = wrong || alive_.erase(key(buffer, generation)) != 1;
    put(std::string("-") + letter(buffer));
  }
  void began(const ObservedStream &) override {}
  void missed(const ObservedStream &, uint64_t) override { wrong = true; }
  void missed_lives(uint64_t) override { wrong = true; }

 private:
  static uint32_t number(weir_buffer buffer) {
    return static_cast<uint32_t>(reinterpret_cast<uint64_t>(buffer));
  }
  static uint64_t key(uint32_t buffer, uint64_t generation) { return generation | buffer; }
  char letter(uint32_t buffer) const {
    const auto found = names_.find(buffer);
    return found != names_.end() ? found->second : '?';
  }
  std::string stream(const ObservedStream &stream) {
    const auto [found, fresh] =
        lives_.try_emplace({stream.slot, stream.life}, static_cast<char>('s' + lives_.size()));
    return {found->second};
  }
  void put(const std::string &word) { text += (text.empty() ? "" : " ") + word; }

  std::map<uint32_t, char> names_;
  std::set<uint64_t> alive_;
  std::map<std::pair<uint32_t, uint32_t>, char> lives_;
};

weir_result use(World &world, std::vector<weir_use> uses, weir_stream stream = nullptr,
                uint32_t operation = 0) {
  if (stream == nullptr) stream = world.streams[0];
  weir_lease lease = nullptr;
  const weir::page::AcquireOptions options{.operation = operation};
  const weir::Status status =
      engine_of(world).acquire(*reinterpret_cast<weir::backend::Stream *>(stream), uses.data(),
                               uses.size(), options, &lease);
  return status ? weir_release(lease, stream) : status.code();
}

std::string drained(World &world, Scribe &scribe) {
  scribe.text.clear();
  (void)engine_of(world).inspector().use_log().drain(scribe, SIZE_MAX);
  assert_false(scribe.wrong);
  return scribe.text;
}
#define expect_told(world, scribe, wanted) \
  assert_string_equal(drained(world, scribe).c_str(), (wanted))

/// Hits and misses, single uses and sets look the same.
void all_ways_of_an_acquire_are_logged_as_they_were_asked(void **) {
  World world = learning();
  Scribe scribe;
  weir_buffer a = world.buffer(2 * page_bytes), b = world.buffer(page_bytes);
  weir_buffer small = world.buffer(page_bytes / 4);
  scribe.name(a, 'a');
  scribe.name(b, 'b');
  scribe.name(small, 'c');
  expect_told(world, scribe, "+a +b +c");
  // The first uses miss, the others hit, the last but one misses again.
  for (int round = 0; round < 4; ++round) {
    if (round == 2) ok(trim_all(world));
    ok(use(world, {WEIR_USE(b, WEIR_DISCARD_WRITE)}, nullptr, 1));
    ok(use(world, {WEIR_USE(b, WEIR_READ), WEIR_USE(a, WEIR_READ_WRITE)}, nullptr, 2));
    ok(use(world, {WEIR_USE(b, WEIR_READ), WEIR_USE(a, WEIR_READ), WEIR_USE(b, WEIR_READ)}));
    ok(use(world, {WEIR_USE(small, WEIR_DISCARD_WRITE)}));
    expect_told(world, scribe, "s:bD#1 s:baW#2 s:bab s:cD");
  }
  const weir_pool_stats stats = world.stats();
  assert_true(stats.hits > 0 && stats.hits < 28);
  ok(weir_buffer_destroy(world.pool, a));
  ok(weir_buffer_destroy(world.pool, b));
  ok(weir_buffer_destroy(world.pool, small));
  expect_told(world, scribe, "-a -b -c");
  world.close();
}

void parts_have_their_range_and_the_whole_has_none(void **) {
  World world = learning();
  Scribe scribe;
  weir_buffer a = world.buffer(2 * page_bytes);
  scribe.name(a, 'a');
  weir_use part = WEIR_USE(a, WEIR_READ_WRITE), rest = part, whole = part;
  part.length = 256;
  rest.offset = 256;
  whole.length = 2 * page_bytes;
  ok(use(world, {part, rest}));
  ok(use(world, {whole}));
  ok(use(world, {rest}));
  const std::string tail = "a[256," + std::to_string(2 * page_bytes) + ")W";
  const std::string expected = "+a s:a[0,256)W" + tail + " s:aW s:" + tail;
  expect_told(world, scribe, expected.c_str());
  ok(weir_buffer_destroy(world.pool, a));
  world.close();
}

void what_fails_or_is_on_the_cpu_is_not_logged(void **) {
  World world = learning();
  Scribe scribe;
  weir_buffer a = world.buffer(page_bytes), large = world.buffer(16 * page_bytes);
  weir_stream cpu = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  scribe.name(a, 'a');
  scribe.name(large, 'l');
  assert_int_equal(use(world, {WEIR_USE(large, WEIR_READ)}), WEIR_ERROR_OVER_BUDGET);
  ok(use(world, {WEIR_USE(a, WEIR_READ_WRITE)}, cpu));
  weir_lease lease = nullptr;
  ok(world.acquire(a, WEIR_READ, &lease));
  assert_int_equal(use(world, {WEIR_USE(a, WEIR_READ_WRITE)}), WEIR_ERROR_LEASE_CONFLICT);
  ok(weir_release(lease, world.streams[0]));
  expect_told(world, scribe, "+a +l s:a");
  ok(weir_stream_close(cpu));
  ok(weir_buffer_destroy(world.pool, a));
  ok(weir_buffer_destroy(world.pool, large));
  world.close();
}

void an_announced_operation_is_logged_too(void **) {
  World world = learning();
  Scribe scribe;
  weir_buffer a = world.buffer(page_bytes);
  scribe.name(a, 'a');
  ok(use(world, {WEIR_USE(a, WEIR_DISCARD_WRITE)}));
  ok(use(world, {WEIR_USE(a, WEIR_READ)}));
  weir_use next = WEIR_USE(a, WEIR_READ_WRITE);
  weir_operation operation = {};
  operation.uses = &next;
  operation.use_count = 1;
  ok(weir_announce(world.pool, world.streams[0], &operation, 1, 0));
  ok(use(world, {next}));
  ok(use(world, {WEIR_USE(a, WEIR_READ)}));
  expect_told(world, scribe, "+a s:aD s:a s:aW s:a");
  ok(weir_buffer_destroy(world.pool, a));
  world.close();
}

/// They hand a stream over, as a program's main thread does to the one that runs its backward pass. Six of them: not all have
/// records of their own.
void threads_that_take_turns_on_a_stream_are_in_the_order_of_their_turns(void **) {
  constexpr uint32_t threads = 6, turns = 60;
  World world = learning();
  Scribe scribe;
  std::vector<weir_buffer> buffers;
  std::string expected;
  for (uint32_t i = 0; i < threads; ++i) {
    buffers.push_back(world.buffer(page_bytes));
    scribe.name(buffers[i], static_cast<char>('a' + i));
    ok(use(world, {WEIR_USE(buffers[i], WEIR_DISCARD_WRITE)}));
  }
  (void)drained(world, scribe);
  std::atomic<uint32_t> turn{0};
  std::atomic<bool> failed{false};
  std::vector<std::thread> all;
  for (uint32_t i = 0; i < threads; ++i) {
    all.emplace_back([&, i] {
      for (uint32_t mine = i; mine < turns; mine += threads) {
        while (turn.load() != mine) std::this_thread::yield();
        // Hits of one use and of sets, and what the hit path does not take.
        weir_use part = WEIR_USE(buffers[i], WEIR_READ);
        part.length = 64;
        const bool good = use(world, {WEIR_USE(buffers[i], WEIR_READ)}) == WEIR_SUCCESS &&
                          use(world, {WEIR_USE(buffers[i], WEIR_READ)}) == WEIR_SUCCESS &&
                          use(world, {WEIR_USE(buffers[i], WEIR_READ),
                                      WEIR_USE(buffers[0], WEIR_READ)}) == WEIR_SUCCESS &&
                          (mine % 4 != 0 || use(world, {part}) == WEIR_SUCCESS);
        if (!good) failed = true;
        turn.store(mine + 1);
      }
    });
  }
  for (std::thread &thread : all) thread.join();
  assert_false(failed);
  for (uint32_t mine = 0; mine < turns; ++mine) {
    const std::string name(1, static_cast<char>('a' + mine % threads));
    expected += (mine == 0 ? "s:" : " s:") + name + " s:" + name + " s:" + name + "a";
    if (mine % 4 == 0) expected += " s:" + name + "[0,64)";
  }
  expect_told(world, scribe, expected.c_str());
  for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
  world.close();
}

/// Threads on one stream and on two, each with buffers of its own that come and go, while another drains.
void births_come_before_uses_and_deaths_after_them_whoever_runs_beside(void **) {
  constexpr uint32_t threads = 6, rounds = 60, per_round = 8;
  World world = learning(0, 32);
  weir_stream other = nullptr;
  ok(weir_stream_create(world.context, 0, 0, &other));
  Scribe scribe;
  std::atomic<uint32_t> running{threads};
  std::atomic<bool> failed{false};
  std::vector<std::thread> all;
  for (uint32_t i = 0; i < threads; ++i) {
    all.emplace_back([&, i] {
      const weir_stream stream = i % 3 == 2 ? other : world.streams[0];
      for (uint32_t round = 0; round < rounds; ++round) {
        weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
        desc.size = page_bytes;
        weir_buffer mine[2] = {nullptr, nullptr};
        bool good = true;
        for (weir_buffer &made : mine)
          good = good && weir_buffer_create(world.pool, &desc, &made) == WEIR_SUCCESS;
        for (uint32_t u = 0; good && u < per_round; ++u)
          good = u % 3 != 0
                     ? use(world, {WEIR_USE(mine[u % 2], WEIR_READ_WRITE)}, stream) == WEIR_SUCCESS
                     : use(world, {WEIR_USE(mine[0], WEIR_READ), WEIR_USE(mine[1], WEIR_READ)},
                           stream) == WEIR_SUCCESS;
        for (weir_buffer made : mine)
          good = good && weir_buffer_destroy(world.pool, made) == WEIR_SUCCESS;
        if (!good) failed = true;
      }
      --running;
    });
  }
  size_t told = 0;
  while (running.load() != 0) told += engine_of(world).inspector().use_log().drain(scribe, 7);
  for (std::thread &thread : all) thread.join();
  told += engine_of(world).inspector().use_log().drain(scribe, SIZE_MAX);
  assert_false(failed);
  assert_false(scribe.wrong);
  // 3 of 8 are sets of two; a birth and a death a buffer; two streams.
  assert_int_equal(told, threads * rounds * (per_round + 3 + 4) + 2);
  ok(weir_stream_close(other));
  world.close();
}

void a_stream_that_takes_over_a_slot_is_another(void **) {
  World world = learning();
  Scribe scribe;
  weir_buffer a = world.buffer(page_bytes);
  scribe.name(a, 'a');
  for (int i = 0; i < 3; ++i) {
    ok(use(world, {WEIR_USE(a, WEIR_READ_WRITE)}));
    ok(weir_stream_synchronize(world.streams[0]));
    ok(weir_stream_close(world.streams[0]));
    ok(weir_stream_create(world.context, 0, 0, &world.streams[0]));
  }
  ok(use(world, {WEIR_USE(a, WEIR_READ)}));
  expect_told(world, scribe, "+a s:aW t:aW u:aW v:a");
  ok(weir_buffer_destroy(world.pool, a));
  world.close();
}

void hits_are_counted_as_without_learning(void **) {
  uint64_t hits[2] = {0, 0};
  for (const bool learns : {false, true}) {
    World world = learns ? learning() : World({.device_pages = 8, .flags = 0});
    weir_buffer a = world.buffer(page_bytes), b = world.buffer(page_bytes);
    weir_use part = WEIR_USE(a, WEIR_READ);
    part.length = 64;
    for (int i = 0; i < 100; ++i) {
      ok(use(world, {WEIR_USE(a, WEIR_READ_WRITE)}));
      ok(use(world, {WEIR_USE(a, WEIR_READ), WEIR_USE(b, WEIR_READ)}));
      if (i % 10 == 0) ok(use(world, {part}));
    }
    hits[learns ? 1 : 0] = world.stats().hits;
    ok(weir_buffer_destroy(world.pool, a));
    ok(weir_buffer_destroy(world.pool, b));
    world.close();
  }
  assert_int_equal(hits[0], hits[1]);
  assert_true(hits[0] > 250);
}

/// Without background threads no thread would drain it.
void a_pool_that_does_not_learn_has_no_log(void **) {
  uint64_t records[3] = {0, 0, 0};
  for (int kind = 0; kind < 3; ++kind) {
    World world = kind == 0 ? World(Setup{}) : learning(kind == 1 ? WEIR_POOL_NO_BACKGROUND : 0);
    weir_buffer a = world.buffer(page_bytes);
    ok(use(world, {WEIR_USE(a, WEIR_READ_WRITE)}));
    ok(use(world, {WEIR_USE(a, WEIR_READ)}));
    assert_int_equal(engine_of(world).inspector().use_log().on(), kind == 2);
    records[kind] = world.stats().bookkeeping_bytes;
    ok(weir_buffer_destroy(world.pool, a));
    world.close();
  }
  // Other records come and go, by a few hundred bytes.
  const uint64_t log = sizeof(weir::lease::UseRing) + sizeof(weir::lease::RecordRing<3>);
  constexpr uint64_t others = 65536;
  assert_true(records[1] < records[0] + others);
  assert_true(records[2] + others > records[0] + log && records[2] < records[0] + log + others);
}

/// Whose allocations of more than so many bytes fail.
struct Meagre {
  std::atomic<size_t> most{SIZE_MAX};
  std::atomic<int64_t> bytes{0};

  static void *allocate(void *user, size_t size, size_t alignment) {
    auto *self = static_cast<Meagre *>(user);
    void *memory = nullptr;
    if (size > self->most ||
        posix_memalign(&memory, std::max(alignment, sizeof(void *)), size) != 0)
      return nullptr;
    self->bytes += static_cast<int64_t>(size);
    return memory;
  }
  static void deallocate(void *user, void *memory, size_t size, size_t) {
    static_cast<Meagre *>(user)->bytes -= static_cast<int64_t>(size);
    std::free(memory);
  }
};

/// Acquires go on, are counted as ever and not learned from. A pool ends with records in its log.
void a_stream_without_memory_for_a_ring_is_not_learned_from(void **) {
  Meagre memory;
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.flags = WEIR_CONTEXT_NO_SEARCH;
  desc.options = small_host;
  desc.allocator = {Meagre::allocate, Meagre::deallocate, &memory, {}};
  weir_context context = nullptr;
  ok(weir_context_create(&desc, &context));
  learn(context);
  weir_pool_device device = {};
  device.budget = 8 * page_bytes;
  weir_pool_desc pool = WEIR_POOL_DESC_INIT;
  pool.device_count = 1;
  pool.devices = &device;
  pool.page_size = pool.large_page_size = page_bytes;
  World world(context, nullptr);
  ok(weir_pool_create(context, &pool, &world.pool));
  for (weir_stream &stream : world.streams) ok(weir_stream_create(context, 0, 0, &stream));
  Scribe scribe;
  weir_buffer a = world.buffer(page_bytes);
  scribe.name(a, 'a');
  memory.most = sizeof(weir::lease::UseRing) - 1;
  for (int i = 0; i < 10; ++i) ok(use(world, {WEIR_USE(a, WEIR_READ)}));
  assert_true(world.stats().hits >= 8);
  memory.most = SIZE_MAX;
  ok(use(world, {WEIR_USE(a, WEIR_READ)}, world.streams[0]));
  ok(use(world, {WEIR_USE(a, WEIR_READ)}, world.streams[1]));
  expect_told(world, scribe, "+a s:a");
  for (int i = 0; i < 10; ++i) ok(use(world, {WEIR_USE(a, WEIR_READ)}, world.streams[1]));
  ok(weir_buffer_destroy(world.pool, a));
  world.close();
  assert_int_equal(memory.bytes, 0);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(all_ways_of_an_acquire_are_logged_as_they_were_asked),
      cmocka_unit_test(parts_have_their_range_and_the_whole_has_none),
      cmocka_unit_test(what_fails_or_is_on_the_cpu_is_not_logged),
      cmocka_unit_test(an_announced_operation_is_logged_too),
      cmocka_unit_test(threads_that_take_turns_on_a_stream_are_in_the_order_of_their_turns),
      cmocka_unit_test(births_come_before_uses_and_deaths_after_them_whoever_runs_beside),
      cmocka_unit_test(a_stream_that_takes_over_a_slot_is_another),
      cmocka_unit_test(hits_are_counted_as_without_learning),
      cmocka_unit_test(a_pool_that_does_not_learn_has_no_log),
      cmocka_unit_test(a_stream_without_memory_for_a_ring_is_not_learned_from),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
