// SPDX-License-Identifier: Apache-2.0
//
// What a stream hands to its queue in one submission: commands, what they wait for, and the value that tells that they
// are done. Commands are kept as data and become a command buffer when their turn comes, so that a driver that has no memory
// for it at one time loses nothing.
#pragma once

#include "backends/vulkan/timeline.hpp"

#include <memory>
#include <vector>

namespace weir::vulkan {

/// A copy, or a fill where `source` is none: then region.srcOffset is unused.
struct Command {
  VkBuffer source = VK_NULL_HANDLE;
  VkBuffer destination = VK_NULL_HANDLE;
  VkBufferCopy region{};
  uint32_t pattern = 0;
  bool source_sparse = false, destination_sparse = false;
  bool barrier = false;  ///< what stands before it in the batch must be done
};

struct Batch {
  std::vector<Command> commands;
  std::vector<Point> waits;
  std::shared_ptr<Timeline> timeline;
  uint64_t value = 0;                       ///< what `timeline` reaches when it is done
  VkCommandBuffer buffer = VK_NULL_HANDLE;  ///< the commands, once their turn has come
};

}  // namespace weir::vulkan
