// SPDX-License-Identifier: Apache-2.0
//
// Granules, reservations and mappings. What exists is in a table a device, which checks; here the driver is called in between.

#include "backends/vulkan/virtual_memory.hpp"

#include "backends/common/undo.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

namespace weir::vulkan {
namespace {

constexpr VkBufferCreateFlags sparse_flags =
    VK_BUFFER_CREATE_SPARSE_BINDING_BIT | VK_BUFFER_CREATE_SPARSE_RESIDENCY_BIT;

/// So many times a driver is asked for addresses that belong to nothing else.
constexpr size_t most_places = 64;

uint64_t number_of_piece(const Slabs::Piece *piece) noexcept {
  return reinterpret_cast<uintptr_t>(piece);
}
Slabs::Piece *piece_of(uint64_t native) noexcept {
  return reinterpret_cast<Slabs::Piece *>(static_cast<uintptr_t>(native));
}

/// The driver does not know the descriptor: what it is, and what would do.
weir_result not_the_drivers(const Device &device, int fd) noexcept {
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  char what[64] = "?";
  const ssize_t size = readlink(link.c_str(), what, sizeof what - 1);
  if (size > 0) what[size] = '\0';
  return common::runtime_failure(
      WEIR_ERROR_INVALID_ARGUMENT, VK_ERROR_INVALID_EXTERNAL_HANDLE,
      "descriptor %d (%.32s) is no memory of driver %.48s: one that it exported is needed, of a "
      "device of the same UUID (%d)",
      fd, what, device.facts().driver.c_str(), static_cast<int>(VK_ERROR_INVALID_EXTERNAL_HANDLE));
}

/// Binds side by side in addresses and memory are one.
void merge(std::vector<VkSparseMemoryBind> *binds) noexcept {
  size_t last = 0;
  for (size_t i = 1; i < binds->size(); ++i) {
    VkSparseMemoryBind &before = (*binds)[last];
    const VkSparseMemoryBind &next = (*binds)[i];
    const bool follows =
        before.memory == next.memory &&
        before.resourceOffset + before.size == next.resourceOffset &&
        (next.memory == VK_NULL_HANDLE || before.memoryOffset + before.size == next.memoryOffset);
    if (follows) {
      before.size += next.size;
    } else {
      (*binds)[++last] = next;
    }
  }
  binds->resize(binds->empty() ? 0 : last + 1);
}

}  // namespace

VirtualMemory::VirtualMemory(const Platform &platform, Memory &memory)
    : platform_(platform), memory_(memory) {
  for (const auto &device : platform.devices()) {
    Home &home = *homes_.emplace_back(std::make_unique<Home>(*device));
    constexpr bool map_part = true;
    home.table.configure(device->index(), device->granule(), device->has(WEIR_CAP_MULTI_MAP),
                         map_part);
  }
}

VirtualMemory::~VirtualMemory() {
  for (const auto &home : homes_) {
    home->table.clear([](uint64_t, uint64_t) {}, [](uint64_t native) { delete piece_of(native); });
    memory_.end_ranges(home->device.index());
  }
}

weir_result VirtualMemory::check(uint32_t device) const noexcept {
  WEIR_BACKEND_TRY(platform_.check_device(device));
  if (platform_.device(device).has(WEIR_CAP_VMM)) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_NOT_SUPPORTED, "device %u has no virtual-memory management%s", device,
                platform_.options().vmm
                    ? ": it has not the features sparseBinding and sparseResidencyBuffer"
                    : " (vmm=0)");
}

weir_result VirtualMemory::check_peers(uint32_t device, const uint32_t *peers,
                                       uint32_t count) const noexcept {
  if (count != 0 && peers == nullptr)
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "peers is NULL with peer_count=%u", count);
  for (uint32_t i = 0; i < count; ++i) {
    WEIR_BACKEND_TRY(platform_.check_device(peers[i]));
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "device %u cannot reach memory of device %u", peers[i],
                  device);
  }
  return WEIR_SUCCESS;
}

// ---- granules

/// Makes a granule of the piece, which is given back if that fails.
weir_result VirtualMemory::keep(Home *home, Slabs::Piece piece, uint64_t flags,
                                weir_be_granule *granule) {
  common::Undo undo([&] { home->slabs.give(piece); });
  auto record = std::make_unique<Slabs::Piece>(piece);
  *granule = home->table.add_granule(number_of_piece(record.get()), piece.bytes, flags);
  (void)record.release();
  undo.dismiss();
  return WEIR_SUCCESS;
}

weir_result VirtualMemory::create(uint32_t device, uint64_t bytes, uint64_t flags,
                                  weir_be_granule *granule) {
  WEIR_BACKEND_TRY(check(device));
  Home &home = *homes_[device];
  const bool exported = flags == WEIR_BE_GRANULE_EXPORT_FD && home.device.has(WEIR_CAP_EXPORT_FD);
  if (flags != 0 && !exported)
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "granule flags %#llx of device %u", number(flags),
                  device);
  WEIR_BACKEND_TRY(home.table.check_size(bytes));
  Charge charge(home.device, bytes);
  WEIR_BACKEND_TRY(charge.result());
  Slabs::Piece piece;
  WEIR_BACKEND_TRY(home.slabs.take(bytes, exported, &piece));
  WEIR_BACKEND_TRY(keep(&home, piece, flags, granule));
  charge.keep();
  return WEIR_SUCCESS;
}

weir_result VirtualMemory::destroy(uint32_t device, weir_be_granule granule) {
  WEIR_BACKEND_TRY(check(device));
  Home &home = *homes_[device];
  uint64_t native = 0;
  WEIR_BACKEND_TRY(home.table.begin_destroy(granule, &native));
  const std::unique_ptr<Slabs::Piece> piece(piece_of(native));
  home.table.end_destroy(granule, true);
  home.slabs.give(*piece);
  if (!piece->imported) home.device.give_back(piece->bytes);
  return WEIR_SUCCESS;
}

weir_result VirtualMemory::export_fd(uint32_t device, weir_be_granule granule, int32_t *fd) {
  WEIR_BACKEND_TRY(check(device));
  Home &home = *homes_[device];
  common::MappingTable::Granule found;
  WEIR_BACKEND_TRY(home.table.find_granule(granule, &found));
  if (!home.device.has(WEIR_CAP_EXPORT_FD))
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "device %u exports no memory", device);
  if ((found.flags & WEIR_BE_GRANULE_EXPORT_FD) == 0)
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "granule %#llx was not made for export",
                  number(granule));
  VkMemoryGetFdInfoKHR info{};
  info.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR;
  info.memory = piece_of(found.native)->slab->memory;
  info.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  int made = -1;
  const VkResult result = home.device.api().GetMemoryFdKHR(home.device.handle(), &info, &made);
  if (result != VK_SUCCESS) return home.device.failed(result, "vkGetMemoryFdKHR");
  (void)fcntl(made, F_SETFD, FD_CLOEXEC);
  *fd = made;
  return WEIR_SUCCESS;
}

weir_result VirtualMemory::import_fd(uint32_t device, int32_t fd, uint64_t bytes,
                                     weir_be_granule *granule) {
  WEIR_BACKEND_TRY(check(device));
  Home &home = *homes_[device];
  if (!home.device.has(WEIR_CAP_EXPORT_FD))
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "device %u imports no memory", device);
  WEIR_BACKEND_TRY(home.table.check_size(bytes));
  // A driver may take any descriptor for what it is told; one that has a size must have this one.
  struct stat about {};
  if (fd < 0 || fstat(fd, &about) != 0)
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%d is no descriptor of memory", fd);
  const auto size = static_cast<uint64_t>(about.st_size);
  // Some add what they need themselves.
  const uint64_t unit = home.device.granule();
  if (S_ISREG(about.st_mode) && (size < bytes || size - bytes >= unit)) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "descriptor %d is memory of %llu bytes, not of %llu",
                  fd, number(size), number(bytes));
  }
  if (S_ISFIFO(about.st_mode) || S_ISSOCK(about.st_mode) || S_ISDIR(about.st_mode))
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%d is no descriptor of memory", fd);
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return common::system_failure(errno, "another descriptor for %d", fd);
  common::Undo undo([&] { close(own); });
  Slabs::Piece piece;
  const weir_result imported = home.slabs.import(own, bytes, &piece);
  if (imported == WEIR_ERROR_INVALID_ARGUMENT) return not_the_drivers(home.device, fd);
  WEIR_BACKEND_TRY(imported);
  undo.dismiss();
  // What was exported here is one memory by two names; it is its maker's, and takes no more of the device.
  home.device.note_alias();
  return keep(&home, piece, 0, granule);
}

// ---- reservations

/// Vulkan has no alignment to ask for. Where the driver's own does not do, there is room to find one.
weir_result VirtualMemory::make_range(Home *home, uint64_t bytes, uint64_t alignment,
                                      VkBuffer *buffer, uint64_t *start, uint64_t *whole) const {
  Device &device = home->device;
  const VkBufferCreateFlags flags =
      sparse_flags | (device.has(WEIR_CAP_MULTI_MAP) ? aliased_buffer : 0);
  const uint32_t external = device.has(WEIR_CAP_EXPORT_FD) ? opaque_fd : 0;
  for (const uint64_t total : {bytes, bytes + alignment}) {
    const uint64_t space = device.facts().sparse_space;
    const uint64_t before = home->reserved.fetch_add(total);
    if (total > space || before > space - total) {
      home->reserved.fetch_sub(total);
      return refuse(WEIR_ERROR_DEVICE_OOM,
                    "device %u: %llu bytes of addresses asked, %llu of %llu left", device.index(),
                    number(total), number(space - std::min(before, space)), number(space));
    }
    const VkResult result = device.create_buffer(total, flags, external, buffer);
    if (result != VK_SUCCESS) {
      home->reserved.fetch_sub(total);
      return device.failed(result, "vkCreateBuffer, sparse, of %llu bytes", number(total));
    }
    *start = device.address_of(*buffer);
    *whole = total;
    if (*start % device.sparse_alignment() == 0 && (*start % alignment == 0 || total != bytes))
      return WEIR_SUCCESS;
    device.api().DestroyBuffer(device.handle(), *buffer, nullptr);
    home->reserved.fetch_sub(total);
  }
  return refuse(WEIR_ERROR_BACKEND,
                "device %u: a sparse buffer's address, %#llx, is no multiple of %llu",
                device.index(), number(*start), number(device.sparse_alignment()));
}

weir_result VirtualMemory::reserve(uint32_t device, uint64_t bytes, uint64_t alignment,
                                   uint64_t *address) {
  WEIR_BACKEND_TRY(check(device));
  Home &home = *homes_[device];
  WEIR_BACKEND_TRY(home.table.check_range(bytes, alignment));
  if (bytes > UINT64_MAX - alignment)
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "bytes=%llu with alignment=%#llx", number(bytes),
                  number(alignment));
  std::vector<Memory::RangeBuffer> aside;
  aside.reserve(most_places);
  weir_result result = WEIR_NOT_READY;
  while (result == WEIR_NOT_READY && aside.size() < most_places) {
    Memory::RangeBuffer range;
    result = add_range(&home, bytes, alignment, &range, address);
    if (result == WEIR_NOT_READY) aside.push_back(range);
  }
  for (const Memory::RangeBuffer &range : aside) end_range(&home, range);
  if (result != WEIR_NOT_READY) return result;
  return refuse(WEIR_ERROR_BACKEND,
                "device %u: its driver gives addresses that are another device's or the host's",
                device);
}

/// NOT_READY: something of another's lies there, and *range is the caller's to end.
weir_result VirtualMemory::add_range(Home *home, uint64_t bytes, uint64_t alignment,
                                     Memory::RangeBuffer *range, uint64_t *address) {
  uint64_t start = 0;
  WEIR_BACKEND_TRY(make_range(home, bytes, alignment, &range->buffer, &start, &range->whole));
  common::Undo undo([&] { end_range(home, *range); });
  const uint64_t given = (start + alignment - 1) / alignment * alignment;
  const uint32_t device = home->device.index();
  const weir_result result =
      memory_.add_range(device, given, bytes, range->buffer, given - start, range->whole);
  if (result == WEIR_NOT_READY) undo.dismiss();
  WEIR_BACKEND_TRY(result);
  common::Undo forget([&] { (void)memory_.take_range(device, given); });
  home->table.add_range(given, bytes);
  forget.dismiss();
  undo.dismiss();
  *address = given;
  return WEIR_SUCCESS;
}

void VirtualMemory::end_range(Home *home, const Memory::RangeBuffer &range) const noexcept {
  home->device.api().DestroyBuffer(home->device.handle(), range.buffer, nullptr);
  home->reserved.fetch_sub(range.whole);
}

weir_result VirtualMemory::free(uint32_t device, uint64_t address, uint64_t bytes) {
  WEIR_BACKEND_TRY(check(device));
  Home &home = *homes_[device];
  common::MappingTable::TakenRange taken;
  WEIR_BACKEND_TRY(home.table.begin_free(address, bytes, &taken));
  end_range(&home, memory_.take_range(device, address));
  return WEIR_SUCCESS;
}

bool VirtualMemory::maps(uint32_t device, uint64_t address, uint64_t bytes) const noexcept {
  uint32_t owner = 0;
  return homes_[device]->ranges.maps(address, bytes, &owner);
}

// ---- mappings

/// Offsets of the binds are addresses here.
weir_result VirtualMemory::bind(Home *home, uint64_t address,
                                std::vector<VkSparseMemoryBind> *binds) const {
  Device &device = home->device;
  if (device.lost()) return device.gone();
  Spot spot;
  if (!memory_.find(device.index(), address, 1, &spot))
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%#llx is in no range of device %u", number(address),
                  device.index());
  for (VkSparseMemoryBind &each : *binds)
    each.resourceOffset = each.resourceOffset - address + spot.offset;
  merge(binds);
  VkSparseBufferMemoryBindInfo info{};
  info.buffer = spot.buffer;
  info.bindCount = static_cast<uint32_t>(binds->size());
  info.pBinds = binds->data();
  uint64_t value = 0;
  const VkResult result = device.binder()->bind(info, *device.binds(), &value);
  if (result != VK_SUCCESS)
    return device.failed(result, "vkQueueBindSparse of %zu pieces", binds->size());
  // It is under way, and can't be taken back: a driver that can't tell any more when it is done is of no use.
  for (int tries = 0; tries < 50; ++tries) {
    const weir_result done = device.binds()->wait(value, UINT64_MAX);
    if (done == WEIR_SUCCESS || done == WEIR_ERROR_DEVICE_LOST) return done;
    usleep(1000);
  }
  device.lose();
  return device.gone();
}

weir_result VirtualMemory::map(uint32_t device, uint64_t address, uint64_t bytes,
                               weir_be_granule granule, uint64_t offset, const uint32_t *peers,
                               uint32_t peer_count) {
  const weir_be_piece piece{granule, offset, bytes};
  return map_run(device, address, &piece, 1, peers, peer_count);
}

weir_result VirtualMemory::map_run(uint32_t device, uint64_t address, const weir_be_piece *pieces,
                                   uint32_t count, const uint32_t *peers, uint32_t peer_count) {
  WEIR_BACKEND_TRY(check(device));
  WEIR_BACKEND_TRY(check_peers(device, peers, peer_count));
  Home &home = *homes_[device];
  std::vector<VkSparseMemoryBind> binds(count);
  std::vector<uint64_t> natives;
  WEIR_BACKEND_TRY(home.table.begin_map_run(address, pieces, count, &natives));
  uint64_t at = address;
  for (uint32_t i = 0; i < count; ++i) {
    const Slabs::Piece &piece = *piece_of(natives[i]);
    binds[i].resourceOffset = at;
    binds[i].size = pieces[i].bytes;
    binds[i].memory = piece.slab->memory;
    binds[i].memoryOffset = piece.offset + pieces[i].offset;
    at += pieces[i].bytes;
    common::MappingTable::Granule about;
    if (home.table.find_granule(pieces[i].granule, &about) == WEIR_SUCCESS && about.mappings > 1)
      home.device.note_alias();
  }
  const weir_result result = bind(&home, address, &binds);
  home.table.end_map_run(address, pieces, count, result == WEIR_SUCCESS);
  return result;
}

weir_result VirtualMemory::unmap(uint32_t device, uint64_t address, uint64_t bytes) {
  WEIR_BACKEND_TRY(check(device));
  Home &home = *homes_[device];
  std::vector<VkSparseMemoryBind> binds(1);
  binds[0].resourceOffset = address;
  binds[0].size = bytes;
  WEIR_BACKEND_TRY(home.table.begin_unmap(address, bytes));
  return home.table.end_unmap(address, bind(&home, address, &binds));
}

weir_result VirtualMemory::unmap_run(uint32_t device, uint64_t address, uint64_t bytes) {
  WEIR_BACKEND_TRY(check(device));
  Home &home = *homes_[device];
  std::vector<VkSparseMemoryBind> binds(1);
  binds[0].resourceOffset = address;
  binds[0].size = bytes;
  std::vector<common::MappedPiece> pieces;
  WEIR_BACKEND_TRY(home.table.begin_unmap_run(address, bytes, &pieces));
  return home.table.end_unmap_run(pieces, bind(&home, address, &binds));
}

}  // namespace weir::vulkan
