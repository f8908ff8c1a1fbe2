// SPDX-License-Identifier: Apache-2.0
//
// Detection on numbers of every kind, made up here or recorded, in samples of every size; and that it looks at nothing
// outside and says the same twice.

#include "core/codec/detect.hpp"
#include "tests/unit/plane_data.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace {

using namespace weir::test;
using namespace weir::codec;

constexpr size_t block = size_t{256} << 10U;

Detection detect(const Bytes &bytes) {
  const Detection found = weir::codec::detect(bytes.data(), bytes.size());
  const Detection again = weir::codec::detect(bytes.data(), bytes.size());
  assert_true(found.form == again.form && found.integers == again.integers &&
              found.zeros == again.zeros);
  return found;
}

void expect(const char *what, const Bytes &bytes, Form form, bool integers) {
  const Detection found = detect(bytes);
  if (found.form != form || found.integers != integers) {
    fail_msg("%s: form %d, integers %d instead of %d, %d", what, static_cast<int>(found.form),
             found.integers, static_cast<int>(form), integers);
  }
}

template <class Element, class Value>
Bytes integers(size_t length, Value value) {
  Bytes bytes;
  for (size_t i = 0; bytes.size() < length; ++i) put(&bytes, static_cast<Element>(value(i)));
  return bytes;
}

void floats(void **) {
  for (const size_t length : {size_t{20000}, block, size_t{1} << 20U}) {
    for (const double width : {1e-3, 0.02, 1.0, 50.0}) {
      expect("normal f16", normal_numbers(Form::f16, length, width), Form::f16, false);
      expect("normal bf16", normal_numbers(Form::bf16, length, width), Form::bf16, false);
      expect("normal f32", normal_numbers(Form::f32, length, width), Form::f32, false);
      expect("normal f64", normal_numbers(Form::f64, length, width), Form::f64, false);
      for (const double zeros : {0.3, 0.8}) {
        expect("sparse f16", normal_numbers(Form::f16, length, width, zeros), Form::f16, false);
        expect("sparse bf16", normal_numbers(Form::bf16, length, width, zeros), Form::bf16, false);
        expect("sparse f32", normal_numbers(Form::f32, length, width, zeros), Form::f32, false);
      }
    }
    expect("smooth f32", smooth_numbers(Form::f32, length), Form::f32, false);
    expect("smooth f64", smooth_numbers(Form::f64, length), Form::f64, false);
  }
}

/// bfloat16 widened to float keeps the element's width: two of its planes are zero.
void widened(void **) {
  const Bytes narrow = normal_numbers(Form::bf16, block, 0.02);
  Bytes wide;
  for (size_t i = 0; i < narrow.size(); i += 2) {
    put(&wide, static_cast<uint32_t>(narrow[i] << 16U) | static_cast<uint32_t>(narrow[i + 1])
                                                             << 24U);
  }
  expect("widened", wide, Form::f32, false);
}

void whole_numbers(void **) {
  std::mt19937_64 random(4);
  expect("identifiers, 64 bits",
         integers<uint64_t>(block, [&](size_t) { return random() % 50000; }), Form::f64, true);
  expect("identifiers, 32 bits",
         integers<uint32_t>(block, [&](size_t) { return random() % 50000; }), Form::f32, true);
  expect(
      "differences, 32 bits",
      integers<int32_t>(block, [&](size_t) { return static_cast<int64_t>(random() % 600) - 300; }),
      Form::f32, true);
  // Red, green and blue differ, and the fourth does not: one would not want their bits mixed.
  std::normal_distribution<double> red(40, 4), green(120, 9), blue(200, 6);
  expect("pixels",
         integers<uint32_t>(block,
                            [&](size_t) {
                              return static_cast<uint32_t>(red(random)) |
                                     static_cast<uint32_t>(green(random)) << 8U |
                                     static_cast<uint32_t>(blue(random)) << 16U | 255U << 24U;
                            }),
         Form::f32, true);
}

void plain_bytes(void **) {
  expect("random", random_bytes(block), Form::bytes, false);
  expect("weights of 8 bits", normal_numbers(Form::bytes, block, 30), Form::bytes, false);
  Bytes text;
  std::mt19937_64 random(6);
  while (text.size() < block)
    text.push_back(" etaoinshrdlu\n"[random() % 14 * (random() % 14) / 14]);
  expect("text", text, Form::bytes, false);
  for (const size_t length : {0, 1, 7, 8, 100, 2000, 4095}) {
    expect("too short to tell", normal_numbers(Form::f32, length, 1), Form::bytes, false);
  }
}

void shares(void **) {
  for (const double zeros : {0.0, 0.25, 0.5, 0.9}) {
    const Detection found = detect(normal_numbers(Form::bf16, block, 1, zeros));
    if (std::fabs(found.zeros / 256.0 - zeros) > 0.03)
      fail_msg("%u zeros, %d", found.zeros, static_cast<int>(found.form));
  }
  Bytes mask = random_bytes(block);
  for (unsigned char &byte : mask) byte = byte < 30 ? 0 : 1;
  assert_true(detect(mask).form == Form::bytes);
  assert_true(detect(Bytes(block, 0)).zeros == 256);
}

void looks_at_nothing_outside(void **) {
  for (size_t length = 0; length < 300; ++length) {
    Guarded guarded(random_bytes(length));
    weir::codec::detect(guarded.data(), length);
  }
  for (const size_t length : {detect_sample_bytes - 1, detect_sample_bytes, detect_sample_bytes + 1,
                              detect_sample_bytes + 9, size_t{100003}}) {
    Guarded guarded(random_bytes(length));
    weir::codec::detect(guarded.data(), length);
  }
}

/// What the form is known of is found to be the same as where it is not.
void known_forms(void **) {
  const auto check = [](const Bytes &bytes) {
    const Detection found = detect(bytes);
    const Detection known = detect_in(found.form, bytes.data(), bytes.size());
    assert_true(known.form == found.form && known.integers == found.integers);
    assert_in_range(known.zeros + 8, found.zeros, found.zeros + 16);
  };
  std::mt19937_64 random(7);
  for (const Form form : all_forms) {
    for (const double zeros : {0.0, 0.3, 0.8}) check(normal_numbers(form, block, 0.02, zeros));
    // Of a form that they are not, nothing is asked but that it is the one.
    const Bytes bytes = random_bytes(block);
    assert_true(detect_in(form, bytes.data(), block).form == form);
    for (size_t length = 0; length < 300; ++length) {
      Guarded guarded(random_bytes(length));
      const Detection found = detect_in(form, guarded.data(), length);
      assert_true(found.form == form || form == Form::bytes);
    }
    Guarded guarded(random_bytes(100003));
    detect_in(form, guarded.data(), 100003);
  }
  check(integers<uint64_t>(block, [&](size_t) { return random() % 50000; }));
  check(integers<uint32_t>(block, [&](size_t) { return random() % 50000; }));
  check(
      integers<int32_t>(block, [&](size_t) { return static_cast<int64_t>(random() % 600) - 300; }));
}

Bytes contents_of(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

/// A file's name ends with what it holds. Whole, and block by block.
void recorded(void **) {
  const char *shared = std::getenv("WEIR_SHARED_DIR");
  const std::filesystem::path data =
      std::filesystem::path(shared != nullptr ? shared : "") / "data";
  if (shared == nullptr || !std::filesystem::is_directory(data)) {
    print_message("skipped: WEIR_SHARED_DIR names no recorded data\n");
    skip();
  }
  const std::pair<std::string, Form> kinds[] = {{".u8", Form::bytes},
                                                {".f16", Form::f16},
                                                {".bf16", Form::bf16},
                                                {".f32", Form::f32},
                                                {".f64", Form::f64}};
  unsigned files = 0;
  for (const auto &entry : std::filesystem::directory_iterator(data)) {
    const auto *kind = std::find_if(std::begin(kinds), std::end(kinds), [&](const auto &known) {
      return known.first == entry.path().extension().string();
    });
    if (kind == std::end(kinds)) continue;
    const Bytes all = contents_of(entry.path());
    expect(entry.path().c_str(), all, kind->second, false);
    for (size_t at = 0; at + block <= all.size(); at += block) {
      const auto from = all.begin() + static_cast<ptrdiff_t>(at);
      expect(entry.path().c_str(), Bytes(from, from + static_cast<ptrdiff_t>(block)), kind->second,
             false);
    }
    ++files;
  }
  print_message("%u files\n", files);
  assert_true(files > 0);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(floats),        cmocka_unit_test(widened),
      cmocka_unit_test(whole_numbers), cmocka_unit_test(plain_bytes),
      cmocka_unit_test(shares),        cmocka_unit_test(looks_at_nothing_outside),
      cmocka_unit_test(known_forms),   cmocka_unit_test(recorded),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
