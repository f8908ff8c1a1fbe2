// SPDX-License-Identifier: Apache-2.0
//
// Calls as lines of a recording (docs/trace-format.md). Calls that come seldom make their lines themselves, on the caller's thread, and put
// them on the tape; acquires, releases and what Weir's own memory calls do are plain notes, of which the tape's thread makes lines.
//
// What must hold: the line of a call that makes a thing comes after it is made, that of a call that ends one before. A call of which no
// line can be made goes on without one, and counts as lost.
#pragma once

#include "core/backend/stream.hpp"
#include "core/base/notes.hpp"
#include "core/record/vmt_line.hpp"

#include <weir/lease.h>

#include <array>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weir::pool {

class Context;
class Pool;

namespace recorded {

using record::VmtLines;

/// nullptr: nobody records.
inline Tape *if_recording(Tape &tape) noexcept {
  return (tape.wanted() & notes::recording) != 0 ? &tape : nullptr;
}
inline Tape *tape_of(const Tap &tap) noexcept {
  Tape *const tape = tap.tape();
  return tape != nullptr ? if_recording(*tape) : nullptr;
}

/// Puts the lines that `make` appends on the tape, if there is one. `bytes`: what they may come to.
template <class Make>
void lines(Tape *tape, size_t bytes, Make &&make) noexcept {
  if (tape == nullptr) return;
  std::array<char, 2048> here;
  std::unique_ptr<char[]> more;
  char *memory = here.data();
  if (bytes > here.size()) {
    more.reset(new (std::nothrow) char[bytes]);
    if (more == nullptr) return tape->lose();
    memory = more.get();
  } else {
    bytes = here.size();
  }
  VmtLines text(memory, bytes);
  if (!make(text)) return tape->lose();
  notes::Text note;
  note.text_bytes = static_cast<uint32_t>(text.text().size());
  notes::put(*tape, notes::text, &note, {std::as_bytes(std::span(text.text()))});
}
/// The same of a line that has no names.
template <class Make>
void line(const Tap &tap, Make &&make) noexcept {
  lines(tape_of(tap), 0, std::forward<Make>(make));
}

inline uint64_t number(const void *handle) noexcept { return reinterpret_cast<uint64_t>(handle); }

void buffer(const Pool &pool, Tape *tape, weir_buffer made, const weir_buffer_desc &desc,
            uint32_t stack) noexcept;
void client(const Pool &pool, Tape *tape, const void *made, const weir_client_desc &desc) noexcept;
void prefetch(const Pool &pool, Tape *tape, const backend::Stream &stream, const weir_use *uses,
              size_t count) noexcept;
void announce(const Pool &pool, Tape *tape, const backend::Stream &stream,
              const weir_operation *operations, size_t count, uint64_t flags) noexcept;
/// What it has counted.
void stats(Pool &pool) noexcept;

/// The lines with which a recording begins: the context, its devices and their links. Throws std::bad_alloc.
std::string head(Context &context);
/// A pool that has been made, with its devices. Throws std::bad_alloc.
void pool(Pool &pool, Tape *tape);

}  // namespace recorded
}  // namespace weir::pool
