// SPDX-License-Identifier: Apache-2.0
//
// Host memory for bookkeeping: the context's allocator callbacks as a std::pmr resource that counts what is
// out. Every long-lived record of the core comes from here, so that a program sees and bounds Weir's own
// memory, and a test can make the n-th allocation fail. Failure is std::bad_alloc, caught at the C ABI.
#pragma once

#include <weir/context.h>

#include <atomic>
#include <memory>
#include <memory_resource>
#include <type_traits>
#include <utility>

namespace weir {

class HostMemory final : public std::pmr::memory_resource {
 public:
  explicit HostMemory(const weir_allocator &callbacks) noexcept : callbacks_(callbacks) {}

 private:
  void *do_allocate(size_t bytes, size_t alignment) override;
  void do_deallocate(void *memory, size_t bytes, size_t alignment) noexcept override;
  bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }

  weir_allocator callbacks_;
};

/// Asks for huge pages under memory that is used at random. A hint: nothing depends on it.
void advise_huge_pages(void *memory, size_t bytes) noexcept;

/// Counts the bytes that pass through to another resource.
class CountingMemory final : public std::pmr::memory_resource {
 public:
  explicit CountingMemory(std::pmr::memory_resource *upstream) noexcept : upstream_(upstream) {}
  uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

 private:
  void *do_allocate(size_t bytes, size_t alignment) override {
    void *memory = upstream_->allocate(bytes, alignment);
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
    return memory;
  }
  void do_deallocate(void *memory, size_t bytes, size_t alignment) noexcept override {
    bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    upstream_->deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }

  std::pmr::memory_resource *upstream_;
  std::atomic<uint64_t> bytes_{0};
};

/// Deletes an object that lives in a memory resource.
template <class T, bool polymorphic = std::is_polymorphic_v<T>>
struct MemoryDelete {
  std::pmr::memory_resource *memory = nullptr;
  void operator()(T *object) const noexcept {
    object->~T();
    memory->deallocate(object, sizeof(T), alignof(T));
  }
};
/// Size and place are those of the most derived type.
template <class T>
struct MemoryDelete<T, true> {
  std::pmr::memory_resource *memory = nullptr;
  size_t size = sizeof(T);
  size_t alignment = alignof(T);
  void operator()(T *object) const noexcept {
    void *place = dynamic_cast<void *>(object);
    object->~T();
    memory->deallocate(place, size, alignment);
  }
};
template <class T>
using Owned = std::unique_ptr<T, MemoryDelete<T>>;

/// Deletes an object that knows the resource it lives in, so that owning it takes one word: for records that there are many
/// of. Made from what make_owned() returns.
template <class T>
struct SelfDelete {
  SelfDelete() = default;
  SelfDelete(const MemoryDelete<T> & /*same*/) noexcept {}  // NOLINT(google-explicit-constructor)
  void operator()(T *object) const noexcept {
    static_assert(!std::is_polymorphic_v<T>);
    std::pmr::memory_resource *const memory = object->memory();
    object->~T();
    memory->deallocate(object, sizeof(T), alignof(T));
  }
};
template <class T>
using Compact = std::unique_ptr<T, SelfDelete<T>>;

template <class T, class... Args>
Owned<T> make_owned(std::pmr::memory_resource *memory, Args &&...args) {
  void *place = memory->allocate(sizeof(T), alignof(T));
  try {
    return Owned<T>(::new (place) T(std::forward<Args>(args)...), MemoryDelete<T>{memory});
  } catch (...) {
    memory->deallocate(place, sizeof(T), alignof(T));
    throw;
  }
}

/// The same object as a base class, which must have a virtual destructor.
template <class Base, class T>
Owned<Base> adopt_as(Owned<T> object) noexcept {
  const MemoryDelete<T> &from = object.get_deleter();
  MemoryDelete<Base> to{from.memory, from.size, from.alignment};
  return Owned<Base>(object.release(), to);
}

}  // namespace weir
