// SPDX-License-Identifier: Apache-2.0
//
// Every entry: check, ask the table, call the driver, tell the table. What fails half way is taken back before the
// failure is told.

#include "backends/cuda/granules.hpp"

#include "backends/common/undo.hpp"
#include "backends/cuda/context.hpp"
#include "backends/cuda/fault.hpp"

#include <fcntl.h>

#include <array>
#include <cstring>

namespace weir::cuda {
namespace {

using common::Undo;

constexpr uint32_t most_devices = 64;

struct Export {
  uint64_t flag;
  uint64_t capability;
  int type;
  const char *name;
};
constexpr std::array<Export, 2> exports{{
    {WEIR_BE_GRANULE_EXPORT_FD, WEIR_CAP_EXPORT_FD, abi::handle_file_descriptor,
     "as file descriptors"},
    {WEIR_BE_GRANULE_EXPORT_FABRIC, WEIR_CAP_EXPORT_FABRIC, abi::handle_fabric, "over a fabric"},
}};

abi::AccessDescription access_of(abi::Device device) noexcept {
  return {{abi::location_device, device}, abi::access_read_write};
}

}  // namespace

template <class Call>
weir_result Granules::drive(const char *what, uint64_t value, Call call) {
  abi::Context context = nullptr;
  WEIR_BACKEND_TRY(device_.context(&context));
  const Relaxed relaxed(api_);
  const abi::Result result = in_any_context(api_, context, call);
  if (result == abi::result::success) return WEIR_SUCCESS;
  return failure(api_, context, result, "%s %#llx on device %u", what, number(value),
                 device_.index());
}

template <class Call>
void Granules::undo(Call call) noexcept {
  const Relaxed relaxed(api_);
  end_quietly([&] { return in_any_context(api_, device_.known_context(), call); });
}

weir_result Granules::check_vmm() const noexcept {
  if (device_.has(WEIR_CAP_VMM)) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_NOT_SUPPORTED,
                "device %u has no virtual-memory management, or it is off (vmm=0)",
                device_.index());
}

weir_result Granules::check_flags(uint64_t flags) const noexcept {
  uint64_t known = 0;
  for (const Export &each : exports) {
    known |= each.flag;
    if ((flags & each.flag) != 0 && !device_.has(each.capability)) {
      return refuse(WEIR_ERROR_NOT_SUPPORTED, "device %u can't export granules %s, or it is off",
                    device_.index(), each.name);
    }
  }
  if ((flags & ~known) == 0) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_NOT_SUPPORTED, "granule flags %#llx, of which %#llx are known",
                number(flags), number(known));
}

weir_result Granules::create(uint64_t bytes, uint64_t flags, weir_be_granule *granule) {
  WEIR_BACKEND_TRY(check_vmm());
  WEIR_BACKEND_TRY(device_.mappings().check_size(bytes));
  WEIR_BACKEND_TRY(check_flags(flags));
  int handle_types = abi::handle_none;
  for (const Export &each : exports) {
    if ((flags & each.flag) != 0) handle_types |= each.type;
  }
  const abi::AllocationProperties properties = device_.memory_properties(handle_types);
  abi::GranuleHandle made = 0;
  WEIR_BACKEND_TRY(drive("cuMemCreate of bytes", bytes,
                         [&] { return api_.cuMemCreate(&made, bytes, &properties, 0); }));
  Undo release([&] { undo([&] { return api_.cuMemRelease(made); }); });
  *granule = device_.mappings().add_granule(made, bytes, flags);
  release.dismiss();
  return WEIR_SUCCESS;
}

weir_result Granules::destroy(weir_be_granule granule) {
  WEIR_BACKEND_TRY(check_vmm());
  uint64_t native = 0;
  WEIR_BACKEND_TRY(device_.mappings().begin_destroy(granule, &native));
  const weir_result result =
      drive("cuMemRelease of granule", granule, [&] { return api_.cuMemRelease(native); });
  device_.mappings().end_destroy(granule, result == WEIR_SUCCESS);
  return result;
}

/// What the driver reserved, aligned or not.
weir_result Granules::reserve_native(uint64_t bytes, uint64_t alignment, uint64_t *address) {
  abi::DevicePointer made = 0;
  const weir_result result = drive("cuMemAddressReserve of bytes", bytes, [&] {
    return api_.cuMemAddressReserve(&made, bytes, alignment, 0, 0);
  });
  *address = made;
  // It is addresses that ran out, no device's memory.
  return result == WEIR_ERROR_DEVICE_OOM ? WEIR_ERROR_BACKEND : result;
}

weir_result Granules::reserve(uint64_t bytes, uint64_t alignment, uint64_t *address) {
  WEIR_BACKEND_TRY(check_vmm());
  WEIR_BACKEND_TRY(device_.mappings().check_range(bytes, alignment));
  uint64_t base = 0, whole = bytes;
  const auto give_back = [&] { undo([&] { return api_.cuMemAddressFree(base, whole); }); };
  WEIR_BACKEND_TRY(reserve_native(whole, alignment, &base));
  if (base % alignment != 0) {
    // A longer one has an aligned part.
    give_back();
    if (bytes > UINT64_MAX - alignment) {
      return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%llu bytes at a multiple of %#llx", number(bytes),
                    number(alignment));
    }
    whole = bytes + alignment;
    WEIR_BACKEND_TRY(reserve_native(whole, alignment, &base));
  }
  Undo release(give_back);
  const uint64_t start = (base + alignment - 1) / alignment * alignment;
  if (whole != bytes) device_.spans().add(start, base, whole);
  Undo forget([&] { (void)device_.spans().take(start); });
  device_.mappings().add_range(start, bytes);
  forget.dismiss();
  release.dismiss();
  *address = start;
  return WEIR_SUCCESS;
}

weir_result Granules::free(uint64_t address, uint64_t bytes) {
  WEIR_BACKEND_TRY(check_vmm());
  common::MappingTable::TakenRange range;
  WEIR_BACKEND_TRY(device_.mappings().begin_free(address, bytes, &range));
  Spans::Taken span = device_.spans().take(address);
  const auto [base, whole] = Spans::known(span, address, bytes);
  const weir_result result = drive("cuMemAddressFree of", address, [&, base = base, whole = whole] {
    return api_.cuMemAddressFree(base, whole);
  });
  if (result == WEIR_SUCCESS) return WEIR_SUCCESS;
  if (!span.empty()) device_.spans().put_back(std::move(span));
  return device_.mappings().end_refused(std::move(range), result);
}

weir_result Granules::name_peers(const uint32_t *peers, uint32_t peer_count, const Devices &devices,
                                 Access *access) const {
  if (peer_count >= most_devices || (peers == nullptr && peer_count != 0)) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "peers=%p with peer_count=%u",
                  static_cast<const void *>(peers), peer_count);
  }
  for (uint32_t i = 0; i < peer_count; ++i) {
    if (peers[i] >= devices.size() || peers[i] == device_.index()) {
      return refuse(WEIR_ERROR_INVALID_ARGUMENT, "peers[%u]=%u is no other device", i, peers[i]);
    }
    Device &peer = *devices[peers[i]];
    if (!peer.reaches(device_.index())) {
      return refuse(WEIR_ERROR_NOT_SUPPORTED,
                    "device %u does not reach device %u, or peers are off", peers[i],
                    device_.index());
    }
    abi::Context context = nullptr;
    WEIR_BACKEND_TRY(peer.context(&context));
    access->push_back(access_of(peer.handle()));
  }
  return WEIR_SUCCESS;
}

weir_result Granules::set_access(uint64_t address, uint64_t bytes, const Access &access) {
  return drive("cuMemSetAccess at", address,
               [&] { return api_.cuMemSetAccess(address, bytes, access.data(), access.size()); });
}

weir_result Granules::map(uint64_t address, uint64_t bytes, weir_be_granule granule,
                          uint64_t offset, const uint32_t *peers, uint32_t peer_count,
                          const Devices &devices) {
  const weir_be_piece piece{granule, offset, bytes};
  return map_run(address, &piece, 1, peers, peer_count, devices);
}

weir_result Granules::map_run(uint64_t address, const weir_be_piece *pieces, uint32_t count,
                              const uint32_t *peers, uint32_t peer_count, const Devices &devices) {
  WEIR_BACKEND_TRY(check_vmm());
  Access access{access_of(device_.handle())};
  WEIR_BACKEND_TRY(name_peers(peers, peer_count, devices, &access));
  common::MappingTable &table = device_.mappings();
  std::vector<uint64_t> natives;
  WEIR_BACKEND_TRY(table.begin_map_run(address, pieces, count, &natives));
  Undo forget([&] { table.end_map_run(address, pieces, count, false); });
  uint64_t bytes = 0;
  uint32_t mapped = 0;
  Undo remove([&] {
    if (bytes != 0) undo([&] { return api_.cuMemUnmap(address, bytes); });
  });
  // The call may be made again, in a context: it goes on where it was refused.
  WEIR_BACKEND_TRY(drive("cuMemMap of what begins at", address, [&] {
    for (; mapped < count; bytes += pieces[mapped++].bytes) {
      const abi::Result result = api_.cuMemMap(address + bytes, pieces[mapped].bytes,
                                               pieces[mapped].offset, natives[mapped], 0);
      if (result != abi::result::success) return result;
    }
    return abi::result::success;
  }));
  WEIR_BACKEND_TRY(set_access(address, bytes, access));
  remove.dismiss();
  forget.dismiss();
  table.end_map_run(address, pieces, count, true);
  return WEIR_SUCCESS;
}

weir_result Granules::unmap_run(uint64_t address, uint64_t bytes) {
  WEIR_BACKEND_TRY(check_vmm());
  std::vector<common::MappedPiece> pieces;
  WEIR_BACKEND_TRY(device_.mappings().begin_unmap_run(address, bytes, &pieces));
  const weir_result result =
      drive("cuMemUnmap at", address, [&] { return api_.cuMemUnmap(address, bytes); });
  return device_.mappings().end_unmap_run(pieces, result);
}

weir_result Granules::add_access(uint64_t address, uint64_t bytes, const uint32_t *peers,
                                 uint32_t peer_count, const Devices &devices) {
  WEIR_BACKEND_TRY(check_vmm());
  if (peer_count == 0) return refuse(WEIR_ERROR_INVALID_ARGUMENT, "peer_count=0");
  Access access;
  WEIR_BACKEND_TRY(name_peers(peers, peer_count, devices, &access));
  std::vector<common::MappedPiece> pieces;
  WEIR_BACKEND_TRY(device_.mappings().check_run(address, bytes, &pieces));
  return set_access(address, bytes, access);
}

weir_result Granules::unmap(uint64_t address, uint64_t bytes) {
  WEIR_BACKEND_TRY(check_vmm());
  WEIR_BACKEND_TRY(device_.mappings().begin_unmap(address, bytes));
  const weir_result result =
      drive("cuMemUnmap at", address, [&] { return api_.cuMemUnmap(address, bytes); });
  return device_.mappings().end_unmap(address, result);
}

weir_result Granules::export_to(void *handle, int type, uint64_t flag, weir_be_granule granule) {
  WEIR_BACKEND_TRY(check_vmm());
  WEIR_BACKEND_TRY(check_flags(flag));
  common::MappingTable::Granule found;
  WEIR_BACKEND_TRY(device_.mappings().find_granule(granule, &found));
  if ((found.flags & flag) == 0) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                  "granule %#llx was made with flags %#llx, not for export", number(granule),
                  number(found.flags));
  }
  return drive("cuMemExportToShareableHandle of granule", granule,
               [&] { return api_.cuMemExportToShareableHandle(handle, found.native, type, 0); });
}

weir_result Granules::import_from(void *handle, int type, uint64_t flag, uint64_t bytes,
                                  weir_be_granule *granule) {
  WEIR_BACKEND_TRY(check_vmm());
  WEIR_BACKEND_TRY(check_flags(flag));
  WEIR_BACKEND_TRY(device_.mappings().check_size(bytes));
  abi::GranuleHandle made = 0;
  WEIR_BACKEND_TRY(drive("cuMemImportFromShareableHandle of bytes", bytes,
                         [&] { return api_.cuMemImportFromShareableHandle(&made, handle, type); }));
  Undo release([&] { undo([&] { return api_.cuMemRelease(made); }); });
  *granule = device_.mappings().add_granule(made, bytes, flag);
  release.dismiss();
  return WEIR_SUCCESS;
}

weir_result Granules::export_fd(weir_be_granule granule, int32_t *fd) {
  int made = -1;
  WEIR_BACKEND_TRY(
      export_to(&made, abi::handle_file_descriptor, WEIR_BE_GRANULE_EXPORT_FD, granule));
  (void)fcntl(made, F_SETFD, FD_CLOEXEC);
  *fd = made;
  return WEIR_SUCCESS;
}

// The driver takes the descriptor by value, in the pointer, and does not keep it.
weir_result Granules::import_fd(int32_t fd, uint64_t bytes, weir_be_granule *granule) {
  if (fd < 0) return refuse(WEIR_ERROR_INVALID_ARGUMENT, "fd=%d", fd);
  void *by_value = reinterpret_cast<void *>(static_cast<uintptr_t>(fd));
  return import_from(by_value, abi::handle_file_descriptor, WEIR_BE_GRANULE_EXPORT_FD, bytes,
                     granule);
}

weir_result Granules::export_fabric(weir_be_granule granule, weir_be_fabric_handle *handle) {
  abi::FabricHandle made{};
  WEIR_BACKEND_TRY(export_to(&made, abi::handle_fabric, WEIR_BE_GRANULE_EXPORT_FABRIC, granule));
  static_assert(sizeof made == sizeof *handle);
  std::memcpy(handle, &made, sizeof made);
  return WEIR_SUCCESS;
}

weir_result Granules::import_fabric(const weir_be_fabric_handle &handle, uint64_t bytes,
                                    weir_be_granule *granule) {
  abi::FabricHandle copy;
  std::memcpy(&copy, &handle, sizeof copy);
  return import_from(&copy, abi::handle_fabric, WEIR_BE_GRANULE_EXPORT_FABRIC, bytes, granule);
}

void Granules::clear() noexcept {
  device_.mappings().clear(
      [&](uint64_t address, uint64_t bytes) {
        undo([&] { return api_.cuMemUnmap(address, bytes); });
      },
      [&](uint64_t native) { undo([&] { return api_.cuMemRelease(native); }); });
}

void Granules::clear_ranges() noexcept {
  device_.mappings().clear_ranges([&](uint64_t address, uint64_t bytes) {
    const Spans::Taken span = device_.spans().take(address);
    const auto [base, whole] = Spans::known(span, address, bytes);
    undo([&, base = base, whole = whole] { return api_.cuMemAddressFree(base, whole); });
  });
}

}  // namespace weir::cuda
