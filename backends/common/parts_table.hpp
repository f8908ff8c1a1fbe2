// SPDX-License-Identifier: Apache-2.0
//
// The entries of a table whose backend is made of the usual parts: a state with `log`, `log_user`, a `platform` and, once started, `running`,
// which has `memory`, `streams`, `fences`, `copies` and, with virtual memory, `space`. Each entry hands its arguments to the part that
// knows; no exception leaves one. What a backend does otherwise it puts into its table over these.
//
// `Backend` names the parts: `name`; types State (weir_be_state), Running and Stream; start(desc, &state, &why), text_of(code), and
// describe_link(platform, from, to, &link).
#pragma once

#include "backends/common/entry.hpp"

#include <weir/backend.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <string>

namespace weir::common {

template <class Backend>
struct PartsTable {
  using State = typename Backend::State;
  using Running = typename Backend::Running;
  using Stream = typename Backend::Stream;

  template <class Body>
  static weir_result enter(State *state, const char *entry, Body body) noexcept {
    return common::enter(state, Backend::name, entry, [&] { return body(*state->running); });
  }
  /// The same for entries about a stream.
  template <class Body>
  static weir_result enter_stream(State *state, weir_be_stream stream, const char *entry,
                                  Body body) noexcept {
    return enter(state, entry, [&](Running &running) -> weir_result {
      std::shared_ptr<Stream> found;
      WEIR_BACKEND_TRY(running.streams.find(stream, &found));
      return body(running, *found);
    });
  }
  static weir_result missing(const char *what) noexcept {
    return refuse(WEIR_ERROR_INVALID_ARGUMENT, "%s is NULL", what);
  }

  // ---- runtime

  static weir_result start(const weir_be_start *desc, State **state, const char **reason) noexcept {
    // The sentence must outlive the call and is the library's until the next start: one a thread.
    thread_local char sentence[512];
    *reason = sentence;
    try {
      std::string why;
      std::unique_ptr<State> made;
      const weir_result result = start_state(*desc, &made, &why);
      std::snprintf(sentence, sizeof sentence, "%s", why.c_str());
      if (result == WEIR_SUCCESS) *state = made.release();
      return result;
    } catch (const std::exception &) {
      std::snprintf(sentence, sizeof sentence, "no host memory for the backend's own records");
      return WEIR_ERROR_OUT_OF_HOST_MEMORY;
    }
  }
  static weir_result start_state(const weir_be_start &desc, std::unique_ptr<State> *made,
                                 std::string *why) {
    auto state = std::make_unique<State>();
    state->log = desc.log;
    state->log_user = desc.log_user;
    WEIR_BACKEND_TRY(Backend::start(desc, state.get(), why));
    state->running = std::make_unique<Running>(state->platform);
    for (const std::string &remark : state->platform.remarks()) {
      if (state->log == nullptr) break;
      const std::string line = std::string(Backend::name) + ": " + remark;
      state->log(state->log_user, WEIR_LOG_WARNING, line.c_str());
    }
    *made = std::move(state);
    return WEIR_SUCCESS;
  }
  static void stop(State *state) noexcept { const std::unique_ptr<State> last(state); }
  static const char *runtime_version(State *state) noexcept {
    return state->platform.version_text().c_str();
  }
  static int64_t last_error_code(State *) noexcept { return last_native(); }
  static const char *error_text(State *, int64_t native) noexcept {
    return Backend::text_of(native);
  }

  // ---- devices

  static weir_result device_count(State *state, uint32_t *count) noexcept {
    *count = static_cast<uint32_t>(state->platform.devices().size());
    return WEIR_SUCCESS;
  }
  static weir_result link_describe(State *state, uint32_t from, uint32_t to,
                                   weir_be_link *link) noexcept {
    return enter(state, "link_describe", [&](Running &) -> weir_result {
      if (from != WEIR_DEVICE_HOST) WEIR_BACKEND_TRY(state->platform.check_device(from));
      if (to != WEIR_DEVICE_HOST) WEIR_BACKEND_TRY(state->platform.check_device(to));
      weir_be_link full{};
      Backend::describe_link(state->platform, from, to, &full);
      give(full, link);
      return WEIR_SUCCESS;
    });
  }

  // ---- virtual memory

  static weir_result granule_create(State *state, uint32_t device, uint64_t bytes, uint64_t flags,
                                    weir_be_granule *granule) noexcept {
    return enter(state, "granule_create", [&](Running &running) {
      return running.space.create(device, bytes, flags, granule);
    });
  }
  static weir_result granule_destroy(State *state, uint32_t device,
                                     weir_be_granule granule) noexcept {
    return enter(state, "granule_destroy",
                 [&](Running &running) { return running.space.destroy(device, granule); });
  }
  static weir_result range_reserve(State *state, uint32_t device, uint64_t bytes,
                                   uint64_t alignment, uint64_t *address) noexcept {
    return enter(state, "range_reserve", [&](Running &running) {
      return running.space.reserve(device, bytes, alignment, address);
    });
  }
  static weir_result range_free(State *state, uint32_t device, uint64_t address,
                                uint64_t bytes) noexcept {
    return enter(state, "range_free",
                 [&](Running &running) { return running.space.free(device, address, bytes); });
  }
  static weir_result map(State *state, uint32_t device, uint64_t address, uint64_t bytes,
                         weir_be_granule granule, uint64_t offset, const uint32_t *peers,
                         uint32_t peer_count) noexcept {
    return enter(state, "map", [&](Running &running) {
      return running.space.map(device, address, bytes, granule, offset, peers, peer_count);
    });
  }
  static weir_result unmap(State *state, uint32_t device, uint64_t address,
                           uint64_t bytes) noexcept {
    return enter(state, "unmap",
                 [&](Running &running) { return running.space.unmap(device, address, bytes); });
  }
  static weir_result map_run(State *state, uint32_t device, uint64_t address,
                             const weir_be_piece *pieces, uint32_t count, const uint32_t *peers,
                             uint32_t peer_count) noexcept {
    return enter(state, "map_run", [&](Running &running) {
      return running.space.map_run(device, address, pieces, count, peers, peer_count);
    });
  }
  static weir_result unmap_run(State *state, uint32_t device, uint64_t address,
                               uint64_t bytes) noexcept {
    return enter(state, "unmap_run",
                 [&](Running &running) { return running.space.unmap_run(device, address, bytes); });
  }

  // ---- plain memory, and the host's

  static weir_result plain_allocate(State *state, uint32_t device, uint64_t bytes,
                                    uint64_t alignment, uint64_t *address) noexcept {
    return enter(state, "plain_allocate", [&](Running &running) {
      return running.memory.allocate_plain(device, bytes, alignment, address);
    });
  }
  static weir_result plain_free(State *state, uint32_t device, uint64_t address,
                                uint64_t bytes) noexcept {
    return enter(state, "plain_free", [&](Running &running) {
      return running.memory.free_plain(device, address, bytes);
    });
  }
  static weir_result host_allocate(State *state, uint64_t bytes, void **memory) noexcept {
    return enter(state, "host_allocate",
                 [&](Running &running) { return running.memory.allocate_host(bytes, memory); });
  }
  static weir_result host_free(State *state, void *memory, uint64_t bytes) noexcept {
    return enter(state, "host_free",
                 [&](Running &running) { return running.memory.free_host(memory, bytes); });
  }
  static weir_result host_register(State *state, void *memory, uint64_t bytes) noexcept {
    return enter(state, "host_register",
                 [&](Running &running) { return running.memory.enroll(memory, bytes); });
  }
  static weir_result host_unregister(State *state, void *memory, uint64_t bytes) noexcept {
    return enter(state, "host_unregister",
                 [&](Running &running) { return running.memory.dismiss(memory, bytes); });
  }

  // ---- streams

  static weir_result stream_create(State *state, uint32_t device, uint64_t flags,
                                   weir_be_stream *stream) noexcept {
    return enter(state, "stream_create",
                 [&](Running &running) { return running.streams.create(device, flags, stream); });
  }
  static weir_result stream_wrap(State *state, uint32_t device, void *native,
                                 weir_be_stream *stream) noexcept {
    return enter(state, "stream_wrap",
                 [&](Running &running) { return running.streams.wrap(device, native, stream); });
  }
  static weir_result stream_destroy(State *state, weir_be_stream stream) noexcept {
    return enter(state, "stream_destroy",
                 [&](Running &running) { return running.streams.destroy(stream); });
  }
  static weir_result stream_synchronize(State *state, weir_be_stream stream) noexcept {
    return enter_stream(state, stream, "stream_synchronize",
                        [](Running &, Stream &found) { return found.synchronize(); });
  }
  static weir_result stream_query(State *state, weir_be_stream stream) noexcept {
    return enter_stream(state, stream, "stream_query",
                        [](Running &, Stream &found) { return found.query(); });
  }
  static weir_result stream_host_call(State *state, weir_be_stream stream,
                                      weir_host_function function, void *user) noexcept {
    return enter_stream(state, stream, "stream_host_call",
                        [&](Running &, Stream &found) { return found.host_call(function, user); });
  }

  // ---- fences

  static weir_result fence_record(State *state, weir_be_stream stream,
                                  weir_be_fence *fence) noexcept {
    return enter_stream(state, stream, "fence_record", [&](Running &running, Stream &found) {
      return running.fences.record(found, fence);
    });
  }
  static weir_result stream_wait(State *state, weir_be_stream stream,
                                 weir_be_fence fence) noexcept {
    return enter_stream(state, stream, "stream_wait", [&](Running &running, Stream &found) {
      return running.fences.wait(found, fence);
    });
  }
  static weir_result fence_poll(State *state, weir_be_fence fence) noexcept {
    return enter(state, "fence_poll", [&](Running &running) { return running.fences.poll(fence); });
  }
  static weir_result fence_wait(State *state, weir_be_fence fence, uint64_t timeout_ns) noexcept {
    return enter(state, "fence_wait",
                 [&](Running &running) { return running.fences.finish(fence, timeout_ns); });
  }
  static weir_result fence_destroy(State *state, weir_be_fence fence) noexcept {
    return enter(state, "fence_destroy",
                 [&](Running &running) { return running.fences.destroy(fence); });
  }

  // ---- copies

  static weir_result copy_async(State *state, weir_be_stream stream,
                                const weir_be_copy *copy) noexcept {
    return enter_stream(state, stream, "copy_async", [&](Running &running, Stream &found) {
      return copy != nullptr ? running.copies.copy(found, *copy) : missing("the copy");
    });
  }
  static weir_result fill_async(State *state, weir_be_stream stream, uint64_t address,
                                uint8_t value, uint64_t bytes) noexcept {
    return enter_stream(state, stream, "fill_async", [&](Running &running, Stream &found) {
      return running.copies.fill(found, address, value, bytes);
    });
  }

  // ---- tables

  /// What every backend must have, but device_describe, device_memory and stream_native; and registering and host functions.
  static weir_backend_table required() noexcept {
    weir_backend_table t{};
    t.struct_size = sizeof t;
    t.abi_major = WEIR_BACKEND_ABI_MAJOR;
    t.name = Backend::name;
    t.start = start;
    t.stop = stop;
    t.runtime_version = runtime_version;
    t.last_error_code = last_error_code;
    t.error_text = error_text;
    t.device_count = device_count;
    t.link_describe = link_describe;
    t.plain_allocate = plain_allocate;
    t.plain_free = plain_free;
    t.host_allocate = host_allocate;
    t.host_free = host_free;
    t.host_register = host_register;
    t.host_unregister = host_unregister;
    t.stream_create = stream_create;
    t.stream_wrap = stream_wrap;
    t.stream_destroy = stream_destroy;
    t.stream_synchronize = stream_synchronize;
    t.stream_query = stream_query;
    t.stream_host_call = stream_host_call;
    t.fence_record = fence_record;
    t.stream_wait = stream_wait;
    t.fence_poll = fence_poll;
    t.fence_wait = fence_wait;
    t.fence_destroy = fence_destroy;
    t.copy_async = copy_async;
    t.fill_async = fill_async;
    return t;
  }
  /// Of a backend with virtual memory and runs.
  static void add_space(weir_backend_table *t) noexcept {
    t->granule_create = granule_create;
    t->granule_destroy = granule_destroy;
    t->range_reserve = range_reserve;
    t->range_free = range_free;
    t->map = map;
    t->unmap = unmap;
    t->map_run = map_run;
    t->unmap_run = unmap_run;
  }
};

}  // namespace weir::common
