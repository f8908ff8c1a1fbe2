// SPDX-License-Identifier: Apache-2.0
//
// Small memory packed into pages: holes that are found again, however old, by any client; what is refused only when the
// bytes are not there; and empty pages that stay for the next one, but are in no other's way.

#include "tests/unit/interleaving.hpp"

#include <random>

namespace {

using namespace weir::test;

constexpr uint64_t pages = 64;

std::string options_of(void **state) {
  return std::string(small_host) + static_cast<const char *>(*state);
}

World full_world(void **state, uint64_t host_pages = 0) {
  return World({.options = options_of(state), .device_pages = pages, .host_pages = host_pages});
}

weir_result take(World &world, uint64_t size, uint64_t *address) {
  return weir_malloc(world.pool, 0, nullptr, size, address);
}

/// As many blocks as fit.
std::vector<uint64_t> take_all(World &world, uint64_t size) {
  std::vector<uint64_t> blocks;
  uint64_t address = 0;
  weir_result result = WEIR_SUCCESS;
  while ((result = take(world, size, &address)) == WEIR_SUCCESS) blocks.push_back(address);
  assert_int_equal(result, WEIR_ERROR_OVER_BUDGET);
  return blocks;
}

void free_every_second(World &world, std::vector<uint64_t> *blocks, size_t from) {
  std::vector<uint64_t> left;
  for (size_t i = 0; i < blocks->size(); ++i) {
    if (i % 2 == from) {
      ok(weir_free(world.pool, nullptr, (*blocks)[i]));
    } else {
      left.push_back((*blocks)[i]);
    }
  }
  *blocks = left;
}

void free_all(World &world, const std::vector<uint64_t> &blocks) {
  for (const uint64_t address : blocks) ok(weir_free(world.pool, nullptr, address));
}

/// Nothing is left, and all of the memory can be had by another client.
void close_empty(World &world) {
  validate(world);
  ok(trim_all(world));
  validate(world);
  const weir_pool_stats stats = world.stats();
  assert_int_equal(stats.buffers, 0);
  assert_int_equal(stats.slabs, 0);
  assert_int_equal(stats.pages, 0);
  assert_int_equal(stats.device_held_bytes, 0);
  assert_int_equal(stats.device_bytes, stats.device_free_bytes);
  world.close();
}

/// Half of what was freed in between comes back to as many blocks, of every size.
void every_second_hole_is_found_again(void **state) {
  for (uint64_t size = 256; size <= page_bytes / 2; size = size * 3 / 2 / 256 * 256 + 256) {
    World world = full_world(state);
    std::vector<uint64_t> blocks = take_all(world, size);
    const size_t all = blocks.size();
    assert_true(all * size >= pages * page_bytes / 100 * (has_vmm(world) ? 99 : 66));
    for (const size_t from : {size_t{0}, size_t{1}, size_t{0}}) {
      free_every_second(world, &blocks, from);
      while (blocks.size() < all) {
        uint64_t address = 0;
        ok(take(world, size, &address));
        blocks.push_back(address);
      }
      validate(world);
    }
    uint64_t none = 0;
    expect_result(WEIR_ERROR_OVER_BUDGET, take(world, size, &none));
    free_all(world, blocks);
    close_empty(world);
  }
}

/// Other sizes lie between, before and after: a hole of a block holds a block.
void holes_between_other_sizes(void **state) {
  for (const uint64_t size : {uint64_t{256}, uint64_t{1024}, page_bytes / 8, page_bytes / 2}) {
    World world = full_world(state);
    std::vector<uint64_t> blocks, others;
    std::mt19937_64 random(size);
    for (;;) {
      uint64_t address = 0;
      if (take(world, size, &address) != WEIR_SUCCESS) break;
      blocks.push_back(address);
      if (take(world, 256 + random() % (page_bytes / 2), &address) == WEIR_SUCCESS)
        others.push_back(address);
    }
    for (uint64_t address = 0; take(world, size, &address) == WEIR_SUCCESS;)
      blocks.push_back(address);
    const size_t all = blocks.size();
    free_every_second(world, &blocks, 0);
    const size_t freed = all - blocks.size();
    for (size_t i = 0; i < freed; ++i) {
      uint64_t address = 0;
      ok(take(world, size, &address));
      blocks.push_back(address);
    }
    validate(world);
    free_all(world, blocks);
    free_all(world, others);
    close_empty(world);
  }
}

struct Block {
  uint64_t address, size;
};

/// Random sizes come and go at four fifths of the budget; then they only come. Refused is what is not there.
void first_refusal_is_late(void **state) {
  World world = full_world(state);
  const uint64_t budget = pages * page_bytes;
  std::mt19937_64 random(7);
  std::vector<Block> live;
  uint64_t bytes = 0;
  const auto drop = [&] {
    std::swap(live[random() % live.size()], live.back());
    ok(weir_free(world.pool, nullptr, live.back().address));
    bytes -= live.back().size;
    live.pop_back();
  };
  const auto add = [&](uint64_t size) {
    uint64_t address = 0;
    const weir_result result = take(world, size, &address);
    if (result != WEIR_SUCCESS) return false;
    live.push_back({address, size});
    bytes += size;
    return true;
  };
  for (int step = 0; step < 20000; ++step) {
    const uint64_t size = 256 + random() % (page_bytes / 16) / 256 * 256;
    while (bytes + size > budget / 5 * 4) drop();
    assert_true(add(size));
  }
  validate(world);
  while (add(256 + random() % (page_bytes / 16) / 256 * 256)) {
  }
  if (bytes * 100 < budget * 95) print_error("refused at %.3f\n", double(bytes) / double(budget));
  assert_true(bytes * 100 >= budget * 95);
  // What lies empty now, a page and not more, is one buffer's.
  while (!live.empty()) drop();
  close_empty(world);
}

/// Memory of weir_malloc by addresses, with the bytes that live.
struct Heap {
  World world;
  std::vector<Block> live = {};
  uint64_t bytes = 0;

  bool add(uint64_t size) {
    uint64_t address = 0;
    if (take(world, size, &address) != WEIR_SUCCESS) return false;
    live.push_back({address, size});
    bytes += size;
    return true;
  }
  void drop(size_t i) {
    std::swap(live[i], live.back());
    ok(weir_free(world.pool, nullptr, live.back().address));
    bytes -= live.back().size;
    live.pop_back();
  }
  void drop_newest() { drop(live.size() - 1); }
  void close() {
    while (!live.empty()) drop_newest();
    close_empty(world);
  }
};

void expect_late(const Heap &heap, const char *load) {
  const uint64_t budget = pages * page_bytes;
  if (heap.bytes * 100 < budget * 95)
    print_error("%s: refused at %.3f\n", load, double(heap.bytes) / double(budget));
  assert_true(heap.bytes * 100 >= budget * 95);
}

/// Steps of training: weights stay; a layer's activations come in order with scratch between them and go in reverse order,
/// while gradients come. Each run has more layers than the one before, until a request is refused.
void a_load_like_training(void **state) {
  Heap heap{full_world(state)};
  const uint64_t unit = page_bytes / 64;
  std::mt19937_64 random(5);
  bool room = true;
  const auto sizes = [&](uint64_t layer, uint64_t step) {
    return unit * (1 + (layer * 7 + step * 3) % 40) + 256 * (layer % 5);
  };
  for (uint64_t layer = 0; layer < 40; ++layer) assert_true(heap.add(sizes(layer, 0)));
  for (uint64_t layers = 20, step = 1; room; layers += 4, ++step) {
    const size_t weights = heap.live.size();
    for (uint64_t layer = 0; layer < layers && room; ++layer) {
      room = heap.add(sizes(layer, step % 3));  // its activations depend on the batch's length
      for (uint64_t i = random() % 3; i > 0 && room; --i) {
        room = heap.add(unit * (1 + random() % 16));
        if (room) heap.drop_newest();
      }
    }
    if (!room) break;
    while (heap.live.size() > weights) heap.drop_newest();
    if (step % 8 == 0) room = heap.add(sizes(step, 1));  // what the optimizer keeps
  }
  expect_late(heap, "training");
  heap.close();
}

/// Sequences come and end; each grows by blocks of one size, and every step has a few activations as long as the batch is.
void a_load_like_serving(void **state) {
  Heap heap{full_world(state)};
  const uint64_t block = page_bytes / 32;
  std::mt19937_64 random(9);
  std::vector<std::vector<Block>> sequences;
  uint64_t bytes = 0, most = 0;
  const uint64_t budget = pages * page_bytes;
  const auto grow = [&](uint64_t size, std::vector<Block> *sequence) {
    uint64_t address = 0;
    if (take(heap.world, size, &address) != WEIR_SUCCESS) return false;
    sequence->push_back({address, size});
    bytes += size;
    most = std::max(most, bytes);
    return true;
  };
  const auto end = [&](std::vector<Block> *sequence) {
    for (const Block &one : *sequence) {
      ok(weir_free(heap.world.pool, nullptr, one.address));
      bytes -= one.size;
    }
    sequence->clear();
  };
  bool room = true;
  for (int step = 0; room; ++step) {
    // Ever more of them run at once, until there is no room.
    while (sequences.size() < static_cast<size_t>(8 + step / 16)) sequences.emplace_back();
    std::vector<Block> acts;
    for (int i = 0; i < 3 && room; ++i)
      room = grow(256 + block / 8 * (sequences.size() % 24 + random() % 8), &acts);
    for (std::vector<Block> &sequence : sequences) {
      if (!room) break;
      if (random() % 48 == 0) end(&sequence);
      room = grow(sequence.empty() ? block * (1 + random() % 8) : block, &sequence);
    }
    if (!room) heap.bytes = bytes;
    end(&acts);
  }
  assert_true(most * 100 >= budget * 95);
  expect_late(heap, "serving");
  heap.bytes = 0;
  for (std::vector<Block> &sequence : sequences) end(&sequence);
  heap.close();
}

/// Where granules can't be shared, memory of a few pages need not be rounded up to whole ones.
void a_few_pages_without_rounding(void **) {
  World world({.options = std::string(small_host) + ";host.multi_map=0",
               .device_pages = pages,
               .host_pages = 0});
  const uint64_t budget = pages * page_bytes;
  std::mt19937_64 random(3);
  std::vector<uint64_t> blocks;
  uint64_t bytes = 0;
  for (;;) {
    const uint64_t size = page_bytes / 2 + random() % (page_bytes * 2) / 256 * 256;
    uint64_t address = 0;
    if (take(world, size, &address) != WEIR_SUCCESS) break;
    blocks.push_back(address);
    bytes += size;
  }
  assert_true(bytes * 100 >= budget * 95);
  validate(world);
  free_all(world, blocks);
  close_empty(world);
}

/// A small buffer finds the holes of old slabs again, too, and what it finds there is zero: of its own client's bytes, and of
/// another client's, whose pages come to it as a whole.
void old_holes_are_refilled_by_buffers(void **state) {
  for (const bool other_client : {false, true}) {
    World world = full_world(state);
    weir_client clients[2] = {};
    const weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
    for (weir_client &client : clients) ok(weir_client_create(world.pool, &desc, &client));
    const uint64_t size = page_bytes / 4;
    const size_t all = pages * 4;
    std::vector<weir_buffer> buffers;
    for (size_t i = 0; i < all; ++i) {
      buffers.push_back(world.buffer(size, WEIR_DEVICE_DEFAULT, clients[0]));
      world.fill(buffers[i], size, static_cast<uint32_t>(i + 1));
    }
    for (size_t i = 0; i < all; i += 2) ok(weir_buffer_destroy(world.pool, buffers[i]));
    for (size_t i = 0; i < all; i += 2) {
      buffers[i] = world.buffer(size, WEIR_DEVICE_DEFAULT, clients[other_client ? 1 : 0]);
      weir_lease lease = nullptr;
      uint64_t address = 0;
      ok(world.acquire(buffers[i], other_client ? WEIR_DISCARD_WRITE : WEIR_READ_WRITE, &lease,
                       &address));
      if (other_client) {
        // Zero, but for bytes of its own client's that were there before it.
        const std::vector<uint8_t> found = world.device_bytes(address, size);
        bool known = all_zero(found);
        for (size_t j = 0; j < i && !known; j += 2)
          known = wrong_bytes(found.data(), size, PatternOf{static_cast<uint32_t>(j + 1)}) == 0;
        assert_true(known);
      } else {
        assert_true(all_zero(world.device_bytes(address, size)));
      }
      ok(weir_release(lease, world.streams[0]));
      world.fill(buffers[i], size, static_cast<uint32_t>(i + 1));
      if (i % 32 == 0) validate(world);
    }
    for (size_t i = 0; i < all; ++i) world.check(buffers[i], size, static_cast<uint32_t>(i + 1));
    if (!other_client) assert_true(world.stats().slabs <= (has_vmm(world) ? pages / 4 : pages));
    for (weir_buffer buffer : buffers) ok(weir_buffer_destroy(world.pool, buffer));
    for (weir_client client : clients) ok(weir_client_destroy(client));
    close_empty(world);
  }
}

/// Live bytes of buffers reach the budget whatever has gone before: a call that is short of room has others moved together.
void buffers_reach_the_budget(void **state) {
  World world = full_world(state);
  const uint64_t budget = pages * page_bytes;
  std::mt19937_64 random(11);
  struct Live {
    weir_buffer buffer;
    uint64_t size;
    uint32_t seed;
  };
  std::vector<Live> live;
  uint64_t bytes = 0;
  uint32_t seed = 0;
  const auto drop = [&] {
    std::swap(live[random() % live.size()], live.back());
    ok(weir_buffer_destroy(world.pool, live.back().buffer));
    bytes -= live.back().size;
    live.pop_back();
  };
  const auto add = [&] {
    const uint64_t size = 256 + random() % (page_bytes / 4) / 256 * 256;
    weir_buffer buffer = world.buffer(size);
    weir_lease lease = nullptr;
    Kernel kernel{0, size, ++seed, 0};
    if (world.acquire(buffer, WEIR_DISCARD_WRITE, &lease, &kernel.address) != WEIR_SUCCESS) {
      ok(weir_buffer_destroy(world.pool, buffer));
      return false;
    }
    ok(kernel.launch(world.streams[0], Kernel::write));
    ok(weir_release(lease, world.streams[0]));
    ok(weir_stream_synchronize(world.streams[0]));
    live.push_back({buffer, size, seed});
    bytes += size;
    return true;
  };
  for (int round = 0; round < 4; ++round) {
    while (add()) {
    }
    if (bytes * 100 < budget * 95)
      print_error("round %d: refused at %.3f\n", round, double(bytes) / double(budget));
    assert_true(bytes * 100 >= budget * 95);
    validate(world);
    while (bytes > budget / 4) drop();
  }
  for (const Live &one : live) world.check(one.buffer, one.size, one.seed);
  while (!live.empty()) drop();
  close_empty(world);
}

/// A page without tenants stays for the next one, charged to no client, and is given up before anything is evicted or refused:
/// to a trim, to another size, to another client.
void empty_pages_are_in_nobodys_way(void **state) {
  World world = full_world(state, pages);
  uint64_t address = 0, again = 0;
  ok(take(world, 1000, &address));
  const uint64_t bytes = world.stats().device_bytes;
  assert_int_equal(world.stats().device_held_bytes, page_bytes);
  for (int i = 0; i < 100; ++i) {
    ok(weir_free(world.pool, nullptr, address));
    assert_int_equal(world.stats().device_held_bytes, 0);
    assert_int_equal(world.stats().slabs, 0);
    ok(take(world, 1000, &again));
    assert_int_equal(again, address);  // the place that is there
    assert_int_equal(world.stats().device_bytes, bytes);
  }
  ok(weir_free(world.pool, nullptr, address));
  // Nothing of it is charged to a client ...
  weir_client client = nullptr;
  weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
  desc.device_quota = 2 * page_bytes;
  ok(weir_client_create(world.pool, &desc, &client));
  weir_buffer small = world.buffer(100, WEIR_DEVICE_DEFAULT, client);
  world.fill(small, 100, 1);
  ok(weir_buffer_destroy(world.pool, small));
  weir_client_stats of_client = WEIR_CLIENT_STATS_INIT;
  ok(weir_client_stats_get(client, &of_client));
  assert_int_equal(of_client.device_bytes, 0);
  // ... nor in the way of what takes all his quota, or all there is.
  weir_buffer quota = world.buffer(2 * page_bytes, WEIR_DEVICE_DEFAULT, client);
  world.fill(quota, 2 * page_bytes, 2);
  assert_int_equal(world.stats().evictions, 0);
  weir_buffer rest = world.buffer((pages - 2) * page_bytes);
  world.fill(rest, (pages - 2) * page_bytes, 3);
  world.check(quota, 2 * page_bytes, 2);
  assert_int_equal(world.stats().demoted_bytes, 0);
  // A trim takes them, too: the gentle one.
  ok(weir_buffer_destroy(world.pool, rest));
  ok(take(world, 1000, &address));
  ok(weir_free(world.pool, nullptr, address));
  ok(weir_pool_trim(world.pool, 0, WEIR_TRIM_GRADUAL, WEIR_WHOLE, nullptr));
  if (has_vmm(world)) assert_int_equal(world.stats().device_bytes, 2 * page_bytes);
  assert_int_equal(world.stats().demoted_bytes, 0);
  world.check(quota, 2 * page_bytes, 2);
  ok(weir_buffer_destroy(world.pool, quota));
  ok(weir_client_destroy(client));
  close_empty(world);
}

/// Memory that was freed after work on one stream is another's only when that work has ended.
void freed_after_work_on_a_stream(void **state) {
  World world = full_world(state);
  weir_stream other = nullptr;
  ok(weir_stream_create(world.context, 0, 0, &other));
  uint64_t address = 0;
  ok(weir_malloc(world.pool, 0, world.streams[0], 4096, &address));
  {
    std::atomic<bool> go{false};
    ok(weir_stream_host_call(
        world.streams[0],
        [](void *user) {
          while (!static_cast<std::atomic<bool> *>(user)->load()) std::this_thread::yield();
        },
        &go));
    ok(weir_free(world.pool, world.streams[0], address));
    uint64_t again = 0;
    ok(weir_malloc(world.pool, 0, world.streams[0], 4096,
                   &again));  // at once: it is behind that work
    assert_int_equal(again, address);
    ok(weir_free(world.pool, world.streams[0], again));
    ok(weir_malloc(world.pool, 0, other, 4096, &again));
    assert_int_equal(again, address);
    assert_true(never_ready(other));  // it waits
    go = true;
    ok(weir_stream_synchronize(other));
    ok(weir_free(world.pool, nullptr, again));
  }
  ok(weir_stream_synchronize(world.streams[0]));
  ok(weir_stream_close(other));
  close_empty(world);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      BOTH(every_second_hole_is_found_again),
      BOTH(holes_between_other_sizes),
      {"first_refusal_is_late", first_refusal_is_late, nullptr, nullptr, const_cast<char *>(vmm)},
      {"a_load_like_training", a_load_like_training, nullptr, nullptr, const_cast<char *>(vmm)},
      {"a_load_like_serving", a_load_like_serving, nullptr, nullptr, const_cast<char *>(vmm)},
      cmocka_unit_test(a_few_pages_without_rounding),
      BOTH(old_holes_are_refilled_by_buffers),
      {"buffers_reach_the_budget", buffers_reach_the_budget, nullptr, nullptr,
       const_cast<char *>(vmm)},
      BOTH(empty_pages_are_in_nobodys_way),
      BOTH(freed_after_work_on_a_stream),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
