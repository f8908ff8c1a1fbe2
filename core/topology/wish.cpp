// SPDX-License-Identifier: Apache-2.0
//
// Reads a wish: a UUID, a PCI address, or a kind or backend with a number; and compares it with a device.

#include "core/topology/wish.hpp"

#include "core/topology/text.hpp"

#include <algorithm>
#include <cctype>

namespace weir::topology {
namespace {

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same(std::string_view a, std::string_view b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char left, char right) { return lower(left) == lower(right); });
}

/// Of a device whose runtime tells one: all 0 is none.
bool told(const uint8_t *uuid) noexcept {
  return uuid != nullptr && std::any_of(uuid, uuid + 16, [](uint8_t byte) { return byte != 0; });
}

std::string_view characters(const uint8_t *uuid) noexcept {
  return {reinterpret_cast<const char *>(uuid), 16};
}

/// The digits of "GPU-0123...", "MIG-..." or bare ones with dashes anywhere between them: 32, which are 16 bytes; or the 16
/// that ROCm gives a card, which its runtime hands out as they are written.
bool parse_uuid(std::string_view text, Wish *wish) noexcept {
  for (const std::string_view prefix : {"GPU-", "MIG-"})
    if (same(text.substr(0, prefix.size()), prefix)) text.remove_prefix(prefix.size());
  char digits[32];
  size_t count = 0;
  for (const char c : text) {
    if (c == '-') continue;
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0 || count == sizeof digits) return false;
    digits[count++] = lower(c);
  }
  if (count != 32 && count != 16) return false;
  wish->kind = count == 32 ? Wish::Kind::uuid : Wish::Kind::short_uuid;
  for (size_t i = 0; i < 16; ++i)
    wish->uuid[i] = count == 32 ? *whole_number<uint8_t>({digits + 2 * i, 2}, 16)
                                : static_cast<uint8_t>(digits[i]);
  return true;
}

/// "gpu", "cuda", "gpu:1".
bool parse_name(std::string_view text, Wish *wish) noexcept {
  const size_t colon = text.find(':');
  wish->name = text.substr(0, colon);
  wish->numbered = colon != std::string_view::npos;
  const auto number = wish->numbered ? whole_number<uint32_t>(text.substr(colon + 1)) : 0;
  if (!number) return false;
  wish->number = *number;
  if (wish->name.empty() || is_digit(wish->name.front())) return false;
  wish->kind = same(wish->name, "gpu") ? Wish::Kind::gpu : Wish::Kind::backend;
  return std::all_of(wish->name.begin(), wish->name.end(), [](char c) {
    return is_digit(c) || c == '_' || (lower(c) >= 'a' && lower(c) <= 'z');
  });
}

}  // namespace

std::optional<PciAddress> parse_pci(std::string_view text) noexcept {
  const bool bare = text.find('.') == std::string_view::npos && text.find(':') == text.rfind(':');
  return bare ? std::nullopt : pci_address_of(text);
}

bool Wish::fits(const Offer &offer) const noexcept {
  switch (kind) {
    case Kind::gpu:
      // What has the host's memory and no place on a bus is a driver on the CPU, for all that can be seen.
      return offer.backend != "host" && !(offer.integrated && offer.pci_address.empty());
    case Kind::backend:
      return same(offer.backend, name);
    case Kind::uuid:
      return told(offer.uuid) && characters(offer.uuid) == characters(uuid);
    case Kind::short_uuid:
      return told(offer.uuid) && same(characters(offer.uuid), characters(uuid));
    case Kind::pci:
      return parse_pci(offer.pci_address) == pci;
  }
  return false;
}

Status parse_wish(std::string_view text, Wish *wish) {
  *wish = Wish{};
  std::string_view own = text.substr(std::min(text.find_first_not_of(" \t"), text.size()));
  own = own.substr(0, own.find_last_not_of(" \t") + 1);
  if (parse_uuid(own, wish)) return {};
  if (const auto pci = parse_pci(own)) {
    wish->kind = Wish::Kind::pci;
    wish->pci = *pci;
    return {};
  }
  if (parse_name(own, wish)) return {};
  return fail(WEIR_ERROR_INVALID_ARGUMENT,
              "\"%.*s\" names no device: it takes \"gpu\", \"gpu:1\", a backend as \"cuda\" or "
              "\"cuda:0\", a UUID "
              "or a PCI address, or several with commas between them",
              static_cast<int>(std::min<size_t>(text.size(), 64)), text.data());
}

}  // namespace weir::topology
