# SPDX-License-Identifier: Apache-2.0
"""A training loop whose activations live in a pool that has not room for them, for WEIR_RECORD to record. A program of its own,
since a recording begins with its context:

    WEIR_RECORD=/tmp/loop.vmt.zst python torch_loop.py [--threads]

--threads: the pool has its background threads. Prints the last loss, and what the pool counted."""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what PyTorch has to say to Python is not ours
    import torch

import weir
import weir.torch as weir_torch

PAGE = 64 << 10
OPTIONS = f"host.devices=1;host.memory=64M;host.granule={PAGE};host.granule_large=0"
BATCH, WIDTH, LAYERS, STEPS = 512, 256, 6, 6


def model() -> Any:
    layers: list[Any] = []
    for _ in range(LAYERS):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 1))


def train(pool: weir.Pool) -> float:
    torch.manual_seed(8)
    torch.set_num_threads(1)
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    loss = torch.zeros(())
    for _ in range(STEPS):
        batch, wanted = torch.randn(BATCH, WIDTH), torch.randn(BATCH, 1)
        optimizer.zero_grad()
        with weir_torch.offload(pool, min_bytes=PAGE):
            loss = (net(batch) - wanted).square().mean()
        loss.backward()
        optimizer.step()
    return float(loss)


def main() -> None:
    threads = "--threads" in sys.argv[1:]
    # Each activation has 8 pages; a step saves some fifty of them.
    with (
        weir.Context(OPTIONS) as context,
        context.pool(24 * PAGE, host_budget=512 * PAGE, page_size=PAGE, large_page_size=PAGE, background=threads) as pool,
    ):
        loss = train(pool)
        stats = pool.stats
        moved = {name: getattr(stats, name) for name in ("promoted_bytes", "demoted_bytes", "dropped_clean_bytes")}
    print(json.dumps({"loss": loss, **moved}))


if __name__ == "__main__":
    main()
