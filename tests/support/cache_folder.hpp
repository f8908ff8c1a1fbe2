// SPDX-License-Identifier: Apache-2.0
//
// A folder for the cache of measured links that is the test's own and is gone, with all in it, when its object is.
// WEIR_CACHE_DIR names it meanwhile and is as it was afterwards, so that no test sees the user's own figures.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/cmocka.hpp"

namespace weir::test {

class CacheFolder {
 public:
  CacheFolder() {
    const char *temporary = std::getenv("TMPDIR"), *before = std::getenv("WEIR_CACHE_DIR");
    path_ = std::string(temporary != nullptr ? temporary : "/tmp") + "/weir-cache-XXXXXX";
    assert_non_null(mkdtemp(path_.data()));
    if (before != nullptr) before_ = before;
    use(path_);
  }
  ~CacheFolder() {
    if (before_.empty())
      unsetenv("WEIR_CACHE_DIR");
    else
      use(before_);
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  CacheFolder(const CacheFolder &) = delete;
  CacheFolder &operator=(const CacheFolder &) = delete;

  static void use(const std::string &path) { setenv("WEIR_CACHE_DIR", path.c_str(), 1); }
  const std::string &path() const { return path_; }
  /// Whatever lies in it.
  std::vector<std::string> files() const {
    std::vector<std::string> found;
    for (const auto &entry : std::filesystem::directory_iterator(path_))
      found.push_back(entry.path().string());
    return found;
  }

 private:
  std::string path_, before_;
};

inline std::string contents_of(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void put(const std::string &path, const std::string &text, mode_t mode = 0600) {
  {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << text;
    assert_true(file.good());
  }
  assert_int_equal(chmod(path.c_str(), mode), 0);
}

}  // namespace weir::test
