// SPDX-License-Identifier: Apache-2.0
//
// SavedProgram: what was learned of a program, without anything of the pool or the process that learned it: buffers are numbered in the
// order in which the logs name them, operations have their names, streams are told apart and nothing more. LogSaver takes it from
// logs, LearnedForecast::load() learns from it, policy_blob.hpp makes bytes of it and back.
//
// It owns all but the names' text, which is OperationNames' or a blob's.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <string_view>
#include <vector>

namespace weir::policy {

/// The name of an operation: up to most_names: the place of its name, counted from 1; shared_name: one of those beyond; unnamed and
/// above: a hash of its uses, for one without a name.
constexpr uint32_t most_names = 65536;
constexpr uint32_t shared_name = most_names + 1;
constexpr uint32_t unnamed = uint32_t{1} << 31;
constexpr size_t longest_name = 1023;

/// An operation, with so many of the log's births, deaths and uses, behind those of the operations before it.
struct SavedOperation {
  uint32_t name;
  uint32_t deaths;
  uint16_t stream;
  uint16_t given;       ///< uses, those that were not logged counted
  uint16_t uses;        ///< that were logged
  uint16_t all_births;  ///< those of buffers that were not followed counted
  uint16_t births;      ///< of buffers that were followed
};
/// A buffer was born before an operation, after `rank` others.
struct SavedBirth {
  uint32_t life;
  uint16_t rank;
};
/// Ranges are in ProgramLog::unit.
struct SavedUse {
  uint32_t life;
  uint32_t begin, end;
  uint16_t slot;
  uint16_t mode;
};

/// The log of a device.
struct SavedLog {
  explicit SavedLog(std::pmr::memory_resource *memory)
      : lives(memory), operations(memory), births(memory), deaths(memory), uses(memory) {}

  uint32_t streams = 0;              ///< numbers of streams are below this
  std::pmr::vector<uint64_t> lives;  ///< the bytes of each
  std::pmr::vector<SavedOperation> operations;
  std::pmr::vector<SavedBirth> births;
  std::pmr::vector<uint32_t> deaths;  ///< lives
  std::pmr::vector<SavedUse> uses;
};

struct SavedProgram {
  explicit SavedProgram(std::pmr::memory_resource *memory) : names(memory), logs(memory) {}

  std::pmr::vector<std::string_view> names;
  std::pmr::vector<SavedLog> logs;  ///< by the device's place in the pool
};

}  // namespace weir::policy
