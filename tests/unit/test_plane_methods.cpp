// SPDX-License-Identifier: Apache-2.0
//
// Blocks of planes: round trips of every length, form, effort and plan between pages that must not be touched; rooms of
// every size; ratios that the kinds of numbers must reach, made up here and recorded; and coded blocks as a disk may
// leave them, which must be refused or give other content, and never touch what is not theirs (ASan watches too).
//
// Must be reproducible: seeds are fixed.

#include "core/codec/plane_methods.hpp"
#include "tests/unit/coded_block.hpp"
#include "tests/unit/plane_data.hpp"
#include "tests/unit/refusing_zstd.hpp"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

namespace {

using namespace weir::test;
using namespace weir::codec;

constexpr size_t block = max_block_bytes;
constexpr Effort efforts[] = {Effort::quick, Effort::dense};

struct Coders {
  std::unique_ptr<PlaneEncoder> encoder{PlaneEncoder::create()};
  std::unique_ptr<PlaneDecoder> decoder{PlaneDecoder::create()};

  Bytes encode(const Bytes &in, const PlanesPlan &plan, Effort effort, size_t room) {
    Guarded source(in), target(room);
    const uint64_t length =
        planes_encode(*encoder, plan, effort, source.data(), in.size(), target.data(), room);
    assert_true(length <= room);
    return Bytes(target.data(), target.data() + length);
  }
  Decoded decode(const Bytes &coded, size_t raw, Bytes *out) {
    // At the end of one page and at the start of another: neither may be left on either side.
    Guarded source(coded), target(raw, false);
    const Decoded result = planes_decode(*decoder, source.data(), coded.size(), target.data(), raw);
    out->assign(target.data(), target.data() + raw);
    const bool packed = !coded.empty() && (coded[0] & 0x20U) != 0;
    if (packed) check_levels(source.data(), coded.size(), raw, result, *out);
    return result;
  }
  /// What is packed has loops of each level's own: all say the same and make the same bytes.
  void check_levels(const unsigned char *coded, size_t length, size_t raw, Decoded expected,
                    const Bytes &bytes) {
    for (const CpuLevel level : levels_here()) {
      Guarded target(raw, false);
      assert_true(planes_decode(*decoder, coded, length, target.data(), raw, level) == expected);
      if (expected == Decoded::ok && raw > 0) assert_memory_equal(target.data(), bytes.data(), raw);
    }
  }
  Bytes check(const Bytes &in, const PlanesPlan &plan, Effort effort) {
    // A bitmap may come on top of everything.
    const Bytes coded = encode(in, plan, effort, in.size() + in.size() / 8 + 64);
    assert_false(coded.empty());
    Bytes back;
    const Decoded result = decode(coded, in.size(), &back);
    if (result != Decoded::ok || back != in) {
      fail_msg("%u bytes of form %d, zeros %d, stride %d, effort %d",
               static_cast<unsigned>(in.size()), static_cast<int>(plan.form), plan.zeros,
               plan.stride, static_cast<int>(effort));
    }
    return coded;
  }
};

std::vector<PlanesPlan> all_plans(Form form) {
  std::vector<PlanesPlan> plans;
  for (const bool integers : {false, true}) {
    plans.push_back({form, integers, false, 0});
    plans.push_back({form, integers, true, 0});
    for (uint8_t stride = 1; stride <= 4; ++stride) {
      plans.push_back({form, integers, false, stride});
      plans.push_back({form, integers, false, stride, true});
    }
  }
  return plans;
}

void every_length(void **) {
  Coders coders;
  for (size_t length = 1; length <= 4096; ++length) {
    for (const Form form : all_forms) {
      const std::vector<PlanesPlan> plans = all_plans(form);
      const PlanesPlan &plan = plans[length % plans.size()];
      const Bytes in = normal_numbers(form, length, 20, length % 3 == 0 ? 0.5 : 0);
      for (const Effort effort : efforts) coders.check(in, plan, effort);
    }
  }
}

void every_plan(void **) {
  Coders coders;
  for (const size_t length : {block, block - 1, size_t{70003}, size_t{33}, size_t{1}}) {
    for (const Form form : all_forms) {
      const Bytes kinds[] = {normal_numbers(form, length, 1),
                             normal_numbers(form, length, 1, 0.8),
                             smooth_numbers(form, length),
                             special_numbers(length),
                             random_bytes(length),
                             Bytes(length, 0),
                             Bytes(length, 0xA5)};
      for (const PlanesPlan &plan : all_plans(form)) {
        for (const Bytes &in : kinds) {
          for (const Effort effort : efforts) coders.check(in, plan, effort);
        }
      }
    }
  }
}

void no_bytes_and_too_many(void **) {
  Coders coders;
  const Bytes large(block + 1, 1);
  assert_true(coders.encode({}, {}, Effort::quick, 100).empty());
  assert_true(coders.encode(large, {}, Effort::quick, 2 * block).empty());
  Bytes out;
  assert_true(coders.decode({0, 0, 0}, 0, &out) == Decoded::malformed);
  assert_true(coders.decode({0, 0, 1, 1, 0, 0, 1, 1}, block + 1, &out) == Decoded::malformed);
  assert_true(coders.decode({0, 0, 1, 1, 0, 0, 1, 7}, block, &out) == Decoded::ok);
  assert_true(out == Bytes(block, 7));
}

/// Whatever the room, the block is no longer, or there is none.
void every_room(void **) {
  Coders coders;
  for (const Form form : all_forms) {
    for (const PlanesPlan &plan : {PlanesPlan{form}, PlanesPlan{form, false, true, 0},
                                   PlanesPlan{form, true, false, 2, true}}) {
      const Bytes in = normal_numbers(form, 997, 20, 0.3);
      for (const Effort effort : efforts) {
        const size_t whole = coders.check(in, plan, effort).size();
        size_t fitting = 0;
        for (size_t room = 0; room <= whole + 8; ++room) {
          const Bytes coded = coders.encode(in, plan, effort, room);
          if (coded.empty()) continue;
          Bytes back;
          assert_true(coders.decode(coded, in.size(), &back) == Decoded::ok && back == in);
          ++fitting;
        }
        assert_true(fitting > 0);
      }
    }
  }
  // What cannot be made smaller needs all its bytes and the header, and one less is too little.
  const Bytes noise = random_bytes(5003);
  for (const Form form : all_forms) {
    const size_t whole = coders.check(noise, {form}, Effort::dense).size();
    assert_int_equal(whole, 5003 + 3 + 4 * element_bytes(form));
    assert_int_equal(coders.encode(noise, {form}, Effort::dense, whole).size(), whole);
    assert_true(coders.encode(noise, {form}, Effort::dense, whole - 1).empty());
  }
}

double ratio(Coders &coders, const Bytes &in, Effort effort, PlanesPlan *used = nullptr) {
  const Detection found = detect(in.data(), in.size());
  size_t coded = 0;
  for (size_t at = 0; at < in.size(); at += block) {
    const Bytes part(in.begin() + static_cast<ptrdiff_t>(at),
                     in.begin() + static_cast<ptrdiff_t>(std::min(at + block, in.size())));
    const PlanesPlan plan = effort == Effort::dense
                                ? dense_plan(*coders.encoder, found, part.data(), part.size())
                                : plain_plan(found);
    coded += coders.check(part, plan, effort).size();
    if (used != nullptr) *used = plan;
  }
  return static_cast<double>(in.size()) / static_cast<double>(coded);
}

void expect_ratio(Coders &coders, const char *what, const Bytes &in, double quick, double dense) {
  const double quick_ratio = ratio(coders, in, Effort::quick);
  const double dense_ratio = ratio(coders, in, Effort::dense);
  if (quick_ratio < quick || dense_ratio < dense) {
    fail_msg("%s: %.3f, %.3f instead of %.3f, %.3f", what, quick_ratio, dense_ratio, quick, dense);
  }
}

void ratios(void **) {
  Coders coders;
  expect_ratio(coders, "bf16", normal_numbers(Form::bf16, block, 0.02), 1.45, 1.45);
  expect_ratio(coders, "f16", normal_numbers(Form::f16, block, 0.02), 1.15, 1.15);
  expect_ratio(coders, "f32", normal_numbers(Form::f32, block, 0.02), 1.18, 1.18);
  expect_ratio(coders, "f64", normal_numbers(Form::f64, block, 0.02), 1.1, 1.1);
  expect_ratio(coders, "8 bits", normal_numbers(Form::bytes, block, 12), 1.35, 1.35);
  expect_ratio(coders, "sparse bf16", normal_numbers(Form::bf16, block, 1, 0.8), 3.8, 5.5);
  expect_ratio(coders, "smooth f64", smooth_numbers(Form::f64, block), 1.2, 1.8);
  expect_ratio(coders, "zeros", Bytes(block, 0), 10000, 10000);
  Bytes mask = random_bytes(block);
  for (unsigned char &byte : mask) byte = byte < 26 ? 1 : 0;
  expect_ratio(coders, "mask", mask, 7.9, 14);
  // Other values in each part, as the tensors of a model follow each other: codes must follow too.
  Bytes parts = random_bytes(block);
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i] = static_cast<unsigned char>(parts[i] % 16 + 16 * (i >> 15U));
  }
  expect_ratio(coders, "parts", parts, 1.9, 1.9);
}

void plans(void **) {
  Coders coders;
  PlanesPlan plan;
  ratio(coders, normal_numbers(Form::bf16, block, 1), Effort::dense, &plan);
  assert_true((plan == PlanesPlan{Form::bf16, false, false, 0}));
  ratio(coders, normal_numbers(Form::bf16, block, 1, 0.8), Effort::dense, &plan);
  assert_true((plan == PlanesPlan{Form::bf16, false, true, 0}));
  for (uint8_t stride = 1; stride <= 4; ++stride) {
    const Bytes in = smooth_numbers(Form::f32, block, stride);
    Detection found;
    found.form = Form::f32;
    assert_int_equal(dense_plan(*coders.encoder, found, in.data(), in.size()).stride, stride);
  }
}

/// What a short look at a block comes to, and that the block then is about as long as it says.
void quick_plans(void **) {
  Coders coders;
  const auto check = [&](const Bytes &in, Form form, const PlanesPlan &expected) {
    const QuickPlan found = quick_plan(form, in.data(), in.size());
    assert_true(found.plan == expected);
    const size_t length = coders.check(in, found.plan, Effort::quick).size();
    assert_in_range(found.bytes, length - length / 10, length + length / 10);
    return length;
  };
  check(normal_numbers(Form::bf16, block, 1), Form::bf16, {Form::bf16, false, false, 0});
  check(normal_numbers(Form::bf16, block, 1, 0.8), Form::bf16, {Form::bf16, false, true, 0});
  check(random_bytes(block), Form::bytes, {Form::bytes, false, false, 0});
  for (uint8_t stride = 1; stride <= 4; ++stride) {
    const PlanesPlan expected{Form::f32, true, false, stride, true};
    const size_t length = check(smooth_numbers(Form::f32, block, stride), Form::f32, expected);
    assert_true(length * 18 < block * 10);
  }
  // Without entropy coding: differences that are quick to sum up, and planes of one value or as they are.
  for (const Form form : {Form::bytes, Form::bf16, Form::f32, Form::f64}) {
    for (uint8_t stride = 1; stride <= 4; ++stride) {
      const Bytes in = smooth_numbers(form, block, stride);
      const QuickPlan found = quick_plan(form, in.data(), in.size(), Effort::plain);
      if (found.plan.packed) assert_int_equal(16 % (element_bytes(form) * found.plan.stride), 0);
      if (form == Form::bytes) assert_false(found.plan.packed);
      assert_int_equal(found.coded, 0);
      const Bytes coded = coders.check(in, found.plan, Effort::plain);
      for (size_t k = 0; !found.plan.packed && k < coded[2]; ++k)
        assert_true(coded[3 + 4 * k + 3] <= static_cast<uint8_t>(PlaneMethod::same));
    }
  }
  // Short blocks too, down to those that have nothing to look at.
  for (const size_t length : {size_t{0}, size_t{1}, size_t{7}, size_t{255}, size_t{5000}}) {
    for (const Form form : all_forms) {
      const Bytes in = smooth_numbers(form, length);
      const PlanesPlan plan = quick_plan(form, in.data(), in.size()).plan;
      if (length > 0) coders.check(in, plan, Effort::quick);
    }
  }
}

void quick_is_huffman_only(void **) {
  Coders coders;
  const Bytes in = smooth_numbers(Form::f32, block);
  const Bytes coded = coders.check(in, {Form::f32}, Effort::quick);
  bool any = false;
  for (size_t k = 0; k < 4; ++k) {
    const auto method = static_cast<PlaneMethod>(coded[3 + 4 * k + 3]);
    assert_true(method == PlaneMethod::raw || method == PlaneMethod::same ||
                method == PlaneMethod::huf);
    any = any || method == PlaneMethod::huf;
  }
  assert_true(any);
}

/// The same block whatever the encoder has seen before.
void keeps_no_trace(void **) {
  Coders used;
  std::vector<Bytes> others;
  for (const Form form : all_forms) others.push_back(normal_numbers(form, block, 3, 0.2, 9));
  for (const Form form : all_forms) {
    const Bytes in = normal_numbers(form, 200001, 20, 0.4);
    for (const Effort effort : efforts) {
      const PlanesPlan plan{form, false, true, 0};
      Coders fresh;
      const Bytes expected = fresh.encode(in, plan, effort, block);
      for (const Bytes &other : others) used.encode(other, {form}, Effort::dense, block);
      assert_true(used.encode(in, plan, effort, block) == expected);
    }
  }
}

// ---- what is malformed ----

struct Sample {
  size_t raw;
  Bytes coded;
};

/// Small blocks in which every method stands.
std::vector<Sample> samples(Coders &coders) {
  std::vector<Sample> all;
  const auto add = [&](const Bytes &in, const PlanesPlan &plan, Effort effort) {
    all.push_back({in.size(), coders.check(in, plan, effort)});
  };
  add(normal_numbers(Form::bf16, 1001, 1), {Form::bf16}, Effort::quick);
  add(normal_numbers(Form::f32, 1003, 1, 0.6), {Form::f32, false, true, 0}, Effort::dense);
  add(smooth_numbers(Form::f64, 2005), {Form::f64, false, false, 1}, Effort::dense);
  add(smooth_numbers(Form::f32, 2005), {Form::f32, true, false, 1, true}, Effort::quick);
  add(random_bytes(55), {Form::f16}, Effort::dense);
  add(Bytes(77, 3), {Form::bytes}, Effort::quick);
  add(normal_numbers(Form::bytes, 900, 10), {Form::bytes}, Effort::quick);
  add(Bytes(80, 0), {Form::f64, true, true, 0}, Effort::quick);
  Bytes text;
  while (text.size() < 3000) text.insert(text.end(), {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'});
  add(text, {Form::bytes}, Effort::dense);
  add(text, {Form::bytes, false, false, 2}, Effort::dense);
  return all;
}

void every_method_is_sampled(void **) {
  Coders coders;
  bool seen[5] = {};
  for (const Sample &sample : samples(coders)) {
    for (size_t k = 0; k < sample.coded[2]; ++k) seen[sample.coded[3 + 4 * k + 3]] = true;
  }
  for (const PlaneMethod method : {PlaneMethod::raw, PlaneMethod::same, PlaneMethod::huf}) {
    assert_true(seen[static_cast<size_t>(method)]);
  }
  assert_true(seen[static_cast<size_t>(PlaneMethod::lz4)] ||
              seen[static_cast<size_t>(PlaneMethod::zstd)]);
}

void truncated(void **) {
  Coders coders;
  Bytes out;
  for (const Sample &sample : samples(coders)) {
    for (size_t length = 0; length < sample.coded.size(); ++length) {
      const Bytes cut(sample.coded.begin(), sample.coded.begin() + static_cast<ptrdiff_t>(length));
      assert_true(coders.decode(cut, sample.raw, &out) == Decoded::malformed);
    }
    for (const size_t more : {1, 4, 1000}) {
      Bytes longer(sample.coded);
      longer.resize(longer.size() + more, 0);
      assert_true(coders.decode(longer, sample.raw, &out) == Decoded::malformed);
    }
  }
}

/// Other lengths than the block has: refused, but for what is one value however long it is, zeros at the end, or packed,
/// where a byte of one group may pass for the bits of another.
void other_lengths(void **) {
  Coders coders;
  Bytes out;
  for (const Sample &sample : samples(coders)) {
    const bool of_any_length =
        sample.coded[3 + 3] == static_cast<unsigned char>(PlaneMethod::same) ||
        (sample.coded[0] & 0x60) != 0;
    for (size_t raw = 0; raw < 2 * sample.raw; ++raw) {
      const Decoded result = coders.decode(sample.coded, raw, &out);
      if (raw == sample.raw) {
        assert_true(result == Decoded::ok);
      } else if (!of_any_length) {
        assert_true(result == Decoded::malformed);
      }
    }
  }
}

void every_byte_changed(void **) {
  Coders coders;
  Bytes out;
  unsigned refused = 0, passed = 0;
  for (const Sample &sample : samples(coders)) {
    const size_t header = 3 + 4 * size_t{sample.coded[2]};
    for (size_t at = 0; at < sample.coded.size(); ++at) {
      for (unsigned value = 0; value < 256; value += at < header ? 1 : 37) {
        Bytes changed(sample.coded);
        changed[at] ^= static_cast<unsigned char>(value);
        const Decoded result = coders.decode(changed, sample.raw, &out);
        assert_true(result != Decoded::no_memory);
        ++(result == Decoded::ok ? passed : refused);
      }
    }
  }
  print_message("%u refused, %u taken for other content\n", refused, passed);
  assert_true(refused > 5000 && passed > 100);
}

/// Lengths that add up, but are not those of the planes.
void shifted_planes(void **) {
  Coders coders;
  Bytes out;
  for (const Sample &sample : samples(coders)) {
    for (size_t k = 0; k + 1 < sample.coded[2]; ++k) {
      for (const int by : {-1, 1, 5, -5}) {
        Bytes changed(sample.coded);
        const auto move = [&](size_t plane, int bytes) {
          unsigned char *at = &changed[3 + 4 * plane];
          const int length = at[0] + at[1] * 256 + bytes;
          at[0] = static_cast<unsigned char>(length);
          at[1] = static_cast<unsigned char>(length / 256);
          return length >= 0;
        };
        if (!move(k, by) || !move(k + 1, -by)) continue;
        assert_true(coders.decode(changed, sample.raw, &out) == Decoded::malformed);
      }
    }
  }
}

/// What is packed has differences, no planes, and no more bits than its elements.
void packed_as_it_cannot_be(void **) {
  Coders coders;
  Bytes out;
  const Bytes in = smooth_numbers(Form::f32, 4 * 64);
  const Bytes coded = coders.check(in, {Form::f32, true, false, 1, true}, Effort::quick);
  const auto changed = [&](size_t at, unsigned char value) {
    Bytes other(coded);
    other[at] = value;
    return coders.decode(other, in.size(), &out);
  };
  assert_true(changed(1, 1) == Decoded::ok);
  for (const unsigned stride : {0U, 5U})
    assert_true(changed(1, static_cast<unsigned char>(stride)) == Decoded::malformed);
  assert_true(changed(2, 4) == Decoded::malformed);
  for (const unsigned flags : {0x40U, 0x10U})
    assert_true(changed(0, static_cast<unsigned char>(coded[0] | flags)) == Decoded::malformed);
  Bytes wide(3 + 1 + 8 * 33, 0);
  std::copy_n(coded.begin(), 3, wide.begin());
  wide[3] = 33;
  assert_true(coders.decode(wide, in.size(), &out) == Decoded::malformed);
  wide[3] = 32;
  wide.resize(3 + 1 + 8 * 32);
  assert_true(coders.decode(wide, in.size(), &out) == Decoded::ok);
}

/// A bitmap tells whether planes follow, and how many: neither one too many nor one too few.
void planes_that_zeros_do_not_have(void **) {
  Coders coders;
  Bytes out;
  const unsigned char form = 0x41;  // f16, zeros taken out
  const Bytes none = {form, 0, 1, 1, 0, 0, 1, 0};
  assert_true(coders.decode(none, 32, &out) == Decoded::ok && out == Bytes(32, 0));
  const Bytes too_many = {form, 0, 2, 1, 0, 0, 1, 1, 0, 0, 1, 0, 9};
  assert_true(coders.decode(too_many, 32, &out) == Decoded::malformed);
  const Bytes all = {form, 0, 3, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 0xFF, 5, 6};
  assert_true(coders.decode(all, 32, &out) == Decoded::ok);
  const Bytes too_few = {form, 0, 2, 1, 0, 0, 1, 1, 0, 0, 1, 0xFF, 5};
  assert_true(coders.decode(too_few, 32, &out) == Decoded::malformed);
  const Bytes no_bitmap = {form, 0, 0};
  assert_true(coders.decode(no_bitmap, 32, &out) == Decoded::malformed);
}

void garbage(void **) {
  Coders coders;
  std::mt19937_64 random(7);
  Bytes out;
  const std::vector<Sample> all = samples(coders);
  for (int round = 0; round < 40000; ++round) {
    Bytes bytes = random_bytes(random() % 300, random());
    // Most get behind the first checks: a header of a real one, and payload that is not.
    if (round % 4 != 0) {
      const Sample &sample = all[random() % all.size()];
      const size_t keep = 3 + 4 * size_t{sample.coded[2]} + random() % 8;
      bytes = random_bytes(sample.coded.size(), random());
      std::copy_n(sample.coded.begin(), std::min(keep, bytes.size()), bytes.begin());
      coders.decode(bytes, sample.raw, &out);
    } else {
      coders.decode(bytes, random() % 600, &out);
    }
  }
}

// ---- no memory ----

void contexts_that_cannot_be_made(void **) {
  for (int left = 0; left < 2; ++left) {
    contexts_left.store(left);
    assert_null(PlaneEncoder::create());
  }
  contexts_left.store(0);
  assert_null(PlaneDecoder::create());
  contexts_left.store(INT32_MAX);
  Coders coders;
  assert_non_null(coders.encoder.get());
  assert_non_null(coders.decoder.get());
}

// ---- recorded data ----

/// What each kind must reach. A file that is not there is passed over.
void recorded(void **) {
  const char *shared = std::getenv("WEIR_SHARED_DIR");
  const std::filesystem::path data =
      std::filesystem::path(shared != nullptr ? shared : "") / "data";
  if (shared == nullptr || !std::filesystem::is_directory(data)) {
    print_message("skipped: WEIR_SHARED_DIR names no recorded data\n");
    skip();
  }
  struct Goal {
    const char *file;
    double quick, dense;
  };
  const Goal goals[] = {
      {"lm_weights.bf16", 1.45, 1.45}, {"w_ppocr.bf16", 1.45, 1.45}, {"lm_grad.bf16", 1.45, 1.45},
      {"kv.bf16", 1.45, 1.55},         {"kv.f16", 1.15, 1.25},       {"w_ppocr.f16", 1.15, 1.15},
      {"lm_weights.f32", 1.18, 1.18},  {"w_ppocr.f32", 1.18, 1.18},  {"lm_adam_m.f32", 1.18, 1.18},
      {"lm_adam_v.f32", 1.18, 1.25},   {"md_vel.f32", 1.18, 1.18},   {"md_pos.f32", 1.18, 1.4},
      {"sim_lbm.f32", 1.5, 3.0},       {"attn.bf16", 2.0, 3.0},      {"act_relu.bf16", 3.5, 4.85},
      {"act_gelu.bf16", 1.45, 1.55},   {"dropout_mask.u8", 7.9, 15}};
  Coders coders;
  for (const Goal &goal : goals) {
    std::ifstream file(data / goal.file, std::ios::binary);
    if (!file) continue;
    expect_ratio(coders, goal.file, Bytes(std::istreambuf_iterator<char>(file), {}), goal.quick,
                 goal.dense);
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(every_length),
      cmocka_unit_test(every_plan),
      cmocka_unit_test(no_bytes_and_too_many),
      cmocka_unit_test(every_room),
      cmocka_unit_test(ratios),
      cmocka_unit_test(plans),
      cmocka_unit_test(quick_plans),
      cmocka_unit_test(quick_is_huffman_only),
      cmocka_unit_test(keeps_no_trace),
      cmocka_unit_test(every_method_is_sampled),
      cmocka_unit_test(truncated),
      cmocka_unit_test(other_lengths),
      cmocka_unit_test(every_byte_changed),
      cmocka_unit_test(shifted_planes),
      cmocka_unit_test(planes_that_zeros_do_not_have),
      cmocka_unit_test(packed_as_it_cannot_be),
      cmocka_unit_test(garbage),
      cmocka_unit_test(contexts_that_cannot_be_made),
      cmocka_unit_test(recorded),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
