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
static weir_result weirpy_on_visit(void *, const weir_arena_range *);

static __thread int32_t weirpy_state = WEIRPY_OUTSIDE;

/* ---- gates ---- */

#define WEIRPY_GONE (-1)
#define WEIRPY_CLOSING (-2)

static __thread int32_t weirpy_closing_now = 0;
static int32_t weirpy_forked = 0;

/* Waits until a gate that is closing has gone or is open again. Not in a callback, which the closing may wait for; not in
 * a child of fork(), where no thread closes. A thread that closes a buffer waits for its pool here, never the other way round:
 * finalizers are put off while a thread closes something. A thread that a callback in turn waits for can't be told from
 * others: hence the bound of two seconds. */
static void weirpy_settled(const weirpy_gate *gate) {
  const struct timespec pause = {0, 50000};
  if (weirpy_state != WEIRPY_OUTSIDE) return;
  if (__atomic_load_n(&weirpy_forked, __ATOMIC_RELAXED)) return;
  for (int i = 0; i < 40000; i++) {
    if (__atomic_load_n(&gate->inside, __ATOMIC_ACQUIRE) != WEIRPY_CLOSING) return;
    nanosleep(&pause, NULL);
  }
}

static int weirpy_enter_one(weirpy_gate *gate) {
  int32_t inside = __atomic_load_n(&gate->inside, __ATOMIC_RELAXED);
  do {
    if (inside == WEIRPY_CLOSING) {
      weirpy_settled(gate);
      inside = __atomic_load_n(&gate->inside, __ATOMIC_RELAXED);
    }
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
  if (__atomic_load_n(&gate->inside, __ATOMIC_RELAXED) == WEIRPY_CLOSING) weirpy_settled(gate);
  if (!__atomic_compare_exchange_n(&gate->inside, &nobody, WEIRPY_CLOSING, 0, __ATOMIC_ACQ_REL,
                                   __ATOMIC_RELAXED))
    return 0;
  weirpy_closing_now++;
  return 1;
}

static void weirpy_settle(weirpy_gate *gate, int32_t outcome) {
  __atomic_store_n(&gate->inside, outcome, __ATOMIC_RELEASE);
  if (weirpy_closing_now > 0) weirpy_closing_now--;
}

void weirpy_gone(weirpy_gate *gate) { weirpy_settle(gate, WEIRPY_GONE); }
void weirpy_reopen(weirpy_gate *gate) { weirpy_settle(gate, 0); }

int32_t weirpy_is_shut(const weirpy_gate *gate) {
  return __atomic_load_n(&gate->inside, __ATOMIC_RELAXED) == WEIRPY_GONE;
}

int32_t weirpy_closing(void) { return weirpy_closing_now; }

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

/* The library refuses to destroy pool and stream while the lease is out, but from the moment the lease is over to the end of
 * the call only their gates keep them. */
int32_t weirpy_release(weirpy_set *set) {
  int entered[2];
  if (weirpy_state == WEIRPY_MAY_NOT_CALL) return WEIRPY_FORBIDDEN;
  for (int i = 0; i < 2; i++) entered[i] = weirpy_enter_one(set->gates[i]);
  weir_lease lease = set->lease;
  set->lease = NULL;
  const weir_result result = weir_release(lease, set->stream);
  for (int i = 0; i < 2; i++)
    if (entered[i]) weirpy_leave_one(set->gates[i]);
  return result;
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
  __atomic_store_n(&weirpy_forked, 1, __ATOMIC_RELAXED);
  weirpy_closing_now = 0;
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

weir_result weirpy_visit(void *user, const weir_arena_range *range) {
  int32_t before;
  weir_result result;
  if (!weirpy_begin(WEIRPY_MAY_CALL, &before)) return WEIR_ERROR_CANCELLED;
  result = weirpy_on_visit(user, range);
  weirpy_finish(before);
  return result;
}
