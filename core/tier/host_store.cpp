// SPDX-License-Identifier: Apache-2.0
//
// Chunks of pinned memory: made, registered with every runtime, given back.

#include "core/tier/host_store.hpp"

#include "core/base/poison.hpp"
#include "core/base/prefault.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weir::tier {
namespace {

constexpr uint64_t chunk_bytes = uint64_t{64} << 20U;

Status system_error(const char *what) {
  const ErrorDetail detail{.tier = WEIR_TIER_HOST, .native = errno};
  const weir_result code = errno == ENOMEM ? WEIR_ERROR_OUT_OF_HOST_MEMORY : WEIR_ERROR_IO;
  return fail(code, detail, "host memory: %s failed: %s", what, strerrordesc_np(errno));
}

/// Asked first, because passing the limit raises a signal that ends the program. False: with errno.
bool may_grow_to(uint64_t bytes) noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      bytes <= limit.rlim_cur)
    return true;
  errno = EFBIG;
  return false;
}

}  // namespace

HostStore::HostStore(std::pmr::memory_resource *memory, uint64_t budget,
                     std::pmr::vector<backend::Runtime *> runtimes, bool registrable,
                     const numa::Nodes &nodes, const Log &log)
    : memory_(memory),
      nodes_(nodes),
      budget_(budget / unit * unit),
      runtimes_(std::move(runtimes)),
      chunks_(memory),
      shares_(memory),
      log_(log) {
  if (!registrable) return;
  file_ = memfd_create("weir-host", MFD_CLOEXEC);
  in_use_ = file_ >= 0;
  // What a chunk has of the file must be had back.
  if (file_ >= 0 && fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, unit) != 0)
    leave_file("the system takes no part of a file back");
}

HostStore::~HostStore() {
  for (auto &chunk : chunks_) {
    if (chunk != nullptr) unmake_chunk(*chunk);
  }
  if (file_ >= 0) close(file_);
}

HostSlot HostStore::allocate_in(size_t chunk, uint64_t bytes) {
  if (chunk == closed_ || chunks_[chunk]->arena.free_units() < bytes) return {};
  const auto extent = chunks_[chunk]->arena.allocate(bytes, unit);
  if (!extent) return {};
  const uint64_t size = chunks_[chunk]->arena.size(extent.node);
  used_ += size;
  shares_[chunks_[chunk]->share].used += size;
  return HostSlot{static_cast<uint32_t>(chunk), extent.node};
}

HostSlot HostStore::allocate(uint64_t bytes, uint32_t client, uint32_t node, bool anywhere) {
  for (const bool near : {true, false}) {
    if (!near && !anywhere) break;
    for (size_t i = 0; i < chunks_.size(); ++i) {
      if (chunks_[i] == nullptr) continue;
      const bool here = node == numa::unknown || chunks_[i]->node == node;
      if (here != near) continue;
      const HostSlot slot = allocate_in(i, bytes);
      if (!slot) continue;
      const uint64_t at = offset(slot);
      chunks_[i]->owners.enter(at, at + this->bytes(slot), client);
      return slot;
    }
  }
  return {};
}

void HostStore::free(HostSlot slot, uint32_t client) noexcept {
  Chunk &chunk = *chunks_[slot.chunk];
  poison::fill(address(slot), bytes(slot), client);
  used_ -= chunk.arena.size(slot.node);
  shares_[chunk.share].used -= chunk.arena.size(slot.node);
  chunk.arena.free(slot.node);
}

// ---- from one client to another ----

void HostStore::take_over(HostSlot slot, uint32_t client, uint64_t written) noexcept {
  const Chunk &chunk = *chunks_[slot.chunk];
  const uint64_t at = offset(slot);
  const uint64_t whole = bytes(slot);
  const auto zero = [&chunk](uint64_t begin, uint64_t end) {
    std::memset(chunk.view + begin, 0, end - begin);
  };
  // The last unit goes down whole, so its end is zero in any case.
  if (written < whole && whole - written < unit) {
    zero(at + written, at + whole);
  } else {
    chunk.owners.each_foreign(at + std::min(written, whole), at + whole, client, zero);
  }
  settle(slot, client);
}

uint64_t HostStore::growth_for(uint64_t bytes) const noexcept {
  const uint64_t need = rounded(bytes);
  if (need > budget_.room()) return 0;
  // Chunks grow with the store, so that a large one has few of them.
  const uint64_t wanted = std::max({need, chunk_bytes, rounded(budget_.used() / 8)});
  return std::min(wanted, budget_.room());
}

bool HostStore::could_hold(uint64_t bytes) const noexcept {
  return std::any_of(chunks_.begin(), chunks_.end(), [bytes](const Owned<Chunk> &chunk) {
    return chunk != nullptr && chunk->bytes >= bytes;
  });
}

bool HostStore::wants_growth(uint32_t *node) const noexcept {
  if (budget_.room() < unit) return false;
  uint64_t least = chunk_bytes / 4;
  bool wanted = false;
  for (const Share &share : shares_) {
    if (share.held == 0 || share.held - share.used >= least) continue;
    least = share.held - share.used;
    *node = share.node;
    wanted = true;
  }
  return wanted;
}

/// The mapping is registered with all runtimes or with none.
Status HostStore::register_view(void *view, uint64_t bytes) noexcept {
  for (size_t i = 0; i < runtimes_.size(); ++i) {
    const Status status = runtimes_[i]->check(
        runtimes_[i]->table().host_register(runtimes_[i]->state(), view, bytes), "host_register");
    if (status) continue;
    while (i-- > 0) (void)runtimes_[i]->table().host_unregister(runtimes_[i]->state(), view, bytes);
    return status;
  }
  return {};
}

/// Gives the chunk its memory. *refused: the runtime does not take the file's.
Status HostStore::make_in_file(Chunk *fresh, bool *refused) noexcept {
  const uint64_t bytes = fresh->bytes;
  fresh->file_offset = file_end_;
  if (!may_grow_to(file_end_ + bytes) ||
      ftruncate(file_, static_cast<off_t>(file_end_ + bytes)) != 0)
    return system_error("ftruncate");
  // Faulted in here, in the background as a rule: DMA and demotion must not meet page faults.
  const auto map = [&](int how) {
    return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | how, file_,
                static_cast<off_t>(file_end_));
  };
  void *view = map(0);
  if (view == MAP_FAILED) return system_error("mmap");
  if (!prefault(view, bytes, nodes_, fresh->node)) {
    // A system before Linux 5.14 does it in mmap only, on one thread.
    munmap(view, bytes);
    view = map(MAP_POPULATE);
    if (view == MAP_FAILED) return system_error("mmap");
  }
  (void)madvise(view, bytes, MADV_DONTFORK);
  const Status status = register_view(view, bytes);
  if (!status) {
    *refused = status.code() != WEIR_ERROR_DEVICE_LOST;
    munmap(view, bytes);
    (void)ftruncate(file_, static_cast<off_t>(file_end_));
    return status;
  }
  file_end_ += bytes;
  fresh->view = static_cast<unsigned char *>(view);
  return {};
}

Status HostStore::make_pinned(uint64_t bytes, uint32_t node, Owned<Chunk> *chunk) {
  Owned<Chunk> fresh = make_owned<Chunk>(memory_, memory_, bytes, node, false);
  void *memory = nullptr;
  backend::Runtime &runtime = *runtimes_.front();
  WEIR_TRY(runtime.check(runtime.table().host_allocate(runtime.state(), bytes, &memory),
                         "host_allocate"));
  fresh->view = static_cast<unsigned char *>(memory);
  *chunk = std::move(fresh);
  return {};
}

Status HostStore::make_chunk(uint64_t bytes, uint32_t node, Owned<Chunk> *chunk) {
  const numa::PreferNode prefer(nodes_, node);
  Owned<Chunk> fresh = make_owned<Chunk>(memory_, memory_, bytes, node, true);
  file_chunks_.fetch_add(1);  // before in_use_ is read: counted chunks keep the file
  if (!in_use_.load()) {
    drop_file_chunk();
    return make_pinned(bytes, node, chunk);
  }
  bool refused = false;
  const Status status = make_in_file(fresh.get(), &refused);
  if (status) {
    *chunk = std::move(fresh);
    return {};
  }
  {
    const KeepError keep;
    drop_file_chunk();
    // Whether it was the file's memory that was refused, and not memory, the allocator tells.
    if (!refused || !make_pinned(bytes, node, chunk)) return status;
  }
  leave_file(last_error().text);
  return {};
}

/// Further chunks are the allocator's. Those in the file stay.
void HostStore::leave_file(const char *why) noexcept {
  if (!in_use_.exchange(false)) return;
  log_(WEIR_LOG_WARNING,
       "host memory in a file is given up: %s; more comes from the runtime's own allocator, and "
       "host leases on it are refused",
       why);
}

/// A file that is given up is truncated when its last chunk goes.
void HostStore::drop_file_chunk() noexcept {
  // Looked at first: were the file given up after this chunk has gone, others may have come to it in between.
  const bool given_up = !in_use_.load();
  if (file_chunks_.fetch_sub(1) == 1 && given_up && file_ >= 0) (void)ftruncate(file_, 0);
}

void HostStore::unmake_chunk(Chunk &chunk) noexcept {
  poison::fill(chunk.view, chunk.bytes, poison::nobody);
  if (!chunk.in_file) {
    (void)runtimes_.front()->table().host_free(runtimes_.front()->state(), chunk.view, chunk.bytes);
    return;
  }
  for (backend::Runtime *runtime : runtimes_)
    (void)runtime->table().host_unregister(runtime->state(), chunk.view, chunk.bytes);
  munmap(chunk.view, chunk.bytes);
  if (fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(chunk.file_offset), static_cast<off_t>(chunk.bytes)) != 0)
    leave_file("the system takes no part of a file back");
  drop_file_chunk();
}

/// There is room for one more: begin_growth() saw to that.
size_t HostStore::share_of(uint32_t node) noexcept {
  for (size_t i = 0; i < shares_.size(); ++i)
    if (shares_[i].node == node) return i;
  shares_.push_back(Share{node});
  return shares_.size() - 1;
}

void HostStore::attach(Owned<Chunk> chunk) noexcept {
  chunk->share = share_of(chunk->node);
  shares_[chunk->share].held += chunk->bytes;
  auto place = std::find(chunks_.begin(), chunks_.end(), nullptr);
  if (place == chunks_.end()) place = chunks_.insert(place, nullptr);
  *place = std::move(chunk);
}

uint32_t HostStore::close_emptiest() noexcept {
  closed_ = UINT32_MAX;
  uint64_t least = UINT64_MAX;
  for (size_t i = 0; i < chunks_.size(); ++i) {
    if (chunks_[i] == nullptr || chunks_[i]->arena.used() >= least) continue;
    least = chunks_[i]->arena.used();
    closed_ = static_cast<uint32_t>(i);
  }
  return closed_;
}

Owned<HostStore::Chunk> HostStore::detach_empty() noexcept {
  for (auto &place : chunks_) {
    if (place == nullptr || !place->arena.empty()) continue;
    budget_.refund(place->bytes);
    shares_[place->share].held -= place->bytes;
    return std::move(place);
  }
  return {};
}

Status HostStore::check_aliasable() const {
  if (in_use_.load() || file_chunks_.load() != 0) return {};
  return fail(WEIR_ERROR_NOT_SUPPORTED,
              file_ >= 0 ? "host leases need host memory in a file, which this system or its "
                           "runtime does not take (it was logged why)"
                         : "host leases need a runtime that can register host memory");
}

Status HostStore::map_alias(HostSlot slot, uint64_t bytes, void *address) const {
  const Chunk &chunk = *chunks_[slot.chunk];
  if (!chunk.in_file)
    return fail(WEIR_ERROR_NOT_SUPPORTED,
                "a host lease needs host memory in a file, and the page lies in memory of the "
                "runtime's own, which has refused more of the other kind (it was logged why)");
  const uint64_t offset = chunk.file_offset + chunk.arena.offset(slot.node);
  if (mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_,
           static_cast<off_t>(offset)) == MAP_FAILED) {
    return system_error("mmap of an alias");
  }
  return {};
}

}  // namespace weir::tier
