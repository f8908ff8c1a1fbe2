// SPDX-License-Identifier: Apache-2.0
//
// What the environment asks for, and what is said of it.

#include "core/trace/profilers.hpp"

#include "core/base/environment.hpp"
#include "core/trace/nvtx_ranges.hpp"

#include <cstdlib>
#include <string>
#include <string_view>

namespace weir::trace {
namespace {

/// Says why no profiler takes them. What the user has given and can't be used is worth a warning; to run without a profiler is not.
void tell_no_nvtx(const Log &log) {
  const char *const tool = secure_getenv("NVTX_INJECTION64_PATH");
  if (!nvtx_is_built_in())
    log(WEIR_LOG_WARNING, "WEIR_NVTX: no ranges: this library was built without NVTX's header");
  else if (tool == nullptr || tool[0] == '\0')
    log(WEIR_LOG_INFO, "WEIR_NVTX: no ranges: no profiler that takes NVTX is in this process");
  else
    log(WEIR_LOG_WARNING,
        "WEIR_NVTX: no ranges: the library of NVTX_INJECTION64_PATH, '%s', can't be loaded or "
        "takes no domains",
        tool);
}

}  // namespace

void Profilers::start(const Log &log) {
  if (switched_on("WEIR_NVTX", log)) {
    if (RangeSink *const nvtx = nvtx_ranges(); nvtx != nullptr)
      ranges_.add(nvtx);
    else
      tell_no_nvtx(log);
  }
  if (switched_on("WEIR_ROCTX", log)) {
    std::string reason;
    if (roctx_.open(&reason))
      ranges_.add(&roctx_);
    else
      log(WEIR_LOG_WARNING, "WEIR_ROCTX: no ranges: %s", reason.c_str());
  }
}

}  // namespace weir::trace
