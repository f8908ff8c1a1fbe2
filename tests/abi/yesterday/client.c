/* SPDX-License-Identifier: Apache-2.0
 *
 * Yesterday's program on today's library: it is compiled against the headers in include/, which are those of the oldest
 * release that is still supported and are never changed, and linked to the library as it is built now. It makes a round
 * through the whole interface of that day.
 *
 * Behind every descriptor it passes lie bytes that are not zero: a library that reads what the caller's struct_size does
 * not cover meets them. Behind every struct it has filled in lie bytes that must stay as they are. It runs on
 * yesterday's plugin too (backend.c beside it, compiled against the same headers), whose path is the first argument.
 */
#include <weir/weir.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/abi/yesterday/today.h"

static const char *plugin_path;

static void expect(weir_result wanted, weir_result got, const char *call) {
  if (got == wanted) return;
  print_error("%s: got %d (%s)\n", call, (int)got, weir_last_error());
  assert_int_equal(got, wanted);
}
#define OK(call) expect(WEIR_SUCCESS, (call), #call)

enum { GUARD = 256, BEHIND = 0xa5 };

/* A struct of yesterday with something behind it. */
#define GUARDED(type)           \
  struct {                      \
    type value;                 \
    unsigned char guard[GUARD]; \
  }
#define GUARDED_INIT(object, ...)                                    \
  do {                                                               \
    memset(&(object), BEHIND, sizeof(object));                       \
    memcpy(&(object).value, &(__VA_ARGS__), sizeof((object).value)); \
  } while (0)

static void untouched(const unsigned char *guard, const char *name) {
  for (size_t i = 0; i < GUARD; ++i) {
    if (guard[i] != BEHIND) {
      print_error("%s: byte %u behind it was written\n", name, (unsigned)i);
      assert_int_equal(guard[i], BEHIND);
    }
  }
}
/* Calls with &out.value, and looks behind it. `initial` is a variable that the *_INIT macro has initialised. */
#define FILLED(type, initial, out, call) \
  GUARDED(type) out;                     \
  GUARDED_INIT(out, initial);            \
  OK(call);                              \
  untouched(out.guard, #type);           \
  assert_int_equal(out.value.struct_size, sizeof(type))

/* ---- contexts and pools ---- */

static weir_context make_context(const char *options, const char *const *paths) {
  const weir_context_desc initial = WEIR_CONTEXT_DESC_INIT;
  GUARDED(weir_context_desc) desc;
  GUARDED_INIT(desc, initial);
  desc.value.flags = WEIR_CONTEXT_NO_SEARCH | (paths != NULL ? WEIR_CONTEXT_NO_HOST_BACKEND : 0);
  desc.value.options = options;
  desc.value.backend_paths = paths;
  weir_context context = NULL;
  OK(weir_context_create(&desc.value, &context));
  return context;
}

/* A pool that also has a COMPRESSED tier, so that yesterday's last fields are used. */
static weir_pool make_pool(weir_context context, uint64_t device_budget) {
  weir_pool_device device;
  memset(&device, 0, sizeof device);
  device.budget = device_budget;
  const weir_pool_desc initial = WEIR_POOL_DESC_INIT;
  GUARDED(weir_pool_desc) desc;
  GUARDED_INIT(desc, initial);
  desc.value.device_count = 1;
  desc.value.devices = &device;
  desc.value.flags = WEIR_POOL_NO_BACKGROUND;
  desc.value.host_budget = (uint64_t)32 << 20;
  desc.value.compressed_budget = (uint64_t)8 << 20;
  desc.value.codec = "lz4";
  desc.value.name = "yesterday";
  desc.value.idle_grace_ns = WEIR_NONE;
  weir_pool pool = NULL;
  OK(weir_pool_create(context, &desc.value, &pool));
  return pool;
}

static weir_buffer make_buffer(weir_pool pool, uint64_t size, weir_client client) {
  const weir_buffer_desc initial = WEIR_BUFFER_DESC_INIT;
  GUARDED(weir_buffer_desc) desc;
  GUARDED_INIT(desc, initial);
  desc.value.size = size;
  desc.value.client = client;
  desc.value.tag = 42;
  weir_buffer buffer = NULL;
  OK(weir_buffer_create(pool, &desc.value, &buffer));
  return buffer;
}

/* ---- what a kernel does: adds one to every byte ---- */

typedef struct range {
  uint64_t address;
  uint64_t bytes;
} range;

static void increment(void *user) {
  const range *of = user;
  unsigned char *at = (unsigned char *)(uintptr_t)of->address;
  for (uint64_t i = 0; i < of->bytes; ++i) at[i] = (unsigned char)(at[i] + 1);
}

static void run_kernel(weir_stream stream, range *of) {
  const weir_result queued = weir_stream_host_call(stream, increment, of);
  if (queued == WEIR_ERROR_NOT_SUPPORTED) {  // yesterday's plugin has none
    OK(weir_stream_synchronize(stream));
    increment(of);
    return;
  }
  OK(queued);
  OK(weir_stream_synchronize(stream));
}

static void use_buffer(weir_pool pool, weir_stream stream, weir_buffer buffer, uint64_t bytes,
                       const weir_acquire_options *options) {
  weir_use uses[1] = {WEIR_USE(buffer, WEIR_READ_WRITE)};
  weir_lease lease = NULL;
  OK(weir_acquire(pool, stream, uses, 1, options, &lease));
  range of = {uses[0].address, bytes};
  run_kernel(stream, &of);
  OK(weir_release(lease, stream));
}

/* Fills, uses and reads back. */
static void round_trip(weir_pool pool, weir_stream stream, weir_buffer buffer, size_t bytes) {
  unsigned char *memory = malloc(bytes);
  assert_non_null(memory);
  for (size_t i = 0; i < bytes; ++i) memory[i] = (unsigned char)(i * 7);
  OK(weir_buffer_write(pool, buffer, 0, bytes, memory));
  memset(memory, 0, bytes);
  const weir_acquire_options initial = WEIR_ACQUIRE_OPTIONS_INIT;
  GUARDED(weir_acquire_options) options;
  GUARDED_INIT(options, initial);
  options.value.operation = "increment";
  use_buffer(pool, stream, buffer, bytes, &options.value);
  OK(weir_buffer_read(pool, buffer, 0, bytes, memory));
  for (size_t i = 0; i < bytes; ++i) assert_int_equal(memory[i], (unsigned char)(i * 7 + 1));
  free(memory);
}

/* ---- tests ---- */

/* While all are as large as they were, the tests below say only that the interface is the same. */
static void no_struct_of_today_is_smaller(void **state) {
  (void)state;
  const today_sizes today = sizes_of_today();
  assert_true(sizeof(weir_pool_desc) <= today.pool_desc);
  assert_true(sizeof(weir_buffer_desc) <= today.buffer_desc);
  assert_true(sizeof(weir_device_info) <= today.device_info);
  assert_true(sizeof(weir_link_info) <= today.link_info);
  assert_true(sizeof(weir_pool_stats) <= today.pool_stats);
  assert_true(sizeof(weir_pool_device_stats) <= today.pool_device_stats);
}

static void contexts_and_devices(void **state) {
  (void)state;
  weir_context context = make_context("host.memory=16M;host.devices=2", NULL);
  uint32_t count = 0;
  OK(weir_backend_count(context, &count));
  assert_int_equal(count, 1);
  const weir_backend_info no_backend = WEIR_BACKEND_INFO_INIT;
  FILLED(weir_backend_info, no_backend, backend, weir_backend_info_get(context, 0, &backend.value));
  assert_string_equal(backend.value.name, "host");
  OK(weir_device_count(context, &count));
  assert_int_equal(count, 2);
  const weir_device_info no_device = WEIR_DEVICE_INFO_INIT;
  FILLED(weir_device_info, no_device, device, weir_device_info_get(context, 1, &device.value));
  assert_int_equal(device.value.memory_total, 16U << 20U);
  assert_true((device.value.capabilities & WEIR_CAP_VMM) != 0);
  const weir_link_info no_link = WEIR_LINK_INFO_INIT;
  FILLED(weir_link_info, no_link, link, weir_link_info_get(context, 1, 1, &link.value));
  assert_int_equal(link.value.kind, WEIR_LINK_SAME);
  OK(weir_context_destroy(context));
}

static void errors_have_their_numbers(void **state) {
  (void)state;
  weir_context context = make_context("host.memory=16M", NULL);
  weir_pool pool = make_pool(context, (uint64_t)2 << 20);
  weir_stream stream = NULL;
  OK(weir_stream_create(context, 0, 0, &stream));
  weir_buffer buffer = make_buffer(pool, (uint64_t)3 << 20, NULL);
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  weir_lease lease = NULL;
  expect(WEIR_ERROR_OVER_BUDGET, weir_acquire(pool, stream, &use, 1, NULL, &lease), "weir_acquire");
  const weir_error_info none = WEIR_ERROR_INFO_INIT;
  FILLED(weir_error_info, none, error, weir_last_error_info(&error.value));
  assert_int_equal(error.value.result, WEIR_ERROR_OVER_BUDGET);
  assert_true(error.value.short_by >= (uint64_t)1 << 20);
  OK(weir_buffer_destroy(pool, buffer));
  OK(weir_stream_close(stream));
  OK(weir_pool_destroy(pool));
  OK(weir_context_destroy(context));
}

typedef struct ending {
  weir_result result;
  weir_lease lease;
} ending;
static void ended(void *user, weir_result result, weir_lease lease) {
  ending *of = user;
  of->result = result;
  of->lease = lease;
}

static void acquire_later(weir_pool pool, weir_stream stream, weir_buffer buffer) {
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  ending of = {WEIR_ERROR_INTERNAL, NULL};
  weir_request request = NULL;
  OK(weir_acquire_async(pool, stream, &use, 1, NULL, ended, &of, &request));
  weir_result result = WEIR_ERROR_INTERNAL;
  OK(weir_request_wait(request, &result));
  assert_int_equal(result, WEIR_SUCCESS);
  assert_int_equal(of.result, WEIR_SUCCESS);
  weir_request_close(request);
  OK(weir_release(of.lease, stream));
}

static void hints_and_memory(weir_pool pool, weir_stream stream, weir_buffer buffer) {
  weir_use use = WEIR_USE(buffer, WEIR_READ);
  OK(weir_prefetch(pool, stream, &use, 1));
  weir_operation operation;
  memset(&operation, 0, sizeof operation);
  operation.name = "next";
  operation.uses = &use;
  operation.use_count = 1;
  OK(weir_announce(pool, stream, &operation, 1, WEIR_ANNOUNCE_REPLACE));
  OK(weir_announce(pool, stream, NULL, 0, WEIR_ANNOUNCE_REPLACE));
  OK(weir_advise(pool, buffer, 0, WEIR_WHOLE, WEIR_ADVISE_COLD));
  OK(weir_buffer_set_priority(pool, buffer, WEIR_PRIORITY_HIGH));
  uint64_t address = 0;
  OK(weir_hold(pool, buffer, WEIR_DEVICE_DEFAULT, &address));
  assert_true(address != 0);
  OK(weir_unhold(pool, buffer));
  OK(weir_malloc(pool, WEIR_DEVICE_DEFAULT, stream, 100000, &address));
  assert_true(address != 0);
  OK(weir_free(pool, stream, address));
}

static void tell_all(weir_pool pool, weir_client client, weir_buffer buffer, uint64_t bytes) {
  const weir_pool_stats no_stats = WEIR_POOL_STATS_INIT;
  FILLED(weir_pool_stats, no_stats, stats, weir_pool_stats_get(pool, &stats.value));
  assert_int_equal(stats.value.buffers, 1);
  assert_int_equal(stats.value.buffer_bytes, bytes);
  const weir_pool_device_stats no_device = WEIR_POOL_DEVICE_STATS_INIT;
  FILLED(weir_pool_device_stats, no_device, device,
         weir_pool_device_stats_get(pool, WEIR_DEVICE_DEFAULT, &device.value));
  assert_true(device.value.bytes > 0 && device.value.bytes <= device.value.budget);
  const weir_client_stats no_client = WEIR_CLIENT_STATS_INIT;
  FILLED(weir_client_stats, no_client, of_client, weir_client_stats_get(client, &of_client.value));
  assert_int_equal(of_client.value.buffers, 1);
  const weir_buffer_info no_buffer = WEIR_BUFFER_INFO_INIT;
  FILLED(weir_buffer_info, no_buffer, info,
         weir_buffer_info_get(pool, buffer, 0, WEIR_WHOLE, &info.value));
  assert_int_equal(info.value.size, bytes);
  assert_int_equal(info.value.tag, 42);
  size_t needed = 0;
  OK(weir_pool_snapshot(pool, NULL, 0, &needed));
  assert_true(needed > 2);
  size_t count = 0;
  OK(weir_pool_map(pool, NULL, 0, &count));
  weir_piece *pieces = calloc(count + 1, sizeof *pieces);
  assert_non_null(pieces);
  memset(&pieces[count], BEHIND, sizeof *pieces);
  size_t again = 0;
  OK(weir_pool_map(pool, pieces, count, &again));
  assert_int_equal(again, count);
  assert_int_equal(pieces[count].reserved, 0xa5a5a5a5U);
  free(pieces);
}

static void defragment(weir_pool pool) {
  const weir_defragment_desc initial = WEIR_DEFRAGMENT_DESC_INIT;
  GUARDED(weir_defragment_desc) desc;
  GUARDED_INIT(desc, initial);
  const weir_defragment_report none = WEIR_DEFRAGMENT_REPORT_INIT;
  FILLED(weir_defragment_report, none, report,
         weir_pool_defragment(pool, &desc.value, &report.value));
  const weir_defragmentation_desc off = WEIR_DEFRAGMENTATION_DESC_INIT;
  GUARDED(weir_defragmentation_desc) background;
  GUARDED_INIT(background, off);
  OK(weir_pool_set_defragmentation(pool, &background.value));
  OK(weir_pool_reset_peak(pool, WEIR_DEVICE_DEFAULT));
  uint64_t freed = 0;
  OK(weir_pool_trim(pool, WEIR_DEVICE_DEFAULT, WEIR_TRIM_EMERGENCY, WEIR_UNLIMITED, &freed));
}

static void a_whole_life(const char *options, const char *const *paths) {
  enum { BYTES = 300000 };
  weir_context context = make_context(options, paths);
  weir_pool pool = make_pool(context, (uint64_t)8 << 20);
  weir_stream stream = NULL;
  OK(weir_stream_create(context, 0, 0, &stream));
  const weir_client_desc initial = WEIR_CLIENT_DESC_INIT;
  GUARDED(weir_client_desc) desc;
  GUARDED_INIT(desc, initial);
  desc.value.name = "client";
  weir_client client = NULL;
  OK(weir_client_create(pool, &desc.value, &client));
  weir_buffer buffer = make_buffer(pool, BYTES, client);
  round_trip(pool, stream, buffer, BYTES);
  tell_all(pool, client, buffer, BYTES);
  hints_and_memory(pool, stream, buffer);
  if (paths == NULL) acquire_later(pool, stream, buffer);
  defragment(pool);
  round_trip(pool, stream, buffer, BYTES);
  OK(weir_discard(pool, buffer, 0, WEIR_WHOLE));
  OK(weir_buffer_destroy(pool, buffer));
  OK(weir_client_destroy(client));
  OK(weir_stream_synchronize(stream));
  OK(weir_stream_close(stream));
  OK(weir_pool_destroy(pool));
  OK(weir_context_destroy(context));
}

static void a_life_on_the_host_backend(void **state) {
  (void)state;
  a_whole_life("host.memory=16M", NULL);
}

static void a_life_on_yesterdays_plugin(void **state) {
  (void)state;
  const char *paths[2] = {plugin_path, NULL};
  a_whole_life("", paths);
}

static weir_result count_ranges(void *user, const weir_arena_range *shown) {
  (void)shown;
  *(int *)user += 1;
  return WEIR_SUCCESS;
}

static void arenas(void **state) {
  (void)state;
  const weir_arena_desc initial = WEIR_ARENA_DESC_INIT;
  GUARDED(weir_arena_desc) desc;
  GUARDED_INIT(desc, initial);
  desc.value.size = 1000;
  weir_arena arena = NULL;
  OK(weir_arena_create(&desc.value, &arena));
  weir_arena_allocation allocation = 0;
  uint64_t offset = 1;
  OK(weir_arena_allocate(arena, 10, 0, &allocation, &offset));
  const weir_arena_stats no_stats = WEIR_ARENA_STATS_INIT;
  FILLED(weir_arena_stats, no_stats, stats, weir_arena_stats_get(arena, &stats.value));
  assert_int_equal(stats.value.used, 10);
  const weir_arena_report no_report = WEIR_ARENA_REPORT_INIT;
  FILLED(weir_arena_report, no_report, report, weir_arena_report_get(arena, &report.value));
  assert_int_equal(report.value.live_ranges, 1);
  int ranges = 0;
  OK(weir_arena_walk(arena, count_ranges, &ranges));
  assert_int_equal(ranges, 2);
  OK(weir_arena_free(arena, allocation));
  OK(weir_arena_validate(arena));
  weir_arena_destroy(arena);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "use: %s YESTERDAYS_PLUGIN\n", argv[0]);
    return 2;
  }
  plugin_path = argv[1];
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_struct_of_today_is_smaller), cmocka_unit_test(contexts_and_devices),
      cmocka_unit_test(errors_have_their_numbers),     cmocka_unit_test(a_life_on_the_host_backend),
      cmocka_unit_test(a_life_on_yesterdays_plugin),   cmocka_unit_test(arenas),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
