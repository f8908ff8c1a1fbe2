// SPDX-License-Identifier: Apache-2.0
//
// CodecOptions: the flags of `weir codec`, parsed and checked, and the codecs that it knows by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::tool {

/// One way to compress, as it is called on the command line and as weir_compress() is asked for it.
struct CodecWay {
  const char *name;
  const char *codec;  ///< of weir_compress_desc
  uint32_t level;     ///< likewise
};

struct CodecOptions {
  std::vector<std::string> files;
  std::vector<CodecWay> ways;
  uint32_t element = 0;  ///< WEIR_ELEMENT_*
  uint64_t bytes = 0;    ///< the least that is measured at once
  double seconds = 0;    ///< the least that each of the three is measured for
  bool json = false;
};

/// The options as they stand on the command line.
struct CodecFlags {
  std::vector<std::string> files;
  std::vector<std::string> codecs;  ///< none: fast, dense, lz4, zstd
  std::string element;              ///< "": found out by looking
  uint64_t mib = 64;
  double seconds = 0.2;
  bool json = false;
};

/// Throws ToolError naming the flag and its value. Files are not looked at.
CodecOptions check_codec_flags(const CodecFlags &flags);

}  // namespace weir::tool
