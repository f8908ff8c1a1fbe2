// SPDX-License-Identifier: Apache-2.0
//
// The background mode: looks now and then whether a device is more fragmented than it is meant to be, and moves what its
// rate allows. Off until it is asked for. It never waits for the caller's work, and never evicts.

#include "core/base/descriptor.hpp"
#include "core/pool/defragmenter.hpp"

#include <algorithm>

namespace weir::pool {
namespace {

constexpr uint32_t most_skipped = 31;
constexpr uint64_t second_ns = 1'000'000'000;

}  // namespace

Status Defragmenter::set_background(const weir_defragmentation_desc &desc, bool allowed) {
  WEIR_TRY(check_flags(desc.flags, 0));
  if (desc.reserved != 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, "reserved is %u", desc.reserved);
  if (desc.threshold_permille > 1000)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "threshold_permille is %u", desc.threshold_permille);
  if (desc.threshold_permille != 0 && !allowed)
    return fail(WEIR_ERROR_NOT_SUPPORTED,
                "the pool was made with WEIR_POOL_NO_BACKGROUND: call weir_pool_defragment");
  const Guard one(change_);
  if (desc.threshold_permille == 0) {
    background_.stop(this);
    return {};
  }
  {
    const Guard hold(mutex_);
    settings_ = {desc.threshold_permille,
                 desc.max_cost_permille != 0 ? desc.max_cost_permille : 500,
                 desc.bytes_per_second != 0 ? desc.bytes_per_second : uint64_t{256} << 20U};
    last_look_ns_ = relocator_.now_ns();
    allowance_ = 0;
    looks_to_skip_ = 1;  // the first look comes after a pause
    backoff_ = 0;
  }
  return background_.start(*this, numa::unknown, nullptr);
}

bool Defragmenter::step(Releasable &lock) {
  lock.unlocked([this] { look(); });
  return false;
}

void Defragmenter::look() {
  weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
  uint32_t threshold = 0;
  {
    const Guard hold(mutex_);
    if (looks_to_skip_ != 0) {
      --looks_to_skip_;
      return;
    }
    const uint64_t now = relocator_.now_ns();
    const uint64_t passed = std::min(now - std::min(now, last_look_ns_), second_ns);
    last_look_ns_ = now;
    // What was not used by now is not saved up for more than a second.
    const double fresh = static_cast<double>(settings_.bytes_per_second) *
                         static_cast<double>(passed) / static_cast<double>(second_ns);
    allowance_ = std::min(allowance_ + static_cast<uint64_t>(fresh), settings_.bytes_per_second);
    desc.max_bytes = allowance_;
    desc.max_cost_permille = settings_.cost;
    threshold = settings_.threshold;
  }
  if (desc.max_bytes == 0 || worst_fragmentation() <= threshold) return;
  weir_defragment_report report = WEIR_DEFRAGMENT_REPORT_INIT;
  if_memory([&] { (void)run(desc, &report); });  // or another time
  const Guard hold(mutex_);
  allowance_ -= std::min(allowance_, report.moved_bytes);
  // What can't be helped now is looked at less and less often.
  backoff_ = report.copy_moves == 0 && report.won_bytes == 0
                 ? std::min(2 * backoff_ + 1, most_skipped)
                 : 0;
  looks_to_skip_ = backoff_;
}

}  // namespace weir::pool
