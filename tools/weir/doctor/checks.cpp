// SPDX-License-Identifier: Apache-2.0
//
// The checks in the order in which they are shown: memory first, then what it is made of, then folders.
#include "checks.hpp"

namespace weir::tool::doctor {

std::vector<Finding> examine(const Machine &machine) {
  std::vector<Finding> findings;
  for (Finding (*check)(const Machine &) :
       {check_memory, check_memory_files, check_file_size, check_address_space, check_overcommit,
        check_mappings, check_huge_pages, check_locked_memory, check_io_uring, check_open_files,
        check_cache_folder})
    findings.push_back(check(machine));
  for (const std::string &path : machine.storage)
    findings.push_back(check_storage_folder(machine, path));
  return findings;
}

}  // namespace weir::tool::doctor
