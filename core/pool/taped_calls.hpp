// SPDX-License-Identifier: Apache-2.0
//
// Calls on a pool that a trace listens to: each does what it does without one, and tells the tape what it was and how it ended. A call
// looks for the tape itself (Tap::tape), and comes here only if there is one.
//
// What must hold: what was made is told of after it, and a release before, so that on the tape nothing is used before it is there, nor excluded by what has ended.
#pragma once

#include "core/base/notes.hpp"
#include "core/pool/pool.hpp"

#include <string_view>

namespace weir::pool::taped {

Status acquire(Pool &pool, Tape &tape, backend::Stream &stream, weir_use *uses, size_t count,
               const page::AcquireOptions &options, weir_lease *lease, bool async = false);
Status release(Pool &pool, Tape &tape, weir_lease lease, backend::Stream &stream);

/// `stack`: by which calls, of Stacks; the traces that run know it from then on. With no lock held.
void tell_buffer(const Pool &pool, Tape &tape, weir_buffer buffer, const weir_buffer_desc &desc,
                 uint32_t stack) noexcept;
void tell_new_name(const Pool &pool, Tape &tape, weir_buffer buffer, const char *name) noexcept;
/// The stream: nullptr for none. tell_free() comes before it.
void tell_allocation(const Pool &pool, Tape &tape, const backend::Stream *stream,
                     weir_device device, uint64_t address, uint64_t size, uint32_t stack) noexcept;
void tell_free(const Pool &pool, Tape &tape, const backend::Stream *stream,
               uint64_t address) noexcept;
/// It is gone.
void tell_end(const Pool &pool, Tape &tape, weir_buffer buffer) noexcept;
void tell_refusal(const Pool &pool, Tape &tape, weir_result result) noexcept;

}  // namespace weir::pool::taped
