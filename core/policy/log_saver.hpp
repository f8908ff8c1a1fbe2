// SPDX-License-Identifier: Apache-2.0
//
// LogSaver: copies a log into a SavedLog, some operations at a time, so that whoever guards the log need not do so all the while. It
// takes what the log held when it began, as far as that is still held when its turn comes. Names stay the pool's numbers until
// name_operations().
//
// Invariants: a life of the log gets its number in the copy when it is first met. That lasts: a life that operations mention is given to
// no other buffer, and what is given away meanwhile only operations mention that the copy has not begun with.
#pragma once

#include "core/policy/program_log.hpp"
#include "core/policy/saved_program.hpp"

#include <array>
#include <span>

namespace weir::policy {

class LogSaver {
 public:
  LogSaver(SavedLog &saved, std::pmr::memory_resource *memory) : saved_(saved), known_(memory) {}

  /// Begins at the log's newest operations, as many as fit so many bytes of records.
  void begin(const ProgramLog &log, uint64_t most_bytes) noexcept;
  /// Copies so many operations. False: those were the last. Throws std::bad_alloc; then the copy is worth nothing.
  bool copy(const ProgramLog &log, uint32_t most);

 private:
  uint32_t number_of(const ProgramLog &log, uint32_t life);
  uint16_t stream_of(uint32_t stream) noexcept;
  void copy_one(const ProgramLog &log, uint32_t operation);

  SavedLog &saved_;
  std::pmr::vector<uint32_t> known_;  ///< by life: its number in the copy, or none
  std::array<uint16_t, 256>
      streams_{};  ///< by their numbers in the log: the number in the copy and 1; 0: not met
  uint32_t next_ = 0, end_ = 0;
};

/// Gives the operations of all logs the names that have these numbers, each once, in the order in which they are met. Names beyond so
/// many bytes count as shared. Throws std::bad_alloc.
void name_operations(SavedProgram *program, std::span<const std::string_view> by_number,
                     uint64_t most_bytes);

}  // namespace weir::policy
