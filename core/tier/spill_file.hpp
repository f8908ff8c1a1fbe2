// SPDX-License-Identifier: Apache-2.0
//
// SpillFile: one file of the STORAGE tier: made without a name (or its name taken away at once), so that whatever ends
// the process leaves nothing behind; mode 0600, closed on exec; all its room taken when it is made, so that a full
// disk is met then and not at an eviction.
//
// An object owns its descriptor or has none; a make() that fails leaves nothing.
#pragma once

#include "core/base/log.hpp"
#include "core/base/status.hpp"
#include "core/tier/storage_io.hpp"

#include <cstdint>
#include <string>
#include <utility>

namespace weir::tier {

class SpillFile {
 public:
  SpillFile() = default;
  ~SpillFile();
  SpillFile(SpillFile &&other) noexcept { *this = std::move(other); }
  SpillFile &operator=(SpillFile &&other) noexcept;

  /// IO with errno; OVER_BUDGET where the file system has not the room. `direct`: O_DIRECT where it works.
  static Status make(const std::string &directory, uint64_t bytes, bool direct, IoHook *hook,
                     const Log &log, SpillFile *file);

  int descriptor() const noexcept { return descriptor_; }
  bool direct() const noexcept { return direct_; }

 private:
  Status open(IoHook *hook);
  Status preallocate(uint64_t bytes, IoHook *hook, const Log &log);
  bool try_direct(uint64_t bytes, IoHook *hook) noexcept;

  int descriptor_ = -1;
  bool direct_ = false;
  std::string directory_;
};

}  // namespace weir::tier
