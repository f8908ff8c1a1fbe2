// SPDX-License-Identifier: Apache-2.0
//
// weir/cpp/context.hpp - weir::context: the loaded backends, their devices and the links between them. The context itself
// ends with the last of its handle and of the streams, pools and traces that were made of it. weir::trace: what its pools do, in a
// file.
#ifndef WEIR_CPP_CONTEXT_HPP
#define WEIR_CPP_CONTEXT_HPP

#include <weir/cpp/handle.hpp>
#include <weir/cpp/options.hpp>

#include <string>

WEIR_CPP_BEGIN

/** @{ What calls fill in: the C structs under the names that the rest has here. */
using backend_info = weir_backend_info;
using device_info = weir_device_info;
using link_info = weir_link_info;
using calibrate_report = weir_calibrate_report;
/** @} */

namespace detail {

/// A text that a function writes as far as there is room: `write(text, capacity, &needed)`. It may grow between two calls.
template <class Write>
returned<std::string> text_of(Write write) {
  std::string text;
  for (size_t needed = 0;; text.resize(needed)) {
    const weir_result code = write(text.data(), text.size(), &needed);
    if (code < 0) return fail_last<std::string>(code);
    if (needed > text.size()) continue;
    text.resize(needed != 0 ? needed - 1 : 0);
    return returned<std::string>(std::move(text));
  }
}

}  // namespace detail

/// A trace of a context, which context::start_trace makes. It stops when it goes; stop() tells whether its file is whole. Moved, not
/// copied.
class trace {
 public:
  trace() noexcept = default;
  trace(trace &&other) noexcept
      : context_(std::move(other.context_)), kind_(other.kind_) {}
  trace &operator=(trace &&other) noexcept {
    if (this != &other) {
      end();
      context_ = std::move(other.context_);
      kind_ = other.kind_;
    }
    return *this;
  }
  ~trace() { end(); }

  /// Whether there is one to stop: not after stop(), nor when the context was destroyed by hand, which stops it.
  explicit operator bool() const noexcept { return static_cast<bool>(context_); }
  /// weir_trace_stop. IO: it had ended before.
  returned<void> stop() {
    if (!context_) return detail::fail_empty<void>();
    const detail::ref<detail::context_kind> held = std::move(context_);
    return detail::done(weir_trace_stop(held.get(), kind_));
  }

 private:
  friend class context;
  trace(detail::ref<detail::context_kind> of, uint32_t kind) noexcept
      : context_(std::move(of)), kind_(kind) {}
  void end() noexcept {
    // Why it ended before its time, if it did, the log has told.
    if (context_) static_cast<void>(weir_trace_stop(context_.get(), kind_));
    context_ = detail::ref<detail::context_kind>();
  }

  detail::ref<detail::context_kind> context_;
  uint32_t kind_ = WEIR_TRACE_TIMELINE;
};

/// weir_context: the root of all the others. Moved, not copied; empty when moved from.
class context {
 public:
  context() noexcept = default;
  context(const context &) = delete;
  context(context &&) noexcept = default;
  context &operator=(const context &) = delete;
  context &operator=(context &&) noexcept = default;

  /// weir_context_create.
  static returned<context> create(const context_desc &desc = {}) {
    const c_struct<context_desc> c(desc);
    weir_context made = nullptr;
    const weir_result code = weir_context_create(c.get(), &made);
    if (code < 0) return detail::fail_last<context>(code);
    return from(made, ownership::adopted);
  }
  /** @{ Of a C handle, which is ended with this one, or is its lender's. */
  static returned<context> adopt(weir_context handle) { return from(handle, ownership::adopted); }
  static returned<context> borrow(weir_context handle) { return from(handle, ownership::borrowed); }
  /** @} */

  weir_context get() const noexcept { return ref_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(ref_); }
  /// weir_context_destroy now; refused with BUSY while there are streams and pools, and nothing is changed then.
  returned<void> destroy() {
    if (!ref_) return detail::fail_empty<void>();
    return detail::done(ref_.end());
  }
  /// Gives the C handle away; streams and pools made of it go on.
  weir_context detach() noexcept { return ref_.detach(); }

  /// weir_backend_count.
  returned<uint32_t> backend_count() const {
    uint32_t count = 0;
    const weir_result code = weir_backend_count(get(), &count);
    return detail::done(code, uint32_t{count});
  }
  /// weir_backend_info_get. Its strings live as long as the context.
  returned<weir::backend_info> backend_info(uint32_t index) const {
    weir::backend_info info = WEIR_BACKEND_INFO_INIT;
    const weir_result code = weir_backend_info_get(get(), index, &info);
    return detail::done(code, std::move(info));
  }
  /// weir_device_count.
  returned<uint32_t> device_count() const {
    uint32_t count = 0;
    const weir_result code = weir_device_count(get(), &count);
    return detail::done(code, uint32_t{count});
  }
  /// weir_device_info_get.
  returned<weir::device_info> device_info(weir_device device) const {
    weir::device_info info = WEIR_DEVICE_INFO_INIT;
    const weir_result code = weir_device_info_get(get(), device, &info);
    return detail::done(code, std::move(info));
  }
  /// weir_native_memory: what is behind an address of a lease, as a struct of the backend's header that `init` is one of.
  template <class Memory>
  returned<Memory> native_memory(weir_device device, uint64_t address, uint32_t kind, Memory init) const {
    const weir_result code = weir_native_memory(get(), device, address, kind, &init);
    return detail::done(code, std::move(init));
  }
  /// weir_device_find: "gpu", "cuda:0", "gpu,host" and so on; without a wish the user's, from WEIR_DEVICE.
  returned<weir_device> device(const char *wish = nullptr) const {
    weir_device found = 0;
    const weir_result code = weir_device_find(get(), wish, &found);
    return detail::done(code, weir_device{found});
  }
  /// weir_link_info_get.
  returned<weir::link_info> link_info(weir_device from, weir_device to) const {
    weir::link_info info = WEIR_LINK_INFO_INIT;
    const weir_result code = weir_link_info_get(get(), from, to, &info);
    return detail::done(code, std::move(info));
  }
  /// weir_topology_export, whole.
  returned<std::string> topology_export(uint32_t format) const {
    return detail::text_of([&](char *text, size_t capacity, size_t *needed) {
      return weir_topology_export(get(), format, text, capacity, needed);
    });
  }
  /// weir_topology_calibrate.
  returned<calibrate_report> topology_calibrate(const calibrate_desc &desc = {}) const {
    const weir_calibrate_desc c = desc;
    calibrate_report report = WEIR_CALIBRATE_REPORT_INIT;
    const weir_result code = weir_topology_calibrate(get(), &c, &report);
    return detail::done(code, std::move(report));
  }

  /// weir_trace_start: a trace of all its pools, those to come too.
  returned<trace> start_trace(const trace_desc &desc) const {
    const weir_trace_desc c = desc;
    const weir_result code = weir_trace_start(get(), &c);
    if (code < 0) return detail::fail_last<trace>(code);
    return returned<trace>(trace(ref_, desc.kind));
  }
  /// weir_metrics_text, whole: figures of all its pools for Prometheus.
  returned<std::string> metrics_text() const {
    return detail::text_of([&](char *text, size_t capacity, size_t *needed) {
      return weir_metrics_text(get(), text, capacity, needed);
    });
  }

 private:
  friend class pool;
  friend class stream;

  explicit context(detail::ref<detail::context_kind> made) noexcept : ref_(std::move(made)) {}
  static returned<context> from(weir_context handle, ownership whose) {
    auto made = detail::ref<detail::context_kind>::make(handle, {}, whose);
    if (!made) return detail::fail_made<context>(handle);
    return returned<context>(context(std::move(made)));
  }

  detail::ref<detail::context_kind> ref_;
};

WEIR_CPP_END

#endif  // WEIR_CPP_CONTEXT_HPP
