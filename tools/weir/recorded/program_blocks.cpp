// SPDX-License-Identifier: Apache-2.0
//
// One call makes no event, one, or several: those of an acquire are told one by one.
#include "tools/weir/recorded/program_blocks.hpp"

#include "tools/weir/recorded/stack_tags.hpp"
#include "tools/weir/text.hpp"

#include <weir/weir.h>

#include <utility>

namespace weir::tool::recorded {

using Kind = TraceEvent::Kind;

ProgramBlocks::ProgramBlocks(Program program, bool with_stacks)
    : program_(std::move(program)),
      buffers_(program_.buffers.size(), no_thing),
      allocations_(program_.allocations.size(), no_thing),
      blocks_of_(program_.pools.size()) {
  if (with_stacks && !program_.stacks.empty()) stacks_ = stack_tags(program_, &program_.notes);
}

bool ProgramBlocks::next(TraceEvent &event) {
  for (;;) {
    event = TraceEvent{};
    if (!dying_.empty()) {
      event.kind = Kind::free;
      event.id = dying_.back();
      dying_.pop_back();
      return true;
    }
    if (in_operation_) {
      if (use_ == uses_end_) {
        in_operation_ = false;
        event.kind = Kind::end;
        return true;
      }
      const ProgramUse &use = program_.uses[use_++];
      event.kind = Kind::use;
      event.id = buffers_[use.buffer];
      event.mode = use.mode == WEIR_READ ? 'r' : use.mode == WEIR_DISCARD_WRITE ? 'w' : 'x';
      event.span = use.offset != 0 || use.length != program_.buffers[use.buffer].size;
      event.offset = use.offset;
      event.length = event.touched = use.length;
      return true;
    }
    if (call_ == program_.calls.size()) return false;
    if (take(program_.calls[call_++], event)) return true;
  }
}

bool ProgramBlocks::take(const ProgramCall &call, TraceEvent &event) {
  switch (call.kind) {
    case CallKind::buffer: {
      const ProgramBuffer &buffer = program_.buffers[call.thing];
      tag(program_.names[buffer.name], buffer.stack, "buffer");
      born(&buffers_[call.thing], buffer.pool, buffer.size, event);
      return true;
    }
    case CallKind::allocate: {
      const ProgramAllocation &allocation = program_.allocations[call.thing];
      tag(program_.names[allocation.name], allocation.stack, "malloc");
      born(&allocations_[call.thing], allocation.pool, allocation.bytes, event);
      return true;
    }
    case CallKind::end_buffer:
    case CallKind::free:
      event.kind = Kind::free;
      event.id = call.kind == CallKind::free ? allocations_[call.thing] : buffers_[call.thing];
      live_[event.id] = false;
      return true;
    case CallKind::end_pool:
      for (const uint32_t block : blocks_of_[call.pool])
        if (live_[block]) {
          live_[block] = false;
          dying_.push_back(block);
        }
      std::vector<uint32_t>().swap(blocks_of_[call.pool]);
      return false;
    case CallKind::acquire:
      event.kind = Kind::operation;
      event.id = operations_++;
      word(program_.names[call.name], "acquire");
      event.text = word_;
      use_ = call.first;
      uses_end_ = call.first + call.count;
      in_operation_ = true;
      return true;
    case CallKind::time:
      event.kind = Kind::time;
      event.id = call.length;
      return true;
    case CallKind::phase:
      event.kind = Kind::phase;
      word(program_.names[call.name], "phase");
      event.text = word_;
      return true;
    case CallKind::read:
    case CallKind::write:
    case CallKind::discard:
    case CallKind::hold:
    case CallKind::prefetch:
    case CallKind::announce:
    case CallKind::trim:
    case CallKind::rebalance:
    case CallKind::defragment:
      ++left_out_;
      return false;
    default:
      return false;
  }
}

void ProgramBlocks::word(const std::string &name, const char *otherwise) {
  word_ = utf8_text(name.empty() ? otherwise : name);
  for (char &c : word_)
    if ((c >= 0 && c < ' ') || c == 127) c = '?';
}

void ProgramBlocks::tag(const std::string &name, uint32_t stack, const char *otherwise) {
  const std::string none;
  const std::string &frames = stack < stacks_.size() ? stacks_[stack] : none;
  if (frames.empty()) return word(name, otherwise);
  // A snapshot of PyTorch's has no names but those of frames.
  const bool named = name.empty() || frames == name || frames.ends_with(';' + name);
  word(named ? frames : frames + ';' + name, otherwise);
}

void ProgramBlocks::born(uint32_t *block, uint32_t pool, uint64_t bytes, TraceEvent &event) {
  *block = static_cast<uint32_t>(live_.size());
  live_.push_back(true);
  blocks_of_[pool].push_back(*block);
  event.kind = Kind::alloc;
  event.id = *block;
  event.bytes = bytes;
  event.text = word_;
}

std::vector<std::string> ProgramBlocks::notes() const {
  std::vector<std::string> notes = program_.notes;
  if (left_out_ != 0)
    notes.push_back(std::to_string(left_out_) +
                    " calls that are no operations (reads and writes by the CPU, holds, "
                    "announcements and the like) were left out");
  if (program_.pools.size() > 1)
    notes.push_back("the " + std::to_string(program_.pools.size()) + " pools are taken for one");
  return notes;
}

}  // namespace weir::tool::recorded
