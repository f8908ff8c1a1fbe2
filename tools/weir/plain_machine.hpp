// SPDX-License-Identifier: Apache-2.0
//
// PlainMachine: the yardstick: the same stream and jobs on malloc'ed memory, without Weir's memory
// management. Freed memory is kept in lists by size and given out again, as a framework's allocator
// does; nothing is ever evicted.
#pragma once

#include "handles.hpp"
#include "machine.hpp"

#include <map>
#include <vector>

namespace weir::tool {

class PlainMachine final : public Machine {
 public:
  PlainMachine(const std::string &context_options, const std::string &backend, size_t blocks);
  ~PlainMachine() override;

  void create(uint32_t block, uint64_t bytes) override;
  void destroy(uint32_t block) override;
  void announce(const std::string &, std::span<const BlockUse>) override {}
  void begin(const std::string &name, std::span<const BlockUse> uses,
             std::span<std::byte *> addresses) override;
  void submit(Job &job) override;
  void end() override {}
  void finish() override;
  void abandon() noexcept override;
  bool starts_zeroed() const override { return false; }

 private:
  struct Free {
    void operator()(std::byte *memory) const noexcept;
  };
  using Memory = std::unique_ptr<std::byte, Free>;
  struct Block {
    Memory memory;
    uint64_t capacity = 0;
  };

  Context context_;
  Stream stream_;
  std::vector<Block> blocks_;
  std::map<uint64_t, std::vector<Memory>> spare_;  ///< by capacity
};

}  // namespace weir::tool
