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
from torch_support import same

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


def functions(library: Any) -> tuple[Any, Any, Any]:
    allocate, free = library.weir_torch_alloc, library.weir_torch_free
    allocate.restype, allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    free.restype, free.argtypes = None, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    return allocate, free, library.weir_torch_record_stream


def test_the_allocators_pool_can_not_be_closed(pool: weir.Pool) -> None:
    library = weir_torch.configure_allocator(pool, "host")
    try:
        for each in (pool, pool.context):
            with pytest.raises(weir.Busy, match="allocator"):
                each.close()
        allocate, free, _ = functions(library)
        memory = allocate(PAGE, 0, None)
        assert memory
        free(memory, PAGE, 0, None)
        with pytest.raises(ValueError, match="abacus"):
            weir_torch.configure_allocator(pool, "abacus")
        weir_torch.configure_allocator(pool, "host")  # again: nothing is entered twice
    finally:
        weir_torch.configure_allocator(None)
    assert pool._gate.inside == pool.context._gate.inside == 0
    pool.close()


def test_the_end_with_an_allocator(run_python: Any) -> None:
    source = """
import warnings
warnings.simplefilter("ignore")
import weir, weir.torch, ctypes, sys
context = weir.Context("host.memory=64M", search=False)
pool = context.pool(8 << 20)
library = weir.torch.configure_allocator(pool, "host")
if len(sys.argv) > 1: library.weir_torch_alloc(ctypes.c_size_t(4096), 0, None)
import atexit
from weir import _core
_core.lib, real = type("", (), dict(__getattr__=lambda self, name: getattr(real, name)))(), _core.lib
def over(): print("closed", pool.closed); real.weirpy_end_callbacks()
_core.lib.weirpy_end_callbacks = over
"""
    for arguments, closed in (("", "True"), ("sys.argv.append('out')\n", "False")):
        done = run_python("import sys\n" + arguments + source)
        assert (done.returncode, done.stdout) == (0, f"closed {closed}\n"), done.stderr


def test_recorded_streams_are_waited_for(pool: weir.Pool, context: weir.Context, stream: weir.Stream) -> None:
    import threading

    library = weir_torch._library()
    index = 0
    with context.stream(0) as other:
        first, second = stream.native, other.native
        assert library.weir_torch_configure(context.handle, pool.handle, index, 1, 1) == 0
        allocate, free, record = functions(library)
        try:
            gate = threading.Event()
            plain, used = allocate(PAGE, 0, first), allocate(PAGE, 0, first)
            record(used, second)
            record(used, second)
            record(4096, second)  # not of this allocator
            other.host_call(gate.wait)
            free(plain, PAGE, 0, first)
            assert library.weir_torch_live() == 1
            free(used, PAGE, 0, first)
            assert library.weir_torch_live() == 1  # it did not wait
            third = allocate(PAGE, 0, first)
            assert third != used
            assert library.weir_torch_live() == 2
            gate.set()
            all_of_it = allocate(3 * PAGE, 0, first)  # waits for the other stream, since there is no room else
            assert all_of_it
            assert library.weir_torch_live() == 2
            free(third, PAGE, 0, first)
            free(all_of_it, 3 * PAGE, 0, first)
            assert library.weir_torch_live() == 0
        finally:
            gate.set()
            assert library.weir_torch_configure(None, None, 0, 0, 0) == 0


def test_pytorch_is_told_where_to_record_streams() -> None:
    class Pluggable:
        def set_record_stream_fn(self, address: int) -> None:
            self.address = address

    library, pluggable = weir_torch._library(), Pluggable()
    assert weir_torch._connect(pluggable, library)
    assert pluggable.address == ctypes.cast(library.weir_torch_record_stream, ctypes.c_void_p).value
    assert not weir_torch._connect(object(), library)


def test_the_allocator_and_a_log_in_python() -> None:
    with (
        weir.Context("host.memory=64M", search=False, log=lambda level, text: None) as context,
        context.pool(4 * PAGE) as pool,
        pytest.raises(weir.NotSupported, match="log"),
    ):
        weir_torch.configure_allocator(pool, "host")


def test_the_allocator_needs_the_backend(pool: weir.Pool) -> None:
    with pytest.raises((ValueError, weir.NotSupported), match=r"cuda|PyTorch"):
        weir_torch.use_allocator(pool)


# ---- activations ----


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


def test_what_was_expanded_is_saved_once(pool: weir.Pool) -> None:
    """Also with gaps between its elements, which was refused on the way back."""

    def make() -> tuple[list[Any], Callable[[], Any]]:
        x = leaf(64, 48)

        def run() -> Any:
            y = x.exp()
            return y[:, :1].expand(64, 8).sin().sum() + y[:, None, :1].expand(64, 100, 1).cos().sum()

        return [x], run

    stats = same(make, pool)
    assert stats.saved_bytes <= (64 * 48 + 2 * 64) * 4


def test_tensors_of_zeros_without_memory(pool: weir.Pool) -> None:
    zeros, x = torch._efficientzerotensor((64,)), leaf(64)
    assert not weir_torch._plain(zeros)
    with weir_torch.offload(pool, min_bytes=1):
        loss = (x * zeros).sum()
    loss.backward()


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


# ---- names ----


def test_copies_are_named_by_their_module(small: weir.Pool) -> None:
    class Layer(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, values: Any) -> Any:
            return values.exp()

    class Net(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList([Layer(), Layer()])

        def forward(self, values: Any) -> Any:
            return self.layers[1](self.layers[0](values)).sum()

    net, alone = Net(), torch.ones(64, requires_grad=True)
    for _ in range(2):
        with weir_torch.offload(small, min_bytes=1):
            loss = net(alone.exp())
        names = sorted(buffer.get("name", "") for buffer in small.snapshot()["buffers"])
        loss.backward()
    name = net.forward.__qualname__.rsplit(".", 1)[0]
    assert {each: small.operation_id(each) for each in small._operations} == {
        f"{name}.layers.0 saves": 1, f"{name}.layers.1 saves": 2,
        f"{name}.layers.1 restores": 3, f"{name}.layers.0 restores": 4,
    }  # fmt: skip
    assert names == ["", f"{name}.layers.0", f"{name}.layers.1"]
    net.layers.append(Layer())  # found although the names were learned before
    with weir_torch.offload(small, min_bytes=1):
        net.layers[2](alone)
        assert weir_torch._name_within(net, net.layers[2]) == "layers.2"
    assert weir_torch._name_within(net, Layer()).endswith("Layer")
    assert len(weir_torch._operation("é" * 2000, "saves").encode()) <= 1023  # type: ignore[union-attr]
    assert weir_torch._operation("", "saves") == 0
