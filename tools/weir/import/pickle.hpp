// SPDX-License-Identifier: Apache-2.0
//
// Pickle: the plain data of a file that Python's pickle has written: numbers, texts, lists, tuples, sets and dicts. Nothing in it is executed: what
// names or calls something of a program (GLOBAL, REDUCE and their like) is refused by name. How much there is, how deep it is nested and
// how much is remembered is bounded, whatever the file says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir::tool {

struct PickleLimits {
  uint64_t file_bytes = uint64_t{4} << 30;
  uint64_t values = uint64_t{1} << 28;
  uint64_t memo = uint64_t{1} << 26;
  uint32_t depth = 64;                 ///< of nested lists and dicts
  uint32_t marks = 256;                ///< that are open at once
  uint64_t stack = uint64_t{1} << 22;  ///< values that wait to be put somewhere
};

/// A value; its lists and texts are the Pickle's.
struct PickleValue {
  enum class Type : uint8_t { none, boolean, integer, real, text, list, dict };
  Type type = Type::none;
  uint32_t length = 0;  ///< of a text
  union {
    int64_t integer = 0;
    double real;
    uint64_t at;  ///< of a text in the file; else the place of the list or dict
  };
};

class Pickle {
 public:
  /// Throws ToolError naming the file, the place and what is wrong.
  explicit Pickle(const std::string &path, const PickleLimits &limits = {});
  /// The same of bytes in memory; `name` is for errors.
  Pickle(std::string bytes, std::string name, const PickleLimits &limits = {});

  const PickleValue &root() const noexcept { return root_; }

  bool is_list(const PickleValue &value) const noexcept {
    return value.type == PickleValue::Type::list;
  }
  bool is_dict(const PickleValue &value) const noexcept {
    return value.type == PickleValue::Type::dict;
  }
  /// Elements of a list, tuple or set; none of anything else.
  const std::vector<PickleValue> &elements(const PickleValue &value) const noexcept;
  /// What the dict has under the key; nullptr where there is nothing, or where it is no dict.
  const PickleValue *find(const PickleValue &dict, std::string_view key) const noexcept;
  /// "" where it is no text.
  std::string_view text(const PickleValue &value) const noexcept;
  std::string_view text(const PickleValue &dict, std::string_view key) const noexcept;
  /// `fallback` where it is no whole number.
  int64_t integer(const PickleValue &dict, std::string_view key, int64_t fallback) const noexcept;

  const std::string &name() const noexcept { return name_; }

 private:
  void run(const PickleLimits &limits);

  std::string name_;
  std::string bytes_;
  std::vector<std::vector<PickleValue>> lists_;  ///< a dict's has key, value, key, value
  PickleValue root_;
};

}  // namespace weir::tool
