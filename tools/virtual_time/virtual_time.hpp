// SPDX-License-Identifier: Apache-2.0
//
// Virtual time: from start() on the process's threads take turns, one at a time, and its clocks stand still while any of them has
// something to do. When all of them wait, time jumps to the first of the moments they wait for. So a program that spends its time
// waiting (for links, kernels and its own background threads, as the host backend simulates them) is over in the time that its
// instructions take, and does the same each time.
//
// It works on what the C library offers, not on the program: the functions by which threads begin, end, lock, wait, sleep and read
// the clock are defined in this program (interpose.cpp), and so take the place of the C library's for all libraries in it. Until
// start() they do nothing but call those. Afterwards a thread runs until it waits; a lock that is taken makes it wait as well.
//
// What must hold: nothing waits by other means. A thread that blocks in a system call (a read, a poll) keeps its turn, and so stops
// the rest; one that spins on memory, without reading a clock, yielding or waiting, spins for good. Reading a clock again and again,
// and nothing else, lets time go by; reading it at work, as code that measures does, takes none.
#pragma once

#include <cstdint>

namespace weir::virtual_time {

/// False where the functions can't be put in place: in builds with a sanitizer, which has its own.
bool available() noexcept;

/// The calling thread must be the only one. There is no way back.
void start() noexcept;

/// Whether start() was called.
bool started() noexcept;

}  // namespace weir::virtual_time
