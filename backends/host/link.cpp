// SPDX-License-Identifier: Apache-2.0
//
// Booking a link's time without a lock, and waiting for a point in time precisely.
#include "backends/host/link.hpp"

#include <weir/backend.h>

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <string>

namespace weir::host {

uint64_t now_ns() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

void wait_until(uint64_t deadline_ns, uint64_t spin_ns) noexcept {
  if (now_ns() + spin_ns < deadline_ns) {
    const uint64_t wake = deadline_ns - spin_ns;
    const timespec time{static_cast<time_t>(wake / 1'000'000'000),
                        static_cast<long>(wake % 1'000'000'000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) != 0) {
    }
  }
  while (now_ns() < deadline_ns) {
  }
}

uint64_t LinkMeter::book(uint64_t bytes, uint64_t ready_ns, bool with_latency) noexcept {
  uint64_t duration = 0;
  if (bandwidth_ != 0) {
    // Rounded up, so that a copy is never faster than the link. Seconds and the rest apart, to not overflow.
    const uint64_t rest = bytes % bandwidth_;
    duration =
        bytes / bandwidth_ * 1'000'000'000 +
        static_cast<uint64_t>(static_cast<double>(rest) * 1e9 / static_cast<double>(bandwidth_)) +
        1;
  }
  uint64_t free_at = line_->load(std::memory_order_relaxed), end = 0;
  do {
    end = std::max(free_at, ready_ns) + duration;
  } while (!line_->compare_exchange_weak(free_at, end, std::memory_order_relaxed));
  if (log_ != nullptr && duration != 0) log_->note(end - duration, end, bytes);
  return end + (with_latency ? latency_ns_ : 0);
}

Links::Links(uint32_t devices, uint64_t host_bandwidth, uint64_t peer_bandwidth,
             uint64_t latency_ns)
    : devices_(devices),
      meters_(std::make_unique<LinkMeter[]>((size_t{devices} + 1) * (size_t{devices} + 1))),
      facts_((size_t{devices} + 1) * (size_t{devices} + 1)) {
  for (uint32_t from = 0; from <= devices; ++from) {
    for (uint32_t to = 0; to <= devices; ++to) {
      if (from == to) continue;
      const bool host = from == devices || to == devices;
      meters_[size_t{from} * (devices + 1) + to].configure(host ? host_bandwidth : peer_bandwidth,
                                                           latency_ns);
    }
  }
}

Links::~Links() {
  if (log_file_ < 0) return;
  try {
    write_log();
  } catch (const std::bad_alloc &) {
    // Then "end" is missing, as on a full disk: a reader sees that the file is not whole.
  }
  close(log_file_);
}

bool Links::log_to(int file) {
  logs_ = std::make_unique<LinkLog[]>(facts_.size());
  log_file_ = fcntl(file, F_DUPFD_CLOEXEC, 0);
  if (log_file_ < 0) return false;
  for (size_t path = 0; path < facts_.size(); ++path) meters_[path].note_in(&logs_[path]);
  return true;
}

void Links::write_log() const {
  const auto name = [this](size_t end) { return end == devices_ ? "h" : std::to_string(end); };
  std::string text;
  for (size_t path = 0; path < facts_.size(); ++path)
    logs_[path].print(name(path / (devices_ + 1)), name(path % (devices_ + 1)), &text);
  text += "end\n";
  for (size_t done = 0; done < text.size();) {
    const ssize_t wrote = write(log_file_, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return;
    done += static_cast<size_t>(wrote);
  }
}

size_t Links::index(uint32_t from, uint32_t to) const noexcept {
  const size_t row = from == WEIR_DEVICE_HOST ? devices_ : from;
  const size_t column = to == WEIR_DEVICE_HOST ? devices_ : to;
  return row * (size_t{devices_} + 1) + column;
}

LinkMeter *Links::meter(uint32_t from, uint32_t to) const noexcept {
  return &meters_[index(from, to)];
}

void Links::share(const std::vector<uint32_t> &cards) {
  const auto first = [&](uint32_t end) { return end == WEIR_DEVICE_HOST ? end : cards[end]; };
  const auto one = [&](uint32_t from, uint32_t to) {
    if (first(from) != first(to)) meter(from, to)->share(*meter(first(from), first(to)));
  };
  for (uint32_t from = 0; from < devices_; ++from) {
    one(from, WEIR_DEVICE_HOST);
    one(WEIR_DEVICE_HOST, from);
    for (uint32_t to = 0; to < devices_; ++to) one(from, to);
  }
}

void Links::set(uint32_t a, uint32_t b, const PathFacts &facts, uint64_t slowdown) {
  const auto slower = [slowdown](uint64_t time) {
    constexpr uint64_t longest = UINT64_MAX / 4;  // so that a time plus it is still a time
    return time > longest / std::max<uint64_t>(slowdown, 1) ? longest : time * slowdown;
  };
  uint64_t bandwidth = 0;
  if (slowdown != 0 && facts.bandwidth != 0)
    bandwidth = std::max<uint64_t>(facts.bandwidth / slowdown, 1);
  for (const size_t path : {index(a, b), index(b, a)}) {
    facts_[path] = facts;
    facts_[path].given = true;
    meters_[path].configure(bandwidth, slower(facts.latency_ns));
  }
}

LinkMeter *Links::path(uint32_t from, uint32_t to) noexcept {
  LinkMeter *found = meter(from, to);
  return found->active() ? found : nullptr;
}

void Links::describe(uint32_t from, uint32_t to, uint64_t *bandwidth,
                     uint64_t *latency_ns) const noexcept {
  const LinkMeter *found = meter(from, to);
  *bandwidth = found->bandwidth();
  *latency_ns = found->latency_ns();
}

}  // namespace weir::host
