// SPDX-License-Identifier: Apache-2.0
//
// AddressMap beside std::map, over addresses that collide.

#include "core/page/address_map.hpp"

#include <map>
#include <random>

#include "tests/support/cmocka.hpp"

namespace {

using weir::page::AddressMap;

void as_a_map(void **) {
  for (const uint64_t step : {uint64_t{256}, uint64_t{1} << 20U, uint64_t{1} << 44U}) {
    AddressMap map(std::pmr::get_default_resource());
    std::map<uint64_t, uint32_t> model;
    std::mt19937_64 random(step);
    for (uint32_t i = 0; i < 20000; ++i) {
      const uint64_t address = step * (1 + random() % 512);
      const auto known = model.find(address);
      assert_int_equal(map.find(address), known == model.end() ? AddressMap::none : known->second);
      if (known == model.end()) {
        map.reserve_one();
        map.insert(address, i);
        model.emplace(address, i);
      } else {
        map.erase(address);
        model.erase(known);
      }
      assert_int_equal(map.size(), model.size());
      assert_int_equal(map.empty(), model.empty());
    }
    for (const auto &[address, value] : model) assert_int_equal(map.find(address), value);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {cmocka_unit_test(as_a_map)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
