/* SPDX-License-Identifier: Apache-2.0
 *
 * What the binding adds to the C API: gates, the fast path of acquire and release, and callbacks that can't
 * meet an interpreter that is gone. It is compiled into the cffi module, which reads the part between the
 * marks; every function here runs without the GIL and never calls Python but through the gate of callbacks.
 *
 * Gates: the C API forbids using a handle while another thread destroys it. Python's users may not crash by
 * that, so each object has a gate. A call enters the gates of all objects it names, and leaves them; closing
 * an object shuts its gate, which fails while a call is inside. Both cost an atomic operation. Between the shutting
 * and its outcome (gone, or opened again because the library says BUSY) the gate is closing: a call that comes then waits for
 * the outcome, so that no caller is told that an object is closed which goes on. Calls that the closing may itself be waiting
 * for do not wait long, or at all: see weirpy_settled.
 */
#ifndef WEIR_PYTHON_HELPERS_H
#define WEIR_PYTHON_HELPERS_H

#include <weir/weir.h>

/* cdef begin */
typedef struct weirpy_gate {
  int32_t inside; /* calls under way; -1: gone, -2: closing */
} weirpy_gate;

/* Answers of the functions below, beside a weir_result: no value of that. */
#define WEIRPY_SHUT 1001      /* an object is closed */
#define WEIRPY_FORBIDDEN 1002 /* called within a callback that may not call Weir */

/* Enters all of them or none. *which (may be NULL) tells the first that is shut. */
int32_t weirpy_enter(weirpy_gate *const *gates, uint32_t count, uint32_t *which);
void weirpy_leave(weirpy_gate *const *gates, uint32_t count);
/* 1: closing now, by this thread; 0: a call is inside, or it has gone or is going. */
int32_t weirpy_shut(weirpy_gate *gate);
/* The outcome of a weirpy_shut that gave 1, on the same thread: gone for good, or open as before. */
void weirpy_gone(weirpy_gate *gate);
void weirpy_reopen(weirpy_gate *gate);
/* Whether it has gone. */
int32_t weirpy_is_shut(const weirpy_gate *gate);
/* How many objects this thread is closing. */
int32_t weirpy_closing(void);

/* All that an acquire needs, laid out once. gates: pool, stream, then the buffers. */
typedef struct weirpy_set {
  weir_pool pool;
  weir_stream stream;
  weir_use *uses;
  uint64_t count;
  weir_acquire_options options;
  weirpy_gate **gates;
  uint32_t gate_count;
  uint32_t which;   /* out: the gate that was shut */
  weir_lease lease; /* out; NULL while none is out */
} weirpy_set;

/* A block of a set, its uses and its gates in a row: sets the two pointers. */
weirpy_set *weirpy_lay_out(void *block);
int32_t weirpy_acquire(weirpy_set *set);
/* Releases set->lease on the set's stream, within the gates of pool and stream. Where one has gone, the handle was another language's and
 * is there still: the library lets none go while the lease is out. */
int32_t weirpy_release(weirpy_set *set);
/* n times acquire and release in C: the yardstick for the calls from Python. Returns nanoseconds, or a negative result. */
int64_t weirpy_measure(weirpy_set *set, uint64_t times);

/* What the thread is in the middle of: nothing, a callback that may call Weir, one that may not. */
#define WEIRPY_OUTSIDE 0
#define WEIRPY_MAY_CALL 1
#define WEIRPY_MAY_NOT_CALL 2
int32_t weirpy_within(void);

/* Before the interpreter ends: no callback begins after this, and it returns when none is running. */
void weirpy_end_callbacks(void);
/* In a child of fork(): callbacks that ran at that moment run no more. */
void weirpy_after_fork(void);

/* What libweir is given. Each passes the gate of callbacks and calls its Python function. */
void weirpy_log(void *user, int32_t level, const char *text);
void weirpy_host_call(void *user);
void weirpy_acquired(void *user, weir_result result, weir_lease lease);
void weirpy_lost(void *user, const weir_device_loss *loss);
int32_t weirpy_should_stop(void *user);
weir_result weirpy_visit(void *user, const weir_arena_range *range);
/* cdef end */

#endif /* WEIR_PYTHON_HELPERS_H */
