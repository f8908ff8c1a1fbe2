// SPDX-License-Identifier: Apache-2.0
//
// The weir command and other programs, run as their user runs them: the exit status and what they wrote. WEIR_BIN_DIR says where the program is;
// main() asks weir_is_there() first, and where it is not the whole test skips.
#pragma once

#include "tests/tools/trace_files.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace weir::test {

struct Outcome {
  int status = -1;  ///< -1: it did not exit by itself
  std::string output, errors;
};

inline std::string text_of(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline constexpr int skipped = 77;  ///< exit status that CTest takes for a skipped test

inline std::string weir_path() {
  const char *folder = std::getenv("WEIR_BIN_DIR");
  return folder != nullptr ? std::string(folder) + "/weir" : "";
}

/// Whether there is a program to run; it says so if not.
inline bool weir_is_there() {
  if (access(weir_path().c_str(), X_OK) == 0) return true;
  std::puts("skipped: WEIR_BIN_DIR names no folder with the weir command");
  return false;
}

/// The first argument is the program's path.
inline Outcome run_program(std::vector<std::string> arguments) {
  const TemporaryFile output(""), errors("");
  std::vector<char *> pointers;
  for (std::string &argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(open(output.path().c_str(), O_WRONLY), STDOUT_FILENO);
    dup2(open(errors.path().c_str(), O_WRONLY), STDERR_FILENO);
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(output.path()),
          text_of(errors.path())};
}

inline Outcome run_weir(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), weir_path());
  return run_program(std::move(arguments));
}

/// Where a program is that may be installed or not; "" if it is not.
inline std::string installed(const std::string &name) {
  const char *variable = std::getenv("PATH");
  std::istringstream folders(variable != nullptr ? variable : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((folder + "/" + name).c_str(), X_OK) == 0) return folder + "/" + name;
  return "";
}

}  // namespace weir::test
