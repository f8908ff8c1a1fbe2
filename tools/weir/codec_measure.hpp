// SPDX-License-Identifier: Apache-2.0
//
// What a codec makes of given bytes and how fast, beside memcpy of the same bytes, on this thread alone. All by the
// public functions of weir/codec.h. Every round trip is compared with what went in, bit by bit.
#pragma once

#include "codec_options.hpp"

#include <weir/codec.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weir::tool {

struct CodecFigures {
  uint64_t blob_bytes = 0;      ///< of the file's bytes, once
  weir_compressed_info info{};  ///< of that blob
  uint64_t rounds = 0;
  double memcpy_rate = 0, compress_rate = 0, decompress_rate = 0;  ///< raw bytes a second, at best
};

/// The bytes of one file, and memory to measure them in. What is measured are as many copies as it takes to leave the
/// caches: of the file's whole blocks, compressed in one call, so that no copy makes another smaller; or, of a file
/// that is smaller than a block, of all of it, each in a call of its own.
class CodecBench {
 public:
  /// `bytes` is not empty. The name is for messages.
  CodecBench(std::string name, std::vector<unsigned char> bytes, uint64_t at_least);

  CodecFigures measure(const CodecWay &way, uint32_t element, double seconds);

  uint64_t file_bytes() const { return file_.size(); }
  uint64_t measured_bytes() const { return calls_ * call_bytes_; }

 private:
  struct Round;

  void compress_file(const weir_compress_desc &desc, const char *way, CodecFigures *figures);
  Round round(const weir_compress_desc &desc, const char *way);
  void verify(const unsigned char *expected, const unsigned char *got, uint64_t bytes,
              const char *way) const;
  [[noreturn]] void failed(const char *way, const char *what) const;

  const std::string name_;
  const std::vector<unsigned char> file_;
  uint64_t calls_, call_bytes_, blob_room_;
  std::unique_ptr<unsigned char[]> raw_, blobs_, back_;
  std::vector<uint64_t> blob_bytes_;  ///< by call
};

}  // namespace weir::tool
