// SPDX-License-Identifier: Apache-2.0
//
// The memory file and its seals; slots taken and given back; the sequence.

#include "core/live/page.hpp"

#include <weir/types.h>

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace weir::live {
namespace {

bool wanted() noexcept {
  const char *word = secure_getenv("WEIR_LIVE");
  return getauxval(AT_SECURE) == 0 && (word == nullptr || std::strcmp(word, "0") != 0);
}

uint64_t monotonic_ns() noexcept {
  timespec now{};
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

uint64_t inode_of(int file) noexcept {
  struct stat about {};
  return fstat(file, &about) == 0 ? static_cast<uint64_t>(about.st_ino) : 0;
}

/// Of the process, from 1.
uint32_t next_context() noexcept {
  static std::atomic<uint32_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

std::array<char, name_bytes> short_name(std::string_view name) noexcept {
  std::array<char, name_bytes> kept{};
  std::array<char, most_name_bytes + 1> whole{};  // with a NUL
  const size_t length = std::min(name.size(), whole.size() - 1);
  std::memcpy(whole.data(), name.data(), length);
  const std::string_view cut = kept_name(whole.data(), name_bytes - 1);
  std::memcpy(kept.data(), cut.data(), cut.size());
  return kept;
}

bool Page::make_file(std::string *why) {
  const auto failed = [&](const char *call) {
    *why = std::string(call) + ": " + strerrordesc_np(errno);
    return false;
  };
  file_ = Descriptor(memfd_create(page_name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file_) return failed("memfd_create");
  inode_ = inode_of(file_.get());
  if (ftruncate(file_.get(), static_cast<off_t>(page_bytes)) != 0) return failed("ftruncate");
  void *const mapped =
      mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (mapped == MAP_FAILED) return failed("mmap");
  header_ = static_cast<Header *>(mapped);
  (void)fchmod(file_.get(), 0400);
  constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
  return fcntl(file_.get(), F_ADD_SEALS, seals) == 0 || failed("the memory file can't be sealed");
}

void Page::fill(std::span<const Place> places) noexcept {
  Header &header = *header_;
  header.magic = page_magic;
  header.version = layout_version;
  header.header_bytes = static_cast<uint32_t>(live::header_bytes);
  header.slot_bytes = static_cast<uint32_t>(live::slot_bytes);
  header.slot_count = most_pools;
  header.process = process_;
  header.context = next_context();
  header.start_time = start_time_of(process_);
  header.began_ns = monotonic_ns();
  header.program = short_name(program_invocation_short_name);
  (void)std::snprintf(header.library.data(), header.library.size(), "%d.%d.%d", WEIR_VERSION_MAJOR,
                      WEIR_VERSION_MINOR, WEIR_VERSION_PATCH);
  header.places = static_cast<uint32_t>(places.size());
  header.place_count = std::min(header.places, most_places);
  std::copy_n(places.begin(), header.place_count, header.place.begin());
}

bool Page::publish(const Folder::Surroundings &where, std::string *why) {
  const Entry entry{process_, header_->start_time, own_pid_namespace(), file_.get()};
  if (entry.start_time == 0 || entry.pid_namespace == 0) {
    *why = "/proc does not tell of this process";
    return false;
  }
  const Folder folder = Folder::make(where, why);
  Folder::File made;
  if (!folder || !folder.add(entry, &made, why)) return false;
  folder_ = folder.path();
  published_ = std::move(made);
  return true;
}

void Page::open(const Log &log, std::span<const Place> places, const Folder::Surroundings &where) {
  if (!wanted()) return;
  process_ = getpid();
  std::string why;
  bool made = make_file(&why);
  if (made) {
    fill(places);
    made = publish(where, &why);
  }
  if (made) return;
  close();
  log(WEIR_LOG_INFO, "other programs (weir top) can't look at this one: %s", why.c_str());
}

void Page::close() noexcept {
  if (!published_.name.empty() && may_write()) {
    if (const Folder folder = Folder::again(folder_))
      folder.remove(published_.name, published_.inode);
  }
  published_ = {};
  if (header_ != nullptr) (void)munmap(header_, page_bytes);
  header_ = nullptr;
  // What has its number now may be a file of the program's.
  if (file_ && inode_of(file_.get()) != inode_) (void)file_.release();
  file_ = Descriptor();
}

bool Page::may_write() const noexcept { return getpid() == process_; }

Slot &Page::slot(uint32_t number) noexcept {
  return *reinterpret_cast<Slot *>(reinterpret_cast<std::byte *>(header_) + slot_offset(number));
}

void Page::Claim::take(Page &page) noexcept {
  if (slot_ != nullptr || !page.on()) return;
  page_ = &page;
  const std::atomic_ref<uint64_t> without(page.header_->pools_without_slot);
  for (uint32_t i = 0; i < most_pools; ++i) {
    if (page.taken_[i].load(std::memory_order_relaxed) || page.taken_[i].exchange(true)) continue;
    slot_ = &page.slot(i);
    if (counted_) without.fetch_sub(1, std::memory_order_relaxed);
    counted_ = false;
    return;
  }
  if (!counted_) without.fetch_add(1, std::memory_order_relaxed);
  counted_ = true;
}

void Page::Claim::give_back() noexcept {
  if (page_ == nullptr) return;
  if (counted_)
    std::atomic_ref<uint64_t>(page_->header_->pools_without_slot)
        .fetch_sub(1, std::memory_order_relaxed);
  counted_ = false;
  if (slot_ == nullptr) return;
  {
    Writing ends(*slot_);
    ends.pool().serial = 0;
  }
  for (uint32_t i = 0; i < most_pools; ++i)
    if (&page_->slot(i) == slot_) page_->taken_[i].store(false);
  slot_ = nullptr;
}

Page::Writing::Writing(Slot &slot) noexcept : slot_(slot) {
  const std::atomic_ref<uint64_t> sequence(slot_.sequence);
  // Orders what is written from here on after it, for every reader: by an acquire, as ThreadSanitizer knows no fences.
  (void)sequence.fetch_add(1, std::memory_order_acq_rel);
}

Page::Writing::~Writing() {
  const std::atomic_ref<uint64_t> sequence(slot_.sequence);
  sequence.store(sequence.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

}  // namespace weir::live
