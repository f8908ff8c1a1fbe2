// SPDX-License-Identifier: Apache-2.0
//
// LiveReader: the user's running programs, as their live pages show them (core/live/layout.hpp). It opens what it reads for reading
// alone, and no program notices.
//
// What must hold: whatever lies in the user's folder or on a page was written by another program, which may be writing at this moment. All
// of it is copied first, then checked, and used only if each count and size is as it must be; else the program is refused with
// a sentence that names the value. Nothing here waits for another process.
#pragma once

#include "core/live/folder.hpp"
#include "core/live/layout.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weir::tool {

/// A context of a program. Figures of pools are of one moment each, and checked.
struct LiveContext {
  uint32_t number = 0;
  std::string library;  ///< the version of it that the program runs
  std::vector<live::Place> places;
  uint64_t pools_without_slot = 0;
  std::vector<live::Pool> pools;
  uint32_t busy_pools = 0;  ///< that were being written whenever they were looked at
};

struct LiveProgram {
  enum class State : uint8_t {
    seen,
    busy,    ///< a pool of it was being written, whenever it was looked at
    refused  ///< what is there is no page of Weir's, or of another version
  };
  pid_t process = 0;
  uint64_t start_time = 0;
  std::string name;  ///< as it is shown
  State state = State::seen;
  std::string reason;  ///< of a refusal
  std::vector<LiveContext> contexts;
};

struct LiveView {
  uint64_t now_ns = 0;                ///< CLOCK_MONOTONIC
  std::vector<LiveProgram> programs;  ///< by number
  uint32_t elsewhere =
      0;  ///< lines of programs in other PID namespaces, which can't be looked at from here
  uint32_t unreadable = 0;  ///< files in the folder that are no such lines
  bool more = false;        ///< there are more than were looked at
};

class LiveReader {
 public:
  static constexpr size_t most_files = 4096;  ///< of each folder
  static constexpr uint32_t most_tries = 1000;

  explicit LiveReader(live::Folder::Surroundings where = live::Folder::Surroundings::own())
      : where_(std::move(where)) {}

  /// Of this process alone, if it is not 0. Files of dead processes are removed.
  LiveView look(pid_t only = 0) const;

 private:
  live::Folder::Surroundings where_;
};

/// The page behind the descriptor, which need not be one. *reason: why it is refused.
bool read_live_page(int file, const live::Entry &entry, LiveContext *context, std::string *name,
                    std::string *reason);

/// Up to the first NUL, escaped where a terminal would take it for more than text.
template <size_t bytes>
std::string live_text(const std::array<char, bytes> &text);
std::string live_text(std::string_view text);

template <size_t bytes>
std::string live_text(const std::array<char, bytes> &text) {
  const std::string_view all(text.data(), text.size());
  return live_text(all.substr(0, all.find('\0')));
}

}  // namespace weir::tool
