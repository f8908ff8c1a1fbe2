// SPDX-License-Identifier: Apache-2.0
//
// What the interleaving tests share: a small world with and without virtual-memory management, uses of a buffer on
// a thread of their own, and a look at what is left in the end. Functions that run on another thread than the
// test's assert nothing.
#pragma once

#include <map>
#include <thread>

// First: the fixture's macro `ok` would meet the core's own functions of that name.
#include "tests/unit/gate.hpp"

#include "tests/abi/pool_fixture.hpp"

namespace weir::test {

inline const uint64_t two_pages = 2 * page_bytes;

/// Device memory for four pages. `state` is what the host backend is to be without, or "".
inline World world_for(void **state, uint32_t devices = 1) {
  return World({.options = std::string(small_host) + static_cast<const char *>(*state) +
                           (devices == 2 ? ";host.devices=2" : ""),
                .device_pages = 4,
                .host_pages = 16,
                .devices = devices});
}

inline pool::Engine &engine_of(World &world) {
  return reinterpret_cast<pool::Pool *>(world.pool)->engine();
}

/// The invariants hold, whatever is under way.
inline void validate(World &world) {
  const std::string wrong = engine_of(world).validate();
  assert_string_equal(wrong.c_str(), "");
}

inline weir_result trim_all(World &world, uint64_t *freed = nullptr) {
  return weir_pool_trim(world.pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, freed);
}

/// One lease on a stream of its own thread's choice, with a kernel under it. Asserts nothing.
inline weir_result run(World &world, weir_buffer buffer, uint32_t mode, Kernel *kernel,
                       uint32_t device = 0) {
  weir_lease lease = nullptr;
  weir_result result = world.acquire(buffer, mode, &lease, &kernel->address, device);
  if (result != WEIR_SUCCESS) return result;
  result = weir_stream_host_call(world.streams[device],
                                 mode == WEIR_READ ? Kernel::compare : Kernel::write, kernel);
  const weir_result released = weir_release(lease, world.streams[device]);
  const weir_result ended = weir_stream_synchronize(world.streams[device]);
  if (result == WEIR_SUCCESS) result = released;
  return result == WEIR_SUCCESS ? ended : result;
}

/// Takes the buffer on the CPU, sees seed 1 there and leaves seed 2.
inline weir_result rewrite_on_cpu(World &world, weir_stream cpu, weir_buffer buffer,
                                  Kernel *kernel) {
  weir_use use = WEIR_USE(buffer, WEIR_READ_WRITE);
  weir_lease lease = nullptr;
  const weir_result result = weir_acquire(world.pool, cpu, &use, 1, nullptr, &lease);
  if (result != WEIR_SUCCESS) return result;
  kernel->address = use.address;
  Kernel::compare(kernel);
  kernel->seed = 2;
  Kernel::write(kernel);
  return weir_release(lease, cpu);
}

/// Tells the pool that the buffer's pages are wanted, without waiting for them.
inline void want(World &world, weir_buffer buffer) {
  const weir_use use = WEIR_USE(buffer, WEIR_READ);
  ok(weir_prefetch(world.pool, world.streams[0], &use, 1));
}

inline weir_buffer_info query(World &world, weir_buffer buffer) {
  weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
  ok(weir_buffer_info_get(world.pool, buffer, 0, WEIR_WHOLE, &info));
  return info;
}

inline bool has_vmm(World &world) {
  weir_device_info info = WEIR_DEVICE_INFO_INIT;
  ok(weir_device_info_get(world.context, 0, &info));
  return (info.capabilities & WEIR_CAP_VMM) != 0;
}

/// Until another thread has claimed the buffer, which it does before it waits for the page, or has ended.
inline void await_claim(World &world, weir_buffer buffer, const Task &task) {
  while (query(world, buffer).leases == 0 && !task.ended()) std::this_thread::yield();
}

/// For what must not end before another thread goes on.
inline bool keeps_waiting(const Task &task) {
  return stays([&task] { return !task.ended(); });
}

/// Holds the first thread that comes to each of some points. Its listener
/// takes the place of a Gate's, whose thread stays where it stands.
class Stops {
 public:
  Stops(World &world, std::initializer_list<const char *> points)
      : points_(reinterpret_cast<weir::pool::Pool *>(world.pool)->engine().points) {
    for (const char *point : points) states_[point] = State::armed;
    points_.listen(&Stops::arrive, this);
  }
  ~Stops() { points_.leave(this); }
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

/// Nothing of the pool's may be left once its buffers are gone. What was on its way when its buffer was destroyed keeps its page until it
/// has ended, and so does a page that the pool's own thread took just before the trim.
inline void close_clean(World &world) {
  pool::Engine &engine = reinterpret_cast<pool::Pool *>(world.pool)->engine();
  engine.wait_idle();
  ok(trim_all(world));
  engine.wait_idle();
  const std::string wrong = engine.validate();
  if (!wrong.empty()) print_error("%s\n", wrong.c_str());
  assert_true(wrong.empty());
  const weir_pool_stats stats = world.stats();
  assert_int_equal(stats.buffers, 0);
  assert_int_equal(stats.slabs, 0);
  assert_int_equal(stats.pages, 0);
  assert_int_equal(stats.host_used_bytes, 0);
  assert_int_equal(stats.device_held_bytes, 0);
  assert_int_equal(stats.device_bytes, stats.device_free_bytes);
  assert_int_equal(stats.compressed_bytes + stats.compressed_raw_bytes, 0);
  assert_int_equal(stats.storage_bytes + stats.storage_raw_bytes, 0);
  weir_buffer all = world.buffer(4 * page_bytes);  // the whole budget can be had again
  world.fill(all, 4 * page_bytes, 99);
  world.check(all, 4 * page_bytes, 99);
  ok(weir_buffer_destroy(world.pool, all));
  world.close();
}

inline constexpr char vmm[] = "";
inline constexpr char no_vmm[] = ";host.vmm=0";

#define BOTH(test)                                                         \
  {#test, test, nullptr, nullptr, const_cast<char *>(vmm)}, {              \
#test ", no VMM", test, nullptr, nullptr, const_cast < char *>(no_vmm) \
  }

}  // namespace weir::test
