# SPDX-License-Identifier: Apache-2.0
"""weir.torch: tensors over leases, the allocator's C functions on the host backend, and activations in a pool with
gradients that are the same to the bit."""

from __future__ import annotations

import ctypes
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
from tests_support import PAGE

pytestmark = pytest.mark.filterwarnings("default:::torch.*")


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    torch.manual_seed(8)
    torch.set_num_threads(1)


@pytest.fixture
def small(context: weir.Context) -> Iterator[weir.Pool]:
    """A pool that holds two pages on its device."""
    with context.pool(2 * PAGE, host_budget=64 * PAGE) as pool:
        yield pool


# ---- tensors ----


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_tensors_share_the_leases_memory(pool: weir.Pool, stream: weir.Stream, dtype: Any) -> None:
    buffer = pool.buffer(PAGE)
    with pool.acquire(stream, weir.overwrite(buffer)) as lease:
        tensor = weir_torch.as_tensor(lease[0], dtype)
        assert (tensor.dtype, tensor.data_ptr()) == (dtype, lease.address())
        tensor.fill_(1)
        with pytest.raises(BufferError):
            lease.release()
        del tensor
    with pool.acquire(stream, weir.read(buffer)) as lease:
        tensor = weir_torch.as_tensor(lease[0].view(dtype, (4, PAGE // 4 // torch.ones(1, dtype=dtype).element_size())))
        assert tensor.shape[0] == 4
        assert bool((tensor == 1).all())
        del tensor


# ---- the allocator ----


def test_the_allocators_functions(pool: weir.Pool) -> None:
    library = weir_torch.configure_allocator(pool, "host")
    library.weir_torch_alloc.restype = ctypes.c_void_p
    library.weir_torch_alloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    library.weir_torch_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    try:
        first = library.weir_torch_alloc(PAGE, 0, None)
        second = library.weir_torch_alloc(1000, 0, None)
        assert first
        assert second
        assert library.weir_torch_live() == 2
        assert pool.stats.device_held_bytes >= PAGE
        ctypes.memset(first, 1, PAGE)
        assert library.weir_torch_alloc(0, 0, None) is None
        assert library.weir_torch_alloc(64 * PAGE, 0, None) is None
        assert library.weir_torch_alloc(PAGE, 9, None) is None
        with pytest.raises(weir.Busy):
            weir_torch.configure_allocator(None)
        checked = library.weir_torch_alloc_or_throw  # what PyTorch is given; ctypes can't see it throw
        checked.restype, checked.argtypes = ctypes.c_void_p, [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
        library.weir_torch_free(checked(PAGE, 0, None), PAGE, 0, None)
        assert library.weir_torch_live() == 2
        library.weir_torch_free(first, PAGE, 0, None)
        library.weir_torch_free(second, 1000, 0, None)
        library.weir_torch_free(None, 0, 0, None)
        assert library.weir_torch_live() == 0
        assert pool.stats.device_held_bytes == 0
    finally:
        weir_torch.configure_allocator(None)
    assert library.weir_torch_alloc(PAGE, 0, None) is None


def test_the_allocator_needs_the_backend(pool: weir.Pool) -> None:
    with pytest.raises((ValueError, weir.NotSupported), match=r"cuda|PyTorch"):
        weir_torch.use_allocator(pool)


# ---- activations ----


def gradients(make: Callable[[], tuple[list[Any], Callable[[], Any]]], pool: weir.Pool | None, least: int = 1) -> Any:
    """What the backward pass of a program gives for its leaves, with and without a pool; and the block."""
    torch.manual_seed(8)
    leaves, run = make()
    block = None
    if pool is None:
        loss = run()
    else:
        with weir_torch.offload(pool, min_bytes=least) as block:
            loss = run()
    loss.backward()
    return [leaf.grad for leaf in leaves], block


def same(make: Callable[[], tuple[list[Any], Callable[[], Any]]], pool: weir.Pool, least: int = 1) -> weir_torch.OffloadStats:
    expected, _ = gradients(make, None)
    found, block = gradients(make, pool, least)
    for mine, theirs in zip(found, expected):
        assert torch.equal(mine, theirs)
        assert mine.stride() == theirs.stride()
    assert expected
    stats: weir_torch.OffloadStats = block.stats
    return stats


def test_a_network_far_beyond_the_budget(small: weir.Pool) -> None:
    def make() -> tuple[list[Any], Callable[[], Any]]:
        layers = [
            torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Dropout(0.1))
            for _ in range(6)
        ]
        model, batch = torch.nn.Sequential(*layers), torch.randn(4096, 64)
        return list(model.parameters()), lambda: model(batch).square().mean()

    before = small.stats
    stats = same(make, small, 1 << 16)
    after = small.stats
    assert stats.saved_bytes > 4 * before.device_budget
    assert after.demoted_bytes - before.demoted_bytes > before.device_budget
    assert after.promoted_bytes > before.promoted_bytes
    assert after.prefetched_bytes > before.prefetched_bytes
    assert (stats.restored, stats.restored_bytes) == (stats.saved + stats.shared, stats.saved_bytes) or stats.shared > 0
    gc.collect()
    assert small.stats.buffers == 0  # they went with the graph


def leaf(*shape: int, dtype: Any = torch.float32) -> Any:
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def test_views_strides_and_shared_storages(pool: weir.Pool) -> None:
    def make() -> tuple[list[Any], Callable[[], Any]]:
        x = leaf(64, 48)

        def run() -> Any:
            y = x.exp()
            parts = [y.t(), y[:, ::3], y[5:40], y[:1].expand(64, 48), y[:, :1], y.view(48, 64), y[7, 9]]
            return sum((part * part.sin()).sum() for part in parts) + (y.t() @ y).tanh().sum()

        return [x], run

    stats = same(make, pool)
    assert stats.shared > 0
    assert stats.saved > 6


def test_a_small_part_of_much_takes_little(pool: weir.Pool) -> None:
    def make() -> tuple[list[Any], Callable[[], Any]]:
        x = leaf(1024, 256)
        return [x], lambda: (x * 1.0)[:, :1].sin().sum()

    stats = same(make, pool)
    assert 0 < stats.saved_bytes <= 2 * 1024 * 4 + 64


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.complex64, torch.complex128])
def test_types(pool: weir.Pool, dtype: Any) -> None:
    def make() -> tuple[list[Any], Callable[[], Any]]:
        x = leaf(33, 7, dtype=dtype)
        return [x], lambda: (x * 2).exp().mul(x.conj()).abs().float().sum()

    assert same(make, pool).saved > 0


def test_masks_indices_and_nothing(pool: weir.Pool) -> None:
    def make() -> tuple[list[Any], Callable[[], Any]]:
        x = leaf(32, 16)

        def run() -> Any:
            y = (x * 3).masked_fill(torch.rand(32, 16) > 0.5, 0.0).relu()
            empty = (x[:0] * 2).exp()
            picked = y[torch.randint(0, 32, (100,))]
            return picked.max(dim=1).values.sum() + empty.sum() + y[0, 0].exp()

        return [x], run

    same(make, pool)


def test_parameters_are_not_copied(pool: weir.Pool) -> None:
    weight, batch = leaf(256, 256), leaf(8, 256) * 1
    with weir_torch.offload(pool, min_bytes=1) as block:
        loss = (batch @ weight).sum() + (batch @ weight.t()).sum()
        assert block.stats.saved_bytes <= batch.numel() * 4
        assert block.stats.kept >= 2
    loss.backward()


def test_changes_in_place_after_saving(pool: weir.Pool) -> None:
    """What was saved is a copy, so the gradient is that of the values at that time; autograd alone would refuse."""
    x = leaf(64)
    with weir_torch.offload(pool, min_bytes=1):
        y = x * 2
        z = y.sin()
        y.zero_()
    z.sum().backward()
    assert torch.equal(x.grad, (2 * x).cos().detach() * 2)


def test_versions_tell_saves_apart(pool: weir.Pool) -> None:
    def make() -> tuple[list[Any], Callable[[], Any]]:
        x = leaf(64)

        def run() -> Any:
            y = torch.zeros(64)
            first = x * y.add_(1)
            return (first + x * y.clone().add_(5)).sum()

        return [x], run

    same(make, pool)
    x, y = leaf(64), torch.ones(64)
    with weir_torch.offload(pool, min_bytes=1) as block:
        loss = (x * y).sum()
        y.add_(1)
        loss = loss + (x * y).sum()
    assert (block.stats.saved, block.stats.shared) == (2, 0)
    loss.backward()
    assert torch.equal(x.grad, torch.full((64,), 3.0))


def test_memory_that_is_used_again_is_not_taken_for_the_old(pool: weir.Pool) -> None:
    x = leaf(4096)
    loss = torch.zeros(())
    with weir_torch.offload(pool, min_bytes=1):
        for i in range(20):
            loss = loss + (x * torch.full((4096,), float(i))).sum()  # the allocator gives the same memory again
    loss.backward()
    assert torch.equal(x.grad, torch.full((4096,), float(sum(range(20)))))


def test_kept_tensors_are_refused_when_changed(pool: weir.Pool) -> None:
    x = leaf(8)
    with weir_torch.offload(pool, min_bytes=1 << 20):
        y = x * 2
        z = y.sin()
        y.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    weight = leaf(8)
    with weir_torch.offload(pool, min_bytes=1):
        loss = (torch.ones(8) * 2 * weight).mul(weight).sum()
    with torch.no_grad():
        weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_graph_that_is_kept_can_be_run_again(pool: weir.Pool) -> None:
    x = leaf(128)
    with weir_torch.offload(pool, min_bytes=1):
        loss = (x * 2).exp().sum()
    loss.backward(retain_graph=True)
    first = x.grad.clone()
    loss.backward()
    assert torch.equal(x.grad, 2 * first)
    with weir_torch.offload(pool, min_bytes=1):
        (slope,) = torch.autograd.grad((x * x.exp()).sum(), x, create_graph=True)
        slope.sum().backward()


def test_nested_blocks_and_a_dropped_graph(pool: weir.Pool) -> None:
    x = leaf(1024)
    with weir_torch.offload(pool, min_bytes=64) as outer, weir_torch.offload(pool, min_bytes=64) as inner:
        loss = (x * 2).sin().sum()
    assert (outer.stats.saved, inner.stats.saved) == (0, 1)
    assert pool.stats.buffers == 1
    del loss
    gc.collect()
    assert pool.stats.buffers == 0


def test_no_graph_keeps_itself_alive(pool: weir.Pool) -> None:
    """Kept tensors are detached: an output that is saved by its own function would be a cycle that no collector sees."""
    import weakref

    x = leaf(16)
    with weir_torch.offload(pool, min_bytes=1 << 20):
        y = x.exp()
    gone = weakref.ref(y)
    del y
    gc.collect()
    assert gone() is None


def test_backward_on_another_thread(pool: weir.Pool) -> None:
    import threading

    x = leaf(4096)
    with weir_torch.offload(pool, min_bytes=1):
        losses = [(x * i).exp().sum() for i in range(4)]
    threads = [threading.Thread(target=loss.backward) for loss in losses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    expected = sum((i * (x * i).exp()).detach() for i in range(4))
    assert torch.allclose(x.grad, expected)
