// SPDX-License-Identifier: Apache-2.0
//
// The streams of a state, behind handles. A stream that is destroyed finishes its work by itself and is ended by a later call.
// A wrapper of a stream of this state is that stream by another handle.
#pragma once

#include "backends/common/handle_table.hpp"
#include "backends/vulkan/platform.hpp"
#include "backends/vulkan/stream.hpp"

#include <list>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace weir::vulkan {

class Streams {
 public:
  explicit Streams(Platform &platform) noexcept : platform_(platform) {}
  /// Waits for all work to finish and ends the streams.
  ~Streams();
  Streams(const Streams &) = delete;
  Streams &operator=(const Streams &) = delete;

  weir_result create(uint32_t device, uint64_t flags, weir_be_stream *stream);
  weir_result wrap(uint32_t device, void *native, weir_be_stream *stream);
  weir_result destroy(weir_be_stream stream);
  /// INVALID_ARGUMENT if there is no such stream.
  weir_result find(weir_be_stream stream, std::shared_ptr<Stream> *found);
  /// Tries again what a driver failed at, wherever that was.
  void nudge() noexcept;

 private:
  struct Handle {
    std::shared_ptr<Stream> stream;
    bool owner = false;
  };

  void end_finished() noexcept;
  std::vector<std::shared_ptr<Stream>> all();

  Platform &platform_;
  std::shared_mutex mutex_;
  common::HandleTable<Handle> handles_;
  std::list<std::shared_ptr<Stream>> parked_;  ///< destroyed, and perhaps not done
};

}  // namespace weir::vulkan
