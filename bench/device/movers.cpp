// SPDX-License-Identifier: Apache-2.0
//
// The two movers. The pool's counters tell what moved: a step that moved something else than it is for, or much less,
// would be a figure about nothing, and ends the program.

#include "bench/device/movers.hpp"

#include <cerrno>

namespace weir::bench {
namespace {

void expect(bool good, const char *what) {
  if (good) return;
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
  std::exit(1);
}

}  // namespace

Copies::Copies(const Settings &settings, const Backend &backend)
    : bytes_(settings.bytes),
      page_(settings.page),
      host_down_(backend, bytes_),
      host_up_(backend, bytes_),
      device_down_(backend, bytes_),
      device_up_(backend, bytes_),
      down_(backend),
      up_(backend) {
  run(true, true);
}

double Copies::run(bool down, bool up) const {
  const double start = now_ns();
  for (uint64_t at = 0; at < bytes_; at += page_) {
    if (down) down_.copy(host_down_.address() + at, device_down_.address() + at, page_);
    if (up) up_.copy(device_up_.address() + at, host_up_.address() + at, page_);
  }
  if (down) down_.wait();
  if (up) up_.wait();
  return now_ns() - start;
}

Cycle::Cycle(const Settings &settings, const Backend &backend, uint64_t per_lease)
    : bytes_(settings.bytes),
      page_(settings.page),
      buffer_(settings.page * settings.run),
      per_lease_(per_lease),
      rig_(backend.context(), pool(settings), settings.bytes + 2 * page_) {
  for (Set *set : {&data_, &other_}) {
    for (uint64_t i = 0; i < settings.buffers(); ++i) set->push_back(rig_.add_buffer(buffer_));
  }
}

weir_pool_desc Cycle::pool(const Settings &settings) {
  weir_pool_desc desc = WEIR_POOL_DESC_INIT;
  desc.host_budget = 3 * settings.bytes;
  desc.page_size = settings.page;
  desc.large_page_size = settings.page;
  // What moves is what the step is for: nothing is cleaned or brought ahead, and no more is kept free than the two pages there are.
  desc.policy = "lru-window";
  desc.watermark_low_permille = desc.watermark_high_permille = 1;
  return desc;
}

void Cycle::lease(const Set &set, uint32_t mode) {
  std::vector<weir_use> uses;
  for (uint64_t at = 0; at < set.size(); at += per_lease_) {
    uses.clear();
    for (uint64_t i = at; i < std::min<uint64_t>(at + per_lease_, set.size()); ++i)
      uses.push_back(WEIR_USE(set[i], mode));
    weir_lease lease = nullptr;
    WEIR_BENCH_TRY(
        weir_acquire(rig_.pool(), rig_.stream(), uses.data(), uses.size(), nullptr, &lease));
    WEIR_BENCH_TRY(weir_release(lease, rig_.stream()));
  }
  rig_.synchronize();
}

void Cycle::forget(const Set &set) {
  for (weir_buffer buffer : set) {
    WEIR_BENCH_TRY(weir_discard(rig_.pool(), buffer, 0, WEIR_WHOLE));
  }
}

uint64_t Cycle::trim(uint32_t level) {
  uint64_t freed = 0;
  WEIR_BENCH_TRY(weir_pool_trim(rig_.pool(), 0, level, WEIR_WHOLE, &freed));
  return freed;
}

void Cycle::make_dirty() {
  forget(other_);
  lease(data_, WEIR_READ_WRITE);
  ++mark_;
  for (uint64_t i = 0; i < data_.size(); ++i) {
    const uint64_t words[2] = {mark_, i};
    WEIR_BENCH_TRY(
        weir_buffer_write(rig_.pool(), data_[i], buffer_ - sizeof words, sizeof words, words));
  }
}

Moved Cycle::evict(bool clean) {
  const weir_pool_stats before = rig_.stats();
  const double start = now_ns();
  lease(other_, WEIR_DISCARD_WRITE);
  const double ns = now_ns() - start;
  const weir_pool_stats after = rig_.stats();
  const uint64_t copied = after.demoted_bytes - before.demoted_bytes;
  const uint64_t dropped = after.dropped_clean_bytes - before.dropped_clean_bytes;
  expect(after.promoted_bytes == before.promoted_bytes, "pages came up in an eviction");
  // When data is gone the background may begin with a page of the other set.
  expect((clean ? copied : dropped) <= 2 * page_, "clean pages were copied, or dirty ones dropped");
  expect((copied + dropped) * 4 >= bytes_ * 3, "less than three quarters were evicted");
  return {copied + dropped, ns};
}

Moved Cycle::restore() {
  forget(other_);
  const weir_pool_stats before = rig_.stats();
  const double start = now_ns();
  lease(data_, WEIR_READ);
  const double ns = now_ns() - start;
  const weir_pool_stats after = rig_.stats();
  expect(after.demoted_bytes - before.demoted_bytes <= 2 * page_, "pages went down in a restore");
  const uint64_t bytes = after.promoted_bytes - before.promoted_bytes;
  expect(bytes * 4 >= bytes_ * 3, "less than three quarters came up");
  return {bytes, ns};
}

void Cycle::give_back_idle() {
  forget(other_);
  (void)trim(WEIR_TRIM_GRADUAL);
}

Moved Cycle::evict_for_good(bool clean) {
  forget(other_);
  // Clean pages would go with the idle memory: dirty ones are what gradual leaves.
  if (!clean) (void)trim(WEIR_TRIM_GRADUAL);
  const weir_pool_stats before = rig_.stats();
  const double start = now_ns();
  const uint64_t freed = trim(clean ? WEIR_TRIM_GRADUAL : WEIR_TRIM_SELECTIVE);
  const double ns = now_ns() - start;
  const weir_pool_stats after = rig_.stats();
  const uint64_t copied = after.demoted_bytes - before.demoted_bytes;
  const uint64_t dropped = after.dropped_clean_bytes - before.dropped_clean_bytes;
  expect((clean ? copied : dropped) == 0, "clean pages were copied, or dirty ones dropped");
  expect(copied + dropped == bytes_ && freed >= bytes_, "a trim left pages on the device");
  return {copied + dropped, ns};
}

void Cycle::fill_both() {
  lease(other_, WEIR_READ_WRITE);
  lease(data_, WEIR_READ_WRITE);
}

Moved Cycle::exchange() {
  const weir_pool_stats before = rig_.stats();
  const double start = now_ns();
  lease(other_, WEIR_READ_WRITE);
  const double ns = now_ns() - start;
  const weir_pool_stats after = rig_.stats();
  std::swap(data_, other_);
  const uint64_t bytes =
      (after.demoted_bytes - before.demoted_bytes) + (after.promoted_bytes - before.promoted_bytes);
  expect(bytes * 2 >= bytes_ * 3, "less than three quarters of both ways moved");
  return {bytes, ns};
}

void Cycle::verify() {
  for (uint64_t i = 0; i < data_.size(); ++i) {
    uint64_t words[2] = {};
    WEIR_BENCH_TRY(
        weir_buffer_read(rig_.pool(), data_[i], buffer_ - sizeof words, sizeof words, words));
    expect(words[0] == mark_ && words[1] == i, "a page came back with other bytes");
  }
}

}  // namespace weir::bench
