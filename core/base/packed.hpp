// SPDX-License-Identifier: Apache-2.0
//
// Packed: a vector of one word. Records that exist by the million have several short lists each; what a std::pmr::vector
// keeps beside its elements (a resource and three pointers) is in front of the elements here, and not there at all while the
// list is empty. Elements must be nothrow-movable; not copied. A throw of reserve(), resize() or push_back() changes nothing.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <new>
#include <type_traits>
#include <utility>

namespace weir {

template <class T>
class Packed {
  static_assert(std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T>);

 public:
  explicit Packed(std::pmr::memory_resource *memory) noexcept
      : word_(reinterpret_cast<uintptr_t>(memory) | no_elements) {}
  ~Packed() {
    if (allocated()) drop(head());
  }
  Packed(const Packed &) = delete;
  Packed &operator=(const Packed &) = delete;

  std::pmr::memory_resource *memory() const noexcept {
    return allocated() ? head()->memory
                       : reinterpret_cast<std::pmr::memory_resource *>(word_ & ~no_elements);
  }
  size_t size() const noexcept { return allocated() ? head()->size : 0; }
  size_t capacity() const noexcept { return allocated() ? head()->capacity : 0; }
  bool empty() const noexcept { return size() == 0; }
  T *begin() noexcept { return allocated() ? items(head()) : nullptr; }
  T *end() noexcept { return begin() + size(); }
  const T *begin() const noexcept { return allocated() ? items(head()) : nullptr; }
  const T *end() const noexcept { return begin() + size(); }
  T &operator[](size_t i) noexcept {
    assert(i < size());
    return items(head())[i];
  }
  const T &operator[](size_t i) const noexcept {
    assert(i < size());
    return items(head())[i];
  }
  T &back() noexcept { return (*this)[size() - 1]; }

  void reserve(size_t count) {
    if (count <= capacity()) return;
    if (count > most) throw std::bad_alloc();
    std::pmr::memory_resource *const from = memory();
    void *place = from->allocate(bytes_for(count), alignment);
    Head *fresh =
        ::new (place) Head{from, static_cast<uint32_t>(size()), static_cast<uint32_t>(count)};
    std::uninitialized_move_n(begin(), fresh->size, items(fresh));
    if (allocated()) drop(head());
    word_ = reinterpret_cast<uintptr_t>(fresh);
  }
  /// Exactly so much room; new elements are value-initialised.
  void resize(size_t count) {
    static_assert(std::is_nothrow_default_constructible_v<T>);
    reserve(count);
    if (!allocated()) return;
    const size_t before = head()->size;
    if (count < before) std::destroy_n(items(head()) + count, before - count);
    if (count > before)
      std::uninitialized_value_construct_n(items(head()) + before, count - before);
    head()->size = static_cast<uint32_t>(count);
  }
  void push_back(T item) {
    if (size() == capacity()) reserve(size() + std::max<size_t>(1, size() / 2));
    ::new (static_cast<void *>(items(head()) + head()->size)) T(std::move(item));
    ++head()->size;
  }
  /// Gives its memory back too.
  void clear() noexcept {
    std::pmr::memory_resource *const from = memory();
    if (allocated()) drop(head());
    word_ = reinterpret_cast<uintptr_t>(from) | no_elements;
  }
  template <class Predicate>
  size_t erase_if(Predicate predicate) {
    T *const kept = std::remove_if(begin(), end(), predicate);
    const auto erased = static_cast<size_t>(end() - kept);
    if (erased == 0) return 0;
    std::destroy_n(kept, erased);
    head()->size -= static_cast<uint32_t>(erased);
    return erased;
  }

 private:
  struct Head {
    std::pmr::memory_resource *memory;
    uint32_t size, capacity;
  };
  static constexpr uintptr_t no_elements = 1;  ///< in the word: the rest is the resource
  static constexpr size_t alignment = std::max(alignof(Head), alignof(T));
  static constexpr size_t offset = (sizeof(Head) + alignof(T) - 1) / alignof(T) * alignof(T);
  static constexpr size_t most = UINT32_MAX;

  static constexpr size_t bytes_for(size_t count) noexcept { return offset + count * sizeof(T); }
  bool allocated() const noexcept { return (word_ & no_elements) == 0; }
  Head *head() const noexcept { return reinterpret_cast<Head *>(word_); }
  static T *items(Head *head) noexcept {
    return reinterpret_cast<T *>(reinterpret_cast<unsigned char *>(head) + offset);
  }
  static void drop(Head *head) noexcept {
    std::destroy_n(items(head), head->size);
    head->memory->deallocate(head, bytes_for(head->capacity), alignment);
  }

  uintptr_t word_;
};

}  // namespace weir
