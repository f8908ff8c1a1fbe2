// SPDX-License-Identifier: Apache-2.0
//
// Damaged blobs, and damaged blocks given to each method's decoder, from and to memory that ends where nobody may go on.
// The answer must be SUCCESS or CORRUPT, nothing may be written outside, and what a blob with checksums gives back
// with SUCCESS must have them. Alone it mutates valid blobs of every kind of data, the same ones for the same seed, and the
// cases of codec_seeds.hpp; with WEIR_LIBFUZZER it is libFuzzer's target, which begins best with those cases too:
// --write-seeds FOLDER makes files of them, and --corpus FOLDER takes what libFuzzer found in such a folder.

// As in the library, which is why there is none to link.
#define XXH_INLINE_ALL
#include "core/codec/checksum.hpp"
#include "core/codec/fx.hpp"
#include "core/codec/mask.hpp"
#include "core/codec/narrow.hpp"
#include "core/codec/sparse.hpp"
#include "tests/fuzz/codec_seeds.hpp"

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace {

using namespace weir::test;
using namespace weir::codec;
using weir::Clock;
using weir::Workers;

constexpr uint64_t block = fuzz_block, most_raw = fuzz_most_raw, most_coded = fuzz_most_coded;
constexpr uint64_t canaries = 64;
constexpr unsigned char canary = 0xC5;

using Case = FuzzCase;

class Decoding {
 public:
  /// Whether it was taken. What may not be ends the program.
  bool run(const Case &what) {
    ++executions_;
    const unsigned char *in = in_.copy_ending(what.bytes);
    unsigned char *out = out_.ending(what.raw, what.guard_behind ? 0 : canaries);
    std::memset(out - canaries, canary, canaries);
    if (!what.guard_behind) std::memset(out + what.raw, canary, canaries);
    const bool taken = what.method == MethodId::none ? blob(what, in, out) : direct(what, in, out);
    for (uint64_t i = 0; i < canaries; ++i) {
      if (out[-1 - static_cast<int64_t>(i)] != canary) die("written before the output");
      if (!what.guard_behind && out[what.raw + i] != canary) die("written behind the output");
    }
    ++answers_[static_cast<size_t>(what.method)][taken ? 1 : 0];
    return taken;
  }
  const unsigned char *output(const Case &what) const {
    return out_.ending(what.raw, what.guard_behind ? 0 : canaries);
  }
  uint64_t executions() const { return executions_; }

  /// Whether every way in was both taken and refused: else little was tried.
  bool report() const {
    bool all = true;
    for (size_t i = 0; i < method_count; ++i) {
      std::printf("  %s %zu: %llu taken, %llu refused\n", i == 0 ? "blobs" : "method", i,
                  static_cast<unsigned long long>(answers_[i][1]),
                  static_cast<unsigned long long>(answers_[i][0]));
      all = all && answers_[i][0] > 0 && answers_[i][1] > 0;
    }
    return all;
  }

  [[noreturn]] static void die(const char *what) {
    std::fprintf(stderr, "fuzz_codec: %s\n", what);
    std::abort();
  }

 private:
  bool blob(const Case &what, const unsigned char *in, unsigned char *out) {
    const weir::Status status = codec_.decode(in, what.bytes.size(), out, what.raw, demand);
    if (status.code() == WEIR_ERROR_CORRUPT) return false;
    if (!status) die("a result that is neither SUCCESS nor CORRUPT");
    BlobShape shape{0, false};
    if (BlobShape::read(in, what.bytes.size(), &shape) != nullptr || shape.raw != what.raw)
      die("SUCCESS for what is no blob of these bytes");
    for (uint64_t i = 0; shape.sums && i < shape.blocks(); ++i) {
      if (checksum_of(out + BlobShape::start(i), shape.length(i)) !=
          load_little<uint64_t>(in + shape.sum_at(i)))
        die("SUCCESS with another checksum");
    }
    return true;
  }

  bool direct(const Case &what, const unsigned char *in, unsigned char *out) {
    const CpuLevel level = levels_[what.level % levels_.size()];
    const Stores stores = what.guard_behind ? Stores::cached : Stores::streaming;
    const uint64_t bytes = what.bytes.size();
    const Decoded best = methods_.find(what.method)->decode(in, bytes, out, what.raw);
    if (best != Decoded::ok && best != Decoded::malformed) die("no memory");
    const bool taken = best == Decoded::ok;
    bool again = taken;
    if (what.method == MethodId::fx) again = fx_decode(in, bytes, out, what.raw, level, stores);
    if (what.method == MethodId::sparse)
      again = sparse_decode(in, bytes, out, what.raw, level, stores);
    if (what.method == MethodId::mask) again = mask_decode(in, bytes, out, what.raw, level);
    if (what.method == MethodId::narrow) again = narrow_decode(in, bytes, out, what.raw, level);
    if (again != taken) die("two levels of the processor differ");
    return taken;
  }

  Clock clock_;
  Workers workers_{0, 100, clock_};
  Codec codec_{workers_, CodecChoice::lz4, {.sums = false, .ready = false}};
  BlockMethods methods_{true};
  const std::vector<CpuLevel> levels_ = levels_here();
  GuardedMemory in_{most_coded}, out_{most_raw + 2 * canaries};
  uint64_t executions_ = 0;
  std::array<std::array<uint64_t, 2>, method_count> answers_{};
};

// ---- valid blobs, and what becomes of them ----

struct Template {
  Bytes raw, blob;
  BlobShape shape{0, false};
};

class Mutator {
 public:
  Mutator(Decoding &decoding, const FuzzSeeds &seeds, uint64_t seed)
      : decoding_(decoding), seeds_(seeds), random_(seed) {
    for (Template &made : templates_) made = make();
  }

  void step() {
    if (below(4) == 0) return from_seed();
    const Template &from = templates_[below(templates_.size())];
    Case what;
    what.raw = from.raw.size();
    what.level = static_cast<uint32_t>(below(16));
    what.guard_behind = below(2) == 0;
    if (below(2) == 0) {
      one_block(from, &what);
      decoding_.run(what);
      return;
    }
    what.bytes = from.blob;
    if (const uint64_t edits = below(5); edits > 0) {
      for (uint64_t i = 0; i < edits; ++i)
        below(3) == 0 ? damage(&what.bytes, 0) : edit(from, &what);
    }
    const bool taken = decoding_.run(what);
    if (what.bytes == from.blob && !taken) Decoding::die("a valid blob is refused");
    // With its checksums as they were, nothing but the bytes may come of it.
    const uint64_t sums = from.shape.blocks() * 8;
    if (taken && from.shape.sums && (what.bytes[6] & BlobShape::with_sums) != 0 &&
        std::memcmp(&what.bytes[from.shape.sum_at(0)], &from.blob[from.shape.sum_at(0)], sums) ==
            0 &&
        std::memcmp(decoding_.output(what), from.raw.data(), what.raw) != 0)
      Decoding::die("SUCCESS with other bytes");
  }

 private:
  uint64_t below(uint64_t end) { return random_() % end; }

  uint64_t some_length() {
    const uint64_t pick = below(40);
    if (pick == 0) return block - 8 + below(16 + block / 8);
    if (pick < 14) return 1 + below(300);
    return 1 + below(8192);
  }

  Template make() {
    Template made;
    const bool sums = below(2) == 0;
    const auto choice = static_cast<CodecChoice>(below(8));
    Clock clock;
    Workers workers(0, 100, clock);
    Codec codec(workers, choice, {.sums = sums, .ready = false});
    CodecPlan plan;
    plan.hint = static_cast<Form>(below(form_count));
    made.raw = make_bytes(all_kinds[below(std::size(all_kinds))], some_length(), random_());
    made.shape = BlobShape{made.raw.size(), sums};
    made.blob.resize(made.shape.bound());
    const Effort effort = below(2) == 0 ? Effort::dense : Effort::quick;
    made.blob.resize(codec.encode(made.raw.data(), made.raw.size(), made.blob.data(), true, &plan,
                                  demand, effort));
    return made;
  }

  void from_seed() {
    Case what = seeds_.cases()[below(seeds_.cases().size())];
    const uint64_t edits = below(4);
    for (uint64_t i = 0; i < edits; ++i) damage(&what.bytes, 0);
    if (below(16) == 0) what.raw = 1 + below(std::min(what.raw + 64, block));
    if (what.bytes.size() > most_coded) what.bytes.resize(most_coded);
    what.guard_behind = below(2) == 0;
    decoding_.run(what);
  }

  /// One block of a valid blob or, as often, one of every method alike, most times damaged.
  void one_block(const Template &from, Case *what) {
    what->raw = std::min<uint64_t>(from.raw.size(), block);
    what->method = static_cast<MethodId>(1 + below(method_count - 1));
    what->bytes.resize(2 * what->raw + 64);
    const uint64_t length =
        coders_.find(what->method)
            ->encode(from.raw.data(), what->raw, static_cast<Form>(below(form_count)),
                     what->bytes.data(), what->bytes.size());
    what->bytes.resize(length);
    const uint64_t edits = length == 0 ? 1 + below(8) : below(4);
    for (uint64_t i = 0; i < edits; ++i) damage(&what->bytes, 0);
    if (below(16) == 0) what->raw = 1 + below(what->raw + 64);
    if (what->bytes.size() > most_coded) what->bytes.resize(most_coded);
  }

  /// Anything, from byte `first` on. The front, where the methods' own headers are, is hit more often.
  void damage(Bytes *bytes, uint64_t first) {
    static constexpr unsigned char telling[] = {0, 1, 0x7F, 0x80, 0xFE, 0xFF};
    if (bytes->size() <= first) return bytes->push_back(static_cast<unsigned char>(random_()));
    const uint64_t rest = bytes->size() - first;
    const uint64_t at = first + below(below(2) == 0 ? rest : std::min<uint64_t>(rest, 24));
    switch (below(7)) {
      case 0:
        (*bytes)[at] = static_cast<unsigned char>((*bytes)[at] ^ 1U << below(8));
        return;
      case 1:
        (*bytes)[at] = static_cast<unsigned char>(random_());
        return;
      case 2:
        (*bytes)[at] = telling[below(std::size(telling))];
        return;
      case 3:
        return bytes->resize(at);
      case 4:
        bytes->insert(bytes->begin() + static_cast<long>(at), 1 + below(32),
                      static_cast<unsigned char>(random_()));
        return;
      case 5:
        return splice(bytes, at);
      default:
        for (uint64_t i = at; i < std::min<uint64_t>(at + 4, bytes->size()); ++i)
          (*bytes)[i] = telling[below(std::size(telling))];
    }
  }

  /// A piece of another blob in the place of what is there.
  void splice(Bytes *bytes, uint64_t at) {
    const Bytes &other = templates_[below(templates_.size())].blob;
    if (other.empty()) return;
    const uint64_t start = below(other.size());
    const uint64_t length = std::min({1 + below(256), other.size() - start, bytes->size() - at});
    std::memcpy(bytes->data() + at, other.data() + start, length);
  }

  /// Another method or other bytes for one block, with a table that says so: nothing before the method refuses it.
  void edit(const Template &from, Case *what) {
    Bytes &bytes = what->bytes;
    const BlobShape &shape = from.shape;
    if (bytes.size() < shape.payload_at()) return;
    const uint64_t index = below(shape.blocks());
    const auto entry = [&](uint64_t i) { return load_little<uint64_t>(&bytes[shape.entry_at(i)]); };
    const uint64_t start = index == 0 ? shape.payload_at() : entry(index - 1) & BlobShape::end_mask;
    const uint64_t end = entry(index) & BlobShape::end_mask;
    if (start < shape.payload_at() || start >= end || end > bytes.size()) return;
    Bytes coded(bytes.begin() + static_cast<long>(start), bytes.begin() + static_cast<long>(end));
    uint64_t method = entry(index) >> BlobShape::method_shift;
    if (below(3) == 0) {
      method = 1 + below(method_count - 1);
    } else {
      damage(&coded, 0);
    }
    bytes.erase(bytes.begin() + static_cast<long>(start), bytes.begin() + static_cast<long>(end));
    bytes.insert(bytes.begin() + static_cast<long>(start), coded.begin(), coded.end());
    store_little(&bytes[shape.entry_at(index)],
                 method << BlobShape::method_shift | (start + coded.size()));
    for (uint64_t i = index + 1; i < shape.blocks(); ++i)
      store_little(&bytes[shape.entry_at(i)], entry(i) + coded.size() - (end - start));
  }

  Decoding &decoding_;
  const FuzzSeeds &seeds_;
  std::mt19937_64 random_;
  BlockMethods coders_{false};
  std::array<Template, 6> templates_;
};

}  // namespace

#ifdef WEIR_LIBFUZZER

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static Decoding decoding;
  Case what;
  if (!read_case(data, size, &what)) return 0;
  decoding.run(what);
  return 0;
}

#else

int main(int argc, char **argv) {
  double seconds = 20;
  uint64_t seed = std::random_device{}();
  long runs = 0, steps = 400;
  const char *write_to = nullptr, *corpus = nullptr;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (i + 1 < argc && name == "--seconds") {
      seconds = std::atof(argv[++i]);
    } else if (i + 1 < argc && name == "--seed") {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (i + 1 < argc && name == "--runs") {
      runs = std::atol(argv[++i]);
    } else if (i + 1 < argc && name == "--steps") {
      steps = std::atol(argv[++i]);
    } else if (i + 1 < argc && name == "--write-seeds") {
      write_to = argv[++i];
    } else if (i + 1 < argc && name == "--corpus") {
      corpus = argv[++i];
    } else {
      std::fprintf(stderr,
                   "usage: fuzz_codec [--seconds S] [--seed N] [--runs R] [--steps K] [--corpus "
                   "FOLDER]\n       fuzz_codec --write-seeds FOLDER\n");
      return 2;
    }
  }
  FuzzSeeds seeds;
  if (write_to != nullptr) {
    if (!seeds.write(write_to)) {
      std::fprintf(stderr, "fuzz_codec: '%s' cannot be written to\n", write_to);
      return 1;
    }
    std::printf("fuzz_codec: %zu seeds\n", seeds.cases().size());
    return 0;
  }
  if (corpus != nullptr && !seeds.read(corpus)) {
    std::fprintf(stderr, "fuzz_codec: there is no folder '%s'\n", corpus);
    return 2;
  }
  // Flushed, so that what ends the program leaves the seed behind.
  std::printf("fuzz_codec: seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  Decoding decoding;
  for (const Case &what : seeds.cases()) {
    if (corpus == nullptr && !decoding.run(what)) Decoding::die("a valid seed is refused");
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  long done = 0;
  for (; runs != 0 ? done < runs : std::chrono::steady_clock::now() < end; ++done) {
    Mutator mutator(decoding, seeds, seed + static_cast<uint64_t>(done));
    for (long step = 0; step < steps; ++step) mutator.step();
  }
  std::printf("fuzz_codec: %ld runs, %llu executions\n", done,
              static_cast<unsigned long long>(decoding.executions()));
  const bool all = decoding.report();
  if (decoding.executions() >= 5000 && !all) {
    std::fprintf(stderr, "fuzz_codec: something was never taken, or never refused\n");
    return 1;
  }
  return 0;
}

#endif
