// SPDX-License-Identifier: Apache-2.0
//
// `weir frag`: makes a film of the trace, writes it as a page and as a picture, and prints its figures. Both files are
// opened before the work, so that an unwritable place is known at once.
#include "commands.hpp"
#include "error.hpp"
#include "frag/film_json.hpp"
#include "frag/png.hpp"
#include "frag/pool_film.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "trace_file.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <optional>

namespace weir::tool {
namespace {

using Json = nlohmann::ordered_json;

Json placement_json(const FragOptions &options, const frag::PlacementNumbers &numbers) {
  Json json = {{"placement", placement_name(options.placement.kind)},
               {"granule", options.placement.placement.granule},
               {"peak_live_bytes", numbers.peak_live},
               {"peak_reserved_bytes", numbers.peak_reserved},
               {"live_bytes_at_peak_reserved", numbers.live_at_peak_reserved},
               {"most_unused_bytes", numbers.most_unused},
               {"allocated_bytes", numbers.counters.allocated_bytes},
               {"moved_bytes", numbers.counters.moved_bytes},
               {"moves", numbers.counters.moves}};
  json["refused_event"] =
      numbers.refused_at == frag::never ? Json(nullptr) : Json(numbers.refused_at);
  return json;
}

Json pool_json(const frag::PoolNumbers &numbers) {
  return {{"placement", "pool"},
          {"peak_live_bytes", numbers.peak_live},
          {"device_budget", numbers.device_budget},
          {"peak_device_bytes", numbers.peak_device},
          {"most_unused_bytes", numbers.most_unused},
          {"promoted_bytes", numbers.promoted},
          {"demoted_bytes", numbers.demoted}};
}

frag::Film film_of(const FragOptions &options, const frag::Story &story, Json *json) {
  if (!options.pool) {
    frag::PlacementNumbers numbers;
    frag::Film film = frag::film_placement(story, options.placement, &numbers);
    *json = placement_json(options, numbers);
    return film;
  }
  Progress progress(Progress::choose(options.json));
  progress.start("replaying", "operations", story.operations);
  frag::PoolNumbers numbers;
  frag::Film film = frag::film_pool(
      story, *options.pool, options.frames,
      [&](uint64_t operations, uint64_t) { progress.update(operations); }, &numbers);
  progress.done();
  *json = pool_json(numbers);
  return film;
}

std::string text_of(const frag::Film &film) {
  std::string text = film.title + ": " + film.source + "\n";
  for (const frag::Figure &figure : film.figures) {
    text += "  " + figure.name;
    text.append(figure.name.size() < 16 ? 16 - figure.name.size() : 1, ' ');
    text += figure.value;
    text.append(figure.value.size() < 12 ? 12 - figure.value.size() : 1, ' ');
    text += figure.note + "\n";
  }
  return text;
}

}  // namespace

int run_frag(const FragOptions &options) {
  std::optional<OutputFile> page, picture;
  if (!options.html.empty()) page.emplace(options.html);
  if (!options.png.empty()) picture.emplace(options.png);

  frag::StoryOptions story_options;
  story_options.scale = options.scale;
  story_options.limit = options.limit;
  if (options.pool) story_options.clock = frag::Clock::operations;
  const frag::Story story = frag::read_story(options.trace, story_options);
  say_notes(options.trace, story.notes);
  if (story.events.empty())
    throw ToolError("trace '" + options.trace + "' has no allocations to draw");

  Json json;
  const frag::Film film = film_of(options, story, &json);
  if (page) page->commit(frag::film_page(film, story, options.colour));
  if (picture) picture->commit(frag::film_png(film, story, options.colour));
  json["frames"] = film.frames.size();
  json["html"] = options.html.empty() ? Json(nullptr) : Json(options.html);
  json["png"] = options.png.empty() ? Json(nullptr) : Json(options.png);
  std::string text = options.json ? json.dump(1) + "\n" : text_of(film);
  if (!options.json && page) text += "  page            " + options.html + "\n";
  if (!options.json && picture) text += "  picture         " + options.png + "\n";
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw ToolError("cannot write the figures to standard output");
  return 0;
}

}  // namespace weir::tool
