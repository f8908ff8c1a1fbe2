// SPDX-License-Identifier: Apache-2.0
//
// Interleavings below HOST: a page is on its way down, from HOST to COMPRESSED or STORAGE or from COMPRESSED to
// STORAGE, or is coded again within COMPRESSED, and the thread that does so is held before its bytes are copied ("sink",
// "recompress") or after ("sunk", "recompressed"), while others
// read, overwrite, discard, register or destroy it. A call that need not wait for the move does not; whatever the order,
// every byte is right, the pool's invariants hold, and no client is charged for anything in the end. Nothing depends on
// time. Each test runs with and without virtual-memory management.

#include "tests/unit/interleaving.hpp"

namespace {

using namespace weir::test;

/// From where a page is going to where, and where it is held.
enum class From { host, spill, recode };  ///< spill: what comes after it pushes it on
struct Arrangement {
  const char *name;
  uint64_t compressed, storage;  ///< pages
  From from;
  const char *point;
};
constexpr Arrangement arrangements[] = {
    {"HOST to STORAGE, before", 0, 64, From::host, "sink"},
    {"HOST to STORAGE, after", 0, 64, From::host, "sunk"},
    {"HOST to COMPRESSED, before", 32, 0, From::host, "sink"},
    {"HOST to COMPRESSED, after", 32, 64, From::host, "sunk"},
    {"COMPRESSED to STORAGE, before", 1, 64, From::spill, "sink"},
    {"COMPRESSED to STORAGE, after", 1, 64, From::spill, "sunk"},
    {"COMPRESSED, coded again, before", 2, 0, From::recode, "recompress"},
    {"COMPRESSED, coded again, after", 2, 0, From::recode, "recompressed"},
};

/// A buffer whose pages are on their way down, with one thread standing at the gate until go().
class Descent {
 public:
  World world;
  weir_client client = nullptr;
  weir_buffer buffer = nullptr;
  uint64_t size;

  Descent(void **state, const Arrangement &how, uint64_t size_)
      : world({.options = std::string(small_host) + static_cast<const char *>(*state),
               .device_pages = 4,
               .host_pages = 32,
               .compressed_pages = how.compressed,
               .storage_pages = how.storage,
               .recompress_idle_ns = how.from == From::recode ? uint64_t{1} : 0}),
        size(size_) {
    const weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
    ok(weir_client_create(world.pool, &desc, &client));
    buffer = world.buffer(size, WEIR_DEVICE_DEFAULT, client);
    world.fill(buffer, size, 1);
    ok(trim_all(world));
    if (how.from != From::host) {
      ok(trim_host());
      assert_int_equal(query(world, buffer).compressed_bytes, size);
    }
    if (how.from == From::spill) {
      for (weir_buffer &pusher : pushers_) push(pusher);
    }
    if (how.from == From::recode) {  // the tier must be half full
      for (weir_buffer &pusher : pushers_) {
        const weir_pool_stats stats = world.stats();
        if (stats.compressed_bytes >= stats.compressed_budget / 2) break;
        push(pusher);
        ok(trim_host());
      }
    }
    const bool spill = how.from == From::spill;
    const bool recode = how.from == From::recode;
    gate_ = std::make_unique<Gate>(world.pool, spill ? "sink" : how.point);
    sinker_ = std::make_unique<Task>([this, recode] {
      if (!recode) return trim_host();
      engine().upkeep().look_at_compressed();
      return weir_result{WEIR_SUCCESS};
    });
    gate_->await();
    if (!spill) return;
    gate_->next(how.point);  // the pushers are on their way; the buffer makes room for them
    gate_->await();
  }

  weir::pool::Engine &engine() {
    return reinterpret_cast<weir::pool::Pool *>(world.pool)->engine();
  }
  weir_result trim_host(uint32_t level = WEIR_TRIM_SELECTIVE) {
    return weir_pool_trim(world.pool, WEIR_DEVICE_HOST, level, WEIR_WHOLE, nullptr);
  }
  void validate() {
    const std::string wrong = engine().validate();
    assert_string_equal(wrong.c_str(), "");
  }
  void go() {
    validate();
    gate_->open();
  }
  void arrive() {
    ok(sinker_->join());
    gate_.reset();
    validate();
  }
  /// The buffer holds seed 2 in [from, to) and seed 1 elsewhere, wherever it is brought.
  void expect(uint64_t from, uint64_t to) {
    const auto look = [&](const uint8_t *bytes) {
      for (uint64_t i = 0; i < size; ++i)
        assert_int_equal(bytes[i], pattern(i >= from && i < to ? 2 : 1, i));
    };
    std::vector<uint8_t> got(size);
    for (uint32_t turn = 0; turn < 2; ++turn) {
      ok(weir_buffer_read(world.pool, buffer, 0, size, got.data()));
      look(got.data());
      uint64_t address = 0;
      ok(weir_hold(world.pool, buffer, 0, &address));
      look(reinterpret_cast<const uint8_t *>(address));
      ok(weir_unhold(world.pool, buffer));
      ok(trim_all(world));
      ok(trim_host());
      validate();
    }
  }
  void expect_seed(uint32_t seed) { seed == 1 ? expect(0, 0) : expect(0, size); }
  /// `destroyed`: the buffer is gone already.
  void end(bool destroyed = false) {
    if (!destroyed) ok(weir_buffer_destroy(world.pool, buffer));
    for (weir_buffer pusher : pushers_) {
      if (pusher == nullptr) continue;
      world.check(pusher, two_pages, 7);
      ok(weir_buffer_destroy(world.pool, pusher));
    }
    weir_client_stats stats = WEIR_CLIENT_STATS_INIT;
    ok(weir_client_stats_get(client, &stats));
    assert_int_equal(stats.buffers, 0);
    assert_int_equal(stats.host_bytes, 0);
    assert_int_equal(stats.compressed_bytes, 0);
    assert_int_equal(stats.storage_bytes, 0);
    ok(weir_client_destroy(client));
    close_clean(world);
  }

 private:
  void push(weir_buffer &pusher) {
    pusher = world.buffer(two_pages);
    world.fill(pusher, two_pages, 7);
    ok(trim_all(world));
  }

  weir_buffer pushers_[5] = {};
  std::unique_ptr<Gate> gate_;
  std::unique_ptr<Task> sinker_;
};

const uint64_t sizes[] = {two_pages, 600};

template <typename Body>
void each(void **state, Body body, bool tenants = true) {
  for (const Arrangement &how : arrangements) {
    for (const uint64_t size : sizes) {
      if (size < page_bytes && !tenants) continue;
      Descent descent(state, how, size);
      body(descent);
    }
  }
}

// ---- what need not wait for the move ----

/// A device gets the bytes from where they still are; once the page has left it has them all the same.
void a_device_reads_what_sinks(void **state) {
  each(state, [](Descent &d) {
    Kernel kernel{0, d.size, 1, 0};
    ok(run(d.world, d.buffer, WEIR_READ, &kernel));
    assert_int_equal(kernel.wrong, 0);
    d.go();
    d.arrive();
    d.expect_seed(1);
    d.end();
  });
}

/// Not even begun when the page arrives below, a read still finds its bytes where it was told that they are.
void a_read_is_slower_than_the_move(void **state) {
  each(state, [](Descent &d) {
    weir_buffer other = d.world.buffer(two_pages);
    {
      Stops stops(d.world, {"fill"});
      Kernel kernel{0, d.size, 1, 0};
      Task reader([&] { return run(d.world, d.buffer, WEIR_READ, &kernel); });
      stops.await("fill");
      d.go();
      d.arrive();
      // Whatever was given up may be another buffer's now.
      for (uint32_t turn = 0; turn < 2; ++turn) {
        d.world.fill(other, two_pages, 9 + turn);
        ok(trim_all(d.world));
        ok(d.trim_host());
      }
      stops.let_go("fill");
      ok(reader.join());
      assert_int_equal(kernel.wrong, 0);
    }
    d.world.check(other, two_pages, 10);
    ok(weir_buffer_destroy(d.world.pool, other));
    d.expect_seed(1);
    d.end();
  });
}

/// Overwritten, the bytes on their way are of no use any more; also if the new ones leave the device at once.
void a_device_overwrites_what_sinks(void **state) {
  for (const uint32_t mode : {WEIR_READ_WRITE, WEIR_DISCARD_WRITE}) {
    for (const bool leaves : {false, true}) {
      each(state, [mode, leaves](Descent &d) {
        Kernel kernel{0, d.size, 2, 0};
        ok(run(d.world, d.buffer, mode, &kernel));
        // Its new bytes may have to wait for room in HOST.
        Task evictor([&] { return leaves ? trim_all(d.world) : weir_result{WEIR_SUCCESS}; });
        (void)keeps_waiting(evictor);
        d.go();
        ok(evictor.join());
        d.arrive();
        d.expect_seed(2);
        d.end();
      });
    }
  }
}

/// Read on a device, and gone from there again, before it has arrived.
void what_sinks_comes_and_goes(void **state) {
  each(state, [](Descent &d) {
    for (uint32_t turn = 0; turn < 3; ++turn) {
      Kernel kernel{0, d.size, 1, 0};
      ok(run(d.world, d.buffer, WEIR_READ, &kernel));
      assert_int_equal(kernel.wrong, 0);
      ok(trim_all(d.world));
      d.validate();
    }
    d.go();
    d.arrive();
    d.expect_seed(1);
    d.end();
  });
}

void what_sinks_is_discarded(void **state) {
  for (const bool again : {false, true}) {
    each(state, [again](Descent &d) {
      ok(weir_discard(d.world.pool, d.buffer, 0, WEIR_WHOLE));
      assert_int_equal(query(d.world, d.buffer).unwritten_bytes, d.size);
      if (again) {
        std::vector<uint8_t> bytes(d.size);
        for (uint64_t i = 0; i < d.size; ++i) bytes[i] = pattern(2, i);
        Task writer(
            [&] { return weir_buffer_write(d.world.pool, d.buffer, 0, d.size, bytes.data()); });
        d.go();
        ok(writer.join());
      } else {
        d.go();
      }
      d.arrive();
      if (again) {
        d.expect_seed(2);
      } else {
        std::vector<uint8_t> got(d.size, 1);
        ok(weir_buffer_read(d.world.pool, d.buffer, 0, d.size, got.data()));
        assert_true(std::all_of(got.begin(), got.end(), [](uint8_t b) { return b == 0; }));
      }
      d.end();
    });
  }
}

// ---- what waits for it, or may ----

/// Runs beside the move, which goes on as soon as the other has claimed the buffer or ended.
template <typename Body>
void beside(Descent &d, Body body) {
  Task other(body);
  await_claim(d.world, d.buffer, other);
  (void)keeps_waiting(other);
  d.go();
  ok(other.join());
  d.arrive();
}

void the_host_reads_what_sinks(void **state) {
  each(state, [](Descent &d) {
    std::vector<uint8_t> got(d.size);
    beside(d, [&] { return weir_buffer_read(d.world.pool, d.buffer, 0, d.size, got.data()); });
    for (uint64_t i = 0; i < d.size; ++i) assert_int_equal(got[i], pattern(1, i));
    d.expect_seed(1);
    d.end();
  });
}

void the_host_writes_a_part_of_what_sinks(void **state) {
  each(state, [](Descent &d) {
    std::vector<uint8_t> bytes(d.size);
    for (uint64_t i = 0; i < d.size; ++i) bytes[i] = pattern(2, i);
    const uint64_t from = d.size / 4;
    const uint64_t count = d.size / 2;
    beside(d, [&] {
      return weir_buffer_write(d.world.pool, d.buffer, from, count, bytes.data() + from);
    });
    d.expect(from, from + count);
    d.end();
  });
}

void the_cpu_leases_what_sinks(void **state) {
  each(state, [](Descent &d) {
    weir_stream cpu = nullptr;
    ok(weir_stream_create(d.world.context, WEIR_DEVICE_HOST, 0, &cpu));
    Kernel kernel{0, d.size, 1, 0};
    beside(d, [&] { return rewrite_on_cpu(d.world, cpu, d.buffer, &kernel); });
    assert_int_equal(kernel.wrong, 0);
    d.expect_seed(2);
    ok(weir_stream_close(cpu));
    d.end();
  });
}

void what_sinks_is_held(void **state) {
  each(state, [](Descent &d) {
    uint64_t address = 0;
    beside(d, [&] { return weir_hold(d.world.pool, d.buffer, 0, &address); });
    Kernel kernel{address, d.size, 1, 0};
    Kernel::compare(&kernel);
    assert_int_equal(kernel.wrong, 0);
    ok(weir_unhold(d.world.pool, d.buffer));
    d.expect_seed(1);
    d.end();
  });
}

void memory_is_registered_for_what_sinks(void **state) {
  static uint8_t *const memory = aligned_memory(two_pages);
  for (const bool load : {false, true}) {
    each(
        state,
        [load](Descent &d) {
          for (uint64_t i = 0; i < two_pages; ++i) memory[i] = pattern(2, i);
          beside(d, [&] {
            return weir_host_register(d.world.pool, d.buffer, memory, load ? WEIR_HOST_LOAD : 0);
          });
          const uint32_t seed = load ? 2 : 1;
          d.world.check(d.buffer, d.size, seed);
          ok(trim_all(d.world));
          d.world.check_read(d.buffer, d.size, seed);
          ok(weir_host_unregister(d.world.pool, d.buffer));
          for (uint64_t i = 0; i < two_pages; ++i) assert_int_equal(memory[i], pattern(seed, i));
          std::fill_n(memory, two_pages, uint8_t{0});
          d.expect_seed(seed);
          d.end();
        },
        false);
  }
}

void what_sinks_is_destroyed(void **state) {
  each(state, [](Descent &d) {
    Task destroyer([&] { return weir_buffer_destroy(d.world.pool, d.buffer); });
    weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
    while (weir_buffer_info_get(d.world.pool, d.buffer, 0, WEIR_WHOLE, &info) == WEIR_SUCCESS)
      std::this_thread::yield();
    // One of the same shape comes after it.
    weir_buffer next = d.world.buffer(d.size, WEIR_DEVICE_DEFAULT, d.client);
    d.world.fill(next, d.size, 2);
    Task evictor([&] { return trim_all(d.world); });
    (void)keeps_waiting(evictor);
    d.go();
    ok(destroyer.join());
    ok(evictor.join());
    d.arrive();
    d.world.check(next, d.size, 2);
    ok(trim_all(d.world));
    ok(d.trim_host());
    d.world.check_read(next, d.size, 2);
    ok(weir_buffer_destroy(d.world.pool, next));
    d.end(true);
  });
}

/// Two ask for HOST's memory at once, and one that wants room there.
void host_is_trimmed_twice(void **state) {
  for (const uint32_t level : {WEIR_TRIM_GRADUAL, WEIR_TRIM_SELECTIVE, WEIR_TRIM_EMERGENCY}) {
    each(state, [level](Descent &d) {
      weir_buffer other = d.world.buffer(two_pages);
      d.world.fill(other, two_pages, 9);
      Task evictor([&] { return trim_all(d.world); });
      Task trimmer([&] { return d.trim_host(level); });
      (void)keeps_waiting(trimmer);
      d.go();
      ok(evictor.join());
      ok(trimmer.join());
      d.arrive();
      d.world.check(other, two_pages, 9);
      ok(weir_buffer_destroy(d.world.pool, other));
      d.expect_seed(1);
      d.end();
    });
  }
}

/// HOST is filled while pages leave it: a call that finds no room waits for the sinker, and is not refused.
void a_full_host_meets_a_sink(void **state) {
  each(state, [](Descent &d) {
    constexpr uint32_t count = 18;
    weir_buffer many[count];
    Task filler([&] {
      for (uint32_t i = 0; i < count; ++i) {
        weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
        desc.size = two_pages;
        Kernel kernel{0, two_pages, i + 20, 0};
        weir_result result = weir_buffer_create(d.world.pool, &desc, &many[i]);
        if (result == WEIR_SUCCESS) result = run(d.world, many[i], WEIR_DISCARD_WRITE, &kernel);
        if (result != WEIR_SUCCESS) return result;
      }
      return weir_result{WEIR_SUCCESS};
    });
    (void)keeps_waiting(filler);
    d.go();
    ok(filler.join());
    d.arrive();
    for (uint32_t i = 0; i < count; ++i) {
      d.world.check_read(many[i], two_pages, i + 20);
      ok(weir_buffer_destroy(d.world.pool, many[i]));
    }
    d.expect_seed(1);
    d.end();
  });
}

}  // namespace

int main(int argc, char **argv) {
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  const CMUnitTest tests[] = {
      BOTH(a_device_reads_what_sinks),
      BOTH(a_read_is_slower_than_the_move),
      BOTH(a_device_overwrites_what_sinks),
      BOTH(what_sinks_comes_and_goes),
      BOTH(what_sinks_is_discarded),
      BOTH(the_host_reads_what_sinks),
      BOTH(the_host_writes_a_part_of_what_sinks),
      BOTH(the_cpu_leases_what_sinks),
      BOTH(what_sinks_is_held),
      BOTH(memory_is_registered_for_what_sinks),
      BOTH(what_sinks_is_destroyed),
      BOTH(host_is_trimmed_twice),
      BOTH(a_full_host_meets_a_sink),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
