// SPDX-License-Identifier: Apache-2.0
//
// Switching between threads without the kernel. One kernel thread, the carrier, runs all threads of the program in turn: it goes over
// to a thread's stack and thread pointer, so thread-local variables and the owners of locks are those of the thread that runs. The
// thread's own kernel thread waits meanwhile, on a small stack of its own, and goes on with the thread when that is to end: only it
// can end itself.
//
// What must hold: a context is run by one kernel thread at a time, and a kernel thread that waits touches nothing thread-local (errno,
// above all), since the carrier may be running with the same thread pointer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace weir::virtual_time {

/// Where a thread stands while it has not the turn.
struct Context {
  void *stack = nullptr;            ///< its pointer; what must be kept across calls is saved there
  uint64_t pointer = 0;             ///< of the thread
  std::atomic<uint32_t> parked{0};  ///< 1: its kernel thread waits, so that the carrier may run it
  std::atomic<uint32_t> released{0};          ///< 1: its kernel thread is to run it
  std::unique_ptr<std::byte[]> waiting_room;  ///< the small stack
};

/// Whether this processor, kernel and C library can. If not, none of what follows may be called.
bool can_switch() noexcept;

/// The calling kernel thread becomes the carrier, and runs the context, which is its own.
void carry(Context &context) noexcept;
/// By a new kernel thread, which waits from here on. Returns on the carrier, when that goes over to the context.
void park(Context &context);
/// By the carrier: from the context that it runs to another. Returns when `from` is gone over to again.
void go_over(Context &from, Context &to) noexcept;
/// By the carrier, no longer in the context: its own kernel thread goes on with it.
void release(Context &context) noexcept;

}  // namespace weir::virtual_time
