// SPDX-License-Identifier: Apache-2.0
//
// Background alone, with tasks of the test's: steps as long as there is something to do, rests that end by a wake or by their time,
// how a thread begins and ends. pthread_create is this program's own, to count threads and to refuse them.
//
// Must be reproducible: a task does its step with the pool's lock held and keeps it until it rests, so a thread that has the lock after a step
// that found nothing knows that the thread waits. A rest may end for no reason, which leaves no trace in what is compared.

#include "core/base/clock.hpp"
#include "core/pool/background.hpp"
#include "tests/support/cmocka.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>

namespace {
std::atomic<int> threads_left{INT32_MAX};
std::atomic<int> threads_made{0};
}  // namespace

extern "C" int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                              void *(*start)(void *), void *argument) noexcept {
  if (threads_left.fetch_sub(1) <= 0) return EAGAIN;
  static auto *real =
      reinterpret_cast<int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)>(
          dlsym(RTLD_NEXT, "pthread_create"));
  ++threads_made;
  return real(thread, attributes, start, argument);
}

namespace {

using weir::Locked;
using weir::PoolLock;
using weir::PoolSignal;
using weir::Releasable;
using weir::pool::Background;

/// What a pool has of what Background needs.
struct Site {
  PoolLock lock{weir::Log()};
  PoolSignal work{lock}, changed{lock};
  const weir::numa::Nodes nodes{"/nowhere"};
  const weir::Tap tap{};
  Background background{lock, tap, nodes, std::pmr::get_default_resource()};

  void wake() {
    const Locked held(lock);
    work.notify_all();
  }
};

class FakeClock final : public weir::Clock {
 public:
  uint64_t now_ns() const noexcept override { return now; }
  std::atomic<uint64_t> now{0};
};

/// Has so many pieces of work, one a step, and writes down what it is asked: 's' a step that did something, 'n' one that did
/// not, 'x' one that ran out of memory, 'r' how long it rests. "nr" stands there once however often it comes in a row.
struct Fake final : weir::Task {
  explicit Fake(Site &site_, const char *name = "a fake") : site(site_), called(name) {
    diary.reserve(64);
  }
  ~Fake() { site.background.stop(this); }

  bool step(Releasable &lock) override WEIR_HELD {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    takes_signals = takes_signals || sigismember(&blocked, SIGTERM) == 0;
    if (held) {
      standing = true;
      site.changed.notify_all();
      while (held) site.changed.wait(lock);
    }
    if (failing != 0) {
      --failing;
      note('x');
      throw std::bad_alloc();
    }
    const bool due = left != 0 && clock.now >= due_ns;
    if (due) --left;
    note(due ? 's' : 'n');
    return due;
  }
  uint64_t rest_ns() noexcept override WEIR_HELD {
    ++rests;
    if (diary.ends_with("nrn"))
      diary.pop_back();
    else
      diary += 'r';
    site.changed.notify_all();
    return rest;
  }
  const char *name() const noexcept override { return called; }

  void note(char what) noexcept WEIR_HELD { diary += what; }
  /// Has more to do from now on, and is told so.
  void give(uint32_t pieces) {
    const Locked lock(site.lock);
    left += pieces;
    site.work.notify_all();
  }
  /// Until it has done all that it was given, and rests.
  std::string await_rest() {
    Locked lock(site.lock);
    while (left != 0 || failing != 0 || diary.empty() || diary.back() != 'r')
      site.changed.wait(lock);
    return diary;
  }
  std::string so_far() {
    const Locked lock(site.lock);
    return diary;
  }

  Site &site;
  const char *const called;
  FakeClock clock;
  uint32_t left WEIR_GUARDED = 0, failing WEIR_GUARDED = 0, rests WEIR_GUARDED = 0;
  uint64_t due_ns WEIR_GUARDED = 0, rest WEIR_GUARDED = UINT64_MAX;
  std::string diary WEIR_GUARDED;
  bool held WEIR_GUARDED = false, standing WEIR_GUARDED = false;
  std::atomic<bool> takes_signals{false};
};

/// Counts what it is given, and can stand within a beat until it is let go.
struct FakePulse final : weir::Pulse {
  explicit FakePulse(Site &site_) : site(site_) {}
  void beat() noexcept override WEIR_HELD {
    ++beats;
    site.changed.notify_all();
  }
  void beat_at_rest() noexcept override WEIR_HELD {
    ++at_rest;
    site.changed.notify_all();
  }
  uint64_t rest_ns() noexcept override WEIR_HELD { return rest; }

  Site &site;
  uint64_t rest WEIR_GUARDED = 1;
  uint32_t beats WEIR_GUARDED = 0, at_rest WEIR_GUARDED = 0;
};

weir::Status start(Site &site, Fake &task) {
  return site.background.start(task, weir::numa::unknown, &site.work);
}

void steps_are_run_until_nothing_is_left_and_then_it_rests_until_woken(void **) {
  Site site;
  Fake task(site);
  {
    const Locked lock(site.lock);
    task.left = 3;
  }
  assert_true(start(site, task).ok());
  assert_string_equal(task.await_rest().c_str(), "sssnr");
  task.give(2);
  assert_string_equal(task.await_rest().c_str(), "sssnrssnr");
  site.wake();  // for nothing
  task.give(1);
  assert_string_equal(task.await_rest().c_str(), "sssnrssnrsnr");
  assert_false(task.takes_signals);
}

/// Nothing wakes it: a step before its time finds nothing and asks for the rest again, until the clock says that it is due.
void a_rest_ends_by_its_time(void **) {
  Site site;
  Fake task(site);
  {
    const Locked lock(site.lock);
    task.left = 1;
    task.due_ns = 500;
    task.rest = 1;
  }
  assert_true(site.background.start(task, weir::numa::unknown, nullptr).ok());
  {
    Locked lock(site.lock);
    while (task.rests < 3) site.changed.wait(lock);
    assert_string_equal(task.diary.c_str(), "nr");
    task.clock.now = 500;
  }
  assert_string_equal(task.await_rest().c_str(), "nrsnr");
}

void a_step_without_memory_is_one_that_found_nothing(void **) {
  Site site;
  Fake task(site);
  {
    const Locked lock(site.lock);
    task.failing = 1;
  }
  assert_true(start(site, task).ok());
  assert_true(task.await_rest().starts_with("xr"));
  task.give(1);
  assert_true(task.await_rest().ends_with("snr"));
}

/// Steps of several tasks run beside each other: one that waits within its step holds up no other.
void a_task_waits_for_no_other(void **) {
  Site site;
  Fake slow(site);
  Fake quick(site);
  {
    const Locked lock(site.lock);
    slow.held = true;
  }
  assert_true(start(site, slow).ok());
  assert_true(start(site, quick).ok());
  {
    Locked lock(site.lock);
    while (!slow.standing) site.changed.wait(lock);
  }
  quick.give(2);
  assert_true(quick.await_rest().ends_with("ssnr"));
  assert_string_equal(slow.so_far().c_str(), "");
  const Locked lock(site.lock);
  slow.held = false;
  site.changed.notify_all();
}

void one_task_is_stopped_and_started_while_others_run(void **) {
  Site site;
  Fake task(site);
  Fake other(site);
  const int before = threads_made;
  assert_true(start(site, task).ok());
  assert_true(start(site, other).ok());
  assert_true(start(site, task).ok());  // has one
  assert_int_equal(threads_made - before, 2);
  (void)task.await_rest();
  site.background.stop(&task);
  site.background.stop(&task);
  const std::string diary = task.so_far();
  task.give(1);
  other.give(1);
  assert_true(other.await_rest().ends_with("snr"));
  assert_string_equal(task.so_far().c_str(), diary.c_str());
  assert_true(start(site, task).ok());
  assert_int_equal(threads_made - before, 3);
  assert_true(task.await_rest().ends_with("snr"));
}

/// The task sees nothing of beats: it rests until it is woken, or for as long as it wants. Each wake that comes while beats are
/// given ends the rest.
void beats_are_given_at_rest(void **) {
  Site site;
  FakePulse pulse(site);
  Fake task(site);
  assert_true(site.background.start(task, weir::numa::unknown, &site.work, &pulse).ok());
  for (uint32_t i = 1; i <= 200; ++i) {
    Locked lock(site.lock);
    const uint32_t enough = pulse.at_rest + 1 + i % 3;
    while (pulse.at_rest < enough) site.changed.wait(lock);
    assert_string_equal(task.diary.c_str(), i == 1 ? "nr" : "nrsnr");
    task.diary = "nr";
    task.left = 1;
    site.work.notify_all();
    while (task.left != 0 || !task.diary.ends_with("nr")) site.changed.wait(lock);
    assert_string_equal(task.diary.c_str(), "nrsnr");
    assert_true(pulse.beats >= i);
  }
  {
    // A rest of its own ends in its time, among beats that are shorter.
    Locked lock(site.lock);
    task.rest = 1'000'000;
    site.work.notify_all();
    const uint32_t before = task.rests;
    while (task.rests < before + 3) site.changed.wait(lock);
  }
  // Nothing to be beaten: it rests for good.
  Locked lock(site.lock);
  pulse.rest = task.rest = UINT64_MAX;
  site.work.notify_all();
}

/// The thread that stops it waits for the step under way; no other is begun.
void stop_waits_for_the_step_under_way(void **) {
  Site site;
  Fake task(site);
  {
    const Locked lock(site.lock);
    task.held = true;
    task.left = 5;
  }
  assert_true(start(site, task).ok());
  {
    Locked lock(site.lock);
    while (!task.standing) site.changed.wait(lock);
  }
  std::atomic<bool> stopped{false};
  std::thread stops([&] {
    site.background.stop();
    stopped = true;
  });
  {
    Locked lock(site.lock);
    site.lock.stop();
    assert_false(stopped);
    task.held = false;
    site.changed.notify_all();
  }
  stops.join();
  assert_string_equal(task.so_far().c_str(), "s");
}

void a_pool_that_stops_ends_all(void **) {
  Site site;
  Fake task(site);
  {
    const Locked lock(site.lock);
    site.lock.stop();
  }
  assert_true(start(site, task).ok());
  site.background.stop();
  assert_string_equal(task.so_far().c_str(), "");
}

/// What was started before is joined all the same, and can be told what it was that failed.
void a_thread_that_is_refused(void **) {
  Site site;
  Fake task(site);
  Fake other(site, "the other's thread");
  threads_left = 1;
  assert_true(start(site, task).ok());
  const weir::Status refused = start(site, other);
  threads_left = INT32_MAX;
  assert_int_equal(refused.code(), WEIR_ERROR_OUT_OF_HOST_MEMORY);
  assert_non_null(std::strstr(weir::last_error().text, "cannot start the other's thread"));
  (void)task.await_rest();
  site.background.stop();
  assert_string_equal(other.so_far().c_str(), "");
  assert_true(start(site, other).ok());  // there is one by now
  (void)other.await_rest();
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(steps_are_run_until_nothing_is_left_and_then_it_rests_until_woken),
      cmocka_unit_test(a_rest_ends_by_its_time),
      cmocka_unit_test(a_step_without_memory_is_one_that_found_nothing),
      cmocka_unit_test(a_task_waits_for_no_other),
      cmocka_unit_test(one_task_is_stopped_and_started_while_others_run),
      cmocka_unit_test(beats_are_given_at_rest),
      cmocka_unit_test(stop_waits_for_the_step_under_way),
      cmocka_unit_test(a_pool_that_stops_ends_all),
      cmocka_unit_test(a_thread_that_is_refused),
  };
  return cmocka_run_group_tests_name("background", tests, nullptr, nullptr);
}
