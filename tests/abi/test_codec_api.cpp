// SPDX-License-Identifier: Apache-2.0
//
// The codec through the C ABI alone: what weir/codec.h promises of bounds, descriptors, ranges, blobs and what they
// say of themselves, and how each wrong call is refused.

#include <weir/weir.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/cmocka.hpp"
#include "tests/support/stride.hpp"

namespace {

using weir::test::threads_only;
using Bytes = std::vector<unsigned char>;

constexpr uint64_t block = 256 << 10;
constexpr weir_result invalid = WEIR_ERROR_INVALID_ARGUMENT;
constexpr unsigned char canary = 0xC5;
constexpr uint64_t canaries = 64;
const char *const codecs[] = {nullptr,  "auto", "lz4",    "zstd",   "fx",
                              "sparse", "mask", "planes", "narrow", "raw"};

#define expect_result(wanted, call)                                                         \
  do {                                                                                      \
    const weir_result got_ = (call);                                                        \
    if (got_ != (wanted)) print_error("%s: got %d (%s)\n", #call, got_, weir_last_error()); \
    assert_int_equal(got_, (wanted));                                                       \
  } while (false)
#define ok(call) expect_result(WEIR_SUCCESS, call)

enum class Kind { zeros, random, text, floats, sparse, two_values, widened };
constexpr Kind kinds[] = {Kind::zeros,  Kind::random,     Kind::text,   Kind::floats,
                          Kind::sparse, Kind::two_values, Kind::widened};

Bytes make(Kind kind, uint64_t count) {
  Bytes bytes(count, 0);
  uint64_t state = 88172645463325252U;
  for (uint64_t i = 0; i < count; ++i) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    const auto random = static_cast<unsigned char>(state >> 32U);
    if (kind == Kind::random) bytes[i] = random;
    if (kind == Kind::text) bytes[i] = static_cast<unsigned char>("of a page "[(i + i / 999) % 10]);
    if (kind == Kind::floats)
      bytes[i] = i % 2 == 0 ? random : static_cast<unsigned char>((random & 0x81U) | 0x3CU);
    if (kind == Kind::sparse) bytes[i] = random < 8 ? 7 : 0;
    if (kind == Kind::two_values) bytes[i] = random < 80 ? 1 : 0;
    if (kind == Kind::widened && i % 4 >= 2)  // floats of which only the upper half is used
      bytes[i] = i % 4 == 2 ? random : static_cast<unsigned char>((random & 0x81U) | 0x3CU);
  }
  return bytes;
}

weir_compress_desc with(const char *codec, uint32_t level = 0, uint64_t flags = 0) {
  weir_compress_desc desc = WEIR_COMPRESS_DESC_INIT;
  desc.codec = codec;
  desc.level = level;
  desc.flags = flags;
  return desc;
}

/// A blob made in a room of exactly its bound, `shift` bytes off any alignment, and nothing written around it.
Bytes compress(const weir_compress_desc *desc, const Bytes &in, uint64_t shift = 0) {
  const uint64_t bound = weir_compress_bound(in.size());
  assert_true(bound >= in.size() && bound <= in.size() + in.size() / 1000 + 40);
  Bytes from(shift + in.size());
  if (!in.empty()) std::memcpy(from.data() + shift, in.data(), in.size());
  Bytes room(shift + bound + canaries, canary);
  uint64_t length = 0;
  ok(weir_compress(desc, from.data() + shift, in.size(), room.data() + shift, bound, &length));
  assert_true(length > 0 && length <= bound);
  for (uint64_t i = 0; i < canaries; ++i) assert_int_equal(room[shift + bound + i], canary);
  for (uint64_t i = 0; i < shift; ++i) assert_int_equal(room[i], canary);
  const auto begin = room.begin() + static_cast<long>(shift);
  return {begin, begin + static_cast<long>(length)};
}

weir_result decompress(const Bytes &blob, uint64_t capacity, Bytes *out, uint64_t shift = 0) {
  Bytes from(std::max<uint64_t>(shift + blob.size(), 1));  // not NULL
  if (!blob.empty()) std::memcpy(from.data() + shift, blob.data(), blob.size());
  Bytes room(shift + capacity + canaries, canary);
  uint64_t bytes = 77;
  const weir_result result =
      weir_decompress(from.data() + shift, blob.size(), room.data() + shift, capacity, &bytes);
  for (uint64_t i = 0; i < canaries; ++i) assert_int_equal(room[shift + capacity + i], canary);
  for (uint64_t i = 0; i < shift; ++i) assert_int_equal(room[i], canary);
  if (result != WEIR_SUCCESS) assert_int_equal(bytes, 0);
  const auto begin = room.begin() + static_cast<long>(shift);
  out->assign(begin, begin + static_cast<long>(bytes));
  return result;
}

void check_info(const Bytes &blob, uint64_t raw, bool sums) {
  weir_compressed_info info = WEIR_COMPRESSED_INFO_INIT;
  ok(weir_compressed_info_get(blob.data(), blob.size(), &info));
  assert_int_equal(info.struct_size, sizeof info);
  assert_int_equal(info.version, 3);
  assert_int_equal(info.raw_bytes, raw);
  assert_int_equal(info.block_bytes, block);
  assert_int_equal(info.blocks, (raw + block - 1) / block);
  assert_int_equal(info.checksums, sums ? 1 : 0);
  uint64_t raws = 0, coded = 0;
  for (const weir_codec_share &share : info.methods) {
    raws += share.raw_bytes;
    coded += share.coded_bytes;
    assert_true((share.raw_bytes == 0) == (share.coded_bytes == 0));
  }
  assert_int_equal(raws, raw);
  assert_int_equal(blob.size() - coded, 24 + info.blocks * (sums ? 16 : 8));
}

void every_length_comes_back(void **) {
  if (threads_only) skip();
  const uint64_t lengths[] = {
      0, 1, 7, 8, 9, 127, 4097, block - 1, block, block + 1, 2 * block - 1, 2 * block + 1};
  for (const Kind kind : kinds) {
    for (const uint64_t length : lengths) {
      const Bytes in = make(kind, length);
      for (const uint32_t level : {WEIR_COMPRESS_LEVEL_FAST, WEIR_COMPRESS_LEVEL_DENSE}) {
        const weir_compress_desc desc = with(nullptr, level);
        const Bytes blob = compress(&desc, in);
        check_info(blob, length, true);
        Bytes out;
        ok(decompress(blob, length, &out));
        assert_true(out == in);
        assert_true(compress(&desc, in) == blob);
      }
    }
  }
}

void every_codec_and_element_comes_back(void **) {
  if (threads_only) skip();
  const uint32_t own[] = {0,
                          0,
                          WEIR_CODEC_LZ4,
                          WEIR_CODEC_ZSTD,
                          WEIR_CODEC_FX,
                          WEIR_CODEC_SPARSE,
                          WEIR_CODEC_MASK,
                          WEIR_CODEC_PLANES,
                          WEIR_CODEC_NARROW,
                          WEIR_CODEC_RAW};
  for (size_t i = 0; i < std::size(codecs); ++i) {
    bool used = own[i] == 0;
    for (const Kind kind : kinds) {
      const Bytes in = make(kind, 70001);
      for (uint32_t level = 0; level < 2; ++level) {
        for (uint32_t element = 0; element <= WEIR_ELEMENT_F64; ++element) {
          const uint64_t flags = element % 2 == 0 ? 0 : WEIR_COMPRESS_NO_CHECKSUM;
          weir_compress_desc desc = with(codecs[i], level, flags);
          desc.element = element;
          const Bytes blob = compress(&desc, in, i % 4);
          check_info(blob, in.size(), flags == 0);
          weir_compressed_info info = WEIR_COMPRESSED_INFO_INIT;
          ok(weir_compressed_info_get(blob.data(), blob.size(), &info));
          for (uint32_t m = 0; own[i] != 0 && m < WEIR_CODEC_SLOTS; ++m) {
            if (m == WEIR_CODEC_SAME || m == WEIR_CODEC_RAW) continue;
            if (m == own[i])
              used = used || info.methods[m].raw_bytes != 0;
            else
              assert_int_equal(info.methods[m].raw_bytes, 0);
          }
          if (own[i] == WEIR_CODEC_RAW) used = used || info.methods[WEIR_CODEC_RAW].raw_bytes != 0;
          Bytes out;
          ok(decompress(blob, in.size() + i, &out, 3));
          assert_true(out == in);
        }
      }
    }
    if (!used) fail_msg("%s was never used", codecs[i]);
  }
  assert_true(compress(nullptr, make(Kind::text, 9999)) == [] {
    const auto desc = with("auto");
    return compress(&desc, make(Kind::text, 9999));
  }());
}

void descriptors_follow_the_rules(void **) {
  const Bytes in = make(Kind::text, 5000);
  Bytes room(weir_compress_bound(in.size()));
  uint64_t length = 5;
  const auto go = [&](const weir_compress_desc *desc) {
    length = 5;
    return weir_compress(desc, in.data(), in.size(), room.data(), room.size(), &length);
  };
  const auto refused = [&](const weir_compress_desc &desc, const char *named) {
    expect_result(invalid, go(&desc));
    assert_int_equal(length, 0);
    assert_non_null(std::strstr(weir_last_error(), named));
  };
  weir_compress_desc desc = with(nullptr, 2);
  refused(desc, "level is 2");
  desc = with(nullptr);
  desc.element = WEIR_ELEMENT_F64 + 1;
  refused(desc, "element is 5");
  desc = with(nullptr);
  desc.reserved = 9;
  refused(desc, "reserved is 9");
  refused(with(nullptr, 0, 2), "flags 0x2");
  refused(with(nullptr, 0, UINT64_C(1) << 63U), "flags 0x8000000000000000");
  for (const char *name : {"", "LZ4", "lz", "lz44", "same", "zip"})
    refused(with(name), (std::string("\"") + name + "\"").c_str());
  desc = with(nullptr);
  for (const uint32_t size : {0U, 4U, 7U}) {
    desc.struct_size = size;
    refused(desc, "struct_size");
  }
}

void ranges_are_checked(void **) {
  const Bytes in = make(Kind::random, 5000);
  const uint64_t bound = weir_compress_bound(in.size());
  Bytes room(bound, canary);
  uint64_t length = 5;
  expect_result(invalid, weir_compress(nullptr, in.data(), in.size(), room.data(), bound, nullptr));
  expect_result(invalid, weir_compress(nullptr, nullptr, 1, room.data(), bound, &length));
  assert_int_equal(length, 0);
  expect_result(invalid, weir_compress(nullptr, in.data(), in.size(), nullptr, bound, &length));
  expect_result(invalid, weir_compress(nullptr, in.data(), (UINT64_C(1) << 50U) + 1, room.data(),
                                       ~UINT64_C(0), &length));
  expect_result(invalid,
                weir_compress(nullptr, in.data(), in.size(), room.data(), bound - 1, &length));
  assert_int_equal(length, 0);
  assert_non_null(std::strstr(weir_last_error(), std::to_string(bound - 1).c_str()));
  // The bound is what is asked for, also where there are no checksums to make room for.
  weir_compress_desc bare = WEIR_COMPRESS_DESC_INIT;
  bare.flags = WEIR_COMPRESS_NO_CHECKSUM;
  expect_result(invalid,
                weir_compress(&bare, in.data(), in.size(), room.data(), bound - 1, &length));
  assert_non_null(std::strstr(weir_last_error(), (std::to_string(bound) + " ").c_str()));
  for (const unsigned char byte : room) assert_int_equal(byte, canary);
  assert_int_equal(weir_compress_bound((UINT64_C(1) << 50U) + 1), 0);
  assert_int_equal(weir_compress_bound(~UINT64_C(0)), 0);
  assert_true(weir_compress_bound(UINT64_C(1) << 50U) > UINT64_C(1) << 50U);
  // Overlapping by a byte at either end, one in the other, and just not.
  Bytes both(2 * bound + 2 * in.size());
  unsigned char *out = both.data() + in.size();
  const auto at = [&](unsigned char *from) {
    return weir_compress(nullptr, from, in.size(), out, bound, &length);
  };
  expect_result(invalid, at(out));
  assert_non_null(std::strstr(weir_last_error(), "overlap"));
  expect_result(invalid, at(out - in.size() + 1));
  expect_result(invalid, at(out + bound - 1));
  ok(at(out - in.size()));
  ok(at(out + bound));
}

void nothing_is_a_blob_too(void **) {
  unsigned char room[64];
  uint64_t length = 0, bytes = 5;
  ok(weir_compress(nullptr, nullptr, 0, room, weir_compress_bound(0), &length));
  assert_int_equal(length, weir_compress_bound(0));
  ok(weir_decompress(room, length, nullptr, 0, &bytes));
  assert_int_equal(bytes, 0);
  ok(weir_decompress(room, length, nullptr, 0, nullptr));
  expect_result(WEIR_ERROR_CORRUPT, weir_decompress(room, length + 1, nullptr, 0, nullptr));
}

void wrong_decompressions_are_refused(void **) {
  const Bytes in = make(Kind::text, 3 * block / 2);
  const Bytes blob = compress(nullptr, in);
  Bytes out(in.size());
  uint64_t bytes = 5;
  expect_result(invalid, weir_decompress(nullptr, blob.size(), out.data(), out.size(), &bytes));
  assert_int_equal(bytes, 0);
  expect_result(invalid, weir_decompress(blob.data(), blob.size(), nullptr, out.size(), &bytes));
  expect_result(invalid, decompress(blob, in.size() - 1, &out));
  assert_non_null(std::strstr(weir_last_error(), std::to_string(in.size()).c_str()));
  assert_non_null(std::strstr(weir_last_error(), std::to_string(in.size() - 1).c_str()));
  ok(weir_decompress(blob.data(), blob.size(), (out.resize(in.size()), out.data()), in.size(),
                     nullptr));
  assert_true(out == in);
  for (const uint64_t length :
       {uint64_t{0}, uint64_t{1}, uint64_t{23}, uint64_t{24}, uint64_t{40}, blob.size() - 1}) {
    const Bytes cut(blob.begin(), blob.begin() + static_cast<long>(length));
    expect_result(WEIR_ERROR_CORRUPT, decompress(cut, in.size(), &out));
    weir_compressed_info info = WEIR_COMPRESSED_INFO_INIT;
    expect_result(WEIR_ERROR_CORRUPT,
                  weir_compressed_info_get(cut.empty() ? blob.data() : cut.data(), length, &info));
  }
  Bytes longer = blob;
  longer.push_back(0);
  expect_result(WEIR_ERROR_CORRUPT, decompress(longer, in.size(), &out));
  weir_compressed_info info = WEIR_COMPRESSED_INFO_INIT;
  expect_result(WEIR_ERROR_CORRUPT, weir_compressed_info_get(longer.data(), longer.size(), &info));
  expect_result(invalid, weir_compressed_info_get(nullptr, 9, &info));
  expect_result(invalid, weir_compressed_info_get(blob.data(), blob.size(), nullptr));
  info.struct_size = 7;
  expect_result(invalid, weir_compressed_info_get(blob.data(), blob.size(), &info));
}

void a_flipped_bit_is_corrupt_with_checksums(void **) {
  if (threads_only) skip();
  for (const char *codec : codecs) {
    for (const Kind kind : kinds) {
      const Bytes in = make(kind, 3001);
      for (const uint64_t flags : {uint64_t{0}, uint64_t{WEIR_COMPRESS_NO_CHECKSUM}}) {
        const weir_compress_desc desc = with(codec, 0, flags);
        const Bytes blob = compress(&desc, in);
        for (uint64_t i = 24; i < blob.size(); i += 1 + blob.size() / 300) {
          Bytes damaged = blob, out;
          damaged[i] ^= 0x10;
          const weir_result result = decompress(damaged, in.size(), &out);
          // Some bits of libraries' frames mean nothing: then the bytes are those that were coded.
          if (flags == 0 && result == WEIR_SUCCESS) assert_true(out == in);
          if (result != WEIR_SUCCESS) assert_int_equal(result, WEIR_ERROR_CORRUPT);
        }
        Bytes damaged = blob, out;
        if (blob.size() < in.size()) continue;  // the rest is as it was
        damaged.back() ^= 1;
        expect_result(flags == 0 ? WEIR_ERROR_CORRUPT : WEIR_SUCCESS,
                      decompress(damaged, in.size(), &out));
      }
    }
  }
}

void threads_share_nothing(void **) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  const Bytes expected = compress(nullptr, make(Kind::floats, block + 4321));
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      const Bytes in = make(Kind::floats, block + 4321);
      for (int i = 0; i < 10; ++i) {
        Bytes room(weir_compress_bound(in.size())), out(in.size());
        uint64_t length = 0, bytes = 0;
        if (weir_compress(nullptr, in.data(), in.size(), room.data(), room.size(), &length) !=
                WEIR_SUCCESS ||
            weir_decompress(room.data(), length, out.data(), out.size(), &bytes) != WEIR_SUCCESS)
          ++wrong[t];
        room.resize(length);
        if (out != in || bytes != in.size() || room != expected) ++wrong[t];
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  for (const int count : wrong) assert_int_equal(count, 0);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(every_length_comes_back),
      cmocka_unit_test(every_codec_and_element_comes_back),
      cmocka_unit_test(descriptors_follow_the_rules),
      cmocka_unit_test(ranges_are_checked),
      cmocka_unit_test(nothing_is_a_blob_too),
      cmocka_unit_test(wrong_decompressions_are_refused),
      cmocka_unit_test(a_flipped_bit_is_corrupt_with_checksums),
      cmocka_unit_test(threads_share_nothing),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
