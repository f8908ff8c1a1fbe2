# SPDX-License-Identifier: Apache-2.0
"""`weir snapshot --memory-viz`: what it writes is read by PyTorch's own reader of memory snapshots, torch/cuda/_memory_viz.py, of
whatever version is installed. WEIR_COMMAND names the command."""

from __future__ import annotations

import importlib
import json
import pathlib
import pickle
import subprocess
import warnings
from typing import Any

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what PyTorch has to say to Python is not ours
    pytest.importorskip("torch", reason="PyTorch is not installed")
    memory_viz: Any = importlib.import_module("torch.cuda._memory_viz")

import weir
from tests_support import PAGE


@pytest.fixture
def snapshot(weir_command: str, pool: weir.Pool, stream: weir.Stream, tmp_path: pathlib.Path) -> Any:
    """Of a pool with two buffers on its device and two in HOST, as the command writes it."""
    buffers = [pool.buffer(2 * PAGE, name=f"layer {number}") for number in range(4)]
    for buffer in buffers:
        with pool.acquire(stream, weir.overwrite(buffer)):
            pass
    assert pool.stats.host_bytes >= 4 * PAGE
    source, target = tmp_path / "pool.json", tmp_path / "pool.pickle"
    source.write_text(json.dumps(pool.snapshot()))
    command = [weir_command, "snapshot", str(source), "--memory-viz", "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return pickle.loads(target.read_bytes())


def lines_of(flames: str) -> list[tuple[str, int]]:
    """What a flame graph is made of: frames with ";" between them, and bytes."""
    pairs = [line.rsplit(" ", 1) for line in flames.splitlines()]
    return [(frames, int(size)) for frames, size in pairs]


def test_pytorchs_reader_finds_every_buffer(snapshot: Any) -> None:
    version_1 = not hasattr(memory_viz, "segsum")  # which takes the segments alone, and no stacks without a history
    of = snapshot["segments"] if version_1 else snapshot
    for name in ("segments", "memory"):
        found = lines_of(getattr(memory_viz, name)(of, format_flamegraph=lambda lines: lines))
        assert sum(size for frames, size in found if "active_allocated" in frames) == 8 * PAGE
        if not version_1:
            for number in range(4):
                assert sum(size for frames, size in found if f"layer {number}" in frames) == 2 * PAGE
    if version_1:
        stats = memory_viz.stats(of)
        assert "active_allocated" in stats
        return
    assert f"total_allocated: {8 * PAGE / (1 << 20):.1f}MiB" in memory_viz.segsum(snapshot)
    assert memory_viz.trace(snapshot).count("cudaMalloc") == 2
    for plot in (memory_viz.trace_plot, memory_viz.segment_plot):
        assert "snapshot.pickle" in plot(snapshot)
