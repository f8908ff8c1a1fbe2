// SPDX-License-Identifier: Apache-2.0
//
// Pool: an engine with a name, the clients' handles, and the thread that runs asynchronous acquires.
#pragma once

#include "core/base/mutex.hpp"
#include "core/pool/context.hpp"
#include "core/pool/defragmenter.hpp"
#include "core/pool/engine.hpp"
#include "core/pool/loss_watch.hpp"

#include <deque>
#include <memory>
#include <string>
#include <thread>

namespace weir::pool {

class Pool;

struct ClientHandle {
  static constexpr uint64_t alive_magic = 0x57656972'436c6931;
  uint64_t magic = alive_magic;
  Pool *pool = nullptr;
  uint32_t id = 0;
};

/// An asynchronous acquire. Shared by the caller's handle and the pool's queue.
struct Request {
  static constexpr uint64_t alive_magic = 0x57656972'52657131;
  uint64_t magic = alive_magic;
  backend::Stream *stream = nullptr;
  weir_use *uses = nullptr;
  size_t count = 0;
  uint64_t timeout_ns = 0;
  uint32_t operation = 0;
  weir_acquire_callback callback = nullptr;
  void *user = nullptr;
  Engine *engine = nullptr;
  std::atomic<bool> cancelled{false};
  RankedMutex<Rank::call> mutex;
  Signal ended;
  bool done WEIR_GUARDED_BY(mutex) = false;
  weir_result result WEIR_GUARDED_BY(mutex) = WEIR_NOT_READY;
  HandedOver error;  ///< of a failed acquire, for who waits for it; written before it is `done`
};

class Pool {
 public:
  static constexpr uint64_t alive_magic = 0x57656972'506f6f31;

  Pool(Context &context, uint32_t id);
  ~Pool();

  Status start(const weir_pool_desc &desc);
  Status shutdown();
  bool alive() const noexcept { return magic_.load(std::memory_order_acquire) == alive_magic; }

  Context &context() noexcept { return context_; }
  Engine &engine() noexcept { return engine_; }
  Defragmenter &defragmenter() noexcept { return defragmenter_; }
  Status set_defragmentation(const weir_defragmentation_desc &desc);
  uint32_t id() const noexcept { return id_; }
  /// Of all pools of the process, ever, no other has it.
  uint64_t serial() const noexcept { return serial_; }
  /// Of a call that was made from there; 0 where nobody asks.
  uint32_t stack_from(const void *caller) const noexcept {
    Stacks *const stacks = context_.stacks();
    return stacks != nullptr ? stacks->take(caller) : 0;
  }
  /// nullptr: they are not kept.
  Stacks *stacks() const noexcept { return context_.stacks(); }
  /// A call on it has failed with what a report can be made of: the thread's last error is about this pool. The first shortage writes the
  /// snapshot that WEIR_OOM_DUMP asks for (refusals.cpp). No lock is held.
  void note_refusal(weir_result result) noexcept;
  const char *name() const noexcept { return name_.c_str(); }
  const std::pmr::string &full_name() const noexcept { return name_; }

  LossWatch &loss_watch() noexcept { return loss_watch_; }
  Status add_device(const weir_pool_device &entry);

  Status create_client(const weir_client_desc &desc, ClientHandle **client);
  Status destroy_client(ClientHandle *client);

  /// Queues a request; the pool's thread is started by the first.
  Status submit(std::shared_ptr<Request> request);
  /// Whether this thread is the one that runs the callbacks of such requests for the engine's pool.
  static bool serves(const Engine &engine) noexcept;

 private:
  Status read_device(const weir_pool_device &entry, const char *name,
                     const backend::Device **device);
  Status read_policy(const weir_pool_desc &desc, page::EngineConfig *config);
  Status read_lower(const weir_pool_desc &desc, page::EngineConfig *config);
  Status join(const backend::Device &device, const weir_pool_device &entry);
  void serve();
  Status grant(Request &request, weir_lease *lease);
  void dump();
  bool idle() const noexcept WEIR_REQUIRES(mutex_) {
    return requests_.empty() && running_ == nullptr;
  }

  std::atomic<uint64_t> magic_{alive_magic};
  Context &context_;
  const uint32_t id_;
  const uint64_t serial_;
  std::pmr::string name_;
  Engine engine_;
  Defragmenter defragmenter_;
  LossWatch loss_watch_;                   ///< ends before the engine
  RankedMutex<Rank::call> devices_mutex_;  ///< one device is added at a time
  bool background_ = true;
  std::atomic<bool> dumped_{false};
  RankedMutex<Rank::call> mutex_;
  Signal changed_;
  std::pmr::vector<Owned<ClientHandle>> clients_ WEIR_GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<Request>> requests_ WEIR_GUARDED_BY(mutex_);
  std::shared_ptr<Request> running_ WEIR_GUARDED_BY(mutex_);
  bool calling_ WEIR_GUARDED_BY(mutex_) = false;  ///< a request's callback is under way
  bool ending_ WEIR_GUARDED_BY(mutex_) = false;   ///< nothing new is taken
  bool stopping_ WEIR_GUARDED_BY(mutex_) = false;
  std::thread thread_ WEIR_GUARDED_BY(mutex_);
};

}  // namespace weir::pool
