/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole backend, to start your own from: every required entry is in this file, and virtual memory, with runs of
 * granules, in space.c as the example of optional groups. Its one device is CPU memory, and its streams finish each
 * operation before the call that enqueues it returns. That is legal: a fence then has always passed, and stream_wait has
 * nothing to wait for.
 *
 * The file goes from the state to the table, in the order of weir/backend.h. Comments that begin with "Yours:"
 * say what a backend for a real runtime does in that place. docs/backend-guide.md walks through it.
 *
 * Invariants: `blocks`, `queues` and `streams` hold everything that the state owns, and change under `mutex` only.
 * An entry that fails has changed nothing but the thread's last code.
 */
#include "template.h"

#include <pthread.h>
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

/* ---- what a state owns ---- */

/* Memory with an address: of the device, or of the host for copies. */
struct block {
  struct block *next;
  void *memory;
  uint64_t bytes;
  int of_host;
};

/* A stream of "the runtime": what stream_native gives and stream_wrap takes. Its mutex keeps operations one
 * after the other when several threads enqueue. Yours: the runtime has this. */
struct queue {
  struct queue *next;
  pthread_mutex_t busy;
};

/* What Weir holds. It ends its queue when it made it. */
struct weir_be_stream_s {
  struct weir_be_stream_s *next;
  struct queue *queue;
  int made_queue;
};

struct weir_be_state {
  pthread_mutex_t mutex; /* guards what follows; never held during a copy or a callback */
  struct block *blocks;
  struct queue *queues;
  struct weir_be_stream_s *streams;
  uint64_t total, used;
  struct space *space; /* virtual memory, with a lock of its own; its granules count in `used` */
};

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

static void free_queue(struct queue *queue) {
  pthread_mutex_destroy(&queue->busy);
  free(queue);
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

/* ---- streams ---- */

/* Enters a handle for `queue`, which is new if `made_queue` is set. */
static weir_result add_stream(weir_be_state *state, struct queue *queue, int made_queue,
                              weir_be_stream *out) {
  struct weir_be_stream_s *stream = malloc(sizeof *stream);
  if (stream == NULL) return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, NO_HOST_MEMORY);
  pthread_mutex_lock(&state->mutex);
  *stream = (struct weir_be_stream_s){state->streams, queue, made_queue};
  state->streams = stream;
  if (made_queue) {
    queue->next = state->queues;
    state->queues = queue;
  }
  pthread_mutex_unlock(&state->mutex);
  *out = stream;
  return WEIR_SUCCESS;
}

static weir_result stream_create(weir_be_state *state, uint32_t device, uint64_t flags,
                                 weir_be_stream *stream) {
  if (device != 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_DEVICE);
  /* Yours: a queue of a copy engine for WEIR_BE_STREAM_TRANSFER, where copies would run beside kernels no other way. */
  if ((flags & ~WEIR_BE_STREAM_TRANSFER) != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_ARGUMENT);
  struct queue *queue = calloc(1, sizeof *queue);
  if (queue == NULL || pthread_mutex_init(&queue->busy, NULL) != 0) {
    free(queue);
    return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, NO_HOST_MEMORY);
  }
  const weir_result result = add_stream(state, queue, 1, stream);
  if (result != WEIR_SUCCESS) free_queue(queue);
  return result;
}

/* The native stream stays the caller's: this makes a second handle for it. There is no default stream here, so NULL is
 * refused like any other value that names no queue. */
static weir_result stream_wrap(weir_be_state *state, uint32_t device, void *native,
                               weir_be_stream *stream) {
  if (device != 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_DEVICE);
  pthread_mutex_lock(&state->mutex);
  struct queue *queue = state->queues;
  while (queue != NULL && (void *)queue != native) queue = queue->next;
  pthread_mutex_unlock(&state->mutex);
  if (queue == NULL) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_HANDLE);
  return add_stream(state, queue, 0, stream);
}

/* Yours: this should not wait for the stream's work, which goes on, and fences recorded on it must still pass. Hand the
 * native stream to the runtime if it ends streams lazily, else keep it on a list until it is idle. */
static weir_result stream_destroy(weir_be_state *state, weir_be_stream stream) {
  if (stream == NULL) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_HANDLE);
  pthread_mutex_lock(&state->mutex);
  struct weir_be_stream_s **at = &state->streams;
  while (*at != NULL && *at != stream) at = &(*at)->next;
  const int found = *at != NULL;
  if (found) *at = stream->next;
  if (found && stream->made_queue) {
    struct queue **queue = &state->queues;
    while (*queue != stream->queue) queue = &(*queue)->next;
    *queue = stream->queue->next;
  }
  pthread_mutex_unlock(&state->mutex);
  if (!found) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_HANDLE);
  if (stream->made_queue) free_queue(stream->queue);
  free(stream);
  return WEIR_SUCCESS;
}

static weir_result stream_native(weir_be_state *state, weir_be_stream stream, void **native) {
  (void)state;
  if (stream == NULL) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_HANDLE);
  *native = stream->queue;
  return WEIR_SUCCESS;
}

static weir_result stream_synchronize(weir_be_state *state, weir_be_stream stream) {
  (void)state;
  if (stream == NULL) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_HANDLE);
  pthread_mutex_lock(&stream->queue->busy); /* another thread's operation may be under way */
  pthread_mutex_unlock(&stream->queue->busy);
  return WEIR_SUCCESS;
}

static weir_result stream_query(weir_be_state *state, weir_be_stream stream) {
  (void)state;
  if (stream == NULL) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_HANDLE);
  if (pthread_mutex_trylock(&stream->queue->busy) != 0) return WEIR_NOT_READY;
  pthread_mutex_unlock(&stream->queue->busy);
  return WEIR_SUCCESS;
}

/* ---- fences ----
 * What was enqueued before a fence was recorded has finished by then, so one number does for all of them.
 * Yours: an event of the runtime, taken from a list of idle ones and given back by fence_destroy: creating one for each
 * fence is too slow. Recorded once means that a later record never moves a fence that somebody waits for. */
enum { PASSED = 1 };

static weir_result fence_record(weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
  (void)state;
  if (stream == NULL) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_HANDLE);
  *fence = PASSED;
  return WEIR_SUCCESS;
}

static weir_result check_fence(weir_be_fence fence) {
  return fence == PASSED ? WEIR_SUCCESS : fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_HANDLE);
}

/* Yours: enqueues a wait on the stream. The calling thread goes on at once, whether the fence has passed or not. */
static weir_result stream_wait(weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
  (void)state;
  if (stream == NULL) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_HANDLE);
  return check_fence(fence);
}

static weir_result fence_poll(weir_be_state *state, weir_be_fence fence) {
  (void)state;
  /* Yours: WEIR_NOT_READY until it has passed, on whatever thread it is asked. */
  return check_fence(fence);
}

static weir_result fence_wait(weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
  (void)state, (void)timeout_ns;
  /* Yours: WEIR_ERROR_TIMEOUT when the time is over; 0 asks once and does not wait. */
  return check_fence(fence);
}

static weir_result fence_destroy(weir_be_state *state, weir_be_fence fence) {
  (void)state;
  return check_fence(fence);
}

/* ---- copies ---- */

/* Whether the range lies in one block (of the device, if `device_only` is set) or one mapping. Yours: only if the runtime does not check:
 * this is a walk along a list. */
static int is_memory(weir_be_state *state, uint64_t address, uint64_t bytes, int device_only) {
  pthread_mutex_lock(&state->mutex);
  const struct block *each = state->blocks;
  for (; each != NULL; each = each->next) {
    const uint64_t offset = address - (uintptr_t)each->memory; /* wraps, and is too large then */
    if (offset < each->bytes && bytes <= each->bytes - offset && !(device_only && each->of_host))
      break;
  }
  pthread_mutex_unlock(&state->mutex);
  return each != NULL || space_maps(state->space, address, bytes);
}

static weir_result copy_async(weir_be_state *state, weir_be_stream stream,
                              const weir_be_copy *copy) {
  if (stream == NULL || copy == NULL) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_ARGUMENT);
  if (copy->bytes == 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_SIZE);
  if (!is_memory(state, copy->destination, copy->bytes, 0) ||
      !is_memory(state, copy->source, copy->bytes, 0)) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_ADDRESS);
  }
  const uint64_t apart = copy->destination > copy->source ? copy->destination - copy->source
                                                          : copy->source - copy->destination;
  if (apart < copy->bytes) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_ADDRESS);
  pthread_mutex_lock(&stream->queue->busy);
  memcpy((void *)(uintptr_t)copy->destination, (const void *)(uintptr_t)copy->source, copy->bytes);
  pthread_mutex_unlock(&stream->queue->busy);
  return WEIR_SUCCESS;
}

static weir_result fill_async(weir_be_state *state, weir_be_stream stream, uint64_t address,
                              uint8_t value, uint64_t bytes) {
  if (stream == NULL) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_HANDLE);
  if (bytes == 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_SIZE);
  if (!is_memory(state, address, bytes, 1)) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_ADDRESS);
  pthread_mutex_lock(&stream->queue->busy);
  memset((void *)(uintptr_t)address, value, bytes);
  pthread_mutex_unlock(&stream->queue->busy);
  return WEIR_SUCCESS;
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
