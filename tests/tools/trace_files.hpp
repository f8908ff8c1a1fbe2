// SPDX-License-Identifier: Apache-2.0
//
// Shared by the tests of the replay tool: traces written to temporary files that are gone when their object
// is, and the text of the ToolError a call ends with. Nothing here may outlive a test.
#pragma once

#include "tests/support/cmocka.hpp"
#include "tools/weir/error.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

namespace weir::test {

class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view contents) {
    const char *folder = std::getenv("TMPDIR");
    path_ = std::string(folder != nullptr ? folder : "/tmp") + "/weir-trace-XXXXXX";
    const int file = mkstemp(path_.data());
    if (file < 0) throw std::runtime_error("cannot create " + path_);
    const ssize_t written = write(file, contents.data(), contents.size());
    close(file);
    if (written != static_cast<ssize_t>(contents.size()))
      throw std::runtime_error("cannot write " + path_);
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile &) = delete;
  TemporaryFile &operator=(const TemporaryFile &) = delete;

  const std::string &path() const { return path_; }

 private:
  std::string path_;
};

/// The message of the ToolError that `call` throws, "" if it throws none.
template <class Call>
std::string error_of(Call &&call) {
  try {
    call();
  } catch (const tool::ToolError &error) {
    return error.what();
  }
  return "";
}

inline bool contains(const std::string &text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace weir::test
