/* SPDX-License-Identifier: Apache-2.0
 *
 * Shims that forward, and the error they have in common; see shim.h for the rules. What does more than forward is in
 * shim_work.c.
 */
#include "shim.h"

#include <string.h>

#include "_cgo_export.h"

_Static_assert(sizeof(weirgo_use) == sizeof(weir_use), "weirgo_use is weir_use");
_Static_assert(offsetof(weirgo_use, address) == offsetof(weir_use, address),
               "weirgo_use is weir_use");
_Static_assert(offsetof(weirgo_use, mode) == offsetof(weir_use, mode), "weirgo_use is weir_use");
_Static_assert(sizeof(uintptr_t) == sizeof(void *), "handles fit into uintptr_t");

#define POOL(handle) ((weir_pool)(handle))
#define CONTEXT(handle) ((weir_context)(handle))
#define STREAM(handle) ((weir_stream)(handle))
#define BUFFER(handle) ((weir_buffer)(handle))

static weirgo_error no_memory = {
    WEIR_ERROR_OUT_OF_HOST_MEMORY,         0,   WEIR_DEVICE_HOST, 1, 0, 0, 0, UINT64_MAX, 0,
    "no memory to describe an error with", NULL};

static int32_t reports; /* whether errors have them; atomic */

int32_t weirgo_error_reports(int32_t on) {
  return __atomic_exchange_n(&reports, on, __ATOMIC_RELAXED);
}

/* Whether the library says more of the result than its sentence. */
static int has_report(weir_result result) {
  return result == WEIR_ERROR_OVER_BUDGET || result == WEIR_ERROR_DEVICE_OOM ||
         result == WEIR_ERROR_WOULD_BLOCK || result == WEIR_ERROR_TIMEOUT ||
         result == WEIR_ERROR_LEASE_CONFLICT || result == WEIR_ERROR_DATA_LOST;
}

/* That of the thread's last error, which stays as it is; NULL where there is no memory for it. Each look is at all buffers, so the first
 * one has room for what there mostly is. */
static char *last_report(void) {
  size_t capacity = 4096, needed = 0;
  for (;;) {
    char *text = malloc(capacity);
    weir_result result;
    if (text == NULL) return NULL;
    result = weir_last_error_report(text, capacity, &needed);
    if (result == WEIR_SUCCESS) return text;
    free(text);
    if (result != WEIR_INCOMPLETE) return NULL;
    capacity = needed + needed / 8 + 64;
  }
}

static weirgo_error *describe(weir_result result) {
  weir_error_info info = WEIR_ERROR_INFO_INIT;
  const char *text = weir_last_error();
  /* A result that came without words of its own is not given those of an older one. */
  const int known = weir_last_error_info(&info) == WEIR_SUCCESS && info.result == result;
  size_t length;
  weirgo_error *error;
  if (!known) {
    info = (weir_error_info)WEIR_ERROR_INFO_INIT;
    info.device = WEIR_DEVICE_HOST;
    info.use_index = UINT64_MAX;
    text = weir_result_string(result);
  }
  length = strlen(text) + 1;
  error = malloc(sizeof *error + length);
  if (error == NULL) return &no_memory;
  memcpy(error + 1, text, length);
  error->result = result;
  error->tier = info.tier;
  error->device = info.device;
  error->constant = 0;
  error->asked = info.asked;
  error->available = info.available;
  error->short_by = info.short_by;
  error->use_index = info.use_index;
  error->native_code = info.native_code;
  error->message = (const char *)(error + 1);
  error->report = NULL;
  if (known && has_report(result) && __atomic_load_n(&reports, __ATOMIC_RELAXED) != 0)
    error->report = last_report();
  return error;
}

weirgo_error *weirgo_check(weir_result result) { return result >= 0 ? NULL : describe(result); }

void weirgo_error_free(weirgo_error *error) {
  if (error == NULL || error->constant != 0) return;
  free(error->report);
  free(error);
}

/* ---- context ---- */

static void log_line(void *user, int32_t level, const char *text) {
  weirgoLog((uintptr_t)user, level, (char *)(uintptr_t)text);
}

weirgo_error *weirgo_context_create(weir_context_desc *desc, uintptr_t log, uintptr_t *context) {
  weir_context_desc own = *desc;
  if (log != 0) own.log = log_line, own.log_user = (void *)log;
  return weirgo_check(weir_context_create(&own, (weir_context *)context));
}

weirgo_error *weirgo_context_destroy(uintptr_t context) {
  return weirgo_check(weir_context_destroy(CONTEXT(context)));
}

weirgo_error *weirgo_backend_count(uintptr_t context, uint32_t *count) {
  return weirgo_check(weir_backend_count(CONTEXT(context), count));
}

weirgo_error *weirgo_backend_info(uintptr_t context, uint32_t index, weir_backend_info *info) {
  *info = (weir_backend_info)WEIR_BACKEND_INFO_INIT;
  return weirgo_check(weir_backend_info_get(CONTEXT(context), index, info));
}

weirgo_error *weirgo_device_count(uintptr_t context, uint32_t *count) {
  return weirgo_check(weir_device_count(CONTEXT(context), count));
}

weirgo_error *weirgo_native_memory(uintptr_t context, uint32_t device, uint64_t address,
                                   uint32_t kind, void *out) {
  return weirgo_check(weir_native_memory(CONTEXT(context), device, address, kind, out));
}

weirgo_error *weirgo_device_find(uintptr_t context, const char *wish, uint32_t *device) {
  return weirgo_check(weir_device_find(CONTEXT(context), wish, device));
}

weirgo_error *weirgo_device_info(uintptr_t context, uint32_t device, weir_device_info *info) {
  *info = (weir_device_info)WEIR_DEVICE_INFO_INIT;
  return weirgo_check(weir_device_info_get(CONTEXT(context), device, info));
}

weirgo_error *weirgo_link_info(uintptr_t context, uint32_t from, uint32_t to,
                               weir_link_info *info) {
  *info = (weir_link_info)WEIR_LINK_INFO_INIT;
  return weirgo_check(weir_link_info_get(CONTEXT(context), from, to, info));
}

weirgo_error *weirgo_calibrate(uintptr_t context, const weir_calibrate_desc *desc,
                               weir_calibrate_report *report) {
  weir_calibrate_report own = WEIR_CALIBRATE_REPORT_INIT;
  const weir_result result = weir_topology_calibrate(CONTEXT(context), desc, &own);
  *report = own;
  return weirgo_check(result);
}

weirgo_error *weirgo_trace_start(uintptr_t context, uint32_t kind, const char *path,
                                 uint64_t max_bytes) {
  weir_trace_desc desc = WEIR_TRACE_DESC_INIT;
  desc.kind = kind;
  desc.path = path;
  desc.max_bytes = max_bytes;
  return weirgo_check(weir_trace_start(CONTEXT(context), &desc));
}

weirgo_error *weirgo_trace_stop(uintptr_t context, uint32_t kind) {
  return weirgo_check(weir_trace_stop(CONTEXT(context), kind));
}

/* ---- streams ---- */

weirgo_error *weirgo_stream_create(uintptr_t context, uint32_t device, uintptr_t *stream) {
  return weirgo_check(weir_stream_create(CONTEXT(context), device, 0, (weir_stream *)stream));
}

weirgo_error *weirgo_stream_wrap(uintptr_t context, uint32_t device, uintptr_t native,
                                 uintptr_t *stream) {
  return weirgo_check(
      weir_stream_wrap(CONTEXT(context), device, (void *)native, 0, (weir_stream *)stream));
}

weirgo_error *weirgo_stream_close(uintptr_t stream) {
  return weirgo_check(weir_stream_close(STREAM(stream)));
}

weirgo_error *weirgo_stream_native(uintptr_t stream, uintptr_t *native) {
  return weirgo_check(weir_stream_native(STREAM(stream), (void **)native));
}

weirgo_error *weirgo_stream_synchronize(uintptr_t stream) {
  return weirgo_check(weir_stream_synchronize(STREAM(stream)));
}

weirgo_error *weirgo_stream_query(uintptr_t stream, int32_t *ready) {
  const weir_result result = weir_stream_query(STREAM(stream));
  *ready = result == WEIR_SUCCESS;
  return weirgo_check(result);
}

static void host_call(void *user) { weirgoHostCall((uintptr_t)user); }

weirgo_error *weirgo_stream_host_call(uintptr_t stream, uintptr_t call) {
  return weirgo_check(weir_stream_host_call(STREAM(stream), host_call, (void *)call));
}

/* ---- pools and clients ---- */

weirgo_error *weirgo_pool_create(uintptr_t context, const weir_pool_desc *desc,
                                 const weir_pool_device *devices, uintptr_t *pool) {
  weir_pool_desc own = *desc;
  own.devices = devices;
  return weirgo_check(weir_pool_create(CONTEXT(context), &own, (weir_pool *)pool));
}

weirgo_error *weirgo_pool_destroy(uintptr_t pool) {
  return weirgo_check(weir_pool_destroy(POOL(pool)));
}

weirgo_error *weirgo_pool_add_device(uintptr_t pool, const weir_pool_device *device) {
  return weirgo_check(weir_pool_add_device(POOL(pool), device));
}

weirgo_error *weirgo_pool_remove_device(uintptr_t pool, uint32_t device, uint64_t timeout_ns) {
  return weirgo_check(weir_pool_remove_device(POOL(pool), device, timeout_ns));
}

weirgo_error *weirgo_pool_cancel_remove(uintptr_t pool, uint32_t device) {
  return weirgo_check(weir_pool_cancel_remove(POOL(pool), device));
}

weirgo_error *weirgo_pool_rebalance(uintptr_t pool, uint64_t bytes, uint64_t *moved) {
  return weirgo_check(weir_pool_rebalance(POOL(pool), bytes, moved));
}

static void device_lost(void *user, const weir_device_loss *loss) {
  weirgoDeviceLost((uintptr_t)user, loss->device, loss->generation, loss->lost_bytes);
}

weirgo_error *weirgo_pool_set_loss_callback(uintptr_t pool, uintptr_t callback) {
  return weirgo_check(weir_pool_set_loss_callback(POOL(pool), callback != 0 ? device_lost : NULL,
                                                  (void *)callback));
}

weirgo_error *weirgo_pool_trim(uintptr_t pool, uint32_t device, uint32_t level, uint64_t bytes,
                               uint64_t *freed) {
  return weirgo_check(weir_pool_trim(POOL(pool), device, level, bytes, freed));
}

static int32_t should_stop(void *user) { return weirgoShouldStop((uintptr_t)user); }

weirgo_error *weirgo_pool_defragment(uintptr_t pool, weir_defragment_desc *desc, uintptr_t stop,
                                     weir_defragment_report *report) {
  weir_defragment_desc own = *desc;
  if (stop != 0) own.should_stop = should_stop, own.user = (void *)stop;
  *report = (weir_defragment_report)WEIR_DEFRAGMENT_REPORT_INIT;
  return weirgo_check(weir_pool_defragment(POOL(pool), &own, report));
}

weirgo_error *weirgo_pool_set_defragmentation(uintptr_t pool,
                                              const weir_defragmentation_desc *desc) {
  return weirgo_check(weir_pool_set_defragmentation(POOL(pool), desc));
}

weirgo_error *weirgo_pool_policy_load(uintptr_t pool, const void *bytes, uint64_t size) {
  return weirgo_check(weir_pool_policy_load(POOL(pool), bytes, size));
}

weirgo_error *weirgo_operation_id(uintptr_t pool, const char *name, uint32_t *id) {
  return weirgo_check(weir_operation_id(POOL(pool), name, id));
}

weirgo_error *weirgo_pool_stats(uintptr_t pool, weir_pool_stats *stats) {
  *stats = (weir_pool_stats)WEIR_POOL_STATS_INIT;
  return weirgo_check(weir_pool_stats_get(POOL(pool), stats));
}

weirgo_error *weirgo_pool_codec_stats(uintptr_t pool, weir_codec_stats *stats) {
  *stats = (weir_codec_stats)WEIR_CODEC_STATS_INIT;
  return weirgo_check(weir_pool_codec_stats_get(POOL(pool), stats));
}

weirgo_error *weirgo_pool_device_stats(uintptr_t pool, uint32_t device,
                                       weir_pool_device_stats *stats) {
  *stats = (weir_pool_device_stats)WEIR_POOL_DEVICE_STATS_INIT;
  return weirgo_check(weir_pool_device_stats_get(POOL(pool), device, stats));
}

weirgo_error *weirgo_pool_reset_peak(uintptr_t pool, uint32_t device) {
  return weirgo_check(weir_pool_reset_peak(POOL(pool), device));
}

const char *weirgo_stats_name(size_t index) {
#define WEIRGO_NAME(name, meaning) #name,
  static const char *const names[] = {WEIR_POOL_STATS_FIELDS(WEIRGO_NAME)};
#undef WEIRGO_NAME
  return index < sizeof names / sizeof *names ? names[index] : NULL;
}

weirgo_error *weirgo_client_create(uintptr_t pool, const weir_client_desc *desc,
                                   uintptr_t *client) {
  return weirgo_check(weir_client_create(POOL(pool), desc, (weir_client *)client));
}

weirgo_error *weirgo_client_destroy(uintptr_t client) {
  return weirgo_check(weir_client_destroy((weir_client)client));
}

weirgo_error *weirgo_client_stats(uintptr_t client, weir_client_stats *stats) {
  *stats = (weir_client_stats)WEIR_CLIENT_STATS_INIT;
  return weirgo_check(weir_client_stats_get((weir_client)client, stats));
}

/* ---- buffers ---- */

weirgo_error *weirgo_buffer_create(uintptr_t pool, const weir_buffer_desc *desc, uintptr_t client,
                                   const uint32_t *users, const char *name,
                                   const weir_shard_desc *shards, const uint32_t *devices,
                                   const uint32_t *weights, uintptr_t *buffer) {
  weir_buffer_desc own = *desc;
  weir_shard_desc layout = WEIR_SHARD_DESC_INIT;
  if (shards != NULL) {
    layout = *shards;
    layout.devices = devices;
    layout.weights = weights;
    own.shards = &layout;
  }
  own.client = (weir_client)client;
  own.name = name;
  own.users = own.user_count != 0 ? users : NULL;
  return weirgo_check(weir_buffer_create(POOL(pool), &own, (weir_buffer *)buffer));
}

weirgo_error *weirgo_buffer_destroy(uintptr_t pool, uintptr_t buffer) {
  return weirgo_check(weir_buffer_destroy(POOL(pool), BUFFER(buffer)));
}

weirgo_error *weirgo_buffer_info(uintptr_t pool, uintptr_t buffer, uint64_t offset, uint64_t length,
                                 weir_buffer_info *info) {
  *info = (weir_buffer_info)WEIR_BUFFER_INFO_INIT;
  return weirgo_check(weir_buffer_info_get(POOL(pool), BUFFER(buffer), offset, length, info));
}

weirgo_error *weirgo_buffer_read(uintptr_t pool, uintptr_t buffer, uint64_t offset, uint64_t length,
                                 void *out) {
  return weirgo_check(weir_buffer_read(POOL(pool), BUFFER(buffer), offset, length, out));
}

weirgo_error *weirgo_buffer_write(uintptr_t pool, uintptr_t buffer, uint64_t offset,
                                  uint64_t length, const void *in) {
  return weirgo_check(weir_buffer_write(POOL(pool), BUFFER(buffer), offset, length, in));
}

weirgo_error *weirgo_advise(uintptr_t pool, uintptr_t buffer, uint64_t offset, uint64_t length,
                            uint32_t advice) {
  return weirgo_check(weir_advise(POOL(pool), BUFFER(buffer), offset, length, advice));
}

weirgo_error *weirgo_discard(uintptr_t pool, uintptr_t buffer, uint64_t offset, uint64_t length) {
  return weirgo_check(weir_discard(POOL(pool), BUFFER(buffer), offset, length));
}

weirgo_error *weirgo_buffer_set_name(uintptr_t pool, uintptr_t buffer, const char *name) {
  return weirgo_check(weir_buffer_set_name(POOL(pool), BUFFER(buffer), name));
}

weirgo_error *weirgo_buffer_set_priority(uintptr_t pool, uintptr_t buffer, int32_t priority) {
  return weirgo_check(weir_buffer_set_priority(POOL(pool), BUFFER(buffer), priority));
}

weirgo_error *weirgo_hold(uintptr_t pool, uintptr_t buffer, uint32_t device, uint32_t mode,
                          uint64_t flags, uint64_t *address) {
  return weirgo_check(weir_hold_as(POOL(pool), BUFFER(buffer), device, mode, flags, address));
}

weirgo_error *weirgo_unhold(uintptr_t pool, uintptr_t buffer) {
  return weirgo_check(weir_unhold(POOL(pool), BUFFER(buffer)));
}

weirgo_error *weirgo_host_register(uintptr_t pool, uintptr_t buffer, void *memory, uint64_t flags) {
  return weirgo_check(weir_host_register(POOL(pool), BUFFER(buffer), memory, flags));
}

weirgo_error *weirgo_host_unregister(uintptr_t pool, uintptr_t buffer) {
  return weirgo_check(weir_host_unregister(POOL(pool), BUFFER(buffer)));
}

weirgo_error *weirgo_malloc(uintptr_t pool, uint32_t device, uintptr_t stream, uint64_t size,
                            uint64_t *address) {
  return weirgo_check(weir_malloc(POOL(pool), device, STREAM(stream), size, address));
}

weirgo_error *weirgo_free(uintptr_t pool, uintptr_t stream, uint64_t address) {
  return weirgo_check(weir_free(POOL(pool), STREAM(stream), address));
}

/* ---- leases ---- */

weirgo_error *weirgo_release(uintptr_t lease, uintptr_t stream) {
  return weirgo_check(weir_release((weir_lease)lease, STREAM(stream)));
}

weirgo_error *weirgo_prefetch(uintptr_t pool, uintptr_t stream, const weirgo_use *uses,
                              size_t count) {
  return weirgo_check(weir_prefetch(POOL(pool), STREAM(stream), (const weir_use *)uses, count));
}

/* ---- arena and codec ---- */

weirgo_error *weirgo_arena_create(uint64_t size, uint64_t quantum, uintptr_t *arena) {
  weir_arena_desc desc = WEIR_ARENA_DESC_INIT;
  desc.size = size;
  desc.quantum = quantum;
  return weirgo_check(weir_arena_create(&desc, (weir_arena *)arena));
}

void weirgo_arena_destroy(uintptr_t arena) { weir_arena_destroy((weir_arena)arena); }

weirgo_error *weirgo_arena_allocate(uintptr_t arena, uint64_t size, uint64_t alignment,
                                    uint64_t *allocation, uint64_t *offset) {
  return weirgo_check(weir_arena_allocate((weir_arena)arena, size, alignment, allocation, offset));
}

weirgo_error *weirgo_arena_free(uintptr_t arena, uint64_t allocation) {
  return weirgo_check(weir_arena_free((weir_arena)arena, allocation));
}

weirgo_error *weirgo_arena_info(uintptr_t arena, uint64_t allocation, uint64_t *offset,
                                uint64_t *size) {
  return weirgo_check(weir_arena_info((weir_arena)arena, allocation, offset, size));
}

weirgo_error *weirgo_arena_resize(uintptr_t arena, uint64_t size) {
  return weirgo_check(weir_arena_resize((weir_arena)arena, size));
}

weirgo_error *weirgo_arena_stats(uintptr_t arena, weir_arena_stats *stats) {
  *stats = (weir_arena_stats)WEIR_ARENA_STATS_INIT;
  return weirgo_check(weir_arena_stats_get((weir_arena)arena, stats));
}

weirgo_error *weirgo_arena_report(uintptr_t arena, weir_arena_report *report) {
  *report = (weir_arena_report)WEIR_ARENA_REPORT_INIT;
  return weirgo_check(weir_arena_report_get((weir_arena)arena, report));
}

weirgo_error *weirgo_arena_validate(uintptr_t arena) {
  return weirgo_check(weir_arena_validate((weir_arena)arena));
}

weirgo_error *weirgo_compress(uint32_t level, uint32_t element, uint64_t flags, const char *codec,
                              const void *in, uint64_t bytes, void *out, uint64_t capacity,
                              uint64_t *blob_bytes) {
  weir_compress_desc desc = WEIR_COMPRESS_DESC_INIT;
  desc.level = level;
  desc.element = element;
  desc.flags = flags;
  desc.codec = codec;
  return weirgo_check(weir_compress(&desc, in, bytes, out, capacity, blob_bytes));
}

weirgo_error *weirgo_decompress(const void *blob, uint64_t blob_bytes, void *out, uint64_t capacity,
                                uint64_t *bytes) {
  return weirgo_check(weir_decompress(blob, blob_bytes, out, capacity, bytes));
}

weirgo_error *weirgo_compressed_info(const void *blob, uint64_t blob_bytes,
                                     weir_compressed_info *info) {
  *info = (weir_compressed_info)WEIR_COMPRESSED_INFO_INIT;
  return weirgo_check(weir_compressed_info_get(blob, blob_bytes, info));
}

/* ---- for tests ---- */

void weirgo_deliver_loss(uintptr_t callback, uint32_t device, uint64_t generation,
                         uint64_t lost_bytes) {
  weir_device_loss loss = WEIR_DEVICE_LOSS_INIT;
  loss.device = device;
  loss.generation = generation;
  loss.lost_bytes = lost_bytes;
  device_lost((void *)callback, &loss);
}

void weirgo_deliver_log(uintptr_t log, int32_t level, const char *text) {
  log_line((void *)log, level, text);
}
