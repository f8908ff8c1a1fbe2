// SPDX-License-Identifier: Apache-2.0
//
// Small files of /proc and /sys. A file that is missing, too long or no number is told as such; it is never taken for a value.
#include "checks.hpp"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>

namespace weir::tool::doctor {
namespace {

template <class Value>
std::optional<Value> parsed(std::string_view text, int base) {
  Value value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

/// What stands behind "KEY:" in a line of a file, without blanks around it.
std::optional<std::string> field(const Machine &machine, const std::string &path,
                                 std::string_view key) {
  std::ifstream file(machine.root + path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ':') continue;
    const size_t first = line.find_first_not_of(" \t", key.size() + 1);
    return first == std::string::npos ? "" : line.substr(first);
  }
  return {};
}

}  // namespace

Text read_text(const Machine &machine, const std::string &path) {
  constexpr size_t longest = 4096;
  errno = 0;
  std::ifstream file(machine.root + path, std::ios::binary);
  if (!file) return {{}, errno == ENOENT, path + ": " + std::strerror(errno)};
  std::string text(longest, '\0');
  file.read(text.data(), static_cast<std::streamsize>(longest));
  if (file.bad()) return {{}, false, path + " can't be read"};
  text.resize(static_cast<size_t>(file.gcount()));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return {std::move(text), false, ""};
}

Number read_number(const Machine &machine, const std::string &path) {
  const Text text = read_text(machine, path);
  if (!text.value) return {{}, text.absent, text.problem};
  const auto value = parsed<uint64_t>(*text.value, 10);
  if (value) return {value, false, ""};
  return {{}, false, path + " holds '" + text.value->substr(0, 40) + "', which is no number"};
}

std::optional<uint64_t> read_meminfo(const Machine &machine, std::string_view key) {
  const auto text = field(machine, "/proc/meminfo", key);
  if (!text || !text->ends_with(" kB")) return {};
  const auto kib = parsed<uint64_t>(std::string_view(*text).substr(0, text->size() - 3), 10);
  if (!kib || *kib > UINT64_MAX >> 10) return {};
  return *kib << 10;
}

bool may_lock_any(const Machine &machine) {
  constexpr unsigned ipc_lock = 14;  // CAP_IPC_LOCK
  const auto text = field(machine, "/proc/self/status", "CapEff");
  const auto bits = text ? parsed<uint64_t>(*text, 16) : std::nullopt;
  return bits && (*bits >> ipc_lock & 1) != 0;
}

}  // namespace weir::tool::doctor
