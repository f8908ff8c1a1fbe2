# SPDX-License-Identifier: Apache-2.0
"""Typed ranges of leased memory: for NumPy, memoryview, DLPack and __cuda_array_interface__.

What is made of a view keeps its lease alive, and the lease can't be released while it lives (native/views.c counts). A user
of __cuda_array_interface__ keeps the view itself, so a view that gave it out counts for as long as it lives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import enums
from ._arguments import NoItems
from ._views import Pin, ViewBase

if TYPE_CHECKING:
    from .lease import Lease

_DLPACK_VERSION = (1, 0)
#: Backend -> kDLCPU, kDLCUDA, kDLROCM, kDLOneAPI of the DLPack specification.
DLPACK_DEVICES = {"host": 1, "cuda": 2, "hip": 10, "level_zero": 14}


class _Type(NamedTuple):
    format: str  # of the struct module, "" if it has none
    size: int
    code: int  # of DLPack: 0 int, 1 unsigned, 2 float, 4 bfloat, 5 complex, 6 bool
    typestr: str  # of the array interface, "" if it has none


_TYPES = {
    "bool": _Type("?", 1, 6, "|b1"),
    "int8": _Type("b", 1, 0, "|i1"),
    "int16": _Type("h", 2, 0, "<i2"),
    "int32": _Type("i", 4, 0, "<i4"),
    "int64": _Type("q", 8, 0, "<i8"),
    "uint8": _Type("B", 1, 1, "|u1"),
    "uint16": _Type("H", 2, 1, "<u2"),
    "uint32": _Type("I", 4, 1, "<u4"),
    "uint64": _Type("Q", 8, 1, "<u8"),
    "float16": _Type("e", 2, 2, "<f2"),
    "float32": _Type("f", 4, 2, "<f4"),
    "float64": _Type("d", 8, 2, "<f8"),
    "bfloat16": _Type("", 2, 4, ""),
    "complex64": _Type("Zf", 8, 5, "<c8"),
    "complex128": _Type("Zd", 16, 5, "<c16"),
}


def type_name(dtype: Any) -> str:
    """The name of an element type: "float32", numpy.float32, numpy.dtype("f4") and torch.float32 are the same."""
    for name in (dtype, getattr(dtype, "name", None), getattr(dtype, "__name__", None), str(dtype).rpartition(".")[2]):
        if isinstance(name, str) and name in _TYPES:
            return name
    raise ValueError(f"elements of type {dtype!r}; there are {', '.join(_TYPES)}")


class View(NoItems, ViewBase):
    """A range of leased memory with a type and a shape. `lease[i]` is the whole range of use i, as bytes. It is no array itself:
    `numpy`, `memoryview`, DLPack and `weir.torch.as_tensor` make one over it."""

    _array = "view.numpy(dtype)"

    __slots__ = ("__weakref__", "_counted", "_dtype")
    _dtype: str
    _counted: Pin | None

    @property
    def dtype(self) -> str:
        """The name of its elements' type."""
        return self._dtype

    @property
    def device(self) -> int:
        """The device of the stream, or weir.HOST."""
        return int(self.lease.stream.device)

    def view(self, dtype: Any = "uint8", shape: Sequence[int] | None = None) -> View:
        """The same bytes as elements of another type, row-major; None is one dimension."""
        name = type_name(dtype)
        size = _TYPES[name].size
        if shape is None:
            if self.nbytes % size:
                raise ValueError(f"{self.nbytes} bytes are no whole number of {name} ({size} bytes)")
            shape = (self.nbytes // size,)
        lease: Lease = self.lease
        return make_view(lease, self.address, self.nbytes, name, shape, self.readonly)

    def numpy(self, dtype: Any = None, shape: Sequence[int] | None = None) -> Any:
        """A NumPy array over these bytes; read-only for a READ lease. It waits for the bytes. `dtype` may be any of NumPy's;
        None is the view's own. The array keeps the lease from being released: delete it first, or copy."""
        import numpy

        array = numpy.asarray(memoryview(self)) if dtype is None else numpy.frombuffer(self, dtype)
        return array if shape is None else array.reshape(tuple(shape))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        # NumPy asks for the buffer first, and comes here when that was refused: to hear why, not to make an array of one object.
        import numpy

        array = numpy.asarray(memoryview(self), dtype)
        return array.copy() if copy else array

    def tobytes(self) -> bytes:
        """A copy of the bytes."""
        with memoryview(self) as memory:
            return memory.tobytes()

    # ---- DLPack ----

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.lease._dlpack_device()  # type: ignore[no-any-return]

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A capsule: versioned (1.0) if the consumer takes that, else of version 0.8, which can't say that memory is read-only:
        BufferError then for a READ lease (`weir.torch.as_tensor` makes tensors of those)."""
        versioned = max_version is not None and tuple(max_version) >= _DLPACK_VERSION
        if self.readonly and not versioned:
            raise BufferError("a READ lease is read-only, which DLPack before 1.0 can't say")
        if copy:
            raise BufferError("a copy was asked for; a view gives its own memory only")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"asked for device {tuple(dl_device)}, the memory is on {self.__dlpack_device__()}")
        return self._dlpack(versioned, stream)

    def _dlpack(self, versioned: bool, stream: Any) -> object:
        kind, number = self.__dlpack_device__()
        lease: Lease = self.lease
        # On the lease's own stream, and for consumers that synchronise themselves (-1), order is there already.
        if kind == DLPACK_DEVICES["host"] or (stream != -1 and not lease._is_stream(stream)):
            lease._ready()
        return self._capsule(versioned, kind, number, _TYPES[self._dtype].code)

    # ---- CUDA array interface ----

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3, on CUDA devices only. The stream is the lease's."""
        lease: Lease = self.lease
        if self.__dlpack_device__()[0] != DLPACK_DEVICES["cuda"]:
            raise AttributeError("__cuda_array_interface__: this memory is not on a CUDA device")
        typestr = _TYPES[self._dtype].typestr
        if not typestr:
            raise AttributeError(f"__cuda_array_interface__: it has no name for {self._dtype}")
        self._count()
        return {
            "shape": self.shape,
            "typestr": typestr,
            "data": (self.address, self.readonly),
            "version": 3,
            "strides": None,
            "stream": lease.stream.native or 1,  # 1 is the legacy default stream; 0 is not allowed
        }

    def _count(self) -> None:
        """Counts this view itself on the lease, until it is gone."""
        if self._counted is None:
            pin: Pin = self.lease._pinned()
            pin.add()
            self._counted = pin

    def __del__(self) -> None:
        counted: Pin | None = getattr(self, "_counted", None)
        if counted is not None:
            counted.drop()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a view without dimensions has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<weir.View {self._dtype} {list(self.shape)}{' read-only' if self.readonly else ''}>"


def make_view(lease: Lease, address: int, nbytes: int, dtype: str, shape: Sequence[int], readonly: bool) -> View:
    """A view of memory that the lease has."""
    kind = _TYPES[dtype]
    view: View = View.__new__(
        View, lease._pinned(), lease, address, nbytes, kind.size, kind.format, readonly, lease._cpu(), tuple(shape)
    )
    view._dtype = dtype
    view._counted = None
    return view


__all__ = ["View", "enums", "make_view", "type_name"]
