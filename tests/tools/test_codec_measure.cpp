// SPDX-License-Identifier: Apache-2.0
//
// `weir codec`'s flags and measuring, over a codec of this file's own that stores bytes as they are and can be told to
// do wrong: whatever comes back other than it went in must end the command, and say where. The real codec is behind the
// command in test_codec_command.
#include "tests/tools/trace_files.hpp"
#include "tools/weir/codec_measure.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

namespace {

using namespace weir::tool;
using weir::test::contains;
using weir::test::error_of;

constexpr uint64_t fake_header = 8;
constexpr uint64_t block = uint64_t{256} << 10U;

/// What the codec below is asked, and how it does wrong.
struct Fake {
  std::vector<uint64_t> asked;  ///< bytes of each compression
  std::vector<weir_compress_desc> descs;
  uint64_t decompressions = 0, spoilt_decompression = UINT64_MAX;
  std::function<void(unsigned char *, uint64_t)> spoil;
  bool writes = true, refuses_in = false, refuses_out = false, short_count = false;
} fake;

std::vector<unsigned char> some_bytes(uint64_t count) {
  std::vector<unsigned char> bytes(count);
  uint32_t random = 5;
  for (unsigned char &byte : bytes) {
    random = random * 1664525U + 1013904223U;
    byte = static_cast<unsigned char>(random >> 24U);
  }
  return bytes;
}

CodecFigures measured(uint64_t bytes, uint64_t at_least = 1) {
  CodecBench bench("some.bf16", some_bytes(bytes), at_least);
  return bench.measure({"fast", "auto", 0}, WEIR_ELEMENT_BF16, 0.001);
}

void flags_are_checked(void **) {
  CodecFlags flags;
  flags.files = {"a", "b"};
  CodecOptions options = check_codec_flags(flags);
  assert_true(options.files == flags.files);
  const auto names = [&] {
    std::string text;
    for (const CodecWay &way : options.ways) text += std::string(way.name) + " ";
    return text;
  };
  assert_string_equal(names().c_str(), "fast dense lz4 zstd ");
  assert_int_equal(options.bytes, uint64_t{64} << 20U);
  assert_int_equal(options.element, WEIR_ELEMENT_ANY);
  flags.codecs = {"planes", "fast", "fx", "sparse", "mask"};
  flags.element = "f32";
  options = check_codec_flags(flags);
  assert_string_equal(names().c_str(), "planes fast fx sparse mask ");
  assert_string_equal(options.ways[0].codec, "planes");
  assert_string_equal(options.ways[1].codec, "auto");
  assert_int_equal(options.ways[1].level, WEIR_COMPRESS_LEVEL_FAST);
  assert_int_equal(options.element, WEIR_ELEMENT_F32);
  flags.codecs = {"dense"};
  assert_int_equal(check_codec_flags(flags).ways[0].level, WEIR_COMPRESS_LEVEL_DENSE);
}

void flags_that_make_no_sense_are_named(void **) {
  const auto refused = [](const std::function<void(CodecFlags &)> &change, const char *named) {
    CodecFlags flags;
    change(flags);
    const std::string error = error_of([&] { check_codec_flags(flags); });
    if (!contains(error, named)) fail_msg("'%s' does not name %s", error.c_str(), named);
  };
  refused([](CodecFlags &f) { f.codecs = {"fast", "gzip"}; }, "--codec: 'gzip'");
  refused([](CodecFlags &f) { f.codecs = {""}; }, "--codec: ''");
  refused([](CodecFlags &f) { f.element = "f8"; }, "--element: 'f8'");
  refused([](CodecFlags &f) { f.mib = 0; }, "--mib: 0");
  refused([](CodecFlags &f) { f.mib = 65537; }, "--mib: 65537");
  refused([](CodecFlags &f) { f.seconds = 0; }, "--seconds: 0.0");
  refused([](CodecFlags &f) { f.seconds = -1; }, "--seconds: -1.0");
  refused([](CodecFlags &f) { f.seconds = NAN; }, "--seconds: nan");
}

void whole_blocks_are_repeated(void **) {
  fake = {};
  constexpr uint64_t bytes = 3 * block + 100;
  CodecBench bench("x", some_bytes(bytes), 10 * block);
  assert_int_equal(bench.file_bytes(), bytes);
  assert_int_equal(bench.measured_bytes(), 12 * block);
  const CodecFigures figures = bench.measure({"fx", "fx", 1}, WEIR_ELEMENT_F16, 0.001);
  assert_true(figures.rounds > 0);
  assert_int_equal(figures.blob_bytes, bytes + fake_header);
  assert_int_equal(figures.info.raw_bytes, bytes);
  assert_int_equal(fake.asked.size(), 1 + figures.rounds);
  assert_int_equal(fake.asked[0], bytes);
  for (size_t i = 1; i < fake.asked.size(); ++i) assert_int_equal(fake.asked[i], 12 * block);
  assert_int_equal(fake.descs.back().level, 1);
  assert_int_equal(fake.descs.back().element, WEIR_ELEMENT_F16);
  assert_string_equal(fake.descs.back().codec, "fx");
  assert_true(figures.memcpy_rate > 0 && figures.compress_rate > 0 && figures.decompress_rate > 0);
}

void a_small_file_is_a_call_each(void **) {
  fake = {};
  CodecBench bench("x", some_bytes(1000), 10001);
  assert_int_equal(bench.measured_bytes(), 11000);
  const CodecFigures figures = bench.measure({"fast", "auto", 0}, 0, 0.001);
  assert_int_equal(fake.asked.size(), 1 + 11 * figures.rounds);
  assert_true(std::all_of(fake.asked.begin(), fake.asked.end(),
                          [](uint64_t bytes) { return bytes == 1000; }));
}

/// In the file itself, in the first call of a round, and in a later one.
void any_wrong_byte_ends_it(void **) {
  for (const uint64_t call : {0, 1, 3, 7}) {
    for (const uint64_t at : {0, 500, 999}) {
      fake = {};
      fake.spoilt_decompression = call;
      fake.spoil = [at](unsigned char *bytes, uint64_t) { bytes[at] ^= 4; };
      const std::string error = error_of([] { (void)measured(1000, 5000); });
      const uint64_t where = call == 0 ? at : (call - 1) % 5 * 1000 + at;
      const std::string named = "file 'some.bf16', codec 'fast': byte " + std::to_string(where);
      if (!contains(error, named)) fail_msg("'%s', not '%s'", error.c_str(), named.c_str());
    }
  }
}

void what_is_not_written_shows(void **) {
  fake = {};
  fake.writes = false;
  assert_true(contains(error_of([] { (void)measured(1000); }), "byte 0 of 1000"));
  for (const uint64_t call : {1, 2}) {
    fake = {};
    fake.spoilt_decompression = call;
    fake.spoil = nullptr;
    const std::string error = error_of([] { (void)measured(block, 2 * block); });
    if (!contains(error, "byte 0 of 524288")) fail_msg("%s", error.c_str());
  }
}

void a_refusal_ends_it(void **) {
  fake = {};
  fake.refuses_in = true;
  assert_true(contains(error_of([] { (void)measured(1000); }), "compression failed"));
  fake = {};
  fake.refuses_out = true;
  assert_true(contains(error_of([] { (void)measured(1000); }), "decompression failed"));
  fake = {};
  fake.short_count = true;
  assert_true(contains(error_of([] { (void)measured(1000); }), "999 bytes came back, not 1000"));
}

}  // namespace

// ---- the codec ----

uint64_t weir_compress_bound(uint64_t bytes) { return bytes + fake_header; }

weir_result weir_compress(const weir_compress_desc *desc, const void *in, uint64_t bytes, void *out,
                          uint64_t capacity, uint64_t *blob_bytes) {
  fake.asked.push_back(bytes);
  fake.descs.push_back(*desc);
  *blob_bytes = 0;
  if (fake.refuses_in || capacity < bytes + fake_header) return WEIR_ERROR_INVALID_ARGUMENT;
  std::memcpy(out, &bytes, sizeof bytes);
  std::memcpy(static_cast<unsigned char *>(out) + fake_header, in, bytes);
  *blob_bytes = bytes + fake_header;
  return WEIR_SUCCESS;
}

weir_result weir_decompress(const void *blob, uint64_t blob_bytes, void *out, uint64_t capacity,
                            uint64_t *bytes) {
  uint64_t raw = 0;
  std::memcpy(&raw, blob, sizeof raw);
  if (fake.refuses_out || blob_bytes != raw + fake_header || capacity < raw)
    return WEIR_ERROR_CORRUPT;
  const bool spoilt = fake.decompressions++ == fake.spoilt_decompression;
  if (fake.writes && (!spoilt || fake.spoil))
    std::memcpy(out, static_cast<const unsigned char *>(blob) + fake_header, raw);
  if (spoilt && fake.spoil) fake.spoil(static_cast<unsigned char *>(out), raw);
  if (bytes != nullptr) *bytes = raw - (fake.short_count ? 1 : 0);
  return WEIR_SUCCESS;
}

weir_result weir_compressed_info_get(const void *blob, uint64_t blob_bytes,
                                     weir_compressed_info *info) {
  std::memcpy(&info->raw_bytes, blob, sizeof info->raw_bytes);
  info->methods[WEIR_CODEC_RAW] = {info->raw_bytes, blob_bytes - fake_header};
  return WEIR_SUCCESS;
}

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(flags_are_checked),
      cmocka_unit_test(flags_that_make_no_sense_are_named),
      cmocka_unit_test(whole_blocks_are_repeated),
      cmocka_unit_test(a_small_file_is_a_call_each),
      cmocka_unit_test(any_wrong_byte_ends_it),
      cmocka_unit_test(what_is_not_written_shows),
      cmocka_unit_test(a_refusal_ends_it),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
