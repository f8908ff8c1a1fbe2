// SPDX-License-Identifier: Apache-2.0
//
// Command buffers of a stream, and its host functions.
//
// A command buffer begins with a barrier against everything that was submitted to the queue before, which keeps a stream in
// order whichever batches its work is in, and ends with one that shows what was written to what follows and to the host.

#include "backends/common/grow.hpp"
#include "backends/common/signals.hpp"
#include "backends/vulkan/device.hpp"
#include "backends/vulkan/stream.hpp"

#include <array>
#include <chrono>

namespace weir::vulkan {
namespace {

/// How often a thread looks whether its device was lost, and how often it tries again what must not fail.
constexpr auto look_again = std::chrono::milliseconds(20);
constexpr int most_tries = 50;

void place_barrier(const DeviceApi &api, VkCommandBuffer buffer, VkPipelineStageFlags before,
                   VkAccessFlags written, VkPipelineStageFlags after, VkAccessFlags seen) noexcept {
  VkMemoryBarrier all{};
  all.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  all.srcAccessMask = written;
  all.dstAccessMask = seen;
  api.CmdPipelineBarrier(buffer, before, after, 0, 1, &all, 0, nullptr, 0, nullptr);
}

/// Copies between the same two buffers with no barrier between them are one command.
class Regions {
 public:
  Regions(const DeviceApi &api, VkCommandBuffer buffer) noexcept : api_(api), buffer_(buffer) {}
  void add(const Command &command) noexcept {
    if (count_ == regions_.size() || command.source != source_ ||
        command.destination != destination_)
      flush();
    source_ = command.source;
    destination_ = command.destination;
    regions_[count_++] = command.region;
  }
  void flush() noexcept {
    if (count_ != 0)
      api_.CmdCopyBuffer(buffer_, source_, destination_, static_cast<uint32_t>(count_),
                         regions_.data());
    count_ = 0;
  }

 private:
  const DeviceApi &api_;
  const VkCommandBuffer buffer_;
  VkBuffer source_ = VK_NULL_HANDLE, destination_ = VK_NULL_HANDLE;
  std::array<VkBufferCopy, 64> regions_{};
  size_t count_ = 0;
};

void place_commands(const DeviceApi &api, VkCommandBuffer buffer,
                    const std::vector<Command> &commands) noexcept {
  constexpr VkAccessFlags moves = VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  Regions regions(api, buffer);
  for (const Command &command : commands) {
    if (command.barrier) {
      regions.flush();
      place_barrier(api, buffer, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                    VK_PIPELINE_STAGE_TRANSFER_BIT, moves);
    }
    if (command.source != VK_NULL_HANDLE) {
      regions.add(command);
      continue;
    }
    regions.flush();
    api.CmdFillBuffer(buffer, command.destination, command.region.dstOffset, command.region.size,
                      command.pattern);
  }
  regions.flush();
}

}  // namespace

weir_result Stream::take_buffer(VkCommandBuffer *buffer) {
  if (!spare_.empty()) {
    *buffer = spare_.back();
    spare_.pop_back();
    return WEIR_SUCCESS;
  }
  const DeviceApi &api = device_.api();
  if (pool_ == VK_NULL_HANDLE) {
    VkCommandPoolCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    info.queueFamilyIndex = queue_.family();
    const VkResult result = api.CreateCommandPool(device_.handle(), &info, nullptr, &pool_);
    if (result != VK_SUCCESS) {
      pool_ = VK_NULL_HANDLE;
      return device_.failed(result, "vkCreateCommandPool");
    }
  }
  common::grow_to(spare_, underway_.size() + items_.size() + 2);
  common::grow_to(spare_batches_, 16);
  VkCommandBufferAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  info.commandPool = pool_;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  const VkResult result = api.AllocateCommandBuffers(device_.handle(), &info, buffer);
  return result == VK_SUCCESS ? WEIR_SUCCESS : device_.failed(result, "vkAllocateCommandBuffers");
}

weir_result Stream::encode(Batch *batch) {
  if (device_.lost()) return device_.gone();
  const DeviceApi &api = device_.api();
  VkCommandBuffer buffer = VK_NULL_HANDLE;
  WEIR_BACKEND_TRY(take_buffer(&buffer));
  VkCommandBufferBeginInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  const char *call = "vkBeginCommandBuffer";
  VkResult result = api.BeginCommandBuffer(buffer, &info);
  if (result == VK_SUCCESS) {
    constexpr VkAccessFlags any = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
    constexpr VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    constexpr VkPipelineStageFlags moving = VK_PIPELINE_STAGE_TRANSFER_BIT;
    place_barrier(api, buffer, all, VK_ACCESS_MEMORY_WRITE_BIT, moving,
                  VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT);
    place_commands(api, buffer, batch->commands);
    place_barrier(api, buffer, moving, VK_ACCESS_TRANSFER_WRITE_BIT,
                  all | VK_PIPELINE_STAGE_HOST_BIT,
                  any | VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT);
    call = "vkEndCommandBuffer";
    result = api.EndCommandBuffer(buffer);
  }
  if (result == VK_SUCCESS) {
    batch->buffer = buffer;
    return WEIR_SUCCESS;
  }
  spare_.push_back(buffer);  // it came from there, or has its place
  return device_.failed(result, "%s of %zu commands", call, batch->commands.size());
}

// ---- host functions

weir_result Stream::host_call(weir_host_function function, void *user) {
  if (function == nullptr) return refuse(WEIR_ERROR_INVALID_ARGUMENT, "the host function is NULL");
  if (shared_) {
    return refuse(WEIR_ERROR_NOT_SUPPORTED,
                  "the queue is the program's too: a host function would not hold up what the "
                  "program submits itself");
  }
  Call call;
  call.function = function;
  call.user = user;
  return add_call(call);
}

weir_result Stream::add_call(const Call &call) {
  if (device_.lost()) return device_.gone();
  {
    const std::lock_guard hold(mutex_);
    if (!thread_.joinable()) {
      const common::SignalsBlocked blocked;
      left_.store(false, std::memory_order_release);
      try {
        thread_ = std::thread([this] { serve(); });
      } catch (...) {
        left_.store(true, std::memory_order_release);
        throw;
      }
    }
    seal();
    Item &item = items_.emplace_back();
    item.call = call;
    item.call.after = last_value_;
    item.call.value = ++last_value_;
    ++calls_;
  }
  // It is enqueued; a submission that fails here is tried again when its end is asked for.
  (void)pump(*this);
  return WEIR_SUCCESS;
}

void Stream::serve() noexcept {
  std::unique_lock hold(mutex_);
  while (!(closed_ && (calls_ == 0 || device_.lost()))) {
    if (!call_is_next()) {
      // A loss wakes no one, so it is looked for at times; without calls there is nothing to miss.
      if (calls_ == 0) {
        turn_.wait(hold);
      } else {
        turn_.wait_for(hold, look_again);
      }
      continue;
    }
    const Call call = items_.front().call;
    hold.unlock();
    run(call);
    hold.lock();
    items_.pop_front();
    --calls_;
    hold.unlock();
    // The streams that waited for the call go on after the stream itself.
    Waiters woken;
    timeline_->set_submitted(call.value, &woken);
    (void)pump(*this);
    for (Waiter &waiter : woken) (void)pump(*waiter.stream);
    woken.clear();
    hold.lock();
  }
  hold.unlock();
  left_.store(true, std::memory_order_release);
}

void Stream::run(const Call &call) noexcept {
  // A wait that failed for another reason than the device's end is made again, as the stream waits for this thread.
  const auto insist = [this](auto act) -> weir_result {
    weir_result result = WEIR_SUCCESS;
    for (int i = 0; i < most_tries; ++i) {
      result = act();
      if (result == WEIR_SUCCESS || result == WEIR_ERROR_DEVICE_LOST) return result;
      std::this_thread::sleep_for(look_again);
    }
    // A driver that can't tell any more when its work ends is of no use.
    device_.lose();
    return WEIR_ERROR_DEVICE_LOST;
  };
  if (insist([&] { return timeline_->wait(call.after, UINT64_MAX); }) != WEIR_SUCCESS) return;
  if (call.function != nullptr) {
    call.function(call.user);
  } else {
    // Where the other device is lost its work will never be done, and what waits for it goes on: its result is not relied on.
    weir_result result = WEIR_NOT_READY;
    while (result != WEIR_SUCCESS && result != WEIR_ERROR_DEVICE_LOST && !device_.lost())
      result = call.foreign.timeline->wait(call.foreign.value, 20'000'000);
  }
  (void)insist([&] { return timeline_->signal(call.value); });
}

void Stream::settle() noexcept {
  close();
  for (int tries = 0; tries < most_tries && !device_.lost();) {
    uint64_t end = 0;
    {
      const std::lock_guard hold(mutex_);
      end = last_value_;
    }
    const weir_result pumped = pump(*this);
    const weir_result result = timeline_->wait(end, 20'000'000);
    if (result == WEIR_SUCCESS || result == WEIR_ERROR_DEVICE_LOST) break;
    if (result != WEIR_ERROR_TIMEOUT) std::this_thread::sleep_for(look_again);
    if (result != WEIR_ERROR_TIMEOUT || pumped != WEIR_SUCCESS) ++tries;
    // A driver that takes no work, or can't tell when it ends, is of no use: what waits for it ends.
    if (tries == most_tries) device_.lose();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace weir::vulkan
