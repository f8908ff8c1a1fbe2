// SPDX-License-Identifier: Apache-2.0
//
// The size classes of a segregated fit, and which of them are in use. Classes are numbered in the order of their
// lengths: one length each below twice the columns, and above that a power of two is divided into as many classes as
// there are columns. A row is that many classes in a line, one bit each.
//
// A row's bit is set exactly if one of its columns' is. Must stay free of branches where sizes that vary would decide
// them: a wrong guess costs more than all that is done here.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

namespace weir::physical {

template <unsigned second_bits>
struct SizeClasses {
  static_assert(second_bits >= 1 && second_bits <= 5, "a row's bits are those of a 32-bit word");
  static constexpr uint32_t columns = uint32_t{1} << second_bits;

  /// The standard's functions ask for zero first, which none of these can be.
  static constexpr uint32_t log2_of(uint64_t value) {
    return 63 ^ static_cast<uint32_t>(__builtin_clzll(value));
  }
  static constexpr uint32_t of(uint64_t length) {
    const uint32_t shift = log2_of(length | (2 * columns - 1)) - second_bits;
    return (shift << second_bits) + static_cast<uint32_t>(length >> shift);
  }
  /// The first whose every length is at least that.
  static constexpr uint32_t of_at_least(uint64_t length) { return of(length - 1) + 1; }
  static constexpr uint32_t row_of(uint32_t size_class) { return size_class >> second_bits; }
};

/// The classes up to the one of `longest` that are in use.
template <unsigned second_bits, uint64_t longest>
class UsedClasses {
  using Classes = SizeClasses<second_bits>;
  static constexpr uint32_t column_mask = Classes::columns - 1;
  static constexpr uint32_t rows = Classes::row_of(Classes::of(longest)) + 1;
  static_assert(rows <= 63, "next() needs a bit more");

 public:
  static constexpr uint32_t none = UINT32_MAX;

  void add(uint32_t size_class) noexcept {
    const uint32_t row = Classes::row_of(size_class);
    columns_[row] |= static_cast<Columns>(1u << (size_class & column_mask));
    rows_ |= uint64_t{1} << row;
  }
  void remove_if(bool empty, uint32_t size_class) noexcept {
    const uint32_t row = Classes::row_of(size_class);
    columns_[row] &= static_cast<Columns>(~(uint32_t{empty} << (size_class & column_mask)));
    rows_ &= ~(uint64_t{columns_[row] == 0} << row);
  }
  bool has(uint32_t size_class) const {
    return (columns_[Classes::row_of(size_class)] >> (size_class & column_mask) & 1) != 0;
  }
  bool empty() const { return rows_ == 0; }
  /// There must be one.
  uint32_t last() const {
    const uint32_t row = Classes::log2_of(rows_);
    return row * Classes::columns + Classes::log2_of(columns_[row]);
  }
  /// The first at or above a class, or none. Whether it is in the same row is no branch: both ways are gone.
  uint32_t next(uint32_t size_class) const {
    const uint32_t row = Classes::row_of(size_class);
    if (row >= rows) return none;
    const uint32_t column = size_class & column_mask;
    const uint32_t left = uint32_t{columns_[row]} >> column;
    const uint64_t rows_left = rows_ & (UINT64_MAX << row << 1);
    if ((left | rows_left) == 0) return none;
    const uint32_t here = size_class + lowest_bit(left | uint64_t{1} << 63);
    const uint32_t above_row = lowest_bit(rows_left | uint64_t{1} << rows);
    const uint32_t above =
        above_row * Classes::columns + lowest_bit(columns_[above_row] | uint64_t{1} << 63);
    const uint32_t stays = 0u - uint32_t{left != 0};
    return (here & stays) | (above & ~stays);
  }
  /// Whether rows and columns agree.
  bool valid() const {
    for (uint32_t row = 0; row < 64; ++row) {
      const bool used = row < rows && columns_[row] != 0;
      if (used != ((rows_ >> row & 1) != 0)) return false;
    }
    return true;
  }

 private:
  using Columns = std::conditional_t<(Classes::columns > 8), uint32_t, uint8_t>;
  static uint32_t lowest_bit(uint64_t value) {
    return static_cast<uint32_t>(__builtin_ctzll(value));
  }

  uint64_t rows_ = 0;
  std::array<Columns, rows + 1> columns_{};  ///< one more, always empty, for next()
};

}  // namespace weir::physical
