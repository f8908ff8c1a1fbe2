// SPDX-License-Identifier: Apache-2.0
//
// WeirMachine: a replay's machine made of Weir's public API: one context, one pool over one device,
// one stream. It holds at most one lease at a time, so that its acquires may wait without a
// deadline.
#pragma once

#include "handles.hpp"
#include "machine.hpp"

#include <unordered_map>
#include <vector>

namespace weir::tool {

/// What lies below HOST. All zero: nothing does.
struct LowerTiers {
  uint64_t compressed_budget = 0;
  uint64_t storage_budget = 0;
  std::vector<std::string> storage;
  uint64_t flags = 0;  ///< of WEIR_POOL_*
  std::string codec;
  uint32_t compress_threads = 0;

  bool any() const { return compressed_budget != 0 || storage_budget != 0; }
};

/// The most bytes the lower tiers were seen to hold at the end of an operation.
struct LowerPeaks {
  uint64_t compressed = 0;
  uint64_t storage = 0;
};

struct WeirMachineDesc {
  std::string context_options;
  std::string backend = "host";
  uint64_t page = 0;
  uint64_t device_budget = 0;
  uint64_t neighbour_budget = 0;  ///< of the next device of the backend; 0 = it is not in the pool
  uint64_t host_budget = 0;       ///< 0 = none
  bool contents = true;           ///< jobs read and write the memory: the CPU has to reach it
  std::string policy;             ///< empty = the library's choice
  LowerTiers lower;
};

class WeirMachine final : public Machine {
 public:
  WeirMachine(const WeirMachineDesc &desc, size_t blocks);
  ~WeirMachine() override;

  void create(uint32_t block, uint64_t bytes) override;
  void destroy(uint32_t block) override;
  void announce(const std::string &name, std::span<const BlockUse> uses) override;
  void begin(const std::string &name, std::span<const BlockUse> uses,
             std::span<std::byte *> addresses) override;
  void submit(Job &job) override;
  void end() override;
  void finish() override;
  void abandon() noexcept override;
  bool starts_zeroed() const override { return true; }

  /// What the policy has learned; before the first operation, and at any time.
  void load_policy(const std::string &bytes);
  std::string save_policy() const;

  weir_pool_stats stats() const;
  /// Where everything lies now.
  std::vector<weir_piece> map() const;
  /// Since the last call. Counted only where there are lower tiers: it takes a look at the counters each operation.
  LowerPeaks take_lower_peaks();

 private:
  uint32_t operation_id(const std::string &name);

  Context context_;
  Stream stream_;
  Pool pool_;
  WeirMachineDesc desc_;
  weir_lease lease_ = nullptr;
  LowerPeaks peaks_;
  std::vector<weir_buffer> buffers_;  ///< by block; NULL = not alive
  std::vector<weir_use> uses_;
  std::unordered_map<std::string, uint32_t> operation_ids_;  ///< of names that came up
};

/// What the counters of `after` gained over `before`; sizes and budgets as in `after`.
weir_pool_stats stats_between(const weir_pool_stats &before, const weir_pool_stats &after);

}  // namespace weir::tool
