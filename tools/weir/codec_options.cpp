// SPDX-License-Identifier: Apache-2.0
//
// Flags of `weir codec`: checking. main.cpp declares them.
#include "codec_options.hpp"

#include "choices.hpp"
#include "error.hpp"
#include "text.hpp"

#include <weir/codec.h>

#include <iterator>

namespace weir::tool {
namespace {

constexpr CodecWay ways[] = {
    {"fast", "auto", WEIR_COMPRESS_LEVEL_FAST},     {"dense", "auto", WEIR_COMPRESS_LEVEL_DENSE},
    {"lz4", "lz4", WEIR_COMPRESS_LEVEL_FAST},       {"zstd", "zstd", WEIR_COMPRESS_LEVEL_FAST},
    {"fx", "fx", WEIR_COMPRESS_LEVEL_FAST},         {"sparse", "sparse", WEIR_COMPRESS_LEVEL_FAST},
    {"mask", "mask", WEIR_COMPRESS_LEVEL_FAST},     {"planes", "planes", WEIR_COMPRESS_LEVEL_DENSE},
    {"narrow", "narrow", WEIR_COMPRESS_LEVEL_FAST},
};
constexpr size_t default_ways = 4;

constexpr uint64_t most_mib = 1U << 16U;
constexpr double least_seconds = 0.001, most_seconds = 3600;

const CodecWay &way_of(const std::string &name) {
  for (const CodecWay &way : ways)
    if (name == way.name) return way;
  throw ToolError(no_such_value("--codec", name, codec_choices()));
}

/// By WEIR_ELEMENT_*.
constexpr const char *element_names[] = {"", "f16", "bf16", "f32", "f64"};
static_assert(WEIR_ELEMENT_F16 == 1 && WEIR_ELEMENT_F64 == 4 && std::size(element_names) == 5);

uint32_t element_of(const std::string &name) {
  for (uint32_t i = 0; i < std::size(element_names); ++i)
    if (name == element_names[i]) return i;
  throw ToolError(no_such_value("--element", name, element_choices()));
}

}  // namespace

Choices codec_choices() {
  Choices names;
  for (const CodecWay &way : ways) names.emplace_back(way.name);
  return names;
}

Choices element_choices() { return {std::begin(element_names) + 1, std::end(element_names)}; }

CodecOptions check_codec_flags(const CodecFlags &flags) {
  CodecOptions options;
  options.files = flags.files;
  for (const std::string &name : flags.codecs) options.ways.push_back(way_of(name));
  if (flags.codecs.empty()) options.ways.assign(ways, ways + default_ways);
  options.element = element_of(flags.element);
  if (flags.mib < 1 || flags.mib > most_mib)
    throw ToolError("--mib: " + std::to_string(flags.mib) + " is not between 1 and " +
                    std::to_string(most_mib));
  options.bytes = flags.mib << 20U;
  if (!(flags.seconds >= least_seconds && flags.seconds <= most_seconds))
    throw ToolError("--seconds: " + format_fixed(flags.seconds, 6) +
                    " is not between 0.001 and 3600");
  options.seconds = flags.seconds;
  options.json = flags.json;
  return options;
}

}  // namespace weir::tool
