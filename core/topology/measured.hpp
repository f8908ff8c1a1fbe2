// SPDX-License-Identifier: Apache-2.0
//
// Measured: the figures that a context has measured or found in the user's cache, for all of its backends, and the way to
// and from the cache's files. Not thread-safe: Places holds its mutex.
#pragma once

#include "core/backend/runtime.hpp"
#include "core/base/memory.hpp"
#include "core/topology/machine.hpp"

#include <string>
#include <vector>

namespace weir::topology {

class Measured {
 public:
  using Devices = std::pmr::vector<Owned<backend::Device>>;
  using Words = std::pmr::vector<std::pmr::string>;

  explicit Measured(std::pmr::memory_resource *memory)
      : memory_(memory), parts_(memory), figures_(memory), folder_(memory) {}

  /// A started backend's devices, numbered from `first`; its options tell its cache file from that of others, because they
  /// may change what its links are like.
  void add(const backend::Runtime &runtime, uint32_t first, uint32_t count,
           std::string_view options);
  /// Reads the saved figures. Files that are there and are not used are told in *warnings, to be logged without a lock.
  void load(const Devices &devices, Words *warnings);
  /// Writes a file for each backend of which something is known; *files says how many.
  Status save(const Devices &devices, uint32_t *files) const;

  const Figures &figures() const noexcept { return figures_; }
  void set(uint32_t from, uint32_t to, const Reading &reading) { figures_[{from, to}] = reading; }
  /// Where files are, known after load(); "" where there is no place for them. It then stays as it is.
  const std::pmr::string &folder() const noexcept { return folder_; }

 private:
  struct Part {
    const backend::Runtime *runtime;
    uint32_t first, count;
    std::pmr::string options;
  };
  std::pmr::string identity(const Part &part, const Devices &devices) const;

  std::pmr::memory_resource *memory_;
  std::pmr::vector<Part> parts_;
  Figures figures_;
  std::pmr::string folder_;
};

}  // namespace weir::topology
