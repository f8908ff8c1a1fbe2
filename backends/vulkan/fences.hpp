// SPDX-License-Identifier: Apache-2.0
//
// Fences: a point of a stream's timeline each. A fence's number tells of a place and a generation, so that a dead one is
// refused. Thread-safe.
#pragma once

#include "backends/common/fence_pool.hpp"
#include "backends/vulkan/streams.hpp"

namespace weir::vulkan {

class Fences {
 public:
  explicit Fences(Streams &streams) : streams_(streams), pool_(1) {}
  ~Fences();
  Fences(const Fences &) = delete;
  Fences &operator=(const Fences &) = delete;

  weir_result record(Stream &stream, weir_be_fence *fence);
  weir_result wait(Stream &stream, weir_be_fence fence);
  weir_result poll(weir_be_fence fence) noexcept;
  weir_result finish(weir_be_fence fence, uint64_t timeout_ns) noexcept;
  weir_result destroy(weir_be_fence fence) noexcept;

 private:
  weir_result find(weir_be_fence fence, Point **point) noexcept;

  Streams &streams_;
  common::FencePool<Point *> pool_;
};

}  // namespace weir::vulkan
