// SPDX-License-Identifier: Apache-2.0
//
// Planes against their definition, written out element by element; join as the reverse of split; zeros out and back;
// and the entropy that decisions are taken by against the formula. Every width, stride and length up to where vectors
// begin to repeat, at both ends of memory that may be touched.

#include "core/codec/entropy.hpp"
#include "core/codec/nonzero.hpp"
#include "core/codec/planes.hpp"
#include "tests/unit/coded_block.hpp"
#include "tests/unit/plane_data.hpp"

namespace {

using namespace weir::test;
using namespace weir::codec;

uint64_t element(const Bytes &bytes, uint64_t index, PlaneLayout layout) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + index * layout.width, layout.width);
  if (!layout.rotate) return value;
  const uint32_t bits = 8U * layout.width;
  const uint64_t turned = value << 1U | value >> (bits - 1);
  return bits == 64 ? turned : turned & ((uint64_t{1} << bits) - 1);
}

Bytes planes_by_definition(const Bytes &in, uint64_t count, PlaneLayout layout) {
  Bytes planes(count * layout.width);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t value = element(in, i, layout);
    if (layout.stride > 0 && i >= layout.stride) value -= element(in, i - layout.stride, layout);
    for (uint32_t k = 0; k < layout.width; ++k) {
      planes[k * count + i] = static_cast<unsigned char>(value >> (8 * k));
    }
  }
  return planes;
}

void check_planes(const Bytes &in, uint64_t count, PlaneLayout layout, bool at_end) {
  const Bytes expected = planes_by_definition(in, count, layout);
  Guarded source(in, at_end);
  Guarded planes(expected.size(), at_end);
  split(source.data(), count, layout, planes.data());
  if (!std::equal(expected.begin(), expected.end(), planes.data())) {
    fail_msg("split: %u elements of %u bytes, stride %u", static_cast<unsigned>(count),
             layout.width, layout.stride);
  }
  const unsigned char *each[max_planes] = {};
  for (uint32_t k = 0; k < layout.width; ++k) each[k] = planes.data() + k * count;
  Guarded back(in.size(), at_end);
  join(each, count, layout, back.data());
  if (!std::equal(in.begin(), in.end(), back.data())) {
    fail_msg("join: %u elements of %u bytes, stride %u", static_cast<unsigned>(count), layout.width,
             layout.stride);
  }
}

void every_layout(void **) {
  for (const uint8_t width : {uint8_t{1}, uint8_t{2}, uint8_t{4}, uint8_t{8}}) {
    for (uint8_t stride = 0; stride <= max_stride; ++stride) {
      for (const bool rotate : {false, true}) {
        for (uint64_t count = 0; count <= 70; ++count) {
          const Bytes in = random_bytes(count * width, count);
          check_planes(in, count, {width, rotate, stride}, true);
          check_planes(in, count, {width, rotate, stride}, false);
        }
        const Bytes large = special_numbers(9999 * width);
        check_planes(large, 9999, {width, rotate, stride}, true);
      }
    }
  }
}

/// Planes that lie apart, as those of a coded block do.
void planes_apart(void **) {
  const Bytes in = normal_numbers(Form::f32, 4 * 1001, 1);
  const PlaneLayout layout{4, true, 3};
  const Bytes all = planes_by_definition(in, 1001, layout);
  Guarded parts[4] = {Guarded(1001), Guarded(1001), Guarded(1001), Guarded(1001)};
  const unsigned char *each[4];
  for (size_t k = 0; k < 4; ++k) {
    std::memcpy(parts[k].data(), all.data() + k * 1001, 1001);
    each[k] = parts[k].data();
  }
  Bytes out(in.size());
  join(each, 1001, layout, out.data());
  assert_memory_equal(out.data(), in.data(), in.size());
}

/// The exponent stands alone in the top plane, and the sign in the lowest bit.
void sign_goes_low(void **) {
  const float values[] = {1.0F, -1.0F, -1.5F};
  Bytes in(sizeof values), planes(sizeof values);
  std::memcpy(in.data(), values, sizeof values);
  split(in.data(), 3, {4, true, 0}, planes.data());
  const unsigned char expected[] = {0, 1, 1, 0, 0, 0, 0, 0, 128, 127, 127, 127};
  assert_memory_equal(planes.data(), expected, sizeof expected);
}

template <class Change>
void check_zeros(uint64_t count, uint32_t width, CpuLevel level, Change change) {
  Bytes in = random_bytes(count * width, count);
  for (uint64_t i = 0; i < count; ++i) {
    if (change(i)) std::memset(in.data() + i * width, 0, width);
  }
  Guarded source(in), bitmap(bitmap_bytes(count)), kept(in.size() + sparse_reach);
  std::memset(kept.data(), 0xEE, kept.size());
  const uint64_t left =
      take_zeros_out(source.data(), count, width, bitmap.data(), kept.data(), level);
  assert_int_equal(kept_of(bitmap.data(), count), left);
  uint64_t next = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const unsigned char *value = in.data() + i * width;
    const bool zero = std::all_of(value, value + width, [](unsigned char b) { return b == 0; });
    assert_int_equal(bitmap.data()[i / 8] >> (i % 8) & 1, zero ? 0 : 1);
    if (!zero) assert_memory_equal(kept.data() + width * next++, value, width);
  }
  assert_int_equal(next, left);
  // What is read behind them may be anything.
  Guarded exact(left * width + sparse_reach), out(in.size());
  std::memset(exact.data(), 0xEE, exact.size());
  if (left > 0) std::memcpy(exact.data(), kept.data(), left * width);
  std::memset(out.data(), 0xEE, in.size());
  put_zeros_back(bitmap.data(), count, width, exact.data(), out.data(), level);
  if (count > 0) assert_memory_equal(out.data(), in.data(), in.size());
}

void zeros_out_and_back(void **) {
  std::mt19937_64 random(1);
  for (const CpuLevel level : levels_here()) {
    for (const uint32_t width : {1U, 2U, 4U, 8U}) {
      for (uint64_t count = 0; count < 200; ++count) {
        check_zeros(count, width, level, [&](uint64_t) { return random() % 4 > 0; });
        check_zeros(count, width, level, [](uint64_t) { return true; });
        check_zeros(count, width, level, [](uint64_t) { return false; });
        check_zeros(count, width, level, [&](uint64_t i) { return i < count / 2; });
        check_zeros(count, width, level, [&](uint64_t i) { return i >= count / 2; });
      }
    }
  }
}

void bits_behind_the_last(void **) {
  const unsigned char bitmap[] = {0xFF, 0x0F};
  assert_int_equal(kept_of(bitmap, 12), 12);
  assert_int_equal(kept_of(bitmap, 16), 12);
  assert_true(kept_of(bitmap, 11) == UINT64_MAX);
}

void logarithms(void **) {
  assert_int_equal(log2_fixed(0), 0);
  assert_int_equal(log2_fixed(1), 0);
  for (uint32_t power = 1; power < 32; ++power) {
    assert_int_equal(log2_fixed(1U << power), power << 16U);
  }
  std::mt19937_64 random(2);
  for (int round = 0; round < 100000; ++round) {
    const auto value = static_cast<uint32_t>(2 + (random() >> (32 + random() % 31)));
    const double exact = std::log2(static_cast<double>(value));
    assert_true(std::fabs(static_cast<double>(log2_fixed(value)) / 65536 - exact) < 1.0 / 16384);
  }
}

void entropies(void **) {
  for (const size_t length : {0, 1, 7, 1000, 70001}) {
    const Bytes bytes = normal_numbers(Form::bytes, length, 20);
    ByteCounts counts{};
    Guarded guarded(bytes);
    count_bytes(guarded.data(), bytes.size(), &counts);
    uint64_t total = 0, values = 0;
    double bits = 0;
    for (const uint32_t count : counts) {
      total += count;
      if (count == 0) continue;
      ++values;
      bits -= count * std::log2(count / static_cast<double>(length));
    }
    assert_int_equal(total, length);
    if (values > 1) bits += static_cast<double>(values - 1) / (2 * std::log(2.0));
    assert_true(std::fabs(static_cast<double>(entropy_bits(counts)) / 65536 - bits) <=
                1 + static_cast<double>(length) / 8192);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(every_layout),
      cmocka_unit_test(planes_apart),
      cmocka_unit_test(sign_goes_low),
      cmocka_unit_test(zeros_out_and_back),
      cmocka_unit_test(bits_behind_the_last),
      cmocka_unit_test(logarithms),
      cmocka_unit_test(entropies),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
