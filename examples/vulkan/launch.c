/* SPDX-License-Identifier: Apache-2.0
 *
 * launch.c - the device, and command buffers on its queue. A launch's memory is used again once the semaphore that it signals
 * tells that it has finished.
 */
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>

void must(weir_result result, const char *what) {
  if (result == WEIR_SUCCESS) return;
  fprintf(stderr, "%s: %s: %s\n", what, weir_result_string(result), weir_last_error());
  exit(1);
}

void must_vk(VkResult result, const char *what) {
  if (result == VK_SUCCESS) return;
  fprintf(stderr, "%s: VkResult %d\n", what, (int)result);
  exit(1);
}

/* ---- the device ---- */

enum { MOST_DEVICES = 16, MOST_FAMILIES = 16 };

/* A family whose queues draw and compute. */
static uint32_t family_of(VkPhysicalDevice physical, VkQueueFlags *flags) {
  VkQueueFamilyProperties families[MOST_FAMILIES];
  const VkQueueFlags needed = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT;
  uint32_t count = MOST_FAMILIES;
  vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, families);
  for (uint32_t i = 0; i < count; i++) {
    *flags = families[i].queueFlags;
    if ((*flags & needed) == needed) return i;
  }
  fprintf(stderr, "the device has no queue that draws and computes\n");
  exit(1);
}

static VkPhysicalDevice choose(VkInstance instance) {
  VkPhysicalDevice all[MOST_DEVICES];
  uint32_t count = MOST_DEVICES;
  const VkResult result = vkEnumeratePhysicalDevices(instance, &count, all);
  if (result != VK_INCOMPLETE) must_vk(result, "vkEnumeratePhysicalDevices");
  for (uint32_t i = 0; i < count; i++) {
    VkPhysicalDeviceProperties properties;
    vkGetPhysicalDeviceProperties(all[i], &properties);
    if (properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU) return all[i];
  }
  if (count != 0) return all[0];
  fprintf(stderr, "there is no Vulkan device\n");
  exit(1);
}

void engine_start(engine *e) {
  *e = (engine){0};
  pthread_mutex_init(&e->lock, NULL);
  const VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                         .apiVersion = VK_API_VERSION_1_2};
  const VkInstanceCreateInfo instance = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                         .pApplicationInfo = &application};
  MUST_VK(vkCreateInstance(&instance, NULL, &e->instance));
  e->physical = choose(e->instance);
  VkQueueFlags flags;
  e->family = family_of(e->physical, &flags);

  /* What Weir must have, and what gives it virtual memory where the device has that. */
  VkPhysicalDeviceFeatures can;
  vkGetPhysicalDeviceFeatures(e->physical, &can);
  const int sparse =
      can.sparseBinding && can.sparseResidencyBuffer && (flags & VK_QUEUE_SPARSE_BINDING_BIT) != 0;
  const int aliased = sparse && can.sparseResidencyAliased;
  const VkPhysicalDeviceFeatures features = {
      .sparseBinding = sparse ? VK_TRUE : VK_FALSE,
      .sparseResidencyBuffer = sparse ? VK_TRUE : VK_FALSE,
      .sparseResidencyAliased = aliased ? VK_TRUE : VK_FALSE};
  VkPhysicalDeviceVulkan12Features newer = {
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
      .timelineSemaphore = VK_TRUE,
      .bufferDeviceAddress = VK_TRUE};
  const float priority = 1;
  const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                         .queueFamilyIndex = e->family,
                                         .queueCount = 1,
                                         .pQueuePriorities = &priority};
  const VkDeviceCreateInfo device = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                     .pNext = &newer,
                                     .queueCreateInfoCount = 1,
                                     .pQueueCreateInfos = &queue,
                                     .pEnabledFeatures = &features};
  MUST_VK(vkCreateDevice(e->physical, &device, NULL, &e->device));
  vkGetDeviceQueue(e->device, e->family, 0, &e->queue);
  e->enabled = WEIR_VULKAN_BUFFER_DEVICE_ADDRESS | WEIR_VULKAN_TIMELINE_SEMAPHORE;
  if (sparse) e->enabled |= WEIR_VULKAN_SPARSE;
  if (aliased) e->enabled |= WEIR_VULKAN_SPARSE_ALIASED;
}

void engine_finish(engine *e) {
  vkDestroyDevice(e->device, NULL);
  vkDestroyInstance(e->instance, NULL);
  pthread_mutex_destroy(&e->lock);
}

/* ---- Weir on it ---- */

static void lock_queue(void *user) { pthread_mutex_lock(&((engine *)user)->lock); }
static void unlock_queue(void *user) { pthread_mutex_unlock(&((engine *)user)->lock); }

static weir_vulkan_queue queue_of(engine *e) {
  weir_vulkan_queue queue = WEIR_VULKAN_QUEUE_INIT;
  queue.queue = e->queue;
  queue.family = e->family;
  queue.lock = lock_queue;
  queue.unlock = unlock_queue;
  queue.user = e;
  return queue;
}

weir_context engine_context(engine *e, weir_device *device) {
  const weir_vulkan_device mine = {.struct_size = sizeof mine,
                                   .kind = WEIR_VULKAN_DEVICE,
                                   .instance = e->instance,
                                   .physical_device = e->physical,
                                   .device = e->device,
                                   .enabled = e->enabled,
                                   .queue_count = 1,
                                   .queues = {queue_of(e)}};
  const weir_native native = {"vulkan", &mine};
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.natives = &native;
  desc.native_count = 1;
  /* A GPU whose memory is the host's, or a driver on the CPU, gains nothing from moving pages to host memory, so Weir would not:
   * here it shall, that there is something to be seen on every machine. Small pages fit the small budgets. */
  desc.options = "vulkan.integrated=0;vulkan.granule=64K;vulkan.granule_large=0";
  weir_context context;
  MUST(weir_context_create(&desc, &context));
  MUST(weir_device_find(context, "vulkan", device));
  return context;
}

/* ---- launches ---- */

void launcher_start(launcher *l, engine *e, weir_context context, weir_device device) {
  *l = (launcher){.engine = e, .device = e->device};
  const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                        .queueFamilyIndex = e->family};
  MUST_VK(vkCreateCommandPool(l->device, &pool, NULL, &l->pool));
  const VkCommandBufferAllocateInfo buffers = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
      .commandPool = l->pool,
      .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
      .commandBufferCount = LAUNCHES};
  MUST_VK(vkAllocateCommandBuffers(l->device, &buffers, l->ring));
  const VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                          .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
  const VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
                                           .pNext = &type};
  MUST_VK(vkCreateSemaphore(l->device, &semaphore, NULL, &l->done));
  weir_vulkan_queue queue = queue_of(e);
  queue.semaphore = (uint64_t)(uintptr_t)l->done;
  queue.value = &l->launches;
  MUST(weir_stream_wrap(context, device, &queue, 0, &l->stream));
}

static void wait_for(const launcher *l, uint64_t launches) {
  const VkSemaphoreWaitInfo wait = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                    .semaphoreCount = 1,
                                    .pSemaphores = &l->done,
                                    .pValues = &launches};
  MUST_VK(vkWaitSemaphores(l->device, &wait, UINT64_MAX));
}

void launcher_finish(launcher *l) {
  wait_for(l, l->launches);
  MUST(weir_stream_close(l->stream));
  vkDestroySemaphore(l->device, l->done, NULL);
  vkDestroyCommandPool(l->device, l->pool, NULL);
}

void launch_barrier(VkCommandBuffer commands) {
  const VkMemoryBarrier all = {
      .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
      .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
      .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT};
  vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                       VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 1, &all, 0, NULL, 0, NULL);
}

VkCommandBuffer launch_begin(launcher *l) {
  if (l->launches >= LAUNCHES) wait_for(l, l->launches - LAUNCHES + 1);
  const VkCommandBuffer commands = l->ring[l->launches % LAUNCHES];
  const VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                          .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
  MUST_VK(vkBeginCommandBuffer(commands, &begin)); /* which also resets it */
  launch_barrier(commands);
  return commands;
}

void launch_end(launcher *l) {
  const VkCommandBuffer commands = l->ring[l->launches % LAUNCHES];
  launch_barrier(commands);
  MUST_VK(vkEndCommandBuffer(commands));
  const uint64_t value = l->launches + 1;
  const VkTimelineSemaphoreSubmitInfo timeline = {
      .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
      .signalSemaphoreValueCount = 1,
      .pSignalSemaphoreValues = &value};
  const VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                               .pNext = &timeline,
                               .commandBufferCount = 1,
                               .pCommandBuffers = &commands,
                               .signalSemaphoreCount = 1,
                               .pSignalSemaphores = &l->done};
  lock_queue(l->engine);
  const VkResult result = vkQueueSubmit(l->engine->queue, 1, &submit, VK_NULL_HANDLE);
  if (result == VK_SUCCESS) __atomic_store_n(&l->launches, value, __ATOMIC_RELEASE);
  unlock_queue(l->engine);
  must_vk(result, "vkQueueSubmit");
}

VkShaderModule shader_module(VkDevice device, const uint32_t *spirv, size_t bytes) {
  const VkShaderModuleCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = bytes, .pCode = spirv};
  VkShaderModule module;
  MUST_VK(vkCreateShaderModule(device, &info, NULL, &module));
  return module;
}

program compute_program(VkDevice device, const uint32_t *spirv, size_t bytes, uint32_t push,
                        VkDescriptorSetLayout sets) {
  program made;
  const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, push};
  const VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                             .setLayoutCount = sets != VK_NULL_HANDLE ? 1 : 0,
                                             .pSetLayouts = &sets,
                                             .pushConstantRangeCount = 1,
                                             .pPushConstantRanges = &range};
  MUST_VK(vkCreatePipelineLayout(device, &layout, NULL, &made.layout));
  const VkShaderModule module = shader_module(device, spirv, bytes);
  const VkComputePipelineCreateInfo pipeline = {
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = module,
                .pName = "main"},
      .layout = made.layout};
  MUST_VK(vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &pipeline, NULL, &made.pipeline));
  vkDestroyShaderModule(device, module, NULL);
  return made;
}

void program_destroy(VkDevice device, program *p) {
  vkDestroyPipeline(device, p->pipeline, NULL);
  vkDestroyPipelineLayout(device, p->layout, NULL);
}

uint64_t small_page(weir_context context, weir_device device) {
  weir_device_info info = WEIR_DEVICE_INFO_INIT;
  MUST(weir_device_info_get(context, device, &info));
  return info.granule > 64 << 10 ? info.granule : 64 << 10;
}
