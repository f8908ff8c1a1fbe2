// SPDX-License-Identifier: Apache-2.0
//
// Files that Weir writes beside a program's own because its user has asked for them: new ones, for the owner alone, which follow no
// link and replace no other file.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace weir {

/// "%p" is the process's number.
std::string expand_process(std::string text);

/// An open file, which goes with the object.
class OwnFile {
 public:
  OwnFile() = default;
  explicit OwnFile(int number) noexcept : number_(number) {}
  OwnFile(OwnFile &&other) noexcept : number_(std::exchange(other.number_, -1)) {}
  OwnFile &operator=(OwnFile &&) = delete;
  ~OwnFile();
  int number() const noexcept { return number_; }

 private:
  int number_ = -1;
};

/// An open file that was not there, or -1 with errno set. *path: its name, `start` and `ending`, between them, from the second try
/// on, a dash and a number where `numbered`: other processes, of other containers too, may have the same number.
int create_own_file(std::string_view start, std::string_view ending, bool numbered,
                    std::string *path);

/// All or nothing, at that place. 0, or the system's error.
int write_all(int file, const void *bytes, size_t count, size_t offset) noexcept;

}  // namespace weir
