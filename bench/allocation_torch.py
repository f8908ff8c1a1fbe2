#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's caching allocator on the sequence of bench/device/allocation.cpp, as a line of JSON.

The generator and the sizes must stay those of that file: then bench_device's weir_malloc and this are about the same
work. Run by scripts/gpu-check. Exits 77 where there is no PyTorch with CUDA. Allocator calls are made directly, without
tensors; the time of the same loop with calls that do nothing stands beside the figure, for Python's share of it.
"""
import argparse
import json
import math
import statistics
import sys
import time

LIVE = 200
SMALLEST = 4096
MASK = (1 << 64) - 1


def sequence(largest, pairs):
    """(slot, size): every slot once, then random ones."""
    state = 1
    octaves = math.log2(largest / SMALLEST)

    def fraction():
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) & MASK
        return (state >> 11) * 2.0 ** -53

    steps = []
    for i in range(LIVE + pairs):
        slot = i if i < LIVE else int(fraction() * LIVE)
        steps.append((slot, int(SMALLEST * 2.0 ** (octaves * fraction()))))
    return steps


def run(steps, allocate, release, finish):
    """Nanoseconds of a pair of a free and an allocation."""
    slots = [allocate(size) for _, size in steps[:LIVE]]
    finish()
    start = time.perf_counter_ns()
    for slot, size in steps[LIVE:]:
        release(slots[slot])
        slots[slot] = allocate(size)
    finish()
    each = (time.perf_counter_ns() - start) / (len(steps) - LIVE)
    for address in slots:
        release(address)
    finish()
    return each


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--allocation-max", type=int, default=64 << 20, help="bytes")
    parser.add_argument("--allocation-pairs", type=int, default=20000)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--print", type=int, default=0, help="print so many steps of the sequence, and end")
    chosen = parser.parse_args()
    steps = sequence(chosen.allocation_max, chosen.allocation_pairs)
    if chosen.print:
        for slot, size in steps[:chosen.print]:
            print(slot, size)
        return 0
    try:
        import torch
    except ImportError:
        print("no PyTorch here", file=sys.stderr)
        return 77
    if not torch.cuda.is_available():
        print("PyTorch has no CUDA device here", file=sys.stderr)
        return 77
    torch.cuda.init()
    stream = torch.cuda.current_stream()
    allocator = torch.cuda.memory

    def timed():
        return run(steps, lambda size: allocator.caching_allocator_alloc(size, 0, stream),
                   allocator.caching_allocator_delete, torch.cuda.synchronize)

    first = timed()
    times = [timed() for _ in range(chosen.repetitions)]
    empty = [run(steps, lambda size: size, lambda address: None, lambda: None) for _ in range(chosen.repetitions)]
    print(json.dumps({
        "benchmark": "torch_allocation", "backend": "cuda", "device": torch.cuda.get_device_name(0),
        "what": f"PyTorch {torch.__version__}'s caching allocator, called from Python",
        "yardstick": "the same loop in Python with calls that do nothing", "pairs": chosen.allocation_pairs, "live": LIVE,
        "smallest_bytes": SMALLEST, "largest_bytes": chosen.allocation_max,
        "ratio": statistics.median(times) / statistics.median(empty),
        "ratio_low": min(times) / statistics.median(empty), "ratio_high": max(times) / statistics.median(empty),
        "samples": len(times), "first_pass_ratio": first / statistics.median(times),
        "value": statistics.median(times), "yardstick_value": statistics.median(empty), "unit": "ns a pair"}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
