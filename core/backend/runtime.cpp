// SPDX-License-Identifier: Apache-2.0
//
// Loading and checking a backend. A table is copied up to the size both sides know and refused as a whole
// if a required entry is missing or a capability disagrees with its group.

#include "core/backend/runtime.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

namespace weir::backend {

Runtime::~Runtime() {
  if (state_ != nullptr) table_.stop(state_);
  // The library stays open: its code may be on another thread's stack, and vendors' libraries do not unload.
}

const char *Runtime::version() const noexcept {
  return state_ != nullptr ? table_.runtime_version(state_) : "";
}

Status Runtime::load(const char *path) {
  path_ = path;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char *why = dlerror();
    return fail(WEIR_ERROR_BACKEND, "cannot load backend %s: %s", path,
                why != nullptr ? why : "unknown reason");
  }
  void *symbol = dlsym(library, WEIR_BACKEND_QUERY_SYMBOL);
  if (symbol == nullptr) {
    dlclose(library);
    return fail(WEIR_ERROR_BACKEND, "%s is not a Weir backend: it does not export %s", path,
                WEIR_BACKEND_QUERY_SYMBOL);
  }
  weir_backend_query_fn query = nullptr;
  std::memcpy(&query, &symbol, sizeof query);
  return adopt(query, path);
}

Status Runtime::adopt(weir_backend_query_fn query, const char *path) {
  path_ = path;
  const weir_backend_table *table = query != nullptr ? query(WEIR_BACKEND_ABI_MAJOR) : nullptr;
  if (table == nullptr || table->abi_major != WEIR_BACKEND_ABI_MAJOR) {
    return fail(WEIR_ERROR_BACKEND, "backend %s does not speak backend ABI %d", path,
                WEIR_BACKEND_ABI_MAJOR);
  }
  return accept(table);
}

Status Runtime::accept(const weir_backend_table *table) {
  std::memcpy(&table_, table, std::min<size_t>(table->struct_size, sizeof table_));
  table_.struct_size = sizeof table_;
  const char *missing = nullptr;
  const auto require = [&missing](const void *entry, const char *name) {
    if (entry == nullptr && missing == nullptr) missing = name;
  };
#define WEIR_REQUIRE(entry) require(reinterpret_cast<const void *>(table_.entry), #entry)
  WEIR_REQUIRE(name);
  WEIR_REQUIRE(start);
  WEIR_REQUIRE(stop);
  WEIR_REQUIRE(runtime_version);
  WEIR_REQUIRE(last_error_code);
  WEIR_REQUIRE(error_text);
  WEIR_REQUIRE(device_count);
  WEIR_REQUIRE(device_describe);
  WEIR_REQUIRE(device_memory);
  WEIR_REQUIRE(link_describe);
  WEIR_REQUIRE(plain_allocate);
  WEIR_REQUIRE(plain_free);
  WEIR_REQUIRE(host_allocate);
  WEIR_REQUIRE(host_free);
  WEIR_REQUIRE(stream_create);
  WEIR_REQUIRE(stream_wrap);
  WEIR_REQUIRE(stream_destroy);
  WEIR_REQUIRE(stream_native);
  WEIR_REQUIRE(stream_synchronize);
  WEIR_REQUIRE(stream_query);
  WEIR_REQUIRE(fence_record);
  WEIR_REQUIRE(stream_wait);
  WEIR_REQUIRE(fence_poll);
  WEIR_REQUIRE(fence_wait);
  WEIR_REQUIRE(fence_destroy);
  WEIR_REQUIRE(copy_async);
  WEIR_REQUIRE(fill_async);
#undef WEIR_REQUIRE
  if (missing != nullptr) {
    return fail(WEIR_ERROR_BACKEND, "backend %s: its table has no entry '%s'", path_.c_str(),
                missing);
  }
  name_ = table_.name;
  return {};
}

Status Runtime::start(const char *options, const Log &log) {
  weir_be_start desc{};
  desc.struct_size = sizeof desc;
  desc.options = options;
  desc.log = log.callback();
  desc.log_user = log.user();
  const char *reason = "";
  weir_be_state *state = nullptr;
  const weir_result result = table_.start(&desc, &state, &reason);
  if (result == WEIR_SUCCESS) {
    state_ = state;
    return {};
  }
  reason_ = reason != nullptr && *reason != '\0' ? reason : weir_result_string(result);
  // A wrong option is the caller's mistake, not a missing runtime.
  if (result == WEIR_ERROR_INVALID_ARGUMENT) {
    return fail(result, "backend %s: %s", name_.c_str(), reason_.c_str());
  }
  return {};
}

Status Runtime::explain(weir_result result, const char *what) const noexcept {
  if (result > 0) return Status(result);
  ErrorDetail detail;
  detail.native = state_ != nullptr ? table_.last_error_code(state_) : 0;
  const char *text = detail.native != 0 ? table_.error_text(state_, detail.native) : "";
  return fail(result, detail, "backend %s: %s failed: %s%s%s", name_.c_str(), what,
              weir_result_string(result), *text != '\0' ? ": " : "", text);
}

}  // namespace weir::backend
