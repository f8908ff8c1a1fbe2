// SPDX-License-Identifier: Apache-2.0
//
// Looking up the next definition of each name behind this program's.
#include "tools/virtual_time/real.hpp"

#include <dlfcn.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include <cstdio>
#include <cstdlib>

namespace weir::virtual_time::real {
namespace {

/// Of the functions on condition variables the C library has an older version each on some machines, for variables of another form,
/// and a lookup without a version may find that.
void *next(const char *name) {
  void *found = nullptr;
  for (const char *version : {"GLIBC_2.34", "GLIBC_2.30", "GLIBC_2.3.2"})
    if ((found = dlvsym(RTLD_NEXT, name, version)) != nullptr) return found;
  found = dlsym(RTLD_NEXT, name);
  if (found != nullptr) return found;
  std::fprintf(stderr, "virtual time: the C library has no %s\n", name);
  std::abort();
}

template <class Function>
void find(Function **function, const char *name) {
  *function = reinterpret_cast<Function *>(next(name));
}

Functions look_up() {
  Functions f{};
  find(&f.create, "pthread_create");
  find(&f.join, "pthread_join");
  find(&f.mutex_lock, "pthread_mutex_lock");
  find(&f.mutex_trylock, "pthread_mutex_trylock");
  find(&f.mutex_unlock, "pthread_mutex_unlock");
  find(&f.rwlock_rdlock, "pthread_rwlock_rdlock");
  find(&f.rwlock_tryrdlock, "pthread_rwlock_tryrdlock");
  find(&f.rwlock_wrlock, "pthread_rwlock_wrlock");
  find(&f.rwlock_trywrlock, "pthread_rwlock_trywrlock");
  find(&f.rwlock_unlock, "pthread_rwlock_unlock");
  find(&f.cond_wait, "pthread_cond_wait");
  find(&f.cond_timedwait, "pthread_cond_timedwait");
  find(&f.cond_clockwait, "pthread_cond_clockwait");
  find(&f.cond_signal, "pthread_cond_signal");
  find(&f.cond_broadcast, "pthread_cond_broadcast");
  find(&f.clock_gettime, "clock_gettime");
  find(&f.clock_nanosleep, "clock_nanosleep");
  find(&f.nanosleep, "nanosleep");
  find(&f.sched_yield, "sched_yield");
  find(&f.syscall, "syscall");
  return f;
}

Functions found;
/// Not a guard of the language: that one locks and waits by the very functions looked for. Before a second thread is made this one
/// has been through.
std::atomic<bool> ready{false};

}  // namespace

const Functions &functions() noexcept {
  if (!ready.load(std::memory_order_acquire)) {
    found = look_up();
    ready.store(true, std::memory_order_release);
  }
  return found;
}

void futex_wait(std::atomic<uint32_t> *word, uint32_t is) noexcept {
  (void)functions().syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, is, nullptr, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t> *word) noexcept {
  (void)functions().syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace weir::virtual_time::real
