// SPDX-License-Identifier: Apache-2.0
//
// Measuring: rounds of memcpy, compression and decompression in turn, so that what else runs on the machine disturbs
// all three alike, and the best of each. Time is the thread's, not the clock's on the wall. All memory has been written
// before the first round.
#include "codec_measure.hpp"

#include "error.hpp"

#include <time.h>

#include <algorithm>
#include <cstring>

namespace weir::tool {
namespace {

constexpr uint64_t block_bytes = uint64_t{256} << 10U;  ///< of a blob
constexpr uint64_t most_calls = 4096;
constexpr uint64_t least_rounds = 3;

double thread_seconds() {
  timespec now{};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0)
    throw ToolError("the thread's CPU time cannot be read");
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

template <class Work>
double seconds_of(Work &&work) {
  const double begin = thread_seconds();
  work();
  return thread_seconds() - begin;
}

/// Bytes none of which is as it should be, so that what is not written shows.
void spoil(const unsigned char *expected, unsigned char *bytes, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) bytes[i] = static_cast<unsigned char>(~expected[i]);
}

}  // namespace

struct CodecBench::Round {
  double memcpy_seconds = 0, compress_seconds = 0, decompress_seconds = 0;
};

CodecBench::CodecBench(std::string name, std::vector<unsigned char> bytes, uint64_t at_least)
    : name_(std::move(name)), file_(std::move(bytes)) {
  const uint64_t unit =
      file_.size() < block_bytes ? file_.size() : file_.size() / block_bytes * block_bytes;
  // Of a tiny file, only as many calls as tell something.
  const uint64_t most = unit < block_bytes ? most_calls : UINT64_MAX;
  const uint64_t copies = std::clamp<uint64_t>((at_least + unit - 1) / unit, 1, most);
  calls_ = unit < block_bytes ? copies : 1;
  call_bytes_ = unit < block_bytes ? unit : unit * copies;
  blob_room_ = weir_compress_bound(call_bytes_);
  if (blob_room_ == 0) throw ToolError("file '" + name_ + "' is too large");
  raw_ = std::make_unique<unsigned char[]>(measured_bytes());
  for (uint64_t copy = 0; copy < copies; ++copy)
    std::memcpy(raw_.get() + copy * unit, file_.data(), unit);
  // The whole file has room too, as it is longer than its whole blocks.
  const uint64_t room = std::max(calls_ * blob_room_, weir_compress_bound(file_.size()));
  blobs_ = std::make_unique<unsigned char[]>(room);
  back_ = std::make_unique<unsigned char[]>(std::max<uint64_t>(measured_bytes(), file_.size()));
  blob_bytes_.resize(calls_);
}

void CodecBench::failed(const char *way, const char *what) const {
  throw ToolError("file '" + name_ + "', codec '" + way + "': " + what + ": " + weir_last_error());
}

void CodecBench::verify(const unsigned char *expected, const unsigned char *got, uint64_t bytes,
                        const char *way) const {
  const auto at =
      static_cast<uint64_t>(std::mismatch(expected, expected + bytes, got).first - expected);
  if (at == bytes) return;
  throw ToolError("file '" + name_ + "', codec '" + way + "': byte " + std::to_string(at) + " of " +
                  std::to_string(bytes) + " came back as " + std::to_string(got[at]) + ", not " +
                  std::to_string(expected[at]));
}

void CodecBench::compress_file(const weir_compress_desc &desc, const char *way,
                               CodecFigures *figures) {
  const uint64_t room = weir_compress_bound(file_.size());
  if (weir_compress(&desc, file_.data(), file_.size(), blobs_.get(), room, &figures->blob_bytes) !=
      WEIR_SUCCESS)
    failed(way, "compression failed");
  figures->info = WEIR_COMPRESSED_INFO_INIT;
  if (weir_compressed_info_get(blobs_.get(), figures->blob_bytes, &figures->info) != WEIR_SUCCESS)
    failed(way, "its blob tells nothing");
  spoil(file_.data(), back_.get(), file_.size());
  uint64_t bytes = 0;
  if (weir_decompress(blobs_.get(), figures->blob_bytes, back_.get(), file_.size(), &bytes) !=
      WEIR_SUCCESS)
    failed(way, "decompression failed");
  if (bytes != file_.size())
    throw ToolError("file '" + name_ + "', codec '" + way + "': " + std::to_string(bytes) +
                    " bytes came back, not " + std::to_string(file_.size()));
  verify(file_.data(), back_.get(), file_.size(), way);
}

/// Blobs are where memcpy wrote to before, so that the copy cannot pass for what was decompressed.
CodecBench::Round CodecBench::round(const weir_compress_desc &desc, const char *way) {
  Round took;
  took.memcpy_seconds =
      seconds_of([&] { std::memcpy(blobs_.get(), raw_.get(), measured_bytes()); });
  took.compress_seconds = seconds_of([&] {
    for (uint64_t i = 0; i < calls_; ++i) {
      if (weir_compress(&desc, raw_.get() + i * call_bytes_, call_bytes_,
                        blobs_.get() + i * blob_room_, blob_room_, &blob_bytes_[i]) != WEIR_SUCCESS)
        failed(way, "compression failed");
    }
  });
  spoil(raw_.get(), back_.get(), measured_bytes());
  took.decompress_seconds = seconds_of([&] {
    for (uint64_t i = 0; i < calls_; ++i) {
      if (weir_decompress(blobs_.get() + i * blob_room_, blob_bytes_[i],
                          back_.get() + i * call_bytes_, call_bytes_, nullptr) != WEIR_SUCCESS)
        failed(way, "decompression failed");
    }
  });
  verify(raw_.get(), back_.get(), measured_bytes(), way);
  return took;
}

CodecFigures CodecBench::measure(const CodecWay &way, uint32_t element, double seconds) {
  weir_compress_desc desc = WEIR_COMPRESS_DESC_INIT;
  desc.level = way.level;
  desc.element = element;
  desc.codec = way.codec;
  CodecFigures figures;
  compress_file(desc, way.name, &figures);
  Round sum, best{1e30, 1e30, 1e30};
  const auto add = [](double took, double *all, double *least) {
    *all += took;
    *least = std::min(*least, took);
  };
  while (figures.rounds < least_rounds ||
         std::min(sum.compress_seconds, sum.decompress_seconds) < seconds) {
    const Round took = round(desc, way.name);
    add(took.memcpy_seconds, &sum.memcpy_seconds, &best.memcpy_seconds);
    add(took.compress_seconds, &sum.compress_seconds, &best.compress_seconds);
    add(took.decompress_seconds, &sum.decompress_seconds, &best.decompress_seconds);
    ++figures.rounds;
  }
  const auto rate = [this](double took) {
    return static_cast<double>(measured_bytes()) / std::max(took, 1e-9);
  };
  figures.memcpy_rate = rate(best.memcpy_seconds);
  figures.compress_rate = rate(best.compress_seconds);
  figures.decompress_rate = rate(best.decompress_seconds);
  return figures;
}

}  // namespace weir::tool
