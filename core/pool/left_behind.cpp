// SPDX-License-Identifier: Apache-2.0
//
// The buffers that are left, the largest first.

#include "core/pool/left_behind.hpp"

#include "core/base/amount.hpp"
#include "core/base/name.hpp"

#include <algorithm>

namespace weir::pool {
namespace {

constexpr size_t most_named = 5;

std::string in_words(const BufferSight &sight) {
  std::string text = sight.allocation     ? std::string(" memory of weir_malloc")
                     : sight.name.empty() ? " no name (tag " + std::to_string(sight.info.tag) + ")"
                                          : QuotedName(sight.name).c_str();
  char size[16];
  Amount::round(sight.info.size, size);
  text += ' ';
  text += size;
  if (sight.info.leases != 0) text += " (leased)";
  if (sight.info.held != 0) text += " (held)";
  return text;
}

}  // namespace

LeftBehind::LeftBehind(const Inspector &pool) {
  pool.for_each_buffer([&](const BufferSight &sight) {
    ++count_;
    bytes_ += sight.info.size;
    if (largest_.size() == most_named && sight.info.size <= largest_.back().size) return;
    const auto at = std::ranges::find_if(
        largest_, [&](const Buffer &other) { return other.size < sight.info.size; });
    largest_.insert(at, {sight.info.size, in_words(sight), pool.stack(sight.stack)});
    if (largest_.size() > most_named) largest_.pop_back();
  });
}

std::string LeftBehind::line() const {
  char size[16];
  Amount::round(bytes_, size);
  std::string text =
      std::to_string(count_) + (count_ == 1 ? " buffer of " : " buffers of ") + size + ':';
  for (size_t i = 0; i < largest_.size(); ++i) text += (i != 0 ? "," : "") + largest_[i].what;
  if (count_ > largest_.size())
    text += " and " + std::to_string(count_ - largest_.size()) + " more";
  return text;
}

void LeftBehind::add_stacks(StackedText *text) const {
  for (const Buffer &buffer : largest_) {
    if (buffer.stack.empty()) continue;
    *text += " " + buffer.what + " was made here:\n";
    text->add(buffer.stack);
  }
}

}  // namespace weir::pool
