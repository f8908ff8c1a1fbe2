# SPDX-License-Identifier: Apache-2.0
"""Sizes as a person writes them: read from what a caller gives, and written for one to read.

This is the only place that reads a size. K, M, G and T are powers of 1024, always. A share such as "80%" needs a whole, which only
the caller knows: `size_in_bytes` is given a function that tells it, or nothing, and then a share is an error."""

from __future__ import annotations

import operator
import os
import pathlib
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple, Union

from .enums import NONE, UNLIMITED

#: What every function that takes a size accepts: whole bytes, or a text such as "16G".
Size = Union[int, str]

_MOST = 2**64 - 1
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_TEXT = re.compile(r"\s*(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>%|[KMGT]?(?:iB|B)?)\s*", re.IGNORECASE)
_FORMS = 'whole bytes (4194304) or a text such as "4096", "512K", "64MiB", "1.5G" or "2T", where K, M, G and T are powers of 1024'


class Whole(NamedTuple):
    """What a share is of: words for the error, and a function that gives its bytes (0: not known)."""

    words: str
    bytes: Callable[[], int]


def size_in_bytes(value: Any, name: str, whole: Whole | None = None) -> int:
    """The bytes that `value` means. `name` is the argument's, for the error."""
    if type(value) is int and 0 <= value <= _MOST:  # nearly always
        return value
    if isinstance(value, str):
        return _read(value, name, whole)
    if isinstance(value, float):
        raise TypeError(f"{name}={value!r} is a float; a size is {_FORMS}{_of_float(value, whole)}")
    if isinstance(value, bool):
        raise TypeError(f"{name}={value!r} is a bool; a size is {_FORMS}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is of type {type(value).__name__}; a size is {_FORMS}") from None
    return _in_range(number, value, name)


def _of_float(value: float, whole: Whole | None) -> str:
    if whole is not None and 0 < value <= 1:
        return f"; did you mean {_percent(value)!r} of {whole.words}?"
    if value.is_integer() and value >= 0:
        return f"; did you mean {int(value)}?"
    return ""


def _percent(share: float) -> str:
    return f"{share * 100:.10g}%"


def _in_range(number: int, value: Any, name: str) -> int:
    if number < 0:
        raise ValueError(f"{name}={value!r} is negative; a size is {_FORMS}")
    if number > _MOST:
        raise ValueError(f"{name}={value!r} is more than 2**64 - 1 bytes")
    return number


def _read(text: str, name: str, whole: Whole | None) -> int:
    found = _TEXT.fullmatch(text)
    share = "" if whole is None else f', or a share such as "80%" of {whole.words}'
    if found is None:
        what = "is negative" if text.lstrip().startswith("-") else "is no size"
        raise ValueError(f"{name}={text!r} {what}; a size is {_FORMS}{share}")
    number, unit = Fraction(found["number"]), found["unit"]
    if unit == "%":
        return _share(number, text, name, whole)
    if unit.lower() == "ib":
        raise ValueError(f"{name}={text!r} is no size; a size is {_FORMS}{share}")
    if len(unit) == 2:  # KB, MB: powers of 1000 to some, of 1024 to others
        clear = f"{found['number']}{unit[0].upper()}"
        raise ValueError(f'{name}={text!r} could be powers of 1000 or of 1024; write "{clear}" or "{clear}iB" (1024)')
    scale = _UNITS[unit[:1].upper().replace("B", "")]
    if scale == 0 and number.denominator != 1:
        raise ValueError(f"{name}={text!r} is no whole number of bytes; a size is {_FORMS}{share}")
    return _in_range(int(number * 2**scale), text, name)


def _share(percent: Fraction, text: str, name: str, whole: Whole | None) -> int:
    if whole is None:
        raise ValueError(f"{name}={text!r}: there is nothing that this could be a share of, as no device or host budget is meant; "
                         f"a size here is {_FORMS}")  # fmt: skip
    if not 0 < percent <= 100:
        raise ValueError(f'{name}={text!r} is not above "0%" and up to "100%" of {whole.words}')
    total = whole.bytes()
    if total <= 0:
        raise ValueError(f"{name}={text!r}: it is not known how large {whole.words} is; a size is {_FORMS}")
    return int(total * percent / 100)


# ---- the machine ----


def machine_memory(root: str = "/") -> int:
    """Bytes of memory that this process may have at most: the machine's, or less where a cgroup above it says so."""
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    folder = pathlib.Path(root)
    try:
        lines = (folder / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return most
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base, names = folder / "sys/fs/cgroup", ["memory.max", "memory.high"]
        elif "memory" in controllers.split(","):
            base, names = folder / "sys/fs/cgroup/memory", ["memory.limit_in_bytes"]
        else:
            continue
        group = base / path.lstrip("/")
        while True:  # from the process's own group to the root of what it can see
            most = min([most, *(_limit(group / name) for name in names)])
            if group == base or base not in group.parents:
                break
            group = group.parent
    return most


def _limit(file: pathlib.Path) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return _MOST


#: What a share of a host budget is of.
MACHINE = Whole("the machine's memory", machine_memory)


# ---- for people ----


def bytes_text(count: int) -> str:
    """A size for people: "1.50 GiB". The same digits as the command `weir` writes."""
    if count in (NONE, UNLIMITED):
        return "unlimited" if count == UNLIMITED else "none"
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"):
        if value < 1024:
            break
        if unit != "EiB":
            value /= 1024
    decimals = 0 if unit == "B" or value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{decimals}f} {unit}"
