// SPDX-License-Identifier: Apache-2.0
//
// Notes of which call of the driver each thread of this process is in, in a file that others can read when the process
// itself no longer answers: <WEIR_WATCH_DIR>/<pid>, mapped and shared. scripts/gpu_check/watch.py reads it and knows this
// layout. A note costs three stores; nothing is written where the variable is not set. A process that was forked writes none:
// it may not use the driver either.
#pragma once

#include <atomic>
#include <cstdint>

namespace weir::watch {

inline constexpr uint32_t most_threads = 512;
inline constexpr uint32_t most_names = 128;
inline constexpr uint32_t name_bytes = 48;

struct Slot {
  std::atomic<uint32_t> thread;  ///< 0: nobody's
  std::atomic<uint32_t> inside;  ///< the name's number and 1; 0: in no call
  std::atomic<uint64_t> calls;   ///< that this thread has begun
};
static_assert(sizeof(Slot) == 16 && std::atomic<uint64_t>::is_always_lock_free);

struct Notes {
  char magic[8];  ///< "weirnote"
  uint32_t threads;
  uint32_t names;
  char name[most_names][name_bytes];
  Slot slots[most_threads];
};

/// The slot of this thread, or nullptr: nothing is noted.
Slot *slot() noexcept;

/// From construction to destruction the thread is in the call.
class Inside {
 public:
  explicit Inside(uint32_t name) noexcept : slot_(slot()) {
    if (slot_ == nullptr) return;
    before_ = slot_->inside.load(std::memory_order_relaxed);
    slot_->calls.store(slot_->calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    slot_->inside.store(name + 1, std::memory_order_relaxed);
  }
  ~Inside() {
    if (slot_ != nullptr) slot_->inside.store(before_, std::memory_order_relaxed);
  }
  Inside(const Inside &) = delete;
  Inside &operator=(const Inside &) = delete;

 private:
  Slot *const slot_;
  uint32_t before_ = 0;
};

/// Makes the file, with these names by number. False if none is asked for, or it can't be made.
bool open_notes(const char *const *names, uint32_t count) noexcept;

}  // namespace weir::watch
