// SPDX-License-Identifier: Apache-2.0
//
// What the codec's fuzzers begin with: a valid blob, or a valid block, of every method, form, way to lay a block out and
// class of sizes, made by the encoder. Without them a fuzzer is refused at the first length that has to be exact. And the
// form in which a case is a file: a byte for the method (0: a blob) and the processor's level, three for the raw bytes,
// and the coded ones.
#pragma once

#include "tests/unit/coded_block.hpp"
#include "tests/unit/codec_data.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

namespace weir::test {

constexpr uint64_t fuzz_block = codec::BlobShape::block_bytes;
constexpr uint64_t fuzz_most_raw = 3 * fuzz_block, fuzz_most_coded = fuzz_most_raw + 4096;

/// What is decoded: a blob, or with `method` what stands for one block of that method.
struct FuzzCase {
  MethodId method = MethodId::none;
  Bytes bytes;
  uint64_t raw = 0;
  uint32_t level = 0;        ///< index of the processor's level, for the methods that have several
  bool guard_behind = true;  ///< of the output; else canaries
};

/// False: a file of these bytes is no case.
inline bool read_case(const uint8_t *data, size_t size, FuzzCase *what) {
  if (size < 4 || size - 4 > fuzz_most_coded) return false;
  what->method = static_cast<MethodId>(data[0] % codec::method_count);
  what->level = data[0] / codec::method_count;
  what->raw = 1 + (data[1] | uint64_t{data[2]} << 8U | uint64_t{data[3]} << 16U) %
                      (what->method == MethodId::none ? fuzz_most_raw : fuzz_block);
  what->guard_behind = (size & 1U) == 0;
  what->bytes.assign(data + 4, data + size);
  return true;
}

inline Bytes write_case(const FuzzCase &what) {
  const uint64_t raw = what.raw - 1;
  Bytes file = {static_cast<unsigned char>(static_cast<uint32_t>(what.method) +
                                           what.level * codec::method_count),
                static_cast<unsigned char>(raw), static_cast<unsigned char>(raw >> 8U),
                static_cast<unsigned char>(raw >> 16U)};
  file.insert(file.end(), what.bytes.begin(), what.bytes.end());
  return file;
}

class FuzzSeeds {
 public:
  FuzzSeeds() {
    for (const uint64_t raw : {uint64_t{9}, uint64_t{200}, uint64_t{1500}, uint64_t{6003}}) {
      for (const Kind kind : all_kinds) {
        const Bytes in = make_bytes(kind, raw);
        for (uint32_t form = 0; form < codec::form_count; ++form) {
          for (uint32_t id = 1; id < codec::method_count; ++id) {
            for (const Effort effort : {Effort::quick, Effort::dense})
              block(in, static_cast<MethodId>(id), static_cast<codec::Form>(form), effort);
          }
        }
        for (const bool sums : {false, true}) blob(in, sums);
      }
    }
    // Of more than one block: what codes to little, so that a fuzzer changes what matters.
    for (const uint64_t raw : {fuzz_block, fuzz_block + 1, 2 * fuzz_block + 700}) {
      for (const Kind kind : {Kind::zeros, Kind::odd_pattern, Kind::sparse}) {
        for (const bool sums : {false, true}) blob(make_bytes(kind, raw), sums);
      }
    }
  }
  const std::vector<FuzzCase> &cases() const { return cases_; }

  /// One file each. False: one could not be written.
  bool write(const std::filesystem::path &folder) const {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    for (size_t i = 0; i < cases_.size(); ++i) {
      const Bytes file = write_case(cases_[i]);
      std::ofstream out(folder / ("seed-" + std::to_string(i)), std::ios::binary);
      out.write(reinterpret_cast<const char *>(file.data()), static_cast<long>(file.size()));
      if (!out.flush()) return false;
    }
    return true;
  }

  /// The cases of a folder besides, a fuzzer's own findings say. False: there is no such folder.
  bool read(const std::filesystem::path &folder) {
    std::error_code error;
    std::vector<std::filesystem::path> files;
    for (const auto &entry : std::filesystem::directory_iterator(folder, error))
      if (entry.is_regular_file(error)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const auto &file : files) {
      std::ifstream in(file, std::ios::binary);
      const Bytes bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
      FuzzCase what;
      if (read_case(bytes.data(), bytes.size(), &what)) cases_.push_back(what);
    }
    return std::filesystem::is_directory(folder, error);
  }

 private:
  using Effort = codec::Effort;

  /// Of blocks that differ in nothing but numbers one is enough. Levels make the same blocks, and are read by their own
  /// kernels.
  void block(const Bytes &in, MethodId id, codec::Form form, Effort effort) {
    FuzzCase made;
    made.method = id;
    made.raw = in.size();
    made.bytes.resize(2 * in.size() + 64);
    made.bytes.resize(
        methods_.find(id, effort)
            ->encode(in.data(), in.size(), form, made.bytes.data(), made.bytes.size()));
    if (made.bytes.empty()) return;
    if (!seen_.insert(likeness(made)).second) return;
    const bool many = id == MethodId::fx || id == MethodId::sparse || id == MethodId::mask ||
                      id == MethodId::narrow;
    for (uint32_t level = 0; level < (many ? levels_here().size() : 1); ++level) {
      made.level = level;
      cases_.push_back(made);
    }
  }

  /// What tells how a block is laid out: its header, but for the window's place, and how planes are coded.
  static std::string likeness(const FuzzCase &made) {
    std::string like = {static_cast<char>(made.method)};
    like += std::to_string(made.raw);
    const Bytes &bytes = made.bytes;
    if (made.method == MethodId::fx && bytes.size() > 3)
      like +=
          {static_cast<char>(bytes[0]), static_cast<char>(bytes[1]), static_cast<char>(bytes[3])};
    if (made.method == MethodId::sparse)
      like += {static_cast<char>(bytes[0]), static_cast<char>(bytes[1])};
    if (made.method == MethodId::narrow &&
        bytes.size() > 7)  // the form, and how its first piece is coded
      like += {static_cast<char>(bytes[0]), static_cast<char>(bytes[7])};
    if (made.method == MethodId::planes && bytes.size() > 3) {
      like += {static_cast<char>(bytes[0]), static_cast<char>(bytes[1])};
      for (size_t i = 0; i < bytes[2] && 6 + 4 * i < bytes.size(); ++i)
        like += static_cast<char>(bytes[6 + 4 * i]);
    }
    return like;
  }

  void blob(const Bytes &in, bool sums) {
    for (uint32_t choice = 0; choice <= static_cast<uint32_t>(CodecChoice::narrow); ++choice) {
      Codec codec(workers_, static_cast<CodecChoice>(choice), {.sums = sums, .ready = false});
      CodecPlan plan;
      FuzzCase made;
      made.raw = in.size();
      made.bytes.resize(Codec::bound(in.size(), sums));
      made.bytes.resize(codec.encode(in.data(), in.size(), made.bytes.data(), true, &plan, demand));
      if (in.size() > fuzz_block && made.bytes.size() > 4096) continue;
      cases_.push_back(made);
    }
  }

  Clock clock_;
  Workers workers_{0, 100, clock_};
  codec::BlockMethods methods_{false};
  std::set<std::string> seen_;
  std::vector<FuzzCase> cases_;
};

}  // namespace weir::test
