// SPDX-License-Identifier: Apache-2.0
//
// Programs learned, saved and learned from again, for the tests of what is saved.
#pragma once

// As in the library, which is why there is none to link.
#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include "core/codec/checksum.hpp"
#include "core/codec/little_endian.hpp"
#include "core/policy/log_saver.hpp"
#include "core/policy/policy_blob.hpp"
#include "tests/unit/learned_program.hpp"

#include <string>
#include <vector>

namespace weir::test {

constexpr policy::BlobTerms usual_terms = {"auto", 65536};

/// The log as it is, copied some operations at a time; names stay numbers.
inline void save_log(const policy::LearnedForecast &forecast, policy::SavedLog *saved,
                     uint32_t at_a_time = 7, uint64_t most_bytes = UINT64_MAX) {
  policy::LogSaver saver(*saved, std::pmr::new_delete_resource());
  saver.begin(forecast.log(), most_bytes);
  while (saver.copy(forecast.log(), at_a_time)) saver.make_room();
}

/// Names with the numbers 1, 2, ...
class Names {
 public:
  explicit Names(uint32_t count) {
    for (uint32_t number = 1; number <= count; ++number)
      texts_.push_back("operation " + std::to_string(number));
    for (const std::string &text : texts_) views_.push_back(text);
  }
  std::span<const std::string_view> all() const & { return views_; }
  void all() && = delete;
  uint32_t number_of(std::string_view name) const {
    for (uint32_t place = 0; place < views_.size(); ++place)
      if (views_[place] == name) return place + 1;
    return 0;
  }
  std::vector<uint32_t> numbers_of(const policy::SavedProgram &program) const {
    std::vector<uint32_t> numbers;
    for (const std::string_view name : program.names) numbers.push_back(number_of(name));
    return numbers;
  }

 private:
  std::vector<std::string> texts_;
  std::vector<std::string_view> views_;
};

using Bytes = std::vector<unsigned char>;

inline Bytes blob_of(const policy::SavedProgram &program,
                     const policy::BlobTerms &terms = usual_terms) {
  Bytes bytes(policy::blob_bytes(program));
  policy::write_blob(program, terms, bytes.data());
  return bytes;
}

/// As an attacker would write it.
inline void seal(Bytes *bytes) {
  constexpr size_t length_at = 16, sum_at = 24;
  codec::store_little(bytes->data() + length_at, uint64_t{bytes->size()});
  codec::PageChecksum sum;
  sum.add(bytes->data(), sum_at);
  sum.add(bytes->data() + sum_at + 8, bytes->size() - sum_at - 8);
  codec::store_little(bytes->data() + sum_at, sum.sum());
}

/// A small training's blob.
inline Bytes small_blob(uint32_t layers = 2, int laps = 2) {
  Site site;
  std::set<uint32_t> free = first_numbers(100);
  Doer doer(site.forecast, free);
  const Training training(layers);
  doer.run(training.setup());
  for (int lap = 0; lap < laps; ++lap) doer.run(training.iteration(4));
  policy::SavedProgram program(std::pmr::new_delete_resource());
  program.logs.emplace_back(std::pmr::new_delete_resource());
  save_log(site.forecast, &program.logs[0]);
  const Names names(Training::update);
  policy::name_operations(&program, names.all(), UINT64_MAX);
  return blob_of(program);
}

}  // namespace weir::test
