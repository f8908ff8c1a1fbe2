// SPDX-License-Identifier: Apache-2.0
//
// The checksum: xxHash's own sum at every level of the processor, in one piece and in several, at any length and
// alignment, and never 0. And what a block's decoder sums as it writes, which is what it wrote.

// As in the library, which is why there is none to link.
#define XXH_INLINE_ALL
#include "core/codec/checksum.hpp"
#include "tests/unit/coded_block.hpp"
#include "tests/unit/codec_data.hpp"

namespace {

using namespace weir::test;
using namespace weir::codec;

/// Around the lengths at which XXH3 takes another way, or its long one another turn.
constexpr uint64_t lengths[] = {0,   1,   3,    4,    8,    9,    16,    17,     128,        129,
                                240, 241, 1023, 1024, 1025, 4096, 70000, 262144, 262144 + 63};

void same_at_every_level(void **) {
  const Bytes bytes = make_bytes(Kind::random, 262144 + 128);
  for (const CpuLevel level : levels_here()) {
    const ChecksumKernel &kernel = checksum_kernel(level);
    for (const uint64_t length : lengths) {
      for (const uint64_t from : {0, 1, 64})
        assert_int_equal(kernel.sum(&bytes[from], length), XXH3_64bits(&bytes[from], length));
    }
  }
}

void same_in_pieces(void **) {
  const Bytes bytes = make_bytes(Kind::random, 262144);
  const uint64_t whole = XXH3_64bits(bytes.data(), bytes.size());
  for (const CpuLevel level : levels_here()) {
    for (const uint64_t piece : {uint64_t{1}, uint64_t{255}, uint64_t{1024}, uint64_t{100000}}) {
      XXH3_state_t state;
      (void)XXH3_64bits_reset(&state);
      for (uint64_t at = 0; at < bytes.size(); at += piece)
        checksum_kernel(level).add(&state, &bytes[at], std::min(piece, bytes.size() - at));
      assert_int_equal(XXH3_64bits_digest(&state), whole);
    }
  }
  PageChecksum sum;
  sum.add(bytes.data(), 1000);
  sum.add(&bytes[1000], bytes.size() - 1000);
  assert_int_equal(sum.sum(), checksum_of(bytes.data(), bytes.size()));
}

/// What coded blocks can be summed piece by piece come to the sum of the whole, every byte once; of others nothing is added,
/// and the sum is the same.
void decoders_sum_what_they_write(void **) {
  BlockMethods methods(true);
  const struct {
    MethodId id;
    Kind kind;
    Form form;
    bool in_pieces;
  } cases[] = {{MethodId::raw, Kind::random, Form::bytes, true},
               {MethodId::fx, Kind::bf16, Form::bf16, true},
               {MethodId::fx, Kind::smooth, Form::f32, true},
               {MethodId::sparse, Kind::zeroed_bf16, Form::bf16, true},
               {MethodId::sparse, Kind::sparse, Form::f64, true},
               {MethodId::lz4, Kind::text, Form::bytes, false},
               {MethodId::mask, Kind::mask, Form::bytes, false}};
  for (const auto &each : cases) {
    for (const uint64_t raw :
         {uint64_t{1}, uint64_t{127}, uint64_t{8192}, uint64_t{40001}, uint64_t{262144}}) {
      const Bytes in = make_bytes(each.kind, raw);
      Bytes coded(2 * raw + 4096), out(raw);
      coded.resize(
          methods.find(each.id)->encode(in.data(), raw, each.form, coded.data(), coded.size()));
      if (coded.empty()) continue;  // as LZ4 of one byte
      DecodedSum sum;
      assert_true(methods.find(each.id)->decode(coded.data(), coded.size(), out.data(), raw,
                                                &sum) == Decoded::ok);
      assert_true(out == in);
      assert_int_equal(sum.added(), each.in_pieces ? raw : 0);
      assert_int_equal(sum.of(out.data(), raw), checksum_of(in.data(), raw));
    }
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(same_at_every_level),
      cmocka_unit_test(same_in_pieces),
      cmocka_unit_test(decoders_sum_what_they_write),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
