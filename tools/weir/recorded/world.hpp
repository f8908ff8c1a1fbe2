// SPDX-License-Identifier: Apache-2.0
//
// World: the contexts, devices and pools of a recorded program, made again. On the host backend devices are made like those of the
// trace, as many as its pools and streams use; on another its devices take their places, in order. Budgets are the trace's unless
// an option says otherwise.
#pragma once

#include "tools/weir/handles.hpp"
#include "tools/weir/recorded/program.hpp"
#include "tools/weir/replay_options.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace weir::tool::recorded {

/// The options of the context of a host backend that stands in for the trace's. Throws ToolError.
std::string host_options(const Program &program, const ReplayOptions &options, uint32_t context,
                         const std::vector<uint32_t> &devices);

class World {
 public:
  /// Opens the contexts. Throws ToolError.
  World(const Program &program, const ReplayOptions &options);

  weir_context context(uint32_t index) const { return contexts_[index].handle.get(); }
  /// The device that stands for one of the trace, which may be WEIR_DEVICE_HOST and its like. Throws ToolError.
  weir_device device(uint32_t context, uint64_t device) const;
  /// What a device of a pool may hold.
  uint64_t budget(uint64_t recorded) const;
  Pool make_pool(uint32_t pool) const;
  weir_buffer make_buffer(weir_pool pool, uint32_t buffer, weir_client client) const;

 private:
  struct Place {
    Context handle;
    std::map<uint32_t, weir_device> devices;  ///< by the trace's
  };
  void open(uint32_t context, const std::vector<uint32_t> &devices);

  const Program &program_;
  const ReplayOptions &options_;
  std::vector<Place> contexts_;
};

}  // namespace weir::tool::recorded
