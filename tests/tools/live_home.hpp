// SPDX-License-Identifier: Apache-2.0
//
// Shared by the tests of what running programs show: a runtime folder of the test's own, pages that tests make up, and programs with
// pools, each a child process of the test's that uses one until it is told to end.
#pragma once

#include "core/live/folder.hpp"
#include "core/live/layout.hpp"
#include "tests/tools/trace_files.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

namespace weir::test {

class LiveHome {
 public:
  LiveHome() {
    std::string name = (std::filesystem::temp_directory_path() / "weir-top-XXXXXX").string();
    assert_non_null(mkdtemp(name.data()));
    root_ = name;
    for (const auto &folder : {runtime(), folder_path()})
      assert_int_equal(mkdir(folder.c_str(), 0700), 0);
    (void)setenv("XDG_RUNTIME_DIR", runtime().c_str(), 1);
    (void)unsetenv("WEIR_LIVE");
  }
  ~LiveHome() { std::filesystem::remove_all(root_); }
  LiveHome(const LiveHome &) = delete;
  LiveHome &operator=(const LiveHome &) = delete;

  std::filesystem::path root() const { return root_; }
  std::filesystem::path runtime() const { return root_ / "run"; }
  std::filesystem::path folder_path() const { return root_ / "run/weir"; }
  live::Folder::Surroundings where() const {
    return {runtime().string(), (root_ / "none").string(), ""};
  }
  void put(const std::string &name, const std::string &text) const {
    std::ofstream(folder_path() / name, std::ios::binary) << text;
  }
  size_t files() const {
    size_t count = 0;
    for (const auto &each : std::filesystem::directory_iterator(folder_path())) {
      (void)each;
      ++count;
    }
    return count;
  }

 private:
  std::filesystem::path root_;
};

/// A page of this process that was made by hand, as somebody could make one: it stays writable by its mapping.
class MadeUpPage {
 public:
  explicit MadeUpPage(size_t bytes = live::page_bytes, const char *name = live::page_name,
                      int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE)
      : file_(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)), bytes_(bytes) {
    assert_true(static_cast<bool>(file_));
    assert_int_equal(ftruncate(file_.get(), static_cast<off_t>(bytes)), 0);
    mapping_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    assert_true(mapping_ != MAP_FAILED);
    if (seals != 0) assert_int_equal(fcntl(file_.get(), F_ADD_SEALS, seals), 0);
    if (bytes >= live::page_bytes) be_good();
  }
  ~MadeUpPage() { (void)munmap(mapping_, bytes_); }
  MadeUpPage(const MadeUpPage &) = delete;
  MadeUpPage &operator=(const MadeUpPage &) = delete;

  int file() const { return file_.get(); }
  unsigned char *bytes() const { return static_cast<unsigned char *>(mapping_); }
  live::Header &header() const { return *static_cast<live::Header *>(mapping_); }
  live::Slot &slot(uint32_t number) const {
    return *reinterpret_cast<live::Slot *>(bytes() + live::slot_offset(number));
  }
  live::Entry entry() const {
    return {getpid(), live::start_time_of(getpid()), live::own_pid_namespace(), file()};
  }

  /// A page with one pool in each of two slots.
  void be_good() const {
    std::memset(mapping_, 0, bytes_);
    live::Header &head = header();
    head.magic = live::page_magic;
    head.version = live::layout_version;
    head.header_bytes = static_cast<uint32_t>(live::header_bytes);
    head.slot_bytes = static_cast<uint32_t>(live::slot_bytes);
    head.slot_count = live::most_pools;
    head.process = getpid();
    head.context = 1;
    head.start_time = live::start_time_of(getpid());
    std::strcpy(head.program.data(), "made-up");
    std::strcpy(head.library.data(), "1.0.0");
    head.places = head.place_count = 2;
    for (uint32_t i = 0; i < 2; ++i) {
      head.place[i].id = i;
      head.place[i].memory_bytes = uint64_t{1} << 34U;
      std::strcpy(head.place[i].name.data(), "a device");
      std::strcpy(head.place[i].backend.data(), "host");
    }
    for (const uint32_t number : {0U, 5U}) {
      live::Pool &pool = slot(number).pool;
      pool.serial = number + 1;
      pool.written_ns = pool.walked_ns = 5'000'000'000;
      std::strcpy(pool.name.data(), number == 0 ? "first" : "second");
      pool.background = 1;
      pool.counter_count = live::counter_count;
      pool.reason_count = live::reason_count;
      pool.duration_count = 14;
      pool.device_count = 2;
      pool.client_count = pool.clients = 3;
      for (uint32_t i = 0; i < live::tier_count; ++i)
        pool.tiers[i] = {uint64_t{4} << 30U, uint64_t{3} << 30U, uint64_t{1} << 30U, 0};
      for (uint32_t i = 0; i < 2; ++i) pool.devices[i].id = i;
      for (uint32_t i = 0; i < 3; ++i) pool.client[i].id = i;
    }
  }

 private:
  live::Descriptor file_;
  size_t bytes_;
  void *mapping_ = nullptr;
};

}  // namespace weir::test
