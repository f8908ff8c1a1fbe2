// SPDX-License-Identifier: Apache-2.0
//
// Points behind numbers.

#include "backends/vulkan/fences.hpp"

#include "backends/common/patience.hpp"
#include "backends/vulkan/device.hpp"

#include <algorithm>

namespace weir::vulkan {
namespace {

/// A wait for work that could not be submitted yet is cut into pieces of this length.
constexpr uint64_t piece_ns = 10'000'000;

weir_result no_fence(weir_be_fence fence) noexcept {
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%#llx is no fence", number(fence));
}

}  // namespace

Fences::~Fences() {
  pool_.for_each([](uint32_t, Point *point) { delete point; });
}

weir_result Fences::find(weir_be_fence fence, Point **point) noexcept {
  const auto found = pool_.find(fence);
  if (!found.valid) return no_fence(fence);
  *point = found.event;
  return WEIR_SUCCESS;
}

weir_result Fences::record(Stream &stream, weir_be_fence *fence) {
  Point point;
  WEIR_BACKEND_TRY(stream.record(&point));
  weir_be_fence made = 0;
  Point *place = nullptr;
  WEIR_BACKEND_TRY(pool_.take(
      0,
      [](Point **fresh) {
        *fresh = new Point;
        return WEIR_SUCCESS;
      },
      [](Point *unused) { delete unused; }, &made, &place));
  *place = std::move(point);
  *fence = made;
  return WEIR_SUCCESS;
}

weir_result Fences::wait(Stream &stream, weir_be_fence fence) {
  Point *point = nullptr;
  WEIR_BACKEND_TRY(find(fence, &point));
  return stream.wait(*point);
}

weir_result Fences::poll(weir_be_fence fence) noexcept {
  Point *point = nullptr;
  WEIR_BACKEND_TRY(find(fence, &point));
  if (point->timeline->submitted() < point->value) streams_.nudge();
  return point->timeline->poll(point->value);
}

weir_result Fences::finish(weir_be_fence fence, uint64_t timeout_ns) noexcept {
  Point *place = nullptr;
  WEIR_BACKEND_TRY(find(fence, &place));
  const Point point = *place;
  const uint64_t start = common::monotonic_ns();
  while (point.timeline->submitted() < point.value) {
    streams_.nudge();
    const uint64_t waited = common::monotonic_ns() - start;
    const uint64_t left = timeout_ns - std::min(waited, timeout_ns);
    const weir_result result = point.timeline->wait(point.value, std::min(left, piece_ns));
    if (result != WEIR_ERROR_TIMEOUT || left <= piece_ns) return result;
  }
  const uint64_t waited = common::monotonic_ns() - start;
  return point.timeline->wait(point.value, timeout_ns - std::min(waited, timeout_ns));
}

weir_result Fences::destroy(weir_be_fence fence) noexcept {
  Point *point = nullptr;
  WEIR_BACKEND_TRY(find(fence, &point));
  // Before it can be taken again.
  Point last = std::move(*point);
  if (pool_.give(fence)) return WEIR_SUCCESS;
  return no_fence(fence);
}

}  // namespace weir::vulkan
