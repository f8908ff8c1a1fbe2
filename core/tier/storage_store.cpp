// SPDX-License-Identifier: Apache-2.0
//
// The store: its files, its line of units, its queue and the lanes that serve it, put together and taken apart.

#include "core/tier/storage_store.hpp"

#include "core/base/waits.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <thread>

namespace weir::tier {
namespace {

/// Also the longest piece. Long enough for a device's full speed with several under way, and short enough that a read
/// does not wait long behind one; what a bio of the kernel's holds in single pages, so that it is not cut again.
constexpr uint64_t stripe_bytes = uint64_t{512} << 10U;

/// One thread keeps an io_uring busy; with a cipher to run it takes some.
unsigned ring_count(bool encrypt) noexcept {
  return encrypt ? std::clamp(std::thread::hardware_concurrency() / 2, 1U, 4U) : 1;
}

}  // namespace

StorageStore::Running::~Running() {
  if (queue) queue->stop();
}

Status StorageStore::check() const {
  ErrorDetail detail{.tier = WEIR_TIER_STORAGE, .asked = config_.budget};
  if (config_.directories.empty() || config_.directories.size() > max_directories)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, detail,
                "storage: %zu directories given; it takes 1 to %u", config_.directories.size(),
                max_directories);
  detail.available = UnitArena::max_bytes;
  if (config_.budget < unit || config_.budget > UnitArena::max_bytes)
    return fail(WEIR_ERROR_INVALID_ARGUMENT, detail,
                "storage: a budget of %" PRIu64 " bytes; it takes %" PRIu64 " to %" PRIu64,
                config_.budget, unit, UnitArena::max_bytes);
  return {};
}

/// For tests, and not by the queue: what it counts and what a test makes it fail at are the pages' own transfers.
void StorageStore::poison(UnitSlot slot, uint32_t client) noexcept {
  alignas(unit) std::array<unsigned char, 4 * unit> pattern;
  poison::fill(pattern.data(), pattern.size(), client);
  const uint64_t begin = UnitArena::offset(slot);
  const uint64_t end = begin + bytes(slot);
  for (uint64_t at = begin; at < end;) {
    const Stripes::Run run =
        running_->stripes.run(at, std::min<uint64_t>(end - at, pattern.size()));
    (void)!pwrite(running_->files[run.file].descriptor(), pattern.data(), run.bytes,
                  static_cast<off_t>(run.offset));
    at += run.bytes;
  }
}

Status StorageStore::make_lanes(Running *fresh) const {
  const uint32_t files = fresh->stripes.files();
  const auto add = [this, fresh](auto make, unsigned count) {
    const IoShared shared{*fresh->queue, fresh->files,
                          config_.hook,  fresh->key ? &*fresh->key : nullptr,
                          stripe_bytes,  memory_};
    Status status;
    for (unsigned i = 0; i < count && status; ++i) {
      Owned<IoLane> lane;
      status = make(shared, &lane);
      if (status) fresh->lanes.push_back(std::move(lane));
    }
    return status;
  };
  const auto stop = [fresh] {
    fresh->queue->stop();
    fresh->lanes.clear();
  };
  IoQueue::Limits limits = IoQueue::Limits::of_files(files);
  const uint32_t threads = config_.threads != 0 ? config_.threads : std::min(4 + 4 * files, 32U);
  // A lane that found no place in the list would never be stopped, and one that is running may not be dropped for want of a place
  // while the queue goes on: so all places are reserved first.
  fresh->lanes.reserve(std::max(threads, ring_count(config_.encrypt)));
  if (config_.uring) {
    const KeepError keep;  // threads do as well: what fails here is no error of the caller's
    fresh->queue.emplace(fresh->stripes, limits);
    // As many as there may be are enough.
    (void)add(make_uring_lane, ring_count(config_.encrypt));
    if (!fresh->lanes.empty()) {
      describe(true, fresh);
      return {};
    }
    log_(WEIR_LOG_INFO, "%s; threads do its work", last_error().text);
    stop();
  }
  limits.other_pieces = std::max(threads - std::max(threads / 4, 1U), 1U);
  fresh->queue.emplace(fresh->stripes, limits);
  if (const Status status = add(make_thread_lane, threads); !status) {
    stop();
    return status;
  }
  describe(false, fresh);
  return {};
}

void StorageStore::describe(bool uring, Running *fresh) const {
  char lanes[32] = "io_uring";
  if (!uring) std::snprintf(lanes, sizeof lanes, "%zu threads", fresh->lanes.size());
  const auto direct = std::count_if(fresh->files.begin(), fresh->files.end(),
                                    [](const SpillFile &file) { return file.direct(); });
  const auto files = static_cast<int64_t>(fresh->files.size());
  char access[40] = "O_DIRECT";
  if (direct == 0) std::snprintf(access, sizeof access, "page cache");
  if (direct != 0 && direct != files)
    std::snprintf(access, sizeof access, "O_DIRECT in %" PRId64 " of", int64_t{direct});
  std::snprintf(fresh->how, sizeof fresh->how, "%s, %s, %" PRId64 " file%s%s", lanes, access, files,
                files == 1 ? "" : "s", config_.encrypt ? ", AES-256-XTS" : "");
}

Status StorageStore::start() {
  WEIR_TRY(check());
  const uint64_t line = config_.budget / unit * unit;
  const Stripes stripes(line, static_cast<uint32_t>(config_.directories.size()), stripe_bytes);
  Owned<Running> fresh = make_owned<Running>(memory_, stripes, line, memory_);
  WEIR_TRY(fresh->zeroes.start(stripe_bytes, "overwrite storage from"));
  if (config_.encrypt) WEIR_TRY(fresh->key.emplace().make());
  fresh->files.resize(stripes.files());
  for (uint32_t i = 0; i < stripes.files(); ++i)
    WEIR_TRY(SpillFile::make(config_.directories[i], stripes.file_bytes(i), config_.direct,
                             config_.hook, log_, &fresh->files[i]));
  WEIR_TRY(make_lanes(fresh.get()));
  running_ = std::move(fresh);
  use(&running_->arena);
  log_(WEIR_LOG_INFO, "storage: %s, %" PRIu64 " bytes in '%s'%s", how(), line,
       config_.directories.front().c_str(), config_.directories.size() > 1 ? " and others" : "");
  return {};
}

void StorageStore::free(UnitSlot slot, uint32_t client) noexcept {
  if (poison::on() && client != poison::nobody) poison(slot, client);
  arena().free(slot);
}

bool StorageStore::free_secret(UnitSlot slot) noexcept {
  arena().set_note(slot, running_->retired.node);
  running_->retired = slot;
  return true;
}

UnitSlot StorageStore::take_retired() noexcept {
  if (!retired()) return {};
  const UnitSlot last = slot(running_->retired);
  running_->retired.node = arena().note(last);
  return last;
}

Status StorageStore::overwrite(UnitSlot slot, uint64_t bytes) noexcept {
  StorageIo io;
  for (uint64_t at = 0; at < bytes; at += stripe_bytes) {
    io.slot = slot;
    io.slot.first += static_cast<uint32_t>(at / unit);
    io.memory = running_->zeroes.data();
    io.bytes = std::min(stripe_bytes, bytes - at);
    io.write = true;
    submit(&io);
    WEIR_TRY(wait(&io));
  }
  return {};
}

Status StorageStore::wait(StorageIo *io) noexcept {
  const WaitScope waits(Wait::io);
  running_->queue->wait(io);
  if (io->error == 0) return {};
  return fail(WEIR_ERROR_IO, {.tier = WEIR_TIER_STORAGE, .asked = io->bytes, .native = io->error},
              "storage: a %s of %" PRIu64 " bytes failed in '%s' at offset %" PRIu64 ": %s",
              io->write ? "write" : "read", io->bytes, config_.directories[io->error_file].c_str(),
              io->error_offset, strerrordesc_np(io->error));
}

void StorageStore::add_memory(void *base, uint64_t bytes) noexcept {
  for (auto &lane : running_->lanes) lane->add_memory(base, bytes);
}
void StorageStore::remove_memory(void *base) noexcept {
  for (auto &lane : running_->lanes) lane->remove_memory(base);
}

}  // namespace weir::tier
