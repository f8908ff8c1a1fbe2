// SPDX-License-Identifier: Apache-2.0
//
// Homes: the cost model of placement.hpp put to use for a pool's buffers: what a descriptor says of users and shards, what each
// device has promised, and the choice. It makes nothing. Under the pool's lock, but for place_together() and what is called at the
// start.
#pragma once

#include "core/page/env.hpp"
#include "core/page/sizes.hpp"
#include "core/tier/cold_tiers.hpp"

namespace weir::acquire {

class Homes {
 public:
  Homes(const Env &env, const PageLayer &page, const Log &log) noexcept
      : env_(env), page_(page), log_(log) {}

  // ---- what a descriptor says ----
  /// What is wrong with it whatever the state of the pool.
  static Status check_desc(const weir_buffer_desc &desc);
  /// Its list as positions in the pool.
  Status read_users(const weir_buffer_desc &desc, page::Users *users) const;
  /// All shards on one device: there are none, and the device is the home.
  Status read_shards(const weir_buffer_desc &desc, page::ShardWish *wish) const;

  // ---- the choice ----
  /// The home that a descriptor names or leaves to Weir.
  Status home_for(const weir_buffer_desc &desc, const page::Users &users, uint8_t *home) WEIR_HELD;
  /// The best home by the cost model for a buffer of so many bytes, of the places whose bits are not in `leave_out` and that
  /// are not lost; page::Placement::nowhere: there is none.
  uint8_t choose(uint64_t bytes, const page::Users &users, uint32_t leave_out) WEIR_HELD;
  /// Homes for buffers that are going to be made, chosen together; nothing else comes of it.
  Status place_together(const weir_buffer_desc *const *descs, size_t count, weir_device *homes);
  /// A buffer at home on the place begins or ends.
  void count_promise(uint32_t index, uint8_t home, uint64_t bytes, bool more) noexcept WEIR_HELD;

  // ---- near the devices ----
  /// The NUMA node that all devices are at, or unknown.
  uint32_t common_node() const noexcept;
  /// Says so where pages of an integrated device have nowhere else to go than HOST, by which nothing is won.
  void warn_of_integrated() const;

 private:
  /// The model of the pool as it stands.
  page::Placement placement(uint32_t leave_out) const;
  uint32_t unfit_for(const weir_buffer_desc &desc) const noexcept;
  /// Each of the devices must reach what the others have of the buffer.
  Status check_shard_links(const page::Shards &shards) const;

  const Env &env_;
  const PageLayer &page_;
  const Log &log_;
};

}  // namespace weir::acquire
