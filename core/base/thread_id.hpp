// SPDX-License-Identifier: Apache-2.0
//
// A small number for the calling thread that no other living thread has: what the hit path compares to know
// that records set aside for one thread are its own. Reading it is one instruction. A thread that ends gives its
// number to the next one, which then sees all that the first has written.
#pragma once

#include <cstdint>

namespace weir {

namespace detail {
// Initial-exec: a few bytes of the static TLS block instead of a function call at every read.
extern thread_local uint32_t thread_number __attribute__((tls_model("initial-exec")));
}  // namespace detail

/// 0: the thread has none, yet or at all.
inline uint32_t thread_number() noexcept { return detail::thread_number; }
/// Gives the thread a number if it has none. Stays 0 while too many other threads have one, and in a thread that ends.
uint32_t number_thread() noexcept;

}  // namespace weir
