// SPDX-License-Identifier: Apache-2.0
//
// SPARSE gives back every byte, at every length, address, width and level of the processor, from no zeros to nothing
// else, with the nonzeros as they are and coded by FX; it says no to whatever is no block of its own, and touches
// nothing outside its ranges.

#include "core/codec/fx.hpp"
#include "core/codec/fx_kernels.hpp"
#include "core/codec/sparse.hpp"
#include "tests/unit/coded_block.hpp"
#include "tests/unit/float_bytes.hpp"

#include <cmath>

namespace {

using namespace weir::test;
using weir::codec::element_bytes;
using weir::codec::Form;

constexpr Form forms[] = {Form::bytes, Form::f16, Form::bf16, Form::f32, Form::f64};
constexpr uint64_t block = uint64_t{256} << 10U;
constexpr uint64_t header = 8;

CodedBlock coder(Form form, uint64_t largest) {
  return CodedBlock(
      [form](const unsigned char *in, uint64_t raw, unsigned char *out, uint64_t room,
             CpuLevel level) {
        return weir::codec::sparse_encode(form, in, raw, out, room, level);
      },
      weir::codec::sparse_decode, largest, 64);
}

/// Normal values of which so many of 100 are zeros.
BlockBytes with_zeros(Form form, uint64_t raw, uint32_t percent, uint64_t seed = 1) {
  BlockBytes bytes = make_values(form, Values::normal, raw, seed);
  std::mt19937_64 random(seed);
  const uint32_t width = element_bytes(form);
  for (uint64_t at = 0; at + width <= raw; at += width) {
    if (random() % 100 < percent) std::memset(&bytes[at], 0, width);
  }
  return bytes;
}

// ---- round trips ----

void every_length(void **) {
  for (const Form form : forms) {
    CodedBlock code = coder(form, 4096);
    for (uint64_t raw = 0; raw <= 4096; ++raw) {
      const BlockBytes in =
          raw % 3 == 0 ? make_values(form, all_values[raw / 3 % std::size(all_values)], raw, raw)
                       : with_zeros(form, raw, static_cast<uint32_t>(raw % 101), raw);
      code.check_round_trip(in);
    }
  }
}

void every_alignment(void **) {
  for (const Form form : forms) {
    CodedBlock code = coder(form, 8192);
    for (uint64_t gap = 0; gap < 64; ++gap) {
      const BlockBytes in = with_zeros(form, 4000 + 37 * gap, 60, gap);
      code.check_round_trip(in, gap, (gap * 23 + 5) % 64);
    }
    for (const Values values : all_values) code.check_front(make_values(form, values, 5000));
  }
}

void whole_blocks(void **) {
  for (const Form form : forms) {
    CodedBlock code = coder(form, block);
    for (const Values values : all_values) code.check_round_trip(make_values(form, values, block));
    for (const uint32_t percent : {1U, 20U, 50U, 80U, 99U}) {
      code.check_round_trip(with_zeros(form, block, percent));
      code.check_round_trip(with_zeros(form, block - 5003, percent), 1, 2);
    }
  }
}

/// All or nothing by stretches, so that calls of a kernel have all of their elements, or none.
void stretches(void **) {
  for (const Form form : forms) {
    CodedBlock code = coder(form, block);
    for (const uint64_t stretch : {uint64_t{600}, uint64_t{5000}, uint64_t{40000}}) {
      for (const uint64_t phase : {uint64_t{0}, uint64_t{1}}) {
        BlockBytes in = make_values(form, Values::normal, 150000);
        for (uint64_t at = 0; at < in.size(); ++at) {
          if ((at / stretch + phase) % 2 == 0) in[at] = 0;
        }
        code.check_round_trip(in);
      }
    }
  }
}

/// Every set of eight neighbours, wherever they stand: each entry of the tables.
void every_set_of_lanes(void **) {
  for (const Form form : forms) {
    const uint32_t width = element_bytes(form);
    BlockBytes in = make_values(form, Values::normal, 256 * 8 * width);
    for (uint32_t set = 0; set < 256; ++set) {
      for (uint32_t lane = 0; lane < 8; ++lane) {
        unsigned char *const element = &in[(set * 8 + lane) * width];
        std::memset(element, 0, width);
        // One byte that is not zero is enough, and it may be any of them.
        if ((set >> lane & 1U) != 0)
          element[(set + lane) % width] = static_cast<unsigned char>(1 + lane);
      }
    }
    coder(form, in.size()).check_round_trip(in);
  }
}

/// Blobs are read by machines that did not write them. Only a better choice of window is a reason to change these.
void pinned(void **) {
  constexpr uint64_t digests[] = {0xC75ADED49EE62FEB, 0xD4409CBC41DB4470, 0x945111393910E163,
                                  0x63A936BBAFB76755, 0x14081F3F77726B1B};
  for (uint32_t i = 0; i < std::size(forms); ++i) {
    const BlockBytes in = pinned_bytes(9001, element_bytes(forms[i]), 150);
    const BlockBytes coded = coder(forms[i], 16384).check_round_trip(in);
    if (digest(coded) != digests[i])
      fail_msg("form %u: 0x%016llX", i, static_cast<unsigned long long>(digest(coded)));
  }
}

// ---- what is chosen ----

void it_pays(void **) {
  const BlockBytes relu = with_zeros(Form::bf16, block, 80);
  const BlockBytes coded = coder(Form::bf16, block).encode(relu);
  assert_int_equal(coded[1], 1);
  assert_true(static_cast<double>(block) / static_cast<double>(coded.size()) > 4.5);
  const BlockBytes bytes = with_zeros(Form::bytes, block, 80);
  const BlockBytes plain = coder(Form::bytes, block).encode(bytes);
  assert_int_equal(plain[1], 0);
  assert_true(static_cast<double>(block) / static_cast<double>(plain.size()) > 3.0);
}

void estimates(void **) {
  for (const Form form : forms) {
    CodedBlock code = coder(form, block);
    for (const uint32_t percent : {0U, 15U, 50U, 80U, 100U}) {
      const BlockBytes in = with_zeros(form, block - 5, percent);
      const auto coded = static_cast<double>(code.encode(in).size());
      const auto estimate =
          static_cast<double>(weir::codec::sparse_estimate(form, in.data(), in.size()));
      assert_true(std::abs(estimate - coded) < 0.03 * static_cast<double>(block));
    }
  }
}

// ---- what is no block ----

void damages(void **) {
  for (const Form form : forms) {
    const uint64_t raw = 5 * 64 * element_bytes(form) + 3;
    CodedBlock code = coder(form, 4096);
    for (const uint32_t percent : {5U, 50U, 95U}) {
      const BlockBytes coded = code.encode(with_zeros(form, raw, percent));
      code.check_damages(coded, raw);
    }
  }
}

/// What the bitmaps say is not what the nonzeros are.
void bitmaps_that_lie(void **) {
  for (const Form form : forms) {
    const uint32_t width = element_bytes(form);
    const uint64_t groups = 100, raw = groups * 64 * width;
    CodedBlock code = coder(form, raw);
    for (const uint32_t percent : {10U, 60U}) {
      const BlockBytes good = code.encode(with_zeros(form, raw, percent));
      for (uint64_t at = header; at < header + 8 * groups; at += 7) {
        for (uint32_t bit = 0; bit < 8; ++bit) {
          BlockBytes bad = good;
          bad[at] = static_cast<unsigned char>(bad[at] ^ 1U << bit);
          code.check_malformed(bad, raw);
        }
      }
      for (const int all : {0, 255}) {
        BlockBytes bad = good;
        std::memset(&bad[header], all, 8 * groups);
        code.check_malformed(bad, raw);
      }
      BlockBytes bad = good;
      const auto nonzeros = weir::codec::load_little<uint32_t>(&good[4]);
      for (const uint32_t wrong : {nonzeros - 1, nonzeros + 1, 0U, UINT32_MAX}) {
        weir::codec::store_little(&bad[4], wrong);
        code.check_malformed(bad, raw);
      }
    }
  }
}

/// Whole groups of nonzeros that no bitmap has a place for, without an escape that would be left over.
void nonzeros_too_many(void **) {
  const uint64_t raw = 256 * 4;
  CodedBlock code = coder(Form::f32, 2048);
  const BlockBytes good = code.encode(make_values(Form::f32, Values::equal, raw));
  assert_int_equal(good[1], 1);
  for (uint64_t groups = 1; groups <= 4; ++groups) {
    BlockBytes bad = good;
    std::memset(&bad[header], 0, 8 * groups);
    code.check_malformed(bad, raw);
  }
}

void headers(void **) {
  const uint64_t raw = 64 * 8 * 2;
  CodedBlock code = coder(Form::bf16, 2048);
  for (const uint32_t percent : {0U, 80U}) {
    const BlockBytes good = code.encode(with_zeros(Form::bf16, raw, percent));
    for (uint32_t form = 0; form < 256; ++form) {
      for (uint32_t fx = 0; fx < 4; ++fx) {
        BlockBytes bad = good;
        bad[0] = static_cast<unsigned char>(form);
        bad[1] = static_cast<unsigned char>(fx);
        const bool same_width = form == 1 || form == 2;
        const bool fine = fx == good[1] && (fx == 1 ? form == 2 : same_width);
        assert_int_equal(code.check_any(bad, raw), fine);
      }
    }
    for (const uint64_t at : {uint64_t{2}, uint64_t{3}}) {
      BlockBytes bad = good;
      bad[at] = 1;
      code.check_malformed(bad, raw);
    }
  }
}

/// Right headers and lengths over noise, with FX behind them or not; and noise alone.
void garbage(void **) {
  std::mt19937_64 random(7);
  CodedBlock code = coder(Form::f64, 8192);
  uint32_t taken = 0;
  for (uint32_t i = 0; i < 100000; ++i) {
    const Form form = forms[random() % 5];
    const uint32_t width = element_bytes(form);
    const uint64_t raw = random() % (i % 16 == 0 ? 8192 : 400 * width);
    const uint64_t groups = raw / (64 * width), tail = raw % (64 * width);
    BlockBytes bytes(header + 8 * groups);
    uint64_t ones = 0;
    const uint64_t density = random();
    for (uint64_t at = header; at < bytes.size(); ++at) {
      const uint64_t noise = density % 2 == 0 ? random() & random() & random() : random();
      bytes[at] = static_cast<unsigned char>(noise);
      ones += static_cast<uint64_t>(__builtin_popcountll(noise & 255U));
    }
    uint64_t nonzeros = ones;
    if (density % 5 == 0) nonzeros = random() % (64 * groups + 1);
    const bool fx = weir::codec::fx_supports(form) && random() % 2 == 0;
    BlockBytes payload(nonzeros * width);
    for (unsigned char &byte : payload) byte = static_cast<unsigned char>(random());
    if (fx) {
      // A block of FX of the right raw length, mostly with something wrong in it.
      BlockBytes coded(2 * payload.size() + 64);
      coded.resize(weir::codec::fx_encode(form, payload.data(), payload.size(), coded.data(),
                                          coded.size(), CpuLevel::scalar));
      if (random() % 4 != 0) {
        unsigned char &byte = coded[random() % coded.size()];
        byte = static_cast<unsigned char>(byte ^ random());
      }
      payload = coded;
    }
    bytes[0] = static_cast<unsigned char>(form);
    bytes[1] = fx ? 1 : 0;
    weir::codec::store_little(&bytes[4], static_cast<uint32_t>(nonzeros));
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    bytes.insert(bytes.end(), tail, 9);
    if (i % 8 == 0) {
      bytes.resize(random() % 300);
      for (unsigned char &byte : bytes) byte = static_cast<unsigned char>(random() % 4);
    }
    taken += code.check_any(bytes, raw) ? 1 : 0;
  }
  assert_true(taken > 1000);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(every_length),
      cmocka_unit_test(every_alignment),
      cmocka_unit_test(whole_blocks),
      cmocka_unit_test(stretches),
      cmocka_unit_test(every_set_of_lanes),
      cmocka_unit_test(pinned),
      cmocka_unit_test(it_pays),
      cmocka_unit_test(estimates),
      cmocka_unit_test(damages),
      cmocka_unit_test(bitmaps_that_lie),
      cmocka_unit_test(nonzeros_too_many),
      cmocka_unit_test(headers),
      cmocka_unit_test(garbage),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
