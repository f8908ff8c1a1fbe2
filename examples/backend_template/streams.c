/* SPDX-License-Identifier: Apache-2.0
 *
 * The template's streams, fences and copies: each operation is done before the call that enqueues it returns. That is
 * legal: a fence then has always passed, and stream_wait has nothing to wait for. Yours: queues of the runtime, which go on
 * while the caller does.
 */
#include "template.h"

#include <stdlib.h>
#include <string.h>

/* ---- streams ---- */

void free_queue(struct queue *queue) {
  pthread_mutex_destroy(&queue->busy);
  free(queue);
}

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

weir_result stream_create(weir_be_state *state, uint32_t device, uint64_t flags,
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
weir_result stream_wrap(weir_be_state *state, uint32_t device, void *native,
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
weir_result stream_destroy(weir_be_state *state, weir_be_stream stream) {
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

weir_result stream_native(weir_be_state *state, weir_be_stream stream, void **native) {
  (void)state;
  if (stream == NULL) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_HANDLE);
  *native = stream->queue;
  return WEIR_SUCCESS;
}

weir_result stream_synchronize(weir_be_state *state, weir_be_stream stream) {
  (void)state;
  if (stream == NULL) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_HANDLE);
  pthread_mutex_lock(&stream->queue->busy); /* another thread's operation may be under way */
  pthread_mutex_unlock(&stream->queue->busy);
  return WEIR_SUCCESS;
}

weir_result stream_query(weir_be_state *state, weir_be_stream stream) {
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

weir_result fence_record(weir_be_state *state, weir_be_stream stream, weir_be_fence *fence) {
  (void)state;
  if (stream == NULL) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_HANDLE);
  *fence = PASSED;
  return WEIR_SUCCESS;
}

static weir_result check_fence(weir_be_fence fence) {
  return fence == PASSED ? WEIR_SUCCESS : fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_HANDLE);
}

/* Yours: enqueues a wait on the stream. The calling thread goes on at once, whether the fence has passed or not. */
weir_result stream_wait(weir_be_state *state, weir_be_stream stream, weir_be_fence fence) {
  (void)state;
  if (stream == NULL) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_HANDLE);
  return check_fence(fence);
}

weir_result fence_poll(weir_be_state *state, weir_be_fence fence) {
  (void)state;
  /* Yours: WEIR_NOT_READY until it has passed, on whatever thread it is asked. */
  return check_fence(fence);
}

weir_result fence_wait(weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns) {
  (void)state, (void)timeout_ns;
  /* Yours: WEIR_ERROR_TIMEOUT when the time is over; 0 asks once and does not wait. */
  return check_fence(fence);
}

weir_result fence_destroy(weir_be_state *state, weir_be_fence fence) {
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

weir_result copy_async(weir_be_state *state, weir_be_stream stream, const weir_be_copy *copy) {
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

weir_result fill_async(weir_be_state *state, weir_be_stream stream, uint64_t address, uint8_t value,
                       uint64_t bytes) {
  if (stream == NULL) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_HANDLE);
  if (bytes == 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_SIZE);
  if (!is_memory(state, address, bytes, 1)) return fail(WEIR_ERROR_INVALID_ARGUMENT, BAD_ADDRESS);
  pthread_mutex_lock(&stream->queue->busy);
  memset((void *)(uintptr_t)address, value, bytes);
  pthread_mutex_unlock(&stream->queue->busy);
  return WEIR_SUCCESS;
}
