# SPDX-License-Identifier: Apache-2.0
"""Fixtures: a context of host devices, a pool that holds four pages there, and a stream. None looks for a GPU."""

from __future__ import annotations

import gc
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

import weir
from tests_support import PAGE

T = TypeVar("T", weir.Context, weir.Pool, weir.Stream)


def lend(thing: T) -> Iterator[T]:
    """Closes it after the test; what a failure's traceback keeps alive is collected first."""
    yield thing
    try:
        thing.close()
    except weir.Busy:
        gc.collect()
        thing.close()


@pytest.fixture
def context() -> Iterator[weir.Context]:
    yield from lend(weir.Context({"host.devices": 2, "host.memory": "64M"}, search=False))


@pytest.fixture
def pool(context: weir.Context) -> Iterator[weir.Pool]:
    yield from lend(weir.Pool(context, {0: 4 * PAGE}, host_budget=32 * PAGE))


@pytest.fixture
def stream(context: weir.Context) -> Iterator[weir.Stream]:
    yield from lend(context.stream(0))


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


@pytest.fixture
def weir_command() -> str:
    """Where the command is; WEIR_COMMAND names it."""
    command = os.environ.get("WEIR_COMMAND") or shutil.which("weir")
    if command is None:
        pytest.skip("the weir command is not there: WEIR_COMMAND does not name it")
    return command
