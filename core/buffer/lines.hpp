// SPDX-License-Identifier: Apache-2.0
//
// Lines: weir_malloc: memory of the pool's own client that never moves. What is small lies in lines (slabs.hpp); what is no tenant
// is a buffer that is held.
#pragma once

#include "core/buffer/buffer_maker.hpp"
#include "core/lease/layer.hpp"
#include "core/move/losses.hpp"
#include "core/page/env.hpp"

namespace weir::acquire {
class Claims;
class Grants;
}  // namespace weir::acquire

namespace weir::buffer {

class Holder;

class Lines {
 public:
  struct Others {
    move::Losses &losses;
    acquire::Slabs &small;
    BufferMaker &maker;
  };
  Lines(const Env &env, const PageLayer &page, const LeaseLayer &lease, const Others &others,
        Holder &holder, acquire::Grants &grants, acquire::Claims &claims) noexcept
      : env_(env),
        page_(page),
        lease_(lease),
        others_(others),
        holder_(holder),
        grants_(grants),
        claims_(claims) {}

  /// `stack`: by which calls, of Stacks.
  Status malloc(uint32_t device_id, Stream *stream, uint64_t size, uint32_t stack,
                uint64_t *address);
  Status free(Stream *stream, uint64_t address);

 private:
  /// In place and ordered after what was there before; what is no tenant is held there. As Holder::bring_whole().
  Status bring_pinned(Releasable &lock, uint32_t index, PoolDevice &device,
                      Stream *stream) WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  const Others others_;
  Holder &holder_;
  acquire::Grants &grants_;
  acquire::Claims &claims_;
};

}  // namespace weir::buffer
