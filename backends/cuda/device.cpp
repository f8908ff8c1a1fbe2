// SPDX-License-Identifier: Apache-2.0
//
// What a device is, by attributes, and where attributes are not enough, by trying.

#include "backends/cuda/device.hpp"

#include "backends/cuda/context.hpp"
#include "backends/cuda/fault.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace weir::cuda {
namespace {

/// "0000:17:00.0" as the system writes it: lower case, a domain of four digits.
bool normal_pci_address(const char *text, char *out, size_t size) noexcept {
  unsigned domain = 0, bus = 0, device = 0, function = 0;
  if (std::sscanf(text, "%x:%x:%x.%x", &domain, &bus, &device, &function) < 3) return false;
  std::snprintf(out, size, "%04x:%02x:%02x.%x", domain, bus, device, function);
  return true;
}

uint32_t numa_node_of(const char *pci_address) noexcept {
  char path[96];
  std::snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", pci_address);
  std::FILE *file = std::fopen(path, "re");
  if (file == nullptr) return UINT32_MAX;
  int node = -1;
  const bool read = std::fscanf(file, "%d", &node) == 1;
  std::fclose(file);
  return read && node >= 0 ? static_cast<uint32_t>(node) : UINT32_MAX;
}

/// The first version whose driver (release 590) is not among those that batches are reported to crash and to hang.
constexpr int batches_trusted_since = 13010;

/// Whether another answer is to be hoped for with a context. These speak of what was asked for.
bool may_want_context(abi::Result result) noexcept {
  switch (result) {
    case abi::result::success:
    case abi::result::invalid_value:
    case abi::result::out_of_memory:
    case abi::result::not_permitted:
    case abi::result::not_supported:
      return false;
    default:
      return true;
  }
}

}  // namespace

Device::~Device() { release(); }

int Device::attribute_or(int attribute, int fallback) const noexcept {
  int value = fallback;
  const bool known = api_.cuDeviceGetAttribute(&value, attribute, handle_) == abi::result::success;
  return known ? value : fallback;
}

weir_result Device::open(abi::Device handle) {
  handle_ = handle;
  char pci[32] = "";
  const auto failed = [&](abi::Result result, const char *call) {
    return failure(api_, nullptr, result, "%s of device %u", call, index_);
  };
  abi::Result result = api_.cuDeviceGetName(name_, sizeof name_, handle_);
  if (result != abi::result::success) return failed(result, "cuDeviceGetName");
  result = api_.cuDeviceGetUuid(&uuid_, handle_);
  if (result != abi::result::success) return failed(result, "cuDeviceGetUuid");
  result = api_.cuDeviceTotalMem(&memory_total_, handle_);
  if (result != abi::result::success) return failed(result, "cuDeviceTotalMem");
  result = api_.cuDeviceGetPCIBusId(pci, sizeof pci, handle_);
  if (result != abi::result::success) return failed(result, "cuDeviceGetPCIBusId");
  if (!normal_pci_address(pci, pci_address_, sizeof pci_address_)) {
    std::snprintf(pci_address_, sizeof pci_address_, "%s", pci);
  }
  int unified = 0;
  result = api_.cuDeviceGetAttribute(&unified, abi::attribute::unified_addressing, handle_);
  if (result != abi::result::success) return failed(result, "cuDeviceGetAttribute");
  if (unified == 0) {
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "device %u has no unified addressing", index_);
  }
  // The driver has copies of any stream done by copy engines.
  capabilities_ = WEIR_CAP_STREAM_ANY_THREAD | WEIR_CAP_TRANSFER_STREAM;
  if (options_.host_call && api_.cuLaunchHostFunc != nullptr) capabilities_ |= WEIR_CAP_HOST_CALL;
  if (batches()) capabilities_ |= WEIR_CAP_BATCH_COPY;
  if (options_.host_register && attribute_or(abi::attribute::host_register_supported, 0) != 0) {
    capabilities_ |= WEIR_CAP_HOST_REGISTER;
  }
  if (attribute_or(abi::attribute::integrated, 0) != 0) capabilities_ |= WEIR_CAP_INTEGRATED;
  return open_vmm();
}

// Batches crash and hang on drivers of release 580, and on devices of compute capability 10 and later whatever the driver
// (docs/cuda.md), so there they need the program's word.
bool Device::batches() const noexcept {
  if (api_.cuMemcpyBatchAsync_13000 == nullptr && api_.cuMemcpyBatchAsync_12080 == nullptr)
    return false;
  if (options_.batch_copy_given) return options_.batch_copy;
  return api_.version() >= batches_trusted_since &&
         attribute_or(abi::attribute::compute_capability_major, 10) < 10;
}

/// A call about virtual memory at the start, when there is no context. By the driver's documentation none is needed; should a
/// driver want one all the same, it gets it.
template <class Call>
abi::Result Device::at_start(Call call) noexcept {
  const Relaxed relaxed(api_);
  const abi::Result result = call();
  abi::Context mine = nullptr;
  if (!may_want_context(result) || context(&mine) != WEIR_SUCCESS) return result;
  return in_context(api_, mine, call);
}

// The calls are the driver's to make on any thread, and cost an application's thread no more than a hand-over to a thread of the
// core's for which it waits: so MAP_ANY_THREAD is told.
weir_result Device::open_vmm() {
  int vmm = 0;
  const abi::Result asked =
      api_.cuDeviceGetAttribute(&vmm, abi::attribute::virtual_memory_management_supported, handle_);
  if (asked != abi::result::success) {
    return failure(api_, nullptr, asked, "cuDeviceGetAttribute of device %u", index_);
  }
  mappings_.configure(index_, 0, false, false);
  if (vmm == 0 || !options_.vmm) return WEIR_SUCCESS;
  rdma_ = options_.rdma && attribute_or(abi::attribute::rdma_with_vmm_supported, 0) != 0;
  uint64_t granule = 0;
  const abi::Result result = granularity(abi::handle_none, &granule);
  // The device is of use all the same: its buffers lie in segments of plain memory.
  if (result != abi::result::success || granule == 0) {
    remark_ = "device " + std::to_string(index_) + " is used without virtual-memory management: ";
    remark_ += result == abi::result::success
                   ? "its granularity is 0 bytes"
                   : std::string("cuMemGetAllocationGranularity: ") + api_.name_of(result);
    return WEIR_SUCCESS;
  }
  granule_ = granule;
  const uint64_t large = options_.granule_large;
  if (large > granule_ && large % granule_ == 0 && large <= memory_total_) granule_large_ = large;
  // The driver's documentation wants offset 0, for now.
  mappings_.configure(index_, granule_, options_.multi_map, false);
  capabilities_ |= WEIR_CAP_VMM | WEIR_CAP_MAP_ANY_THREAD;
  if (options_.multi_map) capabilities_ |= WEIR_CAP_MULTI_MAP;
  if (options_.map_run) capabilities_ |= WEIR_CAP_MAP_RUN;
  if (options_.export_fd &&
      attribute_or(abi::attribute::handle_type_file_descriptor_supported, 0) != 0 &&
      comes_in_granules(abi::handle_file_descriptor)) {
    capabilities_ |= WEIR_CAP_EXPORT_FD;
  }
  if (options_.export_fabric && probe_fabric()) capabilities_ |= WEIR_CAP_EXPORT_FABRIC;
  return WEIR_SUCCESS;
}

abi::AllocationProperties Device::memory_properties(int handle_types) const noexcept {
  abi::AllocationProperties properties{};
  properties.type = abi::allocation_pinned;
  properties.handle_types = handle_types;
  properties.location = {abi::location_device, handle_};
  properties.flags.rdma_capable = rdma_ ? 1 : 0;
  return properties;
}

abi::Result Device::granularity(int handle_types, uint64_t *bytes) noexcept {
  const abi::AllocationProperties properties = memory_properties(handle_types);
  size_t unit = 0;
  const abi::Result result = at_start([&] {
    return api_.cuMemGetAllocationGranularity(&unit, &properties, abi::granularity_minimum);
  });
  *bytes = unit;
  return result;
}

// The driver may want another unit for memory that can leave the process.
bool Device::comes_in_granules(int handle_type) noexcept {
  uint64_t unit = 0;
  return granularity(handle_type, &unit) == abi::result::success && unit != 0 &&
         granule_ % unit == 0;
}

// The attribute tells what the device and the driver could do. Whether this process may is known only by trying: without
// access to a channel of the fabric the driver refuses to create such memory.
bool Device::probe_fabric() noexcept {
  if (attribute_or(abi::attribute::handle_type_fabric_supported, 0) == 0) return false;
  if (!comes_in_granules(abi::handle_fabric)) return false;
  const abi::AllocationProperties properties = memory_properties(abi::handle_fabric);
  abi::GranuleHandle probe = 0;
  if (at_start([&] { return api_.cuMemCreate(&probe, granule_, &properties, 0); }) !=
      abi::result::success) {
    return false;
  }
  end_quietly([&] { return at_start([&] { return api_.cuMemRelease(probe); }); });
  return true;
}

weir_result Device::open_peers(const std::vector<abi::Device> &all) {
  reaches_.assign(all.size(), false);
  if (!options_.peer) return WEIR_SUCCESS;
  for (size_t peer = 0; peer < all.size(); ++peer) {
    if (peer == index_) continue;
    int can = 0;
    const abi::Result result = api_.cuDeviceCanAccessPeer(&can, handle_, all[peer]);
    if (result != abi::result::success) {
      return failure(api_, nullptr, result, "cuDeviceCanAccessPeer of devices %u and %zu", index_,
                     peer);
    }
    if (can == 0) continue;
    reaches_[peer] = true;
    capabilities_ |= WEIR_CAP_PEER;
  }
  if (options_.access_later && has(WEIR_CAP_VMM) && has(WEIR_CAP_PEER)) {
    capabilities_ |= WEIR_CAP_ACCESS_LATER;
  }
  // Addresses are the process's, not a device's, and memory mapped there is reached by the devices that access is set for.
  if (options_.shared_range && has(WEIR_CAP_VMM) && has(WEIR_CAP_PEER)) {
    capabilities_ |= WEIR_CAP_SHARED_RANGE;
    mappings_.share_ranges(true);
  }
  return WEIR_SUCCESS;
}

weir_result Device::describe(weir_be_device *description) {
  weir_be_device full{};
  const int node = attribute_or(abi::attribute::host_numa_id, -1);
  full.numa_node = node >= 0 ? static_cast<uint32_t>(node) : numa_node_of(pci_address_);
  full.capabilities = capabilities_;
  full.memory_total = memory_total_;
  full.granule = granule_;
  full.granule_large = granule_large_;
  std::memcpy(full.name, name_, sizeof full.name);
  std::memcpy(full.pci_address, pci_address_, sizeof full.pci_address);
  std::memcpy(full.uuid, uuid_.bytes, sizeof full.uuid);
  *description = full;
  return WEIR_SUCCESS;
}

// Never taken back: the primary context is the application's too, which may rely on the access by now.
weir_result Device::enable_peer(Device &peer) {
  if (!has(WEIR_CAP_PEER)) {
    return refuse(WEIR_ERROR_NOT_SUPPORTED,
                  "device %u reaches no other device, or peers are off (peer=0)", index_);
  }
  if (peer.index_ == index_) return WEIR_SUCCESS;
  if (!reaches(peer.index_)) {
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "device %u does not reach device %u", index_,
                  peer.index_);
  }
  abi::Context mine = nullptr, theirs = nullptr;
  WEIR_BACKEND_TRY(context(&mine));
  WEIR_BACKEND_TRY(peer.context(&theirs));
  const Relaxed relaxed(api_);
  const abi::Result result =
      in_context(api_, mine, [&] { return api_.cuCtxEnablePeerAccess(theirs, 0); });
  if (result == abi::result::success || result == abi::result::peer_access_already_enabled) {
    return WEIR_SUCCESS;
  }
  return failure(api_, mine, result, "cuCtxEnablePeerAccess of devices %u and %u", index_,
                 peer.index_);
}

weir_result Device::memory(uint64_t *free_bytes, uint64_t *total_bytes) {
  abi::Context mine = nullptr;
  WEIR_BACKEND_TRY(context(&mine));
  size_t available = 0, total = 0;
  const abi::Result result =
      in_context(api_, mine, [&] { return api_.cuMemGetInfo(&available, &total); });
  if (result != abi::result::success)
    return failure(api_, mine, result, "cuMemGetInfo of device %u", index_);
  // Under some limits the driver's two totals differ; here there is one.
  *free_bytes = std::min(available, memory_total_);
  *total_bytes = memory_total_;
  return WEIR_SUCCESS;
}

/// Nothing of ours is on the device yet that could be lost with it.
weir_result Device::no_context(abi::Result result) const noexcept {
  const char *reason = result == abi::result::device_unavailable
                           ? ", which another process has in exclusive use, or whose compute mode "
                             "prohibits contexts"
                           : "";
  return failure(api_, nullptr, result, "cuDevicePrimaryCtxRetain of device %u%s", index_, reason);
}

weir_result Device::context(abi::Context *context) {
  abi::Context known = known_context();
  if (known == nullptr) {
    const std::lock_guard lock(retaining_);
    known = known_context();
    if (known == nullptr) {
      const Relaxed relaxed(api_);
      const abi::Result result = api_.cuDevicePrimaryCtxRetain(&known, handle_);
      if (result != abi::result::success) return no_context(result);
      context_.store(known, std::memory_order_release);
    }
  }
  *context = known;
  return WEIR_SUCCESS;
}

void Device::release() noexcept {
  if (context_.exchange(nullptr) == nullptr) return;
  end_quietly([&] { return api_.cuDevicePrimaryCtxRelease(handle_); });
}

}  // namespace weir::cuda
