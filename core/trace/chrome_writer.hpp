// SPDX-License-Identifier: Apache-2.0
//
// ChromeWriter: a timeline in the Chrome trace format ("Trace Event Format", JSON array form), which Perfetto and chrome://tracing read.
//
//   leases    a slice from acquire to release, on tracks of their stream; in it what acquire waited for, by reason
//   work      what the stream's device did for the lease: from when it could begin to its fence
//   moves     pairs of asynchronous events, one row for each direction
//   threads   rounds of evictions, and what the pool's own threads do; an arrow from an acquire that waited to the round that it waited for
//   counters  what each tier of each pool has used, of its budget; the share of what came up that had just been evicted
//   instants  refusals, losses, checksums that did not match, plans; buffers as they are made, if the context keeps stacks
//
// What must hold: the file is whole lines at any moment (BlockFile), and every slice that was begun on a track ends on it, in the order
// of a stack. Times are microseconds of the steady clock, from the trace's beginning on.
#pragma once

#include "core/trace/block_file.hpp"
#include "core/trace/line.hpp"
#include "core/trace/tracks.hpp"
#include "core/trace/writer.hpp"

#include <deque>

namespace weir::trace {

class ChromeWriter final : public Writer {
 public:
  /// Takes over the open, empty file.
  ChromeWriter(OwnFile file, uint64_t most_bytes, uint64_t begin_ns, Pools &pools);

  void take(const Note &note) override;
  void take(const Sample &sample) override;
  bool poll() override;
  void finish(uint64_t lost) override;
  const char *ended() const noexcept override;
  uint32_t wants() const noexcept override { return notes::timeline; }

 private:
  /// A lease that has not been released yet.
  struct Lease {
    uint32_t track = 0;
    uint32_t stream = 0;
    uint64_t granted_ns = 0;
    std::string name;
  };
  /// Work of a device, whose end no note tells: it is polled for.
  struct Work {
    uint64_t granted_ns = 0, stamp = 0;
    uint32_t stream = 0;
    std::string name;
  };
  struct Coming {
    uint64_t number = 0, stamp = 0;
    std::string row;
  };
  /// A buffer that has a name or a stack.
  struct Known {
    uint64_t handle = 0;
    uint32_t stack = 0;
    std::string name;
  };
  /// A round of evictions, and the tracks that waited for it.
  struct Round {
    uint64_t begin_ns = 0, end_ns = 0;  ///< 0: not told yet
    uint32_t track = 0;
    std::vector<std::pair<uint64_t, uint32_t>> waited;  ///< since when, and on which track
  };

  void acquire(const notes::Acquire &note);
  void fence(const notes::Fence &note);
  void end_lease(uint64_t lease, const Lease &of, uint64_t ns);
  /// Ends all open leases, because notes were lost, among which their releases may have been.
  void end_leases(uint64_t ns);
  void pool(const notes::Pool &note);
  void buffer(const notes::Buffer &note);
  void stack(const notes::Stack &note);
  void move(const notes::Move &note);
  void evictions(const notes::Evictions &note);
  void told(const notes::Told &note);
  void instant(uint64_t ns, uint32_t track, std::string_view name, std::string_view of);
  void arrow(uint64_t number, const Round &round, uint64_t since_ns, uint32_t track);
  void name_track(uint32_t track, std::string_view name, std::string_view detail, uint32_t order);
  void name_stream(uint32_t stream, int32_t device, uint32_t track);
  std::string lease_name(const notes::Acquire &note);
  std::string_view buffer_name(uint32_t pool_id, uint32_t index) const;
  void made(const Note &note, const std::string &what, std::string_view category, uint64_t bytes,
            uint32_t pool_id, uint32_t stack);
  /// Arguments of that number: "stack", and "frames" where they are known and have room.
  void put_stack(uint32_t stack, bool with_frames);
  std::string place_name(uint32_t pool_id, uint8_t place);
  std::string row_of(const notes::Move &note);
  bool end_work(const Work &work);
  void show_work(const Work &work, uint64_t end_ns);

  /// An event up to its arguments.
  Line &begin(const char *phase, uint64_t ns, uint32_t track, std::string_view name);
  Line &slice(uint64_t from_ns, uint64_t to_ns, uint32_t track, std::string_view name);
  void put();
  uint64_t since(uint64_t ns) const noexcept { return ns > begin_ns_ ? ns - begin_ns_ : 0; }

  const uint64_t begin_ns_;
  const int process_;
  Pools &pools_;
  BlockFile file_;
  Line line_;
  Tracks tracks_;
  uint64_t numbers_ = 0;  ///< of arrows and moves
  uint64_t hidden_ = 0;   ///< leases for which there was no track
  std::unordered_map<uint64_t, Lease> leases_;
  std::deque<Work> works_;
  std::deque<Coming> coming_;
  std::map<std::pair<uint32_t, uint64_t>, Round> rounds_;  ///< the last ones
  std::unordered_map<uint64_t, Known> buffers_;
  std::unordered_map<uint32_t, std::string> stacks_;  ///< their frames, as JSON
  size_t stack_bytes_ = 0;
  std::unordered_map<uint32_t, std::string> names_;  ///< of pools
  std::unordered_map<uint32_t, std::vector<std::string>> operations_;
  std::unordered_map<uint32_t, uint64_t> device_free_ns_;  ///< when a stream's last work ended
  std::unordered_map<uint32_t, Sample> samples_;           ///< the last of each pool
};

}  // namespace weir::trace
