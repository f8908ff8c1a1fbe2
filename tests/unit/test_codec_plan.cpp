// SPDX-License-Identifier: Apache-2.0
//
// What a plan learns: it sticks to what paid, tries again after a while or when the ratio drifts, passes over what does
// not pay for longer and longer, finds zeros there all the same, and recovers when the bytes become compressible.

#include "tests/unit/codec_data.hpp"

namespace {

using namespace weir::test;
using weir::Clock;
using weir::Workers;

constexpr uint64_t block = Codec::block_bytes;
constexpr auto lz4 = static_cast<uint8_t>(MethodId::lz4);
constexpr auto zstd = static_cast<uint8_t>(MethodId::zstd);
constexpr auto fx = static_cast<uint8_t>(MethodId::fx);
const Clock system_clock;

struct Rig {
  explicit Rig(CodecChoice choice = CodecChoice::automatic) : codec(none, choice) {}

  /// Encodes and checks; the blob's length, 0 if there is none.
  uint64_t page(const Bytes &in, bool must = false) {
    const Bytes blob = encode(codec, in, must, &plan);
    if (!blob.empty()) check_decodes(codec, blob, in);
    methods = blob.empty() ? std::vector<MethodId>() : methods_of(blob);
    return blob.size();
  }

  Workers none{0, 100, system_clock};
  Codec codec;
  CodecPlan plan;
  std::vector<MethodId> methods;
};

void sticks(void **) {
  Rig rig;
  // As good with LZ4 as with zstd, as nearly as counts.
  const Bytes simple = make_bytes(Kind::odd_pattern, 2 * block);
  assert_true(rig.page(simple) > 0);
  assert_int_equal(rig.plan.method, lz4);
  assert_int_equal(rig.plan.age, 0);
  const uint32_t ratio = rig.plan.ratio;
  assert_true(ratio > 200 * 256);
  for (int i = 1; i <= Codec::trial_period; ++i) {
    assert_true(rig.page(simple) > 0);
    assert_int_equal(rig.plan.method, lz4);
    assert_int_equal(rig.plan.age, i);
  }
  rig.page(simple);  // tried
  assert_int_equal(rig.plan.age, 0);
  assert_int_equal(rig.plan.ratio, ratio);
  // And what the elements are stays with it.
  Rig floats;
  floats.page(make_bytes(Kind::bf16, 2 * block));
  assert_int_equal(floats.plan.method, fx);
  assert_true(floats.plan.form == weir::codec::Form::bf16);
  // ... and pages of one pattern teach nothing.
  for (int i = 0; i < 100; ++i) floats.page(Bytes(2 * block, 0));
  assert_int_equal(floats.plan.age, 0);
}

/// A ratio 10 percent off, either way, brings the next trial forward, but not at once.
void drift(void **) {
  const Bytes floats = make_bytes(Kind::bf16, 2 * block);
  {
    Rig rig;
    rig.page(floats);
    const uint32_t ratio = rig.plan.ratio;
    const Bytes changed = make_bytes(Kind::narrow_bf16, 2 * block);
    for (int i = 1; i < Codec::trial_rest; ++i) {
      rig.page(changed);
      assert_int_equal(rig.plan.age, i);
    }
    rig.page(changed);
    assert_int_equal(rig.plan.age, Codec::trial_period);
    rig.page(changed);
    assert_int_equal(rig.plan.age, 0);
    assert_true(rig.plan.ratio > ratio + ratio / 10);
    // And back down.
    for (int i = 0; i <= Codec::trial_rest; ++i) rig.page(floats);
    for (int i = 0; rig.plan.ratio != ratio; ++i) {
      assert_true(i < 4);
      rig.page(floats);
    }
  }
  // One that stays within it does not: up to 7 percent of zeros in each block, which are no exponents of the window.
  Rig rig;
  const uint64_t before = rig.page(floats);
  for (unsigned i = 1; i <= 20; ++i) {
    Bytes page = floats;
    for (uint64_t start = 0; start < page.size(); start += block) {
      std::fill_n(page.begin() + static_cast<long>(start), block / 300 * i,
                  static_cast<unsigned char>(0));
    }
    assert_true(rig.page(page) > before);
    assert_int_equal(rig.plan.age, i);
  }
}

/// What was floats and is text now: one page goes as it is, and the next is tried.
void other_data(void **) {
  Rig rig;
  const Bytes floats = make_bytes(Kind::bf16, 2 * block), text = make_bytes(Kind::text, 2 * block);
  rig.page(floats);
  assert_int_equal(rig.page(text), 0);
  assert_true(rig.page(text) > 0);
  assert_true(rig.plan.method == lz4 || rig.plan.method == zstd);
  assert_int_equal(rig.plan.backoff, 0);
}

/// What the owner says is tried beside what is seen, and counts for nothing if it is wrong.
void hints(void **) {
  using weir::codec::Form;
  const Bytes floats = make_bytes(Kind::bf16, 2 * block), text = make_bytes(Kind::text, 2 * block);
  Rig plain;
  const uint64_t length = plain.page(floats);
  for (const Form hint : {Form::f16, Form::bf16, Form::f32, Form::f64}) {
    Rig rig;
    rig.plan.hint = hint;
    assert_int_equal(rig.page(floats), length);
    assert_true(rig.plan.form == Form::bf16);
    Rig other;
    other.plan.hint = hint;
    assert_true(other.page(text) > 0);
    assert_true(other.plan.method == lz4 || other.plan.method == zstd);
  }
}

/// Where time does not count, fewer bytes do.
void dense(void **) {
  for (const Kind kind : {Kind::bf16, Kind::text, Kind::zeroed_bf16, Kind::mask}) {
    const Bytes in = make_bytes(kind, 2 * block);
    Rig quick;
    const uint64_t length = quick.page(in);
    Room room(Codec::bound(in.size()));
    CodecPlan plan;
    const uint64_t least = quick.codec.encode(in.data(), in.size(), room.data(), true, &plan,
                                              demand, weir::codec::Effort::dense);
    assert_true(least < length);
    check_decodes(quick.codec, Bytes(room.data(), room.data() + least), in);
  }
}

/// Fields go by their differences, with little time too; what comes back goes by that, however far back it is and
/// whatever else would do.
void not_only_floats(void **) {
  Rig field;
  const Bytes smooth = make_bytes(Kind::smooth, 2 * block);
  assert_true(field.page(smooth) < smooth.size() * 10 / 18);
  assert_int_equal(field.plan.method, static_cast<uint8_t>(MethodId::planes));
  for (const MethodId method : field.methods) assert_true(method == MethodId::planes);
  assert_true(field.page(smooth) > 0);  // by the plan
  const Bytes floats = make_bytes(Kind::bf16, 20000);
  Bytes again;
  while (again.size() < 2 * block) again.insert(again.end(), floats.begin(), floats.end());
  Rig copies;
  assert_true(copies.page(again) < again.size() / 8);
  assert_int_equal(copies.plan.method, lz4);
}

/// With little time no method is chosen that may take more than twice LZ4's, however much it would save: no zstd, and of PLANES
/// nothing that is entropy coded.
void never_slow(void **) {
  std::vector<Bytes> pages;
  for (const Kind kind : all_kinds) pages.push_back(make_bytes(kind, 4 * block));
  std::mt19937_64 random(5);
  std::normal_distribution<float> normal(0.0F, 12.0F);
  Bytes weights(4 * block), numbers(4 * block, 0), nibbles(4 * block);
  for (unsigned char &byte : weights)
    byte = static_cast<unsigned char>(static_cast<int>(normal(random)));
  for (uint64_t at = 0; at < numbers.size(); at += 4) numbers[at] = weights[at];
  for (uint64_t at = 0; at < nibbles.size(); ++at)
    nibbles[at] = static_cast<unsigned char>((weights[at] >> 2U & 15U) | weights[at ^ 1U] << 4U);
  pages.insert(pages.end(), {weights, numbers, nibbles});
  for (const Bytes &page : pages) {
    Rig rig;
    const Bytes blob = encode(rig.codec, page, true, &rig.plan);
    check_decodes(rig.codec, blob, page);
    const weir::codec::BlobShape shape{page.size(), false};
    for (uint64_t i = 0; i < shape.blocks(); ++i) {
      const MethodId id = methods_of(blob)[i];
      assert_true(id != MethodId::zstd);
      if (id != MethodId::planes) continue;
      const unsigned char *const coded = &blob[shape.from(blob.data(), i)];
      for (uint32_t k = 0; (coded[0] & 0x20U) == 0 && k < coded[2]; ++k)
        assert_true(coded[3 + 4 * k + 3] <= 1);  // as it is, or one value
    }
  }
  // What only entropy coding makes smaller stays as it is, after a look.
  for (const Bytes &page : {weights, nibbles}) {
    Rig rig;
    assert_int_equal(rig.page(page), 0);
  }
  // Bytes of text are LZ4's, though zstd would make them smaller.
  Rig text;
  text.page(make_bytes(Kind::text, 2 * block));
  assert_int_equal(text.plan.method, lz4);
}

/// The pages at which something was tried, out of so many: the others are passed over without a look at the methods.
std::vector<int> trials(Rig &rig, const Bytes &page, int pages) {
  std::vector<int> at;
  for (int i = 0; i < pages; ++i) {
    const bool passed_over = rig.plan.skip > 0;
    assert_int_equal(rig.page(page), 0);
    if (!passed_over) at.push_back(i);
  }
  return at;
}

void back_off(void **) {
  for (const CodecChoice choice : {CodecChoice::automatic, CodecChoice::lz4, CodecChoice::zstd}) {
    Rig rig(choice);
    const Bytes noise = make_bytes(Kind::random, block + 100);
    const std::vector<int> expected = {0, 2, 5, 10, 19, 36, 69, 134, 199};
    assert_true(trials(rig, noise, 200) == expected);
    assert_int_equal(rig.codec.stats().in_bytes, 0);
    assert_int_equal(rig.codec.stats().incompressible_bytes, 200 * noise.size());
    // A page that has to be stored is stored as it is, and counts as passed over.
    rig.plan.skip = 2;
    assert_int_equal(rig.page(noise, true), Codec::bound(noise.size()));
    assert_int_equal(rig.plan.skip, 1);
  }
}

/// What is worth less than 1/16 is not worth it.
void little_gain(void **) {
  for (const uint64_t zeros : {block / 20, block / 10}) {
    Bytes page = make_bytes(Kind::random, block);
    std::fill(page.begin(), page.begin() + static_cast<long>(zeros), static_cast<unsigned char>(0));
    Rig rig;
    const uint64_t length = rig.page(page);
    assert_true(zeros == block / 20 ? length == 0 : length > 0 && length <= block - block / 16);
  }
  // Nor if a tenth of one block is all there is to gain.
  Bytes page = make_bytes(Kind::random, 4 * block);
  std::fill_n(page.begin(), block / 10, static_cast<unsigned char>(0));
  Rig rig;
  assert_int_equal(rig.page(page, true), Codec::bound(page.size()));
  assert_int_equal(rig.plan.skip, 1);
}

void zeros_among_noise(void **) {
  Rig rig;
  const Bytes noise = make_bytes(Kind::random, 32 * block);
  assert_int_equal(rig.page(noise), 0);
  rig.plan.skip = 100;
  rig.plan.backoff = 3;
  // All of a page, ...
  assert_int_equal(rig.page(Bytes(32 * block, 0)), header + 32 * 16);
  // ... a sixteenth, with the header to be had too, ...
  Bytes some = noise;
  for (const uint64_t index : {5, 9, 31}) {
    std::fill_n(some.begin() + static_cast<long>(index * block), block,
                static_cast<unsigned char>(0));
  }
  assert_int_equal(rig.page(some), header + 32 * 8 + 29 * block + 3 * 8);
  // ... or too little; blocks that only look like it at their ends are no blocks of zeros.
  std::fill_n(some.begin() + static_cast<long>(5 * block), 64, static_cast<unsigned char>(3));
  std::fill_n(some.begin() + static_cast<long>(9 * block), 64, static_cast<unsigned char>(3));
  assert_int_equal(rig.page(some), 0);
  Bytes hollow(32 * block, 0);
  for (uint64_t at = block / 2; at < hollow.size(); at += block) hollow[at] = 1;
  assert_int_equal(rig.page(hollow), 0);
  assert_int_equal(rig.plan.skip, 96);
  assert_int_equal(rig.plan.backoff, 3);
}

/// Never later than after the longest back-off; then at once as if it had never been otherwise.
void recovery(void **) {
  for (const CodecChoice choice : {CodecChoice::automatic, CodecChoice::lz4, CodecChoice::zstd}) {
    Rig rig(choice);
    const Bytes noise = make_bytes(Kind::random, block), text = make_bytes(Kind::text, block);
    trials(rig, noise, 200);
    int pages = 0;
    while (rig.page(text) == 0) assert_true(++pages <= 64);
    assert_true(pages > 30);
    assert_int_equal(rig.plan.backoff, 0);
    assert_int_equal(rig.plan.skip, 0);
    for (int i = 0; i < 10; ++i) assert_true(rig.page(text) > 0);
    // One bad page costs no more than another; where there is a choice, the next is tried at once.
    assert_int_equal(rig.page(noise), 0);
    assert_int_equal(rig.plan.skip, choice == CodecChoice::automatic ? 0 : 1);
    if (rig.plan.skip != 0) assert_int_equal(rig.page(text), 0);
    assert_true(rig.page(text) > 0);
  }
}

/// Blocks are coded by what they hold, whatever the plan says of the region.
void mixed_pages(void **) {
  Rig rig;
  const Bytes half = make_bytes(Kind::half_text, 8 * block);
  for (int i = 0; i < 3; ++i) {
    assert_true(rig.page(half) > 4 * block);
    for (size_t at = 0; at < 4; ++at) assert_int_equal(rig.methods[at], rig.plan.method);
    for (size_t at = 4; at < 8; ++at) assert_true(rig.methods[at] == MethodId::raw);
  }
}

/// A page whose tried parts are all zeros, with something between them: coded by the cheapest, nothing learnt for good.
void nothing_to_try(void **) {
  Rig rig;
  Bytes page(16 * block, 0);
  const Bytes text = make_bytes(Kind::text, block);
  std::copy(text.begin(), text.end(), page.begin() + 2 * block);
  assert_true(rig.page(page) > 0);
  assert_true(rig.methods[2] == MethodId::lz4);
  assert_int_equal(rig.plan.method, 0);
  assert_int_equal(rig.plan.skip, 0);
}

/// Raw is what was asked for, so it always pays and nothing is learnt.
void raw_always_pays(void **) {
  Rig rig(CodecChoice::raw);
  const Bytes noise = make_bytes(Kind::random, 2 * block);
  for (int i = 0; i < 3; ++i) assert_int_equal(rig.page(noise), Codec::bound(noise.size()));
  assert_int_equal(rig.plan.method, 0);
  assert_int_equal(rig.plan.skip, 0);
  assert_int_equal(rig.plan.backoff, 0);
  assert_int_equal(rig.plan.age, 0);
  assert_int_equal(rig.plan.ratio, 0);
}

/// What a trial sees is noise, and the rest of the page nearly nothing but zeros: no method is found, and what takes the place
/// of RAW pays all the same.
void pays_without_a_method(void **) {
  constexpr uint64_t blocks = 16, parts = 4;
  Bytes page(blocks * block, 0);
  for (uint64_t at = 0; at < page.size(); at += 1021) page[at] = 7;
  const Bytes noise = make_bytes(Kind::random, block);
  const uint64_t step = (page.size() - block) / (parts - 1) & ~uint64_t{63};
  for (uint64_t part = 0; part < parts; ++part)
    std::copy(noise.begin(), noise.end(), page.begin() + static_cast<ptrdiff_t>(part * step));
  Rig rig;
  for (int i = 0; i < 3; ++i) {
    const uint64_t bytes = rig.page(page);
    assert_true(bytes > 0 && bytes < page.size() * 15 / 16);
    assert_int_equal(rig.plan.method, 0);  // so the next page is tried, too
    assert_int_equal(rig.plan.skip, 0);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(sticks),
      cmocka_unit_test(drift),
      cmocka_unit_test(other_data),
      cmocka_unit_test(hints),
      cmocka_unit_test(dense),
      cmocka_unit_test(not_only_floats),
      cmocka_unit_test(never_slow),
      cmocka_unit_test(back_off),
      cmocka_unit_test(little_gain),
      cmocka_unit_test(zeros_among_noise),
      cmocka_unit_test(recovery),
      cmocka_unit_test(mixed_pages),
      cmocka_unit_test(nothing_to_try),
      cmocka_unit_test(raw_always_pays),
      cmocka_unit_test(pays_without_a_method),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
