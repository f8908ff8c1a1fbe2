// SPDX-License-Identifier: Apache-2.0
//
// The functions, made from the backend's list. Those of the extension are not exported: the platform gives them out.

#include "tests/drivers/opencl_shim/shim.hpp"

#include <cstring>

using weir::opencl_shim::EventsGiven;
using weir::opencl_shim::pass;
using weir::opencl_shim::Shim;

namespace weir::opencl_shim {

/// What a function does when it is let through: what the loader does, but for those that pretend.
struct Through {
#define WEIR_OPENCL_FUNCTION(result, name, parameters, arguments) \
  static result name parameters { return Shim::get().real().name arguments; }
#define WEIR_OPENCL_EXTENSION WEIR_OPENCL_FUNCTION
#include "backends/opencl/functions.def"
#undef WEIR_OPENCL_EXTENSION
#undef WEIR_OPENCL_FUNCTION
};

namespace {

// By name, so that the list decides what there is: a function that is not named here goes through.
struct Pretended : Through {
  static cl_int clGetPlatformIDs(cl_uint capacity, cl_platform_id *platforms, cl_uint *count) {
    return platform_ids(capacity, platforms, count);
  }
  static cl_int clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint capacity,
                               cl_device_id *devices, cl_uint *count) {
    return device_ids(platform, type, capacity, devices, count);
  }
  static cl_int clGetDeviceInfo(cl_device_id device, cl_device_info name, size_t size, void *value,
                                size_t *needed) {
    return device_info(device, name, size, value, needed);
  }
  static cl_int clGetEventInfo(cl_event event, cl_event_info name, size_t size, void *value,
                               size_t *needed) {
    return event_info(event, name, size, value, needed);
  }
  static void *clGetExtensionFunctionAddressForPlatform(cl_platform_id platform, const char *name) {
    return extension(platform, name);
  }
};

#define WEIR_SHIM_BODY(result, name, arguments)  \
  return pass<result>(                           \
      #name, [&](auto tell) { tell arguments; }, \
      [&] {                                      \
        return EventsGiven {}                    \
        arguments;                               \
      },                                         \
      [&] { return Pretended::name arguments; });

#define WEIR_OPENCL_FUNCTION(result, name, parameters, arguments)
#define WEIR_OPENCL_EXTENSION(result, name, parameters, arguments) \
  result CL_API_CALL shim_##name parameters { WEIR_SHIM_BODY(result, name, arguments) }
#include "backends/opencl/functions.def"
#undef WEIR_OPENCL_EXTENSION
#undef WEIR_OPENCL_FUNCTION

}  // namespace

void *extension(cl_platform_id platform, const char *name) {
  if (!Shim::get().pretence().functions) return nullptr;
  void *own = nullptr;
#define WEIR_OPENCL_FUNCTION(result, each, parameters, arguments)
#define WEIR_OPENCL_EXTENSION(result, each, parameters, arguments) \
  if (std::strcmp(name, #each) == 0) {                             \
    result(CL_API_CALL *function) parameters = shim_##each;        \
    std::memcpy(&own, &function, sizeof own);                      \
  }
#include "backends/opencl/functions.def"
#undef WEIR_OPENCL_EXTENSION
#undef WEIR_OPENCL_FUNCTION
  if (own != nullptr) return own;
  return Shim::get().real().clGetExtensionFunctionAddressForPlatform(platform, name);
}

}  // namespace weir::opencl_shim

#define WEIR_OPENCL_EXTENSION(result, name, parameters, arguments)
#define WEIR_OPENCL_FUNCTION(result, name, parameters, arguments)                        \
  extern "C" __attribute__((visibility("default"))) result CL_API_CALL name parameters { \
    using weir::opencl_shim::Pretended;                                                  \
    WEIR_SHIM_BODY(result, name, arguments)                                              \
  }
#include "backends/opencl/functions.def"
#undef WEIR_OPENCL_EXTENSION
#undef WEIR_OPENCL_FUNCTION
