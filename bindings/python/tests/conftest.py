# SPDX-License-Identifier: Apache-2.0
"""Fixtures: a context of host devices, a pool that holds four pages there, and a stream. None looks for a GPU."""

from __future__ import annotations

import gc
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

import weir
from tests_support import PAGE


@pytest.fixture
def context() -> Iterator[weir.Context]:
    with weir.Context({"host.devices": 2, "host.memory": "64M"}, search=False) as context:
        yield context
        gc.collect()


@pytest.fixture
def pool(context: weir.Context) -> Iterator[weir.Pool]:
    with weir.Pool(context, {0: 4 * PAGE}, host_budget=32 * PAGE) as pool:
        yield pool
        gc.collect()


@pytest.fixture
def stream(context: weir.Context) -> Iterator[weir.Stream]:
    with context.stream(0) as stream:
        yield stream
        gc.collect()


RunPython = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run_python(tmp_path: pathlib.Path) -> RunPython:
    """Runs a program of its own, where the end of the interpreter and forks can be looked at."""

    def run(source: str, *options: str) -> subprocess.CompletedProcess[str]:
        program = tmp_path / "program.py"
        program.write_text(source)
        command = [sys.executable, *options, str(program)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    return run
