// SPDX-License-Identifier: Apache-2.0
//
// Finding the functions. A loader that lacks one of them is older than OpenCL 2.0, or no loader at all.

#include "backends/opencl/api.hpp"

#include <cstring>

namespace weir::opencl {

bool Api::open(const std::string &path, std::string *reason) {
  std::string why;
  const char *name = path.empty() ? "libOpenCL.so.1" : path.c_str();
  if (!library.open("WEIR_OPENCL_LIBRARY", {name}, &why)) {
    *reason = "the OpenCL loader is not here: " + why;
    return false;
  }
  bool complete = true;
  const auto need = [&](const char *symbol, auto **function) {
    if (library.find(symbol, function) || !complete) return;
    complete = false;
    *reason =
        library.name() + " has no " + symbol + ": it is no OpenCL loader, or one before OpenCL 2.0";
  };
#define WEIR_OPENCL_FUNCTION(result, name, parameters, arguments) need(#name, &name);
#define WEIR_OPENCL_EXTENSION(result, name, parameters, arguments)
#include "backends/opencl/functions.def"
#undef WEIR_OPENCL_EXTENSION
#undef WEIR_OPENCL_FUNCTION
  return complete;
}

bool Api::find_extensions(cl_platform_id platform) noexcept {
  bool complete = true;
  const auto find = [&](const char *symbol, auto **function) {
    void *found = clGetExtensionFunctionAddressForPlatform(platform, symbol);
    std::memcpy(function, &found, sizeof found);
    complete = complete && found != nullptr;
  };
#define WEIR_OPENCL_FUNCTION(result, name, parameters, arguments)
#define WEIR_OPENCL_EXTENSION(result, name, parameters, arguments) find(#name, &name);
#include "backends/opencl/functions.def"
#undef WEIR_OPENCL_EXTENSION
#undef WEIR_OPENCL_FUNCTION
  return complete;
}

}  // namespace weir::opencl
