// SPDX-License-Identifier: Apache-2.0
//
// The calls, and what is told of them.

#include "core/pool/taped_calls.hpp"

#include "core/base/name.hpp"
#include "core/pool/recorded_calls.hpp"
#include "core/trace/stack_text.hpp"

#include <span>

namespace weir::pool::taped {

using notes::put;

Status acquire(Pool &pool, Tape &tape, backend::Stream &stream, weir_use *uses, size_t count,
               const page::AcquireOptions &options, weir_lease *lease, bool async) {
  WaitLog waits;
  const ListenToWaits listen(&waits);
  notes::Acquire note;
  note.begin_ns = steady_ns();
  Status status = pool.engine().acquire(stream, uses, count, options, lease);
  const bool readable = count != 0 && count <= UINT16_MAX;
  note.result = status.code();
  note.lease = status ? reinterpret_cast<uint64_t>(*lease) : 0;
  note.pool_id = pool.id();
  note.stream = stream.slot;
  note.device = stream.device != nullptr ? static_cast<int32_t>(stream.device->id) : -1;
  note.operation = options.operation;
  note.timeout_ns = options.timeout_ns;
  note.async = async;
  note.uses = readable ? static_cast<uint32_t>(count) : 0;
  note.waits = waits.count;
  note.waits_lost = waits.lost;
  // Without a recording only the first is looked at, for its name.
  const bool all = recorded::if_recording(tape) != nullptr;
  const std::span<const weir_use> told(uses, all ? note.uses : std::min<size_t>(note.uses, 1));
  note.uses_told = static_cast<uint32_t>(told.size());
  put(tape, notes::acquire, &note,
      {std::as_bytes(std::span(waits.spans.data(), waits.count)), std::as_bytes(told)});
  return status;
}

Status release(Pool &pool, Tape &tape, weir_lease lease, backend::Stream &stream) {
  notes::Release note;
  note.lease = reinterpret_cast<uint64_t>(lease);
  note.stream = stream.slot;
  put(tape, notes::release, &note);
  Status status = pool.engine().release(lease, stream);
  notes::Fence fence;
  fence.lease = note.lease;
  fence.stream = stream.slot;
  fence.result = status.code();
  if (status && stream.device != nullptr)
    fence.stamp = backend::Stamp::make(stream.slot, stream.timeline.last(), true).bits;
  put(tape, notes::fence, &fence);
  return status;
}

/// Before what it made. Two threads may tell the same one: who finds it told can rely on that.
static void tell_stack(const Pool &pool, Tape &tape, uint32_t stack) noexcept {
  Stacks *const stacks = pool.stacks();
  if (stack == 0 || stacks == nullptr) return;
  const uint32_t telling = stacks->telling();
  if (stacks->told(stack, telling)) return;
  const bool told = if_memory([&] {
    const std::string text = trace::stack_text(stacks->frames(stack));
    notes::Stack note;
    note.number = stack;
    note.text_bytes = static_cast<uint32_t>(text.size());
    put(tape, notes::stack, &note, {std::as_bytes(std::span(text))});
  });
  if (told) stacks->set_told(stack, telling);
}

static void tell_name(const Pool &pool, Tape &tape, weir_buffer buffer, const char *name,
                      notes::Buffer note = {}) noexcept {
  const std::string_view kept = kept_name(name);
  note.buffer = reinterpret_cast<uint64_t>(buffer);
  note.pool_id = pool.id();
  note.name_bytes = static_cast<uint32_t>(kept.size());
  put(tape, notes::buffer, &note, {std::as_bytes(std::span(kept))});
}

void tell_buffer(const Pool &pool, Tape &tape, weir_buffer buffer, const weir_buffer_desc &desc,
                 uint32_t stack) noexcept {
  tell_stack(pool, tape, stack);
  notes::Buffer note;
  note.made = true;
  note.size = desc.size;
  note.stack = stack;
  tell_name(pool, tape, buffer, desc.name, note);
  recorded::buffer(pool, recorded::if_recording(tape), buffer, desc, stack);
}

void tell_new_name(const Pool &pool, Tape &tape, weir_buffer buffer, const char *name) noexcept {
  tell_name(pool, tape, buffer, name);
  recorded::lines(recorded::if_recording(tape), 2048, [&](recorded::VmtLines &text) {
    return text.rename(recorded::number(buffer), kept_name(name));
  });
}

static notes::Allocation allocation_of(const Pool &pool, const backend::Stream *stream,
                                       uint64_t address) noexcept {
  notes::Allocation note;
  note.address = address;
  note.pool_id = pool.id();
  if (stream != nullptr) note.stream = stream->slot;
  if (stream != nullptr && stream->device != nullptr) note.stream_device = stream->device->id;
  return note;
}

void tell_allocation(const Pool &pool, Tape &tape, const backend::Stream *stream,
                     weir_device device, uint64_t address, uint64_t size, uint32_t stack) noexcept {
  tell_stack(pool, tape, stack);
  notes::Allocation note = allocation_of(pool, stream, address);
  note.size = size;
  note.device = device;
  note.stack = stack;
  put(tape, notes::allocate, &note);
}

void tell_free(const Pool &pool, Tape &tape, const backend::Stream *stream,
               uint64_t address) noexcept {
  notes::Allocation note = allocation_of(pool, stream, address);
  put(tape, notes::free, &note);
}

void tell_end(const Pool &pool, Tape &tape, weir_buffer buffer) noexcept {
  notes::Buffer note;
  note.buffer = reinterpret_cast<uint64_t>(buffer);
  note.pool_id = pool.id();
  put(tape, notes::buffer_end, &note);
  recorded::lines(recorded::if_recording(tape), 0, [&](recorded::VmtLines &text) {
    return text.ends(record::VmtThing::buffer, note.buffer);
  });
}

void tell_refusal(const Pool &pool, Tape &tape, weir_result result) noexcept {
  notes::Refusal note;
  note.pool_id = pool.id();
  note.result = result;
  put(tape, notes::refusal, &note);
}

}  // namespace weir::pool::taped
