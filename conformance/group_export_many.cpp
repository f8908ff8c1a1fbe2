// SPDX-License-Identifier: Apache-2.0
//
// What exports and imports cost and leave, parts of imported granules, and the two ways out of a process side by side. The
// memory is measured alone; a granule's memory is its exporter's until all that use it have ended.
#include "conformance/process.hpp"
#include "conformance/walks.hpp"

#include <algorithm>
#include <memory>

namespace weir::conformance {
namespace {

/// Waits until the device has as much free as before, to within its slack.
Outcome room_is_back(Test &t, const DeviceFacts &device, uint64_t before) {
  const uint64_t give_up = now_ns() + patience_ns / 4;
  uint64_t now = 0;
  do {
    TRY(free_bytes_of(t, device.index, &now));
  } while (now + device.slack < before && now_ns() < give_up);
  CHECK(now + device.slack >= before, "of ", before, " free bytes ", now, " are back");
  return {};
}

/// A granule that was made for it goes out as a descriptor or over a fabric, and comes in again.
struct WayOut {
  const char *name;
  uint64_t capability, flag;
};
constexpr WayOut by_descriptor{"a descriptor", WEIR_CAP_EXPORT_FD, WEIR_BE_GRANULE_EXPORT_FD};
constexpr WayOut by_fabric{"a fabric", WEIR_CAP_EXPORT_FABRIC, WEIR_BE_GRANULE_EXPORT_FABRIC};

/// One export of a granule: a descriptor or a handle.
struct Ticket {
  Descriptor fd;
  weir_be_fabric_handle handle{};
};
Outcome go_out(Test &t, const WayOut &way, uint32_t device, const Granule &granule,
               Ticket *ticket) {
  if (way.flag == WEIR_BE_GRANULE_EXPORT_FABRIC) {
    MUST(granule_export_fabric, device, granule.get(), &ticket->handle);
    return {};
  }
  int32_t fd = -1;
  MUST(granule_export, device, granule.get(), &fd);
  CHECK(fd >= 0, "the exported descriptor is ", fd);
  ticket->fd = Descriptor(fd);
  return {};
}
Outcome come_in(Test &t, const WayOut &way, uint32_t device, const Ticket &ticket, uint64_t bytes,
                Granule *granule) {
  if (way.flag != WEIR_BE_GRANULE_EXPORT_FABRIC) return granule->import(ticket.fd.get(), bytes);
  weir_be_granule made = 0;
  MUST(granule_import_fabric, device, &ticket.handle, bytes, &made);
  granule->adopt(made);
  return {};
}

/// A granule that goes out and comes in a few times, and in which order all of that ends.
struct Journey {
  uint64_t exports, imports;
  bool tickets_first;  ///< descriptors are closed before the granules end
  bool maker_first;    ///< the exporter's granule ends before the imports
  bool used;           ///< each is mapped and written before
};

Outcome travel(Test &t, const WayOut &way, const DeviceFacts &device, uint64_t bytes,
               const Journey &journey) {
  Granule granule(t, device.index);
  std::vector<Ticket> tickets(journey.exports);
  std::vector<std::unique_ptr<Granule>> imports;
  TRY(granule.create(bytes, way.flag));
  for (Ticket &ticket : tickets) TRY(go_out(t, way, device.index, granule, &ticket));
  for (uint64_t i = 0; i < journey.imports && !tickets.empty(); ++i) {
    imports.push_back(std::make_unique<Granule>(t, device.index));
    TRY(come_in(t, way, device.index, tickets[i % tickets.size()], bytes, imports.back().get()));
  }
  if (journey.used) {
    Range range(t, device.index);
    Mover mover(t, device.index);
    TRY(range.reserve(bytes, device.unit));
    TRY(mover.make(end_bytes));
    uint64_t seed = 0;
    const auto use = [&](const Granule &each) -> Outcome {
      Map map(t, device.index);
      TRY(map.map(range.address(), bytes, each));
      if (seed != 0) TRY(check_ends(mover, range.address(), bytes, seed));
      return write_ends(mover, range.address(), bytes, ++seed);
    };
    TRY(use(granule));
    for (const auto &each : imports) TRY(use(*each));
    TRY(use(granule));
  }
  if (journey.tickets_first) tickets.clear();
  if (journey.maker_first) TRY(granule.destroy());
  for (const auto &each : imports) TRY(each->destroy());
  TRY(granule.destroy());
  return {};
}

Outcome journeys_leave_nothing(Test &t, const WayOut &way) {
  return each_device(t, way.capability | WEIR_CAP_VMM, [&](const DeviceFacts &device) -> Outcome {
    const uint64_t bytes = std::max(device.budget / 2 / device.unit, uint64_t{1}) * device.unit;
    uint64_t before = 0;
    TRY(travel(t, way, device, bytes, {1, 1, true, false, true}));
    TRY(free_bytes_of(t, device.index, &before));
    const Holdings held = holdings();
    for (const auto &[exports, imports] :
         {std::pair<uint64_t, uint64_t>{0, 0}, {1, 0}, {3, 0}, {1, 1}, {2, 3}}) {
      for (unsigned order = 0; order < 8; ++order) {
        const Journey journey{exports, imports, (order & 1U) != 0, (order & 2U) != 0,
                              (order & 4U) != 0};
        const auto body = [&]() -> Outcome {
          TRY(travel(t, way, device, bytes, journey));
          TRY(room_is_back(t, device, before));
          return holdings_back(held, 4);
        };
        TRY(in_shape(words(exports, " exports by ", way.name, " and ", imports, " imports",
                           journey.used ? ", used" : "",
                           journey.maker_first ? ", the granule ended first" : "",
                           journey.tickets_first ? ", behind the descriptors" : ""),
                     body()));
      }
    }
    // Small ones, many times, with refused imports between.
    for (int round = 0; round < 100; ++round) {
      TRY(travel(t, way, device, device.unit, {1, 2, round % 2 == 0, round % 3 == 0, false}));
      weir_be_granule refused = 0;
      Granule granule(t, device.index);
      Ticket ticket;
      TRY(granule.create(device.unit, way.flag));
      TRY(go_out(t, way, device.index, granule, &ticket));
      if (way.flag == WEIR_BE_GRANULE_EXPORT_FABRIC) {
        REFUSED(granule_import_fabric, device.index, &ticket.handle, 0, &refused);
        REFUSED(granule_import_fabric, device.index, &ticket.handle, device.unit / 2, &refused);
      } else {
        REFUSED(granule_import, device.index, ticket.fd.get(), 0, &refused);
        REFUSED(granule_import, device.index, ticket.fd.get(), device.unit / 2, &refused);
      }
    }
    TRY(room_is_back(t, device, before));
    return holdings_back(held, 4);
  });
}

REQUIRE("EX-023", alone(needs(WEIR_CAP_EXPORT_FD)),
        "The memory of a granule that was exported and imported, however often, is free when all "
        "of it has ended, in any order, and no descriptors are left.") {
  return journeys_leave_nothing(t, by_descriptor);
}

REQUIRE(
    "EX-024", alone(needs(WEIR_CAP_EXPORT_FABRIC)),
    "The memory of a granule that went over a fabric and came back, however often, is free when "
    "all of it has ended, in any order, and no descriptors are left.") {
  return journeys_leave_nothing(t, by_fabric);
}

REQUIRE("EX-025", alone(vmm),
        "Memory that a process imports from itself is taken once, however often it is exported and "
        "imported.") {
  if (!t.has(WEIR_CAP_EXPORT_FD) && !t.has(WEIR_CAP_EXPORT_FABRIC))
    t.note("nothing leaves the process");
  for (const WayOut &way : {by_descriptor, by_fabric}) {
    if (!t.has(way.capability)) continue;
    TRY(each_device(t, way.capability | WEIR_CAP_VMM, [&](const DeviceFacts &device) -> Outcome {
      constexpr uint64_t times = 6;
      const uint64_t bytes = std::max(device.budget / 2 / device.unit, uint64_t{1}) * device.unit;
      uint64_t before = 0, now = 0;
      TRY(travel(t, way, device, bytes, {1, 1, true, false, true}));
      Granule granule(t, device.index);
      Ticket tickets[times];
      std::vector<std::unique_ptr<Mapped>> imports;
      TRY(granule.create(bytes, way.flag));
      TRY(free_bytes_of(t, device.index, &before));
      for (Ticket &ticket : tickets) {
        TRY(go_out(t, way, device.index, granule, &ticket));
        imports.push_back(std::make_unique<Mapped>(t, device.index));
        Mapped &it = *imports.back();
        TRY(come_in(t, way, device.index, ticket, bytes, &it.granule));
        TRY(free_bytes_of(t, device.index, &now));
        CHECK(now + device.slack >= before, "of ", before, " free bytes ", now, " are left with ",
              uint64_t{imports.size()}, " imports of ", bytes, " by ", way.name);
      }
      // In use it is the same memory still. One of them is mapped: whether several can be, MULTI_MAP says of one granule only.
      Mapped &last = *imports.back();
      TRY(last.range.reserve(bytes, device.unit));
      TRY(last.mapping.map(last.range.address(), bytes, last.granule));
      TRY(free_bytes_of(t, device.index, &now));
      CHECK(now + device.slack >= before, "of ", before, " free bytes ", now,
            " are left with an import that is mapped");
      imports.clear();
      TRY(free_bytes_of(t, device.index, &now));
      CHECK(now <= before + device.slack, "the granule lives, and ", now, " bytes are free, not ",
            before);
      return {};
    }));
  }
  return {};
}

// ---- parts of what was imported

constexpr uint64_t imported_units = 5;

/// Each part of the granule is mapped somewhere, alone and in a run, and shows its own units: unit i has seed `first + i`.
Outcome all_parts(Test &t, const DeviceFacts &device, const Granule &granule, uint64_t first) {
  const uint64_t unit = device.unit;
  Range range(t, device.index);
  Mover mover(t, device.index);
  TRY(range.reserve(2 * imported_units * unit, unit));
  TRY(mover.make(end_bytes));
  for (uint64_t from = 0; from < imported_units; ++from) {
    for (uint64_t units = 1; from + units <= imported_units; ++units) {
      Map map(t, device.index);
      TRY(map.map(range.address() + from * unit, units * unit, granule, from * unit));
      for (uint64_t i = 0; i < units; ++i)
        TRY(in_shape(words("unit ", i, " of ", units, " from ", from),
                     check_ends(mover, map.address() + i * unit, unit, first + from + i)));
    }
  }
  if (!device.has(WEIR_CAP_MAP_RUN) || !device.has(WEIR_CAP_MULTI_MAP)) return {};
  const weir_be_piece pieces[] = {{granule.get(), 3 * unit, 2 * unit},
                                  {granule.get(), unit, unit},
                                  {granule.get(), 0, 3 * unit}};
  const uint64_t shown[] = {3, 4, 1, 0, 1, 2};
  MUST(map_run, device.index, range.address(), pieces, 3, nullptr, 0);
  for (uint64_t i = 0; i < 6; ++i)
    TRY(in_shape(words("unit ", i, " of a run"),
                 check_ends(mover, range.address() + i * unit, unit, first + shown[i])));
  MUST(unmap_run, device.index, range.address(), 6 * unit);
  return {};
}

/// Is told a device, gets a descriptor, looks at all parts, and ends.
HELPER(import_in_parts) {
  uint64_t index = 0;
  Descriptor fd;
  TRY(channel.receive(&index, &fd));
  CHECK(fd.get() >= 0, "no descriptor came");
  DeviceFacts device;
  device.index = static_cast<uint32_t>(index);
  TRY(t.describe(device.index, &device.about));
  device.unit = device.about.granule;
  Granule granule(t, device.index);
  TRY(granule.import(fd.get(), imported_units * device.unit));
  TRY(all_parts(t, device, granule, 1));
  return channel.send(1);
}

REQUIRE("EX-026", needs(WEIR_CAP_VMM | WEIR_CAP_MAP_PART),
        "A part of an imported granule is mapped from where it begins, alone and in a run, in this "
        "process and in another.") {
  if (!t.has(WEIR_CAP_EXPORT_FD) && !t.has(WEIR_CAP_EXPORT_FABRIC))
    t.note("nothing leaves the process");
  for (const WayOut &way : {by_descriptor, by_fabric}) {
    if (!t.has(way.capability)) continue;
    TRY(each_device(
        t, way.capability | WEIR_CAP_MAP_PART, [&](const DeviceFacts &device) -> Outcome {
          const uint64_t bytes = imported_units * device.unit;
          if (2 * bytes > device.budget) return {};
          Granule granule(t, device.index), imported(t, device.index);
          Ticket ticket;
          TRY(granule.create(bytes, way.flag));
          {
            Range range(t, device.index);
            Map map(t, device.index);
            Mover mover(t, device.index);
            TRY(range.reserve(bytes, device.unit));
            TRY(map.map(range.address(), bytes, granule));
            TRY(mover.make(end_bytes));
            for (uint64_t i = 0; i < imported_units; ++i)
              TRY(write_ends(mover, range.address() + i * device.unit, device.unit, 1 + i));
          }
          TRY(go_out(t, way, device.index, granule, &ticket));
          TRY(come_in(t, way, device.index, ticket, bytes, &imported));
          TRY(in_shape(words("an import by ", way.name), all_parts(t, device, imported, 1)));
          if (way.flag == WEIR_BE_GRANULE_EXPORT_FABRIC) return {};
          Peer peer(t);
          uint64_t answer = 0;
          TRY(peer.start("import_in_parts"));
          TRY(peer.channel.send(device.index, ticket.fd.get()));
          TRY(in_shape("another process", peer.channel.receive(&answer)));
          return peer.join();
        }));
  }
  return {};
}

// ---- one way out, or the other, or both

REQUIRE("EX-027", needs(WEIR_CAP_EXPORT_FABRIC),
        "A granule leaves by the ways that it was made for, one or both, and by no other, and is "
        "the same memory by each.") {
  return each_device(
      t, WEIR_CAP_EXPORT_FABRIC | WEIR_CAP_VMM, [&](const DeviceFacts &device) -> Outcome {
        const uint64_t unit = device.unit;
        const bool descriptors = device.has(WEIR_CAP_EXPORT_FD);
        for (uint64_t flags = 0; flags < 4; ++flags) {
          if ((flags & WEIR_BE_GRANULE_EXPORT_FD) != 0 && !descriptors) continue;
          const auto body = [&]() -> Outcome {
            Granule granule(t, device.index);
            Range range(t, device.index);
            Mover mover(t, device.index);
            TRY(granule.create(unit, flags));
            TRY(range.reserve(unit, unit));
            TRY(mover.make(end_bytes));
            {
              Map map(t, device.index);
              TRY(map.map(range.address(), unit, granule));
              TRY(write_ends(mover, range.address(), unit, 1));
            }
            uint64_t seed = 1;
            for (const WayOut &way : {by_descriptor, by_fabric}) {
              if ((flags & way.flag) == 0) {
                weir_be_fabric_handle handle{};
                int32_t fd = -7;
                if (way.flag == WEIR_BE_GRANULE_EXPORT_FABRIC) {
                  REFUSED(granule_export_fabric, device.index, granule.get(), &handle);
                  for (const uint8_t byte : handle.bytes)
                    CHECK(byte == 0, "the refused call wrote a handle");
                } else if (descriptors) {
                  REFUSED(granule_export, device.index, granule.get(), &fd);
                  CHECK(fd == -7, "the refused call wrote ", fd, " as a descriptor");
                }
                continue;
              }
              Granule imported(t, device.index);
              Ticket ticket;
              TRY(go_out(t, way, device.index, granule, &ticket));
              TRY(come_in(t, way, device.index, ticket, unit, &imported));
              Map map(t, device.index);
              TRY(map.map(range.address(), unit, imported));
              TRY(in_shape(words("an import by ", way.name),
                           check_ends(mover, range.address(), unit, seed)));
              TRY(write_ends(mover, range.address(), unit, ++seed));
            }
            Map map(t, device.index);
            TRY(map.map(range.address(), unit, granule));
            return check_ends(mover, range.address(), unit, seed);
          };
          TRY(in_shape(words("a granule with flags ", flags), body()));
        }
        return {};
      });
}

}  // namespace
}  // namespace weir::conformance
