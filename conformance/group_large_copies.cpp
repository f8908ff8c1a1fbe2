// SPDX-License-Identifier: Apache-2.0
//
// Copies and fills by shape: large ones between all kinds of memory, and fills at every place. All of the
// destination is looked at, not only what was to be written.
#include "conformance/explain.hpp"
#include "conformance/places.hpp"
#include "conformance/shapes.hpp"

#include <algorithm>
#include <array>
#include <memory>

namespace weir::conformance {
namespace {

constexpr uint8_t edge_of_large = 0xC3;  ///< what lies around the bytes that are written
constexpr uint64_t margin = 64;          ///< bytes of a place beyond the largest copy

struct Route {
  Kind from, to;
  bool within;  ///< one half of a place to the other
};
constexpr std::array<Route, 14> routes{{{Kind::pinned, Kind::plain, false},
                                        {Kind::plain, Kind::pinned, false},
                                        {Kind::plain, Kind::plain, true},
                                        {Kind::plain, Kind::plain, false},
                                        {Kind::pinned, Kind::pinned, false},
                                        {Kind::plain, Kind::mapped, false},
                                        {Kind::mapped, Kind::plain, false},
                                        {Kind::mapped, Kind::mapped, false},
                                        {Kind::mapped, Kind::mapped, true},
                                        {Kind::mapped, Kind::pinned, false},
                                        {Kind::pinned, Kind::mapped, false},
                                        {Kind::registered, Kind::plain, false},
                                        {Kind::plain, Kind::registered, false},
                                        {Kind::registered, Kind::mapped, false}}};

/// One device's places: two of each kind, so that a copy has one to read and one to write.
class Yard {
 public:
  Yard(Test &t, const Shape &shape) : t_(t), in_(t), out_(t) {
    for (const Kind kind : {Kind::plain, Kind::mapped, Kind::pinned, Kind::registered}) {
      for (auto &each : places_[static_cast<size_t>(kind)])
        if (shape.has(kind_needs(kind))) each = std::make_unique<Memory>(t, kind, shape.device);
    }
    unit_ = shape.about.granule;
    // Four of the places are the device's.
    most_ = 64 * mib;
    while (most_ > kib && 4 * (most_ + margin + unit_) > shape.budget) most_ /= 2;
  }
  Outcome make() {
    for (const auto &two : places_) {
      for (const auto &each : two)
        if (each != nullptr) TRY(each->make(most_ + margin, unit_));
    }
    TRY(in_.allocate(most_ + margin));
    TRY(out_.allocate(most_ + margin));
    make_pattern(in_.bytes(), 1);
    return {};
  }
  uint64_t most() const noexcept { return most_; }

  Outcome copied(Stream &stream, const Route &route, uint64_t bytes) {
    Memory *from = places_[static_cast<size_t>(route.from)][0].get();
    Memory *to = route.within ? from : places_[static_cast<size_t>(route.to)][1].get();
    if (from == nullptr || to == nullptr) return {};
    const uint64_t shift = route.within ? most_ / 2 : 0;
    if (route.within) bytes /= 2;
    const uint64_t read_at = 3, write_at = 5 + shift, all = bytes + 16;
    // What is written lies in [shift, shift + all) of the second place.
    TRY(put(stream, *from, bytes + read_at));
    if (of_host(route.to)) {
      std::fill_n(to->host().begin(), all, std::byte{edge_of_large});
    } else {
      TRY(stream.fill(to->address() + shift + (route.within ? 4 : 0), edge_of_large,
                      all - (route.within ? 4 : 0)));
    }
    TRY(stream.copy(to->address() + write_at, from->address() + read_at, bytes));
    std::span<const std::byte> seen;
    if (of_host(route.to)) {
      TRY(stream.synchronize());
      seen = to->host().first(all);
    } else {
      TRY(stream.copy(out_.address(), to->address() + shift, all));
      TRY(stream.synchronize());
      seen = out_.bytes().first(all);
    }
    const std::string what = words("a copy of ", bytes, " bytes from ", kind_name(route.from),
                                   " to ", kind_name(route.to));
    TRY(check_value(seen.subspan(4, 1), edge_of_large, what + ", before it"));
    TRY(check_same(seen.subspan(5, bytes), in_.bytes().subspan(read_at, bytes), what));
    return check_value(seen.subspan(5 + bytes), edge_of_large, what + ", behind it");
  }

 private:
  /// The pattern's first bytes.
  Outcome put(Stream &stream, Memory &place, uint64_t bytes) {
    if (!of_host(place.kind())) return stream.copy(place.address(), in_.address(), bytes);
    TRY(stream.synchronize());
    std::copy_n(in_.bytes().begin(), bytes, place.host().begin());
    return {};
  }

  Test &t_;
  std::array<std::array<std::unique_ptr<Memory>, 2>, 4> places_;
  Pinned in_, out_;
  uint64_t unit_ = 0, most_ = 0;
};

/// Counts of bytes beyond 32 bits, within a device that has room.
Outcome beyond_4_gib(Test &t, const Shape &shape, Stream &stream) {
  constexpr uint64_t bytes = (uint64_t{1} << 32U) + 5, edge = 16;
  Plain from(t, shape.device), to(t, shape.device);
  Pinned host(t);
  TRY(from.allocate(bytes + edge));
  TRY(to.allocate(bytes + edge));
  TRY(host.allocate(edge));
  Settled settled(t);
  settled.add(stream);
  TRY(stream.fill(to.address(), edge_of_large, bytes + edge));
  TRY(stream.fill(from.address(), 1, bytes));
  TRY(stream.fill(from.address() + (uint64_t{1} << 32U), 2, 4));
  TRY(stream.fill(from.address() + bytes - 1, 3, 1));
  TRY(stream.copy(to.address(), from.address(), bytes));
  const auto seen = [&](uint64_t at, uint8_t value) -> Outcome {
    TRY(stream.copy(host.address(), to.address() + at, 1));
    TRY(stream.synchronize());
    return check_value(host.bytes().first(1), value, words("byte ", at, " of more than 4 GiB"));
  };
  TRY(seen(0, 1));
  TRY(seen(bytes / 2, 1));
  TRY(seen(bytes - 6, 1));
  TRY(seen(bytes - 5, 2));
  TRY(seen(bytes - 1, 3));
  return seen(bytes, edge_of_large);
}

REQUIRE("CP-022", always(),
        "Large copies between all kinds of memory move all of their bytes and no others.") {
  std::unique_ptr<Yard> yard;
  uint32_t of = UINT32_MAX;
  return shapes(t, {every_owner}, [&](const Shape &shape, Queue &queue) -> Outcome {
    if (of != shape.device) {
      yard.reset();
      yard = std::make_unique<Yard>(t, shape);
      of = shape.device;
      TRY(yard->make());
    }
    Settled settled(t);
    settled.add(queue.use());
    const bool first = shape.owner == Owner::made;
    for (const Route &route : routes) {
      if (!first) {
        TRY(yard->copied(queue.use(), route, std::min(yard->most(), mib) + 1));
        continue;
      }
      for (uint64_t power = yard->most(); power >= yard->most() / 4; power /= 2) {
        for (const uint64_t bytes : {power - 1, power + 1})
          TRY(yard->copied(queue.use(), route, bytes));
      }
    }
    constexpr uint64_t large_device = uint64_t{24} << 30U;
    if (!first || !t.settings.allow_oom || shape.about.memory_total < large_device) return {};
    yard.reset();
    of = UINT32_MAX;
    return beyond_4_gib(t, shape, queue.use());
  });
}

// ---- fills

/// One fill of a field of many.
struct Patch {
  uint64_t at, bytes;
};

/// Every size at every residue of 16, apart from each other; the last ends with the field.
std::vector<Patch> patches(uint64_t part, uint64_t *field) {
  std::vector<Patch> all;
  uint64_t at = 0, turn = 0;
  for (uint64_t bytes = 1; bytes <= 67; ++bytes) {
    for (uint64_t residue = 0; residue < 16; ++residue, ++turn) {
      if (part != 0 && turn % 7 != part) continue;
      all.push_back({at + residue, bytes});
      at += (residue + bytes + 16) / 16 * 16;
    }
  }
  for (const uint64_t bytes : {4 * kib - 1, 4 * kib, 4 * kib + 1}) {
    all.push_back({at + bytes % 16, bytes});
    at += (2 * bytes % 16 + bytes + 17) / 16 * 16;
  }
  all.push_back({at + 1, 15});
  *field = at + 16;
  return all;
}

uint8_t value_of(size_t index) { return static_cast<uint8_t>(1 + index % 100); }

/// Fills the patches of the field at `address`, and looks at the whole of it through `seen`, another address of the same
/// memory or the same one.
Outcome filled(Stream &stream, const Pinned &host, uint64_t address, uint64_t seen, uint64_t part,
               const std::string &where) {
  uint64_t field = 0;
  const std::vector<Patch> all = patches(part, &field);
  std::vector<std::byte> wanted(field, std::byte{edge_of_large});
  TRY(stream.fill(address, edge_of_large, field));
  for (size_t i = 0; i < all.size(); ++i) {
    TRY(stream.fill(address + all[i].at, value_of(i), all[i].bytes));
    std::fill_n(wanted.begin() + static_cast<std::ptrdiff_t>(all[i].at), all[i].bytes,
                std::byte{value_of(i)});
  }
  TRY(stream.copy(host.address(), seen, field));
  TRY(stream.synchronize());
  const auto is = host.bytes().first(field);
  const size_t wrong = first_difference(is, wanted);
  if (wrong == field) return {};
  const auto behind = std::upper_bound(
      all.begin(), all.end(), wrong, [](uint64_t at, const Patch &patch) { return at < patch.at; });
  const Patch patch = behind == all.begin() ? all.front() : *(behind - 1);
  return Outcome::failure(words("fills in ", where, ", ", uint64_t{wrong} - patch.at,
                                " bytes from where ", patch.bytes, " bytes at ", address + patch.at,
                                " were filled: ", explain(is, wanted)));
}

/// A large fill at an odd place.
Outcome filled_large(Test &t, Stream &stream, const Memory &memory, uint64_t bytes) {
  Mover mover(t, stream.device());
  constexpr uint64_t most = mib;  // brought to the host at once
  TRY(mover.make(most));
  TRY(stream.fill(memory.address(), edge_of_large, bytes + 16));
  TRY(stream.fill(memory.address() + 5, 0x5A, bytes));
  TRY(stream.synchronize());
  TRY(mover.check_filled(memory.address(), 5, edge_of_large));
  for (uint64_t at = 0; at < bytes; at += most)
    TRY(mover.check_filled(memory.address() + 5 + at, std::min(most, bytes - at), 0x5A));
  return mover.check_filled(memory.address() + 5 + bytes, 11, edge_of_large);
}

REQUIRE("CP-023", always(),
        "Fills of every size at every place, of all kinds of device memory, set their bytes and no "
        "others.") {
  return shapes(t, {every_owner}, [&](const Shape &shape, Queue &queue) -> Outcome {
    const uint64_t part = shape.owner == Owner::made ? 0 : 1 + static_cast<uint64_t>(shape.owner);
    uint64_t field = 0;
    (void)patches(part, &field);
    const uint64_t unit = shape.about.granule;
    Memory plain(t, Kind::plain, shape.device);
    Memory large(t, Kind::mapped, shape.device);
    Mapped mapped(t, shape.device);
    Range second(t, shape.device);
    Map alias(t, shape.device);
    Pinned host(t);
    const uint64_t bytes = std::min(shape.budget / 2, (part == 0 ? 64 : 1) * mib);
    TRY(host.allocate(field));
    {
      TRY(plain.make(bytes + 32, unit));
      Settled settled(t);
      settled.add(queue.use());
      TRY(filled(queue.use(), host, plain.address(), plain.address(), part, "plain memory"));
      TRY(filled_large(t, queue.use(), plain, bytes + 3));
    }
    if (!shape.has(WEIR_CAP_VMM)) return {};
    const uint64_t units = std::max((field + unit - 1) / unit, uint64_t{2});
    if (units * unit > shape.budget / 4) return {};
    const bool twice = shape.has(WEIR_CAP_MULTI_MAP);
    TRY(mapped.make(units * unit, unit));
    if (twice) {
      TRY(second.reserve(units * unit, unit));
      TRY(alias.map(second.address(), units * unit, mapped.granule));
    }
    Settled settled(t);
    settled.add(queue.use());
    if (twice) {
      TRY(filled(queue.use(), host, alias.address(), mapped.address(), part,
                 "a granule that is mapped twice"));
    }
    const uint64_t end = mapped.address() + units * unit;
    TRY(filled(queue.use(), host, end - field, end - field, part, "a granule, to its end"));
    const uint64_t middle = mapped.address() + (units / 2) * unit;
    const uint64_t half = std::min(field / 32 * 16, middle - mapped.address());
    const uint64_t across = std::min(middle - half, end - field);
    TRY(filled(queue.use(), host, across, across, part, "a granule, across its units"));
    const uint64_t large_unit = shape.about.granule_large;
    if (large_unit < field || large_unit > shape.budget / 4) return {};
    TRY(large.make(large_unit, large_unit));
    const uint64_t last = large.address() + large.bytes() - field;
    return filled(queue.use(), host, last, last, part, "a large granule");
  });
}

}  // namespace
}  // namespace weir::conformance
