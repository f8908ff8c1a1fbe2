// SPDX-License-Identifier: Apache-2.0
//
// One started backend. The members end in reverse order: fences and streams first, which finish their work, then memory,
// and the context last.
#pragma once

#include "backends/opencl/copies.hpp"
#include "backends/opencl/devices.hpp"
#include "backends/opencl/fences.hpp"
#include "backends/opencl/memory.hpp"
#include "backends/opencl/streams.hpp"
#include "backends/opencl/usage.hpp"

#include <memory>

namespace weir::opencl {

struct Running {
  explicit Running(const Platform &platform)
      : usage(platform),
        memory(platform, usage),
        streams(platform),
        fences(platform),
        copies(memory) {}

  Usage usage;
  Memory memory;
  Streams streams;
  Fences fences;
  Copies copies;
};

}  // namespace weir::opencl

struct weir_be_state {
  weir::opencl::Platform platform;
  std::unique_ptr<weir::opencl::Running> running;  // made once the platform has started
  weir_log_callback log = nullptr;
  void *log_user = nullptr;
};
