// SPDX-License-Identifier: Apache-2.0
//
// RoomTree beside a std::set, as one tree and as one a class: with equal rooms, rooms of neighbouring classes, of none and
// beyond the last class.

#include "core/physical/room_tree.hpp"

#include <random>
#include <set>
#include <tuple>

#include "tests/support/cmocka.hpp"

namespace {

using weir::physical::RoomTree;

constexpr uint32_t count = 300;

struct Model {
  std::set<std::pair<uint64_t, uint32_t>> order;
  std::vector<std::pair<uint64_t, uint64_t>> entries{count, {UINT64_MAX, 0}};  ///< room, length

  bool has(uint32_t number) const { return entries[number].first != UINT64_MAX; }
  void insert(uint32_t number, uint64_t room, uint64_t length) {
    entries[number] = {room, length};
    order.emplace(room, number);
  }
  void erase(uint32_t number) {
    order.erase({entries[number].first, number});
    entries[number].first = UINT64_MAX;
  }
  uint32_t first_from(uint64_t room, uint32_t number, uint64_t length) const {
    for (auto at = order.lower_bound({room, number}); at != order.end(); ++at) {
      if (entries[at->second].second >= length) return at->second;
    }
    return RoomTree::none;
  }
  uint32_t largest(uint64_t length) const {
    for (auto at = order.rbegin(); at != order.rend(); ++at) {
      if (entries[at->second].second >= length) return at->second;
    }
    return RoomTree::none;
  }
};

void as_a_set(void **) {
  for (const auto kind : {RoomTree::Kind::one, RoomTree::Kind::classes}) {
    for (const unsigned bits : {4U, 12U, 22U, 40U}) {
      RoomTree tree(std::pmr::get_default_resource(), kind);
      tree.reserve(count);
      Model model;
      std::mt19937_64 random(bits);
      const auto room = [&] { return (random() % 64) << (random() % bits); };
      const auto length = [&] { return random() % 8; };
      for (int step = 0; step < 20000; ++step) {
        const auto number = static_cast<uint32_t>(random() % count);
        const uint64_t next_room = room(), next_length = length();
        if (!model.has(number)) {
          tree.insert(number, next_room, next_length);
          model.insert(number, next_room, next_length);
        } else if (random() % 2 == 0) {
          tree.erase(number);
          model.erase(number);
        } else {
          // Often by little, so that it may stay in its class.
          const uint64_t near = model.entries[number].first + random() % 3;
          const uint64_t changed = random() % 2 == 0 ? near : next_room;
          tree.change(number, changed, next_length);
          model.erase(number);
          model.insert(number, changed, next_length);
        }
        assert_int_equal(tree.contains(number), model.has(number));
        assert_int_equal(tree.size(), model.order.size());
        assert_int_equal(tree.empty(), model.order.empty());
        const uint64_t asked = room(), least = length();
        assert_int_equal(tree.at_least(asked), model.first_from(asked, 0, 0));
        assert_int_equal(tree.at_least(asked, least), model.first_from(asked, 0, least));
        assert_int_equal(tree.largest(least), model.largest(least));
        if (model.has(number)) {
          assert_int_equal(tree.room(number), model.entries[number].first);
          assert_int_equal(tree.length(number), model.entries[number].second);
          assert_int_equal(tree.next(number, least),
                           model.first_from(model.entries[number].first, number + 1, least));
        }
        if (step % 100 == 0) assert_string_equal(tree.validate().c_str(), "");
      }
    }
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {cmocka_unit_test(as_a_set)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
