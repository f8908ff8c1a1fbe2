# SPDX-License-Identifier: Apache-2.0
"""Leased memory as memoryviews, NumPy arrays, DLPack tensors and CUDA arrays: what they show, and how long."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weir
from tests_support import PAGE
from weir._views import Pin, ViewBase
from weir.views import make_view


@pytest.fixture
def buffer(pool: weir.Pool) -> weir.Buffer:
    return pool.buffer_from(np.arange(1024, dtype=np.float32))


@pytest.fixture
def lease(pool: weir.Pool, stream: weir.Stream, buffer: weir.Buffer) -> Iterator[weir.Lease]:
    with pool.acquire(stream, weir.read(buffer)) as lease:
        yield lease


@pytest.fixture
def writing(pool: weir.Pool, stream: weir.Stream) -> Iterator[weir.Lease]:
    with pool.acquire(stream, weir.overwrite(pool.buffer(4096))) as lease:
        yield lease


def test_arrays_of_any_type_and_shape(lease: weir.Lease) -> None:
    array = lease[0].numpy(np.float32, (32, 32))
    assert array.shape == (32, 32)
    assert array[31, 31] == 1023
    assert lease[0].numpy().dtype == np.uint8
    assert lease[0].numpy([("x", "f4"), ("y", "f4")])["y"][0] == 1
    first, rest = lease.numpy("f4")[0][:2].tolist()
    assert (first, rest) == (0.0, 1.0)
    typed = lease[0].view("float32", (4, 256))
    assert (typed.dtype, typed.shape, len(typed), typed.readonly, typed.device) == ("float32", (4, 256), 4, True, 0)
    assert np.asarray(typed).shape == (4, 256)
    memory = memoryview(typed)
    assert (memory.format, memory.itemsize, memory.shape, memory.readonly) == ("f", 4, (4, 256), True)
    memory.release()


def test_read_leases_are_read_only(lease: weir.Lease) -> None:
    with pytest.raises(ValueError, match="read-only"):
        lease[0].numpy(np.float32)[0] = 1
    with pytest.raises(TypeError), memoryview(lease[0]) as memory:
        memory[0] = 1
    with pytest.raises(TypeError):
        (ctypes.c_char * 4096).from_buffer(lease[0])


@pytest.mark.parametrize("wrong", ["float33", 7, np.dtype("S4"), object])
def test_types_that_there_are_not(lease: weir.Lease, wrong: Any) -> None:
    with pytest.raises(ValueError, match="float32"):
        lease[0].view(wrong)


def test_shapes_that_do_not_fit(lease: weir.Lease) -> None:
    with pytest.raises(ValueError, match="4096"):
        lease[0].view("float32", (1025,))
    for shape in ((-1,), (2**62, 2**62), (1,) * 33, ("x",)):
        with pytest.raises((ValueError, TypeError)):
            lease[0].view("float32", shape)  # type: ignore[arg-type]
    assert lease[0].view("bool").shape == (4096,)
    assert lease[0].view("complex128", (16, 16)).shape == (16, 16)
    with pytest.raises(ValueError, match="whole number"):
        make_view(lease, lease.address(), 3, "uint8", (3,), True).view("int16")


def test_arrays_keep_the_lease(writing: weir.Lease) -> None:
    array = writing[0].numpy(np.int32)
    part = array[10:20]
    del array
    with pytest.raises(BufferError, match="1 arrays or memory views"):
        writing.release()
    assert not writing.released
    part[:] = 7  # still good
    assert memoryview(writing[0])[40] == 7
    gc.collect()
    del part
    view = writing[0]
    writing.release()
    for use in (view.numpy, lambda: memoryview(view), lambda: view.address, lambda: np.asarray(view), view.__dlpack__):
        with pytest.raises((ValueError, weir.Closed), match="released"):
            use()


def test_a_dropped_lease_lives_as_long_as_its_arrays(pool: weir.Pool, stream: weir.Stream, buffer: weir.Buffer) -> None:
    array = pool.acquire(stream, weir.read(buffer))[0].numpy(np.float32)
    gc.collect()
    assert buffer.query().leases == 1
    assert array[5] == 5
    with pytest.warns(ResourceWarning, match="lease dropped"):
        del array
    assert buffer.query().leases == 0


def test_numpy_takes_dlpack(writing: weir.Lease) -> None:
    typed = writing[0].view("float32", (2, 512))
    assert typed.__dlpack_device__() == (1, 0)
    if not hasattr(np, "from_dlpack"):
        pytest.skip("this NumPy has no from_dlpack")
    array = np.from_dlpack(typed)
    assert array.shape == (2, 512)
    address = typed.address
    assert array.ctypes.data == address
    del typed
    with pytest.raises(BufferError):
        writing.release()
    del array
    writing.release()


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)), ("flags", ctypes.c_uint64), ("tensor", _Tensor),
    ]  # fmt: skip


def _pointer(capsule: object, name: bytes) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(get(capsule, name))


def test_a_versioned_capsule(lease: weir.Lease) -> None:
    typed = lease[0].view("float32", (4, 256))
    capsule = typed.__dlpack__(max_version=(1, 1))
    made = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
    tensor = made.tensor
    assert (made.major, made.flags) == (1, 1)  # read-only
    assert (tensor.data, tensor.device_type, tensor.device_id) == (typed.address, 1, 0)
    assert (tensor.code, tensor.bits, tensor.lanes, tensor.byte_offset) == (2, 32, 1, 0)
    assert (tensor.ndim, tensor.shape[0:2], tensor.strides[0:2]) == (2, [4, 256], [256, 1])
    with pytest.raises(BufferError):
        lease.release()
    # A consumer takes it, renames it, and calls the deleter when it is done, perhaps on another thread.
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
    used = ctypes.create_string_buffer(b"used_dltensor_versioned")
    rename(capsule, ctypes.cast(used, ctypes.c_char_p))
    address = ctypes.addressof(made)
    deleter = made.deleter
    del capsule
    assert typed.lease._pin.users == 1
    deleter(address)
    assert typed.lease._pin.users == 0


def test_capsules_that_nobody_takes(lease: weir.Lease) -> None:
    before = sys.getrefcount(lease)
    capsule: object = lease[0].__dlpack__(max_version=(1, 0))
    assert lease._pin is not None
    assert lease._pin.users == 1
    del capsule
    assert lease._pin.users == 0
    assert sys.getrefcount(lease) == before


def test_what_dlpack_refuses(lease: weir.Lease, writing: weir.Lease) -> None:
    with pytest.raises(BufferError, match="read-only"):
        lease[0].__dlpack__()
    with pytest.raises(BufferError, match="copy"):
        writing[0].__dlpack__(copy=True)
    with pytest.raises(BufferError, match="device"):
        writing[0].__dlpack__(dl_device=(2, 0))
    writing[0].__dlpack__(dl_device=(1, 0), copy=False)


@pytest.mark.parametrize(
    ("name", "code", "bits"),
    [("bool", 6, 8), ("int16", 0, 16), ("uint64", 1, 64), ("bfloat16", 4, 16), ("complex64", 5, 64)],
)
def test_types_in_dlpack(writing: weir.Lease, name: str, code: int, bits: int) -> None:
    capsule = writing[0].view(name).__dlpack__(max_version=(1, 0))
    tensor = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned")).tensor
    assert (tensor.code, tensor.bits) == (code, bits)


def test_bfloat16_has_no_buffer(writing: weir.Lease) -> None:
    for use in (memoryview, np.asarray):
        with pytest.raises(BufferError, match="format"):
            use(writing[0].view("bfloat16"))
    assert np.asarray(writing[0].view("bfloat16").view("uint16")).size == 2048
    assert writing._pin is not None
    assert writing._pin.users == 0


@pytest.mark.parametrize(("backend", "number"), [("host", 1), ("cuda", 2), ("hip", 10), ("level_zero", 14)])
def test_devices_by_backend(pool: weir.Pool, writing: weir.Lease, backend: str, number: int) -> None:
    pool._backends[0] = (backend, 3)  # as if the stream were on such a device
    typed = writing[0].view("float16", (2, 1024))
    assert typed.__dlpack_device__() == (number, 0 if backend == "host" else 3)  # DLPack has one CPU
    interface = getattr(typed, "__cuda_array_interface__", None)
    if backend != "cuda":
        assert interface is None
        return
    assert interface is not None
    assert interface["stream"] == writing.stream.native
    del interface["stream"]
    assert interface == {
        "shape": (2, 1024), "typestr": "<f2", "data": (typed.address, False), "version": 3, "strides": None
    }  # fmt: skip
    with pytest.raises(BufferError):  # its user keeps the view
        writing.release()
    del typed
    writing.release()


def test_column_major_memory_is_refused(writing: weir.Lease) -> None:
    """Flags of the C API: 0x18 asks for strides, 0x58 for those of Fortran."""
    get, release = ctypes.pythonapi.PyObject_GetBuffer, ctypes.pythonapi.PyBuffer_Release
    get.argtypes, release.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int], [ctypes.c_void_p]
    there = ctypes.create_string_buffer(256)  # more than a Py_buffer
    with pytest.raises(BufferError, match="column-major"):
        get(writing[0].view("float32", (32, 32)), there, 0x58)
    for shape, flags in (((32, 32), 0x18), ((1024,), 0x58), ((1, 1024, 1), 0x58)):
        assert get(writing[0].view("float32", shape), there, flags) == 0
        release(there)


def test_unknown_backends_have_no_number(pool: weir.Pool, writing: weir.Lease) -> None:
    pool._backends[0] = ("abacus", 0)
    with pytest.raises(BufferError, match="abacus"):
        writing[0].__dlpack_device__()


def test_memory_out_of_the_cpus_reach(pool: weir.Pool, writing: weir.Lease) -> None:
    pool._reach[0] = False
    with pytest.raises(BufferError, match="DLPack"):
        memoryview(writing[0])


def test_the_native_types_refuse_nonsense() -> None:
    pin = Pin()
    for arguments in ((pin,), (None, pin, 1, 1, 1, "B", 0, 1, (1,)), (pin, pin, 1, 1, 0, "B", False, True, (1,))):
        with pytest.raises((TypeError, ValueError)):
            ViewBase(*arguments)
    pin.close()
    with pytest.raises(ValueError, match="released"):
        pin.add()


def test_bytes_are_waited_for(pool: weir.Pool, stream: weir.Stream) -> None:
    buffers = [pool.buffer(2 * PAGE) for _ in range(4)]
    for i, each in enumerate(buffers):
        with pool.acquire(stream, weir.overwrite(each)) as lease:
            lease[0].numpy()[:] = i
    for i, each in enumerate(buffers):
        with pool.acquire(stream, weir.read(each)) as lease:
            assert int(lease[0].numpy()[-1]) == i
