// SPDX-License-Identifier: Apache-2.0
//
// A VkQueue. Vulkan lets one thread use it at a time: `lock` is held over each call for it, and it is the only lock that is. Streams put
// their batches into the outbox, which never waits for that lock; the thread that holds it submits what is in the outbox, in order.
// No thread waits for it while it holds another lock of the backend, as it may be the program's.
//
// Only batches whose waits are for submitted work get here: what is in the queue ends without anything that is still to be
// done by this process, so that a stream that is held up holds up no other stream of the queue.
#pragma once

#include "backends/vulkan/batch.hpp"

#include <array>
#include <atomic>
#include <deque>
#include <mutex>
#include <vector>

namespace weir::vulkan {

class Device;

class Queue {
 public:
  /// The program's own, of a queue that it shares; all NULL otherwise.
  struct Lock {
    void (*lock)(void *user) = nullptr;
    void (*unlock)(void *user) = nullptr;
    void *user = nullptr;
  };

  Queue(Device &device, uint32_t family, VkQueue handle) noexcept
      : device_(device), family_(family), handle_(handle) {}
  Queue(Device &device, uint32_t family, VkQueue handle, const Lock &lock) noexcept
      : device_(device), family_(family), handle_(handle), lock_(lock) {}
  Queue(const Queue &) = delete;
  Queue &operator=(const Queue &) = delete;

  uint32_t family() const noexcept { return family_; }
  VkQueue handle() const noexcept { return handle_; }

  void lock() noexcept { lock_.lock != nullptr ? lock_.lock(lock_.user) : submitting_.lock(); }
  void unlock() noexcept {
    lock_.unlock != nullptr ? lock_.unlock(lock_.user) : submitting_.unlock();
  }

  /// Throws bad_alloc; then nothing was put. The batch lives until it is done.
  void put(const Batch *batch);
  /// Submits what is in the outbox. *woken are the streams that waited for some of it. On failure the rest stays there, but
  /// for a lost device's.
  weir_result drain(Waiters *woken);
  /// Something of the timeline's is in the outbox, or is being submitted.
  bool holds(const Timeline &timeline) noexcept;
  /// The last submission failed, and is to be tried again.
  bool stuck() const noexcept { return stuck_.load(std::memory_order_acquire); }

  /// Submits one bind, and its value of `binds`, which is this queue's alone.
  VkResult bind(const VkSparseBufferMemoryBindInfo &what, Timeline &binds,
                uint64_t *value) noexcept;

 private:
  static constexpr size_t most_at_once = 16;
  /// What vkQueueSubmit is told of one batch; kept between calls for its memory.
  struct Slip {
    std::vector<VkSemaphore> semaphores;
    std::vector<uint64_t> values;
    std::vector<VkPipelineStageFlags> stages;
    VkTimelineSemaphoreSubmitInfo timeline{};
    VkSemaphore signal = VK_NULL_HANDLE;
    uint64_t value = 0;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    std::shared_ptr<Timeline> owner;  ///< while it is being submitted; guarded by the outbox's lock
  };

  size_t take_slips();
  weir_result give_up() noexcept;
  VkResult submit(size_t count);

  Device &device_;
  const uint32_t family_;
  const VkQueue handle_;
  const Lock lock_;
  std::mutex submitting_;  // the VkQueue and the slips, where there is no lock of the program's
  std::array<Slip, most_at_once> slips_;
  std::mutex outbox_mutex_;
  std::deque<const Batch *> outbox_;
  std::atomic<size_t> waiting_{0};  ///< in the outbox
  std::atomic<bool> stuck_{false};
};

}  // namespace weir::vulkan
