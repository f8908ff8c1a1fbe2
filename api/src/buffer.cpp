// SPDX-License-Identifier: Apache-2.0
//
// weir/buffer.h: buffers and their bytes.

#include "api/src/guard.hpp"
#include "core/pool/recorded_calls.hpp"
#include "core/pool/taped_calls.hpp"

#include <cstdio>
#include <vector>

using weir::fail;
using weir::Status;
using weir::api::get;
using weir::api::guarded;
using weir::api::need;
using weir::backend::Stream;
using weir::pool::Engine;
using weir::pool::Pool;
using weir::pool::recorded::line;
using weir::pool::recorded::number;
using weir::pool::recorded::tape_of;
using weir::record::VmtBytes;
using weir::record::VmtLines;

namespace {

/// Runs `body` with the pool's engine.
template <class Body>
weir_result with_engine(weir_pool pool, Body &&body) noexcept {
  return guarded(pool, [&]() -> Status {
    Pool *object = nullptr;
    WEIR_TRY(get(pool, &object));
    return body(object->engine());
  });
}

/// What the call answers, of which there is a line if it has succeeded.
Status recorded_bytes(Engine &engine, VmtBytes what, const weir::record::VmtRange &range,
                      Status status) noexcept {
  if (status) line(engine.tap, [&](VmtLines &text) { return text.bytes(what, range); });
  return status;
}

Status create_buffer(weir_pool handle, const weir_buffer_desc *given, const void *caller,
                     weir_buffer *out) {
  Pool *pool = nullptr;
  WEIR_TRY(get(handle, &pool));
  WEIR_TRY(need(out, "buffer"));
  weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
  WEIR_TRY(weir::read_descriptor(given, "desc", &desc));
  uint32_t client = 0;
  if (desc.client != nullptr) {
    weir::pool::ClientHandle *object = nullptr;
    WEIR_TRY(get(desc.client, &object));
    if (object->pool != pool)
      return fail(WEIR_ERROR_INVALID_HANDLE, "the client is of another pool");
    client = object->id;
  }
  const uint32_t stack = pool->stack_from(caller);
  WEIR_TRY(pool->engine().maker().create_buffer(desc, client, stack, out));
  if (weir::Tape *const tape = pool->engine().tap.tape(); tape != nullptr)
    weir::pool::taped::tell_buffer(*pool, *tape, *out, desc, stack);
  return {};
}

Status place_buffers(weir_pool handle, const weir_buffer_desc *const *descs, size_t count,
                     weir_device *homes) {
  constexpr size_t most = 4096;
  Pool *pool = nullptr;
  WEIR_TRY(get(handle, &pool));
  WEIR_TRY(need(descs, "descs"));
  WEIR_TRY(need(homes, "homes"));
  if (count == 0 || count > most)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "count is %zu, not 1 to %zu", count, most);
  std::vector<weir_buffer_desc> read(count, weir_buffer_desc WEIR_BUFFER_DESC_INIT);
  std::vector<const weir_buffer_desc *> all(count);
  for (size_t i = 0; i < count; ++i) {
    char name[32];
    std::snprintf(name, sizeof name, "descs[%zu]", i);
    WEIR_TRY(weir::read_descriptor(descs[i], name, &read[i]));
    all[i] = &read[i];
  }
  return pool->engine().homes().place_together(all.data(), count, homes);
}

}  // namespace

extern "C" {

weir_result weir_buffer_create(weir_pool pool, const weir_buffer_desc *desc, weir_buffer *buffer) {
  const void *const caller = __builtin_return_address(0);
  return guarded(pool, [&] { return create_buffer(pool, desc, caller, buffer); });
}

weir_result weir_buffer_place(weir_pool pool, const weir_buffer_desc *const *descs, size_t count,
                              weir_device *homes) {
  return guarded(pool, [&] { return place_buffers(pool, descs, count, homes); });
}

weir_result weir_buffer_destroy(weir_pool pool, weir_buffer buffer) {
  return with_engine(pool, [&](Engine &engine) -> Status {
    WEIR_TRY(engine.maker().destroy_buffer(buffer));
    if (weir::Tape *const tape = engine.tap.tape(); tape != nullptr)
      weir::pool::taped::tell_end(*reinterpret_cast<Pool *>(pool), *tape, buffer);
    return {};
  });
}

weir_result weir_buffer_info_get(weir_pool pool, weir_buffer buffer, uint64_t offset,
                                 uint64_t length, weir_buffer_info *info) {
  return with_engine(pool, [&](Engine &engine) -> Status {
    weir_buffer_info value = WEIR_BUFFER_INFO_INIT;
    WEIR_TRY(engine.inspector().query(buffer, offset, length, &value));
    return weir::write_output(value, "info", info);
  });
}

weir_result weir_buffer_shards(weir_pool pool, weir_buffer buffer, uint64_t offset,
                               weir_shard *shards, size_t capacity, size_t *count) {
  return with_engine(pool, [&](Engine &engine) -> Status {
    WEIR_TRY(need(count, "count"));
    if (capacity != 0) WEIR_TRY(need(shards, "shards"));
    return engine.inspector().list_shards(buffer, offset, shards, capacity, count);
  });
}

weir_result weir_buffer_read(weir_pool pool, weir_buffer buffer, uint64_t offset, uint64_t length,
                             void *destination) {
  return with_engine(pool, [&](Engine &engine) {
    return recorded_bytes(engine, VmtBytes::read, {number(buffer), offset, length},
                          engine.cpu_copies().read(buffer, offset, length, destination));
  });
}

weir_result weir_buffer_write(weir_pool pool, weir_buffer buffer, uint64_t offset, uint64_t length,
                              const void *source) {
  return with_engine(pool, [&](Engine &engine) {
    return recorded_bytes(engine, VmtBytes::write, {number(buffer), offset, length},
                          engine.cpu_copies().write(buffer, offset, length, source));
  });
}

weir_result weir_advise(weir_pool pool, weir_buffer buffer, uint64_t offset, uint64_t length,
                        uint32_t advice) {
  return with_engine(pool, [&](Engine &engine) -> Status {
    WEIR_TRY(engine.maker().advise(buffer, offset, length, advice));
    line(engine.tap, [&](VmtLines &text) {
      return text.advise({number(buffer), offset, length}, advice);
    });
    return {};
  });
}

weir_result weir_discard(weir_pool pool, weir_buffer buffer, uint64_t offset, uint64_t length) {
  return with_engine(pool, [&](Engine &engine) {
    return recorded_bytes(engine, VmtBytes::discard, {number(buffer), offset, length},
                          engine.cpu_copies().discard(buffer, offset, length));
  });
}

weir_result weir_buffer_set_name(weir_pool pool, weir_buffer buffer, const char *name) {
  return with_engine(pool, [&](Engine &engine) -> Status {
    WEIR_TRY(engine.maker().set_name(buffer, name));
    if (weir::Tape *const tape = engine.tap.tape(); tape != nullptr)
      weir::pool::taped::tell_new_name(*reinterpret_cast<Pool *>(pool), *tape, buffer, name);
    return {};
  });
}

weir_result weir_buffer_name(weir_pool pool, weir_buffer buffer, char *text, size_t capacity,
                             size_t *needed) {
  return with_engine(pool, [&](Engine &engine) -> Status {
    WEIR_TRY(weir::api::need_text(text, capacity, needed));
    std::string name;
    WEIR_TRY(engine.maker().name_of(buffer, &name));
    return weir::api::write_text(name, text, capacity, needed);
  });
}

weir_result weir_buffer_set_priority(weir_pool pool, weir_buffer buffer, int32_t priority) {
  return with_engine(pool, [&](Engine &engine) -> Status {
    WEIR_TRY(engine.maker().set_priority(buffer, priority));
    line(engine.tap, [&](VmtLines &text) { return text.priority(number(buffer), priority); });
    return {};
  });
}

weir_result weir_hold(weir_pool pool, weir_buffer buffer, weir_device device, uint64_t *address) {
  return weir_hold_as(pool, buffer, device, WEIR_READ_WRITE, 0, address);
}

weir_result weir_hold_as(weir_pool pool, weir_buffer buffer, weir_device device, uint32_t mode,
                         uint64_t flags, uint64_t *address) {
  return with_engine(pool, [&](Engine &engine) -> Status {
    WEIR_TRY(need(address, "address"));
    if (mode != WEIR_READ && mode != WEIR_READ_WRITE)
      return fail(WEIR_ERROR_INVALID_ARGUMENT,
                  "mode is %u, not WEIR_READ (%d) or WEIR_READ_WRITE (%d)", mode, WEIR_READ,
                  WEIR_READ_WRITE);
    if ((flags & ~uint64_t{WEIR_HOLD_ALONE}) != 0)
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "flags %#llx has bits this version does not know",
                  static_cast<unsigned long long>(flags));
    const bool alone = (flags & WEIR_HOLD_ALONE) != 0;
    if (alone && mode == WEIR_READ)
      return fail(WEIR_ERROR_INVALID_ARGUMENT,
                  "flags: WEIR_HOLD_ALONE is for mode WEIR_READ_WRITE (%d); mode is %u",
                  WEIR_READ_WRITE, mode);
    using weir::HoldKind;
    const HoldKind kind = mode == WEIR_READ ? HoldKind::read
                          : alone           ? HoldKind::alone
                                            : HoldKind::shared;
    WEIR_TRY(engine.holder().hold(buffer, device, kind, address));
    line(engine.tap,
         [&](VmtLines &text) { return text.hold(number(buffer), device, mode, flags); });
    return {};
  });
}

weir_result weir_unhold(weir_pool pool, weir_buffer buffer) {
  return with_engine(pool, [&](Engine &engine) -> Status {
    WEIR_TRY(engine.holder().unhold(buffer));
    line(engine.tap, [&](VmtLines &text) { return text.unhold(number(buffer)); });
    return {};
  });
}

weir_result weir_host_register(weir_pool pool, weir_buffer buffer, void *memory, uint64_t flags) {
  return with_engine(pool, [&](Engine &engine) -> Status {
    WEIR_TRY(engine.registrar().host_register(buffer, memory, flags));
    line(engine.tap, [&](VmtLines &text) { return text.register_host(number(buffer), flags); });
    return {};
  });
}

weir_result weir_host_unregister(weir_pool pool, weir_buffer buffer) {
  return with_engine(pool, [&](Engine &engine) -> Status {
    WEIR_TRY(engine.registrar().host_unregister(buffer));
    line(engine.tap, [&](VmtLines &text) { return text.unregister_host(number(buffer)); });
    return {};
  });
}

weir_result weir_malloc(weir_pool pool, weir_device device, weir_stream stream, uint64_t size,
                        uint64_t *address) {
  const void *const caller = __builtin_return_address(0);
  return guarded(pool, [&]() -> Status {
    Pool *object = nullptr;
    WEIR_TRY(get(pool, &object));
    WEIR_TRY(need(address, "address"));
    Stream *queue = nullptr;
    if (stream != nullptr) WEIR_TRY(get(*object, stream, &queue));
    const uint32_t stack = object->stack_from(caller);
    WEIR_TRY(object->engine().lines().malloc(device, queue, size, stack, address));
    // A timeline shows by which calls; without them it has nothing to show.
    weir::Tape *const tape =
        stack != 0 ? object->engine().tap.tape() : tape_of(object->engine().tap);
    if (tape != nullptr) [[unlikely]]
      weir::pool::taped::tell_allocation(*object, *tape, queue, device, *address, size, stack);
    return {};
  });
}

weir_result weir_free(weir_pool pool, weir_stream stream, uint64_t address) {
  return guarded(pool, [&]() -> Status {
    Pool *object = nullptr;
    WEIR_TRY(get(pool, &object));
    Stream *queue = nullptr;
    if (stream != nullptr) WEIR_TRY(get(*object, stream, &queue));
    // Before it: another thread may be given the same memory at once.
    if (weir::Tape *const tape = tape_of(object->engine().tap); tape != nullptr) [[unlikely]]
      weir::pool::taped::tell_free(*object, *tape, queue, address);
    return object->engine().lines().free(queue, address);
  });
}

}  // extern "C"
