// SPDX-License-Identifier: Apache-2.0
//
// The lane for systems without io_uring: one piece at a time with pread and pwrite; a store has several of them.

#include "core/base/scratch.hpp"
#include "core/tier/io_lane.hpp"
#include "core/tier/wake.hpp"

#include <unistd.h>

#include <cerrno>

namespace weir::tier {
namespace {

class ThreadLane final : public IoLane {
 public:
  explicit ThreadLane(const IoShared &shared) : IoLane(shared) {}
  ~ThreadLane() override { join(); }

  Status start() {
    WEIR_TRY(wake_.make(true));
    if (shared_.key != nullptr)
      WEIR_TRY(bounce_.start(shared_.piece_bytes, "transfer to storage", true));
    return start_thread();
  }
  void wake() noexcept override { wake_.set(); }

 private:
  void run() noexcept override {
    for (Piece piece;;) {
      const IoQueue::Next next = shared_.queue.next(this, true, &piece);
      if (next == IoQueue::Next::stop) return;
      if (next == IoQueue::Next::none) {
        wake_.wait();
      } else {
        shared_.queue.finish(piece, transfer(&piece));
      }
    }
  }

  int transfer(Piece *piece) noexcept {
    if (!prepare(piece, bounce_.data())) return EIO;
    for (int error = 0;;) {
      if (piece->stalls != 0) std::this_thread::yield();
      int64_t result = -begin(piece);
      if (result == 0) {
        const auto at = static_cast<off_t>(piece->offset + piece->done);
        result = piece->io->write
                     ? pwrite(file(*piece).descriptor(), where(*piece), piece->asked, at)
                     : pread(file(*piece).descriptor(), where(*piece), piece->asked, at);
        if (result < 0) result = -errno;
      }
      if (!advance(piece, result, &error)) return error;
    }
  }

  Wake wake_;
  Scratch bounce_;
};

}  // namespace

Status make_thread_lane(const IoShared &shared, Owned<IoLane> *lane) {
  Owned<ThreadLane> fresh = make_owned<ThreadLane>(shared.memory, shared);
  WEIR_TRY(fresh->start());
  *lane = adopt_as<IoLane>(std::move(fresh));
  return {};
}

}  // namespace weir::tier
