// SPDX-License-Identifier: Apache-2.0
//
// Contents: what the bytes of a recorded program's buffers must be while it is replayed: which version each has, and the tasks by
// which a call's bytes are checked and made. A trace does not have what the program wrote, so the replay writes bytes of its own.
#pragma once

#include "tools/weir/job.hpp"
#include "tools/weir/recorded/program.hpp"
#include "tools/weir/versions.hpp"

#include <weir/weir.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

namespace weir::tool::recorded {

class Contents {
 public:
  /// With `verify` false there are no tasks.
  Contents(const Program &program, bool verify);

  /// Of an acquire, whose uses have their addresses.
  void tasks(const ProgramCall &call, std::span<const weir_use> uses, std::vector<Task> &tasks);
  /// New bytes of a buffer, at `to`.
  void fill(uint32_t buffer, uint64_t offset, uint64_t length, std::byte *to,
            std::vector<Task> &tasks);
  /// Bytes of a buffer that were copied to `at`.
  void check(uint32_t buffer, uint64_t offset, uint64_t length, std::byte *at,
             std::vector<Task> &tasks) const;
  /// From now on the bytes are whatever they are, until they are written.
  void unknown(uint32_t buffer, uint64_t offset, uint64_t length);
  void forget(uint32_t buffer);

  /// For copies of the CPU: at least so many bytes, until the next call.
  std::byte *scratch(uint64_t bytes);
  /// For weir_host_register; it lives until free_memory(), or as long as this.
  std::byte *memory_for(uint32_t buffer);
  void free_memory(uint32_t buffer) { memory_.erase(buffer); }

 private:
  struct Free {
    void operator()(std::byte *memory) const noexcept { std::free(memory); }
  };
  using Memory = std::unique_ptr<std::byte, Free>;
  static Memory allocate(uint64_t bytes);

  const Program &program_;
  bool verify_;
  std::vector<Versions> versions_;  ///< by buffer
  uint32_t version_ = 0;            ///< the last given
  Memory scratch_;
  uint64_t scratch_bytes_ = 0;
  std::unordered_map<uint32_t, Memory> memory_;
};

}  // namespace weir::tool::recorded
