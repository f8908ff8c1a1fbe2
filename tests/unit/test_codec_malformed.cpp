// SPDX-License-Identifier: Apache-2.0
//
// Blobs as a disk or a stray write may leave them: every truncation, every field of the header, and random changes by
// the hundred thousand. The answer is CORRUPT, or success where the change hit nothing but content; never a byte read
// or written outside (ASan sees the first, guards and ASan the second). And memory that runs out: zstd's contexts are
// made by functions that this program puts in between.
//
// Must be reproducible: seeds are fixed.

#include "tests/support/stride.hpp"
#include "tests/unit/codec_data.hpp"
#include "tests/unit/refusing_zstd.hpp"

namespace {

using namespace weir::test;
using weir::Clock;
using weir::Status;
using weir::Workers;

constexpr uint64_t block = Codec::block_bytes;
const Clock system_clock;

/// Decodes from memory that ends with the blob into memory that ends with the page.
weir_result decode(Codec &codec, const Bytes &blob, uint64_t raw) {
  const Bytes exact(blob);
  Room room(raw);
  const Status status = codec.decode(exact.data(), exact.size(), room.data(), raw, demand);
  room.check();
  return status.code();
}

void expect_corrupt(Codec &codec, const Bytes &blob, uint64_t raw, const char *what) {
  weir::new_error().text[0] = 0;
  const weir_result result = decode(codec, blob, raw);
  if (result != WEIR_ERROR_CORRUPT) fail_msg("%s: %d", what, result);
  assert_true(weir::last_error().text[0] != 0);
}

struct Sample {
  const char *name;
  uint64_t raw;
  Bytes blob;
};

/// Small ones of every method and one with all of them.
std::vector<Sample> samples() {
  Workers none(0, 100, system_clock);
  std::vector<Sample> all;
  const auto add = [&](const char *name, CodecChoice choice, const Bytes &in) {
    Codec codec(none, choice);
    CodecPlan plan;
    all.push_back({name, in.size(), encode(codec, in, true, &plan)});
  };
  add("same", CodecChoice::raw, make_bytes(Kind::pattern, 1003));
  add("raw", CodecChoice::raw, make_bytes(Kind::random, 333));
  add("lz4", CodecChoice::lz4, make_bytes(Kind::text, 4096));
  add("zstd", CodecChoice::zstd, make_bytes(Kind::text, 4096));
  add("zstd of floats", CodecChoice::zstd, make_bytes(Kind::bf16, 4096));
  add("fx", CodecChoice::fx, make_bytes(Kind::bf16, 4097));
  add("fx, escapes coded", CodecChoice::fx, make_bytes(Kind::bf16, 9001));
  add("fx of doubles", CodecChoice::fx, make_bytes(Kind::doubles, 4103));
  add("sparse", CodecChoice::sparse, make_bytes(Kind::sparse, 4099));
  add("mask", CodecChoice::mask, make_bytes(Kind::mask, 4099));
  add("planes", CodecChoice::planes, make_bytes(Kind::bf16, 4097));
  add("narrow", CodecChoice::narrow, make_bytes(Kind::widened, 4098));
  add("one byte", CodecChoice::automatic, make_bytes(Kind::random, 1));
  return all;
}

Bytes mixed_page() {
  Bytes in = make_bytes(Kind::text, 4 * block + 1000);
  const Bytes noise = make_bytes(Kind::random, block);
  std::copy(noise.begin(), noise.end(), in.begin() + block);
  std::fill(in.begin() + 2 * block, in.begin() + 3 * block, static_cast<unsigned char>(9));
  return in;
}

void truncations(void **) {
  if (threads_only) skip();
  Workers none(0, 100, system_clock);
  Codec codec(none, CodecChoice::automatic);
  for (const Sample &sample : samples()) {
    assert_int_equal(decode(codec, sample.blob, sample.raw), WEIR_SUCCESS);
    for (size_t length = 0; length < sample.blob.size(); ++length) {
      const Bytes cut(sample.blob.begin(), sample.blob.begin() + static_cast<long>(length));
      expect_corrupt(codec, cut, sample.raw, sample.name);
      // With a table that goes along with it, so that the block itself is short.
      if (length <= header + 8 || length > UINT16_MAX) continue;
      Bytes fitted(cut);
      fitted[header] = static_cast<unsigned char>(length);
      fitted[header + 1] = static_cast<unsigned char>(length >> 8U);
      expect_corrupt(codec, fitted, sample.raw, sample.name);
    }
    for (const size_t more : {1, 8, 4096}) {
      Bytes longer(sample.blob);
      longer.resize(longer.size() + more, 0);
      expect_corrupt(codec, longer, sample.raw, sample.name);
      const size_t length = longer.size();
      longer[header] = static_cast<unsigned char>(length);
      longer[header + 1] = static_cast<unsigned char>(length >> 8U);
      // What is behind a method's own end must not be passed over.
      expect_corrupt(codec, longer, sample.raw, sample.name);
    }
    for (const uint64_t raw : {sample.raw - 1, sample.raw + 1, sample.raw + block, UINT64_MAX}) {
      const Bytes exact(sample.blob);
      Room room(sample.raw + 1);  // never written: the header tells another length
      assert_int_equal(codec.decode(exact.data(), exact.size(), room.data(), raw, demand).code(),
                       WEIR_ERROR_CORRUPT);
    }
  }
}

/// Every byte of the header and the table, every value. None may pass but the one that was there.
void header_fields(void **) {
  if (threads_only) skip();
  Workers none(0, 100, system_clock);
  Codec codec(none, CodecChoice::automatic);
  for (const Sample &sample : samples()) {
    for (size_t at = 0; at < header + 8; ++at) {
      for (unsigned value = 0; value < 256; ++value) {
        if (value == sample.blob[at]) continue;
        if (at == 4 && value == 2) continue;  // the version before, of which any block may be
        Bytes changed(sample.blob);
        changed[at] = static_cast<unsigned char>(value);
        expect_corrupt(codec, changed, sample.raw, sample.name);
      }
    }
  }
}

/// Tables that add up but lie about where blocks begin.
void shifted_tables(void **) {
  if (threads_only) skip();
  Workers none(0, 100, system_clock);
  Codec codec(none, CodecChoice::lz4);
  CodecPlan plan;
  const Bytes in = mixed_page();
  const Bytes blob = encode(codec, in, true, &plan);
  for (size_t index = 0; index + 1 < 5; ++index) {
    for (const int by : {-1, 1, 2, 100, -100, 1000000, -1000000}) {
      Bytes changed(blob);
      uint64_t entry = 0;
      std::memcpy(&entry, &changed[header + 8 * index], sizeof entry);
      entry += static_cast<uint64_t>(static_cast<int64_t>(by));
      std::memcpy(&changed[header + 8 * index], &entry, sizeof entry);
      expect_corrupt(codec, changed, in.size(), "table");
    }
  }
}

/// Changed bytes, swapped pieces, changed lengths: whatever comes of it, nothing outside is touched.
void mutations(void **) {
  if (threads_only) skip();
  Workers none(0, 100, system_clock);
  Codec codec(none, CodecChoice::automatic);
  std::mt19937_64 random(7);
  uint32_t corrupt = 0, passed = 0;
  const std::vector<Sample> all = samples();
  for (int round = 0; round < 120000; ++round) {
    const Sample &sample = all[random() % all.size()];
    Bytes changed(sample.blob);
    for (uint64_t changes = 1 + random() % 4; changes > 0; --changes) {
      // The header refuses nearly all, so most go behind it.
      const size_t from = random() % 8 == 0 ? 0 : header + 8;
      const size_t at = from + random() % (changed.size() - from);
      switch (random() % 3) {
        case 0:
          changed[at] ^= static_cast<unsigned char>(1U << random() % 8);
          break;
        case 1:
          changed[at] = static_cast<unsigned char>(random());
          break;
        default: {
          const size_t other = from + random() % (changed.size() - from);
          std::swap(changed[at], changed[other]);
        }
      }
    }
    if (random() % 8 == 0 && changed.size() > 30) {
      changed.resize(25 + random() % (changed.size() - 25));
      changed[header] = static_cast<unsigned char>(changed.size());
      changed[header + 1] = static_cast<unsigned char>(changed.size() >> 8U);
    }
    const weir_result result = decode(codec, changed, sample.raw);
    if (result != WEIR_SUCCESS && result != WEIR_ERROR_CORRUPT)
      fail_msg("round %d: %d", round, result);
    ++(result == WEIR_SUCCESS ? passed : corrupt);
  }
  print_message("%u refused, %u taken for other content\n", corrupt, passed);
  assert_true(corrupt > 30000 && passed > 1000);
}

void mutations_of_many_blocks(void **) {
  Workers workers(2, 100, system_clock);
  assert_true(workers.start().ok());
  std::mt19937_64 random(8);
  const Bytes in = mixed_page();
  for (const CodecChoice choice : {CodecChoice::lz4, CodecChoice::zstd}) {
    Codec codec(workers, choice);
    CodecPlan plan;
    const Bytes blob = encode(codec, in, true, &plan);
    for (int round = 0; round < 200; ++round) {
      Bytes changed(blob);
      for (int changes = 0; changes < 3; ++changes) {
        changed[random() % (round % 2 == 0 ? 56 : changed.size())] ^=
            static_cast<unsigned char>(1U << random() % 8);
      }
      const weir_result result = decode(codec, changed, in.size());
      assert_true(result == WEIR_SUCCESS || result == WEIR_ERROR_CORRUPT);
    }
    check_decodes(codec, blob, in);
  }
}

/// The methods by themselves: what is not exactly the block is refused, and no more than the block is written.
void wrong_sizes(void **) {
  if (threads_only) skip();
  using weir::codec::Decoded;
  weir::codec::BlockMethods methods(true);
  using weir::codec::Form;
  for (const MethodId id :
       {MethodId::same, MethodId::raw, MethodId::lz4, MethodId::zstd, MethodId::fx,
        MethodId::sparse, MethodId::mask, MethodId::planes, MethodId::narrow}) {
    weir::codec::BlockMethod &method = *methods.find(id);
    const Kind kind = id == MethodId::same     ? Kind::pattern
                      : id == MethodId::fx     ? Kind::bf16
                      : id == MethodId::sparse ? Kind::sparse
                      : id == MethodId::mask   ? Kind::mask
                      : id == MethodId::narrow ? Kind::widened
                                               : Kind::text;
    const Form form = id == MethodId::fx ? Form::bf16 : Form::bytes;
    Bytes in = make_bytes(kind, 1000);
    if (kind == Kind::mask) in.back() = in.front() ^ 1U;  // a bit that is set ends the blob
    Bytes blob(1000);
    blob.resize(method.encode(in.data(), in.size(), form, blob.data(), blob.size()));
    assert_true(!blob.empty());
    for (const uint64_t raw : {1, 7, 8, 9, 500, 992, 999, 1001, 2000}) {
      Room room(raw);
      const Decoded result = method.decode(blob.data(), blob.size(), room.data(), raw);
      room.check();
      // A pattern knows no length, but one that would be shorter than it.
      const bool any = id == MethodId::same && raw > 8;
      assert_true(result == (any ? Decoded::ok : Decoded::malformed));
    }
    // And no more room is taken than there is.
    for (uint64_t space = 0; space < blob.size(); ++space) {
      Room room(space);
      assert_int_equal(method.encode(in.data(), in.size(), form, room.data(), space), 0);
      room.check();
    }
  }
  assert_null(methods.find(MethodId::none));
  assert_null(methods.find(static_cast<MethodId>(weir::codec::method_count)));
}

// ---- memory that runs out ----

void no_memory_for_encoding(void **) {
  Workers none(0, 100, system_clock);
  const Bytes in = make_bytes(Kind::text, 2 * block);
  {
    Codec codec(none, CodecChoice::zstd);
    CodecPlan plan;
    contexts_left = 0;
    const Bytes blob = encode(codec, in, true, &plan);
    assert_true(methods_of(blob) == std::vector<MethodId>(2, MethodId::raw));
    check_decodes(codec, blob, in);
    assert_int_equal(encode(codec, in, false, &plan).size(), 0);
    contexts_left = INT32_MAX;
    while (plan.skip > 0) assert_int_equal(encode(codec, in, false, &plan).size(), 0);
    assert_true(methods_of(encode(codec, in, true, &plan)).front() == MethodId::zstd);
  }
  contexts_left = 0;
  {
    Codec codec(none, CodecChoice::automatic);  // then it is LZ4
    CodecPlan plan;
    assert_true(methods_of(encode(codec, in, true, &plan)).front() == MethodId::lz4);
  }
  contexts_left = INT32_MAX;
}

/// With the one context made at the start, any number of threads decode.
void no_memory_for_decoding(void **) {
  Workers workers(3, 100, system_clock);
  assert_true(workers.start().ok());
  const Bytes in = make_bytes(Kind::text, 8 * block);
  Codec codec(workers, CodecChoice::zstd);
  CodecPlan plan;
  const Bytes blob = encode(codec, in, true, &plan);
  assert_true(methods_of(blob) == std::vector<MethodId>(8, MethodId::zstd));
  contexts_left = 0;
  for (int i = 0; i < 20; ++i) check_decodes(codec, blob, in);
  for (int i = 0; i < 20; ++i) {
    contexts_left = 0;
    Codec bare(workers, CodecChoice::automatic);  // could not even make the first
    assert_int_equal(decode(bare, blob, in.size()), WEIR_ERROR_OUT_OF_HOST_MEMORY);
    contexts_left = 1;
    check_decodes(bare, blob, in);
  }
  contexts_left = INT32_MAX;
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(truncations),
      cmocka_unit_test(header_fields),
      cmocka_unit_test(shifted_tables),
      cmocka_unit_test(mutations),
      cmocka_unit_test(mutations_of_many_blocks),
      cmocka_unit_test(wrong_sizes),
      cmocka_unit_test(no_memory_for_encoding),
      cmocka_unit_test(no_memory_for_decoding),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
