// SPDX-License-Identifier: Apache-2.0
//
// See limbo.hpp.

#include "core/page/limbo.hpp"

#include "core/base/grow.hpp"
#include "core/transfer/copier.hpp"

#include <algorithm>

namespace weir::page {

void Limbo::reserve() { grow_by(left_); }

void Limbo::enter(GranuleId granule, uint64_t bytes, bool scrub) noexcept {
  left_.push_back(Left{granule, Stamp{}, bytes, scrub ? Wipe::due : Wipe::none});
}

std::pmr::vector<Limbo::Left>::iterator Limbo::find(GranuleId granule) noexcept {
  return std::ranges::find(left_, granule, &Left::granule);
}

void Limbo::settle(GranuleId granule, GranuleId left, Stamp copied) noexcept {
  Left &entry = *find(granule);
  entry.granule = left;
  entry.copied = copied;
}

void Limbo::cancel(GranuleId granule) noexcept { left_.erase(find(granule)); }

void Limbo::wipe(Left &left, uint64_t address, backend::Stream &stream) noexcept {
  transfer::Copier copier(stream);
  if (!copier.zero(address, left.bytes)) return;
  if (!stream.mark(&left.copied)) stream.synchronize();
  left.wipe = Wipe::under_way;
}

bool Limbo::sweep(backend::StreamTable &streams, physical::GranulePool &granules, bool lost,
                  backend::Stream *stream) noexcept {
  for (Left &left : left_) {
    if (left.wipe == Wipe::due && !lost && left.copied && streams.passed(left.copied))
      wipe(left, granules.at(left.granule).place, *stream);
  }
  return std::erase_if(left_, [&](const Left &left) {
           const bool due = left.wipe == Wipe::due && !lost;
           if (!left.copied || due || !streams.passed(left.copied)) return false;
           granules.release(left.granule);
           return true;
         }) != 0;
}

backend::Stamp Limbo::first() const noexcept {
  const auto settled = [](const Left &left) { return static_cast<bool>(left.copied); };
  const auto first = std::ranges::find_if(left_, settled);
  return first != left_.end() ? first->copied : Stamp{};
}

bool Limbo::any_secret(Stamp *settled) const noexcept {
  const auto first = std::ranges::find_if(
      left_, [](Wipe wipe) { return wipe != Wipe::none; }, &Left::wipe);
  if (first == left_.end()) return false;
  *settled = first->copied;
  return true;
}

bool Limbo::wiping() const noexcept {
  return std::ranges::find(left_, Wipe::under_way, &Left::wipe) != left_.end();
}

}  // namespace weir::page
