// SPDX-License-Identifier: Apache-2.0
//
// Runs of granules, mapped and unmapped in one call, and access that peers are given to what is mapped. A run is short for
// as many single calls, so what holds for those is asked of it too, and that a refused run changes nothing.
#include "conformance/fixtures.hpp"

#include <memory>

namespace weir::conformance {
namespace {

constexpr Needs runs = needs(WEIR_CAP_VMM | WEIR_CAP_MAP_RUN);
constexpr Needs shared_runs =
    needs(WEIR_CAP_VMM | WEIR_CAP_PEER | WEIR_CAP_SHARED_RANGE | WEIR_CAP_MAP_RUN, 2);
constexpr Needs later = needs(WEIR_CAP_VMM | WEIR_CAP_PEER | WEIR_CAP_ACCESS_LATER, 2);

/// A range of places, a granule for each, and what is mapped where. Pattern `seed + i` marks granule i.
class Row {
 public:
  static constexpr uint32_t places = 5;

  explicit Row(Test &t) : Row(t, t.device) {}
  Row(Test &t, uint32_t device) : t_(t), device_(device), range(t, device), mover(t) {
    for (uint32_t i = 0; i < places; ++i) granules.push_back(std::make_unique<Granule>(t, device));
  }
  ~Row() {
    if (!come_to_rest()) return;
    for (uint32_t i = 0; i < places; ++i)
      if (mapped_[i]) t_.keep(unmap(i));
  }
  Row(const Row &) = delete;
  Row &operator=(const Row &) = delete;

  Outcome make() {
    TRY(range.reserve(places * unit(), unit()));
    for (const auto &granule : granules) TRY(granule->create(unit()));
    return mover.make(unit());
  }
  uint64_t unit() const noexcept { return t_.granule; }
  uint64_t at(uint32_t place) const noexcept { return range.address() + place * unit(); }
  weir_be_piece piece(uint32_t granule) const { return {granules[granule]->get(), 0, unit()}; }
  std::vector<weir_be_piece> pieces(std::initializer_list<uint32_t> of) const {
    std::vector<weir_be_piece> all;
    for (const uint32_t each : of) all.push_back(piece(each));
    return all;
  }
  /// The granules side by side from `first` on, in one call.
  Outcome map(uint32_t first, std::initializer_list<uint32_t> of,
              std::span<const uint32_t> peers = {}) {
    const auto all = pieces(of);
    Test &t = t_;
    MUST(map_run, device_, at(first), all.data(), static_cast<uint32_t>(all.size()), peers.data(),
         static_cast<uint32_t>(peers.size()));
    for (uint32_t i = 0; i < all.size(); ++i) mapped_[first + i] = true;
    return {};
  }
  Outcome map_one(uint32_t place, uint32_t granule) {
    Test &t = t_;
    MUST(map, device_, at(place), unit(), granules[granule]->get(), 0, nullptr, 0);
    mapped_[place] = true;
    return {};
  }
  Outcome unmap(uint32_t place) {
    mapped_[place] = false;
    Test &t = t_;
    MUST(unmap, device_, at(place), unit());
    return {};
  }
  Outcome unmap_run(uint32_t first, uint32_t count) {
    Test &t = t_;
    MUST(unmap_run, device_, at(first), count * unit());
    for (uint32_t i = 0; i < count; ++i) mapped_[first + i] = false;
    return {};
  }
  Outcome write(uint32_t place, uint64_t seed) { return mover.write(at(place), unit(), seed); }
  Outcome check(uint32_t place, uint64_t seed) { return mover.check(at(place), unit(), seed); }
  /// Nothing is mapped at the place: a map of the granule there is taken, and taken back.
  Outcome is_free(uint32_t place, uint32_t granule) {
    TRY(map_one(place, granule));
    return unmap(place);
  }

 private:
  Test &t_;
  const uint32_t device_;
  bool mapped_[places] = {};

 public:
  Range range;
  std::vector<std::unique_ptr<Granule>> granules;
  Mover mover;
};

REQUIRE("VM-025", runs, "A run maps its pieces side by side in their order, and each is its own.") {
  Row row(t);
  TRY(row.make());
  TRY(row.map(1, {2, 0, 1}));
  for (uint32_t i = 1; i < 4; ++i) TRY(row.write(i, i));
  for (uint32_t i = 1; i < 4; ++i) TRY(row.check(i, i));
  TRY(row.unmap_run(1, 3));
  // Contents went with the granules: 2, 0, 1 were at the places 1, 2, 3.
  TRY(row.map(0, {0, 1, 2}));
  TRY(row.check(0, 2));
  TRY(row.check(1, 3));
  return row.check(2, 1);
}

REQUIRE("VM-026", runs,
        "A piece of a run can be unmapped alone and mapped elsewhere, and its neighbours stay.") {
  Row row(t);
  TRY(row.make());
  TRY(row.map(0, {0, 1, 2}));
  for (uint32_t i = 0; i < 3; ++i) TRY(row.write(i, i));
  TRY(row.unmap(1));
  TRY(row.check(0, 0));
  TRY(row.check(2, 2));
  TRY(row.map_one(4, 1));
  TRY(row.check(4, 1));
  TRY(row.map_one(1, 3));
  TRY(row.write(1, 13));
  TRY(row.check(0, 0));
  TRY(row.check(1, 13));
  return row.check(2, 2);
}

REQUIRE(
    "VM-027", runs,
    "One unmap of a run removes what maps and other runs made side by side, and nothing else.") {
  Row row(t);
  TRY(row.make());
  TRY(row.map(0, {0, 1}));
  TRY(row.map_one(2, 2));
  TRY(row.map(3, {3, 4}));
  for (uint32_t i = 0; i < Row::places; ++i) TRY(row.write(i, i));
  TRY(row.unmap_run(1, 3));
  TRY(row.check(0, 0));
  TRY(row.check(4, 4));
  for (uint32_t i = 1; i < 4; ++i) TRY(row.is_free(i, 2));
  TRY(row.map(1, {3, 2, 1}));
  TRY(row.check(1, 3));
  TRY(row.check(2, 2));
  return row.check(3, 1);
}

REQUIRE("VM-028", runs,
        "A run of which one piece can't be mapped maps none, and its granules are free.") {
  Row row(t);
  TRY(row.make());
  TRY(row.map_one(3, 3));
  TRY(row.write(3, 3));
  // The third place is taken; the last piece lies beyond the range; the last granule is none.
  const auto four = row.pieces({0, 1, 2, 4});
  REFUSED(map_run, t.device, row.at(1), four.data(), 3, nullptr, 0);
  REFUSED(map_run, t.device, row.at(4), four.data(), 2, nullptr, 0);
  auto wrong = row.pieces({0, 1});
  wrong[1].granule = 0;
  REFUSED(map_run, t.device, row.at(0), wrong.data(), 2, nullptr, 0);
  wrong = row.pieces({0, 1});
  wrong[1].bytes = 2 * row.unit();
  REFUSED_AS(invalid_or_unsupported(), map_run, t.device, row.at(0), wrong.data(), 2, nullptr, 0);
  TRY(row.check(3, 3));
  for (const uint32_t place : {0U, 1U, 2U, 4U}) TRY(row.is_free(place, 0));
  for (const uint32_t granule : {0U, 1U, 2U}) TRY(row.granules[granule]->destroy());
  return {};
}

REQUIRE("VM-029", runs,
        "An unmap of a run with a gap, with a part of a piece or beyond what is mapped removes "
        "nothing.") {
  Row row(t);
  TRY(row.make());
  TRY(row.map(0, {0, 1}));
  TRY(row.map_one(3, 3));
  for (const uint32_t place : {0U, 1U, 3U}) TRY(row.write(place, place));
  REFUSED(unmap_run, t.device, row.at(0), 4 * row.unit());
  REFUSED(unmap_run, t.device, row.at(0), 3 * row.unit());
  REFUSED(unmap_run, t.device, row.at(0), row.unit() / 2);
  REFUSED(unmap_run, t.device, row.at(0), row.unit() + row.unit() / 2);
  REFUSED(unmap_run, t.device, row.at(0) + row.unit() / 2, row.unit());
  REFUSED(unmap_run, t.device, row.at(2), row.unit());
  REFUSED(unmap_run, t.device, row.at(0), 0);
  REFUSED(unmap_run, t.no_device(), row.at(0), row.unit());
  for (const uint32_t place : {0U, 1U, 3U}) TRY(row.check(place, place));
  return {};
}

REQUIRE("VM-030", runs, "The pieces of a run may have different sizes.") {
  Row row(t);
  Granule large(t);
  TRY(row.make());
  TRY(large.create(2 * row.unit()));
  const weir_be_piece pieces[] = {row.piece(0), {large.get(), 0, 2 * row.unit()}, row.piece(1)};
  MUST(map_run, t.device, row.at(0), pieces, 3, nullptr, 0);
  for (uint32_t i = 0; i < 4; ++i) TRY(row.write(i, i));
  for (uint32_t i = 0; i < 4; ++i) TRY(row.check(i, i));
  REFUSED(unmap_run, t.device, row.at(0), 2 * row.unit());
  TRY(row.check(1, 1));
  MUST(unmap_run, t.device, row.at(0), 3 * row.unit());
  TRY(row.check(3, 3));
  MUST(unmap, t.device, row.at(3), row.unit());
  return {};
}

REQUIRE("VM-031", runs, "A run of no pieces, of NULL, or with a piece of no bytes is refused.") {
  Row row(t);
  TRY(row.make());
  auto pieces = row.pieces({0, 1});
  REFUSED(map_run, t.device, row.at(0), pieces.data(), 0, nullptr, 0);
  REFUSED(map_run, t.device, row.at(0), nullptr, 1, nullptr, 0);
  pieces[1].bytes = 0;
  REFUSED_AS(invalid_or_unsupported(), map_run, t.device, row.at(0), pieces.data(), 2, nullptr, 0);
  pieces = row.pieces({0, 1});
  REFUSED(map_run, t.device, row.at(0) + row.unit() / 2, pieces.data(), 2, nullptr, 0);
  REFUSED(map_run, t.no_device(), row.at(0), pieces.data(), 2, nullptr, 0);
  return row.map(0, {0, 1});
}

REQUIRE("VM-032", lacks(WEIR_CAP_MULTI_MAP, WEIR_CAP_VMM | WEIR_CAP_MAP_RUN),
        "Without MULTI_MAP a run that has a granule twice is refused and maps nothing.") {
  Row row(t);
  TRY(row.make());
  const auto pieces = row.pieces({0, 1, 0});
  REFUSED_AS(invalid_or_unsupported(), map_run, t.device, row.at(0), pieces.data(), 3, nullptr, 0);
  return row.map(0, {0, 1, 2});
}

REQUIRE("VM-033", needs(WEIR_CAP_VMM | WEIR_CAP_MAP_RUN | WEIR_CAP_MAP_PART),
        "With MAP_PART a piece of a run may be a part of its granule.") {
  Row row(t);
  Mapped whole(t);
  TRY(row.make());
  TRY(whole.make(2 * row.unit(), row.unit()));
  TRY(row.mover.write(whole.address(), row.unit(), 1));
  TRY(row.mover.write(whole.address() + row.unit(), row.unit(), 2));
  TRY(whole.mapping.unmap());
  const weir_be_piece pieces[] = {{whole.granule.get(), row.unit(), row.unit()}, row.piece(0)};
  MUST(map_run, t.device, row.at(0), pieces, 2, nullptr, 0);
  TRY(row.check(0, 2));
  MUST(unmap_run, t.device, row.at(0), 2 * row.unit());
  return {};
}

REQUIRE("VM-034", runs, "Runs come and go beside running work without disturbing it.") {
  Row row(t);
  Mapped busy(t);
  Stream stream(t);
  TRY(row.make());
  TRY(busy.make(2 * row.unit(), row.unit()));
  TRY(stream.create());
  for (uint64_t i = 0; i < 10; ++i) {
    TRY(row.mover.write(busy.address(), row.unit(), i));
    for (int n = 0; n < 8; ++n)
      TRY(stream.copy(busy.address() + row.unit(), busy.address(), row.unit()));
    TRY(row.map(0, {0, 1, 2, 3, 4}));
    TRY(row.unmap_run(0, Row::places));
    TRY(stream.synchronize());
    TRY(row.mover.check(busy.address() + row.unit(), row.unit(), i));
  }
  return {};
}

// ---- peers

/// A device that reaches the one under test, and is reached by it.
Outcome find_peer(Test &t, uint32_t *peer) {
  *peer = UINT32_MAX;
  for (uint32_t i = 0; i < t.device_count && *peer == UINT32_MAX; ++i) {
    if (i == t.device) continue;
    weir_be_link there{}, back{};
    there.struct_size = back.struct_size = sizeof there;
    MUST(link_describe, t.device, i, &there);
    MUST(link_describe, i, t.device, &back);
    if (there.direct != 0 && back.direct != 0) *peer = i;
  }
  CHECK(*peer != UINT32_MAX, "the device has PEER, and no link to another device is direct");
  MUST(peer_enable, t.device, *peer);
  MUST(peer_enable, *peer, t.device);
  return {};
}

/// The peer's stream reads pattern `seed` at the address, and puts `seed + 100` there.
Outcome use_from(Test &t, uint32_t peer, uint64_t address, uint64_t bytes, uint64_t seed) {
  Plain local(t, peer);
  Mover far(t, peer);
  TRY(local.allocate(bytes));
  TRY(far.make(bytes));
  TRY(far.stream.copy(local.address(), address, bytes));
  TRY(far.check(local.address(), bytes, seed));
  TRY(far.write(local.address(), bytes, seed + 100));
  TRY(far.stream.copy(address, local.address(), bytes));
  return far.stream.synchronize();
}

REQUIRE("PE-015", needs(WEIR_CAP_VMM | WEIR_CAP_PEER | WEIR_CAP_MAP_RUN, 2),
        "All pieces of a run that is mapped for a peer are read and written by the peer.") {
  uint32_t peer = 0;
  TRY(find_peer(t, &peer));
  Row row(t);
  TRY(row.make());
  TRY(row.map(0, {0, 1, 2}, std::span<const uint32_t>(&peer, 1)));
  for (uint32_t i = 0; i < 3; ++i) TRY(row.write(i, i));
  for (uint32_t i = 0; i < 3; ++i) TRY(use_from(t, peer, row.at(i), row.unit(), i));
  for (uint32_t i = 0; i < 3; ++i) TRY(row.check(i, i + 100));
  const uint32_t bad = t.no_device();
  const auto more = row.pieces({3, 4});
  REFUSED(map_run, t.device, row.at(3), more.data(), 2, &bad, 1);
  return row.is_free(3, 4);
}

REQUIRE(
    "PE-016", later,
    "A peer that is given access to what is mapped reads and writes it, and so does the owner.") {
  uint32_t peer = 0;
  TRY(find_peer(t, &peer));
  Row row(t);
  TRY(row.make());
  for (uint32_t i = 0; i < 3; ++i) TRY(row.map_one(i, i));
  for (uint32_t i = 0; i < 3; ++i) TRY(row.write(i, i));
  MUST(access_add, t.device, row.at(0), 3 * row.unit(), &peer, 1);
  for (uint32_t i = 0; i < 3; ++i) TRY(use_from(t, peer, row.at(i), row.unit(), i));
  for (uint32_t i = 0; i < 3; ++i) TRY(row.check(i, i + 100));
  // A peer that is named again keeps it.
  MUST(access_add, t.device, row.at(1), row.unit(), &peer, 1);
  TRY(use_from(t, peer, row.at(1), row.unit(), 101));
  return row.check(1, 201);
}

REQUIRE("PE-017", later,
        "Access to what is not mapped in whole pieces, or for a device that is none, is refused.") {
  uint32_t peer = 0;
  TRY(find_peer(t, &peer));
  Row row(t);
  TRY(row.make());
  TRY(row.map_one(0, 0));
  TRY(row.map_one(2, 2));
  TRY(row.write(0, 1));
  const uint32_t bad = t.no_device();
  REFUSED(access_add, t.device, row.at(0), row.unit(), &bad, 1);
  REFUSED(access_add, t.device, row.at(0), row.unit(), nullptr, 1);
  REFUSED(access_add, t.device, row.at(0), row.unit(), &peer, 0);
  REFUSED(access_add, t.device, row.at(0), 3 * row.unit(), &peer, 1);
  REFUSED(access_add, t.device, row.at(0), row.unit() / 2, &peer, 1);
  REFUSED(access_add, t.device, row.at(1), row.unit(), &peer, 1);
  REFUSED(access_add, t.no_device(), row.at(0), row.unit(), &peer, 1);
  TRY(row.check(0, 1));
  TRY(row.unmap(0));
  REFUSED(access_add, t.device, row.at(0), row.unit(), &peer, 1);
  return {};
}

REQUIRE("PE-018", later, "Access is given while work that uses the memory goes on.") {
  uint32_t peer = 0;
  TRY(find_peer(t, &peer));
  Row row(t);
  Stream stream(t);
  TRY(row.make());
  TRY(stream.create());
  for (uint64_t i = 0; i < 10; ++i) {
    TRY(row.map_one(0, 0));
    TRY(row.map_one(1, 1));
    TRY(row.write(0, i));
    for (int n = 0; n < 8; ++n) TRY(stream.copy(row.at(1), row.at(0), row.unit()));
    MUST(access_add, t.device, row.at(0), 2 * row.unit(), &peer, 1);
    TRY(stream.synchronize());
    TRY(row.check(1, i));
    TRY(use_from(t, peer, row.at(1), row.unit(), i));
    TRY(row.unmap(0));
    TRY(row.unmap(1));
  }
  return {};
}

REQUIRE("PE-019", shared_runs,
        "An unmap of a run removes nothing where a piece of it is another device's.") {
  uint32_t peer = 0;
  TRY(find_peer(t, &peer));
  weir_be_device about;
  TRY(t.describe(peer, &about));
  if ((about.capabilities & WEIR_CAP_SHARED_RANGE) == 0 || about.granule != t.granule)
    return t.nothing("no peer shares ranges with granules of this size");
  Row row(t);
  Granule theirs(t, peer);
  Map foreign(t, peer);
  TRY(row.make());
  TRY(theirs.create(row.unit()));
  TRY(row.map(0, {0, 1}));
  TRY(foreign.map(row.at(2), row.unit(), theirs, 0, std::span<const uint32_t>(&t.device, 1)));
  for (uint32_t i = 0; i < 3; ++i) TRY(row.write(i, i));
  REFUSED(unmap_run, t.device, row.at(0), 3 * row.unit());
  REFUSED(unmap_run, peer, row.at(1), 2 * row.unit());
  for (uint32_t i = 0; i < 3; ++i) TRY(row.check(i, i));
  return {};
}

}  // namespace
}  // namespace weir::conformance
