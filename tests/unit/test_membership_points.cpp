// SPDX-License-Identifier: Apache-2.0
//
// Pages on their way from one device to another, and something happening at every point of it: one of the two is lost or
// asked to leave, the removal is called off, a program writes or destroys what is on the move. And one of the two lost
// at every call of the backend. Whatever happens: what had another valid copy is not lost, what is lost is said to be,
// what is not reads as it was written, the states hold, and the pool goes on on what it has left.

#include "tests/unit/losing_host.hpp"
#include "tests/unit/neighbours.hpp"

namespace {

using namespace weir::test;

constexpr uint32_t from = 1, to = 0;
constexpr uint32_t pages = 4;
const uint64_t size = pages * page_bytes;

/// How the pages come to move: their device leaves the pool, or is emptied into its neighbour's idle memory.
enum class Way { leave, spill };

/// Holds the thread that comes n-th to any point, until it is let go or there is no n-th.
class NthStop {
 public:
  NthStop(World &world, int64_t n) : points_(engine_of(world).points), left_(n) {
    points_.listen(&NthStop::arrive, this);
  }
  ~NthStop() { points_.leave(this); }
  NthStop(const NthStop &) = delete;
  NthStop &operator=(const NthStop &) = delete;

  /// Whether a thread stands there. False: what was to come there has ended.
  bool await() {
    std::unique_lock hold(mutex_);
    changed_.wait(hold, [this] { return standing_ || over_; });
    return standing_;
  }
  void over() {
    const std::lock_guard hold(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  void open() {
    const std::lock_guard hold(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  const char *where() const { return where_; }

 private:
  static void arrive(void *user, const char *point) {
    auto *self = static_cast<NthStop *>(user);
    std::unique_lock hold(self->mutex_);
    if (self->open_ || --self->left_ != 0) return;
    self->where_ = point;
    self->standing_ = true;
    self->changed_.notify_all();
    self->changed_.wait(hold, [self] { return self->open_; });
  }

  weir::SeqPoints &points_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t left_;
  const char *where_ = "";
  bool standing_ = false, open_ = false, over_ = false;
};

/// A buffer, what it holds, and of which pages it is known that they must live.
struct Content {
  const char *name;
  weir_buffer buffer = nullptr;
  uint32_t seed = 0;
  bool safe[pages] = {};
};

struct Scene {
  World world;
  Content only{"only here"}, both{"on both devices"}, hosted{"in HOST too"};

  explicit Scene(const char *options, weir_backend_query_fn backend = nullptr)
      : world(setup(options, backend)) {
    for (Content *each : all()) each->buffer = world.buffer(size, from);
    // Written where nothing is resident yet, it is in HOST; read, it is on its device as well.
    std::vector<uint8_t> bytes(size);
    write_bytes(bytes.data(), size, PatternOf{hosted.seed = 3});
    ok(weir_buffer_write(world.pool, hosted.buffer, 0, size, bytes.data()));
    world.check(hosted.buffer, size, 3, from);
    world.fill(only.buffer, size, only.seed = 1, from);
    world.fill(both.buffer, size, both.seed = 2, from);
    world.check(both.buffer, size, 2, to);
    assert_int_equal(query(world, hosted.buffer).both_bytes, size);
    validate(world);
  }
  static Setup setup(const char *options, weir_backend_query_fn backend) {
    Setup setup = neighbours(20);
    setup.options += options;
    setup.backend = backend;
    return setup;
  }
  /// Of the pages noted as safe a run, pages of one buffer, has been let go of since: the mover stands between unmapping it and saying
  /// so. Where the backend takes no runs that is one page; extents are whole buffers.
  void run_is_let_go() {
    weir_device_info info = WEIR_DEVICE_INFO_INIT;
    ok(weir_device_info_get(world.context, 0, &info));
    const bool alone = has_vmm(world) && (info.capabilities & WEIR_CAP_MAP_RUN) == 0;
    given_up_ = alone ? 1 : pages;
  }

  std::array<Content *, 3> all() { return {&only, &both, &hosted}; }

  weir_result move(Way way) const {
    return way == Way::leave
               ? weir_pool_remove_device(world.pool, from, WEIR_INFINITE)
               : weir_pool_trim(world.pool, from, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr);
  }

  weir_buffer_info page(const Content &content, uint32_t p) const {
    weir_buffer_info info = WEIR_BUFFER_INFO_INIT;
    ok(weir_buffer_info_get(world.pool, content.buffer, p * page_bytes, page_bytes, &info));
    return info;
  }
  /// Nothing moves now: notes which pages have a copy that the loss of `device` does not touch.
  void note_safe(uint32_t device) {
    for (Content *each : all()) {
      for (uint32_t p = 0; p < pages; ++p) {
        const weir_buffer_info info = page(*each, p);
        each->safe[p] = info.home == device ? info.device_bytes == 0 || info.both_bytes != 0
                                            : info.peer_bytes == 0;
      }
    }
  }

  /// A device that was lost is known to be after this.
  void touch() {
    std::vector<uint8_t> bytes(size);
    for (Content *each : all())
      if (each->buffer != nullptr)
        (void)weir_buffer_read(world.pool, each->buffer, 0, size, bytes.data());
  }

  /// Each page reads as it was written, or is said to be lost and was nowhere else. The bytes lost.
  uint64_t verify(const char *when) {
    uint64_t lost = 0;
    std::vector<uint8_t> wanted(size), found(page_bytes);
    for (Content *each : all()) {
      if (each->buffer == nullptr) continue;
      write_bytes(wanted.data(), size, PatternOf{each->seed});
      for (uint32_t p = 0; p < pages; ++p) {
        const weir_result result =
            weir_buffer_read(world.pool, each->buffer, p * page_bytes, page_bytes, found.data());
        if (const uint64_t gone = page(*each, p).lost_bytes; gone != 0) {
          lost += gone;
          expect_result(WEIR_ERROR_DATA_LOST, result);
          const bool of_the_run = given_up_ != 0 && (run_of_ == nullptr || run_of_ == each);
          if (each->safe[p] && !of_the_run)
            fail_msg("%s: page %u of '%s' is lost", when, p, each->name);
          if (each->safe[p]) run_of_ = each;
          given_up_ -= each->safe[p] ? 1 : 0;
          continue;
        }
        if (result != WEIR_SUCCESS)
          fail_msg("%s: page %u of '%s': %s", when, p, each->name, weir_last_error());
        if (std::memcmp(found.data(), wanted.data() + p * page_bytes, page_bytes) != 0)
          fail_msg("%s: page %u of '%s' is wrong", when, p, each->name);
      }
    }
    weir_lost_range ranges[3 * pages] = {};
    size_t count = 0;
    ok(weir_pool_lost_ranges(world.pool, ranges, 3 * pages, &count));
    uint64_t told = 0;
    for (size_t i = 0; i < count; ++i) told += ranges[i].length;
    assert_int_equal(told, lost);
    return lost;
  }

  /// A device of the pool that works; WEIR_DEVICE_HOST: none.
  weir_device working() const {
    for (const weir_device device : {to, from}) {
      weir_pool_device_stats stats = WEIR_POOL_DEVICE_STATS_INIT;
      if (weir_pool_device_stats_get(world.pool, device, &stats) == WEIR_SUCCESS &&
          stats.state == WEIR_POOL_DEVICE_PRESENT)
        return device;
    }
    return WEIR_DEVICE_HOST;
  }

  /// What is left of the pool takes all of it anew.
  void go_on(const char *when) {
    validate(world);
    if (const weir_device device = working(); device != WEIR_DEVICE_HOST) {
      for (Content *each : all()) {
        if (each->buffer == nullptr) continue;
        world.fill(each->buffer, size, each->seed += 50, device);
        world.check(each->buffer, size, each->seed, device);
      }
      for (Content *each : all()) std::fill_n(each->safe, pages, true);
      given_up_ = 0;
      run_of_ = nullptr;
      assert_int_equal(verify(when), 0);
    }
    for (Content *each : all())
      if (each->buffer != nullptr) ok(weir_buffer_destroy(world.pool, each->buffer));
    validate(world);
    world.close();
  }

 private:
  uint32_t given_up_ = 0;
  const Content *run_of_ = nullptr;  ///< whose pages they have turned out to be
};

// ---- at every point ----

/// What the action gave, and what the mover gave.
using Outcome = std::pair<weir_result, weir_result>;

/// What happens there. It asserts nothing: it may run while the mover is held.
using Action = weir_result (*)(Scene &scene);

weir_result lose_from(Scene &scene) {
  engine_of(scene.world).lose_device(from);
  return WEIR_SUCCESS;
}
weir_result lose_to(Scene &scene) {
  engine_of(scene.world).lose_device(to);
  return WEIR_SUCCESS;
}
weir_result call_off(Scene &scene) { return weir_pool_cancel_remove(scene.world.pool, from); }
weir_result to_leaves(Scene &scene) {
  return weir_pool_remove_device(scene.world.pool, to, WEIR_INFINITE);
}
weir_result from_leaves(Scene &scene) {
  return weir_pool_remove_device(scene.world.pool, from, WEIR_INFINITE);
}
/// On the other device, so that it is in no other's way but the mover's.
weir_result write(Scene &scene) {
  Kernel kernel{0, size, 9, 0};
  const weir_result result = run(scene.world, scene.only.buffer, WEIR_DISCARD_WRITE, &kernel, to);
  if (result == WEIR_SUCCESS) scene.only.seed = 9;
  return result;
}
weir_result destroy(Scene &scene) {
  const weir_result result = weir_buffer_destroy(scene.world.pool, scene.only.buffer);
  if (result == WEIR_SUCCESS) scene.only.buffer = nullptr;
  return result;
}

struct Case {
  const char *name;
  Action action;
  uint32_t loses;  ///< a device, or WEIR_DEVICE_HOST
  bool waits;      ///< perhaps, for the mover
  std::vector<Outcome> outcomes;
};

template <class Of>
bool is_one_of(const Of &outcome, const std::vector<Of> &allowed) {
  return std::find(allowed.begin(), allowed.end(), outcome) != allowed.end();
}

/// It may wait for the thread that stands there, which goes on when it has had time to begin.
weir_result act_beside(Scene &scene, const Case &what, NthStop *stop) {
  Task action([&] { return what.action(scene); });
  (void)keeps_waiting(action);
  stop->open();
  return action.join();
}

/// One run; false if there is no n-th point.
bool interrupt(Way way, const Case &what, const char *options, int64_t n) {
  Scene scene(options);
  char when[120];
  bool stood = false;
  {
    NthStop stop(scene.world, n);
    Task mover([&] {
      const weir_result result = scene.move(way);
      stop.over();
      return result;
    });
    stood = stop.await();
    std::snprintf(when, sizeof when, "%s at point %lld (%s)", what.name, static_cast<long long>(n),
                  stop.where());
    if (stood) {
      if (what.loses != WEIR_DEVICE_HOST) scene.note_safe(what.loses);
      if (what.loses == to && std::strcmp(stop.where(), "evict.unmapped") == 0)
        scene.run_is_let_go();
      const weir_result acted = what.waits ? act_beside(scene, what, &stop) : what.action(scene);
      stop.open();
      const weir_result moved = mover.join();
      if (!is_one_of({acted, moved}, what.outcomes))
        fail_msg("%s: the action gave %d, the mover %d", when, acted, moved);
    } else {
      (void)mover.join();
    }
  }
  validate(scene.world);
  const uint64_t lost = scene.verify(when);
  if (what.loses == WEIR_DEVICE_HOST) assert_int_equal(lost, 0);
  scene.go_on(when);
  return stood;
}

void at_every_point(Way way, const std::vector<Case> &cases) {
  for (const char *options : {"", ";host.map_run=0", no_vmm}) {
    for (const Case &what : cases) {
      int64_t n = 1;
      while (interrupt(way, what, options, n)) ++n;
      print_message("%s%s: %lld points\n", what.name, options, static_cast<long long>(n - 1));
      assert_true(n > 2);
    }
  }
}

constexpr weir_result fine = WEIR_SUCCESS;
const std::vector<Outcome> both_work = {{fine, fine}};
const std::vector<Outcome> works_or_blocks = {{fine, fine}, {WEIR_ERROR_WOULD_BLOCK, fine}};
const std::vector<Outcome> mover_may_meet_loss = {{fine, fine}, {fine, WEIR_ERROR_DEVICE_LOST}};
/// A removal that is called off too late goes on, and the caller is told.
const std::vector<Outcome> stays_or_left = {{fine, WEIR_ERROR_CANCELLED},
                                            {WEIR_ERROR_INVALID_ARGUMENT, fine}};
const std::vector<Outcome> refused = {{WEIR_ERROR_INVALID_ARGUMENT, fine}};

void while_a_device_leaves(void **) {
  at_every_point(Way::leave,
                 {{"the leaving device is lost", lose_from, from, false, both_work},
                  {"its heir is lost", lose_to, to, false, mover_may_meet_loss},
                  {"the removal is called off", call_off, WEIR_DEVICE_HOST, false, stays_or_left},
                  {"its heir is to leave too", to_leaves, WEIR_DEVICE_HOST, true, refused},
                  {"somebody writes", write, WEIR_DEVICE_HOST, true, works_or_blocks},
                  {"somebody destroys", destroy, WEIR_DEVICE_HOST, true, both_work}});
}

void while_pages_go_to_a_neighbour(void **) {
  at_every_point(Way::spill,
                 {{"their device is lost", lose_from, from, false, mover_may_meet_loss},
                  {"the neighbour is lost", lose_to, to, false, both_work},
                  {"their device leaves", from_leaves, WEIR_DEVICE_HOST, true, both_work},
                  {"the neighbour leaves", to_leaves, WEIR_DEVICE_HOST, true, both_work},
                  {"somebody writes", write, WEIR_DEVICE_HOST, true, works_or_blocks},
                  {"somebody destroys", destroy, WEIR_DEVICE_HOST, true, both_work}});
}

// ---- at every call ----

/// What both must keep is in HOST; a device that is lost alone must not take what the other has from the start.
void lose_at_every_call(Way way, uint32_t victim) {
  for (const char *options : {"", no_vmm}) {
    uint64_t some_lost = 0;
    for (int64_t n = 1;; n += stride()) {
      losing.reset(victim);
      Scene scene(options, Losing::query);
      for (uint32_t p = 0; p < pages; ++p) {
        scene.hosted.safe[p] = true;
        scene.both.safe[p] = victim == from;
      }
      losing.lose_at(n);
      const weir_result moved = scene.move(way);
      const bool struck = losing.struck();
      char when[80];
      std::snprintf(when, sizeof when, "device %u lost at call %lld", victim,
                    static_cast<long long>(n));
      if (moved != fine && moved != WEIR_ERROR_DEVICE_LOST) fail_msg("%s: %d", when, moved);
      if (!struck) losing.spare();
      validate(scene.world);
      scene.touch();
      some_lost += scene.verify(when) != 0 ? 1 : 0;
      std::strcat(when, ", written anew");
      scene.go_on(when);
      if (struck) continue;
      assert_true(some_lost < static_cast<uint64_t>(n));
      print_message("device %u%s: %lld calls, at %llu of them something was lost\n", victim,
                    options, static_cast<long long>(n - 1),
                    static_cast<unsigned long long>(some_lost));
      assert_true(n > 3);  // of any kind: how many depends on which thread waits for which
      break;
    }
  }
}

void the_leaving_device_is_lost_at_any_call(void **) { lose_at_every_call(Way::leave, from); }
void the_heir_is_lost_at_any_call(void **) { lose_at_every_call(Way::leave, to); }
void the_spilling_device_is_lost_at_any_call(void **) { lose_at_every_call(Way::spill, from); }
void the_neighbour_is_lost_at_any_call(void **) { lose_at_every_call(Way::spill, to); }

}  // namespace

int main(int argc, char **argv) {
  if (!Target::get().host()) return 77;  // only the host backend is told what its links are like
  const CMUnitTest tests[] = {
      cmocka_unit_test(while_a_device_leaves),
      cmocka_unit_test(while_pages_go_to_a_neighbour),
      cmocka_unit_test(the_leaving_device_is_lost_at_any_call),
      cmocka_unit_test(the_heir_is_lost_at_any_call),
      cmocka_unit_test(the_spilling_device_is_lost_at_any_call),
      cmocka_unit_test(the_neighbour_is_lost_at_any_call),
  };
  if (argc > 1) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
