// SPDX-License-Identifier: Apache-2.0
#include "listen.hpp"

#include "../error.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <charconv>
#include <cstring>

namespace weir::tool::exporter {
namespace {

[[noreturn]] void refuse_listen(const std::string &text, const std::string &why) {
  throw ToolError(
      "--listen: '" + text + "' " + why +
      "; it takes ADDRESS:PORT, such as 127.0.0.1:9464; an IPv6 address stands in brackets");
}

uint16_t port_of(const std::string &text, const std::string &port) {
  uint16_t number = 0;
  const char *const end = port.data() + port.size();
  const auto [stop, error] = std::from_chars(port.data(), end, number);
  if (port.empty() || error != std::errc() || stop != end)
    refuse_listen(text, "has the port '" + port + "', which is no number up to 65535");
  return number;
}

bool is_loopback(const in6_addr &address) noexcept {
  return IN6_IS_ADDR_LOOPBACK(&address) ||
         (IN6_IS_ADDR_V4MAPPED(&address) && address.s6_addr[12] == 127);
}

}  // namespace

std::string Listen::text() const {
  return (v6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

Listen parse_listen(const std::string &text) {
  Listen listen;
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) refuse_listen(text, "has no port");
  listen.port = port_of(text, text.substr(colon + 1));
  std::string address = text.substr(0, colon);
  if (address == "localhost") address = "127.0.0.1";
  in_addr v4{};
  in6_addr v6{};
  if (address.size() > 2 && address.front() == '[' && address.back() == ']') {
    listen.address = address.substr(1, address.size() - 2);
    listen.v6 = true;
    if (inet_pton(AF_INET6, listen.address.c_str(), &v6) != 1)
      refuse_listen(text, "has '" + listen.address + "', which is no IPv6 address");
    listen.loopback = is_loopback(v6);
  } else {
    listen.address = address;
    if (inet_pton(AF_INET, address.c_str(), &v4) != 1)
      refuse_listen(text, "has '" + address + "', which is no IPv4 address");
    listen.loopback = (ntohl(v4.s_addr) >> 24U) == 127;
  }
  return listen;
}

}  // namespace weir::tool::exporter
