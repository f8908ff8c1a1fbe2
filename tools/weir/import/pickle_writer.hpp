// SPDX-License-Identifier: Apache-2.0
//
// PickleWriter: plain data as Python's pickle has it, protocol 2: dicts, lists, texts and whole numbers, each written where it stands.
// Nothing is remembered and nothing named, so any reader of pickles takes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weir::tool {

class PickleWriter {
 public:
  PickleWriter() : bytes_("\x80\x02") {}

  /// Keys and values in turn, until the end.
  void begin_dict() { bytes_ += "}("; }
  void end_dict() { bytes_ += 'u'; }
  void begin_list() { bytes_ += "]("; }
  void end_list() { bytes_ += 'e'; }
  void key(std::string_view name) { text(name); }
  /// What is no UTF-8 in it becomes "?".
  void text(std::string_view value);
  void number(uint64_t value);
  void boolean(bool value) { bytes_ += value ? '\x88' : '\x89'; }
  void pair(uint64_t first, uint64_t second);
  std::string take() { return std::move(bytes_ += '.'); }

 private:
  void little(uint64_t value, unsigned count);

  std::string bytes_;
};

}  // namespace weir::tool
