// SPDX-License-Identifier: Apache-2.0
//
// For tests of the residency plan: programs made by hand and at random, and a follower that does what a plan says at once, on a link
// that takes no time, and counts bytes.
#pragma once

#include "core/policy/residency_plan.hpp"
#include "tests/unit/policy_program.hpp"

#include <algorithm>
#include <map>
#include <new>
#include <random>
#include <vector>

namespace weir::test {

using namespace weir::policy;

inline constexpr uint64_t mb = 1 << 20;

inline ProgramUse reads(uint32_t buffer, uint64_t bytes) {
  return {buffer, true, false, false, 0, bytes};
}
inline ProgramUse updates(uint32_t buffer, uint64_t bytes) {
  return {buffer, true, true, false, 0, bytes};
}
inline ProgramUse writes(uint32_t buffer, uint64_t bytes) {
  return {buffer, false, true, true, 0, bytes};
}

/// Allocations from `left` on fail; negative: none does.
class Scarce final : public std::pmr::memory_resource {
 public:
  int64_t left = -1;
  uint64_t held = 0;

 private:
  void *do_allocate(size_t bytes, size_t alignment) override {
    if (left == 0) throw std::bad_alloc();
    if (left > 0) --left;
    held += bytes;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void *at, size_t bytes, size_t alignment) override {
    held -= bytes;
    std::pmr::new_delete_resource()->deallocate(at, bytes, alignment);
  }
  bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }
};

/// Runs a program by the plan.
class Follower {
 public:
  struct Dropped {
    uint64_t operation = 0;  ///< that runs
    uint32_t buffer = 0;
    uint64_t bytes = 0;
    uint64_t after = 0, until = 0;
  };

  Follower(const Program &program, const ResidencyPlan::Terms &terms)
      : program_(program),
        terms_(terms),
        plan(cast, terms, &memory),
        future(program, cast, 1),
        resident(program.buffers()),
        dirty(program.buffers()),
        content_(program.buffers()) {}

  void run() {
    while (now_ < program_.count()) operation();
  }
  void operation() {
    for (const uint32_t buffer : program_.births(now_))
      plan.born(cast.born(buffer, 0, program_.size(buffer), future.expected(buffer)));
    plan.advance(now_);
    future.begins(now_);
    for (const ProgramUse &use : program_.uses(now_)) serve(use);
    most = std::max(most, total());
    think();
    drop();
    fetch();
    most = std::max(most, total());
    for (const uint32_t buffer : program_.deaths(now_)) die(buffer);
    ++now_;
  }
  uint64_t total() const {
    uint64_t sum = 0;
    for (const uint64_t bytes : resident) sum += bytes;
    return sum;
  }

 private:
  void serve(const ProgramUse &use) {
    const uint64_t old =
        std::min(use.end, content_[use.buffer]) - std::min(use.begin, content_[use.buffer]);
    uint64_t &its = resident[use.buffer];
    if (its < old) {
      if (use.needs) {
        late += old - its;
        plan.missed(cast.of(use.buffer));
      }
      its = old;
    }
    its += use.end - use.begin - old;
    content_[use.buffer] = std::max(content_[use.buffer], use.end);
    dirty[use.buffer] |= use.writes;
    plan.used(cast.of(use.buffer));
    last_use_[use.buffer] = now_;
  }
  void think() {
    try {
      if (plan.wants_rebuild(false)) rebuild();
      while (plan.step(future)) continue;
    } catch (const std::bad_alloc &) {
      ++refused;
      emptied = emptied && plan.virtual_bytes() == 0 && plan.planned() == now_;
      memory.left = -1;
    }
  }
  void rebuild() {
    future.rewind();
    std::vector<ResidencyPlan::Resident> residents;
    for (const auto &[buffer, last] : last_use_)
      residents.push_back({cast.of(buffer), resident[buffer], content_[buffer], dirty[buffer] != 0,
                           future.outlook(cast.of(buffer)), last});
    plan.rebuild(now_, residents);
  }
  void drop() {
    while (const std::optional<PlannedDrop> planned = plan.next_drop()) {
      const uint32_t buffer = cast[planned->part].buffer;
      const uint64_t bytes = std::min(planned->bytes, resident[buffer]);
      drops.push_back({now_, buffer, bytes, planned->after, planned->until});
      if (dirty[buffer] != 0) written += bytes;
      resident[buffer] -= bytes;
      if (resident[buffer] == 0) dirty[buffer] = 0;
    }
  }
  void fetch() {
    uint64_t number = 0;
    while (const PlannedFetch *planned = plan.next_fetch(&number)) {
      const uint32_t buffer = cast[planned->part].buffer;
      const uint64_t bytes = std::min(planned->bytes, terms_.page_bytes);
      if (buffer == Cast::none || plan.waits(*planned)) {
        ++number;
        continue;
      }
      if (total() + bytes > terms_.capacity || !plan.may_fetch(number, bytes)) return;
      resident[buffer] += bytes;
      fetched += bytes;
      earliest.try_emplace(planned->due, now_);
      plan.taken(number, bytes, bytes);
    }
  }
  void die(uint32_t buffer) {
    plan.died(cast.of(buffer));
    cast.end(cast.of(buffer));
    resident[buffer] = content_[buffer] = 0;
    dirty[buffer] = 0;
    last_use_.erase(buffer);
  }

  const Program &program_;
  ResidencyPlan::Terms terms_;

 public:
  Scarce memory;
  Cast cast{std::pmr::get_default_resource()};
  ResidencyPlan plan;
  Future future;
  std::vector<uint64_t> resident;  ///< bytes, by buffer
  std::vector<uint8_t> dirty;
  std::vector<Dropped> drops;
  std::map<uint64_t, uint64_t>
      earliest;  ///< by due operation: the one during which its first bytes came
  uint64_t fetched = 0, late = 0, written = 0, most = 0;
  int refused = 0;      ///< times the plan had no memory
  bool emptied = true;  ///< each time it was empty then

 private:
  std::vector<uint64_t> content_;
  std::map<uint32_t, uint64_t> last_use_;
  uint32_t now_ = 0;
};

inline ResidencyPlan::Terms terms_of(uint64_t capacity, uint64_t page = mb) {
  return {.capacity = capacity, .page_bytes = page, .free_permille = 0};
}

/// Buffers of a size each that operation 0 writes where they fit two by two.
inline Program written(const std::vector<uint64_t> &sizes) {
  Program program;
  for (const uint64_t size : sizes) program.birth(size);
  for (uint32_t i = 0; i < sizes.size(); ++i) program.operation(1, {writes(i, sizes[i])}, {});
  return program;
}

inline uint32_t all_born(Cast &cast, const Program &program) {
  for (uint32_t i = 0; i < program.buffers(); ++i) cast.born(i, 0, program.size(i));
  return cast.of(0);
}

inline Program any(std::mt19937_64 &random, uint64_t unit, uint32_t largest, uint32_t buffers,
                   uint32_t operations, bool only_reads) {
  Program program;
  std::vector<uint64_t> sizes;
  for (uint32_t i = 0; i < buffers; ++i) sizes.push_back(unit * (1 + random() % largest));
  for (const uint64_t size : sizes) program.birth(size);
  std::vector<uint8_t> lives(buffers, 1), has(buffers, 0);
  const auto use = [&](uint32_t i) {
    const uint64_t kind = only_reads ? 0 : !has[i] ? 2 : random() % 4;
    has[i] = 1;
    return kind == 2 ? writes(i, sizes[i]) : kind == 1 ? updates(i, sizes[i]) : reads(i, sizes[i]);
  };
  for (uint32_t at = 0; at < operations; ++at) {
    std::vector<ProgramUse> uses;
    const auto first = static_cast<uint32_t>(random() % buffers);
    const auto second = static_cast<uint32_t>(random() % buffers);
    if (lives[first]) uses.push_back(use(first));
    if (largest > 1 && second != first && lives[second]) uses.push_back(use(second));
    std::vector<uint32_t> deaths;
    if (!only_reads && random() % 8 == 0 && lives[first]) {
      deaths.push_back(first);
      lives[first] = 0;
    }
    program.operation(1, uses, deaths);
  }
  return program;
}

}  // namespace weir::test
