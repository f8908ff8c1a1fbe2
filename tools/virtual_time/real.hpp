// SPDX-License-Identifier: Apache-2.0
//
// The C library's own functions, whose names interpose.cpp takes.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <atomic>
#include <cstdint>

namespace weir::virtual_time::real {

/// Of threads and locks; looked up when the first of them is called.
struct Functions {
  int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  int (*join)(pthread_t, void **);
  int (*mutex_lock)(pthread_mutex_t *);
  int (*mutex_trylock)(pthread_mutex_t *);
  int (*mutex_unlock)(pthread_mutex_t *);
  int (*rwlock_rdlock)(pthread_rwlock_t *);
  int (*rwlock_tryrdlock)(pthread_rwlock_t *);
  int (*rwlock_wrlock)(pthread_rwlock_t *);
  int (*rwlock_trywrlock)(pthread_rwlock_t *);
  int (*rwlock_unlock)(pthread_rwlock_t *);
  int (*cond_wait)(pthread_cond_t *, pthread_mutex_t *);
  int (*cond_timedwait)(pthread_cond_t *, pthread_mutex_t *, const timespec *);
  int (*cond_clockwait)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const timespec *);
  int (*cond_signal)(pthread_cond_t *);
  int (*cond_broadcast)(pthread_cond_t *);
  int (*clock_gettime)(clockid_t, timespec *);
  int (*clock_nanosleep)(clockid_t, int, const timespec *, timespec *);
  int (*nanosleep)(const timespec *, timespec *);
  int (*sched_yield)();
  long (*syscall)(long, ...);
};
const Functions &functions() noexcept;

void futex_wait(std::atomic<uint32_t> *word, uint32_t is) noexcept;
void futex_wake(std::atomic<uint32_t> *word) noexcept;

}  // namespace weir::virtual_time::real
