// SPDX-License-Identifier: Apache-2.0
//
// Finding devices. A device that does not answer, or has no queue that can copy, is left out, and that is told:
// nothing could be done with it.

#include "backends/level_zero/devices.hpp"

#include "backends/level_zero/errors.hpp"
#include "backends/level_zero/retry.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace weir::level_zero {
namespace {

constexpr uint64_t smallest_granule = uint64_t{64} << 10U;
constexpr uint64_t page_size_asked = uint64_t{2} << 20U;

/// "0000:3a:00.0"
void write_pci(const abi::PciAddress &address, char (&text)[32]) {
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", address.domain, address.bus, address.device,
                address.function);
}

uint32_t numa_node_of(const char *pci) {
  char path[96];
  std::snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", pci);
  FILE *file = std::fopen(path, "re");
  if (file == nullptr) return UINT32_MAX;
  int node = -1;
  const bool read = std::fscanf(file, "%d", &node) == 1;
  std::fclose(file);
  return read && node >= 0 ? static_cast<uint32_t>(node) : UINT32_MAX;
}

using Groups = std::vector<abi::CommandQueueGroupProperties>;

/// The first group with all of the `wanted` flags and none of the others.
Device::QueueGroup first_group(const Groups &groups, uint32_t wanted, uint32_t unwanted) {
  for (uint32_t i = 0; i < groups.size(); ++i) {
    const uint32_t flags = groups[i].flags;
    if ((flags & wanted) == wanted && (flags & unwanted) == 0 && groups[i].num_queues > 0)
      return {i, groups[i].num_queues};
  }
  return {};
}

/// Streams take the first group that can both copy and compute: they are given to programs too, and a copy-only engine
/// takes no kernel. Streams for copies alone take the first copy-only group, which is the card's main copy engine; it
/// must fill bytes too.
abi::Result find_queue_groups(const Api &api, Device *device) {
  uint32_t count = 0;
  abi::Result result = api.device_get_queue_groups(device->handle, &count, nullptr);
  if (result != abi::success) return result;
  Groups groups(count);
  result = api.device_get_queue_groups(device->handle, &count, groups.data());
  if (result != abi::success) return result;
  groups.resize(count);
  device->copiers = first_group(groups, abi::queue_group_flag_copy, abi::queue_group_flag_compute);
  if (device->copiers.queues != 0 &&
      groups[device->copiers.ordinal].max_memory_fill_pattern_size == 0)
    device->copiers = {};
  // By the specification a compute group can always copy; a driver may forget to say so.
  for (const uint32_t wanted : {abi::queue_group_flag_compute | abi::queue_group_flag_copy,
                                abi::queue_group_flag_compute, abi::queue_group_flag_copy}) {
    device->queues = first_group(groups, wanted, 0);
    if (device->queues.queues != 0) return abi::success;
  }
  return abi::error_unsupported_feature;
}

}  // namespace

Platform::~Platform() {
  if (own_context_) twice([&] { return api_.context_destroy(context_); });
}

weir_result Platform::start(const Options &options, std::string *reason) {
  options_ = options;
  std::vector<abi::Driver> drivers;
  if (!api_.start(&drivers, reason)) return WEIR_ERROR_NOT_SUPPORTED;
  WEIR_BACKEND_TRY(choose_driver(drivers, reason));
  WEIR_BACKEND_TRY(make_context(reason));
  for (Device &device : devices_) {
    const abi::Result result = options_.vmm ? find_pages(&device) : abi::success;
    if (result == abi::success) continue;
    remark("zeVirtualMemQueryPageSize", result, "no virtual-memory management");
    if (result_of(result) == WEIR_ERROR_NOT_SUPPORTED) continue;
    *reason = remarks_.back();
    return result_of(result);
  }
  find_reach();
  if (options_.host_register) find_extension();
  return WEIR_SUCCESS;
}

weir_result Platform::choose_driver(const std::vector<abi::Driver> &drivers, std::string *reason) {
  if (options_.driver != Options::any && options_.driver >= drivers.size()) {
    *reason = "option driver=" + std::to_string(options_.driver) + ": there are " +
              std::to_string(drivers.size()) + " drivers";
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  for (size_t i = 0; i < drivers.size(); ++i) {
    std::vector<Device> gpus = gpus_of(drivers[i]);
    const bool wanted = options_.driver == Options::any || options_.driver == i;
    if (gpus.empty()) continue;
    if (!wanted || !devices_.empty()) {
      remarks_.push_back(std::to_string(gpus.size()) + " GPUs of driver " + std::to_string(i) +
                         " are left out: a state has one driver's (option driver)");
      continue;
    }
    devices_ = std::move(gpus);
    driver_ = drivers[i];
  }
  if (devices_.empty()) {
    *reason = options_.driver == Options::any
                  ? "Level Zero has " + std::to_string(drivers.size()) +
                        " drivers here, but none of them has a GPU"
                  : "Level Zero's driver " + std::to_string(options_.driver) + " has no GPU";
    for (const std::string &remark : remarks_) *reason += "; " + remark;
    return WEIR_ERROR_NOT_SUPPORTED;
  }
  if (api_.driver_get_api_version(driver_, &version_) != abi::success)
    version_ = abi::version(1, 0);
  version_text_ = std::to_string(version_ >> 16U) + "." + std::to_string(version_ & 0xffffU);
  abi::DriverProperties properties;
  if (api_.driver_get_properties(driver_, &properties) == abi::success) {
    char number[32];
    std::snprintf(number, sizeof number, ", driver 0x%08x", properties.driver_version);
    version_text_ += number;
  }
  return WEIR_SUCCESS;
}

weir_result Platform::make_context(std::string *reason) {
  abi::Result result = abi::success;
  if (options_.context != 0) {
    context_ = reinterpret_cast<abi::Context>(static_cast<uintptr_t>(options_.context));
    result = api_.context_get_status(context_);
  } else {
    const abi::ContextDesc description;
    result = api_.context_create(driver_, &description, &context_);
    own_context_ = result == abi::success;
  }
  if (result == abi::success) return WEIR_SUCCESS;
  char text[160];
  std::snprintf(text, sizeof text, "%s failed with %s (0x%x)",
                options_.context != 0 ? "the context given as an option: zeContextGetStatus"
                                      : "zeContextCreate",
                name_of(result), result);
  *reason = text;
  return result_of(result);
}

void Platform::remark(const char *call, abi::Result result, const char *consequence) {
  remarks_.push_back(std::string(call) + " failed with " + name_of(result) + ": " + consequence);
}

std::vector<Device> Platform::gpus_of(abi::Driver driver) {
  uint32_t count = 0;
  abi::Result result = api_.device_get(driver, &count, nullptr);
  std::vector<abi::Device> handles(count);
  if (result == abi::success) result = api_.device_get(driver, &count, handles.data());
  if (result != abi::success) {
    remark("zeDeviceGet", result, "a driver's devices are left out");
    return {};
  }
  handles.resize(count);
  std::vector<Device> gpus;
  for (const abi::Device handle : handles) {
    Device device;
    device.handle = handle;
    result = measure(&device);
    if (result != abi::success) {
      remark("a query of a device", result, "it is left out");
    } else if (device.properties.type == abi::device_type_gpu) {
      gpus.push_back(device);
    }
  }
  return gpus;
}

/// Everything about a GPU that needs no context.
abi::Result Platform::measure(Device *device) const {
  abi::Result result = api_.device_get_properties(device->handle, &device->properties);
  if (result != abi::success || device->properties.type != abi::device_type_gpu) return result;
  result = find_queue_groups(api_, device);
  if (result != abi::success) return result;
  uint32_t count = 0;
  result = api_.device_get_memory_properties(device->handle, &count, nullptr);
  if (result != abi::success) return result;
  std::vector<abi::DeviceMemoryProperties> memories(count);
  result = api_.device_get_memory_properties(device->handle, &count, memories.data());
  for (const auto &memory : memories) device->memory += memory.total_size;
  device->pci_known =
      api_.device_pci != nullptr && api_.device_pci(device->handle, &device->pci) == abi::success;
  return result;
}

// The driver's page size depends on the size asked for: small objects may have small pages, those from 2 MiB on must
// consist of pages of 2 MiB. The ABI has one granule and allows every multiple of it, so the granule is the page
// of a large object.
abi::Result Platform::find_pages(Device *device) const {
  const auto page_of = [&](uint64_t size, uint64_t *page) {
    size_t answer = 0;
    const abi::Result result = api_.virtual_page_size(context_, device->handle, size, &answer);
    *page = answer;
    return result;
  };
  uint64_t small = 0, large = 0, largest = 0;
  abi::Result result = page_of(smallest_granule, &small);
  if (result == abi::success) result = page_of(page_size_asked, &large);
  if (result != abi::success) return result;
  const uint64_t granule = std::max({smallest_granule, small, large});
  const uint64_t wished = options_.granule_large;
  if (wished > granule && wished % granule == 0 && wished <= device->memory) {
    result = page_of(wished, &largest);
    if (result != abi::success) return result;
    if (largest != 0 && wished % largest == 0) device->granule_large = wished;
  }
  device->granule = granule;
  return abi::success;
}

/// Tiles of one card are devices at one PCI address.
bool Platform::same_card(size_t a, size_t b) const noexcept {
  const Device &one = devices_[a], &other = devices_[b];
  if (!one.pci_known || !other.pci_known) return false;
  const abi::PciAddress &x = one.pci.address, &y = other.pci.address;
  return x.domain == y.domain && x.bus == y.bus && x.device == y.device && x.function == y.function;
}

// Intel's driver remembers what another card imported by the address at which it was mapped, and forgets it with the
// reservation, not when it is unmapped: once another granule is mapped there, that card still reads and writes the first.
// And the other card has it at another address than the owner. Until two cards have shown otherwise, what is mapped is
// reached by tiles of its own card only (docs/level-zero.md).
bool Platform::trusts_reach(size_t from, size_t to) const noexcept {
  const bool mapped = devices_[from].granule != 0 || devices_[to].granule != 0;
  return options_.peer_cards || !mapped || same_card(from, to);
}

void Platform::find_reach() {
  const size_t count = devices_.size();
  reach_.assign(count * count, false);
  if (!options_.peer) return;
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = 0; j < count; ++j) {
      abi::Bool able = 0;
      const bool answered =
          i != j && api_.device_can_access_peer(devices_[i].handle, devices_[j].handle, &able) ==
                        abi::success;
      reach_[i * count + j] = answered && able != 0 && trusts_reach(i, j);
    }
  }
}

// The loader wraps handles when it serves several drivers, and functions that a driver gives out itself do not
// know the wrapping.
void Platform::find_extension() {
  void *native = driver_;
  if (api_.translate_handle != nullptr &&
      api_.translate_handle(abi::loader_handle_driver, driver_, &native) != abi::success) {
    return;
  }
  void *import = nullptr, *release = nullptr;
  const auto find = [&](const char *name, void **function) {
    return api_.driver_get_extension_function_address(driver_, name, function) == abi::success &&
           *function != nullptr;
  };
  if (!find("zexDriverImportExternalPointer", &import) ||
      !find("zexDriverReleaseImportedPointer", &release)) {
    return;
  }
  native_driver_ = static_cast<abi::Driver>(native);
  std::memcpy(&import_, &import, sizeof import);
  std::memcpy(&release_, &release, sizeof release);
}

weir_result Platform::check_device(uint32_t device) const noexcept {
  if (device < devices_.size()) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "device %u of %zu", device, devices_.size());
}

uint64_t Platform::capabilities(uint32_t device) const noexcept {
  uint64_t able = WEIR_CAP_HOST_CALL;
  if (devices_[device].granule != 0) able |= WEIR_CAP_VMM | WEIR_CAP_MAP_RUN;
  if (options_.transfer_stream && devices_[device].copiers.queues != 0)
    able |= WEIR_CAP_TRANSFER_STREAM;
  if (import_ != nullptr) able |= WEIR_CAP_HOST_REGISTER;
  if (devices_[device].integrated()) able |= WEIR_CAP_INTEGRATED;
  for (uint32_t peer = 0; peer < devices_.size(); ++peer) {
    if (peer != device && reaches(device, peer)) able |= WEIR_CAP_PEER;
  }
  // Reservations and physical memory meet in the context, and what is mapped is reached by all that reach its device.
  constexpr uint64_t needed = WEIR_CAP_VMM | WEIR_CAP_PEER;
  if ((able & needed) == needed) able |= WEIR_CAP_ACCESS_LATER;
  if (options_.shared_range && (able & needed) == needed) able |= WEIR_CAP_SHARED_RANGE;
  return able;
}

void describe(const Platform &platform, uint32_t device, weir_be_device *full) {
  const Device &found = platform.devices()[device];
  full->numa_node = UINT32_MAX;
  full->capabilities = platform.capabilities(device);
  full->memory_total = found.memory;
  full->granule = found.granule;
  full->granule_large = found.granule_large;
  const size_t length = strnlen(found.properties.name, sizeof found.properties.name);
  std::memcpy(full->name, found.properties.name, std::min(length, sizeof full->name - 1));
  std::memcpy(full->uuid, found.properties.uuid, sizeof full->uuid);
  if (!found.pci_known) return;
  write_pci(found.pci.address, full->pci_address);
  full->numa_node = numa_node_of(full->pci_address);
}

}  // namespace weir::level_zero
