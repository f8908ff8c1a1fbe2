// SPDX-License-Identifier: Apache-2.0
//
// Devices again: descriptions of every size that a caller may have, and at any time; whose memory is taken; and
// capabilities against what works, on every device. Measures of free memory are taken on all devices at once.
#include "conformance/walks.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstring>
#include <memory>

namespace weir::conformance {
namespace {

constexpr uint8_t unwritten = 0xA5;

struct Field {
  size_t offset, size;
};
#define WEIR_FIELD(structure, name) \
  Field { offsetof(structure, name), sizeof(structure::name) }
const std::vector<Field> fields_of_device{
    WEIR_FIELD(weir_be_device, numa_node),     WEIR_FIELD(weir_be_device, capabilities),
    WEIR_FIELD(weir_be_device, memory_total),  WEIR_FIELD(weir_be_device, granule),
    WEIR_FIELD(weir_be_device, granule_large), WEIR_FIELD(weir_be_device, address_space),
    WEIR_FIELD(weir_be_device, name),          WEIR_FIELD(weir_be_device, pci_address),
    WEIR_FIELD(weir_be_device, uuid)};
const std::vector<Field> fields_of_link{
    WEIR_FIELD(weir_be_link, kind), WEIR_FIELD(weir_be_link, bandwidth),
    WEIR_FIELD(weir_be_link, latency_ns), WEIR_FIELD(weir_be_link, hops),
    WEIR_FIELD(weir_be_link, direct)};
#undef WEIR_FIELD

/// Asks with every size of the structure: `describe` fills one, `full` is what it says to a caller that has all of it.
template <class Structure, class Describe>
Outcome with_every_size(const Structure &full, const std::vector<Field> &fields,
                        const Describe &describe) {
  constexpr size_t room = sizeof(Structure) + 4096 + 64;
  alignas(Structure) uint8_t memory[room];
  const auto *wanted = reinterpret_cast<const uint8_t *>(&full);
  std::vector<uint32_t> sizes;
  for (uint32_t size = 4; size <= sizeof full; size += 4) sizes.push_back(size);
  for (const uint32_t more : {4U, 64U, 4096U})
    sizes.push_back(static_cast<uint32_t>(sizeof full) + more);
  for (const uint32_t size : sizes) {
    std::memset(memory, unwritten, room);
    // The caller zeroes what it has.
    std::memset(memory, 0, size);
    auto *about = reinterpret_cast<Structure *>(memory);
    about->struct_size = size;
    TRY(describe(about));
    CHECK(about->struct_size == size, "a struct_size of ", size, " became ", about->struct_size);
    for (size_t i = size; i < room; ++i)
      CHECK(memory[i] == unwritten, "with a struct_size of ", size, ", byte ", uint64_t{i},
            " is written");
    for (const Field &field : fields) {
      if (field.offset + field.size > size) continue;
      CHECK(std::memcmp(memory + field.offset, wanted + field.offset, field.size) == 0,
            "with a struct_size of ", size, ", the field at byte ", uint64_t{field.offset},
            " is not what it is in the whole description");
    }
  }
  return {};
}

std::vector<uint32_t> link_ends(const Test &t) {
  std::vector<uint32_t> all{WEIR_DEVICE_HOST};
  for (uint32_t i = 0; i < t.device_count; ++i) all.push_back(i);
  return all;
}

REQUIRE("DV-020", always(),
        "Whatever struct_size a caller sets, it stays, the fields within it are those of the whole "
        "description, and nothing behind it is written.") {
  for (uint32_t i = 0; i < t.device_count; ++i) {
    weir_be_device full;
    TRY(t.describe(i, &full));
    TRY(in_shape(words("device ", i),
                 with_every_size(full, fields_of_device, [&](weir_be_device *about) -> Outcome {
                   MUST(device_describe, i, about);
                   return {};
                 })));
  }
  for (const uint32_t from : link_ends(t)) {
    for (const uint32_t to : link_ends(t)) {
      weir_be_link full{};
      full.struct_size = sizeof full;
      MUST(link_describe, from, to, &full);
      TRY(in_shape(words("the link from ", from, " to ", to),
                   with_every_size(full, fields_of_link, [&](weir_be_link *about) -> Outcome {
                     MUST(link_describe, from, to, about);
                     return {};
                   })));
    }
  }
  return {};
}

REQUIRE("DV-021", always(), "A device's PCI address has no letters of upper case.") {
  bool told = false;
  for (uint32_t i = 0; i < t.device_count; ++i) {
    weir_be_device about;
    TRY(t.describe(i, &about));
    const std::string address(about.pci_address,
                              strnlen(about.pci_address, sizeof about.pci_address));
    const bool upper = std::any_of(address.begin(), address.end(), [](char c) {
      return std::isupper(static_cast<unsigned char>(c)) != 0;
    });
    CHECK(!upper, "device ", i, " has the PCI address \"", address, "\"");
    told = told || !address.empty();
  }
  return told ? Outcome{} : t.nothing("no device has a PCI address");
}

// ---- descriptions while the state works

/// Everything that is said of the machine: the number of devices, the devices, the links, the totals.
Outcome all_that_is_said(Test &t, std::vector<uint8_t> *said) {
  const auto add = [said](const auto &what) {
    const auto *bytes = reinterpret_cast<const uint8_t *>(&what);
    said->insert(said->end(), bytes, bytes + sizeof what);
  };
  uint32_t count = 0;
  MUST(device_count, &count);
  add(count);
  for (uint32_t i = 0; i < t.device_count; ++i) {
    weir_be_device about;
    uint64_t free_bytes = 0, total = 0;
    TRY(t.describe(i, &about));
    MUST(device_memory, i, &free_bytes, &total);
    CHECK(total == about.memory_total, "device ", i, " has ", total, " bytes, and ",
          about.memory_total, " by its description");
    add(about);
    add(total);
  }
  for (const uint32_t from : link_ends(t)) {
    for (const uint32_t to : link_ends(t)) {
      weir_be_link about{};
      about.struct_size = sizeof about;
      MUST(link_describe, from, to, &about);
      add(about);
    }
  }
  return {};
}

REQUIRE("DV-022", always(),
        "Devices and links are described the same way while memory is taken, peers are enabled, "
        "calls fail, and from several threads.") {
  std::vector<uint8_t> before;
  TRY(all_that_is_said(t, &before));
  const auto same = [&](const char *when) -> Outcome {
    std::vector<uint8_t> now;
    TRY(all_that_is_said(t, &now));
    CHECK(now == before, "devices or links are described in another way ", when);
    return {};
  };
  std::vector<DeviceFacts> devices;
  std::vector<DevicePair> pairs;
  TRY(devices_with(t, 0, &devices));
  TRY(direct_pairs(t, 0, &pairs));
  TRY(same("once peers are enabled"));
  std::vector<std::unique_ptr<Plain>> plain;
  std::vector<std::unique_ptr<Mapped>> mapped;
  for (const DeviceFacts &device : devices) {
    plain.push_back(std::make_unique<Plain>(t, device.index));
    TRY(plain.back()->allocate(device.budget / 2));
    if (device.unit == 0) continue;
    mapped.push_back(std::make_unique<Mapped>(t, device.index));
    TRY(mapped.back()->make(device.unit, device.unit));
  }
  TRY(same("while memory is taken"));
  for (const DeviceFacts &device : devices) {
    uint64_t address = 0;
    REFUSED(plain_allocate, device.index, 0, 4096, &address);
    REFUSED_SOMEHOW(plain_allocate, device.index, uint64_t{1} << 62U, 4096, &address);
    REFUSED(plain_allocate, t.no_device(), 4096, 4096, &address);
  }
  TRY(same("after refused calls"));
  return in_threads(4, [&](uint32_t) -> Outcome {
    for (int i = 0; i < 4; ++i) TRY(same("to another thread"));
    return {};
  });
}

// ---- whose memory is taken

/// Free bytes of all devices.
Outcome all_free(Test &t, std::vector<uint64_t> *bytes) {
  bytes->assign(t.device_count, 0);
  for (uint32_t i = 0; i < t.device_count; ++i) TRY(free_bytes_of(t, i, &(*bytes)[i]));
  return {};
}

/// Memory of the device is made and goes: `make` keeps what it makes until `end`.
Outcome takes_from(Test &t, const DeviceFacts &device, uint64_t bytes,
                   const std::function<Outcome()> &make, const std::function<void()> &end) {
  std::vector<DeviceFacts> devices;
  std::vector<uint64_t> before, during;
  TRY(devices_with(t, 0, &devices));
  TRY(all_free(t, &before));
  TRY(make());
  TRY(all_free(t, &during));
  for (const DeviceFacts &each : devices) {
    const uint64_t was = before[each.index], is = during[each.index];
    if (each.index == device.index && bytes != 0) {
      CHECK(is <= was && was - is + each.slack >= bytes, "of ", was, " bytes free ", is,
            " are left with ", bytes, " more in use");
    } else {
      CHECK(is + each.slack >= was, "on device ", each.index, " ", was - is,
            " bytes less are free, and nothing of it was asked for");
    }
  }
  end();
  const uint64_t give_up = now_ns() + patience_ns / 4;
  std::vector<uint64_t> after;
  // Runtimes may take back memory of ended things a moment later.
  do {
    TRY(all_free(t, &after));
    const bool back = std::all_of(devices.begin(), devices.end(), [&](const DeviceFacts &each) {
      return after[each.index] + each.slack >= before[each.index];
    });
    if (back) return {};
  } while (now_ns() < give_up);
  return Outcome::failure(
      words("of ", before[device.index], " bytes free only ", after[device.index], " are back"));
}

REQUIRE("DV-023", alone(),
        "Free memory goes down on the device that is named, by what is named, and on no other, and "
        "comes back.") {
  return each_device(t, 0, [&](const DeviceFacts &device) -> Outcome {
    std::vector<std::unique_ptr<Plain>> plain;
    std::vector<std::unique_ptr<Granule>> granules;
    std::vector<std::unique_ptr<Range>> ranges;
    const uint64_t half = device.budget / 2;
    {
      // What a runtime takes at its first use is not counted.
      Plain warm(t, device.index);
      Stream stream(t, device.index);
      TRY(warm.allocate(4096));
      TRY(stream.create());
      TRY(stream.fill(warm.address(), 1, 4096));
      TRY(stream.synchronize());
    }
    for (const uint64_t pieces : {1U, 64U}) {
      TRY(in_shape(words("plain memory in ", pieces, " pieces"),
                   takes_from(
                       t, device, half / pieces * pieces,
                       [&]() -> Outcome {
                         for (uint64_t i = 0; i < pieces; ++i) {
                           plain.push_back(std::make_unique<Plain>(t, device.index));
                           TRY(plain.back()->allocate(half / pieces));
                         }
                         return {};
                       },
                       [&] { plain.clear(); })));
    }
    if (device.unit == 0) return {};
    uint64_t flags[] = {0, WEIR_BE_GRANULE_EXPORT_FD, WEIR_BE_GRANULE_EXPORT_FABRIC};
    for (const uint64_t flag : flags) {
      if (flag == WEIR_BE_GRANULE_EXPORT_FD && !device.has(WEIR_CAP_EXPORT_FD)) continue;
      if (flag == WEIR_BE_GRANULE_EXPORT_FABRIC && !device.has(WEIR_CAP_EXPORT_FABRIC)) continue;
      const uint64_t units = half / device.unit;
      for (const uint64_t pieces : {uint64_t{1}, std::min<uint64_t>(units, 64)}) {
        if (units == 0) continue;
        const uint64_t bytes = units / pieces * device.unit;
        TRY(in_shape(words(pieces, " granules with flags ", flag),
                     takes_from(
                         t, device, bytes * pieces,
                         [&]() -> Outcome {
                           for (uint64_t i = 0; i < pieces; ++i) {
                             granules.push_back(std::make_unique<Granule>(t, device.index));
                             TRY(granules.back()->create(bytes, flag));
                           }
                           return {};
                         },
                         [&] { granules.clear(); })));
      }
    }
    const uint64_t large = device.about.memory_total / 2 / device.unit * device.unit;
    if (large == 0 || !device.has_addresses(large)) return {};
    return in_shape("a range of addresses",
                    takes_from(
                        t, device, 0,
                        [&]() -> Outcome {
                          ranges.push_back(std::make_unique<Range>(t, device.index));
                          return ranges.back()->reserve(large, device.unit);
                        },
                        [&] { ranges.clear(); }));
  });
}

}  // namespace
}  // namespace weir::conformance
