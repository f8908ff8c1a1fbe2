// SPDX-License-Identifier: Apache-2.0
//
// The backend's table: the usual entries (common/parts_table.hpp), and those that this backend has of its own. It has no physical
// memory, no peers, no batches and no export, which OpenCL does not have, and no stream_check: what records commands there is no queue.

#include "backends/common/parts_table.hpp"
#include "backends/opencl/errors.hpp"
#include "backends/opencl/natives.hpp"
#include "backends/opencl/state.hpp"

#include <weir/backend.h>

#include <string>

namespace weir::opencl {
namespace {

/// What the entries hand their arguments to.
struct Parts {
  static constexpr const char *name = "opencl";
  using State = weir_be_state;
  using Running = opencl::Running;
  using Stream = opencl::Stream;
  static weir_result start(const weir_be_start &desc, weir_be_state *state, std::string *why) {
    Options options;
    *why = parse_options(desc.options, &options);
    if (why->empty()) *why = read_native(desc, &options);
    return why->empty() ? state->platform.start(options, why) : WEIR_ERROR_INVALID_ARGUMENT;
  }
  static const char *text_of(int64_t native) noexcept { return opencl::text_of(native); }
  static void describe_link(const Platform &platform, uint32_t from, uint32_t to,
                            weir_be_link *link) {
    opencl::describe_link(platform, from, to, link);
  }
};
using Entries = common::PartsTable<Parts>;

// ---- devices

weir_result device_describe(weir_be_state *state, uint32_t device,
                            weir_be_device *description) noexcept {
  return Entries::enter(state, "device_describe", [&](Running &) -> weir_result {
    WEIR_BACKEND_TRY(state->platform.check_device(device));
    weir_be_device full{};
    describe(state->platform, device, &full);
    common::give(full, description);
    return WEIR_SUCCESS;
  });
}

weir_result device_memory(weir_be_state *state, uint32_t device, uint64_t *free_bytes,
                          uint64_t *total_bytes) noexcept {
  return Entries::enter(state, "device_memory", [&](Running &running) -> weir_result {
    WEIR_BACKEND_TRY(state->platform.check_device(device));
    *free_bytes = running.usage.available(device);
    *total_bytes = state->platform.devices()[device].memory;
    return WEIR_SUCCESS;
  });
}

// ---- memory

weir_result native_memory(weir_be_state *state, uint32_t device, uint64_t address, uint32_t kind,
                          void *out) noexcept {
  return Entries::enter(state, "native_memory", [&](Running &running) {
    return tell_memory(state->platform, running.memory, device, address, kind, out);
  });
}

// ---- streams

weir_result stream_native(weir_be_state *state, weir_be_stream stream, void **native) noexcept {
  return Entries::enter_stream(state, stream, "stream_native",
                               [&](Running &, Stream &found) -> weir_result {
                                 *native = found.expose();
                                 return WEIR_SUCCESS;
                               });
}

weir_backend_table make_table() noexcept {
  weir_backend_table t = Entries::required();
  t.device_describe = device_describe;
  t.device_memory = device_memory;
  t.native_memory = native_memory;
  t.stream_native = stream_native;
  return t;
}

}  // namespace
}  // namespace weir::opencl

extern "C" __attribute__((visibility("default"))) const weir_backend_table *weir_backend_query(
    uint32_t abi_major) {
  static const weir_backend_table table = weir::opencl::make_table();
  return abi_major == WEIR_BACKEND_ABI_MAJOR ? &table : nullptr;
}
