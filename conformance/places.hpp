// SPDX-License-Identifier: Apache-2.0
//
// Memory by kind, for requirements that ask the same of every kind. A place is made once and is one address and so
// many bytes, whatever stands behind it; no work uses it when it ends.
#pragma once

#include "conformance/fixtures.hpp"

#include <sys/mman.h>

#include <string>

namespace weir::conformance {

enum class Kind : uint8_t {
  plain,
  mapped,      ///< one granule, mapped once
  pinned,      ///< made by host_allocate
  registered,  ///< the suite's own pages
};
inline std::string kind_name(Kind kind) {
  constexpr const char *names[] = {"plain memory", "a mapped granule", "host memory",
                                   "registered memory"};
  return names[static_cast<size_t>(kind)];
}
/// What a device must have to have memory of the kind.
constexpr uint64_t kind_needs(Kind kind) {
  if (kind == Kind::mapped) return WEIR_CAP_VMM;
  return kind == Kind::registered ? WEIR_CAP_HOST_REGISTER : 0;
}
constexpr bool of_host(Kind kind) { return kind == Kind::pinned || kind == Kind::registered; }

class Memory {
 public:
  Memory(Session &session, Kind kind, uint32_t device)
      : session_(session),
        kind_(kind),
        plain_(session, device),
        mapped_(session, device),
        pinned_(session) {}
  ~Memory() {
    if (come_to_rest()) session_.keep(end());
  }
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;
  /// `unit`: the device's granule, to whose multiple mapped memory is rounded up.
  Outcome make(uint64_t bytes, uint64_t unit, Site site = Site::current()) {
    bytes_ = bytes;
    switch (kind_) {
      case Kind::plain:
        TRY(plain_.allocate(bytes, 4096, site));
        address_ = plain_.address();
        return {};
      case Kind::mapped:
        bytes_ = (bytes + unit - 1) / unit * unit;
        TRY(mapped_.make(bytes_, unit, {}, site));
        address_ = mapped_.address();
        return {};
      case Kind::pinned:
        TRY(pinned_.allocate(bytes, site));
        address_ = pinned_.address();
        return {};
      case Kind::registered:
        break;
    }
    bytes_ = (bytes + 4095) / 4096 * 4096;
    void *pages = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED, "no memory of ", bytes_, " bytes");
    pages_ = pages;
    MUST_IN(session_, host_register, pages, bytes_);
    address_ = reinterpret_cast<uintptr_t>(pages);
    return {};
  }
  Kind kind() const noexcept { return kind_; }
  uint64_t address() const noexcept { return address_; }
  uint64_t bytes() const noexcept { return bytes_; }
  /// Of the host's kinds.
  std::span<std::byte> host() const noexcept {
    return {reinterpret_cast<std::byte *>(static_cast<uintptr_t>(address_)),
            static_cast<size_t>(bytes_)};
  }

 private:
  Outcome end() {
    if (pages_ == nullptr) return {};
    Outcome ended;
    if (address_ != 0) {
      ended = session_.expect(Site::current(), Want::exactly(WEIR_SUCCESS), "host_unregister",
                              session_.table.host_unregister, pages_, bytes_);
    }
    munmap(pages_, bytes_);
    return ended;
  }

  Session &session_;
  Kind kind_;
  Plain plain_;
  Mapped mapped_;
  Pinned pinned_;
  void *pages_ = nullptr;
  uint64_t address_ = 0, bytes_ = 0;
};

}  // namespace weir::conformance
