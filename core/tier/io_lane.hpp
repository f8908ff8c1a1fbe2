// SPDX-License-Identifier: Apache-2.0
//
// IoLane: a thread that does the pieces of an IoQueue, by one of two means: an io_uring with many under way, or plain
// pread and pwrite with one. And what both share: a piece's way through a test's hook, the cipher and short transfers.
//
// A lane ends only in its destructor, after IoQueue::stop(), with nothing under way. It blocks every signal, so that no
// handler of the program's runs on it.
#pragma once

#include "core/base/memory.hpp"
#include "core/base/status.hpp"
#include "core/codec/cipher.hpp"
#include "core/tier/io_queue.hpp"
#include "core/tier/spill_file.hpp"

#include <span>
#include <thread>

namespace weir::tier {

/// What the lanes of a store share.
struct IoShared {
  IoQueue &queue;
  std::span<const SpillFile> files;
  IoHook *hook = nullptr;
  const codec::CipherKey *key = nullptr;  ///< null: nothing is encrypted
  uint64_t piece_bytes = 0;               ///< at most
  std::pmr::memory_resource *memory = nullptr;
};

class IoLane : public IoSleeper {
 public:
  explicit IoLane(const IoShared &shared) : shared_(shared) {}
  virtual ~IoLane() = default;

  /// Hints, from any thread; see StorageStore.
  virtual void add_memory(void * /*base*/, uint64_t /*bytes*/) noexcept {}
  virtual void remove_memory(void * /*base*/) noexcept {}

 protected:
  /// What the lane's thread does.
  virtual void run() noexcept = 0;
  /// The lane must be ready for it.
  Status start_thread();
  /// By the most derived destructor, before anything that run() uses goes.
  void join() noexcept {
    if (thread_.joinable()) thread_.join();
  }

  /// Before the first attempt: gives a write its encrypted bytes (in `bounce`). False: it failed, with EIO.
  bool prepare(Piece *piece, unsigned char *bounce) noexcept;
  /// Before each attempt: 0 and how much to ask for in piece->asked, or an errno without the attempt.
  int begin(Piece *piece) noexcept;
  /// After each attempt, with its result (bytes, or a negative errno): whether another is needed. If not, *error says
  /// how it ended, and a read's bytes are decrypted.
  bool advance(Piece *piece, int64_t result, int *error) noexcept;

  static unsigned char *where(const Piece &piece) noexcept {
    return (piece.from != nullptr ? piece.from : piece.memory) + piece.done;
  }
  const SpillFile &file(const Piece &piece) const noexcept { return shared_.files[piece.file]; }

  const IoShared shared_;
  codec::Cipher cipher_;  ///< the thread's own

 private:
  std::thread thread_;
};

/// One of several threads with pread and pwrite.
Status make_thread_lane(const IoShared &shared, Owned<IoLane> *lane);
/// A thread with an io_uring. NOT_SUPPORTED, with the reason, where there is none to be had.
Status make_uring_lane(const IoShared &shared, Owned<IoLane> *lane);

}  // namespace weir::tier
