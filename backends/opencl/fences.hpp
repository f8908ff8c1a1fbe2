// SPDX-License-Identifier: Apache-2.0
//
// Fences: the event of a marker each. A fence's number is a slot of the pool and a generation, so that a dead one is
// refused. Finding and asking take no lock. Thread-safe.
#pragma once

#include "backends/common/fence_pool.hpp"
#include "backends/opencl/streams.hpp"

#include <atomic>

namespace weir::opencl {

class Fences {
 public:
  explicit Fences(const Platform &platform)
      : platform_(platform), pool_(static_cast<uint32_t>(platform.devices().size())) {}
  ~Fences();
  Fences(const Fences &) = delete;
  Fences &operator=(const Fences &) = delete;

  weir_result record(Stream &stream, weir_be_fence *fence);
  weir_result wait(Stream &stream, weir_be_fence fence) noexcept;
  weir_result poll(weir_be_fence fence) noexcept;
  weir_result finish(weir_be_fence fence, uint64_t timeout_ns) noexcept;
  weir_result destroy(weir_be_fence fence) noexcept;

 private:
  /// Stays in its slot; the event changes with each fence that lives there.
  struct Mark {
    std::atomic<cl_event> event{nullptr};
    std::atomic<bool> passed{false};
    std::atomic<uint64_t> recorder{0};  ///< the stream's id
  };

  weir_result find(weir_be_fence fence, Mark **mark, uint32_t *device) noexcept;
  weir_result poll(Mark &mark, uint32_t device) noexcept;

  const Platform &platform_;
  common::FencePool<Mark *> pool_;
};

}  // namespace weir::opencl
