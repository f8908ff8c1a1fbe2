// SPDX-License-Identifier: Apache-2.0
//
// Discovery through the backend tables, and how a backend's word and the machine's become one answer. How the devices get
// into the machine is in places_merge.cpp.

#include "core/topology/places.hpp"

#include "core/topology/discover.hpp"
#include "core/topology/rehearsal.hpp"

#include <algorithm>

namespace weir::topology {

Status Places::add(backend::Runtime &runtime, uint32_t backend, std::string_view options) {
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
    Status described = runtime.check(
        table.device_describe(runtime.state(), i, &device->description), "device_describe");
    if (described) described = runtime.check_capabilities(device->description);
    if (!described) {
      devices_.resize(before);
      return described;
    }
    devices_.push_back(std::move(device));
  }
  measured_.add(runtime, static_cast<uint32_t>(before), count, options);
  return {};
}

Status Places::prepare(const Settings &settings, std::pmr::string *host_options) {
  rehearse_ = settings.rehearse;
  cache_ = settings.cache && !rehearse_;
  if (settings.file.empty() && !rehearse_) return {};
  auto fresh = make_owned<Machine>(memory_, memory_);
  WEIR_TRY(settings.file.empty() ? discover_system(fresh.get())
                                 : discover_file(settings.file.c_str(), fresh.get()));
  if (rehearse_) WEIR_TRY(rehearsal_options(*fresh, settings.throttle, host_options));
  const Guard hold(mutex_);
  machine_ = std::move(fresh);
  return {};
}

Status Places::complete() {
  if (rehearse_ && std::none_of(devices_.begin(), devices_.end(), [](const auto &device) {
        return std::string_view(device->runtime->name()) == "host";
      }))
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "topology.rehearse=1 needs the host backend");
  const Guard hold(mutex_);
  if (machine_ != nullptr) merge(std::move(machine_));
  return {};
}

/// The system is only looked at for devices that may be found in it. The host, nullptr, is in each.
bool Places::wants_machine(const backend::Device *device) const noexcept {
  return device == nullptr || merged_ || device->description.pci_address[0] != '\0';
}

Machine &Places::machine() {
  if (merged_) return *machine_;
  auto fresh = make_owned<Machine>(memory_, memory_);
  if (!discover_system(fresh.get())) {
    fresh = make_owned<Machine>(memory_, memory_);
    fresh->set_origin("of the system, which hwloc cannot tell");
    fresh->add(PlaceKind::machine, none);
  }
  merge(std::move(fresh));
  return *machine_;
}

/// By the backend that has both ends; of kind NONE between two backends.
Status Places::reported(uint32_t from, uint32_t to, Link *result) const {
  const backend::Device *a = find(from);
  const backend::Device *b = find(to);
  if (a != nullptr && b != nullptr && a->runtime != b->runtime) return {};
  const backend::Device *known = a != nullptr ? a : b;
  weir_be_link link{};
  link.struct_size = sizeof link;
  WEIR_TRY(known->check(
      known->table().link_describe(known->state(), a != nullptr ? a->index : WEIR_DEVICE_HOST,
                                   b != nullptr ? b->index : WEIR_DEVICE_HOST, &link),
      "link_describe"));
  *result = {.kind = link.kind,
             .hops = link.hops,
             .bandwidth = link.bandwidth,
             .latency_ns = link.latency_ns,
             .source = link.bandwidth != 0 ? WEIR_LINK_FIGURE_BACKEND : WEIR_LINK_FIGURE_NONE,
             .direct = link.direct != 0};
  return {};
}

Status Places::link(uint32_t from, uint32_t to, weir_link_info *info) {
  const backend::Device *a = find(from);
  const backend::Device *b = find(to);
  info->shared_with = sharing(a, b);
  if ((a == nullptr && b == nullptr) || from == to) {
    info->kind = WEIR_LINK_SAME;
    info->direct = 1;
    return {};
  }
  load_cache();
  Link link;
  WEIR_TRY(reported(from, to, &link));
  const bool merge = wants_machine(a) && wants_machine(b);
  Reading measured;
  {
    const Guard hold(mutex_);
    if (merge) {
      const Machine &all = machine();
      link = combine(link, all.link(end(from), end(to)).told());
    }
    const auto found = measured_.figures().find({from, to});
    if (found != measured_.figures().end()) measured = found->second;
  }
  const bool known = measured.bandwidth != 0;
  info->kind = link.kind;
  info->bandwidth = known ? measured.bandwidth : link.bandwidth;
  info->latency_ns = known ? measured.latency_ns : link.latency_ns;
  info->hops = link.hops;
  info->direct = link.direct ? 1 : 0;
  info->source = known ? uint32_t{WEIR_LINK_FIGURE_MEASURED} : link.source;
  info->reported_bandwidth = link.bandwidth;
  info->reported_source = link.source;
  return {};
}

bool of_one_card(const backend::Device &a, const backend::Device &b) noexcept {
  return a.id == b.id || (a.backend == b.backend &&
                          same_card(a.description.pci_address, b.description.pci_address));
}

Card Places::card(const backend::Device &device) const noexcept {
  Card card{device.id, 0, 0};
  for (const auto &other : devices_) {
    if (!of_one_card(*other, device)) continue;
    card.parent = std::min(card.parent, other->id);
    card.partition += other->id < device.id ? 1 : 0;
    ++card.partitions;
  }
  return card;
}

uint32_t Places::sharing(const backend::Device *a, const backend::Device *b) const noexcept {
  if (a != nullptr && b != nullptr &&
      same_card(a->description.pci_address, b->description.pci_address))
    return 1;
  const auto of = [this](const backend::Device *end) {
    return end == nullptr ? 1U : card(*end).partitions;
  };
  return a == b ? 1 : std::max(of(a), of(b));
}

uint32_t Places::numa_node(const backend::Device &device) {
  if (device.description.numa_node != UINT32_MAX || !wants_machine(&device))
    return device.description.numa_node;
  const Guard hold(mutex_);
  const Machine &all = machine();
  return all.device(end(device.id)).numa_node;
}

void Places::with_machine(const std::function<void(Machine &)> &use) {
  load_cache();
  const Guard hold(mutex_);
  use(machine());
}

}  // namespace weir::topology
