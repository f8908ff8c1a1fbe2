// SPDX-License-Identifier: Apache-2.0
//
// Texts: files that are read as one, numbers that are read from them, and what printf would print.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>

namespace weir::topology {

/// Like printf. The text is cut at 511 bytes.
[[gnu::format(printf, 1, 2)]] inline std::string printed(const char *format, ...) {
  char text[512];
  va_list values;
  va_start(values, format);
  std::vsnprintf(text, sizeof text, format, values);
  va_end(values);
  return text;
}

/// A whole number without a sign, all of the text.
template <class Number = uint64_t>
std::optional<Number> whole_number(std::string_view text, int base = 10) noexcept {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return number;
}

/// A file that is open to be read. Neither open nor read blocks: a pipe without a writer must not hold the program up.
class TextFile {
 public:
  explicit TextFile(const char *path, int more_flags = 0) noexcept
      : fd_(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | more_flags)),
        error_(fd_ < 0 ? errno : 0) {}
  ~TextFile() {
    if (fd_ >= 0) close(fd_);
  }
  TextFile(const TextFile &) = delete;
  TextFile &operator=(const TextFile &) = delete;

  /// 0 or errno, that of opening it too.
  int about(struct stat *info) const noexcept {
    return error_ == 0 && fstat(fd_, info) != 0 ? errno : error_;
  }
  /// Appends all of it. 0 or errno; EFBIG if *text would become longer than `most`.
  int read(size_t most, std::pmr::string *text) const {
    char piece[4096];
    for (ssize_t got = ::read(fd_, piece, sizeof piece); got != 0;
         got = ::read(fd_, piece, sizeof piece)) {
      if (got < 0 && errno != EINTR) return errno;
      if (got < 0) continue;
      if (text->size() + static_cast<size_t>(got) > most) return EFBIG;
      text->append(piece, static_cast<size_t>(got));
    }
    return 0;
  }

 private:
  const int fd_, error_;
};

}  // namespace weir::topology
