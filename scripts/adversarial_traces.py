#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes three traces (docs/trace-format.md) on which what a program did before is no guide to what it does next.

- shuffled_names: each pass makes the same uses in the same order; its operations' names are shuffled anew each time.
- random_uses: a cycle of 16 names, each time with other blocks, mostly such as were used lately.
- changing_period: up a stack of layers and down again; each lap turns at another layer, so its period is another.

Each suits a policy that takes what was used last. A policy that learns is to notice that its plans come to nothing. The traces are
longer than what a pool remembers, so a second pass over one is as new as the first. They are the same on every machine.

With --weir each trace is replayed in virtual time under "lru-window" and "auto" (policy_table.py prints what it prints).
"""
import argparse
import pathlib
import random
import subprocess
import sys
import tempfile

KIB = 1 << 10
A100_FLOPS_PER_US = 312_000_000


class Trace:
    """One .vmt file; every operation uses whole blocks."""

    def __init__(self, path, name, seed):
        self.file, self.blocks, self.operations = open(path, "w"), 0, 0
        self.random = random.Random(seed).random  # its sequence is the same in every Python; that of the other methods need not be
        self.file.write(f"#vmt 1\n#name {name}\n")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def below(self, bound):
        return int(self.random() * bound)

    def shuffled(self, items):
        """Fisher and Yates."""
        items = list(items)
        for end in range(len(items) - 1, 0, -1):
            other = self.below(end + 1)
            items[end], items[other] = items[other], items[end]
        return items

    def allocate(self, size):
        self.file.write(f"a {self.blocks} {size} block\n")
        self.blocks += 1
        return self.blocks - 1

    def operation(self, name, microseconds, uses):
        lines = "".join(f"u {block} {mode}\n" for block, mode in uses)
        self.file.write(f"o {self.operations} {microseconds * A100_FLOPS_PER_US} {name}\n{lines}e\n")
        self.operations += 1


class Recency:
    """Blocks in the order of their last uses. What is used next is mostly among the `often` that were used last: with a chance of one half;
    of one quarter among as many behind those, and so on."""

    def __init__(self, trace, count, size, often):
        self.trace, self.often = trace, often
        self.blocks = [trace.allocate(size) for _ in range(count)]

    def uses(self, count):
        used = []
        for _ in range(count):
            depth = self.trace.below(self.often)
            while self.trace.random() < 0.5:
                depth += self.often
            used.append(self.blocks.pop(min(depth, len(self.blocks) - 1)))
        self.blocks[:0] = used
        return [(block, "x" if self.trace.random() < 0.5 else "r") for block in used]


def shuffled_names(trace, operations):
    blocks = Recency(trace, count=1024, size=1024 * KIB, often=200)
    program = [blocks.uses(3) for _ in range(2048)]
    while trace.operations < operations:
        for name, uses in zip(trace.shuffled(range(len(program))), program):
            trace.operation(f"kernel{name}", 8, uses)


def random_uses(trace, operations):
    blocks = Recency(trace, count=1024, size=1024 * KIB, often=200)
    while trace.operations < operations:
        trace.operation(f"kernel{trace.operations % 16}", 8, blocks.uses(3))


def changing_period(trace, operations):
    layers, least = 128, 16
    weights = [trace.allocate(2048 * KIB) for _ in range(layers)]
    states = [trace.allocate(1024 * KIB) for _ in range(layers)]
    results = [trace.allocate(512 * KIB) for _ in range(2)]
    while trace.operations < operations:
        depth = least + trace.below(layers - least + 1)
        for i in range(depth):
            trace.operation(f"forward{i}", 30, [(weights[i], "r"), (states[i], "x"), (results[i % 2], "w")])
        for i in reversed(range(depth)):
            trace.operation(f"backward{i}", 30, [(states[i], "r"), (weights[i], "x"), (results[i % 2], "w")])


MAKERS = (shuffled_names, random_uses, changing_period)


def write(folder, operations):
    for seed, maker in enumerate(MAKERS, 1):
        with Trace(folder / f"{maker.__name__}.vmt", maker.__name__, seed) as trace:
            maker(trace, operations)


def replay(args, folder):
    command = [sys.executable, pathlib.Path(__file__).with_name("policy_table.py"), "--weir", args.weir, "--traces", folder,
               "--percent", str(args.percent), "--policy", "lru-window", "--policy", "auto"]
    command += ["--no-slower", str(args.no_slower)] if args.no_slower is not None else []
    return subprocess.run(command).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, metavar="FOLDER", help="where they are written; it is made if need be")
    parser.add_argument("--operations", type=int, default=150_000, help="of each trace, or a few more: it ends with a whole pass "
                        "[default: 150000, more than a pool remembers]")
    parser.add_argument("--weir", type=pathlib.Path, help="the weir command: replays them")
    parser.add_argument("--percent", type=int, default=50, help="device memory, with --weir [default: 50]")
    parser.add_argument("--no-slower", type=float, metavar="PERCENT", help="with --weir: fail where auto takes so much longer than lru-window")
    args = parser.parse_args()
    if args.out is None and args.weir is None:
        parser.error("it takes --out or --weir")
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.out or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        write(folder, args.operations)
        return replay(args, folder) if args.weir else 0


if __name__ == "__main__":
    sys.exit(main())
