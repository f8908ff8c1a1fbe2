// SPDX-License-Identifier: Apache-2.0
//
// NARROW gives back every byte of floats that fit into two bytes each, at every length, address and level of the processor,
// refuses others, and says no to whatever is no block of its own. Rounding comes to what arithmetic in double comes to,
// leaves what is exact alone, keeps NaNs, infinities and what would become one, and stays within the bound it promises.

#include "core/codec/narrow.hpp"
#include "core/codec/narrow_kernels.hpp"
#include "tests/unit/coded_block.hpp"
#include "tests/unit/float_bytes.hpp"

#include <bit>
#include <cmath>

namespace {

using namespace weir::test;
using weir::codec::Form;
using weir::codec::narrow_kernels;

constexpr Form halves[] = {Form::bf16, Form::f16};
constexpr uint64_t block = uint64_t{256} << 10U;

CodedBlock coder(uint64_t largest) {
  return CodedBlock(
      weir::codec::narrow_encode,
      [](const unsigned char *in, uint64_t bytes, unsigned char *out, uint64_t raw, CpuLevel level,
         Stores) { return weir::codec::narrow_decode(in, bytes, out, raw, level); },
      largest, 64);
}

/// Floats of four bytes with the values of a two-byte form, any of its bits, or such as models hold.
BlockBytes fitting(Form form, uint64_t raw, Values values, uint64_t seed) {
  const BlockBytes small = make_values(form, values, (raw + 3) / 4 * 2, seed);
  BlockBytes wide(small.size() * 2);
  (void)narrow_kernels(CpuLevel::scalar).of(form).from(small.data(), wide.data(), small.size() / 2);
  wide.resize(raw);
  return wide;
}

// ---- round trips ----

void every_length(void **) {
  for (const Form form : halves) {
    CodedBlock code = coder(4096);
    for (uint64_t raw = 4; raw <= 4096; ++raw)
      code.check_round_trip(fitting(form, raw, all_values[raw % std::size(all_values)], raw));
  }
}

void every_alignment(void **) {
  for (const Form form : halves) {
    CodedBlock code = coder(8192);
    for (uint64_t gap = 0; gap < 64; ++gap) {
      const BlockBytes in = fitting(form, 4000 + 37 * gap, Values::normal, gap);
      code.check_round_trip(in, gap, (gap * 23 + 5) % 64);
    }
    for (const Values values : all_values) code.check_front(fitting(form, 5000, values, 1));
  }
}

void whole_blocks(void **) {
  CodedBlock code = coder(block);
  for (const Form form : halves) {
    for (const Values values : all_values) {
      code.check_round_trip(fitting(form, block, values, 1));
      code.check_round_trip(fitting(form, block - 5003, values, 1), 1, 2);
    }
  }
}

/// Every value that a half has, as f32 and back.
void every_half(void **) {
  for (const CpuLevel level : levels_here()) {
    const auto &loops = narrow_kernels(level);
    BlockBytes in(2 * 65536), wide(4 * 65536), out(2 * 65536);
    for (uint32_t i = 0; i < 65536; ++i)
      weir::codec::store_little<uint16_t>(&in[2 * i], static_cast<uint16_t>(i));
    assert_true(loops.bf16.from(in.data(), wide.data(), 65536));
    assert_true(loops.bf16.to(wide.data(), out.data(), 65536));
    assert_memory_equal(in.data(), out.data(), in.size());
    assert_true(loops.f16.from(in.data(), wide.data(), 65536));
    assert_true(loops.f16.to(wide.data(), out.data(), 65536));
    assert_memory_equal(in.data(), out.data(), in.size());
    for (uint32_t i = 0; i < 0x7c00; ++i) {  // what the format says
      const auto bits = weir::codec::load_little<uint32_t>(&wide[4 * i]);
      const double value = i < 1024 ? std::ldexp(i, -24)
                                    : std::ldexp(1024 + i % 1024, static_cast<int>(i / 1024) - 25);
      assert_true(static_cast<double>(std::bit_cast<float>(bits)) == value);
    }
  }
}

// ---- what does not fit ----

void one_that_does_not_fit(void **) {
  CodedBlock code = coder(block);
  for (const Form form : halves) {
    const BlockBytes good = fitting(form, block - 8, Values::normal, 3);
    for (const uint64_t at : {uint64_t{0}, uint64_t{4}, block / 2 + 8, block - 12}) {
      BlockBytes bad = good;
      bad[at] ^= 1U;  // the last bit of a float that is no zero, or a denormal of it
      code.check_refused(bad, 2 * block);
    }
  }
  code.check_refused(make_values(Form::f32, Values::normal, 4096), 8192);
  code.check_refused(make_values(Form::f32, Values::specials, 4096), 8192);
  code.check_refused(BlockBytes(3, 0), 64);
  code.check_refused(BlockBytes(), 64);
}

/// Finite, but beyond what f16 has.
void too_large_for_a_half(void **) {
  for (const float value : {65520.0F, 65536.0F, 1e30F, -65520.0F}) {
    for (const CpuLevel level : levels_here()) {
      float in[16] = {1, 2, 3, value};
      unsigned char out[32];
      assert_false(narrow_kernels(level).f16.to(reinterpret_cast<unsigned char *>(in), out, 16));
    }
  }
}

void it_halves(void **) {
  const BlockBytes noise = fitting(Form::bf16, block, Values::scattered, 1);
  const BlockBytes normal = fitting(Form::bf16, block, Values::normal, 1);
  const BlockBytes sparse = fitting(Form::f16, block, Values::sparse, 1);
  CodedBlock code = coder(block);
  assert_true(code.encode(noise).size() <= block / 2 + 64);
  assert_true(code.encode(normal).size() <= block * 37 / 100);
  assert_true(code.encode(sparse).size() <= block / 15);
}

// ---- what is no block ----

void damages(void **) {
  for (const Form form : halves) {
    for (const Values values : {Values::normal, Values::sparse, Values::scattered}) {
      const uint64_t raw = 1400 + 3;
      CodedBlock code = coder(4096);
      code.check_damages(code.encode(fitting(form, raw, values, 2)), raw);
    }
  }
}

void pinned(void **) {
  constexpr uint64_t digests[] = {0x1E93FAAEAC1AF126, 0x2CE9AACB44139E22};
  for (uint32_t i = 0; i < std::size(halves); ++i) {
    const BlockBytes small = pinned_bytes(9000, 2, 60);
    BlockBytes wide(18000);
    (void)narrow_kernels(CpuLevel::scalar).of(halves[i]).from(small.data(), wide.data(), 4500);
    wide.resize(17999);
    const BlockBytes coded = coder(32768).check_round_trip(wide);
    if (digest(coded) != digests[i])
      fail_msg("form %u: 0x%016llX", i, static_cast<unsigned long long>(digest(coded)));
  }
}

// ---- rounding ----

/// The nearest value with so many bits of which the last is worth at least 2^least, by double's own rounding.
double nearest(double value, int bits, int least) {
  if (value == 0) return value;
  const int exponent = std::max(std::ilogb(value) - (bits - 1), least);
  return std::ldexp(std::nearbyint(std::ldexp(value, -exponent)), exponent);
}

uint32_t expected(Form form, uint32_t bits) {
  const float value = std::bit_cast<float>(bits);
  const double near = form == Form::bf16 ? nearest(static_cast<double>(value), 8, -133)
                                         : nearest(static_cast<double>(value), 11, -24);
  const double most = form == Form::bf16 ? std::ldexp(255, 120) : 65504;
  if (std::abs(near) > most) return bits;
  const uint32_t rounded = std::bit_cast<uint32_t>(static_cast<float>(near));
  return rounded | (bits & 0x80000000U);  // also for what rounds to zero
}

/// Every exponent and sign with fractions around where rounding turns, and at random.
std::vector<uint32_t> finite_floats() {
  std::vector<uint32_t> all;
  std::mt19937 random(7);
  for (uint32_t top = 0; top < 512; ++top) {
    if ((top & 255U) == 255) continue;
    for (const uint32_t shift : {13U, 14U, 15U, 16U, 17U, 22U}) {
      for (const int by : {-1, 0, 1}) {
        const uint32_t fraction = (1U << shift) + static_cast<uint32_t>(by);
        all.push_back(top << 23U | (fraction & 0x7fffffU));
        all.push_back(top << 23U | (0x7fffffU - fraction) % 0x800000U);
        all.push_back(top << 23U | ((random() << (shift + 1)) + fraction) % 0x800000U);
      }
    }
    for (int i = 0; i < 200; ++i) all.push_back(top << 23U | random() % 0x800000U);
    all.push_back(top << 23U);
  }
  for (const float edge : {65504.0F, 65519.99F, 65520.0F, 0x1p-14F, 0x1p-24F, 0x1p-25F, 0x1.8p-25F})
    for (const int by : {-1, 0, 1})
      all.push_back(std::bit_cast<uint32_t>(edge) + static_cast<uint32_t>(by));
  while (all.size() % 16 != 0) all.push_back(0);
  return all;
}

BlockBytes bytes_of(const std::vector<uint32_t> &words) {
  BlockBytes bytes(4 * words.size());
  for (size_t i = 0; i < words.size(); ++i) weir::codec::store_little(&bytes[4 * i], words[i]);
  return bytes;
}

void it_rounds_to_the_nearest(void **) {
  const std::vector<uint32_t> all = finite_floats();
  const BlockBytes in = bytes_of(all);
  for (const Form form : halves) {
    for (const CpuLevel level : levels_here()) {
      BlockBytes out(in.size()), again(in.size());
      weir::codec::round_floats(form, in.data(), out.data(), in.size(), level);
      weir::codec::round_floats(form, out.data(), again.data(), in.size(), level);
      assert_memory_equal(out.data(), again.data(), out.size());
      for (size_t i = 0; i < all.size(); ++i) {
        const auto got = weir::codec::load_little<uint32_t>(&out[4 * i]);
        if (got == expected(form, all[i])) continue;
        fail_msg("form %u, %s: 0x%08x became 0x%08x, expected 0x%08x", static_cast<unsigned>(form),
                 weir::codec::cpu_level_name(level), all[i], got, expected(form, all[i]));
      }
    }
  }
}

/// The bound that weir/buffer.h promises.
void it_stays_within_the_bound(void **) {
  const std::vector<uint32_t> all = finite_floats();
  for (const uint32_t bits : all) {
    const auto value = static_cast<double>(std::bit_cast<float>(bits));
    const auto brain = static_cast<double>(std::bit_cast<float>(weir::codec::round_to_bf16(bits)));
    const auto half = static_cast<double>(std::bit_cast<float>(weir::codec::round_to_f16(bits)));
    assert_true(std::abs(brain - value) <= std::max(std::ldexp(std::abs(value), -8), 0x1p-134));
    assert_true(std::abs(half - value) <= std::max(std::ldexp(std::abs(value), -11), 0x1p-25));
  }
}

void specials_stay_what_they_are(void **) {
  std::vector<uint32_t> words = {0, 0x80000000U, 0x7f800000U, 0xff800000U};
  for (const uint32_t payload : {1U, 0x1fffU, 0x2000U, 0x8000U, 0x10000U, 0x400000U, 0x7fffffU}) {
    words.push_back(0x7f800000U | payload);
    words.push_back(0xff800000U | payload);
  }
  while (words.size() % 16 != 0) words.push_back(0);
  const BlockBytes in = bytes_of(words);
  for (const Form form : halves) {
    for (const CpuLevel level : levels_here()) {
      BlockBytes out(in.size());
      weir::codec::round_floats(form, in.data(), out.data(), in.size(), level);
      for (size_t i = 0; i < words.size(); ++i) {
        const auto got = weir::codec::load_little<uint32_t>(&out[4 * i]);
        const uint32_t kept = form == Form::bf16 ? 0x7f0000U : 0x7fe000U;
        if ((words[i] & 0x7fffffffU) <= 0x7f800000U) assert_int_equal(got, words[i]);
        if ((words[i] & 0x7fffffffU) <= 0x7f800000U) continue;
        assert_int_equal(got >> 23U, words[i] >> 23U);
        const uint32_t payload = words[i] & kept;
        assert_int_equal(got & 0x7fffffU, payload != 0 ? payload : 0x400000U);
      }
      BlockBytes coded(2 * in.size());
      assert_true(weir::codec::narrow_encode(out.data(), out.size(), coded.data(), coded.size(),
                                             level) != 0);
    }
  }
}

/// In place, at every length; what is behind the last element stays.
void it_rounds_in_place(void **) {
  const BlockBytes in = make_values(Form::f32, Values::normal, 300);
  for (uint64_t raw = 0; raw <= 300; ++raw) {
    for (const CpuLevel level : levels_here()) {
      BlockBytes out = in;
      weir::codec::round_floats(Form::bf16, out.data(), out.data(), raw, level);
      for (uint64_t at = 0; at < 300; ++at) {
        const bool rounded = at < raw / 4 * 4;
        if (rounded && at % 4 < 2) assert_int_equal(out[at], 0);
        if (!rounded) assert_int_equal(out[at], in[at]);
      }
    }
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(every_length),
      cmocka_unit_test(every_alignment),
      cmocka_unit_test(whole_blocks),
      cmocka_unit_test(every_half),
      cmocka_unit_test(one_that_does_not_fit),
      cmocka_unit_test(too_large_for_a_half),
      cmocka_unit_test(it_halves),
      cmocka_unit_test(damages),
      cmocka_unit_test(pinned),
      cmocka_unit_test(it_rounds_to_the_nearest),
      cmocka_unit_test(it_stays_within_the_bound),
      cmocka_unit_test(specials_stay_what_they_are),
      cmocka_unit_test(it_rounds_in_place),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
