// SPDX-License-Identifier: Apache-2.0
//
// What a traced pool's threads put on the tape, by kind, and the listener that puts it there for the core. Plain records: what a name is, and how it
// is written down, is the reader's affair. Streams are their slots, buffers their handles' words, pools their numbers.
#pragma once

#include "core/base/events.hpp"
#include "core/base/tap.hpp"
#include "core/base/tape.hpp"

#include <cstring>
#include <string_view>

namespace weir::notes {

enum Kind : uint8_t {
  nothing = 0,
  pool,         ///< Pool: one is there
  acquire,      ///< Acquire, then its WaitSpan's, then its weir_use's
  release,      ///< Release: it is about to be made
  fence,        ///< Fence: it has been made
  buffer,       ///< Buffer, then its name: it is there
  buffer_end,   ///< Buffer: it is about to go
  refusal,      ///< Refusal
  round,        ///< Evictions
  stretch,      ///< Work
  move,         ///< Move
  event,        ///< Told
  stream,       ///< StreamUsed: by the text that follows
  text,         ///< Text, then it: lines of a recording
  allocate,     ///< Allocation: weir_malloc
  free,         ///< Allocation: weir_free, before it
  synchronize,  ///< Synchronize: weir_stream_synchronize has returned
  stack,        ///< Stack, then its frames (trace/stack_text.hpp): before what it made
};

/// Bits of Tape::wanted.
enum Wants : uint32_t {
  timeline = 1,   ///< moves, rounds, stretches, waits, events
  recording = 2,  ///< uses, and every call that changes where pages are
};

struct Pool : Note {
  uint32_t pool_id = 0;
  char name[256] = {};
};

struct Acquire : Note {
  uint64_t lease = 0;
  uint64_t begin_ns = 0;
  uint32_t pool_id = 0;
  uint32_t stream = 0;
  int32_t device = -1;  ///< of the context; -1: the CPU
  uint32_t operation = 0;
  uint32_t uses = 0;
  uint32_t uses_told = 0;  ///< of those, how many follow: all for a recording, else the first
  uint32_t waits = 0, waits_lost = 0;
  int32_t result = 0;
  uint64_t timeout_ns = 0;
  bool async = false;
};

struct Release : Note {
  uint64_t lease = 0;
  uint32_t stream = 0;
};

struct Fence : Note {
  uint64_t lease = 0;
  uint64_t stamp = 0;  ///< the release's, or one soon after
  int32_t result = 0;
  uint32_t stream = 0;
};

struct Buffer : Note {
  uint64_t buffer = 0;
  uint64_t size = 0;  ///< where it was made just now
  uint32_t pool_id = 0;
  uint32_t name_bytes = 0;
  uint32_t stack = 0;  ///< by which calls it was made; 0: not known, or told before
  bool made = false;   ///< just now
};

struct Refusal : Note {
  uint32_t pool_id = 0;
  int32_t result = 0;
};

struct Evictions : Note {
  uint64_t begin_ns = 0;
  uint64_t number = 0;
  uint64_t freed = 0;
  uint32_t pages = 0;
  uint32_t device = 0;  ///< of the context
  uint32_t pool_id = 0;
  bool background = false;
};

struct Work : Note {
  uint64_t begin_ns = 0;
  const char *what = "";  ///< lives as long as the library
};

/// Pages that went together from one place to another. The places are those of a mask of copies, as the numbers of their bits
/// (base/place.hpp), or zeros.
struct Move : Note {
  static constexpr uint8_t zeros = 254, nowhere = 255;
  enum Why : uint8_t { demand, prefetch, plan, background };
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;  ///< 0: when `stamp` has passed
  uint64_t stamp = 0;
  uint64_t moved_bytes = 0;
  uint32_t pool_id = 0;
  uint32_t region = UINT32_MAX;
  uint32_t owner = UINT32_MAX;   ///< the buffer's index; UINT32_MAX: several
  uint32_t first = 0, last = 0;  ///< pages
  uint8_t from = nowhere, to = nowhere;
  uint8_t why = demand;
};

struct Told : Note {
  Event what;
  uint32_t pool_id = 0;
};

struct StreamUsed : Note {
  uint32_t slot = 0;
  int32_t device = -1;  ///< of the context; -1: the CPU
};

struct Text : Note {
  uint32_t text_bytes = 0;
};

struct Synchronize : Note {
  uint32_t stream = 0;
};

struct Allocation : Note {
  uint64_t address = 0;
  uint64_t size = 0;
  uint32_t pool_id = 0;
  uint32_t device = 0;           ///< as it was given
  uint32_t stream = UINT32_MAX;  ///< UINT32_MAX: none
  uint32_t stream_device = 0;    ///< where it is
  uint32_t stack = 0;            ///< by which calls it was made; 0: not known
};

struct Stack : Note {
  uint32_t number = 0;
  uint32_t text_bytes = 0;
};

template <class Of>
void put(Tape &tape, Kind kind, Of *what, std::initializer_list<Tape::Tail> tails = {}) noexcept {
  what->kind = kind;
  if (what->ns == 0) what->ns = steady_ns();
  tape.put(what, sizeof *what, tails);
}

/// Work of a thread from here until tell(), if a tape was there by then.
class Stretch {
 public:
  Stretch(const Tap &tap, const char *what) noexcept
      : tape_(tap.tape()), what_(what), begin_ns_(tape_ != nullptr ? steady_ns() : 0) {}
  void tell() const noexcept {
    if (tape_ == nullptr) return;
    Work note;
    note.begin_ns = begin_ns_;
    note.what = what_;
    put(*tape_, stretch, &note);
  }

 private:
  Tape *const tape_;
  const char *const what_;
  const uint64_t begin_ns_;
};

/// A round of evictions from here until tell(), and a range as long as this lives.
class Round {
 public:
  Round(const Tap &tap, uint32_t pool_id, uint32_t device, size_t pages, uint64_t number) noexcept
      : range_(tap.ranges(), RangeKind::eviction,
               [&](RangeText &text) { text.add("evict %zu pages, device %u", pages, device); }),
        tape_(tap.tape()) {
    if (tape_ == nullptr) return;
    note_.begin_ns = steady_ns();
    note_.number = number;
    note_.pool_id = pool_id;
    note_.device = device;
  }
  void tell(uint64_t freed, size_t pages, bool background) noexcept {
    if (tape_ == nullptr) return;
    note_.freed = freed;
    note_.pages = static_cast<uint32_t>(pages);
    note_.background = background;
    put(*tape_, round, &note_);
  }

 private:
  const RangeScope range_;
  Tape *const tape_;
  Evictions note_;
};

}  // namespace weir::notes
