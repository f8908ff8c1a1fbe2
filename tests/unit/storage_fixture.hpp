// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the STORAGE tier's store share: directories that go with the test, page-aligned memory with a
// known content, transfers, the ways a store can do its work, and hooks into its system calls.
#pragma once

#include "core/tier/storage_store.hpp"

#include "tests/support/blocks.hpp"
#include "tests/support/cmocka.hpp"

#include <dirent.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <memory_resource>
#include <string>
#include <thread>
#include <vector>

namespace weir::test {

using tier::IoCall;
using tier::IoHook;
using tier::StorageConfig;
using tier::StorageIo;
using tier::StorageStore;
using tier::UnitSlot;

inline constexpr uint64_t unit = StorageStore::unit;
inline constexpr uint64_t kib = uint64_t{1} << 10U;
inline constexpr uint64_t mib = uint64_t{1} << 20U;

/// Fails the test with the thread's last error.
inline void good(Status status) {
  if (!status) print_error("%s\n", last_error().text);
  assert_true(status.ok());
}
inline void bad(Status status, weir_result code, int64_t native, const char *part) {
  if (status.code() != code || std::strstr(last_error().text, part) == nullptr)
    print_error("result %d, native %lld: %s\n", int{status.code()},
                static_cast<long long>(last_error().detail.native), last_error().text);
  assert_int_equal(status.code(), code);
  assert_int_equal(last_error().detail.native, native);
  assert_int_equal(last_error().detail.tier, WEIR_TIER_STORAGE);
  assert_non_null(std::strstr(last_error().text, part));
}

inline uint64_t entries_in(const std::string &path) {
  DIR *directory = opendir(path.c_str());
  assert_non_null(directory);
  uint64_t count = 0;
  while (const dirent *entry = readdir(directory)) {
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) ++count;
  }
  closedir(directory);
  return count;
}

/// A directory of the test's own, below the one it runs in or below $TMPDIR. Nothing may be left in it in the end.
class Directory {
 public:
  explicit Directory(bool temporary = false) {
    const char *other = std::getenv("TMPDIR");
    std::string name = std::string(!temporary ? "." : other != nullptr ? other : "/tmp");
    name += "/weir-test-XXXXXX";
    assert_non_null(mkdtemp(name.data()));
    path_ = name;
  }
  ~Directory() {
    if (rmdir(path_.c_str()) != 0) std::abort();  // a store left something in it
  }
  Directory(const Directory &) = delete;
  Directory &operator=(const Directory &) = delete;
  const std::string &path() const { return path_; }

 private:
  std::string path_;
};

/// Page-aligned memory, filled with bytes that tell where they are.
class Memory {
 public:
  explicit Memory(uint64_t bytes) : bytes_(bytes) {
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    data_ = static_cast<unsigned char *>(memory);
  }
  ~Memory() { munmap(data_, bytes_); }
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  unsigned char *data() { return data_; }
  uint64_t bytes() const { return bytes_; }
  WEIR_UNSEEN static uint64_t word(uint64_t index, uint64_t seed) {
    return (index + 1) * 0x9E3779B97F4A7C15U ^ seed * 0xC2B2AE3D27D4EB4FU;
  }
  void fill(uint64_t seed, uint64_t from, uint64_t count) {
    write_bytes(data_ + from, count, Words{seed});
  }
  void fill(uint64_t seed) { fill(seed, 0, bytes_); }
  bool holds(uint64_t seed, uint64_t from, uint64_t count) const {
    return wrong_bytes(data_ + from, count, Words{seed}) == 0;
  }
  bool holds(uint64_t seed) const { return holds(seed, 0, bytes_); }

 private:
  /// The words as a rule of tests/support/blocks.hpp; blocks are of whole words.
  struct Words {
    uint64_t seed;
    WEIR_UNSEEN void make(uint8_t *block, uint64_t from, uint64_t count) const {
      for (uint64_t at = 0; at < count; at += sizeof(uint64_t)) {
        const uint64_t value = word(from + at, seed);
        for (uint64_t b = at; b < at + sizeof value && b < count; ++b)
          block[b] = static_cast<uint8_t>(value >> 8U * (b - at));
      }
    }
  };
  unsigned char *data_ = nullptr;
  uint64_t bytes_ = 0;
};

inline void set(StorageIo *io, UnitSlot slot, void *memory, uint64_t bytes, bool write,
                bool background = false) {
  io->slot = slot;
  io->memory = memory;
  io->bytes = bytes;
  io->write = write;
  io->background = background;
}

inline Status transfer(StorageStore &store, UnitSlot slot, void *memory, uint64_t bytes,
                       bool write) {
  StorageIo io;
  set(&io, slot, memory, bytes, write);
  store.submit(&io);
  const Status status = store.wait(&io);
  assert_true(store.done(io));
  return status;
}

/// How a store is to do its work.
struct Way {
  bool uring;
  bool direct;
  uint32_t directories;
  bool encrypt;
  std::string name() const {
    return std::string(uring ? "uring" : "threads") + (direct ? ", direct, " : ", buffered, ") +
           std::to_string(directories) + (encrypt ? ", encrypted" : "");
  }
};

/// A build without libcrypto refuses, and says why.
inline bool can_encrypt() {
  Directory directory;
  StorageConfig config;
  config.directories = {directory.path()};
  config.budget = unit;
  config.encrypt = true;
  StorageStore store(config, {}, std::pmr::new_delete_resource());
  const Status status = store.start();
  if (status) return true;
  bad(status, WEIR_ERROR_NOT_SUPPORTED, 0, "libcrypto");
  print_message("built without libcrypto: nothing is encrypted\n");
  return false;
}

template <class Body>
void each_way(Body body) {
  const unsigned ways = can_encrypt() ? 16 : 8;
  for (unsigned bits = 0; bits < ways; ++bits) {
    body(Way{(bits & 1U) == 0, (bits & 2U) == 0, (bits & 4U) == 0 ? 1U : 3U, (bits & 8U) != 0});
  }
}

/// A store in directories of its own.
class Place {
 public:
  explicit Place(const Way &way, uint64_t budget, IoHook *hook = nullptr) {
    for (uint32_t i = 0; i < way.directories; ++i) {
      directories_.push_back(std::make_unique<Directory>(i % 2 != 0));
      config.directories.push_back(directories_.back()->path());
    }
    config.budget = budget;
    config.encrypt = way.encrypt;
    config.direct = way.direct;
    config.uring = way.uring;
    config.hook = hook;
  }
  StorageStore &open() {
    store_ = std::make_unique<StorageStore>(config, log, std::pmr::new_delete_resource());
    good(store_->start());
    return *store_;
  }
  void close() { store_.reset(); }
  StorageStore &store() { return *store_; }

  StorageConfig config;
  Log log;

 private:
  std::vector<std::unique_ptr<Directory>> directories_;
  std::unique_ptr<StorageStore> store_;
};

/// A hook that asks a function what to do about each call.
class Script : public IoHook {
 public:
  std::function<int64_t(IoCall, uint64_t)> answer;
  std::function<void(unsigned char *, uint64_t)> damage;

  int64_t before(IoCall call, uint64_t bytes) noexcept override {
    return answer ? answer(call, bytes) : 0;
  }
  void after_read(void *bytes, uint64_t count) noexcept override {
    if (damage) damage(static_cast<unsigned char *>(bytes), count);
  }
};

/// A thread that has got so far can't be told from one that is about to: it gets the time to be caught.
inline bool stays(const std::atomic<int> &value, int expected) {
  for (int i = 0; i < 2000; ++i) {
    if (value.load() != expected) return false;
    std::this_thread::yield();
  }
  return true;
}

/// The process's descriptors of files in a directory, unlinked ones as the system names them.
inline std::vector<int> files_in(const std::string &directory) {
  char real[4096];
  assert_non_null(realpath(directory.c_str(), real));
  const std::string prefix = std::string(real) + "/";
  std::vector<int> found;
  DIR *all = opendir("/proc/self/fd");
  assert_non_null(all);
  while (const dirent *entry = readdir(all)) {
    char target[4096] = "";
    const ssize_t length = readlinkat(dirfd(all), entry->d_name, target, sizeof target - 1);
    if (length > 0 && std::strncmp(target, prefix.c_str(), prefix.size()) == 0)
      found.push_back(std::atoi(entry->d_name));
  }
  closedir(all);
  return found;
}

}  // namespace weir::test
