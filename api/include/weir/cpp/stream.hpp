// SPDX-License-Identifier: Apache-2.0
//
// weir/cpp/stream.hpp - weir::stream: a wrapped in-order queue of a runtime. The wrapper ends with the last of its handle and
// of the allocations that are freed on it. Work of the stream is never waited for unless a comment says so.
#ifndef WEIR_CPP_STREAM_HPP
#define WEIR_CPP_STREAM_HPP

#include <weir/cpp/context.hpp>

WEIR_CPP_BEGIN

/// weir_stream. Moved, not copied; empty when moved from.
class stream {
 public:
  stream() noexcept = default;
  stream(const stream &) = delete;
  stream(stream &&) noexcept = default;
  stream &operator=(const stream &) = delete;
  stream &operator=(stream &&) noexcept = default;

  /// weir_stream_create. With WEIR_DEVICE_HOST its leases give addresses of the CPU.
  static returned<stream> create(const context &of, weir_device device) {
    weir_stream made = nullptr;
    const weir_result code = weir_stream_create(of.get(), device, 0, &made);
    if (code < 0) return detail::fail_last<stream>(code);
    return from(of, made, device, ownership::adopted);
  }
  /// weir_stream_wrap. The native stream stays the caller's and must outlive the wrapper.
  static returned<stream> wrap(const context &of, weir_device device, void *native) {
    weir_stream made = nullptr;
    const weir_result code = weir_stream_wrap(of.get(), device, native, 0, &made);
    if (code < 0) return detail::fail_last<stream>(code);
    return from(of, made, device, ownership::adopted);
  }
  /** @{ Of a C handle on `device`, which is closed with this one, or is its lender's. */
  static returned<stream> adopt(const context &of, weir_stream handle, weir_device device) {
    return from(of, handle, device, ownership::adopted);
  }
  static returned<stream> borrow(const context &of, weir_stream handle, weir_device device) {
    return from(of, handle, device, ownership::borrowed);
  }
  /** @} */

  weir_stream get() const noexcept { return ref_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(ref_); }
  /// The device that it was made or wrapped with.
  weir_device device() const noexcept { return device_; }

  /// weir_stream_close now. Where allocations are to be freed on it, its work is waited for first: they are freed at once then.
  returned<void> close() {
    if (!ref_) return detail::fail_empty<void>();
    if (ref_.shared()) {
      const weir_result code = weir_stream_synchronize(get());
      if (code < 0) return detail::fail_last<void>(code);
    }
    return detail::done(ref_.end());
  }
  /// Gives the C handle away.
  weir_stream detach() noexcept { return ref_.detach(); }

  /// weir_stream_native: the runtime's own handle, to launch on.
  returned<void *> native() const {
    void *handle = nullptr;
    const weir_result code = weir_stream_native(get(), &handle);
    return detail::done(code, std::move(handle));
  }
  /// weir_stream_synchronize: waits for all that was enqueued so far.
  returned<void> synchronize() const { return detail::done(weir_stream_synchronize(get())); }
  /// weir_stream_query: whether all that was enqueued so far has finished.
  returned<bool> query() const {
    const weir_result code = weir_stream_query(get());
    return detail::done(code, code == WEIR_SUCCESS);
  }
  /// weir_stream_host_call; `user` must live until the function has run.
  returned<void> host_call(weir_host_function function, void *user) const {
    return detail::done(weir_stream_host_call(get(), function, user));
  }
  /// The same with a copy of a function object, which is destroyed once it has run. It must not call Weir nor throw: an
  /// exception ends the program. If the device is lost before it runs, the copy stays behind.
  template <class Function>
  returned<void> host_call(Function function) const {
    auto *const work = new (std::nothrow) Function(std::move(function));
    if (work == nullptr) {
      return detail::fail<void>({WEIR_ERROR_OUT_OF_HOST_MEMORY, "no memory for a host call"});
    }
    const weir_result code = weir_stream_host_call(get(), &run_and_delete<Function>, work);
    if (code < 0) delete work;
    return detail::done(code);
  }

 private:
  friend class device_allocator;
  friend class host_resource;

  stream(detail::ref<detail::stream_kind> made, weir_device device) noexcept
      : ref_(std::move(made)), device_(device) {}
  static returned<stream> from(const context &of, weir_stream handle, weir_device device,
                               ownership whose) {
    auto made = detail::ref<detail::stream_kind>::make(handle, of.ref_, whose);
    if (!made) return detail::fail_made<stream>(handle);
    return returned<stream>(stream(std::move(made), device));
  }
  template <class Function>
  static void run_and_delete(void *user) noexcept {
    const std::unique_ptr<Function> work(static_cast<Function *>(user));
    (*work)();
  }

  detail::ref<detail::stream_kind> ref_;
  weir_device device_ = WEIR_DEVICE_DEFAULT;
};

WEIR_CPP_END

#endif  // WEIR_CPP_STREAM_HPP
