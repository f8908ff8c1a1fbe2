// SPDX-License-Identifier: Apache-2.0
//
// Counts events by the table of effects, and passes them on to the listeners.

#include "core/base/events.hpp"

#include <algorithm>

namespace weir {
namespace {

constexpr size_t kinds = static_cast<size_t>(What::count);

/// Of each kind of event the first of its effects, which lie together; the end is where the next kind's begin.
constexpr std::array<uint8_t, kinds + 1> first_effects() noexcept {
  std::array<uint8_t, kinds + 1> first{};
  for (size_t kind = 0, at = 0; kind <= kinds; ++kind) {
    while (at < effects.size() && static_cast<size_t>(effects[at].what) < kind) ++at;
    first[kind] = static_cast<uint8_t>(at);
  }
  return first;
}
constexpr std::array<uint8_t, kinds + 1> first_effect = first_effects();

/// What only listeners are told counts nothing; it comes last.
constexpr bool each_has_an_effect() noexcept {
  for (size_t kind = 0; kind < kinds; ++kind)
    if (first_effect[kind] == first_effect[kind + 1] && kind < static_cast<size_t>(What::trust))
      return false;
  return first_effect[kinds] == effects.size() &&
         std::is_sorted(effects.begin(), effects.end(),
                        [](const Effect &a, const Effect &b) { return a.what < b.what; });
}
static_assert(each_has_an_effect(),
              "effects are in the order of What, and each event that is counted has one");

}  // namespace

void count(const Event &event, Counters *counters) noexcept {
  const auto kind = static_cast<size_t>(event.what);
  for (size_t i = first_effect[kind]; i < first_effect[kind + 1]; ++i) {
    const Effect &effect = effects[i];
    if ((event.how & effect.with) != effect.with || (event.how & effect.without) != 0) continue;
    (*counters)[effect.counter] += effect.adds == Effect::Adds::one      ? 1
                                   : effect.adds == Effect::Adds::amount ? event.amount
                                                                         : event.more;
  }
}

bool Events::listen(EventListener *listener) noexcept {
  const auto free = std::find(listeners_.begin(), listeners_.end(), nullptr);
  if (free == listeners_.end()) return false;
  *free = listener;
  listening_ |= listener->mask();
  return true;
}

void Events::ignore(const EventListener *listener) noexcept {
  listening_ = 0;
  for (EventListener *&each : listeners_) {
    if (each == listener) each = nullptr;
    if (each != nullptr) listening_ |= each->mask();
  }
}

void Events::pass_on(const Event &event) noexcept {
  for (EventListener *each : listeners_) {
    if (each != nullptr && (each->mask() & EventListener::bit_of(event.what)) != 0)
      each->put(event);
  }
}

}  // namespace weir
