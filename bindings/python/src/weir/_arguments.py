# SPDX-License-Identifier: Apache-2.0
"""What is said of arguments that can't be meant, in Python's words and with what was probably meant.

These functions look at arguments before the library gets a handle: a handle of another kind of object must never reach it, since
it would be read as what it is not. What costs a lease time is only `isinstance`; all words are made when something is wrong."""

from __future__ import annotations

import difflib
import functools
import inspect
import operator
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, Union

T = TypeVar("T")
#: One folder or file, or several.
Paths = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]


def shown(value: Any) -> str:
    """The value, if that is short; else what it is."""
    if value is None or isinstance(value, (bool, int, float, str)):
        text = repr(value)
        return text if len(text) <= 60 else f"a {type(value).__name__}"
    if type(value).__module__.partition(".")[0] == "weir":
        return f"a weir.{type(value).__name__}"
    return f"a {type(value).__module__}.{type(value).__name__}".replace(" builtins.", " ")


def instance(value: Any, kind: type[T], name: str, hint: str = "") -> T:
    """`value`, which must be a `kind`; `hint` says how one comes by it."""
    if isinstance(value, kind):
        return value
    raise TypeError(f"{name} must be a weir.{kind.__name__}, not {shown(value)}{hint}")


def _found_by(value: Any) -> str:
    return f"context.device({value!r}) finds one" if isinstance(value, str) else "Context.devices lists what there is"


def device_number(value: Any, name: str = "device") -> int:
    """The number of a device, or one of weir.HOST, DEFAULT, ANY and ALL."""
    if type(value) is int and 0 <= value < 2**32:
        return value
    if isinstance(value, (bool, float, str, bytes)) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be a device's number, not {shown(value)}; {_found_by(value)}")
    number = operator.index(value)
    if not 0 <= number < 2**32:
        raise ValueError(f"{name}={number} is no device; devices are numbered from 0, and Context.devices lists what there is")
    return number


def paths(value: Paths | None) -> list[str | os.PathLike[str]]:
    """A list of paths; one alone may be given as it is."""
    if value is None:
        return []
    return [value] if isinstance(value, (str, bytes, os.PathLike)) else list(value)


def name_of_buffer(value: Any) -> bytes:
    """For C, which would cut it at a zero byte."""
    if not isinstance(value, str):
        raise TypeError(f"the name of a buffer is a str, not {shown(value)}")
    if "\0" in value:
        raise ValueError("the name of a buffer has no zero bytes")
    return value.encode("utf-8", "surrogateescape")


@functools.cache
def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


def known_options(name: str, function: Callable[..., Any], options: Iterable[str], positional: int) -> None:
    """Refuses keywords that `function` does not take; its first `positional` parameters are no keywords here."""
    for option in options:
        known = _parameters(function)[positional:]
        if option not in known:
            near = difflib.get_close_matches(option, known, 1)
            meant = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise TypeError(f"{name}() got an unexpected keyword argument {option!r}; {meant}")


def bytes_like(value: Any, name: str) -> None:
    """Refuses what has no bytes, and says how to get some."""
    if isinstance(value, str):
        raise TypeError(f"{name} is a str, which has no bytes of its own; did you mean {name}.encode()?")
    try:
        memoryview(value).release()
    except (TypeError, BufferError, ValueError) as error:
        if isinstance(value, int):
            hint = "; a size makes a buffer with Pool.buffer(size)"
        elif isinstance(value, (list, tuple)):
            hint = "; numpy.asarray or bytes() makes an array of it"
        elif hasattr(value, "detach") and hasattr(value, "numpy"):
            hint = "; a tensor has bytes as tensor.detach().cpu().contiguous().numpy()"
        else:
            hint = ""
        raise TypeError(f"{name} must have bytes, as bytes and NumPy arrays do; {shown(value)} does not ({error}){hint}") from None


# ---- sets of uses ----

_EXAMPLE = "weir.read(buffer), weir.write(buffer) or weir.overwrite(buffer)"


def not_a_buffer(function: str, value: Any) -> TypeError:
    """For weir.read and its like."""
    from .buffer import Hold
    from .lease import Lease, Use
    from .stream import Stream
    from .views import View

    if isinstance(value, Use):
        hint = "it is a use already: give it to Pool.acquire as it is"
    elif isinstance(value, (View, Lease)):
        hint = "a lease is of a buffer: give the buffer that it was made of, `lease.uses[0].buffer`"
    elif isinstance(value, Hold):
        hint = f"did you mean weir.{function}(hold.buffer)?"
    elif isinstance(value, Stream):
        hint = f"the stream goes to Pool.acquire(stream, weir.{function}(buffer))"
    elif isinstance(value, (list, tuple)):
        hint = f"one use is of one buffer: pool.acquire(stream, *[weir.{function}(each) for each in buffers])"
    elif _has_bytes(value):
        hint = "Pool.buffer_from(data) makes a buffer of its bytes"
    elif isinstance(value, str):
        hint = "a buffer is not found by its name: keep the object that Pool.buffer returned"
    else:
        hint = "Pool.buffer(size) makes one"
    return TypeError(f"weir.{function} takes a weir.Buffer, not {shown(value)}; {hint}")


def _has_bytes(value: Any) -> bool:
    try:
        memoryview(value).release()
    except (TypeError, BufferError, ValueError):
        return False
    return True


def not_a_set(function: str, stream: Any, uses: Sequence[Any]) -> TypeError:
    """For `function(stream, *uses)` with something else in place of the stream or of a use."""
    from .lease import Use
    from .stream import Stream

    call = f"Pool.{function}"
    right = f"{call}(stream, weir.read(buffer))"
    if not isinstance(stream, Stream):
        if any(isinstance(each, Stream) for each in uses):
            return TypeError(f"{call}: the stream comes first, then the uses: {right}")
        return TypeError(f"{call}: the first argument must be a weir.Stream, not {shown(stream)}{_stream_hint(stream, right)}")
    for index, each in enumerate(uses):
        if not isinstance(each, Use):
            return TypeError(f"{call}: {_use_hint(each, index, function)}")
    return TypeError(f"{call}: the arguments are a stream and uses: {right}")


def _stream_hint(stream: Any, right: str) -> str:
    from .buffer import Buffer
    from .context import Context
    from .lease import Use
    from .pool import Pool

    if isinstance(stream, (Use, Buffer)):
        return f"; did you mean {right}?"
    if isinstance(stream, (Context, Pool)) or stream is None:
        return "; `stream = context.stream(device)` makes one"
    if isinstance(stream, int):
        return f"; `stream = context.stream({stream})` makes one on a device"
    if hasattr(stream, "cuda_stream"):
        return "; `context.wrap_stream(stream.cuda_stream, device)` makes one of PyTorch's"
    return ""


def _use_hint(value: Any, index: int, function: str) -> str:
    from .buffer import Buffer
    from .lease import Use
    from .stream import Stream

    where = f"argument {index + 1} after the stream"
    if isinstance(value, Buffer):
        return f"{where} is a buffer; did you mean weir.read(buffer)? How it is used is said by {_EXAMPLE}"
    if isinstance(value, Stream):
        return "there is one stream, and it comes first; then come uses"
    if isinstance(value, (list, tuple)) and value and all(isinstance(each, Use) for each in value):
        return f"the uses are given one by one, not as a {type(value).__name__}; did you mean Pool.{function}(stream, *uses)?"
    if callable(value) and getattr(value, "__module__", "").partition(".")[0] == "weir" and hasattr(value, "__name__"):
        return f"{where} is the function weir.{value.__name__}; did you mean weir.{value.__name__}(buffer)?"
    return f"{where} must be a use, such as {_EXAMPLE}, not {shown(value)}"


def not_an_operation(operation: Any) -> TypeError:
    """What is no operation's name, nor the number of one."""
    return TypeError(f"an operation is its name, or the number that Pool.operation_id gave, not {shown(operation)}")


def not_operations(operations: Any) -> TypeError:
    """For Pool.announce."""
    from .lease import Operation, Use

    right = "weir.Operation([weir.read(buffer), ...])"
    if isinstance(operations, Operation):
        return TypeError(f"Pool.announce takes a list of operations; did you mean [{right}]?")
    if isinstance(operations, Use):
        return TypeError(f"Pool.announce takes a list of operations, each with its uses: [{right}]")
    if not isinstance(operations, Sequence) or isinstance(operations, str):
        return TypeError(f"Pool.announce takes a list of operations, such as [{right}], not {shown(operations)}")
    for index, each in enumerate(operations):
        if isinstance(each, Use) or not isinstance(each, Operation):
            return TypeError(f"Pool.announce: operations[{index}] must be a weir.Operation, such as {right}, not {shown(each)}")
        if isinstance(each.uses, Use):
            return TypeError(f"Pool.announce: the uses of operations[{index}] are one use, not a list; did you mean {right}?")
        for use in each.uses:
            if not isinstance(use, Use):
                return TypeError(f"Pool.announce: operations[{index}] has {shown(use)} among its uses; did you mean {right}?")
    return TypeError(f"Pool.announce takes a list of operations, such as [{right}]")


# ---- `with` of what is no lease ----


class NoBlock:
    """For objects of which a lease is had by a call: `with` of them says so. Type checkers see no block at all."""

    __slots__ = ()
    _meant = ""


def _no_block(self: NoBlock, *unused: object) -> None:
    raise TypeError(f"a {type(self).__name__} is no lease yet; did you mean `{self._meant}`?")


for _name in ("__enter__", "__exit__"):
    setattr(NoBlock, _name, _no_block)


# ---- items of what is no array ----


class NoItems:
    """For leases and views, of which an array is had by a call: `lease[0][:] = value` says so. Type checkers see no items."""

    __slots__ = ()
    _array = ""


def _no_items(self: NoItems, *unused: object) -> None:
    raise TypeError(f"a {type(self).__name__} is no array; did you mean `{self._array}[...] = value`?")


setattr(NoItems, "__setitem__", _no_items)  # noqa: B010
