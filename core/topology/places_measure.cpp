// SPDX-License-Identifier: Apache-2.0
//
// The part of Places that measures: which links, where their figures go, and when the cache is read and written. No lock
// is held while a link is measured, a file written, or a line logged.

#include "core/topology/places.hpp"

namespace weir::topology {
namespace {

/// Ends the one calibration that may run.
class Turn {
 public:
  explicit Turn(std::atomic<bool> *taken) noexcept : taken_(taken), mine_(!taken->exchange(true)) {}
  ~Turn() {
    if (mine_) taken_->store(false);
  }
  Turn(const Turn &) = delete;
  Turn &operator=(const Turn &) = delete;
  bool mine() const noexcept { return mine_; }

 private:
  std::atomic<bool> *taken_;
  const bool mine_;
};

}  // namespace

void Places::load_cache() {
  if (loaded_.load(std::memory_order_acquire)) return;
  Measured::Words warnings(memory_);
  {
    const Guard hold(mutex_);
    if (loaded_.load(std::memory_order_relaxed)) return;
    if (cache_) measured_.load(devices_, &warnings);
    if (merged_)
      for (const Figure &figure : measured_.figures()) record(figure, machine_.get());
    loaded_.store(true, std::memory_order_release);
  }
  for (const std::pmr::string &each : warnings) log_(WEIR_LOG_WARNING, "%s", each.c_str());
}

void Places::record(const Figure &figure, Machine *machine) const {
  machine->record(end(figure.from), end(figure.to), figure.bandwidth, figure.latency_ns);
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

Status Places::calibrate(const CalibrateBounds &bounds, bool save, const Clock &clock,
                         CalibrateCounts *counts, uint32_t *files) {
  const Turn turn(&calibrating_);
  if (!turn.mine())
    return fail(WEIR_ERROR_BUSY, "another thread is measuring this context's links");
  load_cache();
  const uint64_t begin = clock.now_ns();
  std::pmr::vector<Pair> pairs(memory_);
  links_to_measure(&pairs, counts);
  const CalibrateCounts done =
      topology::calibrate(pairs, bounds, clock, [this](Status status, const Figure &figure) {
        if (!status) {
          log_(WEIR_LOG_WARNING, "the link from device %d to %d is not measured: %s",
               static_cast<int>(figure.from), static_cast<int>(figure.to), last_error().text);
          return;
        }
        const Guard hold(mutex_);
        measured_.set(figure);
        if (merged_) record(figure, machine_.get());
      });
  counts->measured += done.measured;
  counts->failed += done.failed;
  counts->skipped += done.skipped;
  counts->time_ns = clock.now_ns() - begin;
  if (!save || !cache_ || measured_.folder().empty()) return {};
  // Only this thread changes what is measured, until its turn ends.
  return measured_.save(devices_, files);
}

}  // namespace weir::topology
