// SPDX-License-Identifier: Apache-2.0
//
// ProgramLog: entries are added at one end and forgotten at the other, with the links between them and the lives that they mention.

#include "core/policy/program_log.hpp"

#include <algorithm>

namespace weir::policy {
namespace {

uint32_t in_units(uint64_t bytes) noexcept {
  return static_cast<uint32_t>(std::min<uint64_t>(bytes, UINT32_MAX));
}

/// What two uses by one operation do together. Content that the first has written itself is not needed.
uint16_t both_modes(uint16_t first, uint8_t second) noexcept {
  if ((first & use_whole) != 0) return first;
  return static_cast<uint16_t>(first | (second & (use_needs | use_writes)));
}

}  // namespace

ProgramLog::ProgramLog(const Sizes &sizes, std::pmr::memory_resource *memory)
    : lives_(sizes.lives, memory),
      operations_(sizes.operations, memory),
      uses_(sizes.uses, memory),
      streams_(size_t{sizes.streams} + 1, memory),
      most_entries_(sizes.most_entries) {}

uint32_t ProgramLog::born(uint32_t buffer, uint64_t generation, uint64_t bytes,
                          uint32_t stream) noexcept {
  died(buffer);
  if (!make_room_for_a_life()) return none;
  const uint32_t born = lives_.begin(buffer, generation, bytes);
  lives_.mention(born);
  Life &life = lives_[born];
  const size_t slot = slot_of(stream);
  life.stream = static_cast<uint16_t>(slot);
  life.rank = count_birth(slot);
  life.waits = true;
  Stream &its = streams_[slot];
  life.previous_born = its.last_waiting;
  (its.last_waiting != none ? lives_[its.last_waiting].next_born : its.first_waiting) = born;
  its.last_waiting = born;
  return born;
}

uint32_t ProgramLog::known(uint32_t buffer, uint64_t generation, uint64_t bytes) noexcept {
  died(buffer);
  return make_room_for_a_life() ? lives_.begin(buffer, generation, bytes) : none;
}

void ProgramLog::skip_births(uint32_t stream, uint32_t count) noexcept {
  Stream &its = streams_[slot_of(stream)];
  its.births = static_cast<uint16_t>(std::min<uint32_t>(its.births + count, UINT16_MAX));
}

/// Dead lives are there for as long as operations mention them. Where nearly all are of buffers that live, forgetting operations
/// would give little room for much memory of the program.
bool ProgramLog::make_room_for_a_life() noexcept {
  if (!lives_.full()) return true;
  if (lives_.alive() >= lives_.capacity() - lives_.capacity() / 4) return false;
  while (lives_.full() && operations_.size() != 0) forget_oldest();
  return !lives_.full();
}

void ProgramLog::died(uint32_t buffer) noexcept {
  const uint32_t dead = lives_.of(buffer);
  if (dead == none) return;
  if (lives_[dead].waits) {  // born and dead before any operation: nothing was done with it
    stop_waiting(lives_[dead]);
    lives_.unmention(dead);
  }
  Life &life = lives_[dead];
  const uint32_t after = life.mentions != 0 ? streams_[life.stream].newest : none;
  if (after != none && operations_.holds(after)) {
    LoggedOperation &operation = operations_[after];
    life.died = after;
    lives_.mention(dead);
    (operation.last_died != none ? lives_[operation.last_died].next_died : operation.first_died) =
        dead;
    operation.last_died = dead;
  }
  lives_.end(dead);
}

void ProgramLog::left(uint32_t buffer) noexcept {
  const uint32_t gone = lives_.of(buffer);
  if (gone == none) return;
  if (lives_[gone].waits) {
    stop_waiting(lives_[gone]);
    lives_.unmention(gone);
  }
  lives_[gone].left = true;
  lives_.end(gone);
}

/// It waits no more, and its mention is the caller's.
void ProgramLog::stop_waiting(Life &life) noexcept {
  Stream &its = streams_[life.stream];
  (life.previous_born != none ? lives_[life.previous_born].next_born : its.first_waiting) =
      life.next_born;
  (life.next_born != none ? lives_[life.next_born].previous_born : its.last_waiting) =
      life.previous_born;
  life.next_born = life.previous_born = none;
  life.waits = false;
}

/// Puts a birth behind the operation's others; its mention is the operation's from now on.
void ProgramLog::add_birth(uint32_t number, uint32_t born, uint32_t rank) noexcept {
  if (rank >= UINT16_MAX) {
    lives_.unmention(born);  // it lives, and so stays known
    return;
  }
  LoggedOperation &operation = operations_[number];
  Life &life = lives_[born];
  life.rank = static_cast<uint16_t>(rank);
  life.born = number;
  life.stream = operation.stream;
  life.next_born = none;
  life.previous_born = operation.last_born;
  (operation.last_born != none ? lives_[operation.last_born].next_born : operation.first_born) =
      born;
  operation.last_born = born;
}

/// The births that have waited are the newest operation's.
void ProgramLog::take_waiting(Stream &stream, uint32_t number) noexcept {
  const uint32_t births = operations_[number].births;
  for (uint32_t next; stream.first_waiting != none; stream.first_waiting = next) {
    const uint32_t born = stream.first_waiting;
    next = lives_[born].next_born;
    lives_[born].waits = false;
    add_birth(number, born, births + lives_[born].rank);
  }
  operations_[number].births =
      static_cast<uint16_t>(std::min<uint32_t>(births + stream.births, UINT16_MAX));
  stream.last_waiting = none;
  stream.births = 0;
}

uint32_t ProgramLog::begin_operation(uint32_t name, uint32_t shape, uint32_t stream,
                                     uint32_t uses) noexcept {
  while (operations_.full() || uses_.capacity() - uses_.size() < uses) forget_oldest();
  Stream &its = streams_[stream];
  LoggedOperation operation{};
  operation.name = name;
  operation.shape = shape;
  operation.position = its.position++;
  operation.first_use = uses_.end();
  operation.previous = its.newest != none && holds(its.newest) ? its.newest : none;
  operation.next = operation.first_born = operation.last_born = none;
  operation.first_died = operation.last_died = none;
  operation.stream = static_cast<uint8_t>(stream);
  const uint32_t number = operations_.push(operation);
  if (operation.previous != none) operations_[operation.previous].next = number;
  its.newest = number;
  take_waiting(its, number);
  take_waiting(streams_.back(), number);
  return number;
}

void ProgramLog::add_use(uint32_t used, const ObservedUse &use, uint32_t slot) noexcept {
  const uint32_t number = operations_.end() - 1;
  Life &life = lives_[used];
  if (life.waits) {  // for an operation of another stream than this one
    stop_waiting(life);
    LoggedOperation &operation = operations_[number];
    add_birth(number, used, operation.births);
    if (operation.births != UINT16_MAX) ++operation.births;
  }
  const uint32_t begin = in_units(use.begin / unit);
  const uint32_t end = in_units(use.end / unit + (use.end % unit != 0));
  const uint32_t before = life.last_use;
  if (before != none && uses_[before].operation == number) {
    LoggedUse &first = uses_[before];
    first.mode = both_modes(first.mode, use.mode);
    first.begin = std::min(first.begin, begin);
    first.end = std::max(first.end, end);
    return;
  }
  const uint32_t added = uses_.push(
      {used, number, before, none, none, begin, end, use.mode, static_cast<uint16_t>(slot)});
  if (before != none) uses_[before].next = added;
  life.last_use = added;
  life.stream = operations_[number].stream;
  lives_.mention(used);
  ++operations_[number].uses;
}

bool ProgramLog::used_up() const noexcept {
  const uint32_t left =
      most_entries_ - std::min(most_entries_, std::max(operations_.end(), uses_.end()));
  return left <= UINT16_MAX;
}

void ProgramLog::clear() noexcept {
  while (operations_.size() != 0) forget_oldest();
  operations_.clear();
  uses_.clear();
  for (Stream &stream : streams_) {
    stream.newest = none;
    stream.position = 0;
  }
}

void ProgramLog::forget_oldest() noexcept {
  const LoggedOperation oldest = operations_[operations_.first()];
  for (uint32_t count = 0; count < oldest.uses; ++count) {
    const uint32_t number = uses_.first();
    const uint32_t used = uses_[number].life;
    if (lives_[used].last_use == number) lives_[used].last_use = none;
    uses_.pop();
    lives_.unmention(used);
  }
  for (uint32_t born = oldest.first_born, next; born != none; born = next) {
    Life &life = lives_[born];
    next = life.next_born;
    life.next_born = life.previous_born = life.born = none;
    lives_.unmention(born);
  }
  for (uint32_t dead = oldest.first_died, next; dead != none; dead = next) {
    next = lives_[dead].next_died;
    lives_[dead].next_died = lives_[dead].died = none;
    lives_.unmention(dead);
  }
  operations_.pop();
}

}  // namespace weir::policy
