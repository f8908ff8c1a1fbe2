// SPDX-License-Identifier: Apache-2.0
//
// What prefetching is worth, in counts: a scan of 64 buffers of a page, three passes, without prefetch, announced, and prefetched one
// and two buffers ahead, in pools of 3 to 128 pages. Hits and pages moved, no times: every run gives the same. Prints JSON.

#include <weir/weir.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr uint64_t page = 16384;
constexpr uint32_t count = 64, passes = 3;

void must(weir_result result) {
  if (result == WEIR_SUCCESS) return;
  std::fprintf(stderr, "%s\n", weir_last_error());
  std::exit(1);
}

/// `ahead`: so many buffers; 0: none, unless `announced`.
void scan(uint64_t pages, uint32_t ahead, bool announced, const char *name, bool last) {
  weir_context_desc context_desc = WEIR_CONTEXT_DESC_INIT;
  context_desc.flags = WEIR_CONTEXT_NO_SEARCH;
  context_desc.options = "host.memory=16M;host.granule=16K;host.granule_large=0";
  weir_context context = nullptr;
  must(weir_context_create(&context_desc, &context));
  weir_stream stream = nullptr;
  must(weir_stream_create(context, 0, 0, &stream));
  const weir_pool_device device = {0, 0, pages * page, {0, 0}};
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.devices = &device;
  desc.device_count = 1;
  desc.host_budget = 2 * count * page;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  weir_pool pool = nullptr;
  must(weir_pool_create(context, &desc, &pool));
  const std::vector<unsigned char> bytes(page, 7);
  std::vector<weir_buffer> buffers(count);
  for (weir_buffer &buffer : buffers) {
    weir_buffer_desc buffer_desc = WEIR_BUFFER_DESC_INIT;
    buffer_desc.size = page;
    must(weir_buffer_create(pool, &buffer_desc, &buffer));
    must(weir_buffer_write(pool, buffer, 0, page, bytes.data()));
  }
  must(weir_pool_trim(pool, 0, WEIR_TRIM_EMERGENCY, WEIR_WHOLE, nullptr));
  for (uint32_t i = 0; announced && i < passes * count; ++i) {
    const weir_use use = WEIR_USE(buffers[i % count], WEIR_READ);
    const weir_operation operation = {nullptr, &use, 1, 0, {0, 0}};
    must(weir_announce(pool, stream, &operation, 1, 0));
  }
  weir_pool_stats before = WEIR_POOL_STATS_INIT, after = WEIR_POOL_STATS_INIT;
  must(weir_pool_stats_get(pool, &before));
  for (uint32_t i = 0; i < passes * count; ++i) {
    if (ahead != 0 && i + ahead < passes * count) {
      const weir_use next = WEIR_USE(buffers[(i + ahead) % count], WEIR_READ);
      must(weir_prefetch(pool, stream, &next, 1));
    }
    weir_use use = WEIR_USE(buffers[i % count], WEIR_READ);
    weir_lease lease = nullptr;
    must(weir_acquire(pool, stream, &use, 1, nullptr, &lease));
    must(weir_release(lease, stream));
  }
  must(weir_pool_stats_get(pool, &after));
  const uint64_t moved =
      after.promoted_bytes - before.promoted_bytes + after.demoted_bytes - before.demoted_bytes;
  std::printf(
      "  {\"pool_pages\": %llu, \"way\": \"%s\", \"hits\": %llu, \"moved_pages\": %llu}%s\n",
      static_cast<unsigned long long>(pages), name,
      static_cast<unsigned long long>(after.hits - before.hits),
      static_cast<unsigned long long>(moved / page), last ? "" : ",");
  for (weir_buffer buffer : buffers) must(weir_buffer_destroy(pool, buffer));
  must(weir_pool_destroy(pool));
  must(weir_stream_close(stream));
  must(weir_context_destroy(context));
}

}  // namespace

int main() {
  std::printf("{\"uses\": %u, \"scans\": [\n", passes * count);
  for (const uint64_t pages : {3U, 4U, 8U, 16U, 24U, 32U, 48U, 63U, 64U, 96U, 128U}) {
    scan(pages, 0, false, "neither", false);
    scan(pages, 0, true, "announced", false);
    scan(pages, 1, false, "prefetch_1", false);
    scan(pages, 2, false, "prefetch_2", pages == 128);
  }
  std::printf("]}\n");
  return 0;
}
