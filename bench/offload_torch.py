#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Moving as many bytes as bench_device's `exchange` with PyTorch, as programs do it, as lines of JSON.

  non_blocking       pinned tensors .to(device, non_blocking=True) and back, on a stream each way, beside a matmul
  save_on_cpu        torch.autograd.graph.save_on_cpu(pin_memory=True): a forward and a backward pass whose saved tensors go
                     to the host and come back, against the same passes without

The yardstick of the first is one copy of all bytes each way, pinned, at once. Run by scripts/gpu-check. Exits 77 where there
is no PyTorch with CUDA.
"""
import argparse
import json
import statistics
import sys
import time

GIB = 1 << 30


def say(what, yardstick, ours, theirs, unit, **more):
    """Figures of which more is better."""
    ratios = [a / b for a, b in zip(ours, theirs)]
    print(json.dumps({"benchmark": "torch_offload", "backend": "cuda", "what": what, "yardstick": yardstick, **more,
                      "ratio": statistics.median(ratios), "ratio_low": min(ratios), "ratio_high": max(ratios),
                      "samples": len(ratios), "value": statistics.median(ours),
                      "yardstick_value": statistics.median(theirs), "unit": unit}), flush=True)


class Exchange:
    """Two sets of pages: one is on the device and goes down while the other comes up."""

    def __init__(self, torch, chosen):
        self.torch, self.bytes, self.page = torch, chosen.bytes, chosen.page
        count = self.bytes // self.page
        self.hosts = [[torch.ones(self.page, dtype=torch.uint8).pin_memory() for _ in range(count)] for _ in range(2)]
        self.device = [torch.ones(self.page, dtype=torch.uint8, device="cuda") for _ in range(count)]
        self.up, self.down, self.work = (torch.cuda.Stream() for _ in range(3))
        self.matrix = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
        self.all_host = [torch.ones(self.bytes, dtype=torch.uint8).pin_memory() for _ in range(2)]
        self.all_device = [torch.ones(self.bytes, dtype=torch.uint8, device="cuda") for _ in range(2)]

    def timed(self, function):
        self.torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        self.torch.cuda.synchronize()
        return 2 * self.bytes / (time.perf_counter() - start) / GIB

    def pages(self, beside=False):
        torch = self.torch
        fresh = []
        for i, old in enumerate(self.device):
            with torch.cuda.stream(self.down):
                self.hosts[0][i].copy_(old, non_blocking=True)
                old.record_stream(self.down)
            with torch.cuda.stream(self.up):
                fresh.append(self.hosts[1][i].to("cuda", non_blocking=True))
            if beside and i % 4 == 0:
                with torch.cuda.stream(self.work):
                    torch.mm(self.matrix, self.matrix)
        self.device = fresh
        self.hosts.reverse()

    def whole(self):
        torch = self.torch
        with torch.cuda.stream(self.down):
            self.all_host[0].copy_(self.all_device[0], non_blocking=True)
        with torch.cuda.stream(self.up):
            self.all_device[1].copy_(self.all_host[1], non_blocking=True)

    def measure(self, repetitions):
        for beside in (False, True):
            self.timed(lambda: self.pages(beside))
            self.timed(self.whole)
            ours, theirs = [], []
            for _ in range(repetitions):
                ours.append(self.timed(lambda: self.pages(beside)))
                theirs.append(self.timed(self.whole))
            say("pinned tensors moved each way with non_blocking copies, page by page",
                "one pinned copy of all bytes each way at once", ours, theirs, "GiB/s", mode="non_blocking",
                page_mib=self.page >> 20, beside="matmul" if beside else "nothing")


def save_on_cpu(torch, chosen):
    """Passes a second of a chain of layers, with saved tensors on the host and without."""
    width, layers = 4096, 8
    rows = max(64, chosen.bytes // (layers * width * 2))
    weights = [torch.randn(width, width, device="cuda", dtype=torch.float16, requires_grad=True) for _ in range(layers)]
    inputs = torch.randn(rows, width, device="cuda", dtype=torch.float16)

    def passes(context):
        torch.cuda.synchronize()
        start = time.perf_counter()
        with context:
            value = inputs
            for weight in weights:
                value = torch.tanh(value @ weight)
            loss = value.float().sum()
        loss.backward()
        torch.cuda.synchronize()
        return 1 / (time.perf_counter() - start)

    def offloaded():
        return passes(torch.autograd.graph.save_on_cpu(pin_memory=True))

    def kept():
        return passes(torch.enable_grad())

    offloaded(), kept()
    pairs = [(offloaded(), kept()) for _ in range(chosen.repetitions)]
    say("forward and backward with save_on_cpu(pin_memory=True)", "the same with saved tensors on the device",
        [pair[0] for pair in pairs], [pair[1] for pair in pairs], "passes/s", mode="save_on_cpu",
        saved_mib=2 * layers * rows * width * 2 >> 20)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, default=GIB)
    parser.add_argument("--page", type=int, default=32 << 20)
    parser.add_argument("--repetitions", type=int, default=5)
    chosen = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("no PyTorch here", file=sys.stderr)
        return 77
    if not torch.cuda.is_available():
        print("PyTorch has no CUDA device here", file=sys.stderr)
        return 77
    print(f"PyTorch {torch.__version__} on {torch.cuda.get_device_name(0)}", file=sys.stderr)
    Exchange(torch, chosen).measure(chosen.repetitions)
    save_on_cpu(torch, chosen)
    return 0


if __name__ == "__main__":
    sys.exit(main())
