// SPDX-License-Identifier: Apache-2.0
//
// Host memory that the program brings itself: pages from the system, and their registration with the backend.
#pragma once

#include "conformance/fixtures.hpp"

#include <sys/mman.h>

#include <utility>

namespace weir::conformance {

/// Memory of the program's own, page by page from the system.
class Pages {
 public:
  explicit Pages(uint64_t bytes, int flags = MAP_PRIVATE | MAP_ANONYMOUS, int fd = -1) noexcept
      : memory_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0)), bytes_(bytes) {}
  ~Pages() {
    if (memory_ != MAP_FAILED && come_to_rest()) munmap(memory_, bytes_);
  }
  Pages(const Pages &) = delete;
  Pages &operator=(const Pages &) = delete;
  bool any() const noexcept { return memory_ != MAP_FAILED; }
  void *get() const noexcept { return memory_; }
  uint64_t address() const noexcept { return reinterpret_cast<uintptr_t>(memory_); }
  std::span<std::byte> bytes() const noexcept {
    return {static_cast<std::byte *>(memory_), bytes_};
  }

 private:
  void *memory_;
  uint64_t bytes_;
};

/// Registered while it lives. Declared after what it registers.
class Registered {
 public:
  explicit Registered(Session &session) noexcept : session_(session) {}
  ~Registered() {
    if (come_to_rest()) session_.keep(end());
  }
  Registered(const Registered &) = delete;
  Registered &operator=(const Registered &) = delete;
  Outcome begin(void *memory, uint64_t bytes) {
    MUST_IN(session_, host_register, memory, bytes);
    memory_ = memory;
    bytes_ = bytes;
    return {};
  }
  Outcome end() {
    if (memory_ == nullptr) return {};
    void *memory = std::exchange(memory_, nullptr);
    MUST_IN(session_, host_unregister, memory, bytes_);
    return {};
  }

 private:
  Session &session_;
  void *memory_ = nullptr;
  uint64_t bytes_ = 0;
};

/// The bytes go to a device and come back.
inline Outcome round_trip(Test &t, uint32_t device, std::span<std::byte> host, uint64_t seed) {
  Plain plain(t, device);
  Stream stream(t, device);
  TRY(plain.allocate(host.size()));
  TRY(stream.create());
  const uint64_t address = reinterpret_cast<uintptr_t>(host.data());
  make_pattern(host, seed);
  TRY(stream.copy(plain.address(), address, host.size()));
  TRY(stream.synchronize());
  make_pattern(host, seed + 1);
  TRY(stream.copy(address, plain.address(), host.size()));
  TRY(stream.synchronize());
  return check_pattern(host, seed, words("host memory after a way through device ", device));
}

}  // namespace weir::conformance
