// SPDX-License-Identifier: Apache-2.0
//
// Capabilities against entries, both ways: what is declared has its entries, and what is not declared has no
// entries or ones that answer NOT_SUPPORTED.
#include "conformance/fixtures.hpp"

#include <algorithm>
#include <cstring>

namespace weir::conformance {
namespace {

/// With the capability the entry must be there. Without it, it is missing or is called by `probe`.
#define WITH(capability, entry)                                            \
  CHECK(!t.has(capability) || t.table.entry != nullptr, "the device has ", \
        capability_names(capability), " and the table has no ", #entry)
#define WITHOUT(entry, ...)                                  \
  do {                                                       \
    if (t.table.entry != nullptr) {                          \
      ANSWERS(WEIR_ERROR_NOT_SUPPORTED, entry, __VA_ARGS__); \
    }                                                        \
  } while (false)

REQUIRE("CA-001", always(), "VMM is declared exactly where granules, ranges and maps work.") {
  WITH(WEIR_CAP_VMM, granule_create);
  WITH(WEIR_CAP_VMM, granule_destroy);
  WITH(WEIR_CAP_VMM, range_reserve);
  WITH(WEIR_CAP_VMM, range_free);
  WITH(WEIR_CAP_VMM, map);
  WITH(WEIR_CAP_VMM, unmap);
  if (t.has(WEIR_CAP_VMM)) return {};
  weir_be_granule granule = untouched;
  uint64_t address = untouched;
  WITHOUT(granule_create, t.device, 2 << 20U, 0, &granule);
  WITHOUT(range_reserve, t.device, 2 << 20U, 2 << 20U, &address);
  CHECK(granule == untouched && address == untouched,
        "a call that is not supported wrote a result");
  return {};
}

REQUIRE("CA-002", always(), "EXPORT_FD is declared exactly where export as a descriptor works.") {
  WITH(WEIR_CAP_EXPORT_FD, granule_export);
  WITH(WEIR_CAP_EXPORT_FD, granule_import);
  if (t.has(WEIR_CAP_EXPORT_FD)) return {};
  int32_t fd = -7;
  weir_be_granule imported = untouched;
  if (t.granule != 0) {
    Granule granule(t);
    TRY(granule.create(t.granule));
    WITHOUT(granule_export, t.device, granule.get(), &fd);
    WITHOUT(granule_import, t.device, 0, t.granule, &imported);
  } else {
    WITHOUT(granule_export, t.device, 1, &fd);
    WITHOUT(granule_import, t.device, 0, 2 << 20U, &imported);
  }
  CHECK(fd == -7 && imported == untouched, "a call that is not supported wrote a result");
  return {};
}

REQUIRE("CA-003", always(), "EXPORT_FABRIC is declared exactly where export over a fabric works.") {
  WITH(WEIR_CAP_EXPORT_FABRIC, granule_export_fabric);
  WITH(WEIR_CAP_EXPORT_FABRIC, granule_import_fabric);
  if (t.has(WEIR_CAP_EXPORT_FABRIC)) return {};
  weir_be_fabric_handle handle{};
  weir_be_granule imported = untouched;
  if (t.granule != 0) {
    Granule granule(t);
    TRY(granule.create(t.granule));
    WITHOUT(granule_export_fabric, t.device, granule.get(), &handle);
    WITHOUT(granule_import_fabric, t.device, &handle, t.granule, &imported);
  } else {
    WITHOUT(granule_export_fabric, t.device, 1, &handle);
    WITHOUT(granule_import_fabric, t.device, &handle, 2 << 20U, &imported);
  }
  CHECK(imported == untouched, "a call that is not supported wrote a result");
  return {};
}

REQUIRE("CA-004", always(),
        "HOST_REGISTER is declared exactly where the caller's memory can be registered.") {
  WITH(WEIR_CAP_HOST_REGISTER, host_register);
  WITH(WEIR_CAP_HOST_REGISTER, host_unregister);
  if (t.has(WEIR_CAP_HOST_REGISTER)) return {};
  alignas(4096) static std::byte page[4096];
  WITHOUT(host_register, page, sizeof page);
  WITHOUT(host_unregister, page, sizeof page);
  return {};
}

REQUIRE("CA-005", always(), "HOST_CALL is declared exactly where streams run host functions.") {
  WITH(WEIR_CAP_HOST_CALL, stream_host_call);
  if (t.has(WEIR_CAP_HOST_CALL)) return {};
  Stream stream(t);
  TRY(stream.create());
  bool called = false;
  WITHOUT(
      stream_host_call, stream.get(), [](void *user) { *static_cast<bool *>(user) = true; },
      &called);
  TRY(stream.synchronize());
  CHECK(!called, "the function of a call that is not supported was called");
  return {};
}

REQUIRE("CA-006", always(), "BATCH_COPY is declared exactly where several copies go in one call.") {
  WITH(WEIR_CAP_BATCH_COPY, copy_batch_async);
  if (t.has(WEIR_CAP_BATCH_COPY)) return {};
  Mover mover(t);
  Plain plain(t);
  TRY(mover.make(4096));
  TRY(plain.allocate(4096));
  const weir_be_copy copy{plain.address(), mover.staging.address(), 4096};
  WITHOUT(copy_batch_async, mover.stream.get(), &copy, 1);
  return {};
}

REQUIRE("CA-007", always(),
        "PEER is declared exactly where other devices' memory can be reached.") {
  WITH(WEIR_CAP_PEER, peer_enable);
  if (t.has(WEIR_CAP_PEER) || t.other == UINT32_MAX) return {};
  WITHOUT(peer_enable, t.device, t.other);
  return {};
}

REQUIRE("CA-008", always(),
        "Capabilities that say something about mapping or granules come with VMM.") {
  constexpr uint64_t of_vmm = WEIR_CAP_MULTI_MAP | WEIR_CAP_MAP_ANY_THREAD |
                              WEIR_CAP_MAP_MAY_BLOCK_DEVICE | WEIR_CAP_EXPORT_FD |
                              WEIR_CAP_EXPORT_FABRIC | WEIR_CAP_MAP_PART | WEIR_CAP_MAP_RUN |
                              WEIR_CAP_ACCESS_LATER;
  for (uint32_t i = 0; i < t.device_count; ++i) {
    weir_be_device about;
    TRY(t.describe(i, &about));
    const bool alone = (about.capabilities & WEIR_CAP_VMM) == 0;
    CHECK(!alone || (about.capabilities & of_vmm) == 0, "device ", i, " has ",
          capability_names(about.capabilities & of_vmm), " without VMM");
  }
  return {};
}

REQUIRE("CA-009", always(), "Every device has only capabilities whose entries are in the table.") {
  for (uint32_t i = 0; i < t.device_count; ++i) {
    weir_be_device about;
    TRY(t.describe(i, &about));
    const auto fits = [&about](uint64_t capability, bool there) {
      return (about.capabilities & capability) == 0 || there;
    };
    CHECK(fits(WEIR_CAP_VMM, t.table.map != nullptr) &&
              fits(WEIR_CAP_EXPORT_FD, t.table.granule_export != nullptr) &&
              fits(WEIR_CAP_EXPORT_FABRIC, t.table.granule_export_fabric != nullptr) &&
              fits(WEIR_CAP_HOST_REGISTER, t.table.host_register != nullptr) &&
              fits(WEIR_CAP_HOST_CALL, t.table.stream_host_call != nullptr) &&
              fits(WEIR_CAP_BATCH_COPY, t.table.copy_batch_async != nullptr) &&
              fits(WEIR_CAP_PEER, t.table.peer_enable != nullptr) &&
              fits(WEIR_CAP_MAP_RUN, t.table.map_run != nullptr) &&
              fits(WEIR_CAP_ACCESS_LATER, t.table.access_add != nullptr) &&
              fits(WEIR_CAP_NATIVE_MEMORY, t.table.native_memory != nullptr),
          "device ", i, " has ", capability_names(about.capabilities),
          ", and an entry of these is missing");
  }
  return {};
}

REQUIRE("CA-010", lacks(WEIR_CAP_MULTI_MAP, WEIR_CAP_VMM),
        "Without MULTI_MAP a second map of a granule is refused, and the first stays.") {
  Mapped mapped(t);
  Range second(t);
  Mover mover(t);
  TRY(mapped.make(t.granule, t.granule));
  TRY(second.reserve(t.granule, t.granule));
  TRY(mover.make(t.granule));
  TRY(mover.write(mapped.address(), t.granule, 1));
  REFUSED_AS(invalid_or_unsupported(), map, t.device, second.address(), t.granule,
             mapped.granule.get(), 0, nullptr, 0);
  return mover.check(mapped.address(), t.granule, 1);
}

REQUIRE("CA-011", needs(WEIR_CAP_HOST_ACCESS),
        "With HOST_ACCESS the CPU reads what was copied to the device, and writes what is copied "
        "from it.") {
  Plain plain(t);
  Mover mover(t);
  TRY(plain.allocate(64 << 10U));
  TRY(mover.make(64 << 10U));
  TRY(mover.write(plain.address(), 64 << 10U, 1));
  const std::span<std::byte> seen(reinterpret_cast<std::byte *>(plain.address()), 64 << 10U);
  TRY(check_pattern(seen, 1, "device memory seen by the CPU"));
  make_pattern(seen, 2);
  return mover.check(plain.address(), 64 << 10U, 2);
}

REQUIRE("CA-012", always(), "SHARED_RANGE comes with VMM and PEER.") {
  constexpr uint64_t needed = WEIR_CAP_VMM | WEIR_CAP_PEER;
  for (uint32_t i = 0; i < t.device_count; ++i) {
    weir_be_device about;
    TRY(t.describe(i, &about));
    const bool claimed = (about.capabilities & WEIR_CAP_SHARED_RANGE) != 0;
    CHECK(!claimed || (about.capabilities & needed) == needed, "device ", i,
          " has SHARED_RANGE without ", capability_names(needed & ~about.capabilities));
  }
  return {};
}

REQUIRE("CA-013", (Needs{WEIR_CAP_VMM, WEIR_CAP_SHARED_RANGE, 2, false}),
        "Without SHARED_RANGE another device's granule is not mapped in a range of the device.") {
  weir_be_device about;
  TRY(t.describe(t.other, &about));
  if (about.granule == 0) return t.nothing("the other device has no granules");
  const uint64_t bytes = std::max(t.granule, about.granule);
  Range range(t);
  Granule granule(t, t.other);
  TRY(range.reserve(bytes, bytes));
  TRY(granule.create(bytes));
  REFUSED_AS(invalid_or_unsupported(), map, t.other, range.address(), bytes, granule.get(), 0,
             nullptr, 0);
  TRY(granule.destroy());
  return range.free();
}

REQUIRE("CA-014", always(), "MAP_RUN is declared exactly where runs are mapped in one call.") {
  WITH(WEIR_CAP_MAP_RUN, map_run);
  WITH(WEIR_CAP_MAP_RUN, unmap_run);
  if (t.has(WEIR_CAP_MAP_RUN)) return {};
  if (t.granule == 0) {
    const weir_be_piece piece{1, 0, 2 << 20U};
    WITHOUT(map_run, t.device, 2 << 20U, &piece, 1, nullptr, 0);
    WITHOUT(unmap_run, t.device, 2 << 20U, 2 << 20U);
    return {};
  }
  Mapped mapped(t);
  TRY(mapped.make(t.granule, t.granule));
  WITHOUT(unmap_run, t.device, mapped.address(), t.granule);
  TRY(mapped.mapping.unmap());
  const weir_be_piece piece{mapped.granule.get(), 0, t.granule};
  WITHOUT(map_run, t.device, mapped.address(), &piece, 1, nullptr, 0);
  return {};
}

REQUIRE("CA-015", always(),
        "ACCESS_LATER is declared exactly where peers can be given access to what is mapped.") {
  WITH(WEIR_CAP_ACCESS_LATER, access_add);
  if (t.has(WEIR_CAP_ACCESS_LATER)) return {};
  const uint32_t peer = t.other != UINT32_MAX ? t.other : t.device;
  if (t.granule == 0) {
    WITHOUT(access_add, t.device, 2 << 20U, 2 << 20U, &peer, 1);
    return {};
  }
  Mapped mapped(t);
  TRY(mapped.make(t.granule, t.granule));
  WITHOUT(access_add, t.device, mapped.address(), t.granule, &peer, 1);
  return {};
}

REQUIRE("CA-016", always(),
        "TRANSFER_STREAM is declared exactly where streams for copies alone can be made.") {
  weir_be_stream made = nullptr;
  if (t.has(WEIR_CAP_TRANSFER_STREAM)) {
    MUST(stream_create, t.device, WEIR_BE_STREAM_TRANSFER, &made);
    MUST(stream_destroy, made);
  } else {
    ANSWERS(WEIR_ERROR_INVALID_ARGUMENT, stream_create, t.device, WEIR_BE_STREAM_TRANSFER, &made);
    CHECK(made == nullptr, "the refused call wrote a stream");
  }
  return {};
}

REQUIRE("CA-017", always(), "ACCESS_LATER comes with PEER.") {
  for (uint32_t i = 0; i < t.device_count; ++i) {
    weir_be_device about;
    TRY(t.describe(i, &about));
    const bool claimed = (about.capabilities & WEIR_CAP_ACCESS_LATER) != 0;
    CHECK(!claimed || (about.capabilities & WEIR_CAP_PEER) != 0, "device ", i,
          " has ACCESS_LATER without PEER");
  }
  return {};
}

/// A struct for native_memory, of a kind that no backend has, and bytes that must stay.
struct Told {
  uint32_t struct_size = sizeof(Told);
  uint32_t bytes[15] = {};
};
constexpr uint32_t no_kind = UINT32_MAX;

REQUIRE("CA-020", always(),
        "NATIVE_MEMORY is declared exactly where objects behind addresses are told.") {
  WITH(WEIR_CAP_NATIVE_MEMORY, native_memory);
  if (t.has(WEIR_CAP_NATIVE_MEMORY)) return {};
  Told told;
  WITHOUT(native_memory, t.device, 2 << 20U, 1, &told);
  return {};
}

REQUIRE("CA-021", needs(WEIR_CAP_NATIVE_MEMORY),
        "Objects behind addresses are not told of an unknown kind, of a device that does not "
        "exist, or where no "
        "memory is.") {
  Plain plain(t);
  TRY(plain.allocate(64 << 10U));
  Told told;
  const auto untouched = [&told] {
    const Told before;
    return std::memcmp(&told, &before, sizeof told) == 0;
  };
  REFUSED(native_memory, t.device, plain.address(), no_kind, &told);
  CHECK(untouched(), "the refused call wrote what it tells");
  for (uint32_t kind = 0; kind < 8; ++kind) {
    REFUSED(native_memory, t.no_device(), plain.address(), kind, &told);
    REFUSED(native_memory, t.device, 0, kind, &told);
    CHECK(untouched(), "a refused call with kind ", kind, " wrote what it tells");
  }
  return {};
}

}  // namespace
}  // namespace weir::conformance
