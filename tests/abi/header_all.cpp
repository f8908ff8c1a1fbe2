// SPDX-License-Identifier: Apache-2.0
//
// Compile check of the public headers as C++20: both entry headers together, every initialiser macro under
// -Wextra, C linkage, and the same sizes as in C. It is never linked and includes only the public headers.
#include <weir/backend.h>
#include <weir/weir.h>

namespace {

static_assert(sizeof(weir_use) == 64);
static_assert(sizeof(weir_operation) == 48);
static_assert(sizeof(weir_pool_device) == 32);
static_assert(offsetof(weir_context_desc, struct_size) == 0);
static_assert(offsetof(weir_backend_table, struct_size) == 0);
static_assert(sizeof(WEIR_BACKEND_QUERY_SYMBOL) > 1);

// A function of a weir_context_desc is what a weir/backend.h entry point is: one type under two names.
constexpr weir_backend_query_fn query = nullptr;
constexpr weir_backend_query_fn registered = query;
static_assert(registered == nullptr);

template <class... Types>
constexpr bool sizes_are_set(const Types &...objects) {
  return ((objects.struct_size == sizeof(Types)) && ...);
}

constexpr weir_context_desc context_desc = WEIR_CONTEXT_DESC_INIT;
constexpr weir_backend_info backend_info = WEIR_BACKEND_INFO_INIT;
constexpr weir_device_info device_info = WEIR_DEVICE_INFO_INIT;
constexpr weir_link_info link_info = WEIR_LINK_INFO_INIT;
constexpr weir_pool_desc pool_desc = WEIR_POOL_DESC_INIT;
constexpr weir_pool_device_stats pool_device_stats = WEIR_POOL_DEVICE_STATS_INIT;
constexpr weir_client_desc client_desc = WEIR_CLIENT_DESC_INIT;
constexpr weir_client_stats client_stats = WEIR_CLIENT_STATS_INIT;
constexpr weir_buffer_desc buffer_desc = WEIR_BUFFER_DESC_INIT;
constexpr weir_buffer_info buffer_info = WEIR_BUFFER_INFO_INIT;
constexpr weir_acquire_options acquire_options = WEIR_ACQUIRE_OPTIONS_INIT;
constexpr weir_arena_desc arena_desc = WEIR_ARENA_DESC_INIT;
constexpr weir_arena_stats arena_stats = WEIR_ARENA_STATS_INIT;
constexpr weir_arena_report arena_report = WEIR_ARENA_REPORT_INIT;
constexpr weir_error_info error_info = WEIR_ERROR_INFO_INIT;
static_assert(sizes_are_set(context_desc, backend_info, device_info, link_info, pool_desc,
                            pool_device_stats, client_desc, client_stats, buffer_desc, buffer_info,
                            acquire_options, arena_desc, arena_stats, arena_report, error_info));

constexpr weir_use use = WEIR_USE(nullptr, WEIR_READ);
static_assert(use.length == WEIR_WHOLE && use.mode == WEIR_READ);
constexpr weir_use default_use = WEIR_USE_INIT;
static_assert(default_use.length == WEIR_WHOLE && default_use.mode == WEIR_READ);

}  // namespace
