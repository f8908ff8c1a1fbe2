// SPDX-License-Identifier: Apache-2.0
//
// weir/cpp/span.hpp - weir::span: std::span, or a small class of our own where there is none (config.hpp). It owns nothing
// and checks no index. What it points to may be memory of a device, which only the device can follow.
#ifndef WEIR_CPP_SPAN_HPP
#define WEIR_CPP_SPAN_HPP

#include <weir/cpp/config.hpp>

#include <cstddef>
#include <type_traits>
#if WEIR_CPP_STD_SPAN
#include <span>
#endif

WEIR_CPP_BEGIN

#if WEIR_CPP_STD_SPAN

template <class T>
using span = std::span<T>;

#else

/// As much of std::span<T> as its users need most.
template <class T>
class span {
 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  using size_type = std::size_t;
  using pointer = T *;
  using reference = T &;
  using iterator = T *;

  constexpr span() noexcept = default;
  constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
  /// A span of what may be written is one of what may be read.
  template <class U, class = std::enable_if_t<std::is_convertible_v<U (*)[], T (*)[]>>>
  constexpr span(const span<U> &other) noexcept : data_(other.data()), size_(other.size()) {}

  constexpr T *data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return size_; }
  constexpr std::size_t size_bytes() const noexcept { return size_ * sizeof(T); }
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr T *begin() const noexcept { return data_; }
  constexpr T *end() const noexcept { return data_ + size_; }
  constexpr T &operator[](std::size_t at) const noexcept { return data_[at]; }
  constexpr T &front() const noexcept { return data_[0]; }
  constexpr T &back() const noexcept { return data_[size_ - 1]; }
  constexpr span first(std::size_t count) const noexcept { return {data_, count}; }
  constexpr span last(std::size_t count) const noexcept { return {data_ + (size_ - count), count}; }
  constexpr span subspan(std::size_t from) const noexcept { return {data_ + from, size_ - from}; }
  constexpr span subspan(std::size_t from, std::size_t count) const noexcept {
    return {data_ + from, count};
  }

 private:
  T *data_ = nullptr;
  std::size_t size_ = 0;
};

#endif

WEIR_CPP_END

#endif  // WEIR_CPP_SPAN_HPP
