/* SPDX-License-Identifier: Apache-2.0
 *
 * Shims that do more than forward: texts and arrays whose length is asked for first, many calls in one crossing,
 * acquires on the pool's own thread. See shim.h for the rules.
 */
#include <string.h>

#include "_cgo_export.h"
#include "shim.h"

#define POOL(handle) ((weir_pool)(handle))
#define STREAM(handle) ((weir_stream)(handle))
#define BUFFER(handle) ((weir_buffer)(handle))

static weirgo_error *out_of_memory(void) { return weirgo_check(WEIR_ERROR_OUT_OF_HOST_MEMORY); }

/* What is longer than it was when it was asked for comes INCOMPLETE, and is asked for again. Nothing else that is no
 * error is an answer. */
static weirgo_error *unfinished(weir_result result) {
  return weirgo_check(result < 0 ? result : WEIR_ERROR_INTERNAL);
}

/* ---- texts ---- */

typedef weir_result (*text_function)(uintptr_t handle, uint32_t format, char *text, size_t capacity,
                                     size_t *needed);

static weirgo_error *whole_text(text_function function, uintptr_t handle, uint32_t format,
                                char **text, size_t *length) {
  size_t needed = 0;
  weir_result result = function(handle, format, NULL, 0, &needed);
  if (result != WEIR_SUCCESS) return unfinished(result);
  do {
    const size_t capacity = needed + needed / 8 + 64;
    char *own = malloc(capacity);
    if (own == NULL) return out_of_memory();
    result = function(handle, format, own, capacity, &needed);
    if (result == WEIR_SUCCESS) {
      *text = own;
      *length = needed - 1;
      return NULL;
    }
    free(own);
  } while (result == WEIR_INCOMPLETE);
  return unfinished(result);
}

static weir_result topology_text(uintptr_t handle, uint32_t format, char *text, size_t capacity,
                                 size_t *needed) {
  return weir_topology_export((weir_context)handle, format, text, capacity, needed);
}

static weir_result snapshot_text(uintptr_t handle, uint32_t format, char *text, size_t capacity,
                                 size_t *needed) {
  (void)format;
  return weir_pool_snapshot(POOL(handle), text, capacity, needed);
}

static weir_result metrics_text(uintptr_t handle, uint32_t format, char *text, size_t capacity,
                                size_t *needed) {
  (void)format;
  return weir_metrics_text((weir_context)handle, text, capacity, needed);
}

typedef struct of_pool {
  weir_pool pool;
  weir_buffer buffer;
} of_pool;

static weir_result name_text(uintptr_t handle, uint32_t format, char *text, size_t capacity,
                             size_t *needed) {
  const of_pool *of = (const of_pool *)handle;
  (void)format;
  return weir_buffer_name(of->pool, of->buffer, text, capacity, needed);
}

weirgo_error *weirgo_topology_export(uintptr_t context, uint32_t format, char **text,
                                     size_t *length) {
  return whole_text(topology_text, context, format, text, length);
}

weirgo_error *weirgo_pool_snapshot(uintptr_t pool, char **text, size_t *length) {
  return whole_text(snapshot_text, pool, 0, text, length);
}

weirgo_error *weirgo_metrics_text(uintptr_t context, char **text, size_t *length) {
  return whole_text(metrics_text, context, 0, text, length);
}

weirgo_error *weirgo_buffer_name(uintptr_t pool, uintptr_t buffer, char **text, size_t *length) {
  const of_pool of = {POOL(pool), BUFFER(buffer)};
  return whole_text(name_text, (uintptr_t)&of, 0, text, length);
}

/* What is longer than it was when it was asked for is refused, and is asked for again. */
weirgo_error *weirgo_pool_policy_save(uintptr_t pool, void **bytes, uint64_t *size) {
  uint64_t needed = 0;
  weir_result result = weir_pool_policy_save(POOL(pool), NULL, 0, &needed);
  while (result == WEIR_SUCCESS) {
    const uint64_t capacity = needed + needed / 8;
    void *own = malloc(capacity);
    if (own == NULL) return out_of_memory();
    result = weir_pool_policy_save(POOL(pool), own, capacity, &needed);
    if (result == WEIR_SUCCESS) {
      *bytes = own;
      *size = needed;
      return NULL;
    }
    free(own);
    if (result == WEIR_ERROR_INVALID_ARGUMENT && needed > capacity) result = WEIR_SUCCESS;
  }
  return unfinished(result);
}

/* ---- arrays, likewise ---- */

typedef weir_result (*array_function)(uintptr_t handle, void *items, size_t capacity,
                                      size_t *count);

static weirgo_error *whole_array(array_function function, uintptr_t handle, size_t item,
                                 void **items, size_t *count) {
  size_t needed = 0;
  weir_result result = function(handle, NULL, 0, &needed);
  if (result != WEIR_SUCCESS) return unfinished(result);
  do {
    const size_t capacity = needed + needed / 8 + 8;
    void *own = calloc(capacity, item);
    if (own == NULL) return out_of_memory();
    result = function(handle, own, capacity, &needed);
    if (result == WEIR_SUCCESS) {
      *items = own;
      *count = needed;
      return NULL;
    }
    free(own);
  } while (result == WEIR_INCOMPLETE);
  return unfinished(result);
}

static weir_result lost_ranges(uintptr_t handle, void *items, size_t capacity, size_t *count) {
  return weir_pool_lost_ranges(POOL(handle), items, capacity, count);
}

static weir_result pieces_of(uintptr_t handle, void *items, size_t capacity, size_t *count) {
  return weir_pool_map(POOL(handle), items, capacity, count);
}

weirgo_error *weirgo_pool_lost_ranges(uintptr_t pool, weir_lost_range **ranges, size_t *count) {
  return whole_array(lost_ranges, pool, sizeof **ranges, (void **)ranges, count);
}

weirgo_error *weirgo_pool_map(uintptr_t pool, weir_piece **pieces, size_t *count) {
  return whole_array(pieces_of, pool, sizeof **pieces, (void **)pieces, count);
}

static weir_result shards_of(uintptr_t handle, void *items, size_t capacity, size_t *count) {
  const of_pool *of = (const of_pool *)handle;
  return weir_buffer_shards(of->pool, of->buffer, 0, items, capacity, count);
}

weirgo_error *weirgo_buffer_shards(uintptr_t pool, uintptr_t buffer, weir_shard **shards,
                                   size_t *count) {
  const of_pool of = {POOL(pool), BUFFER(buffer)};
  return whole_array(shards_of, (uintptr_t)&of, sizeof **shards, (void **)shards, count);
}

typedef struct range_list {
  weir_arena_range *ranges;
  size_t count;
  size_t capacity;
} range_list;

static weir_result append_range(void *user, const weir_arena_range *range) {
  range_list *list = user;
  if (list->count == list->capacity) {
    const size_t capacity = list->capacity * 2 + 16;
    weir_arena_range *grown = realloc(list->ranges, capacity * sizeof *grown);
    if (grown == NULL) return WEIR_ERROR_OUT_OF_HOST_MEMORY;
    list->ranges = grown;
    list->capacity = capacity;
  }
  list->ranges[list->count++] = *range;
  return WEIR_SUCCESS;
}

weirgo_error *weirgo_arena_ranges(uintptr_t arena, weir_arena_range **ranges, size_t *count) {
  range_list list = {NULL, 0, 0};
  const weir_result result = weir_arena_walk((weir_arena)arena, append_range, &list);
  if (result != WEIR_SUCCESS) {
    free(list.ranges);
    return weirgo_check(result);
  }
  *ranges = list.ranges;
  *count = list.count;
  return NULL;
}

/* ---- many in one crossing ---- */

weirgo_error *weirgo_buffer_place(uintptr_t pool, const weir_buffer_desc *descs, size_t count,
                                  const uint32_t *users, uint32_t *homes) {
  weir_buffer_desc *own = calloc(count + 1, sizeof *own);
  const weir_buffer_desc **list = calloc(count + 1, sizeof *list);
  weirgo_error *error = NULL;
  if (own == NULL || list == NULL) {
    error = out_of_memory();
  } else {
    for (size_t i = 0; i < count; i++) {
      own[i] = descs[i];
      own[i].users = own[i].user_count != 0 ? users : NULL;
      users += own[i].user_count;
      list[i] = &own[i];
    }
    error = weirgo_check(weir_buffer_place(POOL(pool), list, count, homes));
  }
  free(list);
  free(own);
  return error;
}

weirgo_error *weirgo_read_many(uintptr_t pool, const weirgo_transfer *transfers, size_t count,
                               char *bytes, size_t *done) {
  for (*done = 0; *done < count; ++*done) {
    const weirgo_transfer *t = &transfers[*done];
    weir_result result = WEIR_SUCCESS;
    if (t->length != 0) /* the library refuses to do nothing */
      result = weir_buffer_read(POOL(pool), BUFFER(t->buffer), t->offset, t->length, bytes);
    if (result < 0) return weirgo_check(result);
    bytes += t->length;
  }
  return NULL;
}

weirgo_error *weirgo_write_many(uintptr_t pool, const weirgo_transfer *transfers, size_t count,
                                const char *bytes, size_t *done) {
  for (*done = 0; *done < count; ++*done) {
    const weirgo_transfer *t = &transfers[*done];
    weir_result result = WEIR_SUCCESS;
    if (t->length != 0) /* the library refuses to do nothing */
      result = weir_buffer_write(POOL(pool), BUFFER(t->buffer), t->offset, t->length, bytes);
    if (result < 0) return weirgo_check(result);
    bytes += t->length;
  }
  return NULL;
}

weirgo_error *weirgo_announce(uintptr_t pool, uintptr_t stream, const uint64_t *use_counts,
                              const uint32_t *ids, size_t count, const weirgo_use *uses,
                              uint64_t flags) {
  weir_operation *operations = calloc(count + 1, sizeof *operations);
  weirgo_error *error;
  if (operations == NULL) return out_of_memory();
  for (size_t i = 0; i < count; i++) {
    operations[i] = (weir_operation)WEIR_OPERATION_INIT;
    operations[i].operation_id = ids[i];
    operations[i].uses = (const weir_use *)uses;
    operations[i].use_count = use_counts[i];
    uses += use_counts[i];
  }
  error = weirgo_check(weir_announce(POOL(pool), STREAM(stream), operations, count, flags));
  free(operations);
  return error;
}

/* ---- steps: acquire, host call, release ---- */

typedef struct step_call {
  uintptr_t call;
  size_t count;
  uint64_t addresses[];
} step_call;

static void run_step(void *user) {
  step_call *own = user;
  weirgoRunStep(own->call, own->addresses, own->count);
  free(own);
}

/* Enqueues the step's call with the addresses of its uses, which may run before this returns. */
static weir_result enqueue_step(uintptr_t stream, const weirgo_step *step, const weirgo_use *uses) {
  weir_result result;
  step_call *own;
  if (step->call == 0) return WEIR_SUCCESS;
  own = malloc(sizeof *own + step->use_count * sizeof own->addresses[0]);
  if (own == NULL) return WEIR_ERROR_OUT_OF_HOST_MEMORY;
  own->call = step->call;
  own->count = step->use_count;
  for (size_t i = 0; i < step->use_count; i++) own->addresses[i] = uses[i].address;
  result = weir_stream_host_call(STREAM(stream), run_step, own);
  if (result < 0) free(own);
  return result;
}

weirgo_error *weirgo_run(uintptr_t pool, uintptr_t stream, const weirgo_step *steps, size_t count,
                         weirgo_use *uses, size_t *done, int32_t *state) {
  *state = 0;
  for (*done = 0; *done < count; ++*done) {
    const weirgo_step *step = &steps[*done];
    weir_lease lease = NULL;
    weirgo_error *error;
    weir_result result =
        weir_acquire(POOL(pool), STREAM(stream), (weir_use *)uses, step->use_count, NULL, &lease);
    if (result < 0) return *state = 0, weirgo_check(result);
    error = weirgo_check(enqueue_step(stream, step, uses));
    *state = error != NULL ? 1 : 2;
    result = weir_release(lease, STREAM(stream));
    if (error != NULL) return error;
    if (result < 0) return weirgo_check(result);
    uses += step->use_count;
  }
  return NULL;
}

/* ---- acquires on the pool's thread ---- */

struct weirgo_request {
  weir_request request;
  uintptr_t waiter;
  size_t count;
  weirgo_use uses[];
};

/* The block is the waiter's again with this call: it must not be touched after it. */
static void acquired(void *user, weir_result result, weir_lease lease) {
  const weirgo_request *own = user;
  weirgoAcquired(own->waiter, (uintptr_t)lease, weirgo_check(result));
}

weirgo_error *weirgo_acquire_async(uintptr_t pool, uintptr_t stream, const weirgo_use *uses,
                                   size_t count, uint32_t operation, uint64_t flags,
                                   uint64_t timeout_ns, uintptr_t waiter,
                                   weirgo_request **request) {
  weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
  const size_t uses_bytes = count * sizeof *uses;
  weirgo_request *own = malloc(sizeof *own + uses_bytes);
  weir_request handle = NULL;
  weir_result result;
  if (own == NULL) return out_of_memory();
  own->request = NULL;
  own->waiter = waiter;
  own->count = count;
  memcpy(own->uses, uses, uses_bytes);
  options.flags = flags;
  options.timeout_ns = timeout_ns;
  options.operation_id = operation;
  result = weir_acquire_async(POOL(pool), STREAM(stream), (weir_use *)own->uses, count, &options,
                              acquired, own, &handle);
  if (result < 0) {
    weirgo_error *error = weirgo_check(result);
    free(own);
    return error;
  }
  /* The block outlives the callback: it ends in weirgo_request_end, which the caller of this calls. */
  own->request = handle;
  *request = own;
  return NULL;
}

void weirgo_request_cancel(weirgo_request *request) { (void)weir_request_cancel(request->request); }

void weirgo_request_end(weirgo_request *request, weirgo_use *uses) {
  memcpy(uses, request->uses, request->count * sizeof *uses);
  weir_request_close(request->request);
  free(request);
}

/* ---- for tests: what grows whenever it is looked at ---- */

/* *(size_t *)handle is how often it has been asked. */
static size_t grown(uintptr_t handle) {
  size_t length = 16;
  for (size_t i = ++*(size_t *)handle; i != 0 && length < 1000; i--) length *= 3;
  return length;
}

static weir_result growing_text(uintptr_t handle, uint32_t format, char *text, size_t capacity,
                                size_t *needed) {
  const size_t length = grown(handle);
  *needed = length + 1;
  if (capacity == 0) return format == 0 ? WEIR_SUCCESS : WEIR_NOT_READY;
  memset(text, 'x', capacity);
  text[capacity <= length ? capacity - 1 : length] = 0;
  return capacity <= length ? WEIR_INCOMPLETE : WEIR_SUCCESS;
}

static weir_result growing_array(uintptr_t handle, void *items, size_t capacity, size_t *count) {
  uint64_t *own = items;
  *count = grown(handle);
  for (size_t i = 0; i < *count && i < capacity; i++) own[i] = i;
  return capacity != 0 && capacity < *count ? WEIR_INCOMPLETE : WEIR_SUCCESS;
}

weirgo_error *weirgo_growing_text(uint32_t format, char **text, size_t *length) {
  size_t asked = 0;
  return whole_text(growing_text, (uintptr_t)&asked, format, text, length);
}

weirgo_error *weirgo_growing_array(uint64_t **numbers, size_t *count) {
  size_t asked = 0;
  return whole_array(growing_array, (uintptr_t)&asked, sizeof **numbers, (void **)numbers, count);
}
