// SPDX-License-Identifier: Apache-2.0
//
// One logical device: its queues, buffers with their memory, and how much of it is used. A device that was lost stays lost:
// the code that sees the loss notes it here, and nothing is asked of the driver any more but to end what there is.
#pragma once

#include "backends/vulkan/errors.hpp"
#include "backends/vulkan/facts.hpp"
#include "backends/vulkan/options.hpp"
#include "backends/vulkan/queue.hpp"

#include <weir/backend.h>
#include <weir/vulkan.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace weir::vulkan {

/// Flags by Vulkan's own type: its enumerations do not mix with numbers.
inline constexpr VkBufferCreateFlags aliased_buffer = VK_BUFFER_CREATE_SPARSE_ALIASED_BIT;
inline constexpr VkExternalMemoryHandleTypeFlags opaque_fd =
    VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;

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

  /// Instead of start(): the program's own device, which stays the program's.
  weir_result adopt(const weir_vulkan_device &told, std::string *why);
  /// The queue of this handle, if the backend uses it.
  Queue *queue_of(VkQueue handle) const noexcept;
  bool adopted() const noexcept { return adopted_; }

  VkDevice handle() const noexcept { return handle_; }
  const DeviceApi &api() const noexcept { return api_; }
  const Facts &facts() const noexcept { return facts_; }
  const Options &options() const noexcept { return options_; }
  uint32_t index() const noexcept { return index_; }
  bool integrated() const noexcept { return facts_.integrated() && options_.integrated; }
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

  // ---- timeline semaphores; one that was used goes on from the value that it has. They end with the device only: Mesa's queues look at
  // what a batch waited for once more after its end has been told.
  struct Counter {
    VkSemaphore semaphore = VK_NULL_HANDLE;
    uint64_t value = 0;
  };
  weir_result take_counter(Counter *counter);
  /// `used`: work that uses it may not have ended, so it is not used again.
  void give_counter(const Counter &counter, bool used) noexcept;

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

  // ---- sparse buffers; a granule of 0: no virtual memory
  uint64_t granule() const noexcept { return granule_; }
  uint64_t granule_large() const noexcept { return granule_large_; }
  uint64_t sparse_alignment() const noexcept { return sparse_alignment_; }
  /// One value a bind.
  const std::shared_ptr<Timeline> &binds() const noexcept { return binds_; }
  /// Memory for them, that may leave the process, or imported memory, by a descriptor that is taken over on success.
  weir_result allocate(uint64_t bytes, bool exported, int fd, VkDeviceMemory *memory) noexcept;
  /// One memory is known by two addresses from now on, or may be: different ranges of sparse buffers can be the same bytes.
  void note_alias() noexcept { aliases_.store(true, std::memory_order_release); }
  bool aliases() const noexcept { return aliases_.load(std::memory_order_acquire); }

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
  weir_result finish(std::string *why);
  void come_to_rest() noexcept;
  weir_result make_patterns();
  uint64_t find_capabilities() const noexcept;
  weir_result probe_sparse();
  bool can_export(VkBufferCreateFlags flags) const noexcept;
  static VkBufferUsageFlags buffer_usage() noexcept;
  weir_result fill_block(Block *block, int type, uint32_t bits, const void *chained,
                         uint64_t bytes) noexcept;

  const InstanceApi &instance_;
  const Facts facts_;
  const Options &options_;
  const uint32_t index_;
  DeviceApi api_;
  VkDevice handle_ = VK_NULL_HANDLE;
  bool adopted_ = false;
  uint64_t capabilities_ = 0;
  Plan main_, copying_, binding_;
  bool binder_apart_ = false;  ///< no stream uses the binder's queue
  std::vector<uint32_t> families_;
  std::vector<std::unique_ptr<Queue>> queues_, copiers_, others_;
  Queue *binder_ = nullptr;
  Block patterns_;
  uint64_t granule_ = 0, granule_large_ = 0, sparse_alignment_ = 1;
  int sparse_type_ = -1;
  bool aliased_ = false, exports_ = false;
  std::shared_ptr<Timeline> binds_;
  std::mutex counters_mutex_;
  std::vector<Counter> counters_;        ///< at rest; there is room for all that were made
  std::vector<VkSemaphore> semaphores_;  ///< all that were made
  std::atomic<bool> aliases_{false};
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
