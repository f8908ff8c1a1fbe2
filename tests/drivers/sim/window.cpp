// SPDX-License-Identifier: Apache-2.0
//
// Taking addresses from the system, and handing them out next-fit.

#include "tests/drivers/sim/window.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace weir::sim {

Window::~Window() {
  if (bytes_ != 0) syscall(SYS_munmap, address_, bytes_);
}

bool Window::open(uint64_t bytes) {
  // The system call itself: a sanitizer's mmap would note something for every page of a stretch that is far larger than
  // what is ever used.
  const long made = syscall(SYS_mmap, nullptr, bytes, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == -1) return false;
  const uint64_t address = static_cast<uint64_t>(made);
  try {
    holes_.emplace(address, bytes);
  } catch (...) {
    syscall(SYS_munmap, address, bytes);
    throw;
  }
  address_ = next_ = address;
  bytes_ = bytes;
  return true;
}

bool Window::touches(uint64_t address, uint64_t bytes) const noexcept {
  return address < address_ + bytes_ && (address >= address_ || bytes > address_ - address);
}

bool Window::take_from(Holes::iterator hole, uint64_t from, uint64_t bytes, uint64_t alignment,
                       uint64_t *address) {
  const uint64_t end = hole->first + hole->second;
  const uint64_t start = (from + alignment - 1) & ~(alignment - 1);
  if (start < from || start > end || bytes > end - start) return false;
  const uint64_t first = hole->first;
  if (start + bytes != end) holes_.emplace(start + bytes, end - start - bytes);
  if (start == first) {
    holes_.erase(first);
  } else {
    hole->second = start - first;
  }
  next_ = start + bytes;
  *address = start;
  return true;
}

bool Window::take(uint64_t bytes, uint64_t alignment, uint64_t *address) {
  auto begin = holes_.upper_bound(next_);
  if (begin != holes_.begin()) --begin;
  for (auto hole = begin; hole != holes_.end(); ++hole) {
    const uint64_t from = std::max(hole->first, next_);
    if (from >= hole->first + hole->second) continue;
    if (take_from(hole, from, bytes, alignment, address)) return true;
  }
  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
    if (take_from(hole, hole->first, bytes, alignment, address)) return true;
  }
  return false;
}

void Window::give(uint64_t address, uint64_t bytes) {
  auto hole = holes_.emplace(address, bytes).first;
  if (const auto after = std::next(hole);
      after != holes_.end() && address + bytes == after->first) {
    hole->second += after->second;
    holes_.erase(after);
  }
  if (hole == holes_.begin()) return;
  if (const auto before = std::prev(hole); before->first + before->second == address) {
    before->second += hole->second;
    holes_.erase(hole);
  }
}

}  // namespace weir::sim
