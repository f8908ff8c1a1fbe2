// SPDX-License-Identifier: Apache-2.0
//
// Versions of bytes. One number stands for "whatever it is": of what was discarded in part, and of buffers that may come back rounded.
#include "tools/weir/recorded/contents.hpp"

#include <algorithm>
#include <new>

namespace weir::tool::recorded {
namespace {

constexpr uint32_t any_version = UINT32_MAX;
constexpr uint64_t lossy = WEIR_BUFFER_LOSSY_BF16 | WEIR_BUFFER_LOSSY_F16;
constexpr size_t alignment = 4096;

}  // namespace

Contents::Contents(const Program &program, bool verify)
    : program_(program), verify_(verify), versions_(verify ? program.buffers.size() : 0) {}

/// Uses may overlap. What one of them overwrites need not be there for another to read.
void Contents::tasks(const ProgramCall &call, std::span<const weir_use> uses,
                     std::vector<Task> &tasks) {
  if (!verify_) return;
  const ProgramUse *recorded = program_.uses.data() + call.first;
  const auto overwritten = [&](const ProgramUse &use) {
    return std::any_of(recorded, recorded + uses.size(), [&use](const ProgramUse &other) {
      return other.mode == WEIR_DISCARD_WRITE && other.buffer == use.buffer;
    });
  };
  const auto at = [&uses](size_t i) { return reinterpret_cast<std::byte *>(uses[i].address); };
  const bool overwrites = std::any_of(recorded, recorded + uses.size(), [](const ProgramUse &use) {
    return use.mode == WEIR_DISCARD_WRITE;
  });
  for (size_t i = 0; i < uses.size(); ++i) {
    if (recorded[i].mode == WEIR_DISCARD_WRITE) continue;
    // Few sets have both; in a large one the search would take long.
    if (overwrites && (uses.size() > 256 || overwritten(recorded[i]))) continue;
    check(recorded[i].buffer, recorded[i].offset, recorded[i].length, at(i), tasks);
  }
  const uint32_t version = version_ + 1 == any_version ? 1 : version_ + 1;
  for (size_t i = 0; i < uses.size(); ++i) {
    if (recorded[i].mode == WEIR_READ) continue;
    version_ = version - 1;  // one for the whole set: where uses overlap the bytes are the same
    fill(recorded[i].buffer, recorded[i].offset, recorded[i].length, at(i), tasks);
  }
}

void Contents::fill(uint32_t buffer, uint64_t offset, uint64_t length, std::byte *to,
                    std::vector<Task> &tasks) {
  if (!verify_) return;
  version_ = version_ + 1 == any_version ? 1 : version_ + 1;
  versions_[buffer].write(offset, length, program_.buffers[buffer].size, version_);
  tasks.push_back({to, offset, length, buffer, version_, Task::Action::fill});
}

void Contents::check(uint32_t buffer, uint64_t offset, uint64_t length, std::byte *at,
                     std::vector<Task> &tasks) const {
  if (!verify_ || (program_.buffers[buffer].flags & lossy) != 0) return;
  versions_[buffer].read(offset, length, [&](uint64_t from, uint64_t bytes, uint32_t version) {
    if (version != any_version)
      tasks.push_back({at + (from - offset), from, bytes, buffer, version, Task::Action::check});
  });
}

void Contents::unknown(uint32_t buffer, uint64_t offset, uint64_t length) {
  if (verify_) versions_[buffer].write(offset, length, program_.buffers[buffer].size, any_version);
}

void Contents::forget(uint32_t buffer) {
  if (verify_) versions_[buffer].clear();
}

Contents::Memory Contents::allocate(uint64_t bytes) {
  Memory memory(static_cast<std::byte *>(
      std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)));
  if (!memory) throw std::bad_alloc();
  return memory;
}

std::byte *Contents::scratch(uint64_t bytes) {
  if (scratch_bytes_ < bytes) {
    scratch_.reset();
    scratch_bytes_ = 0;
    scratch_ = allocate(bytes);
    scratch_bytes_ = bytes;
  }
  return scratch_.get();
}

std::byte *Contents::memory_for(uint32_t buffer) {
  Memory &memory = memory_[buffer];
  memory = allocate(program_.buffers[buffer].size);
  return memory.get();
}

}  // namespace weir::tool::recorded
