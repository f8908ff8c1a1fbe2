/* SPDX-License-Identifier: Apache-2.0
 *
 * What the template's files know of each other: the state, how a failure is told, the entries that are not in backend.c, and
 * virtual memory (space.c), which is a part of the state with a lock of its own.
 */
#ifndef WEIR_BACKEND_TEMPLATE_H
#define WEIR_BACKEND_TEMPLATE_H

#include <weir/backend.h>

#include <pthread.h>

/* Yours: the runtime's own codes where a call of it failed, so that people can look them up. */
enum {
  NO_ERROR = 0,
  BAD_ARGUMENT,
  BAD_SIZE,
  BAD_DEVICE,
  BAD_ADDRESS,
  BAD_HANDLE,
  NO_DEVICE_MEMORY,
  NO_HOST_MEMORY
};

/* Every failure goes through here: it sets the thread's last code. Success leaves the code alone. */
weir_result fail(weir_result result, int64_t code);

/* ---- what a state owns ---- */

struct space;

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

/* Streams, fences and copies (streams.c): entries of the table. */
void free_queue(struct queue *queue);
weir_result stream_create(weir_be_state *state, uint32_t device, uint64_t flags,
                          weir_be_stream *stream);
weir_result stream_wrap(weir_be_state *state, uint32_t device, void *native,
                        weir_be_stream *stream);
weir_result stream_destroy(weir_be_state *state, weir_be_stream stream);
weir_result stream_native(weir_be_state *state, weir_be_stream stream, void **native);
weir_result stream_synchronize(weir_be_state *state, weir_be_stream stream);
weir_result stream_query(weir_be_state *state, weir_be_stream stream);
weir_result fence_record(weir_be_state *state, weir_be_stream stream, weir_be_fence *fence);
weir_result stream_wait(weir_be_state *state, weir_be_stream stream, weir_be_fence fence);
weir_result fence_poll(weir_be_state *state, weir_be_fence fence);
weir_result fence_wait(weir_be_state *state, weir_be_fence fence, uint64_t timeout_ns);
weir_result fence_destroy(weir_be_state *state, weir_be_fence fence);
weir_result copy_async(weir_be_state *state, weir_be_stream stream, const weir_be_copy *copy);
weir_result fill_async(weir_be_state *state, weir_be_stream stream, uint64_t address, uint8_t value,
                       uint64_t bytes);

/* The unit of physical memory and of addresses. */
#define SPACE_UNIT (UINT64_C(64) << 10)

/* Granules, reserved addresses, and what is mapped where. */
struct space *space_open(uint64_t bytes); /* NULL: the system has no memory for it */
void space_close(struct space *space);    /* ends what is left */
int space_maps(struct space *space, uint64_t address,
               uint64_t bytes); /* whether one mapping has them */

weir_result space_create(struct space *space, uint64_t bytes, uint64_t flags,
                         weir_be_granule *granule);
weir_result space_destroy(struct space *space, weir_be_granule granule, uint64_t *bytes);
weir_result space_reserve(struct space *space, uint64_t bytes, uint64_t alignment,
                          uint64_t *address);
weir_result space_free(struct space *space, uint64_t address, uint64_t bytes);
weir_result space_map(struct space *space, uint64_t address, const weir_be_piece *pieces,
                      uint32_t count);
/* `one`: exactly what one map call made; else all that whole pieces make up. */
weir_result space_unmap(struct space *space, uint64_t address, uint64_t bytes, int one);

#endif
