// SPDX-License-Identifier: Apache-2.0
//
// The pattern: a range of a version has the same bytes however it is cut, checking finds every flipped bit and says
// where, and versions, blocks, offsets and seeds can't be mistaken for each other.
#include "tests/tools/trace_files.hpp"

#include "tools/weir/pattern.hpp"

#include <zstd.h>

#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <vector>

namespace {

using namespace weir::tool;

constexpr DataMode modes[] = {DataMode::pattern, DataMode::tensor, DataMode::random, DataMode::zero,
                              DataMode::mixed};

std::vector<std::byte> filled(const Pattern &pattern, uint32_t block, uint32_t version,
                              uint64_t offset, uint64_t length) {
  std::vector<std::byte> bytes(length);
  pattern.fill(bytes.data(), block, version, offset, length);
  return bytes;
}

void fills_what_words_say(void **) {
  constexpr uint64_t words = 300;
  for (const DataMode mode : modes) {
    const Pattern pattern(mode, 42);
    std::vector<uint64_t> expected(words);
    for (uint64_t i = 0; i < words; ++i) expected[i] = pattern.word(3, 9, i);
    const auto *reference = reinterpret_cast<const unsigned char *>(expected.data());
    std::mt19937 random(1);
    for (int round = 0; round < 2000; ++round) {
      const uint64_t offset = random() % (8 * words - 1);
      const uint64_t length =
          random() % 3 == 0 ? 1 + random() % 16 : 1 + random() % (8 * words - offset);
      const uint64_t fitting = std::min<uint64_t>(length, 8 * words - offset);
      std::vector<unsigned char> bytes(fitting + 2, 0xcc);
      auto *at = reinterpret_cast<std::byte *>(bytes.data() + 1);  // also unaligned memory
      pattern.fill(at, 3, 9, offset, fitting);
      assert_memory_equal(bytes.data() + 1, reference + offset, fitting);
      assert_int_equal(bytes.front(), 0xcc);  // nothing outside
      assert_int_equal(bytes.back(), 0xcc);
      assert_int_equal(pattern.check(at, 3, 9, offset, fitting).words, 0);
    }
  }
}

void finds_every_flipped_bit(void **) {
  constexpr uint64_t offset = 5;
  constexpr uint64_t length = 700;
  for (const DataMode mode : modes) {
    const Pattern pattern(mode, 1);
    for (const uint32_t version : {0u, 1u, 77u}) {
      std::vector<std::byte> bytes = filled(pattern, 8, version, offset, length);
      for (uint64_t i = 0; i < length; ++i) {
        const std::byte right = bytes[i];
        bytes[i] ^= static_cast<std::byte>(1u << (i % 8));
        const Mismatch found = pattern.check(bytes.data(), 8, version, offset, length);
        assert_int_equal(found.words, 1);
        const uint64_t byte = offset + i;
        assert_true(found.offset <= byte && byte < found.offset + 8);
        const uint64_t shift = 8 * (byte - found.offset);
        assert_int_equal((found.expected >> shift) & 0xff, std::to_integer<uint64_t>(right));
        assert_int_equal((found.got >> shift) & 0xff, std::to_integer<uint64_t>(bytes[i]));
        bytes[i] = right;
      }
    }
  }
}

void counts_wrong_words(void **) {
  const Pattern pattern(DataMode::pattern, 1);
  std::vector<std::byte> bytes = filled(pattern, 0, 1, 0, 4096);
  for (const uint64_t at : {8u, 1000u, 4095u}) bytes[at] ^= std::byte{0x10};
  const Mismatch found = pattern.check(bytes.data(), 0, 1, 0, 4096);
  assert_int_equal(found.words, 3);
  assert_int_equal(found.offset, 8);
}

/// Of 16 lines the first: nothing of the others is written, or looked at.
void fills_and_checks_lines_that_count(void **) {
  const Pattern all(DataMode::pattern, 7), some(DataMode::pattern, 7, 32, 16);
  constexpr uint64_t size = 5000;
  for (const uint64_t offset : {uint64_t{0}, uint64_t{1000}, uint64_t{1030}, uint64_t{1100}}) {
    const std::vector<std::byte> right = filled(all, 2, 3, offset, size);
    std::vector<std::byte> bytes(size, std::byte{0xcc});
    some.fill(bytes.data(), 2, 3, offset, size);
    for (uint64_t i = 0; i < size; ++i) {
      const bool counts = (offset + i) / 64 % 16 == 0;
      assert_true(bytes[i] == (counts ? right[i] : std::byte{0xcc}));
    }
    assert_int_equal(some.check(bytes.data(), 2, 3, offset, size).words, 0);
    for (uint64_t i = 0; i < size; ++i) {
      const bool counts = (offset + i) / 64 % 16 == 0;
      bytes[i] ^= std::byte{1};
      const Mismatch found = some.check(bytes.data(), 2, 3, offset, size);
      assert_int_equal(found.words, counts ? 1 : 0);
      if (counts) assert_int_equal(found.offset, std::max(offset, (offset + i) / 8 * 8));
      bytes[i] ^= std::byte{1};
    }
  }
  // All that is wrong counts, and the first is told.
  std::vector<std::byte> wrong(size);
  const Mismatch found = some.check(wrong.data(), 2, 3, 0, size);
  assert_int_equal(found.words, 5 * 8);  // lines 0, 16, 32, 48 and 64
  assert_int_equal(found.offset, 0);
}

void version_0_is_zero(void **) {
  for (const DataMode mode : modes)
    for (const std::byte byte : filled(Pattern(mode, 5), 4, 0, 3, 500))
      assert_int_equal(std::to_integer<int>(byte), 0);
}

/// Another block, version, place or seed must not pass for the right one, in no part of a page.
void tells_contents_apart(void **) {
  constexpr uint64_t length = 4096;
  for (const DataMode mode : modes) {
    const Pattern pattern(mode, 1);
    const auto wrong_words = [&](const std::vector<std::byte> &bytes) {
      return pattern.check(bytes.data(), 2, 3, 0, length).words;
    };
    // Zeros are the same everywhere; the marks between them must not be.
    const uint64_t nearly_all = mode == DataMode::zero ? length / 512 - 1 : length / 8 - 8;
    // The words between the random ones are of the version, not of the place.
    const uint64_t misplaced = mode == DataMode::mixed ? length / 16 - 8 : nearly_all;
    assert_true(wrong_words(filled(pattern, 1, 3, 0, length)) > nearly_all);
    assert_true(wrong_words(filled(pattern, 2, 2, 0, length)) > nearly_all);
    assert_true(wrong_words(filled(pattern, 3, 2, 0, length)) > nearly_all);
    assert_true(wrong_words(std::vector<std::byte>(length)) > nearly_all);
    assert_true(wrong_words(filled(Pattern(mode, 2), 2, 3, 0, length)) > nearly_all);
    for (uint64_t shift = 8; shift <= uint64_t{64} << 20; shift *= 2)
      assert_true(wrong_words(filled(pattern, 2, 3, shift, length)) > misplaced);
  }
}

void is_the_same_on_every_machine(void **) {
  // Known values: traces verified on one machine must be comparable with another's report.
  std::set<std::pair<uint64_t, uint64_t>> seen;
  for (const DataMode mode : modes) {
    const Pattern pattern(mode, 1);
    seen.emplace(pattern.word(1, 1, 1), pattern.word(1, 1, 63));
  }
  assert_int_equal(seen.size(), 5);
  const Pattern first(DataMode::pattern, 1);
  const Pattern second(DataMode::pattern, 1);
  for (uint64_t i = 0; i < 100; ++i) assert_int_equal(first.word(7, 7, i), second.word(7, 7, i));
  // Words lie on a line: the loop may add instead of multiplying.
  const uint64_t step = first.word(7, 7, 1) - first.word(7, 7, 0);
  assert_int_equal(step & 1, 1);
  assert_true(first.word(7, 7, 1000) == first.word(7, 7, 0) + 1000 * step);
}

double compressed_share(DataMode mode, uint32_t block, uint64_t random_words = 32) {
  const std::vector<std::byte> bytes =
      filled(Pattern(mode, 1, random_words), block, 1, 0, 256 << 10);
  std::vector<char> packed(ZSTD_compressBound(bytes.size()));
  const size_t size = ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), 3);
  return static_cast<double>(size) / static_cast<double>(bytes.size());
}

void compresses_as_its_name_says(void **) {
  for (uint32_t block = 0; block < 8; ++block) {
    assert_true(compressed_share(DataMode::random, block) > 0.99);
    const double tensor = compressed_share(DataMode::tensor, block);
    assert_true(tensor > 0.5 && tensor < 0.97);
    assert_true(compressed_share(DataMode::zero, block) < 0.05);
    for (const uint64_t words : {0, 8, 32, 60, 64}) {
      const double share = static_cast<double>(words) / 64;
      const double found = compressed_share(DataMode::mixed, block, words);
      if (std::fabs(found - share) > 0.03) fail_msg("%g of mixed %g", found, share);
    }
  }
}

/// What a page holds whose bytes were dropped, and nothing else, must be told from a page of marks.
void marks_stand_in_every_page(void **) {
  const Pattern pattern(DataMode::zero, 1);
  for (uint64_t i = 0; i < 4096; ++i) assert_true((pattern.word(5, 6, i) != 0) == (i % 64 == 0));
  const std::vector<std::byte> nothing(512);
  for (uint64_t offset = 0; offset < 65536; offset += 512)
    assert_int_equal(pattern.check(nothing.data(), 5, 6, offset, 512).words, 1);
}

void tensor_values_are_small_floats(void **) {
  const Pattern pattern(DataMode::tensor, 1);
  bool bf16_seen = false;
  for (uint32_t block = 0; block < 16; ++block) {
    double squares = 0;
    bool as_bf16 = true;
    for (uint64_t i = 0; i < 1000; ++i) {
      const uint64_t word = pattern.word(block, 1, i);
      for (unsigned k = 0; k < 4; ++k) {
        const auto bits = static_cast<uint32_t>((word >> (16 * k)) & 0xffff) << 16;
        float value = 0;
        std::memcpy(&value, &bits, sizeof value);
        if (!std::isfinite(value) || std::fabs(value) > 1) as_bf16 = false;
        squares += as_bf16 ? static_cast<double>(value) * static_cast<double>(value) : 0;
      }
    }
    if (!as_bf16) continue;
    bf16_seen = true;
    const double deviation = std::sqrt(squares / 4000);
    assert_true(deviation > 0.01 && deviation < 0.04);
  }
  assert_true(bf16_seen);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(fills_what_words_say),
      cmocka_unit_test(finds_every_flipped_bit),
      cmocka_unit_test(counts_wrong_words),
      cmocka_unit_test(fills_and_checks_lines_that_count),
      cmocka_unit_test(version_0_is_zero),
      cmocka_unit_test(tells_contents_apart),
      cmocka_unit_test(is_the_same_on_every_machine),
      cmocka_unit_test(compresses_as_its_name_says),
      cmocka_unit_test(marks_stand_in_every_page),
      cmocka_unit_test(tensor_values_are_small_floats),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
