// SPDX-License-Identifier: Apache-2.0
//
// Page: the live page of one context. A memory file that this process alone can write to, by the mapping that it had before the file
// was sealed; a file in the user's folder that says where it is; a slot for each of the first pools.
//
// What must hold: no reader can make the program wait, or fail: the program asks no other process, and takes no lock that one has. Where
// the page can't be had the context is as good without it. A forked child writes nothing.
#pragma once

#include "core/base/log.hpp"
#include "core/live/folder.hpp"
#include "core/live/layout.hpp"

#include <array>
#include <atomic>
#include <span>
#include <string_view>

namespace weir::live {

/// The name, cut where a character ends.
std::array<char, name_bytes> short_name(std::string_view name) noexcept;

class Page {
 public:
  Page() = default;
  ~Page() { close(); }
  Page(const Page &) = delete;
  Page &operator=(const Page &) = delete;

  /// Until it is called the page is off; it stays off where WEIR_LIVE is "0" or the program runs securely. Says at INFO why the page can't be had.
  void open(const Log &log, std::span<const Place> places, const Folder::Surroundings &where);
  bool on() const noexcept { return header_ != nullptr; }
  /// False in a forked child. Makes a system call.
  bool may_write() const noexcept;

  /// A pool's place on the page, while it has one.
  class Claim {
   public:
    Claim() = default;
    ~Claim() { give_back(); }
    Claim(const Claim &) = delete;
    Claim &operator=(const Claim &) = delete;
    /// Where all slots are taken the pool is counted as one without; it may ask again.
    void take(Page &page) noexcept;
    void give_back() noexcept;
    Slot *slot() const noexcept { return slot_; }

   private:
    Page *page_ = nullptr;
    Slot *slot_ = nullptr;
    bool counted_ = false;
  };

  /// Writes a slot: readers see nothing of it before this ends. One at a time for each slot.
  class Writing {
   public:
    explicit Writing(Slot &slot) noexcept;
    ~Writing();
    Writing(const Writing &) = delete;
    Writing &operator=(const Writing &) = delete;
    Pool &pool() noexcept { return slot_.pool; }

   private:
    Slot &slot_;
  };

 private:
  bool make_file(std::string *why);
  void fill(std::span<const Place> places) noexcept;
  bool publish(const Folder::Surroundings &where, std::string *why);
  void close() noexcept;
  Slot &slot(uint32_t number) noexcept;

  Header *header_ = nullptr;  ///< the mapping; nullptr: the page is off
  Descriptor file_;
  uint64_t inode_ =
      0;  ///< of the file: the program may have closed it and opened another with its number
  pid_t process_ = 0;
  std::string folder_;  ///< it is opened again at the end: a program may close what it did not open
  Folder::File published_;  ///< what is in it of this page; without a name: nothing
  std::array<std::atomic<bool>, most_pools> taken_{};
};

}  // namespace weir::live
