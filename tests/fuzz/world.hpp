// SPDX-License-Identifier: Apache-2.0
//
// What the pool's fuzzer works on: the kernels that check bytes and write them, the buffers with what each must hold, and the
// pool that its threads share.
#pragma once

#include "core/pool/pool.hpp"

#include "tests/support/blocks.hpp"
#include "tests/support/target.hpp"

#include <weir/weir.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <sys/mman.h>

namespace weir::fuzz {

using Bytes = std::vector<unsigned char>;

inline std::atomic<uint64_t> failures{0};

inline void report(const char *what, uint64_t seed) {
  std::fprintf(stderr, "FAILED (seed %llu): %s; last error: %s\n",
               static_cast<unsigned long long>(seed), what, weir_last_error());
  failures.fetch_add(1);
}

/// What one lease's kernel checks and writes. Freed by the kernel.
struct Job {
  struct Piece {
    unsigned char *at = nullptr;
    Bytes expected;  // empty: do not read
    Bytes written;   // empty: do not write
    std::string past;
  };
  std::vector<Piece> pieces;
  uint64_t seed = 0;

  void run() {
    for (Piece &piece : pieces) {
      if (!piece.expected.empty() &&
          std::memcmp(piece.at, piece.expected.data(), piece.expected.size()) != 0) {
        size_t i = 0;
        while (piece.at[i] == piece.expected[i]) ++i;
        std::fprintf(stderr, "byte %zu of %zu: expected %u, got %u\n", i, piece.expected.size(),
                     piece.expected[i], piece.at[i]);
        std::fprintf(stderr, "%s\n", piece.past.c_str());
        report("a kernel read wrong bytes", seed);
      }
      if (!piece.written.empty()) std::memcpy(piece.at, piece.written.data(), piece.written.size());
    }
  }
};
inline void kernel(void *user) {
  std::unique_ptr<Job> job(static_cast<Job *>(user));
  job->run();
}

/// One launch of a kernel by copies: a job of one piece that only reads, or only writes.
struct Half {
  Job job;
  uint64_t address = 0;
  static void run(void *user) {
    auto *self = static_cast<Half *>(user);
    self->job.pieces[0].at = reinterpret_cast<unsigned char *>(self->address);
    self->job.run();
  }
  static void run_last(void *user) {
    run(user);
    delete static_cast<Half *>(user);
  }
};

inline weir_result launch_half(weir_stream stream, uint64_t seed, Job::Piece piece, bool reads) {
  auto half = std::make_unique<Half>();
  half->address = reinterpret_cast<uint64_t>(piece.at);
  (reads ? piece.written : piece.expected).clear();
  const uint64_t bytes = reads ? piece.expected.size() : piece.written.size();
  if (bytes == 0) return WEIR_SUCCESS;
  half->job.seed = seed;
  half->job.pieces.push_back(std::move(piece));
  if (!reads)  // runs at once
    return test::launch(stream, test::Access::write, &half->address, bytes, Half::run, half.get());
  const weir_result result =
      test::launch(stream, test::Access::read, &half->address, bytes, Half::run_last, half.get());
  if (result == WEIR_SUCCESS) (void)half.release();
  return result;
}

inline weir_result launch(weir_stream stream, std::unique_ptr<Job> job) {
  if (!test::Target::get().by_copies()) return weir_stream_host_call(stream, kernel, job.release());
  for (const bool reads : {true, false}) {
    for (const Job::Piece &piece : job->pieces) {
      const weir_result result = launch_half(stream, job->seed, piece, reads);
      if (result != WEIR_SUCCESS) return result;
    }
  }
  return WEIR_SUCCESS;
}

struct Model {
  weir_buffer handle = nullptr;
  Bytes bytes;
  std::string past;  // what was done to it, for reports
  bool halves =
      false;  // declared LOSSY_BF16, and only ever written with what that loses nothing of
  bool sharded = false;       // not every device may reach it
  uint32_t tag = UINT32_MAX;  ///< of a buffer that has a part in a round (rounds.hpp)
  uint32_t holds = 0;
  uint32_t hold_mode = 0;  ///< of them: WEIR_READ or WEIR_READ_WRITE ...
  uint64_t hold_flags = 0;
  weir_device held_on = 0;
  uint64_t held_at = 0;
  bool alone() const { return holds != 0 && hold_flags != 0; }
  unsigned char *registered = nullptr;
  size_t registered_size = 0;
};

struct Open {  // a lease kept for a while
  weir_lease lease = nullptr;
  weir_stream stream = nullptr;
  std::vector<size_t> buffers;
};

struct World {
  weir_context context = nullptr;
  weir_pool pool = nullptr;
  weir_client clients[2] = {nullptr, nullptr};
  uint32_t devices = 1;
  uint64_t page = test::Target::get().page();
  bool vmm = true;
  bool host_leases = true;
  bool host_is_short = false;  // leases on the CPU's memory may fill it
  bool elastic = false;        // devices come and go
  const char *policy = nullptr;
  bool scarce = false;     // devices have less memory than their budgets, which are lowered
  bool rounds = false;     // threads repeat themselves ...
  bool disturbed = false;  // ... and do other things in between
  std::atomic<uint64_t> changes{0};
  std::atomic<uint64_t> shard_leases{0};
  uint64_t budgets[3] = {0, 0, 0};
  uint64_t seed = 0;
};

/// The pool's own invariants hold at any time, whatever the other threads are doing.
inline void validate(World &world) {
  const std::string wrong = reinterpret_cast<weir::pool::Pool *>(world.pool)->engine().validate();
  if (!wrong.empty()) report(wrong.c_str(), world.seed);
}

}  // namespace weir::fuzz
