// SPDX-License-Identifier: Apache-2.0
//
// Every two devices that reach each other: copies of all sizes on any stream, and what is mapped for peers. Memory is
// made before work is enqueued; streams have ended before it goes.
#include "conformance/shapes.hpp"
#include "conformance/walks.hpp"

#include <algorithm>
#include <memory>

namespace weir::conformance {
namespace {

constexpr uint64_t margin = 61;

/// Memory of a device that the others reach: plain, or a granule that is mapped for them.
struct FarMemory {
  FarMemory(Test &t, const DeviceFacts &device_)
      : device(device_), plain(t, device_.index), mapped(t, device_.index) {}
  Outcome make(uint64_t bytes, bool granule, std::span<const uint32_t> others) {
    if (!granule) {
      TRY(plain.allocate(bytes));
      address = plain.address();
      return {};
    }
    TRY(mapped.make((bytes + device.unit - 1) / device.unit * device.unit, device.unit, others));
    address = mapped.address();
    return {};
  }
  const DeviceFacts &device;
  Plain plain;
  Mapped mapped;
  uint64_t address = 0;
};

/// Those of the devices that are not `but`.
std::vector<uint32_t> all_but(const std::vector<uint32_t> &devices, uint32_t but) {
  std::vector<uint32_t> rest;
  for (const uint32_t each : devices)
    if (each != but && std::find(rest.begin(), rest.end(), each) == rest.end())
      rest.push_back(each);
  return rest;
}

/// A copy from one to the other on a queue of `runner`, and what is around it.
Outcome cross_over(Test &t, const DevicePair &pair, uint32_t runner, Owner owner, uint64_t bytes,
                   bool granule) {
  const std::vector<uint32_t> users{pair.from.index, pair.to.index, runner};
  FarMemory source(t, pair.from), target(t, pair.to);
  Mover in(t, pair.from.index), out(t, pair.to.index);
  Queue queue(t, owner, runner);
  bool there = false;
  TRY(queue.make(&there));
  if (!there) return {};
  const uint64_t room = bytes + 2 * margin;
  TRY(source.make(room, granule, all_but(users, pair.from.index)));
  TRY(target.make(room, granule, all_but(users, pair.to.index)));
  TRY(in.make(room));
  TRY(out.make(room));
  TRY(in.write(source.address + 7, bytes, bytes));
  TRY(out.fill(target.address, 0xC3, room));
  TRY(queue.use().copy(target.address + margin, source.address + 7, bytes));
  TRY(queue.use().synchronize());
  TRY(out.check(target.address + margin, bytes, bytes));
  TRY(out.check_filled(target.address, margin, 0xC3));
  return out.check_filled(target.address + margin + bytes, margin, 0xC3);
}

/// The devices that may run a copy between the two.
Outcome runners_of(Test &t, const DevicePair &pair, std::vector<DeviceFacts> *runners) {
  std::vector<DevicePair> pairs;
  TRY(direct_pairs(t, 0, &pairs));
  *runners = {pair.from, pair.to};
  for (const DevicePair &each : pairs) {
    const bool reaches_other =
        std::any_of(pairs.begin(), pairs.end(), [&](const DevicePair &other) {
          return other.from.index == each.from.index && other.to.index == pair.to.index;
        });
    const uint32_t third = each.from.index;
    if (each.to.index == pair.from.index && third != pair.to.index && reaches_other)
      runners->push_back(each.from);
  }
  return {};
}

REQUIRE("PE-021", needs(WEIR_CAP_PEER, 2),
        "Copies between all devices with direct links move all of their bytes and no others, of "
        "every size, on anybody's stream.") {
  std::vector<DevicePair> pairs;
  FIND(direct_pairs(t, 0, &pairs));
  for (const DevicePair &pair : pairs) {
    std::vector<DeviceFacts> runners;
    TRY(runners_of(t, pair, &runners));
    const bool vmm_too = std::all_of(runners.begin(), runners.end(), [](const DeviceFacts &each) {
      return each.has(WEIR_CAP_VMM);
    });
    const uint64_t most = std::min(pair.from.budget, pair.to.budget) / 4;
    const uint64_t sizes[] = {1, 4095, std::min(mib + 1, most), std::min(64 * mib + 3, most - 200)};
    for (const DeviceFacts &runner : runners) {
      for (const Owner owner : every_owner) {
        if (owner == Owner::transfer && !runner.has(WEIR_CAP_TRANSFER_STREAM)) continue;
        for (const uint64_t bytes : sizes) {
          // The largest once a runner: it is the device's memory that is long, not the stream.
          if (bytes > mib + 1 && owner != Owner::made) continue;
          for (const bool granule : {false, true}) {
            if (granule && !vmm_too) continue;
            TRY(in_shape(words("device ", pair.from.index, " to ", pair.to.index, ", ", bytes,
                               granule ? " bytes of a granule" : " bytes", ", on device ",
                               runner.index, "'s ", owner_name(owner)),
                         cross_over(t, pair, runner.index, owner, bytes, granule)));
          }
        }
      }
    }
  }
  return {};
}

// ---- what is mapped for peers

/// The peer's stream has to see what the owner's has done, and the reverse, in a granule mapped for both.
Outcome wait_for_each_other(Test &t, const DevicePair &pair, bool batched, bool far_first) {
  const uint64_t bytes = std::min(pair.from.unit, 16 * kib);
  const uint32_t owner = pair.from.index, peer = pair.to.index;
  Mapped mapped(t, owner);
  Stream here(t, owner), there(t, peer);
  Pinned in(t), seen(t);
  Mover looker(t, owner);
  TRY(mapped.make(pair.from.unit, pair.from.unit, std::span<const uint32_t>(&peer, 1)));
  TRY(here.create());
  TRY(there.create());
  TRY(in.allocate(bytes));
  TRY(seen.allocate(bytes));
  TRY(looker.make(bytes));
  TRY(looker.write(mapped.address(), bytes, 1));
  make_pattern(in.bytes(), 2);
  const Stream &first = far_first ? there : here, &second = far_first ? here : there;
  Fence written(t);
  Gate gate(t);
  Settled settled(t, &gate);
  settled.add(first);
  settled.add(second);
  const auto copy = [&](const Stream &stream, uint64_t to, uint64_t from) -> Outcome {
    if (batched) return batch(t, stream, {{to, from, bytes}});
    const weir_be_copy one{to, from, bytes};
    MUST(copy_async, stream.get(), &one);
    return {};
  };
  TRY(gate.hold(first));
  TRY(copy(first, mapped.address(), in.address()));
  TRY(written.record(first));
  TRY(waits(t, second, written));
  TRY(copy(second, seen.address(), mapped.address()));
  TRY(looker.check(mapped.address(), bytes, 1));
  gate.open();
  MUST(stream_synchronize, second.get());
  return check_pattern(seen.bytes(), 2, "what the second device saw");
}

REQUIRE(
    "PE-023", needs(WEIR_CAP_VMM | WEIR_CAP_PEER | WEIR_CAP_HOST_CALL, 2),
    "A peer's work in a mapped granule waits for the owner's, and the owner's for the peer's.") {
  std::vector<DevicePair> pairs;
  FIND(direct_pairs(t, WEIR_CAP_VMM | WEIR_CAP_HOST_CALL, &pairs));
  for (const DevicePair &pair : pairs) {
    for (const bool batched : {false, true}) {
      if (batched && !(pair.from.has(WEIR_CAP_BATCH_COPY) && pair.to.has(WEIR_CAP_BATCH_COPY)))
        continue;
      for (const bool far_first : {false, true})
        TRY(in_shape(words("a granule of device ", pair.from.index, " and peer ", pair.to.index,
                           batched ? ", batches" : ", copies",
                           far_first ? ", the peer writes" : ", the owner writes"),
                     wait_for_each_other(t, pair, batched, far_first)));
    }
  }
  return {};
}

REQUIRE(
    "PE-024", needs(WEIR_CAP_VMM | WEIR_CAP_PEER | WEIR_CAP_MULTI_MAP, 2),
    "What a peer writes at one address of a granule its owner reads at another, and the reverse.") {
  std::vector<DevicePair> pairs;
  FIND(direct_pairs(t, WEIR_CAP_VMM | WEIR_CAP_MULTI_MAP, &pairs));
  for (const DevicePair &pair : pairs) {
    const auto body = [&]() -> Outcome {
      const uint32_t peer = pair.to.index;
      const uint64_t unit = pair.from.unit;
      const std::span<const uint32_t> others(&peer, 1);
      Granule granule(t, pair.from.index);
      Range range(t, pair.from.index);
      Map alone(t, pair.from.index), far(t, pair.from.index), both(t, pair.from.index);
      Mover here(t, pair.from.index), there(t, peer);
      TRY(granule.create(unit));
      TRY(range.reserve(3 * unit, unit));
      TRY(alone.map(range.address(), unit, granule));
      TRY(far.map(range.address() + unit, unit, granule, 0, others));
      TRY(both.map(range.address() + 2 * unit, unit, granule, 0, others));
      TRY(here.make(end_bytes));
      TRY(there.make(end_bytes));
      uint64_t seed = 0;
      for (const Map *by_owner : {&alone, &far, &both}) {
        for (const Map *by_peer : {&far, &both}) {
          TRY(write_ends(here, by_owner->address(), unit, ++seed));
          TRY(check_ends(there, by_peer->address(), unit, seed));
          TRY(write_ends(there, by_peer->address(), unit, ++seed));
          TRY(check_ends(here, by_owner->address(), unit, seed));
        }
      }
      // One address gone, the others stay whose they are.
      TRY(far.unmap());
      TRY(write_ends(there, both.address(), unit, ++seed));
      return check_ends(here, alone.address(), unit, seed);
    };
    TRY(in_shape(words("a granule of device ", pair.from.index, " and peer ", pair.to.index),
                 body()));
  }
  return {};
}

}  // namespace
}  // namespace weir::conformance
