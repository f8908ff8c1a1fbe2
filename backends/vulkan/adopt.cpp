// SPDX-License-Identifier: Apache-2.0
//
// Working in the program's own device. Vulkan has no query for what was enabled on it, so the program says it; what it says is checked against
// what the device can. A device that is not fit is refused by the name of what it lacks, and never replaced by one of our own.

#include "backends/vulkan/platform.hpp"

#include <algorithm>

namespace weir::vulkan {
namespace {

struct Enabled {
  uint64_t flag;
  const char *name;
};
constexpr Enabled must_be_enabled[] = {
    {WEIR_VULKAN_BUFFER_DEVICE_ADDRESS, "bufferDeviceAddress"},
    {WEIR_VULKAN_TIMELINE_SEMAPHORE, "timelineSemaphore"},
};

weir_result refuse_native(std::string *why, const std::string &sentence) {
  *why = sentence;
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%s", why->c_str());
}

/// "" or what is wrong with one of its queues.
std::string wrong_queue(const weir_vulkan_queue &queue, const Facts &facts) {
  if (queue.struct_size < sizeof queue || queue.kind != WEIR_VULKAN_QUEUE)
    return "is no weir_vulkan_queue: struct_size " + std::to_string(queue.struct_size) + ", kind " +
           std::to_string(queue.kind);
  if (queue.queue == nullptr) return "is VK_NULL_HANDLE";
  if (queue.family >= facts.families.size())
    return "is of family " + std::to_string(queue.family) + ", and the device has " +
           std::to_string(facts.families.size());
  constexpr VkQueueFlags moves =
      VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT;
  if ((facts.families[queue.family].queueFlags & (moves | VK_QUEUE_SPARSE_BINDING_BIT)) == 0)
    return "is of family " + std::to_string(queue.family) + ", which neither copies nor binds";
  if ((queue.lock == nullptr) != (queue.unlock == nullptr))
    return "has one of lock and unlock only";
  return "";
}

/// What the program enabled of what the device has. "" or what it says that can't be.
std::string narrow(uint64_t enabled, Facts *facts) {
  for (const Enabled &each : must_be_enabled) {
    if ((enabled & each.flag) == 0)
      return std::string("the feature ") + each.name +
             " is not enabled on the program's device, and is needed";
  }
  if ((enabled & WEIR_VULKAN_SPARSE) != 0 && !facts->sparse)
    return "WEIR_VULKAN_SPARSE: the device has not the features sparseBinding and "
           "sparseResidencyBuffer";
  if ((enabled & WEIR_VULKAN_SPARSE_ALIASED) != 0 && !facts->aliased)
    return "WEIR_VULKAN_SPARSE_ALIASED: the device has not the feature sparseResidencyAliased";
  if ((enabled & WEIR_VULKAN_EXTERNAL_MEMORY_HOST) != 0 && !facts->host_import)
    return "WEIR_VULKAN_EXTERNAL_MEMORY_HOST: the device has not VK_EXT_external_memory_host";
  if ((enabled & WEIR_VULKAN_EXTERNAL_MEMORY_FD) != 0 && !facts->external_fd)
    return "WEIR_VULKAN_EXTERNAL_MEMORY_FD: the device has not VK_KHR_external_memory_fd";
  facts->sparse = (enabled & WEIR_VULKAN_SPARSE) != 0;
  facts->aliased = facts->sparse && (enabled & WEIR_VULKAN_SPARSE_ALIASED) != 0;
  facts->host_import = (enabled & WEIR_VULKAN_EXTERNAL_MEMORY_HOST) != 0;
  facts->external_fd = (enabled & WEIR_VULKAN_EXTERNAL_MEMORY_FD) != 0;
  return "";
}

}  // namespace

weir_result Platform::adopt(const Options &options, const void *native, std::string *why) {
  options_ = options;
  weir_vulkan_device told{};
  const auto *given = static_cast<const weir_vulkan_device *>(native);
  if (given->kind != WEIR_VULKAN_DEVICE)
    return refuse_native(why, "natives of kind " + std::to_string(given->kind) +
                                  " are unknown; a weir_vulkan_device is of kind 1");
  if (given->struct_size < sizeof told)
    return refuse_native(why, "weir_vulkan_device.struct_size is " +
                                  std::to_string(given->struct_size) + ", " +
                                  std::to_string(sizeof told) + " needed");
  told = *given;
  if (told.instance == nullptr || told.physical_device == nullptr || told.device == nullptr)
    return refuse_native(why,
                         "the instance, the physical device or the device of the program is NULL");
  if (told.queue_count == 0 || told.queue_count > WEIR_VULKAN_QUEUES)
    return refuse_native(why, std::to_string(told.queue_count) + " queues of the program; 1 to " +
                                  std::to_string(WEIR_VULKAN_QUEUES) + " are needed");
  if (!loader_.open(options_.library, why))
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "%s", why->c_str());
  const char *missing = nullptr;
  if (!api_.find(loader_.get, static_cast<VkInstance>(told.instance), &missing))
    return refuse_native(why, std::string("the program's instance has no ") + missing +
                                  ": one of Vulkan 1.2 is needed");
  Facts facts = read_facts(api_, static_cast<VkPhysicalDevice>(told.physical_device));
  if (const std::string reason = unfit(facts); !reason.empty())
    return refuse_native(why, "the program's device \"" + facts.name + "\": " + reason);
  if (const std::string reason = narrow(told.enabled, &facts); !reason.empty())
    return refuse_native(why, reason);
  for (uint32_t i = 0; i < told.queue_count; ++i) {
    const std::string reason = wrong_queue(told.queues[i], facts);
    if (!reason.empty())
      return refuse_native(why, "queue " + std::to_string(i) + " of the program " + reason);
  }
  auto device = std::make_unique<Device>(api_, facts, options_, 0);
  WEIR_BACKEND_TRY(device->adopt(told, why));
  version_text_ = "Vulkan, the program's device; " + facts.driver;
  devices_.push_back(std::move(device));
  return WEIR_SUCCESS;
}

weir_result Device::adopt(const weir_vulkan_device &told, std::string *why) {
  handle_ = static_cast<VkDevice>(told.device);
  adopted_ = true;
  const char *missing = nullptr;
  if (!api_.find(instance_.GetDeviceProcAddr, handle_, &missing)) {
    handle_ = VK_NULL_HANDLE;
    return refuse_native(why, std::string("the program's device has no ") + missing +
                                  ": one of Vulkan 1.2 is needed");
  }
  for (uint32_t i = 0; i < told.queue_count; ++i) {
    const weir_vulkan_queue &each = told.queues[i];
    const VkQueueFlags flags = facts_.families[each.family].queueFlags;
    if (std::find(families_.begin(), families_.end(), each.family) == families_.end())
      families_.push_back(each.family);
    auto queue = std::make_unique<Queue>(*this, each.family, static_cast<VkQueue>(each.queue),
                                         Queue::Lock{each.lock, each.unlock, each.user});
    if ((flags & VK_QUEUE_SPARSE_BINDING_BIT) != 0 && facts_.sparse && options_.vmm &&
        binder_ == nullptr)
      binder_ = queue.get();
    const bool computes = (flags & (VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT)) != 0;
    const bool copies = computes || (flags & VK_QUEUE_TRANSFER_BIT) != 0;
    auto &place = computes ? queues_ : (copies ? copiers_ : others_);
    place.push_back(std::move(queue));
  }
  binder_apart_ =
      binder_ != nullptr && std::any_of(others_.begin(), others_.end(),
                                        [&](const auto &each) { return each.get() == binder_; });
  if (queues_.empty()) queues_.swap(copiers_);
  if (queues_.empty()) return refuse_native(why, "none of the program's queues copies");
  return finish(why);
}

Queue *Device::queue_of(VkQueue handle) const noexcept {
  for (const auto *queues : {&queues_, &copiers_, &others_})
    for (const auto &queue : *queues)
      if (queue->handle() == handle) return queue.get();
  return nullptr;
}

}  // namespace weir::vulkan
