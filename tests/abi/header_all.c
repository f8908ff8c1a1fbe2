/* SPDX-License-Identifier: Apache-2.0
 *
 * Compile check of the public headers as C: both entry headers together and twice, every initialiser
 * macro under -Wextra, and the sizes the ABI promises. It is compiled as C99 and C17 and never linked;
 * it must include nothing but the public headers, so that they are seen to need nothing else.
 */
#include <weir/backend.h>
#include <weir/weir.h>
#include <weir/backend.h>
#include <weir/weir.h>

/* C99 has no static assertion: an array of negative size stops the compiler in its place. */
#define CHECK(name, condition) extern char weir_header_check_##name[(condition) ? 1 : -1]

CHECK(use_is_64_bytes, sizeof(weir_use) == 64);
CHECK(operation_is_48_bytes, sizeof(weir_operation) == 48);
CHECK(operation_id_was_the_first_reserved_word, offsetof(weir_operation, operation_id) == 24);
CHECK(operation_id_of_an_acquire_was_reserved, offsetof(weir_acquire_options, operation_id) == 4);
CHECK(arena_range_is_24_bytes, sizeof(weir_arena_range) == 24);
CHECK(arena_class_is_32_bytes, sizeof(weir_arena_class) == 32);
CHECK(pool_device_is_32_bytes, sizeof(weir_pool_device) == 32);
CHECK(result_is_32_bits, sizeof(weir_result) == 4);
CHECK(device_is_32_bits, sizeof(weir_device) == 4);
CHECK(context_desc_starts_with_size, offsetof(weir_context_desc, struct_size) == 0);
CHECK(pool_desc_starts_with_size, offsetof(weir_pool_desc, struct_size) == 0);
CHECK(buffer_desc_starts_with_size, offsetof(weir_buffer_desc, struct_size) == 0);
CHECK(stats_are_whole_words, sizeof(weir_pool_stats) % sizeof(uint64_t) == 0);
CHECK(table_starts_with_size, offsetof(weir_backend_table, struct_size) == 0);

#define INITIALISED(type, macro)               \
  extern const type weir_header_object_##type; \
  const type weir_header_object_##type = macro

INITIALISED(weir_context_desc, WEIR_CONTEXT_DESC_INIT);
INITIALISED(weir_backend_info, WEIR_BACKEND_INFO_INIT);
INITIALISED(weir_device_info, WEIR_DEVICE_INFO_INIT);
INITIALISED(weir_link_info, WEIR_LINK_INFO_INIT);
INITIALISED(weir_calibrate_desc, WEIR_CALIBRATE_DESC_INIT);
INITIALISED(weir_calibrate_report, WEIR_CALIBRATE_REPORT_INIT);
INITIALISED(weir_pool_desc, WEIR_POOL_DESC_INIT);
INITIALISED(weir_pool_device_stats, WEIR_POOL_DEVICE_STATS_INIT);
INITIALISED(weir_client_desc, WEIR_CLIENT_DESC_INIT);
INITIALISED(weir_client_stats, WEIR_CLIENT_STATS_INIT);
INITIALISED(weir_buffer_desc, WEIR_BUFFER_DESC_INIT);
INITIALISED(weir_buffer_info, WEIR_BUFFER_INFO_INIT);
INITIALISED(weir_use, WEIR_USE_INIT);
INITIALISED(weir_acquire_options, WEIR_ACQUIRE_OPTIONS_INIT);
INITIALISED(weir_arena_desc, WEIR_ARENA_DESC_INIT);
INITIALISED(weir_arena_stats, WEIR_ARENA_STATS_INIT);
INITIALISED(weir_arena_report, WEIR_ARENA_REPORT_INIT);
INITIALISED(weir_error_info, WEIR_ERROR_INFO_INIT);

extern const weir_backend_query_fn weir_header_query;
const weir_backend_query_fn weir_header_query = NULL;
