// SPDX-License-Identifier: Apache-2.0
//
// Latency is the median of small copies, each waited for. Bandwidth is the best of a few runs of the largest amount that
// the time allows: runs are doubled until one takes long enough for its start and end not to matter. The best, because
// whatever disturbs a run makes it slower.

#include "core/topology/link_bench.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace weir::topology {
namespace {

constexpr uint64_t small_copy = 256;
constexpr size_t most_small = 15;
constexpr uint64_t long_enough_ns = 10'000'000;
constexpr uint32_t runs = 5;
/// A run is at most so many times an end's memory.
constexpr uint64_t most_rounds = 64;
constexpr uint8_t contents = 0x5a;

uint64_t per_second(uint64_t bytes, uint64_t ns) noexcept {
  const double rate = static_cast<double>(bytes) * 1e9 / static_cast<double>(ns);
  return std::max<uint64_t>(1, static_cast<uint64_t>(std::llround(std::min(rate, 1e18))));
}

}  // namespace

LinkBench::~LinkBench() {
  // Nothing may be freed under a copy. A runtime that cannot wait has lost the device, and the copies with it.
  for (End &end : ends_) {
    if (end.stream == nullptr) continue;
    const weir_backend_table &table = end.device->table();
    if (table.stream_synchronize(end.device->state(), end.stream) != WEIR_SUCCESS)
      (void)table.stream_synchronize(end.device->state(), end.stream);
    (void)table.stream_destroy(end.device->state(), end.stream);
  }
  give_back();
}

void LinkBench::give_back() noexcept {
  const backend::Device &any = *ends_[0].device;
  for (End &end : ends_) {
    if (end.pinned != nullptr) {
      (void)any.table().host_free(any.state(), end.pinned, bytes_);
    } else if (end.address != 0) {
      (void)any.table().plain_free(end.device->state(), end.device->index, end.address, bytes_);
    }
    end.pinned = nullptr;
    end.address = 0;
  }
}

Status LinkBench::take(End *end, uint64_t bytes) {
  const backend::Device &any = *ends_[0].device;
  const weir_backend_table &table = any.table();
  if (end->device != nullptr)
    return any.check(
        table.plain_allocate(any.state(), end->device->index, bytes, least_bytes, &end->address),
        "plain_allocate");
  WEIR_TRY(any.check(table.host_allocate(any.state(), bytes, &end->pinned), "host_allocate"));
  end->address = reinterpret_cast<uint64_t>(end->pinned);
  return {};
}

Status LinkBench::take_both(uint64_t bytes) {
  bytes_ = bytes;
  for (End &end : ends_) {
    const Status taken = take(&end, bytes);
    if (taken) continue;
    give_back();
    return taken;
  }
  return {};
}

/// Memory that was never written may not be there yet, and would be read faster than it is.
Status LinkBench::fill(const End &end) {
  if (end.device == nullptr) {
    std::memset(end.pinned, contents, bytes_);
    return {};
  }
  const backend::Device &device = *end.device;
  const weir_backend_table &table = device.table();
  WEIR_TRY(device.check(table.fill_async(device.state(), end.stream, end.address, contents, bytes_),
                        "fill_async"));
  return device.check(table.stream_synchronize(device.state(), end.stream), "stream_synchronize");
}

Status LinkBench::open(uint64_t bytes) {
  const backend::Device &a = *ends_[0].device, *b = ends_[1].device;
  const weir_backend_table &table = a.table();
  if (b != nullptr && a.has(WEIR_CAP_PEER) && b->has(WEIR_CAP_PEER)) {
    WEIR_TRY(a.check(table.peer_enable(a.state(), a.index, b->index), "peer_enable"));
    WEIR_TRY(a.check(table.peer_enable(a.state(), b->index, a.index), "peer_enable"));
  }
  for (End &end : ends_) {
    if (end.device == nullptr) continue;
    WEIR_TRY(a.check(table.stream_create(a.state(), end.device->index, 0, &end.stream),
                     "stream_create"));
  }
  for (Status taken = take_both(bytes); !taken; taken = take_both(bytes)) {
    const bool no_room =
        taken.code() == WEIR_ERROR_DEVICE_OOM || taken.code() == WEIR_ERROR_OUT_OF_HOST_MEMORY;
    if (!no_room || bytes / 2 < least_bytes) return taken;
    bytes /= 2;
  }
  for (const End &end : ends_) WEIR_TRY(fill(end));
  return {};
}

/// Between devices on the stream of the one that the bytes come from.
LinkBench::Way LinkBench::way(uint32_t from) const noexcept {
  const End &source = ends_[from], &target = ends_[1 - from];
  const End &active = source.device != nullptr ? source : target;
  return {active.device, active.stream, source.address, target.address};
}

/// As many copies as it takes, one after the other, waited for together.
Status LinkBench::time(const Way &way, uint64_t total, uint64_t *ns) {
  const weir_backend_table &table = way.device->table();
  const uint64_t begin = clock_.now_ns();
  Status status;
  for (uint64_t left = total; left != 0 && status.ok();) {
    const weir_be_copy copy{way.to, way.from, std::min(left, bytes_)};
    status =
        way.device->check(table.copy_async(way.device->state(), way.stream, &copy), "copy_async");
    left -= copy.bytes;
  }
  if (status)
    status = way.device->check(table.stream_synchronize(way.device->state(), way.stream),
                               "stream_synchronize");
  if (!status) {  // the other way uses the same memory, on a stream of its own
    (void)table.stream_synchronize(way.device->state(), way.stream);
    return status;
  }
  *ns = std::max<uint64_t>(1, clock_.now_ns() - begin);
  return {};
}

Status LinkBench::find_latency(const Way &way, uint64_t budget_ns, uint64_t *latency_ns) {
  std::array<uint64_t, most_small> taken{};
  uint64_t spent = 0;
  WEIR_TRY(time(way, small_copy, &spent));  // the first one sets things up
  size_t count = 0;
  do {
    WEIR_TRY(time(way, small_copy, &taken[count]));
    spent += taken[count++];
  } while (count < taken.size() && spent < budget_ns);
  const auto middle = taken.begin() + static_cast<std::ptrdiff_t>(count / 2);
  std::nth_element(taken.begin(), middle, taken.begin() + static_cast<std::ptrdiff_t>(count));
  *latency_ns = *middle;
  return {};
}

Status LinkBench::find_bandwidth(const Way &way, uint64_t budget_ns, uint64_t *bandwidth) {
  uint64_t total = least_bytes, best = UINT64_MAX, spent = 0;
  for (uint32_t done = 0; done < runs;) {
    uint64_t ns = 0;
    WEIR_TRY(time(way, total, &ns));
    spent += ns;
    best = std::min(best, ns);
    ++done;
    // Twice as much is only tried where two such runs still fit.
    if (ns < long_enough_ns && total < bytes_ * most_rounds && spent + ns * 4 < budget_ns) {
      total *= 2;
      best = UINT64_MAX;
      done = 0;
    } else if (spent + ns > budget_ns) {
      break;
    }
  }
  *bandwidth = per_second(total, best);
  return {};
}

Status LinkBench::measure(uint32_t from, uint64_t budget_ns, Reading *reading) {
  const Way there = way(from);
  const uint64_t begin = clock_.now_ns(), quarter = budget_ns / 4;
  WEIR_TRY(find_latency(there, quarter, &reading->latency_ns));
  const uint64_t spent = clock_.now_ns() - begin;
  return find_bandwidth(there, budget_ns - std::min(budget_ns, spent), &reading->bandwidth);
}

}  // namespace weir::topology
