// SPDX-License-Identifier: Apache-2.0
//
// LearnedForecast: what happens goes through the log, the stream's alignment and the pairing, in this order; what is to come is read
// back from the log and told in parts of the Cast.

#include "core/policy/learned_forecast.hpp"

#include "core/policy/saved_program.hpp"
#include "core/policy/shapes.hpp"

#include <algorithm>
#include <bit>
#include <new>

namespace weir::policy {
namespace {

/// A range of a buffer of the log, in the proportions of one that has another size.
uint64_t in_proportion(uint64_t units, uint64_t logged, uint64_t bytes) noexcept {
  const uint64_t at = std::min(units * ProgramLog::unit, logged);
  if (bytes == logged || logged == 0) return std::min(at, bytes);
  if (at == logged) return bytes;
  const double share = static_cast<double>(at) / static_cast<double>(logged);
  return std::min(bytes, static_cast<uint64_t>(share * static_cast<double>(bytes)));
}

}  // namespace

/// Fixed parts first; what is left goes to operations, with three uses and three quarters of a life for each, as training and serving
/// programs have them.
LearnedForecast::Shares LearnedForecast::share_out(const Terms &terms) noexcept {
  const size_t budget = std::clamp(terms.budget, least_budget, size_t{1} << 36);
  Shares shares{};
  const size_t stream =
      Contexts::bytes_of_stream() + sizeof(Alignment) + ProgramWalk::bytes_each() + 64;
  shares.streams = static_cast<uint32_t>(
      std::clamp<size_t>(budget / 64 / stream, 1, StreamSpeeds::most_streams));
  shares.context_entries = static_cast<uint32_t>(
      std::min(std::bit_floor(budget / 16 / Contexts::bytes_of_entry), size_t{1} << 20));
  shares.expected =
      static_cast<uint32_t>(std::min(budget / 64 / Pairing::bytes_each(), size_t{1} << 20));
  const size_t rest = budget - shares.streams * stream -
                      shares.context_entries * Contexts::bytes_of_entry -
                      shares.expected * Pairing::bytes_each();
  // An operation may have a sixteenth of the log's uses.
  constexpr size_t foreseen = sizeof(ForecastUse) + 3 * sizeof(uint32_t);
  constexpr size_t operation = sizeof(LoggedOperation) + 3 * sizeof(LoggedUse) +
                               (3 * Lives::bytes_each + 3) / 4 + (3 * foreseen + 15) / 16;
  const auto operations = static_cast<uint32_t>(std::min(rest / operation, size_t{1} << 28));
  shares.log.operations = operations;
  shares.log.uses = 3 * operations;
  shares.log.lives = operations - operations / 4;
  shares.log.streams = shares.streams;
  shares.log.most_entries = terms.most_entries;
  shares.most_uses = std::min<uint32_t>(3 * operations / 16, UINT16_MAX);
  return shares;
}

LearnedForecast::LearnedForecast(Cast &cast, const Terms &terms, std::pmr::memory_resource *memory)
    : LearnedForecast(cast, terms, share_out(terms), memory) {}

LearnedForecast::LearnedForecast(Cast &cast, const Terms &terms, const Shares &shares,
                                 std::pmr::memory_resource *memory)
    : log_(shares.log, memory),
      contexts_(shares.context_entries, shares.streams, memory),
      alignments_(shares.streams, memory),
      numbers_(shares.streams),
      pairing_(cast, shares.expected, memory),
      walk_(shares.streams, memory),
      smallest_(terms.smallest),
      born_parts_(memory),
      births_(memory),
      deaths_(memory),
      uses_(memory) {
  born_parts_.reserve(shares.most_uses);
  births_.reserve(shares.most_uses);
  deaths_.reserve(shares.most_uses);
  uses_.reserve(shares.most_uses);
}

size_t LearnedForecast::bytes() const noexcept {
  return log_.bytes() + contexts_.bytes() + alignments_.capacity() * sizeof(Alignment) +
         pairing_.bytes() + walk_.bytes() +
         (born_parts_.capacity() + births_.capacity() + deaths_.capacity()) * sizeof(uint32_t) +
         uses_.capacity() * sizeof(ForecastUse);
}

// What happens.

void LearnedForecast::born(uint32_t buffer, uint64_t generation, uint64_t bytes,
                           uint32_t stream) noexcept {
  died(buffer);
  const uint32_t slot = stream == no_stream ? ProgramLog::no_stream : numbers_.of(stream);
  if (bytes < smallest_) {
    log_.born_unfollowed(slot);
    return;
  }
  if (log_.born(buffer, generation, bytes, slot) == ProgramLog::none) ++counts_.unfollowed;
}

void LearnedForecast::died(uint32_t buffer) noexcept {
  const uint32_t life = log_.lives().of(buffer);
  if (life == Lives::none) return;
  pairing_.end_part(log_.lives()[life]);
  log_.died(buffer);
}

void LearnedForecast::found(uint32_t buffer, uint64_t generation, uint64_t bytes) noexcept {
  if (bytes < smallest_) return;
  left(buffer);
  if (log_.known(buffer, generation, bytes) == ProgramLog::none) ++counts_.unfollowed;
}

void LearnedForecast::left(uint32_t buffer) noexcept {
  const uint32_t life = log_.lives().of(buffer);
  if (life == Lives::none) return;
  pairing_.end_part(log_.lives()[life]);
  log_.left(buffer);
}

void LearnedForecast::observe(const ObservedOperation &operation) noexcept {
  if (log_.used_up()) start_anew();
  const uint32_t name = name_of(operation);
  const auto given = static_cast<uint32_t>(operation.uses.size());
  const uint32_t shape = shape_of(name, given);
  const uint32_t stream = number_of(operation.stream, shape);
  const std::span<const ObservedUse> uses = within_limit(operation);
  const uint32_t number =
      log_.begin_operation(name, shape, stream, static_cast<uint32_t>(uses.size()));
  log_.set_given(number, static_cast<uint16_t>(std::min<uint32_t>(given, UINT16_MAX)));
  for (uint32_t slot = 0; slot < uses.size(); ++slot) {
    const uint32_t life = log_.lives().of(uses[slot].buffer);
    if (life != Lives::none) log_.add_use(life, uses[slot], slot);
  }
  place(stream);
}

/// The number of the stream of an operation, which is pushed to the contexts.
uint32_t LearnedForecast::number_of(uint32_t stream, uint32_t shape) noexcept {
  contexts_.push(numbers_.of(stream), shape);
  if (numbers_.looks(stream) && numbers_.look(stream, contexts_, log_, shape))
    contexts_.push(numbers_.of(stream), shape);
  return numbers_.of(stream);
}

void LearnedForecast::place(uint32_t stream) noexcept {
  born_parts_.clear();
  const uint32_t number = log_.end() - 1;
  Alignment &alignment = alignments_[stream];
  const bool foreseen = alignment.aligned();
  const uint64_t jumps = alignment.jumps();
  alignment.observe(log_, contexts_, number);
  if (foreseen) trust_.note_operation(!alignment.aligned() || alignment.jumps() != jumps);
  pair_births(number, alignment);
  pair_uses(number, alignment);
  speeds_.note(stream);
  matched_ = alignment.aligned();
  ++counts_.operations;
  counts_.aligned += matched_;
  pairing_.give_up(++now_);
}

/// Numbers of entries begin at 0 again.
void LearnedForecast::start_anew() noexcept {
  log_.clear();
  contexts_.clear();
  numbers_.withdraw();
  for (Alignment &alignment : alignments_) alignment.clear();
  walk_.clear();
}

/// Beyond the limit, uses are not logged.
std::span<const ObservedUse> LearnedForecast::within_limit(
    const ObservedOperation &operation) const noexcept {
  return operation.uses.first(std::min(operation.uses.size(), uses_.capacity()));
}

/// Its name, or a hash of what it does to buffers of which sizes.
uint32_t LearnedForecast::name_of(const ObservedOperation &operation) const noexcept {
  if (operation.name != 0) return operation.name;
  uint32_t hash = 0;
  for (const ObservedUse &use : within_limit(operation)) {
    const uint32_t life = log_.lives().of(use.buffer);
    if (life == Lives::none) continue;
    const auto size_class = static_cast<uint32_t>(std::bit_width(log_.lives()[life].bytes));
    hash = mix(hash, use.mode * 64 + size_class);
  }
  return hash | unnamed;
}

/// Gives a buffer its part. False: it has one, or there is no memory.
bool LearnedForecast::give_part(Life &life, const Life *role) noexcept {
  if (pairing_.has_part(life) || born_parts_.size() == born_parts_.capacity()) return false;
  try {
    pairing_.give_part(life, role);
  } catch (const std::bad_alloc &) {
    return false;
  }
  born_parts_.push_back(life.own.part);
  ++counts_.births;
  return true;
}

/// The buffers born before the operation take the parts of those born before its match, each of the one of its rank, if there were as
/// many.
void LearnedForecast::pair_births(uint32_t number, const Alignment &alignment) noexcept {
  const LoggedOperation &operation = log_.operation(number);
  const uint32_t match = alignment.match();
  const bool paired = match != ProgramLog::none && log_.operation(match).births == operation.births;
  Lives &lives = log_.lives();
  uint32_t role = paired ? log_.operation(match).first_born : Lives::none;
  for (uint32_t born = operation.first_born; born != Lives::none; born = lives[born].next_born) {
    Life &life = lives[born];
    while (role != Lives::none && lives[role].rank < life.rank) role = lives[role].next_born;
    if (role == Lives::none || lives[role].rank != life.rank) {
      (void)give_part(life, nullptr);
      continue;
    }
    Life &before = lives[role];
    const uint32_t distance = operation.position - log_.operation(match).position;
    if (scaling_.note(life, before, alignment.run(), distance)) log_.set_resized(number);
    const uint32_t expected = pairing_.player_of(before);
    if (give_part(life, &before)) counts_.foreseen += life.own.part == expected;
    if (pairing_.has_part(life)) pairing_.cast_as(before, life);
  }
}

/// The buffers that the operation uses have the roles of those that its match used, each of the one in its slot.
void LearnedForecast::pair_uses(uint32_t number, const Alignment &alignment) noexcept {
  const LoggedOperation &operation = log_.operation(number);
  const uint32_t match = alignment.match();
  const uint32_t end = operation.first_use + operation.uses;
  uint32_t twin = 0, twins_end = 0;
  bool round_apart = false;
  if (match != ProgramLog::none) {
    const uint32_t distance = operation.position - log_.operation(match).position;
    round_apart = SizeScaling::trusts(alignment.run(), distance);
    twin = log_.operation(match).first_use;
    twins_end = twin + log_.operation(match).uses;
  }
  for (uint32_t use = operation.first_use; use < end; ++use) {
    const LoggedUse &logged = log_.use(use);
    Life &life = log_.lives()[logged.life];
    (void)give_part(life, nullptr);
    judge(logged, life.due);
    while (twin < twins_end && log_.use(twin).slot < logged.slot) ++twin;
    if (twin == twins_end || log_.use(twin).slot != logged.slot) continue;
    log_.set_twin(use, twin);
    const uint32_t role = log_.use(twin).life;
    if (role == logged.life || !log_.lives()[role].alive)
      pairing_.cast_as(log_.lives()[role], life);
    if (round_apart && !life.persists && (life.born == ProgramLog::none || life.born < match)) {
      life.persists = true;
      scaling_.note_persistent(life.bytes);
    }
  }
  for (uint32_t use = operation.first_use; use < end; ++use) set_due(log_.use(use).life, number);
}

/// The use was foreseen to come at `due`.
void LearnedForecast::judge(const LoggedUse &use, uint32_t due) noexcept {
  if (due == Life::none || use.previous == ProgramLog::none || !log_.holds_use(use.previous))
    return;
  const uint32_t before = log_.use(use.previous).operation;
  const uint32_t away = use.operation > due ? use.operation - due : due - use.operation;
  trust_.note_use(due <= before || away > patience(due - before));
}

/// From what is known once the operation has its place.
void LearnedForecast::set_due(uint32_t life, uint32_t number) noexcept {
  const Outlook outlook = outlook_of(log_, life);
  uint32_t &due = log_.lives()[life].due;
  if (outlook.fate == Fate::unknown)
    due = Life::none;
  else
    due = outlook.fate == Fate::dies ? number : number + static_cast<uint32_t>(outlook.distance);
}

// What is to come.

bool LearnedForecast::moved() const noexcept { return walk_.moved(view()); }

bool LearnedForecast::resized() const noexcept {
  return scaling_.stable() && SizeScaling::differ(scaling_.ratio(), walked_ratio_);
}

void LearnedForecast::rewind() {
  pairing_.rewind();
  walk_.rewind(view());
  walked_ = now_;
  walked_ratio_ = scaling_.ratio();
}

const ForecastOperation *LearnedForecast::next() {
  const ProgramWalk::Step step = walk_.peek(view());
  if (step.operation == ProgramWalk::none) return nullptr;
  walked_ = std::max(walked_, now_);
  births_.clear();
  uses_.clear();
  deaths_.clear();
  foresee(step);
  walk_.take(step, speeds_);
  ++walked_;
  operation_ = {births_, uses_, deaths_};
  return &operation_;
}

void LearnedForecast::foresee(const ProgramWalk::Step &step) {
  const LoggedOperation &operation = log_.operation(step.operation);
  foresee_births(operation, step.resized);
  for (uint32_t index = 0; index < operation.uses; ++index)
    foresee_use(operation.first_use + index);
  const Lives &lives = log_.lives();
  for (uint32_t dead = operation.first_died; dead != ProgramLog::none;
       dead = lives[dead].next_died) {
    const uint32_t part = pairing_.player_of(lives[dead]);
    if (part != Cast::none && deaths_.size() < deaths_.capacity()) deaths_.push_back(part);
  }
}

/// Throws std::bad_alloc, when none of them is expected.
void LearnedForecast::foresee_births(const LoggedOperation &operation, bool resized) {
  Lives &lives = log_.lives();
  try {
    for (uint32_t born = operation.first_born; born != ProgramLog::none;
         born = lives[born].next_born) {
      if (births_.size() == births_.capacity()) break;
      const uint64_t bytes = resized ? lives[born].bytes : scaling_.scaled(lives[born]);
      const uint32_t part = pairing_.expect(lives[born], bytes, walked_);
      if (part != Cast::none) births_.push_back(part);
    }
  } catch (...) {
    for (const uint32_t part : births_) pairing_.withdraw(part);
    throw;
  }
}

void LearnedForecast::foresee_use(uint32_t number) {
  const LoggedUse &use = log_.use(number);
  const Life &life = log_.lives()[use.life];
  const uint32_t part = pairing_.player_of(life);
  if (part == Cast::none) return;
  ForecastUse foreseen;
  foreseen.part = part;
  foreseen.needs = (use.mode & use_needs) != 0;
  foreseen.writes = (use.mode & (use_writes | use_whole)) != 0;
  const uint64_t bytes = pairing_.cast()[part].bytes;
  foreseen.begin = in_proportion(use.begin, life.bytes, bytes);
  foreseen.end = in_proportion(use.end, life.bytes, bytes);
  foreseen.after = outlook_after(log_, number);
  uses_.push_back(foreseen);
}

Outlook LearnedForecast::outlook(uint32_t part) const noexcept {
  const Cast &cast = pairing_.cast();
  if (part >= cast.size() || !cast[part].live || cast[part].buffer == Cast::none) return {};
  const uint32_t life = log_.lives().of(cast[part].buffer);
  return life != Lives::none ? outlook_of(log_, life) : Outlook{};
}

}  // namespace weir::policy
