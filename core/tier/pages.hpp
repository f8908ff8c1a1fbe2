// SPDX-License-Identifier: Apache-2.0
//
// Pages: memory in whole pages for I/O, there from the start (no page fault later), not in core dumps and not
// in children.
#pragma once

#include "core/base/status.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace weir::tier {

class Pages {
 public:
  Pages() = default;
  ~Pages() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  Pages(const Pages &) = delete;
  Pages &operator=(const Pages &) = delete;

  Status make(uint64_t bytes) {
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) {
      return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY,
                  {.tier = WEIR_TIER_STORAGE, .asked = bytes, .native = errno},
                  "storage: no memory for transfers: %s", strerrordesc_np(errno));
    }
    data_ = static_cast<unsigned char *>(memory);
    bytes_ = bytes;
    (void)madvise(memory, bytes, MADV_DONTDUMP);
    (void)madvise(memory, bytes, MADV_DONTFORK);
    return {};
  }
  unsigned char *data() const noexcept { return data_; }
  uint64_t bytes() const noexcept { return bytes_; }

 private:
  unsigned char *data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace weir::tier
