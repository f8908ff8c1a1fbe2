// SPDX-License-Identifier: Apache-2.0
//
// HOST_ACCESS: the CPU reads and writes all device memory, whatever made it. Work has finished, or has not begun, when
// the CPU touches its bytes.
#include "conformance/shapes.hpp"
#include "conformance/walks.hpp"

#include <algorithm>
#include <memory>

namespace weir::conformance {
namespace {

std::span<std::byte> cpu_view(uint64_t address, uint64_t bytes) {
  return {reinterpret_cast<std::byte *>(address), static_cast<size_t>(bytes)};
}

/// How the CPU gets to know that the work is done.
enum class Learning : uint8_t { synchronize, fence_wait, fence_poll, query };

Outcome learn(Test &t, const Stream &stream, Learning by) {
  const uint64_t give_up = now_ns() + patience_ns;
  Fence fence(t);
  switch (by) {
    case Learning::synchronize:
      MUST(stream_synchronize, stream.get());
      return {};
    case Learning::fence_wait:
      TRY(fence.record(stream));
      return fence.wait();
    case Learning::fence_poll:
      TRY(fence.record(stream));
      break;
    case Learning::query:
      break;
  }
  for (;;) {
    const weir_result now =
        by == Learning::query ? CALL(stream_query, stream.get()) : CALL(fence_poll, fence.get());
    if (now == WEIR_SUCCESS) return {};
    CHECK(now == WEIR_NOT_READY, "asked whether work is done, the answer is ", result_name(now));
    CHECK(now_ns() < give_up, "the work was not done in time");
  }
}

/// The CPU's bytes are copied away; copied bytes are the CPU's; a host function sees them in the stream's order.
Outcome cpu_and_queue(Test &t, const DeviceFacts &device, Queue &queue, uint64_t address,
                      uint64_t bytes, uint64_t seed) {
  struct Look {
    std::span<const std::byte> bytes;
    uint64_t seed;
    Outcome outcome;
  };
  Pinned host(t);
  TRY(host.allocate(bytes));
  const auto view = cpu_view(address, bytes);
  make_pattern(view, seed);
  Look seen{view, seed + 1, {}};
  Settled settled(t);
  settled.add(queue.use());
  TRY(queue.use().copy(host.address(), address, bytes));
  TRY(learn(t, queue.use(), static_cast<Learning>(seed % 4)));
  TRY(check_pattern(host.bytes(), seed, "a copy of what the CPU wrote"));
  make_pattern(host.bytes(), seed + 1);
  TRY(queue.use().copy(address, host.address(), bytes));
  const bool calls = device.has(WEIR_CAP_HOST_CALL) && queue.calls();
  if (calls)
    MUST(
        stream_host_call, queue.use().get(),
        [](void *user) {
          Look &look = *static_cast<Look *>(user);
          look.outcome = check_pattern(look.bytes, look.seed, "what a host function sees");
        },
        &seen);
  TRY(learn(t, queue.use(), static_cast<Learning>(seed / 4 % 4)));
  TRY(seen.outcome);
  return check_pattern(view, seed + 1, "what the CPU sees of a copy");
}

REQUIRE(
    "CA-019", needs(WEIR_CAP_HOST_ACCESS),
    "With HOST_ACCESS the CPU reads and writes all device memory, plain and mapped, at each of its "
    "addresses.") {
  uint64_t seed = 0;
  Axes axes;
  axes.owners = every_owner;
  axes.sizes = {1, 4095, 64 * kib, mib + 1};
  axes.with = WEIR_CAP_HOST_ACCESS;
  return shapes(t, axes, [&](const Shape &shape, Queue &queue) -> Outcome {
    std::vector<DeviceFacts> devices;
    TRY(devices_with(t, WEIR_CAP_HOST_ACCESS, &devices));
    const auto device = std::find_if(devices.begin(), devices.end(), [&](const DeviceFacts &each) {
      return each.index == shape.device;
    });
    {
      Plain plain(t, shape.device);
      TRY(plain.allocate(shape.bytes));
      TRY(in_shape("plain memory",
                   cpu_and_queue(t, *device, queue, plain.address(), shape.bytes, seed += 2)));
    }
    if (device->unit == 0) return {};
    const uint64_t unit = device->unit, size = (shape.bytes + unit - 1) / unit * unit;
    Granule granule(t, shape.device);
    Range range(t, shape.device);
    TRY(granule.create(size));
    TRY(range.reserve(2 * size, unit));
    for (const uint64_t at : {uint64_t{0}, size}) {
      Map map(t, shape.device);
      TRY(map.map(range.address() + at, size, granule));
      if (at != 0)
        TRY(check_pattern(cpu_view(map.address(), shape.bytes), seed + 1,
                          "what the CPU sees at another address"));
      TRY(in_shape("mapped memory",
                   cpu_and_queue(t, *device, queue, map.address(), shape.bytes, seed += 2)));
    }
    if (!device->has(WEIR_CAP_MULTI_MAP)) return {};
    Map a(t, shape.device), b(t, shape.device);
    TRY(a.map(range.address(), size, granule));
    TRY(b.map(range.address() + size, size, granule));
    TRY(in_shape("one of two addresses",
                 cpu_and_queue(t, *device, queue, a.address(), shape.bytes, seed += 2)));
    return check_pattern(cpu_view(b.address(), shape.bytes), seed + 1,
                         "what the CPU sees at the other address");
  });
}

}  // namespace
}  // namespace weir::conformance
