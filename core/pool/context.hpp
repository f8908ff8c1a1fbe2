// SPDX-License-Identifier: Apache-2.0
//
// Context: the root object. Backends, the places they offer, streams, and the pools by number (leases and
// buffers name their pool by it). It lives until every pool and stream of it has ended.
#pragma once

#include "core/backend/stream.hpp"
#include "core/base/mutex.hpp"
#include "core/base/stacks.hpp"
#include "core/live/page.hpp"
#include "core/pool/meter.hpp"
#include "core/pool/natives.hpp"
#include "core/pool/tracer.hpp"
#include "core/tier/storage_store.hpp"
#include "core/topology/places.hpp"
#include "core/trace/profilers.hpp"
#include "core/transfer/paths.hpp"

#include <array>
#include <atomic>

namespace weir::pool {

class Pool;

class Context {
 public:
  static constexpr uint64_t alive_magic = 0x57656972'43747831;
  static constexpr uint32_t max_pools = 4096;

  Context(const weir_allocator &allocator, const Log &log);

  /// `built_in` (may be NULL) comes first; then desc.backends, desc.backend_paths, and the libraries in `search_folder`.
  Status start(const weir_context_desc &desc, weir_backend_query_fn built_in,
               const char *search_folder);
  /// BUSY while pools or streams exist.
  Status may_end();

  bool alive() const noexcept { return magic_.load(std::memory_order_acquire) == alive_magic; }
  void die() noexcept { magic_.store(0, std::memory_order_release); }

  std::pmr::memory_resource *memory() noexcept { return &memory_; }
  const Log &log() const noexcept { return log_; }
  topology::Places &places() noexcept { return places_; }
  backend::StreamTable &streams() noexcept { return streams_; }
  Ticks &ticks() noexcept { return ticks_; }
  uint32_t backend_count() const noexcept { return static_cast<uint32_t>(runtimes_.size()); }
  backend::Runtime &runtime(uint32_t i) noexcept { return *runtimes_[i]; }
  /// Of the backend with this number; places are numbered in the order of backends.
  uint32_t first_device(uint32_t backend) const noexcept;

  /// A number for a pool that is being made; pool() does not show it before set_pool().
  Status reserve_pool(uint32_t *id);
  void set_pool(uint32_t id, Pool *pool) noexcept {
    pools_[id].store(pool, std::memory_order_release);
  }
  /// Its number may be another's now. One that was shown has been hidden before it ended.
  void remove_pool(uint32_t id) noexcept { pools_[id].store(nullptr); }
  /// Nobody looks at it any more, nor will.
  void hide_pool(uint32_t id) noexcept {
    const Guard hold(look_);
    pools_[id].store(reserved());
  }
  /// Whether that is so of any pool there is: none ends meanwhile.
  template <class Is>
  bool any_pool(Is &&is) {
    const Guard hold(look_);
    return find_pool(is);
  }
  /// The same for who must not wait. False, too, if somebody else looks.
  template <class Is>
  bool try_any_pool(Is &&is) {
    const TryGuard hold(look_);
    return hold && find_pool(is);
  }
  Pool *pool(uint32_t id) const noexcept {
    Pool *found = id < max_pools ? pools_[id].load(std::memory_order_acquire) : nullptr;
    return found != reserved() ? found : nullptr;
  }

  /// Where a pool's first shortage is to be written down; "": nowhere (WEIR_OOM_DUMP).
  const std::string &oom_folder() const noexcept { return watch_.oom_folder; }
  /// nullptr: nobody has asked to know who makes what.
  Stacks *stacks() const noexcept { return watch_.stacks.get(); }
  Tracer &tracer() noexcept { return watch_.tracer; }
  /// What other programs see of this one's pools.
  live::Page &live() noexcept { return watch_.live; }
  /// The devices, as the live page tells of them.
  std::vector<live::Place> shown_places() const;
  Meter &meter() noexcept { return watch_.meter; }
  /// nullptr: no profiler is told what threads are at.
  const Ranges *ranges() const noexcept { return watch_.profilers.ranges(); }

  std::atomic<uint32_t> user_streams{0};
  /// Of the pools made from now on: a test's say in their I/O, and the root of the files that tell the memory limits.
  tier::IoHook *io_hook = nullptr;
  std::string memory_root;
  std::string numa_root;  ///< of the files that tell the system's NUMA nodes
  transfer::SplitSizes split_sizes;
  bool learns = false;           ///< pools made from now on learn, if a test says so
  const Clock *clock = nullptr;  ///< what pools made from now on tell time by, if a test says so

 private:
  template <class Is>
  bool find_pool(Is &&is) const {
    for (uint32_t i = 1; i < max_pools; ++i)
      if (Pool *const found = pool(i); found != nullptr && is(*found)) return true;
    return false;
  }
  static Pool *reserved() noexcept { return reinterpret_cast<Pool *>(uintptr_t{1}); }
  /// What the caller gives to backends.
  struct Given {
    const char *options;
    Natives natives;
  };
  Status add_backend(weir_backend_query_fn query, const char *path, const Given &given);
  Status add_library(const char *path, const Given &given);
  Status start_backend(Owned<backend::Runtime> runtime, const Given &given);
  Status search(const char *folder, const Given &given);
  Status check_options(const char *options);
  std::pmr::string options_for(const backend::Runtime &runtime, const char *options);

  std::atomic<uint64_t> magic_{alive_magic};
  HostMemory memory_;
  Log log_;
  uint64_t start_timeout_ns_ = 0;
  Ticks ticks_;
  std::pmr::vector<Owned<backend::Runtime>> runtimes_;
  topology::Places places_;
  std::pmr::string rehearsal_;  ///< options of the host backend, before the caller's
  backend::StreamTable streams_;
  std::array<std::atomic<Pool *>, max_pools> pools_{};
  RankedMutex<Rank::call> look_;  ///< held while others than a pool's own users look at pools
  /// What the user has asked to see. Ends first: traces look at streams and pools.
  struct Watch {
    explicit Watch(Context &context) : meter(context), tracer(context) {}
    Owned<Stacks> stacks;
    std::string oom_folder;
    live::Page live;
    trace::Profilers profilers;
    Meter meter;
    Tracer tracer;
  } watch_;
};

}  // namespace weir::pool
