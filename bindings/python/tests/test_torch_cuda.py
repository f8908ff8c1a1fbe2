# SPDX-License-Identifier: Apache-2.0
"""weir.torch on a CUDA device: tensors over leases on PyTorch's streams, activations beyond the pool's memory, and PyTorch's
allocator on a pool. Skipped where PyTorch or Weir has no CUDA device: CI has none, docs/gpu-check.md says who runs it."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what PyTorch has to say to Python is not ours
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import weir
import weir.torch as weir_torch
from torch_support import same

if not torch.cuda.is_available():
    pytest.skip("PyTorch has no CUDA device here", allow_module_level=True)

PAGE = 2 << 20
CUDA = "cuda:0"


@pytest.fixture
def context() -> Iterator[weir.Context]:
    with weir.Context() as made:
        yield made


@pytest.fixture
def gpu(context: weir.Context) -> int:
    return int(context.device(CUDA))


@pytest.fixture
def small(context: weir.Context, gpu: int) -> Iterator[weir.Pool]:
    """A pool that holds 32 MiB of the device."""
    with context.pool({gpu: 16 * PAGE}, host_budget="2G") as pool:
        yield pool


def current(context: weir.Context, gpu: int) -> weir.Stream:
    return context.wrap_stream(torch.cuda.current_stream(0).cuda_stream, gpu)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_tensors_share_the_leases_memory(context: weir.Context, gpu: int, small: weir.Pool, dtype: Any) -> None:
    buffer = small.buffer(PAGE)
    with current(context, gpu) as stream:
        with small.acquire(stream, weir.overwrite(buffer)) as lease:
            tensor = weir_torch.as_tensor(lease[0], dtype)
            assert (tensor.dtype, tensor.data_ptr(), tensor.device) == (dtype, lease.address(), torch.device(CUDA))
            tensor.fill_(1)
            del tensor
        with small.acquire(stream, weir.read(buffer)) as lease:
            tensor = weir_torch.as_tensor(lease[0], dtype)
            assert bool((tensor == 1).all())
            del tensor
        torch.cuda.synchronize()


def test_bytes_survive_memory_that_is_too_small(context: weir.Context, gpu: int, small: weir.Pool) -> None:
    """Twelve times the pool's device memory, each buffer with numbers of its own, changed twice by kernels."""
    buffers = [small.buffer(4 * PAGE) for _ in range(48)]
    with torch.cuda.stream(torch.cuda.Stream()), current(context, gpu) as stream:
        for number, buffer in enumerate(buffers):
            with small.acquire(stream, weir.overwrite(buffer), timeout=60.0) as lease:
                tensor = weir_torch.as_tensor(lease[0], torch.int32)
                torch.arange(number, number + tensor.numel(), dtype=torch.int32, device=CUDA, out=tensor)
                del tensor
        for _ in range(2):
            for buffer in buffers:
                with small.acquire(stream, weir.write(buffer), timeout=60.0) as lease:
                    tensor = weir_torch.as_tensor(lease[0], torch.int32)
                    tensor.mul_(3)
                    del tensor
        for number, buffer in enumerate(buffers):
            with small.acquire(stream, weir.read(buffer), timeout=60.0) as lease:
                tensor = weir_torch.as_tensor(lease[0], torch.int32)
                expected = torch.arange(number, number + tensor.numel(), dtype=torch.int32, device=CUDA) * 9
                assert torch.equal(tensor, expected)
                del tensor
        torch.cuda.synchronize()
    stats = small.stats
    assert stats.demoted_bytes > stats.device_budget
    assert stats.promoted_bytes > stats.device_budget


# ---- activations ----


def block(width: int) -> Any:
    up, down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
    return torch.nn.Sequential(torch.nn.LayerNorm(width), up, torch.nn.GELU(), down)


def network(rows: int) -> tuple[list[Any], Callable[[], Any]]:
    model = torch.nn.Sequential(*[block(256) for _ in range(8)]).to(CUDA)
    batch = torch.randn(rows, 256, device=CUDA)
    return list(model.parameters()), lambda: model(batch).square().mean()


def test_a_network_far_beyond_the_budget(small: weir.Pool) -> None:
    before = small.stats
    stats = same(lambda: network(4096), small, 1 << 20)
    after = small.stats
    assert stats.saved_bytes > 4 * before.device_budget
    assert after.demoted_bytes - before.demoted_bytes > before.device_budget
    assert after.promoted_bytes > before.promoted_bytes
    assert after.prefetched_bytes > before.prefetched_bytes
    gc.collect()
    assert small.stats.buffers == 0  # they went with the graph


def test_a_network_on_a_stream_of_its_own(small: weir.Pool) -> None:
    with torch.cuda.stream(torch.cuda.Stream()):
        assert same(lambda: network(2048), small, 1 << 20).saved > 8


def test_views_strides_and_shared_storages(small: weir.Pool) -> None:
    def make() -> tuple[list[Any], Callable[[], Any]]:
        x = torch.randn(64, 48, device=CUDA, requires_grad=True)

        def run() -> Any:
            y = x.exp()
            parts = [y.t(), y[:, ::3], y[5:40], y[:1].expand(64, 48), y[:, :1], y.view(48, 64), y[7, 9]]
            return sum((part * part.sin()).sum() for part in parts) + (y.t() @ y).tanh().sum()

        return [x], run

    assert same(make, small).shared > 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.complex64])
def test_types(small: weir.Pool, dtype: Any) -> None:
    def make() -> tuple[list[Any], Callable[[], Any]]:
        x = torch.randn(33, 7, dtype=dtype, device=CUDA, requires_grad=True)
        return [x], lambda: (x * 2).exp().mul(x.conj()).abs().float().sum()

    assert same(make, small).saved > 0


# ---- the allocator ----

TRAINING = """
import sys, warnings
import torch

def steps():
    torch.manual_seed(8)
    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)]).to("cuda:0")
    optimizer = torch.optim.Adam(model.parameters())
    other, losses = torch.cuda.Stream(), []
    for _ in range(5):
        batch = torch.randn(1024, 512, device="cuda:0")
        with torch.cuda.stream(other):
            other.wait_stream(torch.cuda.default_stream())
            doubled = batch * 2
            batch.record_stream(other)
        del batch
        torch.cuda.default_stream().wait_stream(other)
        loss = model(doubled).square().mean()
        doubled.record_stream(torch.cuda.default_stream())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
    return losses
"""

ON_A_POOL = """
import weir, weir.torch
context = weir.Context()
gpu = context.device("cuda:0")
pool = context.pool({gpu: "512M"}, host_budget="64M")
weir.torch.use_allocator(pool)
print(*steps())
assert pool.stats.device_held_bytes > 0, pool.stats
try:
    torch.empty(1 << 30, dtype=torch.uint8, device="cuda:0")
except RuntimeError as error:
    print("refused:", str(error).splitlines()[0])
print(torch.ones(1000, device="cuda:0").sum().item())
"""


def test_pytorchs_memory_is_the_pools(run_python: Any) -> None:
    plain = run_python(TRAINING + "print(*steps())")
    assert plain.returncode == 0, plain.stderr
    pooled = run_python(TRAINING + ON_A_POOL)
    assert pooled.returncode == 0, pooled.stderr
    losses, refused, ones = pooled.stdout.splitlines()
    assert losses == plain.stdout.strip()
    assert refused.startswith("refused:")
    assert "budget" in refused
    assert ones == "1000.0"
