// SPDX-License-Identifier: Apache-2.0
//
// Parsing of options. The list of keys in the message and the ones understood stand side by side here.

#include "backends/opencl/options.hpp"

#include "backends/common/options.hpp"

#include <charconv>
#include <string_view>

namespace weir::opencl {
namespace {

constexpr std::string_view known =
    "library, platform, cpu, usm, integrated, register, memory, context";

/// A handle as programs print it: hexadecimal with 0x, or decimal.
bool parse_handle(std::string_view text, uint64_t *out) {
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  if (hexadecimal) text.remove_prefix(2);
  uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, hexadecimal ? 16 : 10);
  if (error != std::errc{} || end != text.data() + text.size() || value == 0) return false;
  *out = value;
  return true;
}

std::string take(std::string_view key, std::string_view value, Options *options) {
  if (key == "cpu") return common::read_flag(key, value, &options->cpu);
  if (key == "usm") return common::read_flag(key, value, &options->usm);
  if (key == "integrated") return common::read_flag(key, value, &options->integrated);
  if (key == "register") return common::read_flag(key, value, &options->host_register);
  if (key == "library") {
    options->library = value;
    return value.empty() ? common::bad_option(key, value, "the file of an ICD loader is needed")
                         : std::string{};
  }
  if (key == "memory") {
    return common::parse_number(value, 1024, &options->memory)
               ? std::string{}
               : common::bad_option(key, value, "0 or a size with K, M or G after it is needed");
  }
  if (key == "context") {
    return parse_handle(value, &options->context)
               ? std::string{}
               : common::bad_option(key, value, "the address of a cl_context is needed");
  }
  if (key == "platform") {
    return common::parse_number(value, 1, &options->platform) && options->platform != Options::any
               ? std::string{}
               : common::bad_option(key, value, "the index of a platform is needed");
  }
  return common::unknown_option(key, known);
}

}  // namespace

std::string parse_options(const char *text, Options *options) {
  Options parsed;
  std::string reason = common::read_options(
      text,
      [&](std::string_view key, std::string_view value) { return take(key, value, &parsed); });
  if (reason.empty()) *options = parsed;
  return reason;
}

}  // namespace weir::opencl
