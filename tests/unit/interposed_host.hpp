// SPDX-License-Identifier: Apache-2.0
//
// The backend under test (the host's, as a rule) behind a table of our own, so that a test decides what a runtime's call answers: the n-th call
// fails, a stream is capturing, the device is lost, a transfer stays in flight. Only entries that may fail in a
// healthy program stand behind it; of what frees only unmap and unmap_run do, which a device that is lost may refuse. The table's functions have no user pointer before start(), so its
// state is global to the program: set it while no other test's context lives.
#pragma once

#include "tests/support/target.hpp"

#include <weir/backend.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <type_traits>

extern "C" const weir_backend_table *weir_host_backend_query(uint32_t abi_major);

namespace weir::test {

/// Asked before each call, by the entry's name, on any thread. WEIR_SUCCESS: let the real entry answer.
using Interpose = weir_result (*)(const char *entry);

/// What stands at the head of a stream until the test opens it.
class Blocker {
 public:
  Blocker() = default;
  Blocker(const Blocker &) = delete;
  Blocker &operator=(const Blocker &) = delete;
  /// No thread stands at it any more.
  ~Blocker() {
    std::unique_lock hold(mutex_);
    open_ = true;
    changed_.notify_all();
    changed_.wait(hold, [this] { return inside_ == 0; });
  }
  void open() {
    std::lock_guard hold(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool is_open() {
    std::lock_guard hold(mutex_);
    return open_;
  }
  static void stand(void *user) {
    auto *self = static_cast<Blocker *>(user);
    std::unique_lock hold(self->mutex_);
    ++self->inside_;
    self->changed_.wait(hold, [self] { return self->open_; });
    --self->inside_;
    self->changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  uint32_t inside_ = 0;
};

struct InterposedHost {
  std::atomic<Interpose> interpose{nullptr};
  std::atomic<Interpose> frees{nullptr};  ///< the same for unmap and unmap_run
  /// If set, each copy and fill enqueued from now on stands behind it: it is in flight until it is opened.
  std::atomic<Blocker *> transfers{nullptr};
  /// The same for fills alone.
  std::atomic<Blocker *> fills{nullptr};
  const weir_backend_table *real = nullptr;
  weir_backend_table table{};

  /// For weir_context_desc.backends.
  static const weir_backend_table *query(uint32_t abi_major);
};
inline InterposedHost interposed;

template <auto Member>
struct Interposed;
template <typename... Args, weir_result (*weir_backend_table::*Member)(Args...)>
struct Interposed<Member> {
  static inline const char *name = "";
  static weir_result call(Args... args) {
    if (const Interpose ask = interposed.interpose.load()) {
      if (const weir_result answer = ask(name); answer != WEIR_SUCCESS) return answer;
    }
    stall(args...);
    return (interposed.real->*Member)(args...);
  }

 private:
  template <typename... None>
  static void stall(weir_be_state *, None...) {}
  template <typename What, typename... Rest>
  static void stall(weir_be_state *state, weir_be_stream stream, What, Rest...) {
    constexpr bool fill = sizeof...(Rest) == 2;
    constexpr bool transfer = std::is_same_v<What, const weir_be_copy *> || fill;
    for (Blocker *blocker : {transfer ? interposed.transfers.load() : nullptr,
                             fill ? interposed.fills.load() : nullptr}) {
      if (blocker != nullptr)
        (void)interposed.real->stream_host_call(state, stream, Blocker::stand, blocker);
    }
  }
};

template <auto Member>
weir_result unmap(weir_be_state *state, uint32_t device, uint64_t address, uint64_t bytes) {
  constexpr bool run = Member == &weir_backend_table::unmap_run;
  const Interpose ask = interposed.frees.load();
  const weir_result answer = ask != nullptr ? ask(run ? "unmap_run" : "unmap") : WEIR_SUCCESS;
  if (answer != WEIR_SUCCESS) return answer;
  return (interposed.real->*Member)(state, device, address, bytes);
}

inline const weir_backend_table *InterposedHost::query(uint32_t abi_major) {
  const weir_backend_query_fn other = Target::get().query();
  interposed.real = other != nullptr ? other(abi_major) : weir_host_backend_query(abi_major);
  if (interposed.real == nullptr) return nullptr;
  interposed.table = *interposed.real;
#define WEIR_INTERPOSE(entry)                            \
  Interposed<&weir_backend_table::entry>::name = #entry; \
  if (interposed.real->entry != nullptr)                 \
  interposed.table.entry = Interposed<&weir_backend_table::entry>::call
  if (interposed.real->unmap != nullptr) interposed.table.unmap = unmap<&weir_backend_table::unmap>;
  if (interposed.real->unmap_run != nullptr)
    interposed.table.unmap_run = unmap<&weir_backend_table::unmap_run>;
  WEIR_INTERPOSE(granule_create);
  WEIR_INTERPOSE(range_reserve);
  WEIR_INTERPOSE(map);
  WEIR_INTERPOSE(map_run);
  WEIR_INTERPOSE(plain_allocate);
  WEIR_INTERPOSE(host_allocate);
  WEIR_INTERPOSE(host_register);
  WEIR_INTERPOSE(stream_create);
  // The host backend has none: its streams record no graphs.
  interposed.table.stream_check = [](weir_be_state *state, weir_be_stream stream) -> weir_result {
    const Interpose ask = interposed.interpose.load();
    const weir_result answer = ask != nullptr ? ask("stream_check") : WEIR_SUCCESS;
    if (answer != WEIR_SUCCESS || interposed.real->stream_check == nullptr) return answer;
    return interposed.real->stream_check(state, stream);
  };
  WEIR_INTERPOSE(stream_synchronize);
  WEIR_INTERPOSE(stream_query);
  WEIR_INTERPOSE(stream_host_call);
  WEIR_INTERPOSE(fence_record);
  WEIR_INTERPOSE(stream_wait);
  WEIR_INTERPOSE(fence_poll);
  WEIR_INTERPOSE(fence_wait);
  WEIR_INTERPOSE(copy_async);
  WEIR_INTERPOSE(copy_batch_async);
  WEIR_INTERPOSE(fill_async);
  WEIR_INTERPOSE(peer_enable);
#undef WEIR_INTERPOSE
  return &interposed.table;
}

}  // namespace weir::test
