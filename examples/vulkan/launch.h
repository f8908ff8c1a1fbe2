/* SPDX-License-Identifier: Apache-2.0
 *
 * launch.h - the program's own commands on a stream of Weir's Vulkan backend. A stream is an order of submissions to a VkQueue of
 * Weir's own VkDevice; what is submitted here, under the queue's lock, comes after what Weir has enqueued on the stream so far (an
 * acquire's copies), and what Weir enqueues later comes after it (a release).
 *
 * One launcher for each stream, used by one thread at a time.
 */
#ifndef WEIR_EXAMPLES_LAUNCH_H
#define WEIR_EXAMPLES_LAUNCH_H

#include <stddef.h>
#include <stdint.h>
#include <vulkan/vulkan.h>
#include <weir/weir.h>

/* Ends the program with a line that says what failed. */
void must(weir_result result, const char *what);
void must_vk(VkResult result, const char *what);
#define MUST(call) must((call), #call)
#define MUST_VK(call) must_vk((call), #call)

enum { LAUNCHES = 8 /* command buffers in flight */ };

typedef struct {
  weir_stream stream;
  VkDevice device;
  uint32_t family;
  VkCommandPool pool;
  VkCommandBuffer ring[LAUNCHES];
  VkSemaphore done; /* a timeline semaphore: how many launches have finished */
  uint64_t launches;
} launcher;

launcher launcher_start(weir_stream stream);
/* Waits for what was launched. */
void launcher_finish(launcher *l);

/* A command buffer to record into; it waits on the CPU only if LAUNCHES earlier ones are still running. */
VkCommandBuffer launch_begin(launcher *l);
/* Submits it, behind what is on the stream already. */
void launch_end(launcher *l);
/* What comes after it sees what was written before it. */
void launch_barrier(VkCommandBuffer commands);

/* A compute pipeline of one shader, whose push constants are `push` bytes; `sets` may be VK_NULL_HANDLE. */
typedef struct {
  VkPipelineLayout layout;
  VkPipeline pipeline;
} program;
program compute_program(VkDevice device, const uint32_t *spirv, size_t bytes, uint32_t push,
                        VkDescriptorSetLayout sets);
void program_destroy(VkDevice device, program *p);
VkShaderModule shader_module(VkDevice device, const uint32_t *spirv, size_t bytes);

/* A context, and in it the device that `wish` names (weir_device_find). */
weir_context start_context(const char *wish, weir_device *device);
/* The size of pages for a small pool: 64 KiB, or what the device's granules ask for. */
uint64_t small_page(weir_context context, weir_device device);

#endif
