/* SPDX-License-Identifier: Apache-2.0
 *
 * The C side of the Go binding. A shim exists where Go can't call the library as it is, for one of three reasons:
 * the last error belongs to the OS thread, and a goroutine may be on another one by its next call, so it is fetched in
 * the call that failed; a descriptor points to arrays, and Go memory handed to C must hold no Go pointers, so they
 * come as arguments of their own; several calls are worth one crossing. Every shim that can fail returns NULL, or an
 * error of malloc that the caller frees. Handles are uintptr_t, so that what holds them is no pointer to Go's eyes:
 * arrays of weirgo_use need no scan by cgo's checks. No shim keeps a pointer into Go memory after it has returned.
 */
#ifndef WEIRGO_SHIM_H
#define WEIRGO_SHIM_H

#include <stdint.h>
#include <stdlib.h>
#include <weir/weir.h>

typedef struct weirgo_error {
  int32_t result;
  uint32_t tier;
  uint32_t device;
  uint32_t constant; /* 1: not of malloc, must not be freed */
  uint64_t asked;
  uint64_t available;
  uint64_t short_by;
  uint64_t use_index;
  int64_t native_code;
  const char *message; /* in the same block */
  char *report;        /* NULL, or a block of its own that ends with the error */
} weirgo_error;

/* weir_use, with its handle as a number; shim.c asserts that the two are laid out alike. */
typedef struct weirgo_use {
  uintptr_t buffer;
  uint64_t offset;
  uint64_t length;
  uint32_t mode;
  uint32_t flags;
  uint64_t address;
  uint64_t reserved[3];
} weirgo_use;

weirgo_error *weirgo_check(weir_result result);
void weirgo_error_free(weirgo_error *error);
/* Whether errors have reports from now on; what was so before. */
int32_t weirgo_error_reports(int32_t on);

/* ---- context ---- */
weirgo_error *weirgo_context_create(weir_context_desc *desc, uintptr_t log, uintptr_t *context);
weirgo_error *weirgo_context_destroy(uintptr_t context);
weirgo_error *weirgo_backend_count(uintptr_t context, uint32_t *count);
weirgo_error *weirgo_backend_info(uintptr_t context, uint32_t index, weir_backend_info *info);
weirgo_error *weirgo_device_count(uintptr_t context, uint32_t *count);
weirgo_error *weirgo_native_memory(uintptr_t context, uint32_t device, uint64_t address,
                                   uint32_t kind, void *out);
weirgo_error *weirgo_device_find(uintptr_t context, const char *wish, uint32_t *device);
weirgo_error *weirgo_device_info(uintptr_t context, uint32_t device, weir_device_info *info);
weirgo_error *weirgo_link_info(uintptr_t context, uint32_t from, uint32_t to, weir_link_info *info);
/* Texts are of malloc and the caller's; *length is without the NUL. */
weirgo_error *weirgo_topology_export(uintptr_t context, uint32_t format, char **text,
                                     size_t *length);
weirgo_error *weirgo_calibrate(uintptr_t context, const weir_calibrate_desc *desc,
                               weir_calibrate_report *report);
weirgo_error *weirgo_trace_start(uintptr_t context, uint32_t kind, const char *path,
                                 uint64_t max_bytes);
weirgo_error *weirgo_trace_stop(uintptr_t context, uint32_t kind);
weirgo_error *weirgo_metrics_text(uintptr_t context, char **text, size_t *length);

/* ---- streams ---- */
weirgo_error *weirgo_stream_create(uintptr_t context, uint32_t device, uintptr_t *stream);
weirgo_error *weirgo_stream_wrap(uintptr_t context, uint32_t device, uintptr_t native,
                                 uintptr_t *stream);
weirgo_error *weirgo_stream_close(uintptr_t stream);
weirgo_error *weirgo_stream_native(uintptr_t stream, uintptr_t *native);
weirgo_error *weirgo_stream_synchronize(uintptr_t stream);
weirgo_error *weirgo_stream_query(uintptr_t stream, int32_t *ready);
weirgo_error *weirgo_stream_host_call(uintptr_t stream, uintptr_t call);

/* ---- pools and clients ---- */
weirgo_error *weirgo_pool_create(uintptr_t context, const weir_pool_desc *desc,
                                 const weir_pool_device *devices, uintptr_t *pool);
weirgo_error *weirgo_pool_destroy(uintptr_t pool);
weirgo_error *weirgo_pool_add_device(uintptr_t pool, const weir_pool_device *device);
weirgo_error *weirgo_pool_remove_device(uintptr_t pool, uint32_t device, uint64_t timeout_ns);
weirgo_error *weirgo_pool_cancel_remove(uintptr_t pool, uint32_t device);
weirgo_error *weirgo_pool_rebalance(uintptr_t pool, uint64_t bytes, uint64_t *moved);
weirgo_error *weirgo_pool_set_loss_callback(uintptr_t pool, uintptr_t callback);
weirgo_error *weirgo_pool_lost_ranges(uintptr_t pool, weir_lost_range **ranges, size_t *count);
weirgo_error *weirgo_pool_trim(uintptr_t pool, uint32_t device, uint32_t level, uint64_t bytes,
                               uint64_t *freed);
weirgo_error *weirgo_pool_defragment(uintptr_t pool, weir_defragment_desc *desc,
                                     uintptr_t should_stop, weir_defragment_report *report);
weirgo_error *weirgo_pool_set_defragmentation(uintptr_t pool,
                                              const weir_defragmentation_desc *desc);
/* *bytes is C memory. */
weirgo_error *weirgo_pool_policy_save(uintptr_t pool, void **bytes, uint64_t *size);
weirgo_error *weirgo_pool_policy_load(uintptr_t pool, const void *bytes, uint64_t size);
weirgo_error *weirgo_operation_id(uintptr_t pool, const char *name, uint32_t *id);
weirgo_error *weirgo_pool_stats(uintptr_t pool, weir_pool_stats *stats);
weirgo_error *weirgo_pool_codec_stats(uintptr_t pool, weir_codec_stats *stats);
weirgo_error *weirgo_pool_device_stats(uintptr_t pool, uint32_t device,
                                       weir_pool_device_stats *stats);
weirgo_error *weirgo_pool_reset_peak(uintptr_t pool, uint32_t device);
weirgo_error *weirgo_pool_snapshot(uintptr_t pool, char **text, size_t *length);
weirgo_error *weirgo_pool_map(uintptr_t pool, weir_piece **pieces, size_t *count);
/* The names of weir_pool_stats's counters in their order, NULL beyond the last. */
const char *weirgo_stats_name(size_t index);
weirgo_error *weirgo_client_create(uintptr_t pool, const weir_client_desc *desc, uintptr_t *client);
weirgo_error *weirgo_client_destroy(uintptr_t client);
weirgo_error *weirgo_client_stats(uintptr_t client, weir_client_stats *stats);

/* ---- buffers ---- */
/* `name` and `shards` may be NULL; the latter's arrays are `devices` and `weights`, of which the latter may be NULL. */
weirgo_error *weirgo_buffer_create(uintptr_t pool, const weir_buffer_desc *desc, uintptr_t client,
                                   const uint32_t *users, const char *name,
                                   const weir_shard_desc *shards, const uint32_t *devices,
                                   const uint32_t *weights, uintptr_t *buffer);
/* The whole layout; of malloc and the caller's. */
weirgo_error *weirgo_buffer_shards(uintptr_t pool, uintptr_t buffer, weir_shard **shards,
                                   size_t *count);
/* descs[i].user_count entries of `users` belong to descs[i], in order. */
weirgo_error *weirgo_buffer_place(uintptr_t pool, const weir_buffer_desc *descs, size_t count,
                                  const uint32_t *users, uint32_t *homes);
weirgo_error *weirgo_buffer_destroy(uintptr_t pool, uintptr_t buffer);
weirgo_error *weirgo_buffer_info(uintptr_t pool, uintptr_t buffer, uint64_t offset, uint64_t length,
                                 weir_buffer_info *info);
weirgo_error *weirgo_buffer_read(uintptr_t pool, uintptr_t buffer, uint64_t offset, uint64_t length,
                                 void *out);
weirgo_error *weirgo_buffer_write(uintptr_t pool, uintptr_t buffer, uint64_t offset,
                                  uint64_t length, const void *in);
weirgo_error *weirgo_advise(uintptr_t pool, uintptr_t buffer, uint64_t offset, uint64_t length,
                            uint32_t advice);
weirgo_error *weirgo_discard(uintptr_t pool, uintptr_t buffer, uint64_t offset, uint64_t length);
weirgo_error *weirgo_buffer_set_name(uintptr_t pool, uintptr_t buffer, const char *name);
/* As the other texts are. */
weirgo_error *weirgo_buffer_name(uintptr_t pool, uintptr_t buffer, char **text, size_t *length);
weirgo_error *weirgo_buffer_set_priority(uintptr_t pool, uintptr_t buffer, int32_t priority);
weirgo_error *weirgo_hold(uintptr_t pool, uintptr_t buffer, uint32_t device, uint32_t mode,
                          uint64_t flags, uint64_t *address);
weirgo_error *weirgo_unhold(uintptr_t pool, uintptr_t buffer);
weirgo_error *weirgo_host_register(uintptr_t pool, uintptr_t buffer, void *memory, uint64_t flags);
weirgo_error *weirgo_host_unregister(uintptr_t pool, uintptr_t buffer);
weirgo_error *weirgo_malloc(uintptr_t pool, uint32_t device, uintptr_t stream, uint64_t size,
                            uint64_t *address);
weirgo_error *weirgo_free(uintptr_t pool, uintptr_t stream, uint64_t address);

typedef struct weirgo_transfer {
  uintptr_t buffer;
  uint64_t offset;
  uint64_t length;
} weirgo_transfer;
/* Many reads or writes; the bytes lie one after another in `bytes`. *done is how many succeeded before the first failure. */
weirgo_error *weirgo_read_many(uintptr_t pool, const weirgo_transfer *transfers, size_t count,
                               char *bytes, size_t *done);
weirgo_error *weirgo_write_many(uintptr_t pool, const weirgo_transfer *transfers, size_t count,
                                const char *bytes, size_t *done);

/* ---- leases ---- */
weirgo_error *weirgo_release(uintptr_t lease, uintptr_t stream);

/* A lease and what its calls need. They answer here, since a result of a function of C costs Go a tenth of a call, and are
 * inline, since a call from C to C shows too. */
typedef struct weirgo_one {
  uintptr_t lease; /* 0: none */
  uintptr_t error; /* weirgo_error * of the last call, 0: none */
  uintptr_t stream;
  uintptr_t pool;
  weirgo_use use; /* where that is the only one */
} weirgo_one;
/* `operation` is a number of weir_operation_id, 0: none. */
static inline void weirgo_acquire_set(weirgo_one *one, weirgo_use *uses, size_t count,
                                      uint32_t operation) {
  weir_acquire_options options = WEIR_ACQUIRE_OPTIONS_INIT;
  weir_result result;
  options.operation_id = operation;
  result = weir_acquire((weir_pool)one->pool, (weir_stream)one->stream, (weir_use *)uses, count,
                        operation != 0 ? &options : NULL, (weir_lease *)&one->lease);
  if (result != WEIR_SUCCESS) one->error = (uintptr_t)weirgo_check(result);
}
static inline void weirgo_acquire_one(weirgo_one *one) {
  const weir_result result =
      weir_acquire((weir_pool)one->pool, (weir_stream)one->stream, (weir_use *)&one->use, 1, NULL,
                   (weir_lease *)&one->lease);
  if (result != WEIR_SUCCESS) one->error = (uintptr_t)weirgo_check(result);
}
static inline void weirgo_release_one(weirgo_one *one) {
  const weir_result result = weir_release((weir_lease)one->lease, (weir_stream)one->stream);
  if (result != WEIR_SUCCESS) one->error = (uintptr_t)weirgo_check(result);
}

typedef struct weirgo_request weirgo_request;
/* Acquires on the pool's thread; weirgoAcquired(waiter, ...) is called once when it has ended. */
weirgo_error *weirgo_acquire_async(uintptr_t pool, uintptr_t stream, const weirgo_use *uses,
                                   size_t count, uint32_t operation, uint64_t flags,
                                   uint64_t timeout_ns, uintptr_t waiter, weirgo_request **request);
void weirgo_request_cancel(weirgo_request *request);
/* After weirgoAcquired was called: copies the uses with their addresses out, and ends the request. */
void weirgo_request_end(weirgo_request *request, weirgo_use *uses);

/* One step of weirgo_run: acquires `use_count` of the uses, from the first that is not another step's, lets the stream
 * run `call`, and releases. */
typedef struct weirgo_step {
  uint64_t use_count;
  uintptr_t call; /* 0: none */
} weirgo_step;
/* *done is how many steps were taken; *state of the one after is told where that failed: 0 in its acquire, 1 in its
 * host call (its lease has ended), 2 in its release (its call is enqueued, and its lease has ended). */
weirgo_error *weirgo_run(uintptr_t pool, uintptr_t stream, const weirgo_step *steps, size_t count,
                         weirgo_use *uses, size_t *done, int32_t *state);

weirgo_error *weirgo_prefetch(uintptr_t pool, uintptr_t stream, const weirgo_use *uses,
                              size_t count);
/* use_counts[i] of the uses belong to operation i, in order; ids[i] is a number of weir_operation_id, 0: none. */
weirgo_error *weirgo_announce(uintptr_t pool, uintptr_t stream, const uint64_t *use_counts,
                              const uint32_t *ids, size_t count, const weirgo_use *uses,
                              uint64_t flags);

/* ---- arena and codec ---- */
weirgo_error *weirgo_arena_create(uint64_t size, uint64_t quantum, uintptr_t *arena);
void weirgo_arena_destroy(uintptr_t arena);
weirgo_error *weirgo_arena_allocate(uintptr_t arena, uint64_t size, uint64_t alignment,
                                    uint64_t *allocation, uint64_t *offset);
weirgo_error *weirgo_arena_free(uintptr_t arena, uint64_t allocation);
weirgo_error *weirgo_arena_info(uintptr_t arena, uint64_t allocation, uint64_t *offset,
                                uint64_t *size);
weirgo_error *weirgo_arena_resize(uintptr_t arena, uint64_t size);
weirgo_error *weirgo_arena_stats(uintptr_t arena, weir_arena_stats *stats);
weirgo_error *weirgo_arena_report(uintptr_t arena, weir_arena_report *report);
weirgo_error *weirgo_arena_validate(uintptr_t arena);
/* All ranges, in order; of malloc and the caller's. */
weirgo_error *weirgo_arena_ranges(uintptr_t arena, weir_arena_range **ranges, size_t *count);
weirgo_error *weirgo_compress(uint32_t level, uint32_t element, uint64_t flags, const char *codec,
                              const void *in, uint64_t bytes, void *out, uint64_t capacity,
                              uint64_t *blob_bytes);
weirgo_error *weirgo_decompress(const void *blob, uint64_t blob_bytes, void *out, uint64_t capacity,
                                uint64_t *bytes);
weirgo_error *weirgo_compressed_info(const void *blob, uint64_t blob_bytes,
                                     weir_compressed_info *info);

/* ---- for tests: what is longer at each look, and the callbacks as the library would call them ---- */
weirgo_error *weirgo_growing_text(uint32_t format, char **text, size_t *length);
weirgo_error *weirgo_growing_array(uint64_t **numbers, size_t *count);
void weirgo_deliver_loss(uintptr_t callback, uint32_t device, uint64_t generation,
                         uint64_t lost_bytes);
void weirgo_deliver_log(uintptr_t log, int32_t level, const char *text);

#endif /* WEIRGO_SHIM_H */
