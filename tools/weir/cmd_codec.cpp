// SPDX-License-Identifier: Apache-2.0
//
// `weir codec`: what the codec makes of the bytes of files, and how fast on one core, as a table or as JSON. All files
// are looked at before the first is measured, so that a wrong name is known at once.
#include "codec_measure.hpp"
#include "commands.hpp"
#include "error.hpp"
#include "text.hpp"

#include <nlohmann/json.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace weir::tool {
namespace {

using Json = nlohmann::ordered_json;

/// By WEIR_CODEC_*; the library is this tool's own, so it has no others.
constexpr std::array methods{"none", "same",   "raw",  "lz4",    "zstd",
                             "fx",   "sparse", "mask", "planes", "narrow"};
static_assert(methods.size() <= WEIR_CODEC_SLOTS);

// ---- files ----

std::ifstream open_file(const std::string &path) {
  struct stat about {};
  if (stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode))
    throw ToolError("file '" + path + "' is a directory");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw ToolError("cannot open file '" + path + "': " + std::strerror(errno));
  if (file.peek() == std::ifstream::traits_type::eof())
    throw ToolError("file '" + path + "' is empty");
  return file;
}

std::vector<unsigned char> contents_of(const std::string &path) {
  std::ifstream file = open_file(path);
  std::vector<unsigned char> bytes;
  for (uint64_t step = uint64_t{1} << 20U; file; step = bytes.size()) {
    const size_t before = bytes.size();
    bytes.resize(before + step);
    file.read(reinterpret_cast<char *>(bytes.data() + before), static_cast<std::streamsize>(step));
    bytes.resize(before + static_cast<size_t>(file.gcount()));
  }
  if (file.bad()) throw ToolError("cannot read file '" + path + "'");
  return bytes;
}

std::string last_part(const std::string &path) { return path.substr(path.find_last_of('/') + 1); }

// ---- figures ----

double ratio_of(uint64_t raw, uint64_t coded) {
  return static_cast<double>(raw) / static_cast<double>(coded);
}

Json figures_json(const CodecWay &way, uint64_t bytes, const CodecFigures &figures) {
  Json shares = Json::object();
  for (size_t i = 0; i < methods.size(); ++i) {
    const weir_codec_share &share = figures.info.methods[i];
    if (share.raw_bytes == 0) continue;
    shares[methods[i]] = {{"raw_bytes", share.raw_bytes}, {"coded_bytes", share.coded_bytes}};
  }
  return {{"codec", way.name},
          {"blob_bytes", figures.blob_bytes},
          {"blocks", figures.info.blocks},
          {"ratio", ratio_of(bytes, figures.blob_bytes)},
          {"compress_of_memcpy", figures.compress_rate / figures.memcpy_rate},
          {"decompress_of_memcpy", figures.decompress_rate / figures.memcpy_rate},
          {"memcpy_gb_per_s", figures.memcpy_rate * 1e-9},
          {"compress_gb_per_s", figures.compress_rate * 1e-9},
          {"decompress_gb_per_s", figures.decompress_rate * 1e-9},
          {"rounds", figures.rounds},
          {"methods", shares}};
}

/// "fx 94% raw 6%": by raw bytes, the most first.
std::string methods_text(const weir_compressed_info &info) {
  std::vector<size_t> order;
  for (size_t i = 0; i < methods.size(); ++i)
    if (info.methods[i].raw_bytes != 0) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return info.methods[a].raw_bytes > info.methods[b].raw_bytes;
  });
  std::string text;
  for (const size_t i : order) {
    const double percent = 100.0 * static_cast<double>(info.methods[i].raw_bytes) /
                           static_cast<double>(info.raw_bytes);
    text += text.empty() ? "" : " ";
    text += methods[i];
    text += percent < 1 ? std::string(" <1%") : " " + format_fixed(percent, 0) + "%";
  }
  return text;
}

// ---- the table ----

std::string padded(const std::string &text, size_t width, bool right) {
  const std::string spaces(width > text.size() ? width - text.size() : 0, ' ');
  return right ? spaces + text : text + spaces;
}

std::string row(size_t name_width, const std::string &name, const std::string &codec,
                const std::string &ratio, const std::string &compress,
                const std::string &decompress, const std::string &blocks) {
  return padded(name, name_width, false) + "  " + padded(codec, 6, false) + padded(ratio, 9, true) +
         padded(compress, 10, true) + padded(decompress, 12, true) + "  " + blocks + "\n";
}

std::string figures_row(size_t name_width, const std::string &name, const CodecWay &way,
                        uint64_t bytes, const CodecFigures &figures) {
  return row(name_width, name, way.name, format_fixed(ratio_of(bytes, figures.blob_bytes), 2),
             format_fixed(figures.compress_rate / figures.memcpy_rate, 3),
             format_fixed(figures.decompress_rate / figures.memcpy_rate, 3),
             methods_text(figures.info));
}

void print(const std::string &text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw ToolError("cannot write the figures to standard output");
}

size_t widest_name(const std::vector<std::string> &files) {
  size_t width = 4;
  for (const std::string &path : files) width = std::max(width, last_part(path).size());
  return width;
}

}  // namespace

int run_codec(const CodecOptions &options) {
  for (const std::string &path : options.files) (void)open_file(path);
  const size_t width = widest_name(options.files);
  if (!options.json) {
    print("one core; compress and decompress as shares of memcpy of the same bytes\n");
    print(row(width, "file", "codec", "ratio", "compress", "decompress", "blocks"));
  }
  Json files = Json::array();
  for (const std::string &path : options.files) {
    CodecBench bench(path, contents_of(path), options.bytes);
    Json codecs = Json::array();
    for (const CodecWay &way : options.ways) {
      const CodecFigures figures = bench.measure(way, options.element, options.seconds);
      codecs.push_back(figures_json(way, bench.file_bytes(), figures));
      if (!options.json)
        print(figures_row(width, last_part(path), way, bench.file_bytes(), figures));
    }
    files.push_back({{"file", path},
                     {"bytes", bench.file_bytes()},
                     {"measured_bytes", bench.measured_bytes()},
                     {"codecs", codecs}});
  }
  if (options.json) print(Json{{"files", files}}.dump(1) + "\n");
  return 0;
}

}  // namespace weir::tool
