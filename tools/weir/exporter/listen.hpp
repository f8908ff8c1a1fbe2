// SPDX-License-Identifier: Apache-2.0
//
// Where an exporter listens: "ADDRESS:PORT" as the user writes it. An address is a number, never a name that has to be resolved,
// but for "localhost".
#pragma once

#include <cstdint>
#include <string>

namespace weir::tool::exporter {

struct Listen {
  std::string address;  ///< "127.0.0.1", "::1"
  uint16_t port = 0;    ///< 0: the system chooses
  bool loopback = false;
  bool v6 = false;

  /// "127.0.0.1:9464", "[::1]:9464".
  std::string text() const;
};

/// Throws ToolError, which names what is wrong.
Listen parse_listen(const std::string &text);

}  // namespace weir::tool::exporter
