// SPDX-License-Identifier: Apache-2.0
//
// The store: its files, its line of units, its queue and the lanes that serve it, put together and taken apart.

#include "core/tier/storage_store.hpp"

#include "core/tier/cipher.hpp"
#include "core/tier/io_lane.hpp"
#include "core/tier/io_queue.hpp"
#include "core/tier/spill_file.hpp"
#include "core/tier/stripes.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <optional>
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

struct StorageStore::State {
  State(StorageConfig config_, const Log &log_, std::pmr::memory_resource *memory_)
      : config(std::move(config_)), log(log_), memory(memory_) {}

  /// What start() makes; dropped whole if any of it fails. In the order in which it must be made.
  struct Running {
    explicit Running(std::pmr::memory_resource *memory) : files(memory), lanes(memory) {}
    ~Running() {
      if (queue) queue->stop();
      if (zeroes != nullptr) munmap(zeroes, stripe_bytes);
    }
    Running(const Running &) = delete;
    Running &operator=(const Running &) = delete;

    void poison(UnitSlot slot, uint32_t client) noexcept;

    std::optional<UnitArena> arena;
    std::optional<Stripes> stripes;
    uint32_t retired = UnitSlot{}.node;  ///< the first of their list, each of which notes the next
    void *zeroes = nullptr;              ///< as long as a stripe; read only, so it takes no memory
    std::pmr::vector<SpillFile> files;
    std::optional<CipherKey> key;
    std::optional<IoQueue> queue;
    std::pmr::vector<Owned<IoLane>> lanes;
    char how[128] = "";
  };

  Status check() const;
  Status make_files(const Stripes &stripes, Running *fresh) const;
  Status make_lanes(const Stripes &stripes, Running *fresh) const;
  void describe(bool uring, Running *fresh) const;

  const StorageConfig config;
  const Log log;
  std::pmr::memory_resource *const memory;
  Owned<Running> running;
};

Status StorageStore::State::check() const {
  ErrorDetail detail;
  detail.tier = WEIR_TIER_STORAGE;
  detail.asked = config.budget;
  if (config.directories.empty() || config.directories.size() > max_directories) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT, detail,
                "storage: %zu directories given; it takes 1 to %u", config.directories.size(),
                max_directories);
  }
  detail.available = UnitArena::max_bytes;
  if (config.budget < unit || config.budget > UnitArena::max_bytes) {
    return fail(WEIR_ERROR_INVALID_ARGUMENT, detail,
                "storage: a budget of %" PRIu64 " bytes; it takes %" PRIu64 " to %" PRIu64,
                config.budget, unit, UnitArena::max_bytes);
  }
  return {};
}

/// For tests, and not by the queue: what it counts and what a test makes it fail at are the pages' own transfers.
void StorageStore::State::Running::poison(UnitSlot slot, uint32_t client) noexcept {
  alignas(unit) std::array<unsigned char, 4 * unit> pattern;
  poison::fill(pattern.data(), pattern.size(), client);
  const uint64_t begin = UnitArena::offset(slot);
  const uint64_t end = begin + arena->bytes(slot);
  for (uint64_t at = begin; at < end;) {
    const Stripes::Run run = stripes->run(at, std::min<uint64_t>(end - at, pattern.size()));
    (void)!pwrite(files[run.file].descriptor(), pattern.data(), run.bytes,
                  static_cast<off_t>(run.offset));
    at += run.bytes;
  }
}

Status StorageStore::State::make_files(const Stripes &stripes, Running *fresh) const {
  fresh->files.reserve(stripes.files());
  for (uint32_t i = 0; i < stripes.files(); ++i) {
    SpillFile file;
    WEIR_TRY(SpillFile::make(config.directories[i], stripes.file_bytes(i), config.direct,
                             config.hook, log, &file));
    fresh->files.push_back(std::move(file));
  }
  return {};
}

Status StorageStore::State::make_lanes(const Stripes &stripes, Running *fresh) const {
  const auto shared = [&] {
    return IoShared{*fresh->queue, fresh->files, config.hook, fresh->key ? &*fresh->key : nullptr,
                    stripe_bytes,  memory};
  };
  const auto stop = [&] {
    fresh->queue->stop();
    fresh->lanes.clear();
  };
  IoQueue::Limits limits = IoQueue::Limits::of_files(stripes.files());
  const uint32_t threads =
      config.threads != 0 ? config.threads : std::min(4 + 4 * stripes.files(), 32U);
  // A lane that is not in the list would have nobody to stop it before it ends.
  fresh->lanes.reserve(std::max(threads, ring_count(config.encrypt)));
  if (config.uring) {
    const LastError before = last_error();
    fresh->queue.emplace(stripes, limits);
    Status status;
    // First: a lane that is running may not be dropped for want of a place while the queue goes on.
    fresh->lanes.reserve(ring_count(config.encrypt));
    for (unsigned i = 0; i < ring_count(config.encrypt) && status; ++i) {
      Owned<IoLane> lane;
      status = make_uring_lane(shared(), &lane);
      if (status) fresh->lanes.push_back(std::move(lane));
    }
    // As many as there may be are enough.
    if (!fresh->lanes.empty()) {
      last_error() = before;
      describe(true, fresh);
      return {};
    }
    log(WEIR_LOG_INFO, "%s; threads do its work", last_error().text);
    last_error() = before;  // which is no error of the caller's
    stop();
  }
  limits.other_pieces = std::max(threads - std::max(threads / 4, 1U), 1U);
  fresh->queue.emplace(stripes, limits);
  fresh->lanes.reserve(threads);
  for (uint32_t i = 0; i < threads; ++i) {
    Owned<IoLane> lane;
    if (const Status status = make_thread_lane(shared(), &lane); !status) {
      stop();
      return status;
    }
    fresh->lanes.push_back(std::move(lane));
  }
  describe(false, fresh);
  return {};
}

void StorageStore::State::describe(bool uring, Running *fresh) const {
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
                files == 1 ? "" : "s", config.encrypt ? ", AES-256-XTS" : "");
}

StorageStore::StorageStore(StorageConfig config, const Log &log, std::pmr::memory_resource *memory)
    : state_(make_owned<State>(memory, std::move(config), log, memory).release()) {}

// The lanes end before what they use.
StorageStore::~StorageStore() {
  const Owned<State> owner(state_, MemoryDelete<State>{state_->memory});
}

Status StorageStore::start() {
  WEIR_TRY(state_->check());
  const uint64_t line = state_->config.budget / unit * unit;
  const Stripes stripes(line, static_cast<uint32_t>(state_->config.directories.size()),
                        stripe_bytes);
  Owned<State::Running> fresh = make_owned<State::Running>(state_->memory, state_->memory);
  fresh->arena.emplace(line, state_->memory);
  fresh->stripes = stripes;
  void *zeroes = mmap(nullptr, stripe_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (zeroes == MAP_FAILED)
    return fail(WEIR_ERROR_OUT_OF_HOST_MEMORY, "storage: no address space: %s",
                strerrordesc_np(errno));
  fresh->zeroes = zeroes;
  if (state_->config.encrypt) {
    fresh->key.emplace();
    WEIR_TRY(fresh->key->make());
  }
  WEIR_TRY(state_->make_files(stripes, fresh.get()));
  WEIR_TRY(state_->make_lanes(stripes, fresh.get()));
  state_->running = std::move(fresh);
  state_->log(WEIR_LOG_INFO, "storage: %s, %" PRIu64 " bytes in '%s'%s", how(), line,
              state_->config.directories.front().c_str(),
              state_->config.directories.size() > 1 ? " and others" : "");
  return {};
}

const char *StorageStore::how() const noexcept {
  return state_->running != nullptr ? state_->running->how : "not started";
}

UnitSlot StorageStore::allocate(uint64_t bytes) { return state_->running->arena->allocate(bytes); }
void StorageStore::free(UnitSlot slot, uint32_t client) noexcept {
  if (poison::on() && client != poison::nobody) state_->running->poison(slot, client);
  state_->running->arena->free(slot);
}
void StorageStore::retire(UnitSlot slot) noexcept {
  State::Running &running = *state_->running;
  running.arena->set_note(slot, running.retired);
  running.retired = slot.node;
}
bool StorageStore::retired() const noexcept { return state_->running->retired != UnitSlot{}.node; }
UnitSlot StorageStore::take_retired() noexcept {
  State::Running &running = *state_->running;
  if (!retired()) return {};
  UnitName last;
  last.node = running.retired;
  const UnitSlot slot = running.arena->slot(last);
  running.retired = running.arena->note(slot);
  return slot;
}
void StorageStore::free_overwritten(UnitSlot slot) noexcept { state_->running->arena->free(slot); }

Status StorageStore::overwrite(UnitSlot slot, uint64_t bytes) noexcept {
  StorageIo io;
  for (uint64_t at = 0; at < bytes; at += stripe_bytes) {
    io.slot = slot;
    io.slot.first += static_cast<uint32_t>(at / unit);
    io.memory = state_->running->zeroes;
    io.bytes = std::min(stripe_bytes, bytes - at);
    io.write = true;
    submit(&io);
    WEIR_TRY(wait(&io));
  }
  return {};
}

UnitSlot StorageStore::slot(UnitName name) const noexcept {
  return state_->running->arena->slot(name);
}
uint64_t StorageStore::bytes(UnitName slot) const noexcept {
  return state_->running->arena->bytes(slot);
}
uint32_t StorageStore::blob_bytes(UnitName slot) const noexcept {
  return state_->running->arena->note(slot);
}
void StorageStore::set_blob_bytes(UnitName slot, uint32_t bytes) noexcept {
  state_->running->arena->set_note(slot, bytes);
}
uint64_t StorageStore::budget() const noexcept {
  return state_->running != nullptr ? state_->running->arena->budget() : 0;
}
uint64_t StorageStore::used() const noexcept {
  return state_->running != nullptr ? state_->running->arena->used() : 0;
}
uint64_t StorageStore::room() const noexcept { return budget() - used(); }

void StorageStore::submit(StorageIo *io) noexcept { state_->running->queue->submit(io); }

Status StorageStore::wait(StorageIo *io) noexcept {
  state_->running->queue->wait(io);
  if (io->error == 0) return {};
  return fail(WEIR_ERROR_IO, {.tier = WEIR_TIER_STORAGE, .asked = io->bytes, .native = io->error},
              "storage: a %s of %" PRIu64 " bytes failed in '%s' at offset %" PRIu64 ": %s",
              io->write ? "write" : "read", io->bytes,
              state_->config.directories[io->error_file].c_str(), io->error_offset,
              strerrordesc_np(io->error));
}

void StorageStore::add_memory(void *base, uint64_t bytes) noexcept {
  for (auto &lane : state_->running->lanes) lane->add_memory(base, bytes);
}
void StorageStore::remove_memory(void *base) noexcept {
  for (auto &lane : state_->running->lanes) lane->remove_memory(base);
}

uint64_t StorageStore::written_bytes() const noexcept {
  return state_->running != nullptr ? state_->running->queue->written_bytes() : 0;
}
uint64_t StorageStore::read_bytes() const noexcept {
  return state_->running != nullptr ? state_->running->queue->read_bytes() : 0;
}
uint64_t StorageStore::errors() const noexcept {
  return state_->running != nullptr ? state_->running->queue->errors() : 0;
}

}  // namespace weir::tier
