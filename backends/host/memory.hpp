// SPDX-License-Identifier: Apache-2.0
//
// Device memory: one sparse memfd per device, and a permanent view of all of it (the "physical
// view"), through which copies and fills go. An Extent is a contiguous piece of such a file. It
// stays taken as long as any shared_ptr to it lives, so no memory is handed out twice while a
// mapping or a granule still names it. Nothing here knows addresses that a program uses; that is
// address_space.hpp.
#pragma once

#include <weir/backend.h>

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace weir::host {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  Descriptor(Descriptor &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();
  int get() const noexcept { return fd_; }
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

/// A shared mapping of a piece of a file that unmaps itself. A child made by fork() does not have
/// it.
class View {
 public:
  View() = default;
  View(View &&other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  View &operator=(View &&other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~View();
  weir_result open(int fd, uint64_t offset, uint64_t bytes);
  std::byte *base() const noexcept { return base_; }

 private:
  std::byte *base_ = nullptr;
  uint64_t bytes_ = 0;
};

/// A contiguous piece of a memory file.
class Extent {
 public:
  virtual ~Extent() = default;
  Extent(const Extent &) = delete;
  Extent &operator=(const Extent &) = delete;

  int fd() const noexcept { return fd_; }
  uint64_t offset() const noexcept { return offset_; }  ///< in the file
  uint64_t bytes() const noexcept { return bytes_; }
  std::byte *physical() const noexcept { return physical_; }
  /// Whether it was mapped before; remembers that it is now.
  bool mapped_before() noexcept { return mapped_.exchange(true, std::memory_order_relaxed); }

 protected:
  Extent(int fd, uint64_t offset, uint64_t bytes, std::byte *physical) noexcept
      : fd_(fd), offset_(offset), bytes_(bytes), physical_(physical) {}

 private:
  int fd_;
  uint64_t offset_, bytes_;
  std::byte *physical_;
  std::atomic<bool> mapped_{false};
};

/// Bytes that several devices have together.
class Room {
 public:
  explicit Room(uint64_t bytes) noexcept : free_(bytes) {}
  bool take(uint64_t bytes) noexcept;
  void give_back(uint64_t bytes) noexcept { free_.fetch_add(bytes, std::memory_order_relaxed); }
  uint64_t free() const noexcept { return free_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> free_;
};

/// The memory of one device. It must outlive its extents. Thread-safe.
class DeviceMemory {
 public:
  /// Names one extent of the file for import_file().
  struct Place {
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };

  /// `room`: nullptr, or of devices whose memory is one, which have `bytes` together.
  weir_result open(uint32_t index, uint64_t bytes, bool punch_hole,
                   std::shared_ptr<Room> room = nullptr);
  /// Granules lie at the file's low end and plain memory at its high end, so that plain memory of
  /// odd sizes does not break up the room for granules. DEVICE_OOM if no hole is large enough.
  weir_result take_low(uint64_t bytes, uint64_t alignment, std::shared_ptr<Extent> *extent);
  weir_result take_high(uint64_t bytes, std::shared_ptr<Extent> *extent);

  uint64_t total() const noexcept { return total_; }
  uint64_t available() const;
  /// Whether `fd` is a descriptor of this device's file.
  bool owns(int fd) const noexcept;
  /// The living extent at exactly this place, or nullptr.
  std::shared_ptr<Extent> find(Place place) const;

 private:
  class Piece;
  weir_result adopt(uint64_t offset, uint64_t bytes, std::shared_ptr<Extent> *extent);
  void give_back(uint64_t offset, uint64_t bytes) noexcept;
  weir_result full(uint64_t bytes) const;

  Descriptor file_;
  View view_;
  uint64_t total_ = 0;
  bool punch_hole_ = true;
  std::shared_ptr<Room> room_;
  mutable std::mutex mutex_;
  uint64_t available_ = 0;
  using Holes = std::map<uint64_t, uint64_t>;
  Holes holes_;  ///< free pieces, offset -> bytes; neighbours are merged
  struct Taken {
    std::weak_ptr<Extent> extent;
    Holes::node_type room;  ///< kept so that giving back cannot run out of memory
  };
  std::map<uint64_t, Taken> taken_;
};

/// A new descriptor of the extent's file whose position tells where the extent lies. It can be sent
/// to another process. It does not keep the memory: the exporter must keep its granule while others
/// use it.
weir_result export_extent(const Extent &extent, int32_t *fd);
/// The place that a descriptor made by export_extent() names.
weir_result exported_place(int fd, uint64_t bytes, DeviceMemory::Place *place);
/// An extent of a memory file that another export or process made.
weir_result import_file(int fd, DeviceMemory::Place place, std::shared_ptr<Extent> *extent);

}  // namespace weir::host
