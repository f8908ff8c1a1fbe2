// SPDX-License-Identifier: Apache-2.0
//
// What the pool's own records take, as differences of its bookkeeping_bytes counter: for a buffer of one
// page, for a page (resident, and demoted), and for a tenant of a slab. The counter has no noise, so
// that nothing is repeated.
//
// Must never judge: it exits 0 whatever the numbers are, and 1 only if a call fails.

#include "common.hpp"

namespace {

using namespace weir::bench;

double bookkeeping(const Rig &rig) { return static_cast<double>(rig.stats().bookkeeping_bytes); }

weir_pool_desc small_pages(uint64_t host_budget) {
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  desc.host_budget = host_budget;
  desc.page_size = 4 * kib;
  desc.large_page_size = 4 * kib;
  return desc;
}

void report(const char *what, const char *per, double bytes, double count, const char *goal) {
  Json("bookkeeping")
      .text("what", what)
      .number("count", count)
      .number((std::string("bytes_per_") + per).c_str(), bytes / count)
      .text("goal", goal)
      .print();
}

/// Pages of 4 KiB: records do not depend on the page's size, and touched memory is dear.
void one_page_buffers() {
  constexpr size_t count = 4000;
  Rig rig("host.memory=64M;host.granule=4K;host.granule_large=0", small_pages(32 * mib), 32 * mib);
  std::vector<weir_buffer> buffers(count);
  const double before = bookkeeping(rig);
  for (weir_buffer &buffer : buffers) buffer = rig.add_buffer(4 * kib);
  const double created = bookkeeping(rig);
  for (weir_buffer buffer : buffers) rig.touch(buffer, WEIR_DISCARD_WRITE);
  rig.synchronize();
  const double resident = bookkeeping(rig);
  report("buffer of one page, created", "buffer", created - before, count, "<= 512");
  report("buffer of one page, resident", "buffer", resident - before, count, "<= 512");
}

void pages_of_buffers() {
  constexpr size_t count = 64;
  constexpr size_t pages = 64;
  Rig rig("host.memory=64M;host.granule=4K;host.granule_large=0", small_pages(32 * mib), 32 * mib);
  std::vector<weir_buffer> buffers(count);
  rig.add_buffer(4 * kib);  // the table of buffers grows by thousands: no cost of a page
  const double before = bookkeeping(rig);
  for (weir_buffer &buffer : buffers) buffer = rig.add_buffer(pages * 4 * kib);
  const double created = bookkeeping(rig);
  for (weir_buffer buffer : buffers) rig.touch(buffer, WEIR_DISCARD_WRITE);
  rig.synchronize();
  const double resident = bookkeeping(rig);
  uint64_t freed = 0;
  WEIR_BENCH_TRY(weir_pool_trim(rig.pool(), 0, WEIR_TRIM_SELECTIVE, WEIR_WHOLE, &freed));
  const double demoted = bookkeeping(rig);
  if (rig.stats().demoted_bytes != count * pages * 4 * kib) {
    std::fprintf(stderr, "bench_memory: only %" PRIu64 " bytes went down\n",
                 rig.stats().demoted_bytes);
    std::exit(1);
  }
  const double all = count * pages;
  // The buffers' own share is in these too: 512 / 64 = 8 bytes a page, so that the goal is 136.
  report("page of a buffer of 64, created", "page", created - before, all, "<= 136");
  report("page of a buffer of 64, resident", "page", resident - before, all, "<= 136");
  report("page of a buffer of 64, demoted", "page", demoted - before, all, "<= 136");
}

void slab_tenants() {
  constexpr size_t count = 131072;  // as many as the table of buffers then has room for
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.flags = WEIR_POOL_NO_BACKGROUND;
  desc.host_budget = 32 * mib;
  Rig rig("host.memory=128M;host.granule=2M", desc, 128 * mib);
  const double before = bookkeeping(rig);
  std::vector<weir_buffer> buffers(count);
  for (weir_buffer &buffer : buffers) buffer = rig.add_buffer(256);
  const double created = bookkeeping(rig);
  for (weir_buffer buffer : buffers) rig.touch(buffer, WEIR_DISCARD_WRITE);
  rig.synchronize();
  const double used = bookkeeping(rig);
  report("tenant of 256 bytes, created", "tenant", created - before, count, "<= 72");
  report("tenant of 256 bytes, used", "tenant", used - before, count, "<= 72");
}

}  // namespace

int main() {
  one_page_buffers();
  pages_of_buffers();
  slab_tenants();
  return 0;
}
