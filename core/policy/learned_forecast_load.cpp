// SPDX-License-Identifier: Apache-2.0
//
// A saved log, learned from operation by operation as it was learned from when it happened. In the end its buffers are gone, its streams
// wait for the ones that do the same, and no place of the program is the present one.

#include "core/policy/learned_forecast.hpp"
#include "core/policy/saved_program.hpp"
#include "core/policy/shapes.hpp"

#include <algorithm>

namespace weir::policy {

/// Walks the records of a saved log, of which check_blob() has seen that they are there.
class LearnedForecast::Loading {
 public:
  Loading(LearnedForecast &own, const SavedLog &saved, std::span<const uint32_t> names)
      : own_(own), saved_(saved), names_(names) {}

  void run() noexcept {
    for (const SavedOperation &operation : saved_.operations) {
      if (own_.log_.used_up()) own_.start_anew();
      const uint32_t stream = own_.numbers_.loaded(operation.stream);
      births(operation, stream);
      uses(operation, stream);
      own_.place(stream);
      for (uint32_t count = 0; count < operation.deaths; ++count)
        own_.died(saved_.deaths[death_++]);
    }
  }

 private:
  uint64_t bytes_of(uint32_t life) const noexcept { return saved_.lives[life]; }
  uint32_t name_of(uint32_t name) const noexcept {
    return name > most_names ? name : names_[name - 1];
  }

  /// Those in between were of buffers that nobody followed.
  void births(const SavedOperation &operation, uint32_t stream) noexcept {
    uint32_t rank = 0;
    for (uint32_t count = 0; count < operation.births; ++count) {
      const SavedBirth &birth = saved_.births[birth_++];
      own_.log_.skip_births(stream, birth.rank - rank);
      rank = birth.rank + 1U;
      if (bytes_of(birth.life) < own_.smallest_)
        own_.log_.skip_births(stream, 1);
      else
        born(birth.life, stream);
    }
    own_.log_.skip_births(stream, operation.all_births - rank);
  }

  void born(uint32_t life, uint32_t stream) noexcept {
    own_.died(life);
    (void)own_.log_.born(life, 0, bytes_of(life), stream);
  }

  void uses(const SavedOperation &operation, uint32_t stream) noexcept {
    ProgramLog &log = own_.log_;
    const uint32_t name = name_of(operation.name);
    const uint32_t shape = shape_of(name, operation.given);
    const auto logged = static_cast<uint32_t>(
        std::min<size_t>(operation.uses, own_.uses_.capacity()));  // as within_limit()
    own_.contexts_.push(stream, shape);
    log.set_given(log.begin_operation(name, shape, stream, logged), operation.given);
    const size_t end = use_ + operation.uses;
    for (uint32_t count = 0; count < logged; ++count) use(saved_.uses[use_ + count]);
    use_ = end;
  }

  void use(const SavedUse &use) noexcept {
    ProgramLog &log = own_.log_;
    uint32_t life = log.lives().of(use.life);
    if (life == Lives::none && bytes_of(use.life) >= own_.smallest_)
      life = log.known(use.life, 0, bytes_of(use.life));
    if (life == Lives::none) return;
    const ObservedUse observed{use.life, static_cast<uint8_t>(use.mode),
                               use.begin * ProgramLog::unit, use.end * ProgramLog::unit};
    log.add_use(life, observed, use.slot);
  }

  LearnedForecast &own_;
  const SavedLog &saved_;
  const std::span<const uint32_t> names_;
  size_t birth_ = 0, death_ = 0, use_ = 0;
};

void LearnedForecast::load(const SavedLog &log, std::span<const uint32_t> names) noexcept {
  Loading(*this, log, names).run();
  leave_loaded(log.streams);
}

void LearnedForecast::leave_loaded(uint32_t streams) noexcept {
  const Lives &lives = log_.lives();
  for (uint32_t life = 0; life < lives.used(); ++life) {
    if (!lives[life].alive) continue;
    pairing_.end_part(lives[life]);
    log_.left(lives[life].buffer);
  }
  for (Alignment &alignment : alignments_) alignment.clear();
  for (uint32_t stream = 0; stream < streams; ++stream) numbers_.offer(numbers_.loaded(stream));
  speeds_ = {};
  scaling_ = {};
  trust_.grant();
  matched_ = false;
  born_parts_.clear();
  counts_ = {};
  now_ = 0;
}

}  // namespace weir::policy
