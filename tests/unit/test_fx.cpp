// SPDX-License-Identifier: Apache-2.0
//
// FX gives back every byte, at every length, address and level of the processor, whatever the elements are and whichever
// window was chosen; it says no to whatever is no block of its own, and touches nothing outside its ranges.

#include "core/codec/fx.hpp"
#include "core/codec/fx_stream.hpp"
#include "tests/unit/coded_block.hpp"
#include "tests/unit/float_bytes.hpp"

#include <cmath>

namespace {

using namespace weir::test;
using weir::codec::Form;
using weir::codec::FxWindow;

constexpr Form forms[] = {Form::f16, Form::bf16, Form::f32};
constexpr uint64_t block = uint64_t{256} << 10U;
constexpr uint64_t header = weir::codec::fx_header_bytes;

CodedBlock coder(Form form, uint64_t largest) {
  return CodedBlock(
      [form](const unsigned char *in, uint64_t raw, unsigned char *out, uint64_t room,
             CpuLevel level) { return weir::codec::fx_encode(form, in, raw, out, room, level); },
      weir::codec::fx_decode, largest, 64);
}

/// Encodes with a window that the encoder would not choose; escapes may be coded only if Writer does that.
template <class Writer = weir::codec::FxWriter>
uint64_t encode_with(Form form, bool rotated, uint8_t k, uint8_t base, const unsigned char *in,
                     uint64_t raw, unsigned char *out, uint64_t room, CpuLevel level) {
  FxWindow window;
  window.k = k;
  window.rotated = rotated;
  window.base = base;
  Writer writer(form, window, raw, out, room, level);
  if (!writer.fits() || !writer.put(in, writer.shape().groups)) return 0;
  return writer.finish(in + raw - writer.shape().tail);
}

CodedBlock coder_with(Form form, bool rotated, uint8_t k, uint8_t base, uint64_t largest) {
  return CodedBlock(
      [=](const unsigned char *in, uint64_t raw, unsigned char *out, uint64_t room,
          CpuLevel level) {
        return encode_with(form, rotated, k, base, in, raw, out, room, level);
      },
      weir::codec::fx_decode, largest, 64);
}

// ---- round trips ----

void every_length(void **) {
  for (const Form form : forms) {
    CodedBlock code = coder(form, 4096);
    for (uint64_t raw = 0; raw <= 4096; ++raw) {
      const Values values = all_values[raw % std::size(all_values)];
      code.check_round_trip(make_values(form, values, raw, raw));
    }
  }
}

void every_alignment(void **) {
  for (const Form form : forms) {
    CodedBlock code = coder(form, 8192);
    for (uint64_t gap = 0; gap < 64; ++gap) {
      const BlockBytes in = make_values(form, Values::normal, 4000 + 37 * gap, gap);
      code.check_round_trip(in, gap, (gap * 23 + 5) % 64);
    }
    for (const Values values : all_values) code.check_front(make_values(form, values, 5000));
  }
}

void whole_blocks(void **) {
  for (const Form form : forms) {
    CodedBlock code = coder(form, block);
    for (const Values values : all_values) {
      code.check_round_trip(make_values(form, values, block));
      code.check_round_trip(make_values(form, values, block - 4096 - 3), 1, 2);
    }
  }
}

/// All there are of 16 bits; of 32, all upper halves with lower ones that differ.
void every_pattern(void **) {
  for (const Form form : forms) {
    const uint32_t width = weir::codec::element_bytes(form);
    BlockBytes in(width << 16U);
    for (uint32_t i = 0; i <= UINT16_MAX; ++i) {
      if (width == 4) {
        weir::codec::store_little(&in[4 * i], i << 16U | (i * 40503U & 0xFFFFU));
      } else {
        weir::codec::store_little(&in[2 * i], static_cast<uint16_t>(i));
      }
    }
    coder(form, in.size()).check_round_trip(in);
  }
}

void every_window(void **) {
  for (const Form form : forms) {
    const uint32_t largest = weir::codec::fx_largest_exponent(form);
    const BlockBytes scattered = make_values(form, Values::scattered, 1500);
    const BlockBytes normal = make_values(form, Values::normal, 1203);
    for (uint8_t k = 1; k <= weir::codec::fx_most_bits; ++k) {
      const uint32_t last = largest + 1 - weir::codec::fx_window(k);
      for (uint32_t base = 0; base <= last; base += base < 4 || base + 4 > last ? 1 : 3) {
        CodedBlock code = coder_with(form, (base & 1U) == 0, k, static_cast<uint8_t>(base), 2048);
        code.check_round_trip(scattered);
        code.check_round_trip(normal, 3, 9);
      }
    }
  }
}

/// Escapes throughout, and only where the room gets narrow: at the end, and at the beginning.
void escapes_wherever(void **) {
  constexpr uint64_t raw = 64 * 1024;
  for (const Form form : forms) {
    const BlockBytes calm = make_values(form, Values::equal, raw);
    const BlockBytes wild = make_values(form, Values::scattered, raw);
    const uint8_t base = form == Form::f16 ? 13 : 125;
    for (const uint64_t from : {uint64_t{0}, raw / 2, raw - 8192, raw - 300}) {
      for (const uint64_t count : {uint64_t{130}, uint64_t{9000}, raw}) {
        BlockBytes in = calm;
        for (uint64_t i = from; i < raw && i < from + count; ++i) in[i] = wild[i];
        for (uint8_t k = 1; k <= 3; ++k)
          coder_with(form, k != 2, k, base, raw).check_round_trip(in);
      }
    }
  }
}

void forms_without_exponents(void **) {
  const BlockBytes in = make_values(Form::f32, Values::normal, 4096);
  coder(Form::bytes, 4096).check_refused(in, 8192);
  assert_int_equal(weir::codec::fx_estimate(Form::bytes, in.data(), in.size()), 0);
}

using PlainWriter = weir::codec::FxWriterOf<false>;

/// A window as it is chosen, and escapes as they are: what version 2 of the format has.
BlockBytes encode_plainly(Form form, const BlockBytes &in) {
  const BlockBytes coded = coder(form, in.size()).encode(in);
  BlockBytes plain(2 * in.size() + 64);
  plain.resize(encode_with<PlainWriter>(form, (coded[3] & 1U) == 0, coded[1], coded[2], in.data(),
                                        in.size(), plain.data(), plain.size(), CpuLevel::scalar));
  return plain;
}

/// Where there are enough of them and not too many, as a block of bytes; and blocks with plain ones are read as ever.
void escapes_are_coded(void **) {
  for (const Form form : forms) {
    const BlockBytes in = make_values(form, Values::normal, block);
    CodedBlock code = coder(form, block);
    const BlockBytes coded = code.check_round_trip(in), plain = encode_plainly(form, in);
    assert_int_equal(coded[3] & 2U, 2);
    assert_int_equal(plain[3] & 2U, 0);
    assert_true(coded.size() < plain.size() - plain.size() / 300);
    assert_true(code.check_any(plain, block));
    // A window that nearly all are outside of, and one that hardly any is: too many, and too few.
    const BlockBytes many = make_values(form, Values::scattered, block);
    if (form != Form::f16)  // of which all but one exponent have codes
      assert_int_equal(code.check_round_trip(many)[3] & 2U, 0);
    const BlockBytes few = make_values(form, Values::normal, 256);
    assert_int_equal(code.check_round_trip(few)[3] & 2U, 0);
  }
}

/// Blocks whose escapes are coded, cut, longer, and changed byte by byte; and escapes of their own that are no exponents.
void damages_of_coded_escapes(void **) {
  for (const Form form : forms) {
    const uint32_t width = weir::codec::element_bytes(form);
    const uint64_t raw = 24 * 64 * width + 3;
    const BlockBytes in = make_values(form, Values::normal, raw);
    const uint8_t base = form == Form::f16 ? 9 : 121;  // the last but one of most
    CodedBlock code = coder_with(form, true, 1, base, raw);
    const BlockBytes coded = code.check_round_trip(in);
    assert_int_equal(coded[3], 2);
    code.check_damages(coded, raw);
    BlockBytes bad = coded;
    bad[3] = 0;
    code.check_malformed(bad, raw);
    const uint64_t nested = weir::codec::FxShape(form, raw).fixed(1) - raw % (64 * width);
    bad = coded;
    bad[nested] = static_cast<unsigned char>(Form::bf16);
    code.check_malformed(bad, raw);
    bad = coded;
    bad[nested + 3] = 2;  // no further
    code.check_malformed(bad, raw);
    // What is a block, but of floats: it has other bytes in a group.
    BlockBytes plain(2 * raw + 64), inner(2 * raw + 64);
    plain.resize(encode_with<PlainWriter>(form, true, 1, base, in.data(), raw, plain.data(),
                                          plain.size(), CpuLevel::scalar));
    const uint64_t tail = raw % (64 * width), escapes = plain.size() - tail - nested;
    inner.resize(encode_with<PlainWriter>(Form::bf16, true, 3, 100, &plain[nested], escapes,
                                          inner.data(), inner.size(), CpuLevel::scalar));
    bad.assign(plain.begin(), plain.begin() + static_cast<long>(nested));
    bad[3] = 2;
    bad.insert(bad.end(), inner.begin(), inner.end());
    bad.insert(bad.end(), tail, 7);
    code.check_malformed(bad, raw);
    if (form != Form::f16) continue;
    bad = coded;
    bad[nested + 2] = 250;  // 251 and so on are no exponents of f16
    code.check_malformed(bad, raw);
  }
}

/// Blobs are read by machines that did not write them. Only a better choice of window is a reason to change these.
void pinned(void **) {
  constexpr uint64_t digests[] = {0xA45B0D180706634B, 0x086974F94580DEE5, 0x6B404B2F60D8A4D2};
  constexpr uint64_t plain_digests[] = {0x5FEAD8226FE26246, 0x60C2EF48CC4E3756, 0x62B1B26D8469D78E};
  for (uint32_t i = 0; i < std::size(forms); ++i) {
    const BlockBytes in = pinned_bytes(9001, weir::codec::element_bytes(forms[i]), 10);
    const BlockBytes coded = coder(forms[i], 16384).check_round_trip(in);
    if (digest(coded) != digests[i])
      fail_msg("form %u: 0x%016llX", i, static_cast<unsigned long long>(digest(coded)));
    // As it was before escapes were coded.
    assert_int_equal(digest(encode_plainly(forms[i], in)), plain_digests[i]);
  }
}

// ---- what is chosen ----

double ratio(Form form, Values values) {
  const BlockBytes in = make_values(form, values, block);
  return static_cast<double>(block) / static_cast<double>(coder(form, block).encode(in).size());
}

void it_pays(void **) {
  assert_true(ratio(Form::bf16, Values::normal) > 1.37);
  assert_true(ratio(Form::f32, Values::normal) > 1.15);
  assert_true(ratio(Form::f16, Values::normal) > 1.08);
  assert_true(ratio(Form::bf16, Values::equal) > 1.77);
}

/// What has one sign spends nothing on it.
void one_sign(void **) {
  for (const Form form : forms) {
    BlockBytes in = make_values(form, Values::normal, block);
    const uint64_t both = coder(form, block).encode(in).size();
    const uint32_t width = weir::codec::element_bytes(form);
    for (const bool negative : {false, true}) {
      for (uint64_t at = width - 1; at < block; at += width)
        in[at] = static_cast<unsigned char>(negative ? in[at] | 0x80U : in[at] & 0x7FU);
      const BlockBytes coded = coder(form, block).check_round_trip(in);
      assert_int_equal(coded[3] & 1U, 1);
      // Half a bit for each element, at least.
      assert_true(coded.size() < both - block / width / 8 / 2);
    }
  }
}

/// The window is within a hundredth of the best of all windows, with escapes as they are.
void the_best_window(void **) {
  for (const Form form : forms) {
    for (const Values values : {Values::normal, Values::rectified, Values::specials}) {
      const BlockBytes in = make_values(form, values, 32768, 5);
      BlockBytes out(2 * in.size());
      uint64_t best = UINT64_MAX;
      for (uint8_t k = 1; k <= weir::codec::fx_most_bits; ++k) {
        const uint32_t last =
            weir::codec::fx_largest_exponent(form) + 1 - weir::codec::fx_window(k);
        for (uint32_t at = 0; at <= 2 * last + 1; ++at) {
          const uint32_t base = at / 2;
          best = std::min(best, encode_with<PlainWriter>(
                                    form, at % 2 == 0, k, static_cast<uint8_t>(base), in.data(),
                                    in.size(), out.data(), out.size(), CpuLevel::scalar));
        }
      }
      const uint64_t chosen = coder(form, in.size()).encode(in).size();
      assert_true(chosen <= best + best / 100);
    }
  }
}

/// What repeats with the distance of the sample's runs would deceive a sample at even distances.
void no_period_hides(void **) {
  BlockBytes in = make_values(Form::bf16, Values::normal, block);
  const BlockBytes wide = make_values(Form::bf16, Values::scattered, block);
  for (uint64_t at = 0; at + 1024 <= block; at += 4096)
    std::memcpy(&in[at], &wide[at], 1024);  // a quarter
  const uint64_t coded = coder(Form::bf16, block).encode(in).size();
  const uint64_t estimate = weir::codec::fx_estimate(Form::bf16, in.data(), in.size());
  assert_true(std::abs(static_cast<double>(estimate) / static_cast<double>(coded) - 1) < 0.05);
}

void estimates(void **) {
  for (const Form form : forms) {
    for (const Values values : all_values) {
      const BlockBytes in = make_values(form, values, block - 5);
      const uint64_t coded = coder(form, block).encode(in).size();
      const uint64_t estimate = weir::codec::fx_estimate(form, in.data(), in.size());
      // It does not foresee what coding the escapes saves.
      const double off = static_cast<double>(estimate) / static_cast<double>(coded) - 1;
      assert_true(off > -0.02 && off < 0.05);
    }
  }
}

// ---- what is no block ----

void damages(void **) {
  for (const Form form : forms) {
    CodedBlock code = coder(form, 4096);
    for (const Values values : {Values::normal, Values::scattered}) {
      const BlockBytes in =
          make_values(form, values, 3 * 64 * weir::codec::element_bytes(form) + 5);
      code.check_damages(code.encode(in), in.size());
    }
  }
}

void headers(void **) {
  constexpr uint64_t raw = 2 * 128 + 7;
  CodedBlock code = coder(Form::bf16, 1024);
  const BlockBytes good = code.encode(make_values(Form::bf16, Values::equal, raw));
  for (uint32_t form = 0; form < 256; ++form) {
    for (uint32_t k = 0; k < 8; ++k) {
      for (const uint32_t base : {0U, 1U, 2U, 17U, 24U, 25U, 30U, 31U, 32U, 125U, 224U, 225U, 226U,
                                  240U, 241U, 242U, 253U, 254U, 255U}) {
        BlockBytes bad = good;
        bad[0] = static_cast<unsigned char>(form);
        bad[1] = static_cast<unsigned char>(k);
        bad[2] = static_cast<unsigned char>(base);
        const bool is_16 = form == 1 || form == 2;
        const uint64_t low = form == 1 ? 88 : 64;
        if (!is_16 || k < 1 || k > 5 || (base + (1U << k) - 1 > (form == 1 ? 32U : 256U))) {
          code.check_malformed(bad, raw);
        }
        // As long as it would have to be with no escape and all codes 1, so that nothing but the header is wrong.
        bad.resize(header);
        bad.resize(header + 2 * low, 0x55);
        for (uint32_t i = 0; i < 2 * k; ++i) bad.insert(bad.end(), 8, i % k == 0 ? 0xFF : 0);
        bad.insert(bad.end(), raw % 128, 7);
        const bool fine =
            is_16 && k >= 1 && k <= 5 && base + (1U << k) - 1 <= (form == 1 ? 32U : 256U);
        assert_int_equal(code.check_any(bad, raw), fine);
        bad[3] = 1;
        assert_int_equal(code.check_any(bad, raw), fine);
        bad[3] = 2;
        code.check_malformed(bad, raw);
      }
    }
  }
}

/// One escape more or less than the bitmaps say, in the count and in the bytes.
void counts_of_escapes(void **) {
  for (const Form form : forms) {
    const uint64_t raw = 40 * 64 * weir::codec::element_bytes(form);
    CodedBlock code = coder(form, raw + 256);
    for (const Values values : {Values::normal, Values::scattered}) {
      const BlockBytes good = code.encode(make_values(form, values, raw));
      const auto count = weir::codec::load_little<uint32_t>(&good[4]);
      assert_true(count > 0);
      BlockBytes bad = good;
      weir::codec::store_little(&bad[4], count - 1);
      code.check_malformed(bad, raw);
      bad.pop_back();
      code.check_malformed(bad, raw);
      bad = good;
      weir::codec::store_little(&bad[4], count + 1);
      code.check_malformed(bad, raw);
      bad.push_back(3);
      code.check_malformed(bad, raw);
      weir::codec::store_little(&bad[4], UINT32_MAX);
      code.check_malformed(bad, raw);
    }
  }
}

/// Bitmaps that ask for an escape for each element of a whole block, and hardly any there.
void escapes_that_are_not_there(void **) {
  for (const Form form : forms) {
    CodedBlock code = coder(form, block);
    const weir::codec::FxShape shape(form, block);
    for (const uint32_t there : {0U, 1U, 100U, 5000U}) {
      BlockBytes bad(shape.fixed(2) + there, 0);
      bad[0] = static_cast<unsigned char>(form);
      bad[1] = 2;
      weir::codec::store_little(&bad[4], there);
      code.check_malformed(bad, block);
    }
  }
}

/// An escape that is no exponent of the form.
void escapes_beyond_the_form(void **) {
  constexpr uint64_t raw = 128 * 4;
  CodedBlock code = coder_with(Form::f16, true, 1, 3, 1024);
  const BlockBytes good = code.encode(make_values(Form::f16, Values::scattered, raw));
  BlockBytes bad = good;
  bad.back() = 31;
  assert_true(code.check_any(bad, raw));
  for (const int escape : {32, 64, 255}) {
    bad.back() = static_cast<unsigned char>(escape);
    code.check_malformed(bad, raw);
  }
}

/// Headers that are right, lengths that fit, and noise in between; and noise alone.
void garbage(void **) {
  std::mt19937_64 random(11);
  CodedBlock code = coder(Form::f32, 8192);
  uint32_t taken = 0;
  for (uint32_t i = 0; i < 100000; ++i) {
    const Form form = forms[random() % 3];
    const auto k = static_cast<uint32_t>(1 + random() % 5);
    const uint64_t raw = random() % (i % 16 == 0 ? 8192 : 600);
    const weir::codec::FxShape shape(form, raw);
    // Either few groups, where the count may happen to be right, or any count.
    const uint64_t escapes = random() % (shape.groups * 64 + 2);
    BlockBytes bytes(i % 4 == 0 ? random() % 300 : shape.fixed(k) + escapes);
    const uint64_t density = random();
    for (unsigned char &byte : bytes) {
      byte = static_cast<unsigned char>(density % 3 == 0 ? random() | random() : random());
      if (density % 5 == 0) byte &= 31;
    }
    if (i % 4 != 0) {
      bytes[0] = static_cast<unsigned char>(form);
      bytes[1] = static_cast<unsigned char>(k);
      bytes[2] = static_cast<unsigned char>(
          random() % (weir::codec::fx_largest_exponent(form) + 2 - weir::codec::fx_window(k)));
      bytes[3] = static_cast<unsigned char>(random() % 2);
      weir::codec::store_little(&bytes[4], static_cast<uint32_t>(escapes));
    }
    taken += code.check_any(bytes, raw) ? 1 : 0;
  }
  assert_true(taken > 100);  // the noise got as far as the kernels
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(every_length),
      cmocka_unit_test(every_alignment),
      cmocka_unit_test(whole_blocks),
      cmocka_unit_test(every_pattern),
      cmocka_unit_test(every_window),
      cmocka_unit_test(escapes_wherever),
      cmocka_unit_test(forms_without_exponents),
      cmocka_unit_test(escapes_are_coded),
      cmocka_unit_test(damages_of_coded_escapes),
      cmocka_unit_test(pinned),
      cmocka_unit_test(it_pays),
      cmocka_unit_test(one_sign),
      cmocka_unit_test(the_best_window),
      cmocka_unit_test(no_period_hides),
      cmocka_unit_test(estimates),
      cmocka_unit_test(damages),
      cmocka_unit_test(headers),
      cmocka_unit_test(counts_of_escapes),
      cmocka_unit_test(escapes_that_are_not_there),
      cmocka_unit_test(escapes_beyond_the_form),
      cmocka_unit_test(garbage),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
