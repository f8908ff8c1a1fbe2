// SPDX-License-Identifier: Apache-2.0
//
// HostStore: the HOST tier. Pinned memory in chunks, each on one shared memfd where the runtimes can register
// memory (then a buffer's slots can also be mapped in a row for the CPU, see map_alias), else from the runtime's own pinned
// allocator. A runtime that says that it can may still refuse the file's memory (in a sandbox, say), and a system may not take a
// part of a file back: then further chunks are the allocator's. Chunks count against a hard budget; slots are placed by the offset allocator in 4 KiB units. A chunk is made for
// a NUMA node, and its memory is asked for there; slots for that node are looked for in its chunks first. That is a wish: the
// budget is one, and no slot is refused because of its node.
//
// A slot that held another client's bytes shows none of them: what its new client does not write is zeroed, by take_over()
// (physical/owners.hpp has whose bytes lie where).
//
// allocate() and free() are bookkeeping under the pool's lock. grow() and shrink() call the system, outside
// of it, one at a time.
#pragma once

#include "core/backend/runtime.hpp"
#include "core/base/budget.hpp"
#include "core/base/grow.hpp"
#include "core/base/log.hpp"
#include "core/base/memory.hpp"
#include "core/base/numa.hpp"
#include "core/physical/arena.hpp"
#include "core/physical/owners.hpp"

#include <atomic>
#include <vector>

namespace weir::tier {

/// A place in the store; also the caller's own memory (weir_host_register), which has no node.
struct HostSlot {
  uint32_t chunk = UINT32_MAX;
  uint32_t node = UINT32_MAX;
  explicit operator bool() const noexcept { return chunk != UINT32_MAX; }
};

class HostStore {
 public:
  static constexpr uint64_t unit = 4096;

  /// `nodes` are the system's, and outlive this.
  HostStore(std::pmr::memory_resource *memory, uint64_t budget,
            std::pmr::vector<backend::Runtime *> runtimes, bool registrable,
            const numa::Nodes &nodes, const Log &log);
  ~HostStore();

  static uint64_t rounded(uint64_t bytes) noexcept { return (bytes + unit - 1) / unit * unit; }

  // ---- under the pool's lock ----
  /// A slot in a chunk of the node; `anywhere`, as also with an unknown node: if there is none, in another chunk. No slot: what is
  /// grown so far is full. What the slot holds is another client's, maybe, until take_over(). Throws std::bad_alloc with
  /// nothing changed.
  HostSlot allocate(uint64_t bytes, uint32_t client, uint32_t node = numa::unknown,
                    bool anywhere = true);
  /// Whether the client may be shown all bytes of a slot of its own as they are.
  bool clean(HostSlot slot, uint32_t client) const noexcept {
    const uint64_t at = offset(slot);
    return chunks_[slot.chunk]->owners.all_of(at, at + bytes(slot), client);
  }
  /// All bytes of the slot are the client's by now, or zero.
  void settle(HostSlot slot, uint32_t client) noexcept {
    const uint64_t at = offset(slot);
    chunks_[slot.chunk]->owners.settle(at, at + bytes(slot), client);
  }
  /// The first `written` bytes of the slot are the client's by now: of the rest, what is not is zeroed. Called before a client is shown
  /// the slot.
  void take_over(HostSlot slot, uint32_t client, uint64_t written) noexcept;
  void free(HostSlot slot, uint32_t client) noexcept;
  void *address(HostSlot slot) const noexcept { return chunks_[slot.chunk]->view + offset(slot); }
  uint64_t bytes(HostSlot slot) const noexcept {
    return chunks_[slot.chunk]->arena.size(slot.node);
  }
  /// The slot's offset in its chunk.
  uint64_t offset(HostSlot slot) const noexcept {
    return chunks_[slot.chunk]->arena.offset(slot.node);
  }
  /// visit(chunk, bytes)
  template <class Visit>
  void for_each_chunk(Visit visit) const {
    for (uint32_t i = 0; i < chunks_.size(); ++i)
      if (chunks_[i] != nullptr) visit(i, chunks_[i]->bytes);
  }
  uint64_t budget() const noexcept { return budget_.limit(); }
  void set_budget(uint64_t bytes) noexcept { budget_.set_limit(bytes / unit * unit); }
  /// Bytes of the budget that no page occupies.
  uint64_t room() const noexcept { return budget_.limit() > used_ ? budget_.limit() - used_ : 0; }
  uint64_t held() const noexcept { return budget_.used(); }
  uint64_t used() const noexcept { return used_; }
  /// How much grow() should add for an allocation of `bytes` that found no slot; 0: the budget has no room for it.
  uint64_t growth_for(uint64_t bytes) const noexcept;
  /// *node: the one that has the least left.
  bool wants_growth(uint32_t *node) const noexcept;
  /// Whether an allocation of `bytes` could ever be made in what is grown so far.
  bool could_hold(uint64_t bytes) const noexcept;

  // ---- outside the lock ----
  using HostOwners = physical::Owners<(uint64_t{256} << 10U)>;
  struct Chunk {
    /// The file's memory is zero at first.
    Chunk(std::pmr::memory_resource *memory, uint64_t bytes_, uint32_t node_, bool in_file_)
        : bytes(bytes_),
          node(node_),
          in_file(in_file_),
          arena(bytes_, unit, memory),
          owners(bytes_, in_file_ ? HostOwners::nobody : HostOwners::several, memory) {}
    uint64_t bytes;
    uint32_t node;
    size_t share = 0;  ///< of the node, once attached
    bool in_file;
    uint64_t file_offset = 0;
    unsigned char *view = nullptr;
    physical::Arena arena;
    HostOwners owners;
  };
  /// Makes a chunk; attach() under the lock publishes it. The budget was charged by begin_growth().
  Status make_chunk(uint64_t bytes, uint32_t node, Owned<Chunk> *chunk);
  /// Under the lock: charges the budget, and makes sure that attach() can't fail.
  bool begin_growth(uint64_t bytes) {
    grow_by(chunks_);
    grow_by(shares_);
    return budget_.charge(bytes);
  }
  void cancel_growth(uint64_t bytes) noexcept { budget_.refund(bytes); }  ///< under the lock
  void attach(Owned<Chunk> chunk) noexcept;                               ///< under the lock
  /// The chunk that would be emptied soonest gets no more pages; UINT32_MAX: there is none. For shrinking.
  uint32_t close_emptiest() noexcept;
  /// Whether it has no slot in use, or is gone.
  bool is_empty(uint32_t chunk) const noexcept {
    return chunks_[chunk] == nullptr || chunks_[chunk]->arena.empty();
  }
  void reopen() noexcept { closed_ = UINT32_MAX; }
  /// Takes an empty chunk out (under the lock); the caller drops it outside with unmake_chunk().
  Owned<Chunk> detach_empty() noexcept;
  void unmake_chunk(Chunk &chunk) noexcept;

  /// Whether slots can be mapped in a row for the CPU, some of them at least. The reason if not.
  Status check_aliasable() const;
  /// Maps the slot's bytes at `address` as well (4 KiB aligned, inside a reservation of the caller's).
  Status map_alias(HostSlot slot, uint64_t bytes, void *address) const;

 private:
  /// What the chunks of one node come to.
  struct Share {
    uint32_t node;
    uint64_t held = 0, used = 0;
  };
  HostSlot allocate_in(size_t chunk, uint64_t bytes);
  Status make_in_file(Chunk *fresh, bool *refused) noexcept;
  Status make_pinned(uint64_t bytes, uint32_t node, Owned<Chunk> *chunk);
  Status register_view(void *view, uint64_t bytes) noexcept;
  void leave_file(const char *why) noexcept;
  void drop_file_chunk() noexcept;
  size_t share_of(uint32_t node) noexcept;

  std::pmr::memory_resource *memory_;
  const numa::Nodes &nodes_;
  Budget budget_;
  std::pmr::vector<backend::Runtime *> runtimes_;
  std::pmr::vector<Owned<Chunk>> chunks_;
  std::pmr::vector<Share> shares_;
  const Log log_;
  int file_ = -1;
  std::atomic<bool> in_use_{false};       ///< the file, for new chunks
  std::atomic<uint32_t> file_chunks_{0};  ///< in it, and in the making
  uint64_t file_end_ = 0;
  uint64_t used_ = 0;
  uint32_t closed_ = UINT32_MAX;  ///< chunk that is being emptied
};

}  // namespace weir::tier
