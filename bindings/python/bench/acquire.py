#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a lease costs from Python: acquire and release of a resident buffer, against the same two calls in a loop of C that is
compiled into the extension. Both take turns in one run; the least of many turns counts, so that a busy machine says little.

It gates nothing. The goal is C + 0.5 us a call for a prepared set, and so C + 1 us for the two."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import weir
from weir._capi import lib

TURNS, CALLS = 400, 300  # a turn is shorter than a time slice


def main() -> int:
    with (
        weir.Context("host.memory=64M", search=False) as context,
        context.pool(16 << 20, host_budget=16 << 20, background=False) as pool,
        context.stream(0) as stream,
    ):
        buffer = pool.buffer_from(bytes(2 << 20))
        with pool.acquire(stream, weir.write(buffer)):
            pass
        prepared = pool.prepare(stream, weir.read(buffer))
        native = prepared._idle[0]

        def in_c() -> None:
            if lib.weirpy_measure(native, CALLS) < 0:
                raise SystemExit("the C loop failed")

        def plain() -> None:
            for _ in range(CALLS):
                prepared.acquire().release()

        def block() -> None:
            for _ in range(CALLS):
                with prepared.acquire():
                    pass

        def anew() -> None:
            for _ in range(CALLS):
                with pool.acquire(stream, weir.read(buffer)):
                    pass

        def cffi_call() -> None:
            for _ in range(CALLS):
                lib.weirpy_within()

        cases: dict[str, Callable[[], None]] = {
            "C loop": in_c,
            "prepared.acquire().release()": plain,
            "with prepared.acquire()": block,
            "with pool.acquire(stream, weir.read(buffer))": anew,
            "a call of cffi alone": cffi_call,
        }
        least = dict.fromkeys(cases, float("inf"))
        for _ in range(TURNS):
            for name, function in cases.items():
                begin = time.perf_counter_ns()
                function()
                least[name] = min(least[name], (time.perf_counter_ns() - begin) / CALLS)
    yardstick = least["C loop"]
    for name, taken in least.items():
        print(f"{name:46} {taken:7.0f} ns  C + {taken - yardstick:5.0f} ns")
    extra = (least["prepared.acquire().release()"] - yardstick) / 2
    print(f"bench: a call on a prepared set takes C + {extra / 1000:.2f} us (goal: C + 0.5 us)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
