// SPDX-License-Identifier: Apache-2.0
//
// weir/context.h: contexts, backends, devices, links, streams.

#include "api/src/contexts.hpp"
#include "api/src/guard.hpp"

#include "core/pool/find_device.hpp"

#include <weir/backend.h>

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <string>

extern "C" const weir_backend_table *weir_host_backend_query(uint32_t abi_major);

namespace weir::api {

std::atomic<bool> forked{false};

namespace {

constexpr const char *level_names[] = {"error", "warning", "info", "debug"};

/// `most` is the entry of the table whose lines still go out.
void log_to_stderr(void *most, int32_t level, const char *text) {
  if (&level_names[level & 3] > most) return;
  timespec now{};
  (void)clock_gettime(CLOCK_REALTIME, &now);
  tm day{};
  (void)gmtime_r(&now.tv_sec, &day);
  std::fprintf(stderr, "weir: %s: %02d:%02d:%02d.%03ld thread %d: %s\n", level_names[level & 3],
               day.tm_hour, day.tm_min, day.tm_sec, now.tv_nsec / 1000000, gettid(), text);
}

}  // namespace

bool logs_to_stderr(const Log &log) noexcept { return log.callback() == log_to_stderr; }

bool is_logged(const Log &log, int32_t level) noexcept {
  return logs_to_stderr(log) ? &level_names[level] <= log.user() : log.callback() != nullptr;
}

namespace {

/// WEIR_LOG is the name of a level; every other value is as "warning".
void log_as_the_user_wants(weir_context_desc *desc) {
  const char *wanted = std::getenv("WEIR_LOG");
  if (desc->log != nullptr || wanted == nullptr) return;
  const char *const *most = &level_names[WEIR_LOG_WARNING];
  for (const char *const &name : level_names)
    if (std::strcmp(wanted, name) == 0) most = &name;
  desc->log = log_to_stderr;
  desc->log_user = const_cast<const char **>(most);
}

/// The folder "weir/<backend ABI>" beside the library (or program) that holds this code. A public function's address would not do: in
/// a program that is linked to fixed addresses it is one inside the program.
std::string plugin_folder() {
  static const char here = 0;
  Dl_info info{};
  if (dladdr(&here, &info) == 0 || info.dli_fname == nullptr) return {};
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos
             ? std::string{}
             : path.substr(0, slash) + "/weir/" + std::to_string(WEIR_BACKEND_ABI_MAJOR);
}

Status create(const weir_context_desc *given, weir_context *out) {
  weir_context_desc desc = WEIR_CONTEXT_DESC_INIT;
  WEIR_TRY(need(out, "context"));
  if (given != nullptr) WEIR_TRY(read_descriptor(given, "desc", &desc));
  constexpr uint64_t known =
      WEIR_CONTEXT_NO_HOST_BACKEND | WEIR_CONTEXT_NO_SEARCH | WEIR_CONTEXT_STACKS;
  if ((desc.flags & ~known) != 0) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "flags %#llx has bits this version does not know",
                static_cast<unsigned long long>(desc.flags));
  }
  if ((desc.allocator.allocate == nullptr) != (desc.allocator.deallocate == nullptr)) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "allocator: allocate and deallocate go together");
  }
  for (const void *reserved : desc.allocator.reserved) {
    if (reserved != nullptr)
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "allocator: a reserved word is %p, not NULL",
                  reserved);
  }
  constexpr uint32_t most_backends = 256;
  if (desc.backend_count > most_backends) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "backend_count is %u, more than %u",
                desc.backend_count, most_backends);
  }
  for (uint32_t i = 0; desc.backends != nullptr && i < desc.backend_count; ++i)
    if (desc.backends[i] == nullptr)
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "backends[%u] is NULL", i);
  if (desc.backend_count != 0 && desc.backends == nullptr) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "backend_count is %u and backends is NULL",
                desc.backend_count);
  }
  static std::once_flag once;
  std::call_once(once, [] { (void)pthread_atfork(nullptr, nullptr, [] { forked.store(true); }); });
  log_as_the_user_wants(&desc);
  auto context = std::make_unique<pool::Context>(desc.allocator, Log(desc.log, desc.log_user));
  const std::string folder =
      (desc.flags & WEIR_CONTEXT_NO_SEARCH) != 0 ? std::string{} : plugin_folder();
  const bool host = (desc.flags & WEIR_CONTEXT_NO_HOST_BACKEND) == 0;
  WEIR_TRY(context->start(desc, host ? weir_host_backend_query : nullptr,
                          folder.empty() ? nullptr : folder.c_str()));
  add_context(context.get());
  context->tracer().start_wished();
  *out = reinterpret_cast<weir_context>(context.release());
  return {};
}

Status device_info(weir_context handle, weir_device id, weir_device_info *out) {
  pool::Context *context = nullptr;
  WEIR_TRY(get(handle, &context));
  const backend::Device *device = context->places().find(id);
  if (device == nullptr) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "device is %u; there are %u", id,
                context->places().count());
  }
  weir_device_info value = WEIR_DEVICE_INFO_INIT;
  value.backend = device->backend;
  value.capabilities = device->description.capabilities;
  value.granule = device->description.granule;
  value.numa_node = context->places().numa_node(*device);
  const topology::Card card = context->places().card(*device);
  value.parent = card.parent;
  value.partition = card.partition;
  value.partition_count = card.partitions;
  std::memcpy(value.name, device->description.name, sizeof value.name);
  std::memcpy(value.pci_address, device->description.pci_address, sizeof value.pci_address);
  std::memcpy(value.uuid, device->description.uuid, sizeof value.uuid);
  WEIR_TRY(device->check(device->table().device_memory(device->state(), device->index,
                                                       &value.memory_free, &value.memory_total),
                         "device_memory"));
  return write_output(value, "info", out);
}

Status native_memory(weir_context handle, weir_device id, uint64_t address, uint32_t kind,
                     void *out) {
  pool::Context *context = nullptr;
  WEIR_TRY(get(handle, &context));
  if (id == WEIR_DEVICE_HOST)
    return fail(WEIR_ERROR_NOT_SUPPORTED, "device is WEIR_DEVICE_HOST: its memory is no runtime's");
  const backend::Device *device = context->places().find(id);
  if (device == nullptr)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "device is %u; there are %u", id,
                context->places().count());
  WEIR_TRY(need(out, "out"));
  uint32_t size = 0;
  std::memcpy(&size, out, sizeof size);
  if (size < 2 * sizeof(uint32_t) || size > most_size)
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "out.struct_size is %u; initialise it with its *_INIT macro", size);
  if (!device->has(WEIR_CAP_NATIVE_MEMORY))
    return fail(WEIR_ERROR_NOT_SUPPORTED,
                "device %u, of backend %s, has no objects behind its addresses", id,
                device->runtime->name());
  return device->check(
      device->table().native_memory(device->state(), device->index, address, kind, out),
      "native_memory");
}

Status backend_info(weir_context handle, uint32_t index, weir_backend_info *out) {
  pool::Context *context = nullptr;
  WEIR_TRY(get(handle, &context));
  if (index >= context->backend_count()) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "index is %u; there are %u backends", index,
                context->backend_count());
  }
  const backend::Runtime &runtime = context->runtime(index);
  weir_backend_info value = WEIR_BACKEND_INFO_INIT;
  value.available = runtime.available() ? 1 : 0;
  value.first_device = context->first_device(index);
  value.device_count = context->first_device(index + 1) - value.first_device;
  value.name = runtime.name();
  value.version = runtime.version();
  value.reason = runtime.available() ? "" : runtime.reason();
  value.path = runtime.path();
  return write_output(value, "info", out);
}

Status open_stream(weir_context handle, weir_device id, void *native, uint64_t flags, bool wrap,
                   weir_stream *out) {
  pool::Context *context = nullptr;
  WEIR_TRY(get(handle, &context));
  WEIR_TRY(need(out, "stream"));
  if (flags != 0)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "flags is %#llx, not 0",
                static_cast<unsigned long long>(flags));
  const backend::Device *device = nullptr;
  if (id == WEIR_DEVICE_HOST) {
    if (wrap) return fail(WEIR_ERROR_NOT_SUPPORTED, "the CPU has no native streams to wrap");
  } else {
    device = context->places().find(id == WEIR_DEVICE_DEFAULT ? 0 : id);
    if (device == nullptr)
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "device is %u; there are %u", id,
                  context->places().count());
  }
  backend::Stream *stream = nullptr;
  WEIR_TRY(context->streams().open(device, wrap, native, context, &stream));
  context->user_streams.fetch_add(1);
  *out = reinterpret_cast<weir_stream>(stream);
  return {};
}

Status close_stream(weir_stream handle) {
  if (handle == nullptr) return {};
  backend::Stream *stream = nullptr;
  WEIR_TRY(get(handle, &stream));
  auto *context = static_cast<pool::Context *>(stream->owner);
  if (context->any_pool([stream](pool::Pool &pool) { return pool.engine().has_leases(*stream); }))
    return fail(WEIR_ERROR_BUSY, "leases taken on the stream are not released");
  context->user_streams.fetch_sub(1);
  return context->streams().close(stream);
}

}  // namespace
}  // namespace weir::api

using weir::Status;
using weir::api::get;
using weir::api::guarded;
using weir::api::need;

extern "C" {

weir_result weir_context_create(const weir_context_desc *desc, weir_context *context) {
  return guarded([&] { return weir::api::create(desc, context); });
}

weir_result weir_context_destroy(weir_context context) {
  return guarded([&]() -> Status {
    if (context == nullptr) return {};
    weir::pool::Context *object = nullptr;
    WEIR_TRY(get(context, &object));
    WEIR_TRY(object->may_end());
    object->tracer().finish();
    object->die();
    weir::api::remove_context(object);
    delete object;
    return {};
  });
}

weir_result weir_backend_count(weir_context context, uint32_t *count) {
  return guarded([&]() -> Status {
    weir::pool::Context *object = nullptr;
    WEIR_TRY(get(context, &object));
    WEIR_TRY(need(count, "count"));
    *count = object->backend_count();
    return {};
  });
}

weir_result weir_backend_info_get(weir_context context, uint32_t index, weir_backend_info *info) {
  return guarded([&] { return weir::api::backend_info(context, index, info); });
}

weir_result weir_device_count(weir_context context, uint32_t *count) {
  return guarded([&]() -> Status {
    weir::pool::Context *object = nullptr;
    WEIR_TRY(get(context, &object));
    WEIR_TRY(need(count, "count"));
    *count = object->places().count();
    return {};
  });
}

weir_result weir_device_info_get(weir_context context, weir_device device, weir_device_info *info) {
  return guarded([&] { return weir::api::device_info(context, device, info); });
}

weir_result weir_device_find(weir_context context, const char *wish, weir_device *device) {
  return guarded([&]() -> Status {
    weir::pool::Context *object = nullptr;
    WEIR_TRY(get(context, &object));
    WEIR_TRY(need(device, "device"));
    return weir::pool::find_device(*object, wish, device);
  });
}

weir_result weir_link_info_get(weir_context context, weir_device from, weir_device to,
                               weir_link_info *info) {
  return guarded([&]() -> Status {
    weir::pool::Context *object = nullptr;
    WEIR_TRY(get(context, &object));
    for (const weir_device side : {from, to}) {
      if (side != WEIR_DEVICE_HOST && object->places().find(side) == nullptr) {
        return weir::fail(WEIR_ERROR_INVALID_ARGUMENT, "device is %u; there are %u", side,
                          object->places().count());
      }
    }
    weir_link_info value = WEIR_LINK_INFO_INIT;
    WEIR_TRY(object->places().link(from, to, &value));
    return weir::write_output(value, "info", info);
  });
}

weir_result weir_native_memory(weir_context context, weir_device device, uint64_t address,
                               uint32_t kind, void *out) {
  return guarded([&] { return weir::api::native_memory(context, device, address, kind, out); });
}

weir_result weir_stream_create(weir_context context, weir_device device, uint64_t flags,
                               weir_stream *stream) {
  return guarded(
      [&] { return weir::api::open_stream(context, device, nullptr, flags, false, stream); });
}

weir_result weir_stream_wrap(weir_context context, weir_device device, void *native, uint64_t flags,
                             weir_stream *stream) {
  return guarded(
      [&] { return weir::api::open_stream(context, device, native, flags, true, stream); });
}

weir_result weir_stream_close(weir_stream stream) {
  return guarded([&] { return weir::api::close_stream(stream); });
}

weir_result weir_stream_native(weir_stream stream, void **native) {
  return guarded([&]() -> Status {
    weir::backend::Stream *object = nullptr;
    WEIR_TRY(get(stream, &object));
    WEIR_TRY(need(native, "native"));
    if (object->device == nullptr)
      return weir::fail(WEIR_ERROR_NOT_SUPPORTED, "the CPU has no native streams");
    const weir::backend::Device &device = *object->device;
    return device.check(device.table().stream_native(device.state(), object->native, native),
                        "stream_native");
  });
}

weir_result weir_stream_synchronize(weir_stream stream) {
  return guarded([&]() -> Status {
    weir::backend::Stream *object = nullptr;
    WEIR_TRY(get(stream, &object));
    if (object->device == nullptr) return {};
    const weir::backend::Device &device = *object->device;
    WEIR_TRY(device.check(device.table().stream_synchronize(device.state(), object->native),
                          "stream_synchronize"));
    auto *const context = static_cast<weir::pool::Context *>(object->owner);
    if (weir::Tape *const tape = context->tracer().recording(); tape != nullptr) {
      weir::notes::Synchronize note;
      note.stream = object->slot;
      weir::notes::put(*tape, weir::notes::synchronize, &note);
    }
    return {};
  });
}

weir_result weir_stream_query(weir_stream stream) {
  return guarded([&]() -> Status {
    weir::backend::Stream *object = nullptr;
    WEIR_TRY(get(stream, &object));
    if (object->device == nullptr) return {};
    const weir::backend::Device &device = *object->device;
    return device.check(device.table().stream_query(device.state(), object->native),
                        "stream_query");
  });
}

weir_result weir_stream_host_call(weir_stream stream, weir_host_function function, void *user) {
  return guarded([&]() -> Status {
    weir::backend::Stream *object = nullptr;
    WEIR_TRY(get(stream, &object));
    if (function == nullptr) return weir::fail(WEIR_ERROR_INVALID_ARGUMENT, "function is NULL");
    if (object->device == nullptr || !object->device->has(WEIR_CAP_HOST_CALL)) {
      return weir::fail(WEIR_ERROR_NOT_SUPPORTED,
                        "the stream's device can't run host functions in stream order");
    }
    const weir::backend::Device &device = *object->device;
    return device.check(
        device.table().stream_host_call(device.state(), object->native, function, user),
        "stream_host_call");
  });
}

}  // extern "C"
