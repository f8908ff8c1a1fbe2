/* SPDX-License-Identifier: Apache-2.0
 *
 * launch.c - command buffers on the queue of a stream of Weir's. A launch's memory is used again once the semaphore that it signals
 * tells that it has finished.
 */
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>

/* What weir_stream_native gives for a stream of the Vulkan backend (docs/vulkan.md); it lives as long as the stream. */
typedef struct {
  uint32_t struct_size, family;
  VkDevice device;
  VkQueue queue;
  VkSemaphore semaphore;
  void (*lock)(void *user);
  void (*unlock)(void *user);
  void *user;
} native_queue;

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

/* Asking for it also hands over what Weir has collected for the stream. */
static const native_queue *queue_of(weir_stream stream) {
  void *native;
  MUST(weir_stream_native(stream, &native));
  return native;
}

launcher launcher_start(weir_stream stream) {
  const native_queue *queue = queue_of(stream);
  launcher l = {.stream = stream, .device = queue->device, .family = queue->family};
  const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                        .queueFamilyIndex = queue->family};
  MUST_VK(vkCreateCommandPool(l.device, &pool, NULL, &l.pool));
  const VkCommandBufferAllocateInfo buffers = {
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
      .commandPool = l.pool,
      .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
      .commandBufferCount = LAUNCHES};
  MUST_VK(vkAllocateCommandBuffers(l.device, &buffers, l.ring));
  const VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                          .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
  const VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
                                           .pNext = &type};
  MUST_VK(vkCreateSemaphore(l.device, &semaphore, NULL, &l.done));
  return l;
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
  const uint64_t value = ++l->launches;
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
  const native_queue *queue = queue_of(l->stream);
  queue->lock(queue->user);
  const VkResult result = vkQueueSubmit(queue->queue, 1, &submit, VK_NULL_HANDLE);
  queue->unlock(queue->user);
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

weir_context start_context(const char *wish, weir_device *device) {
  /* A GPU whose memory is the host's, or a driver on the CPU, gains nothing from moving pages to host memory, so Weir would not:
   * here it shall, that there is something to be seen on every machine. Small pages fit the small budgets. */
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  desc.options = "vulkan.integrated=0;vulkan.granule=64K;vulkan.granule_large=0";
  weir_context context;
  MUST(weir_context_create(&desc, &context));
  MUST(weir_device_find(context, wish, device));
  return context;
}

uint64_t small_page(weir_context context, weir_device device) {
  weir_device_info info = WEIR_DEVICE_INFO_INIT;
  MUST(weir_device_info_get(context, device, &info));
  return info.granule > 64 << 10 ? info.granule : 64 << 10;
}
