// SPDX-License-Identifier: Apache-2.0
//
// Fences over the pool of slots. That an event has passed is remembered: the core asks often, and the runtime takes a
// lock for each answer.

#include "backends/opencl/fences.hpp"

#include "backends/common/patience.hpp"
#include "backends/opencl/errors.hpp"

#include <memory>

namespace weir::opencl {

Fences::~Fences() {
  pool_.for_each([&](uint32_t, Mark *mark) {
    const Event last(platform_, mark->event.exchange(nullptr));
    delete mark;
  });
}

weir_result Fences::find(weir_be_fence fence, Mark **mark, uint32_t *device) noexcept {
  const auto found = pool_.find(fence);
  if (!found.valid) return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%#llx is no fence", number(fence));
  *mark = found.event;
  *device = found.device;
  return WEIR_SUCCESS;
}

weir_result Fences::record(Stream &stream, weir_be_fence *fence) {
  Mark *mark = nullptr;
  weir_be_fence made = 0;
  const auto make = [](Mark **fresh) {
    *fresh = std::make_unique<Mark>().release();
    return WEIR_SUCCESS;
  };
  WEIR_BACKEND_TRY(pool_.take(
      stream.device(), make, [](Mark *spare) { delete spare; }, &made, &mark));
  Event event;
  const weir_result result = stream.record(&event);
  if (result != WEIR_SUCCESS) {
    (void)pool_.give(made);
    return result;
  }
  mark->passed.store(false, std::memory_order_relaxed);
  mark->recorder.store(stream.id(), std::memory_order_relaxed);
  mark->event.store(event.take(), std::memory_order_release);
  *fence = made;
  return WEIR_SUCCESS;
}

weir_result Fences::poll(Mark &mark, uint32_t device) noexcept {
  if (mark.passed.load(std::memory_order_acquire)) return WEIR_SUCCESS;
  const weir_result result =
      opencl::poll(platform_, device, mark.event.load(std::memory_order_acquire));
  if (result == WEIR_SUCCESS) mark.passed.store(true, std::memory_order_release);
  return result;
}

weir_result Fences::wait(Stream &stream, weir_be_fence fence) noexcept {
  Mark *mark = nullptr;
  uint32_t device = 0;
  WEIR_BACKEND_TRY(find(fence, &mark, &device));
  // What this stream itself has recorded comes before what it does later anyway.
  if (mark->recorder.load(std::memory_order_relaxed) == stream.id()) return WEIR_SUCCESS;
  const weir_result now = poll(*mark, device);
  if (now != WEIR_NOT_READY) return now;
  return stream.wait(mark->event.load(std::memory_order_acquire));
}

weir_result Fences::poll(weir_be_fence fence) noexcept {
  Mark *mark = nullptr;
  uint32_t device = 0;
  WEIR_BACKEND_TRY(find(fence, &mark, &device));
  return poll(*mark, device);
}

weir_result Fences::finish(weir_be_fence fence, uint64_t timeout_ns) noexcept {
  Mark *mark = nullptr;
  uint32_t device = 0;
  WEIR_BACKEND_TRY(find(fence, &mark, &device));
  return common::poll_until(timeout_ns, [&] { return poll(*mark, device); });
}

weir_result Fences::destroy(weir_be_fence fence) noexcept {
  Mark *mark = nullptr;
  uint32_t device = 0;
  WEIR_BACKEND_TRY(find(fence, &mark, &device));
  // Out of the slot before another fence may live there.
  const Event last(platform_, mark->event.exchange(nullptr));
  if (pool_.give(fence)) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%#llx is no fence", number(fence));
}

}  // namespace weir::opencl
