// SPDX-License-Identifier: Apache-2.0
//
// Pinned memory is plain pages of the host: nothing here can make it resident, and nothing needs it to be.

#include "tests/drivers/sim/host_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string>

namespace weir::sim {
namespace {

using Hex = unsigned long long;

uint64_t address_of(const void *memory) { return reinterpret_cast<uintptr_t>(memory); }
void *memory_at(uint64_t address) {
  return reinterpret_cast<void *>(static_cast<uintptr_t>(address));
}
uint64_t page_size() { return static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }
uint64_t in_pages(uint64_t bytes) { return (bytes + page_size() - 1) / page_size() * page_size(); }
void unmap(uint64_t address, uint64_t bytes) {
  const uint64_t inset = address % page_size();
  munmap(memory_at(address - inset), in_pages(inset + bytes));
}

}  // namespace

bool lies_in_memfd(const void *memory) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    char *rest = nullptr;
    const uint64_t begin = std::strtoull(line.c_str(), &rest, 16);
    const uint64_t end = std::strtoull(rest + 1, nullptr, 16);
    if (begin <= address_of(memory) && address_of(memory) < end)
      return line.find("/memfd:") != std::string::npos;
  }
  return false;
}

HostMemory::~HostMemory() {
  for (const auto &[address, range] : ranges_) {
    if (range.own) unmap(address, range.bytes);
  }
}

Answer HostMemory::allocate(uint64_t bytes, void **memory, uint64_t inset) {
  if (bytes == 0) return census_.misuse("pinned memory of 0 bytes");
  if (bytes > UINT64_MAX / 2) return Answer::out_of_host_memory;
  std::map<uint64_t, Range> record;
  record.emplace(0, Range{bytes, true});
  void *made = mmap(nullptr, in_pages(inset + bytes), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) return Answer::out_of_host_memory;
  auto node = record.extract(0);
  node.key() = address_of(made) + inset;
  const std::lock_guard hold(mutex_);
  ranges_.insert(std::move(node));
  census_.add(Kind::pinned);
  *memory = memory_at(address_of(made) + inset);
  return Answer::ok;
}

Answer HostMemory::release(void *memory) {
  uint64_t bytes = 0;
  {
    const std::lock_guard hold(mutex_);
    const auto it = ranges_.find(address_of(memory));
    if (it == ranges_.end() || !it->second.own) {
      return census_.misuse("freeing %p, which is no pinned memory", memory);
    }
    bytes = it->second.bytes;
    ranges_.erase(it);
    census_.remove(Kind::pinned);
  }
  unmap(address_of(memory), bytes);
  return Answer::ok;
}

Answer HostMemory::enroll(void *memory, uint64_t bytes) {
  const uint64_t address = address_of(memory);
  if (address == 0 || bytes == 0 || bytes > UINT64_MAX - address) {
    return census_.misuse("registering %llu bytes at %p", static_cast<Hex>(bytes), memory);
  }
  const std::lock_guard hold(mutex_);
  if (overlaps(address, bytes)) return Answer::registered_already;
  ranges_.emplace(address, Range{bytes, false});
  census_.add(Kind::registration);
  return Answer::ok;
}

Answer HostMemory::dismiss(void *memory) {
  const std::lock_guard hold(mutex_);
  const auto it = ranges_.find(address_of(memory));
  if (it == ranges_.end() || it->second.own) return Answer::not_registered;
  ranges_.erase(it);
  census_.remove(Kind::registration);
  return Answer::ok;
}

bool HostMemory::overlaps(uint64_t address, uint64_t bytes) const noexcept {
  const auto next = ranges_.lower_bound(address);
  if (next != ranges_.end() && next->first - address < bytes) return true;
  if (next == ranges_.begin()) return false;
  const auto before = std::prev(next);
  return address - before->first < before->second.bytes;
}

bool HostMemory::find(uint64_t address, uint64_t *start, uint64_t *bytes,
                      HostKind *kind) const noexcept {
  const std::shared_lock hold(mutex_);
  auto it = ranges_.upper_bound(address);
  if (it == ranges_.begin()) return false;
  --it;
  if (address - it->first >= it->second.bytes) return false;
  *start = it->first;
  *bytes = it->second.bytes;
  *kind = it->second.own ? HostKind::pinned : HostKind::registered;
  return true;
}

HostKind HostMemory::kind(uint64_t address, uint64_t bytes) const noexcept {
  uint64_t start = 0;
  uint64_t size = 0;
  HostKind found = HostKind::pageable;
  if (!find(address, &start, &size, &found)) return HostKind::pageable;
  return bytes <= size - (address - start) ? found : HostKind::pageable;
}

}  // namespace weir::sim
