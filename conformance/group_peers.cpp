// SPDX-License-Identifier: Apache-2.0
//
// Devices that reach each other's memory.
#include "conformance/fixtures.hpp"

namespace weir::conformance {
namespace {

constexpr Needs peers = needs(WEIR_CAP_PEER, 2);
constexpr Needs mapped_peers = needs(WEIR_CAP_PEER | WEIR_CAP_VMM, 2);

/// A device that the one under test copies to directly; UINT32_MAX if there is none.
Outcome find_direct(Test &t, uint32_t *peer) {
  *peer = UINT32_MAX;
  for (uint32_t i = 0; i < t.device_count; ++i) {
    if (i == t.device) continue;
    weir_be_link there{}, back{};
    there.struct_size = back.struct_size = sizeof there;
    MUST(link_describe, t.device, i, &there);
    MUST(link_describe, i, t.device, &back);
    if (there.direct == 0 || back.direct == 0) continue;
    *peer = i;
    return {};
  }
  return {};
}

/// The peer, reachable in both directions.
Outcome enable(Test &t, uint32_t *peer) {
  TRY(find_direct(t, peer));
  CHECK(*peer != UINT32_MAX, "the device has PEER, and no link to another device is direct");
  MUST(peer_enable, t.device, *peer);
  MUST(peer_enable, *peer, t.device);
  return {};
}

/// Copies from one device to another on a stream of `runner`, through no host memory.
Outcome cross(Test &t, uint32_t from, uint32_t to, uint32_t runner, uint64_t bytes) {
  Plain source(t, from), target(t, to);
  Mover in(t, from), out(t, to);
  Stream stream(t, runner);
  TRY(source.allocate(bytes + 64));
  TRY(target.allocate(bytes + 64));
  TRY(in.make(bytes + 64));
  TRY(out.make(bytes + 64));
  TRY(stream.create());
  TRY(in.write(source.address() + 7, bytes, bytes));
  TRY(out.fill(target.address(), 0xC3, bytes + 64));
  TRY(stream.copy(target.address() + 3, source.address() + 7, bytes));
  TRY(stream.synchronize());
  TRY(out.check(target.address() + 3, bytes, bytes));
  TRY(out.check_filled(target.address(), 3, 0xC3));
  return out.check_filled(target.address() + 3 + bytes, 61, 0xC3);
}

REQUIRE("PE-001", peers,
        "A device with PEER has a direct link to another device, and peer_enable agrees.") {
  uint32_t peer = 0;
  return enable(t, &peer);
}

REQUIRE("PE-002", peers, "Enabling a peer again gives the same answer.") {
  uint32_t peer = 0;
  TRY(enable(t, &peer));
  for (int i = 0; i < 5; ++i) MUST(peer_enable, t.device, peer);
  return {};
}

REQUIRE("PE-003", peers, "A peer that does not exist is refused.") {
  REFUSED(peer_enable, t.device, t.no_device());
  REFUSED(peer_enable, t.no_device(), t.device);
  return {};
}

REQUIRE(
    "PE-004", peers,
    "Copies between devices with a direct link move all of their bytes and no others, both ways.") {
  uint32_t peer = 0;
  TRY(enable(t, &peer));
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{63}, 4 * kib + 1, mib - 1, 4 * mib + 1}) {
    TRY(cross(t, t.device, peer, t.device, bytes));
    TRY(cross(t, peer, t.device, t.device, bytes));
    TRY(cross(t, t.device, peer, peer, bytes));
    TRY(cross(t, peer, t.device, peer, bytes));
  }
  return {};
}

REQUIRE("PE-005", peers, "A fence orders copies between devices, there and back.") {
  uint32_t peer = 0;
  TRY(enable(t, &peer));
  constexpr uint64_t bytes = mib;
  Plain here(t), there(t, peer), back(t);
  Mover mover(t);
  Stream far(t, peer);
  TRY(here.allocate(bytes));
  TRY(there.allocate(bytes));
  TRY(back.allocate(bytes));
  TRY(mover.make(bytes));
  TRY(far.create());
  for (uint64_t i = 0; i < 10; ++i) {
    Fence written(t), arrived(t);
    make_pattern(mover.staging.bytes(), i);
    TRY(mover.stream.copy(here.address(), mover.staging.address(), bytes));
    TRY(written.record(mover.stream));
    MUST(stream_wait, far.get(), written.get());
    TRY(far.copy(there.address(), here.address(), bytes));
    TRY(arrived.record(far));
    MUST(stream_wait, mover.stream.get(), arrived.get());
    TRY(mover.stream.copy(back.address(), there.address(), bytes));
    TRY(mover.check(back.address(), bytes, i));
  }
  return {};
}

REQUIRE("PE-006", mapped_peers,
        "A granule mapped for a peer is read and written by the peer's streams.") {
  uint32_t peer = 0;
  TRY(enable(t, &peer));
  Mapped mapped(t);
  Plain local(t, peer);
  Mover mover(t), far(t, peer);
  TRY(mapped.make(t.granule, t.granule, std::span<const uint32_t>(&peer, 1)));
  TRY(local.allocate(t.granule));
  TRY(mover.make(t.granule));
  TRY(far.make(t.granule));
  TRY(mover.write(mapped.address(), t.granule, 1));
  TRY(far.stream.copy(local.address(), mapped.address(), t.granule));
  TRY(far.check(local.address(), t.granule, 1));
  TRY(far.write(local.address(), t.granule, 2));
  TRY(far.stream.copy(mapped.address(), local.address(), t.granule));
  TRY(far.stream.synchronize());
  return mover.check(mapped.address(), t.granule, 2);
}

REQUIRE("PE-007", mapped_peers,
        "A map for a peer that does not exist is refused and changes nothing.") {
  Range range(t);
  Granule granule(t);
  TRY(range.reserve(t.granule, t.granule));
  TRY(granule.create(t.granule));
  const uint32_t bad = t.no_device();
  REFUSED(map, t.device, range.address(), t.granule, granule.get(), 0, &bad, 1);
  Map map(t);
  return map.map(range.address(), t.granule, granule);
}

REQUIRE("PE-008", peers,
        "Copies between all devices at once, each on a stream of its own, are right.") {
  uint32_t peer = 0;
  TRY(enable(t, &peer));
  return in_threads(2, [&](uint32_t index) -> Outcome {
    const uint32_t from = index == 0 ? t.device : peer, to = index == 0 ? peer : t.device;
    for (uint64_t i = 0; i < 6; ++i) TRY(cross(t, from, to, from, mib + i));
    return {};
  });
}

REQUIRE("PE-009", needs(WEIR_CAP_PEER | WEIR_CAP_BATCH_COPY, 2),
        "A batch may hold copies between devices beside others.") {
  uint32_t peer = 0;
  TRY(enable(t, &peer));
  constexpr uint64_t bytes = 64 * kib;
  Plain here(t), there(t, peer);
  Mover mover(t), far(t, peer);
  Pinned pinned(t);
  TRY(here.allocate(2 * bytes));
  TRY(there.allocate(bytes));
  TRY(mover.make(bytes));
  TRY(far.make(bytes));
  TRY(pinned.allocate(bytes));
  TRY(mover.write(here.address(), bytes, 1));
  make_pattern(pinned.bytes(), 2);
  const weir_be_copy copies[2] = {{there.address(), here.address(), bytes},
                                  {here.address() + bytes, pinned.address(), bytes}};
  MUST(copy_batch_async, mover.stream.get(), copies, 2);
  TRY(mover.stream.synchronize());
  TRY(far.check(there.address(), bytes, 1));
  return mover.check(here.address() + bytes, bytes, 2);
}

REQUIRE("PE-010", needs(0, 2),
        "Wherever a link between devices is said to be direct, copies work on it.") {
  for (uint32_t from = 0; from < t.device_count; ++from) {
    for (uint32_t to = 0; to < t.device_count; ++to) {
      weir_be_link link{};
      link.struct_size = sizeof link;
      MUST(link_describe, from, to, &link);
      if (link.direct == 0) continue;
      if (from != to && t.table.peer_enable != nullptr) MUST(peer_enable, from, to);
      TRY(cross(t, from, to, from, 4 * kib));
    }
  }
  return {};
}

REQUIRE("PE-020", mapped_peers,
        "A peer reaches what is mapped at an address now, not what was mapped there when it came "
        "first.") {
  uint32_t peer = 0;
  TRY(enable(t, &peer));
  Range range(t);
  Granule first(t), second(t);
  Map map(t);
  Plain local(t, peer);
  Mover mover(t), far(t, peer);
  const std::span<const uint32_t> peers_of(&peer, 1);
  TRY(range.reserve(t.granule, t.granule));
  TRY(first.create(t.granule));
  TRY(second.create(t.granule));
  TRY(local.allocate(t.granule));
  TRY(mover.make(t.granule));
  TRY(far.make(t.granule));
  for (uint64_t i = 0; i < 4; ++i) {
    const Granule &now = i % 2 == 0 ? first : second;
    TRY(map.map(range.address(), t.granule, now, 0, peers_of));
    if (i >= 2) TRY(mover.check(range.address(), t.granule, 10 + i - 2));
    TRY(mover.write(range.address(), t.granule, i));
    TRY(far.stream.copy(local.address(), range.address(), t.granule));
    TRY(far.check(local.address(), t.granule, i));
    TRY(far.write(local.address(), t.granule, 10 + i));
    TRY(far.stream.copy(range.address(), local.address(), t.granule));
    TRY(far.stream.synchronize());
    TRY(mover.check(range.address(), t.granule, 10 + i));
    TRY(map.unmap());
  }
  return {};
}

}  // namespace
}  // namespace weir::conformance
