# SPDX-License-Identifier: Apache-2.0
"""Weir under PyTorch: tensors over leased memory, PyTorch's CUDA allocator on a pool, and activations that live in a pool
between forward and backward.

Rules of `offload`:
- A tensor that autograd saves is copied into a buffer of the pool, byte for byte, when it is saved: what happens to it in
  place afterwards changes no gradient. Two saves of the same bytes share one buffer.
- Leaves that require gradients (parameters) and views of them, what is smaller than `min_bytes`, and what is no plain
  strided tensor stay where they are. For those autograd's own rule holds: changed in place after they were saved, they
  are refused in the backward pass.
- A tensor comes back with the sizes and strides it had, so that the kernels of the backward pass do the same sums."""

from __future__ import annotations

import atexit
import ctypes
import dataclasses
import pathlib
import sys
import threading
import warnings
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import torch
from torch.utils import dlpack as _torch_dlpack

from ._capi import lib
from ._core import entered, retry_abandoned
from ._sizes import Size, size_in_bytes
from .enums import DEFAULT, HOST
from .errors import NotSupported, WeirError, error_of
from .lease import overwrite, read
from .pool import Pool
from .stream import Stream
from .views import View

_LONGEST_NAME = 1023  # bytes of an operation's
_LIBRARY = str(pathlib.Path(__file__).parent / "libweir_torch.so")


def as_tensor(view: View, dtype: Any = None, shape: Sequence[int] | None = None) -> Any:
    """A tensor over leased memory; it keeps the lease from being released. PyTorch has no read-only tensors: that a READ lease
    is not written to is the caller's part. `dtype` is a torch.dtype or a name."""
    typed = view if dtype is None and shape is None else view.view(view.dtype if dtype is None else dtype, shape)
    stream: int | None = None
    if typed.__dlpack_device__()[0] == 2:
        native = torch.cuda.current_stream(typed.__dlpack_device__()[1]).cuda_stream
        stream = 1 if native == 0 else native
    if typed.dtype == "bool":  # PyTorch before 2.2 knows no bool in DLPack
        return _torch_dlpack.from_dlpack(typed.view("uint8", typed.shape)._dlpack(False, stream)).view(torch.bool)
    return _torch_dlpack.from_dlpack(typed._dlpack(False, stream))


# ---- the allocator ----


def _library() -> Any:
    library = ctypes.CDLL(_LIBRARY)
    library.weir_torch_configure.argtypes = [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_int
    ]  # fmt: skip
    library.weir_torch_live.restype = ctypes.c_uint64
    library.weir_torch_record_stream.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    library.weir_torch_record_stream.restype = None
    return library


def configure_allocator(pool: Pool | None, backend: str = "cuda") -> Any:
    """Names the pool that weir_torch_alloc of libweir_torch.so takes memory of, and returns that library (a ctypes.CDLL).
    PyTorch's device n is the backend's device n. None ends it; Busy while memory is out. Until then the pool and its context
    can't be closed, since PyTorch may ask for memory as long as it likes. A context with a log in Python is refused: a thread
    that logs holds the pool and waits for the GIL, which PyTorch may hold while it frees."""
    library = _library()
    held: list[entered] = []
    if pool is None:
        result = library.weir_torch_configure(None, None, 0, 0, 0)
    else:
        if pool.context._log is not None:
            raise NotSupported("PyTorch's memory can't be of a pool whose context has a log callback in Python")
        found = [each for each in pool.context.backends if each.name == backend and each.available]
        if not found:
            raise ValueError(f"no available backend {backend!r} in the pool's context")
        native_streams = 1 if backend in ("cuda", "hip") else 0
        held.append(entered(pool, pool.context))
        held[0].__enter__()
        result = library.weir_torch_configure(
            pool.context._number, pool._number, found[0].first_device, found[0].device_count, native_streams
        )
    if result < 0:
        error = error_of(result)
        for each in held:
            each.__exit__()
        raise error
    for each in _allocator_holds:
        _name_holder(each, None)
        each.__exit__()
    _allocator_holds[:] = held
    for each in held:
        _name_holder(each, "PyTorch's allocator (weir.torch.configure_allocator(None) ends that)")
    retry_abandoned()
    return library


_allocator_holds: list[entered] = []  # the pool and the context that are configured


def _name_holder(held: entered, holder: str | None) -> None:
    for each in held._objects:
        each._holder = holder


@atexit.register
def _end_allocator() -> None:
    """So that the pool can be closed at the end; it stays with the process while PyTorch has memory of it."""
    if _allocator_holds:
        try:
            configure_allocator(None)
        except WeirError:
            return


def _connect(allocator: Any, library: Any) -> bool:
    """Has PyTorch tell of Tensor.record_stream, where it can."""
    if not hasattr(allocator, "set_record_stream_fn"):
        return False
    allocator.set_record_stream_fn(ctypes.cast(library.weir_torch_record_stream, ctypes.c_void_p).value)
    return True


def use_allocator(pool: Pool) -> None:
    """Lets PyTorch take its CUDA (or HIP) memory from the pool: always resident, stream-ordered (`weir_malloc`). Call it before
    the first CUDA tensor; PyTorch can't change its allocator later. It stays for the process. PyTorch 2.0 or
    newer. `Tensor.record_stream` keeps memory from being used again before
    that stream's work is done, where this PyTorch tells its allocator of it; a warning says so where it does not."""
    if not hasattr(torch.cuda, "memory") or not hasattr(torch.cuda.memory, "CUDAPluggableAllocator"):
        raise NotSupported(f"PyTorch {torch.__version__} has no pluggable allocator; 2.0 has")
    library = configure_allocator(pool, "hip" if getattr(torch.version, "hip", None) else "cuda")
    allocator = torch.cuda.memory.CUDAPluggableAllocator(_LIBRARY, "weir_torch_alloc_or_throw", "weir_torch_free")
    if not _connect(allocator.allocator(), library):
        warnings.warn(f"PyTorch {torch.__version__} does not tell of Tensor.record_stream", RuntimeWarning, stacklevel=2)
    torch.cuda.memory.change_current_allocator(allocator)


# ---- activations ----


@dataclasses.dataclass
class OffloadStats:
    """What a block of `offload` did."""

    saved: int = 0  #: tensors put into the pool
    saved_bytes: int = 0
    shared: int = 0  #: tensors that were there already
    kept: int = 0  #: tensors that stayed where they were
    restored: int = 0
    restored_bytes: int = 0


_LOOK_BACK = 64  # how many saves before a tensor are looked through for the next ones


class _Kept:
    """A tensor that stays where it is, with autograd's rule about changes in place."""

    __slots__ = ("tensor", "version")

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor.detach()  # the tensor itself would keep its own graph alive
        self.version = tensor._version

    def restore(self, block: offload) -> Any:
        if self.tensor._version != self.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"{list(self.tensor.shape)} is at version {self.tensor._version}; expected version {self.version} instead"
            )
        return self.tensor


class _Saved:
    """Bytes in the pool, and what tensor they make. Ends with the graph that needs it."""

    __slots__ = (
        "__weakref__", "buffer", "device", "dtype", "elements", "module", "narrow", "number", "shape", "storage", "strides"
    )  # fmt: skip

    def __init__(self, tensor: Any, number: int, module: str) -> None:
        self.number = number
        self.module = module
        self.dtype, self.device = tensor.dtype, tensor.device
        self.shape, self.strides = tuple(tensor.shape), tuple(tensor.stride())
        self.narrow = _narrow(tensor)
        self.elements = _span(tensor)
        self.storage: Any = None
        self.buffer: Any = None

    def restore(self, block: offload) -> Any:
        return block._restore(self)


# What runs every module's forward: modules under way are found on the stack by it, so that calls of modules cost nothing.
_CALLS = {torch.nn.Module._call_impl.__code__}
#: By a module, the names of those in it.
_inner_names: weakref.WeakKeyDictionary[Any, weakref.WeakKeyDictionary[Any, str]] = weakref.WeakKeyDictionary()


def _name_within(outer: Any, inner: Any) -> str:
    """What `outer` calls a module in it; the module's class where it has none for it."""
    for again in (False, True):
        names = None if again else _inner_names.get(outer)
        if names is None:
            # Weak, as a module has its parents' names for no longer than it lives.
            names = weakref.WeakKeyDictionary({module: name for name, module in outer.named_modules() if name})
            _inner_names[outer] = names
        name = names.get(inner)
        if name is not None:
            return str(name)
    return type(inner).__qualname__


def _qualified_name() -> str:
    """The module whose forward this thread is in, from the outermost on, such as "Net.layers.3.attention"; "" outside of all."""
    modules: list[Any] = []
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code in _CALLS:
            module = frame.f_locals.get("self")
            if module is not None:
                modules.append(module)
        frame = frame.f_back
    if not modules:
        return ""
    modules.reverse()
    parts = [type(modules[0]).__qualname__]
    parts += [_name_within(outer, inner) for outer, inner in zip(modules, modules[1:])]
    return ".".join(parts).encode("utf-8", "replace").decode()


def _operation(module: str, what: str) -> str | int:
    """The name of an acquire for a module; one that is longer than the library takes has the end of it. Outside of all modules
    there is none: the place of the call, which is in this file, tells nothing of the program."""
    if not module:
        return 0
    name = f"{module} {what}".encode("utf-8", "replace")[-_LONGEST_NAME:]
    return name.decode("utf-8", "ignore")


def _span(tensor: Any) -> int:
    """Elements from its first to its last, whatever lies between."""
    span: int = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return span


def _narrow(tensor: Any) -> tuple[int, ...]:
    """Its sizes with what was expanded (a stride of 0) as one element: the others are the same bytes."""
    return tuple(1 if stride == 0 else size for size, stride in zip(tensor.shape, tensor.stride()))


def _plain(tensor: Any) -> bool:
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout == torch.strided
        and tensor.device.type in ("cpu", "cuda")
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
        and not tensor._is_zerotensor()  # it has no memory
        and tensor.numel() > 0
    )


def _is_parameter(tensor: Any) -> bool:
    """A leaf that requires gradients, or a view of one: the optimizer's, and there anyway."""
    base = tensor._base if tensor._is_view() else tensor
    return bool(base is not None and base.is_leaf and base.requires_grad)


class offload:
    """Within the block, tensors that autograd saves for the backward pass live in the pool:

        with weir.torch.offload(pool):
            loss = model(batch).sum()
        loss.backward()

    min_bytes: smaller tensors stay where they are; a size, such as "1M".
    prefetch: how many of the next tensors the backward pass has brought ahead.
    device: of the pool, for tensors on the CPU, which must be able to reach it (the host backend's).

    On their way they pass the pool's device memory, and are demoted from there as its budget demands. The backward pass
    copies them out again. CUDA tensors are copied on PyTorch's current stream.

    The copies are named, for the pool's policy to learn from, by the module that was being called when a tensor was saved:
    "Net.layers.3.attention saves", and "... restores" in the backward pass. Outside of modules they have no name. Their buffers
    have the module's name, so that errors, reports and snapshots tell whose activations take the memory."""

    def __init__(
        self,
        pool: Pool,
        *,
        min_bytes: Size = 1 << 20,
        prefetch: int = 2,
        device: int = DEFAULT,
    ) -> None:
        self.pool = pool
        self.stats = OffloadStats()
        self._min_bytes = size_in_bytes(min_bytes, "min_bytes")
        self._prefetch = prefetch
        self._device = device
        self._lock = threading.RLock()  # the engine runs backward passes on threads of its own
        self._known: weakref.WeakValueDictionary[Any, _Saved] = weakref.WeakValueDictionary()
        self._order: weakref.WeakValueDictionary[int, _Saved] = weakref.WeakValueDictionary()
        self._next = 0
        self._hooks: list[Any] = []

    def __enter__(self) -> offload:
        hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        hooks.__enter__()
        self._hooks.append(hooks)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._hooks.pop().__exit__(kind, value, trace)

    # ---- saving ----

    def _pack(self, tensor: Any) -> Any:
        if not _plain(tensor) or _is_parameter(tensor):
            return self._keep(tensor)
        dense = _count(_narrow(tensor)) * tensor.element_size()
        bytes_needed = min(dense, _span(tensor) * tensor.element_size())
        if bytes_needed < self._min_bytes:
            return self._keep(tensor)
        with self._lock, torch.no_grad():
            return self._save(tensor.detach(), tensor._version)

    def _keep(self, tensor: Any) -> _Kept:
        with self._lock:
            self.stats.kept += 1
        return _Kept(tensor)

    def _save(self, tensor: Any, version: int) -> _Saved:
        storage = _StorageReference(tensor)
        key = (storage.number, tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, version)
        saved = self._known.get(key)
        if saved is not None:
            self.stats.shared += 1
            return saved
        saved = _Saved(tensor, self._next, _qualified_name())
        self._next += 1
        if tensor.is_cuda:  # it may come of another stream, and its memory must last until the copy of this one is done
            tensor.record_stream(torch.cuda.current_stream(tensor.device))
        if _keeps_gaps(saved):
            flat = tensor.as_strided((saved.elements,), (1,))
        else:
            flat = tensor.as_strided(saved.narrow, saved.strides).reshape(-1)
        size = flat.numel() * flat.element_size()
        saved.buffer = self.pool.buffer(size, home=self._home(tensor.device), name=saved.module)
        stream, operation = self._stream_of(tensor.device), _operation(saved.module, "saves")
        with self.pool.acquire(stream, overwrite(saved.buffer), timeout=60.0, operation=operation) as lease:
            target = as_tensor(lease[0], _dtype_name(flat.dtype))
            target.copy_(flat.view(target.dtype))
            del target
        saved.storage = storage  # so that the key stays these bytes' own
        self._known[key] = saved
        self._order[saved.number] = saved
        self.stats.saved += 1
        self.stats.saved_bytes += size
        return saved

    # ---- restoring ----

    def _unpack(self, packed: _Kept | _Saved) -> Any:
        return packed.restore(self)

    def _restore(self, saved: _Saved) -> Any:
        with torch.no_grad():
            gaps = _keeps_gaps(saved)
            count = saved.elements if gaps else _count(saved.narrow)
            flat = torch.empty(count, dtype=saved.dtype, device=saved.device)
            with self._lock:
                stream = self._stream_of(saved.device)
                operation = _operation(saved.module, "restores")
                with self.pool.acquire(stream, read(saved.buffer), timeout=60.0, operation=operation) as lease:
                    source = as_tensor(lease[0], _dtype_name(flat.dtype))
                    flat.view(source.dtype).copy_(source)
                    del source
                self._prefetch_before(saved.number, stream)
                self.stats.restored += 1
                self.stats.restored_bytes += saved.buffer.size
            if gaps:
                return flat.as_strided(saved.shape, saved.strides)
            tensor = torch.empty_strided(saved.narrow, saved.strides, dtype=saved.dtype, device=saved.device)
            tensor.copy_(flat.view(saved.narrow))
            return tensor.as_strided(saved.shape, saved.strides)

    def _prefetch_before(self, number: int, stream: Stream) -> None:
        """A backward pass goes through the saved tensors from the last to the first."""
        found = 0
        for index in range(number - 1, max(-1, number - _LOOK_BACK), -1):
            if found == self._prefetch:
                return
            saved = self._order.get(index)
            if saved is None:
                continue
            found += 1
            try:
                self.pool.prefetch(stream, read(saved.buffer))
            except WeirError:  # a hint
                return

    # ---- places ----

    def _home(self, device: Any) -> int:
        return self._device if device.type == "cpu" else self._cuda_device(device)

    def _cuda_device(self, device: Any) -> int:
        names = ("cuda", "hip")
        for backend in self.pool.context.backends:
            if backend.name in names and backend.available:
                return backend.first_device + int(device.index or 0)
        raise NotSupported("a CUDA tensor, and the pool's context has no CUDA or HIP devices")

    def _stream_of(self, device: Any) -> Stream:
        """The context's own stream for CPU tensors; PyTorch's current one, wrapped, for CUDA tensors."""
        if device.type == "cpu":
            return self.pool.context._kept_stream(self._device)
        native = int(torch.cuda.current_stream(device).cuda_stream)
        return self.pool.context._kept_stream(self._cuda_device(device), native)


class _StorageReference:
    """A storage's number, which no other storage gets for as long as this lives; the storage's memory is not kept by it."""

    def __init__(self, tensor: Any) -> None:
        from torch.multiprocessing.reductions import StorageWeakRef

        storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
        if hasattr(storage, "_storage"):  # PyTorch 1: a typed storage
            storage = storage._storage
        self.number = int(storage._cdata)
        self._reference = StorageWeakRef(storage)


def _count(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _keeps_gaps(saved: _Saved) -> bool:
    """Whether the memory from the first to the last element is what is saved, with what may lie between. It is one run to copy, and
    gives the same strides back; not where most of it is other data."""
    return saved.elements <= 2 * _count(saved.narrow)


_BY_SIZE = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}


def _dtype_name(dtype: Any) -> str:
    """Elements are moved as integers of their size, complex128 as pairs: all that counts is bytes."""
    return _BY_SIZE.get(torch.empty(0, dtype=dtype).element_size(), "int64")


__all__ = ["HOST", "OffloadStats", "as_tensor", "configure_allocator", "lib", "offload", "use_allocator"]
