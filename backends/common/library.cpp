// SPDX-License-Identifier: Apache-2.0
//
// Finding a runtime: the override first, and nothing else when it is given, so that a wrong path is told and
// not papered over by what the system happens to have.

#include "backends/common/library.hpp"

#include <dlfcn.h>

#include <cstdlib>

namespace weir::common {
namespace {

std::string last_loader_error() {
  const char *text = dlerror();
  return text != nullptr ? text : "unknown reason";
}

}  // namespace

bool Library::open(const char *variable, std::initializer_list<const char *> names,
                   std::string *reason) {
  const char *override_path = secure_getenv(variable);
  if (override_path != nullptr && *override_path != '\0') {
    handle_ = dlopen(override_path, RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) *reason = std::string(variable) + ": " + last_loader_error();
    name_ = override_path;
    return handle_ != nullptr;
  }
  for (const char *name : names) {
    handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    name_ = name;
    if (handle_ != nullptr) return true;
    *reason += (reason->empty() ? "" : "; ") + last_loader_error();
  }
  return false;
}

void *Library::symbol(const char *name) const noexcept {
  return handle_ != nullptr ? dlsym(handle_, name) : nullptr;
}

}  // namespace weir::common
