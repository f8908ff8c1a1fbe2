// SPDX-License-Identifier: Apache-2.0
//
// Finding roctx. rocprofiler-sdk's is the current one (rocprofv3 sees both), roctracer's the older (ROCm 5 and 6).

#include "core/trace/roctx_ranges.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <cstring>

namespace weir::trace {
namespace {

constexpr std::array<const char *, 5> roctx_names{
    "librocprofiler-sdk-roctx.so.1", "librocprofiler-sdk-roctx.so.0", "librocprofiler-sdk-roctx.so",
    "libroctx64.so.4", "libroctx64.so"};

void add_loader_error(std::string *reason) {
  const char *const text = dlerror();
  *reason += (reason->empty() ? "" : "; ");
  *reason += text != nullptr ? text : "unknown reason";
}

template <class Function>
bool find_function(void *library, const char *name, Function **function) noexcept {
  void *const found = dlsym(library, name);
  std::memcpy(function, &found, sizeof found);
  return found != nullptr;
}

}  // namespace

bool RoctxRanges::open(std::string *reason) {
  const char *const path = secure_getenv("WEIR_ROCTX_LIBRARY");
  if (path != nullptr && path[0] != '\0')
    return take(dlopen(path, RTLD_NOW | RTLD_LOCAL), path, reason);
  // What the program itself tells: its ranges and these then nest.
  for (const char *name : roctx_names)
    if (void *const loaded = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD); loaded != nullptr)
      return take(loaded, name, reason);
  (void)dlerror();
  for (const char *name : roctx_names)
    if (take(dlopen(name, RTLD_NOW | RTLD_LOCAL), name, reason)) return true;
  return false;
}

bool RoctxRanges::take(void *library, const char *name, std::string *reason) {
  if (library == nullptr) return add_loader_error(reason), false;
  if (find_function(library, "roctxRangePushA", &push_) &&
      find_function(library, "roctxRangePop", &pop_))
    return true;
  *reason += (reason->empty() ? "" : "; ");
  *reason += std::string(name) + " has no roctxRangePushA and roctxRangePop";
  return false;
}

void RoctxRanges::push(RangeKind /*kind*/, const char *text) noexcept {
  RangeText whole;
  whole.add("weir: %s", text);
  (void)push_(whole.c_str());
}

void RoctxRanges::pop() noexcept { (void)pop_(); }

}  // namespace weir::trace
