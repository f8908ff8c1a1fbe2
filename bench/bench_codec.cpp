// SPDX-License-Identifier: Apache-2.0
//
// The codec's own methods at each level of the processor, on one core: what they make of each kind of data, and their
// speed as a share of memcpy's over the same bytes in the same run, all of it from memory and none from a cache. Times
// are the thread's own, so that a neighbour on the core costs nobody his number.
//
// And what bytes cost that nothing can be gained from, page by page through the Codec with a region's plan, as a pool
// does: "incompressible" is the name of those.
//
//   bench_codec [MIB [NAME]]          bytes per kind of data, 256 MiB if not said; only data whose name has NAME in it
//   bench_codec blobs [MIB [NAME]]    whole blobs, beside LZ4 and zstd (bench/codec/blobs.cpp), 64 MiB if not said
//
// Must never judge: it exits 0 whatever the numbers are, and 1 only if a byte is wrong.

#include "common.hpp"

#include "bench/codec/blobs.hpp"
#include "bench/codec/data.hpp"
#include "core/codec/codec.hpp"
#include "core/codec/cpu.hpp"
#include "core/codec/fx.hpp"
#include "core/codec/mask.hpp"
#include "core/codec/sparse.hpp"

#include <sched.h>
#include <time.h>

#include <cstring>
#include <memory>
#include <random>

namespace {

using namespace weir::bench;
using weir::codec::CpuLevel;
using weir::codec::Form;
using weir::codec::Stores;

constexpr uint64_t block = 256 * kib;
constexpr uint64_t page = 2 * mib;
constexpr int repetitions = 5;

/// Starts where a page does, as what Weir moves always does.
class Memory {
 public:
  explicit Memory(uint64_t bytes) : size_((bytes + page - 1) / page * page) {
    data_.reset(static_cast<unsigned char *>(std::aligned_alloc(page, size_)));
    if (data_ == nullptr) std::exit(1);
    std::memset(data_.get(), 1, size_);
  }
  unsigned char *data() const { return data_.get(); }
  uint64_t size() const { return size_; }

 private:
  static constexpr uint64_t page = 4096;
  const uint64_t size_;
  std::unique_ptr<unsigned char, void (*)(void *)> data_{nullptr, std::free};
};

struct Method {
  const char *name;
  uint64_t (*encode)(Form, const unsigned char *, uint64_t, unsigned char *, uint64_t, CpuLevel);
  bool (*decode)(const unsigned char *, uint64_t, unsigned char *, uint64_t, CpuLevel, Stores);
  bool (*suits)(const CodecData &);
};

constexpr Method methods[] = {
    {"fx",
     [](Form form, const unsigned char *in, uint64_t raw, unsigned char *out, uint64_t room,
        CpuLevel level) { return weir::codec::fx_encode(form, in, raw, out, room, level); },
     weir::codec::fx_decode, [](const CodecData &data) { return data.form != Form::bytes; }},
    {"sparse",
     [](Form form, const unsigned char *in, uint64_t raw, unsigned char *out, uint64_t room,
        CpuLevel level) { return weir::codec::sparse_encode(form, in, raw, out, room, level); },
     weir::codec::sparse_decode,
     [](const CodecData &data) {
       return weir::codec::sparse_estimate(data.form, data.bytes.data(), block) < block / 8 * 7;
     }},
    {"mask",
     [](Form, const unsigned char *in, uint64_t raw, unsigned char *out, uint64_t room,
        CpuLevel level) { return weir::codec::mask_encode(in, raw, out, room, level); },
     [](const unsigned char *in, uint64_t bytes, unsigned char *out, uint64_t raw, CpuLevel level,
        Stores) { return weir::codec::mask_decode(in, bytes, out, raw, level); },
     [](const CodecData &data) { return data.two_valued; }},
};

double thread_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

template <class Work>
double timed(Work &&work) {
  const double start = thread_ns();
  work();
  asm volatile("" : : : "memory");
  return thread_ns() - start;
}

void stay_on_this_core() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(std::max(0, sched_getcpu())), &set);
  (void)sched_setaffinity(0, sizeof set, &set);
}

/// Blocks one behind the other, each coded or, where that does not make it smaller, as it is.
class Coded {
 public:
  Coded(const Method &method, const CodecData &data, CpuLevel level, Memory &coded, Memory &out)
      : method_(method), data_(data), level_(level), coded_(coded), out_(out) {}

  void encode() {
    ends_.clear();
    uint64_t end = 0;
    for (uint64_t at = 0; at < data_.bytes.size(); at += block) {
      const unsigned char *const in = &data_.bytes[at];
      uint64_t length =
          method_.encode(data_.form, in, block, coded_.data() + end, block - 1, level_);
      if (length == 0) std::memcpy(coded_.data() + end, in, length = block);
      ends_.push_back(end += length);
    }
  }
  void decode(Stores stores) {
    uint64_t begin = 0, at = 0;
    for (const uint64_t end : ends_) {
      const uint64_t length = end - begin;
      if (length == block) {
        std::memcpy(out_.data() + at, coded_.data() + begin, block);
      } else if (!method_.decode(coded_.data() + begin, length, out_.data() + at, block, level_,
                                 stores)) {
        std::exit(1);
      }
      begin = end;
      at += block;
    }
  }
  double compression() const {
    return static_cast<double>(data_.bytes.size()) / static_cast<double>(ends_.back());
  }

 private:
  const Method &method_;
  const CodecData &data_;
  const CpuLevel level_;
  Memory &coded_, &out_;
  std::vector<uint64_t> ends_;
};

double gib_per_s(uint64_t bytes, double ns) {
  return static_cast<double>(bytes) / ns * 1e9 / (1024.0 * 1024 * 1024);
}

void measure(const Method &method, const CodecData &data, CpuLevel level, Memory &memory,
             Memory &out) {
  Coded coded(method, data, level, memory, out);
  const uint64_t size = out.size();
  // Of so many bytes the C library's memcpy streams, and of one page it does not.
  const auto copy = [&] {
    return timed([&] { std::memcpy(out.data(), data.bytes.data(), size); });
  };
  const auto copy_pages = [&] {
    return timed([&] {
      for (uint64_t at = 0; at < size; at += page)
        std::memcpy(out.data() + at, &data.bytes[at], std::min(page, size - at));
    });
  };
  coded.encode();
  const Pair in = interleave(
      repetitions, [&] { return timed([&] { coded.encode(); }); }, copy);
  const Pair back = interleave(
      repetitions, [&] { return timed([&] { coded.decode(Stores::streaming); }); }, copy);
  const Pair in_pages = interleave(
      repetitions, [&] { return timed([&] { coded.encode(); }); }, copy_pages);
  const Pair back_pages = interleave(
      repetitions, [&] { return timed([&] { coded.decode(Stores::cached); }); }, copy_pages);
  std::memset(out.data(), 0xA5, out.size());
  coded.decode(Stores::streaming);
  if (std::memcmp(out.data(), data.bytes.data(), out.size()) != 0) {
    std::fprintf(stderr, "bench_codec: %s: other bytes\n", data.name.c_str());
    std::exit(1);
  }
  const bool wide = level == CpuLevel::avx512, narrow = level == CpuLevel::avx2;
  Json("codec")
      .text("data", data.name.c_str())
      .text("method", method.name)
      .text("level", weir::codec::cpu_level_name(level))
      .number("compression", coded.compression())
      .number("compress_gib_per_s", gib_per_s(out.size(), in.subject))
      .number("decompress_gib_per_s", gib_per_s(out.size(), back.subject))
      .number("memcpy_gib_per_s", gib_per_s(out.size(), back.yardstick))
      .number("compress_to_memcpy", 1 / in.ratio)
      .number("decompress_to_memcpy", 1 / back.ratio)
      .number("compress_to_page_memcpy", 1 / in_pages.ratio)
      .number("cached_decompress_to_page_memcpy", 1 / back_pages.ratio)
      .text("goal", wide     ? "compress >= 0.6, decompress >= 0.9"
                    : narrow ? "compress >= 0.35, decompress >= 0.4"
                             : "none")
      .print();
}

/// Pages of one region, of which a blob is made only if it pays, or in any case. Trials are part of it.
void measure_random(uint64_t total, bool must, Memory &in, Memory &out) {
  using namespace weir::codec;
  weir::Clock clock;
  weir::Workers workers(0, 100, clock);
  Codec codec(workers, CodecChoice::automatic);
  const uint64_t pages = total / page;
  uint64_t blobs = 0;
  const auto encode = [&] {
    CodecPlan plan;
    return timed([&] {
      for (uint64_t i = 0; i < pages; ++i) {
        const uint64_t bytes = codec.encode(in.data() + i * page, page, out.data() + i * page, must,
                                            &plan, weir::Workers::Urgency::demand);
        blobs += bytes > 0 ? 1 : 0;
      }
    });
  };
  const auto copy = [&] {
    return timed([&] { std::memcpy(out.data(), in.data(), pages * page); });
  };
  const Pair pair = interleave(repetitions, encode, copy);
  Json("codec")
      .text("data", "incompressible")
      .text("method", must ? "auto, stored as it is" : "auto, passed over")
      .count("blobs", blobs)
      .number("compress_gib_per_s", gib_per_s(pages * page, pair.subject))
      .number("memcpy_gib_per_s", gib_per_s(pages * page, pair.yardstick))
      .number("compress_to_memcpy", 1 / pair.ratio)
      .text("goal", "compress >= 0.5")
      .print();
}

int all_blobs(int argc, char **argv) {
  const uint64_t mebibytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 64;
  const std::string only = argc > 2 ? argv[2] : "";
  const auto measure = [&](const CodecData &data) {
    if (data.name.find(only) != std::string::npos) measure_blobs(data);
  };
  stay_on_this_core();
  for_each_data(std::max<uint64_t>(mebibytes, 2) * mib, measure);
  for_each_other(std::max<uint64_t>(mebibytes, 2) * mib, measure);
  return 0;
}

}  // namespace

int main(int argc, char **argv) {
  const bool blobs = argc > 1 && std::strcmp(argv[1], "blobs") == 0;
  if (blobs) return all_blobs(argc - 1, argv + 1);
  const uint64_t mebibytes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 256;
  const uint64_t total = std::max<uint64_t>(mebibytes, 2) * mib;
  const char *const only = argc > 2 ? argv[2] : "";
  stay_on_this_core();
  Memory memory(total + page), out(total);
  for_each_data(total, [&](const CodecData &data) {
    if (data.name.find(only) == std::string::npos) return;
    for (const Method &method : methods) {
      if (!method.suits(data)) continue;
      for (uint32_t i = 0; i < weir::codec::cpu_level_count; ++i) {
        const auto level = static_cast<CpuLevel>(i);
        if (weir::codec::cpu_has(level)) measure(method, data, level, memory, out);
      }
    }
  });
  if (std::string("incompressible").find(only) == std::string::npos) return 0;
  std::mt19937_64 random(1);
  for (uint64_t at = 0; at < total; at += 8) {
    const uint64_t word = random();
    std::memcpy(out.data() + at, &word, sizeof word);
  }
  for (const bool must : {false, true}) measure_random(total, must, out, memory);
  return 0;
}
