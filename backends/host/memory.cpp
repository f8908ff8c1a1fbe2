// SPDX-License-Identifier: Apache-2.0
//
// Files, views, and the first-fit allocator of a device's file. Freed pages are punched out of the
// file (unless told not to) before the piece can be taken again, never after.

#include "backends/host/memory.hpp"

#include "backends/host/fault.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

namespace weir::host {
namespace {

constexpr int needed_seals = F_SEAL_SHRINK;

off_t file_offset(uint64_t value) { return static_cast<off_t>(value); }

/// Gives back what was taken of a room, unless it has been made to forget it.
struct RoomTaken {
  Room *room;
  uint64_t bytes;
  ~RoomTaken() {
    if (room != nullptr) room->give_back(bytes);
  }
};

class ForeignExtent final : public Extent {
 public:
  ForeignExtent(Descriptor file, View view, DeviceMemory::Place place) noexcept
      : Extent(file.get(), place.offset, place.bytes, view.base()),
        file_(std::move(file)),
        view_(std::move(view)) {}

 private:
  Descriptor file_;
  View view_;
};

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

View::~View() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

weir_result View::open(int fd, uint64_t offset, uint64_t bytes) {
  void *base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
                    file_offset(offset));
  if (base == MAP_FAILED) {
    return system_failure(errno, "a view of %llu bytes", static_cast<unsigned long long>(bytes));
  }
  base_ = static_cast<std::byte *>(base);
  bytes_ = bytes;
  if (madvise(base, bytes, MADV_DONTFORK) != 0) return system_failure(errno);
  return WEIR_SUCCESS;
}

bool Room::take(uint64_t bytes) noexcept {
  uint64_t before = free_.load(std::memory_order_relaxed);
  while (before >= bytes)
    if (free_.compare_exchange_weak(before, before - bytes, std::memory_order_relaxed)) return true;
  return false;
}

/// An extent of our own file; giving it back is its end.
class DeviceMemory::Piece final : public Extent {
 public:
  Piece(DeviceMemory &memory, uint64_t offset, uint64_t bytes) noexcept
      : Extent(memory.file_.get(), offset, bytes, memory.view_.base() + offset), memory_(memory) {}
  ~Piece() override { memory_.give_back(offset(), bytes()); }

 private:
  DeviceMemory &memory_;
};

weir_result DeviceMemory::open(uint32_t index, uint64_t bytes, bool punch_hole,
                               std::shared_ptr<Room> room) {
  char name[32];
  std::snprintf(name, sizeof name, "weir-host-%u", index);
  Descriptor file(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.get() < 0) return system_failure(errno);
  // Asked first, because passing the limit raises a signal that ends the program.
  rlimit limit{};
  const bool passes = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
                      bytes > limit.rlim_cur;
  if (passes || ftruncate(file.get(), file_offset(bytes)) != 0) {
    if (passes) errno = EFBIG;
    return system_failure(errno, "%llu bytes of device memory",
                          static_cast<unsigned long long>(bytes));
  }
  // An importer's mapping must never outgrow the file.
  if (fcntl(file.get(), F_ADD_SEALS, needed_seals | F_SEAL_GROW) != 0) return system_failure(errno);
  View view;
  WEIR_BACKEND_TRY(view.open(file.get(), 0, bytes));
  holes_.emplace(0, bytes);
  file_ = std::move(file);
  view_ = std::move(view);
  total_ = available_ = bytes;
  punch_hole_ = punch_hole;
  room_ = std::move(room);
  return WEIR_SUCCESS;
}

weir_result DeviceMemory::full(uint64_t bytes) const {
  const bool room = room_ == nullptr || room_->free() >= bytes;
  return refuse(WEIR_ERROR_DEVICE_OOM, "%llu bytes asked for, %llu of %llu free, and %s",
                static_cast<unsigned long long>(bytes),
                static_cast<unsigned long long>(room ? available_ : room_->free()),
                static_cast<unsigned long long>(total_),
                room ? "no contiguous piece of that size" : "others have the rest of that memory");
}

weir_result DeviceMemory::take_low(uint64_t bytes, uint64_t alignment,
                                   std::shared_ptr<Extent> *extent) {
  std::lock_guard hold(mutex_);
  for (const auto &[offset, size] : holes_) {
    const uint64_t start = (offset + alignment - 1) / alignment * alignment;
    if (start - offset <= size && bytes <= size - (start - offset)) {
      return adopt(start, bytes, extent);
    }
  }
  return full(bytes);
}

weir_result DeviceMemory::take_high(uint64_t bytes, std::shared_ptr<Extent> *extent) {
  std::lock_guard hold(mutex_);
  for (auto hole = holes_.rbegin(); hole != holes_.rend(); ++hole) {
    if (bytes <= hole->second) return adopt(hole->first + hole->second - bytes, bytes, extent);
  }
  return full(bytes);
}

weir_result DeviceMemory::adopt(uint64_t offset, uint64_t bytes, std::shared_ptr<Extent> *extent) {
  if (room_ != nullptr && !room_->take(bytes)) return full(bytes);
  RoomTaken taken_room{room_.get(), bytes};
  // All that can run out of memory comes first, while nothing has changed. A cut in a hole's middle
  // leaves two holes; the second one's record is made here too.
  Holes spare;
  spare.emplace(offset, bytes);
  Holes tail;
  tail.emplace(offset + bytes, 0);
  const auto taken = taken_.try_emplace(offset).first;
  std::shared_ptr<Piece> piece;
  try {
    piece = std::make_shared<Piece>(*this, offset, bytes);
  } catch (...) {
    taken_.erase(taken);
    throw;
  }
  taken->second.extent = piece;
  taken->second.room = spare.extract(offset);

  auto hole = std::prev(holes_.upper_bound(offset));
  const uint64_t hole_end = hole->first + hole->second;
  hole->second = offset - hole->first;
  if (offset + bytes < hole_end) {
    auto node = tail.extract(offset + bytes);
    node.mapped() = hole_end - offset - bytes;
    holes_.insert(std::move(node));
  }
  if (hole->second == 0) holes_.erase(hole);
  available_ -= bytes;
  taken_room.room = nullptr;
  *extent = std::move(piece);
  return WEIR_SUCCESS;
}

void DeviceMemory::give_back(uint64_t offset, uint64_t bytes) noexcept {
  if (punch_hole_) {
    // A refusal only means that the pages stay with the file; contents of new granules are
    // undefined anyway.
    (void)fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, file_offset(offset),
                    file_offset(bytes));
  }
  std::lock_guard hold(mutex_);
  if (room_ != nullptr) room_->give_back(bytes);
  auto taken = taken_.find(offset);
  auto hole = holes_.insert(std::move(taken->second.room)).position;
  taken_.erase(taken);
  available_ += bytes;
  if (const auto next = std::next(hole); next != holes_.end() && offset + bytes == next->first) {
    hole->second += next->second;
    holes_.erase(next);
  }
  if (hole == holes_.begin()) return;
  if (const auto before = std::prev(hole); before->first + before->second == offset) {
    before->second += hole->second;
    holes_.erase(hole);
  }
}

uint64_t DeviceMemory::available() const {
  std::lock_guard hold(mutex_);
  return room_ != nullptr ? std::min(available_, room_->free()) : available_;
}

bool DeviceMemory::owns(int fd) const noexcept {
  struct stat ours {};
  struct stat theirs {};
  return fstat(file_.get(), &ours) == 0 && fstat(fd, &theirs) == 0 &&
         ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

std::shared_ptr<Extent> DeviceMemory::find(Place place) const {
  std::shared_ptr<Extent> extent;
  {
    std::lock_guard hold(mutex_);
    const auto taken = taken_.find(place.offset);
    if (taken != taken_.end()) extent = taken->second.extent.lock();
  }
  // Compared and, if need be, dropped outside the lock: the last owner gives back under it.
  return extent != nullptr && extent->bytes() == place.bytes ? extent : nullptr;
}

weir_result export_extent(const Extent &extent, int32_t *fd) {
  char path[40];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", extent.fd());
  Descriptor file(open(path, O_RDWR | O_CLOEXEC));
  if (file.get() < 0) return system_failure(errno);
  if (lseek(file.get(), file_offset(extent.offset()), SEEK_SET) < 0) return system_failure(errno);
  *fd = file.release();
  return WEIR_SUCCESS;
}

weir_result exported_place(int fd, uint64_t bytes, DeviceMemory::Place *place) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & needed_seals) == 0) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "fd %d is no exported device memory", fd);
  }
  const off_t offset = lseek(fd, 0, SEEK_CUR);
  struct stat info {};
  if (offset < 0 || fstat(fd, &info) != 0) return system_failure(errno);
  const uint64_t size = static_cast<uint64_t>(info.st_size);
  const uint64_t start = static_cast<uint64_t>(offset);
  if (start > size || bytes > size - start) {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "fd %d has no %llu bytes from offset %llu on", fd,
                  static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(start));
  }
  *place = DeviceMemory::Place{start, bytes};
  return WEIR_SUCCESS;
}

weir_result import_file(int fd, DeviceMemory::Place place, std::shared_ptr<Extent> *extent) {
  Descriptor file(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (file.get() < 0) return system_failure(errno);
  View view;
  WEIR_BACKEND_TRY(view.open(file.get(), place.offset, place.bytes));
  *extent = std::make_shared<ForeignExtent>(std::move(file), std::move(view), place);
  return WEIR_SUCCESS;
}

}  // namespace weir::host
