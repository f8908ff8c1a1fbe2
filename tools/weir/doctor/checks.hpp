// SPDX-License-Identifier: Apache-2.0
//
// The checks of `weir doctor`. Each looks at one thing that the library's code depends on, and at nothing that it does not; none
// changes anything. They look only at the Machine they are given.
#pragma once

#include "finding.hpp"
#include "machine.hpp"

#include <optional>
#include <string_view>

namespace weir::tool::doctor {

/// All of them, in the order in which they are shown.
std::vector<Finding> examine(const Machine &machine);

// ---- limits of the process (checks_limits.cpp)
Finding check_locked_memory(const Machine &machine);
Finding check_address_space(const Machine &machine);
Finding check_file_size(const Machine &machine);
Finding check_open_files(const Machine &machine);

// ---- settings of the kernel (checks_kernel.cpp)
Finding check_mappings(const Machine &machine);
Finding check_io_uring(const Machine &machine);
Finding check_huge_pages(const Machine &machine);
Finding check_memory_files(const Machine &machine);
Finding check_overcommit(const Machine &machine);

// ---- memory and folders (checks_memory.cpp, checks_folders.cpp)
Finding check_memory(const Machine &machine);
/// What HOST may hold where host_budget is 0 and no other program takes any memory (docs/budgets.md); nothing if it can't be told.
std::optional<uint64_t> most_of_host(const Machine &machine);
Finding check_cache_folder(const Machine &machine);
Finding check_storage_folder(const Machine &machine, const std::string &path);

// ---- reading (files.cpp)
/// What a small file holds, without the line's end; or why it can't be read, as "/proc/sys/x: No such file or directory".
struct Text {
  std::optional<std::string> value;
  bool absent = false;  ///< there is no such file
  std::string problem;
};
Text read_text(const Machine &machine, const std::string &path);
/// A file that is one number. `problem` names what else it holds.
struct Number {
  std::optional<uint64_t> value;
  bool absent = false;
  std::string problem;
};
Number read_number(const Machine &machine, const std::string &path);
/// Of /proc/meminfo, in bytes.
std::optional<uint64_t> read_meminfo(const Machine &machine, std::string_view key);
/// Whether the process may lock memory beyond the limit (CAP_IPC_LOCK, by /proc/self/status).
bool may_lock_any(const Machine &machine);

}  // namespace weir::tool::doctor
