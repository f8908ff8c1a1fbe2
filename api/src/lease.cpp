// SPDX-License-Identifier: Apache-2.0
//
// weir/lease.h: names of operations, acquire, release, asynchronous requests, prefetch, announce.

#include "api/src/guard.hpp"
#include "core/pool/recorded_calls.hpp"
#include "core/pool/taped_calls.hpp"

#include <cstring>
#include <memory>

using weir::fail;
using weir::Status;
using weir::api::get;
using weir::api::guarded;
using weir::api::need;
using weir::backend::Stream;
using weir::pool::Context;
using weir::pool::Pool;
using weir::pool::Request;

namespace {

constexpr weir::page::AcquireOptions usual_options{};

Status read_options(Pool &pool, const weir_acquire_options *given,
                    weir::page::AcquireOptions *options) {
  if (given == nullptr) return {};
  weir_acquire_options desc = WEIR_ACQUIRE_OPTIONS_INIT;
  WEIR_TRY(weir::read_descriptor(given, "options", &desc));
  if ((desc.flags & ~uint64_t{WEIR_ACQUIRE_SOLE_HOLDER}) != 0) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "options.flags %#llx has bits this version does not know",
                static_cast<unsigned long long>(desc.flags));
  }
  weir::lease::OperationNames &names = pool.engine().operation_names();
  if (desc.operation_id != 0 && !names.given(desc.operation_id)) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT,
                "options.operation_id is %u; weir_operation_id has not given it",
                desc.operation_id);
  }
  if (desc.timeout_ns == WEIR_INFINITE && (desc.flags & WEIR_ACQUIRE_SOLE_HOLDER) == 0) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT, "an infinite timeout needs WEIR_ACQUIRE_SOLE_HOLDER");
  }
  options->timeout_ns = desc.timeout_ns;
  options->operation = desc.operation_id;
  if (desc.operation_id == 0 && desc.operation != nullptr)
    options->operation = names.try_id_of(desc.operation);
  return {};
}

struct RequestHandle {
  std::shared_ptr<Request> request;
};

Status get_request(weir_request handle, Request **request) {
  if (handle == nullptr) return fail(WEIR_ERROR_INVALID_HANDLE, "request is NULL");
  *request = reinterpret_cast<RequestHandle *>(handle)->request.get();
  if ((*request)->magic == Request::alive_magic) return {};
  return fail(WEIR_ERROR_INVALID_HANDLE, "%p is no request", static_cast<void *>(handle));
}

Status acquire_async(weir_pool handle, weir_stream stream, weir_use *uses, size_t count,
                     const weir_acquire_options *given, weir_acquire_callback callback, void *user,
                     weir_request *out) {
  Pool *pool = nullptr;
  WEIR_TRY(get(handle, &pool));
  auto request = std::make_shared<Request>();
  WEIR_TRY(weir::api::get(*pool, stream, &request->stream));
  WEIR_TRY(need(uses, "uses"));
  if (!request->stream->any_thread()) {
    return fail(WEIR_ERROR_NOT_SUPPORTED,
                "the wrapped stream may be used on its own threads only (no STREAM_ANY_THREAD); "
                "acquire on one of them, or on a stream of weir_stream_create");
  }
  if (callback == nullptr) return fail(WEIR_ERROR_INVALID_ARGUMENT, "callback is NULL");
  weir::page::AcquireOptions options;
  WEIR_TRY(read_options(*pool, given, &options));
  request->uses = uses;
  request->count = count;
  request->timeout_ns = options.timeout_ns;
  request->operation = options.operation;
  request->callback = callback;
  request->user = user;
  request->engine = &pool->engine();
  auto owner = out != nullptr ? std::make_unique<RequestHandle>(RequestHandle{request}) : nullptr;
  WEIR_TRY(pool->submit(std::move(request)));
  if (out != nullptr) *out = reinterpret_cast<weir_request>(owner.release());
  return {};
}

}  // namespace

extern "C" {

weir_result weir_operation_id(weir_pool pool, const char *name, uint32_t *id) {
  return guarded(pool, [&]() -> Status {
    Pool *object = nullptr;
    WEIR_TRY(get(pool, &object));
    WEIR_TRY(need(name, "name"));
    WEIR_TRY(need(id, "id"));
    const size_t length = std::strlen(name);
    if (length == 0) return fail(WEIR_ERROR_INVALID_ARGUMENT, "name is empty");
    constexpr size_t longest = weir::lease::OperationNames::longest;
    if (length > longest) {
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "name has %zu bytes; at most %zu are allowed",
                  length, longest);
    }
    *id = object->engine().operation_names().id_of({name, length});
    namespace recorded = weir::pool::recorded;
    recorded::lines(recorded::tape_of(object->engine().tap), 4096, [&](recorded::VmtLines &text) {
      return text.operation_name(object->id(), *id, {name, length});
    });
    return {};
  });
}

weir_result weir_acquire(weir_pool pool, weir_stream stream, weir_use *uses, size_t count,
                         const weir_acquire_options *options, weir_lease *lease) {
  return guarded(pool, [&]() -> Status {
    Pool *object = nullptr;
    Stream *queue = nullptr;
    WEIR_TRY(get(pool, &object));
    WEIR_TRY(weir::api::get(*object, stream, &queue));
    if (uses == nullptr || lease == nullptr) {
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "%s is NULL", uses == nullptr ? "uses" : "lease");
    }
    weir::Tape *const tape = object->engine().tap.tape();
    if (options == nullptr && tape == nullptr)
      return object->engine().acquire(*queue, uses, count, usual_options, lease);
    weir::page::AcquireOptions own;
    WEIR_TRY(read_options(*object, options, &own));
    if (tape != nullptr) [[unlikely]]
      return weir::pool::taped::acquire(*object, *tape, *queue, uses, count, own, lease);
    return object->engine().acquire(*queue, uses, count, own, lease);
  });
}

weir_result weir_release(weir_lease lease, weir_stream stream) {
  return guarded([&]() -> Status {
    Stream *queue = nullptr;
    WEIR_TRY(get(stream, &queue));
    const auto *context = static_cast<const Context *>(queue->owner);
    Pool *pool = context->pool(static_cast<uint32_t>(reinterpret_cast<uint64_t>(lease) >> 52));
    if (pool == nullptr)
      return fail(WEIR_ERROR_INVALID_HANDLE, "%p is no lease", static_cast<void *>(lease));
    if (weir::Tape *const tape = pool->engine().tap.tape(); tape != nullptr) [[unlikely]]
      return weir::pool::taped::release(*pool, *tape, lease, *queue);
    return pool->engine().release(lease, *queue);
  });
}

weir_result weir_acquire_async(weir_pool pool, weir_stream stream, weir_use *uses, size_t count,
                               const weir_acquire_options *options, weir_acquire_callback callback,
                               void *user, weir_request *request) {
  return guarded(pool, [&] {
    return acquire_async(pool, stream, uses, count, options, callback, user, request);
  });
}

weir_result weir_request_wait(weir_request request, weir_result *result) {
  return guarded([&]() -> Status {
    Request *object = nullptr;
    WEIR_TRY(get_request(request, &object));
    weir::Guard hold(object->mutex);
    // The engine is there as long as a request of it has not ended.
    if (!object->done && Pool::serves(*object->engine))
      return fail(WEIR_ERROR_BUSY, "not from within the callback of an asynchronous acquire");
    while (!object->done) object->ended.wait(hold);
    if (result != nullptr) *result = object->result;
    (void)object->error.take();
    return {};
  });
}

weir_result weir_request_cancel(weir_request request) {
  return guarded([&]() -> Status {
    Request *object = nullptr;
    WEIR_TRY(get_request(request, &object));
    // The pool may be gone once the request has ended, which it can't while this is held.
    const weir::Guard hold(object->mutex);
    if (object->done) return {};
    object->cancelled.store(true);
    object->engine->wake_all();
    return {};
  });
}

void weir_request_close(weir_request request) { delete reinterpret_cast<RequestHandle *>(request); }

weir_result weir_prefetch(weir_pool pool, weir_stream stream, const weir_use *uses, size_t count) {
  return guarded(pool, [&]() -> Status {
    Pool *object = nullptr;
    Stream *queue = nullptr;
    WEIR_TRY(get(pool, &object));
    WEIR_TRY(weir::api::get(*object, stream, &queue));
    if (count != 0) WEIR_TRY(need(uses, "uses"));
    WEIR_TRY(object->engine().prefetcher().prefetch(*queue, uses, count));
    namespace recorded = weir::pool::recorded;
    recorded::prefetch(*object, recorded::tape_of(object->engine().tap), *queue, uses, count);
    return {};
  });
}

weir_result weir_announce(weir_pool pool, weir_stream stream, const weir_operation *operations,
                          size_t count, uint64_t flags) {
  return guarded(pool, [&]() -> Status {
    Pool *object = nullptr;
    Stream *queue = nullptr;
    WEIR_TRY(get(pool, &object));
    WEIR_TRY(weir::api::get(*object, stream, &queue));
    if (count != 0) WEIR_TRY(need(operations, "operations"));
    if ((flags & ~uint64_t{WEIR_ANNOUNCE_REPLACE}) != 0) {
      return fail(WEIR_ERROR_INVALID_ARGUMENT, "flags %#llx has bits this version does not know",
                  static_cast<unsigned long long>(flags));
    }
    WEIR_TRY(object->engine().prefetcher().announce(*queue, operations, count,
                                                    (flags & WEIR_ANNOUNCE_REPLACE) != 0));
    namespace recorded = weir::pool::recorded;
    recorded::announce(*object, recorded::tape_of(object->engine().tap), *queue, operations, count,
                       flags);
    return {};
  });
}

}  // extern "C"
