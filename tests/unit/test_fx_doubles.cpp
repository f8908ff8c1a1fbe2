// SPDX-License-Identifier: Apache-2.0
//
// FX of doubles gives back every byte at every length, address and level; says no to exponents that are too far apart and to
// whatever is no block of its own, and touches nothing outside its ranges.

#include "core/codec/fx.hpp"
#include "tests/unit/coded_block.hpp"
#include "tests/unit/float_bytes.hpp"

namespace {

using namespace weir::test;
using weir::codec::Form;

constexpr uint64_t block = uint64_t{256} << 10U, group = 512, header = 4, group_coded = 424;

CodedBlock coder(uint64_t largest) {
  return CodedBlock(
      [](const unsigned char *in, uint64_t raw, unsigned char *out, uint64_t room, CpuLevel level) {
        return weir::codec::fx_encode(Form::f64, in, raw, out, room, level);
      },
      weir::codec::fx_decode, largest, 64);
}

BlockBytes numbers(Values values, uint64_t raw, uint64_t seed = 1) {
  return make_values(Form::f64, values, raw, seed);
}

void every_length(void **) {
  constexpr Values kinds[] = {Values::normal,    Values::equal,  Values::specials,
                              Values::rectified, Values::sparse, Values::zeros};
  CodedBlock code = coder(4200);
  for (uint64_t raw = 0; raw <= 4200; raw += raw < 1100 ? 1 : 7)
    code.check_round_trip(numbers(kinds[raw % std::size(kinds)], raw, raw), raw % 3, raw % 5);
  code.check_front(numbers(Values::normal, 4099));
}

void whole_blocks(void **) {
  CodedBlock code = coder(block);
  for (const Values values : {Values::normal, Values::specials, Values::rectified, Values::equal}) {
    for (const uint64_t raw : {block, block - 1, block - group, 33 * group + 9})
      code.check_round_trip(numbers(values, raw));
  }
  const BlockBytes in = numbers(Values::normal, block);
  const uint64_t coded = code.encode(in).size();
  assert_true(coded < block * 100 / 113);
  const uint64_t estimate = weir::codec::fx_estimate(Form::f64, in.data(), in.size());
  assert_true(estimate > coded - coded / 50 && estimate < coded + coded / 50);
}

/// Both ends of what a byte can stand for, and one beyond either.
void exponents_far_apart(void **) {
  CodedBlock code = coder(block);
  const auto with = [](uint64_t lowest, uint64_t highest) {
    BlockBytes in = numbers(Values::normal, block);
    for (uint64_t i = 0; i < block / 8; ++i)
      weir::codec::store_little(&in[8 * i], (i == 100 ? lowest : highest) << 52U | i);
    return in;
  };
  // The sample does not see the hundredth, and the bytes begin 200 below the others.
  for (const uint64_t highest : {uint64_t{201}, uint64_t{202}, uint64_t{1000}, uint64_t{1993}}) {
    const uint64_t first = highest - 200;
    code.check_round_trip(with(first, highest));
    code.check_round_trip(with(first + 253, highest));
    code.check_round_trip(with(0, highest));
    code.check_round_trip(with(2047, highest));
    if (first > 1) code.check_refused(with(first - 1, highest), 2 * block);
    if (first + 254 < 2047) code.check_refused(with(first + 254, highest), 2 * block);
  }
  code.check_round_trip(with(1793, 2046));
  code.check_refused(with(1792, 2046), 2 * block);
  code.check_round_trip(with(254, 1));
  code.check_refused(with(255, 1), 2 * block);
}

void pinned(void **) {
  const BlockBytes coded = coder(16384).check_round_trip(pinned_bytes(9001, 8, 10));
  if (digest(coded) != 0x60628556F6C6BAC4)
    fail_msg("0x%016llX", static_cast<unsigned long long>(digest(coded)));
}

void damages(void **) {
  CodedBlock code = coder(4096);
  for (const Values values : {Values::normal, Values::specials}) {
    const BlockBytes in = numbers(values, 3 * group + 5);
    code.check_damages(code.encode(in), in.size());
  }
}

void headers(void **) {
  constexpr uint64_t raw = 2 * group + 7;
  CodedBlock code = coder(4096);
  const BlockBytes good = code.encode(numbers(Values::equal, raw));
  for (const uint32_t first : {0U, 1U, 2U, 1792U, 1793U, 1794U, 2047U, 65535U}) {
    BlockBytes other = good;
    weir::codec::store_little(&other[2], static_cast<uint16_t>(first));
    assert_int_equal(code.check_any(other, raw), first >= 1 && first <= 1793);
  }
  BlockBytes bad = good;
  bad[1] = 1;
  code.check_malformed(bad, raw);
  // The exponents' block is one of bytes, as long as it says.
  const uint64_t at = header + 2 * group_coded;
  for (const int form : {1, 2, 3, 4, 5}) {
    bad = good;
    bad[at] = static_cast<unsigned char>(form);
    code.check_malformed(bad, raw);
  }
  code.check_malformed(BlockBytes(1, 4), 0);
  code.check_malformed(BlockBytes(4, 4), 8);
}

/// Headers that are right and noise behind them.
void garbage(void **) {
  std::mt19937_64 random(12);
  CodedBlock code = coder(8192);
  uint32_t taken = 0;
  for (uint32_t i = 0; i < 30000; ++i) {
    const uint64_t raw = random() % 3000, groups = raw / group;
    const auto k = static_cast<uint32_t>(1 + random() % 5);
    const uint64_t escapes = random() % (groups * 64 + 1);
    BlockBytes bytes(header + groups * group_coded + 8 + 8 * k * groups + escapes + raw % group);
    const bool dense = random() % 2 == 0;
    for (unsigned char &byte : bytes)
      byte = static_cast<unsigned char>(dense ? random() | random() : random());
    bytes[0] = static_cast<unsigned char>(Form::f64);
    bytes[1] = 0;
    weir::codec::store_little(&bytes[2], static_cast<uint16_t>(1 + random() % 1793));
    unsigned char *const nested = &bytes[header + groups * group_coded];
    nested[0] = 0;
    nested[1] = static_cast<unsigned char>(k);
    nested[2] = static_cast<unsigned char>(random() % (258 - (1U << k)));
    nested[3] = 0;
    weir::codec::store_little(nested + 4, static_cast<uint32_t>(escapes));
    taken += code.check_any(bytes, raw) ? 1 : 0;
  }
  assert_true(taken > 100);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(every_length),
      cmocka_unit_test(whole_blocks),
      cmocka_unit_test(exponents_far_apart),
      cmocka_unit_test(pinned),
      cmocka_unit_test(damages),
      cmocka_unit_test(headers),
      cmocka_unit_test(garbage),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
