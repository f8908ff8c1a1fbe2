// SPDX-License-Identifier: Apache-2.0
//
// RemoteWrites: which devices' streams may write on other devices' memory, from the grant of their lease until their work is
// known to have been done. If a writer is lost before, it is unknown what of its work has arrived. Under the pool's lock.
#pragma once

#include "core/backend/stream.hpp"
#include "core/lease/lease.hpp"

#include <vector>

namespace weir::lease {

struct RemoteWrite {
  const Lease *lease;
  uint32_t buffer;
  uint64_t generation;
  uint64_t begin, end;  ///< bytes of the buffer
  const backend::Device *writer;
  backend::Stamp done = {};  ///< none before the release
};

class RemoteWrites {
 public:
  RemoteWrites(std::pmr::memory_resource *memory, backend::StreamTable &streams)
      : streams_(streams), writes_(memory) {}

  /// So that as many can be noted without failing.
  void reserve(size_t count) WEIR_HELD {
    // Asking each time whether they have been done would cost more than keeping them where there is room.
    if (writes_.capacity() - writes_.size() < count) forget_done();
    grow_by(writes_, count);
  }
  void note(const RemoteWrite &write) noexcept WEIR_HELD { writes_.push_back(write); }
  /// The lease is released; its record may be another's soon.
  void end(const Lease *lease, backend::Stamp done) noexcept WEIR_HELD {
    for (RemoteWrite &write : writes_) {
      if (write.lease != lease || write.done) continue;
      write.done = done;
      write.lease = nullptr;
    }
  }
  bool any_by(const backend::Device &writer) noexcept WEIR_HELD {
    forget_done();
    return std::any_of(writes_.begin(), writes_.end(),
                       [&writer](const RemoteWrite &write) { return write.writer == &writer; });
  }
  /// The writer is lost: shows what of its work may not have been done, and forgets it.
  template <class Visit>
  void lose(const backend::Device &writer, Visit &&visit) noexcept WEIR_HELD {
    forget_done();
    for (const RemoteWrite &write : writes_) {
      if (write.writer == &writer) visit(write);
    }
    std::erase_if(writes_, [&writer](const RemoteWrite &write) { return write.writer == &writer; });
  }

 private:
  /// A lost device's fences count as passed too: that is not enough.
  void forget_done() noexcept WEIR_HELD {
    // If the last of them has been, so have those of its stream before it, and need not be asked about one by one.
    if (!writes_.empty() && writes_.back().done) (void)streams_.done(writes_.back().done);
    std::erase_if(writes_, [this](const RemoteWrite &write) {
      return write.done && streams_.done(write.done);
    });
  }

  backend::StreamTable &streams_;
  std::pmr::vector<RemoteWrite> writes_ WEIR_GUARDED;
};

}  // namespace weir::lease
