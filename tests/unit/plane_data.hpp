// SPDX-License-Identifier: Apache-2.0
//
// Bytes for the tests of byte planes: numbers of every form as programs leave them in memory, the same on every run, and
// memory whose ends are pages that must not be touched.
#pragma once

#include "core/codec/form.hpp"
#include "tests/support/cmocka.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace weir::test {

using Bytes = std::vector<unsigned char>;

/// Bytes that end where an inaccessible page begins, or begin where one ends.
class Guarded {
 public:
  explicit Guarded(size_t bytes, bool at_end = true) : bytes_(bytes) {
    const size_t page = 4096;
    middle_ = (bytes + page - 1) / page * page;
    if (middle_ == 0) middle_ = page;
    map_ = static_cast<unsigned char *>(mmap(nullptr, middle_ + 2 * page, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    assert_ptr_not_equal(map_, MAP_FAILED);
    assert_int_equal(mprotect(map_, page, PROT_NONE), 0);
    assert_int_equal(mprotect(map_ + page + middle_, page, PROT_NONE), 0);
    data_ = map_ + page + (at_end ? middle_ - bytes : 0);
  }
  Guarded(const Bytes &bytes, bool at_end = true) : Guarded(bytes.size(), at_end) {
    if (!bytes.empty()) std::memcpy(data_, bytes.data(), bytes.size());
  }
  ~Guarded() { munmap(map_, middle_ + 8192); }
  Guarded(const Guarded &) = delete;
  Guarded &operator=(const Guarded &) = delete;
  unsigned char *data() { return data_; }
  size_t size() const { return bytes_; }

 private:
  size_t bytes_, middle_;
  unsigned char *map_, *data_;
};

inline uint16_t to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16U & 0x8000U;
  const int exponent = static_cast<int>(bits >> 23U & 0xFFU) - 112;
  if (exponent >= 31) return static_cast<uint16_t>(sign | 0x7C00U);
  if (exponent <= 0) return static_cast<uint16_t>(sign);  // no denormals: they would be rare
  return static_cast<uint16_t>(sign | static_cast<uint32_t>(exponent) << 10U |
                               (bits >> 13U & 0x3FFU));
}

template <class Element>
void put(Bytes *bytes, Element value) {
  const size_t at = bytes->size();
  bytes->resize(at + sizeof value);
  std::memcpy(bytes->data() + at, &value, sizeof value);
}

inline void put_as(Bytes *bytes, codec::Form form, double value) {
  switch (form) {
    case codec::Form::bytes:
      return put(bytes, static_cast<int8_t>(std::lround(std::fmax(-127, std::fmin(127, value)))));
    case codec::Form::f16:
      return put(bytes, to_half(static_cast<float>(value)));
    case codec::Form::bf16:
      return put(bytes,
                 static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16U));
    case codec::Form::f32:
      return put(bytes, static_cast<float>(value));
    case codec::Form::f64:
      return put(bytes, value);
  }
}

constexpr codec::Form all_forms[] = {codec::Form::bytes, codec::Form::f16, codec::Form::bf16,
                                     codec::Form::f32, codec::Form::f64};

/// Normal numbers, `zeros` of which are zero; cut to `length` bytes.
inline Bytes normal_numbers(codec::Form form, size_t length, double width, double zeros = 0,
                            uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, width);
  std::uniform_real_distribution<double> chance(0, 1);
  Bytes bytes;
  while (bytes.size() < length) {
    put_as(&bytes, form, chance(random) < zeros ? 0.0 : normal(random));
  }
  bytes.resize(length);
  return bytes;
}

/// A slow wave with a little noise, as fields of simulations are.
inline Bytes smooth_numbers(codec::Form form, size_t length, uint32_t stride = 1) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> noise(0, 1e-7);
  Bytes bytes;
  for (size_t i = 0; bytes.size() < length; ++i) {
    const double phase = static_cast<double>(i / stride) / 500.0;
    put_as(&bytes, form, (3.0 + std::sin(phase) + noise(random)) * std::pow(7.0, i % stride));
  }
  bytes.resize(length);
  return bytes;
}

inline Bytes random_bytes(size_t length, uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  Bytes bytes(length);
  for (unsigned char &byte : bytes) byte = static_cast<unsigned char>(random());
  return bytes;
}

/// The numbers that are no numbers, and those at the ends of what is one.
inline Bytes special_numbers(size_t length) {
  const uint64_t specials[] = {0,
                               0x8000000000000000U,
                               0x7FF0000000000000U,
                               0xFFF0000000000000U,
                               0x7FF8000000000001U,
                               1,
                               0x8000000000000001U,
                               0x7F8000007F800000U,
                               0xFF800001FF800000U,
                               0x7C00FC007E01FE02U,
                               0x7F80FF807FC1FFC3U,
                               UINT64_MAX,
                               0x0001800100018001U,
                               0x3FF0000000000000U};
  std::mt19937_64 random(5);
  Bytes bytes;
  while (bytes.size() < length) put(&bytes, specials[random() % std::size(specials)]);
  bytes.resize(length);
  return bytes;
}

}  // namespace weir::test
