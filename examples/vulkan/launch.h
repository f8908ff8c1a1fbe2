/* SPDX-License-Identifier: Apache-2.0
 *
 * launch.h - a program's own VkDevice, which Weir adopts, and its commands on a queue that both use. An acquire's copies are in the queue
 * when it returns, so what is submitted then comes after them; what a release leads to comes after what was submitted before it.
 *
 * One launcher for each stream, used by one thread at a time.
 */
#ifndef WEIR_EXAMPLES_LAUNCH_H
#define WEIR_EXAMPLES_LAUNCH_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <vulkan/vulkan.h>
#include <weir/vulkan.h>
#include <weir/weir.h>

/* Ends the program with a line that says what failed. */
void must(weir_result result, const char *what);
void must_vk(VkResult result, const char *what);
#define MUST(call) must((call), #call)
#define MUST_VK(call) must_vk((call), #call)

enum { LAUNCHES = 8 /* command buffers in flight */ };

/* The program's device, and the one queue of it. Whoever uses the queue holds its lock: Weir's threads too. */
typedef struct {
  VkInstance instance;
  VkPhysicalDevice physical;
  VkDevice device;
  VkQueue queue;
  uint32_t family;
  uint64_t enabled; /* WEIR_VULKAN_* */
  pthread_mutex_t lock;
} engine;

/* Starts Vulkan on the first GPU, or on what there is. The engine stays where it is until its end. */
void engine_start(engine *e);
void engine_finish(engine *e);
/* A context of Weir's in which the engine's device is the one of the backend "vulkan". It ends before the engine. */
weir_context engine_context(engine *e, weir_device *device);

typedef struct {
  engine *engine;
  VkDevice device;
  weir_stream stream; /* the engine's queue, wrapped */
  VkCommandPool pool;
  VkCommandBuffer ring[LAUNCHES];
  VkSemaphore done;  /* a timeline semaphore: how many launches have finished */
  uint64_t launches; /* how many were submitted: Weir reads it, that a fence costs no submission */
} launcher;

/* The launcher stays where it is until its end, and ends after the pools that have used its stream. */
void launcher_start(launcher *l, engine *e, weir_context context, weir_device device);
/* Waits for what was launched, and closes the stream. */
void launcher_finish(launcher *l);

/* A command buffer to record into; it waits on the CPU only if LAUNCHES earlier ones are still running. */
VkCommandBuffer launch_begin(launcher *l);
/* Submits it. */
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

/* The size of pages for a small pool: 64 KiB, or what the device's granules ask for. */
uint64_t small_page(weir_context context, weir_device device);

#endif
