// SPDX-License-Identifier: Apache-2.0
//
// The backend's table: the usual entries (common/parts_table.hpp), and those that this backend has of its own. It has no stream_check,
// no batches and no export: Level Zero's lists record no graphs, and the rest it does not have.

#include "backends/common/parts_table.hpp"
#include "backends/level_zero/errors.hpp"
#include "backends/level_zero/links.hpp"
#include "backends/level_zero/state.hpp"

#include <weir/backend.h>

#include <string>

namespace weir::level_zero {
namespace {

/// What the entries hand their arguments to.
struct Parts {
  static constexpr const char *name = "level_zero";
  using State = weir_be_state;
  using Running = level_zero::Running;
  using Stream = level_zero::Stream;
  static weir_result start(const weir_be_start &desc, weir_be_state *state, std::string *why) {
    Options options;
    *why = parse_options(desc.options, &options);
    return why->empty() ? state->platform.start(options, why) : WEIR_ERROR_INVALID_ARGUMENT;
  }
  static const char *text_of(int64_t native) noexcept { return level_zero::text_of(native); }
  static void describe_link(const Platform &platform, uint32_t from, uint32_t to,
                            weir_be_link *link) {
    level_zero::describe_link(platform, from, to, link);
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

weir_result peer_enable(weir_be_state *state, uint32_t device, uint32_t peer) noexcept {
  return Entries::enter(state, "peer_enable", [&](Running &) -> weir_result {
    WEIR_BACKEND_TRY(state->platform.check_device(device));
    WEIR_BACKEND_TRY(state->platform.check_device(peer));
    if (state->platform.reaches(device, peer)) return WEIR_SUCCESS;
    return refuse(WEIR_ERROR_NOT_SUPPORTED, "device %u cannot reach memory of device %u%s", device,
                  peer, state->platform.options().peer ? "" : " (peer=0)");
  });
}

// ---- memory

weir_result access_add(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes,
                       const uint32_t *peers, uint32_t peer_count) noexcept {
  return Entries::enter(state, "access_add", [&](Running &running) {
    return running.space.add_access(device, address, bytes, peers, peer_count);
  });
}

// ---- streams

weir_result stream_native(weir_be_state *state, weir_be_stream stream, void **native) noexcept {
  return Entries::enter_stream(state, stream, "stream_native",
                               [&](Running &, Stream &found) -> weir_result {
                                 abi::CommandList list = nullptr;
                                 WEIR_BACKEND_TRY(found.expose(&list));
                                 *native = list;
                                 return WEIR_SUCCESS;
                               });
}

weir_backend_table make_table() noexcept {
  weir_backend_table t = Entries::required();
  Entries::add_space(&t);
  t.device_describe = device_describe;
  t.device_memory = device_memory;
  t.peer_enable = peer_enable;
  t.access_add = access_add;
  t.stream_native = stream_native;
  return t;
}

}  // namespace
}  // namespace weir::level_zero

extern "C" __attribute__((visibility("default"))) const weir_backend_table *weir_backend_query(
    uint32_t abi_major) {
  static const weir_backend_table table = weir::level_zero::make_table();
  return abi_major == WEIR_BACKEND_ABI_MAJOR ? &table : nullptr;
}
