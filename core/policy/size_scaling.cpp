// SPDX-License-Identifier: Apache-2.0
//
// SizeScaling: samples from births far enough from the ones that they are compared with, so that a round of the program lies between.

#include "core/policy/size_scaling.hpp"

#include <algorithm>
#include <cmath>

namespace weir::policy {
namespace {

constexpr uint64_t least_before = uint64_t{64}
                                  << 10;  ///< smaller buffers are rounded up, tables, counters
constexpr uint64_t least_now = uint64_t{16} << 10;
constexpr uint64_t least_scaled = 4096;
constexpr uint32_t least_run = 32;
constexpr uint32_t least_distance = 128;
constexpr double negligible = 0.02;
constexpr double agreement = 0.05;
constexpr double worth_a_plan = 0.1;

bool about(double one, double other, double within) noexcept {
  return std::abs(one / other - 1) <= within;
}

}  // namespace

bool SizeScaling::note(Life &born, const Life &before, uint32_t run, uint32_t distance) noexcept {
  born.growth = before.growth;
  if (before.bytes < least_before || born.bytes < least_now) return false;
  if (!trusts(run, distance)) return false;
  const double ratio = static_cast<double>(born.bytes) / static_cast<double>(before.bytes);
  const bool scales = !about(ratio_, 1, negligible);
  // A size that stays while others change says nothing about the ratio.
  const bool stays = before.growth == growth_none ||
                     (before.growth == growth_unknown && scales && born.bytes == before.bytes);
  const bool changed = !stays && sample(before.growth == growth_square ? std::sqrt(ratio) : ratio);
  if (stable_ && !about(ratio_, 1, negligible)) classify(born, ratio);
  return changed;
}

/// How the place follows the ratio. While the ratio changes the wrong way round, the old one explains nothing.
void SizeScaling::classify(Life &born, double ratio) const noexcept {
  const double exponent = std::log(ratio) / std::log(ratio_);
  if (exponent > -0.5)
    born.growth = exponent < 0.5 ? growth_none : exponent < 1.5 ? growth_linear : growth_square;
}

/// True: the samples agree on another ratio than before.
bool SizeScaling::sample(double ratio) noexcept {
  ratios_[sampled_++ % samples] = ratio;
  if (sampled_ < samples) return false;
  if (sampled_ == 2 * samples) sampled_ = samples;
  std::array<double, samples> sorted = ratios_;
  std::nth_element(sorted.begin(), sorted.begin() + samples / 2, sorted.end());
  const double median = sorted[samples / 2];
  const auto agree = std::count_if(ratios_.begin(), ratios_.end(), [median](double each) {
    return about(each, median, agreement);
  });
  stable_ = agree >= 11;
  if (!stable_) return false;
  const bool changed = !about(median, ratio_, agreement);
  ratio_ = median;
  return changed;
}

uint64_t SizeScaling::scaled(const Life &before) const noexcept {
  if (about(ratio_, 1, negligible)) return before.bytes;
  uint8_t growth = before.growth;
  if (growth == growth_unknown)
    growth =
        before.bytes < least_scaled || is_persistent(before.bytes) ? growth_none : growth_linear;
  if (growth == growth_none) return before.bytes;
  const double ratio = growth == growth_square ? ratio_ * ratio_ : ratio_;
  const double bytes = static_cast<double>(before.bytes) * ratio;
  return bytes < 1 ? 1 : bytes > 9e18 ? UINT64_MAX / 2 : static_cast<uint64_t>(std::llround(bytes));
}

bool SizeScaling::trusts(uint32_t run, uint32_t distance) noexcept {
  return run >= least_run && distance >= least_distance;
}

bool SizeScaling::differ(double one, double other) noexcept {
  return !about(one, other, worth_a_plan);
}

}  // namespace weir::policy
