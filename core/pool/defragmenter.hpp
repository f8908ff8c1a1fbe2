// SPDX-License-Identifier: Apache-2.0
//
// Defragmenter: surveys a pool's devices, plans with the planner and has the relocator execute, batch by batch, within the
// bounds. It keeps no plan from one call to the next: what was evacuated in part is the emptiest place the next time, so a
// call goes on where the last one stopped, whatever happened between.
//
// It holds no lock while the relocator is at work, and the pool's never. Calls from several threads run beside each
// other: the relocator checks every order against what is there.
#pragma once

#include "core/base/mutex.hpp"
#include "core/move/relocator.hpp"
#include "core/policy/defragment_planner.hpp"
#include "core/pool/background.hpp"

#include <weir/pool.h>

namespace weir::pool {

class Defragmenter final : public move::Compactor, private Task {
 public:
  Defragmenter(move::Relocator &relocator, Background &background,
               std::pmr::memory_resource *memory)
      : relocator_(relocator), background_(background), memory_(memory) {}

  /// *report is filled whatever is answered.
  Status run(const weir_defragment_desc &desc, weir_defragment_report *report);

  bool make_range(uint8_t place, uint64_t bytes, bool pages) override;

  /// A background thread with these settings, or none (threshold 0). Calls take turns: each finds the thread running or
  /// ended, never on its way out.
  Status set_background(const weir_defragmentation_desc &desc, bool allowed);

 private:
  struct Run;
  struct Settings {
    uint32_t threshold = 0, cost = 0;
    uint64_t bytes_per_second = 0;
  };

  Status run_device(Run &run, uint8_t place);
  Status compact_slabs(Run &run, uint8_t place);
  Status compact_fragments(Run &run, uint8_t place);
  Status compact_segments(Run &run, uint8_t place);
  Status widen_range(Run &run, uint8_t place);
  void describe(Run &run);
  Status execute(Run &run, uint8_t place, bool extents);
  Status execute_batch(Run &run, uint8_t place, bool extents);
  bool make_pages(uint8_t place, uint64_t bytes);
  Status clear_pages(Run &run, uint8_t place, uint64_t bytes);
  defrag::Outcome cheapest_range(Run &run, uint64_t bytes, uint8_t alignment_log2,
                                 const defrag::Bounds &bounds);
  uint32_t worst_fragmentation();
  bool step(Releasable &lock) override WEIR_HELD;
  uint64_t rest_ns() noexcept override { return 100'000'000; }  ///< the pause between looks
  const char *name() const noexcept override { return "the defragmenter's thread"; }
  void look();

  move::Relocator &relocator_;
  Background &background_;
  std::pmr::memory_resource *memory_;
  RankedMutex<Rank::call> change_;  ///< never taken by the thread
  RankedMutex<Rank::leaf> mutex_;   ///< never held while the relocator is at work
  Settings settings_ WEIR_GUARDED_BY(mutex_);
  uint64_t last_look_ns_ WEIR_GUARDED_BY(mutex_) = 0;
  uint64_t allowance_ WEIR_GUARDED_BY(mutex_) = 0;  ///< bytes that may be moved by now
  uint32_t looks_to_skip_ WEIR_GUARDED_BY(mutex_) = 0, backoff_ WEIR_GUARDED_BY(mutex_) = 0;
};

}  // namespace weir::pool
