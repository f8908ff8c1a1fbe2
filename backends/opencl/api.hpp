// SPDX-License-Identifier: Apache-2.0
//
// The runtime's functions: those of the ICD loader, found when a state is started, and those of the platform that was
// chosen. Nothing links the loader. A function that is missing is NULL; its caller checks that first.
#pragma once

#include "backends/common/library.hpp"
#include "backends/opencl/cl.hpp"

#include <string>

namespace weir::opencl {

struct Api {
  /// Opens the loader (WEIR_OPENCL_LIBRARY, else `path` if it is not empty, else libOpenCL.so.1) and finds its
  /// functions. False: *reason says in words why not.
  bool open(const std::string &path, std::string *reason);
  /// Finds the platform's own. False: one of them is missing.
  bool find_extensions(cl_platform_id platform) noexcept;

  common::Library library;

#define WEIR_OPENCL_FUNCTION(result, name, parameters, arguments) \
  result(CL_API_CALL *name) parameters = nullptr;
#define WEIR_OPENCL_EXTENSION WEIR_OPENCL_FUNCTION
#include "backends/opencl/functions.def"
#undef WEIR_OPENCL_EXTENSION
#undef WEIR_OPENCL_FUNCTION
};

/// Ending an object of the runtime when no caller is left to be told of a failure: a call that failed is made once more.
template <class Call>
void twice(Call call) noexcept {
  if (call() != CL_SUCCESS) (void)call();
}

}  // namespace weir::opencl
