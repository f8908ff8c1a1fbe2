// SPDX-License-Identifier: Apache-2.0
//
// Tracer: the traces of a context, from their start to their end. It has the tape, the thread that reads it, and a writer for each
// kind of trace that runs. While any does, the pools' taps have the tape.
//
// What must hold: whoever tells waits for nothing and fails in nothing; a writer that can't go on (the file is full, the disk is) ends its own
// trace, with one line in the log. The tape lives as long as the context, so a late note falls on nobody. The thread never waits
// for a pool's end: it looks at pools only while nobody else does.
#pragma once

#include "core/base/log.hpp"
#include "core/base/mutex.hpp"
#include "core/trace/writer.hpp"

#include <array>
#include <atomic>
#include <list>
#include <memory>
#include <thread>

namespace weir::pool {

class Context;
class Pool;

class Tracer final : trace::Pools {
 public:
  /// As weir_trace_desc.kind.
  static constexpr size_t kinds = 2;
  struct Wish {
    uint32_t kind = 0;
    std::string path;         ///< "%p" is the process
    uint64_t most_bytes = 0;  ///< 0: as usual
    bool numbered = false;    ///< the path gets a number where there is such a file
  };

  explicit Tracer(Context &context);
  ~Tracer();

  /// BUSY where a trace of that kind runs, or for a recording a pool is there already; IO where the file can't be made.
  Status start(const Wish &wish);
  /// Its file is whole when this returns. INVALID_ARGUMENT: none of that kind has run since it was last stopped; IO: it had ended early.
  Status stop(uint32_t kind);
  /// What the environment asks for (WEIR_TRACE). Where that fails, the log says so.
  void start_wished() noexcept;
  /// Stops all.
  void finish() noexcept;
  /// The same as the process ends, when other threads may be anywhere: of those, only what the trace's thread is at is waited for, and no
  /// runtime is asked. What is told later is lost.
  std::string end_with_process() noexcept;

  /// Where a call that is about no pool is recorded; nullptr: nobody records.
  Tape *recording() noexcept { return (tape_.wanted() & notes::recording) != 0 ? &tape_ : nullptr; }
  /// The pool can be found by its number from now on, or will not be any more.
  void add(Pool &pool) noexcept;
  void remove(Pool &pool) noexcept;

 private:
  class EventNotes;
  struct Trace {
    std::unique_ptr<trace::Writer> writer;
    std::string path;
    bool told = false;  ///< it has ended, and its file is finished

    /// It was started, and its file is not finished.
    bool open() const noexcept { return writer != nullptr && !told; }
    /// ... and can take more.
    bool writes() const noexcept { return open() && writer->ended() == nullptr; }
  };

  Status check(const Wish &wish);
  Status make_writer(const Wish &wish, Trace *trace);
  bool only(uint32_t kind) const noexcept WEIR_REQUIRES(mutex_);
  size_t drain_all() WEIR_REQUIRES(mutex_);
  std::string end_all() noexcept WEIR_REQUIRES(mutex_);
  bool any() const noexcept WEIR_REQUIRES(mutex_);
  void want() noexcept WEIR_REQUIRES(mutex_);
  void run();
  /// What is on the tape goes to the writers. How many notes that were.
  size_t drain() WEIR_REQUIRES(mutex_);
  void sample() WEIR_REQUIRES(mutex_);
  // What the log is to be told, once no lock is held: a line of each trace that is not whole.
  Status start(const Wish &wish, std::string *untold);
  Status stop(uint32_t kind, std::string *untold);
  std::string end(Trace &trace) WEIR_REQUIRES(mutex_);
  std::string ended_early() WEIR_REQUIRES(mutex_);  ///< by themselves
  void log_ends(const std::string &lines) const noexcept;
  // Called with turn_ held, also by who walks the pools, where Clang can't follow.
  void attach(Pool &pool) noexcept;
  void detach(Pool &pool) noexcept;
  void tell_buffers(Pool &pool);

  // trace::Pools
  std::vector<std::string> operations(uint32_t pool_id) override;
  uint32_t device_at(uint32_t pool_id, uint8_t place) override;
  bool passed(uint64_t stamp) override;

  Context &context_;
  Tape tape_;
  RankedMutex<Rank::trace> mutex_;
  Signal changed_;
  std::array<Trace, kinds> traces_ WEIR_GUARDED_BY(mutex_);
  bool stopping_ WEIR_GUARDED_BY(mutex_) = false;
  uint64_t unwritten_ WEIR_GUARDED_BY(mutex_) = 0;  ///< notes for which there was no memory
  std::thread thread_;                              ///< started and joined by who holds turn_
  std::atomic<std::thread::id> thread_id_{};
  std::atomic<bool> exiting_{false};
  RankedMutex<Rank::trace_turn> turn_;  ///< held while traces start, stop, and pools come and go
  std::list<EventNotes> listeners_;     ///< of who holds turn_
};

}  // namespace weir::pool
