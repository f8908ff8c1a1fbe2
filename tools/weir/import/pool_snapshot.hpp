// SPDX-License-Identifier: Apache-2.0
//
// PoolSnapshot: what weir_pool_snapshot wrote, read back: the file of a program's own, or one of WEIR_OOM_DUMP. Only what is used is kept; a
// document that is no such snapshot, or is nested deeper than one, is refused.
#pragma once

#include "tools/weir/symbols.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace weir::tool {

struct SnapshotDevice {
  uint64_t device = 0, budget = 0, bytes = 0, free_bytes = 0, held_bytes = 0, peak_bytes = 0;
};

struct SnapshotBuffer {
  std::string name;
  bool allocation = false;  ///< memory of weir_malloc
  uint64_t client = 0;      ///< its place in PoolSnapshot::clients
  uint64_t stack = 0;       ///< of PoolSnapshot::stacks; 0: none
  uint64_t size = 0, home = 0, leases = 0, held = 0;
  uint64_t device_bytes = 0, peer_bytes = 0, host_bytes = 0, compressed_bytes = 0,
           storage_bytes = 0;
};

struct SnapshotFrame {
  std::string line;  ///< as the library wrote it
  CodeFile file;     ///< its path is "": not known
  uint64_t offset = 0;
  std::string function;  ///< that the file exports; "": not known
};

struct PoolSnapshot {
  std::string pool;
  std::map<std::string, uint64_t> stats;
  std::vector<SnapshotDevice> devices;
  std::vector<std::string> clients;
  std::vector<SnapshotBuffer> buffers;
  std::map<uint64_t, std::vector<SnapshotFrame>> stacks;  ///< the innermost first

  uint64_t stat(const std::string &name) const {
    const auto found = stats.find(name);
    return found == stats.end() ? 0 : found->second;
  }
};

/// Throws ToolError naming the file and what is wrong.
PoolSnapshot read_pool_snapshot(const std::string &path);
/// The same of a document in memory; `name` is for errors.
PoolSnapshot parse_pool_snapshot(const std::string &document, const std::string &name);

}  // namespace weir::tool
