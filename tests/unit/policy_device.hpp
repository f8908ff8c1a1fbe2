// SPDX-License-Identifier: Apache-2.0
//
// A device's memory and its link in virtual time, for the tests of the policy. Of each buffer the last bytes of its content are
// resident, [low, content), and the first are good below, [0, clean). One transfer at a time passes each direction of the link.
// Memory of what is written back is free when its copy has ended.
//
// What must hold: resident bytes and free ones make the capacity; a byte that is not resident is clean (low <= clean).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace weir::test {

class Device {
 public:
  struct Buffer {
    uint64_t content = 0, low = 0, clean = 0;
    double arrived = 0;  ///< when the last fetch ends
    double written = 0;  ///< when the last write-back ends
    uint64_t resident() const { return content - low; }
    uint64_t clean_from_low() const { return std::max(clean, low) - low; }
    uint64_t dirty() const { return content - std::min(content, std::max(clean, low)); }
  };

  Device(uint32_t buffers, uint64_t capacity, uint64_t page, double bytes_per_ns)
      : buffers_(buffers),
        page_(page),
        speed_(bytes_per_ns),
        room_(static_cast<int64_t>(capacity)),
        free_now_(static_cast<int64_t>(capacity)) {}

  const Buffer &operator[](uint32_t buffer) const { return buffers_[buffer]; }
  uint64_t page() const { return page_; }
  /// Bytes that are free once all write-backs have ended.
  int64_t room() const { return room_; }
  double up_busy_until() const { return up_; }
  double down_busy_until() const { return down_; }
  uint64_t fetched() const { return fetched_; }
  uint64_t written_back() const { return written_back_; }

  /// Write-backs that have ended by then have freed their memory.
  void settle(double now) {
    while (!pending_.empty() && pending_.top().first <= now) {
      free_now_ += static_cast<int64_t>(pending_.top().second);
      pending_.pop();
    }
  }

  /// The first `bytes` of what is resident go, whole pages; returns how many have gone.
  uint64_t evict(uint32_t buffer, uint64_t bytes, double now) {
    Buffer &its = buffers_[buffer];
    bytes = std::min(its.resident(), (bytes + page_ - 1) / page_ * page_);
    if (its.resident() - bytes < 4096) bytes = its.resident();
    const uint64_t dirty = bytes - std::min(bytes, its.clean_from_low());
    release(its, bytes - dirty, now);
    if (dirty != 0) {
      write_back(its, dirty, now);
      pending_.push({down_, dirty});
    }
    its.low += bytes;
    its.clean = std::max(its.clean, its.low);
    room_ += static_cast<int64_t>(bytes);
    return bytes;
  }
  /// Of what is dirty the first bytes are written back and stay.
  void clean(uint32_t buffer, uint64_t bytes, double now) {
    Buffer &its = buffers_[buffer];
    bytes = std::min(bytes, its.dirty());
    write_back(its, bytes, now);
    its.clean = std::max(its.clean, its.low) + bytes;
  }
  /// So many bytes before those that are resident come up; there is room.
  void fetch(uint32_t buffer, uint64_t bytes, double now) {
    Buffer &its = buffers_[buffer];
    const double memory = take(bytes);
    up_ = std::max({now, up_, memory, its.written}) + static_cast<double>(bytes) / speed_;
    its.arrived = std::max(its.arrived, up_);
    its.low -= bytes;
    fetched_ += bytes;
  }
  /// All of it is written anew, `content` bytes; there is room. Returns when there is memory.
  double overwrite(uint32_t buffer, uint64_t content) {
    Buffer &its = buffers_[buffer];
    const double memory = take(content - its.resident());
    its.low = its.clean = 0;
    its.content = content;
    return memory;
  }
  /// It grows to `content` bytes; there is room. Returns when there is memory.
  double grow(uint32_t buffer, uint64_t content) {
    const double memory = take(content - buffers_[buffer].content);
    buffers_[buffer].content = content;
    return memory;
  }
  /// What is behind `from` is newer than below.
  void write(uint32_t buffer, uint64_t from) {
    buffers_[buffer].clean = std::min(buffers_[buffer].clean, from / page_ * page_);
  }
  void destroy(uint32_t buffer, double now) {
    Buffer &its = buffers_[buffer];
    room_ += static_cast<int64_t>(its.resident());
    const double until = std::max(its.arrived, its.written);
    if (until > now)
      pending_.push({until, its.resident()});
    else
      free_now_ += static_cast<int64_t>(its.resident());
    its = Buffer{};
  }

 private:
  using Pending = std::pair<double, uint64_t>;

  void release(const Buffer &its, uint64_t bytes, double now) {
    if (bytes != 0 && its.written > now)
      pending_.push({its.written, bytes});
    else
      free_now_ += static_cast<int64_t>(bytes);
  }
  void write_back(Buffer &its, uint64_t bytes, double now) {
    down_ = std::max({now, down_, its.arrived}) + static_cast<double>(bytes) / speed_;
    its.written = down_;
    written_back_ += bytes;
  }
  /// When so many bytes are free; they are taken.
  double take(uint64_t bytes) {
    room_ -= static_cast<int64_t>(bytes);
    free_now_ -= static_cast<int64_t>(bytes);
    double when = 0;
    while (free_now_ < 0 && !pending_.empty()) {
      when = pending_.top().first;
      free_now_ += static_cast<int64_t>(pending_.top().second);
      pending_.pop();
    }
    if (when > 0 &&
        free_now_ > 0) {  // not all that ends then is taken, and the rest is free no earlier
      pending_.push({when, static_cast<uint64_t>(free_now_)});
      free_now_ = 0;
    }
    return when;
  }

  std::vector<Buffer> buffers_;
  uint64_t page_;
  double speed_;
  int64_t room_, free_now_;
  std::priority_queue<Pending, std::vector<Pending>, std::greater<>> pending_;
  double up_ = 0, down_ = 0;
  uint64_t fetched_ = 0, written_back_ = 0;
};

}  // namespace weir::test
