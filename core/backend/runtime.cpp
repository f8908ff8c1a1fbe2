// SPDX-License-Identifier: Apache-2.0
//
// Loading and checking a backend. A table is copied up to the size both sides know and refused as a whole
// if a required entry is missing or a capability disagrees with its group.

#include "core/backend/runtime.hpp"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace weir::backend {

namespace {

/// What every table has.
#define WEIR_REQUIRED_ENTRIES(X)                                                                  \
  X(name), X(start), X(stop), X(runtime_version), X(last_error_code), X(error_text),              \
      X(device_count), X(device_describe), X(device_memory), X(link_describe), X(plain_allocate), \
      X(plain_free), X(host_allocate), X(host_free), X(stream_create), X(stream_wrap),            \
      X(stream_destroy), X(stream_native), X(stream_synchronize), X(stream_query),                \
      X(fence_record), X(stream_wait), X(fence_poll), X(fence_wait), X(fence_destroy),            \
      X(copy_async), X(fill_async)

/// The optional groups. A table has one in whole or not at all; a device that has the capability needs it.
struct Group {
  const char *name;
  uint64_t capability;
  size_t first, last;  ///< offsets of its first and last entries, which are neighbours in the table
};
#define WEIR_GROUP(name, capability, first, last) \
  { name, capability, offsetof(weir_backend_table, first), offsetof(weir_backend_table, last) }
constexpr Group groups[] = {
    WEIR_GROUP("physical memory", WEIR_CAP_VMM, granule_create, unmap),
    WEIR_GROUP("export", WEIR_CAP_EXPORT_FD, granule_export, granule_import),
    WEIR_GROUP("register", WEIR_CAP_HOST_REGISTER, host_register, host_unregister),
    WEIR_GROUP("stream_host_call", WEIR_CAP_HOST_CALL, stream_host_call, stream_host_call),
    WEIR_GROUP("copy_batch_async", WEIR_CAP_BATCH_COPY, copy_batch_async, copy_batch_async),
    WEIR_GROUP("peers", WEIR_CAP_PEER, peer_enable, peer_enable),
    WEIR_GROUP("export over a fabric", WEIR_CAP_EXPORT_FABRIC, granule_export_fabric,
               granule_import_fabric),
    WEIR_GROUP("runs of granules", WEIR_CAP_MAP_RUN, map_run, unmap_run),
    WEIR_GROUP("access of peers to what is mapped", WEIR_CAP_ACCESS_LATER, access_add, access_add),
    WEIR_GROUP("the runtime's own objects", WEIR_CAP_NATIVE_MEMORY, native_memory, native_memory),
};
#undef WEIR_GROUP

/// Capabilities that say something about others.
struct Dependence {
  uint64_t capability;
  const char *name;
  uint64_t needed;
  const char *words;
};
constexpr Dependence dependences[] = {
    {WEIR_CAP_SHARED_RANGE, "SHARED_RANGE", WEIR_CAP_VMM | WEIR_CAP_PEER, "VMM and PEER"},
    {WEIR_CAP_MAP_RUN, "MAP_RUN", WEIR_CAP_VMM, "VMM"},
    {WEIR_CAP_ACCESS_LATER, "ACCESS_LATER", WEIR_CAP_VMM | WEIR_CAP_PEER, "VMM and PEER"},
};

/// Entries of the group that the table has, and how many it takes.
std::pair<size_t, size_t> entries_of(const weir_backend_table &table, const Group &group) {
  const auto *bytes = reinterpret_cast<const unsigned char *>(&table);
  size_t present = 0, all = 0;
  for (size_t at = group.first; at <= group.last; at += sizeof(void *), ++all) {
    void *entry = nullptr;
    std::memcpy(&entry, bytes + at, sizeof entry);
    present += entry != nullptr ? 1 : 0;
  }
  return {present, all};
}

Status cannot_load(const char *path) {
  return fail(WEIR_ERROR_BACKEND, "cannot load backend %s: %s", path, std::strerror(errno));
}

/// Whether a library's path can be trusted: loading a file runs it, so a place where every user may put one is refused before
/// it is opened. Resolves `path` (links followed) into *resolved. BACKEND with the reason: there is no such file; the file or its
/// folder can be written by every user; or a folder above can, and lets others rename what is in it (no sticky bit).
/// Between this look and the loading the file at the path can still be replaced, but only by users that may write there.
Status trusted_path(const char *path, std::string *resolved) {
  char real[PATH_MAX];
  if (realpath(path, real) == nullptr) return cannot_load(path);
  *resolved = real;
  for (std::string place = real;;) {
    const bool file = place.size() == resolved->size();
    struct stat info {};
    if (stat(place.empty() ? "/" : place.c_str(), &info) != 0) return cannot_load(path);
    const bool writable = (info.st_mode & S_IWOTH) != 0;
    const bool sticky = S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0;
    // A sticky folder keeps others from replacing what is in it, not from putting a file there.
    const bool folder_of_file = !file && place.size() == resolved->rfind('/');
    if (writable && (!sticky || folder_of_file))
      return fail(WEIR_ERROR_BACKEND, "backend %s is refused: %s can be written by every user",
                  path, place.empty() ? "/" : place.c_str());
    if (place.empty()) return {};
    place.resize(place.rfind('/'));
  }
}

}  // namespace

Runtime::~Runtime() {
  if (state_ != nullptr) table_.stop(state_);
  // The library stays open: its code may be on another thread's stack, and vendors' libraries do not unload.
}

const char *Runtime::version() const noexcept {
  return state_ != nullptr ? table_.runtime_version(state_) : "";
}

Status Runtime::load(const char *path) {
  path_ = path;
  std::string resolved;
  WEIR_TRY(trusted_path(path, &resolved));
  void *library = dlopen(resolved.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
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
  if (table == nullptr || table->abi_major != WEIR_BACKEND_ABI_MAJOR)
    return fail(WEIR_ERROR_BACKEND, "backend %s does not speak backend ABI %d", path,
                WEIR_BACKEND_ABI_MAJOR);
  std::memcpy(&table_, table, std::min<size_t>(table->struct_size, sizeof table_));
  table_.struct_size = sizeof table_;
  const char *missing = nullptr;
  const auto require = [&missing](const void *entry, const char *name) {
    if (entry == nullptr && missing == nullptr) missing = name;
  };
#define WEIR_REQUIRE(entry) require(reinterpret_cast<const void *>(table_.entry), #entry)
  WEIR_REQUIRED_ENTRIES(WEIR_REQUIRE);
#undef WEIR_REQUIRE
  if (missing != nullptr)
    return fail(WEIR_ERROR_BACKEND, "backend %s: its table has no entry '%s'", path_.c_str(),
                missing);
  WEIR_TRY(check_groups());
  name_ = table_.name;
  return {};
}

Status Runtime::check_groups() const {
  for (const Group &group : groups) {
    const auto [present, all] = entries_of(table_, group);
    if (present == 0 || present == all) continue;
    return fail(WEIR_ERROR_BACKEND,
                "backend %s: its table has %zu of the %zu entries of the group '%s'", path_.c_str(),
                present, all, group.name);
  }
  return {};
}

Status Runtime::check_capabilities(const weir_be_device &device) const {
  for (const Group &group : groups) {
    const bool claimed = (device.capabilities & group.capability) != 0;
    if (!claimed || entries_of(table_, group).first != 0) continue;
    return fail(WEIR_ERROR_BACKEND,
                "backend %s: device \"%.63s\" claims capability %#llx, but the table has no '%s'",
                path_.c_str(), device.name, llu(group.capability), group.name);
  }
  const bool vmm = (device.capabilities & WEIR_CAP_VMM) != 0;
  for (const Dependence &each : dependences) {
    const bool claimed = (device.capabilities & each.capability) != 0;
    if (!claimed || (device.capabilities & each.needed) == each.needed) continue;
    return fail(WEIR_ERROR_BACKEND,
                "backend %s: device \"%.63s\" claims %s, which needs %s, and has the "
                "capabilities %#llx only",
                path_.c_str(), device.name, each.name, each.words, llu(device.capabilities));
  }
  if (vmm && (device.granule == 0 || (device.granule & (device.granule - 1)) != 0))
    return fail(WEIR_ERROR_BACKEND,
                "backend %s: device \"%.63s\" has a granule of %llu bytes, no power of two",
                path_.c_str(), device.name, llu(device.granule));
  return {};
}

Status Runtime::start(const char *options, std::span<const std::byte> native, const Log &log,
                      uint64_t timeout_ns) {
  if (!native.empty() && table_.native_memory == nullptr)
    return fail(WEIR_ERROR_NOT_SUPPORTED, "backend %s takes no natives of the program",
                name_.c_str());
  log_ = std::make_shared<LogGate>(log);
  Started started = start_within(table_, options, native, log_, timeout_ns);
  const weir_result result = started.result;
  if (result == WEIR_SUCCESS) {
    state_ = started.state;
    return {};
  }
  if (result == WEIR_ERROR_TIMEOUT && started.reason.empty()) {
    char words[96];
    std::snprintf(words, sizeof words,
                  "its runtime did not start within %.3g seconds and was given up",
                  static_cast<double>(timeout_ns) / 1e9);
    started.reason = words;
  }
  reason_ = !started.reason.empty() ? started.reason.c_str() : weir_result_string(result);
  // A wrong option is the caller's mistake, not a missing runtime.
  if (result == WEIR_ERROR_INVALID_ARGUMENT)
    return fail(result, "backend %s: %s", name_.c_str(), reason_.c_str());
  if (!native.empty())
    return fail(WEIR_ERROR_BACKEND, "backend %s can't use the program's natives: %s", name_.c_str(),
                reason_.c_str());
  return {};
}

void Runtime::stand_for(const char *path, const char *reason) {
  path_ = path;
  reason_ = reason;
  std::string_view name = path;
  name.remove_prefix(std::min(name.size(), name.rfind('/') + 1));
  constexpr std::string_view head = "libweir_backend_", tail = ".so";
  if (name.starts_with(head)) name.remove_prefix(head.size());
  if (name.ends_with(tail)) name.remove_suffix(tail.size());
  name_ = name;
}

Status Runtime::explain(weir_result result, const char *what) const noexcept {
  if (result > 0) return Status(result);
  ErrorDetail detail;
  // A time that has passed has no code: the one there is an earlier failure's.
  if (state_ != nullptr && result != WEIR_ERROR_TIMEOUT)
    detail.native = table_.last_error_code(state_);
  const char *text = detail.native != 0 ? table_.error_text(state_, detail.native) : "";
  return fail(result, detail, "backend %s: %s failed: %s%s%s", name_.c_str(), what,
              weir_result_string(result), *text != '\0' ? ": " : "", text);
}

}  // namespace weir::backend
