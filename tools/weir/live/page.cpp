// SPDX-License-Identifier: Apache-2.0
//
// One page: its seals and size, its header, its slots by their sequences, and every count before it is used. It is read by pread, so
// that whatever happens to the file is an error and no signal.
#include "reader.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>

namespace weir::tool {
namespace {

bool pread_all(int file, void *to, size_t bytes, size_t offset) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t step = pread(file, static_cast<char *>(to) + done, bytes - done,
                               static_cast<off_t>(offset + done));
    if (step < 0 && errno == EINTR) continue;
    if (step <= 0) return false;
    done += static_cast<size_t>(step);
  }
  return true;
}

/// Says which value is wrong.
class PageCheck {
 public:
  explicit PageCheck(std::string where) : where_(std::move(where)) {}
  bool ok() const { return reason_.empty(); }
  const std::string &reason() const { return reason_; }

  void equal(const char *what, uint64_t value, uint64_t expected) {
    if (value != expected) refuse(what, value, "not " + std::to_string(expected));
  }
  void at_most(const char *what, uint64_t value, uint64_t most) {
    if (value > most) refuse(what, value, "more than " + std::to_string(most));
  }

 private:
  void refuse(const char *what, uint64_t value, const std::string &why) {
    if (reason_.empty())
      reason_ = where_ + ": " + what + " is " + std::to_string(value) + ", " + why;
  }
  std::string where_, reason_;
};

bool check_file(int file, std::string *reason) {
  constexpr int needed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;
  const int seals = fcntl(file, F_GET_SEALS);
  struct stat about {};
  if (seals < 0 || (seals & needed) != needed) {
    *reason = "the page is not sealed against shrinking, growing and writing";
    return false;
  }
  if (fstat(file, &about) != 0) {
    *reason = "the page can't be looked at";
    return false;
  }
  // Its version tells first: another one may have another size.
  if (about.st_size >= static_cast<off_t>(sizeof(live::Header))) return true;
  *reason = "the page has " + std::to_string(about.st_size) + " bytes, less than a header";
  return false;
}

void check_header(const live::Header &header, const live::Entry &entry, uint64_t file_bytes,
                  PageCheck *check) {
  check->equal("the mark", header.magic, live::page_magic);
  check->equal("the version", header.version, live::layout_version);
  check->equal("header_bytes", header.header_bytes, live::header_bytes);
  check->equal("slot_bytes", header.slot_bytes, live::slot_bytes);
  check->equal("slot_count", header.slot_count, live::most_pools);
  check->equal("the size of the page", file_bytes, live::page_bytes);
  check->equal("process", static_cast<uint64_t>(header.process),
               static_cast<uint64_t>(entry.process));
  check->equal("start_time", header.start_time, entry.start_time);
  check->at_most("place_count", header.place_count, std::min(header.places, live::most_places));
}

void check_pool(const live::Pool &pool, PageCheck *check) {
  check->at_most("background", pool.background, 1);
  check->at_most("counter_count", pool.counter_count, live::most_counters);
  check->at_most("reason_count", pool.reason_count, live::most_reasons);
  check->at_most("duration_count", pool.duration_count, live::most_durations);
  check->at_most("device_count", pool.device_count, live::most_devices);
  check->at_most("client_count", pool.client_count, std::min(pool.clients, live::most_clients));
  if (!check->ok()) return;
  for (uint32_t i = 0; i < pool.device_count; ++i)
    check->at_most("a device's state", pool.devices[i].state, WEIR_POOL_DEVICE_LOST);
}

enum class Taken : uint8_t { free, taken, busy, failed };

/// A slot as it is at one moment.
Taken take_slot(int file, uint32_t number, live::Slot *slot) {
  const size_t at = live::slot_offset(number);
  constexpr size_t head = offsetof(live::Slot, pool) + sizeof(uint64_t);  // up to the serial
  for (uint32_t tries = 0; tries < LiveReader::most_tries; ++tries) {
    if (tries != 0) (void)sched_yield();
    if (!pread_all(file, slot, head, at)) return Taken::failed;
    const uint64_t before = slot->sequence;
    if ((before & 1U) != 0) continue;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (slot->pool.serial != 0 && !pread_all(file, slot, sizeof *slot, at)) return Taken::failed;
    std::atomic_thread_fence(std::memory_order_acquire);
    uint64_t after = 0;
    if (!pread_all(file, &after, sizeof after, at)) return Taken::failed;
    if (slot->sequence == before && after == before)
      return slot->pool.serial != 0 ? Taken::taken : Taken::free;
  }
  return Taken::busy;
}

}  // namespace

bool read_live_page(int file, const live::Entry &entry, LiveContext *context, std::string *name,
                    std::string *reason) {
  if (!check_file(file, reason)) return false;
  const auto header = std::make_unique<live::Header>();
  struct stat about {};
  if (!pread_all(file, header.get(), sizeof *header, 0) || fstat(file, &about) != 0) {
    *reason = "the page's header can't be read";
    return false;
  }
  PageCheck check("the page's header");
  check_header(*header, entry, static_cast<uint64_t>(about.st_size), &check);
  if (!check.ok()) {
    *reason = check.reason();
    return false;
  }
  *name = live_text(header->program);
  context->number = header->context;
  context->library = live_text(header->library);
  context->pools_without_slot = header->pools_without_slot;
  context->places.assign(header->place.begin(), header->place.begin() + header->place_count);
  const auto slot = std::make_unique<live::Slot>();
  for (uint32_t i = 0; i < live::most_pools; ++i) {
    const Taken taken = take_slot(file, i, slot.get());
    if (taken == Taken::failed) {
      *reason = "slot " + std::to_string(i) + " of the page can't be read";
      return false;
    }
    if (taken == Taken::busy) ++context->busy_pools;
    if (taken != Taken::taken) continue;
    PageCheck of_slot("slot " + std::to_string(i) + " of the page");
    check_pool(slot->pool, &of_slot);
    if (!of_slot.ok()) {
      *reason = of_slot.reason();
      return false;
    }
    context->pools.push_back(slot->pool);
  }
  std::ranges::sort(context->pools, {}, &live::Pool::serial);
  return true;
}

}  // namespace weir::tool
