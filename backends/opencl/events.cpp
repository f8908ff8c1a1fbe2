// SPDX-License-Identifier: Apache-2.0
//
// Looking at events. A device that is lost may never end its commands: its events are not asked for ever.

#include "backends/opencl/events.hpp"

#include "backends/common/patience.hpp"
#include "backends/opencl/errors.hpp"

namespace weir::opencl {

weir_result poll(const Platform &platform, uint32_t device, cl_event event) noexcept {
  cl_int status = CL_QUEUED;
  const cl_int code = platform.api().clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                                    sizeof status, &status, nullptr);
  if (code != CL_SUCCESS) return platform.call_failed(device, code, "clGetEventInfo");
  if (status == CL_COMPLETE) return WEIR_SUCCESS;
  if (status < 0) return platform.command_failed(device, status);
  return platform.lost(device) ? platform.refuse_lost(device) : WEIR_NOT_READY;
}

weir_result finish(const Platform &platform, uint32_t device, cl_event event,
                   uint64_t timeout_ns) noexcept {
  return common::poll_until(timeout_ns, [&] { return poll(platform, device, event); });
}

void settle(const Platform &platform, uint32_t device, cl_event event) noexcept {
  const weir_result result = finish(platform, device, event, UINT64_MAX);
  if (result != WEIR_SUCCESS && result != WEIR_ERROR_DEVICE_LOST)
    (void)finish(platform, device, event, UINT64_MAX);
}

}  // namespace weir::opencl
