# SPDX-License-Identifier: Apache-2.0
"""Looks for leaks, and for uses of memory that is gone: a part of the package's life, again and again, under valgrind.

    leaks.py           runs itself under valgrind for few and for many rounds, and compares what is still allocated at the
                       end, and what is lost; more rounds must not leave more, and none may touch freed memory
    leaks.py --rounds N    the rounds alone

It is a program and no test of pytest, because under valgrind every import counts. Python's own allocator is replaced by
malloc, so that an object of Python that leaks is seen as much as a block of C."""

from __future__ import annotations

import os
import re
import subprocess
import sys

FEW, MANY = 4, 24
# Caches that fill slowly (interned strings, type caches) grow by blocks that do not come again with every round.
SLACK_BLOCKS = 10


def round_of_life() -> None:
    """Everything that has a C side: descriptors, callbacks, views, capsules, errors, objects in and out of order."""
    import weir

    with weir.Context("host.memory=16M;host.granule=64K;host.granule_large=0", search=False, log=lambda *line: None) as context:
        pool = context.pool(256 << 10, host_budget=4 << 20, name="leaks", background=False)
        stream = context.stream(0)
        client = pool.client("tenant")
        buffers = [pool.buffer(64 << 10, tag=i, client=client, name=f"buffer {i}") for i in range(6)]
        for buffer in buffers:
            with pool.acquire(stream, weir.overwrite(buffer), operation="fill") as lease:
                with memoryview(lease[0]) as memory:
                    memory[:4] = b"weir"
                lease.host_call(len)
        assert pool.buffer(64 << 10, shards=weir.Shards([0], weights=[3])).shards() == [(0, 64 << 10, 0)]
        prepared = pool.prepare(stream, weir.read(buffers[0]))
        with prepared.acquire() as first, prepared.acquire() as second:
            del first, second
        with pool.acquire(stream, weir.read(buffers[1])) as lease:
            capsule = lease[0].view("float32", (128, 128)).__dlpack__(max_version=(1, 0))
            del capsule
            try:
                lease[0].view("float32", (3,))
            except ValueError:
                pass
        try:
            pool.acquire(stream, weir.read(pool.buffer(1 << 20)))
        except weir.OverBudget:
            assert "buffer" in weir.last_error_report()
        buffers[1].name = buffers[1].name + " again"
        pool.acquire_async(stream, weir.read(buffers[2])).result().release()
        with buffers[0].hold(), pool.malloc(64 << 10, stream=stream):
            pool.prefetch(stream, weir.read(buffers[0]))
        pool.announce(stream, [weir.Operation([weir.read(each)], "next") for each in buffers])
        stream.host_call(len, buffers).result()
        _ = pool.stats, pool.snapshot(), pool.map(), pool.lost_ranges(), pool.codec_stats, context.devices, buffers[0].read(0, 16)
        if pool.acquire_async(stream, weir.read(pool.buffer(1 << 20))).exception() is None:
            raise SystemExit("an acquire that is larger than the budget was granted")
        pool.set_loss_callback(print)
        pool.defragment(should_stop=lambda: False)
        weir.decompress(weir.compress(bytes(100000)))
        with weir.Arena(1024) as arena:
            arena.free(arena.allocate(10))
            arena.walk(lambda found: True)
        buffers.clear()
        del buffer, lease, prepared
        pool.close()
        stream.close()


def under_valgrind(rounds: int, *options: str) -> str:
    # Values that were never set are not looked for: Python has its own, and it would take longer.
    command = ["valgrind", "--undef-value-errors=no", "--error-exitcode=9", "--fair-sched=yes", *options, sys.executable, __file__,
               "--rounds", str(rounds)]  # fmt: skip
    environment = {**os.environ, "PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"valgrind ended with {done.returncode}:\n{done.stdout}{done.stderr[-6000:]}")
    return done.stderr


def measure(rounds: int) -> tuple[int, int]:
    """Blocks still allocated at the end, and blocks that nothing points to, after so many rounds."""
    text = under_valgrind(rounds, "--leak-check=summary", "--keep-stacktraces=none")
    in_use = re.search(r"in use at exit: [\d,]+ bytes in ([\d,]+) blocks", text)
    lost = re.search(r"definitely lost: [\d,]+ bytes in ([\d,]+) blocks", text)
    if in_use is None or lost is None:
        raise SystemExit(f"valgrind tells no sums:\n{text[-6000:]}")
    return int(in_use.group(1).replace(",", "")), int(lost.group(1).replace(",", ""))


def main() -> int:
    if sys.argv[1:2] == ["--rounds"]:
        for _ in range(int(sys.argv[2])):
            round_of_life()
        return 0
    few, many = measure(FEW), measure(MANY)
    print(f"leaks: blocks at the end after {FEW} rounds {few[0]}, after {MANY} {many[0]}; lost {few[1]} and {many[1]}")
    leaked = many[0] - few[0] > SLACK_BLOCKS or many[1] - few[1] > 0
    if leaked:
        print("leaks: more rounds leave more behind")
        print(under_valgrind(MANY, "--leak-check=full", "--show-leak-kinds=definite", "--num-callers=20")[-6000:])
    return 1 if leaked else 0


if __name__ == "__main__":
    sys.exit(main())
