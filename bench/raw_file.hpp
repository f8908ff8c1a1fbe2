// SPDX-License-Identifier: Apache-2.0
//
// The yardstick of whatever goes through files: as many threads as there are pages under way, each with pread or pwrite of
// whole pages under O_DIRECT, on an unlinked file of its own. Every page carries its number, which is compared when it is
// read back. Header only.
#pragma once

#include "bench/common.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

namespace weir::bench {

constexpr uint64_t window_bytes = 64 * mib;  ///< under way or queued at a time, in whole pages

inline void check(bool worked, const char *what) {
  if (worked) return;
  std::perror(what);
  std::exit(1);
}

/// What is written and read into: touched, and told apart by page.
class Memory {
 public:
  Memory() {
    void *memory = mmap(nullptr, window_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    check(memory != MAP_FAILED, "mmap");
    data_ = static_cast<unsigned char *>(memory);
  }
  ~Memory() { munmap(data_, window_bytes); }
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;
  unsigned char *at(uint64_t offset) const { return data_ + offset % window_bytes; }

 private:
  unsigned char *data_;
};

inline void mark(unsigned char *page, uint64_t number) {
  std::memcpy(page, &number, sizeof number);
}
inline void verify(const unsigned char *page, uint64_t number) {
  uint64_t found = 0;
  std::memcpy(&found, page, sizeof found);
  if (found == number) return;
  std::fprintf(stderr, "page %" PRIu64 " holds %" PRIu64 "\n", number, found);
  std::exit(1);
}

/// The pages of one run, by number in the file.
using Order = std::vector<uint64_t>;

class Raw {
 public:
  Raw(const char *directory, uint64_t bytes)
      : file_(open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC | O_DIRECT, 0600)) {
    if (file_ < 0 && errno == EINVAL) {
      direct_ = false;
      file_ = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    }
    check(file_ >= 0, directory);
    check(fallocate(file_, 0, 0, static_cast<off_t>(bytes)) == 0, "fallocate");
  }
  ~Raw() { close(file_); }
  Raw(const Raw &) = delete;
  Raw &operator=(const Raw &) = delete;
  bool direct() const { return direct_; }

  void transfer(uint64_t page, uint64_t number, bool write, unsigned char *memory) const {
    const auto at = static_cast<off_t>(number * page);
    for (uint64_t done = 0; done < page;) {
      const ssize_t count =
          write ? pwrite(file_, memory + done, page - done, at + static_cast<off_t>(done))
                : pread(file_, memory + done, page - done, at + static_cast<off_t>(done));
      check(count > 0, "raw transfer");
      done += static_cast<uint64_t>(count);
    }
  }

  double run(uint64_t page, const Order &order, bool write, const Memory &memory) const {
    std::atomic<uint64_t> next{0};
    const double start = now_ns();
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < window_bytes / page; ++i) {
      threads.emplace_back([&, place = memory.at(i * page)] {
        for (uint64_t at = next.fetch_add(1); at < order.size(); at = next.fetch_add(1)) {
          if (write) mark(place, order[at]);
          transfer(page, order[at], write, place);
          if (!write) verify(place, order[at]);
        }
      });
    }
    for (std::thread &thread : threads) thread.join();
    return now_ns() - start;
  }

 private:
  int file_;
  bool direct_ = true;
};

/// The value that `share` of them are at or below.
inline double at_share(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

}  // namespace weir::bench
