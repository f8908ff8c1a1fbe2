# SPDX-License-Identifier: Apache-2.0
"""A training loop of PyTorch's, recorded by the library and replayed by the weir command: what moved then moves again. WEIR_COMMAND
names the command."""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import subprocess
import sys
import warnings
from typing import Any

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what PyTorch has to say to Python is not ours
    pytest.importorskip("torch", reason="PyTorch is not installed")

LOOP = pathlib.Path(__file__).with_name("torch_loop.py")
MOVED = ("promoted_bytes", "demoted_bytes", "dropped_clean_bytes")


def run(command: list[str], **variables: str) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **variables})
    assert done.returncode == 0, done.stdout + done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def record_and_replay(weir_command: str, path: pathlib.Path, *options: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the loop's pool had counted, and what that of the replay has."""
    loop = run([sys.executable, "-W", "ignore", str(LOOP), *options], WEIR_RECORD=str(path))
    report = run([weir_command, "replay", str(path), "--pace", "recorded", "--json"])
    assert report["verify_errors"] == 0
    (pool,) = report["pools"]
    for name in MOVED:  # the recording says the same as the program
        assert pool["recorded"].get(name, 0) == loop[name]
    return pool["recorded"], pool["stats"]


def test_a_training_loop_moves_the_same_bytes(weir_command: str, tmp_path: pathlib.Path) -> None:
    recorded, replayed = record_and_replay(weir_command, tmp_path / "loop.vmt.zst")
    assert recorded["promoted_bytes"] > 0
    assert recorded["demoted_bytes"] > 0
    for name in MOVED:
        assert replayed.get(name, 0) == recorded.get(name, 0), name


def test_with_threads_it_moves_nearly_the_same_bytes(weir_command: str, tmp_path: pathlib.Path) -> None:
    """The median of five is 5 percent off at most."""
    off: dict[str, list[float]] = {name: [] for name in MOVED}
    for turn in range(5):
        recorded, replayed = record_and_replay(weir_command, tmp_path / f"loop-{turn}.vmt.zst", "--threads")
        for name in MOVED:
            if recorded.get(name, 0) != 0:
                off[name].append(abs(replayed.get(name, 0) / recorded[name] - 1))
    assert off["promoted_bytes"]
    for name, shares in off.items():
        assert not shares or statistics.median(shares) <= 0.05, (name, shares)
