// SPDX-License-Identifier: Apache-2.0
//
// Making such files, and writing them.

#include "core/base/own_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace weir {

OwnFile::~OwnFile() {
  if (number_ >= 0) (void)close(number_);
}

std::string expand_process(std::string text) {
  for (size_t at = 0; (at = text.find("%p", at)) != std::string::npos;) {
    const std::string process = std::to_string(getpid());
    text.replace(at, 2, process);
    at += process.size();
  }
  return text;
}

int create_own_file(std::string_view start, std::string_view ending, bool numbered,
                    std::string *path) {
  constexpr int most_tries = 1000;
  for (int i = 0; i < most_tries; ++i) {
    *path = start;
    if (i != 0) *path += '-' + std::to_string(i);
    *path += ending;
    const int file =
        open(path->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file >= 0 || errno != EEXIST || !numbered) return file;
  }
  return -1;
}

int write_all(int file, const void *bytes, size_t count, size_t offset) noexcept {
  for (size_t done = 0; done < count;) {
    const ssize_t step = pwrite(file, static_cast<const char *>(bytes) + done, count - done,
                                static_cast<off_t>(offset + done));
    if (step < 0 && errno == EINTR) continue;
    if (step <= 0) return step < 0 ? errno : EIO;
    done += static_cast<size_t>(step);
  }
  return 0;
}

}  // namespace weir
