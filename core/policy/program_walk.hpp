// SPDX-License-Identifier: Apache-2.0
//
// ProgramWalk: which operation of the log is done again next. A walker for each stream goes on from the stream's place; the next
// operation is that of the walker whose turn it is by the speeds that the streams have had.
//
// A walker stays where it is while its stream's place moves a little, and steps over what has happened meanwhile; when the place has
// moved far it is for rewind() to begin again. Guarded by whoever owns it.
#pragma once

#include "core/policy/alignment.hpp"
#include "core/policy/program_log.hpp"
#include "core/policy/stream_speeds.hpp"

#include <memory_resource>
#include <span>
#include <vector>

namespace weir::policy {

class ProgramWalk {
 public:
  static constexpr uint32_t none = ProgramLog::none;

  /// What it reads.
  struct View {
    const ProgramLog &log;
    std::span<const Alignment> alignments;  ///< by stream
    const StreamSpeeds &speeds;
  };
  struct Step {
    uint32_t operation = none;  ///< none: no more is known at present
    uint32_t stream = 0;
    bool resized = false;  ///< sizes were other ones there: the present ratio does not hold for it
  };

  /// Throws std::bad_alloc.
  ProgramWalk(uint32_t streams, std::pmr::memory_resource *memory) : walkers_(streams, memory) {}

  void rewind(const View &view) noexcept;
  /// The next operation. It stays the next until take().
  Step peek(const View &view) noexcept;
  void take(const Step &step, const StreamSpeeds &speeds) noexcept;
  /// A stream goes on from elsewhere, and has done so for a few operations.
  bool moved(const View &view) const noexcept;
  void clear() noexcept;

  size_t bytes() const noexcept { return walkers_.capacity() * sizeof(Walker); }
  static size_t bytes_each() noexcept { return sizeof(Walker); }

 private:
  struct Walker {
    uint32_t at = none;  ///< the operation that was walked last
    bool based = false;  ///< the stream knew its place at rewind()
    bool resized = false;
    int64_t offset = 0;  ///< from the stream's place to the stream's newest operation, then
    uint64_t time = 0;   ///< of the operation that was walked last
  };
  uint32_t next_of(const View &view, uint32_t stream) noexcept;
  uint64_t due_of(uint32_t stream, uint32_t speed) const noexcept;

  std::pmr::vector<Walker> walkers_;
  uint64_t time_ = 0;  ///< of the operation that was taken last
};

}  // namespace weir::policy
