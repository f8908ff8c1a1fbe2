// SPDX-License-Identifier: Apache-2.0
//
// Damage below HOST: bytes that come back from a spill file or from compressed memory other than they were put there.
// Whoever wants them is told, by tier and use, and never given wrong ones; where another copy is left its bytes come
// instead; the pool goes on, and damage that was on the way only is gone at the next try.

#include <cstring>
#include <functional>
#include <map>

// First: the fixture's macro `ok` would meet the core's own functions of that name.
#include "tests/unit/gate.hpp"

#include "tests/unit/interleaving.hpp"

namespace {

using namespace weir::test;

/// Bytes on their way from a spill file.
class Damage final : public weir::tier::IoHook {
 public:
  std::atomic<int> reads{0};  ///< so many of the next ones are damaged
  std::atomic<uint64_t> at{0};
  std::atomic<int> mask{1};

  int64_t before(weir::tier::IoCall, uint64_t) noexcept override { return 0; }
  void after_read(void *bytes, uint64_t count) noexcept override {
    if (reads.load() <= 0) return;
    reads.fetch_sub(1);
    static_cast<unsigned char *>(bytes)[at.load() % count] ^=
        static_cast<unsigned char>(mask.load());
  }
} damage;

void hook(weir_context context) {
  damage.reads.store(0);
  damage.at.store(0);
  damage.mask.store(1);
  reinterpret_cast<weir::pool::Context *>(context)->io_hook = &damage;
}

struct Below {
  uint64_t compressed = 0, storage = 64;
  uint64_t flags = 0;
  uint64_t host = 32;
};

World world_with(const Below &below) {
  return World({.device_pages = 4,
                .host_pages = below.host,
                .flags = below.flags | WEIR_POOL_NO_BACKGROUND,
                .compressed_pages = below.compressed,
                .storage_pages = below.storage,
                .before_pool = hook});
}

void sink(World &world) {
  ok(trim_all(world));
  ok(weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr));
}

void expect_corrupt(World &world, weir_result result, uint32_t tier, uint64_t failures) {
  const weir_error_info info = last_error();
  if (result != WEIR_ERROR_CORRUPT) print_error("%d: %s\n", result, weir_last_error());
  assert_int_equal(result, WEIR_ERROR_CORRUPT);
  assert_int_equal(info.tier, tier);
  assert_int_equal(info.use_index, 0);
  assert_true(weir_last_error()[0] != '\0');
  assert_int_equal(world.stats().checksum_failures, failures);
  const std::string wrong = reinterpret_cast<weir::pool::Pool *>(world.pool)->engine().validate();
  assert_string_equal(wrong.c_str(), "");
}

// ---- everything that can want a page's bytes; each checks them if it gets them ----

using Wants = weir_result (*)(World &, weir_buffer, uint64_t size);

weir_result acquires(World &world, weir_buffer buffer, uint64_t size) {
  Kernel kernel{0, size, 1, 0};
  const weir_result result = run(world, buffer, WEIR_READ, &kernel);
  assert_int_equal(kernel.wrong, 0);
  return result;
}
weir_result acquires_to_write(World &world, weir_buffer buffer, uint64_t size) {
  weir_lease lease = nullptr;
  Kernel kernel{0, size, 1, 0};
  const weir_result result = world.acquire(buffer, WEIR_READ_WRITE, &lease, &kernel.address);
  if (result != WEIR_SUCCESS) return result;
  ok(weir_stream_host_call(world.streams[0], Kernel::compare, &kernel));
  ok(weir_release(lease, world.streams[0]));
  ok(weir_stream_synchronize(world.streams[0]));
  assert_int_equal(kernel.wrong, 0);
  return result;
}
weir_result reads(World &world, weir_buffer buffer, uint64_t size) {
  std::vector<uint8_t> bytes(size);
  const weir_result result = weir_buffer_read(world.pool, buffer, 0, size, bytes.data());
  if (result != WEIR_SUCCESS) return result;
  for (uint64_t i = 0; i < size; ++i) assert_int_equal(bytes[i], pattern(1, i));
  return result;
}
/// A byte that is there already: all others must come up to stay.
weir_result writes_a_part(World &world, weir_buffer buffer, uint64_t) {
  const uint8_t byte = pattern(1, 7);
  return weir_buffer_write(world.pool, buffer, 7, 1, &byte);
}
weir_result leases_on_the_cpu(World &world, weir_buffer buffer, uint64_t size) {
  weir_stream cpu = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  weir_lease lease = nullptr;
  const weir_result result = weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease);
  if (result == WEIR_SUCCESS) {
    Kernel kernel{use.address, size, 1, 0};
    Kernel::compare(&kernel);
    ok(weir_release(lease, cpu));
    assert_int_equal(kernel.wrong, 0);
  }
  ok(weir_stream_close(cpu));
  return result;
}
weir_result holds(World &world, weir_buffer buffer, uint64_t size) {
  Kernel kernel{0, size, 1, 0};
  const weir_result result = weir_hold(world.pool, buffer, 0, &kernel.address);
  if (result != WEIR_SUCCESS) return result;
  Kernel::compare(&kernel);
  ok(weir_unhold(world.pool, buffer));
  assert_int_equal(kernel.wrong, 0);
  return result;
}
/// Leaves the memory with the contents and the buffer without it.
weir_result registers(World &world, weir_buffer buffer, uint64_t size) {
  static void *memory = aligned_alloc(page_bytes, 16 * page_bytes);
  weir_result result = weir_host_register(world.pool, buffer, memory, 0);
  if (result != WEIR_SUCCESS && result != WEIR_ERROR_BUSY) return result;
  result = weir_host_unregister(world.pool, buffer);
  if (result != WEIR_SUCCESS) {
    const weir_error_info info = last_error();
    weir_buffer_info about = query(world, buffer);
    assert_int_equal(about.unwritten_bytes, 0);
    // Parted from without its contents it must not be: the second try finds them.
    damage.reads.store(0);
    ok(weir_host_unregister(world.pool, buffer));
    (void)info;
  }
  Kernel kernel{reinterpret_cast<uint64_t>(memory), size, 1, 0};
  Kernel::compare(&kernel);
  assert_int_equal(kernel.wrong, 0);
  return result;
}

struct Way {
  const char *name;
  Wants wants;
};
constexpr Way ways[] = {
    {"acquire", acquires},
    {"acquire for writing", acquires_to_write},
    {"read", reads},
    {"write of a part", writes_a_part},
    {"CPU lease", leases_on_the_cpu},
    {"hold", holds},
};

/// A buffer of several pages, and a tenant of a slab.
constexpr uint64_t whole_sizes[] = {3 * page_bytes - 100, 600};

uint64_t below_host(const weir_buffer_info &info) {
  return info.compressed_bytes + info.storage_bytes;
}

// ---- STORAGE ----

void a_flipped_bit_from_storage(void **) {
  for (const uint64_t flags : {uint64_t{0}, uint64_t{WEIR_POOL_ENCRYPT_STORAGE},
                               uint64_t{WEIR_POOL_NO_IO_URING | WEIR_POOL_CHECKSUM_HOST}}) {
    for (const Way &way : ways) {
      for (const uint64_t size : whole_sizes) {
        print_message("%s, %llu bytes, flags %llu\n", way.name,
                      static_cast<unsigned long long>(size),
                      static_cast<unsigned long long>(flags));
        World world = world_with({.flags = flags});
        weir_buffer buffer = world.buffer(size);
        weir_buffer other = world.buffer(size);
        world.fill(buffer, size, 1);
        world.fill(other, size, 5);
        sink(world);
        assert_int_equal(query(world, buffer).storage_bytes, size);
        damage.reads.store(1);
        damage.at.store(size / 7);
        expect_corrupt(world, way.wants(world, buffer, size), WEIR_TIER_STORAGE, 1);
        assert_int_equal(damage.reads.load(), 0);
        assert_int_equal(query(world, buffer).leases, 0);
        // It was on its way only: the file has the right bytes, and so have all the others.
        ok(way.wants(world, buffer, size));
        world.check_read(buffer, size, 1);
        world.check(buffer, size, 1);
        world.check(other, size, 5);
        assert_int_equal(world.stats().checksum_failures, 1);
        for (weir_buffer b : {buffer, other}) ok(weir_buffer_destroy(world.pool, b));
        close_clean(world);
      }
    }
  }
}

void a_prefetch_of_damage_brings_nothing(void **) {
  constexpr uint64_t size = 2 * page_bytes;
  World world = world_with({});
  weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, 1);
  sink(world);
  damage.reads.store(1);
  want(world, buffer);
  assert_int_equal(damage.reads.load(), 0);
  assert_int_equal(query(world, buffer).storage_bytes, size);
  assert_int_equal(world.stats().prefetched_bytes, 0);
  assert_int_equal(world.stats().checksum_failures, 1);
  want(world, buffer);
  assert_int_equal(query(world, buffer).device_bytes, size);
  world.check(buffer, size, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

/// Memory that is registered while the bytes lie in STORAGE is parted from with them, or not at all.
void registered_memory_over_damage(void **) {
  constexpr uint64_t size = 3 * page_bytes - 100;
  World world = world_with({});
  weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, 1);
  sink(world);
  damage.reads.store(1);
  expect_corrupt(world, registers(world, buffer, size), WEIR_TIER_STORAGE, 1);
  world.check(buffer, size, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

/// What is damaged for good is refused for good; whoever overwrites it has a good buffer again.
void damage_that_stays(void **) {
  constexpr uint64_t size = 2 * page_bytes;
  World world = world_with({});
  weir_buffer buffer = world.buffer(size);
  weir_buffer other = world.buffer(size);
  world.fill(buffer, size, 1);
  world.fill(other, size, 5);
  sink(world);
  damage.reads.store(INT32_MAX);
  uint64_t failures = 0;
  for (uint32_t turn = 0; turn < 3; ++turn) {
    for (const Way &way : ways)
      expect_corrupt(world, way.wants(world, buffer, size), WEIR_TIER_STORAGE, ++failures);
    sink(world);
  }
  assert_int_equal(query(world, buffer).storage_bytes, size);
  world.fill(buffer, size, 2);
  world.check(buffer, size, 2);
  sink(world);
  damage.reads.store(0);
  world.check(buffer, size, 2);
  world.check(other, size, 5);
  ok(weir_discard(world.pool, other, 0, WEIR_WHOLE));
  for (weir_buffer b : {buffer, other}) ok(weir_buffer_destroy(world.pool, b));
  close_clean(world);
}

/// One bad page among many: the acquire of all of them brings none, and the others are as good as before.
void one_bad_page_among_many(void **) {
  constexpr uint64_t size = 2 * page_bytes;
  for (int which = 0; which < 4; ++which) {
    World world = world_with({});
    weir_buffer buffers[2] = {world.buffer(size), world.buffer(size)};
    for (uint32_t i = 0; i < 2; ++i) world.fill(buffers[i], size, i + 1);
    sink(world);
    weir_use uses[2] = {WEIR_USE(buffers[0], WEIR_READ), WEIR_USE(buffers[1], WEIR_READ_WRITE)};
    weir_lease lease = nullptr;
    damage.reads.store(1);
    damage.at.store(static_cast<uint64_t>(which) * 4000);
    expect_result(WEIR_ERROR_CORRUPT,
                  weir_acquire(world.pool, world.streams[0], uses, 2, nullptr, &lease));
    assert_true(last_error().use_index < 2);
    assert_int_equal(world.stats().checksum_failures, 1);
    for (uint32_t i = 0; i < 2; ++i) {
      assert_int_equal(query(world, buffers[i]).leases, 0);
      assert_int_equal(query(world, buffers[i]).storage_bytes, size);
    }
    for (uint32_t i = 0; i < 2; ++i) world.check(buffers[i], size, i + 1);
    for (weir_buffer b : buffers) ok(weir_buffer_destroy(world.pool, b));
    close_clean(world);
  }
}

// ---- COMPRESSED ----

unsigned char *blob_of(World &world, weir_buffer buffer, uint32_t page, uint64_t *bytes) {
  return reinterpret_cast<weir::pool::Pool *>(world.pool)
      ->engine()
      .compressed_blob(buffer, page, bytes);
}

void a_flipped_bit_in_compressed_memory(void **) {
  for (const Way &way : ways) {
    for (const uint64_t size : whole_sizes) {
      print_message("%s, %llu bytes\n", way.name, static_cast<unsigned long long>(size));
      World world = world_with({.compressed = 16, .storage = 0});
      weir_buffer buffer = world.buffer(size);
      world.fill(buffer, size, 1);
      sink(world);
      assert_int_equal(query(world, buffer).compressed_bytes, size);
      uint64_t bytes = 0;
      if (size >= page_bytes) {
        unsigned char *blob = blob_of(world, buffer, 0, &bytes);
        assert_non_null(blob);
        blob[bytes / 2] ^= 4U;
        expect_corrupt(world, way.wants(world, buffer, size), WEIR_TIER_COMPRESSED, 1);
        expect_corrupt(world, way.wants(world, buffer, size), WEIR_TIER_COMPRESSED, 2);
        assert_int_equal(query(world, buffer).compressed_bytes, size);
        blob = blob_of(world, buffer, 0, &bytes);
        blob[bytes / 2] ^= 4U;
      }
      ok(way.wants(world, buffer, size));
      world.check(buffer, size, 1);
      ok(weir_buffer_destroy(world.pool, buffer));
      close_clean(world);
    }
  }
}

/// Every byte of a blob, its headers too: right bytes, or CORRUPT.
void any_byte_of_a_blob(void **) {
  for (const bool noisy : {false, true}) {
    World world = world_with({.compressed = 16, .storage = 0});
    weir_buffer buffer = world.buffer(page_bytes);
    std::vector<uint8_t> content(page_bytes), got(page_bytes);
    for (uint64_t i = 0; i < page_bytes; ++i)
      content[i] = noisy ? static_cast<uint8_t>((i * i * 2654435761U) >> 13U) : pattern(1, i);
    ok(weir_buffer_write(world.pool, buffer, 0, page_bytes, content.data()));
    sink(world);
    uint64_t bytes = 0;
    unsigned char *blob = blob_of(world, buffer, 0, &bytes);
    assert_non_null(blob);
    uint64_t refused = 0;
    const uint64_t step = std::max<uint64_t>(1, bytes / 400);
    for (uint64_t at = 0; at < bytes; at += at < 64 ? 1 : step) {
      const auto flip = static_cast<unsigned char>(1U << (at % 8));
      blob[at] ^= flip;
      const weir_result result = weir_buffer_read(world.pool, buffer, 0, page_bytes, got.data());
      blob[at] ^= flip;
      assert_true(result == WEIR_SUCCESS || result == WEIR_ERROR_CORRUPT);
      if (result == WEIR_SUCCESS) assert_memory_equal(got.data(), content.data(), page_bytes);
      refused += result == WEIR_ERROR_CORRUPT ? 1 : 0;
    }
    assert_true(refused > 0);
    assert_int_equal(world.stats().checksum_failures, refused);
    ok(weir_buffer_read(world.pool, buffer, 0, page_bytes, got.data()));
    assert_memory_equal(got.data(), content.data(), page_bytes);
    ok(weir_buffer_destroy(world.pool, buffer));
    close_clean(world);
  }
}

/// Holds the first thread that comes to each of some points. For one arrangement: a page in both tiers.
class Stops {
 public:
  Stops(World &world, std::initializer_list<const char *> points)
      : points_(reinterpret_cast<weir::pool::Pool *>(world.pool)->engine().points) {
    for (const char *point : points) states_[point] = State::armed;
    points_.listen(&Stops::arrive, this);
  }
  ~Stops() { points_.listen(nullptr, nullptr); }
  void await(const char *point) {
    std::unique_lock hold(mutex_);
    changed_.wait(hold, [&] { return states_[point] == State::standing; });
  }
  void let_go(const char *point) {
    const std::lock_guard hold(mutex_);
    states_[point] = State::open;
    changed_.notify_all();
  }

 private:
  enum class State { armed, standing, open };
  static void arrive(void *user, const char *point) {
    auto *self = static_cast<Stops *>(user);
    std::unique_lock hold(self->mutex_);
    const auto found = self->states_.find(point);
    if (found == self->states_.end() || found->second != State::armed) return;
    found->second = State::standing;
    self->changed_.notify_all();
    self->changed_.wait(hold, [found] { return found->second == State::open; });
  }

  weir::SeqPoints &points_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, State> states_;
};

/// Two pages come to lie in COMPRESSED and in STORAGE: they are being read while they move on. `filler` is what pushes
/// them; it is destroyed.
void into_both(World &world, weir_buffer buffer) {
  constexpr uint64_t size = 2 * page_bytes;
  world.fill(buffer, size, 1);
  sink(world);
  assert_int_equal(query(world, buffer).compressed_bytes, size);
  weir_buffer filler = world.buffer(4 * page_bytes);
  world.fill(filler, 4 * page_bytes, 6);
  ok(trim_all(world));
  {
    // The first to sink are the filler's pages; for their places the others are to move on.
    Gate gate(world.pool, "sink");
    Task pusher([&] {
      return weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr);
    });
    gate.await();
    gate.next("sink");
    gate.await();
    Stops stops(world, {"fill"});
    Kernel kernel{0, size, 1, 0};
    Task reader([&] { return run(world, buffer, WEIR_READ, &kernel); });
    stops.await("fill");
    gate.open();
    ok(pusher.join());
    stops.let_go("fill");
    ok(reader.join());
    assert_int_equal(kernel.wrong, 0);
  }
  ok(weir_buffer_destroy(world.pool, filler));
  ok(trim_all(world));
  ok(weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr));
}

void the_stored_copy_stands_in_for_the_compressed_one(void **) {
  constexpr uint64_t size = 2 * page_bytes;
  for (const Way &way : ways) {
    print_message("%s\n", way.name);
    World world = world_with({.compressed = 1, .storage = 64});
    weir_buffer buffer = world.buffer(size);
    into_both(world, buffer);
    // A page at least is in both tiers; whichever is, its damage is made good.
    uint64_t damaged = 0;
    for (uint32_t page = 0; page < 2; ++page) {
      uint64_t bytes = 0;
      unsigned char *blob = blob_of(world, buffer, page, &bytes);
      if (blob == nullptr) continue;
      blob[bytes / 2] ^= 4U;
      ++damaged;
    }
    assert_true(damaged > 0);
    assert_true(world.stats().storage_raw_bytes >= damaged * page_bytes);
    ok(way.wants(world, buffer, size));
    world.check_read(buffer, size, 1);
    world.check(buffer, size, 1);
    assert_true(world.stats().checksum_failures >= 1);
    ok(weir_buffer_destroy(world.pool, buffer));
    close_clean(world);
  }
}

/// Pages that were compressed first lie in STORAGE as they were: what comes back must be a blob.
void a_malformed_blob_from_storage(void **) {
  constexpr uint64_t size = 3 * page_bytes;
  for (const Way &way : ways) {
    World world = world_with({.compressed = 1, .storage = 64});
    weir_buffer buffer = world.buffer(size);
    weir_buffer pushers[2] = {world.buffer(4 * page_bytes), world.buffer(4 * page_bytes)};
    world.fill(buffer, size, 1);
    sink(world);
    for (uint32_t i = 0; i < 2; ++i) {
      world.fill(pushers[i], 4 * page_bytes, i + 5);
      sink(world);
    }
    assert_int_equal(query(world, buffer).storage_bytes, size);
    // Stored as blobs: the pages take less than they are.
    assert_true(world.stats().storage_bytes < world.stats().storage_raw_bytes);
    uint64_t failures = 0;
    for (const int mask : {1, 0x80, 0xff}) {
      for (const uint64_t at : {0U, 1U, 2U, 4U, 8U, 17U}) {
        damage.mask.store(mask);
        damage.at.store(at);
        damage.reads.store(1);
        expect_corrupt(world, way.wants(world, buffer, size), WEIR_TIER_STORAGE, ++failures);
      }
    }
    ok(way.wants(world, buffer, size));
    world.check(buffer, size, 1);
    for (uint32_t i = 0; i < 2; ++i) world.check(pushers[i], 4 * page_bytes, i + 5);
    for (weir_buffer b : {buffer, pushers[0], pushers[1]}) ok(weir_buffer_destroy(world.pool, b));
    close_clean(world);
  }
}

// ---- HOST, with a good copy below it ----

/// The pages come to HOST for a lease on the CPU, and one of them is changed behind the pool's back.
void damage_in_host(World &world, weir_buffer buffer, uint64_t at) {
  weir_stream cpu = nullptr;
  ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  weir_lease lease = nullptr;
  ok(weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease));
  reinterpret_cast<unsigned char *>(use.address)[at] ^= 1U;
  ok(weir_release(lease, cpu));
  ok(weir_stream_close(cpu));
}

void a_good_copy_below_host_stands_in(void **) {
  constexpr uint64_t size = 2 * page_bytes;
  for (const Below &below :
       {Below{.compressed = 0, .flags = WEIR_POOL_CHECKSUM_HOST},
        Below{.compressed = 16, .storage = 0, .flags = WEIR_POOL_CHECKSUM_HOST}}) {
    for (const Way &way : ways) {
      print_message("%s, %s\n", way.name, below.storage != 0 ? "STORAGE" : "COMPRESSED");
      World world = world_with(below);
      weir_buffer buffer = world.buffer(size);
      world.fill(buffer, size, 1);
      sink(world);
      assert_int_equal(below_host(query(world, buffer)), size);
      damage_in_host(world, buffer, page_bytes + 9);
      assert_int_equal(query(world, buffer).host_bytes, size);
      ok(way.wants(world, buffer, size));
      world.check_read(buffer, size, 1);
      world.check(buffer, size, 1);
      if (way.wants != writes_a_part) assert_int_equal(world.stats().checksum_failures, 1);
      ok(weir_buffer_destroy(world.pool, buffer));
      close_clean(world);
    }
  }
}

void a_prefetch_past_damage_in_host(void **) {
  constexpr uint64_t size = 2 * page_bytes;
  World world = world_with({.flags = WEIR_POOL_CHECKSUM_HOST});
  weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, 1);
  sink(world);
  damage_in_host(world, buffer, 9);
  want(world, buffer);
  assert_int_equal(world.stats().checksum_failures, 1);
  want(world, buffer);
  assert_int_equal(query(world, buffer).device_bytes, size);
  world.check(buffer, size, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

/// Registering moves the bytes of HOST to the caller's memory: the damaged ones are left behind.
void registering_past_damage_in_host(void **) {
  constexpr uint64_t size = 2 * page_bytes;
  World world = world_with({.flags = WEIR_POOL_CHECKSUM_HOST});
  weir_buffer buffer = world.buffer(size);
  world.fill(buffer, size, 1);
  sink(world);
  damage_in_host(world, buffer, 9);
  ok(registers(world, buffer, size));
  assert_int_equal(world.stats().checksum_failures, 1);
  world.check(buffer, size, 1);
  ok(weir_buffer_destroy(world.pool, buffer));
  close_clean(world);
}

/// Damage that goes down from HOST unseen is seen when it comes back.
void damage_in_host_that_sinks(void **) {
  constexpr uint64_t size = 2 * page_bytes;
  for (const Below &below :
       {Below{.flags = WEIR_POOL_CHECKSUM_HOST},
        Below{.compressed = 16, .storage = 0, .flags = WEIR_POOL_CHECKSUM_HOST}}) {
    World world = world_with(below);
    weir_buffer buffer = world.buffer(size);
    world.fill(buffer, size, 1);
    ok(trim_all(world));
    damage_in_host(world, buffer, 9);  // its only copy
    sink(world);
    const uint32_t tier = below.storage != 0 ? WEIR_TIER_STORAGE : WEIR_TIER_COMPRESSED;
    expect_corrupt(world, acquires(world, buffer, size), tier, 1);
    world.fill(buffer, size, 2);
    sink(world);
    world.check(buffer, size, 2);
    ok(weir_buffer_destroy(world.pool, buffer));
    close_clean(world);
  }
}

}  // namespace

int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_flipped_bit_from_storage),
      cmocka_unit_test(a_prefetch_of_damage_brings_nothing),
      cmocka_unit_test(registered_memory_over_damage),
      cmocka_unit_test(damage_that_stays),
      cmocka_unit_test(one_bad_page_among_many),
      cmocka_unit_test(a_flipped_bit_in_compressed_memory),
      cmocka_unit_test(any_byte_of_a_blob),
      cmocka_unit_test(the_stored_copy_stands_in_for_the_compressed_one),
      cmocka_unit_test(a_malformed_blob_from_storage),
      cmocka_unit_test(a_good_copy_below_host_stands_in),
      cmocka_unit_test(a_prefetch_past_damage_in_host),
      cmocka_unit_test(registering_past_damage_in_host),
      cmocka_unit_test(damage_in_host_that_sinks),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
