// SPDX-License-Identifier: Apache-2.0
//
// Generated kinds of data beside floats of two and four bytes. Each is 2 MiB, the same on every run, and repeated.

#include "bench/codec/data.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace weir::bench {
namespace {

using codec::Form;
using Bytes = std::vector<unsigned char>;

constexpr uint64_t once = uint64_t{2} << 20U;

template <class Element, class Make>
Bytes filled(Make &&make) {
  Bytes bytes(once);
  for (uint64_t i = 0; i < once / sizeof(Element); ++i) {
    const Element value = make(i);
    std::memcpy(&bytes[i * sizeof value], &value, sizeof value);
  }
  return bytes;
}

/// A normal number as a float of 8 bits: a sign, four bits of exponent, three of mantissa (E4M3).
unsigned char e4m3(float value) {
  const float size = std::min(std::fabs(value), 448.0F);
  int exponent = 0;
  const float fraction = std::frexp(size, &exponent);  // in [0.5, 1)
  const int biased = exponent + 6;
  const unsigned sign = std::signbit(value) ? 0x80U : 0U;
  if (size == 0) return static_cast<unsigned char>(sign);
  if (biased < 1) return static_cast<unsigned char>(sign | static_cast<unsigned>(size * 512));
  return static_cast<unsigned char>(sign | static_cast<unsigned>(biased) << 3U |
                                    static_cast<unsigned>((fraction - 0.5F) * 16));
}

/// Something like the height of a land, smooth and with small steps.
double height(uint64_t i) {
  const auto x = static_cast<double>(i % 1024), y = static_cast<double>(i / 1024);
  return 300 * std::sin(x * 0.011) * std::cos(y * 0.017) + 40 * std::sin(x * 0.13 + y * 0.07) +
         3 * std::sin(x * 0.9) * std::sin(y * 1.1);
}

Bytes text() {
  static const char *const words[] = {"page ",   "of ",      "the ",       "device ", "which ",
                                      "holds ",  "\n",       "0.25, ",     "weight ", "layer.",
                                      "buffer ", "evicted ", "attention ", "12, ",    "norm "};
  std::mt19937_64 random(3);
  Bytes bytes;
  while (bytes.size() < once) {
    const char *word = words[random() % 15];
    bytes.insert(bytes.end(), word, word + std::strlen(word));
  }
  bytes.resize(once);
  return bytes;
}

Bytes fields_of_floats(double noise, bool gaps) {
  std::mt19937_64 random(4);
  std::normal_distribution<double> normal(0, noise);
  return filled<float>([&](uint64_t i) {
    if (gaps && height(i) < -60) return 1e20F;  // "no value", as over land
    return static_cast<float>(280 + height(i) / 20 + normal(random));
  });
}

}  // namespace

void for_each_other(uint64_t total, const std::function<void(const CodecData &)> &take) {
  const auto give = [&](const char *name, Form form, const Bytes &bytes) {
    CodecData data{name, form, false, Bytes(total)};
    for (uint64_t at = 0; at < total; at += once)
      std::memcpy(&data.bytes[at], bytes.data(), std::min(once, total - at));
    take(data);
  };
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal(0, 1);
  std::uniform_real_distribution<double> place(0, 40);
  give("normal f64", Form::f64, filled<double>([&](uint64_t) { return normal(random); }));
  give("places f64", Form::f64, filled<double>([&](uint64_t) { return place(random); }));
  give("field f64", Form::f64, filled<double>([&](uint64_t i) { return 280 + height(i) / 20; }));
  give("field f32", Form::f32, fields_of_floats(0, false));
  give("noisy field f32", Form::f32, fields_of_floats(0.01, false));
  give("field with gaps f32", Form::f32, fields_of_floats(0.01, true));
  give("heights f32", Form::f32,
       filled<float>([](uint64_t i) { return static_cast<float>(std::round(height(i))); }));
  give("fp8", Form::bytes,
       filled<unsigned char>([&](uint64_t) { return e4m3(static_cast<float>(normal(random))); }));
  const auto small = [&](double wide, double most) {
    return static_cast<int>(std::clamp(std::round(normal(random) * wide), -most, most));
  };
  give("int4", Form::bytes, filled<unsigned char>([&](uint64_t) {
         const auto low = static_cast<unsigned>(small(2.4, 7) + 8);
         return static_cast<unsigned char>(low | static_cast<unsigned>(small(2.4, 7) + 8) << 4U);
       }));
  give("int8", Form::bytes,
       filled<unsigned char>([&](uint64_t) { return static_cast<unsigned char>(small(12, 127)); }));
  give("picture u8", Form::bytes, filled<unsigned char>([&](uint64_t i) {
         return static_cast<unsigned char>(128 + height(i) / 4 + normal(random) * 2);
       }));
  give("text", Form::bytes, text());
  give("ids i32", Form::bytes,
       filled<uint32_t>([&](uint64_t) { return static_cast<uint32_t>(random() % 50000); }));
  give("random", Form::bytes, filled<uint64_t>([&](uint64_t) { return random(); }));
}

}  // namespace weir::bench
