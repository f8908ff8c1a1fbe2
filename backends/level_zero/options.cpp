// SPDX-License-Identifier: Apache-2.0
//
// Parsing of options. The list of keys in the message and the ones understood stand side by side here.

#include "backends/level_zero/options.hpp"

#include "backends/common/options.hpp"

#include <charconv>
#include <string_view>

namespace weir::level_zero {
namespace {

constexpr std::string_view known =
    "vmm, peer, peer_cards, shared_range, transfer_stream, register, granule_large, context, "
    "driver";

/// A handle as programs print it: hexadecimal with 0x, or decimal.
bool parse_address(std::string_view text, uint64_t *out) {
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
  if (key == "vmm") return common::read_flag(key, value, &options->vmm);
  if (key == "peer") return common::read_flag(key, value, &options->peer);
  if (key == "peer_cards") return common::read_flag(key, value, &options->peer_cards);
  if (key == "transfer_stream") return common::read_flag(key, value, &options->transfer_stream);
  if (key == "shared_range") return common::read_flag(key, value, &options->shared_range);
  if (key == "register") return common::read_flag(key, value, &options->host_register);
  if (key == "granule_large") {
    return common::parse_number(value, 1024, &options->granule_large)
               ? std::string{}
               : common::bad_option(key, value, "0 or a size with K, M or G after it is needed");
  }
  if (key == "context") {
    return parse_address(value, &options->context)
               ? std::string{}
               : common::bad_option(key, value, "the address of a ze_context_handle_t is needed");
  }
  if (key == "driver") {
    return common::parse_number(value, 1, &options->driver) && options->driver != Options::any
               ? std::string{}
               : common::bad_option(key, value, "the index of a driver is needed");
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

}  // namespace weir::level_zero
