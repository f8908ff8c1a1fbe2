// SPDX-License-Identifier: Apache-2.0
#include "auth_file.hpp"

#include "../error.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

namespace weir::tool::exporter {
namespace {

constexpr size_t most_bytes = 65536;

[[noreturn]] void refuse_file(const std::string &path, const std::string &why) {
  throw ToolError("--auth-file: " + path + ": " + why);
}

std::string error_text(int error) {
  const char *text = strerrordesc_np(error);
  return text != nullptr ? text : "error " + std::to_string(error);
}

std::string content_of(const std::string &path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) refuse_file(path, error_text(errno));
  const std::unique_ptr<const int, void (*)(const int *)> closed(
      &file, [](const int *each) { (void)close(*each); });
  struct stat about {};
  if (fstat(file, &about) != 0) refuse_file(path, error_text(errno));
  if (!S_ISREG(about.st_mode)) refuse_file(path, "is no file");
  if (about.st_uid != geteuid())
    refuse_file(path, "belongs to user " + std::to_string(about.st_uid) + ", not to " +
                          std::to_string(geteuid()) + ", who runs this");
  if ((about.st_mode & 077U) != 0) {
    std::array<char, 8> mode{};
    (void)std::snprintf(mode.data(), mode.size(), "%03o", about.st_mode & 0777U);
    refuse_file(path, std::string("has the mode ") + mode.data() +
                          ": others may look into it or change it; chmod 600 it");
  }
  if (about.st_size > static_cast<off_t>(most_bytes))
    refuse_file(path, "has " + std::to_string(about.st_size) + " bytes, more than " +
                          std::to_string(most_bytes));
  std::string text(most_bytes, '\0');
  size_t length = 0;
  while (length < text.size()) {
    const ssize_t step = ::read(file, text.data() + length, text.size() - length);
    if (step < 0 && errno == EINTR) continue;
    if (step < 0) refuse_file(path, error_text(errno));
    if (step == 0) break;
    length += static_cast<size_t>(step);
  }
  text.resize(length);
  return text;
}

/// Looks at as many bytes whatever they are.
bool equal(const std::string &given, const std::string &kept) noexcept {
  unsigned char different = given.size() != kept.size() ? 1 : 0;
  for (size_t i = 0; i < given.size(); ++i) {
    const char other = kept.empty() ? '\0' : kept[i % kept.size()];
    different = static_cast<unsigned char>(different | (given[i] ^ other));
  }
  return different == 0;
}

}  // namespace

AuthFile AuthFile::read(const std::string &path) {
  AuthFile result;
  const std::string text = content_of(path);
  size_t number = 0;
  for (size_t at = 0, end = 0; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    ++number;
    if (line.empty() || line.front() == '#') continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos || colon == 0 || colon + 1 == line.size() ||
        line.find('\0') != std::string::npos)
      refuse_file(path, "line " + std::to_string(number) + " is not USER:PASSWORD");
    result.entries_.push_back({line.substr(0, colon), line.substr(colon + 1)});
  }
  if (result.entries_.empty()) refuse_file(path, "has no line USER:PASSWORD");
  return result;
}

bool AuthFile::allows(const std::string &user, const std::string &password) const noexcept {
  bool allowed = false;
  for (const Entry &entry : entries_) {
    const bool same_user = equal(user, entry.user), same_password = equal(password, entry.password);
    allowed = (same_user && same_password) || allowed;
  }
  return allowed;
}

}  // namespace weir::tool::exporter
