// SPDX-License-Identifier: Apache-2.0
//
// WEIR_BUFFER_SCRUB: a copy that is none any more is nowhere to be found, not in the process's memory and not in a spill file.
// The buffer is full of marks; after each event they are searched for everywhere and found where the live copies are, and in
// nothing else.

#include <cstring>
#include <random>

#include "core/base/poison.hpp"
#include "tests/unit/gate.hpp"

#include "tests/unit/damage.hpp"
#include "tests/unit/marks.hpp"
#include "tests/unit/routed.hpp"

namespace {

using namespace weir::test;

const uint64_t size = 3 * page_bytes - 100;

/// What a case has open, so that one that fails leaves nothing for the next to find.
struct Remains {
  World world{nullptr, nullptr};
  weir_stream cpu = nullptr;
  weir_lease lease = nullptr;
  weir_stream leased_on = nullptr;
  std::vector<weir_buffer> buffers;

  void note(weir_lease out, weir_stream stream) {
    lease = out;
    leased_on = stream;
  }
  void add(weir_buffer buffer) { buffers.push_back(buffer); }
  /// What the case has ended itself is no handle any more.
  void clear() {
    if (lease != nullptr) (void)weir_release(lease, leased_on);
    for (weir_buffer buffer : buffers) (void)weir_buffer_destroy(world.pool, buffer);
    if (world.pool != nullptr) (void)weir_pool_destroy(world.pool);
    for (weir_stream stream : {cpu, world.streams[0], world.streams[1]})
      if (stream != nullptr) (void)weir_stream_close(stream);
    if (world.context != nullptr) (void)weir_context_destroy(world.context);
    *this = {};
  }
};
Remains remains;

World &opened(World &world) {
  remains.world = world;
  return world;
}
void closed(World &world) {
  remains = {};
  world.close();
}
int clear_remains(void **) {
  remains.clear();
  return 0;
}

struct Case {
  const char *name;
  const char *options = "";
  uint64_t compressed = 0, storage = 0;
  const char *codec = nullptr;
  bool noise = false;  ///< it does not compress
  bool cold = false;   ///< it passes HOST
};
const Case cases[] = {
    {"HOST"},
    {"HOST, without VMM", ";host.vmm=0"},
    {"STORAGE", "", 0, 64},
    {"STORAGE, past HOST", "", 0, 64, nullptr, false, true},
    {"STORAGE, without VMM", ";host.vmm=0", 0, 64},
    {"COMPRESSED by lz4", "", 32, 0, "lz4"},
    {"COMPRESSED by lz4, past HOST", "", 32, 0, "lz4", false, true},
    {"COMPRESSED by zstd", "", 32, 0, "zstd"},
    {"COMPRESSED by planes", "", 32, 0, "planes"},
    {"COMPRESSED as chosen", "", 32, 0},
    {"COMPRESSED as it is", "", 32, 0, "raw", true},
    {"COMPRESSED and STORAGE, without VMM", ";host.vmm=0", 32, 64, "lz4"},
};

struct Secret {
  World world;
  weir_stream cpu = nullptr;
  weir_buffer buffer = nullptr;
  const Case &about;
  uint64_t whole = 0;  ///< marks found while it is on the device alone

  explicit Secret(const Case &about_)
      : world({.options = std::string(small_host) + about_.options,
               .device_pages = 8,
               .host_pages = 32,
               .compressed_pages = about_.compressed,
               .storage_pages = about_.storage,
               .codec = about_.codec,
               .before_pool = hook}),
        about(about_) {
    opened(world);
    ok(weir_stream_create(world.context, WEIR_DEVICE_HOST, 0, &cpu));
    remains.cpu = cpu;
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = size;
    desc.flags = WEIR_BUFFER_SCRUB;
    ok(weir_buffer_create(world.pool, &desc, &buffer));
    remains.add(buffer);
    fill();
    whole = marks_in_memory();
    assert_true(whole >= size / mark_every);
  }
  void close() {
    ok(weir_stream_close(cpu));
    closed(world);
  }
  void expect(uint64_t memory, uint64_t files, const char *when) {
    const uint64_t in_memory = marks_in_memory();
    const uint64_t in_files = marks_in_files();
    if (in_memory == memory && in_files == files) return;
    (void)marks_in_memory(true);
    fail_msg("%s: %llu marks in memory, not %llu; %llu in files, not %llu", when,
             static_cast<unsigned long long>(in_memory), static_cast<unsigned long long>(memory),
             static_cast<unsigned long long>(in_files), static_cast<unsigned long long>(files));
  }

  void fill() {
    weir_lease lease = nullptr;
    uint64_t address = 0;
    ok(world.acquire(buffer, WEIR_DISCARD_WRITE, &lease, &address));
    ok(weir_stream_synchronize(world.streams[0]));
    write_marks(reinterpret_cast<uint8_t *>(address), size, about.noise);
    ok(weir_release(lease, world.streams[0]));
    if (about.cold) ok(weir_advise(world.pool, buffer, 0, WEIR_WHOLE, WEIR_ADVISE_COLD));
  }
  /// On the device, where it is latest alone then.
  void rewrite() {
    weir_lease lease = nullptr;
    ok(world.acquire(buffer, WEIR_READ_WRITE, &lease));
    ok(weir_stream_synchronize(world.streams[0]));
    ok(weir_release(lease, world.streams[0]));
    settle();
    if (about.cold) ok(weir_advise(world.pool, buffer, 0, WEIR_WHOLE, WEIR_ADVISE_COLD));
  }
  /// A call that comes after what was under way has ended.
  void settle() {
    ok(weir_stream_synchronize(world.streams[0]));
    ok(weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_GRADUAL, 0, nullptr));
  }
  void down() { ok(trim_all(world)); }
  void to_the_bottom() {
    ok(trim_all(world));
    ok(weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, nullptr));
  }
  bool sinks() const { return about.compressed != 0 || about.storage != 0; }
  /// Marks in one copy that is not coded.
  static uint64_t one() { return (size - mark_bytes) / mark_every + 1; }
};

void each(void (*body)(Secret &)) {
  weir::poison::enabled().store(false);  // it would hide what was not overwritten
  for (const Case &about : cases) {
    print_message("%s\n", about.name);
    assert_int_equal(marks_in_memory(), 0);
    Secret secret(about);
    body(secret);
    secret.close();
    if (marks_in_memory() == 0) continue;
    (void)marks_in_memory(true);
    fail_msg("%s: the pool is gone, and what is to be scrubbed is not", about.name);
  }
}

void what_leaves_a_device(void **) {
  each([](Secret &secret) {
    secret.down();
    if (!secret.about.cold) secret.expect(Secret::one(), 0, "in HOST");
    secret.rewrite();
    secret.expect(secret.whole, 0, "promoted and written");
  });
}

void what_comes_up_from_the_bottom(void **) {
  each([](Secret &secret) {
    for (int round = 0; round < 2; ++round) {
      secret.to_the_bottom();
      if (secret.about.storage != 0 && secret.about.compressed == 0)
        secret.expect(0, Secret::one(), "in STORAGE");
      if (secret.about.codec != nullptr && std::strcmp(secret.about.codec, "raw") == 0)
        secret.expect(Secret::one(), 0, "in COMPRESSED as it is");
      secret.rewrite();
      secret.expect(secret.whole, 0, "promoted from the bottom and written");
    }
  });
}

void what_dies(void **) {
  each([](Secret &secret) {
    ok(weir_buffer_destroy(secret.world.pool, secret.buffer));
    secret.expect(0, 0, "destroyed on the device");
  });
  each([](Secret &secret) {
    secret.down();
    ok(weir_buffer_destroy(secret.world.pool, secret.buffer));
    secret.expect(0, 0, "destroyed in HOST");
  });
  each([](Secret &secret) {
    secret.to_the_bottom();
    ok(weir_buffer_destroy(secret.world.pool, secret.buffer));
    secret.expect(0, 0, "destroyed at the bottom");
  });
  each([](Secret &secret) {
    secret.to_the_bottom();
    weir_lease lease = nullptr;
    ok(secret.world.acquire(secret.buffer, WEIR_READ, &lease));
    ok(weir_release(lease, secret.world.streams[0]));
    ok(weir_buffer_destroy(secret.world.pool, secret.buffer));
    secret.expect(0, 0, "destroyed as it is everywhere");
  });
}

/// The pool's end with the buffer alive, wherever it is: each() looks.
void what_ends_with_the_pool(void **) {
  each([](Secret &) {});
  each([](Secret &secret) { secret.down(); });
  each([](Secret &secret) { secret.to_the_bottom(); });
  each([](Secret &secret) {
    secret.to_the_bottom();
    weir_lease lease = nullptr;
    ok(secret.world.acquire(secret.buffer, WEIR_READ, &lease));
    ok(weir_release(lease, secret.world.streams[0]));
  });
}

void what_is_read_and_written_without_a_lease(void **) {
  each([](Secret &secret) {
    static std::vector<uint8_t> bytes(size);
    ok(weir_buffer_read(secret.world.pool, secret.buffer, 0, size, bytes.data()));
    std::fill(bytes.begin(), bytes.end(), uint8_t{0});
    secret.expect(secret.whole, 0, "read from the device");
    secret.to_the_bottom();
    ok(weir_buffer_read(secret.world.pool, secret.buffer, 7, 5000, bytes.data()));
    std::fill(bytes.begin(), bytes.end(), uint8_t{0});
    secret.rewrite();
    secret.expect(secret.whole, 0, "read at the bottom");
    secret.to_the_bottom();
    ok(weir_buffer_write(secret.world.pool, secret.buffer, 0, size, bytes.data()));
    secret.expect(0, 0, "written over at the bottom");
    secret.fill();
    ok(weir_buffer_write(secret.world.pool, secret.buffer, 0, size, bytes.data()));
    secret.expect(0, 0, "written over on the device");
    secret.fill();
    secret.to_the_bottom();
    ok(weir_discard(secret.world.pool, secret.buffer, 0, WEIR_WHOLE));
    secret.expect(0, 0, "discarded at the bottom");
  });
}

void what_the_cpu_leases(void **) {
  each([](Secret &secret) {
    secret.to_the_bottom();
    weir_use use = WEIR_USE(secret.buffer, WEIR_READ_WRITE);
    weir_lease lease = nullptr;
    ok(weir_acquire(secret.world.pool, secret.cpu, &use, 1, nullptr, &lease));
    remains.note(lease, secret.cpu);
    assert_true(marks_in(reinterpret_cast<const uint8_t *>(use.address), size) == Secret::one());
    remains.note(nullptr, nullptr);
    ok(weir_release(lease, secret.cpu));
    secret.rewrite();
    secret.expect(secret.whole, 0, "leased on the CPU, then written on the device");
  });
}

/// The caller's memory is the caller's to clear; what was in HOST before and after is not.
void what_was_registered(void **) {
  each([](Secret &secret) {
    static uint8_t *memory = aligned_memory(4 * page_bytes);
    secret.down();
    ok(weir_host_register(secret.world.pool, secret.buffer, memory, 0));
    secret.settle();
    ok(weir_host_unregister(secret.world.pool, secret.buffer));
    std::memset(memory, 0, 4 * page_bytes);
    secret.rewrite();
    secret.expect(secret.whole, 0, "registered, and not any more");
  });
}

void write_secret(World &world, weir_buffer buffer, uint64_t bytes) {
  weir_lease lease = nullptr;
  uint64_t address = 0;
  ok(world.acquire(buffer, WEIR_DISCARD_WRITE, &lease, &address));
  ok(weir_stream_synchronize(world.streams[0]));
  write_marks(reinterpret_cast<uint8_t *>(address), bytes, false);
  ok(weir_release(lease, world.streams[0]));
}
weir_buffer secret_buffer(World &world, uint64_t bytes) {
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  desc.size = bytes;
  desc.flags = WEIR_BUFFER_SCRUB;
  weir_buffer buffer = nullptr;
  ok(weir_buffer_create(world.pool, &desc, &buffer));
  remains.add(buffer);
  return buffer;
}
/// What was under way has ended, and a call comes that looks after it.
void settle(World &world) {
  for (weir_stream stream : world.streams)
    if (stream != nullptr) ok(weir_stream_synchronize(stream));
  ok(weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_GRADUAL, 0, nullptr));
}

/// On its way from one device to another nothing stays where it has passed.
void what_passes_between_devices(void **) {
  weir::poison::enabled().store(false);
  for (const std::string &machine : {around_a_corner, apart}) {
    World world = routed(machine);
    opened(world);
    weir_buffer buffer = secret_buffer(world, size);
    write_secret(world, buffer, size);
    const uint64_t whole = marks_in_memory();
    weir_lease lease = nullptr;
    ok(world.acquire(buffer, WEIR_READ, &lease, nullptr, 1));
    remains.note(lease, world.streams[1]);
    settle(world);
    assert_true(world.stats().host_relayed_bytes >= size);
    assert_int_equal(world.stats().relayed_bytes, 0);
    assert_int_equal(marks_in_memory(), 2 * whole);
    remains.note(nullptr, nullptr);
    ok(weir_release(lease, world.streams[1]));
    ok(weir_buffer_destroy(world.pool, buffer));
    assert_int_equal(marks_in_memory(), 0);
    closed(world);
  }
}

/// Without VMM a buffer moves within its segment. Where it was there is nothing of it.
void what_moves_within_a_segment(void **) {
  weir::poison::enabled().store(false);
  World world({.options = std::string(small_host) + ";host.vmm=0", .device_pages = 8});
  opened(world);
  weir_buffer before = world.buffer(2 * page_bytes);
  weir_buffer buffer = secret_buffer(world, 3 * page_bytes);
  weir_buffer behind = world.buffer(page_bytes);
  remains.add(before);
  remains.add(behind);
  world.fill(before, 2 * page_bytes, 1);
  write_secret(world, buffer, 3 * page_bytes);
  world.fill(behind, page_bytes, 2);
  const uint64_t whole = marks_in_memory();
  ok(weir_buffer_destroy(world.pool, before));
  weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
  desc.flags = WEIR_DEFRAGMENT_WAIT;
  weir_defragment_report report = WEIR_DEFRAGMENT_REPORT_INIT;
  ok(weir_pool_defragment(world.pool, &desc, &report));
  settle(world);
  assert_true(world.stats().defragment_moves != 0);
  assert_int_equal(marks_in_memory(), whole);
  ok(weir_buffer_destroy(world.pool, buffer));
  assert_int_equal(marks_in_memory(), 0);
  ok(weir_buffer_destroy(world.pool, behind));
  closed(world);
}

/// A write that fails as a place in STORAGE is overwritten: it is tried again, and the place is not lost.
class FailingWrites final : public weir::tier::IoHook {
 public:
  std::atomic<int> left{0};
  int64_t before(weir::tier::IoCall call, uint64_t) noexcept override {
    if (call != weir::tier::IoCall::write || left.load() == 0) return 0;
    --left;
    return -EIO;
  }
};
FailingWrites failing;

void what_cannot_be_overwritten_at_once(void **) {
  weir::poison::enabled().store(false);
  for (const int failures : {1, 2, 6, 1000}) {
    failing.left.store(0);
    World world({.device_pages = 4,
                 .host_pages = 16,
                 .storage_pages = 16,
                 .before_pool = [](weir_context context) {
                   reinterpret_cast<weir::pool::Context *>(context)->io_hook = &failing;
                 }});
    opened(world);
    weir_buffer buffer = secret_buffer(world, 2 * page_bytes);
    write_secret(world, buffer, 2 * page_bytes);
    sink(world);
    assert_true(marks_in_files() != 0);
    failing.left.store(failures);
    ok(weir_buffer_destroy(world.pool, buffer));
    assert_true(failing.left.load() < failures);
    failing.left.store(0);
    ok(weir_pool_trim(world.pool, WEIR_DEVICE_HOST, WEIR_TRIM_GRADUAL, 0, nullptr));
    assert_int_equal(marks_in_files(), 0);
    assert_int_equal(marks_in_memory(), 0);
    assert_int_equal(world.stats().storage_bytes, 0);
    closed(world);
  }
}

// ---- what is coded again ----

class TestClock final : public weir::Clock {
 public:
  uint64_t now_ns() const noexcept override { return now_.load(); }
  void pass(uint64_t ns) { now_.fetch_add(ns); }

 private:
  std::atomic<uint64_t> now_{1'000'000'000};
} test_clock;

/// Weights of a network in bf16, which are coded again to fewer bytes, and a mark here and there.
void write_marked_weights(std::vector<uint8_t> &out, uint32_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  for (uint64_t at = 0; at < out.size(); at += 2) {
    const float value = normal(random);
    std::memcpy(&out[at], reinterpret_cast<const char *>(&value) + 2, 2);
  }
  for (uint64_t at = 0; at < out.size(); at += 4096)
    for (uint64_t i = 0; i < mark_bytes; ++i) out[at + i] = mark_at(i);
}

/// The blob it was is overwritten, and nothing stays where it was worked on.
void what_is_coded_again(void **) {
  constexpr uint64_t granules = 16, idle = 8'000'000'000;
  constexpr uint32_t count = 4;
  weir::poison::enabled().store(false);
  World world({.device_pages = 4 * granules,
               .host_pages = 12 * granules,
               .compressed_pages = 11 * granules,
               .recompress_idle_ns = idle,
               .page_granules = granules,
               .before_pool = [](weir_context context) {
                 reinterpret_cast<weir::pool::Context *>(context)->clock = &test_clock;
               }});
  opened(world);
  auto &engine = reinterpret_cast<weir::pool::Pool *>(world.pool)->engine();
  static std::vector<uint8_t> bytes(2 * granules * page_bytes);
  static std::vector<uint8_t> got(bytes.size());
  weir_buffer buffers[count];
  for (uint32_t i = 0; i < count; ++i) {
    buffers[i] = secret_buffer(world, bytes.size());
    write_marked_weights(bytes, i);
    ok(weir_buffer_write(world.pool, buffers[i], 0, bytes.size(), bytes.data()));
    std::fill(bytes.begin(), bytes.end(), uint8_t{0});
    sink(world);
  }
  assert_int_equal(marks_in_memory(), 0);
  struct Blob {
    const unsigned char *at;
    uint64_t bytes;
  };
  const auto blobs = [&] {
    std::vector<Blob> all;
    for (weir_buffer buffer : buffers) {
      for (uint32_t page = 0; page < 2; ++page) {
        uint64_t length = 0;
        const unsigned char *at = engine.inspector().compressed_blob(buffer, page, &length);
        all.push_back({at, length});
      }
    }
    return all;
  };
  const std::vector<Blob> before = blobs();
  test_clock.pass(2 * idle);
  engine.upkeep().look_at_compressed();
  assert_true(world.stats().recompressed_bytes != 0);
  // Where a blob was there is another's by now, or nothing.
  const std::vector<Blob> after = blobs();
  uint64_t left = 0, empty = 0;
  for (const Blob &old : before) {
    for (const unsigned char *at = old.at; at < old.at + old.bytes; ++at) {
      const bool used = std::any_of(after.begin(), after.end(), [at](const Blob &now) {
        return at >= now.at && at < now.at + now.bytes;
      });
      left += !used && *at != 0 ? 1 : 0;
      empty += used ? 0 : 1;
    }
  }
  assert_true(empty > before[0].bytes);
  assert_int_equal(left, 0);
  assert_int_equal(marks_in_memory(), 0);
  for (uint32_t i = 0; i < count; ++i) {
    write_marked_weights(bytes, i);
    ok(weir_buffer_read(world.pool, buffers[i], 0, got.size(), got.data()));
    assert_true(got == bytes);
    ok(weir_buffer_destroy(world.pool, buffers[i]));
  }
  std::fill(bytes.begin(), bytes.end(), uint8_t{0});
  std::fill(got.begin(), got.end(), uint8_t{0});
  closed(world);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test_teardown(what_leaves_a_device, clear_remains),
      cmocka_unit_test_teardown(what_comes_up_from_the_bottom, clear_remains),
      cmocka_unit_test_teardown(what_dies, clear_remains),
      cmocka_unit_test_teardown(what_ends_with_the_pool, clear_remains),
      cmocka_unit_test_teardown(what_is_read_and_written_without_a_lease, clear_remains),
      cmocka_unit_test_teardown(what_the_cpu_leases, clear_remains),
      cmocka_unit_test_teardown(what_was_registered, clear_remains),
      cmocka_unit_test_teardown(what_passes_between_devices, clear_remains),
      cmocka_unit_test_teardown(what_moves_within_a_segment, clear_remains),
      cmocka_unit_test_teardown(what_cannot_be_overwritten_at_once, clear_remains),
      cmocka_unit_test_teardown(what_is_coded_again, clear_remains),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
