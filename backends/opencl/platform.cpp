// SPDX-License-Identifier: Apache-2.0
//
// Which platform and devices a state has. A CPU stands behind everything else: Weir would move bytes between the host's
// memory and the host's memory. Every way in which a machine can be without OpenCL ends here, with a sentence.

#include "backends/common/signals.hpp"
#include "backends/opencl/devices.hpp"
#include "backends/opencl/errors.hpp"
#include "backends/opencl/inquiry.hpp"

#include <algorithm>
#include <cstdio>

namespace weir::opencl {
namespace {

constexpr cl_int no_platform = -1001;  // of cl_khr_icd

std::string told(const char *call, cl_int code) {
  return std::string(call) + " failed with " + name_of(code) + " (" + std::to_string(code) + ')';
}

std::string counted(size_t count, const char *what) {
  return std::to_string(count) + ' ' + what + (count == 1 ? "" : "s");
}

bool is_cpu(const Device &device) { return (device.type & CL_DEVICE_TYPE_CPU) != 0; }

constexpr const char *insufficient =
    "has neither cl_intel_unified_shared_memory nor coarse-grained shared virtual memory (SVM), or "
    "no OpenCL 2.0";

}  // namespace

Platform::~Platform() {
  for (const cl_command_queue probe : probes_)
    twice([&] { return api_.clReleaseCommandQueue(probe); });
  if (context_ != nullptr) twice([&] { return api_.clReleaseContext(context_); });
}

weir_result Platform::start(const Options &options, std::string *reason) {
  options_ = options;
  // A driver starts its threads here; signals are for the program's own.
  const common::SignalsBlocked blocked;
  if (!api_.open(options_.library, reason)) return WEIR_ERROR_NOT_SUPPORTED;
  if (options_.context != 0) {
    WEIR_BACKEND_TRY(adopt(reason));
  } else {
    std::vector<Found> found;
    WEIR_BACKEND_TRY(find_platforms(&found, reason));
    WEIR_BACKEND_TRY(choose(found, reason));
    WEIR_BACKEND_TRY(make_context(reason));
  }
  name_version(platform_);
  return make_probes(reason);
}

weir_result Platform::find_platforms(std::vector<Found> *found, std::string *reason) {
  cl_uint count = 0;
  cl_int code = api_.clGetPlatformIDs(0, nullptr, &count);
  std::vector<cl_platform_id> handles(code == CL_SUCCESS ? count : 0);
  if (!handles.empty()) code = api_.clGetPlatformIDs(count, handles.data(), nullptr);
  if (code == no_platform || (code == CL_SUCCESS && handles.empty())) {
    *reason =
        "OpenCL has no platform on this machine: no driver is installed (/etc/OpenCL/vendors)";
    return WEIR_ERROR_NOT_SUPPORTED;
  }
  if (code != CL_SUCCESS) {
    *reason = told("clGetPlatformIDs", code);
    return result_of(code);
  }
  for (const cl_platform_id handle : handles) {
    Found platform;
    platform.handle = handle;
    platform.name = ask_text(api_.clGetPlatformInfo, handle, CL_PLATFORM_NAME);
    count = 0;
    code = api_.clGetDeviceIDs(handle, CL_DEVICE_TYPE_ALL, 0, nullptr, &count);
    std::vector<cl_device_id> devices(code == CL_SUCCESS ? count : 0);
    if (!devices.empty())
      code = api_.clGetDeviceIDs(handle, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr);
    if (code != CL_SUCCESS && code != CL_DEVICE_NOT_FOUND) {
      remarks_.push_back(told("clGetDeviceIDs", code) + ": the devices of " + platform.name +
                         " are left out");
      devices.clear();
    }
    for (const cl_device_id device : devices) measure(device, &platform.devices.emplace_back());
    found->push_back(std::move(platform));
  }
  return WEIR_SUCCESS;
}

void Platform::remark_left_out(const Found &found, const Device &device, const char *why) {
  remarks_.push_back(device.name + " of " + found.name + ' ' + why);
}

/// Takes the platform's devices that suffice, all by the same kind of memory. False: there are none.
bool Platform::take(const Found &found, bool with_cpu) {
  const auto allowed = [&](const Device &device) { return with_cpu || !is_cpu(device); };
  const bool usm =
      options_.usm && std::any_of(found.devices.begin(), found.devices.end(),
                                  [&](const Device &d) { return allowed(d) && d.usm; });
  std::vector<Device> taken;
  for (const Device &device : found.devices) {
    if (allowed(device) && (usm ? device.usm : device.svm)) taken.push_back(device);
  }
  if (taken.empty()) return false;
  devices_ = std::move(taken);
  platform_ = found.handle;
  usm_ = usm;
  return true;
}

weir_result Platform::choose(const std::vector<Found> &found, std::string *reason) {
  if (options_.platform != Options::any && options_.platform >= found.size()) {
    *reason = "option platform=" + std::to_string(options_.platform) + ": OpenCL has " +
              counted(found.size(), "platform") + " here";
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  // First without the CPU, then with it, where it is asked for or nothing else is there.
  const Found *chosen = nullptr;
  for (const bool with_cpu : {options_.cpu, true}) {
    for (size_t i = 0; i < found.size() && chosen == nullptr; ++i) {
      const bool wanted = options_.platform == Options::any || options_.platform == i;
      if (wanted && take(found[i], with_cpu)) chosen = &found[i];
    }
  }
  for (const Found &each : found) {
    for (const Device &device : each.devices) {
      const auto same = [&](const Device &taken) { return taken.handle == device.handle; };
      if (std::any_of(devices_.begin(), devices_.end(), same)) continue;
      if (!device.usm && !device.svm) {
        remark_left_out(each, device, insufficient);
      } else if (chosen != nullptr && &each != chosen) {
        remark_left_out(each, device,
                        "is left out: a state has one platform's devices (option platform)");
      } else if (chosen != nullptr) {
        remark_left_out(each, device,
                        is_cpu(device) && !options_.cpu
                            ? "is left out: it is a CPU (option cpu)"
                            : "is left out: it has not the kind of memory that the others have");
      }
    }
  }
  if (chosen != nullptr) return WEIR_SUCCESS;
  *reason =
      "OpenCL has " + counted(found.size(), "platform") + " here, but no device that suffices";
  for (const std::string &remark : remarks_) *reason += "; " + remark;
  return WEIR_ERROR_NOT_SUPPORTED;
}

weir_result Platform::make_context(std::string *reason) {
  std::vector<cl_device_id> handles;
  for (const Device &device : devices_) handles.push_back(device.handle);
  const cl_context_properties properties[] = {
      CL_CONTEXT_PLATFORM, reinterpret_cast<cl_context_properties>(platform_), 0};
  cl_int code = CL_SUCCESS;
  context_ = api_.clCreateContext(properties, static_cast<cl_uint>(handles.size()), handles.data(),
                                  nullptr, nullptr, &code);
  if (context_ != nullptr && code == CL_SUCCESS) return WEIR_SUCCESS;
  context_ = nullptr;
  *reason = told("clCreateContext", code);
  return code == CL_SUCCESS ? WEIR_ERROR_BACKEND : result_of(code);
}

/// The program's own context: all of its devices that suffice, CPUs too, since it was made for them.
weir_result Platform::adopt(std::string *reason) {
  const auto context = reinterpret_cast<cl_context>(static_cast<uintptr_t>(options_.context));
  cl_int code = api_.clRetainContext(context);
  if (code != CL_SUCCESS) {
    *reason = "the context that was given: " + told("clRetainContext", code);
    return WEIR_ERROR_INVALID_ARGUMENT;
  }
  context_ = context;
  Found found;
  found.name = "the context that was given";
  for (const cl_device_id device :
       ask_list<cl_device_id>(api_.clGetContextInfo, context, CL_CONTEXT_DEVICES))
    measure(device, &found.devices.emplace_back());
  if (!found.devices.empty())
    (void)ask(api_.clGetDeviceInfo, found.devices[0].handle, CL_DEVICE_PLATFORM, &found.handle);
  if (take(found, true)) return WEIR_SUCCESS;
  *reason = "the context that was given has no device that suffices";
  for (const Device &device : found.devices) *reason += "; " + device.name + ' ' + insufficient;
  return WEIR_ERROR_NOT_SUPPORTED;
}

weir_result Platform::make_probes(std::string *reason) {
  if (usm_ && !api_.find_extensions(platform_)) {
    *reason = "the platform tells of cl_intel_unified_shared_memory and lacks functions of it";
    return WEIR_ERROR_NOT_SUPPORTED;
  }
  host_usm_ = usm_ && std::all_of(devices_.begin(), devices_.end(),
                                  [](const Device &device) { return device.host_usm; });
  for (const Device &device : devices_) {
    cl_int code = CL_SUCCESS;
    const cl_command_queue probe =
        api_.clCreateCommandQueueWithProperties(context_, device.handle, nullptr, &code);
    if (probe == nullptr || code != CL_SUCCESS) {
      *reason = told("clCreateCommandQueueWithProperties", code);
      return code == CL_SUCCESS ? WEIR_ERROR_BACKEND : result_of(code);
    }
    probes_.push_back(probe);
    lost_.emplace_back(false);
  }
  return WEIR_SUCCESS;
}

void Platform::name_version(cl_platform_id platform) {
  const std::string full = ask_text(api_.clGetPlatformInfo, platform, CL_PLATFORM_VERSION);
  char number[16] = "";
  (void)std::sscanf(full.c_str(), "OpenCL %15s", number);
  version_text_ = number;
  version_text_ += " (" + ask_text(api_.clGetPlatformInfo, platform, CL_PLATFORM_NAME) +
                   ", driver " +
                   ask_text(api_.clGetDeviceInfo, devices_[0].handle, CL_DRIVER_VERSION) + ')';
}

}  // namespace weir::opencl
