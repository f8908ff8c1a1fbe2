// SPDX-License-Identifier: Apache-2.0
//
// CpuCopies: bytes without a lease: read and write from the CPU, discard, and what others copy between pages and the CPU's memory.
// A call claims its range like a lease does (ClaimScope::any(): byte by byte), so that neither an eviction nor a conflicting lease
// gets in its way, and goes to whichever copy is the latest; nothing is promoted.
#pragma once

#include "core/lease/layer.hpp"
#include "core/move/host_room.hpp"
#include "core/move/losses.hpp"
#include "core/move/plan.hpp"
#include "core/page/env.hpp"
#include "core/transfer/relay.hpp"

namespace weir::acquire {

class Claims;  // acquire/claims.hpp

class CpuCopies {
 public:
  struct Others {
    move::Demoter &demoter;
    move::HostRoom &host_room;
  };
  CpuCopies(const Env &env, const PageLayer &page, const LeaseLayer &lease, const Others &others,
            page::PageTable &pages, move::Losses &losses, Claims &claims) noexcept
      : env_(env),
        page_(page),
        lease_(lease),
        others_(others),
        pages_(pages),
        losses_(losses),
        claims_(claims) {}

  /// Before anything is copied: staging is taken from this node's memory.
  void start(const numa::Nodes &nodes, uint32_t node) noexcept { relay_.start(nodes, node); }

  // ---- calls ----
  Status read(weir_buffer buffer, uint64_t offset, uint64_t length,
              void *destination) WEIR_NOT_HELD;
  Status write(weir_buffer buffer, uint64_t offset, uint64_t length,
               const void *source) WEIR_NOT_HELD;
  Status discard(weir_buffer buffer, uint64_t offset, uint64_t length) WEIR_NOT_HELD;

  // ---- waits ----
  /// Waits, without the lock, for the work that a read (or write) of the range must come after.
  Status wait_range(Releasable &lock, uint32_t index, uint64_t begin, uint64_t end,
                    bool write) WEIR_HELD;
  /// Waits until no thread works on the page or copies it down, and the copies that brought its bytes have ended.
  Status settle_page(Releasable &lock, Region &region, uint32_t page) WEIR_HELD;
  /// All of them at once: whenever the lock was dropped they are looked at again.
  Status settle_pages(Releasable &lock, Region &region, uint32_t first, uint32_t last) WEIR_HELD;
  /// No thread works on the page, and its bytes have arrived wherever they are.
  bool settled(Region &region, uint32_t page) noexcept WEIR_HELD;

  // ---- copies of what the caller has claimed ----
  /// Bytes [begin, end) of a buffer's region, all on one page, and the caller's memory: into `out`, or from `in`.
  struct Piece {
    uint32_t index;
    const Target &where;
    uint32_t page;
    uint64_t begin, end;
    unsigned char *out;
    const unsigned char *in;
    uint64_t bytes() const noexcept { return end - begin; }
    uint64_t within() const noexcept { return begin - where.region->shape.offset(page); }
  };
  /// Bytes [begin, end) of the buffer, after the work that they must come after.
  Status copy_pieces(Releasable &lock, uint32_t index, const Target &where, uint64_t begin,
                     uint64_t end, unsigned char *out, const unsigned char *in) WEIR_HELD;
  /// One piece, of a page that no other thread is working on.
  Status copy_settled(Releasable &lock, const Piece &piece) WEIR_HELD;

 private:
  Status claim_range(move::Plan &plan, weir_buffer buffer, uint64_t offset, uint64_t *length,
                     uint8_t mode) WEIR_HELD;
  Status copy_range(weir_buffer buffer, uint64_t offset, uint64_t length, unsigned char *out,
                    const unsigned char *in) WEIR_NOT_HELD;
  Status zero_held(Releasable &lock, const move::Plan &plan, const Target &where) WEIR_HELD;
  Status zero_place(Releasable &lock, uint32_t index, const Target &where) WEIR_HELD;
  Status copy_piece(Releasable &lock, const Piece &piece) WEIR_HELD;
  Status copy_on_device(Releasable &lock, const Piece &piece) WEIR_HELD;
  void write_through(const Piece &piece, PoolDevice &device) noexcept WEIR_HELD;
  Status read_below(Releasable &lock, Region &region, uint32_t page, uint64_t begin, uint64_t end,
                    unsigned char *out) WEIR_HELD;
  Status raise_to_host(Releasable &lock, Region &region, uint32_t page) WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  const Others others_;
  page::PageTable &pages_;
  move::Losses &losses_;
  Claims &claims_;
  transfer::Relay relay_;
};

}  // namespace weir::acquire
