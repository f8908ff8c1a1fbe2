// SPDX-License-Identifier: Apache-2.0
//
// Interleavings of a compaction: its thread is held between the claim and the copies, or between the copies and the
// settling, and others use, destroy, trim, discard or hold what is being moved. Whatever the order, every answer is one that the
// headers allow, every byte is right, and in the end nothing is left. With and without virtual-memory management.

#include "tests/unit/interleaving.hpp"

namespace {

using namespace weir::test;

constexpr const char *points[] = {"compact.claimed", "compact.copied"};
const uint64_t tenant_bytes = page_bytes / 8;

/// Two slabs. All of the first is in use but for one place, and of the second one place only: that is `mover`'s.
struct Slabs {
  World world;
  weir_client client = nullptr;
  std::vector<weir_buffer> stay;
  weir_buffer mover = nullptr;

  explicit Slabs(void **state)
      : world({.options = std::string(small_host) + static_cast<const char *>(*state),
               .device_pages = 12,
               .host_pages = 64}) {
    weir_client_desc desc = WEIR_CLIENT_DESC_INIT;
    ok(weir_client_create(world.pool, &desc, &client));
    const size_t in_slab = has_vmm(world) ? 32 : 8;
    std::vector<weir_buffer> all;
    for (size_t i = 0; i < 2 * in_slab; ++i) {
      all.push_back(world.buffer(tenant_bytes, WEIR_DEVICE_DEFAULT, client));
      world.fill(all[i], tenant_bytes, static_cast<uint32_t>(100 + i));
    }
    for (size_t i = 0; i < 2 * in_slab; ++i) {
      const bool gone = i == 3 || (i >= in_slab && i + 1 != 2 * in_slab);
      if (gone) ok(weir_buffer_destroy(world.pool, all[i]));
    }
    mover = all.back();
    world.fill(mover, tenant_bytes, 1);
    for (size_t i = 0; i < in_slab; ++i) {
      if (i != 3) stay.push_back(all[i]);
    }
    assert_int_equal(world.stats().slabs, 2);
  }
  weir_result defragment(uint64_t flags = WEIR_DEFRAGMENT_WAIT) {
    weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
    desc.flags = flags;
    return weir_pool_defragment(world.pool, &desc, nullptr);
  }
  void check_others() {
    for (size_t i = 0; i < stay.size(); ++i) {
      const auto seed = static_cast<uint32_t>(100 + i + (i >= 3 ? 1 : 0));
      world.check_read(stay[i], tenant_bytes, seed);
      world.check(stay[i], tenant_bytes, seed);
    }
  }
  void close(bool mover_lives = true) {
    check_others();
    ok(defragment());
    check_others();
    for (weir_buffer buffer : stay) ok(weir_buffer_destroy(world.pool, buffer));
    if (mover_lives) ok(weir_buffer_destroy(world.pool, mover));
    ok(trim_all(world));
    const std::string wrong = reinterpret_cast<weir::pool::Pool *>(world.pool)->engine().validate();
    if (!wrong.empty()) print_error("%s\n", wrong.c_str());
    assert_true(wrong.empty());
    const weir_pool_stats stats = world.stats();
    assert_int_equal(stats.buffers, 0);
    assert_int_equal(stats.slabs, 0);
    assert_int_equal(stats.pages, 0);
    assert_int_equal(stats.host_used_bytes, 0);
    assert_int_equal(stats.device_held_bytes, 0);
    assert_int_equal(stats.device_bytes, stats.device_free_bytes);
    weir_client_stats held = WEIR_CLIENT_STATS_INIT;
    ok(weir_client_stats_get(client, &held));
    assert_int_equal(held.device_bytes, 0);
    assert_int_equal(held.host_bytes, 0);
    ok(weir_client_destroy(client));
    world.close();
  }
};

void a_moving_buffer_is_acquired(void **state) {
  for (const char *point : points) {
    for (const uint32_t mode : {WEIR_READ, WEIR_READ_WRITE, WEIR_DISCARD_WRITE}) {
      Slabs slabs(state);
      {
        Gate gate(slabs.world.pool, point);
        Task defragment([&] { return slabs.defragment(); });
        gate.await();
        Kernel kernel{0, tenant_bytes, mode == WEIR_READ ? 1U : 2U, 0};
        Task user([&] { return run(slabs.world, slabs.mover, mode, &kernel); });
        assert_true(keeps_waiting(user));
        gate.open();
        ok(user.join());
        ok(defragment.join());
        assert_int_equal(kernel.wrong, 0);
      }
      slabs.world.check_read(slabs.mover, tenant_bytes, mode == WEIR_READ ? 1 : 2);
      slabs.world.check(slabs.mover, tenant_bytes, mode == WEIR_READ ? 1 : 2);
      slabs.close();
    }
  }
}

/// Others on the same pages need not wait: they are hits.
void its_neighbours_are_used_meanwhile(void **state) {
  for (const char *point : points) {
    Slabs slabs(state);
    for (int i = 0; i < 2; ++i) slabs.world.check(slabs.stay[0], tenant_bytes, 100);
    {
      Gate gate(slabs.world.pool, point);
      Task defragment([&] { return slabs.defragment(); });
      gate.await();
      slabs.world.check(slabs.stay[0], tenant_bytes, 100);
      gate.open();
      ok(defragment.join());
    }
    assert_int_equal(slabs.world.stats().slabs, 1);
    slabs.world.check(slabs.mover, tenant_bytes, 1);
    slabs.close();
  }
}

void a_moving_buffer_is_destroyed(void **state) {
  for (const char *point : points) {
    for (const bool others : {false, true}) {
      Slabs slabs(state);
      {
        Gate gate(slabs.world.pool, point);
        Task defragment([&] { return slabs.defragment(); });
        gate.await();
        ok(weir_buffer_destroy(slabs.world.pool, slabs.mover));  // waits for nothing
        if (others) {
          for (weir_buffer buffer : slabs.stay) ok(weir_buffer_destroy(slabs.world.pool, buffer));
          slabs.stay.clear();
        }
        weir_buffer next = slabs.world.buffer(tenant_bytes, WEIR_DEVICE_DEFAULT, slabs.client);
        Kernel kernel{0, tenant_bytes, 7, 0};
        Task writer([&] { return run(slabs.world, next, WEIR_DISCARD_WRITE, &kernel); });
        gate.open();
        ok(defragment.join());
        ok(writer.join());
        slabs.world.check_read(next, tenant_bytes, 7);
        slabs.world.check(next, tenant_bytes, 7);
        ok(weir_buffer_destroy(slabs.world.pool, next));
      }
      slabs.close(false);
    }
  }
}

void everything_is_trimmed_meanwhile(void **state) {
  for (const char *point : points) {
    Slabs slabs(state);
    {
      Gate gate(slabs.world.pool, point);
      Task defragment([&] { return slabs.defragment(); });
      gate.await();
      ok(trim_all(slabs.world));  // steps around what is being moved
      gate.open();
      ok(defragment.join());
    }
    ok(trim_all(slabs.world));
    slabs.world.check_read(slabs.mover, tenant_bytes, 1);
    slabs.world.check(slabs.mover, tenant_bytes, 1);
    slabs.close();
  }
}

void a_moving_buffer_is_discarded(void **state) {
  for (const char *point : points) {
    Slabs slabs(state);
    {
      Gate gate(slabs.world.pool, point);
      Task defragment([&] { return slabs.defragment(); });
      gate.await();
      ok(weir_discard(slabs.world.pool, slabs.mover, 0, WEIR_WHOLE));
      gate.open();
      ok(defragment.join());
    }
    std::vector<uint8_t> bytes(tenant_bytes, 1);
    ok(weir_buffer_read(slabs.world.pool, slabs.mover, 0, tenant_bytes, bytes.data()));
    assert_true(all_zero(bytes));
    slabs.world.fill(slabs.mover, tenant_bytes, 9);
    slabs.world.check(slabs.mover, tenant_bytes, 9);
    slabs.close();
  }
}

void a_moving_buffer_is_written_and_read_from_the_host(void **state) {
  for (const char *point : points) {
    Slabs slabs(state);
    std::vector<uint8_t> bytes(tenant_bytes);
    for (uint64_t i = 0; i < tenant_bytes; ++i) bytes[i] = pattern(3, i);
    {
      Gate gate(slabs.world.pool, point);
      Task defragment([&] { return slabs.defragment(); });
      gate.await();
      Task writer([&] {
        return weir_buffer_write(slabs.world.pool, slabs.mover, 0, tenant_bytes, bytes.data());
      });
      await_claim(slabs.world, slabs.mover, writer);
      assert_true(keeps_waiting(writer));
      gate.open();
      ok(writer.join());
      ok(defragment.join());
    }
    // The work on its bytes has it: it stayed.
    assert_int_equal(slabs.world.stats().slabs, 2);
    slabs.world.check(slabs.mover, tenant_bytes, 3);
    slabs.close();
  }
}

void a_moving_buffer_is_held(void **state) {
  for (const char *point : points) {
    Slabs slabs(state);
    uint64_t address = 0;
    {
      Gate gate(slabs.world.pool, point);
      Task defragment([&] { return slabs.defragment(); });
      gate.await();
      Task holder(
          [&] { return weir_hold(slabs.world.pool, slabs.mover, WEIR_DEVICE_DEFAULT, &address); });
      assert_true(keeps_waiting(holder));
      gate.open();
      ok(holder.join());
      ok(defragment.join());
    }
    ok(slabs.defragment());
    assert_int_equal(query(slabs.world, slabs.mover).address, address);
    Kernel kernel{address, tenant_bytes, 1, 0};
    ok(kernel.launch(slabs.world.streams[0], Kernel::compare));
    ok(weir_stream_synchronize(slabs.world.streams[0]));
    assert_int_equal(kernel.wrong, 0);
    ok(weir_unhold(slabs.world.pool, slabs.mover));
    slabs.close();
  }
}

/// On the CPU's memory a small buffer has pages of its own: it leaves its slab for good.
void a_moving_buffer_is_acquired_on_the_cpu(void **state) {
  for (const char *point : points) {
    Slabs slabs(state);
    weir_stream cpu = nullptr;
    ok(weir_stream_create(slabs.world.context, WEIR_DEVICE_HOST, 0, &cpu));
    {
      Gate gate(slabs.world.pool, point);
      Task defragment([&] { return slabs.defragment(); });
      gate.await();
      Kernel kernel{0, tenant_bytes, 1, 0};
      Task user([&] { return rewrite_on_cpu(slabs.world, cpu, slabs.mover, &kernel); });
      assert_true(keeps_waiting(user));
      gate.open();
      ok(user.join());
      ok(defragment.join());
      assert_int_equal(kernel.wrong, 0);
    }
    slabs.world.check_read(slabs.mover, tenant_bytes, 2);
    slabs.world.check(slabs.mover, tenant_bytes, 2);
    ok(weir_stream_close(cpu));
    slabs.close();
  }
}

/// A call under way in the driver keeps no thread from another compaction of the same slabs.
void two_compactions_meet(void **state) {
  for (const char *point : points) {
    Slabs slabs(state);
    {
      Gate gate(slabs.world.pool, point);
      Task first([&] { return slabs.defragment(); });
      gate.await();
      ok(slabs.defragment(0));
      gate.open();
      ok(first.join());
    }
    if (has_vmm(slabs.world)) assert_int_equal(slabs.world.stats().defragment_moves, 1);
    slabs.world.check(slabs.mover, tenant_bytes, 1);
    slabs.close();
  }
}

// ---- regions within segments ----

/// Eight pages, every other one taken.
struct Extents {
  World world;
  std::vector<weir_buffer> buffers;

  Extents()
      : world({.options = std::string(small_host) + no_vmm, .device_pages = 8, .host_pages = 64}) {
    std::vector<weir_buffer> all;
    for (uint32_t i = 0; i < 8; ++i) {
      all.push_back(world.buffer(page_bytes));
      world.fill(all[i], page_bytes, i);
    }
    for (uint32_t i = 0; i < 8; ++i) {
      if (i % 2 == 0) {
        ok(weir_buffer_destroy(world.pool, all[i]));
      } else {
        buffers.push_back(all[i]);
      }
    }
  }
  weir_result defragment() {
    weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
    desc.flags = WEIR_DEFRAGMENT_WAIT;
    return weir_pool_defragment(world.pool, &desc, nullptr);
  }
  void close() {
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (buffers[i] == nullptr) continue;
      const auto seed = static_cast<uint32_t>(2 * i + 1);
      world.check_read(buffers[i], page_bytes, seed);
      world.check(buffers[i], page_bytes, seed);
      ok(weir_buffer_destroy(world.pool, buffers[i]));
    }
    ok(trim_all(world));
    const std::string wrong = reinterpret_cast<weir::pool::Pool *>(world.pool)->engine().validate();
    assert_string_equal(wrong.c_str(), "");
    const weir_pool_stats stats = world.stats();
    assert_int_equal(stats.pages, 0);
    assert_int_equal(stats.host_used_bytes, 0);
    assert_int_equal(stats.device_bytes, stats.device_free_bytes);
    world.close();
  }
};

void moving_regions_are_acquired(void **) {
  for (const char *point : points) {
    Extents extents;
    {
      Gate gate(extents.world.pool, point);
      Task defragment([&] { return extents.defragment(); });
      gate.await();
      // Some of them are under way: each waits or not, and sees its bytes.
      std::vector<Kernel> kernels;
      std::vector<std::unique_ptr<Task>> users;
      for (uint32_t i = 0; i < 4; ++i) kernels.push_back(Kernel{0, page_bytes, 2 * i + 1, 0});
      for (uint32_t i = 0; i < 4; ++i) {
        users.push_back(std::make_unique<Task>([&extents, &kernels, i] {
          return run(extents.world, extents.buffers[i], WEIR_READ, &kernels[i]);
        }));
      }
      assert_true(stays([&] {
        return std::any_of(users.begin(), users.end(), [](const auto &u) { return !u->ended(); });
      }));
      gate.open();
      for (auto &user : users) ok(user->join());
      ok(defragment.join());
      for (const Kernel &kernel : kernels) assert_int_equal(kernel.wrong, 0);
    }
    assert_true(extents.world.stats().defragment_moves > 0);
    extents.close();
  }
}

void moving_regions_are_destroyed(void **) {
  for (const char *point : points) {
    Extents extents;
    {
      Gate gate(extents.world.pool, point);
      Task defragment([&] { return extents.defragment(); });
      gate.await();
      Task destroyer([&] {
        for (weir_buffer &buffer : extents.buffers) {
          const weir_result result = weir_buffer_destroy(extents.world.pool, buffer);
          if (result != WEIR_SUCCESS) return result;
          buffer = nullptr;
        }
        return static_cast<weir_result>(WEIR_SUCCESS);
      });
      assert_true(keeps_waiting(destroyer));  // for the copies to be handed over
      gate.open();
      ok(destroyer.join());
      ok(defragment.join());
    }
    extents.close();
  }
}

void regions_are_trimmed_while_they_move(void **) {
  for (const char *point : points) {
    Extents extents;
    {
      Gate gate(extents.world.pool, point);
      Task defragment([&] { return extents.defragment(); });
      gate.await();
      ok(trim_all(extents.world));
      gate.open();
      ok(defragment.join());
    }
    extents.close();
  }
}

/// Two want a range at once, and there is room for one after the other has gone: both get it.
void two_requests_compact_at_once(void **) {
  for (const char *point : points) {
    Extents extents;
    weir_buffer large = extents.world.buffer(4 * page_bytes);
    weir_buffer other = extents.world.buffer(2 * page_bytes);
    {
      Gate gate(extents.world.pool, point);
      Kernel one{0, 4 * page_bytes, 50, 0};
      Kernel two{0, 2 * page_bytes, 51, 0};
      Task first([&] { return run(extents.world, large, WEIR_DISCARD_WRITE, &one); });
      gate.await();
      Task second([&] { return run(extents.world, other, WEIR_DISCARD_WRITE, &two); });
      gate.open();
      ok(first.join());
      ok(second.join());
    }
    extents.world.check_read(large, 4 * page_bytes, 50);
    extents.world.check_read(other, 2 * page_bytes, 51);
    ok(weir_buffer_destroy(extents.world.pool, large));
    ok(weir_buffer_destroy(extents.world.pool, other));
    extents.close();
  }
}

/// An acquire that waits for room looks whether moving things helps, without the lock. A lease that ends just then wakes no thread: the
/// acquire must look again by itself.
void a_lease_ends_while_its_waiter_compacts(void **) {
  World world({.device_pages = 4, .host_pages = 16});
  weir_buffer leased = world.buffer(3 * page_bytes);
  weir_buffer wanted = world.buffer(2 * page_bytes);
  world.fill(leased, 3 * page_bytes, 1);
  weir_lease lease = nullptr;
  ok(world.acquire(leased, WEIR_READ, &lease));
  {
    Gate gate(world.pool, "compact");
    Task waiter([&] {
      weir_use use = WEIR_USE(wanted, WEIR_READ);
      weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
      options.timeout_ns = UINT64_C(20'000'000'000);
      weir_lease second = nullptr;
      const weir_result result =
          weir_acquire(world.pool, world.streams[0], &use, 1, &options, &second);
      return result == WEIR_SUCCESS ? weir_release(second, world.streams[0]) : result;
    });
    gate.await();
    gate.next("compact");  // once more, now known as a waiter
    gate.await();
    ok(weir_release(lease, world.streams[0]));
    gate.open();
    ok(waiter.join());
  }
  assert_int_equal(world.stats().wait_ns, 0);  // there was nothing to wait for any more
  world.close();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(a_lease_ends_while_its_waiter_compacts),
      BOTH(a_moving_buffer_is_acquired),
      BOTH(its_neighbours_are_used_meanwhile),
      BOTH(a_moving_buffer_is_destroyed),
      BOTH(everything_is_trimmed_meanwhile),
      BOTH(a_moving_buffer_is_discarded),
      BOTH(a_moving_buffer_is_written_and_read_from_the_host),
      BOTH(a_moving_buffer_is_held),
      BOTH(a_moving_buffer_is_acquired_on_the_cpu),
      BOTH(two_compactions_meet),
      cmocka_unit_test(moving_regions_are_acquired),
      cmocka_unit_test(moving_regions_are_destroyed),
      cmocka_unit_test(regions_are_trimmed_while_they_move),
      cmocka_unit_test(two_requests_compact_at_once),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
