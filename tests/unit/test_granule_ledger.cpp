// SPDX-License-Identifier: Apache-2.0
//
// The ledger of shared granules: random claims and releases against a shadow that keeps every granule's bytes as ranges,
// then the edges one by one: splits that are known by hand, hidden granules, undone claims, memory that fails at every
// position. WEIR_SOAK=1 runs 10^8 random operations instead of some 10^5.
//
// Must be reproducible: every random run prints its seed, and nothing depends on time.
#include "tests/support/cmocka.hpp"

#include "core/physical/granule_ledger.hpp"

#include <cstdlib>
#include <map>
#include <random>
#include <string>

namespace {

using weir::physical::GranuleLedger;
using Kind = GranuleLedger::Kind;
using Piece = GranuleLedger::Piece;

constexpr uint64_t page = 64 * 1024;
constexpr uint64_t q = GranuleLedger::quantum;

std::pmr::memory_resource *heap() { return std::pmr::new_delete_resource(); }

void check_valid(const GranuleLedger &ledger) {
  const std::string broken = ledger.validate();
  if (!broken.empty()) fail_msg("%s", broken.c_str());
}

/// Claims a buffer of a page or more; new granules are named from `next` on and shown.
GranuleLedger::Claim claim(GranuleLedger &ledger, const GranuleLedger::Split &split, uint64_t *next,
                           uint64_t owner = 0) {
  GranuleLedger::Claim made;
  const uint64_t head = split.opens_head() ? (*next)++ : 0;
  const uint64_t tail = split.opens_tail() ? (*next)++ : 0;
  assert_true(ledger.commit(split, head, tail, owner, &made));
  for (const Piece piece : {made.head, made.tail}) {
    if (piece) ledger.show(piece);
  }
  return made;
}

Piece claim(GranuleLedger &ledger, const GranuleLedger::Place &place, uint64_t *next,
            uint64_t owner = 0) {
  Piece piece;
  assert_true(
      ledger.commit(place, place.run == GranuleLedger::none ? (*next)++ : 0, owner, &piece));
  ledger.show(piece);
  return piece;
}

// ---- random operations against a shadow ----

class Shadow {
 public:
  explicit Shadow(uint64_t seed) : ledger_(page, heap()), random_(seed) {}

  void run(uint64_t operations) {
    for (uint64_t i = 0; i < operations; ++i) {
      const uint64_t die = random_() % 100;
      if (pieces_.size() > 60 + random_() % 200 || (die < 40 && !pieces_.empty())) {
        release(random_() % pieces_.size());
      } else if (die < 65) {
        large();
      } else if (die < 92) {
        small();
      } else {
        fixed();
      }
      if (i % 512 == 0) check_all();
    }
    while (!pieces_.empty()) release(pieces_.size() - 1);
    check_all();
    assert_int_equal(ledger_.granules(), 0);
    assert_int_equal(ledger_.used(), 0);
  }

 private:
  struct Kept {
    Piece piece;
    Kind kind;
    uint64_t bytes, owner;
  };

  void large() {
    const uint64_t bytes = page + random_() % (6 * page);
    const uint64_t alignment = uint64_t{1} << random_() % 17;
    const GranuleLedger::Split split = ledger_.choose(bytes, alignment);
    const uint64_t rounded = (bytes + q - 1) / q * q;
    const uint64_t laid = split.head + split.whole * page + split.tail;
    assert_int_equal(split.head % alignment, 0);  // the buffer begins so far before a granule's end
    assert_true(split.head < page && split.tail < page);
    if (split.head == 0 && split.tail == 0) {
      assert_true(laid >= bytes && laid - bytes < bytes / 200 + q);
    } else {
      assert_int_equal(laid, rounded);
    }
    const uint64_t owner = ++owners_;
    const auto made = claim(ledger_, split, &next_, owner);
    if (made.head) keep(made.head, Kind::head, split.head, owner);
    if (made.tail) keep(made.tail, Kind::tail, split.tail, owner);
  }

  void small() {
    const uint64_t bytes = 1 + random_() % (random_() % 4 == 0 ? page : page / 16);
    const uint64_t alignment = uint64_t{1} << random_() % 13;
    const uint64_t owner = ++owners_;
    const Piece piece = claim(ledger_, ledger_.find_small(bytes, alignment), &next_, owner);
    assert_int_equal(ledger_.offset(piece) % alignment, 0);
    keep(piece, Kind::small, (bytes + q - 1) / q * q, owner);
  }

  void fixed() {
    const uint64_t bytes = q * (1 + random_() % (page / q - 1));
    const bool head = random_() % 2 == 0;
    const auto place = head ? ledger_.find_head(bytes) : ledger_.find_tail(bytes);
    if (place.run == GranuleLedger::none) check_no_room(head, bytes);
    const uint64_t owner = ++owners_;
    keep(claim(ledger_, place, &next_, owner), head ? Kind::head : Kind::tail, bytes, owner);
  }

  /// No granule's end is free for so many bytes.
  void check_no_room(bool head, uint64_t bytes) const {
    for (const auto &[granule, ranges] : granules_) {
      const uint64_t room = head ? page - ranges.rbegin()->second : ranges.begin()->first;
      assert_true(room < bytes);
    }
  }

  void keep(Piece piece, Kind kind, uint64_t bytes, uint64_t owner) {
    const uint64_t offset = ledger_.offset(piece), end = offset + bytes;
    assert_true(ledger_.live(piece) && ledger_.kind(piece) == kind);
    assert_int_equal(ledger_.bytes(piece), bytes);
    if (kind == Kind::head) assert_int_equal(end, page);
    if (kind == Kind::tail) assert_int_equal(offset, 0);
    auto &ranges = granules_[ledger_.granule(piece)];
    const auto after = ranges.lower_bound(offset);
    assert_true(after == ranges.end() || after->first >= end);
    assert_true(after == ranges.begin() || std::prev(after)->second <= offset);
    ranges[offset] = end;
    pieces_.push_back({piece, kind, bytes, owner});
  }

  void release(size_t index) {
    const Kept kept = pieces_[index];
    assert_int_equal(ledger_.owner(kept.piece), kept.owner);
    const uint64_t granule = ledger_.granule(kept.piece);
    auto &ranges = granules_.at(granule);
    assert_int_equal(ranges.erase(ledger_.offset(kept.piece)), 1);
    const auto released = ledger_.release(kept.piece);
    assert_false(ledger_.live(kept.piece));
    assert_int_equal(released.granule, granule);
    assert_int_equal(released.emptied, ranges.empty());
    if (ranges.empty()) granules_.erase(granule);
    pieces_[index] = pieces_.back();
    pieces_.pop_back();
  }

  void check_all() {
    check_valid(ledger_);
    uint64_t used = 0;
    for (const auto &[granule, ranges] : granules_) {
      for (const auto &[from, to] : ranges) used += to - from;
    }
    assert_int_equal(ledger_.granules(), granules_.size());
    assert_int_equal(ledger_.used(), used);
    assert_int_equal(ledger_.free_bytes(), granules_.size() * page - used);
    assert_int_equal(ledger_.pieces(), pieces_.size());
  }

  GranuleLedger ledger_;
  std::mt19937_64 random_;
  std::map<uint64_t, std::map<uint64_t, uint64_t>> granules_;  ///< name -> begin -> end
  std::vector<Kept> pieces_;
  uint64_t next_ = 1, owners_ = 0;
};

void agrees_with_a_shadow(void **) {
  const uint64_t operations = std::getenv("WEIR_SOAK") != nullptr ? 25'000'000 : 60'000;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    print_message("seed %zu\n", size_t{seed});
    Shadow(seed).run(operations);
  }
}

// ---- splits known by hand ----

void chains_fill_granules_to_their_ends(void **) {
  GranuleLedger ledger(page, heap());
  uint64_t next = 1;
  // 1.25 pages each: the first opens a granule for its tail; the others begin behind the tail before.
  auto split = ledger.choose(page + page / 4);
  assert_int_equal(split.head, 0);
  assert_int_equal(split.whole, 1);
  assert_int_equal(split.tail, page / 4);
  assert_int_equal(split.new_granules(), 2);
  claim(ledger, split, &next);
  uint64_t granules = 2;
  for (int i = 1; i < 4; ++i) {
    split = ledger.choose(page + page / 4);
    assert_int_equal(split.new_granules(), 1);
    granules += split.new_granules();
    claim(ledger, split, &next);
    check_valid(ledger);
  }
  assert_int_equal(granules, 5);  // what their bytes come to
  assert_int_equal(ledger.free_bytes(), 0);
}

void two_rooms_save_a_whole_granule(void **) {
  GranuleLedger ledger(page, heap());
  uint64_t next = 1;
  claim(ledger, ledger.find_tail(page / 8), &next);  // 7/8 of a page at its rear
  GranuleLedger::Place place = ledger.find_head(page / 8);
  place.run = GranuleLedger::none;  // in a granule of its own: 7/8 of a page at its front
  const Piece head = claim(ledger, place, &next);
  assert_int_equal(ledger.granules(), 2);
  const auto split = ledger.choose(page + page / 2);
  assert_int_equal(split.new_granules(), 0);
  assert_int_equal(split.head, page * 7 / 8);
  assert_int_equal(split.tail, page * 5 / 8);
  claim(ledger, split, &next);
  assert_int_equal(ledger.free_bytes(), page / 4);  // between the two fragments of the second
  assert_int_equal(ledger.used_in(head), page * 3 / 4);
  check_valid(ledger);
}

void rounds_where_little_is_wasted(void **) {
  GranuleLedger ledger(page, heap());
  const auto split = ledger.choose(100 * page - 1);
  assert_int_equal(split.whole, 100);
  assert_int_equal(split.head + split.tail, 0);
  assert_int_equal(ledger.choose(3 * page).whole, 3);
  assert_int_equal(ledger.choose(3 * page - q).new_granules(), 3);
}

void keeps_small_ones_between_fragments(void **) {
  GranuleLedger ledger(page, heap());
  uint64_t next = 1;
  const Piece tail = claim(ledger, ledger.find_tail(page / 4), &next, 7);
  const Piece head = claim(ledger, ledger.find_head(page / 4), &next, 8);
  const Piece small = claim(ledger, ledger.find_small(page / 2), &next, 9);
  assert_int_equal(ledger.granules(), 1);
  assert_int_equal(ledger.granule(tail), ledger.granule(small));
  assert_int_equal(ledger.offset(small), page / 4);
  assert_true(ledger.first_in(head) == tail);
  assert_true(ledger.next_in(tail) == small);
  assert_true(ledger.next_in(small) == head);
  assert_false(static_cast<bool>(ledger.next_in(head)));
  assert_false(static_cast<bool>(ledger.emptiest()));  // its fragments are not moved
  assert_false(ledger.release(tail).emptied);
  assert_false(ledger.release(head).emptied);
  assert_true(ledger.emptiest() == small);
  assert_true(ledger.release(small).emptied);
}

void a_choice_is_good_once(void **) {
  GranuleLedger ledger(page, heap());
  uint64_t next = 1;
  const auto stale_split = ledger.choose(page + q);
  const auto stale_place = ledger.find_small(q);
  claim(ledger, ledger.find_small(q), &next);
  GranuleLedger::Claim made;
  Piece piece;
  assert_false(ledger.commit(stale_split, 5, 6, 0, &made));
  assert_false(ledger.commit(stale_place, 5, 0, &piece));
  assert_false(made.head || made.tail || piece);
  assert_int_equal(ledger.pieces(), 1);
}

/// A granule that is being made, or emptied, is not given out; undoing its claim leaves nothing of it.
void hidden_granules_are_left_alone(void **) {
  GranuleLedger ledger(page, heap());
  GranuleLedger::Claim made;
  assert_true(ledger.commit(ledger.choose(page + page / 2), 1, 2, 0, &made));
  assert_false(ledger.shown(made.tail));
  assert_true(ledger.find_small(q).run == GranuleLedger::none);
  assert_true(ledger.find_head(q).run == GranuleLedger::none);
  check_valid(ledger);
  ledger.show(made.tail);
  ledger.show(made.tail);
  assert_true(ledger.find_small(q).run != GranuleLedger::none);
  ledger.hide(made.tail);
  assert_true(ledger.find_head(q).run == GranuleLedger::none);
  check_valid(ledger);
  const auto released = ledger.release(made.tail);
  assert_true(released.emptied);
  assert_int_equal(ledger.granules(), 0);
  check_valid(ledger);
}

void the_emptiest_come_first(void **) {
  GranuleLedger ledger(page, heap());
  uint64_t next = 1;
  std::vector<Piece> pieces;
  for (const uint64_t part : {5, 3, 4, 6}) {  // of 8; no two fit into one
    GranuleLedger::Place place = ledger.find_small(page * part / 8);
    place.run = GranuleLedger::none;
    pieces.push_back(claim(ledger, place, &next));
  }
  assert_true(ledger.emptiest() == pieces[1]);
  assert_true(ledger.next_emptiest(pieces[1]) == pieces[2]);
  assert_true(ledger.next_emptiest(pieces[2]) == pieces[0]);
  assert_true(ledger.next_emptiest(pieces[0]) == pieces[3]);
  assert_false(static_cast<bool>(ledger.next_emptiest(pieces[3])));
  ledger.hide(pieces[1]);
  assert_true(ledger.emptiest() == pieces[2]);
  check_valid(ledger);
}

// ---- a memory resource that fails ----

class FailingMemory final : public std::pmr::memory_resource {
 public:
  uint64_t left = UINT64_MAX, failures = 0;
  int64_t bytes_out = 0;

 private:
  void *do_allocate(size_t bytes, size_t alignment) override {
    if (left-- == 0) {
      ++failures;
      throw std::bad_alloc();
    }
    bytes_out += static_cast<int64_t>(bytes);
    return heap()->allocate(bytes, alignment);
  }
  void do_deallocate(void *memory, size_t bytes, size_t alignment) noexcept override {
    bytes_out -= static_cast<int64_t>(bytes);
    heap()->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }
};

void scenario(FailingMemory *memory) {
  GranuleLedger ledger(page, memory);
  std::vector<Piece> pieces;
  const auto twice = [&](auto &&step) {
    const uint64_t used = ledger.used(), granules = ledger.granules(), count = ledger.pieces();
    try {
      step();
    } catch (const std::bad_alloc &) {
      check_valid(ledger);
      assert_int_equal(ledger.used(), used);
      assert_int_equal(ledger.granules(), granules);
      assert_int_equal(ledger.pieces(), count);
      step();
    }
    check_valid(ledger);
  };
  uint64_t next = 1;
  for (uint64_t i = 0; i < 24; ++i) {
    twice([&] {
      const auto made = claim(ledger, ledger.choose(page + i * 3 * q + q), &next);
      if (made.head) pieces.push_back(made.head);
      if (made.tail) pieces.push_back(made.tail);
    });
    twice([&] { pieces.push_back(claim(ledger, ledger.find_small(1 + i * 700), &next)); });
    if (i % 3 == 2) {
      ledger.release(pieces[i]);
      pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  for (const Piece piece : pieces) ledger.release(piece);
  assert_int_equal(ledger.granules(), 0);
}

void memory_fails_at_every_position(void **) {
  FailingMemory memory;
  uint64_t position = 0;
  do {
    memory.failures = 0;
    memory.left = position++;
    scenario(&memory);
    assert_int_equal(memory.bytes_out, 0);
  } while (memory.failures != 0);
  assert_true(position > 12);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(agrees_with_a_shadow),
      cmocka_unit_test(chains_fill_granules_to_their_ends),
      cmocka_unit_test(two_rooms_save_a_whole_granule),
      cmocka_unit_test(rounds_where_little_is_wasted),
      cmocka_unit_test(keeps_small_ones_between_fragments),
      cmocka_unit_test(a_choice_is_good_once),
      cmocka_unit_test(hidden_granules_are_left_alone),
      cmocka_unit_test(the_emptiest_come_first),
      cmocka_unit_test(memory_fails_at_every_position),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
