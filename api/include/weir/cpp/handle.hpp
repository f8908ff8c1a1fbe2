// SPDX-License-Identifier: Apache-2.0
//
// weir/cpp/handle.hpp - what all handles stand on; not for programs.
//
// Contexts, streams, pools and clients have others that depend on them. Each is a `shared` object: its handle and its
// dependents have a reference each, and the last of them ends it, in whatever order they go. Once it has been ended by hand
// all of its references say so, and none of them touches it again. Leaves (buffers, leases, holds, allocations) are `unique`.
// Neither throws; what can't be ended is told to the leak handler, and stays.
#ifndef WEIR_CPP_HANDLE_HPP
#define WEIR_CPP_HANDLE_HPP

#include <weir/cpp/error.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

WEIR_CPP_BEGIN

/// Which code ends the C handle that a C++ handle is made of.
enum class ownership {
  adopted, /**< the C++ handle does */
  borrowed /**< the code that lent it does, after the C++ handle and all that was made with it */
};

namespace detail {

/// One reference to a shared object of a kind: its C handle's type, its parent's reference, and how it ends.
template <class Kind>
class ref {
  using handle_type = typename Kind::handle_type;
  using parent_type = typename Kind::parent_type;
  struct block {
    std::atomic<handle_type> handle;
    std::atomic<uint64_t> references;
    parent_type parent;
    std::atomic<bool> owned;
  };

 public:
  ref() noexcept = default;
  ref(const ref &other) noexcept : block_(other.block_) {
    if (block_ != nullptr) block_->references.fetch_add(1, std::memory_order_relaxed);
  }
  ref(ref &&other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  ref &operator=(ref other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~ref() { drop(); }

  /// Empty if there is no memory for it; the C handle is ended then, if it was to be owned.
  static ref make(handle_type handle, parent_type parent, ownership whose) noexcept {
    ref made;
    if (handle == nullptr) return made;
    const bool owned = whose == ownership::adopted;
    made.block_ = new (std::nothrow) block{{handle}, {1}, std::move(parent), {owned}};
    if (made.block_ == nullptr && owned) end(handle, parent);
    return made;
  }

  /// NULL if it is empty or has been ended.
  handle_type get() const noexcept {
    return block_ != nullptr ? block_->handle.load(std::memory_order_acquire) : nullptr;
  }
  explicit operator bool() const noexcept { return get() != nullptr; }
  /// Only of what is not empty.
  const parent_type &parent() const noexcept { return block_->parent; }
  bool shared() const noexcept {
    return block_ != nullptr && block_->references.load(std::memory_order_acquire) > 1;
  }

  /// Ends the object now. If that is refused nothing is changed.
  weir_result end() noexcept {
    const handle_type handle = get();
    if (handle == nullptr) return WEIR_ERROR_INVALID_HANDLE;
    const weir_result code = Kind::end(handle, block_->parent);
    if (code >= 0) {
      block_->handle.store(nullptr, std::memory_order_release);
      drop();
    }
    return code;
  }
  /// Gives the C handle away: none of the references ends it.
  handle_type detach() noexcept {
    const handle_type handle = get();
    if (handle != nullptr) block_->owned.store(false, std::memory_order_release);
    drop();
    return handle;
  }

 private:
  static void end(handle_type handle, const parent_type &parent) noexcept {
    const weir_result code = Kind::end(handle, parent);
    if (code < 0) tell_leak(Kind::name, code);
  }
  void drop() noexcept {
    block *const mine = std::exchange(block_, nullptr);
    if (mine == nullptr || mine->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    const handle_type handle = mine->handle.load(std::memory_order_acquire);
    if (handle != nullptr && mine->owned.load(std::memory_order_acquire)) end(handle, mine->parent);
    delete mine;
  }

  block *block_ = nullptr;
};

struct no_parent {};

struct context_kind {
  using handle_type = weir_context;
  using parent_type = no_parent;
  static constexpr const char *name = "context";
  static weir_result end(weir_context handle, const no_parent &) noexcept {
    return weir_context_destroy(handle);
  }
};

struct stream_kind {
  using handle_type = weir_stream;
  using parent_type = ref<context_kind>;
  static constexpr const char *name = "stream";
  static weir_result end(weir_stream handle, const parent_type &) noexcept {
    return weir_stream_close(handle);
  }
};

struct pool_kind {
  using handle_type = weir_pool;
  using parent_type = ref<context_kind>;
  static constexpr const char *name = "pool";
  static weir_result end(weir_pool handle, const parent_type &) noexcept {
    return weir_pool_destroy(handle);
  }
};

struct client_kind {
  using handle_type = weir_client;
  using parent_type = ref<pool_kind>;
  static constexpr const char *name = "client";
  /// It died with its pool, if that was ended by hand.
  static weir_result end(weir_client handle, const parent_type &pool) noexcept {
    return pool ? weir_client_destroy(handle) : WEIR_SUCCESS;
  }
};

/// Owns what a State names. A State is empty when default-constructed, says whether it is live, and has end().
template <class State>
class unique {
 public:
  unique() noexcept = default;
  explicit unique(State state) noexcept : state_(std::move(state)) {}
  unique(unique &&other) noexcept : state_(other.take()) {}
  unique &operator=(unique &&other) noexcept {
    if (this != &other) {
      reset();
      state_ = other.take();
    }
    return *this;
  }
  ~unique() { reset(); }

  const State *operator->() const noexcept { return &state_; }
  State *operator->() noexcept { return &state_; }
  State take() noexcept { return std::exchange(state_, State()); }

 private:
  void reset() noexcept {
    if (!state_.live()) return;
    const weir_result code = state_.end();
    if (code < 0) tell_leak(State::name, code);
  }

  State state_;
};

/// `count` elements, few of them in place: a lease costs no allocation then.
template <class T, size_t few>
class small_array {
 public:
  small_array() noexcept = default;
  small_array(small_array &&other) noexcept { *this = std::move(other); }
  small_array &operator=(small_array &&other) noexcept {
    size_ = std::exchange(other.size_, 0);
    many_ = std::move(other.many_);
    if (many_ == nullptr) {
      for (size_t i = 0; i < size_; ++i) here_[i] = other.here_[i];
    }
    return *this;
  }

  /// False: there is no memory for so many.
  bool resize(size_t count) noexcept {
    if (count > few) {
      many_.reset(new (std::nothrow) T[count]);
      if (many_ == nullptr) return false;
    }
    size_ = count;
    return true;
  }
  T *data() noexcept { return many_ != nullptr ? many_.get() : here_; }
  const T *data() const noexcept { return many_ != nullptr ? many_.get() : here_; }
  size_t size() const noexcept { return size_; }
  T &operator[](size_t at) noexcept { return data()[at]; }
  const T &operator[](size_t at) const noexcept { return data()[at]; }

 private:
  size_t size_ = 0;
  std::unique_ptr<T[]> many_;
  T here_[few];
};

}  // namespace detail
WEIR_CPP_END

#endif  // WEIR_CPP_HANDLE_HPP
