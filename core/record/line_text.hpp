// SPDX-License-Identifier: Apache-2.0
//
// LineText: one line of a trace "#vmt 2" that is being written: a kind, fields with one blank before each, then KEY=VALUE for what is
// not as it usually is. What every line has in common is here; which lines there are is VmtLines'.
//
// What must hold: nothing is written beyond the memory given, whatever the fields are; names are cut to what the library keeps of them.
#pragma once

#include "core/record/vmt_line.hpp"

#include <weir/weir.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace weir::record {

inline constexpr size_t most_name = 255;        // weir/buffer.h, weir/pool.h
inline constexpr size_t most_operation = 1023;  // weir/lease.h
inline constexpr size_t most_value = 8192;      // of a header's
inline constexpr size_t most_devices = 1024;    // weir_buffer_desc.user_count
inline constexpr size_t most_figures = 256;     // of a pool's counters
inline constexpr size_t most_figure_name = 64;

inline std::string_view cut(std::string_view text, size_t most) noexcept {
  return text.substr(0, most);
}

/// One line that is being written, as long as it fits. done() says whether it did; if not nothing of it is kept.
class LineText {
 public:
  /// The line is put after the first `size` bytes of `memory`; `size` counts the line once it is done.
  LineText(char *memory, size_t capacity, size_t &size, std::string_view kind) noexcept
      : memory_(memory), size_(size), at_(memory + size), end_(memory + capacity) {
    raw(kind);
  }
  LineText(const LineText &) = delete;
  LineText &operator=(const LineText &) = delete;

  LineText &number(uint64_t value) noexcept {
    raw(" ");
    return digits(value);
  }
  LineText &number_or_none(uint64_t value) noexcept {
    return value == vmt_none ? raw(" -") : number(value);
  }
  /// A budget or a quota.
  LineText &bytes(uint64_t value) noexcept {
    raw(" ");
    return amount(value);
  }
  LineText &device(uint64_t device) noexcept {
    raw(" ");
    return place(device);
  }
  /// A word of Weir's.
  LineText &plain(std::string_view text) noexcept { return raw(" ").raw(text); }
  /// A word of the program's.
  LineText &word(std::string_view text) noexcept {
    raw(" ");
    return text.empty() ? raw("-") : escaped(text);
  }
  LineText &operation(const VmtOperation &operation) noexcept {
    if (operation.number != 0) return number(operation.number);
    if (operation.name.empty()) return raw(" -");
    return raw(" =").escaped(cut(operation.name, most_operation));
  }
  LineText &range(const VmtRange &range) noexcept {
    if (range.offset == 0 && range.length == vmt_none) return *this;
    return number(range.offset).number_or_none(range.length);
  }

  LineText &key(std::string_view name, uint64_t value) noexcept {
    return value == 0 ? *this : begin_key(name).amount(value);
  }
  LineText &key(std::string_view name, std::string_view value) noexcept {
    return value.empty() ? *this : begin_key(name).escaped(value);
  }
  /// Writes the key also if the value is 0.
  LineText &number_key(std::string_view name, uint64_t value) noexcept {
    return begin_key(name).digits(value);
  }
  LineText &signed_number(int64_t value) noexcept {
    raw(value < 0 ? " -" : " ");
    return digits(value < 0 ? uint64_t{0} - static_cast<uint64_t>(value)
                            : static_cast<uint64_t>(value));
  }
  LineText &signed_key(std::string_view name, int64_t value) noexcept {
    if (value == 0) return *this;
    begin_key(name);
    if (value < 0) raw("-");
    return digits(value < 0 ? uint64_t{0} - static_cast<uint64_t>(value)
                            : static_cast<uint64_t>(value));
  }
  LineText &devices_key(std::string_view name, std::span<const uint32_t> devices) noexcept {
    return list(name, devices, [this](uint32_t device) { place(device); });
  }
  LineText &numbers_key(std::string_view name, std::span<const uint32_t> numbers) noexcept {
    return list(name, numbers, [this](uint32_t number) { digits(number); });
  }
  LineText &place_key(std::string_view name, uint64_t device) noexcept {
    return begin_key(name).place(device);
  }

  /// The rest of a header's line.
  LineText &value(std::string_view text) noexcept {
    raw(" ");
    for (const char c : cut(text, most_value)) put(c >= ' ' && c < 127 ? c : '?');
    return *this;
  }

  bool done() noexcept {
    put('\n');
    if (!fits_) return false;
    size_ = static_cast<size_t>(at_ - memory_);
    return true;
  }

 private:
  LineText &raw(std::string_view text) noexcept {
    if (!fits_ || text.size() > static_cast<size_t>(end_ - at_)) {
      fits_ = false;
      return *this;
    }
    std::memcpy(at_, text.data(), text.size());
    at_ += text.size();
    return *this;
  }
  void put(char c) noexcept { raw({&c, 1}); }
  LineText &digits(uint64_t value) noexcept {
    char text[20];
    const auto [end, error] = std::to_chars(text, text + sizeof text, value);
    return raw({text, static_cast<size_t>(end - text)});
  }
  LineText &amount(uint64_t value) noexcept {
    return value == WEIR_UNLIMITED ? raw("unlimited")
           : value == WEIR_NONE    ? raw("none")
                                   : digits(value);
  }
  LineText &place(uint64_t device) noexcept {
    switch (device) {
      case WEIR_DEVICE_HOST:
        return raw("h");
      case WEIR_DEVICE_DEFAULT:
        return raw("default");
      case WEIR_DEVICE_ALL:
        return raw("all");
      case WEIR_DEVICE_ANY:
        return raw("any");
      default:
        return digits(device);
    }
  }
  LineText &escaped(std::string_view text) noexcept {
    static constexpr char hex[] = "0123456789abcdef";
    if (text == "-") return raw("%2d");  // which alone is no name
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte > ' ' && byte < 127 && c != '%') {
        put(c);
      } else {
        const char code[3] = {'%', hex[byte >> 4], hex[byte & 15]};
        raw({code, 3});
      }
    }
    return *this;
  }
  LineText &begin_key(std::string_view name) noexcept { return raw(" ").raw(name).raw("="); }
  template <class Put>
  LineText &list(std::string_view name, std::span<const uint32_t> values, Put &&put_one) noexcept {
    if (values.empty()) return *this;
    begin_key(name);
    const size_t count = std::min(values.size(), most_devices);
    for (size_t i = 0; i < count; ++i) {
      if (i != 0) raw(",");
      put_one(values[i]);
    }
    return *this;
  }

  char *memory_;
  size_t &size_;
  char *at_;
  char *end_;
  bool fits_ = true;
};

}  // namespace weir::record
