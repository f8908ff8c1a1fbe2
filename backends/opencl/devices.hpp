// SPDX-License-Identifier: Apache-2.0
//
// The devices of one platform and the context they share: found when a state is started, unchanged afterwards but for
// the note that a device is lost, which is never taken back.
//
// All devices of a state are one platform's. Memory, queues and events belong to a context, and a context to a platform:
// a fence that every stream can wait for exists only within one. The devices of a state have all unified shared memory, or
// all are used by shared virtual memory.
#pragma once

#include "backends/opencl/api.hpp"
#include "backends/opencl/options.hpp"

#include <weir/backend.h>

#include <atomic>
#include <deque>
#include <string>
#include <vector>

namespace weir::opencl {

struct Device {
  cl_device_id handle = nullptr;
  std::string name;
  cl_device_type type = 0;
  uint64_t memory = 0;   ///< bytes it gives out
  uint64_t largest = 0;  ///< bytes of one allocation
  bool integrated = false;
  bool usm = false;       ///< cl_intel_unified_shared_memory, with memory of the device
  bool host_usm = false;  ///< and memory of the host
  bool svm = false;       ///< shared virtual memory, coarse-grained buffers at least
  uint8_t uuid[16] = {};
  char pci[32] = "";  ///< "0000:17:00.0"; "" if the driver does not say
};

/// One platform, its devices and their context. Ends its reference to the context.
class Platform {
 public:
  Platform() = default;
  ~Platform();
  Platform(const Platform &) = delete;
  Platform &operator=(const Platform &) = delete;

  /// Called once, before anything else. On failure *reason says in words why there is no device.
  weir_result start(const Options &options, std::string *reason);

  const Api &api() const noexcept { return api_; }
  const Options &options() const noexcept { return options_; }
  cl_context context() const noexcept { return context_; }
  /// Unified shared memory is used; else shared virtual memory.
  bool usm() const noexcept { return usm_; }
  /// Pinned memory is the driver's; else it is the system's pages.
  bool host_usm() const noexcept { return host_usm_; }
  const std::vector<Device> &devices() const noexcept { return devices_; }
  /// "3.0 (Portable Computing Language, driver 6.0)"
  const std::string &version_text() const noexcept { return version_text_; }
  /// What the program should hear of though it is no failure: devices left out.
  const std::vector<std::string> &remarks() const noexcept { return remarks_; }

  weir_result check_device(uint32_t device) const noexcept;
  uint64_t capabilities(uint32_t device) const noexcept;

  bool lost(uint32_t device) const noexcept {
    return lost_[device].load(std::memory_order_acquire);
  }
  /// The answer about a device that is lost.
  weir_result refuse_lost(uint32_t device) const noexcept;
  /// A command of the device ended with `status`, so it is not known what it wrote: the device is lost.
  weir_result command_failed(uint32_t device, cl_int status) const noexcept;
  /// A call about the device failed. Where that says, or a second look at the device shows, that it answers no more, it
  /// is lost. `asked` names the call.
  weir_result call_failed(uint32_t device, cl_int code, const char *asked) const noexcept;

 private:
  struct Found {
    cl_platform_id handle = nullptr;
    std::string name;
    std::vector<Device> devices;
  };

  weir_result find_platforms(std::vector<Found> *found, std::string *reason);
  weir_result choose(const std::vector<Found> &found, std::string *reason);
  weir_result adopt(std::string *reason);
  bool take(const Found &found, bool with_cpu);
  weir_result make_context(std::string *reason);
  weir_result make_probes(std::string *reason);
  void measure(cl_device_id handle, Device *device) const;
  void remark_left_out(const Found &found, const Device &device, const char *why);
  void name_version(cl_platform_id platform);

  Api api_;
  Options options_;
  cl_platform_id platform_ = nullptr;
  cl_context context_ = nullptr;
  bool usm_ = false, host_usm_ = false;
  std::string version_text_;
  std::vector<std::string> remarks_;
  std::vector<Device> devices_;
  std::vector<cl_command_queue> probes_;  ///< one a device, on which nothing is ever behind work
  mutable std::deque<std::atomic<bool>> lost_;
};

/// Fills in what the ABI tells of a device.
void describe(const Platform &platform, uint32_t device, weir_be_device *full);
/// `from` and `to` are devices or WEIR_DEVICE_HOST, and valid.
void describe_link(const Platform &platform, uint32_t from, uint32_t to, weir_be_link *link);

}  // namespace weir::opencl
