// SPDX-License-Identifier: Apache-2.0
//
// Discovery through the backend tables.

#include "core/topology/places.hpp"

namespace weir::topology {

Status Places::add(backend::Runtime &runtime, uint32_t backend) {
  const weir_backend_table &table = runtime.table();
  uint32_t count = 0;
  WEIR_TRY(runtime.check(table.device_count(runtime.state(), &count), "device_count"));
  const size_t before = devices_.size();
  devices_.reserve(before + count);
  for (uint32_t i = 0; i < count; ++i) {
    auto device = make_owned<backend::Device>(memory_);
    device->runtime = &runtime;
    device->backend = backend;
    device->index = i;
    device->id = static_cast<uint32_t>(devices_.size());
    device->description.struct_size = sizeof device->description;
    const Status status = runtime.check(
        table.device_describe(runtime.state(), i, &device->description), "device_describe");
    const Status described = status ? runtime.check_capabilities(device->description) : status;
    if (!described) {
      devices_.resize(before);
      return described;
    }
    devices_.push_back(std::move(device));
  }
  return {};
}

Status Places::link(uint32_t from, uint32_t to, weir_link_info *info) const {
  const backend::Device *a = find(from);
  const backend::Device *b = find(to);
  const backend::Device *known = a != nullptr ? a : b;
  if (known == nullptr || from == to) {
    info->kind = WEIR_LINK_SAME;
    info->direct = 1;
    return {};
  }
  if (a != nullptr && b != nullptr && a->runtime != b->runtime) {
    info->kind = WEIR_LINK_NONE;  // only through the host
    return {};
  }
  weir_be_link link{};
  link.struct_size = sizeof link;
  WEIR_TRY(known->check(
      known->table().link_describe(known->state(), a != nullptr ? a->index : WEIR_DEVICE_HOST,
                                   b != nullptr ? b->index : WEIR_DEVICE_HOST, &link),
      "link_describe"));
  info->kind = link.kind;
  info->bandwidth = link.bandwidth;
  info->latency_ns = link.latency_ns;
  info->hops = link.hops;
  info->direct = link.direct;
  return {};
}

}  // namespace weir::topology
