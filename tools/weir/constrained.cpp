// SPDX-License-Identifier: Apache-2.0
//
// From options and settings to a machine's description.
#include "constrained.hpp"

namespace weir::tool {

WeirMachineDesc constrained_machine(const ReplayOptions &options, const Settings &settings) {
  WeirMachineDesc desc;
  desc.context_options = settings.context_options;
  desc.backend = options.backend;
  desc.contents = options.verify;
  desc.page = settings.page;
  desc.device_budget = settings.device_budget;
  desc.neighbour_budget = settings.neighbour_budget;
  desc.host_budget = settings.host_budget;
  desc.policy = options.policy;
  LowerTiers &lower = desc.lower;
  lower.compressed_budget = settings.compressed_budget;
  lower.storage_budget = settings.storage_budget;
  lower.storage = options.storage;
  lower.codec = options.codec;
  lower.compress_threads = options.compress_threads;
  if (options.encrypt_storage) lower.flags |= WEIR_POOL_ENCRYPT_STORAGE;
  if (options.buffered_storage) lower.flags |= WEIR_POOL_BUFFERED_STORAGE;
  if (!options.io_uring) lower.flags |= WEIR_POOL_NO_IO_URING;
  return desc;
}

}  // namespace weir::tool
