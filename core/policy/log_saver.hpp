// SPDX-License-Identifier: Apache-2.0
//
// LogSaver: copies a log into a SavedLog, some operations at a time, so that whoever guards the log need not do so all the while. It
// takes what the log held when it began, as far as that is still held when its turn comes. Names stay the pool's numbers until
// name_operations(). Memory is had by make_room(), which looks at no log: nobody is kept waiting while it is.
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
  /// For what copy() takes next. Throws std::bad_alloc; then the copy is worth nothing.
  void make_room();
  /// Copies so many operations, as far as there is room for them. False: those were the last. Allocates nothing.
  bool copy(const ProgramLog &log, uint32_t most) noexcept;

 private:
  /// What an operation takes, at most.
  struct Need {
    size_t births = 0, deaths = 0, uses = 0;
    size_t lives() const noexcept { return births + deaths + uses; }
  };
  static Need need_of(const ProgramLog &log, const LoggedOperation &operation) noexcept;
  bool has_room(const Need &need) const noexcept;
  uint32_t number_of(const ProgramLog &log, uint32_t life) noexcept;
  uint16_t stream_of(uint32_t stream) noexcept;
  void copy_one(const ProgramLog &log, uint32_t operation) noexcept;

  SavedLog &saved_;
  Need wanted_;                       ///< by the next operation, where there was no room for it
  size_t all_lives_ = 0;              ///< numbers of the log's are below this
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
