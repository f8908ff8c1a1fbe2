# SPDX-License-Identifier: Apache-2.0
"""The end of the interpreter, in every order that objects can be left in."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable

import pytest

BEGIN = """
import atexit, sys, threading, time, weir
context = weir.Context("host.memory=64M", search=False)
pool = context.pool(8 << 20, host_budget=64 << 20)
stream = context.stream(0)
buffer = pool.buffer(4 << 20)
other = pool.buffer(6 << 20)
"""

CASES = {
    "nothing is closed": "",
    "a lease is out": "lease = pool.acquire(stream, weir.overwrite(buffer))",
    "an array is out": "array = pool.acquire(stream, weir.overwrite(buffer))[0]; import numpy; a = numpy.asarray(array)",
    "a hold and memory are out": "hold, memory = buffer.hold(), pool.malloc(1 << 20)",
    "host calls are waiting": "stream.host_call(time.sleep, 0.2); f = stream.host_call(print, 'ran')",
    "an acquire is waiting": """
lease = pool.acquire(stream, weir.overwrite(buffer))
waiting = pool.acquire_async(stream, weir.overwrite(other), timeout=60)
""",
    "a daemon thread waits in an acquire": """
lease = pool.acquire(stream, weir.overwrite(buffer))
threading.Thread(target=lambda: pool.acquire(stream, weir.overwrite(other), timeout=60), daemon=True).start()
while pool._gate.inside == 0: pass
""",
    "a daemon thread works": """
def work():
    mine = context.stream(0)
    while True:
        with pool.acquire(mine, weir.overwrite(buffer), timeout=60) as lease:
            lease.host_call(lambda views: None)
threading.Thread(target=work, daemon=True).start()
while pool.stats.hits < 10: pass
""",
    "an exception ends it": "lease = pool.acquire(stream, weir.overwrite(buffer)); sys.exit(0)",
    "modules refer to it": "sys.weir_things = [context, pool, stream, buffer, pool.acquire(stream, weir.read(buffer))]",
    "a callback refers to it": "pool.set_loss_callback(lambda loss: print(pool, loss)); sys.unraisablehook = None",
    "it is used while atexit runs": "atexit.register(lambda: print(pool.stats.buffers))",
    "it is a cycle": """
class Knot: pass
knot = Knot(); knot.knot = knot; knot.all = [context, pool, stream, buffer, pool.acquire(stream, weir.read(buffer))]
""",
}

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.mark.parametrize("case", list(CASES))
def test_the_interpreter_ends_well(run_python: Run, case: str) -> None:
    done = run_python(BEGIN + CASES[case])
    assert done.returncode == 0
    # A thread at work when its pool is closed under it may still come to say so.
    told = case == "a daemon thread works" and done.stderr.startswith("Exception in thread")
    assert done.stderr == "" or told
    assert "ran" in done.stdout or case != "host calls are waiting"


def test_a_pool_that_ends_on_a_thread_of_its_own(run_python: Run) -> None:
    """Its last reference goes with the callback: closing it there would wait for itself."""
    source = BEGIN + """
lease = pool.acquire(stream, weir.overwrite(buffer))
pending, gone = pool.acquire_async(stream, weir.read(other), timeout=60), threading.Event()
over = threading.Event()
class Last:
    def __del__(self): over.set()
pool.last = Last()
pending.add_done_callback(lambda future: gone.wait(30))  # there is no room yet: it will run on the pool's thread
lease.release()
del pool, stream, buffer, other, context, pending, lease
gone.set()
from weir import _core
until = time.monotonic() + 30
while not _core._put_off:
    assert time.monotonic() < until
assert not over.is_set()
arena = weir.Arena(64)
while not over.is_set():  # any call closes what was put off
    arena.stats
    assert time.monotonic() < until
"""
    done = run_python(source, "-W", "ignore")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("order", ["".join(each) for each in itertools.permutations("cpsbl")][::7])
def test_closing_in_any_order(run_python: Run, order: str) -> None:
    """What can't be closed yet says Busy; at the end of the interpreter all has gone."""
    source = BEGIN + f"""
lease = pool.acquire(stream, weir.overwrite(buffer))
things = dict(c=context, p=pool, s=stream, b=buffer, l=lease)
for name in {order!r}:
    try:
        things[name].release() if name == "l" else things[name].close()
    except weir.Busy:
        pass
for name in "lbpsc":
    things[name].release() if name == "l" else things[name].close()
"""
    done = run_python(source)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("order", ["".join(each) for each in itertools.permutations("cpsbl")][::7])
def test_dropping_in_any_order(run_python: Run, order: str) -> None:
    names = dict(c="context", p="pool", s="stream", b="buffer", l="lease")
    source = BEGIN + "lease = pool.acquire(stream, weir.overwrite(buffer))\n"
    source += "".join(f"del {names[each]}\n" for each in order)
    source += "import gc; gc.collect()\nfrom weir import _core\ndel other; gc.collect()\nassert not _core._abandoned\n"
    done = run_python(source)
    assert (done.returncode, done.stderr) == (0, "")
