// SPDX-License-Identifier: Apache-2.0
//
// Registrar: the caller's own memory as the home of a buffer's HOST copies. It is registered and unregistered only while the buffer has
// no lease and no move works on its pages.
#pragma once

#include "core/acquire/cpu_copies.hpp"
#include "core/lease/layer.hpp"
#include "core/page/env.hpp"

namespace weir::buffer {

class Registrar {
 public:
  Registrar(const Env &env, const PageLayer &page, const LeaseLayer &lease, page::PageTable &pages,
            acquire::CpuCopies &cpu, move::Demoter &demoter, move::HostRoom &host_room) noexcept
      : env_(env),
        page_(page),
        lease_(lease),
        pages_(pages),
        cpu_(cpu),
        demoter_(demoter),
        host_room_(host_room) {}

  // ---- calls ----
  Status host_register(weir_buffer buffer, void *memory, uint64_t flags) WEIR_NOT_HELD;
  Status host_unregister(weir_buffer buffer) WEIR_NOT_HELD;

  /// Parts from the memory; its contents are the caller's to have saved.
  void unregister_memory(Releasable &lock, Region &region) noexcept WEIR_HELD;

 private:
  Status claim_alone(uint32_t index) WEIR_HELD;

  const Env &env_;
  const PageLayer &page_;
  const LeaseLayer &lease_;
  page::PageTable &pages_;
  acquire::CpuCopies &cpu_;
  move::Demoter &demoter_;
  move::HostRoom &host_room_;
};

}  // namespace weir::buffer
