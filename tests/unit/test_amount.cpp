// SPDX-License-Identifier: Apache-2.0
//
// Amounts as errors have them: rounded down for people, and to the byte.

#include "core/base/amount.hpp"

#include "tests/support/cmocka.hpp"

#include <string>

namespace {

using weir::Amount;

void amounts_are_told_twice(void **) {
  const std::pair<uint64_t, const char *> cases[] = {
      {0, "0 bytes"},
      {1, "1 byte"},
      {1023, "1023 bytes"},
      {1024, "1 KiB (1024 bytes)"},
      {1536, "1.5 KiB (1536 bytes)"},
      {1024 + 102, "1 KiB (1126 bytes)"},
      {1024 + 103, "1.1 KiB (1127 bytes)"},
      {1048575, "1023 KiB (1048575 bytes)"},
      {1048576, "1 MiB (1048576 bytes)"},
      {17301504, "16.5 MiB (17301504 bytes)"},
      {105000000, "100 MiB (105000000 bytes)"},
      {uint64_t{3} << 40U, "3 TiB (3298534883328 bytes)"},
      {UINT64_MAX, "15.9 EiB (18446744073709551615 bytes)"}};
  for (const auto &[bytes, text] : cases) assert_string_equal(Amount(bytes).c_str(), text);
  // A unit's border, from both sides, in every unit.
  for (unsigned shift = 10; shift < 64; shift += 10) {
    const uint64_t unit = uint64_t{1} << shift;
    assert_true(std::string(Amount(unit).c_str()).starts_with("1 "));
    assert_true(std::string(Amount(unit - 1).c_str()).starts_with("1023 "));
  }
}

void amounts_for_people_alone(void **) {
  char text[16];
  Amount::round(17301504, text);
  assert_string_equal(text, "16.5 MiB");
  Amount::round(999, text);
  assert_string_equal(text, "999 bytes");
  Amount::round(UINT64_MAX, text);
  assert_string_equal(text, "15.9 EiB");
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(amounts_are_told_twice),
      cmocka_unit_test(amounts_for_people_alone),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
