// SPDX-License-Identifier: Apache-2.0
//
// One started backend. The members end in reverse order: streams finish their work first, then memory goes, and the
// devices last.
#pragma once

#include "backends/vulkan/copies.hpp"
#include "backends/vulkan/fences.hpp"
#include "backends/vulkan/memory.hpp"
#include "backends/vulkan/platform.hpp"
#include "backends/vulkan/streams.hpp"
#include "backends/vulkan/virtual_memory.hpp"

#include <memory>

namespace weir::vulkan {

struct Running {
  explicit Running(Platform &platform)
      : memory(platform),
        space(platform, memory),
        streams(platform),
        fences(streams),
        copies(memory, space) {}

  Memory memory;
  VirtualMemory space;
  Streams streams;
  Fences fences;
  Copies copies;
};

}  // namespace weir::vulkan

struct weir_be_state {
  weir::vulkan::Platform platform;
  std::unique_ptr<weir::vulkan::Running> running;  // made once the platform has started
  weir_log_callback log = nullptr;
  void *log_user = nullptr;
};
