// SPDX-License-Identifier: Apache-2.0
//
// What a stream is to the program: the queue that its work goes to, how that is locked, and the semaphore that tells of it.
// stream_native gives one, which lives as long as the stream; stream_wrap knows one again by its semaphore.
#pragma once

#include "backends/vulkan/api.hpp"

#include <cstdint>

namespace weir::vulkan {

struct NativeQueue {
  uint32_t struct_size = 0;
  uint32_t family = 0;
  VkDevice device = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  VkSemaphore semaphore = VK_NULL_HANDLE;  ///< a timeline semaphore
  /// Held by whoever uses the queue.
  void (*lock)(void *user) = nullptr;
  void (*unlock)(void *user) = nullptr;
  void *user = nullptr;
};

}  // namespace weir::vulkan
