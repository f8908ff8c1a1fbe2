// SPDX-License-Identifier: Apache-2.0
//
// Standing: whether a device belongs to the pool: in it, leaving, gone until it comes back, or lost for good. Guarded by the pool's lock.
//
// What must hold: only its verbs change it, and only those who add, remove and lose devices call them (pool/membership.cpp,
// move/losses.hpp). What is lost stays lost. Of generations there are 65535, as joining sees to.
#pragma once

#include <cassert>
#include <cstdint>

namespace weir::page {

class Standing {
 public:
  /// The runtime said so: nothing is brought here or taken from here any more.
  bool lost() const noexcept { return lost_; }
  /// Its pages are moving away: nothing is brought here.
  bool leaving() const noexcept { return leaving_; }
  /// It has left, and has its place in the pool until it comes back.
  bool gone() const noexcept { return gone_; }
  /// Whether anything may be brought here.
  bool open() const noexcept { return !lost_ && !leaving_ && !gone_; }
  /// Whoever waits for it to leave is to give up.
  bool to_stay() const noexcept { return stay_; }
  /// It is empty, and what is at home here goes elsewhere: nobody calls that off, or is at home here from now on.
  bool parting() const noexcept { return parting_; }
  /// While it leaves: nothing is waited for beyond this.
  uint64_t leave_by_ns() const noexcept { return leave_by_ns_; }
  /// The pool's generation as it came: older mappings do not let it in.
  uint32_t joined() const noexcept { return joined_; }
  /// The pool's generation as it was lost; 0: it was not.
  uint64_t lost_generation() const noexcept { return lost_generation_; }
  /// What was nowhere else then.
  uint64_t lost_bytes() const noexcept { return lost_bytes_; }

  void join(uint64_t generation) noexcept {
    joined_ = static_cast<uint32_t>(generation);
    gone_ = false;
  }
  void begin_leaving(uint64_t by_ns) noexcept {
    assert(!leaving_);
    leaving_ = true;
    stay_ = false;
    leave_by_ns_ = by_ns;
  }
  void stay() noexcept { stay_ = true; }
  void part() noexcept {
    assert(leaving_ && !stay_);
    parting_ = true;
  }
  void end_leaving() noexcept {
    leaving_ = parting_ = false;
    leave_by_ns_ = 0;
  }
  void leave() noexcept { gone_ = true; }
  void lose() noexcept { lost_ = true; }
  void count_loss(uint64_t generation, uint64_t bytes) noexcept {
    lost_generation_ = generation;
    lost_bytes_ = bytes;
  }

 private:
  bool lost_ = false, leaving_ = false, gone_ = false, stay_ = false, parting_ = false;
  uint32_t joined_ = 0;
  uint64_t leave_by_ns_ = 0, lost_generation_ = 0, lost_bytes_ = 0;
};

}  // namespace weir::page
