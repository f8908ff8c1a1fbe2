// SPDX-License-Identifier: Apache-2.0
//
// VmtWriter: a recording, as a trace of version 2 (docs/trace-format.md). Things keep the numbers that the library knows them by:
// buffers, clients and leases their handles' words, allocations their addresses, streams their slots.
//
// What must hold: lines of one note are together, and the file is flushed only between notes. A kernel's time is known when its fence has
// passed, which is looked at as often as notes are taken, or when the thread that released it has waited for the stream: it is an upper bound.
#pragma once

#include "core/record/vmt_line.hpp"
#include "core/trace/text_file.hpp"
#include "core/trace/writer.hpp"

#include <deque>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace weir::trace {

class VmtWriter final : public Writer {
 public:
  /// Takes over the open, empty file. `head`: what it begins with. Throws std::bad_alloc.
  VmtWriter(OwnFile file, uint64_t most_bytes, bool compressed, std::string_view head,
            uint64_t begin_ns, Pools &pools);

  void take(const Note &note) override;
  void take(const Sample & /*sample*/) override {}
  bool poll() override;
  void finish(uint64_t lost) override;
  const char *ended() const noexcept override;
  uint32_t wants() const noexcept override { return notes::recording; }

 private:
  struct Work {
    uint64_t lease = 0, granted_ns = 0, stamp = 0;
    uint32_t stream = 0;
    uint32_t thread = 0;              ///< that released it
    uint64_t latest_ns = UINT64_MAX;  ///< the work had ended by then, if it has ended
  };

  void acquire(const notes::Acquire &note);
  void release(const notes::Release &note);
  void fence(const notes::Fence &note);
  void synchronize(const notes::Synchronize &note);
  void allocation(const notes::Allocation &note);
  void stack(const notes::Stack &note);
  /// The stream has its line.
  void have_stream(uint32_t stream, int32_t device);
  /// The operation has its line. False: its name is not known any more.
  bool have_operation(uint32_t pool_id, uint32_t operation);
  /// Of the calls that follow, their thread and when.
  void moment(const Note &note);
  void write();

  const uint64_t begin_ns_;
  Pools &pools_;
  TextFile file_;
  std::vector<char> memory_;
  record::VmtLines lines_;
  record::VmtMoment moment_;
  uint64_t flushed_ns_ = 0;
  std::unordered_map<uint32_t, int32_t> streams_;          ///< the device of each
  std::unordered_map<uint32_t, size_t> operations_;        ///< of each pool, how many have lines
  std::unordered_map<uint64_t, uint64_t> granted_;         ///< when each lease that is out was
  std::unordered_set<uint64_t> still_out_;                 ///< though a release of theirs is told
  std::unordered_map<uint32_t, uint64_t> device_free_ns_;  ///< when a stream's last work ended
  std::unordered_set<uint64_t> allocations_;               ///< that are there
  std::unordered_map<std::string, uint64_t> modules_;      ///< numbers, by path and build
  std::deque<Work> works_;
};

}  // namespace weir::trace
