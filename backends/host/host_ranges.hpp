// SPDX-License-Identifier: Apache-2.0
//
// The host's side of copies: memory made for them, and the program's own memory registered for them. Every
// range is known, so that freeing or registering twice is refused. Registered memory is never touched here.
#pragma once

#include <weir/backend.h>

#include <map>
#include <mutex>

namespace weir::host {

class HostRanges {
 public:
  HostRanges() = default;
  HostRanges(const HostRanges &) = delete;
  HostRanges &operator=(const HostRanges &) = delete;
  /// Gives back what was not freed.
  ~HostRanges();

  weir_result allocate(uint64_t bytes, void **memory);
  weir_result release(void *memory, uint64_t bytes);
  weir_result enroll(void *memory, uint64_t bytes);
  weir_result dismiss(void *memory, uint64_t bytes);

 private:
  struct Entry {
    uint64_t bytes = 0;
    bool own = false;  // made by allocate()
  };
  weir_result add(void *memory, uint64_t bytes, bool own);
  weir_result remove(void *memory, uint64_t bytes, bool own, const char *what);

  std::mutex mutex_;
  std::map<uint64_t, Entry> ranges_;
};

}  // namespace weir::host
