// SPDX-License-Identifier: Apache-2.0
//
// BufferMaker: creating and destroying buffers, and advice on them. A buffer of a page or more owns a region; a smaller one is a
// tenant of a slab. What becomes of a destroyed buffer's region says region_life.hpp.
#pragma once

#include "core/acquire/slabs.hpp"
#include "core/lease/layer.hpp"
#include "core/move/demoter.hpp"
#include "core/page/env.hpp"

namespace weir::move {
class Scrubber;
}  // namespace weir::move

namespace weir::buffer {

class Registrar;

class BufferMaker {
 public:
  struct Others {
    const page::Sizes &sizes;
    move::RegionLife &life;
    acquire::Homes &homes;
    acquire::Slabs &small;
    move::Demoter &demoter;
    move::Prefetcher &prefetcher;
  };
  BufferMaker(const Env &env, const PageLayer &page, const LeaseLayer &lease, const Others &others,
              Registrar &registrar, move::Scrubber &scrubber) noexcept
      : env_(env),
        page_(page),
        lease_(lease),
        others_(others),
        registrar_(registrar),
        scrubber_(scrubber) {}

  // ---- calls ----
  /// `stack`: the number of the caller's stack in Stacks.
  Status create_buffer(const weir_buffer_desc &desc, uint32_t client, uint32_t stack,
                       weir_buffer *buffer);
  Status destroy_buffer(weir_buffer buffer);
  Status advise(weir_buffer buffer, uint64_t offset, uint64_t length, uint32_t advice);
  Status set_priority(weir_buffer buffer, int32_t priority);
  Status set_name(weir_buffer buffer, const char *name);
  Status name_of(weir_buffer buffer, std::string *name);

  // ---- under the lock ----
  Status create_locked(const weir_buffer_desc &desc, uint32_t client, bool pinned, uint32_t stack,
                       uint32_t *index) WEIR_HELD;
  /// Ends it at once. No lease is on it; moves of its pages that are under way end by themselves.
  void destroy_locked(uint32_t index) noexcept WEIR_HELD;

 private:
  Status own_region(uint32_t index, const weir_buffer_desc &desc, uint8_t home, uint32_t client,
                    page::ShardWish &wish) WEIR_HELD;
  /// A region with its pages dealt out and its addresses on all of the devices.
  Status make_sharded_region(uint64_t size, uint32_t client, page::ShardWish &wish,
                             Region **region) WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  const Others others_;
  Registrar &registrar_;
  move::Scrubber &scrubber_;
};

}  // namespace weir::buffer
