// SPDX-License-Identifier: Apache-2.0
//
// The part of Places that measures: which links, where their figures go, and when the cache is read and written. No lock
// is held while a link is measured, a file written, or a line logged.

#include "core/topology/link_bench.hpp"
#include "core/topology/places.hpp"

#include <algorithm>
#include <bit>

namespace weir::topology {

void Places::load_cache() {
  if (loaded_.load(std::memory_order_acquire)) return;
  Measured::Words warnings(memory_);
  {
    const Guard hold(mutex_);
    if (loaded_.load(std::memory_order_relaxed)) return;
    if (cache_) measured_.load(devices_, &warnings);
    if (merged_)
      for (const auto &figure : measured_.figures()) record(figure, machine_.get());
    loaded_.store(true, std::memory_order_release);
  }
  for (const std::pmr::string &each : warnings) log_(WEIR_LOG_WARNING, "%s", each.c_str());
}

void Places::record(const Figures::value_type &figure, Machine *machine) const {
  const auto &[ends, reading] = figure;
  machine->record(end(ends.first), end(ends.second), reading);
}

const char *Places::cache_folder() {
  load_cache();
  return measured_.folder().c_str();
}

/// A pair whose backend cannot say what joins it counts as failed, both ways.
void Places::links_to_measure(std::pmr::vector<Pair> *pairs, CalibrateCounts *counts) const {
  for (const auto &device : devices_) pairs->push_back({device.get(), nullptr});
  for (const auto &a : devices_) {
    for (const auto &b : devices_) {
      if (a->id >= b->id || a->runtime != b->runtime) continue;
      Link there, back;
      const Status one = reported(a->id, b->id, &there);
      const Status known = one ? reported(b->id, a->id, &back) : one;
      if (!known) {
        counts->failed += 2;
        log_(WEIR_LOG_WARNING, "links of devices %u and %u are not measured: %s", a->id, b->id,
             last_error().text);
      } else if (there.direct && back.direct) {
        pairs->push_back({a.get(), b.get()});
      }
    }
  }
}

/// Links to the host come first: links for which there is no time are at the end. The time that is left is shared evenly among the links
/// that are left, so that what one does not need the others have.
Status Places::calibrate(const CalibrateBounds &bounds, bool save, const Clock &clock,
                         CalibrateCounts *counts, uint32_t *files) {
  struct End {
    void operator()(std::atomic<bool> *taken) const noexcept { taken->store(false); }
  };
  const std::unique_ptr<std::atomic<bool>, End> turn(calibrating_.exchange(true) ? nullptr
                                                                                 : &calibrating_);
  if (turn == nullptr)
    return fail(WEIR_ERROR_BUSY, "another thread is measuring this context's links");
  load_cache();
  const uint64_t begin = clock.now_ns();
  const auto time_left = [&] {
    return bounds.time_ns - std::min(bounds.time_ns, clock.now_ns() - begin);
  };
  std::pmr::vector<Pair> pairs(memory_);
  links_to_measure(&pairs, counts);
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (time_left() == 0) {
      counts->skipped += 2;
      continue;
    }
    const auto [a, b] = pairs[i];
    LinkBench bench(*a, b, clock);
    const Status opened = bench.open(std::bit_floor(bounds.bytes / 2));
    uint32_t from = a->id, to = b != nullptr ? b->id : WEIR_DEVICE_HOST;
    for (uint32_t way = 0; way < 2; ++way, std::swap(from, to)) {
      const uint64_t links_left = 2 * (pairs.size() - i) - way;
      Reading reading;
      const Status status =
          opened ? bench.measure(way, time_left() / links_left, &reading) : opened;
      ++(status ? counts->measured : counts->failed);
      if (!status) {
        log_(WEIR_LOG_WARNING, "the link from device %d to %d is not measured: %s",
             static_cast<int>(from), static_cast<int>(to), last_error().text);
        continue;
      }
      const Guard hold(mutex_);
      measured_.set(from, to, reading);
      if (merged_) record({{from, to}, reading}, machine_.get());
    }
  }
  counts->time_ns = clock.now_ns() - begin;
  if (!save || !cache_ || measured_.folder().empty()) return {};
  // Only this thread changes what is measured, until its turn ends.
  return measured_.save(devices_, files);
}

}  // namespace weir::topology
