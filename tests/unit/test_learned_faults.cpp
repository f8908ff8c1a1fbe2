// SPDX-License-Identifier: Apache-2.0
//
// The learned forecast in need: little memory, an allocation that fails at every position, and no program at all. Whatever comes, what
// it says is of parts that live, and its memory stays within the budget.

#include "core/policy/learned_forecast.hpp"

#include "core/base/memory.hpp"
#include "tests/support/cmocka.hpp"
#include "tests/unit/learned_program.hpp"

#include <algorithm>
#include <random>

namespace {

using namespace weir;
using namespace weir::policy;
using test::Doer;
using test::Site;
using test::Step;
using test::Training;

void all_is_within_the_budget(void **) {
  for (const size_t budget : {size_t{0}, size_t{64} << 10, size_t{100000}, size_t{1} << 20,
                              size_t{32} << 20, size_t{77} << 20}) {
    Site site(budget);
    const uint64_t at_first = site.memory.bytes();
    assert_true(site.memory.bytes() <= std::max(budget, LearnedForecast::least_budget));
    assert_int_equal(site.memory.bytes(), site.forecast.bytes());
    assert_true(site.memory.bytes() * 10 >= std::max(budget, LearnedForecast::least_budget) * 7);
    Doer doer(site.forecast, site.free);
    const Training training(5);
    doer.run(training.setup());
    for (int lap = 0; lap < 50; ++lap) doer.run(training.iteration(4));
    site.forecast.rewind();
    assert_int_equal(site.foresee(20).size(), 14);
    Step crowd;  // more than a small log knows of at once
    for (uint32_t id = 5000; id < 5300; ++id) {
      crowd.births.push_back({id, 65536});
      crowd.uses.push_back({id, use_needs, 0, 65536});
    }
    doer.run(crowd);
    doer.run(crowd);
    (void)site.foresee(100);
    assert_int_equal(site.memory.bytes(), site.forecast.bytes());
    assert_int_equal(site.memory.bytes(), at_first);
  }
}

/// Fails the n-th allocation and that only.
class Failing final : public std::pmr::memory_resource {
 public:
  explicit Failing(uint64_t n) : left_(n) {}
  bool struck() const { return left_ == 0; }

 private:
  void *do_allocate(size_t bytes, size_t alignment) override {
    if (left_ != 0 && --left_ == 0) throw std::bad_alloc();
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void *memory, size_t bytes, size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }
  uint64_t left_;
};

uint32_t live_parts(const Cast &cast) {
  uint32_t live = 0;
  for (uint32_t part = 0; part < cast.size(); ++part) live += cast[part].live;
  return live;
}

/// Whichever allocation fails, one thing is not there once, and the rest is as ever.
void an_allocation_that_fails_costs_one_observation(void **) {
  const Training training(12);
  std::vector<Step> first = training.iteration(4), round = first;
  // Many births at once, of buffers that live for a round.
  for (uint32_t id = 3000; id < 3060; ++id) {
    for (Step *step : {&first[5], &round[5]}) {
      step->births.push_back({id, 65536});
      step->uses.push_back({id, Training::whole, 0, 65536});
    }
    round[4].deaths.push_back(id);
  }
  uint64_t n = 1, refused = 0;
  for (;; ++n) {
    Failing memory(n);
    Cast cast(&memory);
    std::set<uint32_t> free = test::first_numbers(200);
    bool opened = false;
    try {
      LearnedForecast forecast(cast, {size_t{256} << 10, 1}, &memory);
      opened = true;
      Doer doer(forecast, free);
      doer.run(training.setup());
      for (int lap = 0; lap < 6; ++lap) {
        doer.run(lap == 0 ? first : round);
        forecast.rewind();
        for (size_t step = 0; step + 1 < round.size();) {
          const uint32_t before = live_parts(cast);
          try {
            if (forecast.next() == nullptr) break;
            ++step;
          } catch (const std::bad_alloc &) {
            ++refused;
            assert_int_equal(live_parts(cast), before);  // ask again
          }
        }
      }
      // Weights and what lives for a round, and a round of expected births.
      assert_int_equal(live_parts(cast), 12 + 60 + 24 + 60);
      for (uint32_t layer = 0; layer < 12; ++layer)
        assert_true(cast.of(doer.number(training.weight(layer))) != Cast::none);
    } catch (const std::bad_alloc &) {
      assert_false(opened);
    }
    if (!memory.struck()) break;
  }
  print_message("%llu positions, %llu of them in next()\n", static_cast<unsigned long long>(n - 1),
                static_cast<unsigned long long>(refused));
  assert_true(n > 15 && refused > 0);
}

/// Whatever is said is of parts that live, and ranges are within them.
void check_sane(const Site &site, const ForecastOperation &its) {
  for (const uint32_t part : its.births) {
    assert_true(part < site.cast.size() && site.cast[part].live);
    assert_int_equal(site.cast[part].buffer, Cast::none);
  }
  for (const ForecastUse &use : its.uses) {
    assert_true(use.part < site.cast.size() && site.cast[use.part].live);
    assert_true(use.begin <= use.end && use.end <= site.cast[use.part].bytes);
  }
  for (const uint32_t part : its.deaths)
    assert_true(part < site.cast.size() && site.cast[part].live);
}

/// No program at all: random names, uses and deaths of buffers that are not there, numbers given again without a death, streams that
/// come and go, pieces of a loop in between.
void nonsense_breaks_nothing(void **) {
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    auto random = [engine = std::mt19937(seed)]() mutable {
      return static_cast<uint32_t>(engine());
    };
    LearnedForecast::Terms terms;
    terms.budget = (seed % 3 == 0 ? 0 : 100000) * (1 + seed % 7);
    terms.smallest = seed % 2 == 0 ? 1000 : 0;
    terms.most_entries = 80000 + seed * 1000;
    Site site(terms);
    const auto stream = [&random]() -> uint32_t {
      return random() % 50 == 0 ? static_cast<uint32_t>(random())
                                : static_cast<uint32_t>(random() % (1 + random() % 5));
    };
    const auto buffer = [&random]() -> uint32_t {
      return random() % 50 == 0 ? static_cast<uint32_t>(random())
                                : static_cast<uint32_t>(random() % 200);
    };
    uint32_t loop = 0;
    std::vector<ObservedUse> uses;
    for (int step = 0; step < 20000; ++step) {
      const uint32_t kind = random() % 16;
      if (kind < 3) {
        const uint64_t bytes = random() % 4 == 0     ? random()
                               : random() % 100 == 0 ? UINT64_MAX - random() % 3
                                                     : 65536;
        site.forecast.born(buffer(), random() % 3, bytes,
                           random() % 4 == 0 ? LearnedForecast::no_stream : stream());
      } else if (kind < 5) {
        site.forecast.died(buffer());
      } else if (kind < 14) {
        const bool in_loop = step / 500 % 2 == 0;
        uses.clear();
        const uint32_t count = in_loop               ? loop % 3
                               : random() % 100 == 0 ? random() % 3000
                                                     : random() % 6;
        for (uint32_t use = 0; use < count; ++use) {
          const uint64_t begin = random() % 2 == 0 ? 0 : random();
          uses.push_back({in_loop ? loop % 40 + use : buffer(), static_cast<uint8_t>(random() % 8),
                          begin, begin + random() % 3 * (UINT64_MAX / 8)});
        }
        const uint32_t name = in_loop             ? 1 + loop++ % 37
                              : random() % 3 == 0 ? 0
                                                  : static_cast<uint32_t>(random() % 30);
        site.forecast.observe({name, in_loop ? 0 : stream(), uses});
        for (const uint32_t part : site.forecast.born_parts()) assert_true(site.cast[part].live);
      } else if (kind == 14) {
        if (random() % 8 == 0 || site.forecast.moved() || site.forecast.resized())
          site.forecast.rewind();
      }
      for (uint32_t count = random() % 3; count != 0; --count) {
        const ForecastOperation *next = site.forecast.next();
        if (next == nullptr) break;
        check_sane(site, *next);
      }
      (void)site.forecast.outlook(static_cast<uint32_t>(random() % (site.cast.size() + 2)));
    }
    assert_int_equal(site.memory.bytes(), site.forecast.bytes());
    assert_true(site.forecast.counts().operations > 10000);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(all_is_within_the_budget),
      cmocka_unit_test(an_allocation_that_fails_costs_one_observation),
      cmocka_unit_test(nonsense_breaks_nothing),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
