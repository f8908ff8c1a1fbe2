// SPDX-License-Identifier: Apache-2.0
//
// What every method of coding a block must keep, whatever it is: the same bytes at every level of the processor, decoded
// by every other, into exactly the room it needs and not into a byte less, without touching what lies around; and
// nothing but "no" to bytes that are no coded block. Memory here ends where the range ends, with pages behind it and
// before it that must not be touched.
#pragma once

#include "core/codec/cpu.hpp"
#include "tests/support/cmocka.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

namespace weir::test {

using codec::CpuLevel;
using codec::Stores;
using BlockBytes = std::vector<unsigned char>;

inline std::vector<CpuLevel> levels_here() {
  std::vector<CpuLevel> levels;
  for (uint32_t i = 0; i < codec::cpu_level_count; ++i) {
    if (codec::cpu_has(static_cast<CpuLevel>(i))) levels.push_back(static_cast<CpuLevel>(i));
  }
  return levels;
}

/// Pages between two that cannot be touched.
class GuardedMemory {
 public:
  explicit GuardedMemory(uint64_t bytes) : bytes_((bytes + page - 1) / page * page) {
    void *all = mmap(nullptr, bytes_ + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) std::abort();
    begin_ = static_cast<unsigned char *>(all) + page;
    if (mprotect(begin_, bytes_, PROT_READ | PROT_WRITE) != 0) std::abort();
  }
  ~GuardedMemory() { munmap(begin_ - page, bytes_ + 2 * page); }
  GuardedMemory(const GuardedMemory &) = delete;
  GuardedMemory &operator=(const GuardedMemory &) = delete;

  uint64_t bytes() const { return bytes_; }
  unsigned char *begin() const { return begin_; }
  /// A range that ends where the memory does, but for `gap`.
  unsigned char *ending(uint64_t bytes, uint64_t gap = 0) const {
    if (bytes + gap > bytes_) std::abort();
    return begin_ + bytes_ - gap - bytes;
  }
  unsigned char *copy_ending(const BlockBytes &from, uint64_t gap = 0) const {
    unsigned char *const to = ending(from.size(), gap);
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
    return to;
  }

 private:
  static constexpr uint64_t page = 4096;
  uint64_t bytes_;
  unsigned char *begin_;
};

/// FNV-1a: to know a coded block again.
inline uint64_t digest(const BlockBytes &bytes) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001B3;
  return hash;
}

/// Bytes from a recurrence that is written out here, so that they are the same everywhere: the top byte of each word of
/// `width` has one of eight neighbouring values, and of 256 words so many are zero.
inline BlockBytes pinned_bytes(uint64_t count, uint32_t width, uint32_t zeros) {
  BlockBytes bytes(count);
  uint64_t state = 1;
  for (uint64_t at = 0; at < count; ++at) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    bytes[at] = static_cast<unsigned char>(state >> 56U);
    if (at % width == width - 1) bytes[at] = static_cast<unsigned char>(0x38U + (bytes[at] & 7U));
    if (at % width == width - 1 && (state >> 40U & 255U) < zeros)
      std::memset(&bytes[at + 1 - width], 0, width);
  }
  return bytes;
}

class CodedBlock {
 public:
  using Encode =
      std::function<uint64_t(const unsigned char *, uint64_t, unsigned char *, uint64_t, CpuLevel)>;
  using Decode = std::function<bool(const unsigned char *, uint64_t, unsigned char *, uint64_t,
                                    CpuLevel, Stores)>;

  /// For blocks of up to `largest` raw bytes, which never grow by more than `slack`.
  CodedBlock(Encode encode, Decode decode, uint64_t largest, uint64_t slack)
      : levels_(levels_here()),
        encode_(std::move(encode)),
        decode_(std::move(decode)),
        slack_(slack),
        in_(largest + around),
        coded_(2 * largest + slack + around),
        out_(largest + around) {}

  /// By the scalar code with room enough. Empty: refused.
  BlockBytes encode(const BlockBytes &in) {
    BlockBytes coded(2 * in.size() + slack_);
    coded.resize(encode_(in.data(), in.size(), coded.data(), coded.size(), CpuLevel::scalar));
    return coded;
  }

  /// Everything that holds for bytes that the method takes, with ranges that end `in_gap` and `out_gap` before the end
  /// of memory. Gives the coded bytes.
  BlockBytes check_round_trip(const BlockBytes &in, uint64_t in_gap = 0, uint64_t out_gap = 0) {
    BlockBytes coded = encode(in);
    if (coded.empty()) fail_msg("refused %u bytes", static_cast<unsigned>(in.size()));
    const unsigned char *const from = in_.copy_ending(in, in_gap);
    for (const CpuLevel level : levels_) {
      check_encodes(from, in.size(), coded, out_gap, level);
      check_decodes(coded, in, in_gap, out_gap, level);
    }
    return coded;
  }

  /// The same with both ranges at the beginning of memory: nothing lies before them.
  void check_front(const BlockBytes &in) {
    const BlockBytes coded = encode(in);
    for (const CpuLevel level : levels_) {
      std::memcpy(in_.begin(), in.data(), in.size());
      assert_int_equal(encode_(in_.begin(), in.size(), coded_.begin(), coded.size(), level),
                       coded.size());
      for (const Stores stores : {Stores::cached, Stores::streaming}) {
        std::memset(out_.begin(), 0x3C, in.size());
        assert_true(decode_(coded_.begin(), coded.size(), out_.begin(), in.size(), level, stores));
        assert_memory_equal(out_.begin(), in.data(), in.size());
      }
    }
  }

  void check_refused(const BlockBytes &in, uint64_t room) {
    const unsigned char *const from = in_.copy_ending(in);
    for (const CpuLevel level : levels_)
      assert_int_equal(encode_(from, in.size(), coded_.ending(room), room, level), 0);
  }

  /// Bytes that may be anything: all levels agree about them. Gives whether they were taken for a block.
  bool check_any(const BlockBytes &coded, uint64_t raw) {
    const unsigned char *const from = coded_.copy_ending(coded);
    bool taken = false;
    BlockBytes decoded;
    for (const CpuLevel level : levels_) {
      unsigned char *const out = out_.ending(raw, canaries);
      set_canaries(out, raw);
      const bool now = decode_(from, coded.size(), out, raw, level, Stores::cached);
      check_canaries(out, raw);
      if (level == levels_.front()) {
        taken = now;
        decoded.assign(out, out + raw);
      } else {
        assert_int_equal(now, taken);
        if (taken && raw > 0) assert_memory_equal(out, decoded.data(), raw);
      }
      // Once more with nothing at all behind it.
      assert_int_equal(decode_(from, coded.size(), out_.ending(raw), raw, level, Stores::streaming),
                       taken);
    }
    return taken;
  }

  void check_malformed(const BlockBytes &coded, uint64_t raw) {
    if (check_any(coded, raw))
      fail_msg("taken for a block of %u bytes", static_cast<unsigned>(raw));
  }

  /// No beginning of a block is a block, nor is one with more behind it, nor one of another length; and whatever one
  /// byte is changed to, nothing but its own range is touched.
  void check_damages(const BlockBytes &coded, uint64_t raw) {
    for (uint64_t length = 0; length < coded.size(); ++length)
      check_malformed(BlockBytes(coded.begin(), coded.begin() + static_cast<long>(length)), raw);
    BlockBytes damaged = coded;
    damaged.push_back(0);
    check_malformed(damaged, raw);
    check_malformed(coded, raw + 1);
    if (raw > 0) check_malformed(coded, raw - 1);
    for (uint64_t at = 0; at < coded.size(); ++at) {
      damaged = coded;
      for (const int by : {0x01, 0x80, 0xFF}) {
        damaged[at] = static_cast<unsigned char>(coded[at] ^ by);
        check_any(damaged, raw);
      }
    }
  }

 private:
  static constexpr uint64_t around = 4096;
  static constexpr uint64_t canaries = 64;
  static constexpr unsigned char canary = 0xC5;

  static void set_canaries(unsigned char *out, uint64_t raw) {
    std::memset(out - canaries, canary, raw + 2 * canaries);
  }
  static void check_canaries(const unsigned char *out, uint64_t raw) {
    for (uint64_t i = 0; i < canaries; ++i) {
      if (out[raw + i] != canary || *(out - 1 - i) != canary) fail_msg("written outside");
    }
  }

  void check_encodes(const unsigned char *from, uint64_t raw, const BlockBytes &coded,
                     uint64_t out_gap, CpuLevel level) {
    unsigned char *const to = coded_.ending(coded.size(), out_gap);
    const uint64_t length = encode_(from, raw, to, coded.size(), level);
    if (length != coded.size() || std::memcmp(to, coded.data(), length) != 0)
      fail_msg("%s: not the bytes of the scalar code", codec::cpu_level_name(level));
    // What is there before shows that nothing is written behind a room that is too small.
    const uint64_t less = coded.size() - 1;
    unsigned char *const cut = coded_.ending(less);
    assert_int_equal(encode_(from, raw, cut, less, level), 0);
  }

  void check_decodes(const BlockBytes &coded, const BlockBytes &in, uint64_t in_gap,
                     uint64_t out_gap, CpuLevel level) {
    const unsigned char *const from = coded_.copy_ending(coded, out_gap);
    unsigned char *const out = out_.ending(in.size(), in_gap);
    for (const Stores stores : {Stores::cached, Stores::streaming}) {
      if (!in.empty()) std::memset(out, ~in[0], in.size());
      if (!decode_(from, coded.size(), out, in.size(), level, stores))
        fail_msg("%s: does not decode", codec::cpu_level_name(level));
      if (!in.empty() && std::memcmp(out, in.data(), in.size()) != 0)
        fail_msg("%s: other bytes", codec::cpu_level_name(level));
    }
  }

  const std::vector<CpuLevel> levels_;
  const Encode encode_;
  const Decode decode_;
  const uint64_t slack_;
  GuardedMemory in_, coded_, out_;
};

}  // namespace weir::test
