// SPDX-License-Identifier: Apache-2.0
//
// Submitting. Once a batch is submitted it may be done, and be gone, at any moment: nothing of it is looked at afterwards.

#include "backends/vulkan/queue.hpp"

#include "backends/vulkan/device.hpp"

#include <algorithm>

namespace weir::vulkan {

void Queue::put(const Batch *batch) {
  const std::lock_guard hold(outbox_mutex_);
  outbox_.push_back(batch);
  waiting_.store(outbox_.size(), std::memory_order_release);
}

size_t Queue::take_slips() {
  const std::lock_guard hold(outbox_mutex_);
  const size_t count = std::min(outbox_.size(), most_at_once);
  for (size_t i = 0; i < count; ++i) {
    const Batch &batch = *outbox_[i];
    Slip &slip = slips_[i];
    slip.semaphores.clear();
    slip.values.clear();
    for (const Point &wait : batch.waits) {
      slip.semaphores.push_back(wait.timeline->semaphore());
      slip.values.push_back(wait.value);
    }
    slip.stages.assign(batch.waits.size(), VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
    slip.signal = batch.timeline->semaphore();
    slip.value = batch.value;
    slip.commands = batch.buffer;
    slip.owner = batch.timeline;
  }
  return count;
}

VkResult Queue::submit(size_t count) {
  std::array<VkSubmitInfo, most_at_once> infos{};
  for (size_t i = 0; i < count; ++i) {
    Slip &slip = slips_[i];
    slip.timeline = {};
    slip.timeline.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
    slip.timeline.waitSemaphoreValueCount = static_cast<uint32_t>(slip.values.size());
    slip.timeline.pWaitSemaphoreValues = slip.values.data();
    slip.timeline.signalSemaphoreValueCount = 1;
    slip.timeline.pSignalSemaphoreValues = &slip.value;
    VkSubmitInfo &info = infos[i];
    info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    info.pNext = &slip.timeline;
    info.waitSemaphoreCount = static_cast<uint32_t>(slip.semaphores.size());
    info.pWaitSemaphores = slip.semaphores.data();
    info.pWaitDstStageMask = slip.stages.data();
    info.commandBufferCount = slip.commands != VK_NULL_HANDLE ? 1 : 0;
    info.pCommandBuffers = &slip.commands;
    info.signalSemaphoreCount = 1;
    info.pSignalSemaphores = &slip.signal;
  }
  return device_.api().QueueSubmit(handle_, static_cast<uint32_t>(count), infos.data(),
                                   VK_NULL_HANDLE);
}

/// Nothing in the outbox will be done any more, and its streams need not live for it.
weir_result Queue::give_up() noexcept {
  const std::lock_guard box(outbox_mutex_);
  outbox_.clear();
  waiting_.store(0, std::memory_order_release);
  return device_.gone();
}

bool Queue::holds(const Timeline &timeline) noexcept {
  const std::lock_guard box(outbox_mutex_);
  return std::any_of(outbox_.begin(), outbox_.end(),
                     [&](const Batch *batch) { return batch->timeline.get() == &timeline; }) ||
         std::any_of(slips_.begin(), slips_.end(),
                     [&](const Slip &slip) { return slip.owner.get() == &timeline; });
}

weir_result Queue::drain(Waiters *woken) {
  if (waiting_.load(std::memory_order_acquire) == 0) return WEIR_SUCCESS;
  const std::lock_guard hold(*this);
  while (true) {
    if (device_.lost()) return give_up();
    const size_t count = take_slips();
    if (count == 0) return WEIR_SUCCESS;
    const VkResult result = submit(count);
    stuck_.store(result != VK_SUCCESS, std::memory_order_release);
    std::array<std::shared_ptr<Timeline>, most_at_once> owners;
    {
      const std::lock_guard box(outbox_mutex_);
      for (size_t i = 0; i < count; ++i) owners[i] = std::move(slips_[i].owner);
      if (result == VK_SUCCESS)
        outbox_.erase(outbox_.begin(), outbox_.begin() + static_cast<std::ptrdiff_t>(count));
      waiting_.store(outbox_.size(), std::memory_order_release);
    }
    if (result != VK_SUCCESS) {
      const weir_result told = device_.failed(result, "vkQueueSubmit of %zu batches", count);
      if (device_.lost()) (void)give_up();
      return told;
    }
    for (size_t i = 0; i < count; ++i) owners[i]->set_submitted(slips_[i].value, woken);
  }
}

VkResult Queue::bind(const VkSparseBufferMemoryBindInfo &what, Timeline &binds,
                     uint64_t *value) noexcept {
  const std::lock_guard hold(*this);
  if (device_.lost()) return VK_ERROR_DEVICE_LOST;
  const VkSemaphore semaphore = binds.semaphore();
  *value = binds.submitted() + 1;
  VkTimelineSemaphoreSubmitInfo signals{};
  signals.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  signals.signalSemaphoreValueCount = 1;
  signals.pSignalSemaphoreValues = value;
  VkBindSparseInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BIND_SPARSE_INFO;
  info.pNext = &signals;
  info.bufferBindCount = 1;
  info.pBufferBinds = &what;
  info.signalSemaphoreCount = 1;
  info.pSignalSemaphores = &semaphore;
  const VkResult result = device_.api().QueueBindSparse(handle_, 1, &info, VK_NULL_HANDLE);
  Waiters nobody;
  if (result == VK_SUCCESS) binds.set_submitted(*value, &nobody);
  return result;
}

}  // namespace weir::vulkan
