// SPDX-License-Identifier: Apache-2.0
//
// weir/cpp/lease.hpp - uses, leases, and the calls of weir::pool that take uses. A lease is released by its destructor on
// the stream that it was taken on; what that could not do is told (error.hpp). It keeps neither pool nor stream alive: both are
// to outlive it, as in C.
//
// Addresses are for work that is enqueued on the stream. The CPU may follow one only where the device's memory is in its reach
// (the host backend, WEIR_DEVICE_HOST), and after stream.synchronize().
#ifndef WEIR_CPP_LEASE_HPP
#define WEIR_CPP_LEASE_HPP

#include <weir/cpp/buffer.hpp>
#include <weir/cpp/span.hpp>
#include <weir/cpp/stream.hpp>

#include <initializer_list>

WEIR_CPP_BEGIN

/// A use of a lease to come: a range of a buffer, and how. Made by read, read_write and discard_write. The buffer must live
/// until the call that it is given to.
class use {
 public:
  use(const buffer &of, uint32_t mode, uint64_t offset = 0, uint64_t length = WEIR_WHOLE) noexcept
      : bytes_(length != WEIR_WHOLE ? length : offset < of.size() ? of.size() - offset : 0) {
    c_.buffer = of.get(), c_.mode = mode, c_.offset = offset, c_.length = length;
  }
  /// WEIR_USE_ALLOW_REMOTE: where the bytes are on another device in reach, they are used there.
  use allow_remote() const noexcept {
    use other = *this;
    other.c_.flags |= WEIR_USE_ALLOW_REMOTE;
    return other;
  }
  const weir_use &c() const noexcept { return c_; }
  /// Bytes of the range.
  uint64_t bytes() const noexcept { return bytes_; }

 private:
  weir_use c_ = WEIR_USE_INIT;
  uint64_t bytes_;
};

/// WEIR_READ: the latest bytes, beside other readers.
inline use read(const buffer &of, uint64_t offset = 0, uint64_t length = WEIR_WHOLE) noexcept {
  return {of, WEIR_READ, offset, length};
}
/// WEIR_READ_WRITE: the latest bytes, alone.
inline use read_write(const buffer &of, uint64_t offset = 0,
                      uint64_t length = WEIR_WHOLE) noexcept {
  return {of, WEIR_READ_WRITE, offset, length};
}
/// WEIR_DISCARD_WRITE: alone, and what was there before is not needed.
inline use discard_write(const buffer &of, uint64_t offset = 0,
                         uint64_t length = WEIR_WHOLE) noexcept {
  return {of, WEIR_DISCARD_WRITE, offset, length};
}

/// Uses as an argument: {read(a), discard_write(b)}, a vector or array of them, or one. It owns nothing.
class use_list {
 public:
  use_list(std::initializer_list<use> uses) noexcept : use_list(std::data(uses), uses.size()) {}
  use_list(const use &one) noexcept : data_(&one), size_(1) {}
  use_list(const use *uses, size_t count) noexcept : data_(uses), size_(count) {}
  template <class Container, class = decltype(std::data(std::declval<const Container &>()))>
  use_list(const Container &uses) noexcept : data_(std::data(uses)), size_(std::size(uses)) {}

  const use *begin() const noexcept { return data_; }
  const use *end() const noexcept { return data_ + size_; }
  size_t size() const noexcept { return size_; }

 private:
  const use *data_;
  size_t size_;
};

/// An operation to come, for pool::announce. It has its own copy of the uses; the name must live until the call. With an `id`, of
/// pool::operation_id, the name is not looked at.
class operation {
 public:
  operation(const char *name, const use_list &uses, uint32_t id = 0) : name_(name), id_(id) {
    uses_.reserve(uses.size());
    for (const use &one : uses) uses_.push_back(one.c());
  }
  weir_operation c() const noexcept {
    weir_operation c = WEIR_OPERATION_INIT;
    c.name = name_, c.uses = uses_.data(), c.use_count = uses_.size(), c.operation_id = id_;
    return c;
  }

 private:
  const char *name_;
  uint32_t id_;
  std::vector<weir_use> uses_;
};

/// The right to use bytes on a stream. Moved, not copied; empty when moved from.
class lease {
 public:
  lease() noexcept = default;

  weir_lease get() const noexcept { return state_->handle; }
  explicit operator bool() const noexcept { return state_->live(); }
  /// How many uses it has.
  size_t size() const noexcept { return state_->views.size(); }
  /// Where use i begins; 0 if there is none.
  uint64_t address(size_t i) const noexcept { return i < size() ? state_->views[i].address : 0; }
  /// Bytes of use i; 0 if there is none.
  uint64_t bytes(size_t i) const noexcept { return i < size() ? state_->views[i].bytes : 0; }

  /// Use i as elements. Refused with INVALID_ARGUMENT: there is no such use, its size or address suits no whole T, or it only
  /// reads and T is not const.
  template <class T>
  returned<weir::span<T>> span(size_t i) const {
    static_assert(std::is_trivially_copyable_v<T>, "memory that moves holds bytes, not objects");
    if (i >= size()) return refuse<T>("there is no such use in the lease", i);
    const view &use = state_->views[i];
    if (use.bytes % sizeof(T) != 0) return refuse<T>("its size is no multiple of the element's", i);
    if (use.address % alignof(T) != 0) return refuse<T>("its address is not aligned for T", i);
    if (!std::is_const_v<T> && use.mode == WEIR_READ) {
      return refuse<T>("it only reads: ask for a span of const T", i);
    }
    return returned<weir::span<T>>(
        weir::span<T>(reinterpret_cast<T *>(static_cast<uintptr_t>(use.address)),
                      static_cast<size_t>(use.bytes / sizeof(T))));
  }

  /// weir_release on the stream that it was taken on. It is over whatever the answer.
  returned<void> release() {
    if (!state_->live()) return detail::fail_empty<void>();
    return detail::done(state_.take().end());
  }
  /// weir_release on another stream of the device, which waits for the work. Nothing is changed where that is refused.
  returned<void> release(const stream &on) {
    if (!state_->live()) return detail::fail_empty<void>();
    const weir_result code = weir_release(get(), on.get());
    if (code != WEIR_ERROR_INVALID_ARGUMENT && code != WEIR_ERROR_INVALID_HANDLE) state_.take();
    return detail::done(code);
  }
  /// Gives the C handle away.
  weir_lease detach() noexcept { return state_.take().handle; }

 private:
  friend class pool;
  struct view {
    uint64_t address;
    uint64_t bytes;
    uint32_t mode;
  };
  struct state {
    static constexpr const char *name = "lease";
    weir_lease handle = nullptr;
    weir_stream stream = nullptr;
    detail::small_array<view, 4> views = {};
    bool live() const noexcept { return handle != nullptr; }
    weir_result end() noexcept { return weir_release(handle, stream); }
  };

  explicit lease(state made) noexcept : state_(std::move(made)) {}
  template <class T>
  static returned<weir::span<T>> refuse(const char *why, size_t i) {
    char text[128];
    std::snprintf(text, sizeof text, "span of use %zu: %s", i, why);
    return detail::fail<weir::span<T>>({WEIR_ERROR_INVALID_ARGUMENT, text});
  }

  detail::unique<state> state_;
};

namespace detail {

/// Uses as C wants them: it writes addresses there.
class c_uses {
 public:
  explicit c_uses(const use_list &uses) noexcept : enough_(c_.resize(uses.size())) {
    size_t i = 0;
    if (!enough_) return;
    for (const use &one : uses) c_[i++] = one.c();
  }
  explicit operator bool() const noexcept { return enough_; }
  weir_use *data() noexcept { return c_.data(); }
  static weir::error no_memory() {
    return {WEIR_ERROR_OUT_OF_HOST_MEMORY, "no memory for so many uses"};
  }

 private:
  small_array<weir_use, 8> c_;
  bool enough_;
};

}  // namespace detail

inline weir_result pool::acquire_into(lease &taken, const stream &on, const use_list &uses,
                                      const acquire_options &options) const noexcept {
  detail::c_uses c(uses);
  lease::state &made = *taken.state_.operator->();
  if (!c || !made.views.resize(uses.size())) return no_room_for_uses;
  const weir_acquire_options how = options;
  made.stream = on.get();
  const weir_result code =
      weir_acquire(get(), made.stream, c.data(), uses.size(), &how, &made.handle);
  if (code < 0) return code;
  size_t i = 0;
  for (const use &one : uses) {
    made.views[i] = {c.data()[i].address, one.bytes(), one.c().mode};
    ++i;
  }
  return code;
}

inline error pool::why_not_acquired(weir_result code) {
  return code == no_room_for_uses ? detail::c_uses::no_memory() : error::last(code);
}

inline result<lease> pool::try_acquire(const stream &on, const use_list &uses,
                                       const acquire_options &options) const {
  lease taken;
  const weir_result code = acquire_into(taken, on, uses, options);
  if (code < 0) return why_not_acquired(code);
  return taken;
}

inline returned<lease> pool::acquire(const stream &on, const use_list &uses,
                                     const acquire_options &options) const {
  lease taken;
  const weir_result code = acquire_into(taken, on, uses, options);
  if (code < 0) return detail::fail<lease>(why_not_acquired(code));
  return taken;
}

inline returned<void> pool::prefetch(const stream &on, const use_list &uses) const {
  detail::c_uses c(uses);
  if (!c) return detail::fail<void>(detail::c_uses::no_memory());
  return detail::done(weir_prefetch(get(), on.get(), c.data(), uses.size()));
}

inline returned<void> pool::announce(const stream &on, const std::vector<operation> &operations,
                                     uint64_t flags) const {
  std::vector<weir_operation> c;
  c.reserve(operations.size());
  for (const operation &one : operations) c.push_back(one.c());
  return detail::done(weir_announce(get(), on.get(), c.data(), c.size(), flags));
}

template <class Function>
typename detail::run_of<detail::value_of<Function>>::type pool::run(
    const stream &on, const use_list &uses, Function &&function,
    const acquire_options &options) const {
  using value = detail::value_of<Function>;
  lease taken;  // whatever is thrown on the way, its destructor releases
  const weir_result code = acquire_into(taken, on, uses, options);
  if (code < 0) return detail::fail<typename detail::run_of<value>::value>(why_not_acquired(code));
  if constexpr (std::is_void_v<value>) {
    std::forward<Function>(function)(std::as_const(taken));
    return taken.release();
  } else {
    typename detail::run_of<value>::type kept =
        std::forward<Function>(function)(std::as_const(taken));
#if WEIR_CPP_EXCEPTIONS
    taken.release();
#else
    const result<void> released = taken.release();
    if (kept && !released) return released.error();
#endif
    return kept;
  }
}

WEIR_CPP_END

#endif  // WEIR_CPP_LEASE_HPP
