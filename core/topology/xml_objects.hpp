// SPDX-License-Identifier: Apache-2.0
//
// What hwloc's reader takes for granted of the objects in a file, or refuses without a word, of its formats 1 and 2: types,
// sets, and what may be in what. Nothing here follows a set or keeps an object.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace weir::topology {

inline constexpr std::string_view blanks = " \t\r\n";

template <size_t count>
bool among(const std::string_view (&names)[count], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

/// The value of an attribute; attributes are name="value" with blanks around.
std::optional<std::string_view> attribute(std::string_view all, std::string_view name);
/// Of which a reader would take the last, and attribute() the first.
bool repeats_attribute(std::string_view all);
/// A whole decimal number, all of the text.
std::optional<uint64_t> whole_number(std::optional<std::string_view> text);

/// An element that is open; the latter half is of objects.
struct Open {
  std::string_view name, type;
  size_t next_first = 0;             ///< the lowest first CPU that the next object in it may have
  bool cpus = false, nodes = false;  ///< has sets of these
  bool special = false;              ///< a bridge, a device or a remark, which has none
};

/// What is wrong with an object: a format with one %.*s, and what goes there.
struct Wrong {
  const char *format = nullptr;  ///< nullptr = nothing
  std::string_view named;
};

class ObjectRules {
 public:
  /// Of the topology's tag. Nothing if hwloc has written that format once, and reads it.
  Wrong set_version(std::string_view version);
  bool first_format() const noexcept { return format_ == 1; }
  /// The next object, which is in *parent; fills *self.
  Wrong check(std::string_view attributes, Open *parent, Open *self);

 private:
  uint32_t format_ = 2;
  bool any_ = false;  // an object was met
};

}  // namespace weir::topology
