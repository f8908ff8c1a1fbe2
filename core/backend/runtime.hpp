// SPDX-License-Identifier: Apache-2.0
//
// Runtime: one started backend behind its C table. The rest of the core calls the table only through here
// and through Device, so that native codes always end up in the thread's last error.
#pragma once

#include "core/backend/bounded_start.hpp"
#include "core/base/log.hpp"
#include "core/base/status.hpp"

#include <weir/backend.h>

#include <cstddef>
#include <memory_resource>
#include <span>
#include <string>

namespace weir::backend {

class Runtime {
 public:
  explicit Runtime(std::pmr::memory_resource *memory)
      : name_(memory), path_(memory), reason_(memory) {}
  ~Runtime();
  Runtime(const Runtime &) = delete;
  Runtime &operator=(const Runtime &) = delete;

  /// Opens a library and takes its table. A path that every user may write to, a library that is no backend, or a
  /// malformed table, is an error.
  Status load(const char *path);
  /// Takes the table of a backend linked into the program.
  Status adopt(weir_backend_query_fn query, const char *path);
  /// Starts the runtime, within the bound, with the program's own objects if there are any (they are copied). That it can't start
  /// is no error without those: see available() and reason().
  Status start(const char *options, std::span<const std::byte> native, const Log &log,
               uint64_t timeout_ns);
  /// Stands for a library that could not be loaded: called after "libweir_backend_NAME.so", and not available.
  void stand_for(const char *path, const char *reason);
  /// What a device says it can do must be in the table.
  Status check_capabilities(const weir_be_device &device) const;

  bool available() const noexcept { return state_ != nullptr; }
  const char *name() const noexcept { return name_.c_str(); }
  const char *reason() const noexcept { return reason_.c_str(); }
  const char *path() const noexcept { return path_.c_str(); }
  const char *version() const noexcept;

  const weir_backend_table &table() const noexcept { return table_; }
  weir_be_state *state() const noexcept { return state_; }

  /// Turns an entry's result into a Status; `what` names the call.
  Status check(weir_result result, const char *what) const noexcept {
    if (result == WEIR_SUCCESS) return {};
    return explain(result, what);
  }

 private:
  Status check_groups() const;
  Status explain(weir_result result, const char *what) const noexcept;

  weir_backend_table table_{};
  weir_be_state *state_ = nullptr;
  std::shared_ptr<LogGate> log_;
  std::pmr::string name_, path_, reason_;
};

/// One device of a runtime, as described when the context was made.
struct Device {
  Runtime *runtime = nullptr;
  uint32_t backend = 0;  ///< index of the runtime in the context
  uint32_t index = 0;    ///< within the backend
  uint32_t id = 0;       ///< within the context
  weir_be_device description{};

  bool has(uint64_t capability) const noexcept {
    return (description.capabilities & capability) != 0;
  }
  const weir_backend_table &table() const noexcept { return runtime->table(); }
  weir_be_state *state() const noexcept { return runtime->state(); }
  Status check(weir_result result, const char *what) const noexcept {
    return runtime->check(result, what);
  }
};

}  // namespace weir::backend
