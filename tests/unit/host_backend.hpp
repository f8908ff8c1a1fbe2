// SPDX-License-Identifier: Apache-2.0
//
// Shared by the tests of the host backend's memory: a started backend with small devices and
// granules, reached through its table only. Nothing here may outlive a test.
#pragma once

#include <weir/backend.h>

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <string>
extern "C" {
#include <cmocka.h>
}

extern "C" const weir_backend_table *weir_host_backend_query(uint32_t abi_major);

namespace weir::test {

inline constexpr uint64_t kib64 =
    uint64_t{64} << 10U;  // the tests' granule: small, because touching memory is slow
inline constexpr weir_result invalid = WEIR_ERROR_INVALID_ARGUMENT;

/// A started backend. Small granules unless the options say otherwise.
class Backend {
 public:
  explicit Backend(const std::string &options = "") {
    weir_be_start desc{};
    desc.struct_size = sizeof desc;
    const std::string all = "memory=4M;granule=64K;granule_large=0;" + options;
    desc.options = all.c_str();
    const char *reason = nullptr;
    if (t.start(&desc, &s, &reason) != WEIR_SUCCESS) fail_msg("start: %s", reason);
  }
  ~Backend() { t.stop(s); }
  Backend(const Backend &) = delete;
  Backend &operator=(const Backend &) = delete;

  const weir_backend_table &t = *weir_host_backend_query(WEIR_BACKEND_ABI_MAJOR);
  weir_be_state *s = nullptr;

  weir_be_granule granule(uint64_t bytes = kib64, uint32_t device = 0, uint64_t flags = 0) const {
    weir_be_granule made = 0;
    assert_int_equal(t.granule_create(s, device, bytes, flags, &made), WEIR_SUCCESS);
    assert_true(made != 0);
    return made;
  }
  uint64_t range(uint64_t bytes, uint64_t alignment = kib64, uint32_t device = 0) const {
    uint64_t address = 0;
    assert_int_equal(t.range_reserve(s, device, bytes, alignment, &address), WEIR_SUCCESS);
    assert_true(address != 0 && address % alignment == 0);
    return address;
  }
  weir_result map(uint64_t address, weir_be_granule granule, uint64_t bytes = kib64,
                  uint64_t offset = 0) const {
    return t.map(s, 0, address, bytes, granule, offset, nullptr, 0);
  }
  weir_result unmap(uint64_t address, uint64_t bytes = kib64) const {
    return t.unmap(s, 0, address, bytes);
  }
  uint64_t available(uint32_t device = 0) const {
    uint64_t free_bytes = 0;
    uint64_t total = 0;
    assert_int_equal(t.device_memory(s, device, &free_bytes, &total), WEIR_SUCCESS);
    return free_bytes;
  }
  weir_be_device describe(uint32_t device = 0) const {
    weir_be_device description{};
    description.struct_size = sizeof description;
    assert_int_equal(t.device_describe(s, device, &description), WEIR_SUCCESS);
    return description;
  }
  std::string why() const { return t.error_text(s, t.last_error_code(s)); }
};

inline unsigned char *bytes_at(uint64_t address) {
  return reinterpret_cast<unsigned char *>(static_cast<uintptr_t>(address));
}

}  // namespace weir::test
