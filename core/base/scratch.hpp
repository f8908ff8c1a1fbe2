// SPDX-License-Identifier: Apache-2.0
//
// Scratch: pageable memory to work in, in whole pages and reserved whole, so that no later step can fail for want of it. Core dumps
// and children of fork() have none of it.
#pragma once

#include "core/base/status.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace weir {

class Scratch {
 public:
  Scratch() = default;
  ~Scratch() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;

  /// Once. `now`: it is there from the start, else as it is touched. OUT_OF_HOST_MEMORY, which says what the memory was for.
  Status start(uint64_t bytes, const char *purpose, bool now = false) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (now ? MAP_POPULATE : 0);
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED) {
      return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, {.asked = bytes, .native = errno},
                  "no memory to %s: %s", purpose, strerrordesc_np(errno));
    }
    (void)madvise(memory, bytes, MADV_DONTDUMP);
    (void)madvise(memory, bytes, MADV_DONTFORK);
    data_ = static_cast<unsigned char *>(memory);
    bytes_ = bytes;
    return {};
  }
  unsigned char *data() const noexcept { return data_; }
  uint64_t bytes() const noexcept { return bytes_; }
  void clear() noexcept { std::memset(data_, 0, bytes_); }

 private:
  unsigned char *data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace weir
