// SPDX-License-Identifier: Apache-2.0
//
// Bytes of several kinds for the tests of the codec, the same on every run, and a guarded place to put blobs in.
#pragma once

#include "core/codec/codec.hpp"
#include "tests/support/cmocka.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace weir::test {

using Bytes = std::vector<unsigned char>;
using codec::Codec;
using codec::CodecChoice;
using codec::CodecPlan;
using codec::MethodId;

constexpr uint64_t header = codec::BlobShape::header_bytes;
constexpr auto demand = Workers::Urgency::demand;

enum class Kind {
  zeros,
  pattern,
  odd_pattern,
  random,
  text,
  bf16,
  half_text,
  sparse,
  mask,
  zeroed_bf16,
  narrow_bf16,
  smooth,
  widened,
  doubles
};
constexpr Kind all_kinds[] = {Kind::zeros,   Kind::pattern,     Kind::odd_pattern, Kind::random,
                              Kind::text,    Kind::bf16,        Kind::half_text,   Kind::sparse,
                              Kind::mask,    Kind::zeroed_bf16, Kind::narrow_bf16, Kind::smooth,
                              Kind::widened, Kind::doubles};

inline void fill_text(unsigned char *out, uint64_t count, std::mt19937_64 &random) {
  static const char *const words[] = {"granule ",    "buffer ",      "lease ",
                                      "of a page, ", "the device\n", "which holds ",
                                      "1024 ",       "bytes ",       "and is "};
  for (uint64_t at = 0; at < count;) {
    const char *word = words[random() % std::size(words)];
    const uint64_t length = std::min<uint64_t>(std::strlen(word), count - at);
    std::memcpy(out + at, word, length);
    at += length;
  }
}

/// Weights of a network as they are: normal, around 0.02 wide, cut to the upper half of a float.
inline void fill_bf16(unsigned char *out, uint64_t count, std::mt19937_64 &random) {
  std::normal_distribution<float> normal(0.0F, 0.02F);
  for (uint64_t at = 0; at + 2 <= count; at += 2) {
    const float value = normal(random);
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    const auto upper = static_cast<uint16_t>(bits >> 16U);
    std::memcpy(out + at, &upper, sizeof upper);
  }
}

inline void fill_random(unsigned char *out, uint64_t count, std::mt19937_64 &random) {
  for (uint64_t at = 0; at < count; ++at) out[at] = static_cast<unsigned char>(random());
}

/// A field of 32-bit floats, as a simulation leaves it.
inline void fill_smooth(unsigned char *out, uint64_t count) {
  for (uint64_t i = 0; 4 * (i + 1) <= count; ++i) {
    const auto x = static_cast<float>(i);
    const float value = 1.5F + 0.2F * std::sin(x * 0.01F) + 0.01F * std::sin(x * 0.13F);
    std::memcpy(out + 4 * i, &value, sizeof value);
  }
}

inline Bytes make_bytes(Kind kind, uint64_t count, uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  Bytes bytes(count, 0);
  switch (kind) {
    case Kind::zeros:
      break;
    case Kind::pattern:
      for (uint64_t i = 0; i < count; ++i) bytes[i] = static_cast<unsigned char>("weirweir"[i % 8]);
      break;
    case Kind::odd_pattern:  // of 7 bytes, which is no pattern of 8
      for (uint64_t i = 0; i < count; ++i) bytes[i] = static_cast<unsigned char>("granule"[i % 7]);
      break;
    case Kind::random:
      fill_random(bytes.data(), count, random);
      break;
    case Kind::text:
      fill_text(bytes.data(), count, random);
      break;
    case Kind::bf16:
      fill_bf16(bytes.data(), count, random);
      break;
    case Kind::half_text:
      fill_text(bytes.data(), count / 2, random);
      fill_random(bytes.data() + count / 2, count - count / 2, random);
      break;
    case Kind::sparse:
      for (uint64_t i = 0; i < count; i += 1 + random() % 64) bytes[i] = 7;
      break;
    case Kind::mask:
      for (unsigned char &byte : bytes) byte = random() % 10 == 0 ? 0 : 1;
      break;
    case Kind::narrow_bf16:  // of one power of two
      fill_bf16(bytes.data(), count, random);
      for (uint64_t i = 0; i + 2 <= count; i += 2) {
        bytes[i] |= 0x80;
        bytes[i + 1] = static_cast<unsigned char>((bytes[i + 1] & 0x80) | 0x3f);
      }
      break;
    case Kind::smooth:
      fill_smooth(bytes.data(), count);
      break;
    case Kind::widened: {  // the same in 32 bits each
      Bytes halves(count / 2 + 2);
      fill_bf16(halves.data(), halves.size() / 2 * 2, random);
      for (uint64_t i = 0; i < count; ++i) bytes[i] = i % 4 < 2 ? 0 : halves[i / 4 * 2 + i % 4 - 2];
      break;
    }
    case Kind::doubles: {
      std::normal_distribution<double> normal(0.0, 1.0);
      for (uint64_t at = 0; at + 8 <= count; at += 8) {
        const double value = normal(random);
        std::memcpy(&bytes[at], &value, sizeof value);
      }
      break;
    }
    case Kind::zeroed_bf16:
      fill_bf16(bytes.data(), count, random);
      for (uint64_t i = 0; i + 2 <= count; i += 2)
        if (random() % 2 == 0) bytes[i] = bytes[i + 1] = 0;
      break;
  }
  return bytes;
}

/// Room for a blob with bytes behind it that must not be written. Exactly as long, so that ASan sees a read beyond too.
class Room {
 public:
  explicit Room(uint64_t bytes) : bytes_(bytes), memory_(bytes + canaries, canary) {}
  unsigned char *data() { return memory_.data(); }
  void check() const {
    for (uint64_t i = bytes_; i < memory_.size(); ++i) {
      if (memory_[i] != canary)
        fail_msg("written %u bytes behind the end", static_cast<unsigned>(i - bytes_ + 1));
    }
  }

 private:
  static constexpr uint64_t canaries = 64;
  static constexpr unsigned char canary = 0xC5;
  uint64_t bytes_;
  Bytes memory_;
};

/// Encodes; empty if it would not pay.
inline Bytes encode(Codec &codec, const Bytes &in, bool must, CodecPlan *plan) {
  Room room(Codec::bound(in.size()));
  const uint64_t length = codec.encode(in.data(), in.size(), room.data(), must, plan, demand);
  room.check();
  assert_true(length <= Codec::bound(in.size()));
  if (must) assert_true(length > 0);
  return Bytes(room.data(), room.data() + length);
}

inline void check_decodes(Codec &codec, const Bytes &blob, const Bytes &expected) {
  Room room(expected.size());
  const Status status =
      codec.decode(blob.data(), blob.size(), room.data(), expected.size(), demand);
  if (!status) fail_msg("decode: %s", last_error().text);
  room.check();
  if (std::memcmp(room.data(), expected.data(), expected.size()) != 0) fail_msg("other bytes");
}

/// The methods of a blob's blocks, as its table tells them.
inline std::vector<MethodId> methods_of(const Bytes &blob) {
  const uint64_t count = blob[16] | uint64_t{blob[17]} << 8U;
  std::vector<MethodId> methods;
  for (uint64_t i = 0; i < count; ++i) {
    methods.push_back(static_cast<MethodId>(blob[header + 8 * i + 7]));
  }
  return methods;
}

}  // namespace weir::test
