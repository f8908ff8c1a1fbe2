// SPDX-License-Identifier: Apache-2.0
//
// weir/cpp/buffer.hpp - weir::buffer, a virtual allocation, and weir::hold, which keeps one resident. A buffer keeps its pool
// alive, and its client. A hold keeps the pool alive and not the buffer: it must go before that, which otherwise is left
// behind in its pool, and told.
#ifndef WEIR_CPP_BUFFER_HPP
#define WEIR_CPP_BUFFER_HPP

#include <weir/cpp/pool.hpp>

#include <iterator>

WEIR_CPP_BEGIN

/** @{ What calls fill in: the C structs under the names that the rest has here. */
using buffer_info = weir_buffer_info;
using shard = weir_shard;
/** @} */

/// One weir_hold_as, undone with this. The caller sees to it that no work enqueued under it runs any more by then.
class hold {
 public:
  hold() noexcept = default;

  /// Where the buffer is, on the device.
  uint64_t address() const noexcept { return state_->address; }
  explicit operator bool() const noexcept { return state_->live(); }
  /// weir_unhold now. It is over whatever the answer.
  returned<void> unhold() {
    if (!state_->live()) return detail::fail_empty<void>();
    return detail::done(state_.take().end());
  }

 private:
  friend class buffer;
  struct state {
    static constexpr const char *name = "hold";
    detail::ref<detail::pool_kind> pool = {};
    weir_buffer buffer = nullptr;
    uint64_t address = 0;
    bool live() const noexcept { return buffer != nullptr && pool; }
    weir_result end() noexcept { return weir_unhold(pool.get(), buffer); }
  };

  explicit hold(state made) noexcept : state_(std::move(made)) {}

  detail::unique<state> state_;
};

/// weir_buffer. Moved, not copied; empty when moved from.
class buffer {
 public:
  buffer() noexcept = default;

  /// weir_buffer_create, for the pool's own client.
  static returned<buffer> create(const pool &of, const buffer_desc &desc) {
    return create(of, desc, nullptr, {});
  }
  /// weir_buffer_create, charged to a client.
  static returned<buffer> create(const pool &of, const client &charged, const buffer_desc &desc) {
    if (!charged) {
      return detail::fail<buffer>({WEIR_ERROR_INVALID_HANDLE, "the client's handle is empty"});
    }
    return create(of, desc, charged.get(), charged.ref_);
  }
  /** @{ Of a C handle, which is ended with this one, or is its lender's. */
  static returned<buffer> adopt(const pool &of, weir_buffer handle) {
    return from(of, handle, ownership::adopted);
  }
  static returned<buffer> borrow(const pool &of, weir_buffer handle) {
    return from(of, handle, ownership::borrowed);
  }
  /** @} */

  /// NULL too where the pool has been ended by hand.
  weir_buffer get() const noexcept { return state_->pool ? state_->handle : nullptr; }
  explicit operator bool() const noexcept { return get() != nullptr; }
  /// Bytes, as asked for.
  uint64_t size() const noexcept { return state_->size; }
  /// weir_buffer_destroy now; refused with BUSY while it is leased or held, and nothing is changed then.
  returned<void> destroy() {
    if (get() == nullptr) return detail::fail_empty<void>();
    const weir_result code = weir_buffer_destroy(pool_handle(), state_->handle);
    if (code < 0) return detail::fail_last<void>(code);
    state_.take();
    return returned<void>();
  }
  /// Gives the C handle away.
  weir_buffer detach() noexcept {
    const weir_buffer handle = get();
    state_.take();
    return handle;
  }

  /// weir_buffer_info_get.
  returned<buffer_info> info(uint64_t offset = 0, uint64_t length = WEIR_WHOLE) const {
    buffer_info info = WEIR_BUFFER_INFO_INIT;
    const weir_result code =
        weir_buffer_info_get(pool_handle(), state_->handle, offset, length, &info);
    return detail::done(code, std::move(info));
  }
  /// weir_buffer_shards, from the run on that `offset` is in, all of them.
  returned<std::vector<shard>> shards(uint64_t offset = 0) const {
    return detail::list_of<shard>([&](shard *shards, size_t capacity, size_t *count) {
      return weir_buffer_shards(pool_handle(), state_->handle, offset, shards, capacity, count);
    });
  }
  /// weir_buffer_read: bytes out, from wherever they are. It waits.
  returned<void> read(uint64_t offset, uint64_t length, void *destination) const {
    return detail::done(
        weir_buffer_read(pool_handle(), state_->handle, offset, length, destination));
  }
  /// As many as `destination` has: a vector, an array, a span of trivially copyable elements.
  template <class Container>
  returned<void> read(uint64_t offset, Container &&destination) const {
    return read(offset, bytes_of(destination), std::data(destination));
  }
  /// weir_buffer_write: bytes in. It waits.
  returned<void> write(uint64_t offset, uint64_t length, const void *source) const {
    return detail::done(weir_buffer_write(pool_handle(), state_->handle, offset, length, source));
  }
  /// All that `source` has.
  template <class Container>
  returned<void> write(uint64_t offset, const Container &source) const {
    return write(offset, bytes_of(source), std::data(source));
  }
  /// weir_discard.
  returned<void> discard(uint64_t offset = 0, uint64_t length = WEIR_WHOLE) const {
    return detail::done(weir_discard(pool_handle(), state_->handle, offset, length));
  }
  /// weir_advise.
  returned<void> advise(uint32_t advice, uint64_t offset = 0, uint64_t length = WEIR_WHOLE) const {
    return detail::done(weir_advise(pool_handle(), state_->handle, offset, length, advice));
  }
  /// weir_buffer_set_priority.
  returned<void> set_priority(int32_t priority) const {
    return detail::done(weir_buffer_set_priority(pool_handle(), state_->handle, priority));
  }
  /// weir_buffer_set_name; NULL takes it away.
  returned<void> set_name(const char *name) const {
    return detail::done(weir_buffer_set_name(pool_handle(), state_->handle, name));
  }
  /// weir_buffer_name: "" if it has none.
  returned<std::string> name() const {
    std::string text(256, '\0');
    size_t needed = 0;
    const weir_result code =
        weir_buffer_name(pool_handle(), state_->handle, text.data(), text.size(), &needed);
    if (code < 0) return detail::fail_last<std::string>(code);
    text.resize(needed - 1);  // no name is longer
    return returned<std::string>(std::move(text));
  }
  /// weir_hold_as; by default what weir_hold is.
  returned<weir::hold> hold(weir_device device, uint32_t mode = WEIR_READ_WRITE,
                            uint64_t flags = 0) const {
    uint64_t address = 0;
    const weir_result code =
        weir_hold_as(pool_handle(), state_->handle, device, mode, flags, &address);
    if (code < 0) return detail::fail_last<weir::hold>(code);
    return returned<weir::hold>(weir::hold({state_->pool, state_->handle, address}));
  }
  /// weir_host_register: `memory` must stay until host_unregister or the buffer's end.
  returned<void> host_register(void *memory, uint64_t flags = 0) const {
    return detail::done(weir_host_register(pool_handle(), state_->handle, memory, flags));
  }
  /// weir_host_unregister.
  returned<void> host_unregister() const {
    return detail::done(weir_host_unregister(pool_handle(), state_->handle));
  }

 private:
  struct state {
    static constexpr const char *name = "buffer";
    detail::ref<detail::pool_kind> pool = {};
    detail::ref<detail::client_kind> client = {};
    weir_buffer handle = nullptr;
    uint64_t size = 0;
    ownership whose = ownership::adopted;
    /// It died with its pool, if that was ended by hand.
    bool live() const noexcept {
      return handle != nullptr && whose == ownership::adopted && pool;
    }
    weir_result end() noexcept { return weir_buffer_destroy(pool.get(), handle); }
  };

  explicit buffer(state made) noexcept : state_(std::move(made)) {}
  static returned<buffer> create(const pool &of, const buffer_desc &desc, weir_client charged,
                                 detail::ref<detail::client_kind> client) {
    const c_struct<buffer_desc> c(desc, charged);
    weir_buffer made = nullptr;
    const weir_result code = weir_buffer_create(of.get(), c.get(), &made);
    if (code < 0) return detail::fail_last<buffer>(code);
    return returned<buffer>(
        buffer({of.ref_, std::move(client), made, desc.size, ownership::adopted}));
  }
  static returned<buffer> from(const pool &of, weir_buffer handle, ownership whose) {
    buffer_info info = WEIR_BUFFER_INFO_INIT;
    const weir_result code = weir_buffer_info_get(of.get(), handle, 0, WEIR_WHOLE, &info);
    if (code < 0) return detail::fail_last<buffer>(code);
    return returned<buffer>(buffer({of.ref_, {}, handle, info.size, whose}));
  }
  weir_pool pool_handle() const noexcept { return state_->pool.get(); }
  template <class Container>
  static uint64_t bytes_of(const Container &of) noexcept {
    using element = std::remove_reference_t<decltype(*std::data(of))>;
    static_assert(std::is_trivially_copyable_v<element>, "bytes are copied, not objects");
    return std::size(of) * sizeof(element);
  }

  detail::unique<state> state_;
};

WEIR_CPP_END

#endif  // WEIR_CPP_BUFFER_HPP
