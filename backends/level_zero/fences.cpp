// SPDX-License-Identifier: Apache-2.0
//
// The number of a fence: generation in the upper half, the event's index + 1 in the lower. The generation is odd
// while the fence lives.

#include "backends/level_zero/fences.hpp"

#include "backends/level_zero/errors.hpp"

namespace weir::level_zero {
namespace {

EventIndex index_of(weir_be_fence fence) noexcept {
  return static_cast<EventIndex>((fence & UINT32_MAX) - 1);
}
uint32_t generation_of(weir_be_fence fence) noexcept { return static_cast<uint32_t>(fence >> 32U); }

weir_result unknown(weir_be_fence fence) noexcept {
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%#llx is no fence", static_cast<Number>(fence));
}

}  // namespace

weir_result Fences::find(weir_be_fence fence, EventSlot **slot) noexcept {
  *slot = fence != 0 ? events_.find(index_of(fence)) : nullptr;
  const uint32_t generation = generation_of(fence);
  const bool lives = *slot != nullptr && generation % 2 == 1 &&
                     (*slot)->generation.load(std::memory_order_acquire) == generation;
  return lives ? WEIR_SUCCESS : unknown(fence);
}

weir_result Fences::record(Stream &stream, weir_be_fence *fence) {
  EventIndex index = no_event;
  WEIR_BACKEND_TRY(events_.take(&index));
  EventSlot &slot = events_.slot(index);
  slot.recorder = stream.id();
  const weir_result result = stream.record(index);
  if (result != WEIR_SUCCESS) {
    events_.give_back_unused(index);
    return result;
  }
  const uint32_t generation = slot.generation.fetch_add(1, std::memory_order_acq_rel) + 1;
  *fence = uint64_t{generation} << 32U | (uint64_t{index} + 1);
  return WEIR_SUCCESS;
}

weir_result Fences::wait(Stream &stream, weir_be_fence fence) {
  EventSlot *slot = nullptr;
  WEIR_BACKEND_TRY(find(fence, &slot));
  return stream.wait(*slot);
}

weir_result Fences::poll(weir_be_fence fence) noexcept {
  EventSlot *slot = nullptr;
  WEIR_BACKEND_TRY(find(fence, &slot));
  return events_.poll(*slot);
}

weir_result Fences::finish(weir_be_fence fence, uint64_t timeout_ns) noexcept {
  EventSlot *slot = nullptr;
  WEIR_BACKEND_TRY(find(fence, &slot));
  return events_.finish(*slot, timeout_ns);
}

weir_result Fences::destroy(weir_be_fence fence) noexcept {
  EventSlot *slot = nullptr;
  WEIR_BACKEND_TRY(find(fence, &slot));
  uint32_t generation = generation_of(fence);
  if (!slot->generation.compare_exchange_strong(generation, generation + 1,
                                                std::memory_order_acq_rel)) {
    return unknown(fence);
  }
  events_.give_back(index_of(fence));
  return WEIR_SUCCESS;
}

}  // namespace weir::level_zero
