// SPDX-License-Identifier: Apache-2.0
//
// Packing a film. Only blocks that some frame or the timeline shows are told. Nothing in the text may end the element it stands in, so
// '<' is always escaped.
#include "tools/weir/frag/film_json.hpp"

#include "tools/weir/frag/page.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>

namespace weir::tool::frag {
namespace {

using Json = nlohmann::ordered_json;
using Numbers = std::vector<uint64_t>;

constexpr std::string_view digits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string base64(const std::string &bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    for (size_t j = 0; j < 3; ++j)
      three = three << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (size_t j = 0; j < 4; ++j) text += j <= count ? digits[three >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

std::string from_base64(std::string_view text) {
  std::string bytes;
  uint32_t bits = 0;
  unsigned held = 0;
  for (const char c : text) {
    if (c == '=') break;
    const size_t digit = digits.find(c);
    if (digit == std::string_view::npos) throw std::invalid_argument("not base64");
    bits = bits << 6 | static_cast<uint32_t>(digit);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes += static_cast<char>(bits >> held & 255);
  }
  return bytes;
}

uint64_t zigzag(uint64_t difference) {
  return difference << 1 ^ (difference >> 63 != 0 ? UINT64_MAX : 0);
}
uint64_t unzigzag(uint64_t number) { return number >> 1 ^ ((number & 1) != 0 ? UINT64_MAX : 0); }

class Texts {
 public:
  uint64_t operator()(const std::string &text) {
    const auto [entry, fresh] = index_.try_emplace(text, list.size());
    if (fresh) list.push_back(text);
    return entry->second;
  }
  std::vector<std::string> list;

 private:
  std::map<std::string, uint64_t> index_;
};

/// What the pages' numbers are counted from: a block's index is its place in `ids`.
struct Shown {
  explicit Shown(const Film &film) {
    for (const Span &span : film.blocks)
      if (span.block != no_block) ids.push_back(span.block);
    ids.insert(ids.end(), film.timeline.blocks.begin(), film.timeline.blocks.end());
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  }
  uint64_t index(uint32_t block) const {
    return static_cast<uint64_t>(std::lower_bound(ids.begin(), ids.end(), block) - ids.begin());
  }
  Numbers ids;
};

Json blocks_json(const Shown &shown, const Story &story) {
  Numbers sizes, size_index, tags, born, life;
  for (const uint64_t id : shown.ids) sizes.push_back(story.blocks[id].bytes);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  for (const uint64_t id : shown.ids) {
    const StoryBlock &block = story.blocks[id];
    size_index.push_back(static_cast<uint64_t>(
        std::lower_bound(sizes.begin(), sizes.end(), block.bytes) - sizes.begin()));
    tags.push_back(block.tag);
    born.push_back(block.born);
    life.push_back(block.dies == never ? 0 : block.dies - block.born);
  }
  return {{"count", shown.ids.size()},     {"id", packed_deltas(shown.ids)},
          {"sizes", packed_deltas(sizes)}, {"size", packed(size_index)},
          {"tag", packed(tags)},           {"born", packed_deltas(born)},
          {"life", packed(life)}};
}

Json spans_json(const std::vector<Span> &spans, const Shown &shown, const Story &story) {
  uint64_t unit = 0;
  for (const Span &span : spans) unit = std::gcd(unit, span.address);
  if (unit == 0) unit = 1;
  Numbers first, frames, place, block, address, bytes;
  uint64_t end = 0;
  for (const Span &span : spans) {
    const bool owned = span.block != no_block;
    first.push_back(span.first);
    frames.push_back(span.last - span.first);
    place.push_back(uint64_t{span.lane} * kind_count + static_cast<uint64_t>(span.kind));
    block.push_back(owned ? shown.index(span.block) + 1 : 0);
    address.push_back(zigzag(span.address / unit - end));
    end = (span.address + span.bytes) / unit;
    // Against the block's own size, which most spans have whole.
    bytes.push_back(zigzag(span.bytes - (owned ? story.blocks[span.block].bytes : 0)));
  }
  return {{"count", spans.size()},    {"unit", unit},           {"first", packed_deltas(first)},
          {"frames", packed(frames)}, {"place", packed(place)}, {"block", packed_deltas(block)},
          {"gap", packed(address)},   {"bytes", packed(bytes)}};
}

Json frames_json(const Film &film, Texts *texts) {
  Numbers time, live, reserved, moved, operation, name, phase;
  for (const Frame &frame : film.frames) {
    time.push_back(frame.time);
    live.push_back(frame.live);
    reserved.push_back(frame.reserved);
    moved.push_back(frame.moved);
    operation.push_back(frame.operation == UINT64_MAX ? 0 : frame.operation + 1);
    name.push_back((*texts)(frame.operation_name));
    phase.push_back((*texts)(frame.phase));
  }
  return {{"count", film.frames.size()},   {"time", packed_deltas(time)},
          {"live", packed_deltas(live)},   {"reserved", packed_deltas(reserved)},
          {"moved", packed_deltas(moved)}, {"operation", packed_deltas(operation)},
          {"name", packed(name)},          {"phase", packed(phase)}};
}

Json timeline_json(const Film &film, const Shown &shown, const Story &story) {
  const Timeline &timeline = film.timeline;
  Numbers blocks;
  for (const uint32_t block : timeline.blocks) blocks.push_back(shown.index(block));
  // A class for each tag that has a colour, and one for all others.
  const std::vector<uint32_t> tags = coloured_tags(film, story);
  std::vector<size_t> class_of_tag(story.tags.size(), tags.size());
  for (size_t i = 0; i < tags.size(); ++i) class_of_tag[tags[i]] = i;
  Json others = Json::array();
  for (const Numbers &sums : others_of(story, timeline, class_of_tag, tags.size() + 1))
    others.push_back(packed_deltas(sums));
  return {{"count", blocks.size()},
          {"left_out", timeline.left_out},
          {"time", packed_deltas(timeline.times)},
          {"others", others},
          {"block", packed_deltas(blocks)}};
}

template <size_t count>
Json classes_json(const std::array<Class, count> &classes) {
  Json list = Json::array();
  for (const Class &one : classes)
    list.push_back({{"below", one.below}, {"name", one.name}, {"colour", one.colour}});
  return list;
}

Json palette_json(const Film &film, const Story &story) {
  Json kinds = Json::array();
  for (size_t i = 0; i < kind_count; ++i)
    kinds.push_back({{"name", kind_names[i]}, {"colour", kind_colours[i]}});
  return {{"kinds", kinds},
          {"tags", coloured_tags(film, story)},
          {"tag_colours", tag_colours},
          {"sizes", classes_json(size_classes)},
          {"ages", classes_json(age_classes)}};
}

}  // namespace

std::string packed(std::span<const uint64_t> numbers) {
  std::string bytes;
  for (uint64_t number : numbers) {
    for (; number >= 128; number >>= 7) bytes += static_cast<char>(number | 128);
    bytes += static_cast<char>(number);
  }
  return base64(bytes);
}

std::string packed_deltas(std::span<const uint64_t> numbers) {
  Numbers deltas;
  deltas.reserve(numbers.size());
  uint64_t before = 0;
  for (const uint64_t number : numbers) {
    deltas.push_back(zigzag(number - before));
    before = number;
  }
  return packed(deltas);
}

std::vector<uint64_t> unpacked(std::string_view column) {
  Numbers numbers;
  uint64_t number = 0;
  unsigned shift = 0;
  for (const char c : from_base64(column)) {
    const auto byte = static_cast<unsigned char>(c);
    if (shift > 63) throw std::invalid_argument("a number of more than 64 bits");
    number |= uint64_t{byte & 127U} << shift;
    shift += 7;
    if ((byte & 128U) != 0) continue;
    numbers.push_back(number);
    number = shift = 0;
  }
  if (shift != 0) throw std::invalid_argument("a column that ends within a number");
  return numbers;
}

std::vector<uint64_t> unpacked_deltas(std::string_view column) {
  Numbers numbers = unpacked(column);
  uint64_t before = 0;
  for (uint64_t &number : numbers) number = before += unzigzag(number);
  return numbers;
}

std::string film_json(const Film &film, const Story &story, ColourMode mode) {
  const Shown shown(film);
  Texts texts;
  Json json;
  json["format"] = "weir-frag 1";
  json["title"] = film.title;
  json["source"] = film.source;
  json["unit"] = film.unit;
  json["notes"] = film.notes;
  json["end"] = film.end;
  json["bucket"] = film.bucket;
  json["colour"] = colour_mode_names[static_cast<size_t>(mode)];
  json["tiers"] = film.tiers;
  json["tags"] = story.tags;
  json["palette"] = palette_json(film, story);
  json["lanes"] = Json::array();
  for (const Lane &lane : film.lanes)
    json["lanes"].push_back(
        {{"name", lane.name}, {"note", lane.note}, {"granule", lane.granule}, {"end", lane.end}});
  json["marks"] = Json::array();
  for (const Mark &mark : film.marks)
    json["marks"].push_back({{"key", mark.key}, {"text", mark.text}, {"frame", mark.frame}});
  json["figures"] = Json::array();
  for (const Figure &figure : film.figures)
    json["figures"].push_back(
        {{"name", figure.name}, {"value", figure.value}, {"note", figure.note}});
  json["curves"] = Json::array();
  for (const Curve &curve : film.curves)
    json["curves"].push_back({{"name", curve.name},
                              {"low", packed_deltas(curve.low)},
                              {"high", packed_deltas(curve.high)}});
  json["frames"] = frames_json(film, &texts);
  json["texts"] = texts.list;
  json["blocks"] = blocks_json(shown, story);
  json["timeline"] = timeline_json(film, shown, story);
  json["spans"] = spans_json(film.blocks, shown, story);
  json["reserved"] = spans_json(film.reserved, shown, story);
  std::string text = json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

std::string film_page(const Film &film, const Story &story, ColourMode mode) {
  constexpr std::string_view place = "@WEIR_FRAG_FILM@";
  std::string page(page_template);
  const size_t at = page.find(place);
  if (at == std::string::npos) throw std::logic_error("the page has no place for the film");
  return page.replace(at, place.size(), film_json(film, story, mode));
}

}  // namespace weir::tool::frag
