// SPDX-License-Identifier: Apache-2.0
//
// Saved programs that are damaged, or made up with a checksum that is right, from memory that ends where nobody may go on. The answer must be
// SUCCESS, CORRUPT or NOT_SUPPORTED; what is taken is loaded, a program runs after it, and whatever is foreseen then is of parts that
// live. The same programs for the same seed.

#include "tests/fuzz/fuzz_options.hpp"
#include "tests/unit/coded_block.hpp"
#include "tests/unit/saved_programs.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace {

using namespace weir::policy;
using weir::test::Bytes;
using weir::test::Doer;
using weir::test::Training;

constexpr uint64_t most_bytes = uint64_t{1} << 20;

[[noreturn]] void die(const char *what) {
  std::fprintf(stderr, "fuzz_policy: %s\n", what);
  std::abort();
}

class Loading {
 public:
  /// Whether it was taken. What may not be ends the program.
  bool run(const Bytes &bytes, std::mt19937_64 &random) {
    ++executions_;
    const unsigned char *at = memory_.copy_ending(bytes);
    const std::span<const unsigned char> given(at, bytes.size());
    const weir_result code = check_blob(given, weir::test::usual_terms).code();
    if (code != WEIR_SUCCESS && code != WEIR_ERROR_CORRUPT && code != WEIR_ERROR_NOT_SUPPORTED)
      die("a result that is none of the three");
    if (code != WEIR_SUCCESS) return false;
    ++taken_;
    SavedProgram program(std::pmr::new_delete_resource());
    read_blob(given, &program);
    if (blob_bytes(program) != bytes.size()) die("what was read has another size");
    std::vector<uint32_t> names;
    for (size_t i = 0; i < program.names.size(); ++i)
      names.push_back(static_cast<uint32_t>(1 + random() % 5));
    for (const SavedLog &log : program.logs) learn_from(log, names, random);
    return true;
  }
  uint64_t executions() const { return executions_; }
  uint64_t taken() const { return taken_; }

 private:
  void learn_from(const SavedLog &log, const std::vector<uint32_t> &names,
                  std::mt19937_64 &random) {
    Cast cast(std::pmr::new_delete_resource());
    weir::CountingMemory memory(std::pmr::new_delete_resource());
    LearnedForecast::Terms terms;
    terms.budget = (size_t{64} << 10) * (1 + random() % 8);
    terms.smallest = random() % 2 == 0 ? 1 : 65536;
    terms.most_entries = random() % 4 == 0 ? 70000 : ProgramLog::none - 1;
    LearnedForecast forecast(cast, terms, &memory);
    forecast.load(log, names);
    for (uint32_t part = 0; part < cast.size(); ++part)
      if (cast[part].live) die("a part of a loaded log lives");
    if (forecast.log().lives().alive() != 0) die("a buffer of a loaded log lives");
    if (memory.bytes() != forecast.bytes()) die("a load took memory");
    go_on(forecast, cast, random);
    SavedLog again(std::pmr::new_delete_resource());
    weir::test::save_log(forecast, &again, 50);
    SavedProgram saved(std::pmr::new_delete_resource());
    saved.logs.push_back(std::move(again));
    const weir::test::Names all_names(Training::update);
    name_operations(&saved, all_names.all(), UINT64_MAX);
    if (!check_blob(weir::test::blob_of(saved), weir::test::usual_terms))
      die("what was loaded is saved as what is refused");
  }

  static void go_on(LearnedForecast &forecast, const Cast &cast, std::mt19937_64 &random) {
    std::set<uint32_t> free = weir::test::first_numbers(200);
    Doer doer(forecast, free, static_cast<uint32_t>(random() % 100));
    const Training training(static_cast<uint32_t>(1 + random() % 4));
    doer.run(training.setup());
    for (int lap = 0; lap < 2; ++lap) {
      for (const weir::test::Step &step : training.iteration(4)) {
        doer.run(step);
        if (random() % 4 == 0 || forecast.moved()) forecast.rewind();
        for (int ahead = 0; ahead < 6; ++ahead) {
          const ForecastOperation *next = forecast.next();
          if (next == nullptr) break;
          check(*next, cast);
        }
      }
    }
  }

  static void check(const ForecastOperation &foreseen, const Cast &cast) {
    const auto lives = [&cast](uint32_t part) { return part < cast.size() && cast[part].live; };
    for (const uint32_t part : foreseen.births)
      if (!lives(part)) die("a birth of no part");
    for (const ForecastUse &use : foreseen.uses)
      if (!lives(use.part) || use.begin > use.end || use.end > cast[use.part].bytes)
        die("a use of no part, or beyond it");
    for (const uint32_t part : foreseen.deaths)
      if (!lives(part)) die("a death of no part");
  }

  weir::test::GuardedMemory memory_{most_bytes};
  uint64_t executions_ = 0, taken_ = 0;
};

class Mutator {
 public:
  Mutator(Loading &loading, const std::vector<Bytes> &valid, uint64_t seed)
      : loading_(loading), valid_(valid), random_(seed) {}

  void step() {
    Bytes bytes = valid_[below(valid_.size())];
    const uint64_t edits = below(6);
    for (uint64_t edit = 0; edit < edits; ++edit) damage(&bytes);
    const bool sealed = below(4) != 0 && bytes.size() >= 32;
    if (sealed) weir::test::seal(&bytes);
    const bool taken = loading_.run(bytes, random_);
    if (edits == 0 && !taken) die("a valid blob is refused");
  }

 private:
  uint64_t below(uint64_t end) { return random_() % end; }

  void damage(Bytes *bytes) {
    static constexpr unsigned char telling[] = {0, 1, 2, 0x7F, 0x80, 0xFF};
    if (bytes->empty()) return bytes->push_back(0);
    // Counts are in front, where most is refused.
    const uint64_t size = bytes->size();
    const uint64_t at = below(8) == 0 ? below(std::min<uint64_t>(size, 100)) : below(size);
    switch (below(8)) {
      case 0:
        return bytes->resize(at);
      case 1:
        bytes->insert(bytes->begin() + static_cast<long>(at), 1 + below(20),
                      static_cast<unsigned char>(random_()));
        return;
      case 2:
        (*bytes)[at] = static_cast<unsigned char>(random_());
        return;
      case 3:
        (*bytes)[at] = telling[below(std::size(telling))];
        return;
      case 4: {  // a piece of it elsewhere
        const uint64_t from = below(size), length = std::min({below(64), size - from, size - at});
        std::memmove(bytes->data() + at, bytes->data() + from, length);
        return;
      }
      default:
        (*bytes)[at] = static_cast<unsigned char>((*bytes)[at] ^ 1U << below(8));
    }
  }

  Loading &loading_;
  const std::vector<Bytes> &valid_;
  std::mt19937_64 random_;
};

}  // namespace

int main(int argc, char **argv) {
  weir::test::FuzzOptions options;
  if (!options.read(argc, argv, "fuzz_policy")) return 2;
  const auto [seconds, seed, runs, steps] = options;
  const std::vector<Bytes> valid = {weir::test::small_blob(1, 1), weir::test::small_blob(2, 3),
                                    weir::test::small_blob(4, 6)};
  Loading loading;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  long done = 0;
  for (; runs != 0 ? done < runs : std::chrono::steady_clock::now() < end; ++done) {
    Mutator mutator(loading, valid, seed + static_cast<uint64_t>(done));
    for (long step = 0; step < steps; ++step) mutator.step();
  }
  std::printf("fuzz_policy: %ld runs, %llu executions, %llu taken\n", done,
              static_cast<unsigned long long>(loading.executions()),
              static_cast<unsigned long long>(loading.taken()));
  if (loading.executions() >= 1000 &&
      (loading.taken() < loading.executions() / 10 || loading.taken() == loading.executions())) {
    std::fprintf(stderr, "fuzz_policy: next to nothing was taken, or nothing was refused\n");
    return 1;
  }
  return 0;
}
