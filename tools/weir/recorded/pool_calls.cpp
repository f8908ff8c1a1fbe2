// SPDX-License-Identifier: Apache-2.0
//
// One call of the interface each.
#include "tools/weir/recorded/pool_calls.hpp"

#include <algorithm>

namespace weir::tool::recorded {
namespace {

/// The removal had succeeded when it was recorded.
constexpr uint64_t remove_timeout_ns = 60'000'000'000;

void defragment(const World &world, weir_pool pool, uint32_t context, const ProgramCall &call) {
  weir_defragment_desc desc = WEIR_DEFRAGMENT_DESC_INIT;
  desc.device = world.device(context, call.device);
  desc.flags = call.flags;
  desc.max_bytes = call.length;
  desc.max_moves = call.offset;
  desc.max_ns = call.first;
  desc.max_cost_permille = call.count;
  require(weir_pool_defragment(pool, &desc, nullptr), "cannot defragment");
}

}  // namespace

void call_pool(const World &world, weir_pool pool, uint32_t context, const ProgramCall &call) {
  uint64_t bytes = 0;
  switch (call.kind) {
    case CallKind::pool_device: {
      weir_pool_device one = WEIR_POOL_DEVICE_INIT;
      one.device = world.device(context, call.device);
      one.budget = world.budget(call.length);
      return require(weir_pool_add_device(pool, &one), "cannot add a device");
    }
    case CallKind::remove_device:
      return require(
          weir_pool_remove_device(pool, world.device(context, call.device), remove_timeout_ns),
          "cannot remove a device");
    case CallKind::trim:
      return require(
          weir_pool_trim(pool, world.device(context, call.device),
                         static_cast<uint32_t>(std::min<uint64_t>(call.flags, UINT32_MAX)),
                         call.length, &bytes),
          "cannot trim");
    case CallKind::rebalance:
      return require(weir_pool_rebalance(pool, call.length, &bytes), "cannot rebalance");
    case CallKind::defragment:
      return defragment(world, pool, context, call);
    case CallKind::defragmentation: {
      weir_defragmentation_desc desc = WEIR_DEFRAGMENTATION_DESC_INIT;
      desc.threshold_permille = call.thing;
      desc.flags = call.flags;
      desc.bytes_per_second = call.length;
      desc.max_cost_permille = call.count;
      return require(weir_pool_set_defragmentation(pool, &desc), "cannot set defragmentation");
    }
    default:
      return;
  }
}

}  // namespace weir::tool::recorded
