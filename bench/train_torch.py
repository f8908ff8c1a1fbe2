#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps of a transformer whose activations are offloaded by Weir and by PyTorch, as lines of JSON.

  kept          saved tensors stay on the device: what a step costs when there is memory enough
  save_on_cpu   torch.autograd.graph.save_on_cpu(pin_memory=True)
  weir P%       weir.torch.offload, in a pool whose device memory is P % of what a step saves

Steps of the modes take turns. Each mode's figure is its steps a second over those of save_on_cpu in the same turn, with the most
device memory that PyTorch and the pool had. The loss of each step must be that of `kept` to the bit, or it fails. Exits 77
where there is no PyTorch with CUDA, or no Weir with it.
"""
import argparse
import contextlib
import json
import statistics
import sys
import time

GIB = 1 << 30


def model_of(torch, chosen):
    class Block(torch.nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.before, self.after = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
            self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
            self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

        def forward(self, value):
            rows, length, width = value.shape
            q, k, v = (each.view(rows, length, self.heads, -1).transpose(1, 2)
                       for each in self.qkv(self.before(value)).split(width, dim=2))
            mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            value = value + self.out(mixed.transpose(1, 2).reshape(rows, length, width))
            return value + self.down(torch.nn.functional.gelu(self.up(self.after(value))))

    layers = [Block(chosen.width, chosen.width // 128) for _ in range(chosen.layers)]
    return torch.nn.Sequential(*layers).to("cuda:0", torch.bfloat16)


class Run:
    """Steps of one model and batch, by mode."""

    def __init__(self, torch, weir, chosen):
        self.torch, self.weir = torch, weir
        torch.manual_seed(8)
        self.model = model_of(torch, chosen)
        self.batch = torch.randn(chosen.rows, chosen.length, chosen.width, device="cuda:0", dtype=torch.bfloat16)
        self.pools = {}
        self.loss = None

    def step(self, mode):
        """Seconds, and the most memory that PyTorch had."""
        torch = self.torch
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        with self.context_of(mode):
            loss = self.model(self.batch).float().square().mean()
        loss.backward()
        torch.cuda.synchronize()
        seconds, peak = time.perf_counter() - start, torch.cuda.max_memory_allocated()
        self.model.zero_grad()
        if self.loss is None:
            self.loss = loss.item()
        if loss.item() != self.loss:
            raise SystemExit(f"{mode}: a step's loss is {loss.item()!r}, and was {self.loss!r} with everything kept")
        return seconds, peak

    def context_of(self, mode):
        if mode == "kept":
            return contextlib.nullcontext()
        if mode == "save_on_cpu":
            return self.torch.autograd.graph.save_on_cpu(pin_memory=True)
        return self.weir.torch.offload(self.pools[mode], min_bytes="1M")


def saved_bytes(run, weir, context, gpu):
    """What a step saves: asked of a block of offload in a pool with room for most of it."""
    with context.pool({gpu: "20G"}, host_budget="64G") as pool:
        with weir.torch.offload(pool, min_bytes="1M") as block:
            loss = run.model(run.batch).float().square().mean()
        saved = block.stats.saved_bytes
        loss.backward()
        run.torch.cuda.synchronize()
        del loss
        run.model.zero_grad()
    return saved


def measure(torch, weir, chosen):
    run = Run(torch, weir, chosen)
    with contextlib.ExitStack() as stack:
        context = stack.enter_context(weir.Context())
        gpu = context.device("cuda:0")
        saved = saved_bytes(run, weir, context, gpu)
        budgets = {f"weir {percent}%": saved * percent // 100 for percent in chosen.percent}
        for mode, budget in budgets.items():
            run.pools[mode] = stack.enter_context(context.pool({gpu: budget}, host_budget=saved + 2 * GIB,
                                                               **({"policy": chosen.policy} if chosen.policy else {})))
        modes = ["kept", "save_on_cpu", *budgets]
        for mode in modes:
            for _ in range(chosen.warm):
                run.step(mode)
        turns = [{mode: run.step(mode) for mode in modes} for _ in range(chosen.repetitions)]
        for mode in modes:
            ratios = [turn["save_on_cpu"][0] / turn[mode][0] for turn in turns]
            peak = max(turn[mode][1] for turn in turns) + budgets.get(mode, 0)
            stats = run.pools[mode].stats if mode in budgets else None
            print(json.dumps({
                "benchmark": "torch_training", "backend": "cuda", "mode": mode,
                "what": "forward and backward passes of a transformer", "yardstick": "the same with save_on_cpu(pin_memory=True)",
                "ratio": statistics.median(ratios), "ratio_low": min(ratios), "ratio_high": max(ratios), "samples": len(ratios),
                "value": 1 / statistics.median(turn[mode][0] for turn in turns),
                "yardstick_value": 1 / statistics.median(turn["save_on_cpu"][0] for turn in turns), "unit": "steps/s",
                "saved_mib": saved >> 20, "peak_mib": peak >> 20, "pool_mib": budgets.get(mode, 0) >> 20,
                **({"promoted_mib": stats.promoted_bytes >> 20, "demoted_mib": stats.demoted_bytes >> 20,
                    "prefetched_mib": stats.prefetched_bytes >> 20} if stats else {})}), flush=True)
        run.pools.clear()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--percent", type=int, nargs="+", default=[50, 10], help="of what a step saves, of the pool's device memory")
    parser.add_argument("--policy", help="of the pools")
    parser.add_argument("--warm", type=int, default=2, help="steps of each mode before the first turn")
    parser.add_argument("--repetitions", type=int, default=5)
    chosen = parser.parse_args()
    try:
        import torch
        import weir
        import weir.torch
    except ImportError as error:
        print(f"no PyTorch or no Weir here: {error}", file=sys.stderr)
        return 77
    if not torch.cuda.is_available():
        print("PyTorch has no CUDA device here", file=sys.stderr)
        return 77
    print(f"PyTorch {torch.__version__}, Weir {weir.__version__}, {torch.cuda.get_device_name(0)}", file=sys.stderr)
    measure(torch, weir, chosen)
    return 0


if __name__ == "__main__":
    sys.exit(main())
