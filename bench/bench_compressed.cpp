// SPDX-License-Identifier: Apache-2.0
//
// What Codec and CompressedStore make of the libraries under them: pages coded, placed and copied into the store, and
// decoded out of it, against the bare library on the same bytes with the same threads in the same run, block by block
// into memory that stays in the cache. Then what the automatic choice makes of each kind of data, and what passing over
// incompressible pages costs beside a memcpy of them. Generated data, and recorded where WEIR_SHARED_DIR names some.
//
// Must never judge: it exits 0 whatever the numbers are, and 1 only if a call fails or a byte is wrong.

#include "common.hpp"

#include "core/codec/codec.hpp"
#include "core/tier/compressed_store.hpp"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>

namespace {

using namespace weir::bench;
using weir::Clock;
using weir::Workers;
using weir::codec::Codec;
using weir::codec::CodecChoice;
using weir::codec::CodecPlan;
using weir::tier::CompressedStore;
using weir::tier::UnitSlot;

constexpr uint64_t page = 2 * mib;
constexpr uint64_t pages = 16;
constexpr uint64_t total = page * pages;
constexpr uint64_t block = Codec::block_bytes;
constexpr uint64_t blocks = total / block;
constexpr int repetitions = 7;
constexpr auto urgency = Workers::Urgency::demand;

using Bytes = std::vector<unsigned char>;
const Clock system_clock;

[[noreturn]] void die(const char *what) {
  std::fprintf(stderr, "bench_compressed: %s: %s\n", what, weir::last_error().text);
  std::exit(1);
}

double gib_per_s(double ns) {
  return static_cast<double>(total) / ns * 1e9 / (1024.0 * 1024 * 1024);
}

template <class F>
void run(Workers &workers, uint64_t count, F piece) {
  workers.run(
      static_cast<uint32_t>(count),
      [](void *context, uint32_t index) noexcept { (*static_cast<F *>(context))(index); }, &piece,
      urgency);
}

// ---- data ----

struct Data {
  std::string name;
  Bytes bytes;
};

Bytes floats(uint64_t element, float sigma, bool relu) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal(0.0F, sigma);
  Bytes bytes(total);
  for (uint64_t at = 0; at < total; at += element) {
    float value = normal(random);
    if (relu && value < sigma * 0.84F) value = 0;  // four of five
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    if (element == 2) bits >>= 16U;
    std::memcpy(&bytes[at], &bits, element);
  }
  return bytes;
}

Bytes text() {
  static const char *const words[] = {"tensor ",   "layer ", "0.125, ", "granule ",
                                      "the ",      "of ",    "epoch ",  "loss=1.7\n",
                                      "gradient ", "and ",   "step ",   "device "};
  std::mt19937_64 random(2);
  Bytes bytes;
  bytes.reserve(total + 16);
  while (bytes.size() < total) {
    const char *word = words[random() % std::size(words)];
    bytes.insert(bytes.end(), word, word + std::strlen(word));
  }
  bytes.resize(total);
  return bytes;
}

Bytes noise() {
  std::mt19937_64 random(3);
  Bytes bytes(total);
  for (uint64_t at = 0; at < total; at += 8) {
    const uint64_t value = random();
    std::memcpy(&bytes[at], &value, sizeof value);
  }
  return bytes;
}

std::vector<Data> generated() {
  std::vector<Data> all;
  all.push_back({"bf16 normal", floats(2, 0.02F, false)});
  all.push_back({"bf16 relu", floats(2, 1.0F, true)});
  all.push_back({"fp32 normal", floats(4, 0.02F, false)});
  all.push_back({"fp32 relu", floats(4, 1.0F, true)});
  all.push_back({"text", text()});
  all.push_back({"random", noise()});
  all.push_back({"zeros", Bytes(total, 0)});
  return all;
}

/// Each file's first page over and over; blocks know nothing of each other, so that changes no ratio.
std::vector<Data> recorded() {
  std::vector<Data> all;
  const char *shared = std::getenv("WEIR_SHARED_DIR");
  if (shared == nullptr) return all;
  std::error_code error;
  for (const auto &entry :
       std::filesystem::directory_iterator(std::string(shared) + "/data", error)) {
    std::ifstream file(entry.path(), std::ios::binary);
    Bytes bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (bytes.size() < page) continue;
    bytes.resize(page);
    Bytes repeated;
    for (uint64_t i = 0; i < pages; ++i)
      repeated.insert(repeated.end(), bytes.begin(), bytes.end());
    all.push_back({entry.path().filename().string(), std::move(repeated)});
  }
  std::sort(all.begin(), all.end(), [](const Data &a, const Data &b) { return a.name < b.name; });
  return all;
}

// ---- the two sides ----

/// Pages as Weir keeps them: each new blob takes the place of the page's last one.
class Stored {
 public:
  Stored(Workers &workers, CodecChoice choice)
      : codec_(workers, choice),
        store_(2 * total, std::pmr::new_delete_resource()),
        staging_(Codec::bound(page)),
        out_(total) {
    if (!store_.start()) die("start");
  }
  Stored(const Stored &) = delete;
  Stored &operator=(const Stored &) = delete;

  double encode_ns(const Bytes &in) {
    const double start = now_ns();
    for (uint64_t i = 0; i < pages; ++i) {
      const uint64_t length =
          codec_.encode(&in[i * page], page, staging_.data(), false, &plan_, urgency);
      if (slots_[i]) store_.free(slots_[i]);
      slots_[i] = length > 0 ? store_.allocate(length) : UnitSlot{};
      lengths_[i] = length;
      if (length > 0) std::memcpy(store_.address(slots_[i]), staging_.data(), length);
    }
    return now_ns() - start;
  }
  double decode_ns() {
    const double start = now_ns();
    for (uint64_t i = 0; i < pages; ++i) {
      if (lengths_[i] == 0) continue;
      if (!codec_.decode(store_.address(slots_[i]), lengths_[i], &out_[i * page], page, urgency)) {
        die("decode");
      }
    }
    return now_ns() - start;
  }
  void verify(const Bytes &in) const {
    for (uint64_t i = 0; i < pages; ++i) {
      if (lengths_[i] != 0 && std::memcmp(&in[i * page], &out_[i * page], page) != 0) die("verify");
    }
  }
  uint64_t stored_pages() const {
    return static_cast<uint64_t>(std::count_if(std::begin(lengths_), std::end(lengths_),
                                               [](uint64_t length) { return length != 0; }));
  }
  /// Raw bytes of the pages stored, by the memory they take.
  double ratio() const {
    return store_.used() == 0
               ? 1
               : static_cast<double>(stored_pages() * page) / static_cast<double>(store_.used());
  }
  const char *method() const {
    constexpr const char *names[] = {"none", "same",   "raw",  "lz4",    "zstd",
                                     "fx",   "sparse", "mask", "planes", "narrow"};
    static_assert(std::size(names) == weir::codec::method_count);
    return names[plan_.method];
  }

 private:
  Codec codec_;
  CompressedStore store_;
  CodecPlan plan_;
  Bytes staging_, out_;
  UnitSlot slots_[pages];
  uint64_t lengths_[pages] = {};
};

/// The library alone, as many blocks at once as there are threads. Coded blocks are kept once, for decoding.
class Bare {
 public:
  Bare(Workers &workers, bool zstd) : workers_(workers), zstd_(zstd), coded_(blocks), out_(total) {}

  double encode_ns(const Bytes &in) {
    const double start = now_ns();
    run(workers_, blocks,
        [&](uint32_t index) noexcept { (void)encode(&in[index * block], thread().scratch); });
    return now_ns() - start;
  }
  double decode_ns(const Bytes &in) {
    if (coded_.front().empty()) {
      Bytes scratch(thread().scratch.size());
      for (uint64_t i = 0; i < blocks; ++i) {
        const uint64_t length = encode(&in[i * block], scratch);
        coded_[i].assign(scratch.begin(), scratch.begin() + static_cast<long>(length));
      }
    }
    const double start = now_ns();
    run(workers_, blocks, [&](uint32_t index) noexcept { decode(index); });
    return now_ns() - start;
  }

 private:
  struct Thread {
    std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx *)> coder{ZSTD_createCCtx(), ZSTD_freeCCtx};
    std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx *)> decoder{ZSTD_createDCtx(), ZSTD_freeDCtx};
    Bytes scratch = Bytes(std::max<size_t>(ZSTD_compressBound(block), LZ4_COMPRESSBOUND(block)));
  };
  static Thread &thread() {
    static thread_local Thread own;
    return own;
  }

  uint64_t encode(const unsigned char *in, Bytes &out) const noexcept {
    if (zstd_) return ZSTD_compressCCtx(thread().coder.get(), out.data(), out.size(), in, block, 1);
    return static_cast<uint64_t>(
        LZ4_compress_fast(reinterpret_cast<const char *>(in), reinterpret_cast<char *>(out.data()),
                          static_cast<int>(block), static_cast<int>(out.size()), 1));
  }
  void decode(uint32_t index) noexcept {
    const Bytes &from = coded_[index];
    unsigned char *to = &out_[index * block];
    if (zstd_) {
      (void)ZSTD_decompressDCtx(thread().decoder.get(), to, block, from.data(), from.size());
    } else {
      (void)LZ4_decompress_safe(reinterpret_cast<const char *>(from.data()),
                                reinterpret_cast<char *>(to), static_cast<int>(from.size()),
                                static_cast<int>(block));
    }
  }

  Workers &workers_;
  const bool zstd_;
  std::vector<Bytes> coded_;
  Bytes out_;
};

// ---- what is measured ----

Json header(const char *name, const Data &data, const Workers &workers) {
  Json json(name);
  json.text("data", data.name.c_str()).number("threads", workers.threads() + 1.0);
  return json;
}

void print(const char *name, const char *library, const Data &data, const Workers &workers,
           double compression, const Pair &pair) {
  header(name, data, workers)
      .text("library", library)
      .number("compression", compression)
      .number("weir_gib_per_s", gib_per_s(pair.subject))
      .number("library_gib_per_s", gib_per_s(pair.yardstick))
      .number("ratio", 1 / pair.ratio)
      .number("ratio_low", 1 / pair.ratio_high)
      .number("ratio_high", 1 / pair.ratio_low)
      .text("goal", "ratio >= 0.85")
      .print();
}

/// One library, where all of the data is worth its while.
void against_library(const Data &data, Workers &workers, bool zstd) {
  Stored stored(workers, zstd ? CodecChoice::zstd : CodecChoice::lz4);
  Bare bare(workers, zstd);
  for (int i = 0; i < 2; ++i) {
    stored.encode_ns(data.bytes);
    stored.decode_ns();
  }
  if (stored.stored_pages() < pages) return;
  const char *library = zstd ? "zstd" : "lz4";
  const Pair in = interleave(
      repetitions, [&] { return stored.encode_ns(data.bytes); },
      [&] { return bare.encode_ns(data.bytes); });
  print("compress", library, data, workers, stored.ratio(), in);
  bare.decode_ns(data.bytes);
  const Pair out = interleave(
      repetitions, [&] { return stored.decode_ns(); }, [&] { return bare.decode_ns(data.bytes); });
  stored.verify(data.bytes);
  print("decompress", library, data, workers, stored.ratio(), out);
}

/// What the automatic choice does, from a plan that knows nothing, against memcpy by one thread.
void automatic(const Data &data, Workers &workers) {
  Bytes copy(total, 1);
  std::vector<double> first, decodes;
  Stored stored(workers, CodecChoice::automatic);
  first.push_back(stored.encode_ns(data.bytes));
  const Pair in = interleave(
      repetitions, [&] { return stored.encode_ns(data.bytes); },
      [&] {
        const double start = now_ns();
        std::memcpy(copy.data(), data.bytes.data(), total);
        asm volatile("" : : "r"(copy.data()) : "memory");
        return now_ns() - start;
      });
  const bool kept = stored.stored_pages() == pages;
  for (int i = 0; i < 3; ++i) decodes.push_back(stored.decode_ns());
  stored.verify(data.bytes);
  Json json = header("automatic", data, workers);
  json.text("method", stored.method())
      .number("pages_stored", static_cast<double>(stored.stored_pages()) / pages)
      .number("compression", stored.ratio())
      .number("first_gib_per_s", gib_per_s(first.front()))
      .number("compress_gib_per_s", gib_per_s(in.subject))
      .number("memcpy_gib_per_s", gib_per_s(in.yardstick))
      .number("compress_to_memcpy", 1 / in.ratio);
  if (kept) json.number("decompress_gib_per_s", gib_per_s(median(decodes)));
  json.print();
}

}  // namespace

int main() {
  const std::vector<Data> made = generated(), real = recorded();
  for (const uint32_t threads : {0U, 1U}) {
    Workers workers(threads, 100, system_clock);
    if (!workers.start()) die("start");
    for (const bool zstd : {false, true}) {
      for (const Data &data : made) {
        if (data.name != "zeros") against_library(data, workers, zstd);
      }
    }
    for (const std::vector<Data> *all : {&made, &real}) {
      for (const Data &data : *all) automatic(data, workers);
    }
  }
  return 0;
}
