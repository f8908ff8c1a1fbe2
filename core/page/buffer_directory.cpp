// SPDX-License-Identifier: Apache-2.0
//
// Names, places and holds of buffers.

#include "core/page/buffer_directory.hpp"

#include "core/page/spans.hpp"

namespace weir::page {

BufferDirectory::BufferDirectory(RegionStore &regions, std::pmr::memory_resource *memory,
                                 uint32_t pool_id)
    : regions_(regions),
      table_(memory, pool_id),
      spans_(make_owned<Spans>(memory, memory)),
      holds_(memory),
      tags_(memory),
      wishes_(memory),
      users_(memory),
      names_(memory),
      stacks_(memory),
      addresses_(memory) {}

BufferDirectory::~BufferDirectory() = default;

// ---- handles ----

Status BufferDirectory::find(weir_buffer buffer, uint32_t *index) {
  uint64_t generation = 0;
  if (table_.decode(buffer, index, &generation)) {
    const uint64_t word = hot(*index).word.load(std::memory_order_relaxed);
    if ((word & (Word::alive | Word::closing | Word::generation_mask)) ==
        (Word::alive | generation))
      return {};
  }
  return fail(WEIR_ERROR_INVALID_HANDLE, "%p is no live buffer of this pool",
              static_cast<void *>(buffer));
}

Status BufferDirectory::range_of(uint32_t index, uint64_t offset, uint64_t *length) {
  const uint64_t size = hot(index).size();
  if (offset >= size) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "offset %llu is not inside the buffer's %llu bytes",
                llu(offset), llu(size));
  }
  if (*length == WEIR_WHOLE) *length = size - offset;
  if (*length == 0 || *length > size - offset) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "length %llu at offset %llu is not inside the buffer's %llu bytes", llu(*length),
                llu(offset), llu(size));
  }
  return {};
}

Status BufferDirectory::fail_lost(uint32_t index, uint32_t page, uint64_t use) noexcept {
  const ErrorDetail detail{.use_index = use, .cause = Cause::lost, .buffer = handle(index)};
  return fail(WEIR_ERROR_DATA_LOST, detail,
              "bytes of page %u of the buffer%s were lost with their device", page,
              quoted(index).c_str());
}

// ---- life ----

uint32_t BufferDirectory::take(const Users *users, std::string_view name, uint32_t stack) {
  const uint32_t index = table_.take();
  try {
    if (users != nullptr) users_.emplace(index, *users);
    if (!name.empty()) names_.emplace(index, name);
    if (stack != 0) stacks_.emplace(index, stack);
  } catch (...) {
    give(index);
    throw;
  }
  return index;
}

void BufferDirectory::describe(uint32_t index, uint64_t size, uint32_t home) noexcept {
  hot(index).stamp.store(0, std::memory_order_relaxed);
  hot(index).address = 0;
  hot(index).set_size_device(size, home);
}

void BufferDirectory::publish(uint32_t index, uint64_t flags) noexcept {
  const uint64_t word = table_.next_generation(index) | Word::alive | flags;
  hot(index).word.store(word, std::memory_order_release);
  bytes_ += hot(index).size();
}

void BufferDirectory::kill(uint32_t index) noexcept {
  bytes_ -= hot(index).size();
  // These are empty most of the time.
  if (!holds_.empty()) holds_.erase(index);
  if (!tags_.empty()) tags_.erase(index);
  if (!wishes_.empty()) wishes_.erase(index);
  detach_span(index);
  std::atomic<uint64_t> &word = hot(index).word;
  word.store(word.load(std::memory_order_relaxed) & Word::generation_mask,
             std::memory_order_release);
}

// ---- ranges on the hit path ----

void BufferDirectory::attach_span(uint32_t index) { spans_->attach(hot(index), index, table_); }

void BufferDirectory::detach_span(uint32_t index) noexcept { spans_->detach(hot(index)); }

// ---- what callers have said of it ----

void BufferDirectory::set_name(uint32_t index, std::string_view name) {
  if (name.empty()) {
    names_.erase(index);
    return;
  }
  std::pmr::string fresh(name, names_.get_allocator());
  names_.try_emplace(index).first->second.swap(fresh);
}

uint32_t BufferDirectory::take_address(uint64_t address) noexcept {
  const uint32_t index = addresses_.find(address);
  if (index != AddressMap::none) addresses_.erase(address);
  return index;
}

// ---- holds ----

bool BufferDirectory::hold_forbids(uint32_t index, bool write, ClaimScope scope) const noexcept {
  const Hold *hold = hold_of(index);
  if (hold == nullptr) return false;
  const bool elsewhere = scope != hold->scope && scope != ClaimScope::any();
  return hold->kind == HoldKind::alone || (write && (hold->kind == HoldKind::read || elsewhere));
}

Status BufferDirectory::check_hold(uint32_t index, HoldKind kind, ClaimScope scope) {
  const Hold *hold = hold_of(index);
  if (hold == nullptr) return {};
  if (hold->scope != scope)
    return fail(WEIR_ERROR_LEASE_CONFLICT, {.cause = Cause::hold, .buffer = handle(index)},
                "the buffer%s is held on another device", quoted(index).c_str());
  if (hold->kind != kind || kind == HoldKind::alone)
    return fail(WEIR_ERROR_LEASE_CONFLICT, {.cause = Cause::hold, .buffer = handle(index)},
                "the buffer%s is held in a mode that allows no other", quoted(index).c_str());
  return {};
}

void BufferDirectory::end_hold(uint32_t index) noexcept {
  --holds_.find(index)->second.coming;
  erase_unheld(index);
}

void BufferDirectory::count_hold(uint32_t index, HoldKind kind, ClaimScope scope) noexcept {
  Hold &hold = holds_.find(index)->second;
  ++hold.count;
  hold.scope = scope;
  hold.kind = kind;
}

bool BufferDirectory::drop_hold(uint32_t index) noexcept {
  if (--holds_.find(index)->second.count != 0) return false;
  erase_unheld(index);
  return true;
}

void BufferDirectory::erase_unheld(uint32_t index) noexcept {
  const auto found = holds_.find(index);
  if (found->second.coming == 0 && found->second.count == 0) holds_.erase(found);
}

}  // namespace weir::page
