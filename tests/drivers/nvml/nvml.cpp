// SPDX-License-Identifier: Apache-2.0
//
// A simulated NVML: the few calls that tell what joins the devices of the simulated libcuda. It reads WEIR_SIM by itself,
// `devices` and `links` only, at each first nvmlInit: the two libraries know nothing of each other, as the vendor's
// do. Linked devices have two NVLinks of the fourth generation between them.

#include "backends/cuda/abi.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#define WEIR_SIM_NVML_EXPORT extern "C" __attribute__((visibility("default")))

namespace nvml = weir::cuda::nvml;
using nvml::Result;

namespace weir::cuda::nvml {

struct DeviceObject {
  unsigned index = 0;
  std::vector<unsigned> links;  ///< the device at the far end of each
};

}  // namespace weir::cuda::nvml

namespace {

using Device = nvml::DeviceObject;

constexpr unsigned first_bus = 0x10;  // as the simulated libcuda says
constexpr unsigned links_per_pair = 2;
constexpr unsigned link_speed = 26562;  // MB/s one way, of the fourth generation
constexpr unsigned most_devices = 64;

struct Library {
  std::mutex mutex;
  unsigned holds = 0;  // guarded by mutex
  std::array<Device, most_devices> devices;
  unsigned count = 0;
};

Library &library() {
  static Library one;
  return one;
}

/// The value of a key of WEIR_SIM.
std::string option(std::string_view key, std::string_view otherwise) {
  const char *text = std::getenv("WEIR_SIM");
  std::string_view rest = text != nullptr ? text : "";
  std::string found(otherwise);
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    const size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == key) {
      found = pair.substr(equals + 1);
    }
  }
  return found;
}

bool joined(const std::string &links, unsigned count, unsigned a, unsigned b) {
  const unsigned apart = a > b ? a - b : b - a;
  if (apart == 0) return false;
  return links == "nvlink" || (links == "ring" && (apart == 1 || apart == count - 1));
}

void build(Library &all) {
  const std::string links = option("links", "pcie");
  const unsigned long devices = std::strtoul(option("devices", "1").c_str(), nullptr, 10);
  all.count = devices < most_devices ? static_cast<unsigned>(devices) : most_devices;
  for (unsigned a = 0; a < all.count; ++a) {
    Device &device = all.devices[a];
    device.index = a;
    device.links.clear();
    for (unsigned b = 0; b < all.count; ++b) {
      for (unsigned i = 0; i < links_per_pair && joined(links, all.count, a, b); ++i) {
        if (device.links.size() < nvml::links_at_most) device.links.push_back(b);
      }
    }
  }
}

/// The device if it is one, and the library is in use.
Result living(nvml::Device device) {
  Library &all = library();
  const std::lock_guard hold(all.mutex);
  if (all.holds == 0) return nvml::uninitialized;
  for (unsigned i = 0; i < all.count; ++i) {
    if (&all.devices[i] == device) return nvml::success;
  }
  return nvml::invalid_argument;
}

Result link_of(nvml::Device device, unsigned link, const void *out) {
  const Result result = living(device);
  if (result != nvml::success) return result;
  if (device->links.empty()) return nvml::not_supported;
  return out != nullptr && link < device->links.size() ? nvml::success : nvml::invalid_argument;
}

Result number(nvml::Device device, unsigned *out, unsigned value) {
  const Result result = living(device);
  if (result != nvml::success) return result;
  if (out == nullptr) return nvml::invalid_argument;
  *out = value;
  return nvml::success;
}

void give_field(const Device &device, nvml::FieldValue *value) {
  value->timestamp = value->latency_us = 0;
  value->value_type = nvml::value_uint;
  value->value.as_uint = 0;
  value->result = nvml::not_supported;
  if (value->field == nvml::field_nvlink_speed && value->scope < device.links.size()) {
    value->value.as_uint = link_speed;
    value->result = nvml::success;
  } else if (value->field == nvml::field_c2c_link_count) {
    value->result = nvml::success;
  }
}

}  // namespace

WEIR_SIM_NVML_EXPORT nvml::fn::nvmlInit_v2 nvmlInit_v2;
WEIR_SIM_NVML_EXPORT nvml::fn::nvmlShutdown nvmlShutdown;
WEIR_SIM_NVML_EXPORT nvml::fn::nvmlErrorString nvmlErrorString;
WEIR_SIM_NVML_EXPORT nvml::fn::nvmlDeviceGetHandleByPciBusId_v2 nvmlDeviceGetHandleByPciBusId_v2;
WEIR_SIM_NVML_EXPORT nvml::fn::nvmlDeviceGetNvLinkState nvmlDeviceGetNvLinkState;
WEIR_SIM_NVML_EXPORT nvml::fn::nvmlDeviceGetNvLinkVersion nvmlDeviceGetNvLinkVersion;
WEIR_SIM_NVML_EXPORT nvml::fn::nvmlDeviceGetNvLinkRemotePciInfo_v2
    nvmlDeviceGetNvLinkRemotePciInfo_v2;
WEIR_SIM_NVML_EXPORT nvml::fn::nvmlDeviceGetNvLinkRemoteDeviceType
    nvmlDeviceGetNvLinkRemoteDeviceType;
WEIR_SIM_NVML_EXPORT nvml::fn::nvmlDeviceGetFieldValues nvmlDeviceGetFieldValues;
WEIR_SIM_NVML_EXPORT nvml::fn::nvmlDeviceGetCurrPcieLinkGeneration
    nvmlDeviceGetCurrPcieLinkGeneration;
WEIR_SIM_NVML_EXPORT nvml::fn::nvmlDeviceGetCurrPcieLinkWidth nvmlDeviceGetCurrPcieLinkWidth;
WEIR_SIM_NVML_EXPORT nvml::fn::nvmlDeviceGetMaxPcieLinkGeneration
    nvmlDeviceGetMaxPcieLinkGeneration;
WEIR_SIM_NVML_EXPORT nvml::fn::nvmlDeviceGetMaxPcieLinkWidth nvmlDeviceGetMaxPcieLinkWidth;

Result nvmlInit_v2() {
  Library &all = library();
  const std::lock_guard hold(all.mutex);
  if (all.holds++ == 0) build(all);
  return nvml::success;
}

Result nvmlShutdown() {
  Library &all = library();
  const std::lock_guard hold(all.mutex);
  if (all.holds == 0) return nvml::uninitialized;
  --all.holds;
  return nvml::success;
}

const char *nvmlErrorString(Result result) {
  switch (result) {
    case nvml::success:
      return "success";
    case nvml::uninitialized:
      return "not initialized";
    case nvml::invalid_argument:
      return "invalid argument";
    case nvml::not_supported:
      return "not supported";
    case nvml::not_found:
      return "not found";
    default:
      return "unknown error";
  }
}

Result nvmlDeviceGetHandleByPciBusId_v2(const char *pci_address, nvml::Device *device) {
  Library &all = library();
  const std::lock_guard hold(all.mutex);
  if (all.holds == 0) return nvml::uninitialized;
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned slot = 0;
  if (pci_address == nullptr || device == nullptr ||
      std::sscanf(pci_address, "%x:%x:%x", &domain, &bus, &slot) != 3) {
    return nvml::invalid_argument;
  }
  if (domain != 0 || slot != 0 || bus < first_bus || bus - first_bus >= all.count) {
    return nvml::not_found;
  }
  *device = &all.devices[bus - first_bus];
  return nvml::success;
}

Result nvmlDeviceGetNvLinkState(nvml::Device device, unsigned link, int *active) {
  const Result result = link_of(device, link, active);
  if (result == nvml::success) *active = nvml::feature_enabled;
  return result;
}

Result nvmlDeviceGetNvLinkVersion(nvml::Device device, unsigned link, unsigned *version) {
  const Result result = link_of(device, link, version);
  if (result == nvml::success) *version = nvml::nvlink_4_0;
  return result;
}

Result nvmlDeviceGetNvLinkRemotePciInfo_v2(nvml::Device device, unsigned link,
                                           nvml::PciInfo *remote) {
  const Result result = link_of(device, link, remote);
  if (result != nvml::success) return result;
  *remote = nvml::PciInfo{};
  remote->bus = first_bus + device->links[link];
  std::snprintf(remote->legacy_id, sizeof remote->legacy_id, "0000:%02X:00.0", remote->bus & 0xFFU);
  std::snprintf(remote->id, sizeof remote->id, "00000000:%02X:00.0", remote->bus & 0xFFU);
  return nvml::success;
}

Result nvmlDeviceGetNvLinkRemoteDeviceType(nvml::Device device, unsigned link, int *type) {
  const Result result = link_of(device, link, type);
  if (result == nvml::success) *type = nvml::remote_gpu;
  return result;
}

Result nvmlDeviceGetFieldValues(nvml::Device device, int count, nvml::FieldValue *values) {
  const Result result = living(device);
  if (result != nvml::success) return result;
  if (count < 0 || values == nullptr) return nvml::invalid_argument;
  for (int i = 0; i < count; ++i) give_field(*device, &values[i]);
  return nvml::success;
}

Result nvmlDeviceGetCurrPcieLinkGeneration(nvml::Device device, unsigned *generation) {
  return number(device, generation, 5);
}
Result nvmlDeviceGetCurrPcieLinkWidth(nvml::Device device, unsigned *width) {
  return number(device, width, 16);
}
Result nvmlDeviceGetMaxPcieLinkGeneration(nvml::Device device, unsigned *generation) {
  return number(device, generation, 5);
}
Result nvmlDeviceGetMaxPcieLinkWidth(nvml::Device device, unsigned *width) {
  return number(device, width, 16);
}
