// SPDX-License-Identifier: Apache-2.0
//
// Exports of all sizes, from all devices, many at once and to several processes. Other processes run helpers, which are
// told the device and the size before they get a descriptor, and what they end with is a number.
#include "conformance/process.hpp"
#include "conformance/walks.hpp"

#include <algorithm>
#include <memory>

namespace weir::conformance {
namespace {

/// A granule that has been exported, mapped or not.
struct SentGranule {
  SentGranule(Test &t, uint32_t device_, uint64_t bytes_)
      : device(device_), bytes(bytes_), granule(t, device), range(t, device), map(t, device) {}
  Outcome make(Test &t, bool import, int fd) {
    TRY(import ? granule.import(fd, bytes) : granule.create(bytes, WEIR_BE_GRANULE_EXPORT_FD));
    weir_be_device about;
    TRY(t.describe(device, &about));
    TRY(range.reserve(bytes, about.granule));
    return map.map(range.address(), bytes, granule);
  }
  Outcome send(Test &t, Descriptor *out) const {
    int32_t fd = -1;
    MUST(granule_export, device, granule.get(), &fd);
    CHECK(fd >= 0, "the exported descriptor is ", fd);
    *out = Descriptor(fd);
    return {};
  }
  uint64_t address() const noexcept { return range.address(); }
  const uint32_t device;
  const uint64_t bytes;
  Granule granule;
  Range range;
  Map map;
};

/// Bytes at the ends, and in the midst.
Outcome mark(Mover &mover, const SentGranule &it, uint64_t seed) {
  TRY(write_ends(mover, it.address(), it.bytes, seed));
  return mover.write(it.address() + it.bytes / 2, end_bytes, 1000 + seed);
}
Outcome look(Mover &mover, const SentGranule &it, uint64_t seed) {
  TRY(check_ends(mover, it.address(), it.bytes, seed));
  return mover.check(it.address() + it.bytes / 2, end_bytes, 1000 + seed);
}

/// Is told a device, then sizes, each with a descriptor, 0 at the end: sees seed 1 there, puts seed 2 there, answers 1.
HELPER(import_sizes) {
  uint64_t device = 0;
  TRY(channel.receive(&device));
  Mover mover(t, static_cast<uint32_t>(device));
  TRY(mover.make(2 * end_bytes));
  for (;;) {
    uint64_t bytes = 0;
    Descriptor fd;
    TRY(channel.receive(&bytes, &fd));
    if (bytes == 0) return {};
    CHECK(fd.get() >= 0, "no descriptor came");
    SentGranule imported(t, static_cast<uint32_t>(device), bytes);
    TRY(imported.make(t, true, fd.get()));
    fd.reset();
    TRY(look(mover, imported, 1));
    TRY(mark(mover, imported, 2));
    TRY(imported.map.unmap());
    TRY(imported.granule.destroy());
    TRY(channel.send(1));
  }
}

REQUIRE("EX-018", needs(WEIR_CAP_EXPORT_FD),
        "Exports of every size, of every device, are the same memory to their last byte, in this "
        "process and in another.") {
  return each_device(t, WEIR_CAP_EXPORT_FD | WEIR_CAP_VMM,
                     [&](const DeviceFacts &device) -> Outcome {
                       std::vector<uint64_t> sizes{1, 3, 17, 33};
                       const uint64_t large = device.about.granule_large / device.unit;
                       if (large > 1) sizes.push_back(large);
                       Mover mover(t, device.index);
                       Peer peer(t);
                       TRY(mover.make(2 * end_bytes));
                       TRY(peer.start("import_sizes"));
                       TRY(peer.channel.send(device.index));
                       for (const uint64_t units : sizes) {
                         const uint64_t bytes = units * device.unit;
                         if (bytes > device.budget) continue;
                         const auto body = [&]() -> Outcome {
                           SentGranule sent(t, device.index, bytes);
                           Descriptor fd;
                           uint64_t answer = 0;
                           TRY(sent.make(t, false, -1));
                           TRY(mark(mover, sent, 1));
                           TRY(sent.send(t, &fd));
                           TRY(peer.channel.send(bytes, fd.get()));
                           TRY(in_shape("another process", peer.channel.receive(&answer)));
                           TRY(look(mover, sent, 2));
                           TRY(sent.map.unmap());
                           {
                             SentGranule imported(t, device.index, bytes);
                             TRY(imported.make(t, true, fd.get()));
                             TRY(look(mover, imported, 2));
                             TRY(mark(mover, imported, 3));
                           }
                           TRY(sent.map.map(sent.address(), bytes, sent.granule));
                           return look(mover, sent, 3);
                         };
                         TRY(in_shape(words(units, " units"), body()));
                       }
                       TRY(peer.channel.send(0));
                       return peer.join();
                     });
}

constexpr uint64_t most_sent = 48, receivers = 3;

/// Is told its number, then gets as many sizes and descriptors as it is told; changes its share of them when it is told, looks at
/// all of them when it is told again.
HELPER(import_many) {
  uint64_t number = 0, count = 0, word = 0;
  TRY(channel.receive(&number));
  TRY(channel.receive(&count));
  std::vector<std::unique_ptr<SentGranule>> all;
  Mover mover(t);
  TRY(mover.make(2 * end_bytes));
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t bytes = 0;
    Descriptor fd;
    TRY(channel.receive(&bytes, &fd));
    CHECK(fd.get() >= 0, "no descriptor came");
    all.push_back(std::make_unique<SentGranule>(t, t.device, bytes));
    TRY(all.back()->make(t, true, fd.get()));
    TRY(check_ends(mover, all.back()->address(), bytes, bytes));
  }
  TRY(channel.send(count));
  TRY(channel.receive(&word));
  // Each receives in an order of its own: the granule tells its seed by its bytes, its number by `word` that follows.
  for (const auto &each : all) {
    uint64_t which = 0;
    TRY(channel.receive(&which));
    if (which % receivers == number)
      TRY(write_ends(mover, each->address(), each->bytes, 5000 + which));
  }
  TRY(channel.send(1));
  for (const auto &each : all) {
    uint64_t which = 0;
    TRY(channel.receive(&which));
    TRY(in_shape(words("granule ", which),
                 check_ends(mover, each->address(), each->bytes, 5000 + which)));
  }
  TRY(channel.send(1));
  return channel.receive(&word);  // waits for leave to go
}

REQUIRE("EX-019", needs(WEIR_CAP_EXPORT_FD),
        "Many exports are imported by several processes at once, which all see what each of them "
        "writes; one that dies takes nothing along.") {
  const uint64_t count = std::min(most_sent, std::max<uint64_t>(t.budget / 2 / t.granule, 1));
  std::vector<std::unique_ptr<SentGranule>> all;
  std::vector<std::vector<uint64_t>> orders(receivers);
  Peer peers[receivers] = {Peer(t), Peer(t), Peer(t)};
  Mover mover(t);
  uint64_t word = 0;
  TRY(mover.make(2 * end_bytes));
  for (uint64_t i = 0; i < count; ++i) {
    all.push_back(std::make_unique<SentGranule>(t, t.device, t.granule));
    TRY(all.back()->make(t, false, -1));
    TRY(write_ends(mover, all.back()->address(), t.granule, t.granule));
  }
  for (uint64_t p = 0; p < receivers; ++p) {
    TRY(peers[p].start("import_many"));
    TRY(peers[p].channel.send(p));
    TRY(peers[p].channel.send(count));
    for (uint64_t i = 0; i < count; ++i) orders[p].push_back(i);
    for (uint64_t i = count; i > 1; --i) std::swap(orders[p][i - 1], orders[p][t.random.below(i)]);
  }
  for (uint64_t i = 0; i < count; ++i) {
    for (uint64_t p = 0; p < receivers; ++p) {
      const SentGranule &sent = *all[orders[p][i]];
      Descriptor fd;
      TRY(sent.send(t, &fd));
      TRY(peers[p].channel.send(sent.bytes, fd.get()));
    }
  }
  for (Peer &peer : peers) TRY(peer.channel.receive(&word));
  for (uint64_t p = 0; p < receivers; ++p) {
    TRY(peers[p].channel.send(1));
    for (const uint64_t which : orders[p]) TRY(peers[p].channel.send(which));
  }
  for (Peer &peer : peers) TRY(peer.channel.receive(&word));
  // All have written. One dies; the others and this process see everything.
  peers[1].kill();
  for (uint64_t i = 0; i < count; ++i)
    TRY(in_shape(words("granule ", i),
                 check_ends(mover, all[i]->address(), all[i]->bytes, 5000 + i)));
  for (const uint64_t p : {0U, 2U}) {
    for (const uint64_t which : orders[p]) TRY(peers[p].channel.send(which));
    TRY(in_shape(words("process ", p), peers[p].channel.receive(&word)));
    TRY(peers[p].channel.send(1));
    TRY(peers[p].join());
  }
  return {};
}

/// Gets a device and a descriptor of two units with seed 1, and does with its granule what can be done with any.
HELPER(import_and_use) {
  uint64_t number_of_device = 0, word = 0;
  Descriptor fd;
  TRY(channel.receive(&number_of_device, &fd));
  CHECK(fd.get() >= 0, "no descriptor came");
  const auto device = static_cast<uint32_t>(number_of_device);
  weir_be_device about{};
  TRY(t.describe(device, &about));
  const auto has = [&](uint64_t capability) { return (about.capabilities & capability) != 0; };
  const uint64_t unit = about.granule;
  Granule granule(t, device), own(t, device);
  Range range(t, device);
  Mover mover(t, device);
  TRY(granule.import(fd.get(), 2 * unit));
  TRY(own.create(unit));
  TRY(range.reserve(6 * unit, unit));
  TRY(mover.make(end_bytes));
  for (uint64_t place = 0; place < 4; ++place) {
    Map map(t, device);
    TRY(map.map(range.address() + place * unit, 2 * unit, granule));
    TRY(in_shape(words("mapped at place ", place), check_ends(mover, map.address(), 2 * unit, 1)));
    REFUSED(granule_destroy, device, granule.get());
  }
  if (has(WEIR_CAP_MAP_RUN)) {
    const weir_be_piece pieces[] = {{own.get(), 0, unit}, {granule.get(), 0, 2 * unit}};
    MUST(map_run, device, range.address(), pieces, 2, nullptr, 0);
    TRY(write_ends(mover, range.address(), unit, 7));
    TRY(in_shape("in a run", check_ends(mover, range.address() + unit, 2 * unit, 1)));
    MUST(unmap_run, device, range.address(), 3 * unit);
  }
  Map first(t, device), second(t, device);
  TRY(first.map(range.address(), 2 * unit, granule));
  TRY(write_ends(mover, first.address(), 2 * unit, 2));
  if (has(WEIR_CAP_MULTI_MAP)) {
    TRY(second.map(range.address() + 3 * unit, 2 * unit, granule));
    TRY(in_shape("at a second address", check_ends(mover, second.address(), 2 * unit, 2)));
    TRY(write_ends(mover, second.address(), 2 * unit, 3));
  } else {
    TRY(write_ends(mover, first.address(), 2 * unit, 3));
  }
  TRY(in_shape("at the first address", check_ends(mover, first.address(), 2 * unit, 3)));
  TRY(channel.send(1));
  return channel.receive(&word);  // waits for leave to go
}

REQUIRE(
    "EX-021", needs(WEIR_CAP_EXPORT_FD),
    "An imported granule is mapped anywhere, in runs and at several addresses, and not destroyed "
    "while it is mapped.") {
  return each_device(t, WEIR_CAP_EXPORT_FD | WEIR_CAP_VMM,
                     [&](const DeviceFacts &device) -> Outcome {
                       SentGranule sent(t, device.index, 2 * device.unit);
                       Mover mover(t, device.index);
                       Descriptor fd;
                       Peer peer(t);
                       uint64_t word = 0;
                       TRY(sent.make(t, false, -1));
                       TRY(mover.make(end_bytes));
                       TRY(write_ends(mover, sent.address(), sent.bytes, 1));
                       TRY(sent.send(t, &fd));
                       TRY(peer.start("import_and_use"));
                       TRY(peer.channel.send(device.index, fd.get()));
                       TRY(in_shape("another process", peer.channel.receive(&word)));
                       TRY(check_ends(mover, sent.address(), sent.bytes, 3));
                       TRY(peer.channel.send(1));
                       TRY(peer.join());
                       return check_ends(mover, sent.address(), sent.bytes, 3);
                     });
}

// ---- over a fabric

REQUIRE("EX-022", needs(WEIR_CAP_EXPORT_FABRIC),
        "Exports over a fabric, of every size and device, are the same memory to their last byte, "
        "and each handle names its own.") {
  return each_device(
      t, WEIR_CAP_EXPORT_FABRIC | WEIR_CAP_VMM, [&](const DeviceFacts &device) -> Outcome {
        Mover mover(t, device.index);
        TRY(mover.make(end_bytes));
        for (const uint64_t units : {1, 3, 17}) {
          const uint64_t bytes = units * device.unit;
          if (2 * bytes > device.budget) continue;
          Granule granules[2] = {Granule(t, device.index), Granule(t, device.index)};
          Range range(t, device.index);
          weir_be_fabric_handle handles[2] = {};
          TRY(range.reserve(bytes, device.unit));
          for (uint64_t i = 0; i < 2; ++i) {
            TRY(granules[i].create(bytes, WEIR_BE_GRANULE_EXPORT_FABRIC));
            Map map(t, device.index);
            TRY(map.map(range.address(), bytes, granules[i]));
            TRY(write_ends(mover, range.address(), bytes, 10 + i));
            MUST(granule_export_fabric, device.index, granules[i].get(), &handles[i]);
          }
          for (const uint64_t i : {1U, 0U}) {
            weir_be_granule made = 0;
            Granule imported(t, device.index);
            MUST(granule_import_fabric, device.index, &handles[i], bytes, &made);
            imported.adopt(made);
            Map map(t, device.index);
            TRY(map.map(range.address(), bytes, imported));
            TRY(in_shape(words(units, " units, handle ", i),
                         check_ends(mover, range.address(), bytes, 10 + i)));
            REFUSED(granule_destroy, device.index, imported.get());
          }
        }
        return {};
      });
}

}  // namespace
}  // namespace weir::conformance
