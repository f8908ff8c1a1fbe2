// SPDX-License-Identifier: Apache-2.0
//
// MASK gives back every byte of what has two values or one, refuses whatever has a third, wherever that stands, and says
// no to whatever is no block of its own.

#include "core/codec/mask.hpp"
#include "tests/unit/coded_block.hpp"

namespace {

using namespace weir::test;

constexpr uint64_t block = uint64_t{256} << 10U;

CodedBlock coder(uint64_t largest) {
  return CodedBlock(
      weir::codec::mask_encode,
      [](const unsigned char *in, uint64_t bytes, unsigned char *out, uint64_t raw, CpuLevel level,
         Stores /*stores*/) { return weir::codec::mask_decode(in, bytes, out, raw, level); },
      largest, 64);
}

BlockBytes two_values(uint64_t raw, int first, int other, uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  BlockBytes bytes(raw);
  for (unsigned char &byte : bytes)
    byte = static_cast<unsigned char>(random() % 4 == 0 ? other : first);
  return bytes;
}

void every_length(void **) {
  CodedBlock code = coder(4096);
  for (uint64_t raw = 1; raw <= 4096; ++raw) {
    const BlockBytes coded = code.check_round_trip(two_values(raw, 0, raw % 2 != 0 ? 1 : 255, raw));
    assert_int_equal(coded.size(), 2 + (raw + 7) / 8);
  }
  code.check_refused({}, 100);
  code.check_malformed({}, 0);
  code.check_malformed({0, 0}, 0);
}

void every_alignment(void **) {
  CodedBlock code = coder(8192);
  for (uint64_t gap = 0; gap < 64; ++gap) {
    code.check_round_trip(two_values(3000 + 41 * gap, 0, 1, gap), gap, (gap * 29 + 3) % 64);
  }
  code.check_front(two_values(5000, 7, 9));
  coder(block).check_round_trip(two_values(block, 0, 1));
}

void pinned(void **) {
  const BlockBytes in = {3, 9, 9, 3, 3, 3, 3, 9, 3, 9};
  const BlockBytes coded = coder(64).check_round_trip(in);
  assert_true(coded == (BlockBytes{3, 9, 0x86, 0x02}));
}

void every_value(void **) {
  CodedBlock code = coder(512);
  for (int first = 0; first < 256; ++first) {
    for (const int other : {0, 1, 127, 128, 254, 255, first ^ 1, first ^ 128}) {
      code.check_round_trip(two_values(331, first, other));
    }
  }
}

void a_third_value(void **) {
  CodedBlock code = coder(1024);
  for (const uint64_t raw : {uint64_t{3}, uint64_t{64}, uint64_t{331}}) {
    for (uint64_t at = 2; at < raw; ++at) {
      for (const int third : {2, 127, 128, 254}) {
        BlockBytes in = two_values(raw, 0, 255);
        in[0] = 0;
        in[1] = 255;
        in[at] = static_cast<unsigned char>(third);
        code.check_refused(in, 1000);
      }
    }
  }
}

void damages(void **) {
  CodedBlock code = coder(1024);
  for (const uint64_t raw : {uint64_t{64}, uint64_t{331}, uint64_t{1}}) {
    const BlockBytes coded = code.encode(two_values(raw, 3, 200));
    for (uint64_t length = 0; length < coded.size(); ++length)
      code.check_malformed(BlockBytes(coded.begin(), coded.begin() + static_cast<long>(length)),
                           raw);
    for (uint64_t at = 0; at < coded.size(); ++at) {
      for (uint32_t bit = 0; bit < 8; ++bit) {
        BlockBytes damaged = coded;
        damaged[at] = static_cast<unsigned char>(damaged[at] ^ 1U << bit);
        const bool taken = code.check_any(damaged, raw);
        const uint64_t place = (at - 2) * 8 + bit;
        if (at >= 2 && (place == 0 || place >= raw)) assert_false(taken);
      }
    }
  }
}

/// Two values that are one, and bits that choose between them.
void one_value_twice(void **) {
  CodedBlock code = coder(1024);
  BlockBytes coded = code.encode(BlockBytes(200, 5));
  assert_int_equal(coded[0], 5);
  assert_int_equal(coded[1], 5);
  for (uint64_t at = 2; at < coded.size(); ++at) {
    BlockBytes bad = coded;
    bad[at] = 2;
    code.check_malformed(bad, 200);
  }
}

void garbage(void **) {
  std::mt19937_64 random(5);
  CodedBlock code = coder(4096);
  uint32_t taken = 0;
  for (uint32_t i = 0; i < 100000; ++i) {
    const uint64_t raw = random() % 600;
    BlockBytes bytes(random() % 8 == 0 ? random() % 100 : 2 + (raw + 7) / 8);
    for (unsigned char &byte : bytes) byte = static_cast<unsigned char>(random());
    taken += code.check_any(bytes, raw) ? 1 : 0;
  }
  assert_true(taken > 100);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(every_length),    cmocka_unit_test(every_alignment),
      cmocka_unit_test(pinned),          cmocka_unit_test(every_value),
      cmocka_unit_test(a_third_value),   cmocka_unit_test(damages),
      cmocka_unit_test(one_value_twice), cmocka_unit_test(garbage),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
