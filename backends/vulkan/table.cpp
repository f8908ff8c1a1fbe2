// SPDX-License-Identifier: Apache-2.0
//
// The backend's table: the usual entries (common/parts_table.hpp), and those that this backend has of its own. It has no stream_check, as
// queues record no graphs, and no peers: each device is a VkDevice alone.

#include "backends/common/parts_table.hpp"
#include "backends/vulkan/errors.hpp"
#include "backends/vulkan/platform.hpp"
#include "backends/vulkan/state.hpp"

#include <weir/backend.h>

#include <cstddef>
#include <cstring>
#include <string>

namespace weir::vulkan {
namespace {

/// What the entries hand their arguments to.
struct Parts {
  static constexpr const char *name = "vulkan";
  using State = weir_be_state;
  using Running = vulkan::Running;
  using Stream = vulkan::Stream;
  static weir_result start(const weir_be_start &desc, weir_be_state *state, std::string *why) {
    Options options;
    *why = parse_options(desc.options, &options);
    if (!why->empty()) return WEIR_ERROR_INVALID_ARGUMENT;
    const bool told = desc.struct_size >= offsetof(weir_be_start, native) + sizeof desc.native;
    return told && desc.native != nullptr ? state->platform.adopt(options, desc.native, why)
                                          : state->platform.start(options, why);
  }
  static const char *text_of(int64_t native) noexcept { return vulkan::text_of(native); }
  static void describe_link(const Platform &platform, uint32_t from, uint32_t to,
                            weir_be_link *link) {
    vulkan::describe_link(platform, from, to, link);
  }
};
using Entries = common::PartsTable<Parts>;

// ---- devices

weir_result device_describe(weir_be_state *state, uint32_t device,
                            weir_be_device *description) noexcept {
  return Entries::enter(state, "device_describe", [&](Running &) -> weir_result {
    WEIR_BACKEND_TRY(state->platform.check_device(device));
    weir_be_device full{};
    describe(state->platform.device(device), &full);
    common::give(full, description);
    return WEIR_SUCCESS;
  });
}

weir_result device_memory(weir_be_state *state, uint32_t device, uint64_t *free_bytes,
                          uint64_t *total_bytes) noexcept {
  return Entries::enter(state, "device_memory", [&](Running &) -> weir_result {
    WEIR_BACKEND_TRY(state->platform.check_device(device));
    const Device &found = state->platform.device(device);
    *free_bytes = found.available();
    *total_bytes = found.memory();
    return WEIR_SUCCESS;
  });
}

// ---- memory

weir_result granule_export(weir_be_state *state, uint32_t device, weir_be_granule granule,
                           int32_t *fd) noexcept {
  return Entries::enter(state, "granule_export", [&](Running &running) {
    return running.space.export_fd(device, granule, fd);
  });
}

weir_result granule_import(weir_be_state *state, uint32_t device, int32_t fd, uint64_t bytes,
                           weir_be_granule *granule) noexcept {
  return Entries::enter(state, "granule_import", [&](Running &running) {
    return running.space.import_fd(device, fd, bytes, granule);
  });
}

weir_result native_memory(weir_be_state *state, uint32_t device, uint64_t address, uint32_t kind,
                          void *out) noexcept {
  return Entries::enter(state, "native_memory", [&](Running &running) -> weir_result {
    WEIR_BACKEND_TRY(state->platform.check_device(device));
    uint32_t size = 0;
    if (out != nullptr) std::memcpy(&size, out, sizeof size);
    if (kind != WEIR_VULKAN_BUFFER || size < sizeof(weir_vulkan_buffer)) {
      return refuse(WEIR_ERROR_INVALID_ARGUMENT,
                    "kind=%u with struct_size=%u; kind %d is of %zu bytes", kind, size,
                    WEIR_VULKAN_BUFFER, sizeof(weir_vulkan_buffer));
    }
    Spot spot;
    const bool known = running.memory.find(device, address, 1, &spot) && !spot.host &&
                       (!spot.sparse || running.space.maps(device, address, 1));
    if (!known)
      return refuse(WEIR_ERROR_INVALID_ARGUMENT, "device %u has no memory at %#llx", device,
                    number(address));
    weir_vulkan_buffer told = WEIR_VULKAN_BUFFER_INIT;
    told.buffer = reinterpret_cast<uintptr_t>(spot.buffer);
    told.offset = spot.offset;
    told.bytes = spot.room;
    told.device = state->platform.device(device).handle();
    common::give(told, static_cast<weir_vulkan_buffer *>(out));
    return WEIR_SUCCESS;
  });
}

// ---- streams

weir_result stream_native(weir_be_state *state, weir_be_stream stream, void **native) noexcept {
  return Entries::enter_stream(state, stream, "stream_native",
                               [&](Running &, Stream &found) -> weir_result {
                                 const weir_vulkan_queue *queue = nullptr;
                                 WEIR_BACKEND_TRY(found.expose(&queue));
                                 *native = const_cast<weir_vulkan_queue *>(queue);
                                 return WEIR_SUCCESS;
                               });
}

// ---- copies

weir_result copy_batch_async(weir_be_state *state, weir_be_stream stream,
                             const weir_be_copy *copies, uint32_t count) noexcept {
  return Entries::enter_stream(state, stream, "copy_batch_async",
                               [&](Running &running, Stream &found) {
                                 return running.copies.copy_batch(found, copies, count);
                               });
}

weir_backend_table make_table() noexcept {
  weir_backend_table t = Entries::required();
  Entries::add_space(&t);
  t.device_describe = device_describe;
  t.device_memory = device_memory;
  t.granule_export = granule_export;
  t.granule_import = granule_import;
  t.native_memory = native_memory;
  t.stream_native = stream_native;
  t.copy_batch_async = copy_batch_async;
  return t;
}

}  // namespace
}  // namespace weir::vulkan

extern "C" __attribute__((visibility("default"))) const weir_backend_table *weir_backend_query(
    uint32_t abi_major) {
  static const weir_backend_table table = weir::vulkan::make_table();
  return abi_major == WEIR_BACKEND_ABI_MAJOR ? &table : nullptr;
}
