// SPDX-License-Identifier: Apache-2.0
//
// One logical device: its queues, buffers with their memory, and how much of it is used. A device that was lost stays lost:
// whoever sees the loss notes it here, and nothing is asked of the driver any more but to end what there is.
#pragma once

#include "backends/vulkan/errors.hpp"
#include "backends/vulkan/facts.hpp"
#include "backends/vulkan/options.hpp"
#include "backends/vulkan/queue.hpp"

#include <weir/backend.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace weir::vulkan {

/// A buffer with memory of its own.
struct Block {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  uint64_t address = 0;       ///< the device's; of buffers that were made with one
  uint8_t *mapped = nullptr;  ///< where the CPU sees it, if it does
};

class Device {
 public:
  Device(const InstanceApi &instance, const Facts &facts, const Options &options, uint32_t index)
      : instance_(instance), facts_(facts), options_(options), index_(index) {}
  /// Waits for nothing: all work has finished, or the device is lost.
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  /// Called once, before anything else. On failure *why says in words what failed.
  weir_result start(std::string *why);

  VkDevice handle() const noexcept { return handle_; }
  const DeviceApi &api() const noexcept { return api_; }
  const Facts &facts() const noexcept { return facts_; }
  const Options &options() const noexcept { return options_; }
  uint32_t index() const noexcept { return index_; }
  uint64_t capabilities() const noexcept { return capabilities_; }
  bool has(uint64_t capability) const noexcept { return (capabilities_ & capability) != 0; }

  bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  void lose() noexcept { lost_.store(true, std::memory_order_release); }
  /// Notes that a call failed with `code`, and returns what that means.
  weir_result failed(VkResult code, const char *format, ...) noexcept
      __attribute__((format(printf, 3, 4)));
  /// DEVICE_LOST, with its sentence.
  weir_result gone() const noexcept;

  /// The next queue of those for ordinary streams, or of those for copies alone.
  Queue &pick_queue(bool transfers) noexcept;
  /// Where memory is bound to sparse buffers; nullptr without.
  Queue *binder() const noexcept { return binder_; }

  // ---- buffers
  /// A buffer of any queue in use, with no memory. `external` is a bit of VkExternalMemoryHandleTypeFlagBits or 0.
  VkResult create_buffer(uint64_t bytes, VkBufferCreateFlags flags, uint32_t external,
                         VkBuffer *buffer) const noexcept;
  uint64_t address_of(VkBuffer buffer) const noexcept;
  weir_result make_plain(uint64_t bytes, Block *block) noexcept;
  /// Mapped for as long as it lives.
  weir_result make_host(uint64_t bytes, Block *block) noexcept;
  /// A buffer over memory that is the caller's; both are multiples of the import alignment.
  weir_result import_host(void *memory, uint64_t bytes, Block *block) noexcept;
  void end(Block *block) const noexcept;

  /// Four times each byte value, for the ends of fills.
  VkBuffer patterns() const noexcept { return patterns_.buffer; }

  // ---- how much is used
  uint64_t memory() const noexcept;
  weir_result charge(uint64_t bytes) noexcept;
  void give_back(uint64_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  /// Bytes that are free, as far as this process and the driver know.
  uint64_t available() const noexcept;

 private:
  struct Plan {
    uint32_t family = 0, queues = 0;
  };
  void plan_queues();
  weir_result make_device(std::string *why);
  void make_queues();
  weir_result make_patterns();
  uint64_t find_capabilities() const noexcept;
  weir_result fill_block(Block *block, int type, uint32_t bits, const void *chained,
                         uint64_t bytes) noexcept;

  const InstanceApi &instance_;
  const Facts facts_;
  const Options &options_;
  const uint32_t index_;
  DeviceApi api_;
  VkDevice handle_ = VK_NULL_HANDLE;
  uint64_t capabilities_ = 0;
  Plan main_, copying_, binding_;
  bool binder_apart_ = false;  ///< no stream uses the binder's queue
  std::vector<uint32_t> families_;
  std::vector<std::unique_ptr<Queue>> queues_, copiers_, others_;
  Queue *binder_ = nullptr;
  Block patterns_;
  std::atomic<uint32_t> turn_{0}, copier_turn_{0};
  std::atomic<uint64_t> used_{0};
  std::atomic<bool> lost_{false};
};

/// Device memory that is counted as used, unless it is given back at the end of the scope.
class Charge {
 public:
  Charge(Device &device, uint64_t bytes) noexcept
      : device_(device), bytes_(bytes), result_(device.charge(bytes)) {}
  ~Charge() {
    if (result_ == WEIR_SUCCESS && !kept_) device_.give_back(bytes_);
  }
  Charge(const Charge &) = delete;
  Charge &operator=(const Charge &) = delete;
  weir_result result() const noexcept { return result_; }
  void keep() noexcept { kept_ = true; }

 private:
  Device &device_;
  const uint64_t bytes_;
  const weir_result result_;
  bool kept_ = false;
};

}  // namespace weir::vulkan
