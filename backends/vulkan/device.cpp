// SPDX-License-Identifier: Apache-2.0
//
// Making a logical device with the queues that the backend uses, and telling of it.

#include "backends/vulkan/device.hpp"

#include "backends/common/grow.hpp"
#include "backends/common/undo.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace weir::vulkan {
namespace {

/// More would give a program no more speed: copies of one device share its bus and its copy engines.
constexpr uint32_t most_queues = 4, most_copiers = 2;

bool family_can(const VkQueueFamilyProperties &family, VkQueueFlags flags) noexcept {
  return family.queueCount != 0 && (family.queueFlags & flags) == flags;
}

}  // namespace

Device::~Device() {
  if (handle_ == VK_NULL_HANDLE) return;
  come_to_rest();
  end(&patterns_);
  binds_.reset();
  for (const VkSemaphore each : semaphores_) api_.DestroySemaphore(handle_, each, nullptr);
  if (!adopted_) api_.DestroyDevice(handle_, nullptr);
}

/// Of the program's device the shared queues only, each under its lock.
void Device::come_to_rest() noexcept {
  if (!adopted_) {
    (void)api_.DeviceWaitIdle(handle_);
    return;
  }
  for (const auto *queues : {&queues_, &copiers_, &others_}) {
    for (const auto &queue : *queues) {
      const std::lock_guard hold(*queue);
      (void)api_.QueueWaitIdle(queue->handle());
    }
  }
}

weir_result Device::gone() const noexcept {
  return common::runtime_failure(WEIR_ERROR_DEVICE_LOST, VK_ERROR_DEVICE_LOST,
                                 "device %u was lost: VK_ERROR_DEVICE_LOST (%d)", index_,
                                 static_cast<int>(VK_ERROR_DEVICE_LOST));
}

weir_result Device::failed(VkResult code, const char *format, ...) noexcept {
  if (code == VK_ERROR_DEVICE_LOST) lose();
  char asked[128];
  va_list args;
  va_start(args, format);
  std::vsnprintf(asked, sizeof asked, format, args);
  va_end(args);
  return runtime_refusal(code, "device %u: %s", index_, asked);
}

/// Streams take the first family that computes; copies alone one that does nothing else; binds a queue of their own where
/// there is one to be had, so that they wait for no stream's work.
void Device::plan_queues() {
  const auto &families = facts_.families;
  const auto first = [&](auto fits) -> uint32_t {
    for (uint32_t i = 0; i < families.size(); ++i)
      if (families[i].queueCount != 0 && fits(families[i])) return i;
    return UINT32_MAX;
  };
  const bool sparse = facts_.sparse && options_.vmm;
  VkQueueFlags streams = VK_QUEUE_COMPUTE_BIT;
  if (sparse) streams |= VK_QUEUE_SPARSE_BINDING_BIT;
  main_.family = first([&](const auto &family) { return family_can(family, streams); });
  if (main_.family == UINT32_MAX)
    main_.family =
        first([](const auto &family) { return family_can(family, VK_QUEUE_COMPUTE_BIT); });
  copying_.family = first([](const auto &family) {
    return family_can(family, VK_QUEUE_TRANSFER_BIT) &&
           (family.queueFlags & (VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT)) == 0;
  });
  if (!options_.transfer_stream) copying_.family = UINT32_MAX;
  main_.queues = std::min(families[main_.family].queueCount, most_queues);
  if (copying_.family != UINT32_MAX)
    copying_.queues = std::min(families[copying_.family].queueCount, most_copiers);
  if (!sparse) return;
  binding_.family = main_.family;
  if (!family_can(families[main_.family], VK_QUEUE_SPARSE_BINDING_BIT))
    binding_.family =
        first([](const auto &family) { return family_can(family, VK_QUEUE_SPARSE_BINDING_BIT); });
  if (binding_.family == UINT32_MAX) return;
  const uint32_t there = families[binding_.family].queueCount;
  uint32_t taken = 0;
  if (binding_.family == main_.family) {
    if (there > 1 && main_.queues == there) --main_.queues;
    taken = main_.queues;
  } else if (binding_.family == copying_.family) {
    if (there > 1 && copying_.queues == there) --copying_.queues;
    taken = copying_.queues;
  }
  binder_apart_ = taken < there;
  binding_.queues = 1;
}

weir_result Device::make_device(std::string *why) {
  const std::array<float, most_queues + 1> priorities{1, 1, 1, 1, 1};
  std::vector<VkDeviceQueueCreateInfo> wanted;
  const auto add = [&](const Plan &plan, uint32_t queues) {
    if (queues == 0) return;
    for (VkDeviceQueueCreateInfo &each : wanted) {
      if (each.queueFamilyIndex != plan.family) continue;
      each.queueCount += queues;
      return;
    }
    VkDeviceQueueCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    info.queueFamilyIndex = plan.family;
    info.queueCount = queues;
    info.pQueuePriorities = priorities.data();
    wanted.push_back(info);
  };
  add(main_, main_.queues);
  add(copying_, copying_.queues);
  add(binding_, binder_apart_ ? 1 : 0);
  for (const auto &each : wanted) families_.push_back(each.queueFamilyIndex);

  std::vector<const char *> extensions;
  if (facts_.host_import) extensions.push_back(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  if (facts_.external_fd) extensions.push_back(VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME);
  if (facts_.budget) extensions.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);

  VkPhysicalDeviceVulkan12Features newer{};
  newer.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  newer.bufferDeviceAddress = VK_TRUE;
  newer.timelineSemaphore = VK_TRUE;
  VkPhysicalDeviceFeatures features{};
  features.sparseBinding = features.sparseResidencyBuffer =
      binding_.queues != 0 ? VK_TRUE : VK_FALSE;
  features.sparseResidencyAliased = binding_.queues != 0 && facts_.aliased ? VK_TRUE : VK_FALSE;
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = &newer;
  info.queueCreateInfoCount = static_cast<uint32_t>(wanted.size());
  info.pQueueCreateInfos = wanted.data();
  info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  info.pEnabledFeatures = &features;
  const VkResult result = instance_.CreateDevice(facts_.handle, &info, nullptr, &handle_);
  if (result != VK_SUCCESS) {
    handle_ = VK_NULL_HANDLE;
    *why = facts_.name + ": vkCreateDevice failed with " + name_of(result);
    return failed(result, "vkCreateDevice");
  }
  const char *missing = nullptr;
  if (api_.find(instance_.GetDeviceProcAddr, handle_, &missing)) return WEIR_SUCCESS;
  *why = facts_.name + ": its driver has no " + missing;
  const auto destroy = reinterpret_cast<PFN_vkDestroyDevice>(
      instance_.GetDeviceProcAddr(handle_, "vkDestroyDevice"));
  if (destroy != nullptr) destroy(handle_, nullptr);
  handle_ = VK_NULL_HANDLE;
  return refuse(WEIR_ERROR_NOT_SUPPORTED, "device %u: no %s", index_, missing);
}

void Device::make_queues() {
  const auto make = [&](const Plan &plan, uint32_t first, uint32_t count, auto *queues) {
    for (uint32_t i = first; i < first + count; ++i) {
      VkQueue queue = VK_NULL_HANDLE;
      api_.GetDeviceQueue(handle_, plan.family, i, &queue);
      queues->push_back(std::make_unique<Queue>(*this, plan.family, queue));
    }
  };
  make(main_, 0, main_.queues, &queues_);
  make(copying_, 0, copying_.queues, &copiers_);
  if (binding_.queues == 0) return;
  const bool of_main = binding_.family == main_.family;
  const bool of_copying = binding_.family == copying_.family;
  if (!binder_apart_) {
    binder_ = of_main ? queues_.back().get() : copiers_.back().get();
    return;
  }
  make(binding_, of_main ? main_.queues : (of_copying ? copying_.queues : 0), 1, &others_);
  binder_ = others_.back().get();
}

weir_result Device::make_patterns() {
  WEIR_BACKEND_TRY(make_host(4 * 256, &patterns_));
  for (uint32_t i = 0; i < 256; ++i)
    std::memset(patterns_.mapped + size_t{4} * i, static_cast<int>(i), 4);
  return WEIR_SUCCESS;
}

weir_result Device::start(std::string *why) {
  plan_queues();
  WEIR_BACKEND_TRY(make_device(why));
  make_queues();
  return finish(why);
}

weir_result Device::finish(std::string *why) {
  weir_result result = probe_sparse();
  if (result == WEIR_SUCCESS) result = make_patterns();
  capabilities_ = find_capabilities();
  if (result != WEIR_SUCCESS)
    *why = facts_.name + ": " + common::sentence_of(common::last_native());
  return result;
}

weir_result Device::take_counter(Counter *counter) {
  if (lost()) return gone();
  {
    const std::lock_guard hold(counters_mutex_);
    if (!counters_.empty()) {
      *counter = counters_.back();
      counters_.pop_back();
      return WEIR_SUCCESS;
    }
  }
  VkSemaphoreTypeCreateInfo type{};
  type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
  info.pNext = &type;
  VkSemaphore made = VK_NULL_HANDLE;
  const VkResult result = api_.CreateSemaphore(handle_, &info, nullptr, &made);
  if (result != VK_SUCCESS) return failed(result, "vkCreateSemaphore");
  common::Undo undo([&] { api_.DestroySemaphore(handle_, made, nullptr); });
  const std::lock_guard hold(counters_mutex_);
  common::grow_to(counters_, semaphores_.size() + 1);
  semaphores_.push_back(made);
  undo.dismiss();
  *counter = {made, 0};
  return WEIR_SUCCESS;
}

void Device::give_counter(const Counter &counter, bool used) noexcept {
  if (used) return;
  const std::lock_guard hold(counters_mutex_);
  counters_.push_back(counter);
}

uint64_t Device::find_capabilities() const noexcept {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  uint64_t all = WEIR_CAP_STREAM_ANY_THREAD | WEIR_CAP_HOST_CALL | WEIR_CAP_NATIVE_MEMORY;
  if (integrated()) all |= WEIR_CAP_INTEGRATED;
  if (options_.batch_copy) all |= WEIR_CAP_BATCH_COPY;
  if (!copiers_.empty()) all |= WEIR_CAP_TRANSFER_STREAM;
  const bool imports = facts_.host_import && api_.GetMemoryHostPointerPropertiesEXT != nullptr &&
                       facts_.import_alignment <= page;
  if (imports && options_.host_register) all |= WEIR_CAP_HOST_REGISTER;
  if (granule_ == 0) return all;
  all |= WEIR_CAP_VMM | WEIR_CAP_MAP_PART | WEIR_CAP_MAP_ANY_THREAD;
  if (options_.map_run) all |= WEIR_CAP_MAP_RUN;
  if (aliased_) all |= WEIR_CAP_MULTI_MAP;
  if (exports_) all |= WEIR_CAP_EXPORT_FD;
  // A bind has its turn in a queue that streams use, behind their work.
  if (!binder_apart_) all |= WEIR_CAP_MAP_MAY_BLOCK_DEVICE;
  return all;
}

Queue &Device::pick_queue(bool transfers) noexcept {
  auto &queues = transfers && !copiers_.empty() ? copiers_ : queues_;
  auto &turn = transfers ? copier_turn_ : turn_;
  return *queues[turn.fetch_add(1, std::memory_order_relaxed) % queues.size()];
}

uint64_t Device::memory() const noexcept {
  return options_.memory != 0 ? std::min(options_.memory, facts_.heap_bytes) : facts_.heap_bytes;
}

weir_result Device::charge(uint64_t bytes) noexcept {
  const uint64_t total = memory();
  uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > total || used > total - bytes) {
      return refuse(WEIR_ERROR_DEVICE_OOM, "device %u: %llu bytes asked, %llu of %llu left", index_,
                    number(bytes), number(total - std::min(used, total)), number(total));
    }
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return WEIR_SUCCESS;
}

/// A driver on the CPU tells of the machine's memory, which every other program changes.
uint64_t Device::available() const noexcept {
  const uint64_t left = memory() - std::min(used_.load(std::memory_order_relaxed), memory());
  if (!facts_.budget || facts_.on_cpu()) return left;
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{};
  budget.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
  VkPhysicalDeviceMemoryProperties2 all{};
  all.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  all.pNext = &budget;
  instance_.GetPhysicalDeviceMemoryProperties2(facts_.handle, &all);
  const uint64_t whole = budget.heapBudget[facts_.heap], used = budget.heapUsage[facts_.heap];
  return whole == 0 ? left : std::min(left, whole - std::min(used, whole));
}

}  // namespace weir::vulkan
