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
  const weir_backend_table &table = backend_.table();
  for (End &end : ends_) {
    if (end.stream == nullptr) continue;
    if (table.stream_synchronize(backend_.state(), end.stream) != WEIR_SUCCESS)
      (void)table.stream_synchronize(backend_.state(), end.stream);
    (void)table.stream_destroy(backend_.state(), end.stream);
  }
  give_back();
}

void LinkBench::give_back() noexcept {
  const weir_backend_table &table = backend_.table();
  for (End &end : ends_) {
    if (end.pinned != nullptr)
      (void)table.host_free(backend_.state(), end.pinned, bytes_);
    else if (end.address != 0)
      (void)table.plain_free(backend_.state(), end.device->index, end.address, bytes_);
    end.pinned = nullptr;
    end.address = 0;
  }
}

/// At both ends, or at none.
Status LinkBench::take(uint64_t bytes) {
  bytes_ = bytes;
  for (End &end : ends_) {
    const Status taken =
        end.device != nullptr
            ? call("plain_allocate", &weir_backend_table::plain_allocate, end.device->index, bytes,
                   least_bytes, &end.address)
            : call("host_allocate", &weir_backend_table::host_allocate, bytes, &end.pinned);
    if (!taken) {
      give_back();
      return taken;
    }
    if (end.device == nullptr) end.address = reinterpret_cast<uint64_t>(end.pinned);
  }
  return {};
}

/// Memory that was never written may not be there yet, and would be read faster than it is.
Status LinkBench::fill(const End &end) const {
  if (end.device == nullptr) {
    std::memset(end.pinned, contents, bytes_);
    return {};
  }
  WEIR_TRY(call("fill_async", &weir_backend_table::fill_async, end.stream, end.address, contents,
                bytes_));
  return call("stream_synchronize", &weir_backend_table::stream_synchronize, end.stream);
}

Status LinkBench::open(uint64_t bytes) {
  const backend::Device &a = *ends_[0].device, *b = ends_[1].device;
  if (b != nullptr && a.has(WEIR_CAP_PEER) && b->has(WEIR_CAP_PEER)) {
    WEIR_TRY(call("peer_enable", &weir_backend_table::peer_enable, a.index, b->index));
    WEIR_TRY(call("peer_enable", &weir_backend_table::peer_enable, b->index, a.index));
  }
  for (End &end : ends_)
    if (end.device != nullptr)
      WEIR_TRY(call("stream_create", &weir_backend_table::stream_create, end.device->index,
                    uint64_t{0}, &end.stream));
  for (Status taken = take(bytes); !taken; taken = take(bytes)) {
    const bool no_room =
        taken.code() == WEIR_ERROR_DEVICE_OOM || taken.code() == WEIR_ERROR_OUT_OF_HOST_MEMORY;
    if (!no_room || bytes / 2 < least_bytes) return taken;
    bytes /= 2;
  }
  for (const End &end : ends_) WEIR_TRY(fill(end));
  return {};
}

/// As many copies as it takes, one after the other, waited for together. Between devices on the stream of the one that the
/// bytes come from.
Status LinkBench::time(uint32_t from, uint64_t total, uint64_t *ns) const {
  const End &source = ends_[from], &target = ends_[1 - from];
  const weir_be_stream stream = source.device != nullptr ? source.stream : target.stream;
  const uint64_t begin = clock_.now_ns();
  Status status;
  for (uint64_t left = total; left != 0 && status.ok();) {
    const weir_be_copy copy{target.address, source.address, std::min(left, bytes_)};
    status = call("copy_async", &weir_backend_table::copy_async, stream, &copy);
    left -= copy.bytes;
  }
  if (status) status = call("stream_synchronize", &weir_backend_table::stream_synchronize, stream);
  if (!status) {  // the other way uses the same memory, on a stream of its own
    (void)backend_.table().stream_synchronize(backend_.state(), stream);
    return status;
  }
  *ns = std::max<uint64_t>(1, clock_.now_ns() - begin);
  return {};
}

Status LinkBench::find_latency(uint32_t from, uint64_t budget_ns, uint64_t *latency_ns) const {
  std::array<uint64_t, most_small> taken{};
  uint64_t spent = 0;
  WEIR_TRY(time(from, small_copy, &spent));  // the first one sets things up
  size_t count = 0;
  do {
    WEIR_TRY(time(from, small_copy, &taken[count]));
    spent += taken[count++];
  } while (count < taken.size() && spent < budget_ns);
  const auto middle = taken.begin() + static_cast<std::ptrdiff_t>(count / 2);
  std::nth_element(taken.begin(), middle, taken.begin() + static_cast<std::ptrdiff_t>(count));
  *latency_ns = *middle;
  return {};
}

Status LinkBench::find_bandwidth(uint32_t from, uint64_t budget_ns, uint64_t *bandwidth) const {
  uint64_t total = least_bytes, best = UINT64_MAX, spent = 0;
  for (uint32_t done = 0; done < runs;) {
    uint64_t ns = 0;
    WEIR_TRY(time(from, total, &ns));
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
  const uint64_t begin = clock_.now_ns(), quarter = budget_ns / 4;
  WEIR_TRY(find_latency(from, quarter, &reading->latency_ns));
  const uint64_t spent = clock_.now_ns() - begin;
  return find_bandwidth(from, budget_ns - std::min(budget_ns, spent), &reading->bandwidth);
}

}  // namespace weir::topology
