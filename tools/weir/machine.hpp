// SPDX-License-Identifier: Apache-2.0
//
// Machine: where a replay runs: blocks come and go, an operation's uses are made addressable, its
// job is put in a stream. One implementation drives Weir, one plain memory, so that both are
// measured with the same loop.
#pragma once

#include "operation_uses.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace weir::tool {

struct Job;

class Machine {
 public:
  virtual ~Machine() = default;

  virtual void create(uint32_t block, uint64_t bytes) = 0;
  /// Outside an operation. Jobs submitted earlier may still use the block.
  virtual void destroy(uint32_t block) = 0;
  /// The next operation to come, after those announced already. Blocks that do not exist yet are
  /// left out.
  virtual void announce(const std::string &name, std::span<const BlockUse> uses) = 0;
  /// Begins an operation: addresses[i] is where byte uses[i].offset is, valid for jobs submitted
  /// before end().
  virtual void begin(const std::string &name, std::span<const BlockUse> uses,
                     std::span<std::byte *> addresses) = 0;
  virtual void submit(Job &job) = 0;
  virtual void end() = 0;
  /// Waits for everything submitted.
  virtual void finish() = 0;
  /// As finish(), after a failure: ends an open operation, throws nothing.
  virtual void abandon() noexcept = 0;
  /// Whether a block's first contents are zero; if not, the job makes them so.
  virtual bool starts_zeroed() const = 0;
};

}  // namespace weir::tool
