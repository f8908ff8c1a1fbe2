// SPDX-License-Identifier: Apache-2.0
//
// Blobs as a program makes them, by weir_compress and weir_decompress alone, one thread: at FAST with and without
// checksums and at DENSE, in turn with memcpy, LZ4 and zstd (level 1) over the same bytes in blocks as long as a blob's. Times
// are the thread's own. FAST must not be slower than half of LZ4, either way, whatever the bytes are; so there are
// bytes here that LZ4 passes over quickly and that other coders are slow on.
//
// Must never judge: it prints numbers and goals, and ends the program with 1 only if a byte is wrong.

#include "bench/codec/blobs.hpp"

#include "bench/common.hpp"

#include <lz4.h>
#include <zstd.h>

#include <cstring>
#include <functional>
#include <memory>

namespace {

using namespace weir::bench;

constexpr uint64_t block = 256 * kib;
constexpr int repetitions = 7;

template <class Work>
double timed(Work &&work) {
  const double start = cpu_ns();
  work();
  asm volatile("" : : : "memory");
  return cpu_ns() - start;
}

/// Blocks by a library alone, one behind the other; what does not get smaller is copied, as in a blob.
class Blocks {
 public:
  using Encode =
      std::function<uint64_t(const unsigned char *in, unsigned char *out, uint64_t room)>;
  using Decode =
      std::function<uint64_t(const unsigned char *in, uint64_t bytes, unsigned char *out)>;
  Blocks(Encode encode, Decode decode) : encode_(std::move(encode)), decode_(std::move(decode)) {}

  void encode(const std::vector<unsigned char> &in, unsigned char *out) {
    ends_.clear();
    uint64_t end = 0;
    for (uint64_t at = 0; at < in.size(); at += block) {
      uint64_t length = encode_(&in[at], out + end, block - block / 16);
      if (length == 0) std::memcpy(out + end, &in[at], length = block);
      ends_.push_back(end += length);
    }
  }
  void decode(const unsigned char *in, unsigned char *out) {
    uint64_t begin = 0;
    for (const uint64_t end : ends_) {
      if (end - begin == block)
        std::memcpy(out, in + begin, block);
      else if (decode_(in + begin, end - begin, out) != block)
        std::exit(1);
      begin = end;
      out += block;
    }
  }
  uint64_t bytes() const { return ends_.back(); }

 private:
  const Encode encode_;
  const Decode decode_;
  std::vector<uint64_t> ends_;
};

Blocks lz4() {
  const auto encode = [](const unsigned char *in, unsigned char *out, uint64_t room) {
    const int length =
        LZ4_compress_default(reinterpret_cast<const char *>(in), reinterpret_cast<char *>(out),
                             static_cast<int>(block), static_cast<int>(room));
    return static_cast<uint64_t>(std::max(length, 0));
  };
  const auto decode = [](const unsigned char *in, uint64_t bytes, unsigned char *out) {
    const int length =
        LZ4_decompress_safe(reinterpret_cast<const char *>(in), reinterpret_cast<char *>(out),
                            static_cast<int>(bytes), static_cast<int>(block));
    return static_cast<uint64_t>(std::max(length, 0));
  };
  return Blocks(encode, decode);
}

Blocks zstd() {
  const std::shared_ptr<ZSTD_CCtx> encoder(ZSTD_createCCtx(), ZSTD_freeCCtx);
  const std::shared_ptr<ZSTD_DCtx> decoder(ZSTD_createDCtx(), ZSTD_freeDCtx);
  const auto encode = [encoder](const unsigned char *in, unsigned char *out, uint64_t room) {
    const size_t length = ZSTD_compressCCtx(encoder.get(), out, room, in, block, 1);
    return ZSTD_isError(length) != 0 ? uint64_t{0} : uint64_t{length};
  };
  const auto decode = [decoder](const unsigned char *in, uint64_t bytes, unsigned char *out) {
    return uint64_t{ZSTD_decompressDCtx(decoder.get(), out, block, in, bytes)};
  };
  return Blocks(encode, decode);
}

/// One way to code all of the data, and the times of its rounds.
struct Way {
  const char *name;
  std::function<void()> encode, decode;
  std::function<uint64_t()> coded;  ///< bytes
  std::vector<double> in{}, out{};

  void round(uint64_t bytes, const unsigned char *raw, unsigned char *back) {
    in.push_back(timed(encode));
    std::memset(back, 0xA5, bytes);
    out.push_back(timed(decode));
    if (std::memcmp(raw, back, bytes) == 0) return;
    std::fprintf(stderr, "bench_codec: %s: other bytes\n", name);
    std::exit(1);
  }
};

/// Median of the rounds' ratios: how fast `subject` was in terms of `yardstick`.
double speed_in(const std::vector<double> &yardstick, const std::vector<double> &subject) {
  std::vector<double> ratios;
  for (size_t i = 0; i < subject.size(); ++i) ratios.push_back(yardstick[i] / subject[i]);
  return median(ratios);
}

class Measuring {
 public:
  explicit Measuring(const CodecData &data)
      : data_(data),
        room_(weir_compress_bound(data.bytes.size())),
        coded_(std::make_unique<unsigned char[]>(room_)),
        back_(std::make_unique<unsigned char[]>(data.bytes.size())) {}

  void run() {
    std::memset(coded_.get(), 1, room_);
    Blocks by_lz4 = lz4(), by_zstd = zstd();
    uint64_t blob_bytes = 0;
    Way ways[] = {of_blocks("lz4", by_lz4), of_blocks("zstd-1", by_zstd),
                  of_blobs("fast", WEIR_COMPRESS_LEVEL_FAST, 0, &blob_bytes),
                  of_blobs("fast, no checksum", WEIR_COMPRESS_LEVEL_FAST, WEIR_COMPRESS_NO_CHECKSUM,
                           &blob_bytes),
                  of_blobs("dense", WEIR_COMPRESS_LEVEL_DENSE, 0, &blob_bytes)};
    std::vector<double> copies;
    for (int i = 0; i < repetitions; ++i) {
      copies.push_back(
          timed([&] { std::memcpy(back_.get(), data_.bytes.data(), data_.bytes.size()); }));
      for (Way &way : ways) way.round(data_.bytes.size(), data_.bytes.data(), back_.get());
    }
    for (Way &way : ways) print(way, copies, ways[0], ways[1]);
  }

 private:
  Way of_blocks(const char *name, Blocks &blocks) {
    return {name, [&] { blocks.encode(data_.bytes, coded_.get()); },
            [&] { blocks.decode(coded_.get(), back_.get()); }, [&] { return blocks.bytes(); }};
  }
  Way of_blobs(const char *name, uint32_t level, uint64_t flags, uint64_t *length) {
    weir_compress_desc desc = WEIR_COMPRESS_DESC_INIT;
    desc.level = level;
    desc.flags = flags;
    const auto encode = [this, desc, length] {
      WEIR_BENCH_TRY(weir_compress(&desc, data_.bytes.data(), data_.bytes.size(), coded_.get(),
                                   room_, length));
    };
    const auto decode = [this, length] {
      WEIR_BENCH_TRY(
          weir_decompress(coded_.get(), *length, back_.get(), data_.bytes.size(), nullptr));
    };
    return {name, encode, decode, [encode, length] {
              encode();
              return *length;
            }};
  }

  void print(const Way &way, const std::vector<double> &copies, const Way &by_lz4,
             const Way &by_zstd) {
    const bool fast = std::strncmp(way.name, "fast", 4) == 0;
    Json("codec blobs")
        .text("data", data_.name.c_str())
        .text("way", way.name)
        .number("compression",
                static_cast<double>(data_.bytes.size()) / static_cast<double>(way.coded()))
        .number("compress_to_memcpy", speed_in(copies, way.in))
        .number("decompress_to_memcpy", speed_in(copies, way.out))
        .number("compress_to_lz4", speed_in(by_lz4.in, way.in))
        .number("decompress_to_lz4", speed_in(by_lz4.out, way.out))
        .number("compress_to_zstd", speed_in(by_zstd.in, way.in))
        .number("decompress_to_zstd", speed_in(by_zstd.out, way.out))
        .text("goal",
              fast ? "compress and decompress >= 0.5 of lz4; of floats decompress >= 1 of memcpy"
                   : "none")
        .print();
  }

  const CodecData &data_;
  const uint64_t room_;
  const std::unique_ptr<unsigned char[]> coded_, back_;
};

}  // namespace

void weir::bench::measure_blobs(const CodecData &data) { Measuring(data).run(); }
