// SPDX-License-Identifier: Apache-2.0
//
// weir/cpp/host_resource.hpp - weir::host_resource: a std::pmr::memory_resource over leases of the CPU.
//
// Each allocation is a buffer of its own and a lease on the whole of it, on a stream of WEIR_DEVICE_HOST, until it is
// deallocated: memory in HOST, pinned where the runtime pins, charged to the pool's host budget in whole pages (small
// ones share pages), at an address that stays. That costs microseconds and bookkeeping, so put a resource that asks for chunks
// on top of it: std::pmr::monotonic_buffer_resource, or one of the pools.
#ifndef WEIR_CPP_HOST_RESOURCE_HPP
#define WEIR_CPP_HOST_RESOURCE_HPP

#include <weir/cpp/pool.hpp>
#include <weir/cpp/stream.hpp>

#include <map>
#include <memory_resource>
#include <mutex>
#include <new>

WEIR_CPP_BEGIN

/// What host_resource throws, with Weir's reason in it.
class WEIR_API bad_alloc : public std::bad_alloc {
 public:
  explicit bad_alloc(weir::error why) noexcept : why_(std::move(why)) {}
  const char *what() const noexcept override { return why_.what(); }
  const weir::error &error() const noexcept { return why_; }

 private:
  weir::error why_;
};

/// Any thread may allocate and deallocate. It keeps its pool and stream alive; what is still allocated dies with it. Where
/// Weir refuses it throws weir::bad_alloc; where calls return results it prints why and aborts: a memory_resource can't say no.
class host_resource : public std::pmr::memory_resource {
 public:
  /// `cpu` must be a stream of WEIR_DEVICE_HOST: with another one every allocation is refused.
  host_resource(const pool &of, const stream &cpu) noexcept
      : pool_(of.ref_), stream_(cpu.ref_), on_cpu_(cpu.device() == WEIR_DEVICE_HOST) {}
  host_resource(const host_resource &) = delete;
  host_resource &operator=(const host_resource &) = delete;
  ~host_resource() override {
    for (const auto &entry : live_) end(entry.second);
  }

 private:
  struct piece {
    weir_buffer buffer;
    weir_lease lease;
  };

  void *do_allocate(size_t bytes, size_t alignment) override {
    if (!on_cpu_) refuse({WEIR_ERROR_INVALID_ARGUMENT, "the stream is not one of WEIR_DEVICE_HOST"});
    // A buffer's alignment is that of its address on devices: in HOST it lies as its page does, at 256 bytes within that.
    const size_t spare = alignment > 256 ? alignment : 0;
    weir_buffer_desc desc = WEIR_BUFFER_DESC_INIT;
    desc.size = bytes > SIZE_MAX - spare - 1 ? SIZE_MAX : bytes + spare + (bytes == 0 ? 1 : 0);
    piece made = {nullptr, nullptr};
    const weir_result code = weir_buffer_create(pool_.get(), &desc, &made.buffer);
    if (code < 0) refuse(weir::error::last(code));
    weir_use use = WEIR_USE(made.buffer, WEIR_DISCARD_WRITE);
    const weir_result leased =
        weir_acquire(pool_.get(), stream_.get(), &use, 1, nullptr, &made.lease);
    if (leased < 0) {
      weir::error why = weir::error::last(leased);
      end(made);
      refuse(std::move(why));
    }
    const uint64_t aligned = (use.address + alignment - 1) / alignment * alignment;
    if (aligned - use.address > spare) {
      end(made);
      refuse({WEIR_ERROR_NOT_SUPPORTED, "HOST gives no memory of this alignment"});
    }
    void *const memory = reinterpret_cast<void *>(static_cast<uintptr_t>(aligned));
    keep(memory, made);
    return memory;
  }
  void do_deallocate(void *memory, size_t, size_t) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = live_.find(memory);
    if (found == live_.end()) detail::misuse("host_resource: this memory is none of its own");
    end(found->second);
    live_.erase(found);
  }
  bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
    return this == &other;
  }

  void keep(void *memory, const piece &made) {
    const std::lock_guard<std::mutex> lock(mutex_);
#if WEIR_CPP_EXCEPTIONS
    try {
      live_.emplace(memory, made);
    } catch (...) {
      end(made);
      throw;
    }
#else
    live_.emplace(memory, made);
#endif
  }
  /// A pool that was ended by hand had no lease out, so nothing is left of it here.
  void end(const piece &of) const noexcept {
    if (!pool_) return;
    const weir_result released =
        of.lease != nullptr ? weir_release(of.lease, stream_.get()) : WEIR_SUCCESS;
    if (released < 0) detail::tell_leak("lease", released);
    const weir_result ended = weir_buffer_destroy(pool_.get(), of.buffer);
    if (ended < 0) detail::tell_leak("buffer", ended);
  }
  [[noreturn]] static void refuse(weir::error why) {
#if WEIR_CPP_EXCEPTIONS
    throw bad_alloc(std::move(why));
#else
    detail::misuse(why.what());
#endif
  }

  const detail::ref<detail::pool_kind> pool_;
  const detail::ref<detail::stream_kind> stream_;
  const bool on_cpu_;
  std::mutex mutex_;
  std::map<void *, piece> live_;
};

WEIR_CPP_END

#endif  // WEIR_CPP_HOST_RESOURCE_HPP
