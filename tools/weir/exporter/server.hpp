// SPDX-License-Identifier: Apache-2.0
//
// Server: answers a Prometheus that asks for /metrics, by prometheus-cpp, where it was there when this was built.
#pragma once

#include "auth_file.hpp"
#include "collector.hpp"
#include "listen.hpp"

#include <memory>
#include <optional>

namespace weir::tool::exporter {

class Server {
 public:
  /// Listens from now on. Throws ToolError: the address can't be had, or this weir was built without prometheus-cpp.
  Server(const Listen &listen, std::optional<AuthFile> auth, std::shared_ptr<Collector> collector);
  ~Server();
  Server(const Server &) = delete;
  Server &operator=(const Server &) = delete;

  /// That the system has chosen, if it was to.
  uint16_t port() const noexcept;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace weir::tool::exporter
