// SPDX-License-Identifier: Apache-2.0
//
// Machine: all that `weir doctor` looks at, as values and functions that are given to it: where /proc and /sys lie, the limits of the
// process, and what the system answers when it is asked for something. The checks see nothing else, so tests give them any machine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace weir::tool::doctor {

inline constexpr uint64_t no_limit = UINT64_MAX;

/// Of this process (getrlimit, the soft ones).
struct Limits {
  uint64_t locked_memory = no_limit;
  uint64_t address_space = no_limit;
  uint64_t file_size = no_limit;
  uint64_t open_files = no_limit;
};

/// What a folder is good for.
struct Folder {
  int error =
      0;  ///< errno of making a file in it, which is gone again; the other fields then mean nothing
  bool in_memory = false;  ///< tmpfs or ramfs
  bool direct = true;      ///< files take O_DIRECT
  uint64_t free_bytes = 0;
};

struct Machine {
  std::string root;  ///< stands before /proc and /sys
  Limits limits;
  std::function<int()> make_ring;  ///< errno of making an io_uring as STORAGE does, 0 if it works
  std::function<int()>
      make_memory_file;  ///< errno of memfd_create as HOST and the host backend call it
  std::function<Folder(const std::string &)> look_at_folder;
  std::string cache_folder;          ///< where figures are kept; "" = no variable names one
  std::vector<std::string> storage;  ///< folders for spilled pages that the user has in mind
};

/// The one that this process runs on.
Machine this_machine(std::vector<std::string> storage);

/// $WEIR_CACHE_DIR, else $XDG_CACHE_HOME/weir, else $HOME/.cache/weir, as the library has it; `get` is secure_getenv.
std::string cache_folder(const std::function<const char *(const char *)> &get);

/// Of the system, by which Machine::look_at_folder is made.
Folder look_at_folder(const std::string &path);

}  // namespace weir::tool::doctor
