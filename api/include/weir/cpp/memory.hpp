// SPDX-License-Identifier: Apache-2.0
//
// weir/cpp/memory.hpp - weir::device_allocator over weir_malloc: memory of a device that is always resident and never moves, in
// stream order. It is no std::pmr memory and no Allocator of containers: the CPU can't follow its addresses on a GPU. Memory
// that the CPU can follow is host_resource's.
#ifndef WEIR_CPP_MEMORY_HPP
#define WEIR_CPP_MEMORY_HPP

#include <weir/cpp/pool.hpp>
#include <weir/cpp/span.hpp>
#include <weir/cpp/stream.hpp>

WEIR_CPP_BEGIN

/// Memory of weir_malloc, freed with this after the work enqueued by then on the allocator's stream. It keeps the pool and the
/// stream alive. Moved, not copied; empty when moved from.
class allocation {
 public:
  allocation() noexcept = default;

  /// NULL too where the pool has been ended by hand, which needs that nothing of it is out.
  uint64_t address() const noexcept { return state_->address; }
  uint64_t size() const noexcept { return state_->size; }
  explicit operator bool() const noexcept { return state_->live(); }
  /// As many T as there is room for; the address is a multiple of 256. For kernels, not for the CPU.
  template <class T>
  weir::span<T> span() const noexcept {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 256, "device memory holds bytes");
    return weir::span<T>(reinterpret_cast<T *>(static_cast<uintptr_t>(state_->address)),
                         static_cast<size_t>(state_->size / sizeof(T)));
  }
  /// weir_free now, on the allocator's stream. The memory is freed whatever the answer, but for STREAM_CAPTURING, which
  /// changes nothing.
  returned<void> free() {
    if (!state_->live()) return detail::fail_empty<void>();
    const weir_result code = state_->end();
    if (code != WEIR_ERROR_STREAM_CAPTURING) state_.take();
    return detail::done(code);
  }
  /// Gives the address away; weir_free ends it.
  uint64_t detach() noexcept { return state_.take().address; }

 private:
  friend class device_allocator;
  struct state {
    static constexpr const char *name = "piece of weir_malloc memory";
    detail::ref<detail::pool_kind> pool = {};
    detail::ref<detail::stream_kind> stream = {};
    uint64_t address = 0;
    uint64_t size = 0;
    bool live() const noexcept { return address != 0 && pool; }
    /// Without a stream it is free at once: stream::close has waited for the work.
    weir_result end() noexcept { return weir_free(pool.get(), stream.get(), address); }
  };

  explicit allocation(state made) noexcept : state_(std::move(made)) {}

  detail::unique<state> state_;
};

/// Where memory is taken: a pool, a device and a stream. Copied at will; all copies are alike.
class device_allocator {
 public:
  /// Memory is ready for work that is enqueued on `on` from now on, and freed after that.
  device_allocator(const pool &of, const stream &on, weir_device device) noexcept
      : pool_(of.ref_), stream_(on.ref_), device_(device) {}
  /// On the device of the stream.
  device_allocator(const pool &of, const stream &on) noexcept
      : device_allocator(of, on, on.device()) {}

  /// weir_malloc.
  returned<allocation> allocate(uint64_t bytes) const {
    uint64_t address = 0;
    const weir_result code =
        weir_malloc(pool_.get(), device_, stream_.get(), bytes, &address);
    if (code < 0) return detail::fail_last<allocation>(code);
    return returned<allocation>(allocation({pool_, stream_, address, bytes}));
  }
  friend bool operator==(const device_allocator &a, const device_allocator &b) noexcept {
    return a.pool_.get() == b.pool_.get() && a.stream_.get() == b.stream_.get() &&
           a.device_ == b.device_;
  }
  friend bool operator!=(const device_allocator &a, const device_allocator &b) noexcept {
    return !(a == b);
  }

 private:
  detail::ref<detail::pool_kind> pool_;
  detail::ref<detail::stream_kind> stream_;
  weir_device device_;
};

WEIR_CPP_END

#endif  // WEIR_CPP_MEMORY_HPP
