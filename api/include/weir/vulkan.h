/* SPDX-License-Identifier: Apache-2.0
 *
 * weir/vulkan.h - what a program that uses Vulkan itself tells the Vulkan backend, and what it can ask of it. Structs and
 * constants only: no header of Vulkan is needed; its dispatchable handles are void * here, the others uint64_t. docs/vulkan.md has the rules.
 *
 *     weir_vulkan_device mine = WEIR_VULKAN_DEVICE_INIT;      (fill in what follows)
 *     weir_native native = {"vulkan", &mine};
 *     desc.natives = &native, desc.native_count = 1;          (weir_context_desc)
 */
#ifndef WEIR_VULKAN_H
#define WEIR_VULKAN_H

#include <weir/types.h>

WEIR_BEGIN_DECLS

/** Kinds of what weir_native.handles points to, of what weir_stream_wrap takes and weir_stream_native gives, and of what weir_native_memory tells. */
enum {
  WEIR_VULKAN_DEVICE = 1, /**< a weir_vulkan_device */
  WEIR_VULKAN_QUEUE = 2,  /**< a weir_vulkan_queue */
  WEIR_VULKAN_BUFFER = 3  /**< a weir_vulkan_buffer */
};

/** Features and extensions that are enabled on a device. */
#define WEIR_VULKAN_BUFFER_DEVICE_ADDRESS UINT64_C(1)  /**< bufferDeviceAddress; must be */
#define WEIR_VULKAN_TIMELINE_SEMAPHORE UINT64_C(2)     /**< timelineSemaphore; must be */
#define WEIR_VULKAN_SPARSE UINT64_C(4)                 /**< sparseBinding and sparseResidencyBuffer: for virtual memory */
#define WEIR_VULKAN_SPARSE_ALIASED UINT64_C(8)         /**< sparseResidencyAliased: one granule at several addresses */
#define WEIR_VULKAN_EXTERNAL_MEMORY_HOST UINT64_C(16)  /**< VK_EXT_external_memory_host: registering host memory */
#define WEIR_VULKAN_EXTERNAL_MEMORY_FD UINT64_C(32)    /**< VK_KHR_external_memory_fd: export */

/** A queue. It is used with its lock held: the program takes the lock around its own calls, Weir around vkQueueSubmit and vkQueueBindSparse. Weir
 *  holds no lock of its own when it takes it, and calls nothing of the program's under it. The program holds it across no call of Weir. */
typedef struct weir_vulkan_queue {
  uint32_t struct_size; /**< sizeof(weir_vulkan_queue) */
  uint32_t kind;        /**< WEIR_VULKAN_QUEUE */
  void *queue;          /**< a VkQueue */
  uint32_t family;      /**< its family's index */
  uint32_t reserved;    /**< 0 */
  void (*lock)(void *user);   /**< NULL, and `unlock` too: only Weir uses the queue */
  void (*unlock)(void *user); /**< ends what `lock` began, on the same thread */
  void *user;                 /**< goes with both; lives as long as the context */
  /** In weir_stream_wrap: 0, or a timeline VkSemaphore of the program's, of which the program's last submission to the queue signals the value that
   *  `value` points to; then a fence costs no submission where nothing of Weir's came after that. Both outlive the wrapper and the leases taken on
   *  it. What weir_stream_native gives has the stream's own semaphore, which the program never signals. */
  uint64_t semaphore;
  const uint64_t *value; /**< read and written atomically; raised after the submission, before its lock is given back */
} weir_vulkan_queue;
#define WEIR_VULKAN_QUEUE_INIT {sizeof(weir_vulkan_queue), WEIR_VULKAN_QUEUE, NULL, 0, 0, NULL, NULL, NULL, 0, NULL}

/** At most so many queues are shared. */
#define WEIR_VULKAN_QUEUES 8

/** The program's own device, in which the backend then works: it is the backend's only one. The objects outlive the context. */
typedef struct weir_vulkan_device {
  uint32_t struct_size;  /**< sizeof(weir_vulkan_device) */
  uint32_t kind;         /**< WEIR_VULKAN_DEVICE */
  void *instance;        /**< a VkInstance of Vulkan 1.2 or later */
  void *physical_device; /**< a VkPhysicalDevice of it */
  void *device;          /**< a VkDevice of that */
  uint64_t enabled;      /**< WEIR_VULKAN_* that were enabled when it was made: Vulkan has no query for it */
  uint32_t queue_count;  /**< of `queues`, at least one */
  uint32_t reserved;     /**< 0 */
  /** Queues that Weir may use. Buffers are made for the families of all of them. `semaphore` and `value` are 0 and NULL. */
  weir_vulkan_queue queues[WEIR_VULKAN_QUEUES];
} weir_vulkan_device;

/** What an address lies in. */
typedef struct weir_vulkan_buffer {
  uint32_t struct_size; /**< sizeof(weir_vulkan_buffer) */
  uint32_t reserved;
  uint64_t buffer;      /**< a VkBuffer */
  uint64_t offset;      /**< from its beginning to the address that was asked about */
  uint64_t bytes;       /**< from there to the end of what the backend made there */
  void *device;         /**< the VkDevice that it is of */
} weir_vulkan_buffer;
#define WEIR_VULKAN_BUFFER_INIT {sizeof(weir_vulkan_buffer), 0, 0, 0, 0, NULL}

WEIR_END_DECLS
#endif /* WEIR_VULKAN_H */
