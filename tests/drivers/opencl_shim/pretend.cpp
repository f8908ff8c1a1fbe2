// SPDX-License-Identifier: Apache-2.0
//
// Answers that differ from the loader's: what a device says of itself, and unified shared memory over shared virtual
// memory, for platforms that have only the latter.

#include "tests/drivers/opencl_shim/shim.hpp"

#include <cstring>

namespace weir::opencl_shim {
namespace {

cl_int answer(const void *from, size_t bytes, size_t size, void *value, size_t *needed) {
  if (needed != nullptr) *needed = bytes;
  if (value == nullptr) return CL_SUCCESS;
  if (size < bytes) return CL_INVALID_VALUE;
  std::memcpy(value, from, bytes);
  return CL_SUCCESS;
}
template <class Value>
cl_int answer(Value what, size_t size, void *value, size_t *needed) {
  return answer(&what, sizeof what, size, value, needed);
}
cl_int answer(const std::string &text, size_t size, void *value, size_t *needed) {
  return answer(text.c_str(), text.size() + 1, size, value, needed);
}

std::string text_of_device(cl_device_id device, cl_device_info name) {
  char text[8192] = "";
  (void)Shim::get().real().clGetDeviceInfo(device, name, sizeof text, text, nullptr);
  return text;
}

void without(std::string *words, std::string_view word) {
  const size_t at = words->find(word);
  if (at != words->npos) words->erase(at, word.size());
}

std::string extensions_of(cl_device_id device, const Pretence &pretence) {
  std::string words = text_of_device(device, CL_DEVICE_EXTENSIONS);
  constexpr std::string_view usm = "cl_intel_unified_shared_memory";
  if (pretence.usm >= 0) without(&words, usm);
  if (pretence.usm == 1) words += ' ' + std::string(usm);
  if (pretence.identity) words += " cl_khr_device_uuid cl_khr_pci_bus_info";
  return words;
}

}  // namespace

cl_int platform_ids(cl_uint capacity, cl_platform_id *platforms, cl_uint *count) {
  if (!Shim::get().pretence().platforms) return -1001;  // CL_PLATFORM_NOT_FOUND_KHR
  return Shim::get().real().clGetPlatformIDs(capacity, platforms, count);
}

cl_int device_ids(cl_platform_id platform, cl_device_type type, cl_uint capacity,
                  cl_device_id *devices, cl_uint *count) {
  const cl_int code = Shim::get().real().clGetDeviceIDs(platform, type, capacity, devices, count);
  if (code == CL_SUCCESS && devices != nullptr) Shim::get().list(devices, capacity);
  return code;
}

cl_int device_info(cl_device_id device, cl_device_info name, size_t size, void *value,
                   size_t *needed) {
  const Pretence pretence = Shim::get().pretence();
  const int number = Shim::get().number_of(device);
  switch (name) {
    case CL_DEVICE_EXTENSIONS:
      return answer(extensions_of(device, pretence), size, value, needed);
    case CL_DEVICE_TYPE:
      if (pretence.gpu < 0) break;
      return answer<cl_device_type>(
          pretence.gpu == number ? CL_DEVICE_TYPE_GPU : CL_DEVICE_TYPE_CPU, size, value, needed);
    case CL_DEVICE_VERSION:
      if (pretence.version.empty()) break;
      return answer("OpenCL " + pretence.version + " shim", size, value, needed);
    case CL_DEVICE_SVM_CAPABILITIES:
      if (pretence.svm) break;
      return answer<cl_device_svm_capabilities>(0, size, value, needed);
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
      if (pretence.unified) break;
      return answer<cl_bool>(CL_FALSE, size, value, needed);
    case CL_DEVICE_DEVICE_MEM_CAPABILITIES_INTEL:
    case CL_DEVICE_HOST_MEM_CAPABILITIES_INTEL: {
      const bool none = name == CL_DEVICE_HOST_MEM_CAPABILITIES_INTEL && !pretence.host_usm;
      if (pretence.usm != 1 && !none) break;
      return answer<cl_device_unified_shared_memory_capabilities_intel>(
          none ? 0 : CL_UNIFIED_SHARED_MEMORY_ACCESS_INTEL, size, value, needed);
    }
    case CL_DEVICE_UUID_KHR: {
      if (!pretence.identity) break;
      unsigned char uuid[16];
      std::memset(uuid, number + 1, sizeof uuid);
      return answer(uuid, sizeof uuid, size, value, needed);
    }
    case CL_DEVICE_PCI_BUS_INFO_KHR: {
      if (!pretence.identity) break;
      const cl_device_pci_bus_info_khr pci{0xab, 0x10 + static_cast<cl_uint>(number), 2, 3};
      return answer(pci, size, value, needed);
    }
    default:
      break;
  }
  return Shim::get().real().clGetDeviceInfo(device, name, size, value, needed);
}

cl_int event_info(cl_event event, cl_event_info name, size_t size, void *value, size_t *needed) {
  const cl_int code = Shim::get().real().clGetEventInfo(event, name, size, value, needed);
  if (code == CL_SUCCESS && name == CL_EVENT_COMMAND_EXECUTION_STATUS && value != nullptr) {
    cl_int status = 0;
    std::memcpy(&status, value, sizeof status);
    status = Shim::get().status(status);
    std::memcpy(value, &status, sizeof status);
  }
  return code;
}

}  // namespace weir::opencl_shim
