// SPDX-License-Identifier: Apache-2.0
//
// Sizes and offsets beyond 2 and 4 GiB. They apply where a device has room: at most an eighth of its memory is held at a
// time, and only a few units of that are touched. A device that is too small is left out, and a walk that finds no other says so.
#include "conformance/process.hpp"
#include "conformance/walks.hpp"

#include <algorithm>
#include <functional>
#include <memory>

namespace weir::conformance {
namespace {

constexpr uint64_t gib_bytes = uint64_t{1} << 30U;

/// Sizes a little above 2, 4 and 8 GiB, as far as the device has room for them.
std::vector<uint64_t> sizes_with_room(const DeviceFacts &device, uint64_t more) {
  std::vector<uint64_t> sizes;
  for (const uint64_t gib : {2, 4, 8})
    if (gib * gib_bytes + more <= device.about.memory_total / 8)
      sizes.push_back(gib * gib_bytes + more);
  return sizes;
}

/// Runs the body for each device and size there is room for.
Outcome each_large_size(Test &t, uint64_t capabilities, uint64_t units, uint64_t more,
                        const std::function<Outcome(const DeviceFacts &, uint64_t)> &body) {
  uint32_t looked = 0;
  TRY(each_device(t, capabilities, [&](const DeviceFacts &device) -> Outcome {
    for (const uint64_t bytes : sizes_with_room(device, units * device.unit + more)) {
      TRY(in_shape(words(bytes, " bytes"), body(device, bytes)));
      ++looked;
    }
    return {};
  }));
  if (looked == 0) t.note("no device has room for more than 2 GiB in an eighth of its memory");
  return {};
}

/// Offsets at both ends and on both sides of each border of 1, 2, 4 and 8 GiB, in order, each with `room` bytes before the next.
std::vector<uint64_t> far_offsets(uint64_t bytes, uint64_t room) {
  std::vector<uint64_t> all{0};
  for (const uint64_t gib : {1, 2, 4, 8}) {
    if (gib * gib_bytes + room > bytes) break;
    all.push_back(gib * gib_bytes - room);
    all.push_back(gib * gib_bytes);
  }
  if (all.back() + 2 * room <= bytes) all.push_back(bytes - room);
  return all;
}

/// All are written before one is looked at: places that are taken for each other show.
Outcome write_far(Mover &mover, uint64_t address, const std::vector<uint64_t> &offsets) {
  for (const uint64_t at : offsets) TRY(mover.write(address + at, end_bytes, 1 + at));
  return {};
}
Outcome check_far(Mover &mover, uint64_t address, const std::vector<uint64_t> &offsets) {
  for (const uint64_t at : offsets)
    TRY(in_shape(words("at ", at), mover.check(address + at, end_bytes, 1 + at)));
  return {};
}

REQUIRE("PL-019", alone(),
        "Plain memory of more than 2, 4 and 8 GiB is as large as it was asked for, where the "
        "device has room.") {
  return each_large_size(t, 0, 0, 4 * mib + 77, [&](const DeviceFacts &device, uint64_t bytes) {
    const auto body = [&]() -> Outcome {
      uint64_t before = 0, during = 0;
      Mover mover(t, device.index);
      TRY(mover.make(end_bytes));
      TRY(free_bytes_of(t, device.index, &before));
      Plain plain(t, device.index), small(t, device.index);
      TRY(plain.allocate(bytes));
      TRY(free_bytes_of(t, device.index, &during));
      CHECK(during <= before && before - during + device.slack >= bytes, "of ", before,
            " free bytes ", during, " are left beside ", bytes, " of plain memory");
      TRY(small.allocate(4 * kib));
      CHECK(small.address() + small.bytes() <= plain.address() ||
                plain.address() + bytes <= small.address(),
            "other plain memory lies in it, at ", small.address());
      const std::vector<uint64_t> offsets = far_offsets(bytes, end_bytes);
      TRY(write_far(mover, plain.address(), offsets));
      TRY(mover.write(small.address(), end_bytes, 7));
      TRY(check_far(mover, plain.address(), offsets));
      const uint64_t low_half = bytes & 0xffffffff;
      if (low_half != bytes) REFUSED(plain_free, device.index, plain.address(), low_half);
      TRY(check_far(mover, plain.address(), offsets));
      TRY(plain.free());
      const uint64_t give_up = now_ns() + patience_ns / 4;
      do {
        TRY(free_bytes_of(t, device.index, &during));
      } while (during + 2 * device.slack < before && now_ns() < give_up);
      CHECK(during + 2 * device.slack >= before, "of ", before, " free bytes ", during,
            " are back");
      return {};
    };
    return body();
  });
}

REQUIRE(
    "PM-023", alone(vmm),
    "Granules of more than 2, 4 and 8 GiB are as large as they were asked for, where the device "
    "has room.") {
  return each_large_size(t, WEIR_CAP_VMM, 3, 0, [&](const DeviceFacts &device, uint64_t bytes) {
    const auto body = [&]() -> Outcome {
      uint64_t before = 0, during = 0;
      Mover mover(t, device.index);
      TRY(mover.make(end_bytes));
      TRY(free_bytes_of(t, device.index, &before));
      Mapped mapped(t, device.index), small(t, device.index);
      TRY(mapped.make(bytes, device.unit));
      TRY(small.make(device.unit, device.unit));
      TRY(free_bytes_of(t, device.index, &during));
      CHECK(during <= before && before - during + device.slack >= bytes, "of ", before,
            " free bytes ", during, " are left beside a granule of ", bytes);
      const std::vector<uint64_t> offsets = far_offsets(bytes, end_bytes);
      TRY(write_far(mover, mapped.address(), offsets));
      TRY(mover.write(small.address(), end_bytes, 7));
      TRY(check_far(mover, mapped.address(), offsets));
      const uint64_t low_half = bytes & 0xffffffff;
      if (low_half != bytes) REFUSED(unmap, device.index, mapped.address(), low_half);
      return check_far(mover, mapped.address(), offsets);
    };
    return body();
  });
}

REQUIRE("VM-048", needs(WEIR_CAP_VMM | WEIR_CAP_MAP_PART),
        "A part of a granule beyond 2, 4 and 8 GiB is mapped from where it begins, alone, in a run "
        "and of an import, where the device has room.") {
  return each_large_size(
      t, WEIR_CAP_VMM | WEIR_CAP_MAP_PART, 3, 0, [&](const DeviceFacts &device, uint64_t bytes) {
        const auto body = [&]() -> Outcome {
          const uint64_t unit = device.unit;
          const bool exports = device.has(WEIR_CAP_EXPORT_FD), runs = device.has(WEIR_CAP_MAP_RUN);
          const std::vector<uint64_t> offsets = far_offsets(bytes, unit);
          Granule granule(t, device.index), imported(t, device.index);
          Range range(t, device.index);
          Mover mover(t, device.index);
          TRY(granule.create(bytes, exports ? WEIR_BE_GRANULE_EXPORT_FD : 0));
          TRY(range.reserve(offsets.size() * unit, unit));
          TRY(mover.make(end_bytes));
          const auto each_mapped = [&](const Granule &of, bool write) -> Outcome {
            for (const uint64_t at : offsets) {
              Map map(t, device.index);
              TRY(map.map(range.address(), unit, of, at));
              TRY(write ? write_ends(mover, map.address(), unit, at)
                        : in_shape(words("the part at ", at),
                                   check_ends(mover, map.address(), unit, at)));
            }
            return {};
          };
          TRY(each_mapped(granule, true));
          TRY(each_mapped(granule, false));
          const uint64_t past = bytes - unit;
          REFUSED(map, device.index, range.address(), 2 * unit, granule.get(), past, nullptr, 0);
          REFUSED(map, device.index, range.address(), unit, granule.get(), bytes, nullptr, 0);
          // Parts of a granule that is mapped elsewhere at the same time are the business of MULTI_MAP.
          if (runs && device.has(WEIR_CAP_MULTI_MAP)) {
            std::vector<weir_be_piece> pieces;
            for (const uint64_t at : offsets) pieces.push_back({granule.get(), at, unit});
            MUST(map_run, device.index, range.address(), pieces.data(),
                 static_cast<uint32_t>(pieces.size()), nullptr, 0);
            for (size_t i = 0; i < offsets.size(); ++i)
              TRY(in_shape(words("the part at ", offsets[i], " in a run"),
                           check_ends(mover, range.address() + i * unit, unit, offsets[i])));
            MUST(unmap_run, device.index, range.address(), offsets.size() * unit);
          }
          if (!exports) return {};
          int32_t fd = -1;
          MUST(granule_export, device.index, granule.get(), &fd);
          const Descriptor sent(fd);
          TRY(imported.import(sent.get(), bytes));
          return in_shape("an import", each_mapped(imported, false));
        };
        return body();
      });
}

}  // namespace
}  // namespace weir::conformance
