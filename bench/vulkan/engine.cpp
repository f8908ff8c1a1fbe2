// SPDX-License-Identifier: Apache-2.0
//
// Finding the loader and the functions, and the least that a program does to copy and to submit.

#include "bench/vulkan/engine.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <vector>

namespace weir::bench {
namespace {

constexpr const char *variable = "WEIR_VULKAN_LIBRARY";

[[noreturn]] void give_up(const std::string &why) {
  std::fprintf(stderr, "bench_vulkan: %s\n", why.c_str());
  std::exit(1);
}

const char *loader_name() {
  const char *named = std::getenv(variable);
  return named != nullptr && *named != '\0' ? named : "libvulkan.so.1";
}

template <class Function>
void find(void *library, const char *name, Function *function) {
  void *found = library != nullptr ? dlsym(library, name) : nullptr;
  std::memcpy(function, &found, sizeof found);
}

}  // namespace

void watch_calls() {
  const char *named = std::getenv(variable);
  if (named != nullptr && *named != '\0') return;
  char self[PATH_MAX] = {};
  if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) return;
  std::string path = self;
  path = path.substr(0, path.rfind('/')) + "/../lib/drivers/libweir_watched_vulkan.so";
  if (access(path.c_str(), R_OK) == 0) setenv(variable, path.c_str(), 1);
}

Calls::Calls() {
  find(dlopen(loader_name(), RTLD_NOW | RTLD_LOCAL), "weir_watched_vulkan_calls", &count_);
}

void Engine::must(VkResult result, const char *call) {
  if (result != VK_SUCCESS)
    give_up(std::string(call) + ": VkResult " + std::to_string(static_cast<int>(result)));
}

Engine::Engine(const Backend &backend, For what) {
  make_instance();
  choose_device(backend);
  choose_family(what);
  make_device();
  VkCommandPoolCreateInfo pool{};
  pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool.queueFamilyIndex = family_;
  must(api_.CreateCommandPool(device_, &pool, nullptr, &pool_), "vkCreateCommandPool");
  VkSemaphoreTypeCreateInfo type{};
  type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo semaphore{};
  semaphore.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
  semaphore.pNext = &type;
  must(api_.CreateSemaphore(device_, &semaphore, nullptr, &semaphore_), "vkCreateSemaphore");
}

Engine::~Engine() {
  must(api_.DeviceWaitIdle(device_), "vkDeviceWaitIdle");
  api_.DestroySemaphore(device_, semaphore_, nullptr);
  api_.DestroyCommandPool(device_, pool_, nullptr);
  api_.DestroyDevice(device_, nullptr);
  api_.DestroyInstance(instance_, nullptr);
}

void Engine::make_instance() {
  void *loader = dlopen(loader_name(), RTLD_NOW | RTLD_LOCAL);
  find(loader, "vkGetInstanceProcAddr", &api_.GetInstanceProcAddr);
  if (api_.GetInstanceProcAddr == nullptr)
    give_up(std::string(loader_name()) + " is no Vulkan loader");
  VkApplicationInfo program{};
  program.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  program.apiVersion = VK_API_VERSION_1_2;
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &program;
  const auto create = reinterpret_cast<PFN_vkCreateInstance>(
      api_.GetInstanceProcAddr(VK_NULL_HANDLE, "vkCreateInstance"));
  must(create(&info, nullptr, &instance_), "vkCreateInstance");
#define FIND(name) \
  api_.name = reinterpret_cast<PFN_vk##name>(api_.GetInstanceProcAddr(instance_, "vk" #name));
  WEIR_BENCH_OF_INSTANCE(FIND)
#undef FIND
}

/// The backend's: by its UUID, or by its name where it tells none.
void Engine::choose_device(const Backend &backend) {
  uint32_t count = 0;
  must(api_.EnumeratePhysicalDevices(instance_, &count, nullptr), "vkEnumeratePhysicalDevices");
  std::vector<VkPhysicalDevice> all(count);
  must(api_.EnumeratePhysicalDevices(instance_, &count, all.data()), "vkEnumeratePhysicalDevices");
  const weir_be_device &wanted = backend.device();
  const uint8_t none[sizeof wanted.uuid] = {};
  for (const VkPhysicalDevice each : all) {
    VkPhysicalDeviceIDProperties id{};
    id.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES;
    VkPhysicalDeviceProperties2 told{};
    told.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    told.pNext = &id;
    api_.GetPhysicalDeviceProperties2(each, &told);
    const bool same = std::memcmp(wanted.uuid, none, sizeof none) != 0
                          ? std::memcmp(wanted.uuid, id.deviceUUID, sizeof none) == 0
                          : std::strcmp(wanted.name, told.properties.deviceName) == 0;
    if (!same) continue;
    physical_ = each;
    return;
  }
  give_up(std::string("the loader has no device \"") + wanted.name + '"');
}

void Engine::choose_family(For what) {
  uint32_t count = 0;
  api_.GetPhysicalDeviceQueueFamilyProperties(physical_, &count, nullptr);
  std::vector<VkQueueFamilyProperties> all(count);
  api_.GetPhysicalDeviceQueueFamilyProperties(physical_, &count, all.data());
  constexpr VkQueueFlags works = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT;
  // As the backend does: its copies have queues that do nothing else, where there are any.
  const auto fits = [&](VkQueueFlags flags, bool alone) {
    return alone ? (flags & (works | VK_QUEUE_TRANSFER_BIT)) == VK_QUEUE_TRANSFER_BIT
                 : (flags & VK_QUEUE_COMPUTE_BIT) != 0;
  };
  for (const bool alone : {true, false}) {
    if (alone && what == For::sharing) continue;
    for (uint32_t i = 0; i < count; ++i) {
      if (!fits(all[i].queueFlags, alone)) continue;
      family_ = i;
      if ((all[i].queueFlags & VK_QUEUE_SPARSE_BINDING_BIT) != 0) enabled_ |= WEIR_VULKAN_SPARSE;
      return;
    }
  }
  give_up("the device has no queue that computes");
}

void Engine::make_device() {
  VkPhysicalDeviceFeatures can{};
  api_.GetPhysicalDeviceFeatures(physical_, &can);
  if (can.sparseBinding == VK_FALSE || can.sparseResidencyBuffer == VK_FALSE) enabled_ = 0;
  VkPhysicalDeviceFeatures features{};
  if (enabled_ != 0) {
    features.sparseBinding = features.sparseResidencyBuffer = VK_TRUE;
    features.sparseResidencyAliased = can.sparseResidencyAliased;
    if (can.sparseResidencyAliased == VK_TRUE) enabled_ |= WEIR_VULKAN_SPARSE_ALIASED;
  }
  enabled_ |= WEIR_VULKAN_BUFFER_DEVICE_ADDRESS | WEIR_VULKAN_TIMELINE_SEMAPHORE;
  VkPhysicalDeviceVulkan12Features newer{};
  newer.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  newer.bufferDeviceAddress = newer.timelineSemaphore = VK_TRUE;
  const float priority = 1;
  VkDeviceQueueCreateInfo queue{};
  queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue.queueFamilyIndex = family_;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = &newer;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.pEnabledFeatures = &features;
  must(api_.CreateDevice(physical_, &info, nullptr, &device_), "vkCreateDevice");
#define FIND(name) \
  api_.name = reinterpret_cast<PFN_vk##name>(api_.GetDeviceProcAddr(device_, "vk" #name));
  WEIR_BENCH_OF_DEVICE(FIND)
#undef FIND
  api_.GetDeviceQueue(device_, family_, 0, &queue_);
}

// ---- what it tells Weir

void Engine::lock(void *self) {
  auto &engine = *static_cast<Engine *>(self);
  engine.mutex_.lock();
  ++engine.locks_;
}

void Engine::unlock(void *self) { static_cast<Engine *>(self)->mutex_.unlock(); }

weir_vulkan_queue Engine::queue(bool with_value) {
  weir_vulkan_queue told = WEIR_VULKAN_QUEUE_INIT;
  told.queue = queue_;
  told.family = family_;
  told.lock = lock;
  told.unlock = unlock;
  told.user = this;
  if (with_value) {
    told.semaphore = reinterpret_cast<uintptr_t>(semaphore_);
    told.value = &value_;
  }
  return told;
}

weir_vulkan_device Engine::natives() {
  weir_vulkan_device told{};
  told.struct_size = sizeof told;
  told.kind = WEIR_VULKAN_DEVICE;
  told.instance = instance_;
  told.physical_device = physical_;
  told.device = device_;
  told.enabled = enabled_;
  told.queue_count = 1;
  told.queues[0] = queue(false);
  return told;
}

// ---- memory and work

uint32_t Engine::memory_type(uint32_t bits, bool host) const {
  VkPhysicalDeviceMemoryProperties all{};
  api_.GetPhysicalDeviceMemoryProperties(physical_, &all);
  constexpr VkMemoryPropertyFlags seen =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  for (const VkMemoryPropertyFlags wanted :
       {host ? seen | VK_MEMORY_PROPERTY_HOST_CACHED_BIT
             : VkMemoryPropertyFlags{VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT},
        host ? seen : VkMemoryPropertyFlags{0}}) {
    for (uint32_t i = 0; i < all.memoryTypeCount; ++i)
      if ((bits >> i & 1U) != 0 && (all.memoryTypes[i].propertyFlags & wanted) == wanted) return i;
  }
  give_up("no memory type fits a buffer");
}

VkDeviceMemory Engine::memory_for(VkBuffer buffer, bool host) const {
  VkMemoryRequirements needs{};
  api_.GetBufferMemoryRequirements(device_, buffer, &needs);
  VkMemoryAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  info.allocationSize = needs.size;
  info.memoryTypeIndex = memory_type(needs.memoryTypeBits, host);
  VkDeviceMemory memory = VK_NULL_HANDLE;
  must(api_.AllocateMemory(device_, &info, nullptr, &memory), "vkAllocateMemory");
  return memory;
}

OwnBuffer Engine::make_buffer(uint64_t bytes, bool host) {
  OwnBuffer made;
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = bytes;
  info.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  must(api_.CreateBuffer(device_, &info, nullptr, &made.buffer), "vkCreateBuffer");
  made.memory = memory_for(made.buffer, host);
  must(api_.BindBufferMemory(device_, made.buffer, made.memory, 0), "vkBindBufferMemory");
  if (host) {  // touched once, as Weir's is
    void *mapped = nullptr;
    must(api_.MapMemory(device_, made.memory, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory");
    std::memset(mapped, 1, bytes);
  }
  return made;
}

void Engine::end(const OwnBuffer &buffer) {
  api_.DestroyBuffer(device_, buffer.buffer, nullptr);
  api_.FreeMemory(device_, buffer.memory, nullptr);
}

OwnBuffer Engine::make_sparse(uint64_t bytes) {
  OwnBuffer made;
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.flags = VK_BUFFER_CREATE_SPARSE_BINDING_BIT | VK_BUFFER_CREATE_SPARSE_RESIDENCY_BIT;
  info.size = bytes;
  info.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  must(api_.CreateBuffer(device_, &info, nullptr, &made.buffer), "vkCreateBuffer, sparse");
  made.memory = memory_for(made.buffer, false);
  return made;
}

void Engine::bind(const OwnBuffer &buffer, uint64_t at, uint64_t bytes, bool there) {
  VkSparseMemoryBind piece{};
  piece.resourceOffset = at;
  piece.size = bytes;
  if (there) {
    piece.memory = buffer.memory;
    piece.memoryOffset = at;
  }
  VkSparseBufferMemoryBindInfo what{};
  what.buffer = buffer.buffer;
  what.bindCount = 1;
  what.pBinds = &piece;
  const uint64_t before = value_, next = value_ + 1;
  VkTimelineSemaphoreSubmitInfo values{};
  values.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  values.waitSemaphoreValueCount = values.signalSemaphoreValueCount = 1;
  values.pWaitSemaphoreValues = &before;
  values.pSignalSemaphoreValues = &next;
  VkBindSparseInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BIND_SPARSE_INFO;
  info.pNext = &values;
  info.waitSemaphoreCount = info.signalSemaphoreCount = 1;
  info.pWaitSemaphores = info.pSignalSemaphores = &semaphore_;
  info.bufferBindCount = 1;
  info.pBufferBinds = &what;
  must(api_.QueueBindSparse(queue_, 1, &info, VK_NULL_HANDLE), "vkQueueBindSparse");
  value_ = next;
  after_bind_ = true;
}

VkCommandBuffer Engine::begin() {
  VkCommandBufferAllocateInfo one{};
  one.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  one.commandPool = pool_;
  one.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  one.commandBufferCount = 1;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  must(api_.AllocateCommandBuffers(device_, &one, &commands), "vkAllocateCommandBuffers");
  VkCommandBufferBeginInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  info.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
  must(api_.BeginCommandBuffer(commands, &info), "vkBeginCommandBuffer");
  return commands;
}

void Engine::submit(VkCommandBuffer commands) {
  const uint64_t before = value_, next = value_ + 1;
  VkTimelineSemaphoreSubmitInfo signals{};
  signals.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  signals.waitSemaphoreValueCount = signals.signalSemaphoreValueCount = 1;
  signals.pWaitSemaphoreValues = &before;
  signals.pSignalSemaphoreValues = &next;
  const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.pNext = &signals;
  if (after_bind_) {  // a bind is in no order with what is submitted, but by a semaphore
    info.waitSemaphoreCount = 1;
    info.pWaitSemaphores = &semaphore_;
    info.pWaitDstStageMask = &stage;
  }
  info.commandBufferCount = 1;
  info.pCommandBuffers = &commands;
  info.signalSemaphoreCount = 1;
  info.pSignalSemaphores = &semaphore_;
  lock(this);
  must(api_.QueueSubmit(queue_, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit");
  __atomic_store_n(&value_, next, __ATOMIC_RELEASE);
  after_bind_ = false;
  unlock(this);
}

void Engine::wait() const {
  VkSemaphoreWaitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
  info.semaphoreCount = 1;
  info.pSemaphores = &semaphore_;
  info.pValues = &value_;
  must(api_.WaitSemaphores(device_, &info, UINT64_MAX), "vkWaitSemaphores");
}

}  // namespace weir::bench
