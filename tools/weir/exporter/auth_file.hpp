// SPDX-License-Identifier: Apache-2.0
//
// AuthFile: the users that may ask an exporter, from a file with a line USER:PASSWORD for each. What must hold: the file is its owner's
// alone, and its owner runs the exporter; how long a check takes tells nothing of how much of a password was right.
#pragma once

#include <string>
#include <vector>

namespace weir::tool::exporter {

class AuthFile {
 public:
  /// Throws ToolError, which names the file and what is wrong, and never a password.
  static AuthFile read(const std::string &path);

  bool allows(const std::string &user, const std::string &password) const noexcept;

 private:
  struct Entry {
    std::string user, password;
  };
  std::vector<Entry> entries_;
};

}  // namespace weir::tool::exporter
