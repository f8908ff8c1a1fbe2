// SPDX-License-Identifier: Apache-2.0
//
// A log's operations with their births, uses and deaths, numbered anew.

#include "core/policy/log_saver.hpp"

#include "core/base/grow.hpp"

#include <algorithm>

namespace weir::policy {
namespace {

/// What an operation takes, its lives aside: those are no more than its births and first uses.
uint64_t record_bytes(const LoggedOperation &operation) noexcept {
  constexpr uint64_t own = 18, use = 16 + 8, birth = 6 + 8, death = 4;
  return own + operation.uses * use + operation.births * (birth + death);
}

/// Made at once: enough for a hundred operations of the usual kind, and for one of any.
constexpr size_t usual_room = 1024;

template <class Vector>
bool has(const Vector &vector, size_t more) noexcept {
  return vector.capacity() - vector.size() >= more;
}
template <class Vector>
void grow(Vector &vector, size_t more) {
  grow_by(vector, std::max(more, usual_room));
}

}  // namespace

void LogSaver::begin(const ProgramLog &log, uint64_t most_bytes) noexcept {
  next_ = end_ = log.end();
  for (uint64_t bytes = 0; next_ != log.first(); --next_) {
    bytes += record_bytes(log.operation(next_ - 1));
    if (bytes > most_bytes) break;
  }
}

void LogSaver::make_room() {
  if (known_.size() < all_lives_) known_.resize(all_lives_, Life::none);
  grow(saved_.operations, 1);
  grow(saved_.births, wanted_.births);
  grow(saved_.deaths, wanted_.deaths);
  grow(saved_.uses, wanted_.uses);
  grow(saved_.lives, wanted_.lives());
}

LogSaver::Need LogSaver::need_of(const ProgramLog &log, const LoggedOperation &operation) noexcept {
  Need need{0, 0, operation.uses};
  const Lives &lives = log.lives();
  for (uint32_t born = operation.first_born; born != Life::none; born = lives[born].next_born)
    ++need.births;
  for (uint32_t dead = operation.first_died; dead != Life::none; dead = lives[dead].next_died)
    ++need.deaths;
  return need;
}

bool LogSaver::has_room(const Need &need) const noexcept {
  return has(saved_.operations, 1) && has(saved_.births, need.births) &&
         has(saved_.deaths, need.deaths) && has(saved_.uses, need.uses) &&
         has(saved_.lives, need.lives()) && known_.size() >= all_lives_;
}

bool LogSaver::copy(const ProgramLog &log, uint32_t most) noexcept {
  if (next_ < log.first()) next_ = log.first();
  if (end_ > log.end()) return false;  // it has begun anew
  all_lives_ = log.lives().capacity();
  for (uint32_t count = 0; count < most && next_ < end_; ++count) {
    wanted_ = need_of(log, log.operation(next_));
    if (!has_room(wanted_)) break;
    copy_one(log, next_++);
  }
  return next_ < end_;
}

uint32_t LogSaver::number_of(const ProgramLog &log, uint32_t life) noexcept {
  uint32_t &known = known_[life];
  if (known == Life::none) {
    saved_.lives.push_back(log.lives()[life].bytes);
    known = static_cast<uint32_t>(saved_.lives.size() - 1);
  }
  return known;
}

uint16_t LogSaver::stream_of(uint32_t stream) noexcept {
  if (streams_[stream] == 0) streams_[stream] = static_cast<uint16_t>(++saved_.streams);
  return static_cast<uint16_t>(streams_[stream] - 1);
}

void LogSaver::copy_one(const ProgramLog &log, uint32_t number) noexcept {
  const LoggedOperation &operation = log.operation(number);
  SavedOperation saved{};
  saved.name = operation.name;
  saved.stream = stream_of(operation.stream);
  saved.given = operation.given;
  saved.uses = operation.uses;
  saved.all_births = operation.births;
  const Lives &lives = log.lives();
  for (uint32_t born = operation.first_born; born != Life::none; born = lives[born].next_born) {
    saved_.births.push_back({number_of(log, born), lives[born].rank});
    ++saved.births;
  }
  for (uint32_t dead = operation.first_died; dead != Life::none; dead = lives[dead].next_died) {
    saved_.deaths.push_back(number_of(log, dead));
    ++saved.deaths;
  }
  for (uint32_t index = 0; index < operation.uses; ++index) {
    const LoggedUse &use = log.use(operation.first_use + index);
    saved_.uses.push_back(
        {number_of(log, use.life), use.begin, std::max(use.begin, use.end), use.slot, use.mode});
  }
  saved_.operations.push_back(saved);
}

void name_operations(SavedProgram *program, std::span<const std::string_view> by_number,
                     uint64_t most_bytes) {
  std::pmr::vector<uint32_t> places(by_number.size(), 0, program->names.get_allocator().resource());
  uint64_t bytes = 0;
  const auto place_of = [&](uint32_t number) {
    uint32_t &place = places[number - 1];
    const std::string_view name = by_number[number - 1];
    if (place != 0) return place;
    place = shared_name;
    if (bytes + name.size() > most_bytes || program->names.size() == most_names) return place;
    bytes += name.size();
    program->names.push_back(name);
    return place = static_cast<uint32_t>(program->names.size());
  };
  for (SavedLog &log : program->logs) {
    for (SavedOperation &operation : log.operations) {
      if (operation.name >= unnamed) continue;
      const bool named = operation.name != 0 && operation.name <= by_number.size();
      operation.name = named ? place_of(operation.name) : shared_name;
    }
  }
}

}  // namespace weir::policy
