// SPDX-License-Identifier: Apache-2.0
//
// Matches that are far apart: rows that come back are found, in noise as in exponents, each match is one, and planes that have them
// are smaller for it and come back.

#include "core/codec/far_matches.hpp"
#include "core/codec/plane_coders.hpp"
#include "tests/unit/plane_data.hpp"

#include <memory>

namespace {

using namespace weir::test;
using namespace weir::codec;

constexpr size_t plane = size_t{128} << 10U, row = 64;

Bytes exponents(size_t count, uint64_t seed) {
  const Bytes numbers = normal_numbers(Form::bf16, 2 * count, 0.02, 0, seed);
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<unsigned char>(numbers[2 * i + 1] << 1U | numbers[2 * i] >> 7U);
  return bytes;
}

/// One row in `every` is one of the quarter of the plane before.
Bytes with_rows_again(Bytes bytes, size_t every) {
  const size_t quarter = bytes.size() / 4;
  for (size_t at = quarter; at + row <= bytes.size(); at += every * row)
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(at - quarter), row,
                bytes.begin() + static_cast<ptrdiff_t>(at));
  return bytes;
}

struct Found {
  std::vector<FarMatch> matches;
  FarMatches all;

  /// Each is one, and they are in order.
  void check(const Bytes &bytes) const {
    uint64_t at = 0, covered = 0;
    for (uint32_t i = 0; i < all.count; ++i) {
      const FarMatch &match = matches[i];
      at += match.literals;
      assert_true(match.distance > 0 && match.distance <= at);
      assert_true(at + match.length <= bytes.size());
      // One byte after the other: a match may reach into itself.
      bool equal = true;
      for (uint64_t k = at; k < at + match.length; ++k)
        equal = equal && bytes[k] == bytes[k - match.distance];
      assert_true(equal);
      at += match.length;
      covered += match.length;
    }
    assert_int_equal(covered, all.covered);
  }
};

Found find(const Bytes &bytes) {
  Found found{std::vector<FarMatch>(most_far_matches), {}};
  Guarded guarded(bytes);
  const PlaneLook look = look_at_plane(guarded.data(), bytes.size());
  found.all = find_far_matches(guarded.data(), bytes.size(), look, found.matches.data());
  found.check(bytes);
  return found;
}

void rows_are_found(void **) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    for (const size_t every : {size_t{1}, size_t{4}, size_t{9}}) {
      const uint64_t rows = plane / row * 3 / 4 / every;
      const uint64_t noise = find(with_rows_again(random_bytes(plane, seed), every)).all.covered;
      assert_in_range(noise, rows * row * 8 / 10, rows * row * 11 / 10);
      const uint64_t values = find(with_rows_again(exponents(plane, seed), every)).all.covered;
      assert_in_range(values, rows * row * 7 / 10, rows * row * 11 / 10);
    }
    assert_int_equal(find(random_bytes(plane, seed)).all.count, 0);
    assert_int_equal(find(exponents(plane, seed)).all.count, 0);
  }
}

/// Of every length, and where all is one match, or more are than are kept.
void ends(void **) {
  for (size_t length = 1; length < 400; length += length < 160 ? 1 : 7) {
    find(random_bytes(length));
    find(Bytes(length, 3));
    Bytes pairs = random_bytes(length / 2);
    pairs.insert(pairs.end(), pairs.begin(), pairs.end());
    if (!pairs.empty()) find(pairs);
  }
  find(Bytes(plane, 0));
  Bytes twice = random_bytes(plane / 2);
  twice.insert(twice.end(), twice.begin(), twice.end());
  assert_true(find(twice).all.covered + 200 >= plane / 2);
  assert_int_equal(find(random_bytes(plane + 1)).all.count, 0);
  const Bytes short_rows = [] {
    const Bytes some = random_bytes(48);
    Bytes bytes = random_bytes(plane, 7);
    for (size_t at = 0; at + 52 <= plane; at += 52)
      std::copy_n(some.begin(), 24, bytes.begin() + static_cast<ptrdiff_t>(at));
    return bytes;
  }();
  assert_in_range(find(short_rows).all.count, 1, most_far_matches);
}

/// What is kept of another plane's holds for this one.
void kept_for_the_next_plane(void **) {
  const Bytes first = with_rows_again(random_bytes(plane, 1), 4);
  Bytes second = with_rows_again(exponents(plane, 2), 4);
  Found found = find(first);
  const uint64_t covered = found.all.covered;
  assert_true(covered > 0);
  found.all = keep_far_matches(second.data(), found.all, found.matches.data());
  found.check(second);
  const uint64_t kept = found.all.covered;
  assert_in_range(kept, covered - covered / 50, covered);  // but for what was equal by chance
  second[plane / 2] ^= 1U;                                 // in one row that has come back
  found.all = keep_far_matches(second.data(), found.all, found.matches.data());
  found.check(second);
  assert_in_range(found.all.covered, kept - 4 * row, kept - 1);
  const Bytes other = random_bytes(plane, 3);
  found.all = keep_far_matches(other.data(), found.all, found.matches.data());
  assert_int_equal(found.all.count, 0);
}

size_t coded(PlaneEncoder &encoder, PlaneDecoder &decoder, const Bytes &in, PlaneMethod expected) {
  Guarded out(in.size()), back(in.size());
  CodedPlane result;
  assert_true(encoder.encode(in.data(), in.size(), Effort::dense, out.data(), out.size(), &result));
  assert_true(result.method == expected);
  assert_true(decoder.decode(result, out.data(), back.data(), in.size()) == Decoded::ok);
  assert_memory_equal(back.data(), in.data(), in.size());
  return result.bytes;
}

/// A fifth of the rows is left away, of both planes; the same block has the same planes, whatever was coded before.
void planes_get_smaller(void **) {
  const std::unique_ptr<PlaneEncoder> encoder(PlaneEncoder::create());
  const std::unique_ptr<PlaneDecoder> decoder(PlaneDecoder::create());
  const Bytes low = random_bytes(plane, 5), high = exponents(plane, 6);
  encoder->begin_block();
  const size_t plain_low = coded(*encoder, *decoder, low, PlaneMethod::raw);
  const size_t plain_high = coded(*encoder, *decoder, high, PlaneMethod::huf);
  size_t lengths[2] = {};
  for (int i = 0; i < 2; ++i) {
    encoder->begin_block();
    const size_t now_low = coded(*encoder, *decoder, with_rows_again(low, 4), PlaneMethod::zstd);
    const size_t now_high = coded(*encoder, *decoder, with_rows_again(high, 4), PlaneMethod::zstd);
    assert_true(now_low < plain_low * 86 / 100 && now_high < plain_high * 88 / 100);
    if (i > 0) assert_true(now_low == lengths[0] && now_high == lengths[1]);
    lengths[0] = now_low;
    lengths[1] = now_high;
    // Not those of the block before.
    encoder->begin_block();
    assert_int_equal(coded(*encoder, *decoder, high, PlaneMethod::huf), plain_high);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_found),
      cmocka_unit_test(ends),
      cmocka_unit_test(kept_for_the_next_plane),
      cmocka_unit_test(planes_get_smaller),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
