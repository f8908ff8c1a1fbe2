// SPDX-License-Identifier: Apache-2.0
//
// Maps as streams see them: every user of an address sees what is mapped there now, whatever was used there before and
// by which stream, and the addresses of one granule are the same bytes for all streams that are ordered. Streams settle before
// what they use is taken down.
#include "conformance/shapes.hpp"
#include "conformance/walks.hpp"

#include <algorithm>
#include <memory>

namespace weir::conformance {
namespace {

/// How a user puts bytes somewhere, and gets them from there.
enum class Way : uint8_t { copy, batch, fill, host };

std::string way_name(Way way) {
  switch (way) {
    case Way::copy:
      return "a copy";
    case Way::batch:
      return "a batch";
    case Way::fill:
      return "a fill";
    case Way::host:
      return "the CPU";
  }
  return "";
}

/// A queue of its own with host memory for what it moves.
struct MapUser {
  MapUser(Test &t, Owner owner_, uint32_t device)
      : test(t), owner(owner_), staging(t), queue(t, owner_, device) {}
  Outcome make(uint64_t bytes, bool *there) {
    TRY(queue.make(there));
    return *there ? staging.allocate(bytes) : Outcome();
  }
  /// Enqueues what brings the staging memory's bytes, or the value, to the address.
  Outcome put(Way way, uint64_t address, uint64_t bytes, uint8_t value) {
    if (way == Way::fill) return queue.use().fill(address, value, bytes);
    if (way == Way::batch) return batch(test, queue.use(), {{address, staging.address(), bytes}});
    return queue.use().copy(address, staging.address(), bytes);
  }
  /// Reads and looks: `what` are the bytes that must be there.
  Outcome see(Way way, uint64_t address, std::span<const std::byte> what) {
    const auto here = staging.bytes().first(what.size());
    std::fill(here.begin(), here.end(), std::byte{0xEE});
    if (way == Way::host) {
      const std::span<const std::byte> there(reinterpret_cast<const std::byte *>(address),
                                             what.size());
      return check_same(there, what, "what the CPU sees at " + number(address));
    }
    if (way == Way::batch) {
      TRY(batch(test, queue.use(), {{staging.address(), address, what.size()}}));
    } else {
      TRY(queue.use().copy(staging.address(), address, what.size()));
    }
    TRY(queue.use().synchronize());
    return check_same(here, what, "memory at " + number(address));
  }

  Test &test;
  const Owner owner;
  Pinned staging;
  Queue queue;
};

/// One user of each kind that the device has.
Outcome make_users(Test &t, const DeviceFacts &device, uint64_t bytes,
                   std::vector<std::unique_ptr<MapUser>> *users) {
  for (const Owner owner : every_owner) {
    if (owner == Owner::transfer && !device.has(WEIR_CAP_TRANSFER_STREAM)) continue;
    auto user = std::make_unique<MapUser>(t, owner, device.index);
    bool there = false;
    TRY(user->make(bytes, &there));
    if (there) users->push_back(std::move(user));
  }
  return {};
}

Outcome remap_under_users(Test &t, const DeviceFacts &device) {
  constexpr uint64_t kinds = 3, rounds = 32, again = 8;
  const uint64_t bytes = std::min(device.unit, 16 * kib);
  std::vector<Way> puts{Way::copy, Way::fill}, sees{Way::copy};
  if (device.has(WEIR_CAP_BATCH_COPY)) {
    puts.push_back(Way::batch);
    sees.push_back(Way::batch);
  }
  if (device.has(WEIR_CAP_HOST_ACCESS)) sees.push_back(Way::host);
  Range range(t, device.index);
  Granule granules[kinds] = {Granule(t, device.index), Granule(t, device.index),
                             Granule(t, device.index)};
  const uint64_t units[kinds] = {1, 2, 1};
  std::vector<std::byte> holds[kinds];
  std::vector<std::unique_ptr<MapUser>> users;
  for (uint64_t i = 0; i < kinds; ++i) TRY(granules[i].create(units[i] * device.unit));
  TRY(make_users(t, device, bytes, &users));
  // The user that used the address last is not the next to use it.
  uint64_t last = users.size() - 1;
  for (uint64_t round = 0; round < rounds; ++round) {
    if (round % again == 0) {
      TRY(range.free());
      TRY(range.reserve(4 * device.unit, device.unit));
    }
    const uint64_t now = round % kinds;
    const uint64_t size = units[now] * device.unit;
    const uint64_t address = range.address() + device.unit;
    const uint64_t end = address + size - bytes;
    Map map(t, device.index);
    TRY(map.map(address, size, granules[now]));
    const auto look = [&](uint64_t who, uint64_t turn) -> Outcome {
      const Way way = sees[turn % sees.size()];
      return in_shape(words("round ", round, ", read by ", way_name(way), " of ",
                            owner_name(users[who]->owner)),
                      users[who]->see(way, end, holds[now]));
    };
    const uint64_t first = (last + 1) % users.size();
    if (!holds[now].empty()) TRY(look(first, round));
    const Way way = puts[round / 2 % puts.size()];
    MapUser &writer = *users[(last + 2) % users.size()];
    make_pattern(writer.staging.bytes(), round);
    const auto value = static_cast<uint8_t>(round + 1);
    TRY(writer.put(way, end, bytes, value));
    const auto staged = writer.staging.bytes();
    holds[now].assign(staged.begin(), staged.end());
    if (way == Way::fill) std::fill(holds[now].begin(), holds[now].end(), std::byte{value});
    TRY(writer.queue.use().synchronize());
    for (uint64_t i = 0; i < users.size(); ++i)
      TRY(in_shape("written by " + way_name(way) + " of " + owner_name(writer.owner),
                   look((first + i) % users.size(), round + i)));
    last = (first + users.size() - 1) % users.size();
  }
  return {};
}

REQUIRE(
    "VM-035", vmm,
    "Whoever used an address sees what is mapped there now, however it is used and whosever the "
    "stream is.") {
  return each_device(t, WEIR_CAP_VMM,
                     [&](const DeviceFacts &device) { return remap_under_users(t, device); });
}

// ---- one granule at several addresses

/// A granule at two addresses.
struct Twice {
  Twice(Test &t, uint32_t device)
      : granule(t, device), first(t, device), second(t, device), a(t, device), b(t, device) {}
  Outcome make(uint64_t bytes) {
    TRY(granule.create(bytes));
    TRY(first.reserve(bytes, bytes));
    TRY(second.reserve(2 * bytes, bytes));
    TRY(a.map(first.address(), bytes, granule));
    return b.map(second.address() + bytes, bytes, granule);
  }
  Granule granule;
  Range first, second;
  Map a, b;
};

/// One writes at one address, the other reads at the other, each after the other's fence; and the other way.
Outcome there_and_back(Test &t, const Twice &twice, MapUser &one, MapUser &other, Way way,
                       uint64_t bytes, uint64_t seed) {
  Pinned seen(t), back(t);
  Fence written(t), read(t), answered(t);
  TRY(seen.allocate(bytes));
  TRY(back.allocate(bytes));
  make_pattern(one.staging.bytes(), seed);
  make_pattern(other.staging.bytes(), seed + 1);
  Settled settled(t);
  settled.add(one.queue.use());
  settled.add(other.queue.use());
  const auto value = static_cast<uint8_t>(seed | 1U);
  TRY(one.put(way, twice.a.address(), bytes, value));
  TRY(written.record(one.queue.use()));
  TRY(waits(t, other.queue.use(), written));
  TRY(other.queue.use().copy(seen.address(), twice.b.address(), bytes));
  TRY(read.record(other.queue.use()));
  TRY(other.put(Way::copy, twice.b.address(), bytes, 0));
  TRY(answered.record(other.queue.use()));
  TRY(waits(t, one.queue.use(), answered));
  TRY(one.queue.use().copy(back.address(), twice.a.address(), bytes));
  TRY(one.queue.use().synchronize());
  TRY(read.wait());
  TRY(way == Way::fill ? check_value(seen.bytes(), value, "what the other stream saw")
                       : check_pattern(seen.bytes(), seed, "what the other stream saw"));
  return check_pattern(back.bytes(), seed + 1, "what the first stream saw");
}

Outcome see_through_aliases(Test &t, const DeviceFacts &device) {
  const uint64_t most = std::min(device.unit, 64 * kib);
  const uint64_t sizes[] = {1, std::min<uint64_t>(4095, most), most};
  std::vector<Way> ways{Way::copy, Way::fill};
  if (device.has(WEIR_CAP_BATCH_COPY)) ways.push_back(Way::batch);
  Twice twice(t, device.index);
  std::vector<std::unique_ptr<MapUser>> one, other;
  TRY(twice.make(device.unit));
  TRY(make_users(t, device, most, &one));
  TRY(make_users(t, device, most, &other));
  uint64_t number = 0;
  for (const auto &writer : one) {
    for (const auto &reader : other) {
      for (const uint64_t bytes : sizes) {
        const Way way = ways[number++ % ways.size()];
        TRY(in_shape(words(way_name(way), " of ", bytes, " bytes by ", owner_name(writer->owner),
                           ", read by ", owner_name(reader->owner)),
                     there_and_back(t, twice, *writer, *reader, way, bytes, 2 * number)));
      }
    }
  }
  return {};
}

REQUIRE("VM-037", needs(WEIR_CAP_VMM | WEIR_CAP_MULTI_MAP),
        "Two streams that are ordered by a fence see each other's writes through different "
        "addresses of a granule.") {
  return each_device(t, WEIR_CAP_VMM | WEIR_CAP_MULTI_MAP,
                     [&](const DeviceFacts &device) { return see_through_aliases(t, device); });
}

/// Held, the writer has not written; what waits for it through the other address sees what it writes.
Outcome wait_through_alias(Test &t, const DeviceFacts &device, Owner owner) {
  const uint64_t bytes = std::min(device.unit, 4 * kib);
  Twice twice(t, device.index);
  MapUser writer(t, owner, device.index), reader(t, Owner::made, device.index);
  Pinned seen(t);
  Mover looker(t, device.index);
  bool there = false;
  TRY(twice.make(device.unit));
  TRY(writer.make(bytes, &there));
  TRY(reader.make(bytes, &there));
  TRY(seen.allocate(bytes));
  TRY(looker.make(bytes));
  TRY(looker.write(twice.b.address(), bytes, 1));
  make_pattern(writer.staging.bytes(), 2);
  Fence written(t);
  Gate gate(t);
  Settled settled(t, &gate);
  settled.add(writer.queue.use());
  settled.add(reader.queue.use());
  TRY(writer.queue.hold(gate));
  TRY(writer.put(Way::copy, twice.a.address(), bytes, 0));
  TRY(written.record(writer.queue.use()));
  TRY(waits(t, reader.queue.use(), written));
  TRY(reader.queue.use().copy(seen.address(), twice.b.address(), bytes));
  TRY(looker.check(twice.b.address(), bytes, 1));
  ANSWERS(WEIR_NOT_READY, fence_poll, written.get());
  gate.open();
  TRY(reader.queue.use().synchronize());
  return check_pattern(seen.bytes(), 2, "what came after the held stream's write");
}

REQUIRE("VM-046", needs(WEIR_CAP_VMM | WEIR_CAP_MULTI_MAP | WEIR_CAP_HOST_CALL),
        "A read at another address of a granule waits for the held stream whose fence it was told "
        "of.") {
  return each_device(t, WEIR_CAP_VMM | WEIR_CAP_MULTI_MAP | WEIR_CAP_HOST_CALL,
                     [&](const DeviceFacts &device) -> Outcome {
                       for (const Owner owner : {Owner::made, Owner::wrapped, Owner::wrapped_twice,
                                                 Owner::base_of_wrapped})
                         TRY(in_shape(owner_name(owner), wait_through_alias(t, device, owner)));
                       return {};
                     });
}

REQUIRE("VM-038", needs(WEIR_CAP_VMM | WEIR_CAP_MULTI_MAP),
        "A granule at 64 addresses: any of them may go, and the rest stay.") {
  return each_device(
      t, WEIR_CAP_VMM | WEIR_CAP_MULTI_MAP, [&](const DeviceFacts &device) -> Outcome {
        constexpr uint64_t count = 64;
        Granule granule(t, device.index);
        Range range(t, device.index);
        std::vector<std::unique_ptr<Map>> maps;
        Mover mover(t, device.index);
        TRY(granule.create(device.unit));
        TRY(range.reserve(count * device.unit, device.unit));
        TRY(mover.make(end_bytes));
        for (uint64_t i = 0; i < count; ++i) {
          maps.push_back(std::make_unique<Map>(t, device.index));
          TRY(maps[i]->map(range.address() + i * device.unit, device.unit, granule));
        }
        for (uint64_t seed = 0; !maps.empty(); ++seed) {
          const auto any = [&] { return maps[t.random.below(maps.size())]->address(); };
          TRY(write_ends(mover, any(), device.unit, seed));
          TRY(check_ends(mover, any(), device.unit, seed));
          TRY(check_ends(mover, any(), device.unit, seed));
          REFUSED(granule_destroy, device.index, granule.get());
          const auto which =
              maps.begin() + static_cast<std::ptrdiff_t>(t.random.below(maps.size()));
          TRY((*which)->unmap());
          maps.erase(which);
        }
        return granule.destroy();
      });
}

}  // namespace
}  // namespace weir::conformance
