// SPDX-License-Identifier: Apache-2.0
//
// Taking stacks, and saying where they lead.

#include "core/base/stacks.hpp"

#include "core/base/grow.hpp"
#include "core/base/name.hpp"

#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <new>

namespace weir {
namespace {

/// FNV-1a, over the addresses as bytes.
uint64_t hash_of(std::span<void *const> frames) noexcept {
  uint64_t hash = 0xcbf29ce484222325U;
  for (void *const frame : frames) {
    const auto address = reinterpret_cast<uintptr_t>(frame);
    for (unsigned shift = 0; shift < 8 * sizeof address; shift += 8)
      hash = (hash ^ ((address >> shift) & 0xffU)) * 0x100000001b3U;
  }
  return hash;
}

}  // namespace

Stacks::Stacks(std::pmr::memory_resource *memory, uint64_t most)
    : most_(most), frames_(memory), stacks_(memory), numbers_(memory) {
  // The first one loads a library and allocates: not in the midst of somebody's call.
  void *none = nullptr;
  (void)backtrace(&none, 1);
}

uint32_t Stacks::take(const void *caller) noexcept {
  constexpr size_t most_own = 16;  // calls of Weir's, which are left out
  std::array<void *, most_frames + most_own> found;
  const int count = backtrace(found.data(), static_cast<int>(found.size()));
  if (count <= 0) return 0;
  const std::span<void *const> all(found.data(), static_cast<size_t>(count));
  const auto outer = std::ranges::find(all, caller);
  const size_t skipped = outer != all.end() ? static_cast<size_t>(outer - all.begin()) : 0;
  return keep(all.subspan(skipped, std::min(all.size() - skipped, most_frames)));
}

uint32_t Stacks::keep(std::span<void *const> frames) noexcept {
  const uint64_t hash = hash_of(frames);
  const Guard hold(mutex_);
  const auto [first, last] = numbers_.equal_range(hash);
  for (auto each = first; each != last; ++each)
    if (std::ranges::equal(frames_of(each->second), frames)) return each->second;
  if (bytes_ + bytes_of(frames.size()) > most_) return ++dropped_, 0;
  try {
    grow_by(frames_, frames.size());
    grow_by(stacks_);
    const auto number = static_cast<uint32_t>(stacks_.size() + 1);
    numbers_.emplace(hash, number);
    stacks_.push_back(
        {static_cast<uint32_t>(frames_.size()), static_cast<uint32_t>(frames.size())});
    frames_.insert(frames_.end(), frames.begin(), frames.end());
    bytes_ += bytes_of(frames.size());
    return number;
  } catch (const std::bad_alloc &) {
    return ++dropped_, 0;
  }
}

std::vector<void *> Stacks::frames(uint32_t number) const {
  if (number == 0) return {};
  const Guard hold(mutex_);
  const auto found = frames_of(number);
  return {found.begin(), found.end()};
}

uint64_t Stacks::count() const noexcept {
  const Guard hold(mutex_);
  return stacks_.size();
}

uint64_t Stacks::dropped() const noexcept {
  const Guard hold(mutex_);
  return dropped_;
}

std::string describe_frame(void *frame) {
  // A call may be the last instruction of its function.
  const auto address = reinterpret_cast<uintptr_t>(frame) - 1;
  Dl_info info{};
  char text[64];
  if (dladdr(reinterpret_cast<void *>(address), &info) == 0 || info.dli_fname == nullptr) {
    (void)std::snprintf(text, sizeof text, "%#zx", address);
    return text;
  }
  const char *const slash = std::strrchr(info.dli_fname, '/');
  std::string line = slash != nullptr ? slash + 1 : info.dli_fname;
  if (info.dli_sname != nullptr) {
    (void)std::snprintf(text, sizeof text, "+%#zx)",
                        address - reinterpret_cast<uintptr_t>(info.dli_saddr));
    line += '(' + std::string(info.dli_sname) + text;
  }
  (void)std::snprintf(text, sizeof text, " [+%#zx]",
                      address - reinterpret_cast<uintptr_t>(info.dli_fbase));
  return line + text;
}

std::string StackedText::whole() const {
  constexpr size_t most_lines = 8;
  std::string whole;
  size_t done = 0;
  for (const auto &[at, frames] : stacks_) {
    whole.append(text_, done, at - done);
    done = at;
    for (size_t i = 0; i < std::min(frames.size(), most_lines); ++i)
      whole += "      " + shown(describe_frame(frames[i])) + '\n';
  }
  return whole.append(text_, done, text_.npos);
}

}  // namespace weir
