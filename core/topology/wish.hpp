// SPDX-License-Identifier: Apache-2.0
//
// Wish: the text by which a program or its user names a device, "gpu", "cuda:0", a UUID or a PCI address; and which of the
// devices that there are fits it. It asks no runtime and decides nothing between several that fit.
#pragma once

#include "core/base/status.hpp"
#include "core/topology/machine.hpp"

#include <weir/context.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace weir::topology {

/// A device as a wish sees it.
struct Offer {
  std::string_view backend;       ///< "cuda"
  std::string_view pci_address;   ///< "" if there is none
  const uint8_t *uuid = nullptr;  ///< 16 bytes; all 0 if the runtime tells none
  bool integrated = false;        ///< its memory is the host's
};

/// "0000:17:00.0", "00000000:17:00.0", "17:00.0" or "0000:17:00", in either case. Nothing else, as "17:00" would be anything.
std::optional<PciAddress> parse_pci(std::string_view text) noexcept;

struct Wish {
  enum class Kind : uint8_t { gpu, backend, uuid, short_uuid, pci };
  Kind kind = Kind::gpu;
  bool numbered = false;
  uint32_t number = 0;    ///< among those that fit, where `numbered`
  std::string_view name;  ///< of the backend
  uint8_t uuid[16] = {};
  PciAddress pci;

  /// Whether it names a kind of device, of which the best is meant, and not a certain one.
  bool open() const noexcept { return !numbered && (kind == Kind::gpu || kind == Kind::backend); }
  /// Whether it is one that is meant; the number is left aside.
  bool fits(const Offer &offer) const noexcept;
};

/// One wish; spaces around it are left aside. INVALID_ARGUMENT names it and shows the forms.
Status parse_wish(std::string_view text, Wish *wish);

}  // namespace weir::topology
