// SPDX-License-Identifier: Apache-2.0
//
// Reading the file, and looking at what it came to.
#include "tools/weir/import/pickle.hpp"

#include "tools/weir/error.hpp"
#include "tools/weir/import/pickle_machine.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

namespace weir::tool {
namespace {

using Type = PickleValue::Type;

const std::vector<PickleValue> no_elements;

std::string read_whole(const std::string &path, uint64_t most) {
  struct Close {
    void operator()(std::FILE *file) const noexcept { std::fclose(file); }
  };
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rbe"));
  if (!file) throw ToolError("cannot open '" + path + "': " + std::strerror(errno));
  std::string bytes;
  constexpr size_t step = size_t{1} << 20;
  for (;;) {
    const size_t had = bytes.size();
    if (had > most)
      throw ToolError("'" + path + "' has more than " + std::to_string(most) + " bytes");
    bytes.resize(had + std::max(step, had / 2));
    const size_t got = std::fread(bytes.data() + had, 1, bytes.size() - had, file.get());
    bytes.resize(had + got);
    if (got != 0) continue;
    if (std::ferror(file.get()) != 0)
      throw ToolError("cannot read '" + path + "': " + std::strerror(errno));
    return bytes;
  }
}

}  // namespace

Pickle::Pickle(const std::string &path, const PickleLimits &limits)
    : name_(path), bytes_(read_whole(path, limits.file_bytes)) {
  run(limits);
}

Pickle::Pickle(std::string bytes, std::string name, const PickleLimits &limits)
    : name_(std::move(name)), bytes_(std::move(bytes)) {
  run(limits);
}

void Pickle::run(const PickleLimits &limits) { root_ = run_pickle(bytes_, name_, limits, &lists_); }

const std::vector<PickleValue> &Pickle::elements(const PickleValue &value) const noexcept {
  return is_list(value) ? lists_[value.at] : no_elements;
}

/// The last of several wins, as in Python. Of a dict that is larger than any of a snapshot's the rest is not looked at: a list may have it a
/// million times.
const PickleValue *Pickle::find(const PickleValue &dict, std::string_view key) const noexcept {
  if (!is_dict(dict)) return nullptr;
  const std::vector<PickleValue> &pairs = lists_[dict.at];
  constexpr size_t looked_at = 2 * 64;
  const size_t end = pairs.size() > looked_at ? pairs.size() - looked_at : 0;
  for (size_t i = pairs.size(); i >= end + 2; i -= 2)
    if (pairs[i - 2].type == Type::text && text(pairs[i - 2]) == key) return &pairs[i - 1];
  return nullptr;
}

std::string_view Pickle::text(const PickleValue &value) const noexcept {
  if (value.type != Type::text) return {};
  return std::string_view(bytes_).substr(value.at, value.length);
}

std::string_view Pickle::text(const PickleValue &dict, std::string_view key) const noexcept {
  const PickleValue *found = find(dict, key);
  return found == nullptr ? std::string_view{} : text(*found);
}

int64_t Pickle::integer(const PickleValue &dict, std::string_view key,
                        int64_t fallback) const noexcept {
  const PickleValue *found = find(dict, key);
  return found != nullptr && found->type == Type::integer ? found->integer : fallback;
}

}  // namespace weir::tool
