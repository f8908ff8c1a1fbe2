/* SPDX-License-Identifier: Apache-2.0
 *
 * The bodies of helpers.h. Included once, by the C source that cffi writes, because the Python functions that
 * callbacks lead to are static there. Nothing here holds a lock while it calls out.
 */
#include <stddef.h>
#include <time.h>

static void weirpy_on_log(void *, int32_t, const char *);
static void weirpy_on_host_call(void *);
static void weirpy_on_acquired(void *, weir_result, weir_lease);
static void weirpy_on_lost(void *, const weir_device_loss *);
static int32_t weirpy_on_should_stop(void *);
static weir_result weirpy_on_visit(const weir_arena_range *, void *);

static __thread int32_t weirpy_state = WEIRPY_OUTSIDE;

/* ---- gates ---- */

static int weirpy_enter_one(weirpy_gate *gate) {
  int32_t inside = __atomic_load_n(&gate->inside, __ATOMIC_RELAXED);
  do {
    if (inside < 0) return 0;
  } while (!__atomic_compare_exchange_n(&gate->inside, &inside, inside + 1, 1, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED));
  return 1;
}

static void weirpy_leave_one(weirpy_gate *gate) {
  __atomic_fetch_sub(&gate->inside, 1, __ATOMIC_RELEASE);
}

int32_t weirpy_enter(weirpy_gate *const *gates, uint32_t count, uint32_t *which) {
  if (weirpy_state == WEIRPY_MAY_NOT_CALL) return WEIRPY_FORBIDDEN;
  for (uint32_t i = 0; i < count; i++) {
    if (weirpy_enter_one(gates[i])) continue;
    weirpy_leave(gates, i);
    if (which != NULL) *which = i;
    return WEIRPY_SHUT;
  }
  return 0;
}

void weirpy_leave(weirpy_gate *const *gates, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) weirpy_leave_one(gates[i]);
}

int32_t weirpy_shut(weirpy_gate *gate) {
  int32_t nobody = 0;
  return __atomic_compare_exchange_n(&gate->inside, &nobody, -1, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED);
}

void weirpy_reopen(weirpy_gate *gate) { __atomic_store_n(&gate->inside, 0, __ATOMIC_RELEASE); }

int32_t weirpy_is_shut(const weirpy_gate *gate) {
  return __atomic_load_n(&gate->inside, __ATOMIC_RELAXED) < 0;
}

/* ---- acquire and release ---- */

weirpy_set *weirpy_lay_out(void *block) {
  weirpy_set *set = block;
  set->uses = (weir_use *)(set + 1);
  set->gates = (weirpy_gate **)(set->uses + set->count);
  return set;
}

int32_t weirpy_acquire(weirpy_set *set) {
  int32_t result = weirpy_enter(set->gates, set->gate_count, &set->which);
  if (result != 0) return result;
  result = weir_acquire(set->pool, set->stream, set->uses, set->count, &set->options, &set->lease);
  weirpy_leave(set->gates, set->gate_count);
  return result;
}

/* No gate: the library itself refuses to destroy pool, stream and buffers while the lease is out, and the lease is over
 * before they can go. */
int32_t weirpy_release(weirpy_set *set) {
  if (weirpy_state == WEIRPY_MAY_NOT_CALL) return WEIRPY_FORBIDDEN;
  weir_lease lease = set->lease;
  set->lease = NULL;
  return weir_release(lease, set->stream);
}

int64_t weirpy_measure(weirpy_set *set, uint64_t times) {
  struct timespec begin, end;
  weir_lease lease;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (uint64_t i = 0; i < times; i++) {
    weir_result result =
        weir_acquire(set->pool, set->stream, set->uses, set->count, &set->options, &lease);
    if (result == WEIR_SUCCESS) result = weir_release(lease, set->stream);
    if (result != WEIR_SUCCESS) return result;
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  return (int64_t)(end.tv_sec - begin.tv_sec) * 1000000000 + (end.tv_nsec - begin.tv_nsec);
}

/* ---- callbacks ---- */

/* How many callbacks are in Python, or about to be; and whether no more may begin. Both change in sequentially
 * consistent order: a callback counts itself before it looks, the end closes before it counts. */
static int32_t weirpy_callbacks = 0;
static int32_t weirpy_ended = 0;

int32_t weirpy_within(void) { return weirpy_state; }

void weirpy_end_callbacks(void) {
  __atomic_store_n(&weirpy_ended, 1, __ATOMIC_SEQ_CST);
  const struct timespec pause = {0, 50000};
  while (__atomic_load_n(&weirpy_callbacks, __ATOMIC_SEQ_CST) != 0) nanosleep(&pause, NULL);
}

void weirpy_after_fork(void) {
  __atomic_store_n(&weirpy_callbacks, 0, __ATOMIC_SEQ_CST);
  weirpy_state = WEIRPY_OUTSIDE;
}

static int weirpy_begin(int32_t state, int32_t *before) {
  __atomic_fetch_add(&weirpy_callbacks, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&weirpy_ended, __ATOMIC_SEQ_CST)) {
    __atomic_fetch_sub(&weirpy_callbacks, 1, __ATOMIC_SEQ_CST);
    return 0;
  }
  *before = weirpy_state;
  weirpy_state = state;
  return 1;
}

static void weirpy_finish(int32_t before) {
  weirpy_state = before;
  __atomic_fetch_sub(&weirpy_callbacks, 1, __ATOMIC_SEQ_CST);
}

void weirpy_log(void *user, int32_t level, const char *text) {
  int32_t before;
  if (!weirpy_begin(WEIRPY_MAY_NOT_CALL, &before)) return;
  weirpy_on_log(user, level, text);
  weirpy_finish(before);
}

void weirpy_host_call(void *user) {
  int32_t before;
  if (!weirpy_begin(WEIRPY_MAY_NOT_CALL, &before)) return;
  weirpy_on_host_call(user);
  weirpy_finish(before);
}

void weirpy_acquired(void *user, weir_result result, weir_lease lease) {
  int32_t before;
  if (!weirpy_begin(WEIRPY_MAY_CALL, &before)) return;
  weirpy_on_acquired(user, result, lease);
  weirpy_finish(before);
}

void weirpy_lost(void *user, const weir_device_loss *loss) {
  int32_t before;
  if (!weirpy_begin(WEIRPY_MAY_CALL, &before)) return;
  weirpy_on_lost(user, loss);
  weirpy_finish(before);
}

int32_t weirpy_should_stop(void *user) {
  int32_t before, answer;
  if (!weirpy_begin(WEIRPY_MAY_CALL, &before)) return 1;
  answer = weirpy_on_should_stop(user);
  weirpy_finish(before);
  return answer;
}

weir_result weirpy_visit(const weir_arena_range *range, void *user) {
  int32_t before;
  weir_result result;
  if (!weirpy_begin(WEIRPY_MAY_CALL, &before)) return WEIR_ERROR_CANCELLED;
  result = weirpy_on_visit(range, user);
  weirpy_finish(before);
  return result;
}
