// SPDX-License-Identifier: Apache-2.0
//
// What a device says of itself, what it can do, and when it is lost. Which devices are taken is platform.cpp's.

#include "backends/opencl/devices.hpp"

#include "backends/opencl/errors.hpp"
#include "backends/opencl/inquiry.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>

namespace weir::opencl {
namespace {

/// `list` is words with blanks between them.
bool has_word(const std::string &list, const std::string &word) {
  return (' ' + list + ' ').find(' ' + word + ' ') != std::string::npos;
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

std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return std::isprint(c) == 0; }, '?');
  const size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? "OpenCL device" : text.substr(first);
}

/// "OpenCL 2.0 ..." and later.
bool is_version_2(const std::string &text) {
  int major = 0, minor = 0;
  return std::sscanf(text.c_str(), "OpenCL %d.%d", &major, &minor) == 2 && major >= 2;
}

}  // namespace

void Platform::measure(cl_device_id handle, Device *device) const {
  const auto get = api_.clGetDeviceInfo;
  device->handle = handle;
  device->name = printable(ask_text(get, handle, CL_DEVICE_NAME));
  (void)ask(get, handle, CL_DEVICE_TYPE, &device->type);
  cl_ulong memory = 0, largest = 0;
  (void)ask(get, handle, CL_DEVICE_GLOBAL_MEM_SIZE, &memory);
  (void)ask(get, handle, CL_DEVICE_MAX_MEM_ALLOC_SIZE, &largest);
  device->memory = options_.memory != 0 ? std::min<uint64_t>(memory, options_.memory) : memory;
  device->largest = largest;
  cl_bool unified = CL_FALSE;
  device->integrated =
      ask(get, handle, CL_DEVICE_HOST_UNIFIED_MEMORY, &unified) && unified == CL_TRUE;

  const std::string extensions = ask_text(get, handle, CL_DEVICE_EXTENSIONS);
  cl_device_unified_shared_memory_capabilities_intel able = 0;
  if (has_word(extensions, "cl_intel_unified_shared_memory")) {
    device->usm = ask(get, handle, CL_DEVICE_DEVICE_MEM_CAPABILITIES_INTEL, &able) &&
                  (able & CL_UNIFIED_SHARED_MEMORY_ACCESS_INTEL) != 0;
    device->host_usm = ask(get, handle, CL_DEVICE_HOST_MEM_CAPABILITIES_INTEL, &able) &&
                       (able & CL_UNIFIED_SHARED_MEMORY_ACCESS_INTEL) != 0;
  }
  cl_device_svm_capabilities svm = 0;
  device->svm = ask(get, handle, CL_DEVICE_SVM_CAPABILITIES, &svm) &&
                (svm & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER) != 0;
  if (!is_version_2(ask_text(get, handle, CL_DEVICE_VERSION))) device->usm = device->svm = false;

  if (has_word(extensions, "cl_khr_device_uuid"))
    (void)get(handle, CL_DEVICE_UUID_KHR, sizeof device->uuid, device->uuid, nullptr);
  cl_device_pci_bus_info_khr pci{};
  if (has_word(extensions, "cl_khr_pci_bus_info") &&
      ask(get, handle, CL_DEVICE_PCI_BUS_INFO_KHR, &pci)) {
    std::snprintf(device->pci, sizeof device->pci, "%04x:%02x:%02x.%x", pci.pci_domain, pci.pci_bus,
                  pci.pci_device, pci.pci_function);
  }
}

weir_result Platform::check_device(uint32_t device) const noexcept {
  if (device < devices_.size()) return WEIR_SUCCESS;
  return refuse(WEIR_ERROR_INVALID_ARGUMENT, "device %u of %zu", device, devices_.size());
}

uint64_t Platform::capabilities(uint32_t device) const noexcept {
  // Queues may be used by several threads at once, and a copy takes any memory of the host.
  uint64_t able = WEIR_CAP_HOST_CALL | WEIR_CAP_STREAM_ANY_THREAD | WEIR_CAP_NATIVE_MEMORY;
  if (options_.host_register) able |= WEIR_CAP_HOST_REGISTER;
  if (devices_[device].integrated && options_.integrated) able |= WEIR_CAP_INTEGRATED;
  return able;
}

weir_result Platform::refuse_lost(uint32_t device) const noexcept {
  return refuse(WEIR_ERROR_DEVICE_LOST, "device %u (%s) is lost", device,
                devices_[device].name.c_str());
}

weir_result Platform::command_failed(uint32_t device, cl_int status) const noexcept {
  lost_[device].store(true, std::memory_order_release);
  return runtime_refusal(WEIR_ERROR_DEVICE_LOST, status, "a command of device %u ended", device);
}

// CL_OUT_OF_RESOURCES is the answer to a shortage, and to everything after a fault. What tells the two apart is whether the device
// still takes a marker on a queue that is used for nothing else.
weir_result Platform::call_failed(uint32_t device, cl_int code, const char *asked) const noexcept {
  bool gone = means_loss(code);
  if (code == CL_OUT_OF_RESOURCES)
    gone = api_.clEnqueueMarkerWithWaitList(probes_[device], 0, nullptr, nullptr) != CL_SUCCESS ||
           api_.clFlush(probes_[device]) != CL_SUCCESS;
  if (gone) lost_[device].store(true, std::memory_order_release);
  const weir_result result = gone ? WEIR_ERROR_DEVICE_LOST : result_of(code);
  return runtime_refusal(result, code, "%s, device %u", asked, device);
}

void describe(const Platform &platform, uint32_t device, weir_be_device *full) {
  const Device &found = platform.devices()[device];
  full->numa_node = UINT32_MAX;
  full->capabilities = platform.capabilities(device);
  full->memory_total = found.memory;
  std::memcpy(full->name, found.name.data(), std::min(found.name.size(), sizeof full->name - 1));
  std::memcpy(full->uuid, found.uuid, sizeof full->uuid);
  std::memcpy(full->pci_address, found.pci, sizeof full->pci_address);
  if (found.pci[0] != '\0') full->numa_node = numa_node_of(found.pci);
}

// OpenCL tells nothing of links. Between devices nothing is copied directly: a device need not reach another's memory.
void describe_link(const Platform &platform, uint32_t from, uint32_t to, weir_be_link *link) {
  link->direct = 1;
  if (from == to) {
    link->kind = WEIR_LINK_SAME;
    return;
  }
  if (from == WEIR_DEVICE_HOST || to == WEIR_DEVICE_HOST) {
    const Device &device = platform.devices()[from == WEIR_DEVICE_HOST ? to : from];
    link->kind = device.integrated ? WEIR_LINK_MEMORY : WEIR_LINK_PCIE;
    link->hops = 1;
    return;
  }
  link->kind = WEIR_LINK_NONE;
  link->direct = 0;
}

}  // namespace weir::opencl
