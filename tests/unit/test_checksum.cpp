// SPDX-License-Identifier: Apache-2.0
//
// The checksum: xxHash's own sum at every level of the processor, in one piece and in several, at any length and
// alignment, and never 0.

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

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(same_at_every_level),
      cmocka_unit_test(same_in_pieces),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
