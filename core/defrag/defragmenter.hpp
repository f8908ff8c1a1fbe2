// SPDX-License-Identifier: Apache-2.0
//
// Defragmenter: surveys a pool's devices, plans with the planner and has the engine execute, batch by batch, within the
// bounds. It keeps no plan from one call to the next: what was evacuated in part is the emptiest place the next time, so a
// call goes on where the last one stopped, whatever happened between.
//
// It holds no lock while the engine is at work, and none of the engine's ever. Calls from several threads run beside each
// other: the engine checks every order against what is there.
#pragma once

#include "core/base/mutex.hpp"
#include "core/defrag/planner.hpp"
#include "core/residency/engine.hpp"

#include <weir/pool.h>

#include <thread>

namespace weir::defrag {

class Defragmenter final : public residency::Compactor {
 public:
  Defragmenter(residency::Engine &engine, std::pmr::memory_resource *memory)
      : engine_(engine), relocator_(engine.relocator()), memory_(memory) {}
  ~Defragmenter() { stop(); }

  /// *report is filled whatever is answered.
  Status run(const weir_defragment_desc &desc, weir_defragment_report *report);

  bool make_range(uint8_t place, uint64_t bytes, bool pages) override;

  /// The background thread with these settings, or none (threshold 0). Calls take turns: each finds the thread running or
  /// ended, never on its way out.
  Status set_background(const weir_defragmentation_desc &desc, bool allowed);
  /// One look of the background thread's; for it, and for tests with a clock of their own.
  void background_step();
  void stop() noexcept;

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
  Outcome cheapest_range(Run &run, uint64_t bytes, uint8_t alignment_log2, const Bounds &bounds);
  uint32_t worst_fragmentation();
  void loop();
  void end() noexcept WEIR_REQUIRES(change_);

  residency::Engine &engine_;
  residency::Relocator &relocator_;
  std::pmr::memory_resource *memory_;
  RankedMutex<Rank::upkeep> change_;  ///< never taken by the thread
  std::thread thread_ WEIR_GUARDED_BY(change_);
  RankedMutex<Rank::leaf> mutex_;  ///< never held while the engine is at work
  Signal changed_;
  Settings settings_ WEIR_GUARDED_BY(mutex_);
  bool stopping_ WEIR_GUARDED_BY(mutex_) = false;
  uint64_t last_look_ns_ WEIR_GUARDED_BY(mutex_) = 0;
  uint64_t allowance_ WEIR_GUARDED_BY(mutex_) = 0;  ///< bytes that may be moved by now
  uint32_t looks_to_skip_ WEIR_GUARDED_BY(mutex_) = 0, backoff_ WEIR_GUARDED_BY(mutex_) = 0;
};

}  // namespace weir::defrag
