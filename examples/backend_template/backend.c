/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole backend, to start your own from. Its one device is CPU memory. Every required entry is in this file or in
 * streams.c, and virtual memory, with runs of granules, in space.c as the example of optional groups.
 *
 * The file goes from the state to the table, in the order of weir/backend.h. Comments that begin with "Yours:"
 * say what a backend for a real runtime does in that place. docs/backend-guide.md walks through it.
 *
 * Invariants: `blocks`, `queues` and `streams` hold everything that the state owns, and change under `mutex` only.
 * An entry that fails has changed nothing but the thread's last code.
 */
#include "template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- failures: a thread's last code, and a sentence for each ---- */

static const char *const texts[] = {
    "no error",
    "an argument is NULL or out of range",
    "a size of 0, or one that is not what was allocated",
    "there is no such device",
    "the addresses are not inside one allocation, or not of the kind that the call needs",
    "the stream or fence is none of this backend",
    "the device has no memory left",
    "the system has no memory left",
};
static _Thread_local int64_t last_code;

weir_result fail(weir_result result, int64_t code) {
  last_code = code;
  return result;
}

/* ---- runtime ---- */

/* A number with K, M or G after it; 0 if it is none. */
static uint64_t parse_size(const char *text, size_t length) {
  uint64_t value = 0, unit = 1;
  size_t i = 0;
  for (; i < length && text[i] >= '0' && text[i] <= '9'; i++) {
    if (value > (UINT64_MAX >> 30) / 10 - 1) return 0;
    value = value * 10 + (uint64_t)(text[i] - '0');
  }
  if (i == 0 || i + 1 < length) return 0;
  if (i < length) {
    const char *units = "KMG", *found = strchr(units, text[i]);
    if (found == NULL) return 0;
    unit = UINT64_C(1024) << 10 * (found - units);
  }
  return value * unit;
}

/* The one option is memory=SIZE. Options that are not understood are refused and named, never passed over:
 * a mistyped one must not go unseen. */
static weir_result read_options(const char *options, uint64_t *memory, const char **reason) {
  static _Thread_local char sentence[200]; /* *reason must outlive the call */
  while (*options != '\0') {
    const size_t length = strcspn(options, ";");
    if (length > 7 && strncmp(options, "memory=", 7) == 0) {
      *memory = parse_size(options + 7, length - 7);
      if (*memory == 0) {
        snprintf(sentence, sizeof sentence, "option \"%.*s\": a size such as 256M is needed",
                 (int)(length < 99 ? length : 99), options);
        *reason = sentence;
        return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_ARGUMENT);
      }
    } else if (length != 0) {
      snprintf(sentence, sizeof sentence, "unknown option \"%.*s\" (known: memory)",
               (int)(length < 99 ? length : 99), options);
      *reason = sentence;
      return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_ARGUMENT);
    }
    options += length + (options[length] == ';');
  }
  return WEIR_SUCCESS;
}

/* Yours: dlopen the runtime here, never link it, so that one binary runs where it is missing. *reason then says what
 * was looked for and what was found. Several states may live at once: keep nothing in globals. */
static weir_result start(const weir_be_start *desc, weir_be_state **out, const char **reason) {
  uint64_t memory = UINT64_C(256) << 20;
  const weir_result result = read_options(desc->options, &memory, reason);
  if (result != WEIR_SUCCESS) return result;
  weir_be_state *state = calloc(1, sizeof *state);
  struct space *space = state != NULL ? space_open(memory) : NULL;
  if (space == NULL || pthread_mutex_init(&state->mutex, NULL) != 0) {
    if (space != NULL) space_close(space);
    free(state);
    *reason = texts[NO_HOST_MEMORY];
    return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, NO_HOST_MEMORY);
  }
  state->total = memory;
  state->space = space;
  *out = state;
  return WEIR_SUCCESS;
}

/* Ends everything that is left, also what the core forgot. */
static void stop(weir_be_state *state) {
  for (struct block *each = state->blocks, *next; each != NULL; each = next) {
    next = each->next;
    free(each->memory);
    free(each);
  }
  for (struct weir_be_stream_s *each = state->streams, *next; each != NULL; each = next) {
    next = each->next;
    free(each);
  }
  for (struct queue *each = state->queues, *next; each != NULL; each = next) {
    next = each->next;
    free_queue(each);
  }
  space_close(state->space);
  pthread_mutex_destroy(&state->mutex);
  free(state);
}

static const char *runtime_version(weir_be_state *state) {
  (void)state;
  return "1.0";
}

static int64_t last_error_code(weir_be_state *state) {
  (void)state;
  return last_code;
}

static const char *error_text(weir_be_state *state, int64_t native) {
  (void)state;
  const int known = native >= 0 && native < (int64_t)(sizeof texts / sizeof *texts);
  return known ? texts[native] : "unknown error code";
}

/* ---- devices ---- */

/* Writes as much of an output structure as the caller has room for: an older core's is shorter. */
static void give(const void *full, size_t size, void *out) {
  uint32_t room;
  memcpy(&room, out, sizeof room);
  memcpy(out, full, room < size ? room : size);
  memcpy(out, &room, sizeof room);
}

static weir_result device_count(weir_be_state *state, uint32_t *count) {
  (void)state;
  *count = 1; /* Yours: where there is none, let start() fail and say so. */
  return WEIR_SUCCESS;
}

static weir_result device_describe(weir_be_state *state, uint32_t device,
                                   weir_be_device *description) {
  if (device != 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_DEVICE);
  weir_be_device full = {0};
  full.numa_node = UINT32_MAX;
  /* Only what is true. These need no group: device memory is CPU memory here, a stream may be used by any thread, and one
   * for copies alone is like any other. A capability with a group (VMM, PEER, ...) is claimed when all entries of it are in
   * the table. */
  full.capabilities = WEIR_CAP_HOST_ACCESS | WEIR_CAP_STREAM_ANY_THREAD | WEIR_CAP_TRANSFER_STREAM;
  /* Virtual memory, and runs. Mapping takes microseconds here, so that any thread may do it. */
  full.capabilities |= WEIR_CAP_VMM | WEIR_CAP_MAP_ANY_THREAD | WEIR_CAP_MAP_RUN;
  full.granule = SPACE_UNIT;
  full.memory_total = state->total;
  snprintf(full.name, sizeof full.name, "CPU memory of the template");
  /* Yours: the runtime's, by which two backends' views of one device are known to be one. */
  memcpy(full.uuid, "weir-template-0", 15);
  give(&full, sizeof full, description);
  return WEIR_SUCCESS;
}

static weir_result device_memory(weir_be_state *state, uint32_t device, uint64_t *free_bytes,
                                 uint64_t *total_bytes) {
  if (device != 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_DEVICE);
  pthread_mutex_lock(&state->mutex);
  *free_bytes = state->total - state->used;
  pthread_mutex_unlock(&state->mutex);
  *total_bytes = state->total;
  return WEIR_SUCCESS;
}

static weir_result link_describe(weir_be_state *state, uint32_t from, uint32_t to,
                                 weir_be_link *link) {
  (void)state;
  if ((from != 0 && from != WEIR_DEVICE_HOST) || (to != 0 && to != WEIR_DEVICE_HOST)) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_DEVICE);
  }
  weir_be_link full = {0};
  full.kind = from == to ? WEIR_LINK_SAME : WEIR_LINK_MEMORY;
  full.hops = from == to ? 0 : 1;
  full.direct = 1; /* Bandwidth and latency stay 0, which is unknown. Never guess. */
  give(&full, sizeof full, link);
  return WEIR_SUCCESS;
}

/* ---- memory ---- */

/* Allocates and enters a block, or changes nothing. What can fail comes first; then nothing is to be undone. */
static weir_result add_block(weir_be_state *state, uint64_t bytes, uint64_t alignment, int of_host,
                             void **memory) {
  if (bytes == 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_SIZE);
  pthread_mutex_lock(&state->mutex);
  const int fits = of_host || bytes <= state->total - state->used;
  if (fits && !of_host) state->used += bytes;
  pthread_mutex_unlock(&state->mutex);
  if (!fits) return fail(WEIR_ERROR_DEVICE_OOM, NO_DEVICE_MEMORY);

  struct block *block = malloc(sizeof *block);
  void *made = NULL;
  const int sane = bytes < UINT64_C(1) << 40; /* more is a mistake: some allocators abort on it */
  if (block == NULL || !sane || posix_memalign(&made, alignment, bytes) != 0) {
    free(block);
    pthread_mutex_lock(&state->mutex);
    if (!of_host) state->used -= bytes;
    pthread_mutex_unlock(&state->mutex);
    /* This device's memory is the system's. Whoever asked for device memory must hear DEVICE_OOM, and no other code: it
     * is what makes Weir evict and ask again. */
    return of_host || block == NULL ? fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, NO_HOST_MEMORY)
                                    : fail(WEIR_ERROR_DEVICE_OOM, NO_DEVICE_MEMORY);
  }
  *block = (struct block){NULL, made, bytes, of_host};
  pthread_mutex_lock(&state->mutex);
  block->next = state->blocks;
  state->blocks = block;
  pthread_mutex_unlock(&state->mutex);
  *memory = made;
  return WEIR_SUCCESS;
}

static weir_result remove_block(weir_be_state *state, const void *memory, uint64_t bytes,
                                int of_host) {
  pthread_mutex_lock(&state->mutex);
  struct block **at = &state->blocks;
  while (*at != NULL && ((*at)->memory != memory || (*at)->of_host != of_host)) at = &(*at)->next;
  struct block *found = *at;
  const weir_result result = found == NULL ? fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_ADDRESS)
                             : found->bytes != bytes ? fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_SIZE)
                                                     : WEIR_SUCCESS;
  if (result == WEIR_SUCCESS) {
    *at = found->next;
    if (!of_host) state->used -= bytes;
  }
  pthread_mutex_unlock(&state->mutex);
  if (result != WEIR_SUCCESS) return result;
  free(found->memory);
  free(found);
  return WEIR_SUCCESS;
}

static weir_result plain_allocate(weir_be_state *state, uint32_t device, uint64_t bytes,
                                  uint64_t alignment, uint64_t *address) {
  if (device != 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_DEVICE);
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > UINT64_C(2) << 20) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_ARGUMENT);
  }
  void *memory;
  const weir_result result = add_block(state, bytes, alignment < 64 ? 64 : alignment, 0, &memory);
  if (result == WEIR_SUCCESS) *address = (uintptr_t)memory;
  return result;
}

static weir_result plain_free(weir_be_state *state, uint32_t device, uint64_t address,
                              uint64_t bytes) {
  if (device != 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_DEVICE);
  return remove_block(state, (const void *)(uintptr_t)address, bytes, 0);
}

/* ---- virtual memory: the group of WEIR_CAP_VMM, and that of WEIR_CAP_MAP_RUN (space.c) ---- */

/* Counts device memory that granules take, or refuses. */
static weir_result charge(weir_be_state *state, uint64_t bytes) {
  pthread_mutex_lock(&state->mutex);
  const int fits = bytes <= state->total - state->used;
  if (fits) state->used += bytes;
  pthread_mutex_unlock(&state->mutex);
  return fits ? WEIR_SUCCESS : fail(WEIR_ERROR_DEVICE_OOM, NO_DEVICE_MEMORY);
}

static void discharge(weir_be_state *state, uint64_t bytes) {
  pthread_mutex_lock(&state->mutex);
  state->used -= bytes;
  pthread_mutex_unlock(&state->mutex);
}

static weir_result granule_create(weir_be_state *state, uint32_t device, uint64_t bytes,
                                  uint64_t flags, weir_be_granule *granule) {
  if (device != 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_DEVICE);
  weir_result result = charge(state, bytes);
  if (result != WEIR_SUCCESS) return result;
  result = space_create(state->space, bytes, flags, granule);
  if (result != WEIR_SUCCESS) discharge(state, bytes);
  return result;
}

static weir_result granule_destroy(weir_be_state *state, uint32_t device, weir_be_granule granule) {
  if (device != 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_DEVICE);
  uint64_t bytes;
  const weir_result result = space_destroy(state->space, granule, &bytes);
  if (result == WEIR_SUCCESS) discharge(state, bytes);
  return result;
}

static weir_result range_reserve(weir_be_state *state, uint32_t device, uint64_t bytes,
                                 uint64_t alignment, uint64_t *address) {
  if (device != 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_DEVICE);
  return space_reserve(state->space, bytes, alignment, address);
}

static weir_result range_free(weir_be_state *state, uint32_t device, uint64_t address,
                              uint64_t bytes) {
  if (device != 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_DEVICE);
  return space_free(state->space, address, bytes);
}

/* Yours: give access to the device and its peers over the whole run in one call of the runtime, if it can do that: it is
 * the dear part of a map. There are no peers here. */
static weir_result map_run(weir_be_state *state, uint32_t device, uint64_t address,
                           const weir_be_piece *pieces, uint32_t count, const uint32_t *peers,
                           uint32_t peer_count) {
  if (device != 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_DEVICE);
  (void)peers;
  if (peer_count != 0) return fail(WEIR_ERROR_NOT_SUPPORTED, BAD_ARGUMENT);
  return space_map(state->space, address, pieces, count);
}

static weir_result map(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                       weir_be_granule granule, uint64_t offset, const uint32_t *peers,
                       uint32_t peer_count) {
  const weir_be_piece piece = {granule, offset, bytes};
  return map_run(state, device, address, &piece, 1, peers, peer_count);
}

static weir_result unmap(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
  if (device != 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_DEVICE);
  return space_unmap(state->space, address, bytes, 1);
}

static weir_result unmap_run(weir_be_state *state, uint32_t device, uint64_t address,
                             uint64_t bytes) {
  if (device != 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_DEVICE);
  return space_unmap(state->space, address, bytes, 0);
}

/* ---- host memory ---- */

/* Yours: memory that the device's copy engines reach, pinned by the runtime for all its devices. */
static weir_result host_allocate(weir_be_state *state, uint64_t bytes, void **memory) {
  return add_block(state, bytes, 4096, 1, memory);
}

static weir_result host_free(weir_be_state *state, void *memory, uint64_t bytes) {
  return remove_block(state, memory, bytes, 1);
}

/* ---- the table: entries that are not named are NULL, which means not supported ---- */

static const weir_backend_table table = {
    .struct_size = sizeof table,
    .abi_major = WEIR_BACKEND_ABI_MAJOR,
    .name = "template",
    .start = start,
    .stop = stop,
    .runtime_version = runtime_version,
    .last_error_code = last_error_code,
    .error_text = error_text,
    .device_count = device_count,
    .device_describe = device_describe,
    .device_memory = device_memory,
    .link_describe = link_describe,
    .granule_create = granule_create,
    .granule_destroy = granule_destroy,
    .range_reserve = range_reserve,
    .range_free = range_free,
    .map = map,
    .unmap = unmap,
    .plain_allocate = plain_allocate,
    .plain_free = plain_free,
    .host_allocate = host_allocate,
    .host_free = host_free,
    .stream_create = stream_create,
    .stream_wrap = stream_wrap,
    .stream_destroy = stream_destroy,
    .stream_native = stream_native,
    .stream_synchronize = stream_synchronize,
    .stream_query = stream_query,
    .fence_record = fence_record,
    .stream_wait = stream_wait,
    .fence_poll = fence_poll,
    .fence_wait = fence_wait,
    .fence_destroy = fence_destroy,
    .copy_async = copy_async,
    .fill_async = fill_async,
    .map_run = map_run,
    .unmap_run = unmap_run,
};

WEIR_API const weir_backend_table *weir_backend_query(uint32_t abi_major) {
  return abi_major == WEIR_BACKEND_ABI_MAJOR ? &table : NULL;
}
