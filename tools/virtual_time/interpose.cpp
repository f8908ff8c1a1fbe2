// SPDX-License-Identifier: Apache-2.0
//
// The functions that this program defines in place of the C library's. Of a thread that is not the scheduler's (before start(), and
// after its own end) they are the C library's.
//
// What must hold: nothing here waits in earnest with the turn, so a lock is only ever tried.
#include "tools/virtual_time/real.hpp"
#include "tools/virtual_time/scheduler.hpp"
#include "tools/virtual_time/virtual_time.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>

#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdlib>
#include <mutex>
#include <unordered_map>

namespace weir::virtual_time {
namespace {

using Thread = Scheduler::Thread;
constexpr uint64_t second = 1'000'000'000;
/// The wall clock is ahead of the other by so much: some day of the year 2026.
constexpr uint64_t wall_ahead = uint64_t{1'780'000'000} * second;

struct Ward {
  Scheduler scheduler;
  std::unordered_map<pthread_t, Thread *> threads;
  /// Its destructor ends a thread's part in the scheduler: after the destructors of the thread's C++ variables.
  pthread_key_t thread_end{};
};
Ward *ward = nullptr;
thread_local Thread *self = nullptr;

bool is_ours(clockid_t clock) {
  return clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW ||
         clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_BOOTTIME || clock == CLOCK_REALTIME ||
         clock == CLOCK_REALTIME_COARSE;
}
bool is_wall(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE; }

uint64_t nanoseconds(const timespec &time) {
  if (time.tv_sec < 0) return 0;
  const auto seconds = static_cast<uint64_t>(time.tv_sec);
  if (seconds > UINT64_MAX / second / 2) return Scheduler::never;
  return seconds * second + static_cast<uint64_t>(time.tv_nsec);
}

/// A moment of one of the clocks, by the scheduler's.
uint64_t moment(clockid_t clock, const timespec &time) {
  const uint64_t at = nanoseconds(time);
  if (at == Scheduler::never || !is_wall(clock)) return at;
  return at > wall_ahead ? at - wall_ahead : 0;
}
uint64_t after(const timespec &time) {
  const uint64_t wait = nanoseconds(time), now = ward->scheduler.now();
  return wait < Scheduler::never - now ? now + wait : Scheduler::never;
}

/// Takes what `attempt` tries, waiting while it is BUSY.
template <class Attempt>
int acquire(const void *lock, Attempt attempt) {
  for (;;) {
    const int result = attempt();
    if (result != EBUSY) return result;
    (void)ward->scheduler.wait(lock, Scheduler::never);
  }
}

int lock_mutex(pthread_mutex_t *mutex) {
  return acquire(mutex, [&] { return real::functions().mutex_trylock(mutex); });
}
int unlock_mutex(pthread_mutex_t *mutex) {
  const int result = real::functions().mutex_unlock(mutex);
  ward->scheduler.worked();
  if (result == 0) ward->scheduler.wake(mutex, 1);
  return result;
}

int wait_for(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t deadline) {
  const int unlocked = unlock_mutex(mutex);
  if (unlocked != 0) return unlocked;
  const bool woken = ward->scheduler.wait(condition, deadline);
  const int locked = lock_mutex(mutex);
  if (locked != 0) return locked;
  return woken ? 0 : ETIMEDOUT;
}

int sleep_until(uint64_t deadline) {
  (void)ward->scheduler.wait(nullptr, deadline);
  return 0;
}

// ---- threads ----

struct Beginning {
  void *(*function)(void *);
  void *argument;
  Thread *thread;
};

void *run(void *beginning) {
  const Beginning begin = *static_cast<Beginning *>(beginning);
  delete static_cast<Beginning *>(beginning);
  ward->scheduler.enter(begin.thread);
  self = begin.thread;
  (void)pthread_setspecific(ward->thread_end, begin.thread);
  return begin.function(begin.argument);
}

void leave(void *) {
  self = nullptr;
  ward->scheduler.leave();
}

// ---- words that are waited for by a system call ----

long futex(uint32_t *word, int operation, uint32_t value, const timespec *time, long *result) {
  const int what = operation & ~(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME);
  Scheduler &scheduler = ward->scheduler;
  if (what == FUTEX_WAKE || what == FUTEX_WAKE_BITSET) {
    scheduler.wake(word, value);
    *result = 0;
    return 0;
  }
  if (what != FUTEX_WAIT && what != FUTEX_WAIT_BITSET) return ENOSYS;
  if (std::atomic_ref<uint32_t>(*word).load() != value) return EAGAIN;
  uint64_t deadline = Scheduler::never;
  if (time != nullptr && what == FUTEX_WAIT) deadline = after(*time);
  if (time != nullptr && what == FUTEX_WAIT_BITSET)
    deadline =
        moment((operation & FUTEX_CLOCK_REALTIME) != 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC, *time);
  *result = 0;
  return scheduler.wait(word, deadline) ? 0 : ETIMEDOUT;
}

}  // namespace

bool available() noexcept { return true; }
bool started() noexcept { return ward != nullptr; }

void start() noexcept {
  // Never destroyed: what ends with the program locks and reads clocks to the last.
  static Ward &own = *new Ward;
  (void)pthread_key_create(&own.thread_end, leave);
  ward = &own;
  self = own.scheduler.begin(can_switch() && std::getenv("WEIR_VIRTUAL_TIME_BY_KERNEL") == nullptr);
}

}  // namespace weir::virtual_time

using namespace weir::virtual_time;  // NOLINT: what follows has the C library's names

extern "C" {

#define WEIR_IN_PLACE __attribute__((visibility("default")))

WEIR_IN_PLACE int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                 void *(*function)(void *), void *argument) {
  const auto &real = real::functions();
  if (self == nullptr) return real.create(thread, attributes, function, argument);
  Thread *added = ward->scheduler.add();
  auto *beginning = new Beginning{function, argument, added};
  const int result = real.create(thread, attributes, run, beginning);
  if (result != 0) {
    ward->scheduler.remove(added);
    delete beginning;
    return result;
  }
  ward->threads[*thread] = added;
  return 0;
}

WEIR_IN_PLACE int pthread_join(pthread_t thread, void **value) {
  if (self != nullptr) {
    const auto found = ward->threads.find(thread);
    if (found != ward->threads.end()) {
      Thread *joined = found->second;
      ward->threads.erase(found);
      while (!joined->ended) (void)ward->scheduler.wait(joined, Scheduler::never);
    }
  }
  return real::functions().join(thread, value);
}

WEIR_IN_PLACE int pthread_mutex_lock(pthread_mutex_t *mutex) noexcept {
  return self != nullptr ? lock_mutex(mutex) : real::functions().mutex_lock(mutex);
}
WEIR_IN_PLACE int pthread_mutex_unlock(pthread_mutex_t *mutex) noexcept {
  return self != nullptr ? unlock_mutex(mutex) : real::functions().mutex_unlock(mutex);
}

WEIR_IN_PLACE int pthread_rwlock_rdlock(pthread_rwlock_t *lock) noexcept {
  const auto &real = real::functions();
  if (self == nullptr) return real.rwlock_rdlock(lock);
  return acquire(lock, [&] { return real.rwlock_tryrdlock(lock); });
}
WEIR_IN_PLACE int pthread_rwlock_wrlock(pthread_rwlock_t *lock) noexcept {
  const auto &real = real::functions();
  if (self == nullptr) return real.rwlock_wrlock(lock);
  return acquire(lock, [&] { return real.rwlock_trywrlock(lock); });
}
WEIR_IN_PLACE int pthread_rwlock_unlock(pthread_rwlock_t *lock) noexcept {
  const int result = real::functions().rwlock_unlock(lock);
  if (self != nullptr && result == 0) ward->scheduler.wake(lock);
  return result;
}

WEIR_IN_PLACE int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
  if (self == nullptr) return real::functions().cond_wait(condition, mutex);
  return wait_for(condition, mutex, Scheduler::never);
}
/// The clock is the wall's: what else a variable was made for can't be asked, and nothing here makes such ones.
WEIR_IN_PLACE int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                         const timespec *time) {
  if (self == nullptr) return real::functions().cond_timedwait(condition, mutex, time);
  return wait_for(condition, mutex, moment(CLOCK_REALTIME, *time));
}
WEIR_IN_PLACE int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                         clockid_t clock, const timespec *time) {
  if (self == nullptr) return real::functions().cond_clockwait(condition, mutex, clock, time);
  return wait_for(condition, mutex, moment(clock, *time));
}
WEIR_IN_PLACE int pthread_cond_signal(pthread_cond_t *condition) noexcept {
  if (self == nullptr) return real::functions().cond_signal(condition);
  ward->scheduler.wake(condition, 1);
  return 0;
}
WEIR_IN_PLACE int pthread_cond_broadcast(pthread_cond_t *condition) noexcept {
  if (self == nullptr) return real::functions().cond_broadcast(condition);
  ward->scheduler.wake(condition);
  return 0;
}

WEIR_IN_PLACE int clock_gettime(clockid_t clock, timespec *time) noexcept {
  // Instructions take no time, a thread's own clock stands still: work that keeps to a share of a CPU is never late here.
  if (self != nullptr && clock == CLOCK_THREAD_CPUTIME_ID) {
    *time = {};
    return 0;
  }
  if (self == nullptr || !is_ours(clock)) return real::functions().clock_gettime(clock, time);
  ward->scheduler.look();
  const uint64_t now = ward->scheduler.now() + (is_wall(clock) ? wall_ahead : 0);
  time->tv_sec = static_cast<time_t>(now / second);
  time->tv_nsec = static_cast<long>(now % second);
  return 0;
}

WEIR_IN_PLACE int clock_nanosleep(clockid_t clock, int flags, const timespec *time,
                                  timespec *rest) {
  if (self == nullptr || !is_ours(clock))
    return real::functions().clock_nanosleep(clock, flags, time, rest);
  return sleep_until((flags & TIMER_ABSTIME) != 0 ? moment(clock, *time) : after(*time));
}
WEIR_IN_PLACE int nanosleep(const timespec *time, timespec *rest) {
  return self != nullptr ? sleep_until(after(*time)) : real::functions().nanosleep(time, rest);
}
WEIR_IN_PLACE int sched_yield() noexcept {
  if (self == nullptr) return real::functions().sched_yield();
  ward->scheduler.yield();
  return 0;
}

WEIR_IN_PLACE long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (long &argument : arguments) argument = va_arg(list, long);
  va_end(list);
  if (self != nullptr && number == SYS_futex) {
    long result = -1;
    const long error = futex(reinterpret_cast<uint32_t *>(arguments[0]),
                             static_cast<int>(arguments[1]), static_cast<uint32_t>(arguments[2]),
                             reinterpret_cast<const timespec *>(arguments[3]), &result);
    if (error == 0) return result;
    errno = static_cast<int>(error);
    return -1;
  }
  return real::functions().syscall(number, arguments[0], arguments[1], arguments[2], arguments[3],
                                   arguments[4], arguments[5]);
}
}
