// SPDX-License-Identifier: Apache-2.0
//
// Devices and the links between them: what is said must be true, complete and always the same.
#include "conformance/process.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace weir::conformance {
namespace {

constexpr uint64_t known_capabilities = (WEIR_CAP_NATIVE_MEMORY << 1U) - 1;
constexpr uint32_t no_number = 0x5afe5afe;

bool printable(const char *text, size_t size) {
  const size_t length = strnlen(text, size);
  return length < size &&
         std::all_of(text, text + length, [](char c) { return c >= ' ' && c <= '~'; });
}

/// "0000:17:00.0".
bool is_pci_address(const std::string &text) {
  static const std::string shape = "xxxx:xx:xx.x";
  return text.size() == shape.size() &&
         std::equal(text.begin(), text.end(), shape.begin(), [](char c, char wanted) {
           return wanted == 'x' ? std::isxdigit(static_cast<unsigned char>(c)) != 0 : c == wanted;
         });
}

Outcome link(Test &t, uint32_t from, uint32_t to, weir_be_link *about) {
  *about = weir_be_link{};
  about->struct_size = sizeof *about;
  MUST(link_describe, from, to, about);
  return {};
}

/// Every device, and the host.
std::vector<uint32_t> ends(const Test &t) {
  std::vector<uint32_t> all{WEIR_DEVICE_HOST};
  for (uint32_t i = 0; i < t.device_count; ++i) all.push_back(i);
  return all;
}

REQUIRE("DV-001", always(), "There is a device, and their number does not change.") {
  CHECK(t.device_count > 0, "there is no device");
  for (int i = 0; i < 10; ++i) {
    uint32_t count = 0;
    MUST(device_count, &count);
    CHECK(count == t.device_count, "there are ", count, " devices and were ", t.device_count);
  }
  return {};
}

REQUIRE("DV-002", always(),
        "Every device has a name that is printable and ends within its field.") {
  for (uint32_t i = 0; i < t.device_count; ++i) {
    weir_be_device about;
    TRY(t.describe(i, &about));
    CHECK(printable(about.name, sizeof about.name) && about.name[0] != '\0', "device ", i,
          " has no printable name of at most 63 characters");
  }
  return {};
}

REQUIRE("DV-003", always(), "A device's PCI address is empty or of the form 0000:17:00.0.") {
  for (uint32_t i = 0; i < t.device_count; ++i) {
    weir_be_device about;
    TRY(t.describe(i, &about));
    CHECK(printable(about.pci_address, sizeof about.pci_address), "device ", i,
          ": the PCI address does not end within its field");
    const std::string address = about.pci_address;
    CHECK(address.empty() || is_pci_address(address), "device ", i, " has the PCI address \"",
          address, "\"");
  }
  return {};
}

REQUIRE("DV-004", always(),
        "A device is described the same way each time, also by another state.") {
  Session second(t, t.device);
  TRY(second.start(t.library, t.settings.options));
  for (uint32_t i = 0; i < t.device_count; ++i) {
    weir_be_device first, again, elsewhere{};
    TRY(t.describe(i, &first));
    TRY(t.describe(i, &again));
    elsewhere.struct_size = sizeof elsewhere;
    MUST_IN(second, device_describe, i, &elsewhere);
    CHECK(std::memcmp(&first, &again, sizeof first) == 0, "device ", i,
          " is described in two ways");
    CHECK(std::memcmp(&first, &elsewhere, sizeof first) == 0, "device ", i,
          " is described in another way by another state");
  }
  return {};
}

REQUIRE("DV-005", needs(0, 2), "Devices can be told apart by their uuid, unless they have none.") {
  const uint8_t none[16] = {};
  uint32_t told = 0;
  std::vector<weir_be_device> all(t.device_count);
  for (uint32_t i = 0; i < t.device_count; ++i) {
    TRY(t.describe(i, &all[i]));
    if (std::memcmp(all[i].uuid, none, sizeof none) == 0) continue;
    ++told;
    for (uint32_t j = 0; j < i; ++j) {
      CHECK(std::memcmp(all[i].uuid, all[j].uuid, sizeof none) != 0, "devices ", j, " and ", i,
            " have the same uuid");
    }
  }
  return told > 1 ? Outcome{} : t.nothing("no two devices have a uuid");
}

REQUIRE("DV-006", always(),
        "A device's memory is told the same by device_describe and device_memory, and no more than "
        "all of it is free.") {
  for (uint32_t i = 0; i < t.device_count; ++i) {
    weir_be_device about;
    uint64_t free_bytes = 0, total = 0;
    TRY(t.describe(i, &about));
    MUST(device_memory, i, &free_bytes, &total);
    CHECK(total != 0 && total == about.memory_total, "device ", i, " has ", total,
          " bytes by device_memory and ", about.memory_total, " by device_describe");
    CHECK(free_bytes <= total, "device ", i, ": ", free_bytes, " bytes are free, of ", total);
  }
  return {};
}

REQUIRE("DV-007", always(), "The granule is a power of two with VMM and 0 without it.") {
  for (uint32_t i = 0; i < t.device_count; ++i) {
    weir_be_device about;
    TRY(t.describe(i, &about));
    if ((about.capabilities & WEIR_CAP_VMM) == 0) {
      CHECK(about.granule == 0, "device ", i, " has no VMM and a granule of ", about.granule);
    } else {
      CHECK(std::has_single_bit(about.granule), "device ", i, " has a granule of ", about.granule);
    }
  }
  return {};
}

REQUIRE("DV-008", always(),
        "The large unit is 0 or a multiple of the granule, and 0 without VMM.") {
  for (uint32_t i = 0; i < t.device_count; ++i) {
    weir_be_device about;
    TRY(t.describe(i, &about));
    const bool fits = about.granule_large == 0 ||
                      (about.granule != 0 && about.granule_large % about.granule == 0);
    CHECK(fits, "device ", i, " has a large unit of ", about.granule_large, " over a granule of ",
          about.granule);
  }
  return {};
}

REQUIRE("DV-009", always(), "Only capabilities that the interface names are told.") {
  for (uint32_t i = 0; i < t.device_count; ++i) {
    weir_be_device about;
    TRY(t.describe(i, &about));
    CHECK((about.capabilities & ~known_capabilities) == 0, "device ", i, " has the capabilities ",
          about.capabilities);
  }
  return {};
}

REQUIRE("DV-010", always(), "A device's NUMA node is one of the system, or unknown.") {
  struct stat node {};
  const bool told = stat("/sys/devices/system/node/node0", &node) == 0;
  if (!told) t.note("the system tells no NUMA nodes: only that the number is one it could have");
  constexpr uint32_t most_nodes = 1024;  // what Linux is built for at most
  for (uint32_t i = 0; i < t.device_count; ++i) {
    weir_be_device about;
    TRY(t.describe(i, &about));
    if (about.numa_node == UINT32_MAX) continue;
    const std::string path = "/sys/devices/system/node/node" + std::to_string(about.numa_node);
    const bool there = told ? stat(path.c_str(), &node) == 0 : about.numa_node < most_nodes;
    CHECK(there, "device ", i, " is at NUMA node ", about.numa_node,
          ", which the system does not have");
  }
  return {};
}

REQUIRE("DV-011", always(), "A description is not written beyond the size that its caller has.") {
  for (const uint32_t size : {uint32_t{8}, uint32_t{16}, uint32_t{24}, uint32_t{64}}) {
    weir_be_device about;
    std::memset(&about, 0xA5, sizeof about);
    about.struct_size = size;
    MUST(device_describe, t.device, &about);
    const auto *bytes = reinterpret_cast<const uint8_t *>(&about);
    for (size_t i = size; i < sizeof about; ++i)
      CHECK(bytes[i] == 0xA5, "with a struct_size of ", size, ", byte ", i, " is written");
  }
  return {};
}

REQUIRE("DV-012", always(), "A link is not written beyond the size that its caller has.") {
  for (const uint32_t size : {uint32_t{8}, uint32_t{16}, uint32_t{24}}) {
    weir_be_link about;
    std::memset(&about, 0xA5, sizeof about);
    about.struct_size = size;
    MUST(link_describe, t.device, WEIR_DEVICE_HOST, &about);
    const auto *bytes = reinterpret_cast<const uint8_t *>(&about);
    for (size_t i = size; i < sizeof about; ++i)
      CHECK(bytes[i] == 0xA5, "with a struct_size of ", size, ", byte ", i, " is written");
  }
  return {};
}

REQUIRE(
    "DV-013", always(),
    "A caller's larger description is filled as far as it is known, and not beyond its own size.") {
  struct {
    weir_be_device about;
    uint8_t more[64];
    uint8_t beyond[64];
  } large;
  std::memset(&large, 0xA5, sizeof large);
  large.about.struct_size = sizeof large.about + sizeof large.more;
  MUST(device_describe, t.device, &large.about);
  CHECK(large.about.memory_total == t.about.memory_total &&
            large.about.capabilities == t.about.capabilities,
        "the larger description says something else");
  for (const uint8_t byte : large.beyond) CHECK(byte == 0xA5, "it is written beyond its size");
  return {};
}

REQUIRE("DV-014", always(),
        "A device that does not exist is neither described nor measured, and nothing is written.") {
  for (const uint32_t device : {t.no_device(), UINT32_MAX, uint32_t{WEIR_DEVICE_DEFAULT}}) {
    weir_be_device about, before;
    std::memset(&about, 0xA5, sizeof about);
    about.struct_size = sizeof about;
    before = about;
    REFUSED(device_describe, device, &about);
    CHECK(std::memcmp(&about, &before, sizeof about) == 0, "the refused call wrote a description");
    uint64_t free_bytes = no_number, total = no_number;
    REFUSED(device_memory, device, &free_bytes, &total);
    CHECK(free_bytes == no_number && total == no_number, "the refused call wrote sizes");
  }
  return {};
}

REQUIRE("DV-015", always(),
        "A link of a device that does not exist is refused, and nothing is written.") {
  for (const bool first : {true, false}) {
    weir_be_link about, before;
    std::memset(&about, 0xA5, sizeof about);
    about.struct_size = sizeof about;
    before = about;
    REFUSED(link_describe, first ? t.no_device() : t.device, first ? t.device : t.no_device(),
            &about);
    CHECK(std::memcmp(&about, &before, sizeof about) == 0, "the refused call wrote a link");
  }
  return {};
}

REQUIRE(
    "DV-016", always(),
    "Between all ends, the host among them, there is a description of the link, of a known kind.") {
  for (const uint32_t from : ends(t)) {
    for (const uint32_t to : ends(t)) {
      weir_be_link about;
      TRY(link(t, from, to, &about));
      CHECK(about.kind <= WEIR_LINK_NETWORK, "the link from ", from, " to ", to, " is of kind ",
            about.kind);
      CHECK(about.direct <= 1, "the link from ", from, " to ", to, " is direct ", about.direct);
    }
  }
  return {};
}

REQUIRE("DV-017", always(),
        "A device's link to itself is of the kind SAME, without hops, and direct.") {
  for (uint32_t i = 0; i < t.device_count; ++i) {
    weir_be_link about;
    TRY(link(t, i, i, &about));
    CHECK(about.kind == WEIR_LINK_SAME, "device ", i, " to itself is of kind ", about.kind);
    CHECK(about.hops == 0, "device ", i, " is ", about.hops, " hops from itself");
    CHECK(about.direct == 1, "device ", i, " cannot copy to itself");
  }
  return {};
}

REQUIRE("DV-018", always(),
        "The links of a device to and from the host are direct, and not of the kind SAME.") {
  for (uint32_t i = 0; i < t.device_count; ++i) {
    for (const bool up : {true, false}) {
      weir_be_link about;
      TRY(link(t, up ? WEIR_DEVICE_HOST : i, up ? i : WEIR_DEVICE_HOST, &about));
      CHECK(about.direct == 1, "device ", i, ": the link ", up ? "from" : "to",
            " the host is not direct");
      CHECK(about.kind != WEIR_LINK_SAME, "device ", i, ": the link ", up ? "from" : "to",
            " the host is of kind SAME");
    }
  }
  return {};
}

REQUIRE("DV-019", needs(0, 2),
        "A link between devices that is direct has a kind, and two devices are not the SAME.") {
  for (uint32_t i = 0; i < t.device_count; ++i) {
    for (uint32_t j = 0; j < t.device_count; ++j) {
      if (i == j) continue;
      weir_be_link about;
      TRY(link(t, i, j, &about));
      CHECK(about.kind != WEIR_LINK_SAME, "devices ", i, " and ", j, " are the same");
      CHECK(about.direct == 0 || about.kind != WEIR_LINK_NONE, "devices ", i, " and ", j,
            " have no link, and it is direct");
    }
  }
  return {};
}

REQUIRE("DV-024", advised(),
        "Different places that have a link are at least one hop apart, and both ends tell the same "
        "kind and whether it is direct.") {
  size_t links = 0;
  for (const uint32_t from : ends(t)) {
    for (const uint32_t to : ends(t)) {
      if (from == to) continue;
      weir_be_link out, back;
      TRY(link(t, from, to, &out));
      TRY(link(t, to, from, &back));
      if (out.kind == WEIR_LINK_NONE && back.kind == WEIR_LINK_NONE) continue;
      ++links;
      CHECK(out.hops >= 1, "from ", from, " to ", to, " it is ", out.hops, " hops");
      CHECK(out.kind == back.kind, "the link from ", from, " to ", to, " is of kind ", out.kind,
            ", and back of kind ", back.kind);
      CHECK(out.direct == back.direct, "the link from ", from, " to ", to, " is direct ",
            out.direct, ", and back ", back.direct);
    }
  }
  return links != 0 ? Outcome{} : t.nothing("no two places have a link");
}

using Uuid = std::array<uint8_t, 16>;

Outcome uuids(const Test &t, Session &session, std::vector<Uuid> *all) {
  all->resize(t.device_count);
  for (uint32_t i = 0; i < t.device_count; ++i) {
    weir_be_device about{};
    about.struct_size = sizeof about;
    MUST_IN(session, device_describe, i, &about);
    std::memcpy((*all)[i].data(), about.uuid, sizeof about.uuid);
  }
  return {};
}

Outcome same_uuids(const std::vector<Uuid> &is, const std::vector<Uuid> &was, const char *where) {
  CHECK(is.size() == was.size(), is.size(), " devices have a uuid ", where, ", and ", was.size(),
        " before");
  for (size_t i = 0; i < is.size(); ++i)
    CHECK(is[i] == was[i], "device ", uint64_t{i}, " has another uuid ", where);
  return {};
}

bool any_uuid(const std::vector<Uuid> &all) {
  return std::any_of(all.begin(), all.end(), [](const Uuid &each) { return each != Uuid{}; });
}

REQUIRE("DV-025", always(), "A device's uuid is the same in every state.") {
  std::vector<Uuid> first, now;
  TRY(uuids(t, t, &first));
  {
    Session beside(t, t.device);
    TRY(beside.start(t.library, t.settings.options));
    TRY(uuids(t, beside, &now));
    TRY(same_uuids(now, first, "in a second state"));
  }
  t.stop();
  TRY(t.start(t.library, t.settings.options));
  TRY(uuids(t, t, &now));
  TRY(same_uuids(now, first, "in a state that was started after the first had ended"));
  return any_uuid(first) ? Outcome{} : t.nothing("no device has a uuid");
}

/// Tells how many devices there are, and each one's uuid in two numbers.
HELPER(tell_uuids) {
  std::vector<Uuid> all;
  TRY(uuids(t, t, &all));
  TRY(channel.send(all.size()));
  for (const Uuid &each : all) {
    uint64_t halves[2];
    std::memcpy(halves, each.data(), sizeof halves);
    for (const uint64_t half : halves) TRY(channel.send(half));
  }
  return {};
}

REQUIRE("DV-026", advised(), "A device's uuid is the same in another process.") {
  std::vector<Uuid> mine, theirs;
  TRY(uuids(t, t, &mine));
  if (!any_uuid(mine)) return t.nothing("no device has a uuid");
  Peer peer(t);
  TRY(peer.start("tell_uuids"));
  uint64_t count = 0;
  TRY(peer.channel.receive(&count));
  CHECK(count == mine.size(), "there are ", count, " devices in another process, and ",
        uint64_t{mine.size()}, " here");
  theirs.resize(mine.size());
  for (Uuid &each : theirs) {
    uint64_t halves[2] = {};
    for (uint64_t &half : halves) TRY(peer.channel.receive(&half));
    std::memcpy(each.data(), halves, sizeof halves);
  }
  TRY(peer.join());
  return same_uuids(theirs, mine, "in another process");
}

}  // namespace
}  // namespace weir::conformance
